// How an Attention is computed: its cut into tasks and parts, each thread's working memory, which
// keys a query sees, and the sums of one block of keys, in float32 (attention_blocks.cc) or in
// integers (attention_int8.cc). attention.cc joins them.
#pragma once

#include <algorithm>

#include "base/math.h"
#include "kernels/attention/ahead.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_call.h"

namespace evoq {

inline constexpr int64_t kTaskRows = 96;  // of queries and heads that a task computes
inline constexpr int64_t kRowsByRows = kMaxAttentionRows;  // so many take keys as they lie

inline int64_t RoundedTo16(int64_t n) { return RoundUp(n, int64_t{16}); }

// A thread's working memory, in floats from its scratch on.
struct AttentionWorkspace {
  float *q, *sums, *joined, *keys, *wide, *values, *scores;
  SoftmaxState* states;
  // Of integers: factors of the queries, scales of keys and of values.
  float *factors, *key_scales, *value_scales, *value_factors, *largest;

  // Keys, values and queries as pairs of integers lie where they else are floats.
  static int32_t* Pairs(float* at) { return reinterpret_cast<int32_t*>(at); }
};

struct AttentionPlan {
  AttentionCall a;
  Isa isa = Isa::kScalar;
  int threads = 1;
  int64_t rows = 0, row_tasks = 0, task_rows = 0;  // of one key head
  int64_t parts = 1, part_keys = 0;
  bool part_tasks = false;
  int64_t value_floats = 0;  // of a row's sums: the value size, rounded up
  bool by_rows = false;      // keys are not laid out anew
  bool integers = false;     // int8 keys and values are multiplied as integers
  int64_t grain = 1;

  int64_t tasks() const { return a.q.batch * a.k.now.heads * row_tasks * (part_tasks ? parts : 1); }
  // Rows of which all take a key before the next one.
  bool few() const { return (by_rows || integers) && rows <= kRowsByRows; }

  // ---- scratch: the parts' sums and states by part, batch, head and query; then each thread's own

  int64_t all_rows() const { return a.q.batch * a.q.heads * a.q.length; }
  // Of a row and a part: its sums and its state.
  int64_t sum_floats() const { return value_floats + 2; }
  int64_t part_floats() const { return part_tasks ? parts * all_rows() * sum_floats() : 0; }
  int64_t joined_floats() const { return part_tasks || parts == 1 ? 0 : task_rows * sum_floats(); }
  int64_t thread_floats() const {
    return task_rows * (RoundedTo16(a.q.size) + value_floats + 2) + joined_floats() +
           kKeyBlock * (2 * RoundedTo16(a.q.size) + wide_value_floats()) +
           kMaxAttentionRows * kKeyBlock + (integers ? integer_floats() : 0);
  }
  // Factors of queries; scales of keys and of values, and the largest of these.
  int64_t integer_floats() const {
    return RoundedTo16(task_rows) + kKeyBlock * a.k.blocks() + (2 * kKeyBlock + 1) * a.v.blocks();
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
  AttentionWorkspace Of(std::byte* scratch, int thread) const;

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

  // Keys that are taken together.
  struct Block {
    Range keys;
    int64_t at, end_at;  // the first of them, and where all that are seen end, of past or new ones
    int64_t size() const { return keys.end - keys.begin; }
  };

  // The block's keys that the row sees, with its mask.
  ScoreRow RowOf(const Task& t, const void* const* in, int64_t row, Range block) const;

  // Keys or values behind a block, with their scales if they have any, to be asked for while it is
  // computed with: also those of the next part, which mostly is this thread's next task, and of a
  // cache those that the next head begins with.
  void AddAhead(const Task& t, const AttentionCache& cache, const void* elements,
                const void* scales, bool past, const Block& block, Ahead& ahead) const;

  // ---- one block: its values, weighed, are added to the sums of all rows of the task

  void TakeQueries(const Task& t, const float* q, const AttentionWorkspace& w) const;
  void AddBlock(const Task& t, const void* const* in, bool past, const Block& block,
                const AttentionWorkspace& w) const;
  void TakeInt8Queries(const Task& t, const float* q, const AttentionWorkspace& w) const;
  void AddInt8Block(const Task& t, const void* const* in, const Block& block,
                    const AttentionWorkspace& w) const;

 private:
  void AddRows(const AttentionCache& cache, const void* elements, const void* scales, bool past,
               int64_t b, int64_t head, int64_t from, int64_t rows, Ahead& ahead) const;
  void LayInt8(const Task& t, const void* const* in, const Block& block,
               const AttentionWorkspace& w) const;
  void Dequantize(const void* rows, const void* scales, const AttentionCache& cache, int64_t at,
                  int64_t n, float* to) const;
  // Rows `step` apart.
  struct Keys {
    const void* rows;
    int64_t step;
  };
  Keys Widened(const void* const* in, bool past, int64_t at, int64_t n,
               const AttentionWorkspace& w) const;
  void ProductsByRows(const Keys& keys, int64_t r, int64_t rows, int64_t n, Ahead& ahead,
                      const AttentionWorkspace& w) const;
  void Products(int64_t r, int64_t count, int64_t n, const AttentionWorkspace& w) const;
};

}  // namespace evoq
