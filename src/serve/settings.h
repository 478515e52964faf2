// How a model is served: config.json beside its versions, in the names of Triton's ModelConfig.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq::serve {

// Which of the versions in a model's folder are served.
struct VersionPolicy {
  enum class Kind { kLatest, kAll, kSpecific };
  Kind kind = Kind::kLatest;
  int64_t latest = 1;             // so many of the largest numbers
  std::vector<int64_t> specific;  // these
  // Of `versions`, which are sorted: those that are served. Errors: kNotFound for a specific one
  // that is not there.
  Result<std::vector<int64_t>> Choose(const std::vector<int64_t>& versions) const;
};

struct ModelSettings {
  int64_t max_batch = 8;           // samples of a run that joins requests; 0 and 1: none are joined
  int64_t max_delay_us = 0;        // that a request waits for others to join it
  std::vector<int64_t> preferred;  // numbers of samples that do not wait for more
  int64_t max_queue = 128;         // requests that wait
  int64_t timeout_us = 0;          // of a request that names none; 0: none
  int instances = 1;               // runs at the same time
  int threads = 0;                 // of each; 0: the server's, divided by the instances
  int64_t context = 0;             // of a language model: tokens of a sequence; 0: the model's own
  int64_t sequences = 4;           // of a language model: written at the same time
  std::string kv_cache;            // of a language model: CacheOptions::type
  VersionPolicy versions;
  std::string shadow;         // the model that also runs one request of so many; "": none
  int64_t shadow_one_in = 0;  // 0: none
};

// `defaults` with what the object says. Errors: kInvalidInput naming the key, what it is and what
// was expected, and the nearest key for one that there is not.
Result<ModelSettings> ParseSettings(const nlohmann::json& config, const std::string& name,
                                    const ModelSettings& defaults);

// As Triton's ModelConfig, without inputs and outputs.
nlohmann::json ToJson(const ModelSettings& settings);

}  // namespace evoq::serve
