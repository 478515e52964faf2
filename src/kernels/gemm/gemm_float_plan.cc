#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/math.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/share_out.h"
#include "kernels/gemm/walk.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

constexpr int64_t kBlockRows = 224;  // of one task: their A stays in the L2 cache
constexpr int64_t kSmallWork =
    64 << 10;  // multiply-adds that are not worth waking another thread for

std::vector<GemmSegment> SplitK(int64_t taps, int64_t depth, int64_t limit) {
  std::vector<GemmSegment> segments;
  if (taps == 0 || depth == 0) return {GemmSegment{0, 0, 0, 0}};
  if (depth > limit) {
    const int64_t parts = CeilDiv(depth, limit), part = RoundUp(CeilDiv(depth, parts), kPanelF32);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t k = 0; k < depth; k += part)
        segments.push_back({t, 1, k, std::min(part, depth - k)});
    }
    return segments;
  }
  const int64_t most = std::clamp<int64_t>(limit / depth, 1, kMaxTapsF32);
  const int64_t part = CeilDiv(taps, CeilDiv(taps, most));
  for (int64_t t = 0; t < taps; t += part)
    segments.push_back({t, std::min(part, taps - t), 0, depth});
  return segments;
}

// Units. B of few rows is read once, best in long runs.
int64_t LongestSegment(const GemmSizes& sizes, const CpuModel& cpu, const GemmPlan& plan) {
  const bool few = sizes.rows <= cpu.l1_alias_rows;
  if (!plan.kernels().widens)
    return few && !plan.types.copied ? std::numeric_limits<int64_t>::max() : kMaxDepthF32;
  EVOQ_CHECK(plan.tile_rows <= kMaxWideRows, "tiles of {} widened rows", plan.tile_rows);
  if (!few) return kMaxWidePairs;
  const int64_t room =
      (kWideFloats / std::clamp<int64_t>(sizes.rows, 1, plan.tile_rows) - kPanelF32) / 2;
  return plan.types.copied ? std::min(room, kMaxDepthF32) : room;
}

void CutForThreads(const GemmSizes& sizes, int threads, const CpuModel& cpu, GemmPlan& plan) {
  const ProductRates& rates = cpu.float32;
  const double columns = plan.panels * kPanelF32,
               depth = static_cast<double>(sizes.taps) * static_cast<double>(sizes.depth);
  SharedWork work;
  work.tiles = plan.tiles;
  work.units = std::max<int64_t>(CeilDiv(CeilDiv(sizes.columns, kPanelF32), plan.panels), 1);
  work.products = std::max<int64_t>(sizes.jobs, 1);
  work.least_row_blocks = plan.row_blocks;
  work.tile_ns = plan.tile_rows * columns * depth / rates.macs_per_ns;
  work.rows_ns = 4 * plan.tile_rows * depth / rates.bytes_per_ns;
  work.columns_ns = 4 * columns * depth / rates.bytes_per_ns;
  work.task_ns = rates.task_ns;
  const SharedOut cut = ShareOut(work, ShareRule{}, threads, cpu);
  plan.row_blocks = cut.row_blocks;
  plan.column_blocks = cut.column_blocks;
}

void ChooseTile(const GemmSizes& sizes, const CpuModel& cpu, GemmPlan& plan) {
  const GemmKernels& kernels = plan.kernels();
  plan.tile_rows = kernels.rows;
  plan.panels = kernels.panels;
  if (sizes.lane_columns > 0) {
    plan.tile_rows = kernels.lane_rows;
    plan.panels = 1;
    for (int64_t n = 0; n < kPanelF32; ++n)
      plan.lanes.push_back(static_cast<int32_t>(n / sizes.lane_columns * sizes.depth));
  } else if (sizes.rows <= kernels.few_rows) {
    plan.tile_rows = kernels.few_rows;
    plan.panels = kernels.few_rows_panels;
  } else if (sizes.columns <= kPanelF32) {
    plan.tile_rows = kernels.one_panel_rows;
    plan.panels = 1;
  }
  const auto most = static_cast<int>(cpu.l1_alias_tile_rows);
  if (kernels.row_step == 1 && !kernels.widens && sizes.rows > cpu.l1_alias_rows &&
      sizes.row_bytes % cpu.l1_alias_bytes == 0 && plan.tile_rows > most) {
    const bool wide = sizes.columns > 2 * kPanelF32;
    plan.tile_rows = wide ? std::min(kernels.few_rows, most) : most;
    if (wide) plan.panels = kernels.few_rows_panels;
  }
}

}  // namespace

KernelPlan GemmPlan::Describe() const {
  KernelPlan plan;
  plan.code = kernels().name;
  plan.tile_rows = tile_rows;
  plan.tile_columns = panels * kPanelF32;
  if (!lanes.empty()) plan.method = "lanes";
  return plan;
}

bool FitsLanesF32(int64_t depth, int64_t columns, Isa isa) {
  return GemmKernelsForF32(isa).lane_rows > 0 && columns >= 1 && columns <= kPanelF32 / 2 &&
         kPanelF32 % columns == 0 && kPanelF32 / columns * depth <= kPanelF32;
}

GemmPlan PlanGemm(const GemmSizes& sizes, const GemmTypes& types, const Activation& activation,
                  const BindOptions& options) {
  const CpuModel& cpu = *options.cpu;
  GemmPlan plan;
  plan.types = types;
  const GemmKernels& best = plan.kernels();
  if (best.small != nullptr &&
      (sizes.rows < best.least_rows || sizes.taps * sizes.depth < best.least_depth))
    plan.types.kernels.table = best.small;
  plan.activation = activation;
  plan.curve = CurveForF32(activation, types.kernels.needs);
  plan.rows = sizes.rows;
  plan.panel_stride = sizes.panel_stride;
  ChooseTile(sizes, cpu, plan);
  plan.segments = SplitK(sizes.taps, sizes.depth, LongestSegment(sizes, cpu, plan));
  plan.tiles = CeilDiv(sizes.rows, plan.tile_rows);
  if (sizes.taps_in_order && plan.tiles > 1) plan.k_stride = sizes.depth * kPanelF32;
  plan.walks = sizes.taps_in_order && sizes.taps == 1 && plan.tiles == 1 &&
               plan.kernels().row_step == 1 && (sizes.rows >= kLeastWalkRows || plan.panels == 1);
  const GemmSegment& first = plan.segments.front();
  const int64_t panel_bytes =
      std::max<int64_t>(first.taps * first.depth, 1) * kPanelF32 * sizeof(float);
  // This group of B and the next one stay in the L2 cache.
  plan.group_panels =
      std::max<int64_t>(cpu.l2_share() / panel_bytes / plan.panels, 1) * plan.panels;
  // Of few row tiles: the first one waits for memory, unless the group before has asked for it.
  constexpr int64_t kFewTiles = 8, kGroupOfFew = 16;
  if (plan.kernels().copy_rows != nullptr && plan.tiles <= kFewTiles)
    plan.group_panels = std::min(plan.group_panels, kGroupOfFew);
  const int64_t chosen = ParseWay(options.variant).block_rows;
  const int64_t block_rows = chosen > 0 ? chosen : kBlockRows;
  plan.row_blocks =
      std::max<int64_t>(CeilDiv(plan.tiles, std::max<int64_t>(block_rows / plan.tile_rows, 1)), 1);
  if (options.threads > 1) CutForThreads(sizes, options.threads, cpu, plan);
  const bool split = plan.segments.size() > 1;
  if (split || plan.late()) {  // the sums of a task, or of a tile, by a group's columns
    const int64_t tiles = split ? std::max<int64_t>(CeilDiv(plan.tiles, plan.row_blocks), 1) : 1;
    const int64_t unit = tiles * plan.tile_rows * plan.panels * kPanelF32;
    EVOQ_CHECK(unit <= kSumsFloats, "{} tiles of {} rows in a task", tiles, plan.tile_rows);
    plan.group_panels = std::min(plan.group_panels, kSumsFloats / unit * plan.panels);
  }
  const double work = 1.0 * sizes.rows * sizes.columns * sizes.taps * sizes.depth *
                      std::max<int64_t>(sizes.jobs, 1);
  if (work <= kSmallWork) plan.grain = std::numeric_limits<int32_t>::max();
  return plan;
}

}  // namespace evoq
