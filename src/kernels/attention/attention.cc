// Attention by an online softmax over blocks of kKeyBlock keys: no matrix of scores. Keys and
// values are float32, float16 or int8 with scales; those are widened exactly, or these multiplied
// as the integers that they are.
//
// The rows that share a key head (its group's query heads, all queries) are cut into tasks of
// kTaskRows, and keys into parts whose sums are joined in order; parts that few rows read are tasks
// too. A row's operations depend on nothing but its own keys: results are equal for any number of
// threads, and those of a batch item do not depend on its neighbours. Over a cache they do not
// depend on how many queries come at a time either.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/attention_int8.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/math/math.h"
#include "kernels/parallel.h"

namespace evoq {
namespace {

constexpr int64_t kFewRows = 32;  // up to so many, parts are tasks
constexpr int64_t kPartKeys = 512;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct AttentionState : AttentionPlan {
  // All blocks of the past or of the new keys that any of the task's rows sees.
  void AddKeys(const Task& t, const void* const* in, bool past, const AttentionWorkspace& w) const {
    const int64_t before = past ? 0 : a.past(), end = past ? a.past() : a.keys();
    const Range first = t.seen[0], last = t.seen[t.count - 1];
    const int64_t from = std::max({t.keys.begin, before, first.begin}),
                  all = std::min(end, last.end), to = std::min(t.keys.end, all);
    if (from >= to) return;
    // Blocks begin at multiples from where the part or the new keys begin.
    const int64_t origin = std::max(t.keys.begin, before);
    for (int64_t j = origin + (from - origin) / kKeyBlock * kKeyBlock; j < to; j += kKeyBlock) {
      const int64_t next = std::min(j + kKeyBlock, to);
      const Block block{{j, next}, j - before, all - before};
      if (integers) {
        AddInt8Block(t, in, block, w);
      } else {
        AddBlock(t, in, past, block, w);
      }
    }
  }

  // A part's sums of the task's rows, in w.sums and w.states.
  void AddPart(Task& t, int64_t part, const void* const* in, const AttentionWorkspace& w) const {
    t.keys = {part * part_keys, std::min((part + 1) * part_keys, a.keys())};
    std::fill_n(w.states, t.count, SoftmaxState{kMinusInfinity, 0});
    std::fill_n(w.sums, t.count * value_floats, 0.0f);
    for (bool past : {true, false}) AddKeys(t, in, past, w);
  }
  void KeepPart(int64_t r, const AttentionWorkspace& w, float* kept) const {
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
    const AttentionWorkspace w = Of(scratch, thread);
    const auto* const q = static_cast<const float*>(in[kQ]);
    if (integers) {
      TakeInt8Queries(t, q, w);
    } else {
      TakeQueries(t, q, w);
    }
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

std::optional<Reason> RejectFloat(const KernelCall& call) {
  AttentionCall read;
  return ReadAttention(call, read);
}

std::optional<Reason> RejectInt8(const KernelCall& call) {
  AttentionCall read;
  if (auto reason = ReadAttention(call, read)) return reason;
  if (!read.in_integers())
    return Reject("types",
                  "keys {} and values {}, expected int8 in rows and blocks of multiples "
                  "of {} and blocks of up to {}",
                  call.inputs[kK].ToString(), call.inputs[kV].ToString(), kInt8RowsStep,
                  kInt8MostBlock);
  return std::nullopt;
}

Result<BoundKernel> BindAttention(const KernelCall& call, const BindOptions& options,
                                  bool integers) {
  AttentionState state;
  AttentionCall& a = state.a;
  if (const auto why = ReadAttention(call, a)) return Unsupported("{}", why->sentence);
  state.isa = options.isa;
  state.threads = options.threads;
  state.rows = a.group * a.q.length;  // none where only the caches grow
  state.task_rows = std::clamp<int64_t>(state.rows, 1, kTaskRows);
  state.row_tasks = CeilDiv(state.rows, state.task_rows);
  state.value_floats = RoundedTo16(a.y.size);
  // Over a cache, which queries come to one by one or many at a time, all is cut alike.
  const bool cached = a.has_lengths, in_parts = state.rows <= kFewRows;
  state.part_keys = cached || in_parts ? kPartKeys : std::max<int64_t>(a.keys(), 1);
  state.parts = std::max<int64_t>(CeilDiv(a.keys(), state.part_keys), 1);
  state.part_tasks = in_parts && state.parts > 1;
  state.integers = integers;
  state.by_rows = !state.integers && (cached || state.rows <= kRowsByRows) && a.q.size % 16 == 0;
  const double pairs = static_cast<double>(state.task_rows) *
                       static_cast<double>(state.part_tasks ? state.part_keys : a.keys());
  state.grain =
      Grain(state.tasks(), pairs * (0.02 * static_cast<double>(a.q.size + a.y.size) + 0.3) + 20,
            options.threads);
  const size_t scratch = state.scratch_bytes();
  return BoundKernel::Of(std::move(state), scratch);
}

Result<BoundKernel> BindFloat(const KernelCall& call, const BindOptions& options) {
  return BindAttention(call, options, false);
}
Result<BoundKernel> BindInt8(const KernelCall& call, const BindOptions& options) {
  return BindAttention(call, options, true);
}

}  // namespace

extern const KernelDef kAttentionFloat = {
    .name = "attention_f32",
    .op = "Attention",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectFloat,
    .bind = BindFloat,
};
// Of 16 bits: int8's peak is what rounding queries and weights further would reach.
extern const KernelDef kAttentionInt8 = {
    .name = "attention_int8",
    .op = "Attention",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectInt8,
    .bind = BindInt8,
};

}  // namespace evoq
