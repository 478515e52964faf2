// attention_pair_int8: evoq::QuantizedAttention by blocks of queries whose scores and weights stay
// in the cache, where the four operators would write and read matrices of all scores.
#include "kernels/attention/quantized_attention.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/matmul_batch.h"
#include "kernels/gemm/pair_product.h"
#include "kernels/norm/norm.h"
#include "kernels/parallel.h"
#include "kernels/quantize/quantize.h"

namespace evoq {

Result<AttentionWeights> AttentionWeights::Of(const Attrs& attrs) {
  AttentionWeights weights;
  weights.factor = attrs.Float("factor", 1);
  weights.scale = attrs.Float("weights_scale", 0);
  const int64_t zero = attrs.Int("weights_zero_point");
  for (const auto [name, value] :
       {std::pair{"factor", weights.factor}, {"weights_scale", weights.scale}}) {
    if (!std::isfinite(value) || value <= 0)
      return InvalidInput("attribute {} is {}, expected a positive number", name, value);
  }
  if (zero < 0 || zero > 255)
    return InvalidInput("attribute weights_zero_point is {}, expected one of uint8", zero);
  weights.zero_point = static_cast<int32_t>(zero);
  return weights;
}

TensorType AttentionWeights::Type(Shape shape) const {
  return TensorType(DType::kUint8, std::move(shape), QuantParams::PerTensor(scale, zero_point));
}

TensorType AttentionWeights::Scaled(const TensorType& q) const {
  if (!q.quantized()) return q;
  QuantParams quant = *q.quant;
  for (float& s : quant.scales) s = s * factor;
  return TensorType(q.dtype, q.shape, std::move(quant));
}

namespace {

constexpr size_t kQ = 0, kKeys = 1, kValues = 2, kMask = 3;
constexpr int64_t kVector = 64;  // elements that are quantized together

// The two products as calls of MatMul.
struct Calls {
  AttentionWeights weights;
  std::vector<TensorType> to_scores, to_y;
  TensorType scores, y;

  static Result<Calls> Of(const KernelCall& call) {
    Calls c;
    EVOQ_ASSIGN(c.weights, AttentionWeights::Of(call.attrs));
    const TensorType& q = call.inputs[kQ];
    std::vector<int64_t> sizes = call.outputs[0].shape.sizes();
    sizes.back() = call.inputs[kKeys].shape.sizes().back();
    c.scores = TensorType(DType::kFloat32, Shape(sizes));
    c.to_scores = {c.weights.Scaled(q), call.inputs[kKeys]};
    if (call.has_input(kMask)) c.to_scores.insert(c.to_scores.end(), {{}, call.inputs[kMask]});
    c.to_y = {c.weights.Type(Shape(sizes)), call.inputs[kValues]};
    c.y = call.outputs[0];
    return c;
  }
};

// Where each product's rows of a mask lie.
struct Mask {
  std::vector<int64_t> first;  // per product: its first element; empty: no mask
  int64_t row = 0;             // elements from one query's to the next one's

  // Errors: kUnsupported for sizes that do not broadcast to the scores'.
  static Result<Mask> Of(const TensorType& mask, const Shape& scores) {
    const std::vector<int64_t> own = mask.shape.sizes(), all = scores.sizes();
    std::vector<int64_t> sizes(all.size(), 1);
    if (own.size() > all.size() || own.empty() || own.back() != all.back())
      return Unsupported("mask {} for scores {}", mask.ToString(), scores.ToString());
    std::copy(own.begin(), own.end(), sizes.end() - static_cast<int64_t>(own.size()));
    for (size_t i = 0; i < all.size(); ++i) {
      if (sizes[i] != 1 && sizes[i] != all[i])
        return Unsupported("mask {} for scores {}", mask.ToString(), scores.ToString());
    }
    Mask to;
    const int64_t n = all.back(), rows = sizes[sizes.size() - 2];
    to.row = rows == 1 ? 0 : n;
    const std::vector<int64_t> batch(all.begin(), all.end() - 2),
        mine(sizes.begin(), sizes.end() - 2);
    const int64_t products = CheckedProduct(batch).value_or(0);
    for (int64_t i = 0; i < products; ++i)
      to.first.push_back(BatchIndex(i, batch, mine) * rows * n);
    return to;
  }
};

std::optional<Reason> RejectAttention(const KernelCall& call) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &q = call.inputs[kQ], &keys = call.inputs[kKeys], &values = call.inputs[kValues],
                   &y = call.outputs[0];
  if (!QuantizedU8(q) || !QuantizedByte(keys) || !QuantizedByte(values))
    return Reject("types", "{}, {} and {}, expected bytes with one scale each, uint8 first",
                  q.ToString(), keys.ToString(), values.ToString());
  if (!QuantizedByte(y) && !PlainFloat(y))
    return Reject("types", "y is {}, expected bytes or float32", y.ToString());
  if (call.has_input(kMask) && !PlainFloat(call.inputs[kMask]))
    return Reject("types", "mask is {}, expected float32", call.inputs[kMask].ToString());
  if (y.shape.rank() < 2) return Reject("shape", "y is {}", y.ToString());
  const auto calls = Calls::Of(call);
  if (!calls) return Reject("attribute", "{}", calls.error().message());
  PairShapes scores, to_y;
  if (auto why = ReadPairShapes(q, keys, scores)) return why;
  if (auto why = ReadPairShapes(calls->to_y[0], values, to_y)) return why;
  if (scores.products() * scores.m * scores.n != calls->scores.shape.elements() ||
      to_y.products() * to_y.m * to_y.n != y.shape.elements())
    return Reject("shape", "{} * {} * {} -> {}", q.ToString(), keys.ToString(), values.ToString(),
                  y.ToString());
  if (!call.has_input(kMask)) return std::nullopt;
  const auto mask = Mask::Of(call.inputs[kMask], calls->scores.shape);
  if (!mask) return Reject("shape", "{}", mask.error().message());
  return std::nullopt;
}

struct QuantizedAttention {
  PairProduct scores, values;
  Mask mask;
  Divisor by;
  int32_t zero = 0;
  Isa isa;
  int64_t rows = 1;  // of a task: whole tiles
  int64_t grain = 1;

  int64_t row_blocks() const { return CeilDiv(scores.s.m, rows); }
  int64_t score_bytes() const {
    return RoundUp(rows * scores.y_row_bytes(), 64) + kVector * static_cast<int64_t>(sizeof(float));
  }
  int64_t task_bytes() const {
    return score_bytes() + RoundUp(rows * values.depth(), 64) + kVector;
  }
  int64_t shared_bytes() const {
    return scores.packed_bytes() + scores.words_bytes() + values.packed_bytes();
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    std::byte *const keys = context.scratch, *const copied = keys + scores.packed_bytes(),
                     *const held = copied + scores.words_bytes();
    scores.Pack(in[kKeys], keys, context.pool);
    values.Pack(in[kValues], held, context.pool);
    const uint8_t* const q = scores.Words(in[kQ], copied);
    const float* const added = mask.first.empty() ? nullptr : static_cast<const float*>(in[kMask]);
    context.pool.ParallelFor(
        scores.s.products() * row_blocks(), grain, [&](int64_t begin, int64_t end, int thread) {
          std::byte* const room = context.scratch + shared_bytes() + thread * task_bytes();
          for (int64_t task = begin; task < end; ++task) {
            const int64_t product = task / row_blocks(), first = task % row_blocks() * rows;
            Rows(product, first, {q, keys, held}, added, room, static_cast<uint8_t*>(out[0]));
          }
        });
  }

  struct Operands {
    const uint8_t* q;
    const std::byte *keys, *values;
  };

  void Rows(int64_t product, int64_t first, const Operands& from, const float* added,
            std::byte* room, uint8_t* y) const {
    const int64_t count = std::min(rows, scores.s.m - first), n = scores.s.n;
    auto* const of_keys = reinterpret_cast<float*>(room);
    auto* const weights = reinterpret_cast<uint8_t*>(room + score_bytes());
    const int64_t q_row = scores.s.a_of[static_cast<size_t>(product)] * scores.s.m + first;
    if (added != nullptr) added += mask.first[static_cast<size_t>(product)] + first * mask.row;
    scores.Rows({.product = product,
                 .count = count,
                 .words = from.q + q_row * scores.depth(),
                 .packed = from.keys,
                 .y = reinterpret_cast<uint8_t*>(of_keys),
                 .residual = added,
                 .residual_stride = mask.row * static_cast<int64_t>(sizeof(float))});
    NormTableFor(isa).softmax_rows(of_keys, of_keys, count, n, false);
    const auto quantize = [&](int64_t row, int64_t elements) {
      QuantizeTableFor(isa).quantize(of_keys + row * n, weights + row * values.depth(), elements,
                                     by, zero, {});
    };
    if (n == values.depth()) {
      quantize(0, count * n);
    } else {  // in whole vectors: what that writes behind a row is the next one's, or unread
      for (int64_t r = 0; r < count; ++r) quantize(r, RoundUp(n, kVector));
    }
    values.Rows({.product = product,
                 .count = count,
                 .words = weights,
                 .packed = from.values,
                 .y = y + (product * scores.s.m + first) * values.y_row_bytes(),
                 .residual = nullptr,
                 .residual_stride = 0});
  }
};

Result<BoundKernel> BindAttention(const KernelCall& call, const BindOptions& options) {
  EVOQ_ASSIGN(const Calls calls, Calls::Of(call));
  const Attrs none;
  QuantizedAttention state;
  EVOQ_ASSIGN(state.scores, PairProduct::Of({.op = "MatMul",
                                             .attrs = none,
                                             .inputs = calls.to_scores,
                                             .outputs = {&calls.scores, 1},
                                             .constants = {}},
                                            options));
  EVOQ_ASSIGN(state.values, PairProduct::Of({.op = "MatMul",
                                             .attrs = none,
                                             .inputs = calls.to_y,
                                             .outputs = {&calls.y, 1},
                                             .constants = {}},
                                            options));
  if (call.has_input(kMask)) {
    EVOQ_ASSIGN(state.mask, Mask::Of(call.inputs[kMask], calls.scores.shape));
  }
  state.by = Divisor::Of(calls.weights.scale);
  state.zero = calls.weights.zero_point;
  state.isa = options.isa;
  const PairShapes& s = state.scores.s;
  const int64_t row_bytes = state.scores.y_row_bytes() + state.values.depth();
  const int64_t high = state.scores.tiles->max_rows[state.scores.tile_panels];
  state.rows = std::clamp(options.cpu->l2_share() / row_bytes / high * high, high,
                          PairProduct::kRows / high * high);
  const double task_ns = static_cast<double>(std::min(state.rows, s.m) * s.n) *
                         (static_cast<double>(s.k + state.values.s.n) / 400 + 0.5);
  state.grain = Grain(s.products() * state.row_blocks(), task_ns, options.threads);
  const auto scratch =
      static_cast<size_t>(state.shared_bytes() + options.threads * state.task_bytes());
  KernelPlan plan{.code = state.scores.tiles->name, .method = state.scores.why};
  return BoundKernel::Of(std::move(state), scratch, std::move(plan));
}

}  // namespace

extern const KernelDef kAttentionPairInt8;
const KernelDef kAttentionPairInt8 = {
    .name = "attention_pair_int8",
    .op = "QuantizedAttention",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectAttention,
    .bind = BindAttention,
};

}  // namespace evoq
