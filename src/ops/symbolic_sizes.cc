#include "ops/symbolic_sizes.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "base/math.h"
#include "ops/op.h"

namespace evoq {
namespace {

using Elements = SymbolicSizes::Elements;

constexpr std::string_view kPlus = " + ";
constexpr size_t kMaxTerms = 4, kMaxName = 200;

// The element -1, which is no size; files name no symbol so.
constexpr std::string_view kMinusOne = "\x01-1";
Dim MinusOne() { return Dim::Symbolic(std::string(kMinusOne)); }
bool IsMinusOne(const Dim& dim) { return !dim.known() && dim.symbol == kMinusOne; }
// Neither a number nor a symbol.
bool Open(const Dim& dim) { return !dim.known() && (dim.symbol.empty() || IsMinusOne(dim)); }

// The terms of a dimension: names, and what is added to them.
struct Terms {
  std::vector<std::string> names;
  int64_t number = 0;
};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() < 15 && text.find_first_not_of("0123456789") == text.npos;
}

bool AddTerms(const Dim& dim, Terms& terms) {
  if (Open(dim)) return false;
  std::string_view rest = dim.symbol;
  while (!dim.known() && !rest.empty()) {
    const size_t end = std::min(rest.find(kPlus), rest.size());
    const std::string_view term = rest.substr(0, end);
    if (IsNumber(term)) {
      terms.number += std::stoll(std::string(term));
    } else {
      terms.names.emplace_back(term);
    }
    rest.remove_prefix(std::min(end + kPlus.size(), rest.size()));
  }
  if (!dim.known()) return true;
  const auto sum = CheckedAdd(terms.number, dim.value);
  terms.number = sum.value_or(0);
  return sum.has_value();
}

Dim DimOf(Terms terms) {
  if (terms.names.empty()) return Dim(terms.number);
  if (terms.names.size() > kMaxTerms) return {};
  std::ranges::sort(terms.names);
  std::string name;
  for (const std::string& term : terms.names)
    name += (name.empty() ? "" : std::string(kPlus)) + term;
  if (terms.number != 0) name += std::string(kPlus) + std::to_string(terms.number);
  return name.size() > kMaxName ? Dim() : Dim::Symbolic(std::move(name));
}

std::optional<Elements> Ints(const Tensor& tensor) {
  if (tensor.elements() > SymbolicSizes::kMaxElements || !tensor.layout().empty() ||
      tensor.type().quantized())
    return std::nullopt;
  const auto ints = ToInt64s(tensor);
  if (!ints) return std::nullopt;
  Elements elements;
  for (int64_t v : *ints) elements.push_back(v >= 0 ? Dim(v) : v == -1 ? MinusOne() : Dim());
  return elements;
}

bool IsOnnx(const Node& node, std::string_view op) { return node.domain.empty() && node.op == op; }

// Whether the elements are a value of the type: as many (a broadcast may make more), and no number
// that would wrap.
bool Holds(const TensorType& type, const Elements& elements) {
  const auto count = static_cast<int64_t>(elements.size());
  if (count > SymbolicSizes::kMaxElements || type.shape.elements() != count) return false;
  return type.dtype == DType::kInt64 ||
         (type.dtype == DType::kInt32 && std::ranges::all_of(elements, [](const Dim& d) {
            return d.value <= std::numeric_limits<int32_t>::max();
          }));
}

Dim Combined(const std::string& op, const Dim& x, const Dim& y) {
  if (op == "Add") return SumOf(x, y);
  if (!x.known() || !y.known()) return {};
  int64_t r = -1;
  if (op == "Mul" && __builtin_mul_overflow(x.value, y.value, &r)) return {};
  if (op == "Sub") r = x.value - y.value;
  if (op == "Div" && y.value > 0) r = x.value / y.value;
  return r < 0 ? Dim() : Dim(r);
}

}  // namespace

Dim SumOf(const Dim& a, const Dim& b) {
  Terms terms;
  return AddTerms(a, terms) && AddTerms(b, terms) ? DimOf(std::move(terms)) : Dim();
}

Dim DifferenceOf(const Dim& a, const Dim& b) {
  Terms all, less;
  if (!AddTerms(a, all) || !AddTerms(b, less)) return {};
  for (const std::string& name : less.names) {
    const auto found = std::ranges::find(all.names, name);
    if (found == all.names.end()) return {};
    all.names.erase(found);
  }
  all.number -= less.number;
  return all.number < 0 ? Dim() : DimOf(std::move(all));
}

std::optional<Elements> SymbolicSizes::Of(ValueId value) const {
  if (!value.valid()) return std::nullopt;
  if (graph_.value(value).is_constant()) return Ints(graph_.value(value).constant);
  const auto found = known_.find(value);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void SymbolicSizes::Learn(const Node& node) {
  if (node.outputs.empty() || !node.outputs[0].valid()) return;
  const ValueId out = node.outputs[0];
  const TensorType& type = graph_.value(out).type;
  if (type.dtype != DType::kInt64 && type.dtype != DType::kInt32) return;
  auto elements = Compute(node);
  if (elements && Holds(type, *elements)) known_[out] = std::move(*elements);
}

std::optional<Elements> SymbolicSizes::Compute(const Node& node) const {
  if (!node.domain.empty()) return std::nullopt;
  if (node.op == "Shape") return OfShape(node);
  if (node.op == "Cast" || node.op == "Identity" || node.op == "Squeeze" ||
      node.op == "Unsqueeze" || node.op == "Reshape")
    return Of(node.input(0));
  if (node.op == "Concat") return Joined(node);
  if (node.op == "Gather") return Picked(node);
  if (node.op == "Slice") return Sliced(node);
  if (node.op == "Where") return Kept(node);
  if (node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div")
    return Arithmetic(node);
  return std::nullopt;
}

std::optional<Elements> SymbolicSizes::OfShape(const Node& node) const {
  const Shape& shape = graph_.value(node.input(0)).type.shape;
  if (!shape.ranked()) return std::nullopt;
  const int64_t rank = shape.rank();
  const auto bound = [&](int64_t v) { return std::clamp(v < 0 ? v + rank : v, int64_t{0}, rank); };
  const int64_t begin = bound(node.attrs.Int("start", 0)), end = bound(node.attrs.Int("end", rank));
  if (begin >= end) return Elements{};
  return Elements(shape.dims().begin() + begin, shape.dims().begin() + end);
}

std::optional<Elements> SymbolicSizes::Joined(const Node& node) const {
  Elements all;
  for (ValueId in : node.inputs) {
    const auto part = Of(in);
    if (!part || graph_.value(in).type.shape.rank() != 1) return std::nullopt;
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

std::optional<Elements> SymbolicSizes::Picked(const Node& node) const {
  const auto data = Of(node.input(0));
  const Tensor* indices = graph_.ConstantInput(node, 1);
  const auto ints = indices != nullptr && indices->elements() <= kMaxElements
                        ? ToInt64s(*indices)
                        : Result<std::vector<int64_t>>(InvalidInput("none"));
  if (!data || !ints || graph_.value(node.input(0)).type.shape.rank() != 1) return std::nullopt;
  const auto size = static_cast<int64_t>(data->size());
  Elements picked;
  for (int64_t i : *ints) {
    if (i < -size || i >= size) return std::nullopt;
    picked.push_back((*data)[static_cast<size_t>(i < 0 ? i + size : i)]);
  }
  return picked;
}

// By steps of 1: others make another number of elements.
std::optional<Elements> SymbolicSizes::Sliced(const Node& node) const {
  const auto data = Of(node.input(0));
  const auto start = OneOf(node, 1), end = OneOf(node, 2);
  if (!data || !start || !end || graph_.value(node.input(0)).type.shape.rank() != 1)
    return std::nullopt;
  const auto size = static_cast<int64_t>(data->size());
  const auto bound = [&](int64_t v) {
    return std::clamp(v < 0 ? std::max(v, -size) + size : v, int64_t{0}, size);
  };
  const int64_t from = bound(*start), to = std::max(from, bound(*end));
  return Elements(data->begin() + from, data->begin() + to);
}

std::optional<Elements> SymbolicSizes::Arithmetic(const Node& node) const {
  const auto a = Of(node.input(0)), b = Of(node.input(1));
  if (!a || !b) return std::nullopt;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return std::nullopt;
  Elements out;
  const size_t count = a->size() == 1 ? b->size() : a->size();  // one element goes with none, too
  for (size_t i = 0; i < count; ++i)
    out.push_back(Combined(node.op, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
  return out;
}

// Where(sizes == -1, others, sizes), with which exporters resolve the -1 of an Expand.
std::optional<Elements> SymbolicSizes::Kept(const Node& node) const {
  const auto others = Of(node.input(1)), sizes = Of(node.input(2));
  if (!others || !sizes || others->size() != sizes->size() || !node.input(0).valid())
    return std::nullopt;
  const NodeId equal = graph_.value(node.input(0)).producer;
  if (!graph_.alive(equal) || !IsOnnx(graph_.node(equal), "Equal")) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const auto number = Of(graph_.node(equal).input(i));
    if (!number || graph_.node(equal).input(1 - i) != node.input(2) ||
        !std::ranges::all_of(*number, IsMinusOne) || number->size() > sizes->size())
      continue;
    Elements kept;
    for (size_t k = 0; k < sizes->size(); ++k)
      kept.push_back(IsMinusOne((*sizes)[k]) ? (*others)[k] : (*sizes)[k]);
    return kept;
  }
  return std::nullopt;
}

std::optional<int64_t> SymbolicSizes::OneOf(const Node& node, size_t input) const {
  const Tensor* tensor = graph_.ConstantInput(node, input);
  if (tensor == nullptr || tensor->elements() != 1) return std::nullopt;
  const auto ints = ToInt64s(*tensor);
  return ints ? std::optional((*ints)[0]) : std::nullopt;
}

void SymbolicSizes::RefineReshape(const Node& node, Shape& shape) const {
  const auto target = Of(node.input(1));
  if (!target || graph_.ConstantInput(node, 1) != nullptr) return;
  if (!shape.ranked()) shape = Shape(std::vector<Dim>(target->size()));
  if (shape.rank() != static_cast<int>(target->size())) return;
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim& size = (*target)[static_cast<size_t>(i)];
    const bool copies = size.known() && size.value == 0 && node.attrs.Int("allowzero") == 0;
    if (Open(shape[i]) && !Open(size) && !copies) shape[i] = size;
  }
}

void SymbolicSizes::RefineExpand(const Node& node, Shape& shape) const {
  const auto target = Of(node.input(1));
  const Shape& from = graph_.value(node.input(0)).type.shape;
  if (!target || !from.ranked() || !shape.ranked()) return;
  const int rank = static_cast<int>(target->size());
  if (shape.rank() != std::max(rank, from.rank())) return;
  for (int i = 0; i < rank; ++i) {
    const Dim& size = (*target)[static_cast<size_t>(i)];
    const int at = shape.rank() - rank + i, source = from.rank() - rank + i;
    const Dim before = source < 0 ? Dim(1) : from[source];
    if (!Open(shape[at]) || Open(size)) continue;
    const bool taken =
        (before.known() && before.value == 1) || (size.known() && size.value > 1) || before == size;
    if (taken) shape[at] = size;
    if (size.known() && size.value == 1) shape[at] = before;
  }
}

void SymbolicSizes::RefineRange(const Node& node, Shape& shape) const {
  const auto start = Of(node.input(0)), limit = Of(node.input(1));
  if (!start || !limit || start->size() != 1 || limit->size() != 1 || OneOf(node, 2) != 1) return;
  if (shape.ranked() && shape.rank() == 1 && Open(shape[0]))
    shape[0] = DifferenceOf((*limit)[0], (*start)[0]);
}

// From the first to as many as there are: everything.
void SymbolicSizes::RefineSlice(const Node& node, Shape& shape) const {
  const auto end = Of(node.input(2));
  const auto axis = OneOf(node, 3);
  const Shape& from = graph_.value(node.input(0)).type.shape;
  const bool plain = OneOf(node, 1) == 0 && (!node.input(4).valid() || OneOf(node, 4) == 1);
  if (!plain || !end || end->size() != 1 || !axis || !from.ranked() || !shape.ranked()) return;
  const int64_t at = *axis < 0 ? *axis + from.rank() : *axis;
  if (shape.rank() != from.rank() || at < 0 || at >= from.rank()) return;
  const int i = static_cast<int>(at);
  if (Open(shape[i]) && !Open(from[i]) && from[i] == (*end)[0]) shape[i] = from[i];
}

void SymbolicSizes::Refine(const Node& node, std::vector<TensorType>& types) const {
  if (types.empty() || !types[0].is_tensor()) return;
  if (IsOnnx(node, "Reshape")) RefineReshape(node, types[0].shape);
  if (IsOnnx(node, "Expand")) RefineExpand(node, types[0].shape);
  if (IsOnnx(node, "Range")) RefineRange(node, types[0].shape);
  if (IsOnnx(node, "Slice")) RefineSlice(node, types[0].shape);
}

}  // namespace evoq
