// Attention(q, k, v): of each sample and head, with s = cap(scale q k^T) + bias, p = softmax(s),
// y = p v,
//
//     dv = p^T dy,  dp = dy v^T,  ds[i, j] = p[i, j] (dp[i, j] - sum over l of p[i, l] dp[i, l]),
//     dq = scale ds' k,  dk = scale ds'^T q,  where ds' is ds times the slope of the cap.
//
// Heads of q share those of k and v in groups, whose gradients are sums over the group.
#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_inputs.h"
#include "kernels/math/unary_loops.h"
#include "ops/util.h"
#include "train/gradients/product.h"

namespace evoq {
namespace {

struct Sizes {
  int64_t samples, heads, groups, queries, keys, depth, width;
  int64_t slots;       // of the memory of keys and values, of which the first `keys` are read
  int64_t offset = 0;  // query i stands at the place of key i + offset
  int64_t left = -1, right = -1;
  bool causal = false;
  float scale = 1, cap = 0;

  int64_t scores() const { return queries * keys; }
  int64_t all_scores() const { return samples * heads * scores(); }
  // The keys that query i sees.
  std::pair<int64_t, int64_t> Seen(int64_t i) const {
    const int64_t place = i + offset;
    int64_t begin = 0, end = keys;
    if (causal) end = std::min(end, place + 1);
    if (left >= 0) begin = std::max(begin, place - left);
    if (right >= 0) end = std::min(end, place + right + 1);
    return {std::min(begin, keys), std::max(end, std::min(begin, keys))};
  }
};

// Where the heads of sample and head `i` of q lie.
struct Heads {
  int64_t q, k, v, y;
};
Heads HeadsOf(const Sizes& s, int64_t i) {
  const int64_t shared = i / s.heads * s.groups + i % s.heads / (s.heads / s.groups);
  return {i * s.queries * s.depth, shared * s.slots * s.depth, shared * s.slots * s.width,
          i * s.queries * s.width};
}

// Scores become probabilities; those that a query does not see are 0.
void Softmax(const Sizes& s, const GradientRun& run, float* p) {
  for (int64_t i = 0; i < s.queries; ++i, p += s.keys) {
    const auto [begin, end] = s.Seen(i);
    std::fill(p, p + begin, 0.0f);
    std::fill(p + end, p + s.keys, 0.0f);
    if (begin == end) continue;
    const float most = *std::max_element(p + begin, p + end);
    for (int64_t j = begin; j < end; ++j) p[j] -= most;
    UnaryTableFor(run.isa).apply({.kind = UnaryKind::kExp}, p + begin, p + begin, end - begin);
    float sum = 0;
    for (int64_t j = begin; j < end; ++j) sum += p[j];
    for (int64_t j = begin; j < end; ++j) p[j] /= sum;
  }
}

// `saved` has the probabilities, and behind them, with a cap, the capped scores.
void Forward(const Sizes& s, const GradientRun& run) {
  for (int64_t i = 0; i < s.samples * s.heads; ++i) {
    const Heads at = HeadsOf(s, i);
    float* const p = run.saved + i * s.scores();
    Product(run, s.queries, s.keys, s.depth, Rows(run.x[kQ] + at.q, s.depth),
            Turned(run.x[kK] + at.k, s.depth), p, {.alpha = s.scale});
    if (s.cap > 0) {
      float* const capped = p + s.all_scores();
      for (int64_t j = 0; j < s.scores(); ++j) capped[j] = s.cap * std::tanh(p[j] / s.cap);
      std::copy_n(capped, s.scores(), p);
    }
    Softmax(s, run, p);
    Product(run, s.queries, s.width, s.keys, Rows(p, s.keys), Rows(run.x[kV] + at.v, s.width),
            run.y[0] + at.y);
  }
}

void Backward(const Sizes& s, const GradientRun& run) {
  float* const ds = run.Scratch(s.scores());
  for (int64_t i = 0; i < s.samples * s.heads; ++i) {
    const Heads at = HeadsOf(s, i);
    const float* const p = run.saved + i * s.scores();
    const float* const dy = run.dy[0] + at.y;
    if (run.dx[kV] != nullptr)
      Product(run, s.keys, s.width, s.queries, Turned(p, s.keys), Rows(dy, s.width),
              run.dx[kV] + at.v, {.beta = 1});
    if (run.dx[kQ] == nullptr && run.dx[kK] == nullptr) continue;
    Product(run, s.queries, s.keys, s.width, Rows(dy, s.width), Turned(run.x[kV] + at.v, s.width),
            ds);
    for (int64_t r = 0; r < s.queries; ++r) {
      float* const row = ds + r * s.keys;
      const float* const of = p + r * s.keys;
      float sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) sum += of[j] * row[j];
      for (int64_t j = 0; j < s.keys; ++j) row[j] = of[j] * (row[j] - sum);
    }
    for (int64_t j = 0; s.cap > 0 && j < s.scores(); ++j) {
      const float bent = (p + s.all_scores())[j] / s.cap;
      ds[j] *= 1 - bent * bent;
    }
    if (run.dx[kQ] != nullptr)
      Product(run, s.queries, s.depth, s.keys, Rows(ds, s.keys), Rows(run.x[kK] + at.k, s.depth),
              run.dx[kQ] + at.q, {.alpha = s.scale, .beta = 1});
    if (run.dx[kK] != nullptr)
      Product(run, s.keys, s.depth, s.queries, Turned(ds, s.keys), Rows(run.x[kQ] + at.q, s.depth),
              run.dx[kK] + at.k, {.alpha = s.scale, .beta = 1});
  }
}

Result<BoundGradient> BindAttention(const GradientArgs& args) {
  const auto has = [&](size_t i) {
    return i < args.x.size() && args.x[i].dtype != DType::kUndefined;
  };
  for (const size_t i : {size_t{kMask}, size_t{kPastKey}, size_t{kPastValue}}) {
    if (has(i)) return Unsupported("input {}, expected none of mask and caches", i);
  }
  for (size_t i = 1; i < args.y.size(); ++i) {
    if (args.y[i].dtype != DType::kUndefined) return Unsupported("output {}", i);
  }
  if (args.x[kQ].shape.rank() != 4 || args.x[kK].shape.rank() != 4)
    return Unsupported("input 0 is {}, expected four axes", args.x[kQ].ToString());
  const std::vector<int64_t> q = args.x[kQ].shape.sizes(), k = args.x[kK].shape.sizes(),
                             v = args.x[kV].shape.sizes();
  const Attrs& attrs = args.node.attrs;
  Sizes s{q[0], q[1], k[1], q[2], k[2], q[3], v[3], k[2]};
  s.causal = attrs.Int("is_causal") != 0;
  s.left = attrs.Int("left_window_size", -1);
  s.right = attrs.Int("right_window_size", -1);
  s.cap = attrs.Float("softcap");
  s.scale = attrs.Float("scale");
  if (s.scale == 0) s.scale = 1 / std::sqrt(static_cast<float>(s.depth));
  if (has(kLengths)) {
    if (args.constants[kLengths] == nullptr)
      return Unsupported("input {} depends on data, expected lengths that are known",
                         size_t{kLengths});
    EVOQ_ASSIGN(const std::vector<int64_t> lengths, ToInt64s(*args.constants[kLengths]));
    s.keys = lengths.empty() ? s.slots : lengths[0];
    const bool alike = std::ranges::all_of(lengths, [&](int64_t n) { return n == s.keys; });
    if (!alike || s.keys < s.queries || s.keys > s.slots)
      return Unsupported("input {}, expected one length from {} to {}", size_t{kLengths}, s.queries,
                         s.slots);
    s.offset = s.keys - s.queries;
  }
  return BoundGradient{.forward = [s](const GradientRun& run) { Forward(s, run); },
                       .backward = [s](const GradientRun& run) { Backward(s, run); },
                       .saved = s.all_scores() * (s.cap > 0 ? 2 : 1)};
}

}  // namespace

extern const GradientDef kGradientAttention;
const GradientDef kGradientAttention = {
    .op = "Attention", .differentiable = 0b111, .bind = BindAttention};

}  // namespace evoq
