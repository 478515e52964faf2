#include <charconv>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "graph/short_fact.h"
#include "llm/language_model.h"
#include "llm/part_weights.h"
#include "llm/phase.h"
#include "models/models.h"
#include "ops/op.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "report/table.h"
#include "tflite/import.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model;
  std::vector<std::string> shapes;
  bool dump = false;
};

json Describe(const Graph& graph, const std::vector<ValueId>& ids) {
  json list = json::array();
  for (ValueId id : ids) {
    const TensorType& type = graph.value(id).type;
    json shape = json::array();
    for (const Dim& d : type.shape.dims()) {
      if (d.known()) {
        shape.push_back(d.value);
      } else {
        shape.push_back(d.symbol.empty() ? "?" : d.symbol);
      }
    }
    list.push_back(
        {{"name", graph.value(id).name}, {"dtype", DTypeName(type.dtype)}, {"shape", shape}});
  }
  return list;
}

// Sums over the constants, those of subgraphs too: parameters by what they are stored as.
struct Weights {
  int64_t parameters = 0, bytes = 0;
  std::map<std::string, int64_t> precisions;
  std::set<const void*> seen;  // bytes: two constants may be views of the same ones

  void Add(const Graph& graph) {
    for (int i = 0; i < graph.value_count(); ++i) {
      const Value& v = graph.value(ValueId{i});
      if (!v.is_constant() || v.users.empty()) continue;
      const int64_t elements =
          IsTiedHead(graph, ValueId{i}) ? 0 : v.type.shape.elements().value_or(0);
      if (seen.insert(v.constant.raw()).second) bytes += static_cast<int64_t>(v.constant.bytes());
      if (v.type.dtype == DType::kInt64 || v.type.dtype == DType::kBool)
        continue;  // shapes and axes
      parameters += elements;
      precisions[DTypeName(v.type.dtype)] += elements;
    }
    for (NodeId id : graph.order()) {
      for (const auto& body : graph.node(id).bodies) Add(*body);
    }
  }
};

// A language model's weights by part, into `out` too.
std::string PartsText(const Graph& graph, json& out) {
  TextTable table({"part", ">parameters", ">bytes", ">scales", "precisions"});
  out["parts"] = json::array();
  for (const PartWeights& w : WeightsByPart(graph)) {
    std::vector<std::string> names;
    for (const auto& [precision, count] : w.precisions) names.push_back(precision);
    table.Row({w.part, std::to_string(w.parameters), std::to_string(w.bytes),
               std::to_string(w.scale_bytes), fmt::format("{}", fmt::join(names, ", "))});
    out["parts"].push_back({{"part", w.part},
                            {"parameters", w.parameters},
                            {"bytes", w.bytes},
                            {"scale_bytes", w.scale_bytes},
                            {"precisions", w.precisions}});
  }
  return table.ToString();
}

// The operator set of the ONNX model that this was; null where the file does not say.
json OpsetOf(const Graph& graph) {
  const auto text = graph.metadata.find("onnx.opset");
  int64_t version = 0;
  if (text == graph.metadata.end()) return json();
  const std::string& digits = text->second;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  return error == std::errc() && end == digits.data() + digits.size() ? json(version) : json();
}

// The operators of a TensorFlow Lite file that evoq does not run, so that a reader sees which.
Status ShowTfliteOperators(const std::string& path) {
  EVOQ_ASSIGN(const TfliteOperators list, ListTfliteOperators(path));
  TextTable table({"operator", ">count", "evoq"});
  for (const auto& row : list.operators)
    table.Row({row.name, std::to_string(row.count), row.runs ? "runs" : "does not run"});
  Out("{}\n{}", path, Lines{table.ToString()});
  return {};
}

Result<Graph> ImportOrShow(const std::string& path) {
  Result<Graph> graph = ImportModel(path);
  if (!graph && graph.error().code() == ErrorCode::kUnsupported && IsTflitePath(path))
    EVOQ_TRY(ShowTfliteOperators(path));
  return graph;
}

Result<json> Run(const Options& o) {
  if (o.dump && IsEtmFile(o.model)) {
    EVOQ_ASSIGN(const std::string text, DumpEtm(o.model));
    Out("{}", Lines{text});
    return json::object();
  }
  Graph graph;
  if (IsEtmFile(o.model)) {
    EVOQ_ASSIGN(Model model, ReadEtm(o.model));
    graph = std::move(model.graph);
    EVOQ_TRY(WithContext(InferTypes(graph), o.model));
  } else {
    EVOQ_ASSIGN(graph, ImportOrShow(o.model));
  }
  if (o.dump) {
    Out("{}", Lines{Print(graph)});
    return json::object();
  }
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(o.shapes));
  json out = {{"model", o.model},
              {"inputs", Describe(graph, graph.inputs())},
              {"outputs", Describe(graph, graph.outputs())}};
  out["opset"] = OpsetOf(graph);
  out["nodes"] = graph.order().size();
  std::map<std::string, int> operators;
  for (NodeId id : graph.order()) ++operators[graph.node(id).op];
  out["operators"] = operators;
  Weights weights;
  weights.Add(graph);
  out["parameters"] = weights.parameters;
  out["weight_bytes"] = weights.bytes;
  out["precisions"] = weights.precisions;
  // Work at the given shapes; a model whose free sizes are not named has no number yet.
  int64_t macs = 0, bytes = 0;
  Graph bound = graph;
  if (BindShapes(bound, shapes)) {
    for (NodeId id : bound.order()) {
      const Cost cost = NodeCost(bound, bound.node(id));
      macs += cost.macs;
      bytes += cost.bytes;
    }
    out["macs"] = macs;
    out["traffic_bytes"] = bytes;
  } else {
    if (!shapes.empty()) EVOQ_TRY(BindShapes(bound, shapes));
    out["macs"] = nullptr;
  }
  out["metadata"] = json::object();
  for (const auto& [key, value] : graph.metadata) out["metadata"][key] = ShortFact(value);
  Out("{}\n", o.model);
  for (ValueId id : graph.inputs())
    Out("  input  {}: {}\n", graph.value(id).name, graph.value(id).type.ToString());
  for (ValueId id : graph.outputs())
    Out("  output {}: {}\n", graph.value(id).name, graph.value(id).type.ToString());
  Out("  {} nodes, {:.2f} M parameters, {} of weights", graph.order().size(),
      out["parameters"].get<double>() / 1e6, HumanBytes(out["weight_bytes"].get<int64_t>()));
  if (!out["macs"].is_null()) Out(", {:.1f} M multiply-accumulates", macs / 1e6);
  Out("\n");
  if (IsLanguageModel(graph) || FindCacheInputs(graph)) Out("{}", Lines{PartsText(graph, out)});
  TextTable table({"operator", ">count"});
  for (const auto& [op, count] : operators) table.Row({op, std::to_string(count)});
  Out("{}", Lines{table.ToString()});
  return out;
}

VerbRun Declare(const VerbOptions& options, const CommonOptions&) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm").Required();
  options.Add("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  options.AddFlag("--dump", o->dump,
                  "Print the whole graph (and, for an .etm, its blobs and plans)");
  return [o] { return Run(*o); };
}

}  // namespace

extern const VerbDef kVerbInspect = {
    .name = "inspect",
    .doc =
        "Shows inputs, outputs, operators, parameters, multiply-accumulates, bytes and precisions.",
    .example = "evoq inspect mobilenetv2.onnx",
    .declare = Declare,
};

}  // namespace evoq
