#include "workflow/compile.h"

#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/work_threads.h"
#include "compile/compile.h"
#include "compile/plan.h"
#include "generate/cached_form.h"
#include "graph/run_choices.h"
#include "llm/cache_type.h"
#include "llm/rounding_note.h"
#include "models/models.h"
#include "program/etm.h"
#include "program/etm_size.h"
#include "reference/reference.h"
#include "workflow/deployment.h"
#include "workflow/large.h"
#include "workflow/models.h"
#include "workflow/tuning.h"

namespace evoq {
namespace {

// Of a model without one.
const char* WhyNoPlan(Graph graph, const InputShapes& shapes) {
  if (!BindShapes(graph, shapes))
    return "no plan: the first run brings its sizes; --shape names some to plan for";
  return "no plan: its sizes depend on data, or it has other values than tensors of numbers; it "
         "runs in dynamic partitions (docs/dynamic.md)";
}

Result<Graph> Load(const CompileJob& job) {
  if (!job.deployment) {
    EVOQ_ASSIGN(Graph graph, LoadGraph(job.model, job.fixed, job.passes));
    EVOQ_TRY(NarrowCaches(graph, job.kv_cache, job.model));
    return graph;
  }
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

// Declares the gears that the job names or asks for. `pack` gives the packed model.
template <typename Pack>
Status SettleGears(const CompileJob& job, const Follow& follow, const Pack& pack, Graph& graph,
                   Compiled& out) {
  EVOQ_ASSIGN(std::vector<InputShapes> gears, GearsFor(job.gears, graph));
  if (job.suggest) {
    SuggestJob suggest = *job.suggest;
    suggest.threads = job.threads;
    EVOQ_ASSIGN(const Model packed, pack());
    EVOQ_ASSIGN(out.suggested, SuggestGears(packed, suggest, follow));
    for (const SuggestedGears::Gear& gear : out.suggested->gears) gears.push_back(gear.shapes);
  }
  if (!gears.empty()) DeclareGears(gears, graph);
  return {};
}

Status AddPlans(const std::vector<InputShapes>& sets, Model& model) {
  for (const InputShapes& shapes : sets) {
    if (model.plans.empty()) return {};
    EVOQ_ASSIGN(const Program program, Compile(model, kReference, shapes));
    PlanFor(model, program);
  }
  return {};
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
  sets.erase(sets.begin());
  EVOQ_TRY(AddPlans(sets, model));
  return model;
}

bool GivesGears(const CompileJob& job) { return !job.gears.empty() || job.suggest; }

Status Check(const CompileJob& job) {
  EVOQ_TRY(ParseCacheType(job.kv_cache));
  if (job.suggest && !job.gears.empty())
    return Fail(ErrorCode::kUsage, "--gears, --suggest-gears: one of them");
  if (GivesGears(job) && !job.shapes.empty())
    return Fail(ErrorCode::kUsage, "--shape, --gears: gears are the sizes to plan for");
  if (!IsEtmFile(job.model)) return {};
  if (!job.tune && !GivesGears(job))
    return Fail(ErrorCode::kUsage,
                "{} is compiled already; --tune adds what is fastest on this machine", job.model);
  if (!job.fixed.empty())
    return Fail(ErrorCode::kUsage, "--fix-shape: {} is compiled already; compile the .onnx",
                job.model);
  if (!job.kv_cache.empty())
    return Fail(ErrorCode::kUsage,
                "--kv-cache: {} is compiled already; compile the model, or give it to generate",
                job.model);
  if (!job.passes.empty())
    return Fail(ErrorCode::kUsage,
                "--disable, --opt-level: {} is compiled already; compile the .onnx", job.model);
  return {};
}

// Of a graph that has no plan yet.
Result<Model> CompileGraph(Graph graph, const CompileJob& job, const Follow& follow,
                           Compiled& out) {
  EVOQ_TRY(follow.At("compiling", 0));
  if (GivesGears(job)) {
    const auto pack = [&]() -> Result<Model> {
      EVOQ_ASSIGN(const auto observed, ReadObservedSizes(job.suggest->file, graph));
      return LowerAndPack(graph, observed.back().shapes);
    };
    EVOQ_TRY(SettleGears(job, follow, pack, graph, out));
  }
  return PlanSizes(std::move(graph), job);
}

// Of an .etm: with the gears that the job gives it.
Result<Model> Reread(const CompileJob& job, const Follow& follow, Compiled& out) {
  EVOQ_ASSIGN(Model model, ReadEtm(job.model));
  out.float_weight_bytes = FloatWeightBytes(model.graph);
  if (!GivesGears(job)) return model;
  if (model.plans.empty())
    return WithContext(CompileGraph(std::move(model.graph), job, follow, out), job.model);
  const auto give = [&]() -> Status {
    const auto pack = [&]() -> Result<Model> { return model; };
    Graph graph = model.graph;
    EVOQ_TRY(SettleGears(job, follow, pack, graph, out));
    model.graph = std::move(graph);
    EVOQ_ASSIGN(const std::vector<InputShapes> sets, ChosenShapes(model.graph));
    return AddPlans(sets, model);
  };
  EVOQ_TRY(WithContext(give(), job.model));
  return model;
}

}  // namespace

Result<Compiled> Compile(const CompileJob& job, const Follow& follow) {
  EVOQ_TRY(Check(job));
  EVOQ_TRY(CheckThreads(job.threads));
  EVOQ_TRY(CheckSizes(job.shapes));
  EVOQ_TRY(CheckEnding(job.output, /*onnx=*/false));
  // A finished file may get its choices in place.
  EVOQ_TRY(IsEtmFile(job.model) ? CheckOutputPath(job.output)
                                : CheckOutput(job.output, {job.model}));
  EVOQ_TRY(follow.At("loading", 0));
  Compiled out{.model = job.model, .output = job.output};
  int64_t bytes = 0;
  if (!IsEtmFile(job.model)) {
    EVOQ_ASSIGN(bytes, ModelBytes(job.model));
  }
  const WorkThreads threads(job.threads);
  const LargeJob large(2 * bytes, job.output);  // weights of 16 bits become float32
  Model model;
  if (IsEtmFile(job.model)) {
    EVOQ_ASSIGN(model, Reread(job, follow, out));
  } else {
    EVOQ_ASSIGN(Graph graph, Load(job));
    out.float_weight_bytes = FloatWeightBytes(graph);
    out.rounded = RoundedSentence(graph);
    out.warnings = WarningsAsRead(graph);
    EVOQ_TRY(WithContext(NarrowAsChosen(graph), job.model));
    EVOQ_ASSIGN(model, WithContext(CompileGraph(std::move(graph), job, follow, out), job.model));
  }
  if (job.tune) {
    EVOQ_ASSIGN(out.tuning, WithContext(Tune(model, job.threads, job.shapes, follow), job.model));
  }
  if (const auto no_text = NoTextSentence(model.graph)) out.warnings.push_back(*no_text);
  if (model.plans.empty()) {
    out.why_no_plan = WhyNoPlan(model.graph, job.shapes);
  } else {
    out.steps = model.plans[0].decisions.size();
    out.plans = model.plans.size();
  }
  EVOQ_TRY(follow.At("writing", 0));
  EVOQ_TRY(WriteEtm(model, job.output));  // after all else that can fail
  out.output_bytes = WrittenEtmBytes(model, job.output);
  return out;
}

Told Tell(const Compiled& compiled) {
  Told told;
  if (compiled.tuning) told = Tell(*compiled.tuning);
  if (compiled.rounded) told.log.push_back("note: " + *compiled.rounded);
  for (const std::string& warning : compiled.warnings) told.log.push_back("warning: " + warning);
  const nlohmann::json tuned = std::move(told.json);
  nlohmann::json suggested;
  if (compiled.suggested) {
    Told gears = Tell(*compiled.suggested);
    told.text += gears.text;
    suggested = std::move(gears.json);
  }
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
  if (compiled.suggested) told.json["suggested"] = suggested;
  return told;
}

}  // namespace evoq
