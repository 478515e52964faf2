// PyTorch's trace (torch.profiler, export_chrome_trace): Chrome trace events. Of the host:
// operators
// ("cpu_op", which enclose those that they call), calls of the device's runtime ("cuda_runtime")
// and annotations, of which "ProfilerStep#N" is a run. Of the device: "kernel", "gpu_memcpy",
// "gpu_memset", which name their call by args.correlation. Older versions write "Operator",
// "Runtime", "Kernel", "Memcpy", "Memset".
//
// What works is the device, where there are events of it, else operators that no other one
// encloses. While nothing works, the host is on its way to what comes next: that time is a layer of
// the type "Host" of its own.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/json_file.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Event {
  std::string name;
  double begin = 0, end = 0;  // microseconds
  std::string thread;
  double correlation = -1;
  const json* args = nullptr;
  std::string precision;  // that an operator in it tells
};

// Process and thread, which are numbers or texts.
std::string ThreadOf(const json& event) {
  std::string thread;
  for (const char* key : {"pid", "tid"}) {
    if (const auto it = event.find(key); it != event.end()) thread += it->dump() + " ";
  }
  return thread;
}

bool ByBegin(const Event& a, const Event& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
}

// What the trace holds, by kind.
struct Trace {
  std::vector<Event> operators, calls, device, runs;

  void Take(const json& event) {
    const double us = JsonNumber(event, "dur", -1);
    if (JsonText(event, "ph") != "X" || us < 0) return;
    Event e{.name = JsonText(event, "name"),
            .begin = JsonNumber(event, "ts"),
            .thread = ThreadOf(event)};
    e.end = e.begin + us;
    if (event.contains("args") && event["args"].is_object()) {
      e.args = &event["args"];
      e.correlation = JsonNumber(*e.args, "correlation", -1);
    }
    const std::string kind = LowerCase(JsonText(event, "cat"));
    if (e.name.starts_with("ProfilerStep#")) {
      if (!kind.starts_with("gpu_")) runs.push_back(std::move(e));
    } else if (kind == "kernel" || kind.ends_with("memcpy") || kind.ends_with("memset")) {
      device.push_back(std::move(e));
    } else if (kind == "cpu_op" || kind == "operator") {
      operators.push_back(std::move(e));
    } else if (kind == "runtime" || kind.ends_with("_runtime") || kind.ends_with("_driver")) {
      calls.push_back(std::move(e));
    }
  }
};

// Names of a library's operators: "aten::linear". Others ("Torch-Compiled Region",
// "CompiledFunction") enclose what was compiled or recorded.
bool IsOperator(const std::string& name) {
  return name.find("::") != std::string::npos || name.starts_with("triton_");
}

std::string PrecisionOfType(const std::string& type) {
  if (type == "int") return "int32";
  if (type == "long int" || type == "long") return "int64";
  if (type == "signed char" || type == "unsigned char") return "int8";
  return PrecisionIn(type);
}

// "linear" of "aten::linear", "add" of "aten::add_".
std::string PlainName(const std::string& name) {
  const size_t colons = name.rfind("::");
  std::string plain = colons == std::string::npos ? name : name.substr(colons + 2);
  while (plain.ends_with('_')) plain.pop_back();
  return plain;
}

bool HasAny(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(
      words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

Conversion ConversionOf(const std::string& plain) {
  if (plain.starts_with("Memcpy")) return Conversion::kCopy;
  if (plain.find("dequantize") != std::string::npos) return Conversion::kDequantize;
  if (HasAny(plain, {"quantize", "choose_qparams"})) return Conversion::kQuantize;
  const bool moves = plain == "to" || plain == "_to_copy" || plain == "copy" || plain == "clone" ||
                     plain == "contiguous";
  return moves ? Conversion::kReformat : Conversion::kNone;
}

LayerGroup GroupOfOperator(const std::string& plain, Conversion conversion) {
  if (conversion != Conversion::kNone) return LayerGroup::kReformatQdq;
  if (plain.find("conv") != std::string::npos) return LayerGroup::kConv;
  if (plain.ends_with("mm") || HasAny(plain, {"linear", "matmul", "attention", "gemm", "einsum"}))
    return LayerGroup::kMatMul;
  if (plain.starts_with("triton_poi")) return LayerGroup::kElementwise;
  return GroupOf(plain, "");
}

// What integer operators compute in that take their weights packed, or in a subclass of tensors.
std::string PrecisionOfOperator(const std::string& name) {
  if (name.find("int4") != std::string::npos) return "int4";
  if (name.find("_scaled_mm") != std::string::npos) return "fp8";
  const bool bytes = HasAny(name, {"_int_mm", "int8", "quantized::", "onednn::q"});
  return bytes ? "int8" : "";
}

// Those that no other one encloses, by thread and in the order of time.
std::map<std::string, std::vector<Event>> Outermost(std::vector<Event> operators) {
  std::ranges::sort(operators, ByBegin);
  std::map<std::string, std::vector<Event>> out;
  for (Event& e : operators) {
    if (!IsOperator(e.name)) continue;
    std::vector<Event>& thread = out[e.thread];
    e.precision = PrecisionOfOperator(e.name);
    if (thread.empty() || e.begin >= thread.back().end) {
      thread.push_back(std::move(e));
    } else if (thread.back().precision.empty()) {
      thread.back().precision = e.precision;
    }
  }
  return out;
}

// The tensors among an operator's inputs, where shapes were recorded.
std::vector<ForeignTensor> TensorsOf(const Event& e) {
  std::vector<ForeignTensor> tensors;
  if (e.args == nullptr) return tensors;
  const json &dims = JsonArray(*e.args, "Input Dims"),
             &types = e.args->contains("Input type") ? JsonArray(*e.args, "Input type")
                                                     : JsonArray(*e.args, "Input Types");
  for (size_t i = 0; i < std::min(dims.size(), types.size()); ++i) {
    if (!dims[i].is_array() || !types[i].is_string()) continue;
    const std::string type = types[i].get<std::string>();
    if (type.empty() || type.starts_with("Scalar")) continue;
    ForeignTensor tensor{.format = type, .precision = PrecisionOfType(type)};
    for (const json& d : dims[i]) {
      if (d.is_number_integer()) tensor.dims.push_back(d.get<int64_t>());
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// aten::linear(x, w), aten::conv2d(x, w), aten::addmm(bias, x, w).
void TakeWeights(const std::string& plain, ForeignLayer& layer) {
  if (layer.group != LayerGroup::kConv && layer.group != LayerGroup::kMatMul) return;
  const size_t at = plain == "addmm" ? 2 : 1;
  layer.weights_told = at < layer.inputs.size() && layer.inputs[at].dims.size() > 1;
  if (!layer.weights_told) return;
  const std::vector<int64_t>& dims = layer.inputs[at].dims;
  int64_t count = 1;
  for (const int64_t d : dims) {
    if (d <= 0 || __builtin_mul_overflow(count, d, &count)) return;
  }
  layer.weight_count = count;
  if (layer.group == LayerGroup::kConv) layer.kernel.assign(dims.begin() + 2, dims.end());
}

ForeignLayer LayerOf(const Event& e) {
  ForeignLayer layer;
  const std::string plain = PlainName(e.name);
  layer.type = e.name;
  layer.conversion = ConversionOf(plain);
  layer.group = GroupOfOperator(plain, layer.conversion);
  layer.inputs = TensorsOf(e);
  layer.precision = e.precision;
  TakeWeights(plain, layer);
  if (layer.precision.empty() && !layer.inputs.empty()) layer.precision = layer.inputs[0].precision;
  return layer;
}

// Something that works.
struct Work {
  double begin, end;
  double launched;     // when the host was at it
  const Event* cause;  // the operator, or itself where none encloses its launch
  std::string kernel;  // of a device
};

class Profile {
 public:
  explicit Profile(Trace trace) : trace_(std::move(trace)) {
    threads_ = Outermost(std::move(trace_.operators));
    std::ranges::sort(trace_.runs, ByBegin);
  }

  bool empty() const { return threads_.empty() && trace_.device.empty(); }
  bool has_runs() const { return !trace_.runs.empty(); }

  ForeignRun Finish() {
    std::vector<Work> works = trace_.device.empty() ? OfHost() : OfDevice();
    std::ranges::sort(works, {}, &Work::begin);
    Frame(works);
    const double begin = trace_.runs.front().begin;
    double at = std::max(begin, before_end_);
    before_us_ = Within(begin, at);
    for (const Work& work : works) {
      const auto run = RunAt(work.launched);
      if (!run) continue;
      const size_t layer = LayerFor(work, *run);
      const double begin = trace_.runs[*run].begin;  // before it the host ends the one before
      tail_us_ += Within(at, std::min(begin, work.begin));
      waits_[layer] += Within(std::max(at, begin), work.begin);
      run_.layers[layer].ms += work.end - work.begin;
      at = std::max(at, work.end);
    }
    const double end = trace_.runs.back().end;
    tail_us_ += Within(at, end);
    Settle(std::max(0.0, at - end));
    return std::move(run_);
  }

 private:
  std::vector<Work> OfHost() const {
    std::vector<Work> works;
    for (const auto& [thread, events] : threads_) {
      for (const Event& e : events) works.push_back({e.begin, e.end, e.begin, &e, ""});
    }
    return works;
  }

  // What was launched before the trace began, and runs before anything of the trace does, is work
  // of a run that it does not have.
  std::vector<Work> OfDevice() {
    std::map<double, const Event*> calls;
    for (const Event& call : trace_.calls) calls[call.correlation] = &call;
    double first = std::numeric_limits<double>::infinity();
    for (const Event& e : trace_.device) {
      if (calls.contains(e.correlation)) first = std::min(first, e.begin);
    }
    std::vector<Work> works;
    for (const Event& e : trace_.device) {
      if (std::isfinite(first) && e.begin < first && !calls.contains(e.correlation)) {
        before_end_ = std::max(before_end_, e.end);
        continue;
      }
      Work work{e.begin, e.end, e.begin, &e, e.name};
      if (const auto call = calls.find(e.correlation); call != calls.end()) {
        work.launched = call->second->begin;
        if (const Event* around = OperatorAt(*call->second)) work.cause = around;
      }
      works.push_back(std::move(work));
    }
    return works;
  }

  // The operator that encloses a call.
  const Event* OperatorAt(const Event& call) const {
    const auto thread = threads_.find(call.thread);
    if (thread == threads_.end()) return nullptr;
    const auto next = std::ranges::upper_bound(thread->second, call.begin, {}, &Event::begin);
    if (next == thread->second.begin() || std::prev(next)->end < call.begin) return nullptr;
    return &*std::prev(next);
  }

  // A trace without runs is one.
  void Frame(const std::vector<Work>& works) {
    if (has_runs()) return;
    Event all{.name = "", .begin = works.front().begin, .end = works.front().end};
    for (const Work& work : works) {
      all.begin = std::min({all.begin, work.begin, work.launched});
      all.end = std::max(all.end, work.end);
    }
    trace_.runs.push_back(all);
  }

  std::optional<size_t> RunAt(double time) const {
    const auto next = std::ranges::upper_bound(trace_.runs, time, {}, &Event::begin);
    if (next == trace_.runs.begin() || std::prev(next)->end < time) return std::nullopt;
    return static_cast<size_t>(next - trace_.runs.begin()) - 1;
  }

  // What of [begin, end) lies in runs.
  double Within(double begin, double end) const {
    double sum = 0;
    auto run = std::ranges::upper_bound(trace_.runs, begin, {}, &Event::begin);
    if (run != trace_.runs.begin()) --run;
    for (; run != trace_.runs.end() && run->begin < end; ++run)
      sum += std::max(0.0, std::min(end, run->end) - std::max(begin, run->begin));
    return sum;
  }

  // Operators of one name are told apart by which of a run they are.
  size_t LayerFor(const Work& work, size_t run) {
    if (const auto found = of_cause_.find(work.cause); found != of_cause_.end())
      return found->second;
    if (run != last_run_) counts_.clear(), last_run_ = run;
    const std::string name = fmt::format("{}_{}", work.cause->name, counts_[work.cause->name]++);
    const auto [it, is_new] = by_name_.try_emplace(name, run_.layers.size());
    of_cause_[work.cause] = it->second;
    if (!is_new) return it->second;
    ForeignLayer layer = LayerOf(*work.cause);
    layer.name = name;
    layer.operators = {name};
    layer.where = work.kernel;
    run_.layers.push_back(std::move(layer));
    waits_.push_back(0);
    return it->second;
  }

  // Means over runs, and what was waited for before each layer as one of its own. `late_us`: how
  // much later than the last run its work ended.
  void Settle(double late_us) {
    const double runs = 1e3 * static_cast<double>(trace_.runs.size());
    std::vector<ForeignLayer> layers;
    const auto wait = [&](const std::string& name, double us) {
      if (us <= 0) return;
      ForeignLayer host{.name = name, .type = kHostLayer, .where = "host"};
      host.ms = us / runs;
      layers.push_back(std::move(host));
    };
    for (size_t i = 0; i < run_.layers.size(); ++i) {
      wait("before " + run_.layers[i].name, waits_[i]);
      run_.layers[i].ms /= runs;
      layers.push_back(std::move(run_.layers[i]));
    }
    wait("behind the last one", tail_us_);
    run_.layers = std::move(layers);
    double all_us = late_us - before_us_;
    for (const Event& run : trace_.runs) all_us += run.end - run.begin;
    run_.end_to_end_ms = all_us / runs;
    Summarize(run_);
  }

  Trace trace_;
  std::map<std::string, std::vector<Event>> threads_;  // the outermost operators
  ForeignRun run_;
  std::vector<double> waits_;  // before each layer, microseconds
  double tail_us_ = 0;         // behind the last one of a run
  double before_end_ = 0;      // of work of a run before the trace
  double before_us_ = 0;       // that it takes of the first run
  std::map<std::string, size_t> by_name_;
  std::map<const Event*, size_t> of_cause_;
  std::map<std::string, int64_t> counts_;  // of the last run
  size_t last_run_ = std::numeric_limits<size_t>::max();
};

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadProfile(path));
  EVOQ_ASSIGN(const json file, WithContext(ParseJson(text), path));
  const json& list = file.is_object() ? JsonArray(file, "traceEvents") : file;
  Trace trace;
  if (list.is_array()) {
    for (const json& event : list) trace.Take(event);
  }
  Profile profile(std::move(trace));
  if (profile.empty())
    return InvalidInput(
        "{}: no operators and no kernels; expected a trace written by torch.profiler "
        "(export_chrome_trace; events of the categories cpu_op and kernel)",
        path);
  const bool whole = !profile.has_runs();
  ForeignRun run = profile.Finish();
  run.tool = "pytorch";
  run.path = path;
  run.excess = "the time of work beside each other";
  if (whole) run.note = "the trace has no steps (profiler.step()): all of it counts as one run";
  for (const char* key : {"deviceProperties", "computeProperties"}) {
    if (file.is_object() && !JsonArray(file, key).empty() && run.device.empty())
      run.device = JsonText(file[key][0], "name");
  }
  run.detailed = std::ranges::any_of(
      run.layers, [](const ForeignLayer& layer) { return !layer.inputs.empty(); });
  const auto told = [](const ForeignLayer& layer) { return layer.weights_told; };
  if (!std::ranges::all_of(run.layers, told)) run.weight_bytes = 0;
  return run;
}

}  // namespace

extern const ForeignSource kSourceTorchTrace = {
    .tool = "pytorch",
    .option = "--torch-trace",
    .takes = "F",
    .doc = "Trace written by torch.profiler (export_chrome_trace)",
    .marks = {"\"deviceProperties\"", "\"cpu_op\"", "\"cat\": \"Operator\"", "\"cat\":\"Operator\"",
              "\x1f\x8b\x08"},
    .read = Read,
};

}  // namespace evoq
