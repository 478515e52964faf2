#include "workflow/size_runs.h"

#include <algorithm>
#include <map>
#include <random>

#include "base/printable.h"
#include "base/stopwatch.h"
#include "base/text.h"
#include "models/models.h"
#include "runtime/buffers.h"
#include "workflow/gears.h"
#include "workflow/models.h"

namespace evoq {
namespace {

std::vector<Tensor> InputsFor(const Graph& graph, const InputShapes& shapes) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    TensorType type = value.type;
    const auto named = shapes.find(value.name);
    type.shape = Shape(named == shapes.end() ? type.shape.sizes() : named->second);
    FillForSpeed(inputs.emplace_back(Tensor::Allocate(std::move(type))),
                 static_cast<uint32_t>(inputs.size()));
  }
  return inputs;
}

// Whether each of these runs is one of a model without gears, bit for bit.
Status Compare(const SizeRunsJob& job, const std::map<size_t, std::vector<Tensor>>& outputs,
               std::span<const ObservedSizes> sizes, SizeRuns& out) {
  EVOQ_ASSIGN(const auto exact, LoadEngine(job.model, {.threads = job.threads}));
  for (const auto& [index, given] : outputs) {
    EVOQ_ASSIGN(const std::vector<Tensor> wanted,
                exact->Run(InputsFor(exact->model().graph, sizes[index].shapes)));
    ++out.compared;
    out.equal += std::ranges::equal(given, wanted, BitEqual) ? 1 : 0;
  }
  return {};
}

}  // namespace

Result<SizeRuns> RunSizes(const SizeRunsJob& job, const Follow& follow) {
  EVOQ_TRY(CheckThreads(job.threads));
  SizeRuns out{.model = job.model};
  const Stopwatch ready;
  EVOQ_ASSIGN(const auto engine, LoadEngine(job.model, {.threads = job.threads, .gears = true}));
  const Graph& graph = engine->model().graph;
  EVOQ_ASSIGN(const std::vector<ObservedSizes> sizes, ReadObservedSizes(job.file, graph));
  engine->WaitForGears();
  out.ready_ms = ready.ms();
  std::vector<double> weights;
  for (const ObservedSizes& size : sizes) weights.push_back(static_cast<double>(size.runs));
  std::mt19937 random(1);
  std::discrete_distribution<size_t> draw(weights.begin(), weights.end());
  std::map<size_t, std::vector<Tensor>> outputs;  // the first ones of each size
  for (int64_t run = 0; run < job.runs; ++run) {
    EVOQ_TRY(follow.At("running", static_cast<double>(run) / static_cast<double>(job.runs)));
    const size_t index = draw(random);
    const std::vector<Tensor> inputs = InputsFor(graph, sizes[index].shapes);
    const Stopwatch watch;
    EVOQ_ASSIGN(std::vector<Tensor> given, engine->Run(inputs));
    out.times.sorted_ms.push_back(watch.ms());
    outputs.try_emplace(index, std::move(given));
  }
  if (!engine->in_regions().empty())
    return Fail(ErrorCode::kUsage, "{}: it runs in dynamic partitions, which have no gears",
                job.model);
  std::ranges::sort(out.times.sorted_ms);
  engine->WaitForGears();
  out.report = engine->gears();
  out.arena_bytes = engine->arena_bytes();
  EVOQ_TRY(Compare(job, outputs, sizes, out));
  return out;
}

Told Tell(const SizeRuns& runs) {
  const GearReport& r = runs.report;
  Told told;
  told.text =
      FormatPrintable("{}: {} gears, prepared after {:.1f} ms; {} runs of {} different sizes\n",
                      runs.model, r.gears, runs.ready_ms, r.runs, runs.compared);
  told.text += fmt::format(
      "  {} hits, {} runs served by a gear of another batch, {} misses, which waited {:.2f} ms in "
      "all, {:.2f} at most\n",
      r.hits(), r.padded, r.misses, r.miss_ms, r.worst_miss_ms);
  told.text +=
      fmt::format("  a run: p50 {:.3f} ms  p90 {:.3f}  p99 {:.3f}  at most {:.3f}; arena {}\n",
                  runs.times.median(), runs.times.Percentile(90), runs.times.Percentile(99),
                  runs.times.max(), HumanBytes(runs.arena_bytes));
  if (r.beside > 0)
    told.text += fmt::format("  {} sets of sizes were prepared beside runs, {:.2f} ms each\n",
                             r.beside, r.beside_ms / static_cast<double>(r.beside));
  told.text += fmt::format(
      "  the results of {} of {} sizes are those of their own plans, bit for "
      "bit\n",
      runs.equal, runs.compared);
  told.json = {{"gears", r.gears},
               {"ready_ms", runs.ready_ms},
               {"runs", r.runs},
               {"hits", r.hits()},
               {"padded", r.padded},
               {"misses", r.misses},
               {"miss_ms", r.miss_ms},
               {"worst_miss_ms", r.worst_miss_ms},
               {"prepared_beside", r.beside},
               {"beside_ms", r.beside_ms},
               {"p50_ms", runs.times.median()},
               {"p90_ms", runs.times.Percentile(90)},
               {"p99_ms", runs.times.Percentile(99)},
               {"max_ms", runs.times.max()},
               {"arena_bytes", runs.arena_bytes},
               {"sizes", runs.compared},
               {"equal", runs.equal}};
  return told;
}

}  // namespace evoq
