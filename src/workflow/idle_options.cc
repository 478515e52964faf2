#include "workflow/idle_options.h"

#include <fmt/ranges.h>

#include "quant/observer.h"
#include "quant/quant.h"

namespace evoq {
namespace {

const QuantizeJob kDefaults;

struct Option {
  const char* name;
  bool (*given)(const QuantizeJob& job);
};

// Of ranges that samples give.
constexpr Option kOfRanges[] = {
    {"--observer", [](const QuantizeJob& job) { return !job.observer.empty(); }},
    {"--ranges", [](const QuantizeJob& job) { return !job.ranges_in.empty(); }},
    {"--signed", [](const QuantizeJob& job) { return job.signed_activations; }},
    {"--symmetric", [](const QuantizeJob& job) { return job.symmetric; }},
};

// Of layers that become integers.
constexpr Option kOfLayers[] = {
    {"--weight-bits", [](const QuantizeJob& job) { return !job.weight_bits.empty(); }},
    {"--method",
     [](const QuantizeJob& job) { return !job.method.empty() && job.method != "none"; }},
    {"--exclude", [](const QuantizeJob& job) { return !job.exclude.empty(); }},
};

template <size_t kCount>
std::vector<std::string> Given(const Option (&options)[kCount], const QuantizeJob& job) {
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (option.given(job)) names.emplace_back(option.name);
  }
  return names;
}

std::string ObserverOf(const QuantizeJob& job, const QuantScheme& scheme) {
  if (!job.observer.empty()) return job.observer;
  return scheme.observer[0] != '\0' ? scheme.observer : AllObservers()[0]->name;
}

}  // namespace

std::vector<std::string> IdleWarnings(const QuantizeJob& job, int already) {
  std::vector<std::string> warnings;
  const QuantScheme* const scheme = FindScheme(job.scheme);
  if (scheme == nullptr) return warnings;  // auto: it may try what needs them
  const auto warn = [&](const std::vector<std::string>& names, const std::string& why) {
    if (!names.empty())
      warnings.push_back(fmt::format("{}: without effect: {}", fmt::join(names, ", "), why));
  };
  const bool methods = !job.method.empty() && job.method != "none";
  const bool observes = scheme->needs_calibration || methods || !job.ranges_out.empty();
  if (!observes) warn(Given(kOfRanges, job), job.scheme + " has no ranges of samples");
  if (job.percentile != kDefaults.percentile) {
    const std::string observer = ObserverOf(job, *scheme);
    if (!observes || observer != "percentile")
      warn({"--percentile"}, observes ? fmt::format("the observer is {}", observer)
                                      : job.scheme + " has no ranges of samples");
  }
  if (job.block != kDefaults.block && scheme->low_bits == nullptr)
    warn({"--block"}, "weights of " + job.scheme + " have no blocks");
  if (already > 0)
    warn(Given(kOfLayers, job),
         fmt::format("{} layers compute with integers in the model already and stay as they are",
                     already));
  return warnings;
}

}  // namespace evoq
