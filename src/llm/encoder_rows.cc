#include "base/rows.h"
#include "llm/encoder.h"

namespace evoq {
namespace {

// Names of layers begin behind "encoder.layer.N." or "transformer.layer.N.".
constexpr TensorName kBertNames[] = {
    {"embeddings.word_embeddings", "token_embd"},
    {"embeddings.position_embeddings", "position_embd"},
    {"embeddings.token_type_embeddings", "token_types"},
    {"embeddings.LayerNorm", "token_embd_norm"},
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
extern const EncoderFamily kEncoderDistilbert = {
    .name = "distilbert", .prefix = "distilbert.", .names = kDistilbertNames};

#define EVOQ_ROW_TYPE EncoderFamily
#define EVOQ_ROW_FILE "llm/encoders.inc"
#include "base/rows.inl.h"

std::span<const EncoderFamily* const> AllEncoderFamilies() { return kAllRows; }

const EncoderFamily* FindEncoderFamily(std::string_view model_type) {
  return FindRow(AllEncoderFamilies(), model_type);
}

}  // namespace evoq
