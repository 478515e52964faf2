#include "kernels/gemm/gemm_float.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/gemm/share_out.h"
#include "kernels/gemm/walk.h"

namespace evoq {
namespace {

void SetActivation(const Activation& activation, GemmTile& tile) {
  tile.activation = TileActivation::kNone;
  switch (activation.kind) {
    case ActivationKind::kRelu: tile.activation = TileActivation::kRelu; break;
    case ActivationKind::kClip:
      tile.activation = TileActivation::kClamp;
      tile.low = activation.alpha;
      tile.high = activation.beta;
      break;
    case ActivationKind::kLeakyRelu:
      tile.activation = TileActivation::kLeaky;
      tile.low = activation.alpha;
      break;
    default: break;
  }
}

char* At(void* p, bool bf16, int64_t elements) {
  return static_cast<char*>(p) + elements * (bf16 ? 2 : 4);
}
const char* At(const void* p, bool bf16, int64_t elements) {
  return static_cast<const char*>(p) + elements * (bf16 ? 2 : 4);
}

// What the register tiles of some panels fetch meanwhile.
struct Ahead {
  const float* from = nullptr;
  int64_t step = 0;          // units per k
  int64_t panels = 0;        // units per panel; 0: the first tile fetches all of it
  int64_t line = kPanelF32;  // units between the lines of a k
  int64_t lines = 0;         // GemmTile::ahead_lines
};

// One task: a block of rows by a block of columns. Groups of panels one after the other; of each
// group the segments of K; of each segment the tiles of rows, whose panels come last.
class Task {
 public:
  Task(const GemmPlan& plan, const GemmJob& job, int64_t task) : plan_(plan), job_(job) {
    const int64_t row_block = task / plan.column_blocks, column_block = task % plan.column_blocks;
    first_tile_ = PartBegin(plan.tiles, plan.row_blocks, row_block);
    end_tile_ = PartBegin(plan.tiles, plan.row_blocks, row_block + 1);
    // Blocks of columns begin at multiples of the register tile's width, counted from the job's
    // first panel.
    const int64_t first_panel = job.column_begin / kPanelF32,
                  end_panel = CeilDiv(job.column_end, kPanelF32);
    const int64_t units = CeilDiv(end_panel - first_panel, plan.panels);
    begin_ = first_panel + PartBegin(units, plan.column_blocks, column_block) * plan.panels;
    end_ =
        std::min(end_panel, first_panel + PartBegin(units, plan.column_blocks, column_block + 1) *
                                              plan.panels);
    tile_.b_step = plan.b_step;
    tile_.panel_stride = plan.panel_stride;
    tile_.lanes = plan.lanes.data();
    tile_.lane_words = job.lane_words;
    tile_.residual_bf16 = plan.types.residual_bf16;
    SetActivation(plan.activation, tile_);
    rows_.copy = rows_room_;
  }

  void Run() {
    if (first_tile_ == end_tile_) return;  // no rows
    const GemmKernels& kernels = plan_.kernels();
    if (kernels.begin != nullptr) kernels.begin();
    for (int64_t group = begin_; group < end_; group += plan_.group_panels) {
      const int64_t group_end = std::min(end_, group + plan_.group_panels);
      for (size_t s = 0; s < plan_.segments.size(); ++s) RunSegment(group, group_end, s);
    }
    if (kernels.end != nullptr) kernels.end();
  }

 private:
  // The first row of row tile `i`.
  int64_t RowOfTile(int64_t i) const {
    const int64_t step = plan_.kernels().row_step;
    return std::min(plan_.rows, step * PartBegin(CeilDiv(plan_.rows, step), plan_.tiles, i));
  }

  void RunSegment(int64_t group, int64_t group_end, size_t s) {
    const bool split = plan_.segments.size() > 1;
    tile_.accumulate = s > 0;
    tile_.last = s + 1 == plan_.segments.size();
    tile_.output = !tile_.last || plan_.late() ? TileOutput::kSums
                   : plan_.types.y_bf16        ? TileOutput::kBfloat16
                                               : TileOutput::kFloat32;
    const float* next = NextB(s, group, group_end);
    const int64_t width = (group_end - group) * kPanelF32, block_row = RowOfTile(first_tile_);
    for (int64_t i = first_tile_; i < end_tile_; ++i) {
      const int64_t row = RowOfTile(i);
      const int count = static_cast<int>(RowOfTile(i + 1) - row);
      job_.fill(job_.source, row, count, plan_.segments[s], rows_);
      tile_.rows = rows_.rows;
      tile_.row_stride = rows_.row_stride;
      tile_.taps = rows_.taps;
      tile_.tap_count = rows_.tap_count;
      tile_.depth = rows_.depth;
      tile_.row_offset = rows_.row_offset;
      if (plan_.kernels().widens) WidenRows(count);
      if (plan_.kernels().copy_rows != nullptr) tile_.even = AreEven(count) || MakeEven(count);
      float* sums = sums_ + (split ? (row - block_row) * width : 0);
      RunPanels(count, group, group_end, sums, AheadOf(s, group, next, i - first_tile_));
      if (tile_.last && (plan_.late() || plan_.curve != nullptr)) {
        const int64_t from = std::max(job_.column_begin, group * kPanelF32);
        const int64_t to = std::min(job_.column_end, group_end * kPanelF32);
        if (plan_.late()) {
          RoundRows(count, width, from, to - from, sums + (from - group * kPanelF32));
        } else {
          ActivateRows(count, to - from, static_cast<float*>(job_.y) + from);
        }
      }
    }
  }

  // Once for all panels that the rows are multiplied with.
  void WidenRows(int count) {
    const int64_t elements = 2 * rows_.depth;
    // A line more than a row has: rows that lie 4 KiB apart would evict each other.
    const int64_t step = rows_.tap_count * elements + kPanelF32;
    float* const wide = rows_room_ + kMaxWideRows * kRowCopyUnits;
    for (int r = 0; r < count; ++r) {
      float* const row = wide + r * step;
      for (int64_t t = 0; t < rows_.tap_count; ++t) {
        const void* const pairs = rows_.rows[t * rows_.row_stride + r] + rows_.taps[t].a;
        plan_.types.widen(static_cast<const uint16_t*>(pairs), row + t * elements, elements);
      }
    }
    for (int r = 0; r < count; ++r) rows_.rows[r] = wide + r * step;
    for (int64_t t = 0; t < rows_.tap_count; ++t) rows_.taps[t].a = t * elements;
    tile_.row_stride = 0;
  }

  // GemmTile::even.
  bool AreEven(int count) const {
    const bool fill = count % plan_.kernels().row_step == 0;
    if (count == 1 || (!fill && !plan_.types.copied)) return false;
    for (int64_t t = 0; t < (rows_.row_stride == 0 ? 1 : rows_.tap_count); ++t) {
      const float* const* rows = rows_.rows + t * rows_.row_stride;
      const auto at = [&](int r) { return reinterpret_cast<intptr_t>(rows[r]); };
      for (int r = 2; r < count; ++r) {
        if (at(r) - at(r - 1) != at(1) - at(0)) return false;
      }
    }
    return true;
  }
  // Copies them, once for all panels that they are multiplied with. Those that the source has
  // copied lie in the same room.
  bool MakeEven(int count) {
    const int64_t step = rows_.tap_count * rows_.depth + kPanelF32;
    if (plan_.types.copied || step > kRowCopyUnits) return false;
    plan_.kernels().copy_rows(tile_, count, rows_room_, step);
    for (int r = 0; r < std::max(count, 2); ++r) rows_.rows[r] = rows_room_ + r * step;
    for (int64_t t = 0; t < rows_.tap_count; ++t) rows_.taps[t].a = t * rows_.depth;
    tile_.row_stride = 0;
    return true;
  }

  // The register tiles of panels [panel, panel_end) for the rows in rows_. Their sums lie behind
  // each other, or, where they become rows in the end, beside each other.
  void RunPanels(int count, int64_t panel, int64_t panel_end, float* sums, Ahead ahead) {
    const bool y_bf16 = plan_.types.y_bf16, residual_bf16 = plan_.types.residual_bf16;
    const int64_t width = (panel_end - panel) * kPanelF32;
    while (panel < panel_end) {
      int panels = plan_.panels;
      while (panels > panel_end - panel) panels /= 2;
      const int64_t column = panel * kPanelF32;
      tile_.b = job_.b + panel * plan_.panel_stride;
      tile_.ahead = ahead.from == nullptr ? tile_.b : ahead.from;
      tile_.ahead_step = ahead.from == nullptr ? 0 : ahead.step;
      tile_.ahead_line = ahead.line;
      tile_.ahead_lines = ahead.from == nullptr ? 0 : ahead.lines;
      tile_.sums = sums;
      tile_.sums_step = plan_.late() ? width : panels * kPanelF32;
      tile_.y = At(job_.y, y_bf16, column);
      tile_.bias = job_.bias == nullptr ? nullptr : job_.bias + column;
      tile_.residual =
          job_.residual == nullptr ? nullptr : At(job_.residual, residual_bf16, column);
      tile_.column_begin = std::max<int64_t>(job_.column_begin - column, 0);
      tile_.column_end = std::min<int64_t>(job_.column_end - column, panels * kPanelF32);
      const GemmKernels& kernels = plan_.kernels();
      (plan_.lanes.empty() ? kernels.tile[panels][count] : kernels.lane_tile[count])(tile_);
      panel += panels;
      sums += (plan_.late() ? 1 : count) * panels * kPanelF32;
      ahead.from =
          ahead.panels == 0 || ahead.from == nullptr ? nullptr : ahead.from + panels * ahead.panels;
    }
  }

  // Where the B that follows segment `s` of the group [group, group_end) begins: the next segment
  // or the next group. Null when there is none or it is not worth it.
  const float* NextB(size_t s, int64_t group, int64_t group_end) const {
    if (plan_.k_stride == 0) return nullptr;
    if (s + 1 < plan_.segments.size()) {
      const GemmSegment& next = plan_.segments[s + 1];
      return job_.b + group * plan_.panel_stride + next.tap * plan_.k_stride + next.k * kPanelF32;
    }
    return group_end * kPanelF32 < job_.column_end ? job_.b + group_end * plan_.panel_stride
                                                   : nullptr;
  }

  // What row tile `i` fetches: one panel of each register tile of the next part. The very first one
  // fetches what it needs next itself. Where nothing is left of B, what the next row tile reads.
  Ahead AheadOf(size_t s, int64_t group, const float* next, int64_t i) const {
    if (plan_.walks && plan_.b_step == kPanelF32) {
      const GemmSegment& segment = plan_.segments[s];
      const float* const b = job_.b + group * plan_.panel_stride + segment.k * plan_.b_step;
      return {b + kWalkAhead / static_cast<int64_t>(sizeof(float)), kPanelF32, plan_.panel_stride,
              plan_.panel_stride};
    }
    if (plan_.kernels().copy_rows != nullptr) {
      // Lines asked for faster than they come would hold up those that tiles load.
      if (next == nullptr) return {};
      const GemmSegment& segment = plan_.segments[s];
      const int64_t tiles = end_tile_ - first_tile_, lines = segment.taps * segment.depth,
                    first = PartBegin(lines, tiles, i);
      return {next + first * kPanelF32, kPanelF32, plan_.panel_stride, plan_.panel_stride,
              PartBegin(lines, tiles, i + 1) - first};
    }
    const bool cold = group == begin_ && s == 0 && plan_.k_stride > 0;
    if (cold && i == 0)
      return {job_.b + (group + plan_.panels) * plan_.panel_stride, kPanelF32, plan_.panel_stride};
    const int64_t panel = cold ? i - 1 : i;
    if (next != nullptr && panel < plan_.panels)
      return {next + panel * plan_.panel_stride, kPanelF32, plan_.panel_stride};
    return {rows_.next, rows_.next_step, 0};
  }

  // The activation that is not piecewise linear, in place, on `columns` of float32 rows.
  void ActivateRows(int count, int64_t columns, float* y) const {
    for (int r = 0; r < count;) {
      int64_t run = columns;  // rows that follow each other without a gap are one
      int end = r + 1;
      for (; end < count && rows_.row_offset[end] == rows_.row_offset[r] + run; ++end)
        run += columns;
      plan_.curve(y + rows_.row_offset[r], run);
      r = end;
    }
  }

  // The same, where there is one, on sums, rows `step` apart, before they are rounded to `columns`
  // of y from `column`.
  void RoundRows(int count, int64_t step, int64_t column, int64_t columns, float* sums) const {
    const bool whole = columns == step;
    for (int r = 0; plan_.curve != nullptr && r < (whole ? 1 : count); ++r)
      plan_.curve(sums + r * step, whole ? columns * count : columns);
    auto* y = static_cast<uint16_t*>(job_.y) + column;
    for (int r = 0; r < count; ++r)
      plan_.types.narrow(sums + r * step, y + rows_.row_offset[r], columns);
  }

  const GemmPlan& plan_;
  const GemmJob& job_;
  int64_t first_tile_, end_tile_, begin_, end_;
  GemmTile tile_ = {};
  GemmRows rows_;
  alignas(64) float rows_room_[kMaxTileRowsF32 * kRowCopyUnits];
  alignas(64) float sums_[kSumsFloats];
};
// include/evoq/gemm.h promises 384 KiB for a product, of which the register tiles take some.
static_assert(sizeof(Task) <= 352 << 10);

}  // namespace

void DenseRowsF32::Fill(const void* source, int64_t first, int count, const GemmSegment& segment,
                        GemmRows& tile) {
  const DenseRowsF32& rows = *static_cast<const DenseRowsF32*>(source);
  for (int r = 0; r < count; ++r) {
    tile.rows[r] = rows.a + (first + r) * rows.a_stride + segment.k;
    tile.row_offset[r] = (first + r) * rows.y_stride;
  }
  tile.row_stride = 0;
  tile.next = segment.depth == rows.a_stride ? tile.rows[0] + count * rows.a_stride : nullptr;
  tile.next_step = RoundUp(count, kPanelF32);
  tile.taps[0] = {0, segment.k * rows.b_step};
  tile.tap_count = segment.taps;
  tile.depth = segment.depth;
}

void RunGemmTask(const GemmPlan& plan, const GemmJob& job, int64_t task) {
  Task(plan, job, task).Run();
}

}  // namespace evoq
