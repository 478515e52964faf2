#include "workflow/quantize.h"

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/output_file.h"
#include "base/work_threads.h"
#include "foreign/forecasts/rule.h"
#include "generate/cached_form.h"
#include "graph/float_reason.h"
#include "llm/cache_type.h"
#include "llm/phase.h"
#include "llm/rounding_note.h"
#include "models/models.h"
#include "models/region_run.h"
#include "onnx/onnx.h"
#include "passes/widen.h"
#include "program/etm.h"
#include "program/etm_size.h"
#include "quant/method.h"
#include "quant/suspect.h"
#include "quant/unfuse.h"
#include "reference/reference.h"
#include "workflow/calibrate.h"
#include "workflow/idle_options.h"
#include "workflow/large.h"
#include "workflow/left_float.h"
#include "workflow/models.h"
#include "workflow/ort_gaps.h"
#include "workflow/output_check.h"
#include "workflow/outside.h"
#include "workflow/perplexity.h"
#include "workflow/quantize_parts.h"
#include "workflow/scale_sets.h"
#include "workflow/tuning.h"
#include "workflow/unmatched.h"

namespace evoq {
namespace {

InputShapes SizesOf(const Graph& graph, std::span<const Tensor> inputs) {
  InputShapes shapes;
  for (size_t i = 0; i < std::min(inputs.size(), graph.inputs().size()); ++i) {
    if (inputs[i].type().is_tensor())
      shapes[graph.value(graph.inputs()[i]).name] = inputs[i].sizes();
  }
  return shapes;
}

// The sizes of all inputs to plan, tune and measure for: --shape's, else the model's with a batch
// of 1, else the first sample's. Empty where nobody names them: the first run of the file will.
Result<InputShapes> ShapesToPlanFor(const QuantizeJob& job, const Graph& graph) {
  InputShapes shapes = job.shapes;
  Graph bound = graph;
  Status named = BindShapes(bound, shapes);
  if (!named && !shapes.empty()) return tl::unexpected(std::move(named.error()));
  if (!named) {
    bound = graph;  // as it was: a batch of 1 may have been set where the model does not run at it
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

// The layers of subgraphs, named after the nodes that run them, whose weights some schemes leave.
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

// Whether the node of a subgraph, by its name from LayersInSubgraphs, has quantized weights.
bool IsNarrowed(const Graph& graph, const std::string& name) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.name == name)
      return std::ranges::any_of(node.inputs, [&](ValueId v) {
        return v.valid() && graph.value(v).is_constant() && graph.value(v).type.quantized();
      });
    if (node.bodies.empty() || !name.starts_with(node.name + "/")) continue;
    const std::string rest = name.substr(node.name.size() + 1);
    if (std::ranges::any_of(node.bodies, [&](const auto& body) { return IsNarrowed(*body, rest); }))
      return true;
  }
  return false;
}

// Of the layers `in_subgraphs`, some may have been quantized.
void NoteLeftFloat(const std::vector<std::string>& in_subgraphs, const Graph& quantized,
                   QuantizeReport& report) {
  for (const std::string& name : in_subgraphs) {
    if (IsNarrowed(quantized, name)) continue;
    report.float_reasons.emplace(
        name, Reason{"in-subgraph",
                     "the scheme leaves the weights of such layers in subgraphs as they are"});
    report.nodes.Add(Precision::kFloat32);
  }
}

// Why a step that quantization says nothing of computes in float32.
Reason WhyFloat(const Node& node, const Decision& decision) {
  if (!decision.float_reason.empty()) return decision.float_reason;
  if (decision.kernel != kReferenceKernel)
    return {kNoInt8Kernel, fmt::format("{} is computed in float32", node.op)};
  return {kNoInt8Kernel,
          fmt::format("{} has no kernel: the reference evaluator computes it", node.op)};
}

// The steps that a run of the model takes by precision, with a reason for each that is in float32
// among integers: those of its plan. Without one, those of a run on the first sample, else on
// made-up inputs of `shapes`; where that cannot run, and of a language model, whose weights would
// all be read once more, the nodes that were quantized or not, and why.
void CountSteps(const QuantizeJob& job, const Model& model, const InputShapes& shapes,
                const QuantizeReport& report, Quantized& out) {
  out.float_reasons = report.float_reasons;
  // Between layers that give each other floats, floats need no reason.
  const QuantScheme* scheme = FindScheme(job.scheme);
  const bool integers = scheme != nullptr && scheme->values == DType::kUint8;
  const auto count = [&](const Node& node, const Decision& decision) {
    out.steps.Add(decision.precision);
    if (integers && decision.precision == Precision::kFloat32)
      out.float_reasons.emplace(node.name, WhyFloat(node, decision));
  };
  if (!model.plans.empty()) {
    for (const auto& [node, decision] : model.plans[0].decisions)
      count(model.graph.node(model.graph.FindNode(node)), decision);
    return;
  }
  if (FindCacheInputs(model.graph)) {
    out.steps_why = "nodes are counted: steps are those of a prompt or of a token (`evoq profile`)";
    out.steps = report.nodes;
    return;
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
    const Program& program = (*ran)->program();
    for (const Step& step : program.steps) count(program.graph->node(step.node), step.decision);
  } else {
    out.steps_why =
        "nodes are counted, because the steps of a run are not known: " + ran.error().message();
    out.steps = report.nodes;
  }
}

// What is written, and the steps of it.
struct Made {
  std::optional<Graph> graph;  // of an .onnx
  std::optional<Model> model;  // of an .etm
  QuantizeReport report;

  const Graph& written() const { return graph ? *graph : model->graph; }
};

// The graph of an .onnx as its runtime reads it, without pairs of static int8 that lead nowhere
// there: quantization places them around what evoq computes on integers. What was asked for by name
// stays: parameters that came from elsewhere, values of fewer bits.
Result<Graph> WithoutIdlePairs(const QuantizeJob& job, const Graph& graph) {
  const QdqTarget* const target = FindQdqTarget(job.target);
  const Runtime* const runtime = target == nullptr ? nullptr : FindRuntime(target->runtime);
  const bool asked = !job.encodings.empty() || !job.calib_cache.empty() ||
                     !job.activation_bits.empty() || job.scheme != "int8";
  if (runtime == nullptr || asked) return graph;
  EVOQ_ASSIGN(const std::string bytes, ExportOnnxBytes(graph, job.output, job.opset));
  EVOQ_ASSIGN(Graph read, ImportOnnxBytes(std::as_bytes(std::span(bytes)), job.output));
  EVOQ_TRY(RepairPlacement(read, *runtime));
  return read;
}

Status Write(const QuantizeJob& job, const Made& made) {
  if (!made.graph) return WriteEtm(*made.model, job.output);
  EVOQ_ASSIGN(const Graph graph, WithoutIdlePairs(job, *made.graph));
  return ExportOnnx(graph, job.output, job.opset);
}

Status CheckCertifiable(const QuantizeJob& job) {
  if (LowerExtension(job.output) == ".onnx")
    return Fail(ErrorCode::kUsage, "{}: promises are kept in an .etm", job.output);
  if (job.tune)
    return Fail(
        ErrorCode::kUsage,
        "--tune: the certificate is about the defaults; `evoq compile {} --tune` adds to them",
        job.output);
  if (job.data.empty() && job.calib_random == 0 && job.text.empty())
    return Fail(ErrorCode::kUsage,
                "--scheme auto, --max-drop, --min-sqnr and --never-slower need data to measure on: "
                "--data DIR or --calib-random N");
  return {};
}

// Of a quantization beside the job and the graph.
struct Inputs {
  InputShapes shapes;  // to plan for
  Ranges ranges;
  MethodChoice methods;
  MethodData data;  // of the methods
  Samples text;
};

Result<Certified> Certify(const QuantizeJob& job, Graph graph, const Inputs& inputs,
                          const QuantizeOptions& options, const Follow& follow) {
  Samples samples;
  if (!inputs.text.next.empty()) {
    samples = inputs.text;
  } else if (job.data.empty()) {
    EVOQ_ASSIGN(samples, RandomInputs(graph, inputs.shapes, job.calib_random));
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
  certify.choose.shapes = inputs.shapes;
  certify.choose.ranges = inputs.ranges;
  certify.methods = inputs.methods;
  certify.data = inputs.data;
  certify.choose.options = options;
  certify.choose.threads = job.threads;
  certify.choose.progress = follow.Stages();
  auto certified = QuantizeCertified(std::move(certify), samples);
  if (samples.random > 0) certified = WithContext(std::move(certified), kMadeUp);
  return WithContext(std::move(certified), job.model);
}

// The numbers and names of a job.
Status CheckJob(const QuantizeJob& job) {
  EVOQ_TRY(CheckQuantization(job));
  EVOQ_TRY(ParseCacheType(job.kv_cache));
  if (FindQdqTarget(job.target) == nullptr)
    return Fail(ErrorCode::kUsage, "--target {}: no runtime that an .onnx is written for",
                job.target);
  if (job.opset != 0 && (job.opset < kOldestExport || job.opset > kNewestExport))
    return Fail(ErrorCode::kUsage, "--opset {}: expected {} to {}", job.opset, kOldestExport,
                kNewestExport);
  if (job.opset != 0 && LowerExtension(job.output) != ".onnx")
    return Fail(ErrorCode::kUsage, "--opset {}: {} is no .onnx", job.opset, job.output);
  const std::pair<const char*, double> times[] = {{"--search-s", job.search_s},
                                                  {"--measure-s", job.measure_s}};
  for (const auto& [option, seconds] : times) {
    if (!(seconds > 0))
      return Fail(ErrorCode::kUsage, "{} {}: expected more than 0", option, seconds);
  }
  if (!job.text.empty() && (!job.data.empty() || job.calib_random > 0))
    return Fail(ErrorCode::kUsage, "--text excludes --data and --calib-random");
  if (job.window < 1) return Fail(ErrorCode::kUsage, "--window {}: expected 1 or more", job.window);
  if (const auto& growth = job.promise.max_growth; growth && !(*growth >= 0))
    return Fail(ErrorCode::kUsage, "--max-perplexity-growth {}: expected 0 or more", *growth);
  if (job.promise.max_growth && job.text.empty())
    return Fail(ErrorCode::kUsage, "--max-perplexity-growth is measured on a text: --text F");
  if (const auto& drop = job.promise.max_drop; drop && !(*drop >= 0 && *drop <= 100))
    return Fail(ErrorCode::kUsage, "--max-drop {}: expected 0 to 100", *drop);
  if (job.certified()) EVOQ_TRY(CheckCertifiable(job));
  EVOQ_TRY(CheckScaleSets(job));
  EVOQ_TRY(CheckOutside(job));
  EVOQ_TRY(CheckEnding(job.output, LowerExtension(job.output) == ".onnx"));
  EVOQ_TRY(CheckOutput(job.output, InputFilesOf(job)));
  return job.ranges_out.empty() ? Status() : CheckOutput(job.ranges_out, InputFilesOf(job));
}

// With the choices of --tune, where the job asks for them.
Result<Made> Tuned(const QuantizeJob& job, const InputShapes& shapes, const Follow& follow,
                   Made made, Quantized& out) {
  if (job.tune) {
    EVOQ_ASSIGN(out.tuning, WithContext(Tune(*made.model, job.threads, shapes, follow), job.model));
  }
  return made;
}

// Quantizes the graph, with a certificate or without one.
Result<Made> Make(const QuantizeJob& job, Graph graph, const Inputs& inputs,
                  const GivenTypes& given, const Follow& follow, Quantized& out) {
  const std::vector<std::string> in_subgraphs = LayersInSubgraphs(graph);
  QuantizeOptions options = OptionsOf(job);
  options.given = given;
  const auto note = [&](Graph& quantized) {
    quantized.metadata["evoq.scheme"] = job.scheme;
    if (!job.method.empty()) quantized.metadata["evoq.method"] = job.method;
    quantized.metadata["evoq.float_weight_bytes"] = std::to_string(out.float_weight_bytes);
    out.weight_bits = NarrowLayers(quantized);
    out.quantized_weight_bytes = QuantizedWeightBytes(quantized, out.weight_bits);
  };
  Made made;
  if (job.certified()) {
    EVOQ_TRY(WithContext(WidenConstants(graph), job.model));
    EVOQ_ASSIGN(out.certified, Certify(job, std::move(graph), inputs, options, follow));
    made.model = std::move(out.certified->model);
    made.report = std::move(out.certified->report);
    note(made.model->graph);
    NoteLeftFloat(in_subgraphs, made.model->graph, made.report);
    return made;
  }
  if (HasScaleSets(job)) {
    EVOQ_TRY(WithContext(WidenConstants(graph), job.model));
    const SetInputs sets{inputs.shapes, inputs.ranges, inputs.methods, inputs.data, options};
    EVOQ_ASSIGN(
        ModelOfSets of_sets,
        WithContext(QuantizeScaleSets(job, std::move(graph), sets, note, follow), job.model));
    made.model = std::move(of_sets.model);
    made.report = std::move(of_sets.report);
    NoteLeftFloat(in_subgraphs, made.model->graph, made.report);
    return Tuned(job, inputs.shapes, follow, std::move(made), out);
  }
  EVOQ_TRY(follow.At("quantizing", 0));
  const QuantScheme& scheme = *FindScheme(job.scheme);
  const bool writes_onnx = LowerExtension(job.output) == ".onnx";
  if (!scheme.widens || inputs.methods) EVOQ_TRY(WithContext(WidenConstants(graph), job.model));
  // Ranges of samples tell little of what the outputs lose; of a large model a second copy tells
  // too dear.
  constexpr int64_t kLarge = int64_t{256} << 20;
  const bool checks = scheme.needs_calibration && out.samples_used > 0 && !writes_onnx &&
                      out.float_weight_bytes < kLarge;
  std::optional<Graph> float_graph;
  if ((scheme.processor_decides || checks) && !writes_onnx) float_graph = graph;
  EVOQ_ASSIGN(made.report, WithContext(QuantizeBy(scheme, inputs.methods, graph, inputs.ranges,
                                                  options, inputs.data),
                                       job.model));
  NoteLeftFloat(in_subgraphs, graph, made.report);
  note(graph);
  if (writes_onnx) {
    made.graph = std::move(graph);
    return made;
  }
  EVOQ_TRY(follow.At("compiling", 0));
  EVOQ_ASSIGN(made.model, WithContext(LowerAndPack(std::move(graph), inputs.shapes), job.model));
  EVOQ_ASSIGN(made, Tuned(job, inputs.shapes, follow, std::move(made), out));
  if (checks) {
    EVOQ_ASSIGN(std::vector<std::string> lost,
                OutputWarnings(job, *float_graph, *made.model, inputs.shapes, follow));
    std::ranges::move(lost, std::back_inserter(made.report.warnings));
  }
  if (scheme.processor_decides && float_graph) {
    EVOQ_ASSIGN(out.gain, MeasureGain(job.scheme, std::move(*float_graph), *made.model,
                                      inputs.shapes, job.threads, follow));
  }
  return made;
}

// Ranges without a width matter where they become scales: not of values that stay float32.
void KeepWarningsOfUsed(const Graph& graph, const Ranges& ranges,
                        const std::map<std::string, TensorType>& used,
                        std::vector<std::string>& warnings) {
  const std::vector<std::string> of_all = RangeWarnings(graph, ranges);
  std::erase_if(warnings, [&](const std::string& warning) {
    return std::ranges::find(of_all, warning) != of_all.end();
  });
  Ranges kept = ranges;
  std::erase_if(kept, [&](const auto& range) { return !used.contains(range.first); });
  std::ranges::move(RangeWarnings(graph, kept), std::back_inserter(warnings));
}

// Windows of the job's text; none where it has no text.
Result<Samples> TextOf(const QuantizeJob& job, const Graph& graph) {
  if (job.text.empty()) return Samples();
  EVOQ_ASSIGN(const TextTokens text, TokensOfText(graph, job.model, job.text, job.tokenizer));
  return TextWindows(graph, text.tokens, job.window, job.data_limit);
}

// Outputs that methods are judged by: not the caches of a language model.
std::vector<size_t> OutputsThatCount(const Graph& graph) {
  const std::optional<CacheInputs> roles = FindCacheInputs(graph);
  std::vector<size_t> outputs;
  const size_t caches = roles ? roles->caches.size() : 0;
  for (size_t i = 0; i + caches < graph.outputs().size(); ++i) outputs.push_back(i);
  return outputs;
}

// The methods that pay, in place of kAutoMethod.
Status FindMethods(QuantizeJob& job, Graph& graph, const GivenTypes& given, const Follow& follow,
                   Inputs& inputs, Quantized& out) {
  EVOQ_TRY(WithContext(WidenConstants(graph), job.model));
  QuantizeOptions options = OptionsOf(job);
  options.given = given;
  MethodSearchOptions search{.outputs = OutputsThatCount(graph), .limit_s = job.search_s};
  const auto start = std::chrono::steady_clock::now();
  search.seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  search.before = [&](const std::string& names) {
    return follow.At("trying " + names, std::min(1.0, search.seconds() / job.search_s));
  };
  EVOQ_ASSIGN(out.methods, WithContext(ChooseMethods(*FindScheme(job.scheme), graph, inputs.ranges,
                                                     options, inputs.data, search),
                                       job.model));
  inputs.methods = out.methods->chosen;
  job.method = NamesOf(out.methods->chosen);
  return {};
}

// What is worth a warning of a graph as it is read, and is not to be seen of it later.
struct AsRead {
  explicit AsRead(const Graph& graph)
      : rounded(RoundedSentence(graph)),
        warnings(WarningsAsRead(graph)),
        few_bits(FewBitsOf(graph)) {}

  std::optional<std::string> rounded;
  std::vector<std::string> warnings;
  std::map<std::string, TensorType> few_bits;
};

// The steps of what was made, and what its weights and values became.
void NoteMade(const QuantizeJob& job, const InputShapes& shapes, const Made& made, Quantized& out) {
  if (made.graph) {
    out.steps = made.report.nodes;
    out.steps_why = "nodes are counted: the runtime that reads the .onnx makes its own steps";
    out.float_reasons = made.report.float_reasons;
  } else {
    CountSteps(job, *made.model, shapes, made.report, out);
  }
  out.int8_weights = made.report.int8_weights;
  out.low_bit_weights = made.report.low_bit_weights;
  out.activation_bits = made.report.activation_bits;
}

// Behind those of calibration. `given`: the job without defaults and found methods; `nodes`: names
// before quantization.
std::vector<std::string> WarningsOf(const QuantizeJob& given, const QuantizeJob& job,
                                    const AsRead& read, const std::vector<std::string>& nodes,
                                    const Outside& outside, const Made& made,
                                    const Quantized& out) {
  std::vector<std::string> warnings;
  const auto add = [&](const std::vector<std::string>& more) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  };
  if (read.rounded) warnings.push_back(*read.rounded);
  add(read.warnings);
  add(outside.warnings);
  add(made.report.warnings);
  add(IdleWarnings(given, made.report.already));
  add(UnmatchedWarnings(OptionsOf(job), nodes, made.report.float_reasons));
  if (!job.activation_bits.empty() && out.activation_bits.empty())
    warnings.push_back(
        "--activation-bits: no value uses fewer than 8 bits (docs/quantization.md says which may)");
  if (made.model) {
    if (auto sentence = NoTextSentence(made.model->graph)) warnings.push_back(*sentence);
  }
  // --scheme auto and float32 promise no fewer bytes.
  if (const QuantScheme* scheme = FindScheme(job.scheme);
      scheme != nullptr && scheme->precision != Precision::kFloat32 && !job.certified()) {
    for (const auto& sentence :
         {LeftFloatWarning(made.written(), out.float_weight_bytes, out.float_reasons),
          KeptWarning(made.written(), *scheme, read.few_bits)}) {
      if (sentence) warnings.push_back(*sentence);
    }
  }
  const QdqTarget* const target = FindQdqTarget(job.target);
  if (made.graph && target != nullptr && target->runtime == std::string_view("ort-cpu"))
    add(OrtGaps(*made.graph));
  return warnings;
}

}  // namespace

Result<Quantized> Quantize(const QuantizeJob& given, const Follow& follow) {
  QuantizeJob job = given;
  const auto start = std::chrono::steady_clock::now();
  EVOQ_TRY(CheckJob(job));
  EVOQ_TRY(follow.At("loading", 0));
  Quantized out{.model = job.model, .output = job.output};
  EVOQ_ASSIGN(out.input_bytes, ModelBytes(job.model));
  const WorkThreads threads(job.threads);
  // Weights of 8 bits, plain and packed, are as much as those of 16.
  const LargeJob large(out.input_bytes, job.output);
  EVOQ_ASSIGN(Graph graph, LoadGraph(job.model, job.fixed, job.passes));
  EVOQ_TRY(NarrowCaches(graph, job.kv_cache, job.model));
  Inputs inputs;
  const bool finds = job.method == kAutoMethod;
  EVOQ_ASSIGN(inputs.methods,
              finds ? MethodChoice(std::vector<const QuantMethod*>()) : ParseMethods(job.method));
  EVOQ_ASSIGN(inputs.text, TextOf(job, graph));
  const Samples& text = inputs.text;
  if (job.samples.empty() && job.calib.empty()) job.samples = text.inputs;
  if (text.timed.empty()) {
    EVOQ_ASSIGN(inputs.shapes, ShapesToPlanFor(job, graph));
  } else {
    inputs.shapes = SizesOf(graph, text.timed[0].inputs);
  }
  out.float_weight_bytes = FloatWeightBytes(graph);
  const AsRead read(graph);
  EVOQ_ASSIGN(Outside outside, ReadOutside(job, graph));
  CalibrationNotes notes;
  if (const QuantScheme* scheme = FindScheme(job.scheme);
      scheme == nullptr || scheme->needs_calibration) {
    EVOQ_ASSIGN(inputs.ranges,
                FindRanges(job, graph, inputs.shapes, outside.ranges, follow, &notes));
  }
  NoteMissing(graph, inputs.ranges, outside);
  if (!text.next.empty()) ForgetEmptyCaches(graph, notes.warnings);
  out.samples_used = notes.samples;
  out.samples_enough = notes.enough;
  EVOQ_ASSIGN(inputs.data, MethodDataFor(job, inputs.methods, graph, inputs.shapes, follow));
  if (finds) EVOQ_TRY(FindMethods(job, graph, outside.given, follow, inputs, out));
  const std::vector<std::string> nodes = NodeNames(graph);
  const std::optional<Graph> observed =
      notes.warnings.empty() ? std::nullopt : std::optional<Graph>(graph);
  EVOQ_ASSIGN(const Made made, Make(job, std::move(graph), inputs, outside.given, follow, out));
  NoteMade(job, inputs.shapes, made, out);
  NoteUse(made.report, outside);
  out.encodings = outside.use;
  if (observed && !made.report.used.empty())
    KeepWarningsOfUsed(*observed, inputs.ranges, made.report.used, notes.warnings);
  out.warnings = std::move(notes.warnings);
  std::ranges::move(notes.data_warnings, std::back_inserter(out.warnings));
  std::ranges::move(WarningsOf(given, job, read, nodes, outside, made, out),
                    std::back_inserter(out.warnings));
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(WriteOutside(job, outside, made.report, inputs.ranges, out.warnings));
  const bool has_ranges = notes.samples > 0 || !outside.ranges.empty();
  if (has_ranges && !job.ranges_out.empty())
    EVOQ_TRY(SaveRanges(inputs.ranges, CalibrationOptionsOf(job), job.ranges_out, notes.samples));
  EVOQ_TRY(Write(job, made));  // after all else that can fail
  out.output_bytes =
      made.model ? WrittenEtmBytes(*made.model, job.output) : WrittenBytes(job.output);
  if (made.model) {
    EVOQ_ASSIGN(out.sets, SetsOf(*made.model, job.output));
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace evoq
