// What users see of a deployment that disappoints, and what it comes of.
#include <algorithm>

#include "graph/run_choices.h"
#include "report/html.h"
#include "workflow/advice.h"

namespace evoq {
namespace {

// Below this an output of a float32 model is further off than another order of sums explains.
constexpr double kSameDb = 60;
// Bytes of memory that nobody misses.
constexpr double kLittle = 1e6;

std::optional<std::string> AccuracyFalls(const Deployed& d) {
  if (!d.sqnr_db || *d.sqnr_db >= kSameDb) return std::nullopt;
  std::string seen = fmt::format("an output is {:.1f} dB from the original model's", *d.sqnr_db);
  if (const auto narrow = ChoiceOf(d.model->graph, kPrecisionChoice); !narrow.empty())
    seen += fmt::format("; the model asks for '{}'", narrow);
  return seen;
}

// The largest value that outlives the step that reads it last but one, so that nothing is written
// over it, is what holds the most; the plan's own excess is what no value needs.
std::optional<std::string> MemoryStays(const Deployed& d) {
  const Program& program = d.executor->program();
  const auto arena = static_cast<double>(d.executor->arena_bytes());
  if (ChoiceOf(d.model->graph, kMemoryReuseChoice) == "off")
    return fmt::format(
        "memory reuse is off: {:.2f} MB, where at most {:.2f} MB are alive at one step",
        arena / 1e6, static_cast<double>(program.live_bytes) / 1e6);
  if (!d.baseline_arena || arena < kLittle || arena < 0.95 * *d.baseline_arena) return std::nullopt;
  const std::vector<int64_t> live = LiveBytes(program);
  if (live.empty()) return std::nullopt;
  const auto most = static_cast<size_t>(std::ranges::max_element(live) - live.begin());
  const Node& node = program.graph->node(program.steps[most].node);
  return fmt::format(
      "{:.2f} MB, {:.2f} MB before: step {} ({}) needs {:.2f} MB at once, its inputs and outputs "
      "and what later steps read",
      arena / 1e6, *d.baseline_arena / 1e6, node.name, node.op,
      static_cast<double>(live[most]) / 1e6);
}

std::optional<std::string> StreamsGainLittle(const Deployed& d) {
  if (!d.streams || !d.streams_speedup || *d.streams < 2 || *d.streams_speedup >= 1.2)
    return std::nullopt;
  const int cores = PhysicalCores();
  std::string seen = fmt::format("{} streams do {:.2f} times what one does in a second", *d.streams,
                                 *d.streams_speedup);
  if (*d.streams > cores) return seen + fmt::format("; there are {} cores", cores);
  return seen + "; they share the caches and the memory's speed";
}

std::optional<std::string> ShapeNotPrepared(const Deployed& d) {
  if (!d.prepare_ms) return std::nullopt;
  const Graph& graph = *d.executor->program().graph;
  InputShapes shapes;
  for (const ValueId id : graph.inputs())
    shapes[graph.value(id).name] = graph.value(id).type.shape.sizes();
  if (std::ranges::find(d.model->plans, shapes, &Plan::shapes) != d.model->plans.end())
    return std::nullopt;
  return fmt::format(
      "the first run at these sizes waited {:.1f} ms for a plan; the file has {}", *d.prepare_ms,
      d.model->plans.empty() ? "none" : fmt::format("{} for other sizes", d.model->plans.size()));
}

std::optional<std::string> OtherProcessor(const Deployed& d) {
  const Isa isa = SelectIsa().value_or(Isa::kScalar);
  const std::string here = MachineName(isa);
  std::string other;
  for (const Plan& plan : d.model->plans) {
    for (const Tuning& tuning : plan.tunings) {
      if (tuning.machine == here) return std::nullopt;
      other = tuning.machine;
    }
  }
  if (other.empty()) return std::nullopt;
  return fmt::format("what was measured for this file was measured on {}; this is {}", other, here);
}

}  // namespace

extern const AdviceRule kAdviceAccuracyFalls = {
    .code = "accuracy-falls",
    .symptom = "Accuracy falls after optimization.",
    .fix =
        "Keep sensitive layers out: --disable PASS@NODE, precision_mode fp32, --exclude NODE of "
        "`quantize`; `evoq diff ORIGINAL OPTIMIZED` names the first bad step, `evoq sensitivity` "
        "the layers that lose.",
    .look = AccuracyFalls,
};
extern const AdviceRule kAdviceMemoryStays = {
    .code = "memory-stays",
    .symptom = "Memory does not fall after optimization.",
    .fix =
        "Leave enable_memory_reuse on; smaller batches or narrower types (`evoq quantize`) where "
        "one step needs most of it.",
    .look = MemoryStays,
};
extern const AdviceRule kAdviceStreamsGainLittle = {
    .code = "streams-gain-little",
    .symptom = "Several streams gain little.",
    .fix =
        "As many streams as cores, one thread each; priorities where some are urgent "
        "(docs/streams.md); larger batches (`evoq bench --hint throughput`); fewer bytes where "
        "memory is what they wait for.",
    .look = StreamsGainLittle,
};
extern const AdviceRule kAdviceShapeNotPrepared = {
    .code = "shape-not-prepared",
    .symptom = "The first run at new sizes is slow.",
    .fix =
        "Prepare the sizes ahead: `evoq compile --gears`, shape_ranges of "
        "optimization_config.json, --dynamic_batch_size of atc.",
    .look = ShapeNotPrepared,
};
extern const AdviceRule kAdviceOtherProcessor = {
    .code = "other-processor",
    .symptom = "The model is slow on the target.",
    .fix = "Measure on the target: `evoq compile MODEL.etm --tune`, `evoq tune`.",
    .look = OtherProcessor,
};

}  // namespace evoq
