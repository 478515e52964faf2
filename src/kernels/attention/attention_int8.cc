// A block of int8 keys and values: products of integers.
#include "kernels/attention/attention_int8.h"

#include "kernels/attention/attention_plan.h"

namespace evoq {

void AttentionPlan::TakeInt8Queries(const Task& t, const float* q,
                                    const AttentionWorkspace& w) const {
  const AttentionInt8Table& table = AttentionInt8TableFor(isa);
  for (int64_t r = 0; r < t.count; ++r) {
    const int64_t row = t.first + r;
    w.factors[r] = table.round_row(q + a.q.At(t.b, HeadOf(t, row), QueryOf(row)), a.q.size,
                                   AttentionWorkspace::Pairs(w.q) + r * a.q.size / 2);
  }
}

// Pairs of the block's keys and values, with their scales.
void AttentionPlan::LayInt8(const Task& t, const void* const* in, const Block& block,
                            const AttentionWorkspace& w) const {
  const AttentionInt8Table& table = AttentionInt8TableFor(isa);
  const auto rows_of = [&](size_t input, const Heads& h) {
    return static_cast<const int8_t*>(in[input]) + h.At(t.b, t.head, block.at);
  };
  const auto scales_of = [&](size_t input, const AttentionCache& cache) {
    return static_cast<const uint16_t*>(in[input]) +
           cache.now.At(t.b, t.head, block.at) / cache.now.size * cache.blocks();
  };
  const int64_t n = block.size();
  table.lay_keys(rows_of(kK, a.k.now), a.k.now.size, n, AttentionWorkspace::Pairs(w.keys));
  table.lay_values(rows_of(kV, a.v.now), a.v.now.size, n, AttentionWorkspace::Pairs(w.values));
  table.lay_scales(scales_of(kKeyScale, a.k), a.k.blocks(), n, w.key_scales);
  table.lay_scales(scales_of(kValueScale, a.v), a.v.blocks(), n, w.value_scales);
}

void AttentionPlan::AddInt8Block(const Task& t, const void* const* in, const Block& block,
                                 const AttentionWorkspace& w) const {
  const AttentionInt8Table& table = AttentionInt8TableFor(isa);
  const int64_t size = a.k.now.size, value_size = a.v.now.size;
  LayInt8(t, in, block, w);
  int64_t seen = -1;  // keys of which w has factors
  Ahead ahead;
  for (int64_t r = 0, count; r < t.count; r += count) {
    count = std::min<int64_t>(table.rows, t.count - r);
    // All of what is asked for, beside the first rows.
    ahead = {};
    if (r == 0) AddAhead(t, a.k, in[kK], in[kKeyScale], false, block, ahead);
    ahead.CutInto(size / (2 * table.beat) * (kKeyBlock / table.columns));
    table.dots({.q = AttentionWorkspace::Pairs(w.q) + r * size / 2,
                .rows = static_cast<int>(count),
                .keys = AttentionWorkspace::Pairs(w.keys),
                .scales = w.key_scales,
                .size = size,
                .block = a.k.block,
                .y = w.scores,
                .ahead = &ahead});
    ScoreRow rows[kMaxAttentionRows];
    float earlier[kMaxAttentionRows], now[kMaxAttentionRows];
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = RowOf(t, in, t.first + r + i, block.keys);
      rows[i].scale *= w.factors[r + i];
    }
    ahead = {};
    if (r == 0) AddAhead(t, a.v, in[kV], in[kValueScale], false, block, ahead);
    ahead.CutInto(kKeyBlock / (2 * table.beat) * std::max<int64_t>(value_size / table.columns, 1));
    AttentionTableFor(isa).soften({.count = static_cast<int>(count),
                                   .row = rows,
                                   .scores = w.scores,
                                   .states = w.states + r,
                                   .earlier = earlier,
                                   .now = now,
                                   .ahead = &ahead});
    // What a value's part of the largest is depends on the keys that a row may see alone.
    for (int64_t i = 0, added; i < count; i += added) {
      const int64_t end = rows[i].end;
      for (added = 1; i + added < count && rows[i + added].end == end;) ++added;
      if (std::exchange(seen, end) != end)
        table.value_factors(w.value_scales, a.v.blocks(), end, w.value_factors, w.largest);
      table.add({.weights = w.scores + i * kKeyBlock,
                 .rows = static_cast<int>(added),
                 .values = AttentionWorkspace::Pairs(w.values),
                 .factors = w.value_factors,
                 .largest = w.largest,
                 .size = value_size,
                 .block = a.v.block,
                 .n = end,
                 .earlier = earlier + i,
                 .now = now + i,
                 .y = w.sums + (r + i) * value_floats,
                 .y_step = value_floats,
                 .ahead = &ahead});
    }
  }
}

}  // namespace evoq
