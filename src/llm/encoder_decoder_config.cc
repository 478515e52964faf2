#include <algorithm>
#include <cmath>

#include "base/json_file.h"
#include "llm/encoder_decoder.h"
#include "llm/settings.h"

namespace evoq {
namespace {

using nlohmann::json;

// "relu", "gated-gelu": T5's feed_forward_proj; others name the function alone.
Status ReadFunction(const EncoderDecoderFamily& family, const json& config, EncoderDecoder& m) {
  const char* const key =
      family.places == Places::kDistances ? "feed_forward_proj" : "activation_function";
  if (Given(config, key) && !config[key].is_string())
    return InvalidInput("{} is {}, expected a name", key, config[key].dump().substr(0, 60));
  std::string name = Given(config, key) ? JsonText(config, key) : std::string(family.function);
  constexpr std::string_view kGated = "gated-";
  m.gated = name.starts_with(kGated);
  if (m.gated) name = name == "gated-gelu" ? "gelu_new" : name.substr(kGated.size());
  EVOQ_ASSIGN(m.function, WithContext(FindGateFunction(name), key));
  return {};
}

// Tokens of a key, of the family where it is not there and the vocabulary has it; null is none.
Result<std::vector<int64_t>> IdsOr(const json& config, const char* key, int64_t missing,
                                   int64_t vocabulary) {
  if (config.contains(key) || missing < 0 || missing >= vocabulary) return Ids(config, key);
  return std::vector<int64_t>{missing};
}

Status ReadSizes(const EncoderDecoderFamily& family, const json& config, EncoderDecoder& m) {
  const bool t5 = family.places == Places::kDistances;
  EVOQ_ASSIGN(m.width, Int(config, {"d_model"}, family.width));
  EVOQ_ASSIGN(m.encoder.vocabulary, Int(config, {"vocab_size"}, family.vocabulary));
  EVOQ_ASSIGN(m.decoder.vocabulary, Int(config, {"decoder_vocab_size"}, m.encoder.vocabulary));
  EVOQ_ASSIGN(m.encoder.layers, Int(config, {t5 ? "num_layers" : "encoder_layers"}, family.layers));
  EVOQ_ASSIGN(m.decoder.layers, Int(config, {t5 ? "num_decoder_layers" : "decoder_layers"},
                                    t5 ? m.encoder.layers : family.layers));
  EVOQ_ASSIGN(m.encoder.heads,
              Int(config, {t5 ? "num_heads" : "encoder_attention_heads"}, family.heads));
  EVOQ_ASSIGN(m.decoder.heads,
              Int(config, {t5 ? "num_heads" : "decoder_attention_heads"}, family.heads));
  EVOQ_ASSIGN(m.encoder.inner, Int(config, {t5 ? "d_ff" : "encoder_ffn_dim"}, family.inner));
  EVOQ_ASSIGN(m.decoder.inner, Int(config, {t5 ? "d_ff" : "decoder_ffn_dim"}, family.inner));
  constexpr int64_t kHead = 64, kBuckets = 32, kFarthest = 128;
  if (t5) {
    EVOQ_ASSIGN(m.head_size, Int(config, {"d_kv"}, kHead));
    EVOQ_ASSIGN(m.buckets, Int(config, {"relative_attention_num_buckets"}, kBuckets));
    EVOQ_ASSIGN(m.farthest, Int(config, {"relative_attention_max_distance"}, kFarthest));
    m.context = m.source_context = kMostPositions;  // any text: far tokens are alike
    return {};
  }
  EVOQ_ASSIGN(m.context,
              Int(config, {family.hears ? "max_target_positions" : "max_position_embeddings"},
                  family.context));
  m.source_context = m.context;
  if (family.hears) {
    constexpr int64_t kSource = 1500, kBins = 80;
    EVOQ_ASSIGN(m.source_context, Int(config, {"max_source_positions"}, kSource));
    EVOQ_ASSIGN(m.target.audio.bins, Int(config, {"num_mel_bins"}, kBins));
    if (m.target.audio.bins < 1) return InvalidInput("num_mel_bins is 0, expected 1 or more");
  }
  if (m.encoder.heads < 1 || m.width % m.encoder.heads != 0 || m.decoder.heads != m.encoder.heads)
    return InvalidInput("width {} of {} heads and {}, expected a multiple of as many", m.width,
                        m.encoder.heads, m.decoder.heads);
  m.head_size = m.width / m.encoder.heads;
  if (family.places == Places::kSinusoids && m.width % 2 != 0)
    return InvalidInput("width {}, expected an even number", m.width);
  return {};
}

}  // namespace

Result<EncoderDecoder> ReadEncoderDecoderConfig(const EncoderDecoderFamily& family,
                                                const json& config) {
  EncoderDecoder m;
  m.family = family.name;
  if (Given(config, "quantization_config"))
    return Unsupported(
        "quantization_config is there: models of two texts that another tool quantized are not "
        "read");
  EVOQ_TRY(ReadSizes(family, config, m));
  EVOQ_TRY(ReadFunction(family, config, m));
  const double epsilon_of_family = family.rms_norm ? 1e-6 : 1e-5;
  EVOQ_ASSIGN(const double epsilon, Real(config, {"layer_norm_epsilon"}, epsilon_of_family));
  m.epsilon = static_cast<float>(family.rms_norm ? epsilon : epsilon_of_family);
  EVOQ_ASSIGN(const bool scaled, Truth(config, "scale_embedding", family.embeddings_scaled));
  if (scaled) m.embedding_scale = std::sqrt(static_cast<float>(m.width));
  if (family.scaled_logits) {
    EVOQ_ASSIGN(const bool tied, Truth(config, "tie_word_embeddings", true));
    EVOQ_ASSIGN(const bool scale, Truth(config, "scale_decoder_outputs", tied));
    if (scale) m.logit_scale = 1 / std::sqrt(static_cast<float>(m.width));
  }
  m.target.source_context = m.source_context;
  m.target.source_vocabulary = m.encoder.vocabulary;
  EVOQ_ASSIGN(m.end, IdsOr(config, "eos_token_id", family.end, m.decoder.vocabulary));
  EVOQ_ASSIGN(m.target.start,
              IdsOr(config, "decoder_start_token_id", family.start, m.decoder.vocabulary));
  EVOQ_ASSIGN(m.target.forced_end,
              IdsOr(config, "forced_eos_token_id", family.forced_end, m.decoder.vocabulary));
  EVOQ_ASSIGN(m.target.forced_begin, Ids(config, "forced_bos_token_id"));
  EVOQ_TRY(ReadGenerationConfig(config, m));
  return m;
}

Status ReadGenerationConfig(const json& config, EncoderDecoder& m) {
  TargetFacts& t = m.target;
  const auto ids = [&](const char* key, std::vector<int64_t>& into) -> Status {
    if (!Given(config, key)) return {};
    EVOQ_ASSIGN(into, Ids(config, key));
    return {};
  };
  EVOQ_TRY(ids("eos_token_id", m.end));
  EVOQ_TRY(ids("decoder_start_token_id", t.start));
  EVOQ_TRY(ids("forced_eos_token_id", t.forced_end));
  EVOQ_TRY(ids("forced_bos_token_id", t.forced_begin));
  EVOQ_TRY(ids("suppress_tokens", t.suppressed));
  EVOQ_TRY(ids("begin_suppress_tokens", t.begin_suppressed));
  EVOQ_ASSIGN(t.audio.names_language, Truth(config, "is_multilingual", t.audio.names_language));
  for (const json& words : JsonArray(config, "bad_words_ids")) {
    if (!words.is_array() || words.size() != 1)
      return Unsupported("bad_words_ids holds {}, expected single tokens",
                         words.dump().substr(0, 60));
    EVOQ_ASSIGN(const auto one, Ids(json{{"bad_words_ids", words}}, "bad_words_ids"));
    if (std::ranges::find(t.suppressed, one[0]) == t.suppressed.end())
      t.suppressed.push_back(one[0]);
  }
  EVOQ_ASSIGN(t.no_repeat, Int(config, {"no_repeat_ngram_size"}, t.no_repeat));
  EVOQ_ASSIGN(const int64_t shortest, Int(config, {"min_length"}, 0));
  if (shortest > 0) t.min_tokens = std::max<int64_t>(0, shortest - 1);
  EVOQ_ASSIGN(t.length_penalty, Real(config, {"length_penalty"}, t.length_penalty));
  EVOQ_ASSIGN(t.early_stopping, Truth(config, "early_stopping", t.early_stopping));
  return {};
}

Status ReadFeatureSettings(const json& config, EncoderDecoder& m) {
  AudioFacts& a = m.target.audio;
  EVOQ_ASSIGN(const int64_t bins, Int(config, {"feature_size"}, a.bins));
  if (bins != a.bins)
    return InvalidInput("feature_size is {}, expected the model's {}", bins, a.bins);
  EVOQ_ASSIGN(a.rate, Int(config, {"sampling_rate"}, a.rate));
  EVOQ_ASSIGN(a.window, Int(config, {"n_fft"}, a.window));
  EVOQ_ASSIGN(a.hop, Int(config, {"hop_length"}, a.hop));
  EVOQ_ASSIGN(const double dither, Real(config, {"dither"}, 0));
  if (dither != 0) return Unsupported("dither is {}, expected 0", dither);
  return {};
}

Status CheckEncoderDecoder(const EncoderDecoder& m) {
  struct Size {
    const char* what;
    int64_t size, least, most;
  };
  std::vector<Size> sizes = {{"width", m.width, 1, 1 << 20},
                             {"head size", m.head_size, 1, 1 << 14},
                             {"context", m.context, 1, 1 << 24},
                             {"context of the source", m.source_context, 1, 1 << 24}};
  for (const Stack* stack : {&m.encoder, &m.decoder})
    sizes.insert(sizes.end(), {{"vocabulary", stack->vocabulary, 1, 1 << 24},
                               {"layers", stack->layers, 1, 1024},
                               {"heads", stack->heads, 1, 1 << 14},
                               {"inner width", stack->inner, 1, 1 << 22}});
  if (m.buckets != 0) {
    sizes.push_back({"relative_attention_num_buckets", m.buckets, 4, 1 << 12});
    sizes.push_back({"relative_attention_max_distance", m.farthest, m.buckets, 1 << 16});
  }
  for (const auto& [what, size, least, most] : sizes) {
    if (size < least || size > most)
      return InvalidInput("{} is {}, expected {} to {}", what, size, least, most);
  }
  if (m.buckets % 4 != 0)
    return InvalidInput("relative_attention_num_buckets is {}, expected a multiple of 4",
                        m.buckets);
  if (!(m.epsilon > 0 && m.epsilon < 1))
    return InvalidInput("epsilon of norms is {}, expected a small positive number", m.epsilon);
  for (const int64_t end : m.end) {
    if (end >= m.decoder.vocabulary)
      return InvalidInput("token {} of a vocabulary of {}", end, m.decoder.vocabulary);
  }
  return CheckTargetFacts(m.target, m.decoder.vocabulary);
}

}  // namespace evoq
