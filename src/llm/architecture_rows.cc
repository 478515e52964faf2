#include "llm/architecture.h"

namespace evoq {
namespace {

// Of most decoders.
constexpr TensorName kDecoderNames[] = {
    {"embed_tokens", "token_embd"}, {"norm", "output_norm"},
    {"lm_head", "output"},          {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
};

constexpr auto kLlamaNames = Joined(kDecoderNames, {
                                                       {"post_attention_layernorm", "ffn_norm"},
                                                       {"self_attn.qkv_proj", "attn_qkv"},
                                                       {"self_attn.q_norm", "attn_q_norm"},
                                                       {"self_attn.k_norm", "attn_k_norm"},
                                                       {"mlp.gate_proj", "ffn_gate"},
                                                       {"mlp.up_proj", "ffn_up"},
                                                       {"mlp.gate_up_proj", "ffn_up"},
                                                       {"mlp.down_proj", "ffn_down"},
                                                   });

// Of experts, one by one or stacked as transformers has them in memory, and the shared one.
constexpr auto kQwenMoeNames =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"self_attn.q_norm", "attn_q_norm"},
                              {"self_attn.k_norm", "attn_k_norm"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                              {"mlp.gate", "ffn_gate_inp"},
                              {"mlp.experts.*.gate_proj", "ffn_gate.*"},
                              {"mlp.experts.*.up_proj", "ffn_up.*"},
                              {"mlp.experts.*.down_proj", "ffn_down.*"},
                              {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"},
                              {"mlp.experts.down_proj", "ffn_down_exps"},
                              {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                              {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                              {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                              {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                          });

constexpr auto kMixtralNames =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"block_sparse_moe.gate", "ffn_gate_inp"},
                              {"block_sparse_moe.experts.*.w1", "ffn_gate.*"},
                              {"block_sparse_moe.experts.*.w3", "ffn_up.*"},
                              {"block_sparse_moe.experts.*.w2", "ffn_down.*"},
                              {"mlp.gate", "ffn_gate_inp"},
                              {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"},
                              {"mlp.experts.down_proj", "ffn_down_exps"},
                          });

constexpr auto kGraniteMoeNames =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"block_sparse_moe.router.layer", "ffn_gate_inp"},
                              {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                              {"block_sparse_moe.output_linear", "ffn_down_exps"},
                              {"shared_mlp.input_linear", "ffn_up_shexp"},
                              {"shared_mlp.output_linear", "ffn_down_shexp"},
                          });

// Experts' gates and ups are one stack, in turn (llm/experts_in_turn.h).
constexpr auto kGptOssNames =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"self_attn.sinks", "attn_sinks"},
                              {"mlp.router", "ffn_gate_inp"},
                              {"mlp.experts.gate_up_proj", "ffn_pair_exps"},
                              {"mlp.experts.gate_up_proj_bias", "ffn_pair_bias"},
                              {"mlp.experts.gate_up_proj_blocks", "ffn_pair_blocks"},
                              {"mlp.experts.gate_up_proj_scales", "ffn_pair_scales"},
                              {"mlp.experts.down_proj", "ffn_last_exps"},
                              {"mlp.experts.down_proj_bias", "ffn_last_bias"},
                              {"mlp.experts.down_proj_blocks", "ffn_last_blocks"},
                              {"mlp.experts.down_proj_scales", "ffn_last_scales"},
                          });

// Norms before and behind each block.
constexpr auto kGemma2Names =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "post_attention_norm"},
                              {"pre_feedforward_layernorm", "ffn_norm"},
                              {"post_feedforward_layernorm", "post_ffw_norm"},
                              {"self_attn.q_norm", "attn_q_norm"},
                              {"self_attn.k_norm", "attn_k_norm"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                          });

constexpr TensorName kGpt2Names[] = {
    {"wte", "token_embd"},          {"wpe", "position_embd"}, {"ln_f", "output_norm"},
    {"lm_head", "output"},          {"ln_1", "attn_norm"},    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"}, {"ln_2", "ffn_norm"},     {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

// One norm for both blocks.
constexpr TensorName kPhiNames[] = {
    {"embed_tokens", "token_embd"},
    {"final_layernorm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.dense", "attn_output"},
    {"self_attn.q_layernorm", "attn_q_norm"},
    {"self_attn.k_layernorm", "attn_k_norm"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
};

constexpr auto kStarcoder2Names =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"mlp.c_fc", "ffn_up"},
                              {"mlp.c_proj", "ffn_down"},
                          });

constexpr auto kGlm4Names =
    Joined(kDecoderNames, {
                              {"post_self_attn_layernorm", "post_attention_norm"},
                              {"post_attention_layernorm", "ffn_norm"},
                              {"post_mlp_layernorm", "post_ffw_norm"},
                              {"mlp.gate_up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                          });

constexpr TensorName kNeoxNames[] = {
    {"embed_in", "token_embd"},
    {"final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};

constexpr TensorName kModernBertNames[] = {
    {"embeddings.tok_embeddings", "token_embd"},
    {"embeddings.norm", "token_embd_norm"},
    {"final_norm", "output_norm"},
    {"attn_norm", "attn_norm"},
    {"attn.Wqkv", "attn_qkv"},
    {"attn.Wo", "attn_output"},
    {"mlp_norm", "ffn_norm"},
    {"mlp.Wi", "ffn_up"},
    {"mlp.Wo", "ffn_down"},
};

// Norms of queries and keys by head.
constexpr auto kStableLmNames =
    Joined(kDecoderNames, {
                              {"post_attention_layernorm", "ffn_norm"},
                              {"self_attn.q_layernorm.norms.*", "attn_q_norm.*"},
                              {"self_attn.k_layernorm.norms.*", "attn_k_norm.*"},
                              {"self_attn.q_layernorm", "attn_q_norm"},
                              {"self_attn.k_layernorm", "attn_k_norm"},
                              {"mlp.gate_proj", "ffn_gate"},
                              {"mlp.up_proj", "ffn_up"},
                              {"mlp.down_proj", "ffn_down"},
                          });

constexpr TensorName kOptNames[] = {
    {"embed_tokens", "token_embd"},
    {"embed_positions", "position_embd"},
    {"final_layer_norm", "output_norm"},
    {"lm_head", "output"},
    {"self_attn_layer_norm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_output"},
    {"final_layer_norm", "ffn_norm"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};

constexpr TensorName kGptJNames[] = {
    {"wte", "token_embd"},      {"ln_f", "output_norm"},          {"lm_head", "output"},
    {"ln_1", "attn_norm"},      {"attn.q_proj", "attn_q"},        {"attn.k_proj", "attn_k"},
    {"attn.v_proj", "attn_v"},  {"attn.out_proj", "attn_output"}, {"mlp.fc_in", "ffn_up"},
    {"mlp.fc_out", "ffn_down"},
};

constexpr TensorName kGptNeoNames[] = {
    {"wte", "token_embd"},
    {"wpe", "position_embd"},
    {"ln_f", "output_norm"},
    {"lm_head", "output"},
    {"ln_1", "attn_norm"},
    {"attn.attention.q_proj", "attn_q"},
    {"attn.attention.k_proj", "attn_k"},
    {"attn.attention.v_proj", "attn_v"},
    {"attn.attention.out_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
};

constexpr TensorName kFalconNames[] = {
    {"word_embeddings", "token_embd"},
    {"ln_f", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"ln_attn", "attn_norm"},
    {"ln_mlp", "ffn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};

constexpr TensorName kBloomNames[] = {
    {"word_embeddings", "token_embd"},
    {"word_embeddings_layernorm", "token_embd_norm"},
    {"ln_f", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attention.query_key_value", "attn_qkv"},
    {"self_attention.dense", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};

constexpr TensorName kMptNames[] = {
    {"wte", "token_embd"},   {"norm_f", "output_norm"}, {"lm_head", "output"},
    {"norm_1", "attn_norm"}, {"attn.Wqkv", "attn_qkv"}, {"attn.out_proj", "attn_output"},
    {"norm_2", "ffn_norm"},  {"ffn.up_proj", "ffn_up"}, {"ffn.down_proj", "ffn_down"},
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
extern const Architecture kArchitectureMinistral3 = {.name = "ministral3",
                                                     .gguf = "",
                                                     .names = kLlamaNames,
                                                     .missing = {.context = 262144,
                                                                 .inner = 14336,
                                                                 .kv_heads = 8,
                                                                 .head_size = 128,
                                                                 .epsilon = 1e-5,
                                                                 .theta = 1e6}};
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
                                                 .missing = {.vocabulary = 262208,
                                                             .heads = 8,
                                                             .context = 131072,
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
                                               .prefix = "transformer.",
                                               .layers = "h.",
                                               .function = GateFunction::kGeluTanh,
                                               .gated = false,
                                               .layer_norm = true,
                                               .learned_positions = true,
                                               .weights_by_input = true,
                                               .tied = true,
                                               .missing = {.context = 1024, .epsilon = 1e-5}};
extern const Architecture kArchitecturePhi = {
    .name = "phi",
    .gguf = "phi2",
    .names = kPhiNames,
    .function = GateFunction::kGeluTanh,
    .gated = false,
    .layer_norm = true,
    .parallel = true,
    .missing = {.context = 2048, .inner = 8192, .epsilon = 1e-5, .rotated = 0.5}};
extern const Architecture kArchitectureNeox = {
    .name = "gpt_neox",
    .gguf = "gptneox",
    .names = kNeoxNames,
    .prefix = "gpt_neox.",
    .function = GateFunction::kGelu,
    .gated = false,
    .layer_norm = true,
    .parallel = true,
    .joined_by_head = true,
    .missing = {.context = 2048, .inner = 24576, .epsilon = 1e-5, .rotated = 0.25}};
extern const Architecture kArchitectureStableLm = {
    .name = "stablelm",
    .gguf = "stablelm",
    .names = kStableLmNames,
    .layer_norm = true,
    .missing = {.context = 4096, .inner = 6912, .kv_heads = 32, .epsilon = 1e-5, .rotated = 0.25}};
extern const Architecture kArchitectureGranite = {
    .name = "granite",
    .gguf = "granite",
    .names = kLlamaNames,
    .gguf_interleaved = true,
    .gguf_divides_logits = true,
    .missing = {.context = 2048, .inner = 11008, .attention_scale = 1}};
// GGUF's olmo2 is OLMo 3 too, where it names a window.
extern const Architecture kArchitectureOlmo2 = {
    .name = "olmo2",
    .gguf = "olmo2",
    .names = kGemma2Names,
    .norms_before = false,
    .whole_norms = true,
    .windows = Windows::kAllButEveryNth,
    .window_period = 4,
    .scales_local_rope = false,
    .missing = {.context = 2048, .inner = 11008, .epsilon = 1e-5}};
extern const Architecture kArchitectureOlmo3 = {
    .name = "olmo3",
    .gguf = "",
    .names = kGemma2Names,
    .norms_before = false,
    .whole_norms = true,
    .windows = Windows::kAllButEveryNth,
    .window_period = 4,
    .scales_local_rope = false,
    .missing = {.context = 2048, .inner = 11008, .epsilon = 1e-5, .theta = 500000, .window = 4096}};
extern const Architecture kArchitectureSmolLm3 = {
    .name = "smollm3",
    .gguf = "smollm3",
    .names = kLlamaNames,
    .gguf_interleaved = true,
    .tied = true,
    .windows = Windows::kIfAsked,
    .unturned_period = 4,
    .missing = {.context = 32768, .inner = 11008, .kv_heads = 4, .theta = 2e6}};
extern const Architecture kArchitectureModernBert = {
    .name = "modernbert",
    .gguf = "",
    .names = kModernBertNames,
    .function = GateFunction::kGelu,
    .layer_norm = true,
    .embedding_norm = true,
    .bidirectional = true,
    .windows = Windows::kAllButFirstOfN,
    .window_period = 3,
    .local_theta = 10000,
    .missing = {.context = 8192, .inner = 1152, .epsilon = 1e-5, .theta = 160000, .window = 128}};
extern const Architecture kArchitectureStarcoder2 = {
    .name = "starcoder2",
    .gguf = "starcoder2",
    .names = kStarcoder2Names,
    .function = GateFunction::kGeluTanh,
    .gated = false,
    .layer_norm = true,
    .tied = true,
    .windows = Windows::kAll,
    .missing = {.context = 4096, .inner = 12288, .kv_heads = 2, .epsilon = 1e-5}};
extern const Architecture kArchitectureCohere = {
    .name = "cohere",
    .gguf = "command-r",
    .names = kLlamaNames,
    .layer_norm = true,
    .parallel = true,
    .interleaved = true,
    .gguf_interleaved = true,
    .tied = true,
    .missing = {
        .context = 8192, .inner = 22528, .epsilon = 1e-5, .theta = 500000, .logit_scale = 0.0625}};
extern const Architecture kArchitectureCohere2 = {
    .name = "cohere2",
    .gguf = "cohere2",
    .names = kLlamaNames,
    .layer_norm = true,
    .parallel = true,
    .interleaved = true,
    .gguf_interleaved = true,
    .tied = true,
    .windows = Windows::kAllButEveryNth,
    .window_period = 4,
    .unturned_if_global = true,
    .missing = {
        .context = 8192, .inner = 22528, .epsilon = 1e-5, .window = 4096, .logit_scale = 0.0625}};
extern const Architecture kArchitectureArcee = {
    .name = "arcee",
    .gguf = "arcee",
    .names = kLlamaNames,
    .function = GateFunction::kReluSquared,
    .gated = false,
    .gguf_interleaved = true,
    .missing = {.context = 4096, .inner = 18432, .epsilon = 1e-5}};
extern const Architecture kArchitectureNemotron = {
    .name = "nemotron",
    .gguf = "nemotron",
    .names = kLlamaNames,
    .function = GateFunction::kReluSquared,
    .gated = false,
    .layer_norm = true,
    .norm_plus_one = true,
    .missing = {.context = 4096, .inner = 24576, .epsilon = 1e-5, .rotated = 0.5}};
extern const Architecture kArchitectureErnie = {.name = "ernie4_5",
                                                .gguf = "ernie4_5",
                                                .names = kLlamaNames,
                                                .interleaved = true,
                                                .gguf_interleaved = true,
                                                .tied = true,
                                                .missing = {.context = 131072,
                                                            .inner = 3072,
                                                            .kv_heads = 2,
                                                            .head_size = 128,
                                                            .epsilon = 1e-5,
                                                            .theta = 500000}};
extern const Architecture kArchitectureSeedOss = {
    .name = "seed_oss",
    .gguf = "",
    .names = kLlamaNames,
    .missing = {.context = 524288, .inner = 27648, .kv_heads = 8, .head_size = 128}};
extern const Architecture kArchitectureExaone4 = {
    .name = "exaone4",
    .gguf = "",
    .names = kGemma2Names,
    .norms_before = false,
    .windows = Windows::kAllButEveryNth,
    .window_period = 4,
    .unturned_if_global = true,
    .missing = {.context = 2048, .inner = 16384, .kv_heads = 32, .epsilon = 1e-5, .window = 4096}};
extern const Architecture kArchitectureGlm4 = {.name = "glm4",
                                               .gguf = "",
                                               .names = kGlm4Names,
                                               .interleaved = true,
                                               .missing = {.context = 131072,
                                                           .inner = 13696,
                                                           .kv_heads = 2,
                                                           .head_size = 128,
                                                           .epsilon = 1.5625e-7,
                                                           .rotated = 0.5}};
// The language models of Qwen's models of pictures and text.
extern const Architecture kArchitectureQwen25Vl = {.name = "qwen2_5_vl_text",
                                                   .gguf = "",
                                                   .names = kLlamaNames,
                                                   .windows = Windows::kIfAsked,
                                                   .missing = {.context = 32768,
                                                               .inner = 29568,
                                                               .kv_heads = 8,
                                                               .epsilon = 1e-5,
                                                               .theta = 1e6,
                                                               .window = 4096,
                                                               .first_windowed = 80}};
extern const Architecture kArchitectureQwen3Vl = {
    .name = "qwen3_vl_text",
    .gguf = "",
    .names = kLlamaNames,
    .missing = {
        .context = 128000, .inner = 22016, .kv_heads = 32, .head_size = 128, .theta = 500000}};

extern const Architecture kArchitectureMixtral = {.name = "mixtral",
                                                  .gguf = "",
                                                  .names = kMixtralNames,
                                                  .windows = Windows::kAll,
                                                  .experts = true,
                                                  .normalizes_experts = true,
                                                  .missing = {.context = 131072,
                                                              .inner = 14336,
                                                              .kv_heads = 8,
                                                              .epsilon = 1e-5,
                                                              .theta = 1e6,
                                                              .experts = 8,
                                                              .used_experts = 2}};
extern const Architecture kArchitectureQwen2Moe = {.name = "qwen2_moe",
                                                   .gguf = "qwen2moe",
                                                   .names = kQwenMoeNames,
                                                   .windows = Windows::kIfAsked,
                                                   .experts = true,
                                                   .missing = {.context = 32768,
                                                               .inner = 5632,
                                                               .kv_heads = 16,
                                                               .window = 4096,
                                                               .first_windowed = 28,
                                                               .experts = 60,
                                                               .used_experts = 4,
                                                               .expert_inner = 1408,
                                                               .shared_expert = 5632}};
extern const Architecture kArchitectureQwen3Moe = {.name = "qwen3_moe",
                                                   .gguf = "qwen3moe",
                                                   .names = kQwenMoeNames,
                                                   .windows = Windows::kIfAsked,
                                                   .experts = true,
                                                   .gguf_normalizes_experts = true,
                                                   .missing = {.context = 32768,
                                                               .inner = 6144,
                                                               .kv_heads = 4,
                                                               .window = 4096,
                                                               .experts = 128,
                                                               .used_experts = 8,
                                                               .expert_inner = 768}};
extern const Architecture kArchitectureOlmoe = {
    .name = "olmoe",
    .gguf = "olmoe",
    .names = kQwenMoeNames,
    .whole_norms = true,
    .experts = true,
    .missing = {.context = 4096, .inner = 2048, .epsilon = 1e-5, .experts = 64, .used_experts = 8}};
extern const Architecture kArchitectureGraniteMoe = {
    .name = "granitemoe",
    .gguf = "granitemoe",
    .names = kGraniteMoeNames,
    .gguf_interleaved = true,
    .gguf_divides_logits = true,
    .experts = true,
    .normalizes_experts = true,
    .gguf_normalizes_experts = true,
    .missing = {
        .context = 2048, .inner = 11008, .attention_scale = 1, .experts = 8, .used_experts = 2}};
// GGUF's granitemoe is this one too.
extern const Architecture kArchitectureGraniteMoeShared = {.name = "granitemoeshared",
                                                           .gguf = "",
                                                           .names = kGraniteMoeNames,
                                                           .experts = true,
                                                           .normalizes_experts = true,
                                                           .missing = {.context = 2048,
                                                                       .inner = 11008,
                                                                       .attention_scale = 1,
                                                                       .experts = 8,
                                                                       .used_experts = 2,
                                                                       .shared_expert = 1024}};
extern const Architecture kArchitectureGptOss = {.name = "gpt_oss",
                                                 .gguf = "gpt-oss",
                                                 .names = kGptOssNames,
                                                 .windows = Windows::kAllButEveryNth,
                                                 .window_period = 2,
                                                 .experts = true,
                                                 .normalizes_experts = true,
                                                 .gguf_normalizes_experts = true,
                                                 .missing = {.context = 131072,
                                                             .inner = 2880,
                                                             .kv_heads = 8,
                                                             .head_size = 64,
                                                             .epsilon = 1e-5,
                                                             .theta = 150000,
                                                             .window = 128,
                                                             .experts = 128,
                                                             .used_experts = 4,
                                                             .gate_limit = 7,
                                                             .gate_alpha = 1.702}};

// Tables of positions begin with two rows of padding.
extern const Architecture kArchitectureOpt = {
    .name = "opt",
    .gguf = "",
    .names = kOptNames,
    .prefix = "model.decoder.",
    .function = GateFunction::kRelu,
    .gated = false,
    .layer_norm = true,
    .learned_positions = true,
    .first_position = 2,
    .tied = true,
    .missing = {.context = 2048, .inner = 3072, .epsilon = 1e-5}};
extern const Architecture kArchitectureGptJ = {.name = "gptj",
                                               .gguf = "",
                                               .names = kGptJNames,
                                               .prefix = "transformer.",
                                               .layers = "h.",
                                               .function = GateFunction::kGeluTanh,
                                               .gated = false,
                                               .layer_norm = true,
                                               .parallel = true,
                                               .interleaved = true,
                                               .missing = {.context = 2048, .epsilon = 1e-5}};
// TinyStories' models are of this family.
extern const Architecture kArchitectureGptNeo = {
    .name = "gpt_neo",
    .gguf = "",
    .names = kGptNeoNames,
    .prefix = "transformer.",
    .layers = "h.",
    .function = GateFunction::kGeluTanh,
    .gated = false,
    .layer_norm = true,
    .learned_positions = true,
    .tied = true,
    .windows = Windows::kAllButFirstOfN,
    .window_period = 2,
    .missing = {.context = 2048, .epsilon = 1e-5, .window = 256, .attention_scale = 1}};
// The first StarCoder.
extern const Architecture kArchitectureGptBigCode = {.name = "gpt_bigcode",
                                                     .gguf = "",
                                                     .names = kGpt2Names,
                                                     .prefix = "transformer.",
                                                     .layers = "h.",
                                                     .function = GateFunction::kGeluTanh,
                                                     .gated = false,
                                                     .layer_norm = true,
                                                     .learned_positions = true,
                                                     .joined_by_head = true,
                                                     .tied = true,
                                                     .one_key_head = true,
                                                     .missing = {.context = 1024, .epsilon = 1e-5}};
extern const Architecture kArchitectureFalcon = {.name = "falcon",
                                                 .gguf = "",
                                                 .names = kFalconNames,
                                                 .prefix = "transformer.",
                                                 .layers = "h.",
                                                 .function = GateFunction::kGelu,
                                                 .gated = false,
                                                 .layer_norm = true,
                                                 .slopes = Slopes::kIfAsked,
                                                 .parallel = true,
                                                 .joined_by_head = true,
                                                 .tied = true,
                                                 .one_key_head = true,
                                                 .missing = {.context = 2048, .epsilon = 1e-5}};
extern const Architecture kArchitectureOlmo = {
    .name = "olmo",
    .gguf = "",
    .names = kLlamaNames,
    .layer_norm = true,
    .plain_norms = true,
    .missing = {.context = 2048, .inner = 11008, .epsilon = 1e-5}};
extern const Architecture kArchitectureGlm = {.name = "glm",
                                              .gguf = "",
                                              .names = kLlamaNames,
                                              .interleaved = true,
                                              .missing = {.context = 131072,
                                                          .inner = 13696,
                                                          .kv_heads = 2,
                                                          .head_size = 128,
                                                          .epsilon = 1.5625e-7,
                                                          .rotated = 0.5}};
extern const Architecture kArchitectureHelium = {
    .name = "helium",
    .gguf = "",
    .names = kLlamaNames,
    .interleaved = true,
    .missing = {.context = 4096, .inner = 7040, .kv_heads = 20, .head_size = 128, .epsilon = 1e-8}};
// Gemma 2 without norms behind blocks.
extern const Architecture kArchitectureVaultGemma = {.name = "vaultgemma",
                                                     .gguf = "",
                                                     .names = kGemma2Names,
                                                     .function = GateFunction::kGeluTanh,
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
// Granite 4, where all layers are attention.
extern const Architecture kArchitectureGraniteMoeHybrid = {.name = "granitemoehybrid",
                                                           .gguf = "",
                                                           .names = kGraniteMoeNames,
                                                           .experts = true,
                                                           .normalizes_experts = true,
                                                           .hybrid = true,
                                                           .missing = {.context = 2048,
                                                                       .inner = 11008,
                                                                       .attention_scale = 1,
                                                                       .experts = 8,
                                                                       .used_experts = 2,
                                                                       .shared_expert = 1024}};

extern const Architecture kArchitectureBloom = {.name = "bloom",
                                                .gguf = "bloom",
                                                .names = kBloomNames,
                                                .prefix = "transformer.",
                                                .layers = "h.",
                                                .function = GateFunction::kGeluTanh,
                                                .function_is_fixed = true,
                                                .gated = false,
                                                .layer_norm = true,
                                                .slopes = Slopes::kAll,
                                                .embedding_norm = true,
                                                .joined_by_head = true,
                                                .tied = true,
                                                .missing = {.context = 2048, .epsilon = 1e-5}};
extern const Architecture kArchitectureMpt = {.name = "mpt",
                                              .gguf = "mpt",
                                              .names = kMptNames,
                                              .prefix = "transformer.",
                                              .layers = "blocks.",
                                              .function = GateFunction::kGelu,
                                              .function_is_fixed = true,
                                              .gated = false,
                                              .layer_norm = true,
                                              .slopes = Slopes::kAll,
                                              .tied = true,
                                              .missing = {.context = 2048, .epsilon = 1e-5}};

}  // namespace evoq
