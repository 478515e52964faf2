// Families of language models: one row each in llm/architectures.inc says how its files' settings
// and tensors are to be read.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "llm/language_model.h"

namespace evoq {

// A tensor's name in a Hugging Face folder, without the row's prefix, the layer and ".weight", and
// in GGUF files. A `*` in both is the number of an expert.
struct TensorName {
  std::string_view hugging_face, gguf;
};
// What a row shares with others, and its own.
template <size_t kShared, size_t kOwn>
constexpr std::array<TensorName, kShared + kOwn> Joined(const TensorName (&shared)[kShared],
                                                        const TensorName (&own)[kOwn]) {
  std::array<TensorName, kShared + kOwn> all;
  std::copy_n(own, kOwn, std::copy_n(shared, kShared, all.begin()));
  return all;
}

// How the names of a family's folders become those of the graph, GGUF's.
struct FolderNames {
  std::span<const TensorName> names;
  std::string_view prefix, layers;  // of all names, where they have it; of layers, behind it
};
// "" for a name that the family does not know. Old checkpoints call a norm's weight gamma and its
// bias beta.
std::string NameInGraph(const FolderNames& family, std::string_view name);
std::string_view WithoutPrefix(std::string_view text, std::string_view prefix);

// Which layers see only the last tokens, where the settings name a window and no layer types.
enum class Windows {
  kNone,
  kAll,
  kAllButEveryNth,  // all but N - 1, 2 N - 1, ...
  kAllButFirstOfN,  // all but 0, N, 2 N, ...
  kIfAsked,         // use_sliding_window: those from max_window_layers on
};

// Whether attention has slopes instead of rotary embedding (LanguageModel::steepness).
enum class Slopes {
  kNone,
  kAll,
  kIfAsked,  // alibi: true; they are coarse
};

// What settings are where config.json does not have them: the defaults of transformers' class
// (models/NAME/configuration_NAME.py, 5.24), whose folders leave out what is equal to them. One
// that is there and null is no default: it is none, or follows from the sizes.
struct MissingSettings {
  int64_t vocabulary = 0;  // vocab_size; 0: it must be there
  int64_t heads = 0;       // num_attention_heads; 0: it must be there
  int64_t context = 0;     // max_position_embeddings
  int64_t inner = 0;       // intermediate_size; 0: 4 * width
  int64_t kv_heads = 0;    // num_key_value_heads; 0: as many as heads
  int64_t head_size = 0;   // head_dim; 0: width / heads
  double epsilon = 1e-6;
  double theta = 10000;        // rope_theta
  double rotated = 1;          // partial_rotary_factor
  int64_t window = 0;          // sliding_window; 0: none
  int64_t first_windowed = 0;  // max_window_layers
  double attention_softcap = 0, logit_softcap = 0;
  double attention_scale = 0;  // attention_multiplier; 0: 1 / sqrt(head size)
  double logit_scale = 1;      // what logits are multiplied by
  int64_t experts = 0;         // num_experts, num_local_experts
  int64_t used_experts = 0;    // num_experts_per_tok
  int64_t expert_inner = 0;    // moe_intermediate_size; 0: intermediate_size is that of experts
  double gate_limit = 0, gate_alpha = 1;  // swiglu_limit, swiglu_alpha
  int64_t shared_expert = 0;  // shared_expert_intermediate_size, shared_intermediate_size
};

struct Architecture {
  const char* name;  // model_type of config.json
  const char* gguf;  // general.architecture of GGUF files; "" where they have none of its own
  std::span<const TensorName> names;
  // What names of a folder begin with, but the head's: "model.layers.N.", "model.norm".
  std::string_view prefix = "model.", layers = "layers.";
  GateFunction function = GateFunction::kSilu;  // where the settings name none
  bool function_is_fixed = false;               // whatever the settings say
  bool gated = true;
  bool layer_norm = false;
  bool plain_norms = false;
  bool learned_positions = false;
  int64_t first_position = 0;
  Slopes slopes = Slopes::kNone;
  // What LanguageModel says of them.
  bool parallel = false;  // where the settings do not say
  bool norms_before = true;
  bool embedding_norm = false;
  bool whole_norms = false;
  bool bidirectional = false;
  bool joined_by_head = false;            // in Hugging Face folders
  bool interleaved = false;               // in Hugging Face folders
  bool embedding_times_root = false;      // of the width
  bool norm_plus_one = false;             // in Hugging Face folders
  bool weights_by_input = false;          // in Hugging Face folders
  bool gguf_interleaved = false;          // GGUF's rows of queries and keys are paired anew
  bool gguf_divides_logits = false;       // by the fact that others multiply them by
  bool tied = false;                      // where config.json does not say
  bool settings_scale_attention = false;  // query_pre_attn_scalar
  Windows windows = Windows::kNone;
  int64_t window_period = 0;        // N of kAllBut..., where the settings say no other
  int64_t unturned_period = 0;      // layers N - 1, 2 N - 1, ... are not turned; 0: all are
  bool unturned_if_global = false;  // where some layers have a window, the others are not turned
  double local_theta = 0;           // of layers with a window; 0: as the others
  bool experts = false;             // feed-forward parts are mixtures of experts; else only in GGUF
  bool normalizes_experts = false;  // Experts::normalized, where the settings do not say
  bool gguf_normalizes_experts = false;
  bool one_key_head = false;      // where the settings do not say: multi_query
  bool hybrid = false;            // settings say of each layer whether it is attention
  bool scales_local_rope = true;  // where local_theta is 0: scalings are of all layers
  MissingSettings missing;
};

std::span<const Architecture* const> AllArchitectures();
// By model_type or by general.architecture; nullptr where there is none.
const Architecture* FindArchitecture(std::string_view model_type);
const Architecture* FindGgufArchitecture(std::string_view name);

inline constexpr float kUsualSteepness = 8;

// What the row says, before a file's own settings.
LanguageModel StartOf(const Architecture& row);
// Of layers, by the row's windows; `period` is the N of kAllBut....
std::vector<bool> WindowedLayers(const Architecture& row, int64_t layers, int64_t period);
// Fills in what follows from the rest, whose sizes are checked where it names a window: the
// embedding's scale, windows and layers that are not turned by the row's patterns, angles of layers
// with a window.
void Complete(const Architecture& row, LanguageModel& model);

// Errors: kUnsupported: the architecture has no mixtures of experts.
Status NoExperts(std::string_view what, int64_t experts, std::string_view architecture);

// The number that the pattern's `*` stands for in `text`, at most four digits; nothing where they
// do not fit.
std::optional<std::string_view> NumberIn(std::string_view pattern, std::string_view text);
// `pattern` with a number in place of its `*`.
std::string WithNumber(std::string_view pattern, std::string_view number);

// Errors: kUnsupported with the names that there are.
Status UnknownArchitecture(std::string_view what, std::string_view name);

}  // namespace evoq
