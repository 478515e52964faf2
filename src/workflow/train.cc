#include "workflow/train.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "base/file.h"
#include "base/json_file.h"
#include "base/nearest.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/rows.h"
#include "base/text.h"
#include "llm/adapter.h"
#include "llm/import.h"
#include "models/models.h"
#include "nn/layer.h"
#include "onnx/onnx.h"
#include "program/etm.h"
#include "train/lora.h"
#include "train/loss.h"
#include "train/network.h"
#include "train/optimizer.h"
#include "train/plan.h"
#include "train/separate.h"
#include "workflow/event_file.h"
#include "workflow/models.h"
#include "workflow/ort_gaps.h"
#include "workflow/targets.h"
#include "workflow/train_parts.h"
#include "workflow/train_text.h"

namespace evoq {
namespace {

// What is trained, and how images become its input.
struct Start {
  const NetworkDef* network = nullptr;  // null: the graph is a file's
  bool trained = true;                  // the weights are not random
  Graph graph;
  std::string preprocess;  // JSON; "": the data needs none
};

Result<Start> StartOf(const TrainJob& job) {
  Start start;
  start.network = FindRow(AllNetworks(), job.model);
  if (start.network != nullptr) {
    start.graph = start.network->build(job.recipe.seed, 2);  // the data says how many classes
    start.preprocess = start.network->preprocess;
    start.trained = false;
  } else {
    if (!std::filesystem::exists(job.model)) {
      std::string names;
      for (const NetworkDef* known : AllNetworks()) names += std::string(known->name) + ", ";
      return Fail(ErrorCode::kNotFound, "{}: no such file, and none of the networks {}{}",
                  job.model, names.substr(0, names.size() - 2),
                  NearestHint(job.model, AllNetworks()));
    }
    start.trained = LowerExtension(job.model) != ".json";
    if (start.trained && IsLanguageModelPath(job.model)) {  // its caches are of no use here
      EVOQ_ASSIGN(start.graph, ImportLanguageModel(job.model, LanguageForm::kWhole));
    } else if (start.trained) {
      EVOQ_ASSIGN(start.graph, ImportModel(job.model));
    } else {
      constexpr size_t kMostBytes = 1 << 24;
      EVOQ_ASSIGN(const nlohmann::json network, ReadJsonFile(job.model, kMostBytes));
      EVOQ_ASSIGN(start.graph, WithContext(BuildNetwork(network, job.recipe.seed), job.model));
    }
  }
  const std::string file =
      start.network != nullptr ? job.preprocess : FindPreprocess(job.model, job.preprocess);
  if (!file.empty()) {
    EVOQ_ASSIGN(start.preprocess, ReadTextFile(file, 1 << 20));
    EVOQ_TRY(WithContext(ParsePreprocess(start.preprocess), file));
  }
  return start;
}

// The samples of `path`, with the labels or (where they are not "") the targets of a file.
Result<LabelledSamples> Read(const std::string& path, const std::string& labels,
                             const std::string& targets, const Start& start, int64_t limit,
                             const char* stage, const Follow& follow) {
  DatasetOptions options;
  options.labels = labels;
  if (!start.preprocess.empty()) {
    EVOQ_ASSIGN(options.preprocess, ParsePreprocess(start.preprocess));
  }
  const std::vector<std::string> sources = {path};
  std::vector<InputSpec> inputs = InputsOf(start.graph);
  for (InputSpec& input : inputs) {  // training makes batches itself
    if (input.ranked && !input.sizes.empty()) input.sizes[0] = -1;
  }
  EVOQ_ASSIGN(const auto data, OpenInputs(sources, inputs, options));
  if (targets.empty()) return ReadSamples(*data, nullptr, limit, follow.Stage(stage));
  const InputSpec output = TargetSpec(start.graph.value(start.graph.outputs().at(0)).name);
  EVOQ_ASSIGN(const auto wanted,
              OpenInputs(std::span(&targets, 1), std::span(&output, 1), TargetOptions(options)));
  return WithContext(ReadSamples(*data, wanted.get(), limit, follow.Stage(stage)), targets);
}

// Whether the data is a text: what takes tokens and is told neither labels nor targets, or gives
// scores for each token.
bool IsText(const TrainJob& job, const Graph& graph) {
  if (!TakesTokens(graph) || !job.files.targets.empty()) return false;
  const TensorType& scores = graph.value(graph.outputs().at(0)).type;
  return job.files.labels.empty() || !scores.shape.ranked() || scores.shape.rank() > 2;
}

struct Data {
  LabelledSamples samples, test;
  std::string tokenizer;  // as of TextSamples
};

// What the inputs of samples are: integers of one type, or (kUndefined) none of them.
Result<DType> IntegersOfInputs(const Graph& graph) {
  DType found = DType::kUndefined;
  size_t integers = 0;
  for (ValueId id : graph.inputs()) {
    const DType type = graph.value(id).type.dtype;
    if (type != DType::kInt64 && type != DType::kInt32) continue;
    if (integers++ > 0 && type != found) integers = 0;
    found = type;
  }
  if (found != DType::kUndefined && integers != graph.inputs().size())
    return Unsupported("inputs of several types, expected real numbers or integers of one type");
  return found;
}

// What the model is trained and tested on; a network gets the classes or tokens that there are.
Result<Data> ReadData(const TrainJob& job, const SampleFiles& files, Start& start,
                      const Follow& follow) {
  Data data;
  int64_t classes = 0;
  constexpr int64_t kMostClasses = 1 << 18;
  if (IsText(job, start.graph)) {
    EVOQ_ASSIGN(TextSamples texts, ReadTexts(job, files, start.graph, follow));
    data = {std::move(texts.train), std::move(texts.test), std::move(texts.tokenizer)};
    classes = texts.pieces;
  } else {
    EVOQ_ASSIGN(data.samples, Read(files.data, files.labels, files.targets, start, job.limit,
                                   "reading samples", follow));
    if (!files.test.empty()) {
      EVOQ_ASSIGN(data.test, Read(files.test, files.test_labels, files.test_targets, start, 0,
                                  "reading test samples", follow));
    }
    EVOQ_ASSIGN(data.samples.tokens, IntegersOfInputs(start.graph));
    data.test.tokens = data.samples.tokens;
    classes = data.samples.real() ? data.samples.target_elements
                                  : 1 + *std::ranges::max_element(data.samples.labels);
  }
  if (start.network == nullptr) return data;
  if (classes > kMostClasses)
    return InvalidInput("{}: label {}, expected classes from 0 to {}", files.data, classes - 1,
                        kMostClasses - 1);
  start.graph = start.network->build(job.recipe.seed, std::max<int64_t>(classes, 2));
  return data;
}

std::vector<std::string> OnlyTrained(const TrainingRecipe& recipe) {
  return recipe.lora.empty() ? std::vector<std::string>() : AdapterPatterns();
}

// What can fail before long work.
Status CheckPaths(const TrainJob& job) {
  EVOQ_TRY(CheckThreads(job.threads));
  if (job.files.data.empty()) return Fail(ErrorCode::kUsage, "expected --data");
  const bool folder = !job.recipe.lora.empty() && LowerExtension(job.output).empty();
  if (!folder && LowerExtension(job.output) != ".etm" && LowerExtension(job.output) != ".onnx")
    return Fail(ErrorCode::kUsage, "-o {}: expected a name that ends in .onnx or .etm", job.output);
  for (const std::string* path : {&job.output, &job.checkpoint, &job.log}) {
    if (path->empty() || (folder && path == &job.output)) continue;
    EVOQ_TRY(CheckOutput(*path, {job.model, job.files.data, job.files.test}));
  }
  const bool random =
      FindRow(AllNetworks(), job.model) != nullptr || LowerExtension(job.model) == ".json";
  if (folder) {
    EVOQ_ASSIGN(const LoraSettings settings, ParseLora(job.recipe.lora));
    if (settings.merge)
      return Fail(ErrorCode::kUsage,
                  "--lora {}: a folder has adapters alone, expected -o NAME.onnx or .etm to merge",
                  job.recipe.lora);
  }
  if (IsAdapterFolder(job.model))
    return Fail(ErrorCode::kUsage, "{}: a folder of adapters, expected the model that they are of",
                job.model);
  if (!job.recipe.lora.empty() && random)
    return Fail(ErrorCode::kUsage,
                "--lora {}: {} has random weights; adapters are of a model that "
                "has learned",
                job.recipe.lora, job.model);
  if (!job.recipe.scheme.empty() && random)
    return Fail(ErrorCode::kUsage,
                "--scheme {}: {} has random weights; train it, then its .onnx with integers",
                job.recipe.scheme, job.model);
  if (!job.files.targets.empty() && !(job.files.labels.empty() && job.files.test_labels.empty()))
    return Fail(ErrorCode::kUsage, "--targets {}: in place of --labels, not beside them",
                job.files.targets);
  if (!job.files.targets.empty() && !job.files.test.empty() && job.files.test_targets.empty())
    return Fail(ErrorCode::kUsage, "--test {}: expected --test-targets for it", job.files.test);
  if (job.teacher.empty() && !job.recipe.distill_features.empty())
    return Fail(ErrorCode::kUsage,
                "--distill-features {}: expected the model that has them as --teacher",
                job.recipe.distill_features[0]);
  const TrainingRecipe& r = job.recipe;
  const TrainingRecipe plain;
  const OptimizerDef* const optimizer = FindRow(AllOptimizers(), r.optimizer);
  for (const auto& [option, given, lacks, needs] :
       {std::tuple("--distill", r.distill != plain.distill, job.teacher.empty(), "--teacher"),
        std::tuple("--distill-share", r.distill_share != plain.distill_share, job.teacher.empty(),
                   "--teacher"),
        std::tuple("--distill-features-weight",
                   r.distill_features_weight != plain.distill_features_weight,
                   r.distill_features.empty(), "--distill-features"),
        std::tuple("--block", r.block != plain.block, WeightScheme(r) == nullptr,
                   "--scheme of weights in few bits"),
        // Of a network's own recipe it is idle where another optimizer is asked for.
        std::tuple("--beta2", r.beta2 != plain.beta2 && r.beta2 != RecipeFor(job.model).beta2,
                   optimizer != nullptr && !optimizer->second_moment,
                   "--optimizer adam, adamw or lamb"),
        std::tuple("--test-labels", !job.files.test_labels.empty(), job.files.test.empty(),
                   "--test"),
        std::tuple("--test-targets", !job.files.test_targets.empty(), job.files.test.empty(),
                   "--test")}) {
    if (given && lacks)
      return Fail(ErrorCode::kUsage, "{} changes nothing: expected {}", option, needs);
  }
  return CheckRecipe(r);
}

// A file's graph, before its data is read, which may be large: whether it can be trained.
Status CheckTrainable(const TrainJob& job, const Graph& graph) {
  const LossDef* const loss = FindRow(AllLosses(), job.recipe.loss);
  EVOQ_ASSIGN(const DType numbers, IntegersOfInputs(graph));
  const int64_t length = numbers == DType::kUndefined ? 0 : job.recipe.context;
  EVOQ_TRY(MakeTrainingPlan(graph, {.samples = job.recipe.shard,
                                    .freeze = job.recipe.freeze,
                                    .only = OnlyTrained(job.recipe),
                                    .last = loss->last,
                                    .length = length}));
  return {};
}

// Adds a line to the end of a file.
Status AppendLine(const std::string& path, const nlohmann::json& line) {
  const std::string text = line.dump() + "\n";
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return SystemError(path, "open");
  if (!WriteAll(file.get(), std::as_bytes(std::span(text))) || !file.Close())
    return SystemError(path, "write");
  return {};
}

double SecondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// What TensorBoard shows of an epoch.
std::vector<std::pair<std::string, double>> EventsOf(const EpochReport& r) {
  std::vector<std::pair<std::string, double>> values = {
      {"loss/train", r.loss}, {"learning_rate", r.lr}, {"samples_per_second", r.images_per_s}};
  if (r.accuracy) values.emplace_back("accuracy/train", *r.accuracy);
  const Measured test = r.test.value_or(Measured());
  if (test.accuracy) values.emplace_back("accuracy/test", *test.accuracy);
  if (test.loss) values.emplace_back("loss/test", *test.loss);
  if (test.error) values.emplace_back("error/test", *test.error);
  if (r.sparsity) values.emplace_back("sparsity", *r.sparsity);
  return values;
}

// The file of this ending beside the output: written, and its name.
Result<std::string> WriteBeside(const std::string& output, const char* ending,
                                const std::string& text) {
  std::filesystem::path beside(output);
  const std::string path = beside.replace_extension(ending).string();
  EVOQ_TRY(WriteFileAtomic(path, text));
  return path;
}

// What is told while a model is trained; refers to the job, `test` and `events`, and does nothing
// in the processes that tell nothing.
TrainingHooks HooksOf(const TrainJob& job, const Follow& follow, const LabelledSamples& test,
                      std::optional<EventFile>& events, bool tells) {
  TrainingHooks hooks;
  hooks.progress = follow.Stage("training");
  if (test.count() > 0 && tells)
    hooks.test = [&](const Graph& graph) { return MeasureAccuracy(graph, test, job.threads); };
  hooks.epoch = [&, tells](const EpochReport& report) -> Status {
    if (!tells) return {};
    if (job.epoch) job.epoch(report);
    if (events) EVOQ_TRY(events->Add(SecondsNow(), report.epoch, EventsOf(report)));
    return job.log.empty() ? Status() : AppendLine(job.log, ToJson(report));
  };
  return hooks;
}

// The model, and beside it what its inputs are made by.
Status WriteTrained(const TrainJob& job, Start start, const Data& data, bool integers,
                    Trained& out) {
  if (LowerExtension(job.output) == ".onnx") out.warnings = OrtGaps(start.graph);
  if (job.recipe.lora.empty()) {
    EVOQ_TRY(WriteModel(start.graph, integers, job.output));
  } else {
    EVOQ_TRY(WriteAdapted(job, std::move(start.graph)));
  }
  out.output_bytes =
      LowerExtension(job.output).empty() ? 4 * out.adapter_numbers : WrittenBytes(job.output);
  if (!start.preprocess.empty()) {
    EVOQ_ASSIGN(out.preprocess, WriteBeside(job.output, ".preprocess.json", start.preprocess));
  }
  if (!data.tokenizer.empty()) {
    EVOQ_ASSIGN(out.tokenizer, WriteBeside(job.output, ".tokenizer.json", data.tokenizer));
  }
  return {};
}

}  // namespace

TrainingRecipe RecipeFor(const std::string& model, const std::string& scheme,
                         const std::string& lora) {
  TrainingRecipe recipe;
  recipe.epochs = 5;
  recipe.lr = scheme.empty() ? 0.0001 : 0.0005;
  if (!lora.empty()) {  // adapters are few and begin at 0
    recipe.epochs = 3;
    recipe.batch = 16;
    recipe.shard = 4;
    recipe.lr = 0.001;
    recipe.clip_norm = 1;
  }
  if (LowerExtension(model) == ".json") recipe.lr = 0.001;  // its weights are random
  if (const NetworkDef* network = FindRow(AllNetworks(), model)) network->recipe(recipe);
  return recipe;
}

Result<Trained> Train(const TrainJob& job, const Follow& follow) {
  EVOQ_TRY(CheckPaths(job));
  std::unique_ptr<Ranks> ranks;
  if (job.mpi) {
    EVOQ_ASSIGN(ranks, Ranks::Start());
  }
  EVOQ_TRY(follow.At("loading", 0));
  EVOQ_ASSIGN(const SampleFiles files, FindSamples(job.files));
  EVOQ_ASSIGN(Start start, StartOf(job));
  if (start.network == nullptr) EVOQ_TRY(WithContext(SeparateParameters(start.graph), job.model));
  const bool adapts = !job.recipe.lora.empty();
  const bool weights = WeightScheme(job.recipe) != nullptr && !adapts;
  const bool integers = !job.recipe.scheme.empty() && !weights && !adapts;
  Trained out{.model = job.model, .output = job.output};
  if (ranks != nullptr) out.processes = ranks->size();
  out.told = ranks == nullptr || ranks->rank() == 0;
  if (adapts) EVOQ_TRY(WithContext(PrepareAdapters(job, start.graph, out), job.model));
  std::optional<WeightRounder> rounder;
  if (weights) {
    EVOQ_ASSIGN(rounder, WithContext(PrepareWeights(job, start.graph), job.model));
  }
  if (start.network == nullptr && !integers)
    EVOQ_TRY(WithContext(CheckTrainable(job, start.graph), job.model));
  EVOQ_ASSIGN(Data data, ReadData(job, files, start, follow));
  const LabelledSamples &samples = data.samples, &test = data.test;
  std::optional<EventFile> events;
  if (!job.tensorboard.empty() && out.told) {
    EVOQ_ASSIGN(events, EventFile::Create(job.tensorboard, SecondsNow()));
  }
  TrainingHooks hooks = HooksOf(job, follow, test, events, out.told);
  std::unique_ptr<QuantizedModel> quantized;
  if (integers) {
    EVOQ_ASSIGN(quantized,
                WithContext(IntegersOf(job, std::move(start.graph), samples, follow), job.model));
    EVOQ_ASSIGN(start.graph, quantized->Integers());
  }
  TrainingRecipe recipe = job.recipe;
  if (!job.teacher.empty()) {
    recipe.teacher = BaseName(job.teacher);
    EVOQ_ASSIGN(hooks.teacher, TeacherOf(job, start.graph, samples));
  }
  const int threads = job.threads > 0 ? job.threads : PhysicalCores();
  out.samples = samples.count();
  out.real_targets = samples.real();
  out.test_samples = test.count();
  out.recipe = recipe;
  EVOQ_ASSIGN(
      out.outcome,
      WithContext(TrainGraph(start.graph, samples, recipe,
                             {BaseName(job.model), out.told ? job.checkpoint : "", job.resume},
                             threads, hooks,
                             {.quantized = quantized.get(),
                              .weights = rounder ? &*rounder : nullptr,
                              .ranks = ranks.get()}),
                  job.model));
  if (!out.told) {
    ranks->Finish();
    return out;
  }
  if (quantized != nullptr) {
    out.nodes = quantized->report().nodes;
    out.float_reasons = quantized->report().float_reasons;
    if (test.count() > 0) {
      EVOQ_TRY(follow.At("comparing with the simulation", 0));
      EVOQ_ASSIGN(out.agreement, CompareWithSimulation(*quantized, test, threads));
    }
  }
  if (weights) EVOQ_TRY(WithContext(QuantizeTrained(job, test, start.graph, out), job.model));
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(WriteTrained(job, std::move(start), data, integers, out));
  if (ranks != nullptr) ranks->Finish();
  return out;
}

}  // namespace evoq
