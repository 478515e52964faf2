#include "llm/architecture.h"

#include <algorithm>
#include <cmath>

#include "base/rows.h"
#include "llm/encoder.h"
#include "llm/encoder_decoder.h"

namespace evoq {

#define EVOQ_ROW_TYPE Architecture
#define EVOQ_ROW_FILE "llm/architectures.inc"
#include "base/rows.inl.h"

std::span<const Architecture* const> AllArchitectures() { return kAllRows; }

const Architecture* FindArchitecture(std::string_view model_type) {
  return FindRow(AllArchitectures(), model_type);
}

std::string_view WithoutPrefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

std::string NameInGraph(const FolderNames& family, std::string_view name) {
  name = WithoutPrefix(name, family.prefix);
  std::string block;
  if (const std::string_view layers = family.layers; name.starts_with(layers)) {
    const size_t end = name.find('.', layers.size());
    if (end == name.npos) return "";
    const std::string_view number = name.substr(layers.size(), end - layers.size());
    if (number.empty() || number.size() > 4 ||
        number.find_first_not_of("0123456789") != number.npos ||
        (number.size() > 1 && number[0] == '0'))
      return "";
    block = fmt::format("blk.{}.", number);
    name = name.substr(end + 1);
  }
  constexpr std::pair<std::string_view, std::string_view> kSuffixes[] = {
      {".weight", ".weight"},
      {".bias", ".bias"},
      {".gamma", ".weight"},
      {".beta", ".bias"},
      {"", ".weight"}};  // stacked experts
  for (const auto& [suffix, ours] : kSuffixes) {
    if (!name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    for (const TensorName& row : family.names) {
      // A layer's may be called as the one behind all layers.
      if (!block.empty() && row.gguf == "output_norm") continue;
      if (row.hugging_face == stem) return block + std::string(row.gguf) + std::string(ours);
      if (const auto number = NumberIn(row.hugging_face, stem))
        return block + WithNumber(row.gguf, *number) + std::string(ours);
    }
  }
  return "";
}

const Architecture* FindGgufArchitecture(std::string_view name) {
  for (const Architecture* row : AllArchitectures()) {
    if (!name.empty() && name == row->gguf) return row;
  }
  return nullptr;
}

Status NoExperts(std::string_view what, int64_t experts, std::string_view architecture) {
  std::string names;
  for (const Architecture* row : AllArchitectures()) {
    if (row->experts) names += (names.empty() ? "" : ", ") + std::string(row->name);
  }
  return Unsupported("{} is {}: mixtures of experts are read of {}, not of {}", what, experts,
                     names, architecture);
}

std::optional<std::string_view> NumberIn(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return std::nullopt;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  if (!text.ends_with(behind)) return std::nullopt;
  text.remove_suffix(behind.size());
  const bool number = !text.empty() && text.size() <= 4 &&
                      text.find_first_not_of("0123456789") == text.npos &&
                      (text.size() == 1 || text[0] != '0');
  return number ? std::optional(text) : std::nullopt;
}

std::string WithNumber(std::string_view pattern, std::string_view number) {
  std::string text(pattern);
  if (const size_t star = text.find('*'); star != text.npos) text.replace(star, 1, number);
  return text;
}

Status UnknownArchitecture(std::string_view what, std::string_view name) {
  std::string names;
  for (const Architecture* row : AllArchitectures())
    names += (names.empty() ? "" : ", ") + std::string(row->name);
  for (const EncoderFamily* row : AllEncoderFamilies()) names += ", " + std::string(row->name);
  for (const EncoderDecoderFamily* row : AllEncoderDecoders())
    names += ", " + std::string(row->name);
  return Unsupported("{} is '{}', expected one of {}", what, name.substr(0, 100), names);
}

LanguageModel StartOf(const Architecture& row) {
  LanguageModel model;
  model.architecture = row.name;
  model.function = row.function;
  model.gated = row.gated;
  model.layer_norm = row.layer_norm;
  model.plain_norms = row.plain_norms;
  model.learned_positions = row.learned_positions;
  model.first_position = row.first_position;
  if (row.slopes == Slopes::kAll) model.steepness = kUsualSteepness;
  model.parallel = row.parallel;
  model.norms_before = row.norms_before;
  model.embedding_norm = row.embedding_norm;
  model.whole_norms = row.whole_norms;
  model.bidirectional = row.bidirectional;
  model.tied = row.tied;
  if (row.local_theta != 0) model.local_rope = Rope{.theta = row.local_theta};
  return model;
}

std::vector<bool> WindowedLayers(const Architecture& row, int64_t layers, int64_t period) {
  std::vector<bool> windowed;
  for (int64_t i = 0; i < layers; ++i)
    windowed.push_back(row.windows == Windows::kAll ||
                       (row.windows == Windows::kAllButEveryNth && (i + 1) % period != 0) ||
                       (row.windows == Windows::kAllButFirstOfN && i % period != 0));
  return windowed;
}

void Complete(const Architecture& row, LanguageModel& model) {
  if (row.embedding_times_root) model.embedding_scale = std::sqrt(static_cast<float>(model.width));
  if (model.windowed.empty() && model.window > 0)
    model.windowed = WindowedLayers(row, model.layers, row.window_period);
  if (!model.local_rope && !row.scales_local_rope)
    model.local_rope = Rope{.theta = model.rope.theta};
  if (!model.unturned.empty() || (row.unturned_period == 0 && !row.unturned_if_global)) return;
  if (row.unturned_if_global && model.windowed.empty()) return;
  for (int64_t i = 0; i < model.layers; ++i)
    model.unturned.push_back(row.unturned_if_global ? !model.windowed[static_cast<size_t>(i)]
                                                    : (i + 1) % row.unturned_period == 0);
}

}  // namespace evoq
