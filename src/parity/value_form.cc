#include "parity/value_form.h"

#include <algorithm>
#include <numeric>

#include "base/math.h"
#include "data/convert.h"
#include "parity/value_error.h"

namespace evoq {
namespace {

constexpr int kMostAxes = 5;

// y[i] = x[Transpose's source of i]: axis k of y is axis perm[k] of x.
Tensor Transposed(const Tensor& x, const std::vector<int64_t>& sizes,
                  const std::vector<int64_t>& perm) {
  const size_t rank = perm.size();
  std::vector<int64_t> strides(rank, 1), to(rank), step(rank), index(rank, 0);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  for (size_t k = 0; k < rank; ++k) {
    to[k] = sizes[static_cast<size_t>(perm[k])];
    step[k] = strides[static_cast<size_t>(perm[k])];
  }
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape(to)));
  const float* from = x.data<float>();
  float* out = y.mutable_data<float>();
  int64_t at = 0;
  for (int64_t i = 0; i < y.elements(); ++i) {
    out[i] = from[at];
    for (size_t k = rank; k-- > 0;) {
      at += step[k];
      if (++index[k] < to[k]) break;
      at -= step[k] * to[k];
      index[k] = 0;
    }
  }
  return y;
}

std::vector<int64_t> InverseOf(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t k = 0; k < perm.size(); ++k)
    inverse[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  return inverse;
}

// Multiplies each channel, or divides.
Tensor Scaled(const Tensor& x, const ValueForm& form, bool divide) {
  Tensor y = x.Clone();
  int64_t inner = 1;
  for (size_t i = static_cast<size_t>(form.channel_axis) + 1; i < form.a_sizes.size(); ++i)
    inner *= form.a_sizes[i];
  const auto channels = static_cast<int64_t>(form.factors.size());
  float* out = y.mutable_data<float>();
  for (int64_t i = 0; i < y.elements(); ++i) {
    const float factor = form.factors[static_cast<size_t>(i / inner % channels)];
    out[i] = divide ? out[i] / factor : out[i] * factor;
  }
  return y;
}

Tensor Shaped(const Tensor& x, const std::vector<int64_t>& sizes) {
  return x.WithType(TensorType(DType::kFloat32, Shape(sizes)));
}

// The orders in which B's elements may lie, for tensors of these sizes: A's own; where `permuted`,
// also every permutation of A's axes (of at most five) that gives B's sizes. Nothing for different
// numbers of elements.
std::vector<ValueForm> PossibleForms(const std::vector<int64_t>& a_sizes,
                                     const std::vector<int64_t>& b_sizes, bool permuted) {
  std::vector<ValueForm> forms;
  const auto elements = CheckedProduct(a_sizes);
  if (!elements || elements != CheckedProduct(b_sizes)) return forms;
  std::vector<int64_t> order(a_sizes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  if (permuted && a_sizes.size() == b_sizes.size() && order.size() <= kMostAxes) {
    do {
      bool fits = !std::is_sorted(order.begin(), order.end());
      for (size_t k = 0; k < order.size() && fits; ++k)
        fits = a_sizes[static_cast<size_t>(order[k])] == b_sizes[k];
      if (fits) forms.push_back({.a_sizes = a_sizes, .perm = order});
    } while (std::next_permutation(order.begin(), order.end()));
  }
  forms.insert(forms.begin(), {.a_sizes = a_sizes, .perm = {}});
  return forms;
}

}  // namespace

Result<Tensor> ValueForm::ToA(const Tensor& b) const {
  EVOQ_ASSIGN(Tensor x, ToFloat32(b));
  if (x.elements() != CheckedProduct(a_sizes).value_or(-1))
    return InvalidInput("{}, expected the elements of {}", b.type().ToString(),
                        Shape(a_sizes).ToString());
  if (!perm.empty()) {
    std::vector<int64_t> sizes;
    for (int64_t axis : perm) sizes.push_back(a_sizes[static_cast<size_t>(axis)]);
    x = Transposed(x, sizes, InverseOf(perm));
  }
  x = Shaped(x, a_sizes);
  return factors.empty() ? x : Scaled(x, *this, /*divide=*/true);
}

Result<Tensor> ValueForm::ToB(const Tensor& a, const TensorType& type) const {
  Tensor x = factors.empty() ? a : Scaled(a, *this, /*divide=*/false);
  if (!perm.empty()) x = Transposed(x, a_sizes, perm);
  if (x.elements() != type.shape.elements().value_or(-1))
    return InvalidInput("{} elements for {}", x.elements(), type.ToString());
  return InType(Shaped(x, type.shape.sizes()), type);
}

namespace {

template <typename T>
Tensor Cast(const Tensor& real, const TensorType& type) {
  Tensor out = Tensor::Allocate(type);
  for (int64_t i = 0; i < real.elements(); ++i)
    out.mutable_data<T>()[i] = static_cast<T>(real.data<float>()[i]);
  return out;
}

}  // namespace

Result<Tensor> InType(const Tensor& real, const TensorType& type) {
  if (type.quantized()) return QuantizeTensor(real, type);
  switch (type.dtype) {
    case DType::kInt64: return Cast<int64_t>(real, type);
    case DType::kInt32: return Cast<int32_t>(real, type);
    case DType::kInt8: return Cast<int8_t>(real, type);
    case DType::kUint8:
    case DType::kBool: return Cast<uint8_t>(real, type);
    default: return ToInputType(real, type.dtype);
  }
}

Result<std::optional<ValueForm>> NearestForm(const Tensor& a, const Tensor& b, bool permuted) {
  std::optional<ValueForm> nearest;
  double least = 0;
  for (ValueForm& form : PossibleForms(a.sizes(), b.sizes(), permuted)) {
    EVOQ_ASSIGN(const Tensor as_a, form.ToA(b));
    ValueError error;
    error.Add(a.values<float>(), as_a.values<float>());
    if (!nearest || error.noise() < least) {
      least = error.noise();
      nearest = std::move(form);
    }
  }
  return nearest;
}

}  // namespace evoq
