#include "tensor/precision.h"

#include <numeric>

namespace evoq {

const char* PrecisionName(Precision precision) {
  switch (precision) {
#define EVOQ_PRECISION(symbol, name) \
  case Precision::symbol: return name;
    EVOQ_PRECISIONS(EVOQ_PRECISION)
#undef EVOQ_PRECISION
  }
  return "";
}

std::optional<Precision> ParsePrecision(std::string_view name) {
  for (Precision precision : kPrecisions) {
    if (name == PrecisionName(precision)) return precision;
  }
  return std::nullopt;
}

int PrecisionCounts::Total() const { return std::accumulate(counts_.begin(), counts_.end(), 0); }

}  // namespace evoq
