// What goes on with training after the process has ended: an .npz (numpy.load reads it) of
//   weights/NAME, averages/NAME  each parameter and moving average
//   slot0/NAME, slot1/NAME       what the optimizer keeps of each parameter
//   ema/NAME                     the average of each parameter, where there is one
//   state                        uint8: JSON with version, recipe, model, samples, epoch
#pragma once

#include <string>

#include "train/learner.h"
#include "train/recipe.h"

namespace evoq {

struct TrainingState {
  nlohmann::json recipe;  // ToJson
  std::string model;      // its name
  int64_t samples = 0;
  int64_t epoch = 0;  // that lie behind
};

// Written whole or not at all. Errors: kIo.
Status WriteCheckpoint(Learner& learner, const TrainingState& state, int slots,
                       const std::string& path);

// Reads into the learner; returns the epochs that lie behind. Errors: kInvalidInput naming the file
// and what is damaged, missing, of another shape, or differs from `wanted`.
Result<int64_t> ReadCheckpoint(Learner& learner, const TrainingState& wanted, int slots,
                               const std::string& path);

}  // namespace evoq
