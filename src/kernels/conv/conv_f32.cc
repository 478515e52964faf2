// conv_f32: y = activation(conv(x, w) + bias + residual) in float32, channels-last, any group.
#include <algorithm>

#include "base/math.h"
#include "base/small_code.h"
#include "kernels/conv/conv_rows_f32.h"
#include "kernels/conv/conv_taps_f32.h"
#include "kernels/conv/conv_ways.h"
#include "kernels/conv/winograd_f32.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

struct ConvF32 {
  ConvShapeF32 shape;
  ConvRowsF32 map;
  GemmPlan plan;
  WeightPanelsF32 panels;
  bool has_bias, has_residual;
  std::optional<ConvShapeF32> unpadded;  // whose input is copied into scratch, where it is padded

  // Of scratch, before the weights'.
  size_t padded_bytes() const {
    return unpadded ? static_cast<size_t>(RoundUp(4 * shape.batch * shape.in[0] * shape.in[1] *
                                                      shape.in[2] * shape.channels_in,
                                                  64))
                    : 0;
  }
  // Narrow groups that share a panel are computed together.
  int64_t groups_of_job() const { return plan.lanes.empty() ? 1 : kPanelF32 / shape.columns(); }
  int64_t jobs() const { return CeilDiv(shape.group, groups_of_job()); }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const float* x = static_cast<const float*>(in[0]);
    if (unpadded) {
      auto* const padded = reinterpret_cast<float*>(context.scratch);
      PadInput(*unpadded, x, padded, context.pool);
      x = padded;
    }
    const float* const weights = panels.Get(in[1], context.scratch + padded_bytes(), context.pool);
    const int64_t tasks = plan.tasks();
    context.pool.ParallelFor(jobs() * tasks, plan.grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / tasks * groups_of_job(),
                      end_group = std::min(group + groups_of_job(), shape.group);
        const ConvRowsSourceF32 source = {&map, x + group * shape.depth()};
        const GemmJob job = {
            &source,
            FillConvRows,
            weights,
            group * shape.columns(),
            end_group * shape.columns(),
            out[0],
            has_bias ? static_cast<const float*>(in[2]) : nullptr,
            has_residual ? in[3] : nullptr,
            static_cast<int32_t>(plan.lanes.empty() ? 0 : (end_group - group) * shape.depth())};
        RunGemmTask(plan, job, i % tasks);
      }
    });
  }
};

std::optional<Reason> RejectConv(const KernelCall& call) {
  ConvShapeF32 shape;
  return ReadConvShape(call, false, shape);
}

Result<Tensor> PackConv(const KernelCall& call, size_t input) {
  if (input != 1) return Tensor();
  return PackWeightF32(kConvLayoutF32, call.constant(input));
}

std::vector<std::string> ConvVariants(const KernelCall& call, const BindOptions&) {
  ConvShapeF32 shape;
  if (call.constant(1) == nullptr || ReadConvShape(call, false, shape)) return {};
  return ConvVariantsOf(shape, 1);
}

// The pixels of a 1 x 1 convolution of stride 1 may lie on one line, which has no ends within.
ConvShapeF32 OnOneLine(ConvShapeF32 s) {
  const std::array<int64_t, 3> ones = {1, 1, 1}, none = {0, 0, 0};
  if (s.kernel != ones || s.stride != ones || s.pad != none || s.in != s.out) return s;
  s.in = s.out = {1, 1, s.batch * s.in[0] * s.in[1] * s.in[2]};
  s.batch = 1;
  return s;
}

EVOQ_SMALL_CODE Result<BoundKernel> BindConv(const KernelCall& call, const BindOptions& options) {
  ConvShapeF32 shape;
  if (const auto why = ReadConvShape(call, false, shape)) return Unsupported("{}", why->sentence);
  shape = OnOneLine(shape);
  EVOQ_ASSIGN(const Activation activation, ActivationFromAttrs(call.attrs));
  EVOQ_ASSIGN(WeightPanelsF32 panels, WeightPanelsF32::Of(call, 1, kConvLayoutF32));
  const float* const weights = panels.constant();
  const ConvWay way = weights != nullptr ? ConvWayOf(shape, options.variant, 1) : ConvWay();
  if (way.taps_beside) {
    return BindTapsF32(shape, false, weights, activation, call.has_input(2), call.has_input(3),
                       options);
  }
  if (way.winograd > 0) {
    BoundKernel bound = BindWinogradF32(shape, way.winograd, *call.constant(1), weights, activation,
                                        call.has_input(2), call.has_input(3), options);
    bound.plan.widened = panels.widened();
    return bound;
  }
  std::optional<ConvShapeF32> unpadded;
  if (PadsInput(shape)) unpadded = std::exchange(shape, OverPadded(shape));
  ConvRowsF32 map(shape, ConvAxes(shape), shape.depth() * kPanelF32);
  GemmSizes sizes;
  sizes.rows = map.rows();
  sizes.columns = shape.columns();
  sizes.taps = map.taps();
  sizes.depth = shape.depth();
  sizes.panel_stride = shape.taps() * shape.depth() * kPanelF32;
  sizes.row_bytes = shape.channels_in * shape.stride[2] * static_cast<int64_t>(sizeof(float));
  sizes.jobs = shape.group;
  if (shape.group > 1 && FitsLanesF32(shape.depth(), shape.columns(), options.isa)) {
    sizes.lane_columns = shape.columns();
    sizes.columns = kPanelF32;
    sizes.jobs = CeilDiv(shape.channels_out, kPanelF32);
  }
  GemmPlan plan = PlanGemm(sizes, GemmTypesF32(options.isa), activation, options);
  KernelPlan described = plan.Describe();
  described.widened = panels.widened();
  if (const int64_t rows = ParseWay(options.variant).block_rows; rows > 0 && plan.lanes.empty())
    described.method = Way{.block_rows = rows}.ToString();
  ConvF32 conv{shape,
               std::move(map),
               std::move(plan),
               std::move(panels),
               call.has_input(2),
               call.has_input(3),
               std::move(unpadded)};
  const size_t scratch = conv.padded_bytes() + conv.panels.scratch_bytes();
  return BoundKernel::Of(std::move(conv), scratch, std::move(described));
}

}  // namespace

extern const KernelDef kConvF32;
const KernelDef kConvF32 = {
    .name = "conv_f32",
    .op = "Conv",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectConv,
    .pack = PackConv,
    .bind = BindConv,
    .variants = ConvVariants,
};

}  // namespace evoq
