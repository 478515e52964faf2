#include <algorithm>
#include <cstring>

#include "base/guarded.h"
#include "base/turn.h"
#include "evoq/language_c.h"
#include "language/session.h"

struct evoq_language {
  std::unique_ptr<evoq::LanguageSession> session;
  evoq::Generated generated = {};           // of the last text
  mutable std::atomic<bool> taken = false;  // by a call that has not ended
};

namespace {

using evoq::ErrorCode;
using evoq::Fail;
using evoq::Guarded;
using evoq::Result;
using evoq::Status;

// 0, or 1 with the reason in error.
int Outcome(const Status& status, char* error, size_t error_size) {
  if (status) return 0;
  evoq::TellInC(status.error(), error, error_size);
  return 1;
}

// Errors: kUsage for a struct of the caller whose size is none.
template <typename T>
Status CheckSize(const T& given, const char* what) {
  if (given.size >= sizeof(size_t) && given.size <= 4096) return {};
  return Fail(ErrorCode::kUsage, "{}: a size of {}, expected {}", what, given.size, sizeof(T));
}

// The caller's options, which may be of another version: what an older one lacks is 0. Errors:
// kUsage for a size that is none, and for what a newer one asks for.
template <typename T>
Result<T> OptionsOf(const T* given) {
  T options = {};
  if (given == nullptr) return options;
  EVOQ_TRY(CheckSize(*given, "the options"));
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (std::any_of(bytes + std::min(sizeof(T), given->size), bytes + given->size,
                  [](char byte) { return byte != 0; }))
    return Fail(ErrorCode::kUsage, "the options: some that this version of evoq does not have");
  std::memcpy(&options, given, std::min(given->size, sizeof(T)));
  return options;
}

Status NotNull(const void* pointer, const char* what) {
  if (pointer == nullptr) return Fail(ErrorCode::kUsage, "{} is NULL", what);
  return {};
}

// `count` elements of the caller. Errors: kUsage.
template <typename T>
Result<std::span<const T>> Given(const T* data, size_t count, const char* what) {
  if (data == nullptr && count > 0) return Fail(ErrorCode::kUsage, "{} {} at NULL", count, what);
  return std::span(data, count);
}

// As much of `from` as there is room for, and how much there is.
template <typename Elements, typename T>
Status Give(const Elements& from, T* to, size_t capacity, size_t* count) {
  if (count != nullptr) *count = from.size();
  if (to != nullptr) std::copy_n(from.begin(), std::min(capacity, from.size()), to);
  return {};
}

Result<evoq::GenerateOptions> Inner(const evoq_generate_options& o) {
  evoq::GenerateOptions options;
  if (o.max_tokens != 0) options.max_tokens = o.max_tokens;
  evoq::SamplingOptions& s = options.sampling;
  s.temperature = o.temperature;
  s.top_k = o.top_k;
  if (o.top_p != 0) s.top_p = o.top_p;
  s.min_p = o.min_p;
  if (o.repeat_penalty != 0) s.repeat_penalty = o.repeat_penalty;
  s.seed = o.seed;
  EVOQ_ASSIGN(const auto stop, Given(o.stop, o.stop_count, "stop texts"));
  for (const char* text : stop) {
    EVOQ_TRY(NotNull(text, "a stop text"));
    options.stop.push_back(text);
  }
  options.ignore_end = o.ignore_end != 0;
  const auto text = [](const char* given) { return std::string_view(given ? given : ""); };
  EVOQ_ASSIGN(options.grammar, evoq::FormOf(text(o.grammar), text(o.json_schema)));
  if (o.beams != 0) options.beams = o.beams;
  if (o.length_penalty != 0) options.length_penalty = o.length_penalty;
  return options;
}

struct Caller {
  const evoq_generate_options* options;
  evoq_on_text on_text;
  void* user;
  evoq_generated* generated;
};

// `prompt` (evoq_generate_options -> Result of a SourceText) gives what the text continues.
template <typename Prompt>
Status Generate(evoq_language* model, const Caller& caller, const Prompt& prompt) {
  EVOQ_TRY(NotNull(model, "the model"));
  const evoq::Turn turn(model->taken);
  EVOQ_TRY(turn.Check("model"));
  model->generated = {};
  EVOQ_ASSIGN(const evoq_generate_options options, OptionsOf(caller.options));
  if (caller.generated != nullptr) EVOQ_TRY(CheckSize(*caller.generated, "the result"));
  EVOQ_ASSIGN(evoq::GenerateOptions inner, Inner(options));
  EVOQ_ASSIGN(evoq::SourceText source, prompt(options));
  inner.begin = std::move(source.begin);
  evoq::OnText on_text;
  if (caller.on_text != nullptr)
    on_text = [&](std::string_view text) {
      return caller.on_text(text.data(), text.size(), caller.user) == 0;
    };
  EVOQ_ASSIGN(model->generated, model->session->writer().Write(source.tokens, inner, on_text));
  const evoq::Generated& text = model->generated;
  if (caller.generated == nullptr) return {};
  const evoq_generated out = {.size = caller.generated->size,
                              .ended = evoq::EndedName(text.ended),
                              .tokens = text.tokens.data(),
                              .token_count = text.tokens.size(),
                              .prompt_tokens = text.prompt_tokens,
                              .prompt_ms = text.prompt_ms,
                              .decode_ms = text.decode_ms,
                              .host_ms = text.host_ms,
                              .drafted = text.drafted,
                              .accepted = text.accepted};
  std::memcpy(caller.generated, &out, std::min(out.size, sizeof(out)));
  return {};
}

}  // namespace

extern "C" {

evoq_language* evoq_language_load(const char* path, const evoq_language_options* options,
                                  char* error, size_t error_size) {
  auto model = Guarded([&]() -> Result<std::unique_ptr<evoq_language>> {
    EVOQ_TRY(NotNull(path, "the path"));
    EVOQ_ASSIGN(const evoq_language_options o, OptionsOf(options));
    evoq::LanguageOptions inner{.threads = o.threads, .context = o.context};
    if (o.sequences != 0) inner.sequences = o.sequences;
    if (o.tokenizer != nullptr) inner.tokenizer = o.tokenizer;
    if (o.draft != nullptr) inner.draft = o.draft;
    if (o.kv_cache != nullptr) inner.kv_cache = o.kv_cache;
    auto made = std::make_unique<evoq_language>();
    EVOQ_ASSIGN(made->session, evoq::LanguageSession::Load(path, inner));
    return made;
  });
  if (model) return model->release();
  evoq::TellInC(model.error(), error, error_size);
  return nullptr;
}

void evoq_language_free(evoq_language* model) { delete model; }

int64_t evoq_language_vocabulary(const evoq_language* model) {
  return model == nullptr ? 0 : model->session->model().vocabulary();
}
int64_t evoq_language_context(const evoq_language* model) {
  return model == nullptr ? 0 : model->session->model().context();
}
int64_t evoq_language_cache_bytes(const evoq_language* model) {
  return model == nullptr ? 0 : model->session->cache_bytes();
}

int evoq_language_encode(const evoq_language* model, const char* text, int add_special,
                         int64_t* tokens, size_t capacity, size_t* count, char* error,
                         size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    EVOQ_TRY(NotNull(text, "the text"));
    EVOQ_ASSIGN(const std::vector<int64_t> all, model->session->Encode(text, add_special != 0));
    return Give(all, tokens, capacity, count);
  });
  return Outcome(status, error, error_size);
}

int evoq_language_decode(const evoq_language* model, const int64_t* tokens, size_t count,
                         int special, char* text, size_t capacity, size_t* bytes, char* error,
                         size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    EVOQ_ASSIGN(const auto given, Given(tokens, count, "tokens"));
    EVOQ_ASSIGN(const std::string all, model->session->Decode(given, special != 0));
    return Give(all, text, capacity, bytes);
  });
  return Outcome(status, error, error_size);
}

int evoq_language_chat(const evoq_language* model, const char* variables, char* text,
                       size_t capacity, size_t* bytes, char* error, size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    EVOQ_TRY(NotNull(variables, "the text of variables"));
    EVOQ_ASSIGN(nlohmann::ordered_json parsed, evoq::JsonOf(variables, "the variables"));
    EVOQ_ASSIGN(const std::string all, model->session->Chat(std::move(parsed)));
    return Give(all, text, capacity, bytes);
  });
  return Outcome(status, error, error_size);
}

int evoq_language_generate(evoq_language* model, const char* prompt,
                           const evoq_generate_options* options, evoq_on_text on_text, void* user,
                           evoq_generated* generated, char* error, size_t error_size) {
  const Status status = Guarded([&] {
    return Generate(model, {options, on_text, user, generated},
                    [&](const evoq_generate_options& o) -> Result<evoq::SourceText> {
                      EVOQ_TRY(NotNull(prompt, "the prompt"));
                      const auto text = [](const char* given) { return given ? given : ""; };
                      return model->session->EncodeSource(
                          prompt, {text(o.source_language), text(o.target_language)}, o.plain == 0);
                    });
  });
  return Outcome(status, error, error_size);
}

int evoq_language_generate_tokens(evoq_language* model, const int64_t* prompt, size_t count,
                                  const evoq_generate_options* options, evoq_on_text on_text,
                                  void* user, evoq_generated* generated, char* error,
                                  size_t error_size) {
  const Status status = Guarded([&] {
    return Generate(model, {options, on_text, user, generated},
                    [&](const evoq_generate_options&) -> Result<evoq::SourceText> {
                      EVOQ_ASSIGN(const auto tokens, Given(prompt, count, "tokens"));
                      return evoq::SourceText{{tokens.begin(), tokens.end()}, {}};
                    });
  });
  return Outcome(status, error, error_size);
}

int evoq_language_logits(evoq_language* model, const int64_t* tokens, size_t count, int64_t last,
                         float* logits, char* error, size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    const evoq::Turn turn(model->taken);
    EVOQ_TRY(turn.Check("model"));
    EVOQ_TRY(NotNull(logits, "the memory for logits"));
    EVOQ_ASSIGN(const auto given, Given(tokens, count, "tokens"));
    EVOQ_ASSIGN(const auto rows, model->session->writer().Logits(given, last));
    std::copy(rows.begin(), rows.end(), logits);
    return {};
  });
  return Outcome(status, error, error_size);
}

void evoq_language_forget(evoq_language* model) {
  if (model != nullptr) model->session->writer().Forget();
}

int evoq_language_save(const evoq_language* model, const char* path, char* error,
                       size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    const evoq::Turn turn(model->taken);
    EVOQ_TRY(turn.Check("model"));
    EVOQ_TRY(NotNull(path, "the path"));
    return model->session->writer().Save(path);
  });
  return Outcome(status, error, error_size);
}

int evoq_language_restore(evoq_language* model, const char* path, char* error, size_t error_size) {
  const Status status = Guarded([&]() -> Status {
    EVOQ_TRY(NotNull(model, "the model"));
    const evoq::Turn turn(model->taken);
    EVOQ_TRY(turn.Check("model"));
    EVOQ_TRY(NotNull(path, "the path"));
    return model->session->writer().Restore(path);
  });
  return Outcome(status, error, error_size);
}

}  // extern "C"
