// Models that read one text and write another (T5, BART, Marian): folders of Hugging Face's
// transformers, and the graph of them.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/architecture.h"
#include "llm/target_facts.h"

namespace evoq {

enum class Places {
  kDistances,  // biases of attention by the bucket of a distance (Raffel et al., 2020)
  kLearned,    // a table that the folder has
  kSinusoids,  // one of sines and cosines
};

// A family: one row in llm/encoder_decoders.inc.
struct EncoderDecoderFamily {
  const char* name;                   // model_type of config.json
  const char* prefix;                 // of its tensors' names, where they have one
  std::span<const TensorName> names;  // whole ones, a `*` is the layer's number
  Places places = Places::kLearned;
  int64_t first_place = 0;  // the row of a table that is the first token's
  bool places_to_the_end =
      false;  // sinusoids: the last frequency is 1/10000, not the one before it
  bool distances_by_layer = false;  // each layer has biases of its own, not the first one's
  bool rms_norm = false;
  bool norms_before = false;       // of each block, and one behind all layers
  bool hears = false;              // reads frames of audio through two convolutions
  bool scaled_logits = false;      // by 1 / sqrt(width) where config.json does not say otherwise
  bool embeddings_scaled = false;  // scale_embedding, where config.json does not say
  // What config.json leaves out where it is equal (models/NAME/configuration_NAME.py, 5.24).
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, inner = 0, context = 1024;
  int64_t start = -1, end = -1, padding = -1, forced_end = -1;  // tokens; -1: none
  std::string_view function = "gelu";
};

std::span<const EncoderDecoderFamily* const> AllEncoderDecoders();
const EncoderDecoderFamily* FindEncoderDecoder(std::string_view model_type);

// One of the two stacks of layers.
struct Stack {
  int64_t layers = 0, heads = 0, inner = 0, vocabulary = 0;
};

struct EncoderDecoder {
  std::string family;  // the row's name
  Stack encoder, decoder;
  int64_t width = 0, head_size = 0;
  int64_t context = 0, source_context = 0;  // the most tokens of either text
  int64_t buckets = 0, farthest = 0;        // of distances
  bool gated = false;
  GateFunction function = GateFunction::kGelu;
  float epsilon = 1e-5f;
  float embedding_scale = 1, logit_scale = 1;
  TargetFacts target;
  std::vector<int64_t> end;
};

// The settings of a config.json of this family. Errors: kUnsupported for one that evoq lacks,
// kInvalidInput for one that is missing or of the wrong kind.
Result<EncoderDecoder> ReadEncoderDecoderConfig(const EncoderDecoderFamily& family,
                                                const nlohmann::json& config);
// What generation_config.json adds. Errors: as above.
Status ReadGenerationConfig(const nlohmann::json& config, EncoderDecoder& model);
// What preprocessor_config.json says of the features of a model that hears. Errors: as above.
Status ReadFeatureSettings(const nlohmann::json& config, EncoderDecoder& model);
// Of all that they say. Errors: kInvalidInput: a number is out of range or does not fit the others.
Status CheckEncoderDecoder(const EncoderDecoder& model);

// The graph of docs/llm.md: that of BuildLanguageModel for the decoder, and beside it
//   inputs source_ids int64[batch, source], new tokens of the text that is read, or
//   source_features float32[batch, frames, bins], of which two are a token; source_length
//   int64[batch], how many tokens of it there are; past_cross_key.N, past_cross_value.N
//   float32[batch, heads, source_context, head size];
//   outputs present_cross_key.N, present_cross_value.N.
// With a source of tokens their keys and values are written to the beginning of those caches;
// with one of no tokens, source_ids int64[batch, 0], the caches are read as they are. Errors: as
// BuildLanguageModel's.
Result<Graph> BuildEncoderDecoder(const EncoderDecoder& model, StoredTensors tensors,
                                  std::vector<std::string>& notes);

}  // namespace evoq
