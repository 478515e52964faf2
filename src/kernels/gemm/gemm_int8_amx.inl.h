// Tiles of AMX for integer products: four registers of 16 x 16 sums, as 32 rows x 2 panels, 16 x 4
// or 64 x 1. The packed panels are the right operand as they lie. Included by instruction-set
// files, for a `Unit` of kernels/amx/config.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <new>

#include "kernels/amx/tiles.inl.h"
#include "kernels/gemm/gemm_int8_finish_avx512.inl.h"
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
  int32_t sums[2][4 * kAmxRows * 16];       // of a tile and of the one before
  int8_t ends[4][kAmxRows * kAmxRowBytes];  // the last steps of `ends_of`'s first ends_count panels
  const int8_t* ends_of;
  int ends_count;
  int step_groups;  // groups of four that a step takes
  int turn;         // whose sums come next
  // Rows that are not finished: of the tile, whose row 0 it is, and what belongs to the next row.
  Int8Tile tiles[2];
  const Int8Tile* tile;  // one of them
  int row, rows;
  const int32_t* left;
};
static_assert(sizeof(Task) <= kInt8TaskBytes);

inline Task& TaskOf(const Int8Tile& tile) { return *static_cast<Task*>(tile.task); }

// Where a tile stays until its rows are finished. Those of the one before are in the other place.
inline const Int8Tile& Kept(Task& task, const Int8Tile& tile) {
  Int8Tile& place = task.tiles[task.tile == &task.tiles[0] ? 1 : 0];
  place = tile;
  return place;
}

// Leaves rows [row, row + rows) of a tile that is kept. There are none left before.
[[gnu::always_inline]] inline void Leave(Task& task, const Int8Tile& kept, int row, int rows,
                                         const int32_t* sums) {
  task.tile = &kept;
  task.row = row;
  task.rows = rows;
  task.left = sums;
}

// `rows` rows of two panels, all of whose columns are stored, as bytes: two rows at a time. All
// that a tile says is read before anything is stored, which might change it; so this is not made of
// AddByteResidual and Narrow, with which pieces of eight rows take a tenth longer.
enum class Added { kNothing, kUint8, kInt8 };  // Int8Tile::residual_type
template <Added kAdded, bool kClamp>
[[gnu::noinline]] void FinishPairs(const Int8Tile& tile, int row, int rows, const int32_t* sums) {
  constexpr bool kAdds = kAdded != Added::kNothing;
  const ByteEnds ends(tile);
  const __m512 multipliers[2] = {_mm512_loadu_ps(tile.multiplier),
                                 _mm512_loadu_ps(tile.multiplier + 16)};
  const __m512i zeros = _mm512_set1_epi16(ends.zero), low = _mm512_set1_epi8(ends.low),
                high = _mm512_set1_epi8(ends.high), flip = _mm512_set1_epi8(ends.flip);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i added_zero = _mm512_set1_epi32(tile.residual_zero);
  const __m512 added_by = _mm512_set1_ps(tile.residual_multiplier);
  const int64_t y_stride = tile.y_stride, added_stride = tile.residual_stride;
  uint8_t* y = tile.y + row * y_stride;
  const uint8_t* added = kAdds ? tile.residual + row * added_stride : nullptr;
  for (int r = 0; r < rows; r += 2, sums += 64, y += 2 * y_stride) {
    const bool both = r + 1 < rows;
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      __m512 v =
          _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums + 16 * i)), multipliers[i % 2]);
      if constexpr (kAdds) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(
            added + (both ? i / 2 * added_stride : 0) + i % 2 * 16));
        const __m512i ints =
            kAdded == Added::kUint8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes);
        const __m512 real = _mm512_cvtepi32_ps(_mm512_sub_epi32(ints, added_zero));
        v = _mm512_add_ps(v, _mm512_mul_ps(real, added_by));
      }
      q[i] = _mm512_cvtps_epi32(v);
    }
    const __m512i q01 = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zeros);
    const __m512i q23 = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zeros);
    __m512i bytes = _mm512_packus_epi16(q01, q23);
    if constexpr (kClamp) {
      bytes = _mm512_min_epu8(_mm512_max_epu8(bytes, low), high);
      bytes = _mm512_xor_si512(bytes, flip);
    }
    bytes = _mm512_permutexvar_epi32(order, bytes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(bytes));
    if (both)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + y_stride),
                          _mm512_extracti64x4_epi64(bytes, 1));
    if constexpr (kAdds) added += 2 * added_stride;
  }
}

// Whether FinishPairs does it: then it is done.
bool FinishedPairs(const Int8Tile& tile, int row, int rows, const int32_t* sums) {
  if (tile.panel_count != 2 || tile.w_zero != nullptr || tile.slopes != nullptr) return false;
  const End end = EndOf(tile);
  if (end != End::kBytes && end != End::kBytesWithResidual) return false;
  const auto finish = [&](auto clamp) {
    constexpr bool kClamp = clamp;
    const auto f = end == End::kBytes ? FinishPairs<Added::kNothing, kClamp>
                   : tile.residual_type == Int8Residual::kUint8 ? FinishPairs<Added::kUint8, kClamp>
                                                                : FinishPairs<Added::kInt8, kClamp>;
    f(tile, row, rows, sums);
  };
  ByteEnds(tile).clamp ? finish(std::true_type()) : finish(std::false_type());
  return true;
}

// Finishes so many of the rows that are left, a multiple of four so that their sums are whole fours
// of vectors, or all of them.
[[gnu::noinline]] void FinishRows(Task& task, int rows) {
  const Int8Tile& tile = *task.tile;
  const int now = rows < task.rows ? rows : task.rows;
  if (now == 0) return;
  if (!FinishedPairs(tile, task.row, now, task.left)) {
    Int8Tile part = tile;
    part.row_count = now;
    part.y += task.row * tile.y_stride;
    if (tile.residual != nullptr) part.residual += task.row * tile.residual_stride;
    if (tile.row_sums != nullptr) part.row_sums += task.row;
    FinishInt8Avx512(part, const_cast<int32_t*>(task.left));
  }
  task.row += now;
  task.rows -= now;
  task.left += now * tile.panel_count * 16;
}

void FlushTask(std::byte* room) {
  Task& task = *reinterpret_cast<Task*>(room);
  FinishRows(task, task.rows);
}

template <typename Unit>
void BeginTask(Int8Tile& tile, std::byte* room) {
  auto* const task = new (room) Task;
  task->step_groups = tile.padded ? kAmxRows : StepGroups(tile.taps, tile.groups_of_4);
  task->ends_of = nullptr;
  task->ends_count = 0;
  task->turn = 0;
  task->tile = task->tiles;
  task->rows = 0;
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

// `bytes`, a multiple of four. What lies behind them up to 32 may be written.
[[gnu::always_inline]] inline void CopyBytes(const uint8_t* from, int64_t bytes, __mmask16 last,
                                             uint8_t* to) {
  if (bytes <= 32) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_castsi512_si256(_mm512_maskz_loadu_epi32(last, from)));
    return;
  }
  int64_t i = 0;
  for (; i + kAmxRowBytes <= bytes; i += kAmxRowBytes)
    _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
  if (i < bytes) _mm512_mask_storeu_epi32(to + i, last, _mm512_maskz_loadu_epi32(last, from + i));
}

// All taps of the tile's rows, one behind the other: row by row where rows have offsets, else tap
// by tap. The next row, or room behind the last one, takes what CopyBytes writes behind a row.
void CopyRows(const Int8Tile& tile, uint8_t* to, int64_t stride) {
  const int64_t bytes = 4 * tile.groups_of_4, taps = tile.taps, offset = tile.x_offset;
  const auto last = static_cast<__mmask16>((1u << ((bytes / 4 - 1) % 16 + 1)) - 1);
  const uint8_t* const* const rows = tile.rows;
  const int64_t* const offsets = tile.tap_offsets;
  const int count = tile.row_count;
  for (int r = 0; offsets != nullptr && r < count; ++r, to += stride) {
    const uint8_t* const row = rows[r] + offset;
    for (int64_t tap = 0; tap < taps; ++tap)
      CopyBytes(row + offsets[tap], bytes, last, to + tap * bytes);
  }
  const int64_t row_stride = tile.row_stride;
  for (int r = 0; offsets == nullptr && r < count; ++r, to += stride) {
    for (int64_t tap = 0; tap < taps; ++tap)
      CopyBytes(rows[tap * row_stride + r] + offset, bytes, last, to + tap * bytes);
  }
}

// What a step's products are made of: in place where rows lie at one distance from each other, or
// in a buffer that is made a step ahead, since a register's load may have to wait until what was
// stored has reached the cache.
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

template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void LoadBias(const Int8Tile& tile) {
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kSumTile<kPanels, kM, kP>>(tile.bias + 16 * kP, 0);
    });
  });
}

template <typename Unit, int kRowTiles, int kPanels>
[[gnu::always_inline]] inline void StoreSums(int32_t* sums) {
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Store<kSumTile<kPanels, kM, kP>>(sums + 16 * (kAmxRows * kM * kPanels + kP),
                                                      kAmxRowBytes * kPanels);
    });
  });
}

// The products of a step: rows(m, register) and panel(p, register) load, right before the first
// product that needs it.
template <typename Unit, int kRowTiles, int kPanels, typename Rows, typename Panel>
[[gnu::always_inline]] inline void Multiply(const Rows& rows, const Panel& panel) {
  Unrolled<kRowTiles>([&](auto m) {
    constexpr int kM = m, kRow = kRowTile + kM % 2;
    rows(m, std::integral_constant<int, kRow>());
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p, kPanel = kPanelTile + kP % 2;
      if constexpr (kM == 0) panel(p, std::integral_constant<int, kPanel>());
      Unit::template DotU8S8<kSumTile<kPanels, kM, kP>, kRow, kPanel>();
    });
  });
}

[[gnu::always_inline]] inline void Prefetch(const int8_t* w, int64_t ahead, int lines) {
#pragma GCC unroll 1
  for (int i = 0; ahead != 0 && i < lines; ++i)
    _mm_prefetch(reinterpret_cast<const char*>(w) + ahead + i * kAmxRowBytes, _MM_HINT_T1);
}

// What follows a step's products: a part of the rows that are left.
inline int PartOfRows(const Task& task, int64_t parts) {
  return static_cast<int>((task.rows / parts + 8) & ~7);
}

// A tile of rows that lie anywhere.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::noinline]] void AnyTile(const Int8Tile& tile) {
  Operands<kRowTiles, kPanels> both[2];
  LoadBias<Unit, kRowTiles, kPanels>(tile);
  Task& task = TaskOf(tile);
  Steps steps(tile);
  Step step;
  const int8_t* w = tile.weights;
  const int part = PartOfRows(task, steps.count());
  steps.Next(step);
  both[0].Prepare(tile, step, w);
  for (int at = 0, more = 1; more != 0; at ^= 1) {
    Prefetch(w, tile.prefetch, step.groups);
    more = steps.Next(step);
    w += task.step_groups * kAmxRowBytes;
    if (more != 0) both[at ^ 1].Prepare(tile, step, w);
    const Operands<kRowTiles, kPanels>& now = both[at];
    Multiply<Unit, kRowTiles, kPanels>(
        [&](auto m, auto to) {
          constexpr int kTo = to;
          Unit::template Load<kTo>(now.rows[m], now.stride[m]);
        },
        [&](auto p, auto to) {
          constexpr int kTo = to;
          Unit::template Load<kTo>(now.panels[p], kAmxRowBytes);
        });
    FinishRows(task, part);
  }
  FinishRows(task, task.rows);
  int32_t* const sums = task.sums[task.turn];
  StoreSums<Unit, kRowTiles, kPanels>(sums);
  Leave(task, Kept(task, tile), 0, tile.row_count, sums);
  task.turn ^= 1;
}

// The steps of a panel's K, the last of which may have fewer groups: so it is copied to the task.
template <int kPanels>
struct PaddedSteps {
  int64_t count;      // of all
  const int8_t* w;    // the first panel
  const int8_t* end;  // of its last step
  int64_t panel_bytes, end_bytes;

  PaddedSteps(const Int8Tile& tile, Task& task)
      : count((tile.groups_of_4 + kAmxRows - 1) / kAmxRows),
        w(tile.weights),
        end(w + (count - 1) * kAmxRows * kAmxRowBytes),
        panel_bytes(tile.panel_bytes),
        end_bytes(panel_bytes) {
    const int64_t rest = tile.groups_of_4 % kAmxRows;
    if (rest == 0) return;
    if (task.ends_of != end || task.ends_count < kPanels) {
      Step step;
      step.groups = static_cast<int>(rest);
      for (int p = 0; p < kPanels; ++p) PadPanel(step, end + p * panel_bytes, task.ends[p]);
      task.ends_of = end;
      task.ends_count = kPanels;
    }
    end = task.ends[0];
    end_bytes = sizeof(task.ends[0]);
  }
  const int8_t* Panel(int64_t step, int p) const {
    return step + 1 < count ? w + step * (kAmxRows * kAmxRowBytes) + p * panel_bytes
                            : end + p * end_bytes;
  }
};

// The lines of the panels that come next, to be fetched beside `steps` steps.
struct Ahead {
  const int8_t *at = nullptr, *end = nullptr;
  int64_t bytes = 0;  // a step

  Ahead(const Int8Tile& tile, int64_t steps) {
    if (tile.prefetch == 0) return;
    at = tile.weights + tile.prefetch;
    end = at + tile.prefetch_line;
    const int64_t lines = (tile.prefetch_line + kAmxRowBytes - 1) / kAmxRowBytes;
    bytes = (lines + steps - 1) / steps * kAmxRowBytes;
  }
  [[gnu::always_inline]] inline void Fetch() {
    const int8_t* const to = end - at < bytes ? end : at + bytes;
#pragma GCC unroll 1
    for (; at < to; at += kAmxRowBytes)
      _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
  }
};

// `count` x 16 kRowTiles rows of a padded tile from `row` on. Everything comes a step ahead, before
// rows of the tile before are finished: behind them it would wait until the processor has room for
// it.
template <typename Unit, int kRowTiles, int kPanels>
[[gnu::noinline]] void PaddedTiles(const Int8Tile& tile, int row, int count, Ahead& ahead) {
  constexpr int kRows = kAmxRows * kRowTiles;
  Task& task = TaskOf(tile);
  const PaddedSteps<kPanels> steps(tile, task);
  const bool panels_pass = kPanels * tile.panel_bytes > kStayingBytes;
  const uint8_t* const* rows = tile.rows + row;
  const uint8_t* a[kRowTiles];
  int64_t stride[kRowTiles];
  const auto enter = [&]() __attribute__((always_inline)) {
    Unrolled<kRowTiles>([&](auto m) {
      a[m] = rows[kAmxRows * m] + tile.x_offset;
      stride[m] = rows[kAmxRows * m + 1] - rows[kAmxRows * m];
    });
    LoadBias<Unit, kRowTiles, kPanels>(tile);
  };
  const auto multiply = [&](const int8_t* w, int64_t panel_bytes) __attribute__((always_inline)) {
    Multiply<Unit, kRowTiles, kPanels>(
        [&](auto m, auto to) __attribute__((always_inline)) {
          constexpr int kTo = to;
          Unit::template LoadPassing<kTo>(a[m], stride[m]);
          a[m] += kAmxRowBytes;
        },
        [&](auto p, auto to) __attribute__((always_inline)) {
          constexpr int kTo = to;
          LoadTile<Unit, kTo>(w + p * panel_bytes, kAmxRowBytes, panels_pass);
        });
  };
  enter();
  for (int i = 0; i < count; ++i) {
    const int part = PartOfRows(task, steps.count + 1);
    // All steps but the last one, where panels lie.
    const int8_t* w = steps.w;
    for (int64_t s = 1; s < steps.count; ++s, w += kAmxRows * kAmxRowBytes) {
      ahead.Fetch();
      multiply(w, steps.panel_bytes);
      if (task.rows > 0) FinishRows(task, part);
    }
    ahead.Fetch();
    multiply(steps.end, steps.end_bytes);
    int32_t* const sums = task.sums[task.turn];
    task.turn ^= 1;
    StoreSums<Unit, kRowTiles, kPanels>(sums);
    rows += kRows;
    if (i + 1 < count) enter();
    FinishRows(task, task.rows);
    Leave(task, tile, row, tile.row_count - row < kRows ? tile.row_count - row : kRows, sums);
    row += kRows;
  }
}

// Two panels of kSteps steps, which stay in registers 4 to 7 while all rows meet them. Registers 0
// and 1 take turns: while one is added to, the other one is stored, which else nothing would hide.
template <typename Unit, int kSteps>
[[gnu::noinline]] void HeldTiles(const Int8Tile& tile, Ahead& ahead) {
  constexpr int kPanels = 2;
  Task& task = TaskOf(tile);
  const PaddedSteps<kPanels> steps(tile, task);
  Unrolled<kSteps>([&](auto s) {
    constexpr int kS = s;
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<4 + 2 * kP + kS>(steps.Panel(kS, kP), kAmxRowBytes);
    });
  });
  const auto load = [&](int row) __attribute__((always_inline)) {
    const uint8_t* const* rows = tile.rows + row;
    const int64_t stride = rows[1] - rows[0];
    Unrolled<kSteps>([&](auto s) {
      constexpr int kS = s;
      Unit::template LoadPassing<2 + kS>(rows[0] + tile.x_offset + kAmxRowBytes * kS, stride);
    });
  };
  load(0);
  for (int row = 0; row < tile.row_count; row += kAmxRows) {
    int32_t* const sums = task.sums[task.turn];
    task.turn ^= 1;
    ahead.Fetch();
    Unrolled<kPanels>([&](auto p) {
      constexpr int kP = p;
      Unit::template Load<kP>(tile.bias + 16 * kP, 0);
      Unrolled<kSteps>([&](auto s) {
        constexpr int kS = s;
        Unit::template DotU8S8<kP, 2 + kS, 4 + 2 * kP + kS>();
      });
      Unit::template Store<kP>(sums + 16 * kP, kAmxRowBytes * kPanels);
    });
    if (row + kAmxRows < tile.row_count) load(row + kAmxRows);
    FinishRows(task, task.rows);
    const int left = tile.row_count - row;
    Leave(task, tile, row, left < kAmxRows ? left : kAmxRows, sums);
  }
}

// Padded rows in tiles of kRowTiles registers, and what is left in a lower one.
template <typename Unit, int kRowTiles, int kPanels>
void PaddedRows(const Int8Tile& tile) {
  constexpr int kRows = kAmxRows * kRowTiles;
  const int whole = tile.row_count / kRows, row = whole * kRows,
            rest = (tile.row_count - row + kAmxRows - 1) / kAmxRows;
  Ahead ahead(tile, (whole + (rest > 0 ? 1 : 0)) * ((tile.groups_of_4 + kAmxRows - 1) / kAmxRows));
  if (whole > 0) PaddedTiles<Unit, kRowTiles, kPanels>(tile, 0, whole, ahead);
  if (rest == 1) PaddedTiles<Unit, 1, kPanels>(tile, row, 1, ahead);
  if constexpr (kRowTiles > 1) {
    if (rest == 2) PaddedTiles<Unit, 2, kPanels>(tile, row, 1, ahead);
  }
  if constexpr (kRowTiles > 2) {
    if (rest == 3) PaddedTiles<Unit, 3, kPanels>(tile, row, 1, ahead);
    if (rest == 4) PaddedTiles<Unit, 4, kPanels>(tile, row, 1, ahead);
  }
}

template <typename Unit>
void RunTile(const Int8Tile& given) {
  if (given.padded) {
    const Int8Tile& tile = Kept(TaskOf(given), given);
    const int64_t steps = (tile.groups_of_4 + kAmxRows - 1) / kAmxRows;
    if (tile.panel_count == 2 && steps <= 2) {
      Ahead ahead(tile, (tile.row_count + kAmxRows - 1) / kAmxRows);
      return steps == 1 ? HeldTiles<Unit, 1>(tile, ahead) : HeldTiles<Unit, 2>(tile, ahead);
    }
    if (tile.panel_count == 4) return PaddedRows<Unit, 1, 4>(tile);
    if (tile.panel_count == 2) return PaddedRows<Unit, 2, 2>(tile);
    return PaddedRows<Unit, 4, 1>(tile);
  }
  const Int8Tile& tile = given;
  const int rows = (tile.row_count + kAmxRows - 1) / kAmxRows;
  if (tile.panel_count == 4) return AnyTile<Unit, 1, 4>(tile);
  if (tile.panel_count == 2)
    return rows == 1 ? AnyTile<Unit, 1, 2>(tile) : AnyTile<Unit, 2, 2>(tile);
  constexpr void (*kTall[])(const Int8Tile&) = {AnyTile<Unit, 1, 1>, AnyTile<Unit, 2, 1>,
                                                AnyTile<Unit, 3, 1>, AnyTile<Unit, 4, 1>};
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
          .copy_rows = CopyRows,
          .begin = BeginTask<Unit>,
          .flush = FlushTask,
          .end = EndTask<Unit>,
          .small = &kInt8TileAvx512,
          .least_rows = 5,
          .least_depth = 32};
}

}  // namespace
}  // namespace evoq
