#include "serve/openai_request.h"

#include <algorithm>
#include <cmath>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/chat_text.h"
#include "serve/fields.h"
#include "serve/text_form.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

constexpr size_t kMaxStops = 16, kMaxTexts = 1024;  // of a request
constexpr int64_t kMaxLogprobs = 20;                // of a token's place

// Members of OpenAI's, vLLM's and llama.cpp's interfaces that change the text and that there are
// not here, and the value, as JSON, with which they change nothing. null, false and what is empty
// change nothing in any case.
struct NotHere {
  const char* name;
  const char* off = "null";
  const char* instead = nullptr;  // the member that says the same
};
constexpr NotHere kNotHere[] = {
    // OpenAI
    {"suffix"},
    {"functions", "null", "tools"},
    {"function_call", R"("auto")", "tool_choice"},
    {"modalities", R"(["text"])"},
    {"audio"},
    {"web_search_options"},
    // vLLM
    {"length_penalty", "1"},
    {"use_beam_search"},
    {"bad_words"},
    {"allowed_token_ids"},
    {"logits_processors"},
    {"prompt_logprobs"},
    {"truncate_prompt_tokens"},
    {"include_stop_str_in_output"},
    {"skip_special_tokens", "true"},
    {"spaces_between_special_tokens", "true"},
    {"add_generation_prompt", "true"},
    {"continue_final_message"},
    {"chat_template"},
    {"documents"},
    {"guided_regex"},
    // llama.cpp
    {"n_probs", "0"},
    {"typical_p", "1"},
    {"tfs_z", "1"},
    {"mirostat", "0"},
    {"dynatemp_range", "0"},
    {"dry_multiplier", "0"},
    {"xtc_probability", "0"},
    {"top_n_sigma", "-1"},
    {"repeat_last_n", "64"},
    {"samplers"},
    {"n_keep", "0"},
    {"lora"},
};

// Those that change no text.
constexpr const char* kNoMatter[] = {"user",
                                     "store",
                                     "metadata",
                                     "service_tier",
                                     "cache_prompt",
                                     "prompt_cache_key",
                                     "id_slot",
                                     "request_id",
                                     "safety_identifier",
                                     "prediction",  // of what is written, for speed
                                     "prompt_cache_retention",
                                     "return_progress",
                                     "timings_per_token",
                                     "priority"};

Status RefuseOthers(Fields& fields) {
  for (const char* name : kNoMatter) fields.Accept(name);
  for (const NotHere& row : kNotHere) {
    const json &value = fields.Member(row.name), off = *ParseJson(row.off);
    const bool empty = value.is_structured() || value.is_null();
    if ((empty && value.empty()) || value == false || value == "" || value == off) continue;
    const std::string expected = row.instead != nullptr                 ? row.instead
                                 : off.is_primitive() && !off.is_null() ? off.dump()
                                                                        : "";
    return Unsupported("{}: {}, not supported by this server{}", row.name, Brief(value),
                       expected.empty() ? "" : ", expected " + expected);
  }
  return {};
}

Result<std::vector<std::string>> ReadStops(const json& stop) {
  std::vector<std::string> stops;
  if (stop.is_null()) return stops;
  if (stop.is_string()) return std::vector{stop.get<std::string>()};
  const bool texts =
      stop.is_array() && stop.size() <= kMaxStops &&
      std::all_of(stop.begin(), stop.end(), [](const json& s) { return s.is_string(); });
  if (!texts)
    return InvalidInput("stop: {}, expected a text or at most {}", Brief(stop), kMaxStops);
  return stop.get<std::vector<std::string>>();
}

bool IsTokens(const json& prompt) {
  return prompt.is_array() && !prompt.empty() && prompt[0].is_number();
}

// `at`: its place in the request.
Result<TextAsked::Prompt> PromptOf(const json& prompt, const TextModel& model, bool echo,
                                   const std::string& at) {
  TextAsked::Prompt one;
  if (IsTokens(prompt)) {
    EVOQ_ASSIGN(one.tokens, ReadTokens(prompt, model.vocabulary(), at));
    if (echo && model.tokenizer()) {
      EVOQ_ASSIGN(one.text, model.tokenizer()->Decode(one.tokens, true));
    }
    return one;
  }
  if (!prompt.is_string())
    return InvalidInput("{}: {}, expected a text or a list of tokens", at, Brief(prompt));
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  const auto& text = prompt.get_ref<const std::string&>();
  EVOQ_ASSIGN(one.tokens, tokenizer->Encode(text, {.add_special = true}));
  if (echo) one.text = text;
  return one;
}

// One prompt, or a list of them.
Result<std::vector<TextAsked::Prompt>> PromptsOf(const json& prompt, const TextModel& model,
                                                 bool echo) {
  std::vector<TextAsked::Prompt> prompts;
  const bool list = prompt.is_array() && !IsTokens(prompt);
  if (list && (prompt.empty() || prompt.size() > kMaxTexts))
    return InvalidInput("prompt: {}, expected a text, a list of tokens, or at most {} of either",
                        Brief(prompt), kMaxTexts);
  for (size_t i = 0; i < (list ? prompt.size() : 1); ++i) {
    EVOQ_ASSIGN(TextAsked::Prompt one,
                PromptOf(list ? prompt[i] : prompt, model, echo,
                         list ? fmt::format("prompt[{}]", i) : std::string("prompt")));
    prompts.push_back(std::move(one));
  }
  return prompts;
}

// Tokens, and what their logits get more: an object, or llama.cpp's list of pairs, of which false
// says that a token never comes.
void ReadBias(Fields& fields, int64_t vocabulary, SamplingOptions& sampling) {
  const json& bias = fields.Member("logit_bias");
  if (bias.is_null()) return;
  const auto add = [&](const json& token, const json& more) {
    const auto id = IntegerOf(token);
    const bool in_range = more.is_number() && std::abs(more.get<double>()) <= 100;
    if (!id || *id < 0 || *id >= vocabulary || !(in_range || (bias.is_array() && more == false)))
      return fields.Keep(
          InvalidInput("logit_bias: {}: {}, expected a token below {} and -100 to 100",
                       Shorten(token.is_string() ? token.get<std::string>() : Brief(token)),
                       Brief(more), vocabulary));
    constexpr double kNever = -1000;
    sampling.logit_bias.emplace_back(*id, in_range ? more.get<double>() : kNever);
  };
  if (bias.is_object()) {
    for (const auto& [token, more] : bias.items()) add(token, more);
  } else if (bias.is_array() && std::ranges::all_of(bias, [](const json& pair) {
               return pair.is_array() && pair.size() == 2;
             })) {
    for (const json& pair : bias) add(pair[0], pair[1]);
  } else {
    fields.Fail("logit_bias", "an object of tokens, or a list of pairs");
  }
}

// How many choices of each prompt, and what is told of their tokens.
void ReadChoices(Fields& fields, bool chat, TextAsked& asked) {
  fields.Read("n", asked.choices, 1, static_cast<int64_t>(kMaxTexts));
  int64_t best_of = asked.choices;
  fields.Read("best_of", best_of, 1, INT64_MAX);
  if (best_of != asked.choices)
    fields.Keep(Unsupported("best_of: {}, not supported by this server, expected n, {}", best_of,
                            asked.choices));
  int64_t& likeliest = asked.options.likeliest;
  if (chat) {
    fields.Read("logprobs", asked.logprobs);
    fields.Read("top_logprobs", likeliest, 0, kMaxLogprobs);
    if (likeliest > 0 && !asked.logprobs) fields.Fail("top_logprobs", "logprobs: true beside it");
    if (fields.Member("echo") == true)
      fields.Keep(Unsupported("echo: true, not supported of a chat"));
    return;
  }
  if (fields.Member("logprobs") != false) {
    asked.logprobs = fields.has("logprobs") && !fields.Member("logprobs").is_null();
    fields.Read("logprobs", likeliest, 0, kMaxLogprobs);
  }
  fields.Read("echo", asked.echo);
  fields.Accept("top_logprobs");
}

void ReadSampling(Fields& fields, int64_t vocabulary, GenerateOptions& o) {
  o.sampling.temperature = 1;
  fields.Read("temperature", o.sampling.temperature, 0, 2);
  fields.Read("top_p", o.sampling.top_p, 1e-6, 1);
  fields.Read("top_k", o.sampling.top_k, -1, INT64_MAX);  // vLLM's -1: all
  o.sampling.top_k = std::max<int64_t>(o.sampling.top_k, 0);
  fields.Read("min_p", o.sampling.min_p, 0, 1);
  for (const char* name : {"repetition_penalty", "repeat_penalty"})  // vLLM's, llama.cpp's
    fields.Read(name, o.sampling.repeat_penalty, 1e-3, 1e3);
  int64_t seed = -1;  // as llama.cpp has it: one is drawn
  fields.Read("seed", seed, INT64_MIN, INT64_MAX);
  o.sampling.seed = seed == -1 ? DrawnSeed() : static_cast<uint64_t>(seed);
  fields.Read("presence_penalty", o.sampling.presence_penalty, -2, 2);
  fields.Read("frequency_penalty", o.sampling.frequency_penalty, -2, 2);
  ReadBias(fields, vocabulary, o.sampling);
  fields.Read("ignore_eos", o.ignore_end);
  fields.Read("stop_token_ids", o.stop_tokens, 0, vocabulary - 1);
  fields.Read("min_tokens", o.min_tokens, 0, int64_t{1} << 30);
}

// `ordered` has the members of objects in their order, which templates and schemas show.
Result<TextAsked> ReadAsked(const ordered_json& ordered, const TextModel& model, bool chat) {
  const json root = ordered;
  TextAsked asked;
  Fields fields(root, "");
  std::string name;
  fields.Read("model", name);
  GenerateOptions& o = asked.options;
  ReadSampling(fields, model.vocabulary(), o);
  ReadChoices(fields, chat, asked);
  fields.Read("stream", asked.stream);
  if (const json& how = fields.Member("stream_options"); !how.is_null()) {
    Fields of_stream(how, "stream_options");
    of_stream.Read("include_usage", asked.usage);
    fields.Keep(of_stream.Done(/*others=*/true));
  }
  EVOQ_ASSIGN(o.stop, ReadStops(fields.Member("stop")));
  EVOQ_TRY(ReadForm(fields, ordered, o.grammar));
  if (o.grammar != nullptr && !model.tokenizer())
    return Unsupported("a form of the text: the model carries no tokenizer");
  fields.Keep(RefuseOthers(fields));
  EVOQ_TRY(fields.Done(/*others=*/true));
  if (chat) {
    asked.prompts.emplace_back();
    EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
    EVOQ_ASSIGN(const std::string text, ReadChatText(fields, ordered, *tokenizer, asked));
    EVOQ_ASSIGN(asked.prompts[0].tokens, tokenizer->Encode(text, {.add_special = false}));
    const int64_t room = model.context() - std::ssize(asked.prompts[0].tokens);
    o.max_tokens = std::max<int64_t>(1, room);
  } else {
    EVOQ_ASSIGN(asked.prompts, PromptsOf(fields.Member("prompt"), model, asked.echo));
    o.max_tokens = 16;
  }
  if (asked.prompts.size() * static_cast<size_t>(asked.choices) > kMaxTexts)
    return InvalidInput("n: {} for each of {} prompts, expected at most {} texts", asked.choices,
                        asked.prompts.size(), kMaxTexts);
  for (const char* most : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    if (fields.Member(most) == -1) {  // llama.cpp's: what the context holds
      o.max_tokens = int64_t{1} << 30;
    } else {
      fields.Read(most, o.max_tokens, asked.echo ? 0 : 1, int64_t{1} << 30);
    }
  }
  o.score_prompt = asked.echo && (asked.logprobs || o.max_tokens == 0);
  EVOQ_TRY(fields.Done(/*others=*/true));
  for (const std::string& other : fields.Others()) asked.ignored.push_back(Shorten(other));
  constexpr size_t kMostNamed = 16;
  asked.ignored.resize(std::min(asked.ignored.size(), kMostNamed));
  return asked;
}

}  // namespace

Result<std::vector<int64_t>> ReadTokens(const json& list, int64_t vocabulary,
                                        const std::string& at) {
  std::vector<int64_t> tokens;
  for (const json& token : list) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() >= static_cast<uint64_t>(vocabulary))
      return InvalidInput("{}[{}]: {}, expected a token below {}", at, tokens.size(), Brief(token),
                          vocabulary);
    tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

Result<TextAsked> ReadCompletion(const ordered_json& root, const TextModel& model) {
  return ReadAsked(root, model, false);
}

Result<TextAsked> ReadChat(const ordered_json& root, const TextModel& model) {
  return ReadAsked(root, model, true);
}

}  // namespace evoq::serve
