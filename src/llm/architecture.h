// Families of language models: one row each in llm/architectures.inc says how its files' settings
// and tensors are to be read.
#pragma once

#include <span>
#include <string_view>

#include "llm/language_model.h"

namespace evoq {

// A tensor's name in a Hugging Face folder, without "model.", "layers.N." and ".weight", and in
// GGUF files.
struct TensorName {
  std::string_view hugging_face, gguf;
};

// Which layers see only the last tokens, where the settings name a window and no layer types.
enum class Windows {
  kNone,
  kAll,
  kAllButEveryNth,  // all but N - 1, 2 N - 1, ...
  kIfAsked,         // use_sliding_window: those from max_window_layers on
};

// What settings are where config.json does not have them: the defaults of transformers' class
// (models/NAME/configuration_NAME.py, 5.24), whose folders leave out what is equal to them. One
// that is there and null is no default: it is none, or follows from the sizes.
struct MissingSettings {
  int64_t context = 0;    // max_position_embeddings
  int64_t inner = 0;      // intermediate_size; 0: 4 * width
  int64_t kv_heads = 0;   // num_key_value_heads; 0: as many as heads
  int64_t head_size = 0;  // head_dim; 0: width / heads
  double epsilon = 1e-6;
  double theta = 10000;        // rope_theta
  int64_t window = 0;          // sliding_window; 0: none
  int64_t first_windowed = 0;  // max_window_layers
  double attention_softcap = 0, logit_softcap = 0;
};

struct Architecture {
  const char* name;  // model_type of config.json
  const char* gguf;  // general.architecture of GGUF files; "" where they have none of its own
  std::span<const TensorName> names;
  GateFunction function = GateFunction::kSilu;  // where the settings name none
  bool function_is_fixed = false;               // whatever the settings say
  bool gated = true;
  bool layer_norm = false;
  bool learned_positions = false;
  bool embedding_times_root = false;      // of the width
  bool norm_plus_one = false;             // in Hugging Face folders
  bool weights_by_input = false;          // in Hugging Face folders
  bool gguf_interleaved = false;          // GGUF's rows of queries and keys are paired anew
  bool tied = false;                      // where config.json does not say
  bool settings_scale_attention = false;  // query_pre_attn_scalar
  Windows windows = Windows::kNone;
  int64_t window_period = 0;  // N of kAllButEveryNth, where no sliding_window_pattern says another
  double local_theta = 0;     // of layers with a window; 0: as the others
  MissingSettings missing;
};

std::span<const Architecture* const> AllArchitectures();
// By model_type or by general.architecture; nullptr where there is none.
const Architecture* FindArchitecture(std::string_view model_type);
const Architecture* FindGgufArchitecture(std::string_view name);

// What the row says, before a file's own settings.
LanguageModel StartOf(const Architecture& row);
// Of layers, by the row's windows; `period` is the N of kAllButEveryNth.
std::vector<bool> WindowedLayers(const Architecture& row, int64_t layers, int64_t period);
// Fills in what follows from the rest, whose sizes are checked where it names a window: the
// embedding's scale, windows by the row's pattern, angles of layers with a window that are as the
// others'.
void Complete(const Architecture& row, LanguageModel& model);

// Errors: kUnsupported with the names that there are.
Status UnknownArchitecture(std::string_view what, std::string_view name);

}  // namespace evoq
