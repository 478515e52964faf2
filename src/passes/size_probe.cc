#include "passes/size_probe.h"

#include <algorithm>
#include <set>

#include "ops/held.h"
#include "passes/match.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int kMaxDepth = 200;      // of a computation
constexpr size_t kMaxSymbols = 24;  // that get sizes of their own
constexpr int kProbes = 3;
constexpr size_t kMaxComputation = 4096;  // values

// What stands between " + ", summed; nothing where a part is neither a number nor a known symbol.
std::optional<int64_t> SumOf(const std::string& text, const std::map<std::string, int64_t>& known) {
  int64_t sum = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(" + ", at), text.size());
    const std::string part = text.substr(at, end - at);
    if (const auto found = known.find(part); found != known.end()) {
      sum += found->second;
    } else if (!part.empty() && part.size() < 7 &&
               part.find_first_not_of("0123456789") == part.npos) {
      sum += std::stoll(part);
    } else {
      return std::nullopt;
    }
    at = end + 3;
  }
  return sum;
}

bool IsSum(const std::string& symbol) { return symbol.find(" + ") != symbol.npos; }

// The inputs' symbols that are no sums.
std::vector<std::string> SymbolsOf(const Graph& graph) {
  std::vector<std::string> symbols;
  for (ValueId id : graph.inputs()) {
    for (const Dim& d : graph.value(id).type.shape.dims()) {
      if (!d.known() && !IsSum(d.symbol) && std::ranges::find(symbols, d.symbol) == symbols.end())
        symbols.push_back(d.symbol);
    }
  }
  return symbols;
}

}  // namespace

Result<SizeProbe> SizeProbe::Of(const Graph& graph, const std::map<std::string, int64_t>& symbols,
                                const std::map<ValueId, Tensor>& data) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (!input.type.is_tensor() || !input.type.shape.ranked())
      return Unsupported("input {} is {}", input.name, input.type.ToString());
    std::vector<int64_t>& sizes = shapes[input.name];
    for (const Dim& d : input.type.shape.dims()) {
      const auto size = d.known() ? d.value : SumOf(d.symbol, symbols);
      if (!size) return Unsupported("input {}: no size for '{}'", input.name, d.symbol);
      sizes.push_back(*size);
    }
  }
  SizeProbe probe;
  probe.bound_ = std::make_shared<Graph>(graph);
  Graph& bound = *probe.bound_;
  Release(bound);
  EVOQ_TRY(BindShapes(bound, shapes));
  for (const auto& [id, tensor] : data) {
    if (!(tensor.type() == bound.value(id).type))
      return Unsupported("input {} is {}, not {}", bound.value(id).name,
                         bound.value(id).type.ToString(), tensor.type().ToString());
    probe.computed_[id] = tensor;
    bound.ReplaceUses(id, bound.AddConstant(bound.value(id).name + "_tried", tensor));
  }
  EVOQ_TRY(FoldKnown(bound));
  return probe;
}

std::optional<Tensor> SizeProbe::ValueOf(ValueId id) { return Compute(id, 0); }

std::optional<Tensor> SizeProbe::Compute(ValueId id, int depth) {
  if (!id.valid() || id.index >= bound_->value_count() || depth > kMaxDepth) return std::nullopt;
  if (const auto found = computed_.find(id); found != computed_.end()) return found->second;
  std::optional<Tensor>& result = computed_[id];  // nothing, until it is known
  const Value& value = bound_->value(id);
  if (value.is_constant()) {
    const bool plain = value.constant.layout().empty() && !value.type.quantized();
    return result = plain ? std::optional(value.constant) : std::nullopt;
  }
  const NodeId producer = value.producer;
  if (!bound_->alive(producer)) return std::nullopt;
  const Node& node = bound_->node(producer);
  const OpDef* op = FindOp(node);
  if (op == nullptr || op->random || op->bodies > 0) return std::nullopt;
  std::vector<TensorType> types;
  for (ValueId out : node.outputs) {
    types.push_back(out.valid() ? bound_->value(out).type : TensorType());
    if (out.valid() && types.back().shape.elements().value_or(kMaxElements + 1) > kMaxElements)
      return std::nullopt;
  }
  std::vector<Tensor> inputs;
  for (ValueId in : node.inputs) {
    inputs.emplace_back();
    if (!in.valid()) continue;
    auto known = Compute(in, depth + 1);
    if (!known) return std::nullopt;
    inputs.back() = std::move(*known);
  }
  auto outputs = EvaluateAhead(kReference, node, inputs, types);
  if (!outputs) return std::nullopt;
  for (size_t i = 0; i < outputs->size() && i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) computed_[node.outputs[i]] = (*outputs)[i];
  }
  return computed_[id];
}

void SizeProbes::Make() {
  made_ = true;
  const std::vector<std::string> symbols = SymbolsOf(graph_);
  if (symbols.size() > kMaxSymbols) return;
  exact_ = symbols.empty();
  for (int p = 0; p < (exact_ ? 1 : kProbes); ++p) {
    std::map<std::string, int64_t> sizes;
    for (size_t k = 0; k < symbols.size(); ++k)
      sizes[symbols[k]] = 2 + 7 * p + static_cast<int64_t>(k) * (p + 1);
    auto probe = SizeProbe::Of(graph_, sizes);
    if (!probe) {
      probes_.clear();
      return;
    }
    probes_.push_back(std::move(*probe));
  }
}

std::vector<SizeProbe>& SizeProbes::all() {
  if (!made_) Make();
  return probes_;
}

bool SizeProbes::exact() {
  if (!made_) Make();
  return exact_ && !probes_.empty();
}

bool SizeProbes::Same(ValueId a, int axis_a, ValueId b, int axis_b) {
  const Dim &x = graph_.value(a).type.shape[axis_a], &y = graph_.value(b).type.shape[axis_b];
  if (SameDim(x, y)) return true;
  if (x.known() && y.known()) return false;
  for (const SizeProbe& probe : all()) {
    const TensorType s = probe.type(a), t = probe.type(b);
    if (s.dtype == DType::kUndefined || t.dtype == DType::kUndefined || !s.shape.is_static() ||
        !t.shape.is_static() || s.shape[axis_a] != t.shape[axis_b])
      return false;
  }
  return !probes_.empty();
}

bool SizeProbes::Masks(ValueId mask, ValueId scores) {
  const Shape &m = graph_.value(mask).type.shape, &s = graph_.value(scores).type.shape;
  if (!m.ranked() || !s.ranked() || m.rank() < 1 || m.rank() > s.rank()) return false;
  for (int d = 0; d < m.rank(); ++d) {
    const bool one = m[d].known() && m[d].value == 1 && d + 1 < m.rank();
    if (!one && !Same(mask, d, scores, s.rank() - m.rank() + d)) return false;
  }
  return true;
}

std::optional<int64_t> SizeProbes::Size(ValueId value, int axis) {
  const Dim& dim = graph_.value(value).type.shape[axis];
  if (dim.known()) return dim.value;
  std::optional<int64_t> size;
  for (const SizeProbe& probe : all()) {
    const TensorType type = probe.type(value);
    if (type.dtype == DType::kUndefined || !type.shape.is_static()) return std::nullopt;
    const int64_t here = type.shape[axis].value;
    if (size && *size != here) return std::nullopt;
    size = here;
  }
  return exact_ || probes_.size() > 1 ? size : std::nullopt;
}

// ---- masks

namespace {

constexpr float kHidden = -1e4f;

// Whether a key is seen: by bools, or by what is added. Nothing for another number.
std::optional<bool> Seen(const Tensor& mask, int64_t i) {
  if (mask.dtype() == DType::kBool) return mask.data<uint8_t>()[i] != 0;
  const float bias = mask.data<float>()[i];
  if (bias == 0) return true;
  return bias <= kHidden ? std::optional(false) : std::nullopt;
}

// The number that a constant of one element holds.
std::optional<double> NumberOf(const Tensor& tensor) {
  if (tensor.elements() != 1 || !tensor.layout().empty() || tensor.type().quantized() ||
      tensor.dtype() == DType::kString)
    return std::nullopt;
  if (IsFloat(tensor.dtype())) {
    const auto real = ToFloat32(tensor);
    return real ? std::optional<double>(real->data<float>()[0]) : std::nullopt;
  }
  const auto ints = ToInt64s(tensor);
  return ints ? std::optional<double>(static_cast<double>((*ints)[0])) : std::nullopt;
}

}  // namespace

std::optional<Sight> SightOf(const Tensor& mask, int64_t queries, int64_t keys) {
  const std::vector<int64_t> sizes = mask.sizes();
  if ((mask.dtype() != DType::kBool && mask.dtype() != DType::kFloat32) || sizes.size() < 2 ||
      sizes[sizes.size() - 2] != queries || sizes.back() < keys || queries < 2 || keys < queries)
    return std::nullopt;
  bool all = true, causal = true;
  int64_t window = 0;  // of the first row that does not see the first key
  struct Row {
    int64_t place, first;
  };
  std::vector<Row> rows;
  for (int64_t r = 0; r < mask.elements() / sizes.back(); ++r) {
    Row row{keys - queries + r % queries, -1};
    int64_t count = 0, last = -1;
    for (int64_t j = 0; j < keys; ++j) {
      const auto seen = Seen(mask, r * sizes.back() + j);
      if (!seen) return std::nullopt;
      if (!*seen) continue;
      row.first = row.first < 0 ? j : row.first;
      last = j;
      ++count;
    }
    all &= count == keys;
    causal &= last == row.place && count == last - row.first + 1;
    if (window == 0 && row.first > 0) window = row.place - row.first + 1;
    rows.push_back(row);
  }
  if (all) return Sight{};
  for (const Row& row : rows) {
    const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, row.place - window + 1);
    causal &= row.first == first;
  }
  return causal ? std::optional(Sight{true, window}) : std::nullopt;
}

std::optional<std::vector<int64_t>> LargeNumbers(const Graph& graph, ValueId value, int64_t least) {
  std::vector<int64_t> numbers;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!id.valid() || !seen.insert(id).second) continue;
    if (seen.size() > kMaxComputation) return std::nullopt;
    const Value& v = graph.value(id);
    const auto number = v.is_constant() ? NumberOf(v.constant) : std::nullopt;
    if (number && *number > static_cast<double>(least) && *number < INT32_MAX)
      numbers.push_back(static_cast<int64_t>(*number));
    if (!graph.alive(v.producer) || graph.node(v.producer).op == "Shape") continue;
    for (ValueId in : graph.node(v.producer).inputs) open.push_back(in);
  }
  return numbers;
}

}  // namespace evoq
