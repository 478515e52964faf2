#include "ops/util.h"

#include <algorithm>

#include "base/math.h"
#include "ops/driver.h"

namespace evoq {

Result<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  if (!a.ranked() || !b.ranked()) return Shape::UnknownRank();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<Dim> dims(rank, Dim(1));
  for (int i = 0; i < rank; ++i) {
    const int from_a = i - (rank - a.rank()), from_b = i - (rank - b.rank());
    const Dim x = from_a >= 0 ? a[from_a] : Dim(1), y = from_b >= 0 ? b[from_b] : Dim(1);
    if (x == y || y.value == 1) {
      dims[i] = x;
    } else if (x.value == 1 || (!x.known() && y.known())) {
      dims[i] = y;
    } else if (!x.known() && !y.known()) {
      dims[i] = Dim();
    } else if (!y.known()) {
      dims[i] = x;
    } else {
      return InvalidInput("shapes {} and {} do not broadcast", a.ToString(), b.ToString());
    }
  }
  return Shape(std::move(dims));
}

std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to) {
  EVOQ_CHECK(from.size() <= to.size(), "{} dimensions broadcast to {}", from.size(), to.size());
  const std::vector<int64_t> strides = RowMajorStrides(from);
  std::vector<int64_t> result(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) result[lead + i] = from[i] == 1 ? 0 : strides[i];
  return result;
}

Result<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    EVOQ_ASSIGN(const int normal, NormalizeAxis(axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end())
      return InvalidInput("axis {} is named twice", axis);
    result.push_back(normal);
  }
  return result;
}

AxisSplit SplitAt(std::span<const int64_t> sizes, int axis) {
  AxisSplit split;
  for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
    (i < axis ? split.outer : i == axis ? split.size : split.inner) *= sizes[i];
  }
  return split;
}

Status CheckRank(const InferArgs& args, size_t i, int rank) {
  if (!args.has(i) || !args.inputs[i].shape.ranked() || args.inputs[i].shape.rank() == rank)
    return {};
  return InvalidInput("input {} has rank {}, expected {}", i, args.inputs[i].shape.rank(), rank);
}

Status CheckDType(const InferArgs& args, size_t i, std::span<const DType> allowed) {
  if (!args.has(i) ||
      std::find(allowed.begin(), allowed.end(), args.inputs[i].dtype) != allowed.end())
    return {};
  std::vector<std::string> names;
  for (DType dtype : allowed) names.push_back(DTypeName(dtype));
  return InvalidInput("input {} is {}, expected {}", i, args.inputs[i].ToString(),
                      fmt::join(names, " or "));
}

Status CheckFloat(const InferArgs& args, size_t i) {
  if (!args.has(i) || IsFloat(args.inputs[i].dtype)) return {};
  return InvalidInput("input {} is {}, expected a float type", i, args.inputs[i].ToString());
}

Result<std::optional<std::vector<int64_t>>> ConstantInts(const InferArgs& args, size_t i) {
  if (!args.has(i) || args.constant(i) == nullptr) return std::optional<std::vector<int64_t>>();
  EVOQ_ASSIGN(std::vector<int64_t> values,
              WithContext(ToInt64s(*args.constant(i)), fmt::format("input {}", i)));
  return std::optional(std::move(values));
}

namespace {

template <typename T>
Status CheckKind(const Node& node, const std::string& name, const char* kind) {
  if (!node.attrs.Has(name) || node.attrs.KindIs<T>(name)) return {};
  return InvalidInput("attribute {} is not {}", name, kind);
}

}  // namespace

Result<int64_t> IntAttr(const Node& node, const std::string& name, int64_t fallback) {
  EVOQ_TRY(CheckKind<int64_t>(node, name, "an integer"));
  return node.attrs.Int(name, fallback);
}

Result<float> FloatAttr(const Node& node, const std::string& name, float fallback) {
  EVOQ_TRY(CheckKind<float>(node, name, "a number"));
  return node.attrs.Float(name, fallback);
}

Result<std::vector<int64_t>> IntsAttr(const Node& node, const std::string& name,
                                      std::vector<int64_t> fallback) {
  EVOQ_TRY(CheckKind<std::vector<int64_t>>(node, name, "a list of integers"));
  return node.attrs.Ints(name, std::move(fallback));
}

InferResult SameAsInput0(const InferArgs& args) { return std::vector<TensorType>{args.inputs[0]}; }

InferResult FloatSameAsInput0(const InferArgs& args) {
  EVOQ_TRY(CheckFloat(args, 0));
  return SameAsInput0(args);
}

InferResult BroadcastInputs(const InferArgs& args) {
  TensorType type = args.inputs[0];
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    if (!args.has(i)) continue;
    if (args.inputs[i].dtype != type.dtype)
      return InvalidInput("input {} is {}, expected {} as input 0", i, args.inputs[i].ToString(),
                          DTypeName(type.dtype));
    EVOQ_ASSIGN(type.shape, BroadcastShapes(type.shape, args.inputs[i].shape));
  }
  return std::vector<TensorType>{type};
}

InferResult BroadcastToBool(const InferArgs& args) {
  EVOQ_ASSIGN(std::vector<TensorType> types, BroadcastInputs(args));
  types[0].dtype = DType::kBool;
  return types;
}

}  // namespace evoq
