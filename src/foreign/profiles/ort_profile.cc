// ONNX Runtime's profile (SessionOptions::EnableProfiling): Chrome trace events. A node's time is
// the event "NAME_kernel_time" with args op_name, provider, input_type_shape, output_type_shape,
// parameter_size; a whole run is "model_run". Old versions name neither node nor index. Of nodes on
// a GPU this is what the host takes to launch them; where CUPTI or roctracer were built in, events
// of the category "Kernel" behind the node's tell what ran on the device.
#include <algorithm>
#include <map>
#include <optional>

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

// Whether an input is what a layer's weights look like: integers of an integer operator, where the
// scale behind them is a float; of others no vector, which is a bias.
bool LooksLikeWeights(const ForeignLayer& layer, const ForeignTensor& input) {
  return WeightInput(layer.type) > 1 ? BitsOf(input.precision) == 8 : input.dims.size() != 1;
}

// Number and kernel of the weights of a convolution ([M, C / groups, kernel...]) or a product. A
// session that packs constant weights leaves them out of the inputs: those behind move up.
void TakeWeights(ForeignLayer& layer) {
  constexpr const char* kOfConstants[] = {
      "Conv", "FusedConv", "NhwcFusedConv", "QLinearConv", "QLinearMatMul", "QGemm",
      "Gemm", "FusedGemm", "MatMul",        "FusedMatMul", "ConvTranspose"};
  const size_t at = WeightInput(layer.type);
  if (layer.group != LayerGroup::kConv && layer.group != LayerGroup::kMatMul) return;
  if (layer.inputs.size() <= at || !LooksLikeWeights(layer, layer.inputs[at])) {
    layer.weights_told = std::ranges::find(kOfConstants, layer.type) == std::end(kOfConstants);
    return;
  }
  const std::vector<int64_t>& dims = layer.inputs[at].dims;
  int64_t count = dims.empty() ? 0 : 1;
  for (int64_t d : dims) {
    if (d <= 0 || __builtin_mul_overflow(count, d, &count)) return;
  }
  layer.weight_count = count;
  if (layer.group == LayerGroup::kConv && dims.size() > 2)
    layer.kernel.assign(dims.begin() + 2, dims.end());
}

// Whether a convolution adds an activation: behind data, weights and bias, also in the layout of
// blocked channels, where it is a Conv of four inputs.
bool AddsResidual(const ForeignLayer& layer) {
  if (layer.type != "FusedConv" && layer.type != "NhwcFusedConv" && layer.type != "Conv")
    return false;
  return layer.inputs.size() > (layer.weights_told ? 3 : 2);
}

// Which node of its graph it is; older versions have another name for it, or "".
std::string NodeIndex(const json& args) {
  const std::string index = JsonText(args, "node_index");
  return index.empty() ? JsonText(args, "graph_index") : index;
}

// The node of the model that a node is made of, where its name tells: optimizers name what they
// make "NAME_nchwc", "NAME_token_5", and after the value that it writes ("NAME_output_0").
std::string OperatorName(std::string name) {
  const auto cut = [&](const std::string& mark, bool number) {
    const size_t at = name.rfind(mark);
    if (at == std::string::npos || at == 0) return;
    const std::string rest = name.substr(at + mark.size());
    const bool is_number =
        !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos;
    if (number ? is_number : rest.empty()) name.resize(at);
  };
  cut("_token_", true);
  cut("_nchwc", false);
  cut("_output_", true);
  return name;
}

ForeignLayer ReadNode(const json& event, const json& args) {
  ForeignLayer layer;
  const std::string name = JsonText(event, "name");
  layer.name = name.substr(0, name.size() - std::string(kSuffix).size());
  layer.type = JsonText(args, "op_name");
  layer.where = JsonText(args, "provider");
  if (layer.name.empty()) layer.name = layer.type + "_" + NodeIndex(args);
  layer.inputs = ReadTensors(JsonArray(args, "input_type_shape"));
  layer.outputs = ReadTensors(JsonArray(args, "output_type_shape"));
  layer.weight_bytes = SizeOf(args, "parameter_size");
  layer.conversion = ConversionOf(layer.type);
  layer.group = GroupOf(layer.type, layer.type.empty() ? layer.name : "");
  layer.operators = {OperatorName(layer.name)};
  TakeWeights(layer);
  if (!layer.inputs.empty()) layer.precision = layer.inputs[0].precision;
  layer.has_residual = AddsResidual(layer);
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

bool RunsOnDevice(const ForeignLayer& layer) {
  constexpr const char* kProviders[] = {"CUDA",     "Tensorrt", "NvTensorRTRTX", "ROCM",
                                        "MIGraphX", "Dml",      "WebGpu",        "JS"};
  return std::ranges::any_of(kProviders, [&](const std::string& provider) {
    return layer.where == provider + "ExecutionProvider";
  });
}

// What the events of a profile say, in the order of the file.
class Events {
 public:
  void Take(const json& event) {
    const std::string name = JsonText(event, "name");
    const double us = JsonNumber(event, "dur", -1);
    if (us < 0) return;
    if (name == "model_run") {
      for (LayerTimes* one : All()) one->EndRun(runs_us_.size());
      runs_us_.push_back(us);
      nameless_.clear();
    } else if (name.ends_with(kSuffix) && event.contains("args")) {
      last_ = LayerOf(event);
      host_[*last_].Add(own_.Of(event, us));
    } else if (JsonText(event, "cat") == "Kernel" && event.contains("args") && last_) {
      kernels_ = true;
      strays_ = strays_ || JsonText(event["args"], "op_name") != run_.layers[*last_].type;
      device_[*last_].Add(us);
    }
  }

  bool empty() const { return run_.layers.empty(); }
  ForeignRun Finish() {
    // Without whole runs: as many as the layer seen most often had.
    int64_t most_seen = 1;
    for (const LayerTimes& layer : host_) most_seen = std::max(most_seen, layer.seen);
    const std::vector<bool> calm = CalmRuns(runs_us_);
    const bool by_device = kernels_ && !strays_;
    bool launches = false;
    for (size_t i = 0; i < host_.size(); ++i) {
      const bool device = RunsOnDevice(run_.layers[i]);
      launches = launches || (device && !by_device);
      const LayerTimes& times = device && by_device ? device_[i] : host_[i];
      run_.layers[i].ms = calm.empty() ? times.now / 1e3 / static_cast<double>(most_seen)
                                       : MeanMs(times.runs, calm);
    }
    if (launches)
      run_.note =
          "of nodes on a GPU the profile tells what the host takes to launch them, not what they "
          "take: times of layers, shares and losses here are not theirs";
    run_.end_to_end_ms = MeanMs(runs_us_, calm);
    Summarize(run_);
    const auto told = [](const ForeignLayer& layer) { return layer.weights_told; };
    if (!std::ranges::all_of(run_.layers, told)) run_.weight_bytes = 0;
    return std::move(run_);
  }

 private:
  std::vector<LayerTimes*> All() {
    std::vector<LayerTimes*> all;
    for (auto* times : {&host_, &device_}) {
      for (LayerTimes& one : *times) all.push_back(&one);
    }
    return all;
  }

  size_t LayerOf(const json& event) {
    const json& args = event["args"];
    ForeignLayer layer = ReadNode(event, args);
    const std::string node = NodeIndex(args);
    // Nothing tells it from others of its operator but where it stands in the run.
    if (node.empty() && layer.name == layer.type + "_")
      layer.name += std::to_string(nameless_[layer.type]++);
    const auto [it, is_new] = index_.try_emplace(layer.name + " " + node, run_.layers.size());
    if (is_new) {
      layer.operators = {OperatorName(layer.name)};
      run_.layers.push_back(std::move(layer));
      host_.emplace_back();
      device_.emplace_back();
    }
    return it->second;
  }

  ForeignRun run_;
  std::map<std::string, size_t> index_;
  std::map<std::string, int64_t> nameless_;  // of this run, by operator
  std::vector<LayerTimes> host_, device_;    // by layer
  std::vector<double> runs_us_;
  OwnTimes own_;
  std::optional<size_t> last_;  // the layer of the last node's event
  bool kernels_ = false,
       strays_ = false;  // of the device; of another operator than the node before
};

// The events of a file that was not closed, as that of a process that was stopped: up to the last
// whole one, as trace viewers read it. Null where there is none.
json UnclosedEvents(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n"), end = text.rfind("},");
  if (begin == std::string::npos || text[begin] != '[' || end == std::string::npos) return nullptr;
  return ParseJson(text.substr(0, end + 1) + "]").value_or(nullptr);
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadProfile(path));
  auto parsed = WithContext(ParseJson(text), path);
  const bool cut = !parsed;
  if (cut) {
    json events = UnclosedEvents(text);
    if (events.is_null()) return tl::unexpected(parsed.error());
    parsed = std::move(events);
  }
  const json& file = *parsed;
  const json& list = file.is_object() ? JsonArray(file, "traceEvents") : file;
  Events events;
  if (list.is_array()) {
    for (const json& event : list) events.Take(event);
  }
  if (events.empty())
    return InvalidInput(
        "{}: no node events; expected a profile written by ONNX Runtime with profiling enabled "
        "(events named "
        "NAME{} with args.op_name)",
        path, kSuffix);
  ForeignRun run = events.Finish();
  run.tool = "onnxruntime";
  run.path = path;
  run.detailed = true;
  if (cut)
    run.note += std::string(run.note.empty() ? "" : "; ") +
                "the file is not closed: it is read up to its last whole event";
  run.excess = "the time of layers beside each other";  // both are of the same runs
  return run;
}

}  // namespace

extern const ForeignSource kSourceOrtProfile = {
    .tool = "onnxruntime",
    .option = "--ort-profile",
    .takes = "F",
    .doc = "Profile written by ONNX Runtime (enable_profiling)",
    .marks = {"_kernel_time\"", "\"model_loading_", "\"session_initialization\""},
    .read = Read,
};

}  // namespace evoq
