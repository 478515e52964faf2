#include "kernels/gemm/gemm_bf16.h"

#include "kernels/call_util.h"

namespace evoq {

GemmTypes GemmTypesBf16(Isa isa) {
  const Bf16Table& bf16 = Bf16TableFor(isa);
  return {.kernels = RowFor(kGemmRowsBf16, isa), .narrow = bf16.narrow, .widen = bf16.widen};
}

GemmTypes GemmTypesBf16(const KernelCall& call, bool copied, Isa isa) {
  GemmTypes types = GemmTypesBf16(isa);
  types.y_bf16 = call.outputs[0].dtype == DType::kBfloat16;
  types.residual_bf16 = call.has_input(3) && call.inputs[3].dtype == DType::kBfloat16;
  types.copied = copied;
  return types;
}

std::optional<Reason> RejectTypesBf16(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Reject("shape", "{} inputs and {} outputs, expected x, w and y", call.inputs.size(),
                  call.outputs.size());
  for (size_t i : {0, 1}) {
    if (!PlainBf16(call.inputs[i]))
      return Reject("types", "input {} is {}, expected bfloat16", i, call.inputs[i].ToString());
  }
  if (call.has_input(2) && !PlainFloat(call.inputs[2]))
    return Reject("types", "the bias is {}, expected float32", call.inputs[2].ToString());
  if (call.has_input(3) && !PlainBf16(call.inputs[3]) && !PlainFloat(call.inputs[3]))
    return Reject("types", "the residual is {}, expected bfloat16 or float32",
                  call.inputs[3].ToString());
  if (!PlainBf16(call.outputs[0]) && !PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected bfloat16 or float32", call.outputs[0].ToString());
  return std::nullopt;
}

}  // namespace evoq
