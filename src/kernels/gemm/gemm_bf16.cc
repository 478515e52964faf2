#include "kernels/gemm/gemm_bf16.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "kernels/call_util.h"

namespace evoq {
namespace {

constexpr int64_t kSumsFloats = 32 << 10;  // of one task, on its stack

// Index of the first of `count` items that part `i` of `parts` equal parts has.
int64_t PartBegin(int64_t count, int64_t parts, int64_t i) {
  return count / parts * i + std::min(i, count % parts);
}

void SetActivation(const Activation& activation, GemmTileBf16& tile) {
  tile.low = activation.alpha;
  tile.high = activation.beta;
  switch (activation.kind) {
    case ActivationKind::kRelu: tile.activation = TileActivationF32::kRelu; break;
    case ActivationKind::kClip: tile.activation = TileActivationF32::kClamp; break;
    case ActivationKind::kLeakyRelu: tile.activation = TileActivationF32::kLeaky; break;
    default: tile.activation = TileActivationF32::kNone; break;
  }
}

// One task: a block of rows by a block of columns.
class Task {
 public:
  Task(const GemmPlanBf16& plan, const GemmJobBf16& job, int64_t task)
      : plan_(plan), blocks_(plan.blocks), job_(job) {
    const int64_t row_block = task / blocks_.column_blocks,
                  column_block = task % blocks_.column_blocks;
    first_tile_ = PartBegin(blocks_.tiles, blocks_.row_blocks, row_block);
    end_tile_ = PartBegin(blocks_.tiles, blocks_.row_blocks, row_block + 1);
    // Blocks of columns begin at multiples of the register tile's width, counted from the job's
    // first panel.
    const int64_t first_panel = job.column_begin / kPanelF32,
                  end_panel = CeilDiv(job.column_end, kPanelF32);
    const int64_t units = CeilDiv(end_panel - first_panel, blocks_.panels);
    begin_ = first_panel + PartBegin(units, blocks_.column_blocks, column_block) * blocks_.panels;
    end_ = std::min(
        end_panel,
        first_panel + PartBegin(units, blocks_.column_blocks, column_block + 1) * blocks_.panels);
    tile_.panel_stride = blocks_.panel_stride;
    tile_.residual_bf16 = plan.residual_bf16;
    SetActivation(blocks_.activation, tile_);
  }

  void Run() {
    if (first_tile_ == end_tile_) return;  // no rows
    for (int64_t group = begin_; group < end_; group += plan_.group_panels) {
      const int64_t group_end = std::min(end_, group + plan_.group_panels);
      for (size_t s = 0; s < blocks_.segments.size(); ++s) RunSegment(group, group_end, s);
    }
  }

 private:
  bool Split() const { return blocks_.segments.size() > 1; }

  void RunSegment(int64_t group, int64_t group_end, size_t s) {
    const bool late = blocks_.curve != nullptr;
    tile_.accumulate = s > 0;
    tile_.last = s + 1 == blocks_.segments.size();
    tile_.output = !tile_.last || late ? TileOutputBf16::kSums
                   : plan_.y_bf16      ? TileOutputBf16::kBfloat16
                                       : TileOutputBf16::kFloat32;
    tile_.sums_step = (group_end - group) * kPanelF32;
    const float* next = NextB(s, group, group_end);
    const int64_t block_row = PartBegin(blocks_.rows, blocks_.tiles, first_tile_);
    for (int64_t i = first_tile_; i < end_tile_; ++i) {
      const int64_t row = PartBegin(blocks_.rows, blocks_.tiles, i);
      const int count = static_cast<int>(PartBegin(blocks_.rows, blocks_.tiles, i + 1) - row);
      job_.fill(job_.source, row, count, blocks_.segments[s], rows_, copy_);
      float* sums = sums_ + (Split() ? (row - block_row) * tile_.sums_step : 0);
      RunPanels(count, group, group_end, sums, Ahead(s, group, next, i - first_tile_));
      if (tile_.last && late) FinishRows(count, group, group_end, sums);
    }
  }

  // The register tiles of panels [panel, panel_end) for the rows in rows_. Where `ahead` is not
  // null, the panels there are fetched meanwhile.
  void RunPanels(int count, int64_t panel, int64_t panel_end, float* sums, const float* ahead) {
    tile_.rows = rows_.rows;
    tile_.row_stride = rows_.row_stride;
    tile_.taps = rows_.taps;
    tile_.tap_count = rows_.tap_count;
    tile_.depth = rows_.depth;
    tile_.row_offset = rows_.row_offset;
    tile_.ahead_step = ahead == nullptr ? 0 : kPanelF32;
    while (panel < panel_end) {
      int panels = blocks_.panels;
      while (panels > panel_end - panel) panels /= 2;
      const int64_t column = panel * kPanelF32;
      tile_.b = job_.b + panel * blocks_.panel_stride;
      tile_.ahead = ahead == nullptr ? tile_.b : ahead;
      tile_.sums = sums;
      tile_.y = OffsetBf16(job_.y, plan_.y_bf16, column);
      tile_.bias = job_.bias == nullptr ? nullptr : job_.bias + column;
      tile_.residual = job_.residual == nullptr
                           ? nullptr
                           : OffsetBf16(job_.residual, plan_.residual_bf16, column);
      tile_.column_begin = std::max<int64_t>(job_.column_begin - column, 0);
      tile_.column_end = std::min<int64_t>(job_.column_end - column, panels * kPanelF32);
      plan_.kernels->tile[panels][count](tile_);
      panel += panels;
      sums += panels * kPanelF32;
      if (ahead != nullptr) ahead += panels * blocks_.panel_stride;
    }
  }

  // Where the B that follows segment `s` of the group begins: the next segment or the next group.
  // Null when there is none or it is not worth it.
  const float* NextB(size_t s, int64_t group, int64_t group_end) const {
    if (blocks_.k_stride == 0) return nullptr;
    if (s + 1 < blocks_.segments.size()) {
      const SegmentF32& next = blocks_.segments[s + 1];
      return job_.b + group * blocks_.panel_stride + next.tap * blocks_.k_stride +
             next.k * kPanelF32;
    }
    return group_end * kPanelF32 < job_.column_end ? job_.b + group_end * blocks_.panel_stride
                                                   : nullptr;
  }

  // What row tile `i` fetches: one panel of each register tile of the next part. The very first one
  // fetches what it needs next itself.
  const float* Ahead(size_t s, int64_t group, const float* next, int64_t i) const {
    const bool cold = group == begin_ && s == 0 && blocks_.k_stride > 0;
    if (cold && i == 0) return job_.b + (group + blocks_.panels) * blocks_.panel_stride;
    const int64_t panel = cold ? i - 1 : i;
    return next != nullptr && panel < blocks_.panels ? next + panel * blocks_.panel_stride
                                                     : nullptr;
  }

  // The activation that is not piecewise linear, and the rounding.
  void FinishRows(int count, int64_t group, int64_t group_end, float* sums) const {
    const int64_t from = std::max(job_.column_begin, group * kPanelF32),
                  to = std::min(job_.column_end, group_end * kPanelF32);
    const int64_t n = to - from, step = tile_.sums_step;
    float* first = sums + (from - group * kPanelF32);
    for (int r = 0; r < (n == step ? 1 : count); ++r)
      blocks_.curve(first + r * step, n == step ? n * count : n);
    for (int r = 0; r < count; ++r) {
      void* y = OffsetBf16(job_.y, plan_.y_bf16, rows_.row_offset[r] + from);
      if (plan_.y_bf16) {
        plan_.narrow(first + r * step, static_cast<uint16_t*>(y), n);
      } else {
        std::memcpy(y, first + r * step, static_cast<size_t>(n) * sizeof(float));
      }
    }
  }

  const GemmPlanBf16& plan_;
  const GemmPlanF32& blocks_;
  const GemmJobBf16& job_;
  int64_t first_tile_, end_tile_, begin_, end_;
  GemmTileBf16 tile_ = {};
  TileRowsF32 rows_;
  alignas(64) float copy_[kMaxTileRowsF32 * kCopyStrideBf16];
  alignas(64) float sums_[kSumsFloats];
};

}  // namespace

GemmPlanBf16 PlanGemmBf16(const GemmSizesF32& sizes, bool copied, const KernelCall& call,
                          const Activation& activation, Isa isa, int threads) {
  GemmPlanBf16 plan;
  // Blocks of the instruction set whose tiles these are: machines with AVX-512 but without its
  // bfloat16 products take those of AVX2.
  const IsaRow<GemmKernelsBf16>& row = RowFor(kGemmRowsBf16, isa);
  plan.kernels = row.table;
  plan.blocks = PlanGemmF32(sizes, activation, row.needs, threads);
  GemmPlanF32& blocks = plan.blocks;
  EVOQ_CHECK(
      blocks.kernels->rows == plan.kernels->rows && blocks.kernels->panels == plan.kernels->panels,
      "{} beside {}", plan.kernels->name, blocks.kernels->name);
  if (copied) {
    SegmentF32 all = blocks.segments.front();
    if (all.depth > kMaxDepthF32) {
      blocks.segments.clear();
      for (int64_t k = 0; k < sizes.depth; k += kMaxDepthF32)
        blocks.segments.push_back({0, 1, k, std::min(kMaxDepthF32, sizes.depth - k)});
    }
  }
  plan.narrow = Bf16TableFor(isa).narrow;
  plan.y_bf16 = call.outputs[0].dtype == DType::kBfloat16;
  plan.residual_bf16 = call.has_input(3) && call.inputs[3].dtype == DType::kBfloat16;
  // The sums of a task's rows (of one tile when K is not cut) by a group's columns fit the stack.
  const int64_t tile_rows =
      std::max<int64_t>(CeilDiv(sizes.rows, std::max<int64_t>(blocks.tiles, 1)), 1);
  const int64_t tiles = blocks.segments.size() > 1 ? CeilDiv(blocks.tiles, blocks.row_blocks) : 1;
  const int64_t most =
      kSumsFloats / (tiles * tile_rows * kPanelF32) / blocks.panels * blocks.panels;
  EVOQ_CHECK(most >= blocks.panels, "{} rows in a task", tiles * tile_rows);
  plan.group_panels = std::min(blocks.group_panels, most);
  return plan;
}

void RunGemmTaskBf16(const GemmPlanBf16& plan, const GemmJobBf16& job, int64_t task) {
  Task(plan, job, task).Run();
}

std::optional<Rejection> RejectTypesBf16(const KernelCall& call) {
  if (call.outputs.size() != 1 || !call.has_input(0) || !call.has_input(1))
    return Reject("shape", "{} inputs and {} outputs, expected x, w and y", call.inputs.size(),
                  call.outputs.size());
  for (size_t i : {0, 1}) {
    if (!PlainBf16(call.inputs[i]))
      return Reject("types", "input {} is {}, expected bfloat16", i, call.inputs[i].ToString());
  }
  if (call.has_input(2) && !PlainFloat(call.inputs[2]))
    return Reject("types", "the bias is {}, expected float32", call.inputs[2].ToString());
  if (call.has_input(3) && !PlainBf16(call.inputs[3]) && !PlainFloat(call.inputs[3]))
    return Reject("types", "the residual is {}, expected bfloat16 or float32",
                  call.inputs[3].ToString());
  if (!PlainBf16(call.outputs[0]) && !PlainFloat(call.outputs[0]))
    return Reject("types", "output {}, expected bfloat16 or float32", call.outputs[0].ToString());
  return std::nullopt;
}

}  // namespace evoq
