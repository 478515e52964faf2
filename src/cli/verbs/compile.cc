#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "program/etm.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  std::string model, output;
  std::vector<std::string> shapes;
};

Result<json> Run(const Options& o) {
  EVOQ_ASSIGN(const InputShapes shapes, ParseShapes(o.shapes));
  if (IsEtmFile(o.model)) return Fail(ErrorCode::kUsage, "{} is compiled already", o.model);
  EVOQ_TRY(CheckOutputPath(o.output));
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(o.model));
  const int64_t float_bytes = FloatWeightBytes(graph);
  EVOQ_ASSIGN(const Model model, WithContext(LowerAndPack(std::move(graph), shapes), o.model));
  EVOQ_TRY(WriteEtm(model, o.output));
  const int64_t bytes = static_cast<int64_t>(std::filesystem::file_size(o.output));
  Out("{} -> {}: {}, {} steps\n", o.model, o.output, HumanBytes(bytes), model.plans[0].decisions.size());
  return json{{"output_bytes", bytes}, {"float_weight_bytes", float_bytes}, {"steps_total", model.plans[0].decisions.size()}};
}

VerbRun Declare(CLI::App& app, const CommonOptions&) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, "MODEL.onnx")->required();
  app.add_option("-o,--output", o->output, "The .etm file to write")->required();
  app.add_option("--shape", o->shapes, "Sizes of a free input: NAME=1x3x224x224");
  return [o] { return Run(*o); };
}

}  // namespace

extern const VerbDef kVerbCompile;
const VerbDef kVerbCompile = {"compile", "Writes a model as .etm as it is, without a change of precision.",
                              "evoq compile mobilenetv2.onnx -o mobilenetv2.etm", Declare};

}  // namespace evoq
