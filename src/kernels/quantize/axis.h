// How the scales of a tensor lie over its elements.
#pragma once

#include <optional>
#include <vector>

#include "kernels/call_util.h"
#include "kernels/quantize/quantize.h"

namespace evoq {

// Elements are [outer][axis][inner] with one scale per index of the axis; axis = 1 means one scale
// for all.
struct AxisView {
  int64_t axis = 1;
  int64_t inner = 1;

  // Cuts elements [begin, end) into runs. one(at, n, index): n elements share scale `index`;
  // each(at, n, index): they have the scales index, index + 1, ...
  template <typename One, typename Each>
  void ForRuns(int64_t begin, int64_t end, const One& one, const Each& each) const {
    if (axis == 1) return one(begin, end - begin, int64_t{0});
    while (begin < end) {
      const int64_t row = begin / inner, index = row % axis;
      const int64_t left = inner == 1 ? axis - index : (row + 1) * inner - begin;
      const int64_t n = std::min(left, end - begin);
      inner == 1 ? each(begin, n, index) : one(begin, n, index);
      begin += n;
    }
  }
};

// Of `count` scales along `axis` (counted from the front or the back) of `shape`; nothing when they
// do not fit.
inline std::optional<AxisView> AxisViewOf(const Shape& shape, int64_t axis, int64_t count) {
  if (count == 1) return AxisView{};
  const auto normal = NormalizeAxis(axis, shape.rank());
  if (!normal || shape[*normal].value != count) return std::nullopt;
  AxisView view{count, 1};
  for (int i = *normal + 1; i < shape.rank(); ++i) view.inner *= shape[i].value;
  return view;
}

inline std::optional<IntegerKind> IntegerKindOf(DType dtype) {
  if (dtype == DType::kUint8) return IntegerKind::kUint8;
  if (dtype == DType::kInt8) return IntegerKind::kInt8;
  if (dtype == DType::kUint16) return IntegerKind::kUint16;
  if (dtype == DType::kInt16) return IntegerKind::kInt16;
  if (dtype == DType::kInt32) return IntegerKind::kInt32;
  return std::nullopt;
}
inline bool IsWord(IntegerKind kind) {
  return kind == IntegerKind::kUint16 || kind == IntegerKind::kInt16;
}
inline int64_t BytesOf(IntegerKind kind) {
  return kind == IntegerKind::kInt32 ? 4 : IsWord(kind) ? 2 : 1;
}
// Of up to 16 bits.
inline IntegerRange RangeOf(DType dtype) {
  return {static_cast<int32_t>(IntegerMin(dtype)), static_cast<int32_t>(IntegerMax(dtype))};
}

// Integers in memory. Floats become bytes and words; they come of int32 too.
struct Stored {
  IntegerKind kind;
  IntegerRange range;

  static Stored Of(DType dtype) { return {*IntegerKindOf(dtype), RangeOf(dtype)}; }

  // n elements of x to those of q from number `at` on, by one scale or by one each.
  void One(const QuantizeTable& table, const float* x, void* q, int64_t at, int64_t n,
           const Divisor& by, int32_t zero) const {
    IsWord(kind) ? table.quantize_words(x, static_cast<uint16_t*>(q) + at, n, by.scale, zero, range)
                 : table.quantize(x, static_cast<uint8_t*>(q) + at, n, by, zero, range);
  }
  void Each(const QuantizeTable& table, const float* x, void* q, int64_t at, int64_t n,
            const float* scales, const int32_t* zeros) const {
    IsWord(kind)
        ? table.quantize_words_each(x, static_cast<uint16_t*>(q) + at, n, scales, zeros, range)
        : table.quantize_each(x, static_cast<uint8_t*>(q) + at, n, scales, zeros, range);
  }
};

// Scales and zero points known when a kernel is bound.
struct BoundScales {
  AxisView view;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
};
// Nothing for blocked scales or scales that do not fit the shape.
inline std::optional<BoundScales> ScalesOf(const TensorType& type) {
  if (!type.quantized() || type.quant->block != 0) return std::nullopt;
  const auto view =
      AxisViewOf(type.shape, type.quant->axis, static_cast<int64_t>(type.quant->scales.size()));
  if (!view) return std::nullopt;
  return BoundScales{*view, type.quant->scales, type.quant->zero_points};
}

}  // namespace evoq
