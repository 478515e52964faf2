// Measured choices kept from run to run, for all models of a user: a JSON file (docs/tuning.md).
#pragma once

#include <map>
#include <string>

#include "program/model.h"

namespace evoq {

std::string TuningCachePath();  // CachePath of $EVOQ_TUNING_CACHE, tuning.json

class TuningCache {
 public:
  // Empty where there is no file. Errors (kInvalidInput, kIo): the file cannot be read or is
  // damaged; the caller tells the user and goes on with an empty cache, whose Save replaces it.
  static Result<TuningCache> Open(const std::string& path);

  const StepTuning* Find(const std::string& key) const;
  void Put(const std::string& key, StepTuning tuning) { added_[key] = std::move(tuning); }

  // Adds what was Put to what the file holds by now. Atomic; of two processes at once the later one
  // may lose the other's additions, which are then measured again. Errors: kIo.
  Status Save(const std::string& path) const;

 private:
  std::map<std::string, StepTuning> entries_, added_;
};

}  // namespace evoq
