#include "generate/model_tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_file.h"
#include "llm/facts.h"
#include "llm/gguf.h"
#include "program/etm.h"
#include "tokenizer/gguf.h"

namespace evoq {
namespace {

constexpr char kGguf[] = "tokenizer.gguf";
constexpr double kMaxRows = 1 << 24;

int64_t IdOf(const GgufFile& file, const char* key) {
  return file.Int(std::string("tokenizer.ggml.") + key).value_or(-1);
}

Result<Tokenizer> FromGgufFacts(std::string bytes) {
  EVOQ_ASSIGN(const GgufFile file, ParseGguf(std::move(bytes)));
  GgufTokenizer t;
  t.model = file.Text("tokenizer.ggml.model");
  t.pre = file.Text("tokenizer.ggml.pre");
  const auto texts = [&](const char* key, std::vector<std::string>& out) {
    if (const auto* found = file.Texts(key)) out.assign(found->begin(), found->end());
  };
  texts("tokenizer.ggml.tokens", t.tokens);
  texts("tokenizer.ggml.merges", t.merges);
  if (const auto* scores = file.Numbers("tokenizer.ggml.scores"))
    t.scores.assign(scores->begin(), scores->end());
  if (const auto* types = file.Numbers("tokenizer.ggml.token_type")) {
    for (const double type : *types)
      t.token_type.push_back(type >= 1 && type <= 6 ? static_cast<int32_t>(type) : 0);
  }
  t.bos_token_id = IdOf(file, "bos_token_id");
  t.eos_token_id = IdOf(file, "eos_token_id");
  t.eot_token_id = IdOf(file, "eot_token_id");
  t.unknown_token_id = IdOf(file, "unknown_token_id");
  t.padding_token_id = IdOf(file, "padding_token_id");
  t.add_bos_token = file.Truth("tokenizer.ggml.add_bos_token");
  t.add_eos_token = file.Truth("tokenizer.ggml.add_eos_token");
  t.add_space_prefix = file.Truth("tokenizer.ggml.add_space_prefix");
  t.chat_template = file.Text("tokenizer.chat_template");
  t.tool_template = file.Text("tokenizer.chat_template.tool_use");
  return TokenizerFromGguf(t);
}

Result<Tokenizer> OfFacts(const LanguageModelFacts& facts) {
  if (const auto gguf = facts.files.find(kGguf); gguf != facts.files.end())
    return WithContext(FromGgufFacts(gguf->second), kGguf);
  return Tokenizer::FromFiles(facts.files);
}

// The rows of the model in a folder; 0: it does not say.
int64_t RowsOfFolder(const std::string& path) {
  const auto config = ReadJsonFile(path + "/config.json");
  const double rows = config ? JsonNumber(*config, "vocab_size") : 0;
  return rows > 0 && rows <= kMaxRows ? static_cast<int64_t>(rows) : 0;
}

}  // namespace

Result<Tokenizer> LoadTokenizer(const std::string& path) {
  std::optional<Tokenizer> carried;
  if (IsEtmFile(path)) {
    EVOQ_ASSIGN(const Model model, ReadEtm(path));
    EVOQ_ASSIGN(ModelTokenizer of_model, WithContext(TokenizerOf(model.graph), path));
    carried = std::move(of_model.tokenizer);
  } else if (const auto file = MappedFile::Open(path); file && IsGguf((*file)->bytes())) {
    EVOQ_ASSIGN(const GgufFile gguf, ReadGguf(path));
    if (gguf.tokenizer_count > 0) {
      EVOQ_ASSIGN(carried, WithContext(FromGgufFacts(TokenizerGguf(gguf)), path));
    }
  } else {
    EVOQ_ASSIGN(carried, Tokenizer::Load(path));
    carried->Widen(RowsOfFolder(path));
  }
  if (!carried) return Unsupported("{}: the model carries no tokenizer", path);
  return std::move(*carried);
}

Result<ModelTokenizer> TokenizerOf(const Graph& graph, const std::string& path) {
  LanguageModelFacts facts;
  if (IsLanguageModel(graph) || IsTextEncoder(graph)) {
    EVOQ_ASSIGN(facts, ReadFacts(graph));
  }
  ModelTokenizer out;
  out.ends = facts.end;
  if (path.empty() && facts.files.empty()) return out;
  EVOQ_ASSIGN(out.tokenizer, path.empty() ? OfFacts(facts) : LoadTokenizer(path));
  out.tokenizer->Widen(facts.vocabulary);
  for (const int64_t end : out.tokenizer->ends()) {
    if (std::ranges::find(out.ends, end) == out.ends.end()) out.ends.push_back(end);
  }
  return out;
}

std::optional<std::string> UnreadTokenizer(const Graph& graph) {
  const auto text = TokenizerOf(graph);
  if (text) return std::nullopt;
  return fmt::format("the model's tokenizer cannot be read, texts will need another: {}",
                     text.error().message());
}

Result<ModelTokenizer> TokenizerOf(const CachedModel& model, const std::string& path) {
  EVOQ_ASSIGN(ModelTokenizer out, TokenizerOf(model.graph(), path));
  if (out.tokenizer) out.tokenizer->Widen(model.vocabulary());
  return out;
}

}  // namespace evoq
