#include "llm/gguf_model.h"

#include <algorithm>
#include <cmath>

#include "llm/architecture.h"
#include "llm/rope.h"

namespace evoq {
namespace {

// Facts of one architecture: their keys begin with its name.
class Facts {
 public:
  Facts(const GgufFile& file, const std::string& architecture)
      : file_(file), prefix_(architecture + ".") {}

  bool Has(const std::string& key) const { return file_.facts.contains(prefix_ + key); }
  // A whole number; `fallback` where the key is missing, which is an error when it is negative.
  Result<int64_t> Int(const std::string& key, int64_t fallback = -1) const {
    if (!Has(key) && fallback >= 0) return fallback;
    const auto value = file_.Int(prefix_ + key);
    if (!value) {
      const char* what = Has(key) ? "no whole number" : "missing";
      return InvalidInput("fact {}{} is {}", prefix_, key, what);
    }
    return *value;
  }
  Result<float> Real(const std::string& key, float fallback) const {
    if (!Has(key)) return fallback;
    const auto value = file_.Real(prefix_ + key);
    if (!value) return InvalidInput("fact {}{} is no number", prefix_, key);
    return static_cast<float>(*value);
  }
  bool Truth(const std::string& key, bool fallback) const {
    return file_.Truth(prefix_ + key).value_or(fallback);
  }
  std::string Text(const std::string& key) const { return file_.Text(prefix_ + key); }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// As llama.cpp reads them: linear is what a file means that names no type, and 0 no factor. Factors
// of single frequencies are tensors.
Status ReadGgufRope(const Facts& facts, LanguageModel& m) {
  EVOQ_ASSIGN(const float theta, facts.Real("rope.freq_base", 10000));
  m.rope.theta = theta;
  const char* const type = "rope.scaling.type";
  const std::string scaling = facts.Has(type) ? facts.Text(type) : "linear";
  EVOQ_ASSIGN(m.rope.original, facts.Int("rope.scaling.original_context_length", m.context));
  EVOQ_ASSIGN(const float magnitude, facts.Real("rope.scaling.attn_factor", 1));
  m.rope.magnitude = magnitude;
  if (scaling == "none" || scaling == "longrope") return {};
  if (scaling != "linear" && scaling != "yarn")
    return Unsupported("rope.scaling.type is '{}', expected linear, yarn, longrope or none",
                       scaling.substr(0, 60));
  const char* const key =
      facts.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";  // until 2023
  EVOQ_ASSIGN(const float factor, facts.Real(key, 0));
  if (factor == 0) return {};
  if (scaling == "linear") {
    m.rope.divisor = factor;
    return {};
  }
  Yarn yarn{.factor = factor, .original = static_cast<double>(m.rope.original)};
  EVOQ_ASSIGN(yarn.fast, facts.Real("rope.scaling.yarn_beta_fast", 32));
  EVOQ_ASSIGN(yarn.slow, facts.Real("rope.scaling.yarn_beta_slow", 1));
  EVOQ_TRY(Slow(yarn, m.rotated, m.rope));
  m.rope.magnitude *= YarnMagnitude(factor);
  return {};
}

Status ReadScales(const Architecture& row, const Facts& facts, LanguageModel& m) {
  EVOQ_ASSIGN(m.embedding_scale, facts.Real("embedding_scale", 1));
  EVOQ_ASSIGN(m.residual_scale, facts.Real("residual_scale", 1));
  EVOQ_ASSIGN(m.attention_scale, facts.Real("attention.scale", 0));
  EVOQ_ASSIGN(m.logit_scale, facts.Real("logit_scale", 1));
  EVOQ_ASSIGN(m.clip, facts.Real("attention.clamp_kqv", 0));
  if (m.steepness != 0) {
    EVOQ_ASSIGN(m.steepness, facts.Real("attention.max_alibi_bias", m.steepness));
  }
  if (row.gguf_divides_logits) m.logit_scale = 1 / m.logit_scale;
  return {};
}

// As llama.cpp reads them. Layers with a router have experts.
Status ReadExperts(const GgufFile& file, const Architecture& row, const Facts& facts,
                   LanguageModel& m) {
  Experts& e = m.experts;
  EVOQ_ASSIGN(e.count, facts.Int("expert_count", 0));
  if (e.count <= 1 && !row.experts) {
    e.count = 0;
    return {};
  }
  if (e.count > 1 && !row.experts && std::string_view(row.name) != "llama")
    return NoExperts(fmt::format("{}.expert_count", row.gguf), e.count, row.name);
  EVOQ_ASSIGN(e.used, facts.Int("expert_used_count", 0));
  EVOQ_ASSIGN(e.inner, facts.Int("expert_feed_forward_length", 0));
  EVOQ_ASSIGN(e.shared, facts.Int("expert_shared_feed_forward_length", 0));
  const bool given = e.inner != 0;
  if (!given) e.inner = m.inner;
  // Files of Qwen2's mixtures from before those facts have the sizes in their tensors alone.
  for (const auto& [name, tensor] : file.tensors) {
    if (!given && name.ends_with(".ffn_gate_exps.weight") && tensor.sizes.size() == 3)
      e.inner = tensor.sizes[1];
    if (name.ends_with(".ffn_gate_shexp.weight") && !tensor.sizes.empty())
      e.shared = tensor.sizes[0];
  }
  EVOQ_ASSIGN(const int64_t gating, facts.Int("expert_gating_func", 1));
  constexpr int64_t kSoftmax = 1, kSoftmaxOfChosen = 3;
  if (gating != 0 && gating != kSoftmax && gating != kSoftmaxOfChosen)
    return Unsupported("{}.expert_gating_func is {}, expected 1, softmax", row.gguf, gating);
  e.limit = static_cast<float>(row.missing.gate_limit);
  e.gate_alpha = static_cast<float>(row.missing.gate_alpha);
  e.normalized = facts.Truth("expert_weights_norm", row.gguf_normalizes_experts || !row.experts ||
                                                        gating == kSoftmaxOfChosen);
  EVOQ_ASSIGN(e.scale, facts.Real("expert_weights_scale", 1));
  if (e.scale == 0) e.scale = 1;
  for (int64_t i = 0; i < m.layers; ++i)
    e.layers.push_back(file.tensors.contains(fmt::format("blk.{}.ffn_gate_inp.weight", i)));
  return {};
}

void ReadTokenizer(const GgufFile& file, LanguageModel& m) {
  const auto id = [&](const char* key, std::vector<int64_t>& ids) {
    const auto value = file.Int(key);
    if (value && *value >= 0 && *value < m.vocabulary &&
        std::ranges::find(ids, *value) == ids.end())
      ids.push_back(*value);
  };
  id("tokenizer.ggml.bos_token_id", m.begin);
  id("tokenizer.ggml.eos_token_id", m.end);
  id("tokenizer.ggml.eot_token_id", m.end);
  m.chat_template = file.Text("tokenizer.chat_template");
  if (file.tokenizer_count > 0) m.files["tokenizer.gguf"] = TokenizerGguf(file);
}

}  // namespace

Result<LanguageModel> ReadGgufModel(const GgufFile& file) {
  const std::string name = file.Text("general.architecture");
  const Architecture* row = FindGgufArchitecture(name);
  if (row == nullptr)
    return tl::unexpected(UnknownArchitecture("general.architecture", name).error());
  const Facts facts(file, name);
  LanguageModel m = StartOf(*row);
  m.parallel = facts.Truth("use_parallel_residual", row->parallel);
  m.interleaved = row->gguf_interleaved;
  EVOQ_ASSIGN(m.width, facts.Int("embedding_length"));
  EVOQ_ASSIGN(m.layers, facts.Int("block_count"));
  EVOQ_ASSIGN(m.heads, facts.Int("attention.head_count"));
  if (m.heads < 1) return InvalidInput("fact {}.attention.head_count is {}", name, m.heads);
  EVOQ_ASSIGN(m.kv_heads, facts.Int("attention.head_count_kv", m.heads));
  EVOQ_ASSIGN(m.head_size,
              facts.Int("attention.key_length", std::max<int64_t>(m.width, 0) / m.heads));
  EVOQ_ASSIGN(const int64_t value_size, facts.Int("attention.value_length", m.head_size));
  if (value_size != m.head_size)
    return Unsupported("keys of {} elements and values of {}, expected as many", m.head_size,
                       value_size);
  EVOQ_ASSIGN(m.inner, facts.Int("feed_forward_length"));
  EVOQ_ASSIGN(m.context, facts.Int("context_length"));
  EVOQ_ASSIGN(m.rotated, facts.Int("rope.dimension_count", m.head_size));
  EVOQ_ASSIGN(m.epsilon, facts.Real(row->layer_norm ? "attention.layer_norm_epsilon"
                                                    : "attention.layer_norm_rms_epsilon",
                                    1e-5f));
  const auto table = file.tensors.find("token_embd.weight");
  if (table == file.tensors.end()) return InvalidInput("tensor token_embd.weight is missing");
  m.vocabulary = table->second.sizes[0];
  EVOQ_TRY(CheckSizes(m));
  m.tied = !file.tensors.contains("output.weight");
  EVOQ_TRY(ReadGgufRope(facts, m));
  EVOQ_TRY(ReadScales(*row, facts, m));
  if (row->windows != Windows::kNone && row->windows != Windows::kIfAsked) {
    EVOQ_ASSIGN(m.window, facts.Int("attention.sliding_window", 0));
  }
  EVOQ_ASSIGN(m.logit_softcap, facts.Real("final_logit_softcapping", 0));
  EVOQ_ASSIGN(m.attention_softcap, facts.Real("attn_logit_softcapping", 0));
  // The largest models of these families scale by width / heads, which no fact says.
  const int64_t largest = row->local_theta == 0 ? 46 : 62;
  if (row->settings_scale_attention && m.layers == largest)
    m.attention_scale = 1 / std::sqrt(static_cast<float>(m.width / m.heads));
  EVOQ_TRY(ReadExperts(file, *row, facts, m));
  ReadTokenizer(file, m);
  Complete(*row, m);
  EVOQ_TRY(CheckLanguageModel(m));
  return m;
}

}  // namespace evoq
