#include "kernels/gemm/float_rows.h"

#include "kernels/activation.h"
#include "kernels/call_util.h"
#include "kernels/math/unary_loops.h"

namespace evoq {

std::optional<Reason> RejectFloatOperands(const KernelCall& call, const char* operands) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1) || call.has_input(4))
    return Reject("shape", "{} inputs and {} outputs, expected {}", call.inputs.size(),
                  call.outputs.size(), operands);
  for (size_t i : {0, 2, 3}) {
    if (call.has_input(i) && !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected float32", call.outputs[0].ToString());
  return std::nullopt;
}

void FloatRows::Activate(float* y, int64_t step, int64_t begin, int64_t end, int64_t count) const {
  if (!activation) return;
  const auto apply = UnaryTableFor(isa).apply;
  for (int64_t m = begin; m < end; ++m) apply(*activation, y + m * step, y + m * step, count);
}

Result<FloatRows> FloatRowsOf(const KernelCall& call, int64_t rows, Isa isa) {
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  return FloatRows{rows, call.has_input(2), call.has_input(3), UnaryFromActivation(activation),
                   isa};
}

}  // namespace evoq
