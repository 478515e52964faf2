// What looks at models on samples: Diff, Sensitivity, Tune.
#include "toolchain/enter.h"
#include "workflow/diff.h"
#include "workflow/sensitivity.h"
#include "workflow/tune_loop.h"

namespace evoq::toolchain {
inline namespace v1 {
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

TunedStage StageOf(const Comparison& c) {
  return {VerdictName(c.verdict), c.speedup, c.low, c.high, c.a_ms, c.b_ms};
}

}  // namespace

std::optional<TuneResult> Tune(const std::string& model, const std::string& output,
                               const TuneOptions& o, const Follow& follow, std::string* error) {
  return Enter<TuneResult>(follow, error, [&](const evoq::Follow& inner) -> Result<TuneResult> {
    EVOQ_ASSIGN(const auto arrays, Views(o.samples.arrays));
    TuneLoopJob job;
    job.model = model;
    job.output = output;
    job.report = o.html_report;
    job.shapes = o.shapes;
    job.passes = ChoiceFrom(o.passes);
    job.strategy = o.strategy;
    job.probe = ProbeOf(o.samples, arrays);
    job.min_sqnr_db = o.min_sqnr_db;
    job.threads = o.threads;
    job.duration_s = o.duration_s;
    EVOQ_ASSIGN(const TunedLoop done, TuneLoop(job, inner));
    TuneResult out;
    out.steps_before = static_cast<std::int64_t>(done.steps_before);
    out.steps_after = static_cast<std::int64_t>(done.steps_after);
    out.graph = StageOf(done.graph);
    out.operators = StageOf(done.operators);
    out.whole = StageOf(done.whole);
    out.keeps_tuning = done.keeps_tuning;
    out.sqnr_db = done.outputs.sqnr_db;
    for (const evoq::Advice& a : done.advice) out.advice.push_back({a.code, a.sentence, a.fix});
    out.report = ReportOf(Tell(done));
    return out;
  });
}

}  // namespace v1
}  // namespace evoq::toolchain
