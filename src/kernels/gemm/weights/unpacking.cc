#include "kernels/gemm/weights/unpacking.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/weights/formats.h"

namespace evoq {
namespace {

constexpr int64_t kManyRows = 256;   // unpacking takes less than a percent of the time
constexpr int64_t kGroupPanels = 4;  // whole register tiles of each instruction set

struct Unpacking {
  BoundWeights weights;
  MatMulShape shape;
  GemmPlan plan;  // of one group
  bool has_bias, has_residual;

  int64_t groups() const { return CeilDiv(shape.n, kGroupPanels * kPanelF32); }
  int64_t group_floats() const { return kGroupPanels * kPanelF32 * shape.k; }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const WeightPanels panels = weights.panels();
    auto* scratch = reinterpret_cast<float*>(context.scratch);
    context.pool.ParallelFor(groups(), 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t group = begin; group < end; ++group)
        RunGroup(panels, group, scratch + thread * group_floats(), in, out);
    });
  }

  void RunGroup(const WeightPanels& panels, int64_t group, float* b, const void* const* in,
                void* const* out) const {
    const int64_t column = group * kGroupPanels * kPanelF32,
                  columns = std::min(kGroupPanels * kPanelF32, shape.n - column);
    for (int64_t p = 0; p * kPanelF32 < columns; ++p)
      weights.format->real(panels, group * kGroupPanels + p, b + p * kPanelF32 * shape.k);
    const DenseRowsF32 rows = {static_cast<const float*>(in[0]), shape.k, shape.n, kPanelF32};
    const GemmJob job = {&rows,
                         DenseRowsF32::Fill,
                         b,
                         0,
                         columns,
                         static_cast<float*>(out[0]) + column,
                         has_bias ? static_cast<const float*>(in[2]) + column : nullptr,
                         has_residual ? static_cast<const float*>(in[3]) + column : nullptr};
    for (int64_t task = 0; task < plan.tasks(); ++task) RunGemmTask(plan, job, task);
  }
};

}  // namespace

bool PaysToUnpack(const KernelCall& call, const MatMulShape& shape, const BindOptions& options) {
  if (call.constant(1) == nullptr || shape.batch.size() != 1 ||
      FindWeightFormat(call.inputs[1]).empty())
    return false;
  // Of b in float32: less than a core's own cache stays there. What no cache holds is too much
  // memory for what fewer rows gain by it.
  const int64_t least = shape.m < kManyRows ? options.cpu->l3_bytes : options.cpu->l2_bytes;
  if (shape.k * shape.n < least / static_cast<int64_t>(sizeof(float))) return false;
  // Threads take whole groups: in the last round few may have none.
  const int64_t groups = CeilDiv(shape.n, kGroupPanels * kPanelF32);
  return RoundUp(groups, int64_t{options.threads}) * 32 <= groups * 33;
}

Result<BoundKernel> BindUnpacking(const KernelCall& call, const MatMulShape& shape,
                                  const BindOptions& options) {
  Unpacking state;
  EVOQ_ASSIGN(state.weights, BindWeights(*call.constant(1), options.isa));
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  state.shape = shape;
  GemmSizes sizes;
  sizes.rows = shape.m;
  sizes.columns = kGroupPanels * kPanelF32;
  sizes.taps = 1;
  sizes.depth = shape.k;
  sizes.panel_stride = shape.k * kPanelF32;
  sizes.row_bytes = shape.k * static_cast<int64_t>(sizeof(float));
  BindOptions alone = options;  // threads take whole groups
  alone.threads = 1;
  state.plan = PlanGemm(sizes, GemmTypesF32(options.isa), activation, alone);
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  const int64_t bytes[] = {options.threads, state.group_floats(),
                           static_cast<int64_t>(sizeof(float))};
  const auto scratch = CheckedProduct(bytes);
  if (!scratch) return Fail(ErrorCode::kTooLarge, "MatMul: {}", call.inputs[1].ToString());
  KernelPlan plan = state.plan.Describe();
  plan.method = kUnpackingMethod;
  return BoundKernel::Of(std::move(state), static_cast<size_t>(*scratch), std::move(plan));
}

}  // namespace evoq
