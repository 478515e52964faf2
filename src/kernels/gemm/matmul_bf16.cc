// matmul_bf16: y = activation(a b + bias + residual) of bfloat16 matrices with ONNX's broadcasting.
// A constant 2-D b is packed once; any other b is packed into scratch at each run.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/pack_bf16.h"

namespace evoq {
namespace {

// Row r of a is k elements from a + r * k: whole pairs where k is even, copied with a zero behind
// where it is odd.
struct Rows {
  const uint16_t* a;
  int64_t k, n;

  static void Fill(const void* source, int64_t first, int count, const GemmSegment& segment,
                   GemmRows& tile) {
    const Rows& rows = *static_cast<const Rows*>(source);
    const bool odd = rows.k % 2 != 0;
    for (int r = 0; r < count; ++r) {
      const uint16_t* from = rows.a + (first + r) * rows.k + 2 * segment.k;
      tile.row_offset[r] = (first + r) * rows.n;
      tile.rows[r] = reinterpret_cast<const float*>(from);
      if (!odd) continue;
      float* to = tile.copy + r * kRowCopyUnits;
      const int64_t elements = std::min(2 * segment.depth, rows.k - 2 * segment.k);
      std::memset(to + segment.depth - 1, 0, sizeof(float));
      std::memcpy(to, from, static_cast<size_t>(elements) * sizeof(uint16_t));
      tile.rows[r] = to;
    }
    tile.row_stride = 0;
    tile.taps[0] = {0, segment.k * kPanelF32};
    tile.tap_count = segment.taps;
    tile.depth = segment.depth;
  }
};

struct MatMulBf16 {
  MatMulShape shape;
  GemmPlan plan;
  const PairLayout* layout = nullptr;
  const float* weights = nullptr;    // null: b is computed
  int64_t panels = 0, b_stride = 0;  // pairs between the matrices of a packed b
  bool has_bias = false, has_residual = false;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const float* b = weights;
    if (b == nullptr) {
      float* packed = reinterpret_cast<float*>(context.scratch);
      Pack(static_cast<const uint16_t*>(in[1]), packed, context.pool);
      b = packed;
    }
    const int64_t tasks = plan.tasks();
    context.pool.ParallelFor(static_cast<int64_t>(shape.batch.size()) * tasks, plan.grain,
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i)
                                 RunTask(i / tasks, i % tasks, b, in, out);
                             });
  }

  void Pack(const uint16_t* b, float* packed, ThreadPool& pool) const {
    const int64_t grain = PackGrain(PairPanelStride(shape.k));
    pool.ParallelFor(shape.b_count * panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t matrix = i / panels, panel = i % panels;
        PackPairsOfMatrix(*layout, b + matrix * shape.k * shape.n, shape.n, shape.k, shape.n, panel,
                          panel + 1, packed + matrix * b_stride);
      }
    });
  }

  void RunTask(int64_t index, int64_t task, const float* b, const void* const* in,
               void* const* out) const {
    const MatMulPair pair = shape.batch[index];
    const int64_t y = index * shape.m * shape.n;
    const Rows rows = {static_cast<const uint16_t*>(in[0]) + pair.a * shape.m * shape.k, shape.k,
                       shape.n};
    const GemmJob job = {&rows,
                         Rows::Fill,
                         b + pair.b * b_stride,
                         0,
                         shape.n,
                         OffsetBf16(out[0], plan.types.y_bf16, y),
                         has_bias ? static_cast<const float*>(in[2]) : nullptr,
                         has_residual ? OffsetBf16(in[3], plan.types.residual_bf16, y) : nullptr};
    RunGemmTask(plan, job, task);
  }
};

std::optional<Reason> ReadShape(const KernelCall& call, MatMulShape& shape) {
  if (auto why = RejectTypesBf16(call)) return why;
  if (auto why = RejectUnknownShapes(call)) return why;
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  if (auto why = RejectDataBlock(call)) return why;
  if (call.constant(1) != nullptr && call.inputs[1].shape.rank() != 2)
    return Reject("shape", "a constant b of rank {}, expected 2", call.inputs[1].shape.rank());
  return ReadMatMulShape(call, shape);
}

std::optional<Reason> RejectMatMul(const KernelCall& call) {
  MatMulShape shape;
  return ReadShape(call, shape);
}

Result<Tensor> PackMatMul(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackWeightBf16(kMatMulLayoutBf16, call.constant(input));
}

Result<BoundKernel> BindMatMul(const KernelCall& call, const BindOptions& options) {
  MatMulBf16 state;
  if (const auto why = ReadShape(call, state.shape)) return Unsupported("{}", why->sentence);
  const MatMulShape& s = state.shape;
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  if (call.constant(1) != nullptr) {
    EVOQ_ASSIGN(state.weights, PairPanelsOf(*call.constant(1), kMatMulLayoutBf16));
  }
  state.panels = CeilDiv(s.n, int64_t{kPanelF32});
  state.b_stride = state.panels * PairPanelStride(s.k);
  const int64_t b_sizes[] = {s.b_count, state.b_stride, static_cast<int64_t>(sizeof(float))};
  const auto b_bytes = CheckedProduct(b_sizes);
  if (!b_bytes) return Fail(ErrorCode::kTooLarge, "MatMul: {} packed", call.inputs[1].ToString());
  GemmSizes sizes;
  sizes.rows = s.m;
  sizes.columns = s.n;
  sizes.taps = 1;
  sizes.depth = CeilDiv(s.k, 2);
  sizes.panel_stride = PairPanelStride(s.k);
  sizes.row_bytes = s.k * 2;
  sizes.jobs = static_cast<int64_t>(s.batch.size());
  const bool copied = s.k % 2 != 0;
  state.plan = PlanGemm(sizes, GemmTypesBf16(call, copied, options.isa), activation, options);
  state.layout = &PairLayoutFor(options.isa);
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  const size_t scratch = state.weights == nullptr ? static_cast<size_t>(*b_bytes) : 0;
  KernelPlan plan = state.plan.Describe();
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kMatMulBf16;
const KernelDef kMatMulBf16 = {
    .name = "matmul_bf16",
    .op = "MatMul",
    .precision = Precision::kBf16,
    .peak = Peak::kBf16,
    .reject = RejectMatMul,
    .pack = PackMatMul,
    .bind = BindMatMul,
};

}  // namespace evoq
