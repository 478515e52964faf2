// Tiles of AMX for integer products: four registers of 16 x 16 sums, as 32 rows x 2 panels, 16 x 4
// or 64 x 1. The packed panels are the right operand as they lie. Included by instruction-set
// files, for a `Unit` of kernels/amx/config.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <new>

#include "kernels/amx/tiles.inl.h"
#include "kernels/gemm/gemm_int8_tile.h"

namespace evoq {
namespace {

// How many groups of four a step along K takes. Steps end where taps end, so that they are read
// where they lie; where that would leave half of a tile empty, all taps are one row, cut evenly.
constexpr int StepGroups(int64_t taps, int64_t groups_of_4) {
  for (int groups = 16; groups >= 8; --groups) {
    if (groups_of_4 % groups == 0) return groups;
  }
  const int64_t all = taps * groups_of_4, steps = (all + 15) / 16;
  return static_cast<int>((all + steps - 1) / steps);
}
static_assert(StepGroups(9, 16) == 16 && StepGroups(1, 192) == 16 && StepGroups(9, 20) == 10);
static_assert(StepGroups(1, 9) == 9 && StepGroups(7, 7) == 13 && StepGroups(3, 3) == 9);

// What the tiles of a task share. A tile is finished while the next one, whose sums are registers
// until then, is computed.
struct alignas(64) Task {
  int32_t sums[4 * kAmxRows * 16];
  int step_groups;  // groups of four that a step takes
  Int8Tile left;    // the rows of the tile before that are not finished
  int32_t* left_sums;
};
static_assert(sizeof(Task) <= kInt8TaskBytes);

inline Task& TaskOf(const Int8Tile& tile) { return *static_cast<Task*>(tile.task); }

// Finishes so many of the rows that are left, a multiple of four so that their sums are whole fours
// of vectors, or all of them.
[[gnu::noinline]] void FinishRows(Task& task, int rows) {
  Int8Tile& left = task.left;
  const int all = left.row_count, now = rows < all ? rows : all;
  if (now == 0) return;
  left.row_count = now;
  FinishInt8Avx512(left, task.left_sums);
  left.row_count = all - now;
  left.y += now * left.y_stride;
  if (left.residual != nullptr) left.residual += now * left.residual_stride;
  if (left.row_sums != nullptr) left.row_sums += now;
  task.left_sums += now * left.panel_count * 16;
}

void FlushTask(std::byte* room) {
  Task& task = *reinterpret_cast<Task*>(room);
  FinishRows(task, task.left.row_count);
}

template <typename Unit>
void BeginTask(Int8Tile& tile, std::byte* room) {
  auto* const task = new (room) Task;
  task->step_groups = StepGroups(tile.taps, tile.groups_of_4);
  task->left.row_count = 0;
  tile.task = task;
  Unit::Configure(AmxConfigOf(task->step_groups));
}

template <typename Unit>
void EndTask(std::byte* room) {
  FlushTask(room);
  Unit::Release();
}

// What a step takes of one tap.
struct Piece {
  int64_t tap;
  int64_t offset;   // from the row's pointer to where the step's first group would be
  __mmask16 words;  // the groups of four of the step
};

// A step along K: step_groups groups of four, or what is left of them.
struct Step {
  Piece pieces[kAmxRows];
  int count;
  int groups;  // of the step
  bool whole;  // all of step_groups
};

// Cuts a tile's K into steps.
class Steps {
 public:
  explicit Steps(const Int8Tile& tile)
      : tile_(tile), step_groups_(TaskOf(tile).step_groups), left_(tile.taps * tile.groups_of_4) {}

  int count() const { return static_cast<int>((left_ + step_groups_ - 1) / step_groups_); }

  [[gnu::noinline]] bool Next(Step& step) {
    if (left_ == 0) return false;
    step.groups = left_ < step_groups_ ? static_cast<int>(left_) : step_groups_;
    step.whole = step.groups == step_groups_;
    step.count = 0;
    left_ -= step.groups;
    for (int before = 0; before < step.groups;) {
      const int64_t here = tile_.groups_of_4 - group_, wanted = step.groups - before;
      const int words = static_cast<int>(wanted < here ? wanted : here);
      const int64_t tap_offset = tile_.tap_offsets != nullptr ? tile_.tap_offsets[tap_] : 0;
      step.pieces[step.count++] = {tap_, tile_.x_offset + tap_offset + 4 * (group_ - before),
                                   static_cast<__mmask16>(((1u << words) - 1) << before)};
      before += words;
      group_ += words;
      if (group_ == tile_.groups_of_4) group_ = 0, ++tap_;
    }
    return true;
  }

 private:
  const Int8Tile& tile_;
  const int step_groups_;
  int64_t left_, tap_ = 0, group_ = 0;
};

// The step's bytes of 16 rows, with zeros behind them; of fewer rows, the last one again.
[[gnu::noinline]] void Gather(const Int8Tile& tile, const Step& step, int row, uint8_t* to) {
  const int last = tile.row_count - 1;
  const Piece& first = step.pieces[0];
  if (step.count == 1 && row + kAmxRows <= tile.row_count) {
    const uint8_t* const* rows = tile.rows + first.tap * tile.row_stride + row;
#pragma GCC unroll 16
    for (int r = 0; r < kAmxRows; ++r)
      _mm512_store_si512(to + r * kAmxRowBytes,
                         _mm512_maskz_loadu_epi32(first.words, rows[r] + first.offset));
    return;
  }
  for (int r = 0; r < kAmxRows; ++r, to += kAmxRowBytes) {
    const int at = row + r < last ? row + r : last;
    __m512i bytes = _mm512_setzero_si512();
    for (int i = 0; i < step.count; ++i) {
      const Piece& piece = step.pieces[i];
      const uint8_t* from = tile.rows[piece.tap * tile.row_stride + at];
      bytes = _mm512_mask_loadu_epi32(bytes, piece.words, from + piece.offset);
    }
    _mm512_store_si512(to, bytes);
  }
}

// The step's groups of a panel, with zeros behind those that it has not.
[[gnu::noinline]] void PadPanel(const Step& step, const int8_t* w, int8_t* to) {
  for (int64_t k = 0; k < kAmxRows; ++k)
    _mm512_store_si512(to + k * kAmxRowBytes, k < step.groups
                                                  ? _mm512_load_si512(w + k * kAmxRowBytes)
                                                  : _mm512_setzero_si512());
}

// Where the operands of a step's products lie, in place or in a buffer.
template <int kRowTiles, int kPanels>
struct Operands {
  alignas(64) uint8_t row_room[kRowTiles][kAmxRows * kAmxRowBytes];
  alignas(64) int8_t panel_room[kPanels][kAmxRows * kAmxRowBytes];
  const uint8_t* rows[kRowTiles];
  int64_t stride[kRowTiles];
  const int8_t* panels[kPanels];

  // `w`: the step's groups of the first panel.
  [[gnu::noinline]] void Prepare(const Int8Tile& tile, const Step& step, const int8_t* w) {
    for (int m = 0; m < kRowTiles; ++m) {
      const Piece& piece = step.pieces[0];
      const int row = kAmxRows * m;
      const uint8_t* const* from = tile.rows + piece.tap * tile.row_stride + row;
      if (step.whole && step.count == 1 && row + kAmxRows <= tile.row_count &&
          OneStride(from, stride[m])) {
        rows[m] = from[0] + piece.offset;
        continue;
      }
      Gather(tile, step, row, row_room[m]);
      rows[m] = row_room[m];
      stride[m] = kAmxRowBytes;
    }
    for (int p = 0; p < kPanels; ++p) {
      panels[p] = w + p * tile.panel_bytes;
      if (step.whole) continue;
      PadPanel(step, panels[p], panel_room[p]);
      panels[p] = panel_room[p];
    }
  }
};

// Each load comes right before the first product that needs it, so that products hide the others,
// and the end of the tile before. What is gathered is gathered a step ahead: a register's load may
// have to wait until what was stored has reached the cache.
template <typename Unit, int kRowTiles, int kPanels>
void Tile(const Int8Tile& tile) {
  Operands<kRowTiles, kPanels> both[2];
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kSumTile<kPanels, kM, kP>>(tile.bias + 16 * kP, 0);
    });
  });
  Task& task = TaskOf(tile);
  Steps steps(tile);
  Step step;
  const int8_t* w = tile.weights;
  const int rows_a_step = (task.left.row_count / steps.count() + 8) & ~7;
  steps.Next(step);
  both[0].Prepare(tile, step, w);
  for (int at = 0, more = 1; more != 0; at ^= 1) {
#pragma GCC unroll 1
    for (int i = 0; tile.prefetch != 0 && i < step.groups; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(w) + tile.prefetch + i * kAmxRowBytes,
                   _MM_HINT_T1);
    more = steps.Next(step);
    w += task.step_groups * kAmxRowBytes;
    if (more != 0) both[at ^ 1].Prepare(tile, step, w);
    const Operands<kRowTiles, kPanels>& now = both[at];
    Unrolled<kRowTiles>([&](auto m) {
      constexpr int kM = m, kRow = kRowTile + kM % 2;
      Unit::template Load<kRow>(now.rows[kM], now.stride[kM]);
      Unrolled<kPanels>([&](auto p) {
        constexpr int kP = p, kPanel = kPanelTile + kP % 2;
        if constexpr (kM == 0) Unit::template Load<kPanel>(now.panels[kP], kAmxRowBytes);
        Unit::template DotU8S8<kSumTile<kPanels, kM, kP>, kRow, kPanel>();
      });
    });
    FinishRows(task, rows_a_step);
  }
  FinishRows(task, task.left.row_count);
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Store<kSumTile<kPanels, kM, kP>>(
          task.sums + 16 * (kAmxRows * kM * kPanels + kP), kAmxRowBytes * kPanels);
    });
  });
  task.left = tile;
  task.left_sums = task.sums;
}

template <typename Unit>
void RunTile(const Int8Tile& tile) {
  const int rows = (tile.row_count + kAmxRows - 1) / kAmxRows;
  if (tile.panel_count == 4) return Tile<Unit, 1, 4>(tile);
  if (tile.panel_count == 2) return rows == 1 ? Tile<Unit, 1, 2>(tile) : Tile<Unit, 2, 2>(tile);
  constexpr void (*kTall[])(const Int8Tile&) = {Tile<Unit, 1, 1>, Tile<Unit, 2, 1>,
                                                Tile<Unit, 3, 1>, Tile<Unit, 4, 1>};
  kTall[rows - 1](tile);
}

template <typename Unit>
constexpr Int8TileDef DefOf(const char* name) {
  return {.name = name,
          .max_panels = 4,
          .max_rows = {0, 64, 32, 16, 16},
          .takes_lanes = false,
          .takes_range = true,
          .run = RunTile<Unit>,
          .rows = &kInt8RowsAvx512,
          .row_step = kAmxRows,
          .begin = BeginTask<Unit>,
          .flush = FlushTask,
          .end = EndTask<Unit>,
          .small = &kInt8TileAvx512,
          .least_rows = 5,
          .least_depth = 32};
}

}  // namespace
}  // namespace evoq
