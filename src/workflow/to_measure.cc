#include "workflow/to_measure.h"

#include "base/stopwatch.h"
#include "data/dataset.h"
#include "models/models.h"
#include "workflow/bench_json.h"

namespace evoq {
namespace {

constexpr int64_t kMaxInputBytes = int64_t{1} << 36;

// What a run on the model's inputs gives; an error says so where no file brought some of them.
template <typename T>
Result<T> OnItsInputs(const ModelToMeasure& m, Result<T> result) {
  if (m.contents.size() == m.engine->model().graph.inputs().size()) return result;
  return WithContext(std::move(result), "on made-up inputs (--input NAME=F.npy gives real ones)");
}

}  // namespace

Result<ModelToMeasure> LoadToMeasure(const std::string& path, int threads,
                                     const WhatToMeasure& what) {
  EVOQ_TRY(CheckThreads(threads));
  EVOQ_TRY(CheckSizes(what.shapes));
  EVOQ_ASSIGN(auto engine, LoadEngine(path, {threads, what.shapes, what.stored_tuning}));
  return ToMeasure(std::move(engine), what);
}

Result<ModelToMeasure> ToMeasure(std::unique_ptr<Engine> engine, const WhatToMeasure& what) {
  ModelToMeasure m;
  m.engine = std::move(engine);
  EVOQ_TRY(Settle(m, what));
  return m;
}

Result<std::optional<ChosenPhase>> ChoosePhase(const Graph& graph, const PhaseChoice& choice) {
  const PhaseDef* const def = choice.name.empty() ? &kDecodePhase : FindPhase(choice.name);
  if (def == nullptr) {
    std::vector<std::string> names;
    for (const PhaseDef* phase : AllPhases()) names.emplace_back(phase->name);
    return Fail(ErrorCode::kUsage, "--phase {}: expected {}", choice.name,
                fmt::join(names, " or "));
  }
  const std::optional<CacheInputs> inputs = FindCacheInputs(graph);
  if (!inputs && choice.given())
    return Fail(ErrorCode::kUsage,
                "--phase, --prompt-length, --context and --sequences are of language models with "
                "caches, which this is not");
  if (!inputs) return std::optional<ChosenPhase>();
  ChosenPhase chosen{def, def->of(choice.options, MostTokens(graph)), {}};
  EVOQ_ASSIGN(chosen.inputs, InputsOf(graph, *inputs, chosen.phase));
  return std::optional(std::move(chosen));
}

Status CheckPhase(const Graph& graph, const WhatToMeasure& what) {
  if (what.says_inputs() && what.phase.given())
    return Fail(ErrorCode::kUsage,
                "a phase says the inputs of a run, and so do --shape, --input and --batch: give "
                "one of them");
  if (what.phase.given()) EVOQ_TRY(ChoosePhase(graph, what.phase));
  return {};
}

Status Settle(ModelToMeasure& m, const WhatToMeasure& what) {
  if (what.batch < 0) return Fail(ErrorCode::kUsage, "--batch {}: expected at least 0", what.batch);
  const Graph& graph = m.engine->model().graph;
  m.phase.reset();
  EVOQ_TRY(CheckPhase(graph, what));
  if (!what.says_inputs()) {
    EVOQ_ASSIGN(m.phase, ChoosePhase(graph, what.phase));
  }
  if (m.phase) {
    m.shapes = m.phase->inputs.shapes;
    m.contents = m.phase->inputs.contents;
    EVOQ_TRY(m.engine->Settle(m.shapes));
    m.in_partitions = !m.engine->in_regions().empty();
    return {};
  }
  EVOQ_ASSIGN(m.shapes, WithBatch(graph, what.shapes, what.batch));
  EVOQ_ASSIGN(m.contents, ReadInputs(graph, what.inputs));
  const auto all = ShapesToMeasure(graph, m.shapes, m.contents);
  if (!all && m.contents.empty()) return {};  // sizes that nobody names are At's to report
  if (!all) return tl::unexpected(all.error());
  EVOQ_TRY(m.engine->Settle(*all));
  m.in_partitions = !m.engine->in_regions().empty();
  if (m.in_partitions || !m.contents.empty()) m.shapes = *all;
  return {};
}

Result<InputShapes> ShapesToMeasure(const Graph& graph, const InputShapes& shapes,
                                    const InputContents& given) {
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
                                            const InputContents& given) {
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

Result<std::shared_ptr<Runnable>> RunnableOf(const ModelToMeasure& m) {
  const Graph& graph = m.engine->model().graph;
  if (m.in_partitions) {
    EVOQ_ASSIGN(std::vector<Tensor> inputs, InputsToMeasure(graph, m.shapes, m.contents));
    return OnItsInputs(m, m.engine->RunnableFor(std::move(inputs)));
  }
  EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, m.engine->At(m.shapes));
  if (!m.contents.empty()) {
    EVOQ_ASSIGN(std::vector<Tensor> inputs, InputsToMeasure(graph, m.shapes, m.contents));
    executor->UseSample(std::move(inputs), m.phase.has_value());
  }
  return std::shared_ptr<Runnable>(executor);
}

Result<FirstRun> RunFirst(const ModelToMeasure& m) {
  FirstRun out;
  if (m.in_partitions) {
    EVOQ_ASSIGN(const std::vector<Tensor> inputs,
                InputsToMeasure(m.engine->model().graph, m.shapes, m.contents));
    const Stopwatch first;
    EVOQ_TRY(OnItsInputs(m, m.engine->Run(inputs)));
    out.first_ms = first.ms();
    out.ready_ms = m.engine->prepared().ms;
    EVOQ_ASSIGN(out.runnable, RunnableOf(m));
    out.buffers = MakeBuffers(*out.runnable);
    return out;
  }
  const Stopwatch ready;
  EVOQ_ASSIGN(out.runnable, RunnableOf(m));
  out.ready_ms = ready.ms();
  out.buffers = MakeBuffers(*out.runnable);
  const Stopwatch first;
  EVOQ_TRY(out.runnable->Run(out.buffers.inputs, out.buffers.outputs));
  out.first_ms = first.ms();
  return out;
}

Result<TuneReport> TuneToMeasure(const ModelToMeasure& m, const std::string& path) {
  if (m.in_partitions)
    return Fail(ErrorCode::kUsage, "--tune: {} runs in dynamic partitions, which have no plan ({})",
                path, m.engine->in_regions());
  return m.engine->Tune(m.shapes);
}

Status CheckStreams(const ModelToMeasure& m, const std::string& path, int streams) {
  if (!m.in_partitions || streams <= 1) return {};
  return Fail(ErrorCode::kUsage,
              "--streams {}: {} runs in dynamic partitions, one stream at a time ({})", streams,
              path, m.engine->in_regions());
}

Status MeasureAlike(std::span<Runnable* const> models, std::span<const std::string> names) {
  const std::vector<Tensor>* sample = nullptr;
  bool extends = false;
  for (const Runnable* model : models) {
    if (sample != nullptr || model->sample().empty()) continue;
    sample = &model->sample();
    extends = model->repeats_in_place();
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
    models[m]->UseSample(*sample, extends);
  }
  return {};
}

}  // namespace evoq
