#include "llm/cache_names.h"

#include <filesystem>

#include "base/json_file.h"
#include "base/rows.h"
#include "llm/facts.h"
#include "llm/hugging_face.h"

namespace evoq {

// optimum, ONNX Runtime's model builder.
extern const CacheNames kCacheNamesOptimum = {.name = "optimum",
                                              .tokens = "input_ids",
                                              .mask = "attention_mask",
                                              .positions = "position_ids",
                                              .past_key = "past_key_values.{}.key",
                                              .past_value = "past_key_values.{}.value",
                                              .present_key = "present.{}.key",
                                              .present_value = "present.{}.value",
                                              .logits = "logits"};
// Where outputs are named as inputs are.
extern const CacheNames kCacheNamesPresentKeyValues = {
    .name = "present-key-values",
    .tokens = "input_ids",
    .mask = "attention_mask",
    .positions = "position_ids",
    .past_key = "past_key_values.{}.key",
    .past_value = "past_key_values.{}.value",
    .present_key = "present_key_values.{}.key",
    .present_value = "present_key_values.{}.value",
    .logits = "logits"};

#define EVOQ_ROW_TYPE CacheNames
#define EVOQ_ROW_FILE "llm/cache_names.inc"
#include "base/rows.inl.h"

std::span<const CacheNames* const> AllCacheNames() { return kAllRows; }

std::string OfLayer(std::string_view pattern, int64_t layer) {
  const size_t at = pattern.find("{}");
  return std::string(pattern.substr(0, at)) + std::to_string(layer) +
         std::string(pattern.substr(at + 2));
}

const CacheNames* FindCacheNames(const Graph& graph) {
  const auto has_input = [&](const std::string& name) {
    const ValueId id = graph.FindValue(name);
    return id.valid() && graph.IsInput(id);
  };
  const auto has_output = [&](const std::string& name) {
    const ValueId id = graph.FindValue(name);
    return id.valid() && graph.IsOutput(id);
  };
  for (const CacheNames* row : AllCacheNames()) {
    if (has_input(row->tokens) && has_input(OfLayer(row->past_key, 0)) &&
        has_output(OfLayer(row->present_key, 0)))
      return row;
  }
  return nullptr;
}

Status AddFactsBeside(const std::string& path, const CacheNames& names, Graph& graph) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string beside = folder.empty() ? "." : folder;
  LanguageModel model;
  const ValueId logits = graph.FindValue(names.logits);
  if (logits.valid()) {
    const Shape& shape = graph.value(logits).type.shape;
    if (shape.ranked() && shape.rank() > 0 && shape[shape.rank() - 1].known())
      model.vocabulary = shape[shape.rank() - 1].value;
  }
  std::error_code error;
  const std::string config = beside + "/config.json";
  if (std::filesystem::exists(config, error)) {
    EVOQ_ASSIGN(const nlohmann::json settings, ReadJsonFile(config, size_t{1} << 24));
    EVOQ_TRY(WithContext(ReadTextSettings(settings, model), config));
  }
  EVOQ_TRY(ReadTokenizerFiles(beside, model));
  SetFacts(model, graph);
  graph.metadata.erase("llm.architecture");
  return {};
}

}  // namespace evoq
