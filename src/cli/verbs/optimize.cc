#include "workflow/optimize.h"

#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/config.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  OptimizeJob job;
  std::string config;
  bool log = false;
};

Result<json> Run(Options o, const CommonOptions& common) {
  if (!o.config.empty()) EVOQ_TRY(ReadConfig(o.config, o.job));
  if (o.job.model.empty() || o.job.output.empty())
    return Fail(ErrorCode::kUsage,
                "optimize: MODEL and -o are required, or a --config whose model_info names them");
  if (o.log)
    o.job.log = [](const PassRun& run) {
      Log("{:<24} {:4} changes, {} nodes", run.pass, run.changes, run.nodes);
    };
  EVOQ_ASSIGN(const Optimized optimized, Optimize(o.job, common.follow));
  return Print(Tell(optimized));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx (default: input_model of --config)");
  options.Add("-o,--output", o->job.output,
              "The ONNX file to write (default: output_model of --config)");
  options.AddFlag("--log-passes", o->log, "Say on stderr what each pass changed");
  options.Add("--stop-after", o->job.stop_after,
              "Run only the first N passes that change something");
  options.AddFlag("--merge-adapters", o->job.merge_adapters,
                  "Make one weight of each product and the LoRA adapter beside it, in float32");
  AddPassOptions(options, o->job.passes);
  options.Add(
      "--config", o->config,
      "These options as a JSON file: {\"disable\": [...], \"opt_level\": N, \"stop_after\": "
      "N}; or an Ascend optimization_config.json (docs/ascend.md)");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbOptimize = {
    .name = "optimize",
    .doc = "Runs the graph passes only and writes ONNX.",
    .example = "evoq optimize resnet.onnx -o resnet.opt.onnx --log-passes",
    .declare = Declare,
};

}  // namespace evoq
