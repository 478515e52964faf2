#include <filesystem>

#include "cli/common.h"
#include "cli/verb.h"
#include "program/etm.h"
#include "report/ledger.h"
#include "report/table.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, baseline;
  std::vector<std::string> shapes;
  int batch = 0;
  double duration_s = 2;
};

int64_t MetadataNumber(const Graph& graph, const char* key) {
  auto it = graph.metadata.find(key);
  return it == graph.metadata.end() ? 0 : std::strtoll(it->second.c_str(), nullptr, 10);
}

// Why each step that is not int8 is not.
void PrintFloatSteps(const Program& program) {
  TextTable table({"step", "op", "kernel", "code", "why"});
  int count = 0;
  for (const Step& step : program.steps) {
    if (step.decision.float_code.empty()) continue;
    const Node& node = program.graph->node(step.node);
    table.Row({node.name, node.op, step.decision.kernel, step.decision.float_code, step.decision.float_why});
    ++count;
  }
  if (count == 0) {
    Out("every step that could be int8 is\n");
  } else {
    Out("steps that could be int8 and are not:\n{}", table.ToString());
  }
}

struct Measured {
  std::unique_ptr<Engine> engine;
  Executor* executor = nullptr;
  StepProfile profile;
};

Result<Measured> Measure(const Options& o, const std::string& path, int threads, Limits& limits) {
  Measured m;
  EVOQ_ASSIGN(InputShapes shapes, ParseShapes(o.shapes));
  EVOQ_ASSIGN(m.engine, LoadEngine(path, threads, shapes));
  EVOQ_ASSIGN(shapes, WithBatch(m.engine->model().graph, std::move(shapes), o.batch));
  EVOQ_ASSIGN(m.executor, m.engine->At(shapes));
  if (limits.cpu.empty()) {
    EVOQ_ASSIGN(const Isa isa, SelectIsa());
    limits = MeasureLimits(isa, m.executor->threads());
  }
  RunBuffers buffers = MakeBuffers(*m.executor);
  MeasureOptions options;
  options.duration_s = o.duration_s;
  EVOQ_ASSIGN(m.profile, MeasureSteps(*m.executor, buffers, limits, options));
  return m;
}

Result<json> Run(const Options& o, int threads) {
  Limits limits;
  EVOQ_ASSIGN(const Measured model, Measure(o, o.model, threads, limits));
  json out;
  Out("{}", ToText(model.profile, limits));
  Out("\n");
  PrintFloatSteps(model.executor->program());
  out["profile"] = ToJson(model.profile);
  out["decisions"] = DecisionsJson(model.executor->program());
  int64_t float_bytes = MetadataNumber(model.engine->model().graph, "evoq.float_weight_bytes");
  if (!o.baseline.empty()) {
    EVOQ_ASSIGN(const Measured base, Measure(o, o.baseline, threads, limits));
    const TimeLedger ledger = BuildTimeLedger(base.profile, model.profile, model.executor->program(), limits);
    Out("\n{}", ToText(ledger));
    out["time"] = ToJson(ledger);
    if (float_bytes == 0) float_bytes = FloatWeightBytes(base.engine->model().graph);
  }
  if (IsEtmFile(o.model)) {
    EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(o.model));
    const ByteLedger bytes = BuildByteLedger(sections, static_cast<int64_t>(std::filesystem::file_size(o.model)), float_bytes);
    Out("\n{}", ToText(bytes));
    out["bytes"] = ToJson(bytes);
  }
  return out;
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.etm or MODEL.onnx")->required();
  app.add_option("--baseline", o->baseline, "The float model, for the ledger from ideal to measured");
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  app.add_option("--batch", o->batch, "Samples per run, where the model leaves it free");
  app.add_option("--duration-s", o->duration_s, "Time to measure each model")->capture_default_str();
  return [o, &common] { return Run(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbExplain;
const VerbDef kVerbExplain = {"explain", "Says where each millisecond and each byte went, why, and what helps.",
                              "evoq explain mobilenetv2.etm --baseline mobilenetv2.onnx", Declare};

}  // namespace evoq
