// OpenVINO's execution graph, as benchmark_app's -exec_graph_path or
// ov.serialize(compiled_model.get_runtime_model(), F) writes it behind inferences with PERF_COUNT:
//   <net><layers><layer id name type>
//     <data execOrder execTimeMcs originalLayersNames outputLayouts outputPrecisions primitiveType
//           runtimePrecision/>
//     <input><port id precision><dim>1</dim>...</port></input><output>...</output>
//   </layer></layers><edges><edge from-layer from-port to-layer to-port/></edges></net>
// execTimeMcs is the mean in whole microseconds, or "not_executed": of constants, inputs, and
// layers that only give memory another shape. Older versions write type="ExecutionNode" and the
// type in the data (layerType); a GPU's graph has no runtimePrecision.
#include <algorithm>
#include <map>
#include <set>

#include "base/brief.h"
#include "base/file.h"
#include "foreign/profiles/benchmark_app.h"
#include "foreign/profiles/number_text.h"
#include "foreign/profiles/source.h"
#include "foreign/profiles/xml_tags.h"

namespace evoq {
namespace {

struct Port {
  std::string id, precision;
  std::vector<int64_t> dims;
};

struct Node {
  std::string id, name, type;
  std::map<std::string, std::string, std::less<>> data;
  std::vector<Port> inputs, outputs;
  bool executed = false;
  bool constant = false;  // computed from constants alone
  bool integers = false;  // which are integers, one of them at least
  double us = 0, order = 0;

  std::string Of(std::string_view key) const {
    const auto it = data.find(key);
    return it == data.end() ? "" : it->second;
  }
};

using Place = std::pair<std::string, std::string>;  // layer and port

struct Net {
  std::vector<Node>
      nodes;  // in the order of the file, in which values are written before they are read
  std::map<std::string, size_t, std::less<>> by_id;
  std::map<Place, Place> writers;  // of inputs
  bool has_times = false;

  const Node* Find(const std::string& id) const {
    const auto it = by_id.find(id);
    return it == by_id.end() ? nullptr : &nodes[it->second];
  }
};

Result<double> Microseconds(const std::string& text, const std::string& layer) {
  const auto us = NumberOf(text);
  if (us && *us >= 0) return *us;
  return InvalidInput("layer '{}': execTimeMcs '{}', expected microseconds or not_executed",
                      Shorten(layer), Shorten(text));
}

// Reads the tags of one file.
class Reader {
 public:
  Result<Net> Read(std::string_view text) {
    XmlTags tags(text);
    XmlTag tag;
    for (;;) {
      EVOQ_ASSIGN(const bool more, tags.Next(tag));
      if (!more) return std::move(net_);
      if (tag.name == "body" && !tag.empty) bodies_ += tag.closes ? -1 : 1;
      if (bodies_ == 0) EVOQ_TRY(Take(tag));  // what runs in a loop is part of its layer
    }
  }

 private:
  Status Take(const XmlTag& tag) {
    if (tag.name == "layer") return tag.closes ? Status() : Begin(tag);
    if (tag.name == "edge") {
      net_.writers[{tag.Of("to-layer"), tag.Of("to-port")}] = {tag.Of("from-layer"),
                                                               tag.Of("from-port")};
    }
    if (node_ == nullptr) return {};
    if (tag.name == "data") return TakeData(tag);
    if ((tag.name == "input" || tag.name == "output") && !tag.closes)
      ports_ = tag.name == "input" ? &node_->inputs : &node_->outputs;
    if (ports_ == nullptr) return {};
    if (tag.name == "port" && !tag.closes)
      ports_->push_back({tag.Of("id"), tag.Of("precision"), {}});
    if (tag.name == "dim" && tag.closes && !ports_->empty())
      ports_->back().dims.push_back(
          static_cast<int64_t>(std::strtoll(std::string(tag.text).c_str(), nullptr, 10)));
    return {};
  }

  Status Begin(const XmlTag& tag) {
    if (!net_.by_id.emplace(tag.Of("id"), net_.nodes.size()).second)
      return InvalidInput("layer '{}': id {} a second time", Shorten(tag.Of("name")),
                          Shorten(tag.Of("id")));
    net_.nodes.push_back({.id = tag.Of("id"), .name = tag.Of("name"), .type = tag.Of("type")});
    node_ = &net_.nodes.back();
    ports_ = nullptr;
    return {};
  }

  Status TakeData(const XmlTag& tag) {
    node_->data = tag.attributes;
    if (const std::string& type = tag.Of("layerType"); !type.empty()) node_->type = type;
    const std::string& time = tag.Of("execTimeMcs");
    net_.has_times = net_.has_times || !time.empty();
    node_->executed = !time.empty() && time != "not_executed";
    if (!node_->executed) return {};
    EVOQ_ASSIGN(node_->us, Microseconds(time, node_->name));
    node_->order = NumberOf(tag.Of("execOrder")).value_or(0);
    return {};
  }

  Net net_;
  Node* node_ = nullptr;
  std::vector<Port>* ports_ = nullptr;
  int bodies_ = 0;  // that are open
};

bool IsInteger(const std::string& precision) {
  return BitsOf(precision) == 8 || BitsOf(precision) == 4 || precision == "int32";
}

// Marks what is computed from constants alone.
void FindConstants(Net& net) {
  for (Node& node : net.nodes) {
    if (node.inputs.empty()) {
      node.constant = node.type == "Const" || node.type == "Constant";
      node.integers = !node.outputs.empty() && IsInteger(PrecisionIn(node.outputs[0].precision));
      continue;
    }
    node.constant = true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto writer = net.writers.find({node.id, node.inputs[i].id});
      const Node* from = writer == net.writers.end() ? nullptr : net.Find(writer->second.first);
      node.constant = node.constant && from != nullptr && from->constant;
      if (i == 0) node.integers = from != nullptr && from->integers;
    }
  }
}

// "a,b" as {"a", "b"}.
std::vector<std::string> NamesIn(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool Has(const std::string& text, const char* word) { return text.find(word) != text.npos; }

Conversion ConversionOf(const ForeignLayer& layer) {
  if (layer.type == "FakeQuantize" || layer.type == "QuantizeLinear") return Conversion::kQuantize;
  if (layer.type == "Reorder") return Conversion::kReformat;
  if (layer.type != "Convert" || layer.inputs.empty() || layer.outputs.empty())
    return layer.type == "Convert" ? Conversion::kReformat : Conversion::kNone;
  const bool from = BitsOf(layer.inputs[0].precision) == 8,
             to = BitsOf(layer.outputs[0].precision) == 8;
  if (from == to) return Conversion::kReformat;
  return to ? Conversion::kQuantize : Conversion::kDequantize;
}

// A Subgraph is generated code: elementwise operators, or a whole attention.
LayerGroup GroupOfNode(const ForeignLayer& layer) {
  if (layer.type != "Subgraph") return GroupOf(layer.type, "");
  const bool product = std::ranges::any_of(
      layer.operators, [](const std::string& name) { return Has(LowerCase(name), "matmul"); });
  return product ? LayerGroup::kMatMul : LayerGroup::kElementwise;
}

bool IsLinear(const ForeignLayer& layer) {
  return layer.group == LayerGroup::kConv || layer.group == LayerGroup::kMatMul;
}

class Layers {
 public:
  explicit Layers(const Net& net) : net_(net) {}

  // In the order of execution, without what is computed from constants alone: that ran once, when
  // the model was loaded, though its time stands beside those of runs.
  std::vector<ForeignLayer> All() {
    std::multimap<double, const Node*> executed;
    for (const Node& node : net_.nodes) {
      if (node.executed && !node.constant) executed.emplace(node.order, &node);
    }
    std::vector<ForeignLayer> layers;
    for (const auto& [order, node] : executed) layers.push_back(LayerOf(*node));
    return layers;
  }

 private:
  // What wrote a value, and its port: behind layers that were not executed, as a Reshape.
  std::pair<const Node*, std::string> WriterOf(const Node& reader, const Port& port) const {
    constexpr int kFar = 64;
    Place at = {reader.id, port.id};
    for (int i = 0; i < kFar; ++i) {
      const auto writer = net_.writers.find(at);
      if (writer == net_.writers.end()) break;
      const Node* node = net_.Find(writer->second.first);
      if (node == nullptr) break;
      if (node->executed || node->inputs.empty()) return {node, writer->second.second};
      at = {node->id, node->inputs[0].id};
    }
    return {nullptr, ""};
  }

  ForeignTensor InputOf(const Node& reader, const Port& port) const {
    ForeignTensor tensor{.dims = port.dims, .precision = PrecisionIn(port.precision)};
    tensor.format = port.precision;
    const auto [writer, from] = WriterOf(reader, port);
    if (writer == nullptr) return tensor;
    tensor.name = writer->id + ":" + from;
    tensor.constant = writer->constant;
    tensor.of_integers = writer->constant && writer->integers;
    return tensor;
  }

  ForeignLayer LayerOf(const Node& node) {
    ForeignLayer layer;
    layer.name = node.name;
    layer.type = node.type;
    layer.where = node.Of("primitiveType");
    layer.ms = node.us / 1e3;
    layer.operators = NamesIn(node.Of("originalLayersNames"));
    if (layer.operators.empty()) layer.operators = {node.name};
    for (const Port& port : node.inputs) {
      layer.inputs.push_back(InputOf(node, port));
      if (layer.inputs.back().constant) TakeBytes(layer.inputs.back(), layer);
    }
    for (const Port& port : node.outputs) {
      ForeignTensor output{.name = node.id + ":" + port.id, .dims = port.dims};
      output.format = port.precision;
      output.precision = PrecisionIn(port.precision);
      layer.outputs.push_back(std::move(output));
    }
    layer.precision = PrecisionIn(node.Of("runtimePrecision"));
    if (layer.precision.empty()) layer.precision = PrecisionIn(layer.where);
    layer.group = GroupOfNode(layer);
    layer.conversion = ConversionOf(layer);
    TakeWeights(layer);
    return layer;
  }

  // A constant counts where it is read first.
  void TakeBytes(const ForeignTensor& tensor, ForeignLayer& layer) {
    if (!counted_.insert(tensor.name).second) return;
    int64_t bits = BitsOf(tensor.precision);
    for (const int64_t d : tensor.dims) {
      if (d < 0 || __builtin_mul_overflow(bits, d, &bits)) return;
    }
    if (bits / 8 < int64_t{1} << 40) layer.weight_bytes += bits / 8;
  }

  // Weights: [M, C / groups, kernel...], of groups [G, M / G, C / G, kernel...]; behind them the
  // bias, and what a sum that is part of the layer adds.
  static void TakeWeights(ForeignLayer& layer) {
    if (!IsLinear(layer) || layer.inputs.size() < 2) return;
    const std::vector<int64_t>& dims = layer.inputs[1].dims;
    int64_t count = dims.empty() ? 0 : 1;
    for (const int64_t d : dims) {
      if (d <= 0 || __builtin_mul_overflow(count, d, &count)) return;
    }
    layer.weight_count = count;
    if (layer.group != LayerGroup::kConv) return;
    const size_t spatial = layer.inputs[0].dims.size() > 2 ? layer.inputs[0].dims.size() - 2 : 0;
    if (dims.size() > spatial)
      layer.kernel.assign(dims.end() - static_cast<ptrdiff_t>(spatial), dims.end());
    for (size_t i = 2; i < layer.inputs.size() && !layer.outputs.empty(); ++i) {
      const ForeignTensor& input = layer.inputs[i];
      if (!input.constant && !input.name.empty() && input.dims == layer.outputs[0].dims)
        layer.has_residual = true;
    }
  }

  const Net& net_;
  std::set<std::string> counted_;
};

// Whether a layer shows that the model computes in integers: conditions and bytes that the caller
// gives, an image say, are integers too.
bool IsQuantized(const ForeignLayer& layer) {
  if (layer.conversion == Conversion::kQuantize) return true;
  const bool bytes = BitsOf(layer.precision) == 8 || BitsOf(layer.precision) == 4;
  if (layer.group == LayerGroup::kPooling) return bytes;
  return IsLinear(layer) && (bytes || (layer.inputs.size() > 1 && layer.inputs[1].of_integers));
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  Reader reader;
  EVOQ_ASSIGN(Net net, WithContext(reader.Read(text), path));
  FindConstants(net);
  ForeignRun run;
  run.tool = "openvino";
  run.path = path;
  run.layers = Layers(net).All();
  if (run.layers.empty() && net.has_times)
    return InvalidInput(
        "{}: none of its {} layers has a time (not_executed); compile the model with "
        "PERF_COUNT=YES and write the graph behind an inference, or take benchmark_app "
        "-exec_graph_path",
        path, net.nodes.size());
  if (run.layers.empty())
    return InvalidInput(
        "{}: no layer with execTimeMcs; expected an execution graph of OpenVINO, as benchmark_app "
        "-exec_graph_path writes it (not a model's .xml)",
        path);
  EVOQ_TRY(TakeBenchmarkSummary(path, run));
  // Times are whole microseconds.
  run.excess = "what slow runs, as the first one, add to the means, and rounding";
  run.detailed = true;
  if (!std::ranges::any_of(run.layers, IsQuantized)) {
    for (ForeignLayer& layer : run.layers) {
      if (BitsOf(layer.precision) == 8) layer.precision.clear();
    }
  }
  Summarize(run);
  return run;
}

}  // namespace

extern const ForeignSource kSourceOpenvinoGraph = {
    .tool = "openvino",
    .option = "--openvino",
    .takes = "F",
    .doc = "Execution graph written by OpenVINO (benchmark_app -exec_graph_path)",
    .marks = {"execTimeMcs="},
    .read = Read,
};

}  // namespace evoq
