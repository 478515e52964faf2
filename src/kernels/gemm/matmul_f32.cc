// matmul_f32: y = activation(a b + bias + residual) in float32 with ONNX's broadcasting. A constant
// 2-D b is packed once; any other b is packed into scratch at each run, or read in place where a
// has few rows.
#include <algorithm>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/derived.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/matmul_shape.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/gemm/weights/formats.h"
#include "kernels/gemm/weights/unpacking.h"
#include "kernels/kernel.h"

namespace evoq {
namespace {

struct MatMulF32 {
  MatMulShape shape;
  PanelShapeF32 panels;
  GemmPlan plan;
  const float* weights;  // null: b is computed
  bool in_place;         // a computed b is read as it is
  int64_t b_stride;      // floats between the matrices of b, packed or in place
  std::shared_ptr<const AlignedBuffer> owned;
  bool has_bias, has_residual;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const float* b = weights;
    if (b == nullptr && in_place) {
      b = static_cast<const float*>(in[1]);
    } else if (b == nullptr) {
      float* packed = reinterpret_cast<float*>(context.scratch);
      Pack(static_cast<const float*>(in[1]), packed, context.pool);
      b = packed;
    }
    const int64_t tasks = plan.tasks();
    context.pool.ParallelFor(static_cast<int64_t>(shape.batch.size()) * tasks, plan.grain,
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i)
                                 RunTask(i / tasks, i % tasks, b, in, out);
                             });
  }

  void Pack(const float* b, float* packed, ThreadPool& pool) const {
    const int64_t count = panels.panels();
    const int64_t grain = PackGrain(panels.panel_stride());
    pool.ParallelFor(shape.b_count * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t matrix = i / count, panel = i % count;
        PackPanelsF32(panels, b + matrix * shape.k * shape.n, panel, panel + 1,
                      packed + matrix * panels.floats());
      }
    });
  }

  void RunTask(int64_t index, int64_t task, const float* b, const void* const* in,
               void* const* out) const {
    const MatMulPair pair = shape.batch[index];
    const int64_t y = index * shape.m * shape.n;
    const DenseRowsF32 rows = {static_cast<const float*>(in[0]) + pair.a * shape.m * shape.k,
                               shape.k, shape.n, plan.b_step};
    const GemmJob job = {&rows,
                         DenseRowsF32::Fill,
                         b + pair.b * b_stride,
                         0,
                         shape.n,
                         static_cast<float*>(out[0]) + y,
                         has_bias ? static_cast<const float*>(in[2]) : nullptr,
                         has_residual ? static_cast<const float*>(in[3]) + y : nullptr};
    RunGemmTask(plan, job, task);
  }
};

std::optional<Reason> RejectTypes(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Reject("shape", "{} inputs and {} outputs, expected a, b and y", call.inputs.size(),
                  call.outputs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorType& type = call.inputs[i];
    // Weights that ToFloat32 turns into float32 without loss.
    const bool small_weight =
        i == 1 && call.constant(1) != nullptr &&
        (type.quantized() || type.dtype == DType::kFloat16 || type.dtype == DType::kBfloat16);
    if (call.has_input(i) && !PlainFloat(type) && !small_weight)
      return Reject("types", "input {} is {}, expected float32", i, type.ToString());
  }
  if (!PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected float32", call.outputs[0].ToString());
  if (!ActivationFromAttrs(call.attrs))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  if (auto why = RejectDataBlock(call)) return why;
  return RejectUnknownShapes(call);
}

std::optional<Reason> ReadShape(const KernelCall& call, MatMulShape& s) {
  if (auto why = RejectTypes(call)) return why;
  return ReadMatMulShape(call, s);
}

std::optional<Reason> RejectMatMul(const KernelCall& call) {
  MatMulShape shape;
  return ReadShape(call, shape);
}

Result<Tensor> PackMatMul(const KernelCall& call, size_t input) {
  if (input != 1 || call.inputs[1].shape.rank() != 2) return Tensor();
  return PackWeightF32(kMatMulLayoutF32, call.constant(input));
}

bool ReadsPacked(const KernelCall& call, size_t input, std::string_view layout) {
  return input == 1 && (layout == kMatMulLayoutF32 || ReadsWeights(call.inputs[1], layout));
}

Result<BoundKernel> BindMatMul(const KernelCall& call, const BindOptions& options) {
  MatMulF32 state;
  if (const auto why = ReadShape(call, state.shape)) return Unsupported("{}", why->sentence);
  const MatMulShape& s = state.shape;
  if (PaysToUnpack(call, s, options)) return BindUnpacking(call, s, options);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  EVOQ_ASSIGN(state.panels,
              PanelShapeOf(kMatMulLayoutF32, TensorType(DType::kFloat32, Shape({s.k, s.n}))));
  const int64_t b_sizes[] = {s.b_count, state.panels.floats(), static_cast<int64_t>(sizeof(float))};
  const auto b_bytes = CheckedProduct(b_sizes);
  if (!b_bytes) return Fail(ErrorCode::kTooLarge, "MatMul: {} packed", call.inputs[1].ToString());
  const Tensor* constant = call.constant(1);
  if (constant != nullptr && constant->layout() == kMatMulLayoutF32) {
    EVOQ_ASSIGN(state.weights, PanelsOfConstant(*constant, kMatMulLayoutF32, state.owned));
  } else if (constant != nullptr) {
    const auto pack = [&]() -> Result<AlignedBuffer> {
      EVOQ_ASSIGN(const Tensor stored, ToPlain(*constant));
      EVOQ_ASSIGN(const Tensor plain, ToFloat32(stored));
      AlignedBuffer packed(static_cast<size_t>(*b_bytes));
      ThreadPool one(1);
      state.Pack(plain.data<float>(), reinterpret_cast<float*>(packed.data()), one);
      return packed;
    };
    const auto made = Derive<Result<AlignedBuffer>>(*constant, "matmul_f32 panels", pack);
    if (!*made) return tl::unexpected(made->error());
    state.owned = {made, &**made};
    state.weights = reinterpret_cast<const float*>(state.owned->data());
  } else {
    state.weights = nullptr;
  }
  GemmSizes sizes;
  sizes.rows = s.m;
  sizes.columns = s.n;
  sizes.taps = 1;
  sizes.depth = s.k;
  sizes.panel_stride = state.panels.panel_stride();
  sizes.row_bytes = s.k * static_cast<int64_t>(sizeof(float));
  sizes.jobs = static_cast<int64_t>(s.batch.size());
  state.plan = PlanGemm(sizes, GemmTypesF32(options.isa), activation, options);
  state.b_stride = state.panels.floats();
  state.in_place = state.weights == nullptr && s.m <= kInPlaceRows && s.n % kPanelF32 == 0;
  if (state.in_place) {
    state.b_stride = s.k * s.n;
    state.plan.b_step = s.n;
    state.plan.panel_stride = kPanelF32;
    state.plan.k_stride = 0;
  }
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  const size_t scratch =
      state.weights == nullptr && !state.in_place ? static_cast<size_t>(*b_bytes) : 0;
  KernelPlan plan = state.plan.Describe();
  plan.widened = state.owned != nullptr;
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kMatMulF32;
const KernelDef kMatMulF32 = {
    .name = "matmul_f32",
    .op = "MatMul",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectMatMul,
    .pack = PackMatMul,
    .reads = ReadsPacked,
    .bind = BindMatMul,
};

}  // namespace evoq
