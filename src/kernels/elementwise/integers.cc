// Rows of Add, Sub and Mul for int64 and int32 with broadcasting: places, lengths and sizes that a
// model computes at run time. They wrap around.
#include "kernels/elementwise/binary_call.h"
#include "kernels/elementwise/broadcast.h"
#include "kernels/in_place.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

std::optional<Reason> RejectIntegers(const KernelCall& call) {
  const DType dtype = call.outputs[0].dtype;
  const auto fits = [&](const TensorType& type) {
    return type.dtype == dtype && !type.quantized() &&
           (dtype == DType::kInt64 || dtype == DType::kInt32);
  };
  for (const TensorType& type : call.inputs) {
    if (!fits(type))
      return Reject("types", "an input is {}, the output {}, expected int64 or int32 throughout",
                    type.ToString(), call.outputs[0].ToString());
  }
  if (!fits(call.outputs[0]))
    return Reject("types", "output is {}, expected int64 or int32", call.outputs[0].ToString());
  return RejectBinaryShapes(call);
}

struct Sum {
  static uint64_t Of(uint64_t a, uint64_t b) { return a + b; }
};
struct Difference {
  static uint64_t Of(uint64_t a, uint64_t b) { return a - b; }
};
struct Product {
  static uint64_t Of(uint64_t a, uint64_t b) { return a * b; }
};

template <typename T, typename F>
struct IntegerState {
  BroadcastPlan plan;
  int64_t grain;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
    auto* y = static_cast<T*>(out[0]);
    context.pool.ParallelFor(plan.elements, grain, [&](int64_t begin, int64_t end) {
      plan.ForRows(begin, end, [&](int64_t at, const PerInput<2>& from, int64_t n) {
        const T *p = a + from[0], *q = b + from[1];
        for (int64_t i = 0; i < n; ++i) {
          y[at + i] = static_cast<T>(F::Of(static_cast<uint64_t>(p[i * plan.step[0]]),
                                           static_cast<uint64_t>(q[i * plan.step[1]])));
        }
      });
    });
  }
};

template <typename F>
Result<BoundKernel> BindIntegers(const KernelCall& call, const BindOptions& options) {
  const BroadcastPlan plan =
      *PlanBroadcast(call.inputs[0].shape, call.inputs[1].shape, call.outputs[0].shape);
  const int64_t grain = Grain(plan.elements, 0.5, options.threads);
  if (call.outputs[0].dtype == DType::kInt64)
    return BoundKernel::Of(IntegerState<int64_t, F>{plan, grain});
  return BoundKernel::Of(IntegerState<int32_t, F>{plan, grain});
}

}  // namespace

#define EVOQ_INTEGER_ROW(op_name, prefix, function) \
  extern const KernelDef k##op_name##Integer = {    \
      .name = prefix "_integer",                    \
      .op = #op_name,                               \
      .precision = Precision::kAny,                 \
      .peak = Peak::kMemory,                        \
      .reject = RejectIntegers,                     \
      .bind = BindIntegers<function>,               \
      .in_place = SameSizeInputs,                   \
  };
EVOQ_INTEGER_ROW(Add, "add", Sum)
EVOQ_INTEGER_ROW(Sub, "sub", Difference)
EVOQ_INTEGER_ROW(Mul, "mul", Product)
#undef EVOQ_INTEGER_ROW

}  // namespace evoq
