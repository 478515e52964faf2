// For tests: a small language model of random weights.
#pragma once

#include <nlohmann/json.hpp>

namespace evoq {

// 96 tokens, width 32, 4 heads of 8 over 2 for keys and values, inner width 48, context 64.
inline nlohmann::json TinyLlamaConfig(int64_t layers = 2) {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 96},
          {"hidden_size", 32},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 48},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 64},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", false}};
}

}  // namespace evoq
