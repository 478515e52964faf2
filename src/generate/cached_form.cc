#include "generate/cached_form.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/budget_scope.h"
#include "generate/cached_model.h"
#include "kernels/attention/attention_inputs.h"
#include "llm/cache_type.h"
#include "models/models.h"
#include "ops/driver.h"
#include "passes/match.h"
#include "passes/size_probe.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Sizes that are tried: a batch, and tokens behind a past.
constexpr int64_t kBatch = 3;
struct Run {
  int64_t tokens, past;
};
constexpr Run kRuns[] = {{2, 5}, {4, 7}, {5, 1}};

struct Layer {
  std::array<ValueId, 2> past, present;  // keys, values
  std::array<ValueId, 2> cache;          // inputs of the new form
  std::array<bool, 2> extended = {false, false};
};

// What an input holds in every element.
Tensor Filled(DType dtype, Shape shape, int64_t value) {
  Tensor tensor = Tensor::Allocate(TensorType(dtype, std::move(shape)));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (dtype == DType::kInt64) tensor.mutable_data<int64_t>()[i] = value;
    if (dtype == DType::kInt32) tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
    if (dtype == DType::kFloat32) tensor.mutable_data<float>()[i] = static_cast<float>(value);
    if (dtype == DType::kBool) tensor.mutable_data<bool>()[i] = value != 0;
  }
  return tensor;
}

class Converter {
 public:
  Converter(const Graph& graph, const CacheNames& names) : graph_(graph), names_(names) {}

  Result<Graph> Convert();

 private:
  ValueId Input(const std::string& name) const {
    const ValueId id = graph_.FindValue(name);
    return id.valid() && graph_.IsInput(id) ? id : ValueId{};
  }
  ValueId Output(const std::string& name) const {
    const ValueId id = graph_.FindValue(name);
    return id.valid() && graph_.IsOutput(id) ? id : ValueId{};
  }
  ValueId Ints(const std::string& name, const std::vector<int64_t>& values) {
    return AddInts(graph_, name, values);
  }

  // Sizes of heads that have a name in the caches' types, which the keys and values written tell.
  Status NameNoSizes();
  std::optional<int64_t> WrittenSize(ValueId past) const;
  Status FindValues();
  Result<SizeProbe> Probe(const Run& run) const;
  Status MakeProbes();
  void AddInputs();
  // Values that hold the tokens' places, or the tokens before or after a run, are the new inputs'.
  void ReplacePlaces();

  Status ConvertAttention(NodeId id);
  Status ConvertScatter(NodeId id);
  // What the mask hides, at all sizes that were tried.
  Result<Sight> SightOfMask(const Node& node);
  std::optional<Sight> Seen(ValueId mask, const Run& run, SizeProbe& probe) const;
  ValueId ByHead(const Node& node, ValueId x);
  ValueId Extended(const std::string& name, ValueId cache, ValueId update, ValueId present);
  void TakeRows();
  Status CheckNothingElse();
  Graph Assembled() const;

  Graph graph_;
  Graph before_;  // without what is added, for probes; ids are the same
  const CacheNames& names_;
  ValueId ids_, mask_, given_positions_, logits_;
  std::vector<Layer> layers_;
  std::vector<SizeProbe> probes_;  // of kRuns
  ValueId position_, logits_at_, positions_, lengths_;
};

// The last axis of what is written behind the past.
std::optional<int64_t> Converter::WrittenSize(ValueId past) const {
  for (const NodeId user : graph_.value(past).users) {
    const Node& node = graph_.node(user);
    ValueId written;
    if (node.op == "Pad") {
      const std::optional<int64_t> size = WrittenSize(node.outputs[0]);
      if (size) return size;
    } else if (node.op == "TensorScatter" && node.input(0) == past) {
      written = node.input(1);
    } else if (node.op == "Attention" && node.input(kPastKey) == past) {
      written = node.input(kK);
    } else if (node.op == "Attention" && node.input(kPastValue) == past) {
      written = node.input(kV);
    }
    if (!written.valid()) continue;
    const Shape& shape = graph_.value(written).type.shape;
    if (shape.ranked() && shape.rank() == 4 && shape[3].known()) return shape[3].value;
  }
  return std::nullopt;
}

Status Converter::NameNoSizes() {
  std::map<std::string, int64_t> sizes;
  for (const ValueId id : graph_.inputs()) {
    const Shape& shape = graph_.value(id).type.shape;
    if (!shape.ranked() || shape.rank() != 4 || shape[3].known()) continue;
    if (const auto size = WrittenSize(id)) sizes.emplace(shape[3].symbol, *size);
  }
  if (sizes.empty()) return {};
  for (const ValueId id : graph_.inputs()) {
    TensorType type = graph_.value(id).type;
    if (!type.shape.ranked()) continue;
    for (int i = 0; i < type.shape.rank(); ++i) {
      const auto size = sizes.find(type.shape[i].symbol);
      if (!type.shape[i].known() && size != sizes.end()) type.shape[i] = Dim(size->second);
    }
    graph_.SetType(id, std::move(type));
  }
  return InferTypes(graph_);
}

Status Converter::FindValues() {
  ids_ = Input(names_.tokens);
  mask_ = Input(names_.mask);
  given_positions_ = Input(names_.positions);
  logits_ = Output(names_.logits);
  if (!logits_.valid()) return Unsupported("it has no output '{}'", names_.logits);
  std::set<ValueId> known = {ids_, mask_, given_positions_};
  for (int64_t i = 0; Input(OfLayer(names_.past_key, i)).valid(); ++i) {
    Layer layer;
    const std::array inputs = {names_.past_key, names_.past_value},
                     outputs = {names_.present_key, names_.present_value};
    for (size_t k = 0; k < 2; ++k) {
      layer.past[k] = Input(OfLayer(inputs[k], i));
      layer.present[k] = Output(OfLayer(outputs[k], i));
      if (!layer.past[k].valid() || !layer.present[k].valid())
        return Unsupported("it has no input '{}' and output '{}'", OfLayer(inputs[k], i),
                           OfLayer(outputs[k], i));
      const TensorType& type = graph_.value(layer.past[k]).type;
      if (type.quantized() || !type.shape.ranked() || type.shape.rank() != 4 ||
          !type.shape[1].known() || !type.shape[3].known())
        return Unsupported("input '{}' is {}, expected [batch, heads, past, size]",
                           OfLayer(inputs[k], i), type.ToString());
      known.insert(layer.past[k]);
    }
    layers_.push_back(layer);
  }
  for (ValueId id : graph_.inputs()) {
    if (!known.contains(id))
      return Unsupported("input '{}' is none of a language model's ({})", graph_.value(id).name,
                         names_.name);
  }
  const TensorType& ids = graph_.value(ids_).type;
  if (ids.dtype != DType::kInt64 || !ids.shape.ranked() || ids.shape.rank() != 2)
    return Unsupported("input '{}' is {}, expected int64[batch, sequence]", names_.tokens,
                       ids.ToString());
  return {};
}

Result<SizeProbe> Converter::Probe(const Run& run) const {
  std::map<std::string, int64_t> symbols;
  std::map<ValueId, Tensor> data;
  const auto take = [&](ValueId id, const std::vector<int64_t>& sizes) -> Status {
    const Value& input = graph_.value(id);
    if (!input.type.shape.ranked() || input.type.shape.rank() != static_cast<int>(sizes.size()))
      return Unsupported("input '{}' is {}", input.name, input.type.ToString());
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Dim& dim = input.type.shape[static_cast<int>(i)];
      const bool clash = dim.known()
                             ? dim.value != sizes[i]
                             : symbols.emplace(dim.symbol, sizes[i]).first->second != sizes[i];
      if (clash)
        return Unsupported("input '{}' is {}: its sizes are not free", input.name,
                           input.type.ToString());
    }
    return {};
  };
  const int64_t total = run.past + run.tokens;
  EVOQ_TRY(take(ids_, {kBatch, run.tokens}));
  data[ids_] = Filled(DType::kInt64, Shape{kBatch, run.tokens}, 0);
  if (mask_.valid()) {
    EVOQ_TRY(take(mask_, {kBatch, total}));
    data[mask_] = Filled(graph_.value(mask_).type.dtype, Shape{kBatch, total}, 1);
  }
  if (given_positions_.valid()) {
    EVOQ_TRY(take(given_positions_, {kBatch, run.tokens}));
    Tensor places = Filled(DType::kInt64, Shape{kBatch, run.tokens}, 0);
    for (int64_t i = 0; i < places.elements(); ++i)
      places.mutable_data<int64_t>()[i] = run.past + i % run.tokens;
    data[given_positions_] = std::move(places);
  }
  for (const Layer& layer : layers_) {
    for (const ValueId past : layer.past) {
      const Shape& shape = graph_.value(past).type.shape;
      EVOQ_TRY(take(past, {kBatch, shape[1].value, run.past, shape[3].value}));
    }
  }
  return SizeProbe::Of(before_, symbols, data);
}

Status Converter::MakeProbes() {
  for (const Run& run : kRuns) {
    EVOQ_ASSIGN(SizeProbe probe, Probe(run));
    probes_.push_back(std::move(probe));
  }
  return {};
}

void Converter::AddInputs() {
  const auto ints = [](std::vector<Dim> dims) {
    return TensorType(DType::kInt64, Shape(std::move(dims)));
  };
  const Dim batch = Dim::Symbolic("batch");
  position_ = graph_.AddInput("position", ints({batch}));
  logits_at_ = graph_.AddInput("logits_at", ints({batch, Dim::Symbolic("wanted")}));
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (size_t k = 0; k < 2; ++k) {
      const TensorType& type = graph_.value(layers_[i].past[k]).type;
      layers_[i].cache[k] = graph_.AddInput(
          fmt::format("past_{}.{}", k == 0 ? "key" : "value", i),
          TensorType(type.dtype, Shape(std::vector<Dim>{batch, type.shape[1],
                                                        Dim::Symbolic("context"), type.shape[3]})));
    }
  }
  const ValueId shape = graph_.Apply("Shape", "sequence.shape", {ids_}, Attrs::Of("start", 1));
  const ValueId zero = graph_.AddConstant("zero", Tensor::Scalar<int64_t>(0)),
                one = graph_.AddConstant("one", Tensor::Scalar<int64_t>(1));
  const ValueId length = graph_.Apply("Squeeze", "sequence.length", {shape});
  const ValueId places = graph_.Apply("Range", "sequence.places", {zero, length, one});
  const ValueId begin =
      graph_.Apply("Unsqueeze", "position.begin", {position_, Ints("axis.1", {1})});
  positions_ = graph_.Apply("Add", "positions", {begin, places});
  lengths_ = graph_.Apply("Add", "lengths", {position_, shape});
}

void Converter::ReplacePlaces() {
  struct Candidate {
    ValueId by;
    size_t rank;     // 1: [batch]; else [batch or 1, 1, ..., tokens]
    bool from_past;  // begins at the past; else behind the run
  };
  // Models without places as an input count them once for all items.
  const ValueId apart =
      graph_.Apply("Unsqueeze", "positions.apart", {positions_, Ints("axis.apart", {1})});
  const Candidate candidates[] = {
      {positions_, 2, true}, {apart, 3, true}, {position_, 1, true}, {lengths_, 1, false}};
  const auto holds = [&](ValueId value, const Candidate& c) {
    for (size_t p = 0; p < probes_.size(); ++p) {
      const Run& run = kRuns[p];
      const auto got = probes_[p].ValueOf(value);
      if (!got || got->dtype() != DType::kInt64) return false;
      const std::vector<int64_t> sizes = got->sizes();
      if (sizes.size() != c.rank || (sizes[0] != kBatch && (c.rank == 1 || sizes[0] != 1)) ||
          (c.rank == 3 && sizes[1] != 1) || (c.rank > 1 && sizes.back() != run.tokens))
        return false;
      for (int64_t i = 0; i < got->elements(); ++i) {
        const int64_t wanted =
            c.rank > 1 ? run.past + i % run.tokens : run.past + (c.from_past ? 0 : run.tokens);
        if (got->data<int64_t>()[i] != wanted) return false;
      }
    }
    return true;
  };
  const auto replace = [&](ValueId value) {
    for (const Candidate& c : candidates) {
      if (holds(value, c)) {
        graph_.ReplaceUses(value, c.by);
        return;
      }
    }
  };
  const std::vector<NodeId> nodes = NodesOf(graph_);
  if (given_positions_.valid()) replace(given_positions_);
  for (NodeId id : nodes) {
    for (ValueId out : graph_.node(id).outputs) {
      if (out.valid() && !graph_.IsOutput(out)) replace(out);
    }
  }
}

std::optional<Sight> Converter::Seen(ValueId mask, const Run& run, SizeProbe& probe) const {
  const auto value = probe.ValueOf(mask);
  return value ? SightOf(*value, run.tokens, run.past + run.tokens) : std::nullopt;
}

Result<Sight> Converter::SightOfMask(const Node& node) {
  const ValueId mask = node.input(kMask);
  const auto other = [&]() -> Result<Sight> {
    return Unsupported("{}: its mask is not the causal one, or not computed from sizes, {} and {}",
                       NodeLabel(node), names_.mask, names_.positions);
  };
  std::vector<std::pair<Run, Sight>> tried;
  for (size_t p = 0; p < probes_.size(); ++p) {
    const auto sight = Seen(mask, kRuns[p], probes_[p]);
    if (!sight || !sight->causal) return other();
    tried.emplace_back(kRuns[p], *sight);
  }
  constexpr int64_t kTried = 11;  // the most keys of kRuns
  const auto large = LargeNumbers(before_, mask, kTried);
  if (!large) return other();
  for (const int64_t number : std::set<int64_t>(large->begin(), large->end())) {
    if (number > CachedModel::kMaxContext) continue;  // no sequence is as long
    const Run run{2, number + 1};
    EVOQ_ASSIGN(SizeProbe probe, Probe(run));
    const auto sight = Seen(mask, run, probe);
    if (!sight || !sight->causal) return other();
    tried.emplace_back(run, *sight);
  }
  Sight all{true, 0};
  for (const auto& [run, sight] : tried) all.window = std::max(all.window, sight.window);
  for (const auto& [run, sight] : tried) {
    const bool open = all.window == 0 || run.past + run.tokens <= all.window;
    if (sight.window != (open ? 0 : all.window)) return other();
  }
  return all;
}

// Keys or values of Attention as [batch, heads, tokens, size].
ValueId Converter::ByHead(const Node& node, ValueId x) {
  const Shape& shape = graph_.value(x).type.shape;
  if (shape.rank() == 4) return x;
  const std::string name = graph_.value(x).name;
  const ValueId split =
      graph_.Apply("Reshape", name + ".heads",
                   {x, Ints(name + ".heads_shape", {0, 0, node.attrs.Int("kv_num_heads"), -1})});
  return graph_.Apply("Transpose", name + ".by_head", {split},
                      Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
}

// The cache with the update behind each item's tokens, as what was `present`.
ValueId Converter::Extended(const std::string& name, ValueId cache, ValueId update,
                            ValueId present) {
  Node scatter{.op = "TensorScatter", .name = name, .attrs = Attrs::Of("axis", 2)};
  scatter.inputs = {cache, update, position_};
  scatter.outputs = {present};
  graph_.AddNode(std::move(scatter));
  return present;
}

Status Converter::ConvertAttention(NodeId id) {
  Node node = graph_.node(id);
  const auto layer = std::ranges::find_if(
      layers_, [&](const Layer& l) { return l.past[0] == node.input(kPastKey); });
  if (layer == layers_.end() || layer->past[1] != node.input(kPastValue) ||
      node.outputs.size() < 3 || node.outputs[1] != layer->present[0] ||
      node.outputs[2] != layer->present[1])
    return Unsupported("{}: its past and present are not those of one layer", NodeLabel(node));
  Sight sight{node.attrs.Int("is_causal") != 0, 0};
  if (node.input(kMask).valid()) {
    EVOQ_ASSIGN(sight, SightOfMask(node));
  }
  const int64_t window = node.attrs.Int("left_window_size", -1);
  if (!sight.causal || (sight.window > 0 && window >= 0))
    return Unsupported("{}: it sees later keys", NodeLabel(node));
  graph_.RemoveNode(id);
  const size_t number = static_cast<size_t>(layer - layers_.begin());
  const std::array names = {"key", "value"};
  std::array<ValueId, 2> present;
  for (size_t k = 0; k < 2; ++k) {
    const ValueId update = ByHead(node, node.inputs[k == 0 ? kK : kV]);
    present[k] = Extended(fmt::format("cache_{}.{}", names[k], number), layer->cache[k], update,
                          layer->present[k]);
    layer->extended[k] = true;
  }
  node.attrs.Set("is_causal", 1);
  if (sight.window > 0) node.attrs.Set("left_window_size", sight.window - 1);
  node.inputs = {node.inputs[kQ], present[0], present[1], {}, {}, {}, lengths_};
  node.outputs.resize(1);
  graph_.AddNode(std::move(node));
  return {};
}

// TensorScatter(past, update, before), the past perhaps made longer first: before is the position
// by now.
Status Converter::ConvertScatter(NodeId id) {
  const Node& node = graph_.node(id);
  ValueId from = node.input(0);
  if (const NodeId pad = ProducedBy(graph_, from, "Pad"); pad.valid())
    from = graph_.node(pad).input(0);
  for (Layer& layer : layers_) {
    for (size_t k = 0; k < 2; ++k) {
      if (layer.past[k] != from || layer.present[k] != node.outputs[0]) continue;
      const int64_t axis = node.attrs.Int("axis", -2);
      if (node.input(2) != position_ || (axis != 2 && axis != -2) ||
          node.attrs.String("mode", "linear") != "linear")
        return Unsupported("{}: it does not write behind the past", NodeLabel(node));
      graph_.SetInput(id, 0, layer.cache[k]);
      layer.extended[k] = true;
      return {};
    }
  }
  return {};
}

// Logits of the wanted tokens only: the rows are taken before the product that makes them.
void Converter::TakeRows() {
  ValueId x = logits_;
  NodeId reader;
  for (NodeId id = graph_.value(x).producer; graph_.alive(id);) {
    const Node& node = graph_.node(id);
    const bool product = IsOp(graph_, id, "MatMul");
    // Values beside it must be the same for all tokens.
    bool alone = OpOf(node).elementwise || product;
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (in.valid() && !graph_.value(in).is_constant()) alone = false;
      if (in.valid() && !product && graph_.value(in).type.shape.rank() > 1) alone = false;
      if (in.valid() && product && i > 1 && graph_.value(in).type.shape.rank() > 1) alone = false;
    }
    const ValueId before = node.input(0);
    const bool read = x == logits_ ? !graph_.value(x).users.empty() : !graph_.OnlyUser(x).valid();
    if (!alone || read || graph_.value(before).is_constant() ||
        graph_.value(before).type.shape.rank() != 3)
      break;
    reader = id;
    x = before;
    if (product) break;
    id = graph_.value(x).producer;
  }
  const ValueId at = graph_.Apply("Unsqueeze", "logits.at", {logits_at_, Ints("axis.2", {2})});
  const ValueId rows = graph_.Apply("GatherND", "logits.rows", {x, at}, Attrs::Of("batch_dims", 1));
  if (reader.valid()) {
    graph_.SetInput(reader, 0, rows);
    return;
  }
  const auto& outputs = graph_.outputs();
  const auto at_output = std::ranges::find(outputs, logits_) - outputs.begin();
  graph_.ReplaceOutput(static_cast<size_t>(at_output), rows);
  logits_ = rows;
}

// What is left of the old inputs would count tokens that the cache does not have.
Status Converter::CheckNothingElse() {
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (size_t k = 0; k < 2; ++k) {
      const Layer& layer = layers_[i];
      if (!layer.extended[k])
        return Unsupported("output '{}' is not input '{}' with what Attention reads behind it",
                           graph_.value(layer.present[k]).name, graph_.value(layer.past[k]).name);
      for (NodeId user : graph_.value(layer.present[k]).users) {
        if (!IsOp(graph_, user, "Attention"))
          return Unsupported("{} reads the cache '{}'", NodeLabel(graph_.node(user)),
                             graph_.value(layer.present[k]).name);
      }
    }
  }
  std::vector<ValueId> old = {mask_, given_positions_};
  for (const Layer& layer : layers_) old.insert(old.end(), layer.past.begin(), layer.past.end());
  for (ValueId id : old) {
    if (id.valid() && !graph_.value(id).users.empty())
      return Unsupported("{} reads the input '{}' in a way that caches of one size have not",
                         NodeLabel(graph_.node(graph_.value(id).users[0])), graph_.value(id).name);
  }
  return {};
}

// The graph with the inputs and outputs of docs/llm.md alone.
Graph Converter::Assembled() const {
  Graph to;
  to.name = graph_.name;
  to.metadata = graph_.metadata;
  std::map<ValueId, ValueId> moved;
  const auto input = [&](ValueId id, const std::string& name, TensorType type) {
    moved[id] = to.AddInput(name, std::move(type));
  };
  const auto move = [&](ValueId id) {
    if (!id.valid()) return id;
    const auto found = moved.find(id);
    if (found != moved.end()) return found->second;
    const Value& v = graph_.value(id);
    return moved[id] =
               v.is_constant() ? to.AddConstant(v.name, v.constant) : to.AddValue(v.name, v.type);
  };
  input(ids_, "input_ids",
        TensorType(DType::kInt64,
                   Shape(std::vector<Dim>{Dim::Symbolic("batch"), Dim::Symbolic("sequence")})));
  input(position_, "position", graph_.value(position_).type);
  input(logits_at_, "logits_at", graph_.value(logits_at_).type);
  for (const Layer& layer : layers_) {
    for (ValueId cache : layer.cache)
      input(cache, graph_.value(cache).name, graph_.value(cache).type);
  }
  for (NodeId id : graph_.order()) {
    Node node = graph_.node(id);
    for (ValueId& in : node.inputs) in = move(in);
    for (ValueId& out : node.outputs) out = move(out);
    to.AddNode(std::move(node));
  }
  const auto output = [&](ValueId id, const std::string& name) {
    to.Rename(moved[id], name);
    to.MarkOutput(moved[id]);
  };
  output(logits_, "logits");
  for (size_t i = 0; i < layers_.size(); ++i) {
    output(layers_[i].present[0], fmt::format("present_key.{}", i));
    output(layers_[i].present[1], fmt::format("present_value.{}", i));
  }
  return to;
}

Result<Graph> Converter::Convert() {
  EVOQ_TRY(InferTypes(graph_));  // a file may hold none of them
  EVOQ_TRY(NameNoSizes());
  before_ = graph_;
  EVOQ_TRY(FindValues());
  EVOQ_TRY(MakeProbes());
  AddInputs();
  ReplacePlaces();
  for (NodeId id : NodesOf(graph_)) {
    if (IsOp(graph_, id, "Attention") && graph_.node(id).input(kPastKey).valid())
      EVOQ_TRY(ConvertAttention(id));
    if (IsOp(graph_, id, "TensorScatter")) EVOQ_TRY(ConvertScatter(id));
  }
  TakeRows();
  EVOQ_TRY(graph_.Sort());
  graph_.RemoveDeadNodes();
  EVOQ_TRY(CheckNothingElse());
  Graph graph = Assembled();
  EVOQ_TRY(graph.Sort());
  EVOQ_TRY(InferTypes(graph));
  graph.metadata["llm.architecture"] = names_.name;
  for (const char* fact : {"llm.context", "llm.vocabulary"}) graph.metadata.emplace(fact, "0");
  const TensorType& logits = graph.value(graph.FindValue("logits")).type;
  if (logits.shape.ranked() && logits.shape.rank() == 3 && logits.shape[2].known())
    graph.metadata["llm.vocabulary"] = std::to_string(logits.shape[2].value);
  return graph;
}

}  // namespace

Result<Graph> CachedForm(const Graph& lowered, const CacheNames& names) {
  const BudgetScope budget(Budget::ForFile(GraphBytes(lowered)));
  return Converter(lowered, names).Convert();
}

std::optional<std::string> NoTextSentence(const Graph& lowered) {
  const CacheNames* names = FindCacheNames(lowered);
  if (names == nullptr) return std::nullopt;
  const auto form = CachedForm(lowered, *names);
  if (form) return std::nullopt;
  return "it runs, but generate cannot write text with it: " + form.error().message();
}

Result<std::unique_ptr<Engine>> InCachedForm(std::unique_ptr<Engine> engine,
                                             const std::string& path, const std::string& type) {
  EVOQ_ASSIGN(const DType narrow, ParseCacheType(type));
  const CacheNames* names = FindCacheNames(engine->model().graph);
  if (names == nullptr && (narrow == DType::kUndefined || HasCaches(engine->model().graph, narrow)))
    return engine;
  Graph graph = engine->model().graph;
  if (names != nullptr) {
    EVOQ_ASSIGN(graph, WithContext(CachedForm(graph, *names), path));
  }
  EVOQ_TRY(WithContext(SetCacheType(graph, narrow), path));
  return EngineFromGraph(std::move(graph), {.threads = engine->threads()});
}

}  // namespace evoq
