#include "cli/adaptive_options.h"

namespace evoq {

std::optional<AdaptiveOptions> AdaptiveChoice::chosen() const {
  if (!follows && options.pinned.empty()) return std::nullopt;
  AdaptiveOptions chosen = options;
  chosen.clip_limit = clip_limit_percent / 100;
  return chosen;
}

void AddAdaptiveOptions(const VerbOptions& options, AdaptiveChoice& choice) {
  const VerbOption adaptive = options.AddFlag(
      "--adaptive", choice.follows,
      "Change between the model's scale sets as the input asks for (evoq quantize --scale-sets)");
  options.Add("--scale-set", choice.options.pinned, "Always use the scale set of this name")
      .Excludes(adaptive);
  options
      .Add("--clip-limit", choice.clip_limit_percent,
           "Of --adaptive: percent of the watched elements that a set may cut off")
      .Needs(adaptive)
      .InRange(0.0, 99.0)
      .ShowDefault();
  options
      .Add("--widen-after", choice.options.widen_after,
           "Of --adaptive: looks in a row at which a set does not fit, before a wider one is taken")
      .Needs(adaptive)
      .InRange(1, 1 << 20)
      .ShowDefault();
  options
      .Add("--narrow-after", choice.options.narrow_after,
           "Of --adaptive: looks in a row at which a finer set fits, before it is taken")
      .Needs(adaptive)
      .InRange(1, 1 << 20)
      .ShowDefault();
  options
      .Add("--look-every", choice.options.every,
           "Of --adaptive: runs from one look to the next (default: so many that it costs 0.5%)")
      .Needs(adaptive)
      .InRange(1, 1 << 20);
}

}  // namespace evoq
