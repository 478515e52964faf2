// Folders of language models with random weights: for measuring speed and size, not accuracy.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq {

// Writes `folder`/config.json and `folder`/model.safetensors: the tensors of an architecture whose
// joined matrices are stored apart (Llama's and Qwen2's kin), bfloat16, uniform with variance
// 1 / inputs, norms 1; `biased`: queries, keys and values have biases. Equal for equal seeds on
// every machine. Errors: those of ReadConfig; kIo.
Status WriteRandomFolder(const nlohmann::json& config, bool biased, uint32_t seed,
                         const std::string& folder);

}  // namespace evoq
