#include "llm/import.h"

#include <filesystem>
#include <optional>

#include "base/budget_scope.h"
#include "base/file.h"
#include "base/json_file.h"
#include "llm/checkpoint_format.h"
#include "llm/encoder.h"
#include "llm/encoder_decoder.h"
#include "llm/facts.h"
#include "llm/gguf_model.h"
#include "llm/gguf_parts.h"
#include "llm/hugging_face.h"
#include "llm/llama2c.h"
#include "llm/pooling.h"
#include "llm/safetensors.h"
#include "reference/reference.h"

namespace evoq {
namespace {

struct Parts {
  LanguageModel model;
  StoredTensors tensors;
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// The graph of an encoder, where the folder holds one; else nothing.
Result<std::optional<Graph>> EncoderOf(const std::string& folder, std::vector<std::string>& notes) {
  const std::string path = folder + "/config.json";
  EVOQ_ASSIGN(const nlohmann::json config, ReadJsonFile(path, size_t{1} << 24));
  const EncoderFamily* family = FindEncoderFamily(JsonText(config, "model_type"));
  if (family == nullptr) return std::optional<Graph>();
  EVOQ_ASSIGN(const Encoder encoder, WithContext(ReadEncoderConfig(*family, config), path));
  EVOQ_ASSIGN(StoredTensors tensors, ReadSafetensorsFolder(folder));
  EVOQ_ASSIGN(Graph graph, WithContext(BuildEncoder(encoder, std::move(tensors), notes), folder));
  LanguageModel facts;
  facts.vocabulary = encoder.vocabulary;
  facts.context = encoder.context - (encoder.padding + 1);  // places before the first are none
  EVOQ_TRY(ReadTokenizerFiles(folder, facts));
  SetFacts(facts, graph);
  graph.metadata.erase("llm.architecture");  // it writes no text
  EVOQ_TRY(AddSentenceEmbedding(folder, graph, notes));
  return std::optional<Graph>(std::move(graph));
}

// The graph of a model that reads one text and writes another, where the folder holds one; else
// nothing.
Result<std::optional<Graph>> EncoderDecoderOf(const std::string& folder,
                                              std::vector<std::string>& notes) {
  const std::string path = folder + "/config.json";
  EVOQ_ASSIGN(const nlohmann::json config, ReadJsonFile(path, size_t{1} << 24));
  const EncoderDecoderFamily* family = FindEncoderDecoder(JsonText(config, "model_type"));
  if (family == nullptr) return std::optional<Graph>();
  EVOQ_ASSIGN(EncoderDecoder model, WithContext(ReadEncoderDecoderConfig(*family, config), path));
  std::error_code error;
  if (const std::string more = folder + "/generation_config.json";
      std::filesystem::exists(more, error)) {
    EVOQ_ASSIGN(const nlohmann::json generation, ReadJsonFile(more));
    EVOQ_TRY(WithContext(ReadGenerationConfig(generation, model), more));
  }
  if (const std::string features = folder + "/preprocessor_config.json";
      family->hears && std::filesystem::exists(features, error)) {
    EVOQ_ASSIGN(const nlohmann::json settings, ReadJsonFile(features));
    EVOQ_TRY(WithContext(ReadFeatureSettings(settings, model), features));
  }
  EVOQ_TRY(WithContext(CheckEncoderDecoder(model), path));
  EVOQ_ASSIGN(StoredTensors tensors, ReadSafetensorsFolder(folder));
  EVOQ_ASSIGN(Graph graph,
              WithContext(BuildEncoderDecoder(model, std::move(tensors), notes), folder));
  LanguageModel facts;
  facts.architecture = model.family;
  facts.vocabulary = model.decoder.vocabulary;
  facts.context = model.context;
  facts.end = model.end;
  EVOQ_TRY(ReadTokenizerFiles(folder, facts));
  SetFacts(facts, graph);
  SetTargetFacts(model.target, graph);
  return std::optional<Graph>(std::move(graph));
}

Result<Parts> FromFolder(const std::string& folder, std::vector<std::string>& notes) {
  const std::string path = folder + "/config.json";
  EVOQ_ASSIGN(const nlohmann::json config, ReadJsonFile(path, size_t{1} << 24));
  Parts parts;
  EVOQ_ASSIGN(parts.model, WithContext(ReadConfig(config), path));
  parts.model.of_folder = true;
  EVOQ_ASSIGN(StoredTensors tensors, ReadSafetensorsFolder(folder));
  EVOQ_TRY(WithContext(JoinQuantized(config, tensors), folder));
  parts.tensors = RenamedTensors(parts.model, std::move(tensors), notes);
  // Of a larger model the whole's settings and the part's may differ in this.
  if (parts.model.wrapped) parts.model.tied = !parts.tensors.contains("output.weight");
  if (parts.model.tied) parts.tensors.erase("output.weight");
  EVOQ_TRY(ReadTokenizerFiles(folder, parts.model));
  return parts;
}

Result<Parts> FromFile(const std::string& path) {
  Parts parts;
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  if (IsGguf(file->bytes())) {
    EVOQ_ASSIGN(GgufFile gguf, ReadGgufParts(path));
    EVOQ_ASSIGN(parts.model, WithContext(ReadGgufModel(gguf), path));
    parts.tensors = std::move(gguf.tensors);
    return parts;
  }
  EVOQ_ASSIGN(Llama2c checkpoint, ReadLlama2c(path));
  return Parts{std::move(checkpoint.model), std::move(checkpoint.tensors)};
}

}  // namespace

bool IsLanguageModelPath(const std::string& path) {
  std::error_code error;
  if (IsFolder(path)) return std::filesystem::exists(path + "/config.json", error);
  const auto file = MappedFile::Open(path);
  return file && (IsGguf((*file)->bytes()) || IsLlama2c((*file)->bytes()));
}

Result<Graph> ImportLanguageModel(const std::string& path, LanguageForm form) {
  EVOQ_ASSIGN(const int64_t bytes, LanguageModelBytes(path));
  const BudgetScope scope(Budget::ForFile(bytes));
  std::vector<std::string> notes;
  std::optional<Graph> whole;
  if (IsFolder(path)) {
    EVOQ_ASSIGN(whole, EncoderOf(path, notes));
    if (!whole) {
      EVOQ_ASSIGN(whole, EncoderDecoderOf(path, notes));
    }
  }
  const auto decoder = [&]() -> Result<Graph> {
    EVOQ_ASSIGN(Parts parts, IsFolder(path) ? FromFolder(path, notes) : FromFile(path));
    if (parts.model.turns() && parts.model.context > kMostPositions) {
      notes.push_back(fmt::format("{} positions of {}", kMostPositions, parts.model.context));
      parts.model.context = kMostPositions;
    }
    const bool states = parts.model.bidirectional || (IsFolder(path) && MakesEmbeddings(path));
    if (states) {
      form = LanguageForm::kStates;
      for (const char* head : {"output.weight", "output.bias"}) parts.tensors.erase(head);
    }
    EVOQ_ASSIGN(Graph graph,
                WithContext(BuildLanguageModel(parts.model, parts.tensors, notes, form), path));
    if (states && IsFolder(path)) {
      EVOQ_TRY(AddSentenceEmbedding(path, graph, notes));
    }
    return graph;
  };
  EVOQ_ASSIGN(Graph graph, whole ? Result<Graph>(std::move(*whole)) : decoder());
  if (!notes.empty()) graph.metadata["llm.notes"] = fmt::format("{}", fmt::join(notes, "\n"));
  graph.metadata["source"] = BaseName(path);
  EVOQ_TRY(WithContext(InferTypes(graph), path));
  return graph;
}

Result<int64_t> LanguageModelBytes(const std::string& path) {
  if (!IsFolder(path)) {
    EVOQ_ASSIGN(const auto first, MappedFile::Open(path));
    auto bytes = static_cast<int64_t>(first->bytes().size());
    if (!IsGguf(first->bytes())) return bytes;
    for (const std::string& part : GgufPartPaths(path)) {
      if (part == path || !std::filesystem::exists(part)) continue;
      EVOQ_ASSIGN(const auto file, MappedFile::Open(part));
      bytes += static_cast<int64_t>(file->bytes().size());
    }
    return bytes;
  }
  EVOQ_ASSIGN(const std::vector<std::string> files, ListFiles(path));
  int64_t bytes = 0;
  for (const std::string& name : files) {
    if (LowerExtension(name) != ".safetensors") continue;
    EVOQ_ASSIGN(const auto file, MappedFile::Open(name));
    bytes += static_cast<int64_t>(file->bytes().size());
  }
  return bytes;
}

}  // namespace evoq
