#include "serve/openai_request.h"

#include <algorithm>
#include <cmath>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

constexpr size_t kMaxStops = 16, kMaxTexts = 1024;  // of a request
constexpr char kEffort[] = "reasoning_effort";      // OpenAI's, and of templates
constexpr int64_t kMaxLogprobs = 20;                // of a token's place

// Members of OpenAI's, vLLM's and llama.cpp's interfaces that change the text and that there are
// not here, and the value, as JSON, with which they change nothing. null, false and what is empty
// change nothing in any case.
struct NotHere {
  const char* name;
  const char* off = "null";
};
constexpr NotHere kNotHere[] = {
    // OpenAI
    {"suffix"},
    {"functions"},
    {"function_call", R"("auto")"},
    {"modalities", R"(["text"])"},
    {"audio"},
    {"prediction"},
    {"verbosity"},
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
                                     "return_progress",
                                     "timings_per_token",
                                     "priority"};

Status RefuseOthers(Fields& fields) {
  for (const char* name : kNoMatter) fields.Accept(name);
  for (const NotHere& row : kNotHere) {
    const json &value = fields.Member(row.name), off = *ParseJson(row.off);
    const bool empty = value.is_structured() || value.is_null();
    if ((empty && value.empty()) || value == false || value == "" || value == off) continue;
    return Unsupported(
        "{}: {}, not supported by this server{}", row.name, Brief(value),
        off.is_primitive() && !off.is_null() ? fmt::format(", expected {}", off.dump()) : "");
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

Result<const Tokenizer*> TokenizerFor(const TextModel& model) {
  if (model.tokenizer()) return &*model.tokenizer();
  return Unsupported("the model carries no tokenizer: a prompt must be a list of tokens");
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

// The arguments of calls, which OpenAI's interface has as texts and templates as objects.
void ReadArguments(ordered_json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (ordered_json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    ordered_json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const auto text = function["arguments"].get<std::string>();
    if (const auto read = ParseJson(text); read && read->is_object())
      function["arguments"] = ordered_json::parse(text);
  }
}

// Content in parts, which are texts, as one text.
Result<ordered_json> PlainMessage(const ordered_json& message, size_t index) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
    return InvalidInput("messages[{}]: {}, expected an object with a role", index,
                        Brief(json(message)));
  ordered_json plain = message;
  ReadArguments(plain);
  if (!plain.contains("content") || !plain["content"].is_array()) return plain;
  std::string text;
  for (const json part : message["content"]) {
    if (JsonText(part, "type") != "text")
      return Unsupported("messages[{}]: content of type {}, expected text", index,
                         Shorten(JsonText(part, "type")));
    text += JsonText(part, "text");
  }
  plain["content"] = std::move(text);
  return plain;
}

// What the members tool_choice and response_format make the text: a call where it must be one, an
// answer of its form or a call where it may be either.
Status ReadToolChoice(Fields& fields, const ordered_json& tools, TextAsked& asked) {
  const json& choice = fields.Member("tool_choice");
  std::shared_ptr<const Grammar>& grammar = asked.options.grammar;
  const bool of_answer = grammar != nullptr && !fields.Member("response_format").is_null();
  const bool free = choice.is_null() || choice == "auto";
  if (free && !of_answer) return {};
  std::string name;
  if (choice.is_object() && choice.contains("function"))
    name = JsonText(choice["function"], "name");
  if (!free && choice != "required" && name.empty())
    return InvalidInput("tool_choice: {}, expected auto, none, required or a function with a name",
                        Brief(choice));
  if (grammar != nullptr && !of_answer)
    return InvalidInput("tool_choice: {}, and another member says the text's form already",
                        Brief(choice));
  EVOQ_ASSIGN(auto calls, GrammarOfCalls(tools, asked.tools, name));
  asked.tools.plain_json = asked.tools.form->arguments == nullptr;
  grammar = free ? GrammarOfEither(*grammar, *calls) : std::move(calls);
  return {};
}

// The text of a chat whose template takes tools, which `plain` is without them.
Result<std::string> ChatWithTools(Fields& fields, const ordered_json& tools,
                                  const Tokenizer& tokenizer, ordered_json variables,
                                  const std::string& plain, TextAsked& asked) {
  EVOQ_ASSIGN(asked.tools, ReadTools(tools, tokenizer));
  variables["tools"] = tools;
  EVOQ_ASSIGN(std::string text, RenderChat(tokenizer, std::move(variables)));
  if (text == plain)
    return Unsupported(
        "tools: the model's chat template takes none, expected the tool_choice none");
  bool parallel = true;
  fields.Read("parallel_tool_calls", parallel);
  asked.tools.single = !parallel;
  EVOQ_TRY(ReadToolChoice(fields, tools, asked));
  asked.options.shown_tokens = asked.tools.markers;
  return text;
}

// How much a model thinks, where its template asks for it.
Status ReadEffort(Fields& fields, const Tokenizer& tokenizer, ordered_json& variables) {
  const json& effort = fields.Member(kEffort);
  if (effort.is_null()) return {};
  const bool asks = tokenizer.chat_template().find(kEffort) != std::string::npos;
  if (!asks || !effort.is_string())
    return Unsupported("{}: {}, {}", kEffort, Brief(effort),
                       asks ? "expected a text" : "the model's chat template takes none");
  variables[kEffort] = effort;
  return {};
}

// Texts in channels are read as such without tools, too.
Status ReadChannels(const Tokenizer& tokenizer, TextAsked& asked) {
  EVOQ_ASSIGN(OfferedTools none, ReadTools(ordered_json::array(), tokenizer));
  if (!none.form->channels) return {};
  asked.options.shown_tokens = none.markers;
  asked.tools = std::move(none);
  return {};
}

// The text of a chat.
Result<std::vector<int64_t>> ChatPrompt(Fields& fields, const ordered_json& ordered,
                                        const TextModel& model, TextAsked& asked) {
  const json& messages = fields.Member("messages");
  if (!messages.is_array() || messages.empty())
    return InvalidInput("messages: {}, expected a list of messages", Brief(messages));
  ordered_json variables = {{"messages", ordered_json::array()}, {"add_generation_prompt", true}};
  const json& more = fields.Member("chat_template_kwargs");
  if (!more.is_null() && !more.is_object())
    return InvalidInput("chat_template_kwargs: {}, expected an object", Brief(more));
  EVOQ_ASSIGN(const Tokenizer* tokenizer, TokenizerFor(model));
  EVOQ_TRY(ReadEffort(fields, *tokenizer, variables));
  if (!more.empty()) variables.update(ordered["chat_template_kwargs"]);
  variables["messages"] = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    EVOQ_ASSIGN(ordered_json plain, PlainMessage(ordered["messages"][i], i));
    variables["messages"].push_back(std::move(plain));
  }
  EVOQ_ASSIGN(std::string text, RenderChat(*tokenizer, variables));
  const json &tools = fields.Member("tools"), &choice = fields.Member("tool_choice");
  if (!tools.empty() && choice != "none") {
    EVOQ_ASSIGN(text, ChatWithTools(fields, ordered["tools"], *tokenizer, std::move(variables),
                                    text, asked));
  } else if (!choice.is_null() && choice != "auto" && choice != "none") {
    return InvalidInput("tool_choice: {}, and the request has no tools", Brief(choice));
  } else {
    EVOQ_TRY(ReadChannels(*tokenizer, asked));
  }
  return tokenizer->Encode(text, {.add_special = false});
}

// A schema, which vLLM takes as a text too.
Result<std::shared_ptr<const Grammar>> SchemaOf(const ordered_json& schema) {
  return GrammarOfSchema(schema.is_string() ? schema.get<std::string>() : schema.dump());
}

Result<std::shared_ptr<const Grammar>> AnyObject() { return GrammarOfSchema("{}"); }

Result<std::shared_ptr<const Grammar>> FormatOf(const ordered_json& format) {
  const std::string type = JsonText(json(format), "type");
  if (type == "text") return nullptr;
  if (type == "json_object")  // llama.cpp takes a schema here
    return format.contains("schema") ? SchemaOf(format["schema"]) : AnyObject();
  if (type != "json_schema")
    return Unsupported("{}, expected the type text, json_object or json_schema",
                       Brief(json(format)));
  if (!format.contains("json_schema") || !format["json_schema"].is_object() ||
      !format["json_schema"].contains("schema"))
    return InvalidInput("{}, expected an object json_schema with a schema", Brief(json(format)));
  return SchemaOf(format["json_schema"]["schema"]);
}

Result<std::shared_ptr<const Grammar>> ChoiceOf(const ordered_json& choice) {
  const auto is_text = [](const ordered_json& one) { return one.is_string(); };
  if (!choice.is_array() || choice.empty() || !std::ranges::all_of(choice, is_text))
    return InvalidInput("{}, expected a list of texts", Brief(json(choice)));
  return GrammarOfTexts(choice.get<std::vector<std::string>>());
}

Result<std::shared_ptr<const Grammar>> GrammarOf(const ordered_json& grammar) {
  if (grammar.is_string()) return ParseGrammar(grammar.get<std::string>());
  return InvalidInput("{}, expected a text", Brief(json(grammar)));
}

Result<std::shared_ptr<const Grammar>> StructuredOf(const ordered_json& of);

// What says of which form the text is.
struct FormMember {
  const char* name;
  Result<std::shared_ptr<const Grammar>> (*grammar)(const ordered_json& value);
};
constexpr FormMember kForms[] = {{"response_format", FormatOf},  // OpenAI's
                                 {"grammar", GrammarOf},         // llama.cpp's
                                 {"json_schema", SchemaOf},
                                 {"guided_json", SchemaOf},  // vLLM's
                                 {"guided_choice", ChoiceOf},
                                 {"guided_grammar", GrammarOf},
                                 {"structured_outputs", StructuredOf}};
constexpr FormMember kStructured[] = {
    {"json", SchemaOf}, {"choice", ChoiceOf}, {"grammar", GrammarOf}};

Result<std::shared_ptr<const Grammar>> StructuredOf(const ordered_json& of) {
  for (const auto& [key, value] : of.items()) {
    if (value.is_null() || value == false) continue;
    if (key == "json_object") return AnyObject();
    const auto* const row =
        std::ranges::find_if(kStructured, [&](const FormMember& r) { return key == r.name; });
    if (row == std::end(kStructured))
      return Unsupported("{}, expected json, json_object, choice or grammar", Shorten(key));
    return WithContext(row->grammar(value), key);
  }
  return nullptr;
}

// At most one of them may be there.
Status ReadForm(Fields& fields, const ordered_json& ordered, GenerateOptions& options) {
  const char* first = nullptr;
  for (const FormMember& row : kForms) {
    const json& value = fields.Member(row.name);
    if (value.is_null() || value == "") continue;
    EVOQ_ASSIGN(auto grammar, WithContext(row.grammar(ordered[row.name]), row.name));
    if (grammar == nullptr) continue;
    if (options.grammar != nullptr)
      return InvalidInput("{}: {} says the text's form already", row.name, first);
    options.grammar = std::move(grammar);
    first = row.name;
  }
  return {};
}

// Tokens, and what their logits get more.
void ReadBias(Fields& fields, int64_t vocabulary, SamplingOptions& sampling) {
  const json& bias = fields.Member("logit_bias");
  if (bias.is_null()) return;
  if (!bias.is_object()) return fields.Fail("logit_bias", "an object of tokens");
  for (const auto& [token, more] : bias.items()) {
    const auto id = IntegerOf(token);
    if (!id || *id < 0 || *id >= vocabulary || !more.is_number() ||
        std::abs(more.get<double>()) > 100)
      return fields.Keep(
          InvalidInput("logit_bias: {}: {}, expected a token below {} and -100 to 100",
                       Shorten(token), Brief(more), vocabulary));
    sampling.logit_bias.emplace_back(*id, more.get<double>());
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
  EVOQ_TRY(ReadForm(fields, ordered, o));
  if (o.grammar != nullptr && !model.tokenizer())
    return Unsupported("a form of the text: the model carries no tokenizer");
  fields.Keep(RefuseOthers(fields));
  EVOQ_TRY(fields.Done(/*others=*/true));
  if (chat) {
    asked.prompts.emplace_back();
    EVOQ_ASSIGN(asked.prompts[0].tokens, ChatPrompt(fields, ordered, model, asked));
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

Result<TextAsked> ReadCompletion(const ordered_json& root, const TextModel& model) {
  return ReadAsked(root, model, false);
}

Result<TextAsked> ReadChat(const ordered_json& root, const TextModel& model) {
  return ReadAsked(root, model, true);
}

}  // namespace evoq::serve
