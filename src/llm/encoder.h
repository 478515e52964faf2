// Encoders as BERT is one: folders of Hugging Face's transformers, and the graph of them.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/architecture.h"

namespace evoq {

// A family: one row in llm/encoders.inc.
struct EncoderFamily {
  const char* name;    // model_type of config.json
  const char* prefix;  // of its tensors' names, where they have one
  std::span<const TensorName> names;
  // What names of layers begin with, behind the prefix.
  std::string_view layers = "encoder.layer.";
  bool places_by_padding = false;  // tokens that are no padding are counted from padding + 1 on
  bool shared_layers = false;      // layers of one group have the same weights
  // Where config.json does not say: embedding_size (0: the width), hidden_act.
  int64_t embedding = 0;
  GateFunction function = GateFunction::kGelu;
  const char* head_function = "Tanh";  // behind the first of two matrices that sort texts
};

std::span<const EncoderFamily* const> AllEncoderFamilies();
const EncoderFamily* FindEncoderFamily(std::string_view model_type);

// What is behind an encoder: logits of a text's classes, of each token's, or of the tokens at which
// an answer begins and ends.
enum class EncoderHead { kNone, kTexts, kTokens, kAnswers };

struct Encoder {
  std::string family;  // the row's name
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, inner = 0, context = 0;
  int64_t embedding = 0;  // width of the tables
  int64_t groups = 0;     // of layers with the same weights
  int64_t types = 0;      // of tokens; 0: there is no such table
  int64_t padding = -1;   // the token that fills up, where places depend on it
  float epsilon = 1e-12f;
  GateFunction function = GateFunction::kGelu;
  EncoderHead head = EncoderHead::kNone;
};

// The settings of a config.json of this family. Errors: kUnsupported for one that evoq lacks,
// kInvalidInput for one that is missing, out of range or of the wrong kind.
Result<Encoder> ReadEncoderConfig(const EncoderFamily& family, const nlohmann::json& config);

// Inputs: input_ids and attention_mask int64[batch, sequence], and token_type_ids where there are
// several types. Outputs: last_hidden_state float32[batch, sequence, width]; pooler_output
// float32[batch, width] where the folder has a pooler. Before them those of the head: logits
// float32[batch, classes] or float32[batch, sequence, classes], or start_logits and end_logits
// float32[batch, sequence]. A head that is none of EncoderHead is left out: each gets a sentence in
// `notes`. Errors: as BuildLanguageModel's.
Result<Graph> BuildEncoder(const Encoder& encoder, StoredTensors tensors,
                           std::vector<std::string>& notes);

}  // namespace evoq
