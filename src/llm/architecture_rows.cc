#include "llm/architecture.h"

namespace evoq {
namespace {

constexpr TensorName kLlamaNames[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

// Norms before and behind each block.
constexpr TensorName kGemma2Names[] = {
    {"embed_tokens", "token_embd"},
    {"norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

constexpr TensorName kGpt2Names[] = {
    {"wte", "token_embd"},          {"wpe", "position_embd"}, {"ln_f", "output_norm"},
    {"lm_head", "output"},          {"ln_1", "attn_norm"},    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"}, {"ln_2", "ffn_norm"},     {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

}  // namespace

extern const Architecture kArchitectureLlama = {.name = "llama",
                                                .gguf = "llama",
                                                .names = kLlamaNames,
                                                .gguf_interleaved = true,
                                                .missing = {.context = 2048, .inner = 11008}};
extern const Architecture kArchitectureMistral = {
    .name = "mistral",
    .gguf = "",
    .names = kLlamaNames,
    .windows = Windows::kAll,
    .missing = {.context = 131072, .inner = 14336, .kv_heads = 8, .window = 4096}};
extern const Architecture kArchitectureQwen2 = {
    .name = "qwen2",
    .gguf = "qwen2",
    .names = kLlamaNames,
    .windows = Windows::kIfAsked,
    .missing = {
        .context = 32768, .inner = 22016, .kv_heads = 32, .window = 4096, .first_windowed = 28}};
extern const Architecture kArchitectureQwen3 = {.name = "qwen3",
                                                .gguf = "qwen3",
                                                .names = kLlamaNames,
                                                .windows = Windows::kIfAsked,
                                                .missing = {.context = 32768,
                                                            .inner = 22016,
                                                            .kv_heads = 32,
                                                            .head_size = 128,
                                                            .window = 4096,
                                                            .first_windowed = 28}};
extern const Architecture kArchitectureGemma = {
    .name = "gemma",
    .gguf = "gemma",
    .names = kLlamaNames,
    .function = GateFunction::kGeluTanh,
    .function_is_fixed = true,
    .embedding_times_root = true,
    .norm_plus_one = true,
    .tied = true,
    .missing = {.context = 8192, .inner = 24576, .kv_heads = 16, .head_size = 256}};
extern const Architecture kArchitectureGemma2 = {.name = "gemma2",
                                                 .gguf = "gemma2",
                                                 .names = kGemma2Names,
                                                 .function = GateFunction::kGeluTanh,
                                                 .function_is_fixed = true,
                                                 .embedding_times_root = true,
                                                 .norm_plus_one = true,
                                                 .tied = true,
                                                 .settings_scale_attention = true,
                                                 .windows = Windows::kAllButEveryNth,
                                                 .window_period = 2,
                                                 .missing = {.context = 8192,
                                                             .inner = 9216,
                                                             .kv_heads = 4,
                                                             .head_size = 256,
                                                             .window = 4096,
                                                             .attention_softcap = 50,
                                                             .logit_softcap = 30}};
extern const Architecture kArchitectureGemma3 = {.name = "gemma3_text",
                                                 .gguf = "gemma3",
                                                 .names = kGemma2Names,
                                                 .function = GateFunction::kGeluTanh,
                                                 .function_is_fixed = true,
                                                 .embedding_times_root = true,
                                                 .norm_plus_one = true,
                                                 .tied = true,
                                                 .settings_scale_attention = true,
                                                 .windows = Windows::kAllButEveryNth,
                                                 .window_period = 6,
                                                 .local_theta = 10000,
                                                 .missing = {.context = 131072,
                                                             .inner = 9216,
                                                             .kv_heads = 4,
                                                             .head_size = 256,
                                                             .theta = 1e6,
                                                             .window = 4096}};
extern const Architecture kArchitecturePhi3 = {
    .name = "phi3",
    .gguf = "phi3",
    .names = kLlamaNames,
    .windows = Windows::kAll,
    .missing = {.context = 4096, .inner = 8192, .epsilon = 1e-5}};
extern const Architecture kArchitectureGpt2 = {.name = "gpt2",
                                               .gguf = "gpt2",
                                               .names = kGpt2Names,
                                               .function = GateFunction::kGeluTanh,
                                               .gated = false,
                                               .layer_norm = true,
                                               .learned_positions = true,
                                               .weights_by_input = true,
                                               .tied = true,
                                               .missing = {.context = 1024, .epsilon = 1e-5}};

}  // namespace evoq
