// Folders of language models with random weights: for measuring speed and size, not accuracy.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq {

struct RandomParts {
  bool biased = false;      // queries, keys and values have biases
  bool head_norms = false;  // and queries and keys norms of each head
  // Weights of more bytes than the first are shards of at most the second, or of one tensor.
  uint64_t most_in_file = 5'000'000'000, most_in_shard = 4'000'000'000;
};

// Writes `folder`/config.json and `folder`/model.safetensors, or shards with their index: the
// tensors of an architecture whose joined matrices are stored apart (Llama's and Qwen2's kin,
// mixtures of experts too),
// bfloat16, uniform with variance 1 / inputs, norms 1. Equal for equal seeds on every machine. In
// memory is a piece of a tensor at a time. Errors: those of ReadConfig; kIo.
Status WriteRandomFolder(const nlohmann::json& config, const RandomParts& parts, uint32_t seed,
                         const std::string& folder);

}  // namespace evoq
