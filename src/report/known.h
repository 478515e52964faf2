// Figures of JSON that may not be known.
#pragma once

#include <nlohmann/json.hpp>

namespace evoq {

// null where the figure is not known, which is 0 in memory: in JSON, 0 would be a figure.
template <typename Number>
nlohmann::json Known(Number value) {
  return value > 0 ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace evoq
