#include <filesystem>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "ops/op.h"
#include "program/etm.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, output;
  std::vector<std::string> shapes, fixed;
  TuneChoice tune;
};

// Of a model without one.
const char* WhyNoPlan(Graph graph) {
  if (!BindShapes(graph, {}))
    return "no plan: the first run brings its sizes; --shape names some to plan for";
  return "no plan: its sizes depend on data, or it has other values than tensors of numbers; it "
         "runs in dynamic partitions (docs/dynamic.md)";
}

Result<json> Run(const Options& o, int threads) {
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(o.shapes));
  if (IsEtmFile(o.model) && !o.tune.measure())
    return Fail(ErrorCode::kUsage,
                "{} is compiled already; --tune adds what is fastest on this machine", o.model);
  if (IsEtmFile(o.model) && !o.fixed.empty())
    return Fail(ErrorCode::kUsage, "--fix-shape: {} is compiled already; compile the .onnx",
                o.model);
  EVOQ_TRY(CheckOutputPath(o.output));
  Model model;
  int64_t float_bytes = 0;
  if (IsEtmFile(o.model)) {
    EVOQ_ASSIGN(model, ReadEtm(o.model));
    float_bytes = FloatWeightBytes(model.graph);
  } else {
    EVOQ_ASSIGN(Graph graph, LoadGraph(o.model, o.fixed));
    float_bytes = FloatWeightBytes(graph);
    EVOQ_ASSIGN(model, WithContext(LowerAndPack(std::move(graph), shapes), o.model));
  }
  json tuned;
  if (o.tune.measure()) {
    EVOQ_ASSIGN(tuned, WithContext(TuneAndTell(model, threads, shapes), o.model));
  }
  EVOQ_TRY(WriteEtm(model, o.output));
  const int64_t bytes = WrittenBytes(o.output);
  const size_t steps = model.plans.empty() ? 0 : model.plans[0].decisions.size();
  Out("{} -> {}: {}, {}\n", o.model, o.output, HumanBytes(bytes),
      !model.plans.empty() ? fmt::format("{} steps", steps) : WhyNoPlan(model.graph));
  json out = {{"output_bytes", bytes}, {"float_weight_bytes", float_bytes}, {"steps_total", steps}};
  if (!tuned.is_null()) out["tuning"] = tuned;
  return out;
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.onnx, or a MODEL.etm to be tuned")->required();
  app.add_option("-o,--output", o->output, "The .etm file to write")->required();
  AddShapeOptions(app, o->shapes, o->fixed, "plan for");
  AddTuneOptions(app, o->tune, "the default, the same bytes from the same model");
  return [o, &common] { return Run(*o, common.threads); };
}

}  // namespace

extern const VerbDef kVerbCompile = {
    "compile", "Writes a model as .etm as it is, without a change of precision.",
    "evoq compile mobilenetv2.onnx -o mobilenetv2.etm", Declare};

}  // namespace evoq
