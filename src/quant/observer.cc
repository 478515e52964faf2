#include "quant/observer.h"

#include <numeric>

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE ObserverDef
#define EVOQ_ROW_FILE "quant/observers.inc"
#include "base/rows.inl.h"

int64_t Histogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::span<const ObserverDef* const> AllObservers() { return kAllRows; }

const ObserverDef* FindObserver(std::string_view name) { return FindRow(AllObservers(), name); }

const ObserverDef& ObserverOf(const CalibrationOptions& options) {
  return options.observer != nullptr ? *options.observer : *AllObservers().front();
}

}  // namespace evoq
