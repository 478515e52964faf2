#include "workflow/compile.h"

#include "base/file.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
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
    EVOQ_ASSIGN(Graph graph, LoadGraph(job.model, job.fixed, job.passes));
    out.float_weight_bytes = FloatWeightBytes(graph);
    EVOQ_TRY(follow.At("compiling", 0));
    EVOQ_ASSIGN(model, WithContext(LowerAndPack(std::move(graph), job.shapes), job.model));
  }
  if (job.tune) {
    EVOQ_ASSIGN(out.tuning, WithContext(Tune(model, job.threads, job.shapes, follow), job.model));
  }
  if (model.plans.empty()) {
    out.why_no_plan = WhyNoPlan(model.graph);
  } else {
    out.steps = model.plans[0].decisions.size();
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
  told.json = {{"output_bytes", compiled.output_bytes},
               {"float_weight_bytes", compiled.float_weight_bytes},
               {"steps_total", compiled.steps}};
  if (compiled.tuning) told.json["tuning"] = tuned;
  return told;
}

}  // namespace evoq
