// The options of verbs that run models whose scale sets follow the input (docs/adaptive.md).
#pragma once

#include <optional>

#include "cli/options.h"
#include "runtime/adapter.h"

namespace evoq {

struct AdaptiveChoice {
  bool follows = false;
  double clip_limit_percent = 100 * AdaptiveOptions().clip_limit;
  AdaptiveOptions options;

  // Nothing where neither --adaptive nor --scale-set was given.
  std::optional<AdaptiveOptions> chosen() const;
};

// --adaptive, --scale-set and the numbers of the former.
void AddAdaptiveOptions(const VerbOptions& options, AdaptiveChoice& choice);

}  // namespace evoq
