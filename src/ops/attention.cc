// Attention(q, k, v, mask?, past_key?, past_value?, nonpad_kv_seqlen?) -> y, present_key,
// present_value, scores. Per batch b, query head h and query i over keys j of the head's group:
//   s[j] = softcap(scale * q[i] . k[j]) + bias[i, j];  p = softmax(s);  y[i] = sum_j p[j] v[j]
// where bias is the mask (false: -infinity), and -infinity for keys that the causal rule, the
// window or the padding excludes. A row whose bias is -infinity everywhere gives zeros. Products
// are summed in float64 and rounded to the element type once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "ops/indexing.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
enum ScoreMode { kRaw, kCapped, kBiased, kProbabilities };

// ---- inference

// [batch, heads, length, size] of a 4-D input, or of a 3-D one [batch, length, heads * size].
Result<std::vector<Dim>> HeadsOf(const InferArgs& args, size_t i, const char* heads_attr) {
  const Shape& shape = args.inputs[i].shape;
  EVOQ_ASSIGN(const int64_t heads, IntAttr(args.node, heads_attr, 0));
  if (shape.rank() == 4) return shape.dims();
  if (shape.rank() != 3)
    return InvalidInput("input {} is {}, expected rank 3 or 4", i, shape.ToString());
  if (heads <= 0)
    return InvalidInput("attribute {} is {}, which an input of rank 3 needs", heads_attr, heads);
  const Dim& hidden = shape[2];
  if (hidden.known() && hidden.value % heads != 0)
    return InvalidInput("input {} is {}, expected a multiple of {} heads", i, shape.ToString(),
                        heads);
  return std::vector<Dim>{shape[0], Dim(heads), shape[1],
                          hidden.known() ? Dim(hidden.value / heads) : Dim()};
}

Dim Sum(const Dim& a, const Dim& b) {
  return a.known() && b.known() ? Dim(a.value + b.value) : Dim();
}
Dim Product(const Dim& a, const Dim& b) {
  const auto product = a.known() && b.known() ? CheckedMul(a.value, b.value) : std::nullopt;
  return product ? Dim(*product) : Dim();
}

Status CheckEqual(const Dim& a, const Dim& b, const char* what) {
  if (!a.known() || !b.known() || a.value == b.value) return {};
  return InvalidInput("{}: {} and {}, expected equal", what, a.value, b.value);
}

// The past of keys or values is [batch, kv heads, past, size].
Status CheckPast(const InferArgs& args, size_t i, const std::vector<Dim>& now) {
  if (!args.has(i)) return {};
  EVOQ_TRY(CheckRank(args, i, 4));
  const Shape& past = args.inputs[i].shape;
  if (!past.ranked()) return {};
  for (int d : {0, 1, 3}) EVOQ_TRY(CheckEqual(past[d], now[d], "the past and the present"));
  return {};
}

Status CheckAttributes(const InferArgs& args) {
  for (const char* name : {"left_window_size", "right_window_size"}) {
    EVOQ_ASSIGN(const int64_t window, IntAttr(args.node, name, -1));
    if (window < -1) return InvalidInput("attribute {} is {}, expected -1 or more", name, window);
  }
  EVOQ_ASSIGN(const int64_t mode, IntAttr(args.node, "qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3)
    return InvalidInput("attribute qk_matmul_output_mode is {}, expected 0 to 3", mode);
  EVOQ_TRY(IntAttr(args.node, "is_causal", 0));
  EVOQ_TRY(FloatAttr(args.node, "scale", 0));
  EVOQ_TRY(FloatAttr(args.node, "softcap", 0));
  if (args.has(kPastKey) != args.has(kPastValue))
    return InvalidInput("one of past_key and past_value is missing");
  if (args.has(kPastKey) && args.has(kLengths))
    return InvalidInput("nonpad_kv_seqlen beside a past, expected one of them");
  return {};
}

InferResult Infer(const InferArgs& args) {
  for (size_t i : {kQ, kK, kV, kPastKey, kPastValue}) EVOQ_TRY(CheckFloat(args, i));
  EVOQ_TRY(CheckAttributes(args));
  EVOQ_TRY(CheckDType(args, kLengths, std::array{DType::kInt64, DType::kInt32}));
  const DType dtype = args.inputs[kQ].dtype, v_dtype = args.inputs[kV].dtype;
  const auto unknown = [](DType d) { return TensorType(d, Shape::UnknownRank()); };
  for (size_t i : {kQ, kK, kV}) {
    if (!args.inputs[i].shape.ranked())
      return std::vector<TensorType>{unknown(dtype), unknown(dtype), unknown(v_dtype),
                                     unknown(dtype)};
  }
  EVOQ_ASSIGN(const auto q, HeadsOf(args, kQ, "q_num_heads"));
  EVOQ_ASSIGN(const auto k, HeadsOf(args, kK, "kv_num_heads"));
  EVOQ_ASSIGN(const auto v, HeadsOf(args, kV, "kv_num_heads"));
  EVOQ_TRY(CheckEqual(q[0], k[0], "batches of queries and keys"));
  EVOQ_TRY(CheckEqual(q[3], k[3], "sizes of queries and keys"));
  for (int d : {0, 1, 2}) EVOQ_TRY(CheckEqual(k[d], v[d], "keys and values"));
  if (q[1].known() && k[1].known() && (k[1].value == 0 || q[1].value % k[1].value != 0))
    return InvalidInput("{} query heads and {} key heads, expected a multiple", q[1].value,
                        k[1].value);
  EVOQ_TRY(CheckPast(args, kPastKey, k));
  EVOQ_TRY(CheckPast(args, kPastValue, v));
  Dim total = k[2];
  if (args.has(kPastKey))
    total =
        args.inputs[kPastKey].shape.ranked() ? Sum(args.inputs[kPastKey].shape[2], k[2]) : Dim();
  const Shape y = args.inputs[kQ].shape.rank() == 4
                      ? Shape(std::vector<Dim>{q[0], q[1], q[2], v[3]})
                      : Shape(std::vector<Dim>{q[0], q[2], Product(q[1], v[3])});
  return std::vector<TensorType>{
      TensorType(dtype, y), TensorType(dtype, Shape(std::vector<Dim>{k[0], k[1], total, k[3]})),
      TensorType(v_dtype, Shape(std::vector<Dim>{v[0], v[1], total, v[3]})),
      TensorType(dtype, Shape(std::vector<Dim>{q[0], q[1], q[2], total}))};
}

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

template <typename T>
void Softmax(std::vector<T>& row) {
  const auto n = static_cast<int64_t>(row.size());
  const T max = LargestOf(row.data(), n);
  for (T& v : row) v = max == kMinusInfinity<T> ? T{0} : ExpOf(v - max);
  const T sum = SumOf(row.data(), n);
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
        Softmax(row);
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

EvalResult Evaluate(const EvalArgs& args) {
  return EvaluateAsFloats(args, [&](auto tag) { return Attention<decltype(tag)>(args); },
                          {kMask, kLengths});
}

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType> outputs) {
  if (outputs.empty() || outputs[0].shape.rank() < 3) return 0;
  const int64_t queries = inputs[kQ].shape.elements().value_or(0),
                out = outputs[0].shape.elements().value_or(0);
  const Shape& k = inputs[kK].shape;
  int64_t keys = k[k.rank() - 2].value;
  if (inputs.size() > kPastKey && inputs[kPastKey].dtype != DType::kUndefined)
    keys += inputs[kPastKey].shape[2].value;
  return CheckedMul(queries + out, keys).value_or(0);
}

}  // namespace

extern const OpDef kAttention = {.name = "Attention",
                                 .min_inputs = 3,
                                 .max_inputs = 7,
                                 .outputs = 4,
                                 .infer = Infer,
                                 .evaluate = Evaluate,
                                 .macs = Macs};

}  // namespace evoq
