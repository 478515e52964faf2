// Decoder-only language models, by the settings that their makers publish.
#include "llm/random_folder.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

using nlohmann::json;

// Zhang et al., "TinyLlama" (2024).
Status WriteTinyLlama(const ZooOptions& options, const std::string& folder) {
  const json config = {{"model_type", "llama"},     {"hidden_size", 2048},
                       {"intermediate_size", 5632}, {"num_hidden_layers", 22},
                       {"num_attention_heads", 32}, {"num_key_value_heads", 4},
                       {"vocab_size", 32000},       {"max_position_embeddings", 2048},
                       {"rms_norm_eps", 1e-5},      {"rope_theta", 10000.0},
                       {"hidden_act", "silu"},      {"tie_word_embeddings", false},
                       {"bos_token_id", 1},         {"eos_token_id", 2}};
  return WriteRandomFolder(config, {}, options.seed, folder);
}

// Yang et al., "Qwen2 Technical Report" (2024).
Status WriteQwen2(const ZooOptions& options, const std::string& folder) {
  const json config = {{"model_type", "qwen2"},       {"hidden_size", 896},
                       {"intermediate_size", 4864},   {"num_hidden_layers", 24},
                       {"num_attention_heads", 14},   {"num_key_value_heads", 2},
                       {"vocab_size", 151936},        {"max_position_embeddings", 32768},
                       {"rms_norm_eps", 1e-6},        {"rope_theta", 1000000.0},
                       {"hidden_act", "silu"},        {"tie_word_embeddings", true},
                       {"use_sliding_window", false}, {"bos_token_id", 151643},
                       {"eos_token_id", 151645}};
  return WriteRandomFolder(config, {.biased = true}, options.seed, folder);
}

// Dubey et al., "The Llama 3 Herd of Models" (2024).
Status WriteLlama32(const ZooOptions& options, const std::string& folder) {
  const json config = {{"model_type", "llama"},
                       {"hidden_size", 2048},
                       {"intermediate_size", 8192},
                       {"num_hidden_layers", 16},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 8},
                       {"head_dim", 64},
                       {"vocab_size", 128256},
                       {"max_position_embeddings", 131072},
                       {"rms_norm_eps", 1e-5},
                       {"rope_theta", 500000.0},
                       {"rope_scaling",
                        {{"rope_type", "llama3"},
                         {"factor", 32.0},
                         {"low_freq_factor", 1.0},
                         {"high_freq_factor", 4.0},
                         {"original_max_position_embeddings", 8192}}},
                       {"hidden_act", "silu"},
                       {"tie_word_embeddings", true},
                       {"bos_token_id", 128000},
                       {"eos_token_id", 128001}};
  return WriteRandomFolder(config, {}, options.seed, folder);
}

// Yang et al., "Qwen3 Technical Report" (2025).
Status WriteQwen3(const ZooOptions& options, const std::string& folder) {
  const json config = {{"model_type", "qwen3"},
                       {"hidden_size", 2560},
                       {"intermediate_size", 9728},
                       {"num_hidden_layers", 36},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 8},
                       {"head_dim", 128},
                       {"vocab_size", 151936},
                       {"rms_norm_eps", 1e-6},
                       {"max_position_embeddings", 40960},
                       {"rope_theta", 1000000.0},
                       {"hidden_act", "silu"},
                       {"tie_word_embeddings", true},
                       {"use_sliding_window", false},
                       {"bos_token_id", 151643},
                       {"eos_token_id", 151645}};
  return WriteRandomFolder(config, {.head_norms = true}, options.seed, folder);
}

// IBM's "Granite 3.0 Language Models" (2024): 32 experts in each layer, of which a token has 8.
Status WriteGraniteMoe(const ZooOptions& options, const std::string& folder) {
  const json config = {{"model_type", "granitemoe"},
                       {"hidden_size", 1024},
                       {"intermediate_size", 512},
                       {"num_hidden_layers", 24},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 8},
                       {"num_local_experts", 32},
                       {"num_experts_per_tok", 8},
                       {"vocab_size", 49155},
                       {"max_position_embeddings", 4096},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 10000.0},
                       {"attention_multiplier", 0.015625},
                       {"embedding_multiplier", 12.0},
                       {"residual_multiplier", 0.22},
                       {"logits_scaling", 6.0},
                       {"hidden_act", "silu"},
                       {"tie_word_embeddings", true},
                       {"bos_token_id", 0},
                       {"eos_token_id", 0}};
  return WriteRandomFolder(config, {}, options.seed, folder);
}

}  // namespace

extern const ZooModel kZooTinyLlama = {
    .name = "tinyllama-1.1b",
    .doc = "TinyLlama, 22 layers, 2048 wide: a folder of bfloat16 weights, 2.2 GB",
    .write = WriteTinyLlama,
};
extern const ZooModel kZooQwen2 = {
    .name = "qwen2-0.5b",
    .doc = "Qwen2, 24 layers, 896 wide: a folder of bfloat16 weights, 1.0 GB",
    .write = WriteQwen2,
};
extern const ZooModel kZooLlama32 = {
    .name = "llama-3.2-1b",
    .doc = "Llama 3.2, 16 layers, 2048 wide: a folder of bfloat16 weights, 2.5 GB",
    .write = WriteLlama32,
};

extern const ZooModel kZooGraniteMoe = {
    .name = "granite-3.0-1b-a400m",
    .doc =
        "Granite 3.0, 24 layers, 1024 wide, 8 of 32 experts: a folder of bfloat16 weights, 2.7 GB",
    .write = WriteGraniteMoe,
};

extern const ZooModel kZooQwen3 = {
    .name = "qwen3-4b",
    .doc = "Qwen3, 36 layers, 2560 wide: a folder of bfloat16 weights in shards, 8.0 GB",
    .write = WriteQwen3,
};

}  // namespace evoq
