// ImageDecoder(bytes of a file): pixels [height, width, 3] (RGB or BGR) or [height, width, 1]
// (Grayscale, BT.601).
#include "data/dataset.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const Image image, DecodeImage(std::span(x.raw(), x.bytes())));
  const std::string format = args.node.attrs.String("pixel_format", "RGB");
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  Tensor y =
      Tensor::Allocate(TensorType(DType::kUint8, Shape{image.height, image.width, channels}));
  uint8_t* out = y.mutable_data<uint8_t>();
  for (int64_t i = 0; i < int64_t{image.height} * image.width; ++i) {
    const uint8_t* rgb = image.pixels.data() + i * 3;
    if (channels == 1) {  // 0.299, 0.587, 0.114 in 16-bit fixed point, rounded
      out[i] =
          static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
      continue;
    }
    for (int c = 0; c < 3; ++c) out[i * 3 + c] = rgb[format == "BGR" ? 2 - c : c];
  }
  return One(std::move(y));
}

}  // namespace

namespace reference {

extern const Definition kImageDecoder = {.name = "ImageDecoder", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
