#include "evoq/toolchain.h"

#include <utility>

#include "api/model_session.h"
#include "base/file.h"
#include "base/guarded.h"
#include "workflow/compare.h"
#include "workflow/compile.h"
#include "workflow/diff.h"
#include "workflow/evaluate.h"
#include "workflow/explain.h"
#include "workflow/optimize.h"
#include "workflow/predict.h"
#include "workflow/quantize.h"
#include "workflow/sensitivity.h"
#include "workflow/train.h"

namespace evoq::toolchain {
inline namespace v1 {
namespace {

Report ReportOf(const Told& told) {
  return {told.text, told.json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
          told.log};
}

// What `task` (evoq::Follow -> evoq::Result<T>) gives: nothing where it fails, with the reason.
template <typename T, typename Task>
std::optional<T> Enter(const Follow& follow, std::string* error, const Task& task) {
  Result<T> result = Guarded([&]() -> Result<T> {
    const int64_t damages = DamagesSoFar();
    EVOQ_ASSIGN(T done, task(evoq::Follow{follow.progress, follow.cancelled}));
    EVOQ_TRY(NoDamageSince(damages));
    return done;
  });
  if (result) return std::move(*result);
  if (error != nullptr) *error = SentenceOf(result.error());
  return std::nullopt;
}

// Arrays of the caller as tensors that look at them. Errors: kUsage, naming the sample.
Result<std::vector<std::vector<Tensor>>> Views(const std::vector<std::vector<Array>>& samples) {
  std::vector<std::vector<Tensor>> tensors;
  for (const std::vector<Array>& sample : samples) {
    const std::string where = fmt::format("sample {}", tensors.size());
    std::vector<Tensor>& inputs = tensors.emplace_back();
    for (const Array& array : sample) {
      EVOQ_ASSIGN(const size_t bytes, WithContext(BytesOf(array.type, array.shape), where));
      if (bytes != array.bytes.size())
        return Fail(ErrorCode::kUsage, "{}: {} bytes, expected {}", where, array.bytes.size(),
                    bytes);
      static constexpr std::byte kEmpty{};
      inputs.push_back(Tensor::View(TensorType(static_cast<DType>(array.type), Shape(array.shape)),
                                    bytes > 0 ? array.bytes.data() : &kEmpty, nullptr));
    }
  }
  return tensors;
}

PassChoice ChoiceFrom(const Passes& passes) { return {passes.disable, passes.opt_level}; }

QuantizeJob JobOf(const std::string& model, const std::string& output, const QuantizeOptions& o) {
  QuantizeJob job;
  job.model = model;
  job.output = output;
  job.method = o.method;
  job.scheme = o.scheme;
  job.calib = o.calibration;
  job.calib_random = o.calibration_random;
  job.calib_limit = o.calibration_limit;
  job.calib_samples = o.calibration_samples;
  job.preprocess = o.preprocess;
  job.observer = o.observer;
  job.percentile = o.percentile;
  job.ranges_in = o.ranges;
  job.ranges_out = o.save_ranges;
  job.encodings = o.encodings;
  job.encodings_out = o.encodings_out;
  job.encodings_version = o.encodings_version;
  job.calib_cache = o.calib_cache;
  job.calib_cache_out = o.calib_cache_out;
  job.scale_sets = o.scale_sets;
  job.opset = o.opset;
  job.exclude = o.exclude;
  job.passes = ChoiceFrom(o.passes);
  job.per_tensor = o.per_tensor;
  job.block = o.block;
  job.weight_bits = o.weight_bits;
  job.signed_activations = o.signed_activations;
  job.symmetric = o.symmetric;
  job.target = o.target;
  job.shapes = o.shapes;
  job.fixed = o.fixed_shapes;
  job.tune = o.tune;
  job.threads = o.threads;
  job.promise = {.max_drop = o.max_drop,
                 .min_sqnr_db = o.min_sqnr_db,
                 .max_growth = o.max_perplexity_growth,
                 .never_slower = o.never_slower};
  job.text = o.text;
  job.tokenizer = o.tokenizer;
  job.window = o.window;
  job.data = o.data;
  job.labels = o.labels;
  job.data_limit = o.data_limit;
  job.search_s = o.search_s;
  job.measure_s = o.measure_s;
  return job;
}

std::vector<ExplainedStep> StepsOf(const Explanation& e) {
  std::vector<ExplainedStep> steps;
  const Program& program = e.model.executor->program();
  for (size_t i = 0; i < e.model.profile.steps.size(); ++i) {
    const StepTime& s = e.model.profile.steps[i];
    const Decision& decision = program.steps[i].decision;
    steps.push_back({s.name, s.op, s.kernel, PrecisionName(s.precision), s.ms, s.share,
                     decision.float_reason.code, decision.float_reason.sentence});
  }
  return steps;
}

}  // namespace

std::optional<OptimizeResult> Optimize(const std::string& model, const std::string& output,
                                       const OptimizeOptions& options, const Follow& follow,
                                       std::string* error) {
  return Enter<OptimizeResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<OptimizeResult> {
        OptimizeJob job{.model = model, .output = output, .passes = ChoiceFrom(options.passes)};
        job.stop_after = options.stop_after;
        EVOQ_ASSIGN(const Optimized done, evoq::Optimize(job, inner));
        OptimizeResult result{.nodes_before = static_cast<int64_t>(done.nodes_before),
                              .nodes_after = static_cast<int64_t>(done.nodes_after)};
        for (const PassRun& run : done.passes)
          result.passes.push_back({run.pass, run.changes, static_cast<int64_t>(run.nodes)});
        result.report = ReportOf(Tell(done));
        return result;
      });
}

std::optional<QuantizeResult> Quantize(const std::string& model, const std::string& output,
                                       const QuantizeOptions& options, const Follow& follow,
                                       std::string* error) {
  return Enter<QuantizeResult>(follow, error,
                               [&](const evoq::Follow& inner) -> Result<QuantizeResult> {
                                 EVOQ_ASSIGN(const auto samples, Views(options.arrays));
                                 QuantizeJob job = JobOf(model, output, options);
                                 job.samples = samples;
                                 EVOQ_ASSIGN(const Quantized done, evoq::Quantize(job, inner));
                                 const PrecisionCounts& steps = done.steps;
                                 return QuantizeResult{.input_bytes = done.input_bytes,
                                                       .output_bytes = done.output_bytes,
                                                       .samples_used = done.samples_used,
                                                       .steps = steps.Total(),
                                                       .steps_int8 = steps[Precision::kInt8],
                                                       .steps_bf16 = steps[Precision::kBf16],
                                                       .steps_float = steps[Precision::kFloat32],
                                                       .steps_why = done.steps_why,
                                                       .int8_weights = done.int8_weights,
                                                       .low_bit_weights = done.low_bit_weights,
                                                       .float_reasons = TextsOf(done.float_reasons),
                                                       .report = ReportOf(Tell(done))};
                               });
}

std::optional<CompileResult> Compile(const std::string& model, const std::string& output,
                                     const CompileOptions& o, const Follow& follow,
                                     std::string* error) {
  return Enter<CompileResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<CompileResult> {
        CompileJob job{.model = model,
                       .output = output,
                       .shapes = o.shapes,
                       .gears = o.gears,
                       .fixed = o.fixed_shapes,
                       .tune = o.tune,
                       .passes = ChoiceFrom(o.passes),
                       .threads = o.threads};
        if ((o.suggest_gears > 0) != !o.observed.empty())
          return Fail(ErrorCode::kUsage, "suggest_gears and observed go together");
        if (o.suggest_gears > 0)
          job.suggest = {.most = static_cast<size_t>(o.suggest_gears),
                         .file = o.observed,
                         .seconds = o.measure_s};
        EVOQ_ASSIGN(const Compiled done, evoq::Compile(job, inner));
        return CompileResult{done.output_bytes, static_cast<int64_t>(done.steps), done.why_no_plan,
                             ReportOf(Tell(done))};
      });
}

std::optional<ExplainResult> Explain(const std::string& model, const ExplainOptions& o,
                                     const Follow& follow, std::string* error) {
  return Enter<ExplainResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<ExplainResult> {
        ExplainJob job;
        job.model = model;
        job.baseline = o.baseline;
        job.shapes = o.shapes;
        job.inputs = o.inputs;
        job.batch = o.batch;
        job.threads = o.threads;
        job.duration_s = o.duration_s;
        job.report = o.html_report;
        EVOQ_ASSIGN(const Explanation e, evoq::Explain(job, inner));
        ExplainResult out{e.model.profile.total_ms, 0, StepsOf(e), {}, ReportOf(Tell(e))};
        if (!e.time) return out;
        out.baseline_ms = e.time->float_ms;
        for (const TimeCause& c : e.time->causes)
          out.causes.push_back({c.code, c.sentence, c.fix, c.ms, c.gain_ms, c.steps});
        return out;
      });
}

std::optional<EvaluateResult> Evaluate(const std::string& model, const EvaluateOptions& o,
                                       const Follow& follow, std::string* error) {
  return Enter<EvaluateResult>(follow, error,
                               [&](const evoq::Follow& inner) -> Result<EvaluateResult> {
                                 EvalJob job{model,       o.data,        o.labels, o.preprocess,
                                             o.reference, o.predictions, o.limit,  o.threads};
                                 if (o.adaptive) job.adaptive = OptionsOf(*o.adaptive);
                                 EVOQ_ASSIGN(const EvalResult r, evoq::Evaluate(job, inner));
                                 EvaluateResult out;
                                 out.samples = r.samples;
                                 if (r.labelled > 0) out.top1 = r.top1(), out.top5 = r.top5();
                                 if (r.has_reference)
                                   out.agreement = r.agreement(), out.sqnr_db = r.sqnr_db;
                                 out.ms_per_sample = r.ms_per_sample;
                                 if (r.adaptive) out.adaptive = ReportOf(*r.adaptive);
                                 out.report = ReportOf(Tell(r));
                                 return out;
                               });
}

std::optional<PredictResult> Predict(const std::string& model, const PredictOptions& o,
                                     const Follow& follow, std::string* error) {
  return Enter<PredictResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<PredictResult> {
        const PredictJob job{model,    o.schemes, o.shapes, o.inputs, o.batch,
                             o.limits, o.ranges,  o.check,  o.threads};
        EVOQ_ASSIGN(const Predicted predicted, evoq::Predict(job, inner));
        PredictResult out;
        for (const SchemeForecast& s : predicted.forecast.schemes)
          out.schemes.push_back(
              {s.scheme, s.unavailable, s.file_bytes, s.ms, s.low_ms, s.high_ms, s.speedup});
        out.report = ReportOf(Tell(predicted));
        return out;
      });
}

std::optional<CompareResult> Compare(const std::string& a, const std::string& b,
                                     const CompareOptions& o, const Follow& follow,
                                     std::string* error) {
  return Enter<CompareResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<CompareResult> {
        const CompareJob job{a,       b,         o.html_report, o.shapes,    o.inputs,
                             o.batch, o.threads, o.duration_s,  o.warmup_ms, o.rounds};
        EVOQ_ASSIGN(const Compared done, evoq::Compare(job, inner));
        const Comparison& c = done.result;
        return CompareResult{VerdictName(c.verdict), c.speedup, c.low, c.high, c.a_ms, c.b_ms,
                             ReportOf(Tell(done))};
      });
}

namespace {

// Looks at `arrays`, which must outlive it.
evoq::ProbeOptions ProbeOf(const ProbeOptions& o, std::span<const std::vector<Tensor>> arrays) {
  return {.data = o.data,
          .labels = "",
          .preprocess = o.preprocess,
          .random = o.random,
          .text = o.text,
          .tokenizer = o.tokenizer,
          .window = o.window,
          .limit = o.limit,
          .shapes = o.shapes,
          .samples = arrays};
}

}  // namespace

std::optional<DiffResult> Diff(const std::string& a, const std::string& b, const DiffOptions& o,
                               const Follow& follow, std::string* error) {
  return Enter<DiffResult>(follow, error, [&](const evoq::Follow& inner) -> Result<DiffResult> {
    EVOQ_ASSIGN(const auto arrays, Views(o.samples.arrays));
    DiffJob job;
    job.a = a;
    job.b = b;
    job.probe = ProbeOf(o.samples, arrays);
    job.reference = o.reference;
    job.bad_db = o.bad_db;
    job.keep = o.keep;
    job.threads = o.threads;
    EVOQ_ASSIGN(const Diffed done, evoq::Diff(job, inner));
    DiffResult out;
    out.samples = done.samples;
    for (const evoq::DiffedValue& v : done.values)
      out.values.push_back({v.name, v.a_name, v.step, v.op, v.output, v.whole.sqnr_db(),
                            v.whole.cosine(), v.whole.max_abs(), v.whole.mean_error(),
                            v.own.sqnr_db(), v.own_share()});
    out.first_bad = done.first_bad;
    out.bad_db = done.bad_db;
    out.sqnr_db = done.sqnr_db;
    out.max_error = done.max_error;
    out.worst_sample = done.worst_sample;
    out.only_a = done.only_a;
    out.only_b = done.only_b;
    out.report = ReportOf(Tell(done));
    return out;
  });
}

namespace {

OutputError Of(const evoq::OutputError& e) { return {e.sqnr_db, e.cosine, e.kl, e.metric}; }

SensitivityJob JobOf(const std::string& model, const SensitivityOptions& o,
                     std::span<const std::vector<Tensor>> arrays) {
  SensitivityJob job;
  job.quantize.model = model;
  job.quantize.scheme = o.scheme;
  job.quantize.method = o.method;
  job.quantize.calib = o.calibration;
  job.quantize.calib_limit = o.calibration_limit;
  job.quantize.calib_samples = o.calibration_samples;
  job.quantize.preprocess = o.samples.preprocess;
  job.quantize.observer = o.observer;
  job.quantize.percentile = o.percentile;
  job.quantize.ranges_in = o.ranges;
  job.quantize.exclude = o.exclude;
  job.quantize.per_tensor = o.per_tensor;
  job.quantize.block = o.block;
  job.quantize.signed_activations = o.signed_activations;
  job.quantize.symmetric = o.symmetric;
  job.quantize.shapes = o.samples.shapes;
  job.quantize.fixed = o.fixed_shapes;
  job.quantize.threads = o.threads;
  job.probe = ProbeOf(o.samples, arrays);
  job.probe.labels = o.labels;
  job.min_sqnr_db = o.min_sqnr_db;
  job.report = o.html_report;
  return job;
}

}  // namespace

std::optional<SensitivityResult> Sensitivity(const std::string& model, const SensitivityOptions& o,
                                             const Follow& follow, std::string* error) {
  return Enter<SensitivityResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<SensitivityResult> {
        EVOQ_ASSIGN(const auto arrays, Views(o.samples.arrays));
        EVOQ_ASSIGN(const SensitivityFound found, FindSensitivity(JobOf(model, o, arrays), inner));
        const evoq::Sensitivity& s = found.result;
        SensitivityResult out;
        out.samples = found.samples;
        out.metric = MetricName(s.metric);
        out.float_metric = s.float_metric;
        out.all = Of(s.all);
        for (const evoq::LayerSensitivity& layer : s.layers)
          out.layers.push_back({layer.name, layer.op, Of(layer.alone), Of(layer.spared),
                                layer.rank_alone, layer.rank_spared});
        for (const evoq::TensorOutliers& t : s.tensors)
          out.tensors.push_back({t.name, t.weight, t.layers, t.statistics.largest(),
                                 t.statistics.p999(), t.statistics.kurtosis(),
                                 t.statistics.channels(), t.statistics.OutlierChannels()});
        if (s.exclusion) {
          out.exclude = s.exclusion->layers;
          out.excluded = Of(s.exclusion->error);
        }
        out.report = ReportOf(Tell(found));
        return out;
      });
}

namespace {

// The model's recipe with what was set.
TrainingRecipe RecipeOf(const std::string& model, const TrainOptions& o) {
  TrainingRecipe recipe = RecipeFor(model, o.scheme);
  const auto set = [](const auto& from, auto& to) {
    if (from) to = *from;
  };
  set(o.epochs, recipe.epochs);
  set(o.batch, recipe.batch);
  set(o.shard, recipe.shard);
  set(o.lr, recipe.lr);
  set(o.warm_up, recipe.warm_up);
  set(o.momentum, recipe.momentum);
  set(o.beta2, recipe.beta2);
  set(o.weight_decay, recipe.weight_decay);
  set(o.label_smoothing, recipe.label_smoothing);
  set(o.clip_norm, recipe.clip_norm);
  set(o.optimizer, recipe.optimizer);
  set(o.schedule, recipe.schedule);
  set(o.loss, recipe.loss);
  set(o.augment, recipe.augment);
  set(o.distill, recipe.distill);
  set(o.distill_share, recipe.distill_share);
  set(o.seed, recipe.seed);
  set(o.context, recipe.context);
  set(o.ema, recipe.ema);
  set(o.mixup, recipe.mixup);
  recipe.freeze = o.freeze;
  recipe.decay = o.decay;
  recipe.scheme = o.scheme;
  recipe.weight_bits = o.weight_bits;
  recipe.exclude = o.exclude;
  return recipe;
}

}  // namespace

std::optional<TrainResult> Train(const std::string& model, const std::string& output,
                                 const TrainOptions& o, const Follow& follow, std::string* error) {
  return Enter<TrainResult>(follow, error, [&](const evoq::Follow& inner) -> Result<TrainResult> {
    TrainJob job;
    job.model = model;
    job.output = output;
    job.files = {o.data, o.labels, o.test, o.test_labels};
    job.preprocess = o.preprocess;
    job.limit = o.limit;
    job.checkpoint = o.checkpoint;
    job.resume = o.resume;
    job.log = o.log;
    job.tensorboard = o.tensorboard;
    job.tokenizer = o.tokenizer;
    job.hold_out = o.hold_out;
    job.teacher = o.teacher;
    job.recipe = RecipeOf(model, o);
    job.threads = o.threads;
    EVOQ_ASSIGN(const Trained trained, evoq::Train(job, inner));
    TrainResult out{.parameters = trained.outcome.parameters,
                    .output_bytes = trained.output_bytes,
                    .report = ReportOf(Tell(trained))};
    for (const EpochReport& e : trained.outcome.epochs)
      out.epochs.push_back({e.epoch, e.loss, e.accuracy, e.test_accuracy, e.seconds, e.test_loss});
    if (trained.agreement) {
      out.compared_samples = trained.agreement->samples;
      out.equal_scores = trained.agreement->scores;
    }
    return out;
  });
}

}  // namespace v1
}  // namespace evoq::toolchain
