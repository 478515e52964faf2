// What the protocol tells of a model, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/repository.h"
#include "serve/served_model.h"

namespace evoq::serve {

// Inputs, outputs, and the versions that are served. Sizes that are free are -1.
nlohmann::json MetadataOf(const ServedModel& model, const Repository& repository);
// As Triton's ModelConfig: its shapes are without the dimension of a batch.
nlohmann::json ConfigOf(const ServedModel& model);
// As Triton's ModelStatistics; durations in nanoseconds.
nlohmann::json StatisticsOf(const ServedModel& model);

}  // namespace evoq::serve
