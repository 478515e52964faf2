#include "workflow/adaptive.h"

#include <algorithm>

#include "base/printable.h"

namespace evoq {

Told Tell(const AdaptiveState& state) {
  using nlohmann::json;
  Told told;
  json sets = json::array(), tensors = json::array();
  std::string used;
  for (size_t s = 0; s < state.sets.size(); ++s) {
    sets.push_back({{"name", state.sets[s]}, {"runs", state.runs_by_set[s]}});
    used += fmt::format("{}{} {}", used.empty() ? "" : ", ", state.sets[s], state.runs_by_set[s]);
  }
  std::vector<WatchedTensor> worst = state.tensors;
  std::ranges::stable_sort(worst, std::ranges::greater(), &WatchedTensor::rate);
  for (const WatchedTensor& tensor : worst)
    tensors.push_back({{"name", tensor.name},
                       {"seen", tensor.seen},
                       {"clipped", tensor.clipped},
                       {"clip_rate", tensor.rate()}});
  told.json = {{"active", state.sets[state.active]},
               {"runs", state.runs},
               {"looks", state.looks},
               {"switches", state.switches},
               {"clip_rate", state.clip_rate},
               {"sets", std::move(sets)},
               {"tensors", std::move(tensors)}};
  told.text = FormatPrintable(
      "  scale sets: {} in use, {} switches; runs under each: {}; {} looks, at the last {:.3f}% "
      "clipped\n",
      state.sets[state.active], state.switches, used, state.looks, 100 * state.clip_rate);
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, worst.size()) && worst[i].clipped > 0; ++i)
    told.text +=
        FormatPrintable("    {:.3f}% of {} were clipped\n", 100 * worst[i].rate(), worst[i].name);
  return told;
}

}  // namespace evoq
