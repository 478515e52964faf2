// Cast and CastLike.
#include "ops/cast.h"

#include "ops/op.h"
#include "ops/util.h"

namespace evoq {

Result<TinyRounding> TinyRoundingOf(const Node& node) {
  const std::string mode = node.attrs.String("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    return InvalidInput("attribute round_mode is '{}', expected up, down or nearest", mode);
  const Rounding rounding = mode == "up"     ? Rounding::kUp
                            : mode == "down" ? Rounding::kDown
                                             : Rounding::kNearest;
  return TinyRounding{node.attrs.Int("saturate", 1) != 0, rounding};
}

namespace {

InferResult InferCast(const InferArgs& args) {
  if (!args.node.attrs.Has("to")) return InvalidInput("attribute to is missing");
  EVOQ_ASSIGN(const int64_t to, IntAttr(args.node, "to", 0));
  const auto dtype = to > 0 && to < 1000 ? DTypeFromOnnx(static_cast<int>(to)) : std::nullopt;
  EVOQ_TRY(TinyRoundingOf(args.node));
  if (!dtype) return Unsupported("cast to ONNX element type {}", to);
  return std::vector<TensorType>{TensorType(*dtype, args.inputs[0].shape)};
}

InferResult InferCastLike(const InferArgs& args) {
  EVOQ_TRY(TinyRoundingOf(args.node));
  return std::vector<TensorType>{TensorType(args.inputs[1].dtype, args.inputs[0].shape)};
}

}  // namespace

extern const OpDef kCast = {.name = "Cast",
                            .elementwise = true,
                            .strings = Strings::kOwn,
                            .infer = InferCast,
                            .conversion = PrecisionChange::kCast};
extern const OpDef kCastLike = {.name = "CastLike",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .elementwise = true,
                                .strings = Strings::kOwn,
                                .infer = InferCastLike,
                                .conversion = PrecisionChange::kCast};

}  // namespace evoq
