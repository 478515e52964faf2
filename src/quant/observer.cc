#include "quant/observer.h"

#include <numeric>

namespace evoq {

#define EVOQ_OBSERVER(symbol) extern const ObserverDef symbol;
#include "quant/observers.inc"
#undef EVOQ_OBSERVER

int64_t Histogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::span<const ObserverDef* const> AllObservers() {
  static constexpr const ObserverDef* kAll[] = {
#define EVOQ_OBSERVER(symbol) &symbol,
#include "quant/observers.inc"
#undef EVOQ_OBSERVER
  };
  return kAll;
}

const ObserverDef* FindObserver(std::string_view name) {
  for (const ObserverDef* def : AllObservers()) {
    if (name == def->name) return def;
  }
  return nullptr;
}

const ObserverDef& ObserverOf(const CalibrationOptions& options) {
  return options.observer != nullptr ? *options.observer : *AllObservers().front();
}

}  // namespace evoq
