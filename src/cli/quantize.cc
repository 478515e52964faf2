#include "cli/quantize.h"

#include <chrono>

#include "base/file.h"
#include "base/ms_text.h"
#include "base/output_file.h"
#include "base/text.h"
#include "engine/region_run.h"
#include "onnx/model_bytes.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "program/etm.h"
#include "quant/observer.h"
#include "quant/suspect.h"
#include "quant/unfuse.h"

namespace evoq {
namespace {

using nlohmann::json;

// In front of errors that real samples may not have.
constexpr char kMadeUp[] = "on random samples (--calib and --data give real ones)";

PrepareFn PrepareWithEngine(int threads) {
  return [threads](const Graph& graph) -> Result<RunFn> {
    EVOQ_ASSIGN(std::unique_ptr<Engine> engine, Engine::FromGraph(graph, {threads, {}}));
    auto shared = std::shared_ptr<Engine>(std::move(engine));
    return RunFn([shared](std::span<const Tensor> inputs) { return shared->Run(inputs); });
  };
}

// The data set's samples, at most `limit` of them, evenly spread.
SamplesFn SamplesOf(std::shared_ptr<Dataset> data, int limit) {
  return [data, limit](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    const int64_t size = data->size(), count = limit > 0 ? std::min<int64_t>(size, limit) : size;
    Progress progress("calibrating");
    for (int64_t i = 0; i < count; ++i) {
      EVOQ_ASSIGN(const Sample sample, data->At(i * size / count));
      EVOQ_TRY(WithContext(use(sample.inputs), sample.name));
      progress.Update(static_cast<double>(i + 1) / static_cast<double>(count));
    }
    return {};
  };
}

// At most `limit` of them (0: all), evenly spread.
SamplesFn SamplesOf(std::span<const std::vector<Tensor>> samples, int limit) {
  return [samples, limit](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    const size_t count =
        limit > 0 ? std::min(samples.size(), static_cast<size_t>(limit)) : samples.size();
    for (size_t i = 0; i < count; ++i) {
      const size_t at = i * samples.size() / count;
      EVOQ_TRY(WithContext(use(samples[at]), fmt::format("sample {}", at)));
    }
    return {};
  };
}

// Where the samples of calibration are; empty: nowhere on disk.
const std::vector<std::string>& CalibrationPaths(const QuantizeJob& job) {
  return job.calib.empty() && job.calib_random == 0 ? job.data : job.calib;
}

InputShapes SizesOf(const Graph& graph, std::span<const Tensor> inputs) {
  InputShapes shapes;
  for (size_t i = 0; i < std::min(inputs.size(), graph.inputs().size()); ++i) {
    if (inputs[i].type().is_tensor())
      shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  }
  return shapes;
}

// The first sample; empty where there is none on disk or in memory.
Result<std::vector<Tensor>> FirstSample(const QuantizeJob& job, const Graph& graph) {
  if (!job.samples.empty()) return job.samples[0];
  const std::vector<std::string>& paths =
      CalibrationPaths(job).empty() ? job.data : CalibrationPaths(job);
  if (paths.empty()) return std::vector<Tensor>();
  EVOQ_ASSIGN(const auto data, OpenData(paths, graph, job.model, job.preprocess, ""));
  EVOQ_ASSIGN(Sample first, data->At(0));
  return std::move(first.inputs);
}

// The sizes of all inputs to plan, tune and measure for: --shape's, else the model's with a batch
// of 1, else the first sample's. Empty where nobody names them: the first run of the file will.
Result<InputShapes> ShapesToPlanFor(const QuantizeJob& job, const Graph& graph) {
  EVOQ_ASSIGN(InputShapes shapes, ParseShapes(job.shapes));
  Graph bound = graph;
  Status named = BindShapes(bound, shapes);
  if (!named && (!shapes.empty() || named.error().code() != ErrorCode::kUsage))
    return tl::unexpected(std::move(named.error()));
  if (!named) {
    EVOQ_ASSIGN(const std::vector<Tensor> first, FirstSample(job, graph));
    shapes = SizesOf(graph, first);
    if (shapes.empty()) return shapes;
    EVOQ_TRY(BindShapes(bound, shapes));
  }
  shapes.clear();
  for (ValueId id : bound.inputs()) {
    if (bound.value(id).type.is_tensor())
      shapes[bound.value(id).name] = bound.value(id).type.shape.sizes();
  }
  return shapes;
}

Result<Ranges> FindRanges(const QuantizeJob& job, const Graph& graph, const InputShapes& shapes,
                          bool needed, CalibrationNotes* notes) {
  if (!needed) return Ranges();
  if (!job.ranges_in.empty()) {
    EVOQ_ASSIGN(Ranges ranges, LoadRanges(job.ranges_in));
    notes->warnings = RangeWarnings(graph, ranges);
    return ranges;
  }
  CalibrationOptions options;
  options.percentile = job.percentile;
  if (!job.observer.empty()) options.observer = FindObserver(job.observer);
  SamplesFn samples;
  Samples random;
  const std::vector<std::string>& calib = CalibrationPaths(job);
  if (!job.samples.empty()) {
    samples = SamplesOf(job.samples, job.calib_limit);
    if (!job.calib.empty() || job.calib_random > 0)
      return Fail(ErrorCode::kUsage,
                  "calibration samples from memory and --calib exclude each other");
  } else if (!calib.empty()) {
    EVOQ_ASSIGN(std::unique_ptr<Dataset> data,
                OpenData(calib, graph, job.model, job.preprocess, ""));
    samples = SamplesOf(std::move(data), job.calib_limit);
  } else if (job.calib_random > 0) {
    EVOQ_ASSIGN(random, RandomInputs(graph, shapes, job.calib_random));
    samples = SamplesOf(random.inputs, 0);
  } else {
    return Fail(ErrorCode::kUsage,
                "--scheme {} needs data: --calib DIR, --calib-random N or --ranges F", job.scheme);
  }
  auto calibrated = Calibrate(graph, PrepareWithEngine(job.threads), samples, options, notes);
  if (!random.inputs.empty()) calibrated = WithContext(std::move(calibrated), kMadeUp);
  EVOQ_ASSIGN(Ranges ranges, std::move(calibrated));
  if (!job.ranges_out.empty()) EVOQ_TRY(SaveRanges(ranges, options, job.ranges_out));
  return ranges;
}

struct StepCounts {
  int total = 0, int8 = 0, bf16 = 0, floats = 0;

  void Add(const Decision& decision) {
    ++total;
    int8 += decision.precision == "int8";
    bf16 += decision.precision == "bf16";
    floats += decision.precision == "float32";
  }
  void WriteTo(json& out) const {
    out["steps_total"] = total;
    out["steps_int8"] = int8;
    out["steps_bf16"] = bf16;
    out["steps_float"] = floats;
  }
};

// The layers of subgraphs, named after the nodes that run them: methods leave them as they are.
std::vector<std::string> LayersInSubgraphs(const Graph& graph, const std::string& prefix = "") {
  std::vector<std::string> names;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!prefix.empty() && HasRealWeights(node)) names.push_back(prefix + node.name);
    for (const auto& body : node.bodies) {
      const std::vector<std::string> inner = LayersInSubgraphs(*body, prefix + node.name + "/");
      names.insert(names.end(), inner.begin(), inner.end());
    }
  }
  return names;
}

void NoteLeftFloat(const std::vector<std::string>& in_subgraphs, QuantizeReport& report) {
  for (const std::string& name : in_subgraphs)
    report.float_reasons.emplace(name, "in-subgraph: quantization leaves subgraphs as they are");
  report.nodes_total += static_cast<int>(in_subgraphs.size());
  report.nodes_float += static_cast<int>(in_subgraphs.size());
}

// The steps that a run of the model takes by precision: those of its plan. Without one, those of a
// run on the first sample, else on made-up inputs of `shapes`; where that cannot run, the nodes
// that were quantized or not, and why.
StepCounts CountSteps(const QuantizeJob& job, const Model& model, const InputShapes& shapes,
                      const QuantizeReport& report, json& out) {
  StepCounts counts;
  if (!model.plans.empty()) {
    for (const auto& [node, decision] : model.plans[0].decisions) counts.Add(decision);
    return counts;
  }
  const auto run = [&]() -> Result<std::unique_ptr<RegionRun>> {
    EVOQ_ASSIGN(std::vector<Tensor> sample, FirstSample(job, model.graph));
    const bool made_up = sample.empty();
    if (made_up) {
      EVOQ_ASSIGN(Samples random, RandomInputs(model.graph, shapes, 1));
      sample = std::move(random.inputs[0]);
    }
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    auto ran = RegionRun::Create(model.graph, std::make_shared<PackCache>(), isa, job.threads,
                                 std::move(sample));
    return made_up ? WithContext(std::move(ran), kMadeUp) : std::move(ran);
  };
  if (const auto ran = run(); ran) {
    for (const Step& step : (*ran)->program().steps) counts.Add(step.decision);
  } else {
    out["steps_why"] =
        "nodes are counted, because the steps of a run are not known: " + ran.error().message();
    counts = {report.nodes_total, report.nodes_int8, report.nodes_bf16, report.nodes_float};
  }
  return counts;
}

int64_t QuantizedWeightBytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    const bool bytes_of_weights =
        DTypeBits(v.type.dtype) <= 8 && v.type.dtype != DType::kBool && v.type.shape.rank() >= 2;
    const bool smaller = v.type.quantized() || v.type.dtype == DType::kBfloat16 || bytes_of_weights;
    if (v.is_constant() && smaller) bytes += v.type.bytes().value_or(0);
  }
  return bytes;
}

// Steps, and the file, of a graph without a certificate.
Status Write(const QuantizeJob& job, Graph graph, const InputShapes& shapes,
             const QuantizeReport& report, json& out) {
  if (LowerExtension(job.output) == ".onnx") {
    EVOQ_TRY(ExportOnnx(graph, job.output));
    StepCounts{report.nodes_total, report.nodes_int8, report.nodes_bf16, report.nodes_float}
        .WriteTo(out);
    return {};
  }
  EVOQ_ASSIGN(Model model, WithContext(LowerAndPack(std::move(graph), shapes), job.model));
  if (job.tune) {
    EVOQ_ASSIGN(out["tuning"], WithContext(TuneAndTell(model, job.threads, shapes), job.model));
  }
  EVOQ_TRY(WriteEtm(model, job.output));
  CountSteps(job, model, shapes, report, out).WriteTo(out);
  return {};
}

Status CheckCertifiable(const QuantizeJob& job) {
  if (LowerExtension(job.output) == ".onnx")
    return Fail(ErrorCode::kUsage, "{}: promises are kept in an .etm", job.output);
  if (job.tune)
    return Fail(
        ErrorCode::kUsage,
        "--tune: the certificate is about the defaults; `evoq compile {} --tune` adds to them",
        job.output);
  if (job.data.empty() && job.calib_random == 0)
    return Fail(ErrorCode::kUsage,
                "--scheme auto, --max-drop, --min-sqnr and --never-slower need data to measure on: "
                "--data DIR or --calib-random N");
  return {};
}

Result<Certified> Certify(const QuantizeJob& job, Graph graph, const InputShapes& shapes,
                          const Ranges& ranges, const QuantizeOptions& options) {
  Samples samples;
  if (job.data.empty()) {
    EVOQ_ASSIGN(samples, RandomInputs(graph, shapes, job.calib_random));
  } else {
    EVOQ_ASSIGN(const auto data, OpenData(job.data, graph, job.model, job.preprocess, job.labels));
    EVOQ_ASSIGN(samples, LoadSamples(*data, job.data_limit));
  }
  CertifyJob certify;
  certify.onnx_path = job.model;
  certify.data_limit = job.data_limit;
  if (const std::string file = FindPreprocess(job.model, job.preprocess);
      !job.data.empty() && !file.empty()) {
    EVOQ_ASSIGN(certify.preprocess, ReadTextFile(file, 1 << 20));
  }
  certify.scheme = job.scheme;
  certify.promise = job.promise;
  certify.search_s = job.search_s;
  certify.measure_s = job.measure_s;
  certify.choose.graph = std::move(graph);
  certify.choose.shapes = shapes;
  certify.choose.ranges = ranges;
  certify.choose.options = options;
  certify.choose.threads = job.threads;
  StageProgress progress;
  certify.choose.progress = [&](const std::string& stage, double fraction) {
    progress.Update(stage, fraction);
  };
  auto certified = QuantizeCertified(std::move(certify), samples);
  if (samples.random > 0) certified = WithContext(std::move(certified), kMadeUp);
  return WithContext(std::move(certified), job.model);
}

void TellCertified(const Certified& certified, json& out) {
  json tried = json::array();
  for (const TriedPlan& plan : certified.chosen.tried) {
    tried.push_back({{"plan", plan.name}, {"p50_ms", plan.ms}, {"keeps", plan.keeps}});
    if (plan.accuracy.samples > 0) tried.back()["accuracy"] = ToText(plan.accuracy);
    Out("  tried {}: {} ms{}\n", plan.name, MsText(plan.ms),
        plan.accuracy.samples == 0
            ? ""
            : fmt::format(", {}{}", ToText(plan.accuracy), plan.keeps ? "" : ": too much"));
  }
  if (!certified.why_float.empty()) Out("  the float model is written: {}\n", certified.why_float);
  Out("{}", Lines{ToText(certified.certificate)});
  out["certificate"] = ToJson(certified.certificate);
  out["certificate"]["float_model"].erase("graph");
  out["certificate"]["float_model"].erase("classes");
  out["tried"] = std::move(tried);
  out["search"] = {{"seconds", certified.chosen.seconds},
                   {"candidates", certified.chosen.candidates},
                   {"accuracies", certified.chosen.accuracies}};
  out["why_float"] = certified.why_float;
  out["search"]["out_of_time"] = certified.chosen.out_of_time;
  const auto& spent = certified.spent;
  out["spent"] = {{"reference_s", spent.reference_s},
                  {"search_s", spent.search_s},
                  {"accuracy_s", spent.accuracy_s},
                  {"speed_s", spent.speed_s}};
}

}  // namespace

Result<Ranges> RangesOf(const Graph& graph, const std::vector<Tensor>& sample, int threads) {
  return Calibrate(graph, PrepareWithEngine(threads), SamplesOf(std::span(&sample, 1), 0), {});
}

Result<json> Quantize(const QuantizeJob& job) {
  const auto start = std::chrono::steady_clock::now();
  const QuantMethod* method = FindMethod(job.scheme);
  if (method == nullptr && job.scheme != "auto")
    return Fail(ErrorCode::kUsage, "--scheme {}: not one of `evoq list methods`", job.scheme);
  if (IsEtmFile(job.model))
    return Fail(ErrorCode::kUsage, "{} is compiled already; quantize the .onnx", job.model);
  if (!job.observer.empty() && FindObserver(job.observer) == nullptr)
    return Fail(ErrorCode::kUsage, "--observer {}: not one of `evoq list observers`", job.observer);
  if (job.certified()) EVOQ_TRY(CheckCertifiable(job));
  EVOQ_TRY(CheckOutputPath(job.output));
  if (!job.ranges_out.empty()) EVOQ_TRY(CheckOutputPath(job.ranges_out));
  EVOQ_ASSIGN(Graph graph, LoadGraph(job.model, job.fixed));
  EVOQ_ASSIGN(const InputShapes shapes, ShapesToPlanFor(job, graph));
  const int64_t float_bytes = FloatWeightBytes(graph);
  const std::vector<std::string> in_subgraphs = LayersInSubgraphs(graph);
  CalibrationNotes notes;
  EVOQ_ASSIGN(
      const Ranges ranges,
      FindRanges(job, graph, shapes, method == nullptr || method->needs_calibration, &notes));
  QuantizeOptions options;
  options.per_channel = !job.per_tensor;
  options.activation = job.signed_activations ? DType::kInt8 : DType::kUint8;
  options.symmetric_activations = job.symmetric;
  options.exclude = job.exclude;
  if (LowerExtension(job.output) == ".onnx" && job.target != "evoq")
    options.target = FindQdqTarget(job.target);
  json out = {{"float_weight_bytes", float_bytes}, {"samples_used", notes.samples}};
  EVOQ_ASSIGN(const int64_t input_bytes, ModelFileBytes(job.model));
  out["input_bytes"] = input_bytes;
  const auto note = [&](Graph& made) {
    made.metadata["evoq.scheme"] = job.scheme;
    made.metadata["evoq.float_weight_bytes"] = std::to_string(float_bytes);
    out["quantized_weight_bytes"] = QuantizedWeightBytes(made);
  };
  QuantizeReport report;
  if (job.certified()) {
    EVOQ_ASSIGN(Certified certified, Certify(job, std::move(graph), shapes, ranges, options));
    note(certified.model.graph);
    EVOQ_TRY(WriteEtm(certified.model, job.output));
    report = std::move(certified.report);
    NoteLeftFloat(in_subgraphs, report);
    CountSteps(job, certified.model, shapes, report, out).WriteTo(out);
    TellCertified(certified, out);
  } else {
    EVOQ_ASSIGN(report, WithContext(method->run(graph, ranges, options), job.model));
    NoteLeftFloat(in_subgraphs, report);
    note(graph);
    EVOQ_TRY(Write(job, std::move(graph), shapes, report, out));
  }
  notes.warnings.insert(notes.warnings.end(), report.warnings.begin(), report.warnings.end());
  out["warnings"] = notes.warnings;
  out["float_reasons"] = report.float_reasons;
  out["output_bytes"] = WrittenBytes(job.output);
  out["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace evoq
