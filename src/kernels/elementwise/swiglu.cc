// SwiGLU(a, b) = a * sigmoid(alpha * a) * b in float32: the definition's operations, on runs that
// stay in the first cache.
#include "kernels/call_util.h"
#include "kernels/elementwise/binary.h"
#include "kernels/in_place.h"
#include "kernels/math/unary_loops.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kRun = 512;  // elements

std::optional<Reason> RejectGate(const KernelCall& call) {
  for (size_t i : {0, 1}) {
    if (!PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output is {}, expected float32", call.outputs[0].ToString());
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (call.inputs[0].shape != call.outputs[0].shape ||
      call.inputs[1].shape != call.outputs[0].shape)
    return Reject("shape", "{} and {} to {}, expected equal shapes",
                  call.inputs[0].shape.ToString(), call.inputs[1].shape.ToString(),
                  call.outputs[0].shape.ToString());
  return std::nullopt;
}

struct GateState {
  float alpha;
  int64_t elements, grain;
  Isa isa;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const auto *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
    auto* const y = static_cast<float*>(out[0]);
    const auto combine = BinaryTableFor(isa).f32;
    const auto apply = UnaryTableFor(isa).apply;
    const Unary sigmoid{UnaryKind::kSigmoid};
    context.pool.ParallelFor(elements, grain, [&](int64_t begin, int64_t end) {
      alignas(64) float gate[kRun];
      for (int64_t i = begin, n; i < end; i += n) {
        n = std::min(kRun, end - i);
        combine(BinaryKind::kMul, a + i, &alpha, gate, n, 1, 0);
        apply(sigmoid, gate, gate, n);
        combine(BinaryKind::kMul, a + i, gate, gate, n, 1, 1);
        combine(BinaryKind::kMul, gate, b + i, y + i, n, 1, 1);
      }
    });
  }
};

Result<BoundKernel> BindGate(const KernelCall& call, const BindOptions& options) {
  const int64_t elements = ElementsOf(call.outputs[0]);
  return BoundKernel::Of(GateState{call.attrs.Float("alpha", 1), elements,
                                   Grain(elements, 0.7, options.threads), options.isa});
}

}  // namespace

extern const KernelDef kSwiGluFloat = {
    .name = "swiglu_f32",
    .op = "SwiGLU",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectGate,
    .bind = BindGate,
    .in_place = SameSizeInputs,
};

}  // namespace evoq
