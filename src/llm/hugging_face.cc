#include "llm/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json_file.h"
#include "llm/encoder_decoder.h"
#include "llm/encoder_head.h"
#include "llm/rope.h"
#include "llm/settings.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokenizer = size_t{64} << 20;

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
  RopeSizes sizes{.rotated = model.rotated, .context = model.context};
  EVOQ_ASSIGN(sizes.original, Int(config, {"original_max_position_embeddings"}, 0));
  EVOQ_ASSIGN(model.rope.theta, Real(config, {"rope_theta", "global_rope_theta", "rotary_emb_base"},
                                     row.missing.theta));
  EVOQ_ASSIGN(const double local, Real(config, {"rope_local_base_freq", "local_rope_theta"}, 0));
  if (local != 0) model.local_rope = Rope{.theta = local};
  EVOQ_ASSIGN(const json* scaling, Object(config, "rope_scaling"));
  EVOQ_ASSIGN(const json* all, Object(config, "rope_parameters"));
  if (all == nullptr) return scaling == nullptr ? Status() : ReadRope(*scaling, sizes, model.rope);
  EVOQ_ASSIGN(const json* full, Object(*all, "full_attention"));
  EVOQ_ASSIGN(const json* sliding, Object(*all, "sliding_attention"));
  EVOQ_TRY(ReadRope(full != nullptr ? *full : *all, sizes, model.rope));
  if (sliding == nullptr) return {};
  if (!model.local_rope) model.local_rope = Rope{.theta = row.missing.theta};
  return ReadRope(*sliding, sizes, *model.local_rope);
}

// Granite 4's: no layer is turned but where the settings say so, and none is another kind of layer.
Status ReadHybrid(const json& config, LanguageModel& model) {
  if (JsonText(config, "position_embedding_type") != "rope")
    model.unturned.assign(static_cast<size_t>(model.layers), true);
  const json& types = JsonArray(config, "layer_types");
  const json& kinds = types.empty() ? JsonArray(config, "layers_block_type") : types;
  for (const json& type : kinds) {
    if (type != "attention" && type != "full_attention")
      return Unsupported("layer_types holds {}, expected \"attention\" alone",
                         type.dump().substr(0, 60));
  }
  if (kinds.empty())
    return Unsupported("layer_types is missing, expected \"attention\" of each layer");
  return {};
}

// Which layers are not turned.
Status ReadUnturned(const Architecture& row, const json& config, LanguageModel& model) {
  if (row.hybrid) return ReadHybrid(config, model);
  if (row.unturned_period == 0) return {};
  for (const json& turned : JsonArray(config, "no_rope_layers")) {
    if (turned != 0 && turned != 1)
      return InvalidInput("no_rope_layers holds {}, expected 0 or 1", turned.dump().substr(0, 60));
    model.unturned.push_back(turned == 0);
  }
  if (!model.unturned.empty()) return {};
  EVOQ_ASSIGN(const int64_t period, Int(config, {"no_rope_layer_interval"}, row.unturned_period));
  if (period < 1) return InvalidInput("no_rope_layer_interval is 0, expected 1 or more");
  for (int64_t i = 0; i < model.layers; ++i) model.unturned.push_back((i + 1) % period == 0);
  return {};
}

// GPT-Neo's: a list of types, or lists of types and how often they come.
Result<std::vector<bool>> LocalLayers(const json& config, int64_t layers) {
  const auto is_local = [](const json& type) -> Result<bool> {
    if (type == "local" || type == "global") return type == "local";
    return Unsupported("attention_types holds {}, expected \"global\" and \"local\"",
                       type.dump().substr(0, 60));
  };
  std::vector<bool> local;
  for (const json& part : JsonArray(config, "attention_types")) {
    const bool fits = part.is_array() && part.size() == 2 && part[0].is_array() &&
                      part[1].is_number_integer() && part[1] >= 0 && part[1] <= layers;
    if (!fits)
      return InvalidInput("attention_types holds {}, expected types and how often they come",
                          part.dump().substr(0, 60));
    for (int64_t i = 0; i < part[1].get<int64_t>(); ++i) {
      for (const json& type : part[0]) {
        EVOQ_ASSIGN(const bool is, is_local(type));
        local.push_back(is);
        if (std::ssize(local) > layers) break;
      }
    }
  }
  return local;
}

Status ReadWindows(const Architecture& row, const json& config, LanguageModel& model) {
  EVOQ_ASSIGN(model.window, Int(config, {"sliding_window", "local_attention", "window_size"},
                                Missing<int64_t>(config, "sliding_window", row.missing.window, 0)));
  // Half of it lies on either side.
  if (model.bidirectional && model.window > 0) model.window = model.window / 2 + 1;
  EVOQ_ASSIGN(const bool used,
              Truth(config, "use_sliding_window", row.windows != Windows::kIfAsked));
  if (row.windows == Windows::kNone || !used) model.window = 0;
  if (model.window == 0) return {};
  if (Given(config, "attention_types")) {
    EVOQ_ASSIGN(model.windowed, LocalLayers(config, model.layers));
    return {};
  }
  if (Given(config, "layer_types")) {
    for (const json& type : JsonArray(config, "layer_types")) {
      if (type != "sliding_attention" && type != "full_attention")
        return Unsupported(
            "layer_types holds {}, expected \"full_attention\" or \"sliding_attention\"",
            type.dump().substr(0, 60));
      model.windowed.push_back(type == "sliding_attention");
    }
    return {};
  }
  if (row.windows == Windows::kIfAsked) {
    model.windowed = model.unturned;
    if (!model.windowed.empty()) return {};
    EVOQ_ASSIGN(const int64_t first,
                Int(config, {"max_window_layers"}, row.missing.first_windowed));
    for (int64_t i = 0; i < model.layers; ++i) model.windowed.push_back(i >= first);
  }
  if (row.window_period > 0) {
    EVOQ_ASSIGN(
        const int64_t period,
        Int(config, {"sliding_window_pattern", "global_attn_every_n_layers"}, row.window_period));
    if (period < 1) return InvalidInput("sliding_window_pattern is 0, expected 1 or more");
    model.windowed = WindowedLayers(row, model.layers, period);
  }
  return {};
}

Status CheckSettings(const json& config) {
  // What would make another graph, and the only value that is read.
  constexpr std::pair<const char*, bool> kOnly[] = {
      {"scale_attn_by_inverse_layer_idx", false},
      {"add_cross_attention", false},
      {"alt_window_attention", false},
      {"apply_residual_connection_post_layernorm", false},
      {"do_layer_norm_before", true},
      {"_remove_final_layer_norm", false},
      {"scale_attn_weights", true}};
  for (const auto& [key, only] : kOnly) {
    if (Given(config, key) && config[key] != only)
      return Unsupported("{} is {}, expected {}", key, config[key].dump().substr(0, 60), only);
  }
  return {};
}

// BLOOM's, Falcon's, and MPT's, which says more of attention in an object of its own.
Status ReadSlopes(const Architecture& row, const json& config, LanguageModel& m) {
  EVOQ_ASSIGN(const bool asked, Truth(config, "alibi", row.slopes == Slopes::kAll));
  if (asked != (row.slopes == Slopes::kAll) && row.slopes != Slopes::kIfAsked)
    return Unsupported("alibi is {}, expected {}", asked, !asked);
  m.steepness = asked ? kUsualSteepness : 0;
  m.coarse_slopes = asked && row.slopes == Slopes::kIfAsked;
  EVOQ_ASSIGN(const json* own, Object(config, "attn_config"));
  if (own == nullptr || row.slopes != Slopes::kAll) return {};
  constexpr std::pair<const char*, bool> kOnly[] = {
      {"alibi", true}, {"prefix_lm", false}, {"qk_ln", false}};
  for (const auto& [key, only] : kOnly) {
    if (Given(*own, key) && (*own)[key] != only)
      return Unsupported("attn_config: {} is {}, expected {}", key,
                         (*own)[key].dump().substr(0, 60), only);
  }
  if (const std::string kind = JsonText(*own, "attn_type");
      !kind.empty() && kind != "multihead_attention")
    return Unsupported("attn_config: attn_type is '{}', expected multihead_attention",
                       kind.substr(0, 60));
  EVOQ_ASSIGN(const double steepness, Real(*own, {"alibi_bias_max"}, kUsualSteepness));
  if (!(steepness > 0 && steepness <= 64))
    return InvalidInput("attn_config: alibi_bias_max is {}, expected more than 0, at most 64",
                        steepness);
  m.steepness = static_cast<float>(steepness);
  return {};
}

// Heads of keys, where other settings than num_key_value_heads say them.
Result<int64_t> KeyHeads(const Architecture& row, const json& config, int64_t heads) {
  EVOQ_ASSIGN(const bool grouped, Truth(config, "new_decoder_architecture", false));
  EVOQ_ASSIGN(const bool one, Truth(config, "multi_query", row.one_key_head));
  if (one && !grouped) return 1;
  return Int(config, {"num_key_value_heads", "num_kv_heads"},
             Missing(config, "num_key_value_heads", row.missing.kv_heads, heads));
}

// Which layers have experts.
Status ReadExpertLayers(const json& config, LanguageModel& m) {
  EVOQ_ASSIGN(const int64_t step, Int(config, {"decoder_sparse_step"}, 1));
  if (step < 1) return InvalidInput("decoder_sparse_step is {}, expected 1 or more", step);
  const json& plain = JsonArray(config, "mlp_only_layers");
  if (step == 1 && plain.empty()) return {};
  for (int64_t i = 0; i < m.layers; ++i) m.experts.layers.push_back((i + 1) % step == 0);
  for (const json& layer : plain) {
    if (!layer.is_number_integer() || layer < 0 || layer >= m.layers)
      return InvalidInput("mlp_only_layers holds {}, expected layers of {}",
                          layer.dump().substr(0, 60), m.layers);
    m.experts.layers[layer.get<size_t>()] = false;
  }
  return {};
}

Status ReadExperts(const Architecture& row, const json& config, LanguageModel& m) {
  Experts& e = m.experts;
  if (!row.experts) {
    for (const char* key :
         {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
      EVOQ_ASSIGN(const int64_t experts, Int(config, {key}, 0));
      if (experts > 1) return NoExperts(key, experts, row.name);
    }
    return {};
  }
  const MissingSettings& missing = row.missing;
  const char* const count = Given(config, "num_experts") ? "num_experts" : "num_local_experts";
  EVOQ_ASSIGN(e.count, Int(config, {count}, missing.experts));
  EVOQ_ASSIGN(e.used, Int(config, {"num_experts_per_tok"}, missing.used_experts));
  e.inner = m.inner;
  if (missing.expert_inner > 0) {
    EVOQ_ASSIGN(e.inner, Int(config, {"moe_intermediate_size"}, missing.expert_inner));
  }
  if (missing.shared_expert > 0) {
    EVOQ_ASSIGN(e.shared,
                Int(config, {"shared_expert_intermediate_size", "shared_intermediate_size"},
                    missing.shared_expert));
  }
  if (missing.gate_limit != 0) {
    EVOQ_ASSIGN(const double limit, Real(config, {"swiglu_limit"}, missing.gate_limit));
    EVOQ_ASSIGN(const double alpha, Real(config, {"swiglu_alpha"}, missing.gate_alpha));
    e.limit = static_cast<float>(limit), e.gate_alpha = static_cast<float>(alpha);
  }
  EVOQ_ASSIGN(e.normalized, Truth(config, "norm_topk_prob", row.normalizes_experts));
  return ReadExpertLayers(config, m);
}

// Where a larger model has a language model for a part, the part's settings; what they leave out
// the whole says. Else null.
json PartOfWrapper(const json& config) {
  if (FindArchitecture(JsonText(config, "model_type")) != nullptr ||
      !Given(config, "text_config") || !config["text_config"].is_object())
    return {};
  json part = config["text_config"];
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!Given(part, key) && Given(config, key)) part[key] = config[key];
  }
  return part;
}

// Factors of embeddings, attention, what blocks add, and logits.
Status ReadScales(const Architecture& row, const json& config, LanguageModel& m) {
  const auto read = [&](const char* key, double fallback, float& into) -> Status {
    EVOQ_ASSIGN(const double value, Real(config, {key}, fallback));
    into = static_cast<float>(value);
    return {};
  };
  EVOQ_TRY(read("embedding_multiplier", 1, m.embedding_scale));
  EVOQ_TRY(read("attention_multiplier", row.missing.attention_scale, m.attention_scale));
  EVOQ_TRY(read("residual_multiplier", 1, m.residual_scale));
  EVOQ_TRY(read("logit_scale", row.missing.logit_scale, m.logit_scale));
  EVOQ_TRY(read("clip_qkv", 0, m.clip));
  if (row.slopes == Slopes::kAll && Given(config, "attn_config")) {
    const json& own = config["attn_config"];
    EVOQ_ASSIGN(const double clip, Real(own, {"clip_qkv"}, 0));
    EVOQ_ASSIGN(const double scale, Real(own, {"softmax_scale"}, 0));
    m.clip = static_cast<float>(clip), m.attention_scale = static_cast<float>(scale);
  }
  EVOQ_ASSIGN(const double divisor, Real(config, {"logits_scaling"}, 1));
  if (!(divisor > 0)) return InvalidInput("logits_scaling is {}, expected more than 0", divisor);
  m.logit_scale /= static_cast<float>(divisor);
  return {};
}

}  // namespace

Result<LanguageModel> ReadConfig(const json& config) {
  if (const json part = PartOfWrapper(config); !part.is_null()) {
    EVOQ_ASSIGN(LanguageModel model, WithContext(ReadConfig(part), "text_config"));
    model.wrapped = true;
    return model;
  }
  EVOQ_TRY(CheckSettings(config));
  const std::string type = JsonText(config, "model_type");
  const Architecture* row = FindArchitecture(type);
  if (row == nullptr) return tl::unexpected(UnknownArchitecture("model_type", type).error());
  LanguageModel m = StartOf(*row);
  m.norm_plus_one = row->norm_plus_one;
  m.weights_by_input = row->weights_by_input;
  m.joined_by_head = row->joined_by_head;
  m.interleaved = row->interleaved;
  const MissingSettings& missing = row->missing;
  const auto size_of = [](int64_t known) { return known > 0 ? known : -1; };
  EVOQ_ASSIGN(m.vocabulary, Int(config, {"vocab_size"}, size_of(missing.vocabulary)));
  EVOQ_ASSIGN(m.width, Int(config, {"hidden_size", "n_embd", "n_embed", "d_model"}));
  EVOQ_ASSIGN(m.layers, Int(config, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"}));
  EVOQ_ASSIGN(m.heads, Int(config, {"num_attention_heads", "n_head", "num_heads", "n_heads"},
                           size_of(missing.heads)));
  if (m.heads == 0) return InvalidInput("num_attention_heads is 0");
  EVOQ_ASSIGN(m.kv_heads, KeyHeads(*row, config, m.heads));
  EVOQ_ASSIGN(m.head_size, Int(config, {"head_dim"},
                               Missing(config, "head_dim", missing.head_size, m.width / m.heads)));
  EVOQ_ASSIGN(const int64_t ratio, Int(config, {"expansion_ratio"}, 4));
  if (ratio < 1 || ratio > 1024)
    return InvalidInput("expansion_ratio is {}, expected 1 to 1024", ratio);
  EVOQ_ASSIGN(m.inner, Int(config, {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"},
                           missing.inner > 0 ? missing.inner : ratio * m.width));
  EVOQ_ASSIGN(m.context,
              Int(config, {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"},
                  missing.context));
  EVOQ_TRY(CheckSizes(m));
  EVOQ_ASSIGN(const double epsilon, Real(config,
                                         {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps",
                                          "norm_eps", "norm_epsilon"},
                                         missing.epsilon));
  m.epsilon = static_cast<float>(epsilon);
  EVOQ_ASSIGN(m.tied, Truth(config, "tie_word_embeddings", row->tied));
  EVOQ_ASSIGN(m.parallel, Truth(config, "use_parallel_residual", row->parallel));
  EVOQ_ASSIGN(m.parallel, Truth(config, "parallel_attn", m.parallel));
  if (!row->function_is_fixed) {
    EVOQ_ASSIGN(m.function, Function(config, row->function));
  }
  const json& rope = Given(config, "rope_parameters") ? config["rope_parameters"] : config;
  EVOQ_ASSIGN(const double top,
              Real(config, {"partial_rotary_factor", "rotary_pct"}, missing.rotated));
  EVOQ_ASSIGN(const double share, Real(rope, {"partial_rotary_factor"}, top));
  if (!(share > 0 && share <= 1)) return InvalidInput("partial_rotary_factor is {}", share);
  EVOQ_ASSIGN(m.rotated, Int(config, {"rotary_dim"},
                             static_cast<int64_t>(static_cast<double>(m.head_size) * share)));
  EVOQ_TRY(ReadSlopes(*row, config, m));
  if (m.turns()) EVOQ_TRY(ReadRopes(*row, config, m));
  EVOQ_ASSIGN(m.bidirectional, Truth(config, "use_bidirectional_attention", m.bidirectional));
  EVOQ_TRY(ReadUnturned(*row, config, m));
  EVOQ_TRY(ReadWindows(*row, config, m));
  EVOQ_TRY(ReadScales(*row, config, m));
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
  EVOQ_TRY(ReadExperts(*row, config, m));
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

StoredTensors RenamedTensors(const LanguageModel& model, StoredTensors tensors,
                             std::vector<std::string>& notes) {
  const Architecture& row = *FindArchitecture(model.architecture);
  StoredTensors renamed;
  std::set<std::string> others;
  for (auto& [name, tensor] : tensors) {
    std::string_view inner = name;
    bool part = true;
    if (model.wrapped) {
      constexpr std::string_view kPart = "language_model.";
      inner = WithoutPrefix(inner, "model.");
      part = inner.starts_with(kPart);
      inner = part ? inner.substr(kPart.size()) : std::string_view(name);
    } else if (model.bidirectional) {  // what is behind the layers is a task's head
      part = WithoutPrefix(inner, row.prefix).starts_with(row.layers);
    }
    const std::string known = NameInGraph({row.names, row.prefix, row.layers}, inner);
    if (known.empty() && !part) {
      const std::string_view other = WithoutPrefix(name, "model.");
      others.insert(std::string(other.substr(0, std::min(other.find('.'), size_t{100}))));
      continue;
    }
    // What two names stand for keeps the second one, which then has no place.
    if (known.empty() || !renamed.emplace(known, tensor).second)
      renamed.emplace(name, std::move(tensor));
  }
  for (const std::string& other : others)
    notes.push_back(model.bidirectional && !model.wrapped
                        ? LeftOutNote(other)
                        : fmt::format("{}: no part of the language model, left out", other));
  return renamed;
}

std::string HuggingFaceName(const Architecture& row, std::string_view gguf) {
  std::string prefix(row.prefix);
  if (gguf.starts_with("blk.")) {
    const size_t end = gguf.find('.', 4);
    prefix += fmt::format("{}{}.", row.layers, gguf.substr(4, end - 4));
    gguf = gguf.substr(end + 1);
  }
  if (gguf == "output") prefix.clear();
  for (const TensorName& name : row.names) {
    if (name.gguf == gguf) return prefix + std::string(name.hugging_face);
    if (const auto number = NumberIn(name.gguf, gguf))
      return prefix + WithNumber(name.hugging_face, *number);
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
  } else if (FindEncoderDecoder(model.architecture) != nullptr && !exists("merges.txt")) {
    for (const char* name : {"spiece.model", "source.spm", "sentencepiece.bpe.model", "vocab.json",
                             "target_vocab.json"})
      EVOQ_TRY(keep(name));
  } else {
    EVOQ_TRY(keep("vocab.json"));
    EVOQ_TRY(keep("merges.txt"));
  }
  if (!exists("tokenizer.json")) {
    EVOQ_TRY(keep("added_tokens.json"));
    EVOQ_TRY(keep("special_tokens_map.json"));
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
