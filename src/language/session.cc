#include "language/session.h"

#include "base/file.h"
#include "base/json_file.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq {

Result<std::unique_ptr<LanguageSession>> LanguageSession::Load(const std::string& path,
                                                               const LanguageOptions& options) {
  if (options.threads < 0 || options.threads > 1024)
    return Fail(ErrorCode::kUsage, "{} threads, expected 0 to 1024", options.threads);
  if (options.context < 0)
    return Fail(ErrorCode::kUsage, "a context of {} tokens, expected 0 or more", options.context);
  const int64_t damages = DamagesSoFar();
  std::unique_ptr<LanguageSession> session(new LanguageSession);
  EVOQ_ASSIGN(session->model_, CachedModel::Load(path, {.threads = options.threads,
                                                        .slots = options.sequences,
                                                        .context = options.context,
                                                        .type = options.kv_cache}));
  EVOQ_ASSIGN(session->text_, WithContext(TokenizerOf(*session->model_, options.tokenizer), path));
  if (!options.draft.empty()) {
    // It drafts within the model's context; where its own is shorter, it drafts less.
    EVOQ_ASSIGN(session->draft_, CachedModel::Load(options.draft, {.threads = options.threads,
                                                                   .type = options.kv_cache}));
    EVOQ_TRY(WithContext(CheckDraft(*session->model_, *session->draft_), options.draft));
    EVOQ_TRY(WithContext(PrepareDraft(*session->model_, *session->draft_, 0), options.draft));
  }
  // What no graph of a language model is shows here.
  EVOQ_TRY(WithContext(session->model_->Prepare(0, options.sequences), path));
  session->writer_ = std::make_unique<Writer>(*session->model_, session->text_.tokenizer,
                                              session->text_.ends, session->draft_.get());
  EVOQ_TRY(NoDamageSince(damages));
  return session;
}

bool LanguageSession::has_chat_template() const {
  return has_tokenizer() && !text_.tokenizer->chat_template().empty();
}

int64_t LanguageSession::cache_bytes() const {
  return model_->cache_bytes() + (draft_ != nullptr ? draft_->cache_bytes() : 0);
}

Result<const Tokenizer*> LanguageSession::TheTokenizer() const {
  if (!has_tokenizer())
    return Fail(ErrorCode::kUsage, "the model carries no tokenizer: name its file or folder");
  return &*text_.tokenizer;
}

Result<std::vector<int64_t>> LanguageSession::Encode(std::string_view text,
                                                     bool add_special) const {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TheTokenizer());
  return tokenizer->Encode(text, {.add_special = add_special});
}

Result<SourceText> LanguageSession::EncodeSource(std::string_view text, const Languages& languages,
                                                 bool add_special) const {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TheTokenizer());
  if (!model_->reads() && !(languages.source.empty() && languages.target.empty()))
    return Fail(ErrorCode::kUsage, "languages are of models that read one text and write another");
  return evoq::EncodeSource(*tokenizer, text, languages, add_special);
}

Result<std::string> LanguageSession::Decode(std::span<const int64_t> tokens, bool special) const {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TheTokenizer());
  return tokenizer->Decode(tokens, special);
}

Result<std::string> LanguageSession::Chat(nlohmann::ordered_json variables) const {
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TheTokenizer());
  return RenderChat(*tokenizer, std::move(variables));
}

Result<std::vector<Generated>> LanguageSession::GenerateMany(
    std::span<const Request> requests,
    const std::function<bool(size_t request, std::string_view text)>& on_text,
    const Cancelled& cancelled) {
  writer_->Forget();
  auto texts =
      evoq::GenerateMany(*model_, text_.tokenizer, text_.ends, requests, on_text, cancelled);
  for (int64_t slot = 0; slot < model_->slots(); ++slot) model_->Truncate(slot, 0);
  return texts;
}

Result<std::shared_ptr<const Grammar>> FormOf(std::string_view grammar, std::string_view schema) {
  if (!grammar.empty() && !schema.empty())
    return Fail(ErrorCode::kUsage, "a grammar and a JSON schema, expected one of them");
  if (!grammar.empty()) return WithContext(ParseGrammar(grammar), "grammar");
  if (!schema.empty()) return WithContext(GrammarOfSchema(schema), "json_schema");
  return nullptr;
}

Result<nlohmann::ordered_json> JsonOf(std::string_view text, const char* what) {
  if (text.empty()) return nlohmann::ordered_json();
  // Of bounded depth.
  if (const auto valid = ParseJson(text); !valid)
    return Fail(ErrorCode::kUsage, "{}: {}", what, valid.error().message());
  return nlohmann::ordered_json::parse(text);
}

}  // namespace evoq
