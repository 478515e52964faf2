#include "serve/chat_text.h"

#include <algorithm>

#include "base/brief.h"
#include "base/json_file.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/grammar/grammar.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

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

// The calls that a message says were made.
Status CheckCalls(const json& message, size_t index) {
  if (!message.contains("tool_calls") || message["tool_calls"].is_null()) return {};
  const json& calls = message["tool_calls"];
  const auto is_call = [](const json& call) {
    return call.is_object() && call.contains("function") &&
           !JsonText(call["function"], "name").empty();
  };
  if (calls.is_array() && std::ranges::all_of(calls, is_call)) return {};
  return InvalidInput("messages[{}].tool_calls: {}, expected a list of calls of functions", index,
                      Brief(calls));
}

// Only the tools that a choice of the type allowed_tools names; its mode.
Result<json> AllowTools(const json& choice, ordered_json& tools) {
  const json all = choice.value("allowed_tools", json());
  const std::string mode = JsonText(all, "mode");
  if (mode != "auto" && mode != "required")
    return InvalidInput("tool_choice: allowed_tools has the mode {}, expected auto or required",
                        mode.empty() ? "none" : Shorten(mode));
  const auto name_of = [](const json& tool) {
    return tool.is_object() && tool.contains("function") ? JsonText(tool["function"], "name") : "";
  };
  ordered_json allowed = ordered_json::array();
  for (const json& one : JsonArray(all, "tools")) {
    const std::string name = name_of(one);
    const auto found = std::ranges::find_if(tools, [&](const ordered_json& tool) {
      return !name.empty() && name_of(json(tool)) == name;
    });
    if (found == tools.end())
      return InvalidInput("tool_choice: {} is none of the tools", Shorten(name));
    allowed.push_back(*found);
  }
  tools = std::move(allowed);
  return json(mode);
}

// Content in parts, which are texts, as one text. `developers`: the template knows that role, which
// OpenAI has for the system's.
Result<ordered_json> PlainMessage(const ordered_json& message, size_t index, bool developers) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
    return InvalidInput("messages[{}]: {}, expected an object with a role", index,
                        Brief(json(message)));
  ordered_json plain = message;
  if (!developers && plain["role"] == "developer") plain["role"] = "system";
  EVOQ_TRY(CheckCalls(json(plain), index));
  ReadArguments(plain);
  if (!plain.contains("content")) return plain;
  const ordered_json& content = message["content"];
  if (content.is_null() || content.is_string()) return plain;
  if (!content.is_array())
    return InvalidInput("messages[{}].content: {}, expected a text or a list of parts", index,
                        Brief(json(content)));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const json part = content[i];
    const std::string type = JsonText(part, "type");
    const bool refusal = type == "refusal";
    if (type != "text" && !refusal)
      return Unsupported("messages[{}]: content of type {}, expected text", index, Shorten(type));
    const char* const key = refusal ? "refusal" : "text";
    if (!part.contains(key) || !part[key].is_string())
      return InvalidInput("messages[{}].content[{}].{}: {}, expected a text", index, i, key,
                          Brief(part.contains(key) ? part[key] : json()));
    text += part[key].get<std::string>();
  }
  plain["content"] = std::move(text);
  return plain;
}

// What the members tool_choice and response_format make the text: a call where it must be one, an
// answer of its form or a call where it may be either.
Status ReadToolChoice(Fields& fields, const json& choice, const ordered_json& tools,
                      TextAsked& asked) {
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
Result<std::string> ChatWithTools(Fields& fields, json choice, ordered_json tools,
                                  const Tokenizer& tokenizer, ordered_json variables,
                                  const std::string& plain, TextAsked& asked) {
  if (JsonText(choice, "type") == "allowed_tools") {
    EVOQ_ASSIGN(choice, AllowTools(choice, tools));
  }
  EVOQ_ASSIGN(asked.tools, ReadTools(tools, tokenizer));
  variables["tools"] = tools;
  EVOQ_ASSIGN(std::string text, RenderChat(tokenizer, std::move(variables)));
  if (text == plain)
    return Unsupported(
        "tools: the model's chat template takes none, expected the tool_choice none");
  bool parallel = true;
  fields.Read("parallel_tool_calls", parallel);
  asked.tools.single = !parallel;
  EVOQ_TRY(ReadToolChoice(fields, choice, tools, asked));
  asked.options.shown_tokens = asked.tools.markers;
  return text;
}

// What a template may ask for beside the messages, in OpenAI's words. How much a model thinks: not
// at all where it takes that alone.
Status ReadHints(Fields& fields, const Tokenizer& tokenizer, ordered_json& variables) {
  const auto takes = [&](const std::string& name) {
    return tokenizer.chat_template().find(name) != std::string::npos;
  };
  for (const std::string name : {"reasoning_effort", "verbosity"}) {
    const json& hint = fields.Member(name.c_str());
    if (hint.is_null()) continue;
    if (name == "verbosity" && hint == "medium" && !takes(name)) continue;  // as it is by itself
    if (hint == "none" && !takes(name) && takes("enable_thinking")) {
      variables["enable_thinking"] = false;
    } else if (!takes(name) || !hint.is_string()) {
      return Unsupported("{}: {}, {}", name, Brief(hint),
                         takes(name) ? "expected a text" : "the model's chat template takes none");
    } else {
      variables[name] = hint;
    }
  }
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

}  // namespace

Result<std::string> ReadChatText(Fields& fields, const ordered_json& ordered,
                                 const Tokenizer& tokenizer, TextAsked& asked) {
  const json& messages = fields.Member("messages");
  if (!messages.is_array() || messages.empty())
    return InvalidInput("messages: {}, expected a list of messages", Brief(messages));
  ordered_json variables = {{"messages", ordered_json::array()}, {"add_generation_prompt", true}};
  const json& more = fields.Member("chat_template_kwargs");
  if (!more.is_null() && !more.is_object())
    return InvalidInput("chat_template_kwargs: {}, expected an object", Brief(more));
  EVOQ_TRY(ReadHints(fields, tokenizer, variables));
  if (!more.empty()) variables.update(ordered["chat_template_kwargs"]);
  variables["messages"] = ordered_json::array();
  const bool developers = tokenizer.chat_template().find("developer") != std::string::npos;
  for (size_t i = 0; i < messages.size(); ++i) {
    EVOQ_ASSIGN(ordered_json plain, PlainMessage(ordered["messages"][i], i, developers));
    variables["messages"].push_back(std::move(plain));
  }
  EVOQ_ASSIGN(std::string text, RenderChat(tokenizer, variables));
  const json &tools = fields.Member("tools"), &choice = fields.Member("tool_choice");
  if (!tools.empty() && choice != "none") {
    EVOQ_ASSIGN(text, ChatWithTools(fields, choice, ordered["tools"], tokenizer,
                                    std::move(variables), text, asked));
  } else if (!choice.is_null() && choice != "auto" && choice != "none") {
    return InvalidInput("tool_choice: {}, and the request has no tools", Brief(choice));
  } else {
    EVOQ_TRY(ReadChannels(tokenizer, asked));
  }
  return text;
}

}  // namespace evoq::serve
