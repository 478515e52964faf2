#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "base/file.h"
#include "compile/batch.h"
#include "compile/compile.h"
#include "engine/region_run.h"
#include "engine/tuning_cache.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "program/etm.h"

namespace evoq {

namespace {

// The packed model of a graph whose shapes are bound in `bound`; the lowered graph as it is,
// without a plan, where it is no single Program: `why` then says so.
Result<Model> PackOrSayWhy(Graph lowered, const Graph& bound, std::string& why) {
  auto reason = WhyNoProgram(bound);
  if (!reason) return PackModel(std::move(lowered), bound, nullptr);
  why = std::move(*reason);
  Model model;
  model.graph = std::move(lowered);
  return model;
}

}  // namespace

Result<Graph> LoadOptimizedGraph(const std::string& onnx_path, const PassOptions& passes) {
  EVOQ_ASSIGN(Graph graph, ImportOnnx(onnx_path));
  EVOQ_TRY(WithContext(RunPasses(graph, Stage::kOptimize, passes), onnx_path));
  return graph;
}

Result<Model> LowerAndPack(Graph optimized, const InputShapes& shapes) {
  EVOQ_TRY(RunPasses(optimized, Stage::kLower));
  const Result<Graph> bound = Bound(optimized, shapes);
  if (!bound && shapes.empty() && bound.error().code() == ErrorCode::kUsage) {
    Model model;
    model.graph = std::move(optimized);  // the first run brings the sizes
    return model;
  }
  if (!bound) return tl::unexpected(bound.error());
  std::string why;
  return PackOrSayWhy(std::move(optimized), *bound, why);
}

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& path,
                                             const EngineOptions& options) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  const int64_t damages = DamagesSoFar();
  std::unique_ptr<Engine> engine;
  if (IsEtmFile(path)) {
    EVOQ_ASSIGN(Model model, ReadEtm(path));
    engine.reset(new Engine(std::move(model), options, isa, path));
  } else {
    EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(path));
    EVOQ_ASSIGN(engine, WithContext(FromGraph(std::move(graph), options), path));
    engine->path_ = path;
  }
  EVOQ_TRY(NoDamageSince(damages));
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::FromGraph(Graph graph, const EngineOptions& options) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  EVOQ_TRY(RunPasses(graph, Stage::kLower));
  Model model;
  const Result<Graph> bound = Bound(graph, options.shapes);
  std::string in_regions;
  if (bound) {
    EVOQ_ASSIGN(model, PackOrSayWhy(std::move(graph), *bound, in_regions));
  } else if (options.shapes.empty()) {
    model.graph = std::move(graph);  // free sizes: the first run brings them
  } else {
    return tl::unexpected(bound.error());
  }
  auto engine = std::unique_ptr<Engine>(new Engine(std::move(model), options, isa));
  engine->in_regions_ = std::move(in_regions);
  return engine;
}

Result<Engine::FirstPlan> Engine::MakeFirst(const InputShapes& shapes) {
  if (first_ && std::ranges::includes(first_->shapes, shapes))
    return std::move(*std::exchange(first_, std::nullopt));
  EVOQ_ASSIGN(Model model, PackModel(model_.graph, shapes));
  return FirstPlan{shapes, std::move(model)};
}

// What the model's constants hold is not what they are once their file was cut short, until it is
// loaded again.
Status Engine::CheckFiles() const {
  if (DamagesSoFar() == 0) return {};
  const std::function<bool(const Graph&)> damaged = [&](const Graph& graph) {
    for (int i = 0; i < graph.value_count(); ++i) {
      const Tensor& constant = graph.value(ValueId{i}).constant;
      if (constant.defined() && LiesInDamagedFile(constant.raw())) return true;
    }
    const auto& nodes = graph.order();
    return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      const auto& bodies = graph.node(id).bodies;
      return std::any_of(bodies.begin(), bodies.end(),
                         [&](const auto& body) { return damaged(*body); });
    });
  };
  if (!damaged(model_.graph)) return {};
  return Fail(ErrorCode::kIo, "{}: the file was cut short while the model is in use: load it again",
              path_.empty() ? "the model's weights" : path_);
}

// Whose measurements are followed.
TuningKey Engine::KeyFor(int threads) const {
  return options_.stored_tuning ? TuningKey{MachineName(isa_), threads} : TuningKey{};
}

Result<TuneReport> Engine::Tune(const InputShapes& shapes) {
  Model tuned = model_;
  if (tuned.plans.empty()) {
    EVOQ_ASSIGN(FirstPlan first, MakeFirst(shapes));
    tuned = std::move(first.model);
  }
  TuneOptions options;
  options.threads = options_.threads;
  options.isa = isa_;
  options.shapes = shapes;
  options.cache_path = TuningCachePath();
  EVOQ_ASSIGN(TuneReport report, TuneModel(tuned, options));
  executors_.clear();
  model_ = std::move(tuned);
  return report;
}

namespace {

// Whether running samples one after the other keeps data in the caches that a whole batch at once
// would not: the activations of the batch are larger than a core's own cache, and the weights, read
// again for each sample, stay in the shared one. Samples must also fill the threads, which then
// take whole samples.
bool SamplesPay(const Program& batch, int64_t samples, int threads) {
  constexpr int64_t kCoreCacheBytes = 1 << 20;
  return batch.arena_bytes > kCoreCacheBytes && batch.weight_bytes <= LargestCacheBytes() / 2 &&
         (samples % threads == 0 || samples >= 4 * threads);
}

// Whether `one` is `batch` with dimension 0 divided by `samples`.
bool IsOneOf(const Program& one, const Program& batch, int64_t samples) {
  const auto fits = [&](std::span<const ValueId> ones, std::span<const ValueId> alls) {
    if (ones.size() != alls.size()) return false;
    for (size_t i = 0; i < ones.size(); ++i) {
      TensorType type = one.graph->value(ones[i]).type;
      if (!type.shape.ranked() || type.shape.rank() == 0) return false;
      type.shape[0] = Dim(type.shape[0].value * samples);
      if (!(type == batch.graph->value(alls[i]).type)) return false;
    }
    return true;
  };
  return fits(one.graph->inputs(), batch.graph->inputs()) &&
         fits(one.graph->outputs(), batch.graph->outputs());
}

}  // namespace

// The program of one sample, where a batch is better run sample by sample; nothing otherwise.
std::optional<Program> Engine::SampleProgram(const Model& model, const Program& batch,
                                             PackCache& packs) const {
  const int64_t samples = IndependentSamples(*batch.graph);
  if (samples < 2 || !SamplesPay(batch, samples, threads())) return std::nullopt;
  InputShapes shapes;
  for (ValueId id : batch.graph->inputs()) {
    const Value& input = batch.graph->value(id);
    shapes[input.name] = input.type.shape.sizes();
    shapes[input.name][0] = 1;
  }
  auto one = Compile(model, shapes, KeyFor(1), &packs);
  if (!one || !IsOneOf(*one, batch, samples)) return std::nullopt;  // the file fixes the batch
  return std::move(*one);
}

const std::shared_ptr<ThreadPool>& Engine::Pool() {
  if (pool_ == nullptr) pool_ = std::make_shared<ThreadPool>(options_.threads);
  return pool_;
}

Result<std::shared_ptr<Executor>> Engine::Prepare(const InputShapes& shapes) {
  const int64_t damages = DamagesSoFar();
  std::optional<FirstPlan> first;
  const auto packs_of_first = std::make_shared<PackCache>();
  if (model_.plans.empty()) {
    EVOQ_ASSIGN(first, MakeFirst(shapes));
  }
  const Model& model = first ? first->model : model_;
  PackCache& packs = first ? *packs_of_first : *region_context_->packs;
  packs.Keep(model.graph);
  EVOQ_ASSIGN(Program program, Compile(model, shapes, KeyFor(threads()), &packs));
  ExecutorOptions options{threads(), isa_, 1, Pool()};
  if (std::optional<Program> one = SampleProgram(model, program, packs)) {
    options.repeats = program.graph->value(program.graph->inputs()[0]).type.shape[0].value;
    program = std::move(*one);
  }
  EVOQ_ASSIGN(auto executor,
              Executor::Create(std::make_shared<const Program>(std::move(program)), options));
  EVOQ_TRY(NoDamageSince(damages));
  if (first) {
    model_ = std::move(first->model);
    region_context_->packs = packs_of_first;
  }
  return executor;
}

// The first plan of a model that came without one, or the reason why it has none.
Status Engine::PackFor(std::span<const Tensor> inputs) {
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = model_.graph.value(model_.graph.inputs()[i]);
    if (!inputs[i].defined()) return Fail(ErrorCode::kUsage, "input {} is missing", value.name);
    if (value.type.is_tensor()) shapes[value.name] = inputs[i].sizes();
  }
  return Settle(shapes);
}

Status Engine::Settle(const InputShapes& shapes) {
  if (!in_regions_.empty() || !model_.plans.empty() || (first_ && first_->shapes == shapes))
    return {};
  first_.reset();
  std::string why;
  const auto pack = [&]() -> Result<Model> {
    EVOQ_ASSIGN(const Graph bound, Bound(model_.graph, shapes));
    return PackOrSayWhy(model_.graph, bound, why);
  };
  auto packed = pack();
  if (!path_.empty()) packed = WithContext(std::move(packed), path_);
  EVOQ_ASSIGN(Model model, std::move(packed));
  if (why.empty()) first_ = FirstPlan{shapes, std::move(model)};
  in_regions_ = std::move(why);
  return {};
}

// Moves it to the front.
std::shared_ptr<Executor> Engine::Use(std::vector<ForShapes>::iterator found) {
  std::rotate(executors_.begin(), found, found + 1);
  return executors_.front().executor;
}

Result<std::shared_ptr<Executor>> Engine::At(const InputShapes& shapes) {
  const auto found = std::find_if(executors_.begin(), executors_.end(),
                                  [&](const ForShapes& e) { return e.shapes == shapes; });
  if (found != executors_.end()) return Use(found);
  const auto start = std::chrono::steady_clock::now();
  auto prepared = Prepare(shapes);
  if (!path_.empty()) prepared = WithContext(std::move(prepared), path_);
  EVOQ_ASSIGN(auto executor, std::move(prepared));
  if (executors_.size() >= kMaxExecutors) executors_.pop_back();
  executors_.insert(executors_.begin(), {shapes, std::move(executor)});
  prepared_.ms +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  ++prepared_.count;
  return executors_.front().executor;
}

Engine::Prepared Engine::prepared() const {
  return {prepared_.count + region_context_->prepared, prepared_.ms + region_context_->prepare_ms};
}

Result<std::vector<Tensor>> Engine::RunRegions(std::span<const Tensor> inputs) {
  if (regions_ == nullptr) {
    region_context_->isa = isa_;
    region_context_->pool = Pool();
    region_context_->packs->Keep(model_.graph);
    regions_ = std::make_unique<Region>(model_.graph, Region::Form::kLowered, region_context_);
  }
  auto outputs = regions_->Run(inputs);
  if (!path_.empty()) outputs = WithContext(std::move(outputs), path_);
  EVOQ_TRY(CheckFiles());
  return outputs;
}

Result<std::shared_ptr<Executor>> Engine::For(std::span<const Tensor> inputs) {
  const Graph& graph = model_.graph;
  if (inputs.size() != graph.inputs().size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", inputs.size(),
                graph.inputs().size());
  if (in_regions_.empty() && model_.plans.empty()) EVOQ_TRY(PackFor(inputs));
  if (!in_regions_.empty()) return nullptr;
  const auto takes = [&](const ForShapes& e) {
    const std::vector<TensorType>& types = e.executor->input_types();
    return std::equal(types.begin(), types.end(), inputs.begin(), inputs.end(),
                      [](const TensorType& type, const Tensor& t) { return type == t.type(); });
  };
  if (const auto found = std::find_if(executors_.begin(), executors_.end(), takes);
      found != executors_.end())
    return Use(found);
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i)
    shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  return At(shapes);
}

Result<std::shared_ptr<Runnable>> Engine::RunnableFor(std::vector<Tensor> inputs) {
  EVOQ_ASSIGN(std::shared_ptr<Runnable> runnable, For(inputs));
  if (runnable != nullptr) return runnable;
  region_context_->packs->Keep(model_.graph);
  auto run = RegionRun::Create(model_.graph, region_context_->packs, isa_, options_.threads,
                               std::move(inputs));
  if (!path_.empty()) run = WithContext(std::move(run), path_);
  EVOQ_ASSIGN(runnable, std::move(run));
  return runnable;
}

Result<std::vector<Tensor>> Engine::RunOn(Executor& executor,
                                          std::span<const Tensor> inputs) const {
  std::vector<Tensor> outputs;
  for (const TensorType& type : executor.output_types()) outputs.push_back(Tensor::Allocate(type));
  Status ran = executor.Run(inputs, outputs);
  if (!path_.empty()) ran = WithContext(std::move(ran), path_);
  EVOQ_TRY(std::move(ran));
  EVOQ_TRY(CheckFiles());
  return outputs;
}

Status Engine::RunOn(Executor& executor, std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs) const {
  if (Status ran = executor.RunOn(inputs, outputs); !ran)
    return path_.empty() ? std::move(ran) : WithContext(std::move(ran), path_);
  return CheckFiles();
}

Result<std::vector<Tensor>> Engine::Run(std::span<const Tensor> inputs) {
  EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, For(inputs));
  if (executor == nullptr) return RunRegions(inputs);
  return RunOn(*executor, inputs);
}

}  // namespace evoq
