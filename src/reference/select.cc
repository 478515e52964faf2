// Operators whose output size or order depends on the data: Compress, NonZero, TopK, Unique.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "reference/definition.h"
#include "reference/indexing.h"
#include "reference/util.h"

namespace evoq {
namespace {

// A total order: NaN is above every number.
template <typename T>
bool Below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return a == a;
  }
  return a < b;
}

// ---- Compress(x, condition): the slices along `axis` (elements of the flat tensor by default)
// whose condition is true

EvalResult EvaluateCompress(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int64_t width, ElementBytes(x));
  AxisSplit split{1, x.elements(), 1};
  std::vector<int64_t> sizes = {x.elements()};
  int axis = 0;
  if (args.node.attrs.Has("axis")) {
    EVOQ_ASSIGN(axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
    sizes = x.sizes();
    split = SplitAt(sizes, axis);
  }
  const std::span<const uint8_t> condition = args.inputs[1].values<uint8_t>();
  std::vector<int64_t> picked;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] == 0) continue;
    if (static_cast<int64_t>(i) >= split.size)
      return InvalidInput("input 1 (condition) selects {}, the axis has {}", i, split.size);
    picked.push_back(static_cast<int64_t>(i));
  }
  sizes[axis] = static_cast<int64_t>(picked.size());
  EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), Shape(sizes))));
  std::byte* to = y.mutable_raw();
  const size_t block = static_cast<size_t>(split.inner * width);
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t i : picked) {
      std::memcpy(to, x.raw() + (o * split.size + i) * static_cast<int64_t>(block), block);
      to += block;
    }
  }
  return One(std::move(y));
}

// ---- NonZero(x): the indices of elements that are not 0, as [rank, count]

EvalResult EvaluateNonZero(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  return DispatchElement(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    std::vector<int64_t> found;
    for (int64_t i = 0; i < x.elements(); ++i) {
      if (x.data<T>()[i] != T{0}) found.push_back(i);
    }
    std::vector<int64_t> sizes = x.sizes();
    if (sizes.empty()) sizes.push_back(1);
    const int64_t rank = static_cast<int64_t>(sizes.size()),
                  count = static_cast<int64_t>(found.size());
    EVOQ_ASSIGN(Tensor y, AllocateGrown(TensorType(DType::kInt64, Shape{rank, count})));
    const std::vector<int64_t> strides = RowMajorStrides(sizes);
    for (int64_t d = 0; d < rank; ++d) {
      for (int64_t i = 0; i < count; ++i)
        y.mutable_data<int64_t>()[d * count + i] = found[i] / strides[d] % sizes[d];
    }
    return One(std::move(y));
  });
}

// ---- TopK(x, k): the k largest (or smallest) elements along an axis and their indices; of equals
// the first ones

EvalResult EvaluateTopK(const EvalArgs& args) {
  EVOQ_ASSIGN(const std::vector<TensorType> types, InferFromValues(args));
  const Tensor& x = args.inputs[0];
  EVOQ_ASSIGN(const int axis, NormalizeAxis(args.node.attrs.Int("axis", -1), x.shape().rank()));
  const bool largest = args.node.attrs.Int("largest", 1) != 0;
  const AxisSplit split = SplitAt(x.sizes(), axis);
  const int64_t k = types[0].shape[axis].value;
  return DispatchNumber(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    EVOQ_ASSIGN(Tensor values, AllocateOutput(types[0]));
    EVOQ_ASSIGN(Tensor indices, AllocateOutput(types[1]));
    std::vector<int64_t> order(split.size);
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const T* in = x.data<T>() + o * split.size * split.inner + i;
        const auto at = [&](int64_t e) { return in[e * split.inner]; };
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t a, int64_t b) {
          const bool ab = largest ? Below(at(b), at(a)) : Below(at(a), at(b));
          const bool ba = largest ? Below(at(a), at(b)) : Below(at(b), at(a));
          return ab || (!ba && a < b);
        });
        for (int64_t e = 0; e < k; ++e) {
          const int64_t to = (o * k + e) * split.inner + i;
          values.mutable_data<T>()[to] = at(order[e]);
          indices.mutable_data<int64_t>()[to] = order[e];
        }
      }
    }
    return std::vector<Tensor>{std::move(values), std::move(indices)};
  });
}

// ---- Unique(x): the distinct slices along `axis` (elements of the flat tensor by default), the
// index where each first occurs, the output index of each input slice, and how often each occurs;
// sorted, or in order of occurrence.

// Groups of equal slices: for each group its first slice, in output order; for each slice its
// group.
struct Groups {
  std::vector<int64_t> first, group_of, count;
};

template <typename T>
Groups GroupSlices(const T* x, const AxisSplit& split, bool sorted) {
  // Negative when slice a is before b, 0 when they are equal.
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const T p = x[(o * split.size + a) * split.inner + i],
                q = x[(o * split.size + b) * split.inner + i];
        if (Below(p, q)) return -1;
        if (Below(q, p)) return 1;
      }
    }
    return 0;
  };
  std::vector<int64_t> order(split.size);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int c = compare(a, b);
    return c < 0 || (c == 0 && a < b);
  });
  std::vector<std::vector<int64_t>> members;
  for (int64_t slice : order) {
    if (members.empty() || compare(members.back()[0], slice) != 0) members.emplace_back();
    members.back().push_back(slice);
  }
  if (!sorted)
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return a[0] < b[0]; });
  Groups groups;
  groups.group_of.resize(split.size);
  for (const auto& member : members) {
    for (int64_t slice : member) groups.group_of[slice] = static_cast<int64_t>(groups.first.size());
    groups.first.push_back(member[0]);
    groups.count.push_back(static_cast<int64_t>(member.size()));
  }
  return groups;
}

EvalResult EvaluateUnique(const EvalArgs& args) {
  const Tensor& x = args.inputs[0];
  AxisSplit split{1, x.elements(), 1};
  std::vector<int64_t> sizes = {0};
  int axis = 0;
  if (args.node.attrs.Has("axis")) {
    EVOQ_ASSIGN(axis, NormalizeAxis(args.node.attrs.Int("axis"), x.shape().rank()));
    sizes = x.sizes();
    split = SplitAt(sizes, axis);
  }
  return DispatchElement(x.dtype(), [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    const Groups groups = GroupSlices(x.data<T>(), split, args.node.attrs.Int("sorted", 1) != 0);
    const int64_t count = static_cast<int64_t>(groups.first.size());
    sizes[axis] = count;
    EVOQ_ASSIGN(Tensor y, AllocateOutput(TensorType(x.dtype(), Shape(sizes))));
    T* to = y.mutable_data<T>();
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t g = 0; g < count; ++g) {
        const T* from = x.data<T>() + (o * split.size + groups.first[g]) * split.inner;
        to = std::copy(from, from + split.inner, to);
      }
    }
    return std::vector<Tensor>{std::move(y), Tensor::FromValues(Shape{count}, groups.first),
                               Tensor::FromValues(Shape{split.size}, groups.group_of),
                               Tensor::FromValues(Shape{count}, groups.count)};
  });
}

}  // namespace

namespace reference {

extern const Definition kCompress = {.name = "Compress", .evaluate = EvaluateCompress};
extern const Definition kNonZero = {.name = "NonZero", .evaluate = EvaluateNonZero};
extern const Definition kTopK = {.name = "TopK", .evaluate = EvaluateTopK};
extern const Definition kUnique = {.name = "Unique", .evaluate = EvaluateUnique};

}  // namespace reference
}  // namespace evoq
