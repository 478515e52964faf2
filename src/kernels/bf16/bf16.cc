#include "kernels/bf16/bf16.h"

#include "kernels/call_util.h"

namespace evoq {
namespace {

std::vector<TensorType> Widened(std::span<const TensorType> types) {
  std::vector<TensorType> wide(types.begin(), types.end());
  for (TensorType& type : wide) {
    if (type.dtype == DType::kBfloat16) type.dtype = DType::kFloat32;
  }
  return wide;
}

}  // namespace

WideCall::WideCall(const KernelCall& narrow)
    : inputs(Widened(narrow.inputs)),
      outputs(Widened(narrow.outputs)),
      call{narrow.op, narrow.attrs, inputs, outputs, narrow.constants} {}

std::optional<Reason> RejectUnlessBf16(const KernelCall& call, size_t count) {
  for (size_t i = 0; i < std::min(count, call.inputs.size()); ++i) {
    if (call.has_input(i) && !PlainBf16(call.inputs[i]))
      return Reject("types", "input {} is {}, expected bfloat16", i, call.inputs[i].ToString());
  }
  if (!PlainBf16(call.outputs[0]))
    return Reject("types", "output is {}, expected bfloat16", call.outputs[0].ToString());
  return std::nullopt;
}

}  // namespace evoq
