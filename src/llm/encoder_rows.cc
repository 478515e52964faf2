#include "base/rows.h"
#include "llm/encoder.h"

namespace evoq {
namespace {

constexpr TensorName kBertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"embeddings_project", "token_embd_project"},
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
    {"pooler.dense", "pooler"},
};

// A group of layers holds one.
constexpr TensorName kAlbertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"encoder.embedding_hidden_mapping_in", "token_embd_project"},
    {"albert_layers.0.attention.query", "attn_q"},
    {"albert_layers.0.attention.key", "attn_k"},
    {"albert_layers.0.attention.value", "attn_v"},
    {"albert_layers.0.attention.dense", "attn_output"},
    {"albert_layers.0.attention.LayerNorm", "attn_output_norm"},
    {"albert_layers.0.ffn", "ffn_up"},
    {"albert_layers.0.ffn_output", "ffn_down"},
    {"albert_layers.0.full_layer_layer_norm", "layer_output_norm"},
    {"pooler", "pooler"},
};

constexpr TensorName kMpnetNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"encoder.relative_attention_bias", "distance_bias"},
    {"attention.attn.q", "attn_q"},
    {"attention.attn.k", "attn_k"},
    {"attention.attn.v", "attn_v"},
    {"attention.attn.o", "attn_output"},
    {"attention.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
    {"pooler.dense", "pooler"},
};

constexpr TensorName kDistilbertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.LayerNorm", "token_embd_norm"},
    {"attention.q_lin", "attn_q"},
    {"attention.k_lin", "attn_k"},
    {"attention.v_lin", "attn_v"},
    {"attention.out_lin", "attn_output"},
    {"sa_layer_norm", "attn_output_norm"},
    {"ffn.lin1", "ffn_up"},
    {"ffn.lin2", "ffn_down"},
    {"output_layer_norm", "layer_output_norm"},
};

}  // namespace

extern const EncoderFamily kEncoderBert = {.name = "bert", .prefix = "bert.", .names = kBertNames};
extern const EncoderFamily kEncoderRoberta = {
    .name = "roberta", .prefix = "roberta.", .names = kBertNames, .places_by_padding = true};
extern const EncoderFamily kEncoderXlmRoberta = {
    .name = "xlm-roberta", .prefix = "roberta.", .names = kBertNames, .places_by_padding = true};
extern const EncoderFamily kEncoderCamembert = {
    .name = "camembert", .prefix = "roberta.", .names = kBertNames, .places_by_padding = true};
extern const EncoderFamily kEncoderDistilbert = {.name = "distilbert",
                                                 .prefix = "distilbert.",
                                                 .names = kDistilbertNames,
                                                 .layers = "transformer.layer.",
                                                 .head_function = "Relu"};
extern const EncoderFamily kEncoderElectra = {.name = "electra",
                                              .prefix = "electra.",
                                              .names = kBertNames,
                                              .embedding = 128,
                                              .head_function = "Gelu"};
extern const EncoderFamily kEncoderAlbert = {.name = "albert",
                                             .prefix = "albert.",
                                             .names = kAlbertNames,
                                             .layers = "encoder.albert_layer_groups.",
                                             .shared_layers = true,
                                             .embedding = 128,
                                             .function = GateFunction::kGeluTanh};
extern const EncoderFamily kEncoderMpnet = {
    .name = "mpnet", .prefix = "mpnet.", .names = kMpnetNames, .places_by_padding = true};

#define EVOQ_ROW_TYPE EncoderFamily
#define EVOQ_ROW_FILE "llm/encoders.inc"
#include "base/rows.inl.h"

std::span<const EncoderFamily* const> AllEncoderFamilies() { return kAllRows; }

const EncoderFamily* FindEncoderFamily(std::string_view model_type) {
  return FindRow(AllEncoderFamilies(), model_type);
}

}  // namespace evoq
