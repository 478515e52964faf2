#include "workflow/calibrate.h"

#include <cmath>
#include <numeric>

#include "certify/samples.h"
#include "compile/batch.h"
#include "encodings/table.h"
#include "quant/observer.h"
#include "quant/suspect.h"
#include "reference/reference.h"
#include "train/learn_rounding.h"
#include "workflow/models.h"
#include "workflow/scale_sets.h"

namespace evoq {
namespace {

// How many samples are used at most, and in which order.
struct Choice {
  int64_t limit = 0;       // 0: all
  bool any_first = false;  // the first few are to stand for all
  PartNumber part = {};    // of those
};

// How many samples of `size` are used, and which one is number `i` of those: evenly spread. With
// `any_first` also the first ones are, however many: those of steps of the golden section of all.
struct Spread {
  int64_t size, count, step = 1;
  Spread(int64_t size, Choice choice)
      : size(size), count(choice.limit > 0 ? std::min(size, choice.limit) : size) {
    if (!choice.any_first) return;
    step = std::max<int64_t>(1, std::llround(static_cast<double>(count) * 0.6180339887498949));
    while (std::gcd(step, count) != 1) ++step;
  }
  int64_t At(int64_t i) const { return i * step % count * size / count; }
};

// The data set's samples. Refers to `follow`.
SamplesFn SamplesOf(std::shared_ptr<Dataset> data, Choice choice, const Follow& follow) {
  return [data, choice,
          &follow](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    const Spread spread(data->size(), choice);
    const int64_t first = choice.part.first(spread.count), last = choice.part.last(spread.count);
    for (int64_t i = first; i < last; ++i) {
      EVOQ_ASSIGN(const Sample sample, data->At(spread.At(i)));
      EVOQ_TRY(WithContext(use(sample.inputs), sample.name));
      EVOQ_TRY(follow.At("calibrating",
                         static_cast<double>(i + 1 - first) / static_cast<double>(last - first)));
    }
    return {};
  };
}

// Those in memory. Refers to them and to `follow`.
SamplesFn SamplesOf(std::span<const std::vector<Tensor>> samples, Choice choice,
                    const Follow& follow) {
  return [samples, choice,
          &follow](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    const Spread spread(static_cast<int64_t>(samples.size()), choice);
    const int64_t first = choice.part.first(spread.count), last = choice.part.last(spread.count);
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = spread.At(i);
      EVOQ_TRY(WithContext(use(samples[static_cast<size_t>(at)]), fmt::format("sample {}", at)));
      EVOQ_TRY(follow.At("calibrating",
                         static_cast<double>(i + 1 - first) / static_cast<double>(last - first)));
    }
    return {};
  };
}

// Data sets one behind the other.
class JoinedData final : public Dataset {
 public:
  void Add(std::unique_ptr<Dataset> part) {
    size_ += part->size();
    parts_.push_back(std::move(part));
  }
  int64_t size() const override { return size_; }
  std::string warning() const override {
    for (const auto& part : parts_) {
      if (!part->warning().empty()) return part->warning();
    }
    return "";
  }
  Result<Sample> At(int64_t index) const override {
    size_t part = 0;
    while (index >= parts_[part]->size()) index -= parts_[part++]->size();
    return parts_[part]->At(index);
  }

 private:
  std::vector<std::unique_ptr<Dataset>> parts_;
  int64_t size_ = 0;
};

// Where the samples of calibration are; empty: nowhere on disk.
const std::vector<std::string>& CalibrationPaths(const QuantizeJob& job) {
  return job.calib.empty() && job.calib_random == 0 ? job.data : job.calib;
}

}  // namespace

std::vector<std::string> InputFilesOf(const QuantizeJob& job) {
  std::vector<std::string> files = {job.model,     job.labels,      job.preprocess,
                                    job.encodings, job.calib_cache, job.text};
  for (const auto* more : {&job.calib, &job.data})
    files.insert(files.end(), more->begin(), more->end());
  std::erase(files, "");
  return files;
}

namespace {

bool HasSamples(const QuantizeJob& job) {
  return !job.samples.empty() || !CalibrationPaths(job).empty() || job.calib_random > 0 ||
         !DataOfSets(job).empty();
}

// What is on disk for the job to calibrate on: that of all sets, or of `paths`.
Result<std::unique_ptr<Dataset>> OpenCalibration(const QuantizeJob& job, const Graph& graph,
                                                 const std::vector<std::string>& paths) {
  const std::vector<std::string> of_sets = DataOfSets(job);
  if (of_sets.empty()) return OpenData(paths, graph, job.model, job.preprocess, "");
  auto joined = std::make_unique<JoinedData>();
  for (const std::string& path : of_sets) {
    EVOQ_ASSIGN(std::unique_ptr<Dataset> part,
                OpenData({path}, graph, job.model, job.preprocess, ""));
    joined->Add(std::move(part));
  }
  return std::unique_ptr<Dataset>(std::move(joined));
}

Choice ChoiceOf(const QuantizeJob& job, PartNumber part) {
  if (job.calib_samples == "auto")
    return {.limit = job.calib_limit, .any_first = true, .part = part};
  return {
      .limit = job.calib_samples.empty() ? job.calib_limit : std::atoi(job.calib_samples.c_str()),
      .part = part};
}

// The samples that a run on such inputs computes apart from each other.
int64_t BatchOf(const Graph& graph, std::span<const Tensor> inputs) {
  for (const Tensor& input : inputs) {
    if (!input.type().is_tensor() || input.shape().rank() == 0 || input.sizes()[0] < 2) return 1;
  }
  if (inputs.size() != graph.inputs().size()) return 1;
  Graph bound = graph;
  InputShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i)
    shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  return BindShapes(bound, shapes).has_value() ? IndependentSamples(bound) : 1;
}

}  // namespace

PrepareFn PrepareWithEngine(int threads) {
  return [threads](const Graph& graph) -> Result<RunFn> {
    EVOQ_ASSIGN(std::unique_ptr<Engine> engine, EngineFromGraph(graph, {threads, {}}));
    auto shared = std::shared_ptr<Engine>(std::move(engine));
    return RunFn([shared](std::span<const Tensor> inputs) { return shared->Run(inputs); });
  };
}

Result<std::vector<Tensor>> FirstSample(const QuantizeJob& job, const Graph& graph) {
  if (!job.samples.empty()) return job.samples[0];
  const std::vector<std::string>& paths =
      CalibrationPaths(job).empty() ? job.data : CalibrationPaths(job);
  if (paths.empty() && DataOfSets(job).empty()) return std::vector<Tensor>();
  EVOQ_ASSIGN(const auto data, OpenCalibration(job, graph, paths));
  EVOQ_ASSIGN(Sample first, data->At(0));
  return std::move(first.inputs);
}

Result<JobSamples> SamplesFor(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                              const Follow& follow, const std::string& who, PartNumber part) {
  const std::vector<std::string>& calib = CalibrationPaths(job);
  if (!job.samples.empty()) {
    if (!job.calib.empty() || job.calib_random > 0)
      return Fail(ErrorCode::kUsage,
                  "calibration samples from memory and --calib exclude each other");
    return JobSamples{SamplesOf(job.samples, ChoiceOf(job, part), follow)};
  }
  if (!calib.empty() || !DataOfSets(job).empty()) {
    EVOQ_ASSIGN(std::unique_ptr<Dataset> data, OpenCalibration(job, graph, calib));
    JobSamples samples;
    Warn(*data, samples.warnings);
    samples.each = SamplesOf(std::move(data), ChoiceOf(job, part), follow);
    return samples;
  }
  if (job.calib_random > 0) {
    EVOQ_ASSIGN(Samples random, RandomInputs(graph, shapes, job.calib_random));
    auto owned = std::make_shared<const Samples>(std::move(random));
    return JobSamples{.each = [owned, part, &follow](const auto& use) -> Status {
                        return SamplesOf(owned->inputs, Choice{.part = part}, follow)(use);
                      },
                      .random = true};
  }
  const char* ranges =
      FindScheme(job.scheme) != nullptr && !FindScheme(job.scheme)->needs_calibration
          ? "--text F"
          : "--ranges F";
  return Fail(ErrorCode::kUsage, "{} needs data: --calib DIR, --calib-random N or {}", who, ranges);
}

Result<int64_t> SamplesOfRun(const QuantizeJob& job, const Graph& graph,
                             const JobSamples& samples) {
  if (samples.random) return 1;
  EVOQ_ASSIGN(const std::vector<Tensor> first, FirstSample(job, graph));
  return BatchOf(graph, first);
}

Result<MethodData> MethodDataFor(const QuantizeJob& job, const MethodChoice& methods,
                                 const Graph& graph, const InputShapes& shapes,
                                 const Follow& follow) {
  const bool needs = NeedSamples(methods) || job.method == kAutoMethod;
  if (HasScaleSets(job)) {
    EVOQ_ASSIGN(JobSamples of_sets, SamplesFor(job, graph, shapes, follow, "--scale-sets"));
    return MethodData{PrepareWithEngine(job.threads), std::move(of_sets.each),
                      CalibrationOptionsOf(job), LearnRounding};
  }
  if (!methods || (!needs && !HasSamples(job))) return MethodData();
  EVOQ_ASSIGN(JobSamples samples, SamplesFor(job, graph, shapes, follow, "--method " + job.method));
  return MethodData{PrepareWithEngine(job.threads), std::move(samples.each),
                    CalibrationOptionsOf(job), LearnRounding};
}

namespace {

Result<Ranges> OwnRanges(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                         bool others, const Follow& follow, CalibrationNotes* notes) {
  EVOQ_ASSIGN(const bool table,
              job.ranges_in.empty() ? Result<bool>(false) : IsTable(job.ranges_in));
  if (!job.ranges_in.empty() && !table) {
    EVOQ_ASSIGN(Ranges ranges, LoadRanges(job.ranges_in));
    notes->warnings = RangeWarnings(graph, ranges);
    return ranges;
  }
  if (others && !HasSamples(job)) return Ranges();
  EVOQ_ASSIGN(const JobSamples samples,
              SamplesFor(job, graph, shapes, follow, "--scheme " + job.scheme));
  CalibrationOptions options = CalibrationOptionsOf(job);
  EVOQ_ASSIGN(options.batch, SamplesOfRun(job, graph, samples));
  auto calibrated = Calibrate(graph, PrepareWithEngine(job.threads), samples.each, options, notes);
  if (samples.random) calibrated = WithContext(std::move(calibrated), kMadeUp);
  notes->data_warnings = samples.warnings;
  return calibrated;
}

}  // namespace

Result<Ranges> FindRanges(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                          const Ranges& outside, const Follow& follow, CalibrationNotes* notes) {
  const bool others = !outside.empty() || !job.encodings.empty() || !job.calib_cache.empty();
  EVOQ_ASSIGN(Ranges ranges, OwnRanges(job, graph, shapes, others, follow, notes));
  for (const auto& [value, range] : outside) {
    Range& own = ranges[value];
    own.min = range.min;
    own.max = range.max;
  }
  return ranges;
}

CalibrationOptions CalibrationOptionsOf(const QuantizeJob& job) {
  CalibrationOptions options;
  options.percentile = job.percentile;
  options.intervals = !job.ranges_out.empty();
  options.stop_when_enough = job.calib_samples == "auto";
  const QuantScheme* scheme = FindScheme(job.scheme);
  const std::string name = job.observer.empty() && scheme ? scheme->observer : job.observer;
  if (!name.empty()) options.observer = FindObserver(name);
  return options;
}

Result<Ranges> RangesOf(const Graph& graph, const std::vector<Tensor>& sample, int threads) {
  const Follow nobody;
  return Calibrate(graph, PrepareWithEngine(threads),
                   SamplesOf(std::span(&sample, 1), Choice{}, nobody), {});
}

}  // namespace evoq
