// Attention(q, k, v, mask?, past_key?, past_value?, nonpad_kv_seqlen?, key_scale?, value_scale?,
// sinks?) -> y, present_key, present_value, scores. Per batch b, query head h and query i over keys
// j of the head's group:
//   s[j] = softcap(scale * q[i] . k[j]) + bias[i, j];  p = softmax(s);  y[i] = sum_j p[j] v[j]
// where bias is the mask (false: -infinity), and -infinity for keys that the causal rule, the
// window or the padding excludes. Query i of S stands at place i behind the past, or, with
// nonpad_kv_seqlen, at nonpad_kv_seqlen - S + i. A row whose bias is -infinity everywhere gives
// zeros. With sinks, p = softmax(s and the head's sink) without the sink's own. Products are summed
// in float64 and rounded to the element type once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention_inputs.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
enum ScoreMode { kRaw, kCapped, kBiased, kProbabilities };

// ---- evaluation

// Rows of `size` elements by batch, head and place, of a 4-D tensor or a 3-D one.
struct Rows {
  int64_t heads = 0, length = 0, size = 0;
  bool flat = false;
  int64_t At(int64_t b, int64_t h, int64_t i) const {
    return flat ? ((b * length + i) * heads + h) * size : ((b * heads + h) * length + i) * size;
  }
};

Rows RowsOf(const Tensor& t, int64_t heads) {
  const std::vector<int64_t> s = t.sizes();
  if (s.size() == 4) return {s[1], s[2], s[3], false};
  return {heads, s[1], s[2] / heads, true};
}

// past (may be undefined) and x joined along the length, as [batch, heads, past + length, size].
template <typename T>
Tensor Joined(const Tensor& past, const Tensor& x, const Rows& rows) {
  const int64_t batch = x.sizes()[0], before = past.defined() ? past.sizes()[2] : 0,
                total = before + rows.length;
  Tensor y = Tensor::Allocate(TensorType(x.dtype(), Shape{batch, rows.heads, total, rows.size}));
  T* out = y.mutable_data<T>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < rows.heads; ++h) {
      const int64_t head = b * rows.heads + h;
      if (before > 0)
        std::copy_n(past.data<T>() + head * before * rows.size, before * rows.size,
                    out + head * total * rows.size);
      for (int64_t i = 0; i < rows.length; ++i)
        std::copy_n(x.data<T>() + rows.At(b, h, i), rows.size,
                    out + (head * total + before + i) * rows.size);
    }
  }
  return y;
}

// The mask as a bias: [batch, heads, queries, keys] right-aligned, keys past its last ones are
// excluded.
template <typename T>
class Bias {
 public:
  static Result<Bias> Of(const EvalArgs& args, int64_t batch, int64_t heads, int64_t queries,
                         int64_t keys) {
    Bias bias;
    bias.keys_ = keys;
    bias.causal_ = args.node.attrs.Int("is_causal") != 0;
    bias.left_ = args.node.attrs.Int("left_window_size", -1);
    bias.right_ = args.node.attrs.Int("right_window_size", -1);
    bias.offsets_.assign(batch, args.has(kPastKey) ? args.inputs[kPastKey].sizes()[2] : 0);
    bias.lengths_.assign(batch, keys);
    if (args.has(kLengths)) {
      EVOQ_ASSIGN(bias.lengths_, ToInt64s(args.inputs[kLengths]));
      if (static_cast<int64_t>(bias.lengths_.size()) != batch)
        return InvalidInput("input {} has {} lengths, expected {}", size_t{kLengths},
                            bias.lengths_.size(), batch);
      for (int64_t b = 0; b < batch; ++b) {
        if (bias.lengths_[b] < 0 || bias.lengths_[b] > keys)
          return InvalidInput("input {} has the length {} of {} keys", size_t{kLengths},
                              bias.lengths_[b], keys);
        bias.offsets_[b] = bias.lengths_[b] - queries;
      }
    }
    if (!args.has(kMask)) return bias;
    const Tensor& mask = args.inputs[kMask];
    const std::vector<int64_t> sizes = mask.sizes(), full = {batch, heads, queries, keys};
    if (sizes.empty() || sizes.size() > 4)
      return InvalidInput("input {} is {}, expected rank 1 to 4", size_t{kMask},
                          mask.type().ToString());
    const size_t lead = 4 - sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool last = d + 1 == sizes.size();
      if (last ? sizes[d] > keys : sizes[d] != full[lead + d] && sizes[d] != 1)
        return InvalidInput("input {} is {}, which does not fit the scores {}", size_t{kMask},
                            mask.type().ToString(), Shape(full).ToString());
    }
    const std::vector<int64_t> strides = RowMajorStrides(sizes);
    for (size_t d = 0; d + 1 < sizes.size(); ++d)
      bias.strides_[lead + d] = sizes[d] == 1 ? 0 : strides[d];
    bias.mask_keys_ = sizes.back();
    bias.bools_ = mask.dtype() == DType::kBool;
    if (mask.dtype() == DTypeOf<T>::value) {
      bias.mask_ = mask;
    } else {
      EVOQ_ASSIGN(const Tensor narrow, ToFloat32(mask));
      EVOQ_ASSIGN(bias.mask_, FromFloat32(narrow, DTypeOf<T>::value));
    }
    return bias;
  }

  // Fills the biases of one query; whether any key is left.
  bool Fill(int64_t b, int64_t h, int64_t i, std::vector<T>& bias) const {
    bool any = false;
    const int64_t place = i + offsets_[b];
    for (int64_t j = 0; j < keys_; ++j) {
      bias[j] = FromMask(b, h, i, j);
      const bool excluded = (causal_ && j > place) || (left_ >= 0 && place - j > left_) ||
                            (right_ >= 0 && j - place > right_) || j >= lengths_[b];
      if (excluded) bias[j] = kMinusInfinity<T>;
      any |= bias[j] != kMinusInfinity<T>;
    }
    return any;
  }

 private:
  T FromMask(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!mask_.defined()) return 0;
    if (j >= mask_keys_) return kMinusInfinity<T>;
    const T v = mask_.data<T>()[b * strides_[0] + h * strides_[1] + i * strides_[2] + j];
    return bools_ ? (v != 0 ? 0 : kMinusInfinity<T>) : v;
  }

  Tensor mask_;
  bool bools_ = false, causal_ = false;
  int64_t keys_ = 0, mask_keys_ = 0, left_ = -1, right_ = -1;
  int64_t strides_[3] = {0, 0, 0};
  std::vector<int64_t> offsets_, lengths_;  // per batch item: place of query 0, keys that count
};

template <typename T>
T Dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<T>(sum);
}

// `sink`: a score beside those of the row; null: none.
template <typename T>
void Softmax(std::vector<T>& row, const T* sink) {
  const auto n = static_cast<int64_t>(row.size());
  T max = LargestOf(row.data(), n);
  if (sink != nullptr) max = std::max(max, *sink);
  for (T& v : row) v = max == kMinusInfinity<T> ? T{0} : ExpOf(v - max);
  const T sum = SumOf(row.data(), n) + (sink == nullptr ? T{0} : ExpOf(*sink - max));
  for (T& v : row) v = sum == 0 ? T{0} : v / sum;
}

template <typename T>
EvalResult Attention(const EvalArgs& args) {
  const Attrs& attrs = args.node.attrs;
  const Tensor& q = args.inputs[kQ];
  const Rows q_rows = RowsOf(q, attrs.Int("q_num_heads"));
  const auto past = [&](size_t i) { return args.has(i) ? args.inputs[i] : Tensor(); };
  EVOQ_TRY(AllocateOutput(args.output_types[0]));
  Tensor keys = Joined<T>(past(kPastKey), args.inputs[kK],
                          RowsOf(args.inputs[kK], attrs.Int("kv_num_heads")));
  Tensor values = Joined<T>(past(kPastValue), args.inputs[kV],
                            RowsOf(args.inputs[kV], attrs.Int("kv_num_heads")));
  const int64_t batch = q.sizes()[0], total = keys.sizes()[2], v_size = values.sizes()[3],
                group = q_rows.heads / std::max<int64_t>(keys.sizes()[1], 1);
  if (values.sizes()[2] != total)
    return InvalidInput("{} keys and {} values", total, values.sizes()[2]);
  EVOQ_ASSIGN(const Bias<T> bias, Bias<T>::Of(args, batch, q_rows.heads, q_rows.length, total));
  const T given = attrs.Float("scale", 0), softcap = attrs.Float("softcap", 0);
  const T scale = given != 0 ? given : 1 / std::sqrt(static_cast<T>(q_rows.size));
  const int64_t mode = attrs.Int("qk_matmul_output_mode");
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const bool wants_scores =
      args.output_types.size() > 3 && args.output_types[3].dtype != DType::kUndefined;
  Tensor scores = wants_scores ? Tensor::Allocate(args.output_types[3]) : Tensor();
  const Rows y_rows{q_rows.heads, q_rows.length, v_size, q_rows.flat};
  std::vector<T> row(total), biases(total), column(total);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < q_rows.heads; ++h) {
      const int64_t head = b * keys.sizes()[1] + h / group;
      for (int64_t i = 0; i < q_rows.length; ++i) {
        const auto keep = [&](ScoreMode m) {
          if (wants_scores && mode == m)
            std::copy(
                row.begin(), row.end(),
                scores.mutable_data<T>() + ((b * q_rows.heads + h) * q_rows.length + i) * total);
        };
        const T* query = q.data<T>() + q_rows.At(b, h, i);
        for (int64_t j = 0; j < total; ++j)
          row[j] =
              scale * Dot(query, keys.data<T>() + (head * total + j) * q_rows.size, q_rows.size);
        keep(kRaw);
        if (softcap > 0) {
          for (T& s : row) s = softcap * TanhOf(s / softcap);
        }
        keep(kCapped);
        const bool any = bias.Fill(b, h, i, biases);
        for (int64_t j = 0; j < total; ++j) row[j] += biases[j];
        keep(kBiased);
        Softmax(row, args.has(kSinks) ? args.inputs[kSinks].data<T>() + h : nullptr);
        if (!any) std::fill(row.begin(), row.end(), T{0});
        keep(kProbabilities);
        for (int64_t d = 0; d < v_size; ++d) {
          for (int64_t j = 0; j < total; ++j)
            column[j] = values.data<T>()[(head * total + j) * v_size + d];
          y.mutable_data<T>()[y_rows.At(b, h, i) + d] =
              any ? Dot(row.data(), column.data(), total) : T{0};
        }
      }
    }
  }
  return std::vector<Tensor>{std::move(y), std::move(keys), std::move(values), std::move(scores)};
}

EvalResult EvaluateAlike(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Attention<decltype(tag)>(args); },
                          {kMask, kLengths});
}

// int8 rows times their blocks' scales: exact in float32.
Tensor Dequantized(const Tensor& q, const Tensor& scales, int64_t block) {
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, q.shape()));
  const int64_t size = q.sizes().back(), blocks = scales.sizes().back();
  for (int64_t i = 0; i < q.elements(); ++i) {
    const uint16_t scale = scales.data<uint16_t>()[i / size * blocks + i % size / block];
    y.mutable_data<float>()[i] = static_cast<float>(q.data<int8_t>()[i]) * HalfToFloat(scale);
  }
  return y;
}

// float16 and int8 keys and values beside float32 queries are widened; what is kept of them stays
// as it was.
EvalResult Evaluate(const EvalArgs& args) {
  const auto is = [&](size_t i, DType dtype) {
    return args.has(i) && args.inputs[i].dtype() == dtype;
  };
  if (!is(kQ, DType::kFloat32) || (is(kK, DType::kFloat32) && is(kV, DType::kFloat32)))
    return EvaluateAlike(args);
  std::vector<Tensor> inputs(args.inputs.begin(), args.inputs.end());
  const int64_t block = args.node.attrs.Int(kCacheBlockSize, kCacheBlock);
  for (size_t i : {kK, kV, kPastKey, kPastValue}) {
    if (is(i, DType::kInt8)) {
      inputs[i] = Dequantized(inputs[i], inputs[i == kK ? kKeyScale : kValueScale], block);
    } else if (is(i, DType::kFloat16)) {
      EVOQ_ASSIGN(inputs[i], ToFloat32(inputs[i]));
    }
  }
  for (size_t i : {kKeyScale, kValueScale}) {
    if (i < inputs.size()) inputs[i] = Tensor();
  }
  EvalArgs widened = args;
  widened.inputs = inputs;
  EVOQ_ASSIGN(std::vector<Tensor> outputs, EvaluateAlike(widened));
  for (size_t i : {kK, kV}) {
    if (is(i, DType::kInt8)) outputs[i] = args.inputs[i];
    if (!is(i, DType::kFloat16)) continue;
    EVOQ_ASSIGN(outputs[i], FromFloat32(outputs[i], DType::kFloat16));
  }
  return outputs;
}

}  // namespace

namespace reference {

extern const Definition kAttention = {.name = "Attention", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
