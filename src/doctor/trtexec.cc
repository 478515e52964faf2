// trtexec's --exportProfile, --exportLayerInfo and --exportTimes files. Which file is which is told by their content, so any
// names will do:
//   profile     [{"count": N}, {"name", "timeMs", "averageMs", "medianMs", "percentage"}, ...]; older versions leave averageMs out
//   layer info  {"Layers": [...], "Bindings": [...]}; a layer is a string, or an object with --profilingVerbosity=detailed
//   times       [{"latencyMs", "computeMs", "h2dMs", ...}, ...], one per run and stream, measured without the profiler
//   metadata    {"device_information": {...}} as saved by TensorRT's engine explorer (optional)
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json_file.h"
#include "base/median.h"
#include "doctor/source.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Files {
  json profile, layers, times;
  std::string profile_path, layers_path;
  std::string device;
};

bool IsProfile(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("count");
}
bool IsTimes(const json& value) {
  return value.is_array() && !value.empty() && value[0].is_object() && (value[0].contains("latencyMs") || value[0].contains("computeMs"));
}

// Files that are no JSON are an error where their name says that they are.
Status Take(const std::string& path, Files& files) {
  auto read = ReadJsonFile(path);
  if (!read && LowerExtension(path) != ".json") return {};
  EVOQ_ASSIGN(json value, std::move(read));
  if (IsProfile(value)) {
    if (!files.profile.is_null()) return InvalidInput("{}: a second profile beside {}", path, files.profile_path);
    files.profile = std::move(value);
    files.profile_path = path;
  } else if (IsTimes(value)) {
    files.times = std::move(value);
  } else if (value.is_object() && value.contains("Layers")) {
    if (!files.layers.is_null()) return InvalidInput("{}: a second layer-info file beside {}", path, files.layers_path);
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
  if (tensor.format.empty()) tensor.format = JsonText(value, "Format") + " " + JsonText(value, "Datatype");
  tensor.precision = PrecisionIn(tensor.format);
  for (const json& d : JsonArray(value, "Dimensions")) tensor.dims.push_back(d.is_number_integer() ? d.get<int64_t>() : -1);
  return tensor;
}

int64_t WeightBytes(const json& layer, const char* key) {
  const auto it = layer.find(key);
  if (it == layer.end()) return 0;
  const double bytes = JsonNumber(*it, "Count") * BitsOf(PrecisionIn(JsonText(*it, "Type"))) / 8;
  return bytes > 0 && bytes < 1e15 ? static_cast<int64_t>(bytes) : 0;
}

// "[ONNX Layer: /a/Conv]\x1e[ONNX Layer: /b/Relu]", which TensorRT 9 and newer say of layers that they name themselves, as "/a/Conv + /b/Relu".
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

bool IsNarrow(const std::string& precision) { return precision == "int8" || precision == "fp8" || precision == "int4"; }

Conversion ConversionOf(const ForeignLayer& layer, const std::string& origin) {
  if (layer.group != LayerGroup::kReformatQdq) return Conversion::kNone;
  if (layer.inputs.empty() || layer.outputs.empty()) {  // names only
    if (layer.name.find("DequantizeLinear") != std::string::npos) return Conversion::kDequantize;
    return layer.name.find("QuantizeLinear") != std::string::npos ? Conversion::kQuantize : Conversion::kReformat;
  }
  const bool from_narrow = IsNarrow(layer.inputs[0].precision), to_narrow = IsNarrow(layer.outputs[0].precision);
  if (to_narrow && !from_narrow) return Conversion::kQuantize;
  if (from_narrow && !to_narrow) return Conversion::kDequantize;
  return origin == "QDQ" ? Conversion::kQuantize : Conversion::kReformat;
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
    if (const auto w = value.find("Weights"); w != value.end()) layer.precision = PrecisionIn(JsonText(*w, "Type"));
    if (layer.precision.empty() && !layer.inputs.empty()) layer.precision = layer.inputs[0].precision;
  }
  const bool said = !parameter_type.empty() && GroupOf(parameter_type, "") != LayerGroup::kOther;
  layer.group = said ? GroupOf(parameter_type, "") : GroupOf(layer.type, layer.name);
  const std::string onnx_names = OnnxNames(JsonText(value, "Metadata"));
  if (layer.group == LayerGroup::kOther && !onnx_names.empty()) layer.group = GroupOf("", onnx_names);
  layer.conversion = ConversionOf(layer, origin);
  const bool adds = layer.name.find("Add") != std::string::npos || onnx_names.find("Add") != std::string::npos;
  layer.has_residual = layer.group == LayerGroup::kConv && (layer.inputs.size() > 1 || adds);
}

Result<ForeignRun> Build(const Files& files, const std::string& path) {
  ForeignRun run;
  run.tool = "trtexec";
  run.path = path;
  run.device = files.device;
  std::map<std::string, const json*> described;
  for (const json& layer : JsonArray(files.layers, "Layers")) {
    if (!layer.is_object()) continue;
    described[JsonText(layer, "Name")] = &layer;
    run.detailed = true;
  }
  static const json kNothing;
  const double count = JsonNumber(files.profile[0], "count", 0);
  for (size_t i = 1; i < files.profile.size(); ++i) {
    const json& entry = files.profile[i];
    ForeignLayer layer;
    layer.name = JsonText(entry, "name");
    if (layer.name.empty()) return InvalidInput("{}: entry {} has no name", files.profile_path, i);
    layer.ms = JsonNumber(entry, "averageMs", count > 0 ? JsonNumber(entry, "timeMs", -1) / count : -1);
    if (!(layer.ms >= 0)) return InvalidInput("{}: entry {} ({}): averageMs is missing or negative", files.profile_path, i, layer.name);
    const auto it = described.find(layer.name);
    Describe(it == described.end() ? kNothing : *it->second, layer);
    run.layers.push_back(std::move(layer));
  }
  std::vector<double> latencies;
  for (const json& t : files.times) {
    if (const double ms = JsonNumber(t, "latencyMs", JsonNumber(t, "computeMs", -1)); ms >= 0) latencies.push_back(ms);
  }
  run.end_to_end_ms = Median(latencies);
  Summarize(run);
  return run;
}

Result<ForeignRun> Read(const std::string& path) {
  std::error_code code;
  std::vector<std::string> paths = {path};
  if (std::filesystem::is_directory(path, code)) {
    EVOQ_ASSIGN(paths, ListFiles(path));
    // Engines and logs lie beside them.
    std::erase_if(paths, [](const std::string& p) {
      const std::string extension = LowerExtension(p);
      return extension != ".json" && extension != ".txt" && !extension.empty();
    });
  }
  Files files;
  for (const std::string& p : paths) EVOQ_TRY(Take(p, files));
  if (files.profile.is_null())
    return InvalidInput("{}: no profile among {} JSON files; expected what trtexec --exportProfile=F writes, an array whose first "
                        "entry is {{\"count\": N}}", path, paths.size());
  return Build(files, path);
}

}  // namespace

extern const ForeignSource kSourceTrtexec = {"trtexec", "--trtexec", "DIR",
                                             "Folder with trtexec's --exportProfile, --exportLayerInfo and --exportTimes files", Read};

}  // namespace evoq
