// What a Deployment does to a graph.
#include <algorithm>
#include <charconv>

#include "base/json_file.h"
#include "base/nearest.h"
#include "graph/run_choices.h"
#include "quant/bf16.h"
#include "quant/observe.h"
#include "tensor/permute.h"
#include "workflow/deployment.h"

namespace evoq {
namespace {

using nlohmann::json;

// What "NODE:INDEX" or the name of a value names, else an invalid id.
ValueId OutputNamed(const Graph& graph, const std::string& text) {
  if (const ValueId value = graph.FindValue(text); value.valid()) return value;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  const NodeId node = graph.FindNode(text.substr(0, colon));
  size_t index = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, index);
  if (!node.valid() || error != std::errc() || rest != end) return {};
  const std::vector<ValueId>& outputs = graph.node(node).outputs;
  return index < outputs.size() ? outputs[index] : ValueId{};
}

// The part of the graph that computes these, and no more.
Status KeepOutputs(const std::vector<std::string>& outputs, Graph& graph) {
  std::vector<std::string> values;
  for (const std::string& text : outputs) {
    const ValueId id = OutputNamed(graph, text);
    if (id.valid() && graph.value(id).producer.valid()) {
      values.push_back(graph.value(id).name);
      continue;
    }
    std::vector<std::string> known;
    for (const NodeId node : graph.order()) {
      for (size_t i = 0; i < graph.node(node).outputs.size(); ++i)
        known.push_back(fmt::format("{}:{}", graph.node(node).name, i));
    }
    const std::vector<std::string_view> names(known.begin(), known.end());
    return InvalidInput("--out_nodes: no node computes '{}'; the nearest is '{}'", text,
                        Nearest(text, names));
  }
  EVOQ_ASSIGN(graph, PartThatComputes(graph, values));
  return {};
}

// Every rank-4 input takes channels last; a Transpose, which the passes push to where it vanishes,
// gives the graph what it took.
void TakeChannelsLast(Graph& graph) {
  for (const ValueId in : std::vector<ValueId>(graph.inputs())) {
    const TensorType type = graph.value(in).type;
    if (!type.is_tensor() || !type.shape.ranked() || type.shape.rank() != 4) continue;
    const std::vector<NodeId> users = graph.value(in).users;
    const ValueId first = graph.Apply("Transpose", graph.value(in).name + "_nchw", {in}, {}, type);
    graph.attrs(graph.value(first).producer).Set("perm", std::vector<int64_t>{0, 3, 1, 2});
    for (const NodeId user : users) graph.ReplaceUsesIn(user, in, first);
    graph.SetType(in, PermutedAxes(type, std::vector<int64_t>{0, 2, 3, 1}));
  }
}

void GiveOutputs(DType type, Graph& graph) {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId out = graph.outputs()[i];
    const TensorType from = graph.value(out).type;
    if (!from.is_tensor() || !IsFloat(from.dtype) || from.quantized() || from.dtype == type)
      continue;
    const ValueId to =
        graph.Apply("Cast", graph.value(out).name + "_cast", {out},
                    Attrs::Of("to", static_cast<int64_t>(type)), TensorType(type, from.shape));
    graph.ReplaceOutput(i, to);
  }
}

// Sizes of an input that differ among the sets, or from the model's, become free.
Status FreeSizes(const Deployment& d, Graph& graph) {
  std::vector<std::string_view> names;
  for (const ValueId in : graph.inputs()) names.push_back(graph.value(in).name);
  for (const auto& [name, unused] : d.shapes[0]) {
    const ValueId in = graph.FindValue(name);
    if (!in.valid() || !graph.IsInput(in))
      return InvalidInput("shape_ranges: the model has no input '{}'; the nearest is '{}'", name,
                          Nearest(name, names));
    TensorType type = graph.value(in).type;
    for (const InputShapes& set : d.shapes) {
      const std::vector<int64_t>& sizes = set.at(name);
      if (!type.shape.ranked() || static_cast<size_t>(type.shape.rank()) != sizes.size())
        return InvalidInput("shape_ranges: input {}: {} sizes, the model's is {}", name,
                            sizes.size(), type.shape.ToString());
      for (int i = 0; i < type.shape.rank(); ++i) {
        if (type.shape[i].known() && type.shape[i].value != sizes[i])
          type.shape[i] = Dim::Symbolic(fmt::format("{}.{}", name, i));
      }
    }
    graph.SetType(in, std::move(type));
  }
  return {};
}

constexpr std::string_view kNarrowConvolutions = "bf16 Conv", kNarrowEverything = "bf16";

}  // namespace

Status ShapeInterface(const Deployment& d, Graph& graph) {
  if (!d.outputs.empty()) EVOQ_TRY(KeepOutputs(d.outputs, graph));
  if (d.channels_last_inputs) TakeChannelsLast(graph);
  if (d.output_type) GiveOutputs(*d.output_type, graph);
  if (d.dynamic) EVOQ_TRY(FreeSizes(d, graph));
  return graph.Sort();
}

void Finish(const Deployment& d, Graph& graph) {
  auto& facts = graph.metadata;
  if (d.narrow == Deployment::Narrow::kConvolutions) facts[kPrecisionChoice] = kNarrowConvolutions;
  if (d.narrow == Deployment::Narrow::kEverything) facts[kPrecisionChoice] = kNarrowEverything;
  if (!d.memory_reuse) facts[kMemoryReuseChoice] = "off";
  if (!d.winograd) facts[kWinogradChoice] = "off";
  if (d.tile_rows > 0) facts[kTileChoice] = std::to_string(d.tile_rows);
  if (d.merges_batches) facts[kBatchChoice] = *d.merges_batches ? "whole" : "apart";
  if (!d.strategy.empty()) facts[kStrategyChoice] = d.strategy;
  if (d.streams > 0) facts[kStreamsChoice] = std::to_string(d.streams);
  if (!d.stream_priorities.empty()) facts[kPrioritiesChoice] = json(d.stream_priorities).dump();
  if (!d.share_arenas) facts[kArenasChoice] = "apart";
  if (!d.dynamic) return;
  json ranges = json::object();
  for (const InputShapes& set : d.shapes) {
    for (const auto& [name, sizes] : set) ranges[name].push_back(sizes);
  }
  facts[kShapesChoice] = ranges.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status NarrowAsChosen(Graph& graph) {
  const std::string_view fact = ChoiceOf(graph, kPrecisionChoice);
  if (fact.empty()) return {};
  if (fact != kNarrowConvolutions && fact != kNarrowEverything)
    return InvalidInput("metadata {}: expected '{}' or '{}', found '{}'", kPrecisionChoice,
                        kNarrowConvolutions, kNarrowEverything, fact);
  QuantizeOptions options;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (fact == kNarrowConvolutions && node.op != "Conv") options.exclude.push_back(node.name);
  }
  const auto report = ConvertToBf16(graph, options);
  return report ? Status() : tl::unexpected(report.error());
}

Result<StreamChoice> ChosenStreams(const Graph& graph) {
  StreamChoice choice;
  const auto read = [&](const char* fact, const char* key) -> Result<Deployment> {
    const std::string where = fmt::format("metadata {}", fact);
    EVOQ_ASSIGN(json value, WithContext(ParseJson(ChoiceOf(graph, fact)), where));
    return ParseDeployment({{"stream_config", {{key, std::move(value)}}}}, where);
  };
  if (!ChoiceOf(graph, kStreamsChoice).empty()) {
    EVOQ_ASSIGN(const Deployment d, read(kStreamsChoice, "num_streams"));
    choice.streams = d.streams;
  }
  if (!ChoiceOf(graph, kPrioritiesChoice).empty()) {
    EVOQ_ASSIGN(Deployment d, read(kPrioritiesChoice, "stream_priority"));
    choice.priorities = std::move(d.stream_priorities);
  }
  choice.share_arenas = ChoiceOf(graph, kArenasChoice) != "apart";
  return choice;
}

Result<std::vector<InputShapes>> ChosenShapes(const Graph& graph) {
  const std::string_view fact = ChoiceOf(graph, kShapesChoice);
  if (fact.empty()) return std::vector<InputShapes>();
  const std::string where = fmt::format("metadata {}", kShapesChoice);
  EVOQ_ASSIGN(json ranges, WithContext(ParseJson(fact), where));
  const json file = {{"dynamic_shape_config",
                      {{"enable_dynamic_shape", true}, {"shape_ranges", std::move(ranges)}}}};
  EVOQ_ASSIGN(Deployment d, ParseDeployment(file, where));
  return std::move(d.shapes);
}

}  // namespace evoq
