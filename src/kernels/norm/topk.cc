// TopK(x, k) along the last axis: the k largest of each row, the largest first, and their places;
// of equals the first ones, NaN above every number. The places may be left out. A few of many: the
// k so far are kept in order.
#include "kernels/call_util.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kMostKept = 64;

std::optional<Reason> RejectTopK(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[0], &y = call.outputs[0];
  if (!PlainFloat(x) || !PlainFloat(y))
    return Reject("types", "{} to {}, expected float32", x.ToString(), y.ToString());
  const int rank = x.shape.rank();
  const int64_t axis = call.attrs.Int("axis", -1);
  if (rank < 1 || (axis != -1 && axis != rank - 1))
    return Reject("attribute", "axis {} of {}, expected the last one", axis, x.ToString());
  if (call.attrs.Int("largest", 1) == 0) return Reject("attribute", "the smallest elements");
  if (y.shape.rank() != rank || y.shape[rank - 1].value > kMostKept ||
      y.shape[rank - 1].value > x.shape[rank - 1].value)
    return Reject("shape", "{} of {}, expected at most {}", y.ToString(), x.ToString(), kMostKept);
  return std::nullopt;
}

bool Above(float a, float b) { return a != a ? b == b : a > b; }

struct TopKState {
  int64_t rows = 0, size = 0, kept = 0, grain = 1;
  bool gives_places = false;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    context.pool.ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float values[kMostKept];
        int64_t places[kMostKept], count = 0;
        const float* const x = static_cast<const float*>(in[0]) + r * size;
        for (int64_t i = 0; kept > 0 && i < size; ++i) {
          if (count == kept && !Above(x[i], values[kept - 1])) continue;
          int64_t at = count < kept ? count++ : kept - 1;
          for (; at > 0 && Above(x[i], values[at - 1]); --at) {
            values[at] = values[at - 1];
            places[at] = places[at - 1];
          }
          values[at] = x[i];
          places[at] = i;
        }
        std::copy_n(values, kept, static_cast<float*>(out[0]) + r * kept);
        if (gives_places) std::copy_n(places, kept, static_cast<int64_t*>(out[1]) + r * kept);
      }
    });
  }
};

Result<BoundKernel> BindTopK(const KernelCall& call, const BindOptions& options) {
  TopKState state;
  state.size = call.inputs[0].shape.dims().back().value;
  state.kept = call.outputs[0].shape.dims().back().value;
  state.gives_places = call.outputs.size() > 1 && call.outputs[1].dtype != DType::kUndefined;
  state.rows = state.kept == 0 ? 0 : ElementsOf(call.outputs[0]) / state.kept;
  state.grain = Grain(state.rows, 2 * static_cast<double>(state.size), options.threads);
  return BoundKernel::Of(state);
}

}  // namespace

extern const KernelDef kTopKFloat = {
    .name = "topk_f32",
    .op = "TopK",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectTopK,
    .bind = BindTopK,
};

}  // namespace evoq
