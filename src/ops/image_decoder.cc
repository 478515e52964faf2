// ImageDecoder(bytes of a file): pixels [height, width, 3] (RGB or BGR) or [height, width, 1]
// (Grayscale, BT.601).
#include "ops/indexing.h"
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  EVOQ_TRY(CheckDType(args, 0, std::array{DType::kUint8}));
  EVOQ_TRY(CheckRank(args, 0, 1));
  EVOQ_ASSIGN(const std::string format, StringAttr(args.node, "pixel_format", "RGB"));
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return InvalidInput("attribute pixel_format is '{}', expected RGB, BGR or Grayscale", format);
  return std::vector<TensorType>{TensorType(
      DType::kUint8, Shape(std::vector<Dim>{Dim(), Dim(), Dim(format == "Grayscale" ? 1 : 3)}))};
}

}  // namespace

extern const OpDef kImageDecoder = {.name = "ImageDecoder", .infer = Infer};

}  // namespace evoq
