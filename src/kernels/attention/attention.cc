// Attention in float32, over keys and values in float32, float16 or int8 with scales (which are
// widened exactly), by an online softmax over blocks of kKeyBlock keys: no matrix of scores.
//
// The rows that share a key head (its group's query heads, all queries) are cut into tasks of
// kTaskRows, and keys into parts whose sums are joined in order; parts that few rows read are tasks
// too. A row's operations depend on nothing but its own keys: results are equal for any number of
// threads, and those of a batch item do not depend on its neighbours. Over a cache they do not
// depend on how many queries come at a time either.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <limits>

#include "base/math.h"
#include "kernels/attention/ahead.h"
#include "kernels/attention/attention_call.h"
#include "kernels/math/math.h"
#include "kernels/move/move.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kTaskRows = 96;                   // of queries and heads that a task computes
constexpr int64_t kFewRows = 32;                    // up to so many, parts are tasks
constexpr int64_t kRowsByRows = kMaxAttentionRows;  // so many take keys as they lie
constexpr int64_t kAheadBytes = 16384;  // how far behind what few rows read they ask for more
constexpr int64_t kPartKeys = 512;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

int64_t Rounded(int64_t n) { return RoundUp(n, int64_t{16}); }

// A thread's working memory, in floats from its scratch on.
struct Workspace {
  float *q, *sums, *joined, *keys, *wide, *values, *scores;
  SoftmaxState* states;
};

struct AttentionState {
  AttentionCall a;
  Isa isa = Isa::kScalar;
  int threads = 1;
  int64_t rows = 0, row_tasks = 0, task_rows = 0;  // of one key head
  int64_t parts = 1, part_keys = 0;
  bool part_tasks = false;
  int64_t value_floats = 0;  // of a row's sums: the value size, rounded up
  bool by_rows = false;      // keys are not laid out anew
  int64_t grain = 1;

  int64_t tasks() const { return a.q.batch * a.k.now.heads * row_tasks * (part_tasks ? parts : 1); }
  // Rows of which all take a key before the next one.
  bool few() const { return by_rows && rows <= kRowsByRows; }

  // ---- scratch: the parts' sums and states by part, batch, head and query; then each thread's own

  int64_t all_rows() const { return a.q.batch * a.q.heads * a.q.length; }
  // Of a row and a part: its sums and its state.
  int64_t sum_floats() const { return value_floats + 2; }
  int64_t part_floats() const { return part_tasks ? parts * all_rows() * sum_floats() : 0; }
  int64_t joined_floats() const { return part_tasks || parts == 1 ? 0 : task_rows * sum_floats(); }
  int64_t thread_floats() const {
    return task_rows * (Rounded(a.q.size) + value_floats + 2) + joined_floats() +
           kKeyBlock * (2 * Rounded(a.q.size) + wide_value_floats()) +
           kMaxAttentionRows * kKeyBlock;
  }
  // Of a row of values that are widened before they are multiplied.
  int64_t wide_value_floats() const { return a.v.dtype == DType::kInt8 ? value_floats : 0; }
  size_t scratch_bytes() const {
    return static_cast<size_t>(4 * (RoundUp(part_floats(), int64_t{16}) +
                                    threads * RoundUp(thread_floats(), int64_t{16})));
  }
  float* PartSums(std::byte* scratch, int64_t part, int64_t row) const {
    return reinterpret_cast<float*>(scratch) + (part * all_rows() + row) * sum_floats();
  }
  Workspace Of(std::byte* scratch, int thread) const {
    float* at = reinterpret_cast<float*>(scratch) + RoundUp(part_floats(), int64_t{16}) +
                thread * RoundUp(thread_floats(), int64_t{16});
    const auto take = [&](int64_t floats) { return std::exchange(at, at + floats); };
    Workspace w;
    w.keys = take(kKeyBlock * Rounded(a.q.size));
    w.wide = take(kKeyBlock * Rounded(a.q.size));
    w.values = take(kKeyBlock * wide_value_floats());
    w.scores = take(kMaxAttentionRows * kKeyBlock);
    w.q = take(task_rows * Rounded(a.q.size));
    w.sums = take(task_rows * value_floats);
    w.states = reinterpret_cast<SoftmaxState*>(take(2 * task_rows));
    w.joined = take(joined_floats());
    return w;
  }

  // ---- which keys a query sees

  struct Range {
    int64_t begin, end;
  };
  int64_t LengthOf(const void* const* in, int64_t b) const {
    if (!a.has_lengths) return a.keys();
    return a.wide_lengths ? static_cast<const int64_t*>(in[kLengths])[b]
                          : static_cast<const int32_t*>(in[kLengths])[b];
  }
  Range SeenBy(int64_t query, int64_t length) const {
    const int64_t place = query + (a.has_lengths ? length - a.q.length : a.past());
    Range seen{0, length};
    if (a.has_mask) seen.end = std::min(seen.end, a.mask_keys);
    if (a.causal) seen.end = std::min(seen.end, place + 1);
    if (a.right >= 0) seen.end = std::min(seen.end, place + a.right + 1);
    if (a.left >= 0) seen.begin = std::max(seen.begin, place - a.left);
    return {seen.begin, std::max(seen.begin, seen.end)};
  }

  // ---- one task

  struct Task {
    int64_t b, head, first, count;  // rows [first, first + count) of the key head
    Range keys;                     // of its part
    int64_t length;                 // keys that count
    Range seen[kTaskRows] = {};     // by each row
  };
  int64_t QueryOf(int64_t row) const { return row / a.group; }
  int64_t HeadOf(const Task& t, int64_t row) const { return t.head * a.group + row % a.group; }

  // Queries row by row.
  void TakeQueries(const Task& t, const float* q, const Workspace& w) const {
    for (int64_t r = 0; r < t.count; ++r) {
      const int64_t row = t.first + r;
      std::copy_n(q + a.q.At(t.b, HeadOf(t, row), QueryOf(row)), a.q.size, w.q + r * a.q.size);
    }
  }

  // n rows from element `at` of a head on in float32, in `to`.
  void Dequantize(const void* rows, const void* scales, const AttentionCache& cache, int64_t at,
                  int64_t n, float* to) const {
    const int64_t size = cache.now.size;
    AttentionTableFor(isa).dequantize(
        {.q = static_cast<const int8_t*>(rows) + at,
         .scales = static_cast<const uint16_t*>(scales) + at / size * cache.blocks(),
         .size = size,
         .block = cache.block},
        to, n);
  }

  // n keys from `keys` on, rows `step` apart: in float32, or as few rows read them.
  struct Keys {
    const void* rows;
    int64_t step;
  };
  Keys Widened(const void* const* in, bool past, int64_t at, int64_t n, const Workspace& w) const {
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
  void ProductsByRows(const Keys& keys, int64_t r, int64_t rows, int64_t n, Ahead& ahead,
                      const Workspace& w) const {
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
  void Products(int64_t r, int64_t count, int64_t n, const Workspace& w) const {
    AttentionTableFor(isa).product({.a = w.q + r * a.q.size,
                                    .a_step = a.q.size,
                                    .b = w.keys,
                                    .b_step = kKeyBlock,
                                    .y = w.scores,
                                    .y_step = kKeyBlock,
                                    .depth = a.q.size,
                                    .rows = static_cast<int>(count),
                                    .columns = Rounded(n),
                                    .times = nullptr});
  }

  // Keys that are taken together.
  struct Block {
    Range keys;
    int64_t at, end_at;  // the first of them, and where all that are seen end, of past or new ones
    int64_t size() const { return keys.end - keys.begin; }
  };

  // The block's keys that the row sees, with its mask.
  ScoreRow RowOf(const Task& t, const void* const* in, int64_t row, Range block) const {
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

  // Keys or values behind a block, to be asked for while it is computed with; also those of the
  // next part, which mostly is this thread's next task.
  void AddAhead(const Task& t, const AttentionCache& cache, const void* elements, bool past,
                const Block& block, Ahead& ahead) const {
    const Heads& h = past ? cache.past : cache.now;
    const int64_t bytes = cache.element_bytes();
    if (h.size == 0) return;
    const int64_t distance =
        few() ? std::max(kAheadBytes / (h.size * bytes), int64_t{1}) : int64_t{kKeyBlock};
    const int64_t from = block.at + distance, rows = std::min(block.size(), block.end_at - from);
    if (rows <= 0) return;
    ahead.Add(static_cast<const std::byte*>(elements) + h.At(t.b, t.head, from) * bytes, rows,
              h.size * bytes, h.step() * bytes);
  }

  // Adds the block's values, weighed, to the sums of all rows of the task.
  void AddBlock(const Task& t, const void* const* in, bool past, const Block& block,
                const Workspace& w) const {
    const AttentionTable& table = AttentionTableFor(isa);
    const Heads &k = past ? a.k.past : a.k.now, &v = past ? a.v.past : a.v.now;
    const int64_t n = block.size(), at = block.at;
    // Rows whose scores are made together, and those of them that values are added to together.
    const int64_t tiles = CeilDiv(t.count, int64_t{table.rows}), tile = CeilDiv(t.count, tiles),
                  step = few() ? t.count : tile;
    Ahead ahead, nothing;
    AddAhead(t, a.k, in[past ? kPastKey : kK], past, block, ahead);
    const Keys keys = Widened(in, past, k.At(t.b, t.head, at), n, w);
    if (few()) {
      ahead.CutInto(CeilDiv(t.count, int64_t{table.dot_rows}) * kKeyBlock / table.dot_keys *
                    (a.q.size / 16));
      ProductsByRows(keys, 0, t.count, n, ahead, w);
      ahead = {};
    } else if (!by_rows) {
      MoveTableFor(isa).transpose(keys.rows, w.keys, n, k.size, keys.step, kKeyBlock,
                                  sizeof(float));
    }
    const int64_t first_value = v.At(t.b, t.head, at);
    const void* values = static_cast<const std::byte*>(in[past ? kPastValue : kV]) +
                         first_value * a.v.element_bytes();
    if (a.v.dtype == DType::kInt8) {
      Dequantize(in[kV], in[kValueScale], a.v, first_value, n, w.values);
      values = w.values;
    }
    const auto add = a.v.dtype == DType::kFloat16 ? table.product_half : table.product;
    AddAhead(t, a.v, in[past ? kPastValue : kV], past, block, ahead);
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

  // All blocks of the past or of the new keys that any of the task's rows sees.
  void AddKeys(const Task& t, const void* const* in, bool past, const Workspace& w) const {
    const int64_t before = past ? 0 : a.past(), end = past ? a.past() : a.keys();
    const Range first = t.seen[0], last = t.seen[t.count - 1];
    const int64_t from = std::max({t.keys.begin, before, first.begin}),
                  all = std::min(end, last.end), to = std::min(t.keys.end, all);
    if (from >= to) return;
    // Blocks begin at multiples from where the part or the new keys begin.
    const int64_t origin = std::max(t.keys.begin, before);
    for (int64_t j = origin + (from - origin) / kKeyBlock * kKeyBlock; j < to; j += kKeyBlock) {
      const int64_t next = std::min(j + kKeyBlock, to);
      AddBlock(t, in, past, {{j, next}, j - before, all - before}, w);
    }
  }

  // A part's sums of the task's rows, in w.sums and w.states.
  void AddPart(Task& t, int64_t part, const void* const* in, const Workspace& w) const {
    t.keys = {part * part_keys, std::min((part + 1) * part_keys, a.keys())};
    std::fill_n(w.states, t.count, SoftmaxState{kMinusInfinity, 0});
    std::fill_n(w.sums, t.count * value_floats, 0.0f);
    for (bool past : {true, false}) AddKeys(t, in, past, w);
  }
  void KeepPart(int64_t r, const Workspace& w, float* kept) const {
    std::copy_n(w.sums + r * value_floats, value_floats, kept);
    kept[value_floats] = w.states[r].max;
    kept[value_floats + 1] = w.states[r].sum;
  }

  void RunTask(int64_t task, const void* const* in, void* const* out, std::byte* scratch,
               int thread) const {
    const int64_t part = part_tasks ? task % parts : 0, piece = part_tasks ? task / parts : task;
    const int64_t first = piece % row_tasks * task_rows, heads = piece / row_tasks;
    Task t{.b = heads / a.k.now.heads,
           .head = heads % a.k.now.heads,
           .first = first,
           .count = std::min(task_rows, rows - first),
           .keys = {},
           .length = LengthOf(in, heads / a.k.now.heads)};
    int64_t end = 0;  // of the keys that any row sees
    for (int64_t r = 0; r < t.count; ++r) {
      t.seen[r] = SeenBy(QueryOf(first + r), t.length);
      end = std::max(end, t.seen[r].end);
    }
    const Workspace w = Of(scratch, thread);
    TakeQueries(t, static_cast<const float*>(in[kQ]), w);
    AddPart(t, part, in, w);
    const auto to = [&](int64_t r) {
      return static_cast<float*>(out[0]) +
             a.y.At(t.b, HeadOf(t, t.first + r), QueryOf(t.first + r));
    };
    if (part_tasks) {
      for (int64_t r = 0; r < t.count; ++r) {
        const int64_t head = HeadOf(t, t.first + r), query = QueryOf(t.first + r);
        KeepPart(r, w, PartSums(scratch, part, (t.b * a.q.heads + head) * a.q.length + query));
      }
      return;
    }
    if (parts == 1 || end <= part_keys) {
      for (int64_t r = 0; r < t.count; ++r)
        Finish(in, HeadOf(t, first + r), w.sums + r * value_floats, w.states[r], to(r));
      return;
    }
    const auto joined = [&](int64_t r) { return w.joined + r * sum_floats(); };
    for (int64_t r = 0; r < t.count; ++r) KeepPart(r, w, joined(r));
    for (int64_t p = 1; p < parts && p * part_keys < end; ++p) {
      AddPart(t, p, in, w);
      for (int64_t r = 0; r < t.count; ++r) Join(joined(r), w.sums + r * value_floats, w.states[r]);
    }
    for (int64_t r = 0; r < t.count; ++r)
      Finish(in, HeadOf(t, first + r), joined(r), StateOf(joined(r)), to(r));
  }

  // Adds a later part's sums to those of earlier ones, by their common maximum.
  void Join(float* joined, const float* sums, SoftmaxState part) const {
    float &max = joined[value_floats], &sum = joined[value_floats + 1];
    if (part.sum == 0) return;  // no keys
    const float largest = std::max(max, part.max);
    const auto weight = [&](float m) { return m == largest ? 1 : ExpF(m - largest); };
    const float before = sum == 0 ? 0 : weight(max), now = weight(part.max);
    for (int64_t d = 0; d < value_floats; ++d) joined[d] = before * joined[d] + now * sums[d];
    sum = before * sum + now * part.sum;
    max = largest;
  }

  SoftmaxState StateOf(const float* joined) const {
    return {joined[value_floats], joined[value_floats + 1]};
  }

  // A row that sees no key gives zeros.
  void Finish(const void* const* in, int64_t head, const float* sums, SoftmaxState state,
              float* y) const {
    float sum = state.sum;
    if (a.has_sinks && sum != 0)
      sum += ExpF(static_cast<const float*>(in[kSinks])[head] - state.max);
    for (int64_t d = 0; d < a.y.size; ++d) y[d] = sum == 0 ? 0.0f : sums[d] / sum;
  }

  void JoinParts(int64_t row, const void* const* in, std::byte* scratch, void* const* out) const {
    float* const joined = PartSums(scratch, 0, row);
    for (int64_t p = 1; p < parts; ++p) {
      const float* const part = PartSums(scratch, p, row);
      Join(joined, part, StateOf(part));
    }
    const int64_t query = row % a.q.length, head = row / a.q.length;
    Finish(in, head % a.q.heads, joined, StateOf(joined),
           static_cast<float*>(out[0]) + a.y.At(head / a.q.heads, head % a.q.heads, query));
  }

  // The past and what is new, as [batch, kv heads, length, size].
  void WritePresent(const AttentionCache& cache, const void* past, const void* now, void* present,
                    const RunContext& context) const {
    const int64_t element = cache.element_bytes(), heads = cache.now.batch * cache.now.heads;
    context.pool.ParallelFor(heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t h = begin; h < end; ++h) {
        const int64_t b = h / cache.now.heads, head = h % cache.now.heads;
        auto* to = static_cast<std::byte*>(present) + h * cache.length() * cache.now.size * element;
        const int64_t before = cache.past.length * cache.now.size * element;
        if (before > 0) std::copy_n(static_cast<const std::byte*>(past) + h * before, before, to);
        to += before;
        for (int64_t i = 0; i < cache.now.length; ++i, to += cache.now.size * element)
          std::copy_n(static_cast<const std::byte*>(now) + cache.now.At(b, head, i) * element,
                      cache.now.size * element, to);
      }
    });
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    if (a.k.present)
      WritePresent(a.k, a.past() > 0 ? in[kPastKey] : nullptr, in[kK], out[1], context);
    if (a.v.present)
      WritePresent(a.v, a.past() > 0 ? in[kPastValue] : nullptr, in[kV], out[2], context);
    context.pool.ParallelFor(tasks(), grain, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t t = begin; t < end; ++t) RunTask(t, in, out, context.scratch, thread);
    });
    if (!part_tasks) return;
    const int64_t join_grain =
        Grain(all_rows(), static_cast<double>(parts * value_floats) * 0.1, context.pool.threads());
    context.pool.ParallelFor(all_rows(), join_grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) JoinParts(row, in, context.scratch, out);
    });
  }
};

std::optional<Reason> RejectAttention(const KernelCall& call) {
  AttentionCall read;
  return ReadAttention(call, read);
}

Result<BoundKernel> BindAttention(const KernelCall& call, const BindOptions& options) {
  AttentionState state;
  AttentionCall& a = state.a;
  if (const auto why = ReadAttention(call, a)) return Unsupported("{}", why->sentence);
  state.isa = options.isa;
  state.threads = options.threads;
  state.rows = a.group * a.q.length;  // none where only the caches grow
  state.task_rows = std::clamp<int64_t>(state.rows, 1, kTaskRows);
  state.row_tasks = CeilDiv(state.rows, state.task_rows);
  state.value_floats = Rounded(a.y.size);
  // Over a cache, which queries come to one by one or many at a time, all is cut alike.
  const bool cached = a.has_lengths, in_parts = state.rows <= kFewRows;
  state.part_keys = cached || in_parts ? kPartKeys : std::max<int64_t>(a.keys(), 1);
  state.parts = std::max<int64_t>(CeilDiv(a.keys(), state.part_keys), 1);
  state.part_tasks = in_parts && state.parts > 1;
  state.by_rows = (cached || state.rows <= kRowsByRows) && a.q.size % 16 == 0;
  const double pairs = static_cast<double>(state.task_rows) *
                       static_cast<double>(state.part_tasks ? state.part_keys : a.keys());
  state.grain =
      Grain(state.tasks(), pairs * (0.02 * static_cast<double>(a.q.size + a.y.size) + 0.3) + 20,
            options.threads);
  const size_t scratch = state.scratch_bytes();
  return BoundKernel::Of(std::move(state), scratch);
}

}  // namespace

extern const KernelDef kAttentionFloat = {
    .name = "attention_f32",
    .op = "Attention",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectAttention,
    .bind = BindAttention,
};

}  // namespace evoq
