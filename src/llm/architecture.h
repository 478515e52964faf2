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
  kFirstOfTwo,        // layers 0, 2, 4, ...
  kAllButEverySixth,  // all but 5, 11, 17, ...
  kIfAsked,           // use_sliding_window: those from max_window_layers on
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
  double local_theta = 0;  // of layers with a window; 0: as the others
};

std::span<const Architecture* const> AllArchitectures();
// By model_type or by general.architecture; nullptr where there is none.
const Architecture* FindArchitecture(std::string_view model_type);
const Architecture* FindGgufArchitecture(std::string_view name);

// What the row says, before a file's own settings.
LanguageModel StartOf(const Architecture& row);
// Fills in what follows from the rest, whose sizes are checked where it names a window: the
// embedding's scale, windows by the row's pattern, angles of layers with a window that are as the
// others'.
void Complete(const Architecture& row, LanguageModel& model);

// Errors: kUnsupported with the names that there are.
Status UnknownArchitecture(std::string_view what, std::string_view name);

}  // namespace evoq
