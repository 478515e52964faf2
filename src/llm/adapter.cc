#include "llm/adapter.h"

#include <algorithm>
#include <map>
#include <optional>

#include "llm/hugging_face.h"
#include "llm/language_model.h"
#include "ops/roles.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr const char kDown[] = ".lora_A", kUp[] = ".lora_B", kScaled[] = ".lora_scaled",
                     kSum[] = ".lora";

// The constant behind a value, through what only moves or dequantizes it.
ValueId Source(const Graph& graph, ValueId id) {
  for (int depth = 0; depth < 4 && !graph.value(id).is_constant(); ++depth) {
    const NodeId by = graph.value(id).producer;
    if (!by.valid()) return {};
    const Node& node = graph.node(by);
    const OpDef* const op = FindOp(node);
    if (op == nullptr || (op->quant != QuantTrait::kMove && !IsConversion(node))) return {};
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].valid() && !graph.value(node.inputs[i]).is_constant()) return {};
    }
    id = node.inputs[0];
  }
  return graph.value(id).is_constant() ? id : ValueId{};
}

// The numbers behind a value, in float32: of a constant, or of what Source goes through.
Result<Tensor> FloatsOf(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.is_constant()) return ToFloat32(value.constant);
  const Node& node = graph.node(value.producer);
  std::vector<Tensor> inputs;
  for (const ValueId input : node.inputs) {
    Tensor tensor;
    if (input.valid() && graph.value(input).is_constant()) {
      tensor = graph.value(input).constant;
    } else if (input.valid()) {
      EVOQ_ASSIGN(tensor, FloatsOf(graph, input));
    }
    inputs.push_back(std::move(tensor));
  }
  const std::vector<TensorType> types = {value.type};
  EVOQ_ASSIGN(std::vector<Tensor> outputs,
              WithContext(EvaluateNode(node, inputs, types), NodeLabel(node)));
  return ToFloat32(outputs.at(0));
}

std::string_view WithoutSuffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// Of what BuildLanguageModel made; null for another graph.
const Architecture* RowOf(const Graph& graph) {
  auto family = graph.metadata.find("llm.architecture");
  if (family == graph.metadata.end()) family = graph.metadata.find(kNamesFact);
  return family == graph.metadata.end() ? nullptr : FindArchitecture(family->second);
}

// What PEFT calls the module of a product.
std::string ModuleOf(const Graph& graph, const Node& node, ValueId weight) {
  const std::string_view stem = WithoutSuffix(graph.value(weight).name, ".weight");
  if (const Architecture* const row = RowOf(graph); row != nullptr) {
    const std::string name = HuggingFaceName(*row, node.name);
    if (!name.empty()) return name;
  }
  return std::string(stem);
}

// For a product whose outputs turn by interleaved pairs, and the module's do not: which of the
// module's outputs each is. Halves apart, value i of a head turns with value i + rotated / 2.
std::vector<int64_t> OutputsOf(const Graph& graph, const Node& node, int64_t outputs) {
  const NodeId turned = graph.FindNode(node.name + ".turned");
  if (!turned.valid() || graph.node(turned).attrs.Int("interleaved") == 0) return {};
  if (const Architecture* const row = RowOf(graph); row != nullptr && row->interleaved) return {};
  const Node& turn = graph.node(turned);
  const Shape& x = graph.value(turn.inputs[0]).type.shape;
  if (x.rank() != 4 || !x[3].known() || x[3].value == 0 || outputs % x[3].value != 0) return {};
  const int64_t size = x[3].value, asked = turn.attrs.Int("rotary_embedding_dim"),
                rotated = asked == 0 ? size : asked;
  std::vector<int64_t> of;
  for (int64_t i = 0; i < outputs; ++i) {
    const int64_t head = i / size * size, at = i % size;
    of.push_back(at >= rotated ? i : head + at / 2 + (at % 2 == 0 ? 0 : rotated / 2));
  }
  return of;
}

std::optional<AdapterPlace> PlaceOf(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const LinearForm* const form = LinearFormOf(node);
  if (!IsWeighted(node) || form == nullptr || form->grouped || node.attrs.Int("transA") != 0 ||
      node.attrs.Float("alpha", 1) != 1 || node.name.ends_with(kDown) || node.name.ends_with(kUp))
    return std::nullopt;
  const auto input = static_cast<size_t>(InputWith(*FindOp(node), Role::kWeight));
  const ValueId weight = Source(graph, node.inputs[input]);
  const Shape& w = graph.value(node.inputs[input]).type.shape;
  if (!weight.valid() || w.rank() != 2 || !w.is_static()) return std::nullopt;
  AdapterPlace place{.node = id, .module = ModuleOf(graph, node, weight)};
  const int out = WeightAxis(node, 2);
  place.inputs = w[1 - out].value;
  place.outputs = w[out].value;
  place.outputs_of = OutputsOf(graph, node, place.outputs);
  return place;
}

// A matrix turned around, its rows taken as `rows` says: of its own rows, or (`to`) of the others'.
Tensor Turned(const Tensor& x, std::span<const int64_t> rows, bool rows_are_columns) {
  const int64_t m = x.sizes()[0], n = x.sizes()[1];
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape{n, m}));
  const float* const from = x.data<float>();
  float* const to = y.mutable_data<float>();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < n; ++k) {
      if (rows.empty()) {
        to[k * m + i] = from[i * n + k];
      } else if (rows_are_columns) {  // x is the graph's [rank, outputs]
        to[rows[static_cast<size_t>(k)] * m + i] = from[i * n + k];
      } else {  // x is the module's [outputs, rank]
        to[k * m + i] = from[rows[static_cast<size_t>(i)] * n + k];
      }
    }
  }
  return y;
}

void AddNodes(Graph& graph, const AdapterPlace& place, const LoraAdapter& adapter, double scale) {
  const std::string name = graph.node(place.node).name;
  const ValueId x = graph.node(place.node).inputs[0], y = graph.node(place.node).outputs[0];
  const ValueId a = graph.AddConstant(name + kDown, Turned(adapter.a, {}, false));
  const ValueId b = graph.AddConstant(name + kUp, Turned(adapter.b, place.outputs_of, false));
  const ValueId factor =
      graph.AddConstant(name + kScaled, Tensor::Scalar(static_cast<float>(scale)));
  const ValueId down = graph.Apply("MatMul", name + kDown, {x, a});
  const ValueId up = graph.Apply("MatMul", name + kUp, {down, b});
  const ValueId scaled = graph.Apply("Mul", name + kScaled, {up, factor});
  const ValueId sum = graph.AddValue(name + kSum, graph.value(y).type);
  graph.ReplaceUses(y, sum);  // before the sum itself reads y
  graph.AddNode({.op = "Add", .name = name + kSum, .inputs = {y, scaled}, .outputs = {sum}});
}

// The nodes of one adapter, told by their names and how they hang together.
struct Found {
  AdapterPlace place;
  NodeId sum, scaled, up, down;
};
std::vector<Found> FindAdapters(const Graph& graph) {
  std::vector<Found> all;
  for (const AdapterPlace& place : AdapterPlaces(graph)) {
    const std::string& name = graph.node(place.node).name;
    Found f{place, graph.FindNode(name + kSum), graph.FindNode(name + kScaled),
            graph.FindNode(name + kUp), graph.FindNode(name + kDown)};
    if (!f.sum.valid() || !f.scaled.valid() || !f.up.valid() || !f.down.valid()) continue;
    const auto reads = [&](NodeId node, NodeId other, size_t i) {
      const Node& n = graph.node(node);
      return n.inputs.size() == 2 && n.inputs[i] == graph.node(other).outputs[0];
    };
    const auto constant = [&](NodeId node) {
      const Tensor* const t = graph.ConstantInput(graph.node(node), 1);
      return t != nullptr && t->dtype() == DType::kFloat32 && t->layout().empty();
    };
    const bool whole = reads(f.sum, place.node, 0) && reads(f.sum, f.scaled, 1) &&
                       reads(f.scaled, f.up, 0) && reads(f.up, f.down, 0) && constant(f.up) &&
                       constant(f.down) && constant(f.scaled);
    if (whole) all.push_back(std::move(f));
  }
  return all;
}

// w [k, n] += scale a [k, r] b [r, n].
void AddProduct(Tensor& w, bool by_output, const Tensor& a, const Tensor& b, double scale) {
  const int64_t k = a.sizes()[0], rank = a.sizes()[1], n = b.sizes()[1];
  float* const to = w.mutable_data<float>();
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r)
        sum += double(a.data<float>()[i * rank + r]) * double(b.data<float>()[r * n + j]);
      float& at = to[by_output ? j * k + i : i * n + j];
      at = static_cast<float>(double(at) + scale * sum);
    }
  }
}

}  // namespace

std::vector<AdapterPlace> AdapterPlaces(const Graph& graph) {
  std::vector<AdapterPlace> places;
  for (const NodeId id : graph.order()) {
    if (auto place = PlaceOf(graph, id)) places.push_back(std::move(*place));
  }
  return places;
}

Status AddAdapters(Graph& graph, const LoraAdapters& adapters) {
  std::map<std::string, AdapterPlace> places;
  for (AdapterPlace& place : AdapterPlaces(graph)) {
    std::string module = place.module;
    places.emplace(std::move(module), std::move(place));
  }
  for (const LoraAdapter& adapter : adapters.adapters) {
    const auto at = places.find(adapter.module);
    if (at == places.end())
      return InvalidInput("adapter {}: the model has no such product", adapter.module);
    const AdapterPlace& place = at->second;
    const Shape a{adapters.rank, place.inputs}, b{place.outputs, adapters.rank};
    if (adapter.a.shape() != a || adapter.b.shape() != b)
      return InvalidInput("adapter {}: {} and {}, expected {} and {}", adapter.module,
                          adapter.a.shape().ToString(), adapter.b.shape().ToString(), a.ToString(),
                          b.ToString());
    AddNodes(graph, place, adapter, adapters.scale);
  }
  EVOQ_TRY(graph.Sort());
  return InferTypes(graph);
}

LoraAdapters AdaptersOf(const Graph& graph) {
  LoraAdapters out;
  for (const Found& f : FindAdapters(graph)) {
    const Tensor &a = *graph.ConstantInput(graph.node(f.down), 1),
                 &b = *graph.ConstantInput(graph.node(f.up), 1);
    out.rank = a.sizes()[1];
    out.scale = graph.ConstantInput(graph.node(f.scaled), 1)->data<float>()[0];
    out.adapters.push_back(
        {f.place.module, Turned(a, {}, false), Turned(b, f.place.outputs_of, true)});
  }
  return out;
}

Result<int> MergeAdapters(Graph& graph) {
  const std::vector<Found> all = FindAdapters(graph);
  for (const Found& f : all) {
    const Node node = graph.node(f.place.node);
    const auto input = static_cast<size_t>(InputWith(*FindOp(node), Role::kWeight));
    EVOQ_ASSIGN(const Tensor stored, FloatsOf(graph, node.inputs[input]));
    Tensor w = stored.Clone();
    AddProduct(w, WeightAxis(node, 2) == 0, *graph.ConstantInput(graph.node(f.down), 1),
               *graph.ConstantInput(graph.node(f.up), 1),
               graph.ConstantInput(graph.node(f.scaled), 1)->data<float>()[0]);
    graph.SetInput(f.place.node, input, graph.AddConstant(node.name + ".merged", std::move(w)));
    graph.ReplaceUses(graph.node(f.sum).outputs[0], node.outputs[0]);
  }
  graph.RemoveDeadNodes();
  EVOQ_TRY(graph.Sort());
  EVOQ_TRY(InferTypes(graph));
  return static_cast<int>(all.size());
}

}  // namespace evoq
