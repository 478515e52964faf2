#include "workflow/gain.h"

#include "base/ms_text.h"
#include "base/printable.h"
#include "profile/limits.h"

namespace evoq {

Result<std::optional<Gain>> MeasureGain(const std::string& scheme, Graph float_graph,
                                        const Model& quantized, const InputShapes& shapes,
                                        int threads, const Follow& follow) {
  constexpr double kSeconds = 1;
  constexpr int kRounds = 7;
  if (quantized.plans.empty()) return std::nullopt;
  const EngineOptions options{.threads = threads, .shapes = shapes, .stored_tuning = false};
  EVOQ_ASSIGN(const auto before, EngineFromGraph(std::move(float_graph), options));
  EVOQ_ASSIGN(const auto after, Engine::Of({quantized, ""}, options, AllParts()));
  EVOQ_ASSIGN(const auto a, before->Default());
  EVOQ_ASSIGN(const auto b, after->Default());
  CompareOptions compare;
  compare.duration_s = kSeconds;
  compare.warmup_ms = 50;
  compare.rounds = kRounds;
  compare.progress = follow.Stage("measuring the gain");
  EVOQ_ASSIGN(const CompareRuns runs, CompareExecutors(*a, *b, compare));
  Gain gain{.scheme = scheme, .threads = b->threads(), .measured = runs.result};
  if (gain.measured.verdict == Verdict::kSlower) {
    const Limits limits = MeasureLimits(after->isa(), gain.threads);
    gain.narrow_gflops = limits.bf16_gflops;
    gain.fp32_gflops = limits.fp32_gflops;
  }
  return gain;
}

Told Tell(const Gain& gain) {
  const Comparison& c = gain.measured;
  Told told;
  told.json = ToJson(c);
  told.json["threads"] = gain.threads;
  told.text = FormatPrintable(
      "  {} ms beside {} ms of the float32 model: {:.3f}x [{:.3f}, {:.3f}], measured here on {} "
      "thread{}\n",
      MsText(c.b_ms), MsText(c.a_ms), c.speedup, c.low, c.high, gain.threads,
      gain.threads == 1 ? "" : "s");
  if (c.verdict != Verdict::kSlower) return told;
  const std::string peak = gain.narrow_gflops > 0
                               ? fmt::format("multiplies {:.0f} GFLOPS in {} and {:.0f} in float32",
                                             gain.narrow_gflops, gain.scheme, gain.fp32_gflops)
                               : fmt::format("multiplies {} in float32", gain.scheme);
  told.log.push_back(FormatPrintable(
      "warning: {} takes {:.2f} times as long as float32 here, because this processor {}; "
      "`--scheme auto` takes it for the layers where it pays",
      gain.scheme, 1 / c.speedup, peak));
  return told;
}

}  // namespace evoq
