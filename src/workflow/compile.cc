#include "workflow/compile.h"

#include "base/file.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/text.h"
#include "compile/compile.h"
#include "compile/plan.h"
#include "graph/run_choices.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "workflow/deployment.h"
#include "workflow/large.h"
#include "workflow/models.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

// Of a model without one.
const char* WhyNoPlan(Graph graph) {
  if (!BindShapes(graph, {}))
    return "no plan: the first run brings its sizes; --shape names some to plan for";
  return "no plan: its sizes depend on data, or it has other values than tensors of numbers; it "
         "runs in dynamic partitions (docs/dynamic.md)";
}

Result<Graph> Load(const CompileJob& job) {
  if (!job.deployment) return LoadGraph(job.model, job.fixed, job.passes);
  EVOQ_TRY(CheckSizes(job.fixed, /*free=*/true));
  EVOQ_ASSIGN(Graph graph, ImportModel(job.model));
  const auto adapt = [&]() -> Status {
    Deployment deployment = *job.deployment;
    EVOQ_TRY(ShapeInterface(deployment, graph));
    EVOQ_TRY(FixShapes(graph, job.fixed));
    for (const Aipp& aipp : deployment.aipp) EVOQ_TRY(InsertAipp(aipp, graph, deployment.shapes));
    EVOQ_TRY(ChoosePasses(graph, deployment.passes));
    EVOQ_TRY(ChoosePasses(graph, job.passes));
    EVOQ_TRY(RunPasses(graph, Stage::kOptimize));
    Finish(deployment, graph);
    return {};
  };
  EVOQ_TRY(WithContext(adapt(), job.model));
  return graph;
}

// With a plan for the sizes that the job names, or for each set of them that the graph asks for,
// where the job has fixed none.
Result<Model> PlanSizes(Graph graph, const CompileJob& job) {
  std::vector<InputShapes> sets = {job.shapes};
  const bool asks = job.deployment && job.deployment->dynamic;
  if (!job.fixed.empty() && !asks) graph.metadata.erase(kShapesChoice);
  if (job.shapes.empty()) {
    EVOQ_ASSIGN(std::vector<InputShapes> chosen, ChosenShapes(graph));
    if (!chosen.empty()) sets = std::move(chosen);
  }
  EVOQ_ASSIGN(Model model, LowerAndPack(std::move(graph), sets[0]));
  for (size_t i = 1; i < sets.size() && !model.plans.empty(); ++i) {
    EVOQ_ASSIGN(const Program program, Compile(model, kReference, sets[i]));
    PlanFor(model, program);
  }
  return model;
}

}  // namespace

Result<Compiled> Compile(const CompileJob& job, const Follow& follow) {
  if (IsEtmFile(job.model) && !job.tune)
    return Fail(ErrorCode::kUsage,
                "{} is compiled already; --tune adds what is fastest on this machine", job.model);
  if (IsEtmFile(job.model) && !job.fixed.empty())
    return Fail(ErrorCode::kUsage, "--fix-shape: {} is compiled already; compile the .onnx",
                job.model);
  if (IsEtmFile(job.model) && !job.passes.empty())
    return Fail(ErrorCode::kUsage,
                "--disable, --opt-level: {} is compiled already; compile the .onnx", job.model);
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckSizes(job.shapes));
  EVOQ_TRY(CheckOutputPath(job.output));
  EVOQ_TRY(follow.At("loading", 0));
  Compiled out{.model = job.model, .output = job.output};
  int64_t bytes = 0;
  if (!IsEtmFile(job.model)) {
    EVOQ_ASSIGN(bytes, ModelBytes(job.model));
  }
  const LargeJob large(2 * bytes, job.output);  // weights of 16 bits become float32
  Model model;
  if (IsEtmFile(job.model)) {
    EVOQ_ASSIGN(model, ReadEtm(job.model));
    out.float_weight_bytes = FloatWeightBytes(model.graph);
  } else {
    EVOQ_ASSIGN(Graph graph, Load(job));
    out.float_weight_bytes = FloatWeightBytes(graph);
    EVOQ_TRY(WithContext(NarrowAsChosen(graph), job.model));
    EVOQ_TRY(follow.At("compiling", 0));
    EVOQ_ASSIGN(model, WithContext(PlanSizes(std::move(graph), job), job.model));
  }
  if (job.tune) {
    EVOQ_ASSIGN(out.tuning, WithContext(Tune(model, job.threads, job.shapes, follow), job.model));
  }
  if (model.plans.empty()) {
    out.why_no_plan = WhyNoPlan(model.graph);
  } else {
    out.steps = model.plans[0].decisions.size();
    out.plans = model.plans.size();
  }
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(WriteEtm(model, job.output));  // after all else that can fail
  out.output_bytes = WrittenBytes(job.output);
  return out;
}

Told Tell(const Compiled& compiled) {
  Told told;
  if (compiled.tuning) told = Tell(*compiled.tuning);
  const nlohmann::json tuned = std::move(told.json);
  told.text += FormatPrintable(
      "{} -> {}: {}, {}\n", compiled.model, compiled.output, HumanBytes(compiled.output_bytes),
      compiled.why_no_plan.empty() ? fmt::format("{} steps", compiled.steps)
                                   : compiled.why_no_plan);
  if (compiled.plans > 1)
    told.text += fmt::format("  prepared for {} sets of input sizes\n", compiled.plans);
  told.json = {{"output_bytes", compiled.output_bytes},
               {"float_weight_bytes", compiled.float_weight_bytes},
               {"steps_total", compiled.steps},
               {"plans", compiled.plans}};
  if (compiled.tuning) told.json["tuning"] = tuned;
  return told;
}

}  // namespace evoq
