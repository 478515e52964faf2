// conv_transpose_f32: y = activation(conv_transpose(x, w) + bias + residual) in float32,
// channels-last.
//
// Output pixel o reads input pixel i for tap k where o + pad = i * stride + k * dilation. All
// pixels with the same (o + pad) mod stride on each axis (a phase) read the same taps at the same
// distances: each phase is an ordinary convolution of stride 1 that computes every stride-th output
// pixel.
#include "base/math.h"
#include "base/small_code.h"
#include "kernels/conv/conv_rows_f32.h"
#include "kernels/conv/conv_taps_f32.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

struct Phase {
  ConvRowsF32 map;
  GemmPlan plan;
};

struct ConvTransposeF32 {
  ConvShapeF32 shape;
  std::vector<Phase> phases;
  WeightPanelsF32 panels;
  bool has_bias, has_residual;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const float* const weights = panels.Get(in[1], context.scratch, context.pool);
    for (const Phase& phase : phases) {
      const int64_t tasks = phase.plan.tasks();
      context.pool.ParallelFor(shape.group * tasks, phase.plan.grain,
                               [&](int64_t begin, int64_t end) {
                                 for (int64_t i = begin; i < end; ++i)
                                   RunTask(phase, weights, i / tasks, i % tasks, in, out);
                               });
    }
  }

  void RunTask(const Phase& phase, const float* weights, int64_t group, int64_t task,
               const void* const* in, void* const* out) const {
    const int64_t column = group * shape.columns();
    const ConvRowsSourceF32 source = {&phase.map,
                                      static_cast<const float*>(in[0]) + group * shape.depth()};
    const GemmJob job = {&source,
                         FillConvRows,
                         weights + group * shape.depth() * kPanelF32,
                         0,
                         shape.columns(),
                         static_cast<float*>(out[0]) + column,
                         has_bias ? static_cast<const float*>(in[2]) + column : nullptr,
                         has_residual ? static_cast<const float*>(in[3]) + column : nullptr};
    RunGemmTask(phase.plan, job, task);
  }
};

std::optional<Reason> RejectConvTranspose(const KernelCall& call) {
  ConvShapeF32 shape;
  return ReadConvShape(call, true, shape);
}

Result<Tensor> PackConvTranspose(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackWeightF32(kConvTransposeLayoutF32, call.constant(input));
}

std::vector<std::string> ConvTransposeVariants(const KernelCall& call, const BindOptions&) {
  ConvShapeF32 shape;
  if (call.constant(1) == nullptr || ReadConvShape(call, true, shape) ||
      !ChooseTapsF32(shape, true, ""))
    return {};
  return {std::string(kDirectWay), kTapsBeside};
}

EVOQ_SMALL_CODE Result<BoundKernel> BindConvTranspose(const KernelCall& call,
                                                      const BindOptions& options) {
  ConvShapeF32 shape;
  if (const auto why = ReadConvShape(call, true, shape)) return Unsupported("{}", why->sentence);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  ConvTransposeF32 state;
  EVOQ_ASSIGN(state.panels, WeightPanelsF32::Of(call, 1, kConvTransposeLayoutF32));
  if (state.panels.constant() != nullptr && ChooseTapsF32(shape, true, options.variant)) {
    return BindTapsF32(shape, true, state.panels.constant(), activation, call.has_input(2),
                       call.has_input(3), options);
  }
  state.shape = shape;
  state.has_bias = call.has_input(2);
  state.has_residual = call.has_input(3);
  for (int64_t i = 0; i < shape.phases(); ++i) {
    ConvRowsF32 map(shape, ConvPhaseAxes(shape, i), shape.channels_in * kPanelF32);
    if (map.rows() == 0) continue;
    GemmSizes sizes;
    sizes.rows = map.rows();
    sizes.columns = shape.columns();
    sizes.taps = map.taps();
    sizes.depth = shape.depth();
    sizes.panel_stride = shape.taps() * shape.channels_in * kPanelF32;
    sizes.row_bytes = shape.channels_in * static_cast<int64_t>(sizeof(float));
    sizes.jobs = shape.group;
    sizes.taps_in_order = false;
    state.phases.push_back(
        {std::move(map), PlanGemm(sizes, GemmTypesF32(options.isa), activation, options)});
  }
  KernelPlan plan;
  if (!state.phases.empty()) plan = state.phases[0].plan.Describe();
  plan.widened = state.panels.widened();
  const size_t scratch = state.panels.scratch_bytes();
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kConvTransposeF32;
const KernelDef kConvTransposeF32 = {
    .name = "conv_transpose_f32",
    .op = "ConvTranspose",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectConvTranspose,
    .pack = PackConvTranspose,
    .bind = BindConvTranspose,
    .variants = ConvTransposeVariants,
};

}  // namespace evoq
