// A block of keys and values in float32, or widened to it exactly.
#include "kernels/attention/attention_plan.h"
#include "kernels/move/move.h"

namespace evoq {

// Queries row by row.
void AttentionPlan::TakeQueries(const Task& t, const float* q, const AttentionWorkspace& w) const {
  for (int64_t r = 0; r < t.count; ++r) {
    const int64_t row = t.first + r;
    std::copy_n(q + a.q.At(t.b, HeadOf(t, row), QueryOf(row)), a.q.size, w.q + r * a.q.size);
  }
}

// n rows from element `at` of a head on in float32, in `to`.
void AttentionPlan::Dequantize(const void* rows, const void* scales, const AttentionCache& cache,
                               int64_t at, int64_t n, float* to) const {
  const int64_t size = cache.now.size;
  AttentionTableFor(isa).dequantize(
      {.q = static_cast<const int8_t*>(rows) + at,
       .scales = static_cast<const uint16_t*>(scales) + at / size * cache.blocks(),
       .size = size,
       .block = cache.block},
      to, n);
}

// n keys from element `at` on: in float32, or as few rows read them.
AttentionPlan::Keys AttentionPlan::Widened(const void* const* in, bool past, int64_t at, int64_t n,
                                           const AttentionWorkspace& w) const {
  const Heads& h = past ? a.k.past : a.k.now;
  const void* const keys = in[past ? kPastKey : kK];
  if (a.k.dtype == DType::kFloat32) return {static_cast<const float*>(keys) + at, h.step()};
  if (a.k.dtype == DType::kInt8) {
    Dequantize(keys, in[kKeyScale], a.k, at, n, w.wide);
    return {w.wide, h.size};
  }
  const auto* const halves = static_cast<const uint16_t*>(keys) + at;
  if (by_rows) return {halves, h.step()};
  const auto widen = AttentionTableFor(isa).widen;
  if (h.step() == h.size) {
    widen(halves, w.wide, n * h.size);
  } else {
    for (int64_t j = 0; j < n; ++j) widen(halves + j * h.step(), w.wide + j * h.size, h.size);
  }
  return {w.wide, h.size};
}

// Products q k of `rows` rows from r on with the block's n keys as they lie.
void AttentionPlan::ProductsByRows(const Keys& keys, int64_t r, int64_t rows, int64_t n,
                                   Ahead& ahead, const AttentionWorkspace& w) const {
  const AttentionTable& table = AttentionTableFor(isa);
  const auto dots = a.k.dtype == DType::kFloat16 ? table.dots_half : table.dots;
  dots({.q = w.q + r * a.q.size,
        .q_step = a.q.size,
        .rows = static_cast<int>(rows),
        .keys = keys.rows,
        .key_step = keys.step,
        .size = a.q.size,
        .n = n,
        .y = w.scores,
        .ahead = &ahead});
}

// Those of `count` rows from r on with the n keys that are laid out in w.keys[d, j].
void AttentionPlan::Products(int64_t r, int64_t count, int64_t n,
                             const AttentionWorkspace& w) const {
  AttentionTableFor(isa).product({.a = w.q + r * a.q.size,
                                  .a_step = a.q.size,
                                  .b = w.keys,
                                  .b_step = kKeyBlock,
                                  .y = w.scores,
                                  .y_step = kKeyBlock,
                                  .depth = a.q.size,
                                  .rows = static_cast<int>(count),
                                  .columns = RoundedTo16(n),
                                  .times = nullptr});
}

void AttentionPlan::AddBlock(const Task& t, const void* const* in, bool past, const Block& block,
                             const AttentionWorkspace& w) const {
  const AttentionTable& table = AttentionTableFor(isa);
  const Heads &k = past ? a.k.past : a.k.now, &v = past ? a.v.past : a.v.now;
  const int64_t n = block.size(), at = block.at;
  // Rows whose scores are made together, and those of them that values are added to together.
  const int64_t tiles = CeilDiv(t.count, int64_t{table.rows}), tile = CeilDiv(t.count, tiles),
                step = few() ? t.count : tile;
  const void *const key_scales = a.k.dtype == DType::kInt8 ? in[kKeyScale] : nullptr,
                    *const value_scales = a.v.dtype == DType::kInt8 ? in[kValueScale] : nullptr;
  Ahead ahead, nothing;
  AddAhead(t, a.k, in[past ? kPastKey : kK], key_scales, past, block, ahead);
  const Keys keys = Widened(in, past, k.At(t.b, t.head, at), n, w);
  if (few()) {
    ahead.CutInto(CeilDiv(t.count, int64_t{table.dot_rows}) * kKeyBlock / table.dot_keys *
                  (a.q.size / 16));
    ProductsByRows(keys, 0, t.count, n, ahead, w);
    ahead = {};
  } else if (!by_rows) {
    MoveTableFor(isa).transpose(keys.rows, w.keys, n, k.size, keys.step, kKeyBlock, sizeof(float));
  }
  const int64_t first_value = v.At(t.b, t.head, at);
  const void* values =
      static_cast<const std::byte*>(in[past ? kPastValue : kV]) + first_value * a.v.element_bytes();
  if (a.v.dtype == DType::kInt8) {
    Dequantize(in[kV], in[kValueScale], a.v, first_value, n, w.values);
    values = w.values;
  }
  const auto add = a.v.dtype == DType::kFloat16 ? table.product_half : table.product;
  AddAhead(t, a.v, in[past ? kPastValue : kV], value_scales, past, block, ahead);
  ahead.CutInto(tiles * kKeyBlock * CeilDiv(v.size, int64_t{table.columns}));
  for (int64_t r = 0, count; r < t.count; r += count) {
    count = std::min(step, t.count - r);
    if (!by_rows) {
      Products(r, count, n, w);
    } else if (!few()) {
      ProductsByRows(keys, r, count, n, nothing, w);
    }
    ScoreRow rows[kMaxAttentionRows];
    float earlier[kMaxAttentionRows];
    for (int64_t i = 0; i < count; ++i) rows[i] = RowOf(t, in, t.first + r + i, block.keys);
    table.soften({.count = static_cast<int>(count),
                  .row = rows,
                  .scores = w.scores,
                  .states = w.states + r,
                  .earlier = earlier,
                  .ahead = &ahead});
    for (int64_t i = 0, added; i < count; i += added) {
      added = std::min(tile, count - i);
      add({.a = w.scores + i * kKeyBlock,
           .a_step = kKeyBlock,
           .b = values,
           .b_step = v.step(),
           .y = w.sums + (r + i) * value_floats,
           .y_step = value_floats,
           .depth = n,
           .rows = static_cast<int>(added),
           .columns = v.size,
           .times = earlier + i,
           .ahead = &ahead});
    }
  }
}

}  // namespace evoq
