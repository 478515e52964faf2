#include "workflow/generate.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq {
namespace {

using nlohmann::json;

// "15043=-100". Errors: kUsage.
Result<std::pair<int64_t, double>> BiasOf(const std::string& text) {
  std::pair<int64_t, double> bias;
  const char* const end = text.data() + text.size();
  const auto token = std::from_chars(text.data(), end, bias.first);
  if (token.ec == std::errc() && token.ptr != end && *token.ptr == '=') {
    const auto number = std::from_chars(token.ptr + 1, end, bias.second);
    if (number.ec == std::errc() && number.ptr == end && !std::isnan(bias.second)) return bias;
  }
  return Fail(ErrorCode::kUsage, "--logit-bias {}, expected TOKEN=NUMBER", text);
}

// "1.5". Errors: kUsage.
Result<double> PenaltyOf(const std::string& text) {
  double penalty = 0;
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, penalty);
  if (number.ec == std::errc() && number.ptr == end && std::isfinite(penalty)) return penalty;
  return Fail(ErrorCode::kUsage, "--length-penalty {}, expected a number", text);
}

constexpr int64_t kMostTokens = int64_t{1} << 30;

// Of what form the text is: one of these.
struct FormOptions {
  std::string grammar, grammar_file, schema, schema_file;

  void Add(const VerbOptions& options) {
    options.Add("--grammar", grammar, "The grammar that the text is of, in llama.cpp's GBNF");
    options.Add("--grammar-file", grammar_file, "A file with the grammar");
    options.Add("-j,--json-schema", schema,
                "The JSON schema that the text, which is JSON, is of; {}: any object");
    options.Add("--json-schema-file", schema_file, "A file with the schema");
  }

  Result<std::shared_ptr<const Grammar>> Read() const {
    const std::string* const given[] = {&grammar, &grammar_file, &schema, &schema_file};
    if (std::ranges::count_if(given, [](const std::string* g) { return !g->empty(); }) > 1)
      return Fail(ErrorCode::kUsage,
                  "one of --grammar, --grammar-file, --json-schema and --json-schema-file");
    if (!grammar.empty()) return WithContext(ParseGrammar(grammar), "--grammar");
    if (!schema.empty()) return WithContext(GrammarOfSchema(schema), "--json-schema");
    constexpr size_t kMaxBytes = size_t{4} << 20;
    if (!grammar_file.empty()) {
      EVOQ_ASSIGN(const std::string text, ReadTextFile(grammar_file, kMaxBytes));
      return WithContext(ParseGrammar(text), grammar_file);
    }
    if (schema_file.empty()) return nullptr;
    EVOQ_ASSIGN(const std::string text, ReadTextFile(schema_file, kMaxBytes));
    return WithContext(GrammarOfSchema(text), schema_file);
  }
};

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<GenerateJob>();
  auto file = std::make_shared<std::string>();
  auto numbers = std::make_shared<std::vector<int64_t>>();
  auto bias = std::make_shared<std::vector<std::string>>();
  options
      .Add("model", o->model,
           "A language model: MODEL.etm, a Hugging Face folder, a GGUF file, llama2.c's .bin")
      .Required();
  const VerbOption prompt =
      options.Add("-p,--prompt", o->prompts, "The prompt; may be repeated").OneEachTime();
  options.Add("-f,--prompt-file,--file", *file, "A file with the prompt").Excludes(prompt);
  options.Add("--prompt-tokens", *numbers, "A prompt as token ids: 1,15043,29892").SplitAt(',');
  options.AddFlag("--chat", o->chat,
                  "The prompt is a user's message, put into the model's chat template");
  options.Add("--system,--system-prompt", o->system, "The chat's system message");
  options.AddFlag("--plain", o->plain, "Without the special tokens around a prompt");
  options.Add("--tokenizer", o->tokenizer,
              "A tokenizer's file or folder (default: the one that the model carries)");
  GenerateOptions& g = o->options;
  options
      .Add("-n,--max-tokens,--n-predict,--predict", g.max_tokens,
           "The most tokens of a text; -1: what the context holds")
      .InRange(int64_t{-1}, kMostTokens)
      .ShowDefault();
  options.Add("--temperature,--temp", g.sampling.temperature, "0: always the likeliest token")
      .ShowDefault();
  options.Add("--top-k", g.sampling.top_k, "Draw from the K likeliest tokens; 0: from all")
      .ShowDefault();
  options
      .Add("--top-p", g.sampling.top_p,
           "Draw from the likeliest tokens that together reach this share")
      .ShowDefault();
  options
      .Add("--min-p", g.sampling.min_p,
           "Draw from tokens of at least this share of the likeliest one's probability")
      .ShowDefault();
  options
      .Add("--repeat-penalty", g.sampling.repeat_penalty,
           "Above 1: makes tokens less likely that are among the last 64")
      .ShowDefault();
  options
      .Add("--presence-penalty", g.sampling.presence_penalty,
           "Taken off the logits of tokens that the text has")
      .ShowDefault();
  options
      .Add("--frequency-penalty", g.sampling.frequency_penalty,
           "The same, for each time that it has them")
      .ShowDefault();
  options.Add("--logit-bias", *bias, "Added to the logits of tokens: 15043=-100,29892=2.5")
      .SplitAt(',');
  auto seed = std::make_shared<int64_t>(0);
  options.Add("-s,--seed", *seed, "Seed of the draws; -1: another one each time")
      .InRange(int64_t{-1}, INT64_MAX)
      .ShowDefault();
  options
      .Add("--min-tokens", g.min_tokens, "Before so many, no token comes that would end the text")
      .InRange(int64_t{0}, int64_t{1} << 30)
      .ShowDefault();
  options.Add("--stop", g.stop, "A text that ends the output; may be repeated").OneEachTime();
  options.Add("--stop-tokens", g.stop_tokens, "Tokens that end the output: 13,29889").SplitAt(',');
  auto form = std::make_shared<FormOptions>();
  form->Add(options);
  options
      .Add("--beams", g.beams, "Beam search: follow so many texts and take the likeliest; 1: none")
      .InRange(int64_t{1}, CachedModel::kMaxSlots)
      .ShowDefault();
  auto penalty = std::make_shared<std::string>();
  options.Add("--length-penalty", *penalty,
              "Of beams: scores are divided by the length to this power (default: the model's, 1)");
  options.Add("--audio", o->audio, "A WAV file that a model of speech hears, in place of a prompt");
  options.Add("--language", o->speech.language,
              "The language that is spoken: en (default: what the model hears)");
  options.Add("--task", o->speech.task, "transcribe (default), or translate into English");
  options.Add("--source-language", o->languages.source,
              "The language of the prompt, as a translating model names it: fra_Latn, fr_XX, fr");
  options.Add("--target-language", o->languages.target, "The language to translate into");
  options.AddFlag("--ignore-end,--ignore-eos", g.ignore_end, "Continue past the model's end token");
  options.Add("-c,--context,--ctx-size", o->context,
              "Tokens that a sequence may have (default: the model's own limit, at most 4096)");
  AddCacheType(options, o->kv_cache);
  options.Add("--parallel", o->parallel, "Prompts that run at the same time").ShowDefault();
  options.Add("--draft", o->draft,
              "A smaller model with the same tokens: it drafts several, which the model checks at "
              "once; the text stays the same");
  options.Add("--prompt-cache", o->cache,
              "A file that keeps the prompt's KV cache: what a prompt has in common with it is not "
              "run again");
  return [o, file, numbers, bias, form, penalty, seed, &common]() -> Result<json> {
    if (!penalty->empty()) {
      EVOQ_ASSIGN(o->options.length_penalty, PenaltyOf(*penalty));
    }
    GenerateOptions& g = o->options;
    if (g.max_tokens == 0)
      return Fail(ErrorCode::kUsage, "--max-tokens 0, expected -1 or more than 0");
    if (g.max_tokens < 0) g.max_tokens = kMostTokens;
    g.sampling.seed = *seed < 0 ? DrawnSeed() : static_cast<uint64_t>(*seed);
    EVOQ_ASSIGN(o->options.grammar, form->Read());
    if (!file->empty()) {
      EVOQ_ASSIGN(std::string text, ReadTextFile(*file));
      o->prompts = {std::move(text)};
    }
    if (!numbers->empty()) o->prompt_tokens = {*numbers};
    for (const std::string& one : *bias) {
      EVOQ_ASSIGN(o->options.sampling.logit_bias.emplace_back(), BiasOf(one));
    }
    o->threads = common.threads;
    // One text is shown as it comes, several each when all are there.
    const bool streams =
        o->prompts.size() + o->prompt_tokens.size() + (o->audio.empty() ? 0 : 1) == 1;
    const auto show = [&](size_t, std::string_view text) {
      if (streams) {
        Out("{}", Lines{text});
        FlushOut();
      }
      return true;
    };
    EVOQ_ASSIGN(const GenerateResult result, Generate(*o, show, common.follow));
    // One that was streamed is there already; without a tokenizer tokens are all there is.
    for (size_t i = 0; i < result.texts.size(); ++i) {
      const Generated& text = result.texts[i];
      if (!streams) Out("--- {}\n", i + 1);
      if (text.text.empty()) Out("{}", fmt::format("{}", fmt::join(text.tokens, " ")));
      if (!streams) Out("{}", Lines{text.text});
      Out("\n");
    }
    return Print(Tell(result));
  };
}

}  // namespace

extern const VerbDef kVerbGenerate = {
    .name = "generate",
    .doc = "Writes text with a language model.",
    .example = "evoq generate model.etm --prompt \"Once upon a time\" --max-tokens 64",
    .declare = Declare,
};

}  // namespace evoq
