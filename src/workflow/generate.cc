#include "workflow/generate.h"

#include <filesystem>

#include "base/printable.h"
#include "base/stopwatch.h"
#include "generate/model_tokenizer.h"
#include "generate/sequences.h"
#include "llm/facts.h"
#include "tokenizer/chat_template.h"
#include "workflow/models.h"

namespace evoq {
namespace {

using nlohmann::json;

Result<std::vector<int64_t>> TokensOf(const GenerateJob& job,
                                      const std::optional<Tokenizer>& carried,
                                      const std::string& prompt) {
  if (!carried)
    return Fail(ErrorCode::kUsage,
                "the model carries no tokenizer: name its file or folder (--tokenizer)");
  const Tokenizer& tokenizer = *carried;
  if (!job.chat) return tokenizer.Encode(prompt, {.add_special = !job.plain});
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!job.system.empty()) messages.push_back({{"role", "system"}, {"content", job.system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  nlohmann::ordered_json variables;
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = true;
  EVOQ_ASSIGN(const std::string text, RenderChat(tokenizer, std::move(variables)));
  return tokenizer.Encode(text, {.add_special = false});
}

Status CheckJob(const GenerateJob& job) {
  EVOQ_TRY(CheckThreads(job.threads));
  const auto fail = [](const char* what) { return Fail(ErrorCode::kUsage, "{}", what); };
  const bool prompted = !job.prompts.empty() || !job.prompt_tokens.empty();
  if (!job.audio.empty() && prompted) return fail("--audio takes no prompt");
  if (job.audio.empty() && !(job.speech.language.empty() && job.speech.task.empty()))
    return fail("--language and --task are of --audio");
  if (!job.audio.empty() && (job.chat || job.plain))
    return fail("--audio takes no --chat or --plain");
  const bool languages = !job.languages.source.empty() || !job.languages.target.empty();
  if (languages && (!job.audio.empty() || !job.prompt_tokens.empty()))
    return fail("--source-language and --target-language are of --prompt and --prompt-file");
  if (job.audio.empty() && !prompted)
    return fail("no prompt: --prompt TEXT, --prompt-file F or --prompt-tokens 1,2,3");
  if (!job.system.empty() && !job.chat) return fail("--system needs --chat");
  if (job.chat && job.plain) return fail("--plain: the chat template says what stands around");
  if (job.parallel < 1 || job.parallel > CachedModel::kMaxSlots)
    return Fail(ErrorCode::kUsage, "--parallel {}, expected 1 to {}", job.parallel,
                CachedModel::kMaxSlots);
  const bool one = job.parallel == 1;
  if (!job.draft.empty() && !one) return fail("--draft takes one prompt at a time");
  if (!job.cache.empty() && (!one || job.prompts.size() + job.prompt_tokens.size() > 1))
    return fail("--prompt-cache takes one prompt, and no --parallel");
  if (job.options.beams > 1 && !one) return fail("--beams takes one prompt at a time");
  if (job.options.beams > CachedModel::kMaxSlots)
    return Fail(ErrorCode::kUsage, "--beams {}, expected 1 to {}", job.options.beams,
                CachedModel::kMaxSlots);
  if (job.options.length_penalty && job.options.beams == 1)
    return fail("--length-penalty needs --beams");
  return {};
}

// The request of a prompt: tokens, and for a model that reads a text in which language to write.
Result<Request> RequestOf(const GenerateJob& job, const CachedModel& model,
                          const std::optional<Tokenizer>& tokenizer, const std::string& prompt) {
  Request request{.prompt = {}, .options = job.options};
  const bool named = !job.languages.source.empty() || !job.languages.target.empty();
  if (!named) {
    EVOQ_ASSIGN(request.prompt, TokensOf(job, tokenizer, prompt));
    return request;
  }
  if (!model.reads())
    return Fail(ErrorCode::kUsage, "languages are of models that read one text and write another");
  if (!tokenizer || job.chat)
    return Fail(ErrorCode::kUsage, "languages need the model's tokenizer, and no --chat");
  EVOQ_ASSIGN(SourceText source, EncodeSource(*tokenizer, prompt, job.languages, !job.plain));
  request.prompt = std::move(source.tokens);
  request.options.begin = std::move(source.begin);
  return request;
}

// The request of a sound. Its language is asked of the model where the job names none.
Result<Request> RequestOfSound(const GenerateJob& job, CachedModel& model,
                               const std::optional<Tokenizer>& tokenizer) {
  EVOQ_ASSIGN(const Sound sound, ReadWav(job.audio));
  Request request{.prompt = {}, .options = job.options};
  EVOQ_ASSIGN(request.options.sound, WithContext(HeardOf(model, sound), job.audio));
  if (!tokenizer)
    return Fail(ErrorCode::kUsage,
                "the model carries no tokenizer: name its file or folder (--tokenizer)");
  Writer asking(model, tokenizer, {});
  EVOQ_ASSIGN(request.options.begin,
              SpeechBegin(model, *tokenizer, job.speech, request.options.sound, asking));
  return request;
}

// Prompts of tokens do without the tokenizer that the model carries, where nothing else needs it.
Result<ModelTokenizer> TokenizerFor(const GenerateJob& job, const CachedModel& model,
                                    GenerateResult& result) {
  auto text = TokenizerOf(model, job.tokenizer);
  const bool needed = !job.prompts.empty() || !job.audio.empty() || !job.tokenizer.empty() ||
                      !job.options.stop.empty() || job.options.grammar != nullptr;
  if (text || needed) return WithContext(std::move(text), job.model);
  EVOQ_ASSIGN(const LanguageModelFacts facts, ReadFacts(model.graph()));
  result.note = "no text, only tokens: " + text.error().message();
  return ModelTokenizer{.tokenizer = std::nullopt, .ends = facts.end};
}

json ToJson(const Generated& text) {
  json out = {{"text", text.text},
              {"tokens", text.tokens},
              {"ended", EndedName(text.ended)},
              {"prompt_tokens", text.prompt_tokens},
              {"prompt_ms", text.prompt_ms},
              {"prompt_tokens_per_s", text.prompt_tokens_per_s()},
              {"decode_ms", text.decode_ms},
              {"host_ms", text.host_ms},
              {"tokens_per_s", text.tokens_per_s()}};
  if (text.drafted > 0) {
    out["drafted"] = text.drafted;
    out["accepted"] = text.accepted;
  }
  return out;
}

}  // namespace

double GenerateResult::tokens_per_s() const {
  double tokens = 0;
  for (const Generated& text : texts) tokens += static_cast<double>(text.tokens.size());
  return total_ms > 0 ? 1e3 * tokens / total_ms : 0;
}

Result<GenerateResult> Generate(
    const GenerateJob& job,
    const std::function<bool(size_t prompt, std::string_view text)>& on_text,
    const Follow& follow) {
  EVOQ_TRY(CheckJob(job));
  GenerateResult result;
  result.model = job.model;
  const Stopwatch load;
  EVOQ_TRY(follow.At("loading", 0));
  const CacheOptions caches{.threads = job.threads,
                            .slots = std::max(job.parallel, job.options.beams),
                            .context = job.context,
                            .type = job.kv_cache};
  EVOQ_ASSIGN(const std::unique_ptr<CachedModel> model, CachedModel::Load(job.model, caches));
  EVOQ_ASSIGN(const ModelTokenizer text, TokenizerFor(job, *model, result));
  std::unique_ptr<CachedModel> draft;
  if (!job.draft.empty()) {
    EVOQ_ASSIGN(draft, CachedModel::Load(job.draft, caches));
  }
  std::vector<Request> requests;
  int64_t longest = 0;
  for (const std::string& prompt : job.prompts) {
    EVOQ_ASSIGN(Request request, RequestOf(job, *model, text.tokenizer, prompt));
    longest = std::max(longest, static_cast<int64_t>(request.prompt.size()));
    requests.push_back(std::move(request));
  }
  for (const std::vector<int64_t>& tokens : job.prompt_tokens) {
    longest = std::max(longest, static_cast<int64_t>(tokens.size()));
    requests.push_back({tokens, job.options});
  }
  if (!job.audio.empty()) {
    EVOQ_ASSIGN(Request request, RequestOfSound(job, *model, text.tokenizer));
    requests.push_back(std::move(request));
  }
  const int64_t room = model->reads() ? model->source_context() : model->context();
  if (longest > room)
    return Fail(ErrorCode::kUsage,
                "the context is full: a prompt of {} tokens, expected at most {} (--context)",
                longest, room);
  EVOQ_TRY(model->Prepare(longest, model->slots()));
  if (draft != nullptr) EVOQ_TRY(PrepareDraft(*model, *draft, longest));
  result.load_ms = load.ms();
  // Runs so far, of the most that there may be.
  double runs = 0, most = 0;
  for (const Request& request : requests) most += static_cast<double>(request.options.max_tokens);
  most /= static_cast<double>(job.parallel);
  const auto cancelled = [&] { return !follow.At("generating", std::min(1.0, runs++ / most)); };
  const Stopwatch watch;
  if (job.parallel > 1) {
    EVOQ_ASSIGN(result.texts,
                GenerateMany(*model, text.tokenizer, text.ends, requests, on_text, cancelled));
  } else {
    Writer writer(*model, text.tokenizer, text.ends, draft.get());
    std::error_code error;
    if (!job.cache.empty() && std::filesystem::exists(job.cache, error))
      EVOQ_TRY(writer.Restore(job.cache));
    for (size_t i = 0; i < requests.size(); ++i) {
      OnText give;
      if (on_text) give = [&on_text, i](std::string_view piece) { return on_text(i, piece); };
      EVOQ_ASSIGN(Generated one,
                  writer.Write(requests[i].prompt, requests[i].options, give, cancelled));
      result.texts.push_back(std::move(one));
    }
    EVOQ_TRY(follow.At("generating", 1));
    if (!job.cache.empty()) EVOQ_TRY(writer.Save(job.cache));
  }
  result.total_ms = watch.ms();
  EVOQ_TRY(follow.At("generating", 1));
  result.context = model->context();
  result.cache_bytes = model->cache_bytes();
  result.threads = model->threads();
  return result;
}

Told Tell(const GenerateResult& result) {
  Told told;
  told.json = {{"model", result.model},
               {"context", result.context},
               {"cache_bytes", result.cache_bytes},
               {"threads", result.threads},
               {"load_ms", result.load_ms},
               {"total_ms", result.total_ms},
               {"tokens_per_s", result.tokens_per_s()},
               {"texts", json::array()}};
  if (!result.note.empty()) told.log.push_back("note: " + result.note);
  for (const Generated& text : result.texts) {
    told.json["texts"].push_back(ToJson(text));
    std::string line =
        fmt::format("prompt: {} tokens, {:.1f} per second; text: {} tokens", text.prompt_tokens,
                    text.prompt_tokens_per_s(), text.tokens.size());
    if (text.tokens_per_s() > 0)
      line += fmt::format(", {:.1f} per second ({:.1f}% outside of the model)", text.tokens_per_s(),
                          100 * text.host_ms / text.decode_ms);
    if (text.drafted > 0)
      line += fmt::format(", {} of {} drafted tokens kept", text.accepted, text.drafted);
    told.log.push_back(line + fmt::format("; ended by {}", EndedName(text.ended)));
  }
  if (result.texts.size() > 1)
    told.log.push_back(fmt::format("all: {:.1f} tokens per second", result.tokens_per_s()));
  return told;
}

}  // namespace evoq
