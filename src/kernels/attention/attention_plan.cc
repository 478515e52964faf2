#include "kernels/attention/attention_plan.h"

namespace evoq {
namespace {

constexpr int64_t kAheadBytes = 16384;  // how far behind what few rows read they ask for more

}  // namespace

AttentionWorkspace AttentionPlan::Of(std::byte* scratch, int thread) const {
  float* at = reinterpret_cast<float*>(scratch) + RoundUp(part_floats(), int64_t{16}) +
              thread * RoundUp(thread_floats(), int64_t{16});
  const auto take = [&](int64_t floats) { return std::exchange(at, at + floats); };
  AttentionWorkspace w = {};
  w.keys = take(kKeyBlock * RoundedTo16(a.q.size));
  w.wide = take(kKeyBlock * RoundedTo16(a.q.size));
  w.values = take(kKeyBlock * wide_value_floats());
  w.scores = take(kMaxAttentionRows * kKeyBlock);
  w.q = take(task_rows * RoundedTo16(a.q.size));
  w.sums = take(task_rows * value_floats);
  w.states = reinterpret_cast<SoftmaxState*>(take(2 * task_rows));
  w.joined = take(joined_floats());
  if (integers) {
    w.factors = take(RoundedTo16(task_rows));
    w.key_scales = take(kKeyBlock * a.k.blocks());
    w.value_scales = take(kKeyBlock * a.v.blocks());
    w.value_factors = take(kKeyBlock * a.v.blocks());
    w.largest = take(a.v.blocks());
  }
  return w;
}

ScoreRow AttentionPlan::RowOf(const Task& t, const void* const* in, int64_t row,
                              Range block) const {
  const Range seen = t.seen[row - t.first];
  ScoreRow score;
  score.scale = a.scale;
  score.softcap = a.softcap;
  score.begin = std::clamp(seen.begin, block.begin, block.end) - block.begin;
  score.end = std::clamp(seen.end, block.begin, block.end) - block.begin;
  score.end = std::max(score.begin, score.end);
  if (!a.has_mask) return score;
  const int64_t at = t.b * a.mask_strides[0] + HeadOf(t, row) * a.mask_strides[1] +
                     QueryOf(row) * a.mask_strides[2] + block.begin;
  if (a.bools) {
    score.kept = static_cast<const uint8_t*>(in[kMask]) + at;
  } else {
    score.bias = static_cast<const float*>(in[kMask]) + at;
  }
  return score;
}

// Keys or values of a head, with their scales, to be asked for.
void AttentionPlan::AddRows(const AttentionCache& cache, const void* elements, const void* scales,
                            bool past, int64_t b, int64_t head, int64_t from, int64_t rows,
                            Ahead& ahead) const {
  const Heads& h = past ? cache.past : cache.now;
  rows = std::min(rows, h.length - from);
  if (rows <= 0 || h.size == 0) return;
  const int64_t bytes = cache.element_bytes(), at = h.At(b, head, from);
  ahead.Add(static_cast<const std::byte*>(elements) + at * bytes, rows, h.size * bytes,
            h.step() * bytes);
  if (scales == nullptr) return;
  const int64_t scale_bytes = cache.blocks() * int64_t{sizeof(uint16_t)};
  ahead.Add(static_cast<const std::byte*>(scales) + at / h.size * scale_bytes, rows, scale_bytes,
            scale_bytes);
}

void AttentionPlan::AddAhead(const Task& t, const AttentionCache& cache, const void* elements,
                             const void* scales, bool past, const Block& block,
                             Ahead& ahead) const {
  const Heads& h = past ? cache.past : cache.now;
  const int64_t row_bytes = h.size * cache.element_bytes();
  const int64_t distance =
      few() && row_bytes > 0 ? std::max(kAheadBytes / row_bytes, int64_t{1}) : int64_t{kKeyBlock};
  const int64_t from = block.at + distance;
  int64_t rows = few() ? kKeyBlock : block.size();
  const int64_t here = std::clamp<int64_t>(block.end_at - from, 0, rows);
  AddRows(cache, elements, scales, past, t.b, t.head, from, here, ahead);
  const int64_t next = t.b * h.heads + t.head + 1;
  if (here == rows || !few() || a.past() > 0 || next == h.batch * h.heads) return;
  rows -= here;
  AddRows(cache, elements, scales, past, next / h.heads, next % h.heads,
          t.seen[0].begin + std::max<int64_t>(from - block.end_at, 0), rows, ahead);
}

}  // namespace evoq
