#include "llm/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "base/file.h"
#include "base/json_file.h"
#include "llm/settings.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokenizer = size_t{64} << 20;

// Dubey et al., "The Llama 3 Herd of Models" (2024), as transformers computes it: waves longer than
// the old context are slowed down by the factor, short ones stay, those between are mixed.
Result<std::vector<double>> SlowedByWave(const json& scaling, double theta, int64_t rotated,
                                         double factor) {
  EVOQ_ASSIGN(const double low, Real(scaling, {"low_freq_factor"}, 1));
  EVOQ_ASSIGN(const double high, Real(scaling, {"high_freq_factor"}, 4));
  EVOQ_ASSIGN(const double old, Real(scaling, {"original_max_position_embeddings"}, 8192));
  if (!(low > 0 && high > low && old > 0))
    return InvalidInput("rope_scaling has low_freq_factor {} and high_freq_factor {}", low, high);
  std::vector<double> slow;
  for (int64_t i = 0; i < rotated / 2; ++i) {
    const double frequency =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
    const double turns = old * frequency / (2 * std::numbers::pi);  // in the old context
    const double mix = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    slow.push_back(1 / ((1 - mix) / factor + mix));
  }
  return slow;
}

Status ReadRope(const json& settings, int64_t rotated, Rope& rope) {
  EVOQ_ASSIGN(rope.theta, Real(settings, {"rope_theta"}, rope.theta));
  const json* type = First(settings, {"rope_type", "type"});
  if (type == nullptr || *type == "default") return {};
  EVOQ_ASSIGN(const double factor, Real(settings, {"factor"}, 1));
  if (*type == "linear") {
    rope.divisor = factor;
  } else if (*type == "llama3") {
    EVOQ_ASSIGN(rope.slow, SlowedByWave(settings, rope.theta, rotated, factor));
  } else {
    return Unsupported("rope_scaling of type {}, expected linear or llama3",
                       type->dump().substr(0, 60));
  }
  return {};
}

// What a setting is that the file does not have: the family's default, or what null means.
template <typename Number>
Number Missing(const json& config, const char* key, Number fallback, Number null) {
  return config.contains(key) || fallback == 0 ? null : fallback;
}

// A member that must be an object; null where there is none.
Result<const json*> Object(const json& config, const char* key) {
  if (!Given(config, key)) return nullptr;
  if (!config[key].is_object())
    return InvalidInput("{} is {}, expected an object", key, config[key].dump().substr(0, 60));
  return &config[key];
}

// Old files have rope_theta and rope_scaling, new ones rope_parameters, perhaps by type of layer.
Status ReadRopes(const Architecture& row, const json& config, LanguageModel& model) {
  EVOQ_ASSIGN(model.rope.theta, Real(config, {"rope_theta"}, row.missing.theta));
  EVOQ_ASSIGN(model.local_rope.theta,
              Real(config, {"rope_local_base_freq"}, model.local_rope.theta));
  EVOQ_ASSIGN(const json* scaling, Object(config, "rope_scaling"));
  EVOQ_ASSIGN(const json* all, Object(config, "rope_parameters"));
  if (all == nullptr)
    return scaling == nullptr ? Status() : ReadRope(*scaling, model.rotated, model.rope);
  EVOQ_ASSIGN(const json* full, Object(*all, "full_attention"));
  EVOQ_ASSIGN(const json* sliding, Object(*all, "sliding_attention"));
  EVOQ_TRY(ReadRope(full != nullptr ? *full : *all, model.rotated, model.rope));
  if (sliding != nullptr) EVOQ_TRY(ReadRope(*sliding, model.rotated, model.local_rope));
  return {};
}

Status ReadWindows(const Architecture& row, const json& config, LanguageModel& model) {
  EVOQ_ASSIGN(model.window, Int(config, {"sliding_window"},
                                Missing<int64_t>(config, "sliding_window", row.missing.window, 0)));
  EVOQ_ASSIGN(const bool used,
              Truth(config, "use_sliding_window", row.windows != Windows::kIfAsked));
  if (row.windows == Windows::kNone || !used) model.window = 0;
  if (model.window == 0) return {};
  if (Given(config, "layer_types")) {
    for (const json& type : JsonArray(config, "layer_types")) {
      if (type != "sliding_attention" && type != "full_attention")
        return Unsupported("layer_types holds {}", type.dump().substr(0, 60));
      model.windowed.push_back(type == "sliding_attention");
    }
    return {};
  }
  if (row.windows == Windows::kIfAsked) {
    EVOQ_ASSIGN(const int64_t first,
                Int(config, {"max_window_layers"}, row.missing.first_windowed));
    for (int64_t i = 0; i < model.layers; ++i) model.windowed.push_back(i >= first);
  }
  if (row.windows == Windows::kAllButEveryNth) {
    EVOQ_ASSIGN(const int64_t period, Int(config, {"sliding_window_pattern"}, row.window_period));
    if (period < 1) return InvalidInput("sliding_window_pattern is 0, expected 1 or more");
    model.windowed = WindowedLayers(row, model.layers, period);
  }
  return {};
}

Status CheckSettings(const json& config) {
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "use_bidirectional_attention",
                          "add_cross_attention", "alt_window_attention"}) {
    if (Given(config, key) && config[key] != false) return Unsupported("{}", key);
  }
  if (Given(config, "scale_attn_weights") && config["scale_attn_weights"] != true)
    return Unsupported("scale_attn_weights false");
  return {};
}

std::string_view WithoutPrefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

// "" for a name that the row does not know.
std::string GgufName(const Architecture& row, std::string_view name) {
  name = WithoutPrefix(WithoutPrefix(name, "model."), "transformer.");
  std::string block;
  for (std::string_view prefix : {"layers.", "h."}) {
    if (!name.starts_with(prefix)) continue;
    const size_t end = name.find('.', prefix.size());
    if (end == name.npos) return "";
    const std::string_view number = name.substr(prefix.size(), end - prefix.size());
    if (number.empty() || number.size() > 4 ||
        number.find_first_not_of("0123456789") != number.npos ||
        (number.size() > 1 && number[0] == '0'))
      return "";
    block = fmt::format("blk.{}.", number);
    name = name.substr(end + 1);
  }
  for (std::string_view suffix : {".weight", ".bias"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    for (const TensorName& row_name : row.names) {
      if (row_name.hugging_face == stem)
        return block + std::string(row_name.gguf) + std::string(suffix);
    }
  }
  return "";
}

}  // namespace

Result<LanguageModel> ReadConfig(const json& config) {
  const std::string type = JsonText(config, "model_type");
  const Architecture* row = FindArchitecture(type);
  if (row == nullptr) return tl::unexpected(UnknownArchitecture("model_type", type).error());
  EVOQ_TRY(CheckSettings(config));
  LanguageModel m = StartOf(*row);
  m.norm_plus_one = row->norm_plus_one;
  m.weights_by_input = row->weights_by_input;
  EVOQ_ASSIGN(m.vocabulary, Int(config, {"vocab_size"}));
  EVOQ_ASSIGN(m.width, Int(config, {"hidden_size", "n_embd"}));
  EVOQ_ASSIGN(m.layers, Int(config, {"num_hidden_layers", "n_layer"}));
  EVOQ_ASSIGN(m.heads, Int(config, {"num_attention_heads", "n_head"}));
  if (m.heads == 0) return InvalidInput("num_attention_heads is 0");
  const MissingSettings& missing = row->missing;
  EVOQ_ASSIGN(m.kv_heads, Int(config, {"num_key_value_heads"},
                              Missing(config, "num_key_value_heads", missing.kv_heads, m.heads)));
  EVOQ_ASSIGN(m.head_size, Int(config, {"head_dim"},
                               Missing(config, "head_dim", missing.head_size, m.width / m.heads)));
  EVOQ_ASSIGN(m.inner, Int(config, {"intermediate_size", "n_inner"},
                           missing.inner > 0 ? missing.inner : 4 * m.width));
  EVOQ_ASSIGN(m.context, Int(config, {"max_position_embeddings", "n_positions"}, missing.context));
  EVOQ_TRY(CheckSizes(m));
  EVOQ_ASSIGN(const double epsilon,
              Real(config, {"rms_norm_eps", "layer_norm_epsilon"}, missing.epsilon));
  m.epsilon = static_cast<float>(epsilon);
  EVOQ_ASSIGN(m.tied, Truth(config, "tie_word_embeddings", row->tied));
  if (!row->function_is_fixed) {
    EVOQ_ASSIGN(m.function, Function(config, row->function));
  }
  const json& rope = Given(config, "rope_parameters") ? config["rope_parameters"] : config;
  EVOQ_ASSIGN(const double top, Real(config, {"partial_rotary_factor"}, 1));
  EVOQ_ASSIGN(const double share, Real(rope, {"partial_rotary_factor"}, top));
  if (!(share > 0 && share <= 1)) return InvalidInput("partial_rotary_factor is {}", share);
  m.rotated = static_cast<int64_t>(static_cast<double>(m.head_size) * share);
  if (!m.learned_positions) EVOQ_TRY(ReadRopes(*row, config, m));
  EVOQ_TRY(ReadWindows(*row, config, m));
  const auto cap_of = [&](const char* key, double fallback) {
    return Real(config, {key}, Missing<double>(config, key, fallback, 0));
  };
  EVOQ_ASSIGN(const double cap, cap_of("final_logit_softcapping", missing.logit_softcap));
  EVOQ_ASSIGN(const double attention_cap,
              cap_of("attn_logit_softcapping", missing.attention_softcap));
  m.logit_softcap = static_cast<float>(cap);
  m.attention_softcap = static_cast<float>(attention_cap);
  if (row->settings_scale_attention) {
    EVOQ_ASSIGN(const double size, Real(config, {"query_pre_attn_scalar"}, 256));
    if (!(size > 0)) return InvalidInput("query_pre_attn_scalar is {}", size);
    m.attention_scale = static_cast<float>(1 / std::sqrt(size));
  }
  EVOQ_ASSIGN(m.begin, Ids(config, "bos_token_id"));
  EVOQ_ASSIGN(m.end, Ids(config, "eos_token_id"));
  Complete(*row, m);
  EVOQ_TRY(CheckLanguageModel(m));
  return m;
}

Status ReadTextSettings(const json& config, LanguageModel& model) {
  EVOQ_ASSIGN(model.context, Int(config, {"max_position_embeddings", "n_positions"}, 0));
  EVOQ_ASSIGN(model.vocabulary, Int(config, {"vocab_size"}, model.vocabulary));
  EVOQ_ASSIGN(model.begin, Ids(config, "bos_token_id"));
  EVOQ_ASSIGN(model.end, Ids(config, "eos_token_id"));
  return {};
}

StoredTensors RenamedTensors(const Architecture& row, StoredTensors tensors) {
  StoredTensors renamed;
  for (auto& [name, tensor] : tensors) {
    const std::string known = GgufName(row, name);
    // What two names stand for keeps the second one, which then has no place.
    if (known.empty() || !renamed.emplace(known, tensor).second)
      renamed.emplace(name, std::move(tensor));
  }
  return renamed;
}

std::string HuggingFaceName(const Architecture& row, std::string_view gguf) {
  std::string prefix = "model.";
  if (gguf.starts_with("blk.")) {
    const size_t end = gguf.find('.', 4);
    prefix += fmt::format("layers.{}.", gguf.substr(4, end - 4));
    gguf = gguf.substr(end + 1);
  }
  if (gguf == "output") prefix.clear();
  for (const TensorName& name : row.names) {
    if (name.gguf == gguf) return prefix + std::string(name.hugging_face);
  }
  return "";
}

Status ReadTokenizerFiles(const std::string& folder, LanguageModel& model) {
  std::error_code error;
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(folder + "/" + name, error);
  };
  const auto keep = [&](const char* name) -> Status {
    if (!exists(name)) return {};
    EVOQ_ASSIGN(model.files[name], ReadTextFile(folder + "/" + name, kMaxTokenizer));
    return {};
  };
  if (exists("tokenizer.json")) {
    EVOQ_TRY(keep("tokenizer.json"));
  } else if (exists("tokenizer.model")) {
    EVOQ_TRY(keep("tokenizer.model"));
  } else {
    EVOQ_TRY(keep("vocab.json"));
    EVOQ_TRY(keep("merges.txt"));
  }
  EVOQ_TRY(keep("tokenizer_config.json"));
  EVOQ_TRY(keep("chat_template.jinja"));
  EVOQ_TRY(keep("additional_chat_templates/tool_use.jinja"));
  if (exists("generation_config.json")) {
    EVOQ_ASSIGN(const json generation, ReadJsonFile(folder + "/generation_config.json"));
    EVOQ_ASSIGN(const auto ends,
                WithContext(Ids(generation, "eos_token_id"), folder + "/generation_config.json"));
    for (int64_t id : ends) {
      if (id < model.vocabulary && std::ranges::find(model.end, id) == model.end.end())
        model.end.push_back(id);
    }
  }
  if (exists("chat_template.jinja")) {
    model.chat_template = model.files["chat_template.jinja"];
  } else if (exists("tokenizer_config.json")) {
    EVOQ_ASSIGN(const json settings, WithContext(ParseJson(model.files["tokenizer_config.json"]),
                                                 folder + "/tokenizer_config.json"));
    model.chat_template = JsonText(settings, "chat_template");
    for (const json& one : JsonArray(settings, "chat_template")) {
      if (JsonText(one, "name") == "default") model.chat_template = JsonText(one, "template");
    }
  }
  return {};
}

}  // namespace evoq
