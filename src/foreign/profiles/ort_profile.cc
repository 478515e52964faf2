// ONNX Runtime's profile (SessionOptions::EnableProfiling): Chrome trace events. A node's time is
// the event "NAME_kernel_time" with args op_name, provider, input_type_shape, output_type_shape,
// parameter_size; a whole run is "model_run".
#include <algorithm>
#include <map>

#include "base/json_file.h"
#include "base/median.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr const char* kSuffix = "_kernel_time";

// [{"float": [1, 3, 224, 224]}, ...]
std::vector<ForeignTensor> ReadTensors(const json& list) {
  std::vector<ForeignTensor> tensors;
  for (const json& entry : list) {
    ForeignTensor tensor;
    if (entry.is_object() && !entry.empty()) {
      tensor.format = entry.begin().key();
      tensor.precision = PrecisionIn(tensor.format);
      if (entry.begin()->is_array()) {
        for (const json& d : *entry.begin())
          tensor.dims.push_back(d.is_number_integer() ? d.get<int64_t>() : -1);
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Conversion ConversionOf(const std::string& op) {
  if (op.starts_with("Memcpy")) return Conversion::kCopy;
  if (op == "QuantizeLinear" || op == "DynamicQuantizeLinear") return Conversion::kQuantize;
  if (op == "DequantizeLinear") return Conversion::kDequantize;
  return op.starts_with("Reorder") || op == "Cast" ? Conversion::kReformat : Conversion::kNone;
}

// Sizes are numbers written as strings.
int64_t SizeOf(const json& args, const char* key) {
  const int64_t size = std::strtoll(JsonText(args, key).c_str(), nullptr, 10);
  return size > 0 ? size : 0;
}

// Which input holds the weights: of operators on quantized tensors the fourth, behind the first
// one's scale and zero point.
size_t WeightInput(const std::string& op) {
  return op.starts_with("QLinear") || op == "QGemm" ? 3 : 1;
}

// Number and kernel of the weights of a convolution ([M, C / groups, kernel...]) or a product.
void TakeWeights(ForeignLayer& layer) {
  const size_t at = WeightInput(layer.type);
  if ((layer.group != LayerGroup::kConv && layer.group != LayerGroup::kMatMul) ||
      layer.inputs.size() <= at)
    return;
  const std::vector<int64_t>& dims = layer.inputs[at].dims;
  int64_t count = dims.empty() ? 0 : 1;
  for (int64_t d : dims) {
    if (d <= 0 || __builtin_mul_overflow(count, d, &count)) return;
  }
  layer.weight_count = count;
  if (layer.group == LayerGroup::kConv && dims.size() > 2)
    layer.kernel.assign(dims.begin() + 2, dims.end());
}

ForeignLayer ReadNode(const json& event, const json& args) {
  ForeignLayer layer;
  const std::string name = JsonText(event, "name");
  layer.name = name.substr(0, name.size() - std::string(kSuffix).size());
  layer.type = JsonText(args, "op_name");
  layer.where = JsonText(args, "provider");
  if (layer.name.empty()) layer.name = layer.type + "_" + JsonText(args, "node_index");
  layer.inputs = ReadTensors(JsonArray(args, "input_type_shape"));
  layer.outputs = ReadTensors(JsonArray(args, "output_type_shape"));
  layer.weight_bytes = SizeOf(args, "parameter_size");
  layer.conversion = ConversionOf(layer.type);
  layer.group = GroupOf(layer.type, layer.type.empty() ? layer.name : "");
  layer.operators = {layer.name};
  TakeWeights(layer);
  if (!layer.inputs.empty()) layer.precision = layer.inputs[0].precision;
  layer.has_residual = layer.type == "FusedConv" && layer.inputs.size() > 3;
  return layer;
}

// What nodes take by themselves. The time of an If, Loop or Scan has that of the nodes of its
// subgraphs in it, which run within it on its thread and are told before it.
class OwnTimes {
 public:
  // In the order of the file.
  double Of(const json& event, double us) {
    const double begin = JsonNumber(event, "ts");  // 0: not told
    if (begin <= 0) return us;
    std::vector<Span>& open = done_[JsonNumber(event, "tid")];
    double inside = 0;
    while (!open.empty() && open.back().begin >= begin && open.back().end <= begin + us) {
      inside += open.back().end - open.back().begin;
      open.pop_back();
    }
    open.push_back({begin, begin + us});
    return std::max(0.0, us - inside);
  }

 private:
  struct Span {
    double begin, end;
  };
  std::map<double, std::vector<Span>> done_;  // by thread: what no other node was around yet
};

// Times of a layer, run after run, in microseconds.
struct LayerTimes {
  std::vector<double> runs;  // those that are over
  double now = 0;
  int64_t seen = 0;

  void Add(double us) { now += us, ++seen; }
  void EndRun(size_t index) {
    runs.resize(index, 0);
    runs.push_back(std::exchange(now, 0));
  }
};

// Which runs count: the first ones of a session take longer.
std::vector<bool> CalmRuns(const std::vector<double>& runs_us) {
  constexpr double kCalm = 1.5;  // times the median
  std::vector<double> sorted = runs_us;
  const double limit = sorted.empty() ? 0 : kCalm * Median(sorted);
  std::vector<bool> calm;
  for (const double us : runs_us) calm.push_back(us <= limit);
  return calm;
}

// The mean of what counts; a run that has no value counts as 0.
double MeanMs(const std::vector<double>& runs_us, const std::vector<bool>& calm) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < calm.size(); ++i) {
    if (!calm[i]) continue;
    if (i < runs_us.size()) sum += runs_us[i];
    ++count;
  }
  return count == 0 ? 0 : sum / 1e3 / static_cast<double>(count);
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const json events, ReadJsonFile(path));
  const json& list = events.is_object() ? JsonArray(events, "traceEvents") : events;
  ForeignRun run;
  run.tool = "onnxruntime";
  run.path = path;
  run.detailed = true;
  run.excess = "the time of layers beside each other";  // both are of the same runs
  std::map<std::string, size_t> index;
  std::vector<LayerTimes> times;
  std::vector<double> runs_us;
  OwnTimes own;
  if (list.is_array()) {
    for (const json& event : list) {
      const std::string name = JsonText(event, "name");
      const double us = JsonNumber(event, "dur", -1);
      if (us < 0) continue;
      if (name == "model_run") {
        for (LayerTimes& layer : times) layer.EndRun(runs_us.size());
        runs_us.push_back(us);
      }
      if (!name.ends_with(kSuffix) || !event.contains("args")) continue;
      ForeignLayer layer = ReadNode(event, event["args"]);
      const auto [it, is_new] = index.try_emplace(
          layer.name + " " + JsonText(event["args"], "node_index"), run.layers.size());
      if (is_new) {
        run.layers.push_back(std::move(layer));
        times.emplace_back();
      }
      times[it->second].Add(own.Of(event, us));
    }
  }
  if (run.layers.empty())
    return InvalidInput(
        "{}: no node events; expected a profile written by ONNX Runtime with profiling enabled "
        "(events named "
        "NAME{} with args.op_name)",
        path, kSuffix);
  // Without whole runs: as many as the layer seen most often had.
  int64_t most_seen = 1;
  for (const LayerTimes& layer : times) most_seen = std::max(most_seen, layer.seen);
  const std::vector<bool> calm = CalmRuns(runs_us);
  for (size_t i = 0; i < times.size(); ++i)
    run.layers[i].ms = calm.empty() ? times[i].now / 1e3 / static_cast<double>(most_seen)
                                    : MeanMs(times[i].runs, calm);
  run.end_to_end_ms = MeanMs(runs_us, calm);
  Summarize(run);
  return run;
}

}  // namespace

extern const ForeignSource kSourceOrtProfile = {
    .tool = "onnxruntime",
    .option = "--ort-profile",
    .takes = "F",
    .doc = "Profile written by ONNX Runtime (enable_profiling)",
    .read = Read,
};

}  // namespace evoq
