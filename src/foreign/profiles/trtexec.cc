// trtexec's --exportProfile, --exportLayerInfo and --exportTimes files. Which file is which is told
// by their content, so any names will do:
//   profile     [{"count": N}, {"name", "timeMs", "averageMs", "medianMs", "percentage"}, ...];
//   older versions leave averageMs out layer info  {"Layers": [...], "Bindings": [...]}; a layer is
//   a string, or an object with --profilingVerbosity=detailed times       [{"latencyMs",
//   "computeMs", "h2dMs", ...}, ...], one per run and stream, measured without the profiler
//   log         the console's text, with --dumpProfile's table: where there is no profile file
//   metadata    {"device_information": {...}} as saved by TensorRT's engine explorer (optional)
#include <algorithm>
#include <cctype>
#include <deque>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json_file.h"
#include "base/median.h"
#include "foreign/profiles/source.h"
#include "foreign/profiles/trtexec_log.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Files {
  json profile, layers, times;
  TrtexecLog log;
  std::string profile_path, layers_path, times_path, log_path;
  std::string device;
  int count = 0;  // of those that are JSON
};

bool IsProfile(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("count");
}
bool IsTimes(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() &&
         (value[0].contains("latencyMs") || value[0].contains("computeMs"));
}

// `beside`: found in a folder, where a file that is no JSON is an error only if its name says that
// it is.
Status Take(const std::string& path, bool beside, Files& files) {
  // Once: it may be a pipe.
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  auto read = WithContext(ParseJson(text), path);
  if (!read && LowerExtension(path) != ".json") {
    TrtexecLog log = ReadTrtexecLog(text);
    if (!log.profile.is_null()) {
      files.log = std::move(log);
      files.log_path = path;
      return {};
    }
    if (beside) return {};
    return InvalidInput(
        "{}, nor a log with the table \"=== Profile\", which trtexec writes with --dumpProfile",
        read.error().message());
  }
  EVOQ_ASSIGN(json value, std::move(read));
  ++files.count;
  if (IsProfile(value)) {
    if (!files.profile.is_null())
      return InvalidInput("{}: a second profile beside {}", path, files.profile_path);
    files.profile = std::move(value);
    files.profile_path = path;
  } else if (IsTimes(value)) {
    if (!files.times.is_null())
      return InvalidInput("{}: a second file of times beside {}", path, files.times_path);
    files.times = std::move(value);
    files.times_path = path;
  } else if (value.is_object() && value.contains("Layers")) {
    if (!files.layers.is_null())
      return InvalidInput("{}: a second layer-info file beside {}", path, files.layers_path);
    files.layers = std::move(value);
    files.layers_path = path;
  } else if (value.is_object() && value.contains("device_information")) {
    files.device = JsonText(value["device_information"], "Selected Device");
  }
  return {};
}

ForeignTensor ReadTensor(const json& value) {
  ForeignTensor tensor;
  tensor.name = JsonText(value, "Name");
  tensor.format = JsonText(value, "Format/Datatype");
  if (tensor.format.empty())
    tensor.format = JsonText(value, "Format") + " " + JsonText(value, "Datatype");
  tensor.precision = PrecisionIn(tensor.format);
  for (const json& d : JsonArray(value, "Dimensions"))
    tensor.dims.push_back(d.is_number_integer() ? d.get<int64_t>() : -1);
  return tensor;
}

int64_t WeightBytes(const json& layer, const char* key) {
  const auto it = layer.find(key);
  if (it == layer.end()) return 0;
  const double bytes = JsonNumber(*it, "Count") * BitsOf(PrecisionIn(JsonText(*it, "Type"))) / 8;
  return bytes > 0 && bytes < 1e15 ? static_cast<int64_t>(bytes) : 0;
}

// "[ONNX Layer: /a/Conv]\x1e[ONNX Layer: /b/Relu]", which TensorRT 9 and newer say of layers that
// they name themselves, as "/a/Conv + /b/Relu".
std::string OnnxNames(const std::string& metadata) {
  constexpr std::string_view kMark = "[ONNX Layer: ";
  std::string names;
  for (size_t at = metadata.find(kMark); at != std::string::npos; at = metadata.find(kMark, at)) {
    at += kMark.size();
    const size_t end = std::min(metadata.find(']', at), metadata.size());
    names += (names.empty() ? "" : " + ") + metadata.substr(at, end - at);
  }
  return names;
}

bool IsNarrow(const std::string& precision) {
  return BitsOf(precision) == 8 || BitsOf(precision) == 4;
}

Conversion ConversionOf(const ForeignLayer& layer, const std::string& origin) {
  if (layer.group != LayerGroup::kReformatQdq) return Conversion::kNone;
  if (layer.inputs.empty() || layer.outputs.empty()) {  // names only
    if (layer.name.find("DequantizeLinear") != std::string::npos) return Conversion::kDequantize;
    return layer.name.find("QuantizeLinear") != std::string::npos ? Conversion::kQuantize
                                                                  : Conversion::kReformat;
  }
  const bool from_narrow = IsNarrow(layer.inputs[0].precision),
             to_narrow = IsNarrow(layer.outputs[0].precision);
  if (to_narrow && !from_narrow) return Conversion::kQuantize;
  if (from_narrow && !to_narrow) return Conversion::kDequantize;
  return origin == "QDQ" ? Conversion::kQuantize : Conversion::kReformat;
}

// Of the operators that a layer is made of: conversions fused into one that computes (a
// LayerNormalization that writes int8) are no layer of their own.
LayerGroup GroupOfOperators(const std::string& onnx_names) {
  std::string work;
  for (const std::string& op : OperatorsIn(onnx_names)) {
    if (op.find("QuantizeLinear") == std::string::npos &&
        GroupOf("", op) != LayerGroup::kReformatQdq)
      work += (work.empty() ? "" : " + ") + op;
  }
  return GroupOf("", work.empty() ? onnx_names : work);
}

// The group that the layer's types tell, the more exact one first: what the kernel is, then what it
// is for. Else that of its operators' names. TensorRT says of layers that stand for Q/DQ what they
// come from.
LayerGroup GroupOfLayer(const ForeignLayer& layer, const std::string& parameter_type,
                        const std::string& origin, const std::string& onnx_names) {
  if (origin == "QDQ") return LayerGroup::kReformatQdq;
  if (TypeTellsGroup(layer.type)) return GroupOf(layer.type, layer.name);
  if (TypeTellsGroup(parameter_type)) return GroupOf(parameter_type, "");
  // Names that TensorRT makes up itself ("__myl_CastMulMeanSub_myl0_0") hold any words.
  const LayerGroup by_name =
      layer.name.starts_with("__myl") ? LayerGroup::kOther : GroupOf("", layer.name);
  return by_name == LayerGroup::kOther && !onnx_names.empty() ? GroupOfOperators(onnx_names)
                                                              : by_name;
}

// Whether an operator's name ends in Add: "/layer1/Add", "Add_36", "model/block1/add". A bias is no
// sum of two activations.
bool IsAdd(std::string name) {
  while (!name.empty() && (name.back() == ')' || name.back() == '_' ||
                           std::isdigit(static_cast<unsigned char>(name.back()))))
    name.pop_back();
  name = name.substr(name.find_last_of("/(") + 1);
  return name == "Add" || name == "add" || name == "AddV";
}

// What the layer-info file says of a layer; `value` is null or a string where it says nothing.
void Describe(const json& value, ForeignLayer& layer) {
  std::string origin, parameter_type;
  if (value.is_object()) {
    layer.type = JsonText(value, "LayerType");
    layer.where = JsonText(value, "TacticName");
    parameter_type = JsonText(value, "ParameterType");
    origin = JsonText(value, "Origin");
    for (const json& t : JsonArray(value, "Inputs")) layer.inputs.push_back(ReadTensor(t));
    for (const json& t : JsonArray(value, "Outputs")) layer.outputs.push_back(ReadTensor(t));
    layer.weight_bytes = WeightBytes(value, "Weights") + WeightBytes(value, "Bias");
    if (const auto w = value.find("Weights"); w != value.end()) {
      layer.precision = PrecisionIn(JsonText(*w, "Type"));
      if (const double count = JsonNumber(*w, "Count"); count > 0 && count < 1e15)
        layer.weight_count = static_cast<int64_t>(count);
    }
    if (layer.precision.empty() && !layer.inputs.empty())
      layer.precision = layer.inputs[0].precision;
    for (const char* key : {"Kernel", "WindowSize"}) {
      for (const json& k : JsonArray(value, key))
        layer.kernel.push_back(k.is_number_integer() ? k.get<int64_t>() : -1);
    }
  }
  const std::string onnx_names = OnnxNames(JsonText(value, "Metadata"));
  layer.operators = OperatorsIn(onnx_names.empty() ? layer.name : onnx_names);
  layer.group = GroupOfLayer(layer, parameter_type, origin, onnx_names);
  layer.conversion = ConversionOf(layer, origin);
  const bool adds = std::any_of(layer.operators.begin(), layer.operators.end(), IsAdd);
  layer.has_residual = layer.group == LayerGroup::kConv && (layer.inputs.size() > 1 || adds);
}

Result<ForeignRun> Build(const Files& files, const std::string& path) {
  ForeignRun run;
  run.tool = "trtexec";
  run.path = path;
  run.device = files.device;
  std::map<std::string, std::deque<const json*>> described;  // in order: names may repeat
  for (const json& layer : JsonArray(files.layers, "Layers")) {
    if (!layer.is_object()) continue;
    described[JsonText(layer, "Name")].push_back(&layer);
    run.detailed = true;
  }
  static const json kNothing;
  const double count = JsonNumber(files.profile[0], "count", 0);
  for (size_t i = 1; i < files.profile.size(); ++i) {
    const json& entry = files.profile[i];
    ForeignLayer layer;
    layer.name = JsonText(entry, "name");
    if (layer.name.empty()) return InvalidInput("{}: entry {} has no name", files.profile_path, i);
    layer.ms =
        JsonNumber(entry, "averageMs", count > 0 ? JsonNumber(entry, "timeMs", -1) / count : -1);
    if (!(layer.ms >= 0))
      return InvalidInput("{}: entry {} ({}): averageMs is missing or negative", files.profile_path,
                          i, layer.name);
    const auto it = described.find(layer.name);
    Describe(it == described.end() ? kNothing : *it->second.front(), layer);
    if (it != described.end() && it->second.size() > 1) it->second.pop_front();
    run.layers.push_back(std::move(layer));
  }
  if (run.layers.empty())
    return InvalidInput("{}: no layer behind the count of runs", files.profile_path);
  std::vector<double> latencies;
  for (const json& t : files.times) {
    if (const double ms = JsonNumber(t, "latencyMs", JsonNumber(t, "computeMs", -1)); ms >= 0)
      latencies.push_back(ms);
  }
  run.end_to_end_ms = Median(latencies);
  Summarize(run);
  return run;
}

Result<ForeignRun> Read(const std::string& path) {
  std::error_code code;
  std::vector<std::string> paths = {path};
  const bool folder = std::filesystem::is_directory(path, code);
  if (folder) {
    EVOQ_ASSIGN(paths, ListFiles(path));
    // Engines lie beside them.
    std::erase_if(paths, [](const std::string& p) {
      const std::string extension = LowerExtension(p);
      return extension != ".json" && extension != ".txt" && extension != ".log" &&
             !extension.empty();
    });
  }
  Files files;
  for (const std::string& p : paths) EVOQ_TRY(Take(p, folder, files));
  if (files.profile.is_null()) {
    if (!files.log.fault.empty())
      return InvalidInput("{}: the table of --dumpProfile is cut: {}", files.log_path,
                          files.log.fault);
    files.profile = std::move(files.log.profile);
    files.profile_path = files.log_path;
    if (files.times.is_null()) files.times = std::move(files.log.times);
  }
  if (files.profile.is_null())
    return InvalidInput(
        "{}: no profile among {} JSON file{}; expected what trtexec --exportProfile=F writes, an "
        "array whose first entry is {{\"count\": N}}, or a log of --dumpProfile",
        path, files.count, files.count == 1 ? "" : "s");
  return Build(files, path);
}

}  // namespace

extern const ForeignSource kSourceTrtexec = {
    .tool = "trtexec",
    .option = "--trtexec",
    .takes = "DIR",
    .doc = "Folder with trtexec's --exportProfile, --exportLayerInfo and --exportTimes files",
    .marks = {"\"timeMs\"", "\"computeMs\"", "\"Layers\": [", "\"Layers\":[", "=== Profile"},
    .read = Read,
};

}  // namespace evoq
