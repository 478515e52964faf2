#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "base/file.h"
#include "compile/batch.h"
#include "compile/compile.h"
#include "engine/same_samples.h"
#include "engine/tuning_cache.h"
#include "graph/run_choices.h"
#include "kernels/cpu_model.h"
#include "program/etm.h"

namespace evoq {

Result<Loaded> PackOrSayWhy(Graph lowered, const Graph& bound) {
  Loaded loaded;
  if (auto why = WhyNoProgram(bound)) {
    loaded.in_regions = std::move(*why);
    loaded.model.graph = std::move(lowered);
    return loaded;
  }
  EVOQ_ASSIGN(loaded.model, PackModel(std::move(lowered), bound, nullptr));
  return loaded;
}

Engine::Engine(Loaded loaded, EngineOptions options, const EngineParts& parts, Isa isa,
               std::string path)
    : model_(std::move(loaded.model)),
      options_(std::move(options)),
      parts_(parts),
      isa_(isa),
      in_regions_(std::move(loaded.in_regions)),
      path_(std::move(path)) {}

Result<std::unique_ptr<Engine>> Engine::Load(const std::string& path, const EngineOptions& options,
                                             const EngineParts& parts) {
  const int64_t damages = DamagesSoFar();
  Loaded loaded;
  if (IsEtmFile(path)) {
    EVOQ_ASSIGN(loaded.model, ReadEtm(path));
  } else if (parts.import != nullptr) {
    EVOQ_ASSIGN(loaded, parts.import(path, options.shapes));
  } else {
    EVOQ_TRY(MappedFile::Open(path));
    return Unsupported(
        "{}: not an .etm file; libevoq_runtime reads only .etm, libevoq reads other formats", path);
  }
  EVOQ_ASSIGN(auto engine, Of(std::move(loaded), options, parts, path));
  EVOQ_TRY(NoDamageSince(damages));
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::Of(Loaded loaded, const EngineOptions& options,
                                           const EngineParts& parts, const std::string& path) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  std::unique_ptr<Engine> engine(new Engine(std::move(loaded), options, parts, isa, path));
  if (options.adaptive) {
    Status fits = CheckAdaptive(*options.adaptive, engine->model_);
    EVOQ_TRY(path.empty() ? std::move(fits) : WithContext(std::move(fits), path));
    engine->adapter_ = std::make_shared<Adapter>(engine->model_, *options.adaptive);
  }
  if (options.gears) engine->AskForGears();
  return engine;
}

Status Engine::PinScaleSet(const std::string& name) {
  if (adapter_ == nullptr)
    return Fail(ErrorCode::kUsage, "scale set {}: the model was not loaded as adaptive", name);
  AdaptiveOptions pinned = adapter_->options();
  pinned.pinned = name;
  EVOQ_TRY(CheckAdaptive(pinned, model_));
  adapter_->Pin(name);
  return {};
}

Result<Engine::FirstPlan> Engine::MakeFirst(const InputShapes& shapes) {
  if (first_ && std::ranges::includes(first_->shapes, shapes))
    return std::move(*std::exchange(first_, std::nullopt));
  EVOQ_ASSIGN(Model model, PackModel(model_.graph, *parts_.evaluator, shapes));
  model.sets = model_.sets;
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
  options.evaluator = parts_.evaluator;
  options.shapes = shapes;
  options.cache_path = TuningCachePath();
  EVOQ_ASSIGN(TuneReport report, TuneModel(tuned, options));
  const bool gears = preparer_ != nullptr;
  preparer_.reset();  // it reads the model
  executors_.clear();
  served_by_.clear();
  model_ = std::move(tuned);
  if (gears) AskForGears();
  return report;
}

namespace {

// Whether running samples one after the other keeps data in the caches that a whole batch at once
// would not: the activations of the batch are larger than a core's own cache, and the weights, read
// again for each sample, stay in the shared one. Samples must also fill the threads, which then
// take whole samples.
bool SamplesPay(const Program& batch, int64_t samples, int threads) {
  return batch.arena_bytes() > kCpuModel.l2_bytes &&
         batch.weight_bytes <= LargestCacheBytes() / 2 &&
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
  const std::string_view chosen = ChoiceOf(model.graph, kBatchChoice);
  const bool apart = chosen.empty() ? SamplesPay(batch, samples, threads()) : chosen == "apart";
  if (samples < 2 || !apart) return std::nullopt;
  InputShapes shapes;
  for (ValueId id : batch.graph->inputs()) {
    const Value& input = batch.graph->value(id);
    shapes[input.name] = input.type.shape.sizes();
    shapes[input.name][0] = 1;
  }
  auto one = Compile(model, *parts_.evaluator, shapes, KeyFor(1), &packs);
  // The file may fix the batch, or compute with its size.
  if (!one || !IsOneOf(*one, batch, samples) || !SameStepsAtSizes(*one, batch)) return std::nullopt;
  return std::move(*one);
}

const std::shared_ptr<ThreadPool>& Engine::Pool() {
  if (pool_ == nullptr) pool_ = std::make_shared<ThreadPool>(options_.threads);
  return pool_;
}

// The program under the scale sets behind the first one; none where the first is always used.
Result<std::vector<std::shared_ptr<const Program>>> Engine::OtherSets(const Model& model,
                                                                      const InputShapes& shapes,
                                                                      PackCache& packs) const {
  std::vector<std::shared_ptr<const Program>> others;
  for (size_t s = 1; adapter_ != nullptr && s < model.sets.size(); ++s) {
    const Model under{.graph = WithScaleSet(model.graph, model.sets[s]), .plans = model.plans};
    packs.Keep(under.graph);
    EVOQ_ASSIGN(Program program,
                WithContext(Compile(under, *parts_.evaluator, shapes, KeyFor(threads()), &packs),
                            "scale set " + model.sets[s].name));
    others.push_back(std::make_shared<const Program>(std::move(program)));
  }
  return others;
}

// What is to run at these shapes: any thread may plan beside other calls.
Result<Engine::Planned> Engine::PlanFor(const Model& model, const InputShapes& shapes,
                                        PackCache& packs) const {
  packs.Keep(model.graph);
  Planned planned;
  EVOQ_ASSIGN(planned.program,
              Compile(model, *parts_.evaluator, shapes, KeyFor(threads()), &packs));
  if (adapter_ != nullptr) return planned;
  if (std::optional<Program> one = SampleProgram(model, planned.program, packs)) {
    const Graph& batch = *planned.program.graph;
    planned.repeats = batch.value(batch.inputs()[0]).type.shape[0].value;
    planned.program = std::move(*one);
  }
  return planned;
}

Result<std::shared_ptr<Executor>> Engine::Bind(const Model& model, Planned planned,
                                               const InputShapes& shapes, PackCache& packs) const {
  ExecutorOptions options{threads(), isa_, planned.repeats, pool_};
  EVOQ_ASSIGN(options.sets, OtherSets(model, shapes, packs));
  options.adapter = adapter_;
  options.memory = memory_;
  options.derived = derived_;
  EVOQ_ASSIGN(
      auto executor,
      Executor::Create(std::make_shared<const Program>(std::move(planned.program)), options));
  // Here, where it may throw: a Result that converts another one may not.
  return std::shared_ptr<Executor>(std::move(executor));
}

Result<std::shared_ptr<Executor>> Engine::Prepare(const InputShapes& shapes) {
  const int64_t damages = DamagesSoFar();
  std::optional<FirstPlan> first;
  const auto packs_of_first = std::make_shared<PackCache>();
  if (model_.plans.empty()) {
    EVOQ_ASSIGN(first, MakeFirst(shapes));
  }
  const Model& model = first ? first->model : model_;
  PackCache& packs = first ? *packs_of_first : *packs_;
  Pool();
  EVOQ_ASSIGN(Planned planned, PlanFor(model, shapes, packs));
  EVOQ_ASSIGN(auto executor, Bind(model, std::move(planned), shapes, packs));
  EVOQ_TRY(NoDamageSince(damages));
  if (first) {
    model_ = std::move(first->model);
    packs_ = packs_of_first;
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
  const auto pack = [&]() -> Result<Loaded> {
    EVOQ_ASSIGN(const Graph bound, Bound(model_.graph, shapes, *parts_.evaluator));
    return PackOrSayWhy(model_.graph, bound);
  };
  auto packed = pack();
  if (!path_.empty()) packed = WithContext(std::move(packed), path_);
  EVOQ_ASSIGN(Loaded loaded, std::move(packed));
  if (loaded.in_regions.empty()) first_ = FirstPlan{shapes, std::move(loaded.model)};
  in_regions_ = std::move(loaded.in_regions);
  return {};
}

std::shared_ptr<Executor> Engine::Use(ForShapes& found) {
  found.used = ++uses_;
  return found.executor;
}

// In the place of the one that was not used for the longest time, where there are too many.
void Engine::Keep(const InputShapes& shapes, std::shared_ptr<Executor> executor) {
  ForShapes fresh{shapes, std::move(executor), ++uses_, IsGear(shapes)};
  if (fresh.gear) fresh.batch = BatchOf(*fresh.executor);
  if (!fresh.gear) {
    auto oldest = executors_.end();
    size_t others = 0;
    for (auto e = executors_.begin(); e != executors_.end(); ++e) {
      if (e->gear) continue;
      ++others;
      if (oldest == executors_.end() || e->used < oldest->used) oldest = e;
    }
    if (others >= kMaxExecutors) executors_.erase(oldest);
  }
  executors_.push_back(std::move(fresh));
}

Result<std::shared_ptr<Executor>> Engine::At(const InputShapes& shapes) {
  TakeWhatIsMade();
  const auto found = std::ranges::find(executors_, shapes, &ForShapes::shapes);
  if (found != executors_.end()) return Use(*found);
  const auto start = std::chrono::steady_clock::now();
  auto prepared = Prepare(shapes);
  if (!path_.empty()) prepared = WithContext(std::move(prepared), path_);
  EVOQ_ASSIGN(auto executor, std::move(prepared));
  Keep(shapes, executor);
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  counts_.Prepared(counts_.Of(shapes), ms, false);
  prepared_.ms += ms;
  ++prepared_.count;
  return executor;
}

Engine::Prepared Engine::prepared() const {
  if (partitions_ == nullptr) return prepared_;
  return {prepared_.count + partitions_->prepared(), prepared_.ms + partitions_->prepare_ms()};
}

// The model's dynamic partitions, made on first use.
Result<Partitions*> Engine::Partitioned() {
  if (parts_.partition == nullptr)
    return Unsupported("{}{}: such models run in dynamic partitions, which need libevoq",
                       path_.empty() ? "" : path_ + ": ", in_regions_);
  if (adapter_ != nullptr)
    return Unsupported("{}: scale sets do not change in models that run in dynamic partitions",
                       in_regions_);
  if (partitions_ == nullptr) {
    packs_->Keep(model_.graph);
    partitions_ = parts_.partition({model_.graph, isa_, options_.threads, packs_});
  }
  return partitions_.get();
}

Status Engine::CheckCount(std::span<const Tensor> inputs) const {
  const size_t expected = model_.graph.inputs().size();
  if (inputs.size() == expected) return {};
  return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", inputs.size(), expected);
}

InputShapes Engine::ShapesOf(std::span<const Tensor> inputs) const {
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i)
    shapes[model_.graph.value(model_.graph.inputs()[i]).name] = inputs[i].sizes();
  return shapes;
}

// The executor of inputs of these types; null where there is none.
Engine::ForShapes* Engine::Known(std::span<const Tensor> inputs) {
  const auto takes = [&](const ForShapes& e) {
    const std::vector<TensorType>& types = e.executor->input_types();
    return std::equal(types.begin(), types.end(), inputs.begin(), inputs.end(),
                      [](const TensorType& type, const Tensor& t) { return type == t.type(); });
  };
  const auto found = std::ranges::find_if(executors_, takes);
  return found == executors_.end() ? nullptr : &*found;
}

Result<std::shared_ptr<Executor>> Engine::For(std::span<const Tensor> inputs) {
  EVOQ_TRY(CheckCount(inputs));
  if (in_regions_.empty() && model_.plans.empty()) EVOQ_TRY(PackFor(inputs));
  if (!in_regions_.empty()) return nullptr;
  if (ForShapes* const known = Known(inputs)) return Use(*known);
  return At(ShapesOf(inputs));
}

Result<std::shared_ptr<Runnable>> Engine::RunnableFor(std::vector<Tensor> inputs) {
  EVOQ_ASSIGN(std::shared_ptr<Runnable> runnable, For(inputs));
  if (runnable != nullptr) return runnable;
  EVOQ_ASSIGN(const Partitions* partitions, Partitioned());
  auto run = partitions->RunnableFor(std::move(inputs));
  if (!path_.empty()) run = WithContext(std::move(run), path_);
  EVOQ_ASSIGN(runnable, std::move(run));
  return runnable;
}

Status Engine::RunInto(Executor& executor, std::span<const Tensor> inputs,
                       std::span<Tensor> outputs, std::optional<Padding> padding,
                       RunControl* control) const {
  Status ran = padding              ? RunPadded(executor, *padding, inputs, outputs, control)
               : control == nullptr ? executor.Run(inputs, outputs)
                                    : executor.Run(inputs, outputs, *control);
  if (!path_.empty()) ran = WithContext(std::move(ran), path_);
  EVOQ_TRY(std::move(ran));
  return CheckFiles();
}

Result<std::vector<Tensor>> Engine::RunOn(Executor& executor, std::span<const Tensor> inputs,
                                          RunControl* control,
                                          std::optional<Padding> padding) const {
  std::vector<Tensor> outputs;
  for (const TensorType& type :
       padding ? OutputTypesFor(executor, *padding) : executor.output_types())
    outputs.push_back(Tensor::Allocate(type));
  EVOQ_TRY(RunInto(executor, inputs, outputs, padding, control));
  return outputs;
}

Status Engine::RunOn(Executor& executor, std::span<const std::byte* const> inputs,
                     std::span<std::byte* const> outputs) const {
  if (Status ran = executor.RunOn(inputs, outputs); !ran)
    return path_.empty() ? std::move(ran) : WithContext(std::move(ran), path_);
  return CheckFiles();
}

Result<std::vector<Tensor>> Engine::Run(std::span<const Tensor> inputs) {
  EVOQ_ASSIGN(const Serving serving, Serve(inputs));
  if (serving.executor != nullptr)
    return RunOn(*serving.executor, inputs, nullptr, serving.padding);
  EVOQ_ASSIGN(Partitions* const partitions, Partitioned());
  auto outputs = partitions->Run(inputs, Pool());
  if (!path_.empty()) outputs = WithContext(std::move(outputs), path_);
  EVOQ_TRY(CheckFiles());
  return outputs;
}

}  // namespace evoq
