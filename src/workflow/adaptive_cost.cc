#include "workflow/adaptive_cost.h"

#include "base/printable.h"

namespace evoq {

Result<AdaptiveCost> MeasureAdaptiveCost(Runnable& plain, RunBuffers& plain_buffers,
                                         Executor& adaptive, RunBuffers& buffers,
                                         const MeasureOptions& options) {
  AdaptiveCost cost;
  cost.look_every = adaptive.look_every();
  const auto turn_of = [&](Runnable& runnable, RunBuffers& own) -> std::function<Status()> {
    return [&runnable, &own, runs = cost.look_every]() -> Status {
      for (int i = 0; i < runs; ++i) EVOQ_TRY(runnable.Run(own.inputs, own.outputs));
      return {};
    };
  };
  const std::function<Status()> turns[] = {turn_of(plain, plain_buffers),
                                           turn_of(adaptive, buffers)};
  EVOQ_ASSIGN(const std::vector<RunTimes> times, MeasureCallsInterleaved(turns, options));
  const bool one_thread = adaptive.threads() == 1;
  cost.plain_ms = times[0].CalmMs(one_thread) / cost.look_every;
  cost.adaptive_ms = times[1].CalmMs(one_thread) / cost.look_every;
  cost.runs = times[0].runs() * cost.look_every;
  return cost;
}

Told Tell(const AdaptiveCost& cost) {
  Told told;
  told.json = {{"plain_ms", cost.plain_ms},
               {"adaptive_ms", cost.adaptive_ms},
               {"overhead", cost.overhead()},
               {"look_every", cost.look_every},
               {"runs", cost.runs}};
  told.text = FormatPrintable(
      "  adaptive: {:.4f} ms, without {:.4f}, in turn: {:+.2f}%; a look every {} run{}, {} runs "
      "each\n",
      cost.adaptive_ms, cost.plain_ms, 100 * cost.overhead(), cost.look_every,
      cost.look_every == 1 ? "" : "s", cost.runs);
  return told;
}

}  // namespace evoq
