// What the public interfaces to language models stand on: a model, its tokenizer, and the sequence
// that it keeps.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "generate/languages.h"
#include "generate/model_tokenizer.h"
#include "generate/sequences.h"

namespace evoq {

struct LanguageOptions {
  int threads = 0;                     // 0: one per physical core
  int64_t context = 0, sequences = 1;  // as CacheOptions'
  std::string tokenizer, draft;        // paths; "": the model's own, none
  std::string kv_cache;                // CacheOptions::type, also the draft's
};

// One caller at a time; what is const is safe from many threads at any time, but for the writer.
class LanguageSession {
 public:
  // Errors: kUsage for options out of range and a draft of other tokens; those of loading.
  static Result<std::unique_ptr<LanguageSession>> Load(const std::string& path,
                                                       const LanguageOptions& options);

  const CachedModel& model() const { return *model_; }
  const std::vector<int64_t>& ends() const { return text_.ends; }
  bool has_tokenizer() const { return text_.tokenizer.has_value(); }
  bool has_chat_template() const;
  int64_t cache_bytes() const;  // with the draft's

  // Errors: kUsage where there is no tokenizer; the tokenizer's.
  Result<std::vector<int64_t>> Encode(std::string_view text, bool add_special) const;
  // The same with the languages of a model that reads one text and writes another. Errors: also
  // kUsage for languages of another model.
  Result<SourceText> EncodeSource(std::string_view text, const Languages& languages,
                                  bool add_special) const;
  Result<std::string> Decode(std::span<const int64_t> tokens, bool special) const;
  // The text of the model's chat template, to be encoded without add_special. `variables`: a JSON
  // object with messages, add_generation_prompt, ... Errors: kUsage where there is no tokenizer;
  // those of RenderChat.
  Result<std::string> Chat(nlohmann::ordered_json variables) const;

  // Of the kept sequence, in slot 0, with the draft.
  Writer& writer() { return *writer_; }
  const Writer& writer() const { return *writer_; }
  // As evoq::GenerateMany. The kept sequence is empty afterwards.
  Result<std::vector<Generated>> GenerateMany(
      std::span<const Request> requests,
      const std::function<bool(size_t request, std::string_view text)>& on_text,
      const Cancelled& cancelled = nullptr);

 private:
  LanguageSession() = default;
  Result<const Tokenizer*> TheTokenizer() const;
  std::unique_ptr<CachedModel> model_, draft_;
  ModelTokenizer text_;
  std::unique_ptr<Writer> writer_;
};

// Of a grammar or a JSON schema; "": none. Errors: kUsage where both are given; those of the
// grammar.
Result<std::shared_ptr<const Grammar>> FormOf(std::string_view grammar, std::string_view schema);

// JSON text of the caller, "" for null; `what` stands before messages. Errors: kUsage for text that
// is no JSON.
Result<nlohmann::ordered_json> JsonOf(std::string_view text, const char* what);

}  // namespace evoq
