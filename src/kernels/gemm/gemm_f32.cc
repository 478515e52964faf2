#include "kernels/gemm/gemm_f32.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/math.h"

namespace evoq {
namespace {

constexpr int64_t kGroupBytes =
    256 << 10;                       // of B: this group and the next one stay in a 1 MiB L2 cache
constexpr int64_t kBlockRows = 224;  // of one task: their A stays in the L2 cache too
constexpr int64_t kSmallWork =
    64 << 10;                         // multiply-adds that are not worth waking another thread for
constexpr int64_t kOneTileRows = 10;  // fewer rows than L1 cache ways: no two evict each other
constexpr int64_t kL1Set = 4096;  // rows this far apart compete for the same lines of the L1 cache,
constexpr int kL1Rows = 7;        // of whose eight ways a tile may take so many
constexpr int64_t kSumsFloats = 48 << 10;  // of one task, where K is cut

std::vector<SegmentF32> SplitK(int64_t taps, int64_t depth, int64_t limit) {
  std::vector<SegmentF32> segments;
  if (taps == 0 || depth == 0) return {SegmentF32{0, 0, 0, 0}};
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

// Index of the first of `count` items that part `i` of `parts` equal parts has.
int64_t PartBegin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + std::min(i, count % parts);
}

void SetActivation(const Activation& activation, GemmTileF32& tile) {
  tile.activation = TileActivationF32::kNone;
  switch (activation.kind) {
    case ActivationKind::kRelu: tile.activation = TileActivationF32::kRelu; break;
    case ActivationKind::kClip:
      tile.activation = TileActivationF32::kClamp;
      tile.low = activation.alpha;
      tile.high = activation.beta;
      break;
    case ActivationKind::kLeakyRelu:
      tile.activation = TileActivationF32::kLeaky;
      tile.low = activation.alpha;
      break;
    default: break;
  }
}

// What the register tiles of some panels fetch meanwhile.
struct Ahead {
  const float* from = nullptr;
  int64_t step = 0;    // floats per k
  int64_t panels = 0;  // floats per panel; 0: the first tile fetches all of it
};

// The register tiles of panels [panel, panel_end) for the rows in `rows`.
void RunPanels(const GemmPlanF32& plan, const GemmJobF32& job, int count, const TileRowsF32& rows,
               int64_t panel, int64_t panel_end, Ahead ahead, GemmTileF32& tile) {
  tile.rows = rows.rows;
  tile.row_stride = rows.row_stride;
  tile.taps = rows.taps;
  tile.tap_count = rows.tap_count;
  tile.depth = rows.depth;
  tile.row_offset = rows.row_offset;
  while (panel < panel_end) {
    int panels = plan.panels;
    while (panels > panel_end - panel) panels /= 2;
    const int64_t column = panel * kPanelF32;
    tile.b = job.b + panel * plan.panel_stride;
    tile.ahead = ahead.from == nullptr ? tile.b : ahead.from;
    tile.ahead_step = ahead.from == nullptr ? 0 : ahead.step;
    tile.c = job.y + column;
    tile.bias = job.bias == nullptr ? nullptr : job.bias + column;
    tile.residual = job.residual == nullptr ? nullptr : job.residual + column;
    tile.column_begin = std::max<int64_t>(job.column_begin - column, 0);
    tile.column_end = std::min<int64_t>(job.column_end - column, panels * kPanelF32);
    (plan.lanes.empty() ? plan.kernels->tile[panels][count] : plan.kernels->lane_tile[count])(tile);
    panel += panels;
    if (plan.segments.size() > 1) tile.sums += count * panels * kPanelF32;
    ahead.from =
        ahead.panels == 0 || ahead.from == nullptr ? nullptr : ahead.from + panels * ahead.panels;
  }
}

// Where the B that follows segment `s` of the group [group, group_end) begins: the next segment or
// the next group. Null when there is none or it is not worth it.
const float* NextB(const GemmPlanF32& plan, const GemmJobF32& job, size_t s, int64_t group,
                   int64_t group_end) {
  if (plan.k_stride == 0) return nullptr;
  if (s + 1 < plan.segments.size()) {
    const SegmentF32& next = plan.segments[s + 1];
    return job.b + group * plan.panel_stride + next.tap * plan.k_stride + next.k * kPanelF32;
  }
  return group_end * kPanelF32 < job.column_end ? job.b + group_end * plan.panel_stride : nullptr;
}

void ActivateRows(const GemmPlanF32& plan, int count, const int64_t* row_offset, int64_t columns,
                  float* y) {
  for (int r = 0; r < count;) {
    int64_t run = columns;  // rows that follow each other without a gap are one
    int end = r + 1;
    for (; end < count && row_offset[end] == row_offset[r] + run; ++end) run += columns;
    plan.curve(y + row_offset[r], run);
    r = end;
  }
}

// Cuts rows and columns so that the thread with the most to do is done first. A task costs its
// multiplications and what it brings into its core's caches; what a thread that comes late leaves
// to the others grows with the size of a task.
void ShareOut(const GemmSizesF32& sizes, int tile_rows, int threads, GemmPlanF32& plan) {
  constexpr double kMacsPerNs = 56, kBytesPerNs = 30, kTaskNs = 200, kForkNs = 300, kLate = 0.03;
  const int64_t jobs = std::max<int64_t>(sizes.jobs, 1), least = plan.row_blocks;
  const int64_t units =
      std::max<int64_t>(CeilDiv(CeilDiv(sizes.columns, kPanelF32), plan.panels), 1);
  const double columns = plan.panels * kPanelF32,
               depth = static_cast<double>(sizes.taps) * static_cast<double>(sizes.depth);
  const double tile_ns = tile_rows * columns * depth / kMacsPerNs;
  const double a_ns = 4 * tile_rows * depth / kBytesPerNs, b_ns = 4 * columns * depth / kBytesPerNs;
  const auto cost = [&](int64_t row_blocks, int64_t column_blocks) {
    const double tiles_of_one = static_cast<double>(CeilDiv(plan.tiles, row_blocks)),
                 units_of_one = static_cast<double>(CeilDiv(units, column_blocks));
    const double task =
        tiles_of_one * (units_of_one * tile_ns + a_ns) + units_of_one * b_ns + kTaskNs;
    const int64_t tasks = row_blocks * column_blocks * jobs;
    return static_cast<double>(CeilDiv(tasks, threads)) * task +
           (tasks > 1 ? kForkNs + kLate * task : 0);
  };
  double best = cost(least, 1);
  for (int64_t target = threads; target <= 8 * threads; target += threads) {
    for (int64_t columns_cut = 1; columns_cut <= std::min(target, units); ++columns_cut) {
      const int64_t rows_cut =
          std::clamp(CeilDiv(target, columns_cut * jobs), least, std::max(least, plan.tiles));
      if (const double ns = cost(rows_cut, columns_cut); ns < best) {
        best = ns;
        plan.row_blocks = rows_cut;
        plan.column_blocks = columns_cut;
      }
    }
  }
}

}  // namespace

bool FitsLanesF32(int64_t depth, int64_t columns, Isa isa) {
  return GemmKernelsForF32(isa).lane_rows > 0 && columns >= 1 && columns <= kPanelF32 / 2 &&
         kPanelF32 % columns == 0 && kPanelF32 / columns * depth <= kPanelF32;
}

GemmPlanF32 PlanGemmF32(const GemmSizesF32& sizes, const Activation& activation, Isa isa,
                        int threads) {
  GemmPlanF32 plan;
  plan.kernels = &GemmKernelsForF32(isa);
  plan.activation = activation;
  plan.curve = CurveForF32(activation, isa);
  plan.rows = sizes.rows;
  plan.panel_stride = sizes.panel_stride;
  const GemmKernelsF32& kernels = *plan.kernels;
  const bool one_tile = sizes.rows <= kOneTileRows;  // B is read once, best in long runs
  int tile_rows = kernels.rows;
  plan.panels = kernels.panels;
  if (sizes.lane_columns > 0) {
    tile_rows = kernels.lane_rows;
    plan.panels = 1;
    for (int64_t n = 0; n < kPanelF32; ++n)
      plan.lanes.push_back(static_cast<int32_t>(n / sizes.lane_columns * sizes.depth));
  } else if (sizes.rows <= kernels.few_rows) {
    tile_rows = kernels.few_rows;
    plan.panels = kernels.few_rows_panels;
  } else if (sizes.columns <= kPanelF32) {
    tile_rows = kernels.one_panel_rows;
    plan.panels = 1;
  }
  if (!one_tile && sizes.row_bytes % kL1Set == 0 && sizes.taps == 1 && tile_rows > kL1Rows) {
    const bool wide = sizes.columns > 2 * kPanelF32;
    tile_rows = wide ? std::min(kernels.few_rows, kL1Rows) : kL1Rows;
    if (wide) plan.panels = kernels.few_rows_panels;
  }
  plan.segments = SplitK(sizes.taps, sizes.depth,
                         one_tile ? std::numeric_limits<int64_t>::max() : kMaxDepthF32);
  plan.tiles = CeilDiv(sizes.rows, tile_rows);
  if (sizes.taps_in_order && plan.tiles > 1) plan.k_stride = sizes.depth * kPanelF32;
  const SegmentF32& first = plan.segments.front();
  const int64_t panel_bytes =
      std::max<int64_t>(first.taps * first.depth, 1) * kPanelF32 * sizeof(float);
  plan.group_panels = std::max<int64_t>(kGroupBytes / panel_bytes / plan.panels, 1) * plan.panels;

  plan.row_blocks =
      std::max<int64_t>(CeilDiv(plan.tiles, std::max<int64_t>(kBlockRows / tile_rows, 1)), 1);
  if (threads > 1) ShareOut(sizes, tile_rows, threads, plan);
  if (plan.segments.size() > 1) {
    const int64_t tiles = std::max<int64_t>(CeilDiv(plan.tiles, plan.row_blocks), 1);
    const int64_t unit = tiles * tile_rows * plan.panels * kPanelF32;
    plan.group_panels =
        std::min(plan.group_panels, std::max<int64_t>(kSumsFloats / unit, 1) * plan.panels);
  }
  const double work = 1.0 * sizes.rows * sizes.columns * sizes.taps * sizes.depth *
                      std::max<int64_t>(sizes.jobs, 1);
  if (work <= kSmallWork) plan.grain = std::numeric_limits<int32_t>::max();
  return plan;
}

void DenseRowsF32::Fill(const void* source, int64_t first, int count, const SegmentF32& segment,
                        TileRowsF32& tile) {
  const DenseRowsF32& rows = *static_cast<const DenseRowsF32*>(source);
  for (int r = 0; r < count; ++r) {
    tile.rows[r] = rows.a + (first + r) * rows.depth + segment.k;
    tile.row_offset[r] = (first + r) * rows.columns;
  }
  tile.row_stride = 0;
  tile.next = segment.depth == rows.depth ? tile.rows[0] + count * rows.depth : nullptr;
  tile.next_step = RoundUp(count, kPanelF32);
  tile.taps[0] = {0, segment.k * rows.b_step};
  tile.tap_count = segment.taps;
  tile.depth = segment.depth;
}

void RunGemmTaskF32(const GemmPlanF32& plan, const GemmJobF32& job, int64_t task) {
  const int64_t row_block = task / plan.column_blocks, column_block = task % plan.column_blocks;
  const int64_t first_tile = PartBegin(plan.tiles, plan.row_blocks, row_block);
  const int64_t end_tile = PartBegin(plan.tiles, plan.row_blocks, row_block + 1);
  // Blocks of columns begin at multiples of the register tile's width, counted from the job's first
  // panel.
  const int64_t first_panel = job.column_begin / kPanelF32,
                end_panel = CeilDiv(job.column_end, kPanelF32);
  const int64_t units = CeilDiv(end_panel - first_panel, plan.panels);
  const int64_t begin =
      first_panel + PartBegin(units, plan.column_blocks, column_block) * plan.panels;
  const int64_t end =
      std::min(end_panel,
               first_panel + PartBegin(units, plan.column_blocks, column_block + 1) * plan.panels);

  if (first_tile == end_tile) return;
  const int64_t first_row = PartBegin(plan.rows, plan.tiles, first_tile);
  TileRowsF32 rows;
  alignas(
      64) float sums[kSumsFloats];  // [row tile][panels of the group]: untouched where K is not cut
  GemmTileF32 tile = {};
  tile.b_step = plan.b_step;
  tile.panel_stride = plan.panel_stride;
  tile.lanes = plan.lanes.data();
  tile.lane_words = job.lane_words;
  SetActivation(plan.activation, tile);
  for (int64_t group = begin; group < end; group += plan.group_panels) {
    const int64_t group_end = std::min(end, group + plan.group_panels);
    for (size_t s = 0; s < plan.segments.size(); ++s) {
      tile.accumulate = s > 0;
      tile.last = s + 1 == plan.segments.size();
      const float* next = NextB(plan, job, s, group, group_end);
      // What row tile `i` fetches: one panel of each register tile of the next part. The very first
      // one fetches what it needs next itself. Where nothing is left of B, what the next row tile
      // reads.
      const auto ahead = [&](int64_t i) -> Ahead {
        const bool cold = group == begin && s == 0 && plan.k_stride > 0;
        if (cold && i == 0)
          return {job.b + (group + plan.panels) * plan.panel_stride, kPanelF32, plan.panel_stride};
        const int64_t panel = cold ? i - 1 : i;
        if (next != nullptr && panel < plan.panels)
          return {next + panel * plan.panel_stride, kPanelF32, plan.panel_stride};
        return {rows.next, rows.next_step, 0};
      };
      for (int64_t i = first_tile; i < end_tile; ++i) {
        const int64_t row = PartBegin(plan.rows, plan.tiles, i);
        const int count = static_cast<int>(PartBegin(plan.rows, plan.tiles, i + 1) - row);
        job.fill(job.source, row, count, plan.segments[s], rows);
        tile.sums =
            sums +
            (plan.segments.size() > 1 ? (row - first_row) * (group_end - group) * kPanelF32 : 0);
        RunPanels(plan, job, count, rows, group, group_end, ahead(i - first_tile), tile);
        if (tile.last && plan.curve != nullptr) {
          const int64_t from = std::max(job.column_begin, group * kPanelF32);
          const int64_t to = std::min(job.column_end, group_end * kPanelF32);
          ActivateRows(plan, count, rows.row_offset, to - from, job.y + from);
        }
      }
    }
  }
}

}  // namespace evoq
