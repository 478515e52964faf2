#include "workflow/measure_regions.h"

#include <algorithm>
#include <map>

#include "data/dataset.h"
#include "kernels/kernel.h"
#include "models/models.h"
#include "workflow/bench_json.h"

namespace evoq {
namespace {

constexpr int64_t kMaxInputBytes = int64_t{1} << 36;

// The content of inputs by name.
Result<std::map<std::string, Tensor>> ReadFiles(const Graph& graph, const InputFiles& files) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, file] : files) {
    const ValueId id = graph.FindValue(name);
    if (!id.valid() || !graph.IsInput(id))
      return Fail(ErrorCode::kUsage, "--input {}: the model has no input of that name", name);
    EVOQ_ASSIGN(Tensor tensor, ReadNpy(file));
    TensorType type = graph.value(id).type;
    if (tensor.dtype() != type.dtype)
      return InvalidInput("{}: elements are {}, expected {} for input {}", file,
                          DTypeName(tensor.dtype()), DTypeName(type.dtype), name);
    EVOQ_TRY(CheckFits(file, tensor, name, type.shape));
    type.shape = tensor.shape();
    tensors[name] = tensor.WithType(type);
  }
  return tensors;
}

}  // namespace

Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads,
                                     const WhatToMeasure& what) {
  ModelToMeasure m;
  EVOQ_TRY(CheckThreads(threads));
  EVOQ_TRY(CheckSizes(what.shapes));
  if (what.batch < 0) return Fail(ErrorCode::kUsage, "--batch {}: expected at least 0", what.batch);
  m.shapes = what.shapes;
  EVOQ_ASSIGN(m.engine, LoadEngine(path, threads, m.shapes, what.stored_tuning));
  const Graph& graph = m.engine->model().graph;
  EVOQ_ASSIGN(m.shapes, WithBatch(graph, std::move(m.shapes), what.batch));
  const auto all = ShapesToMeasure(graph, m.shapes, what.inputs);
  if (!all && what.inputs.empty()) return m;  // sizes that nobody names are At's to report
  if (!all) return tl::unexpected(all.error());
  EVOQ_TRY(m.engine->Settle(*all));
  m.in_regions = !m.engine->in_regions().empty();
  if (m.in_regions || !what.inputs.empty()) m.shapes = *all;
  return m;
}

Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const InputFiles& files) {
  EVOQ_ASSIGN(const auto given, ReadFiles(graph, files));
  InputShapes all = shapes;
  for (ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (const auto file = given.find(input.name); file != given.end())
      all[input.name] = file->second.sizes();
    if (all.count(input.name)) continue;
    if (!input.type.is_tensor() || !input.type.shape.ranked())
      return Fail(ErrorCode::kUsage, "input {} is {}: it has no content to measure with",
                  input.name, input.type.ToString());
    std::vector<int64_t> sizes = input.type.shape.sizes();
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] >= 0) continue;
      if (i > 0)
        return Fail(ErrorCode::kUsage, "input {} is {}: name its sizes with --shape {}=...",
                    input.name, input.type.ToString(), input.name);
      sizes[i] = 1;
    }
    all[input.name] = std::move(sizes);
  }
  return all;
}

Result<std::vector<Tensor>> InputsToMeasure(const Graph& graph, const InputShapes& shapes,
                                            const InputFiles& files) {
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
      return Fail(ErrorCode::kUsage, "input {} is {}: it has no content to measure with",
                  input.name, type.ToString());
    inputs.push_back(Tensor::Allocate(type));
    FillForSpeed(inputs.back(), static_cast<uint32_t>(inputs.size()));
  }
  return inputs;
}

nlohmann::json RegionsJson(const std::string& model, Engine& engine,
                           const std::vector<Tensor>& inputs, const RunTimes& times,
                           double load_ms) {
  const int64_t batch = inputs.empty() || inputs[0].shape().rank() == 0 ? 1 : inputs[0].sizes()[0];
  nlohmann::json out = TimesJson(times);
  out.update({{"model", model},
              {"isa", IsaName(engine.isa())},
              {"threads", engine.threads()},
              {"batch", batch},
              {"streams", 1},
              {"per_second", static_cast<double>(batch) * 1e3 / times.mean()},
              {"load_ms", load_ms},
              {"peak_rss_bytes", PeakRssBytes()},
              {"arena_bytes", engine.partitions()->arena_bytes()},
              {"weight_bytes", engine.partitions()->weight_bytes()},
              {"stages", engine.prepared().count},
              {"regions", engine.in_regions()}});
  return out;
}

Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m, const InputFiles& files) {
  const Graph& graph = m.engine->model().graph;
  if (m.in_regions) {
    EVOQ_ASSIGN(std::vector<Tensor> inputs, InputsToMeasure(graph, m.shapes, files));
    const bool made_up = files.size() < inputs.size();
    auto runnable = m.engine->RunnableFor(std::move(inputs));
    return made_up ? WithContext(std::move(runnable),
                                 "on made-up inputs (--input NAME=F.npy gives real ones)")
                   : std::move(runnable);
  }
  EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, m.engine->At(m.shapes));
  if (!files.empty()) {
    EVOQ_ASSIGN(std::vector<Tensor> inputs, InputsToMeasure(graph, m.shapes, files));
    executor->UseSample(std::move(inputs));
  }
  return std::shared_ptr<Runnable>(executor);
}

Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names) {
  const std::vector<Tensor>* sample = nullptr;
  for (const Runnable* model : models) {
    if (sample == nullptr && !model->sample().empty()) sample = &model->sample();
  }
  for (size_t m = 0; sample != nullptr && m < models.size(); ++m) {
    if (!models[m]->sample().empty()) continue;
    const std::vector<TensorType>& types = models[m]->input_types();
    for (size_t i = 0; i < types.size(); ++i) {
      if (types.size() != sample->size() || !(types[i] == (*sample)[i].type()))
        return Fail(ErrorCode::kUsage,
                    "{}: input {} is {}: both models are measured on the same inputs, and this one "
                    "does not take them",
                    names[m], i, types[i].ToString());
    }
    models[m]->UseSample(*sample);
  }
  return {};
}

}  // namespace evoq
