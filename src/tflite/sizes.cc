#include "tflite/sizes.h"

#include <algorithm>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

constexpr int64_t kLimit = int64_t{1} << 40;
constexpr size_t kMostElements = 16;

std::optional<Size> Limited(const Size& size) {
  const auto within = [](int64_t number) { return number >= -kLimit && number <= kLimit; };
  if (!within(size.factor) || !within(size.more)) return std::nullopt;
  return size.factor == 0 ? Size{.more = size.more} : size;
}

// a + sign * b
std::optional<Size> Added(const std::optional<Size>& a, const std::optional<Size>& b, int sign) {
  if (!a || !b) return std::nullopt;
  const bool one = a->number() || b->number();
  if (!one && (a->tensor != b->tensor || a->axis != b->axis)) return std::nullopt;
  Size sum = a->number() ? *b : *a;
  sum.factor = a->factor + sign * b->factor;
  sum.more = a->more + sign * b->more;
  return Limited(sum);
}

template <typename Combine>
Sizes Elementwise(const Translator& to, const Combine& combine) {
  const Sizes a = to.SizesIn(0), b = to.SizesIn(1);
  if (a.empty() || b.empty()) return {};
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return {};
  Sizes made(std::max(a.size(), b.size()));
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = combine(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return made;
}

}  // namespace

std::optional<Size> Sum(const std::optional<Size>& a, const std::optional<Size>& b) {
  return Added(a, b, 1);
}

std::optional<Size> Difference(const std::optional<Size>& a, const std::optional<Size>& b) {
  return Added(a, b, -1);
}

std::optional<Size> Product(const std::optional<Size>& a, const std::optional<Size>& b) {
  if (!a || !b || (!a->number() && !b->number())) return std::nullopt;
  Size size = a->number() ? *b : *a;
  const int64_t times = a->number() ? a->more : b->more;
  constexpr int64_t kMostTimes = 1 << 20;
  if (times < -kMostTimes || times > kMostTimes) return std::nullopt;
  size.factor *= times;
  size.more *= times;
  return Limited(size);
}

Sizes SizesOfShape(const Translator& to) {
  const auto rank = static_cast<size_t>(to.input(0).rank());
  if (rank > kMostElements) return {};
  Sizes made;
  for (size_t axis = 0; axis < rank; ++axis) made.push_back(to.SizeOf(0, axis));
  return made;
}

Sizes SizesOfCast(const Translator& to) {
  return IsInteger(to.output(0).dtype) ? to.SizesIn(0) : Sizes();
}

Sizes SizesOfPack(const Translator& to) {
  if (to.output(0).rank() != 1) return {};
  return SizesOfConcatenation(to);
}

Sizes SizesOfConcatenation(const Translator& to) {
  Sizes made;
  for (size_t i = 0; i < to.inputs(); ++i) {
    const Sizes part = to.SizesIn(i);
    if (part.empty() || made.size() + part.size() > kMostElements) return {};
    made.insert(made.end(), part.begin(), part.end());
  }
  return made;
}

// Elements one after the other: [i], [i:j], [:j], [i:].
Sizes SizesOfStridedSlice(const Translator& to) {
  const Sizes all = to.SizesIn(0);
  const auto o = to.Options<fb::StridedSliceOptions>();
  if (all.empty() || to.input(0).rank() != 1 || !o) return {};
  if ((*o)->new_axis_mask() != 0 || (*o)->ellipsis_mask() != 0 || (*o)->offset()) return {};
  for (const size_t i : {1, 2, 3}) {
    if (!to.is_constant(i)) return {};
  }
  const auto first = to.Int(1), last = to.Int(2), step = to.Int(3);
  if (!first || !last || !step || *step != 1) return {};
  const auto count = static_cast<int64_t>(all.size());
  const auto at = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + count : i, 0, count); };
  const int64_t begin = (*o)->begin_mask() & 1 ? 0 : at(*first);
  int64_t end = (*o)->end_mask() & 1 ? count : at(*last);
  if ((*o)->shrink_axis_mask() & 1) end = std::min(begin + 1, count);
  if (begin >= end) return {};
  return {all.begin() + begin, all.begin() + end};
}

Sizes SizesOfSum(const Translator& to) {
  const auto o = to.Options<fb::AddOptions>();
  return o && (*o)->activation() == 0 ? Elementwise(to, Sum) : Sizes();
}

Sizes SizesOfDifference(const Translator& to) {
  const auto o = to.Options<fb::SubOptions>();
  return o && (*o)->activation() == 0 ? Elementwise(to, Difference) : Sizes();
}

Sizes SizesOfProduct(const Translator& to) {
  const auto o = to.Options<fb::MulOptions>();
  return o && (*o)->activation() == 0 ? Elementwise(to, Product) : Sizes();
}

}  // namespace evoq::tflite
