#include "evoq/toolchain.h"

#include <limits>
#include <utility>

#include "api/model_session.h"
#include "toolchain/enter.h"
#include "workflow/calibration.h"
#include "workflow/compare.h"
#include "workflow/compile.h"
#include "workflow/evaluate.h"
#include "workflow/explain.h"
#include "workflow/optimize.h"
#include "workflow/predict.h"
#include "workflow/quantize.h"

namespace evoq::toolchain {
inline namespace v1 {
namespace {

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
  job.activation_bits = o.activation_bits;
  job.signed_activations = o.signed_activations;
  job.symmetric = o.symmetric;
  job.target = o.target;
  job.shapes = o.shapes;
  job.fixed = o.fixed_shapes;
  job.tune = o.tune;
  job.threads = o.threads;
  job.kv_cache = o.kv_cache;
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
        job.merge_adapters = options.merge_adapters;
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

std::optional<CalibrateResult> Calibrate(const std::string& model, const std::string& output,
                                         const CalibrateOptions& o, const Follow& follow,
                                         std::string* error) {
  return Enter<CalibrateResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<CalibrateResult> {
        EVOQ_ASSIGN(const auto samples, Views(o.arrays));
        CalibrateJob job{.output = output, .part = o.part, .after = o.after, .merge = o.merge};
        QuantizeJob& quantize = job.quantize;
        quantize.model = model;
        quantize.calib = o.calibration;
        quantize.samples = samples;
        quantize.calib_random = o.calibration_random;
        quantize.calib_limit = o.calibration_limit;
        quantize.calib_samples = o.calibration_samples;
        quantize.preprocess = o.preprocess;
        quantize.observer = o.observer;
        quantize.percentile = o.percentile;
        quantize.passes = ChoiceFrom(o.passes);
        quantize.shapes = o.shapes;
        quantize.fixed = o.fixed_shapes;
        quantize.threads = o.threads;
        EVOQ_ASSIGN(const Calibrated done, evoq::CalibrateModel(job, inner));
        return CalibrateResult{done.complete, done.needs_second_pass, done.samples,
                               ReportOf(Tell(done))};
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
                       .kv_cache = o.kv_cache,
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
  return Enter<EvaluateResult>(
      follow, error, [&](const evoq::Follow& inner) -> Result<EvaluateResult> {
        EvalJob job{model,     o.data,        o.labels, o.preprocess, o.reference,
                    o.targets, o.predictions, o.limit,  o.threads};
        if (o.adaptive) job.adaptive = OptionsOf(*o.adaptive);
        job.part = o.part;
        job.save_part = o.save_part;
        job.merge = o.merge;
        EVOQ_ASSIGN(const EvalResult r, evoq::Evaluate(job, inner));
        EvaluateResult out;
        out.samples = r.samples;
        if (r.labelled > 0) out.top1 = r.top1(), out.top5 = r.top5();
        if (r.has_reference) out.agreement = r.agreement(), out.sqnr_db = r.sqnr_db;
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
        for (const SchemeForecast& s : predicted.forecast.schemes) {
          constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();
          const bool known = s.unknown.empty();
          out.schemes.push_back({s.scheme, s.unavailable, s.file_bytes, known ? s.ms : kNotKnown,
                                 known ? s.low_ms : kNotKnown, known ? s.high_ms : kNotKnown,
                                 s.payoff == Payoff::kNotKnown ? kNotKnown : s.speedup});
        }
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

}  // namespace v1
}  // namespace evoq::toolchain
