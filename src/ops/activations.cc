// Smooth activations, by element, and Dropout, which is the identity at inference.
#include "ops/util.h"

namespace evoq {
namespace {

InferResult Infer(const InferArgs& args) {
  for (const char* name : {"alpha", "beta"}) EVOQ_TRY(FloatAttr(args.node, name, 0));
  return FloatSameAsInput0(args);
}

InferResult InferGelu(const InferArgs& args) {
  const std::string approximate = args.node.attrs.String("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return InvalidInput("attribute approximate is '{}', expected none or tanh", approximate);
  return FloatSameAsInput0(args);
}

InferResult InferDropout(const InferArgs& args) {
  if (args.has(2)) {
    if (args.inputs[2].dtype != DType::kBool)
      return InvalidInput("input 2 (training_mode) is {}, expected bool",
                          args.inputs[2].ToString());
    const Tensor* training = args.constant(2);
    if (training == nullptr || training->elements() != 1 || training->data<uint8_t>()[0] != 0)
      return Unsupported("input 2 (training_mode) is not the constant false");
  }
  return std::vector<TensorType>{args.inputs[0], TensorType(DType::kBool, args.inputs[0].shape)};
}

}  // namespace

extern const OpDef kDropout = {.name = "Dropout",
                               .max_inputs = 3,
                               .outputs = 2,
                               .quant = QuantTrait::kMove,
                               .view = true,
                               .elementwise = true,
                               .infer = InferDropout};
extern const OpDef kGelu = {
    .name = "Gelu", .quant = QuantTrait::kTable, .elementwise = true, .infer = InferGelu};
extern const OpDef kHardSigmoid = {
    .name = "HardSigmoid", .quant = QuantTrait::kTable, .elementwise = true, .infer = Infer};
extern const OpDef kHardSwish = {
    .name = "HardSwish", .quant = QuantTrait::kTable, .elementwise = true, .infer = Infer};
extern const OpDef kMish = {
    .name = "Mish", .quant = QuantTrait::kTable, .elementwise = true, .infer = Infer};
extern const OpDef kSilu = {.name = "Silu",
                            .domain = "evoq",
                            .quant = QuantTrait::kTable,
                            .elementwise = true,
                            .infer = Infer};

}  // namespace evoq
