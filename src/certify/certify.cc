#include "certify/certify.h"

#include <algorithm>
#include <filesystem>

#include "base/crc32c.h"
#include "base/file.h"
#include "certify/speed.h"
#include "certify/twin.h"
#include "models/models.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr AccuracyLimit kDefaultLimit;  // of "auto"

struct Runner {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Runnable> executor;
};

Result<Runner> Prepare(Graph graph, const ChooseJob& job, const Samples& samples) {
  Runner r;
  EVOQ_ASSIGN(r.engine, EngineFromGraph(std::move(graph), {job.threads, job.shapes}));
  EVOQ_ASSIGN(r.executor, RunnerOf(*r.engine, samples));
  return r;
}

Result<Metric> MetricFor(const Promise& promise, const Samples& samples, const Answers& answers) {
  const bool text = !samples.next.empty();
  if (text && (promise.max_drop || promise.min_sqnr_db))
    return Fail(ErrorCode::kUsage,
                "--max-drop and --min-sqnr are of other models: promise --max-perplexity-growth of "
                "a language model");
  if (!text && promise.max_growth)
    return Fail(ErrorCode::kUsage,
                "--max-perplexity-growth is measured on a text: give a language model's --text");
  if (text) return Metric::kPerplexity;
  if (promise.min_sqnr_db && !promise.max_drop) return Metric::kSqnr;
  const Metric metric = ChooseMetric(samples, answers);
  if (metric == Metric::kSqnr && promise.max_drop)
    return Fail(ErrorCode::kUsage,
                "--max-drop counts classes, and the model's {} output{}, the first of them {}, are "
                "no list of scores: promise --min-sqnr DB",
                answers.names.size(), answers.names.size() == 1 ? "" : "s",
                answers.outputs[0][0].type().ToString());
  return metric;
}

// The float model's structure, where it can be rebuilt from it.
std::string TwinOf(const ChooseJob& job, const Samples& samples, const Runnable& reference) {
  std::string text = TwinText(job.graph);
  Result<Graph> twin = BuildTwin(text);
  if (!twin) return "";
  const Result<Runner> runner = Prepare(std::move(*twin), job, samples);
  return runner && SameSteps(runner->executor->program(), reference.program()) ? text : "";
}

// Layers by what computes them.
std::map<std::string, int> CountLayers(
    const Graph& graph, const QuantizeReport& report,
    const std::function<std::string(const std::string&)>& scheme_of) {
  std::map<std::string, int> counts;
  for (NodeId id : Layers(graph)) {
    const std::string& name = graph.node(id).name;
    ++counts[report.float_reasons.count(name) ? "float32" : scheme_of(name)];
  }
  return counts;
}

class Certifier {
 public:
  Certifier(CertifyJob& job, const Samples& samples) : job_(job), samples_(samples) {}

  Result<Certified> Run() {
    EVOQ_ASSIGN(float_, Prepare(job_.choose.graph, job_.choose, samples_));
    double begun = Seconds();
    EVOQ_ASSIGN(reference_, Answer(*float_.engine, samples_,
                                   {nullptr, Stage("running the float model"), nullptr}));
    out_.spent.reference_s = Seconds() - begun;
    EVOQ_ASSIGN(metric_, MetricFor(job_.promise, samples_, reference_));
    Certificate& c = out_.certificate;
    c.limit = {job_.promise.max_drop.value_or(kDefaultLimit.max_drop),
               job_.promise.min_sqnr_db.value_or(kDefaultLimit.min_sqnr_db),
               job_.promise.max_drop && job_.promise.min_sqnr_db,
               job_.promise.max_growth.value_or(kDefaultLimit.max_growth)};
    const bool automatic = job_.scheme == "auto";
    begun = Seconds();
    EVOQ_ASSIGN(Runner narrow, automatic ? Choose() : QuantizeAll());
    out_.spent.search_s = Seconds() - begun;
    EVOQ_TRY(Measure(narrow));
    // A float model for no other reason than a busy machine is not what was asked for.
    if (const std::string why = NotPromised(); automatic && job_.promise.never_slower &&
                                               !c.is_float && !why.empty() &&
                                               c.accuracy.Keeps(c.limit))
      return Fail(ErrorCode::kConditionFailed,
                  "--never-slower cannot be promised: {}; nothing was written", why);
    if (automatic) {
      if (out_.why_float.empty()) {
        out_.why_float = Broken();
        if (!out_.why_float.empty() && out_.chosen.out_of_time)
          out_.why_float += fmt::format(
              "; the search's {:g} s were too few for other plans (--search-s)", job_.search_s);
      }
      if (out_.why_float.empty() && c.speed.ratio.speedup <= 1 && !c.is_float)
        out_.why_float = "nothing is faster: " + ToText(c.speed);
      if (!out_.why_float.empty()) EVOQ_TRY(KeepFloat());
    } else if (const std::string broken = Broken(); !broken.empty()) {
      return Fail(
          ErrorCode::kConditionFailed,
          "{}: {}; nothing was written (--scheme auto looks for a mix that keeps the promise)",
          job_.scheme, broken);
    } else {
      TakeMeasuredLimit();
    }
    out_.model = (out_.why_float.empty() ? narrow : float_).engine->model();
    EVOQ_TRY(Describe());
    out_.model.certificate =
        ToJson(c).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return std::move(out_);
  }

 private:
  double Seconds() const { return job_.choose.watch->WallMs() / 1e3; }
  OnProgress Stage(const char* name) const {
    if (!job_.choose.progress) return nullptr;
    return [this, name](double fraction) { return job_.choose.progress(name, fraction); };
  }

  Result<Runner> Choose() {
    if (Layers(job_.choose.graph).empty()) {
      out_.why_float = "it has no layer with weights outside subgraphs: there is nothing to choose";
      return Prepare(job_.choose.graph, job_.choose, samples_);
    }
    job_.choose.limit = out_.certificate.limit;
    job_.choose.seconds = job_.search_s;
    EVOQ_ASSIGN(out_.chosen, ChoosePrecisions(job_.choose, samples_, reference_, metric_));
    Graph graph = job_.choose.graph;
    EVOQ_ASSIGN(out_.report,
                QuantizeMixed(graph, job_.choose.ranges, job_.choose.options, out_.chosen.plan));
    out_.certificate.layers =
        CountLayers(job_.choose.graph, out_.report,
                    [&](const std::string& name) { return out_.chosen.plan.at(name).scheme; });
    return Prepare(std::move(graph), job_.choose, samples_);
  }

  Result<Runner> QuantizeAll() {
    Graph graph = job_.choose.graph;
    EVOQ_ASSIGN(out_.report, QuantizeBy(*FindScheme(job_.scheme), job_.methods, graph,
                                        job_.choose.ranges, job_.choose.options, job_.data));
    out_.certificate.layers = CountLayers(job_.choose.graph, out_.report,
                                          [&](const std::string&) { return job_.scheme; });
    return Prepare(std::move(graph), job_.choose, samples_);
  }

  Status Measure(const Runner& narrow) {
    Certificate& c = out_.certificate;
    const double begun = Seconds();
    EVOQ_ASSIGN(const Answers answers, Answer(*narrow.engine, samples_,
                                              {&reference_, Stage("measuring accuracy"), nullptr}));
    EVOQ_ASSIGN(c.accuracy, CompareAnswers(metric_, reference_, answers, samples_));
    const double answered = Seconds();
    out_.spent.accuracy_s = answered - begun;
    const bool phases = samples_.timed.size() > 1;
    SpeedOptions options;
    options.duration_s = phases ? job_.measure_s / 2 : job_.measure_s;
    options.progress = Stage("measuring speed");
    options.watch = job_.choose.watch;
    EVOQ_ASSIGN(c.speed, job_.measure(*float_.executor, *narrow.executor, options));
    if (phases) {
      EVOQ_ASSIGN(const auto reference, RunnerOf(*float_.engine, samples_, 1));
      EVOQ_ASSIGN(const auto model, RunnerOf(*narrow.engine, samples_, 1));
      EVOQ_ASSIGN(c.prompt_speed, job_.measure(*reference, *model, options));
    }
    out_.spent.speed_s = Seconds() - answered;
    c.is_float = SameSteps(float_.executor->program(), narrow.executor->program());
    return {};
  }

  // The claims of speed that --never-slower is about.
  std::vector<const SpeedClaim*> Claims() const {
    const Certificate& c = out_.certificate;
    std::vector<const SpeedClaim*> claims = {&c.speed};
    if (c.prompt_speed) claims.push_back(&*c.prompt_speed);
    return claims;
  }

  // Why some speed is not promised; "": all are.
  std::string NotPromised() const {
    for (const SpeedClaim* claim : Claims()) {
      if (!claim->not_promised.empty()) return claim->not_promised;
    }
    return "";
  }

  // Which promise does not hold; "": all do.
  std::string Broken() const {
    const Certificate& c = out_.certificate;
    const bool limited = job_.scheme == "auto" || job_.promise.max_drop ||
                         job_.promise.min_sqnr_db || job_.promise.max_growth;
    if (limited && !c.accuracy.Keeps(c.limit))
      return "too much accuracy is lost: " + ToText(c.accuracy);
    for (const SpeedClaim* claim : Claims()) {
      if (!job_.promise.never_slower || c.is_float || claim->guaranteed >= 1) continue;
      const char* const phase = !c.prompt_speed     ? ""
                                : claim == &c.speed ? " in decode"
                                                    : " in a prompt";
      return fmt::format("it may be slower{}: {}, {}", phase, ToText(*claim),
                         claim->not_promised.empty()
                             ? fmt::format("at least {:.3f}x is certain", claim->guaranteed)
                             : claim->not_promised);
    }
    return "";
  }

  // Without a stated limit the guarantee is what the measured interval allows.
  void TakeMeasuredLimit() {
    Certificate& c = out_.certificate;
    if (!job_.promise.max_drop && metric_ != Metric::kSqnr) c.limit.max_drop = c.accuracy.drop.high;
    if (!job_.promise.max_growth && metric_ == Metric::kPerplexity)
      c.limit.max_growth = std::max(c.accuracy.drop.value, 0.0);
    if (!job_.promise.min_sqnr_db && metric_ == Metric::kSqnr)
      c.limit.min_sqnr_db = c.accuracy.sqnr_db.low;
  }

  Status KeepFloat() {
    Certificate& c = out_.certificate;
    c.is_float = true;
    c.layers = {{"float32", static_cast<int>(Layers(job_.choose.graph).size())}};
    const auto equal = [](const SpeedClaim& claim) -> SpeedClaim {
      Comparison ratio = claim.ratio;
      ratio.speedup = ratio.low = ratio.high = ratio.rested = 1;
      ratio.b_ms = ratio.a_ms;
      ratio.verdict = Verdict::kSame;
      return {ratio, 1, ""};
    };
    c.speed = equal(c.speed);
    if (c.prompt_speed) c.prompt_speed = equal(*c.prompt_speed);
    EVOQ_ASSIGN(c.accuracy, CompareAnswers(metric_, reference_, reference_, samples_));
    return {};
  }

  // Where, on what, against what.
  Status Describe() {
    Certificate& c = out_.certificate;
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    c.scheme = job_.scheme;
    c.machine = MachineName(isa);
    c.threads = float_.executor->threads();
    Graph bound = job_.choose.graph;
    EVOQ_TRY(BindShapes(bound, job_.choose.shapes));
    for (ValueId id : bound.inputs())
      c.shapes[bound.value(id).name] = bound.value(id).type.shape.sizes();
    c.never_slower = job_.promise.never_slower;
    c.samples_crc = samples_.Crc();
    c.random_samples = samples_.random;
    c.data_limit = job_.data_limit;
    c.preprocess = job_.preprocess;
    const bool classes = metric_ == Metric::kTop1 || metric_ == Metric::kAgreement;
    if (classes) c.float_classes = reference_.classes;
    c.float_nll = reference_.nll;
    if (!samples_.next.empty()) c.window = static_cast<int64_t>(samples_.next[0].size());
    EVOQ_ASSIGN(const FileMark file, MarkOf(job_.onnx_path));
    c.float_file = BaseName(job_.onnx_path);
    c.float_file_bytes = file.bytes;
    c.float_file_crc = file.crc;
    c.float_graph = TwinOf(job_.choose, samples_, *float_.executor);
    return {};
  }

  CertifyJob& job_;
  const Samples& samples_;
  Runner float_;
  Answers reference_;
  Metric metric_ = Metric::kAgreement;
  Certified out_;
};

}  // namespace

Result<FileMark> MarkOf(const std::string& path) {
  std::vector<std::string> paths = {path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    paths.clear();
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".json" || extension == ".safetensors")
        paths.push_back(entry.path().string());
    }
    if (error) return Fail(ErrorCode::kIo, "{}: {}", path, error.message());
    std::ranges::sort(paths);
  }
  FileMark mark;
  std::vector<uint32_t> crcs;
  for (const std::string& file : paths) {
    EVOQ_ASSIGN(const auto mapped, MappedFile::Open(file));
    mark.bytes += static_cast<int64_t>(mapped->bytes().size());
    crcs.push_back(Crc32c(mapped->bytes()));
  }
  mark.crc = crcs.size() == 1 ? crcs[0] : Crc32c(std::as_bytes(std::span(crcs)));
  return mark;
}

Result<Certified> QuantizeCertified(CertifyJob job, const Samples& samples) {
  if (samples.size() == 0)
    return Fail(ErrorCode::kUsage,
                "a promise needs data to measure on: --data DIR or --calib-random N");
  return Certifier(job, samples).Run();
}

}  // namespace evoq
