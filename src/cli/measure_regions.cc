#include "cli/measure_regions.h"

#include <algorithm>
#include <map>

#include "cli/bench_json.h"
#include "data/npy.h"
#include "kernels/kernel.h"

namespace evoq {
namespace {

constexpr int64_t kMaxInputBytes = int64_t{1} << 36;

// "NAME=F.npy" -> name, content.
Result<std::map<std::string, Tensor>> ReadFiles(const Graph& graph, const std::vector<std::string>& files) {
  std::map<std::string, Tensor> tensors;
  for (const std::string& option : files) {
    const size_t equals = option.rfind('=');
    if (equals == std::string::npos) return Fail(ErrorCode::kUsage, "--input {}: expected NAME=F.npy", option);
    const std::string name = option.substr(0, equals);
    const ValueId id = graph.FindValue(name);
    if (!id.valid() || !graph.IsInput(id)) return Fail(ErrorCode::kUsage, "--input {}: the model has no input of that name", name);
    EVOQ_ASSIGN(Tensor tensor, ReadNpy(option.substr(equals + 1)));
    TensorType type = graph.value(id).type;
    if (tensor.dtype() != type.dtype)
      return InvalidInput("{}: elements are {}, expected {} for input {}", option.substr(equals + 1), DTypeName(tensor.dtype()), DTypeName(type.dtype), name);
    type.shape = tensor.shape();
    tensors[name] = tensor.WithType(type);
  }
  return tensors;
}

}  // namespace

Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads, const WhatToMeasure& what) {
  ModelToMeasure m;
  EVOQ_ASSIGN(m.shapes, ParseShapes(what.shapes));
  EVOQ_ASSIGN(m.engine, LoadEngine(path, threads, m.shapes, what.stored_tuning));
  const Graph& graph = m.engine->model().graph;
  EVOQ_ASSIGN(m.shapes, WithBatch(graph, std::move(m.shapes), what.batch));
  const auto all = ShapesToMeasure(graph, m.shapes, what.inputs);
  if (!all && what.inputs.empty()) return m;  // sizes that nobody names are At's to report
  EVOQ_TRY(all);
  EVOQ_TRY(m.engine->Settle(*all));
  m.in_regions = !m.engine->in_regions().empty();
  if (m.in_regions || !what.inputs.empty()) m.shapes = *all;
  return m;
}

Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes, const std::vector<std::string>& files) {
  EVOQ_ASSIGN(const auto given, ReadFiles(graph, files));
  InputShapes all = shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (const auto file = given.find(input.name); file != given.end()) all[input.name] = file->second.sizes();
    if (all.count(input.name)) continue;
    if (!input.type.is_tensor() || !input.type.shape.ranked())
      return Fail(ErrorCode::kUsage, "input {} is {}: it has no content to measure with", input.name, input.type.ToString());
    std::vector<int64_t> sizes = input.type.shape.sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] >= 0) continue;
      if (i > 0) return Fail(ErrorCode::kUsage, "input {} is {}: name its sizes with --shape {}=...", input.name, input.type.ToString(), input.name);
      sizes[i] = 1;
    }
    all[input.name] = std::move(sizes);
  }
  return all;
}

Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes, const std::vector<std::string>& files) {
  EVOQ_ASSIGN(const auto given, ReadFiles(graph, files));
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (const auto file = given.find(input.name); file != given.end()) {
      inputs.push_back(file->second);
      continue;
    }
    TensorType type = input.type;
    type.shape = Shape(shapes.at(input.name));
    const auto bytes = type.bytes();
    if (!type.is_tensor() || type.dtype == DType::kString || !bytes || *bytes > kMaxInputBytes)
      return Fail(ErrorCode::kUsage, "input {} is {}: it has no content to measure with", input.name, type.ToString());
    inputs.push_back(Tensor::Allocate(type));
    FillForSpeed(inputs.back(), static_cast<uint32_t>(inputs.size()));
  }
  return inputs;
}

nlohmann::json RegionsJson(const std::string& model, Engine& engine, const std::vector<Tensor>& inputs, const RunTimes& times, double load_ms) {
  const int64_t batch = inputs.empty() || inputs[0].shape().rank() == 0 ? 1 : inputs[0].sizes()[0];
  nlohmann::json out = TimesJson(times);
  out.update({{"model", model}, {"isa", IsaName(engine.isa())}, {"threads", engine.threads()}, {"batch", batch}, {"streams", 1},
              {"per_second", static_cast<double>(batch) * 1e3 / times.mean()}, {"load_ms", load_ms}, {"peak_rss_bytes", PeakRssBytes()},
              {"arena_bytes", engine.regions()->arena_bytes()}, {"weight_bytes", engine.regions()->weight_bytes()},
              {"stages", engine.prepared().count}, {"regions", engine.in_regions()}});
  return out;
}

Result<StepProfile> ProfileRegions(Engine& engine, const std::vector<Tensor>& inputs, const Limits& limits, const MeasureOptions& options) {
  const auto run = [&]() -> Status {
    EVOQ_TRY(engine.Run(inputs));
    return {};
  };
  EVOQ_ASSIGN(const RunTimes whole, MeasureCalls(run, options));
  engine.regions()->ResetTimes();
  engine.TimeRegions(true);
  MeasureOptions timed = options;
  timed.warmup_ms = 0;
  const auto runs = MeasureCalls(run, timed);
  engine.TimeRegions(false);
  EVOQ_TRY(runs);
  std::vector<RegionStep> steps;
  engine.regions()->Collect("", steps);
  StepProfile profile;
  profile.total_ms = whole.median();
  profile.runs = runs->runs();
  for (const RegionStep& step : steps) {
    if (step.runs == 0) continue;
    const KernelDef* kernel = FindKernel(step.kernel);
    const double per_run = static_cast<double>(step.runs) / static_cast<double>(runs->runs());
    StepTime t;
    t.name = step.name;
    t.op = step.op;
    t.kernel = step.kernel;
    t.precision = step.precision;
    t.peak = kernel != nullptr ? kernel->peak : Peak::kMemory;
    t.ms = t.mean_ms = static_cast<double>(step.ns) / 1e6 / static_cast<double>(runs->runs());
    t.macs = static_cast<int64_t>(static_cast<double>(step.macs) * per_run);
    t.bytes = static_cast<int64_t>(static_cast<double>(step.bytes) * per_run);
    SetRates(t, limits);
    profile.steps_ms += t.ms;
    profile.steps.push_back(std::move(t));
  }
  for (StepTime& t : profile.steps) t.share = profile.steps_ms > 0 ? t.ms / profile.steps_ms : 0;
  profile.host_ms = std::max(0.0, runs->mean() - profile.steps_ms);
  // Regions add up their times: what can be drawn is the mean run.
  RecordedRun mean_run{0, profile.steps_ms + profile.host_ms, {}};
  for (const StepTime& t : profile.steps) mean_run.steps_ms.push_back(t.ms);
  profile.recorded.push_back(std::move(mean_run));
  return profile;
}

}  // namespace evoq
