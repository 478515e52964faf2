#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/config.h"

namespace evoq {
namespace {

struct Options {
  std::string config;
  bool optimize = false, log = false;
};

Result<nlohmann::json> Run(const Options& o, const CommonOptions& common) {
  OptimizeJob job;
  EVOQ_TRY(ReadDeployment(o.config, job));
  if (job.model.empty() || job.output.empty())
    return InvalidInput("{}: model_info: expected input_model and output_model", o.config);
  if (!o.optimize) {
    for (const std::string& note : job.deployment->notes) Log("note: {}", note);
    Out("{} is valid: {} -> {}; --optimize writes it\n", o.config, job.model, job.output);
    return nlohmann::json{{"input_model", job.model}, {"output_model", job.output}};
  }
  if (o.log)
    job.log = [](const PassRun& run) {
      Log("{:<24} {:4} changes, {} nodes", run.pass, run.changes, run.nodes);
    };
  EVOQ_ASSIGN(const Optimized optimized, Optimize(job, common.follow));
  return Print(Tell(optimized));
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("--config", o->config, "optimization_config.json (docs/ascend.md)").Required();
  options.AddFlag("--optimize", o->optimize,
                  "Write the model that the file names; without it the file is only checked");
  options.AddFlag("--log-passes", o->log, "Say on stderr what each pass changed");
  return [o, &common] { return Run(*o, common); };
}

}  // namespace

extern const VerbDef kVerbGraphOpt = {
    .name = "graph_opt",
    .doc = "Optimizes a model's graph by an optimization_config.json, as the Ascend tool does.",
    .example = "evoq graph_opt --config optimization_config.json --optimize",
    .declare = Declare,
};

}  // namespace evoq
