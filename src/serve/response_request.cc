#include "serve/response_request.h"

#include <algorithm>
#include <iterator>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"
#include "serve/response_items.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

// Members that say the same in both.
constexpr const char* kOfResponses[] = {"input",
                                        "instructions",
                                        "max_output_tokens",
                                        "tools",
                                        "tool_choice",
                                        "text",
                                        "reasoning",
                                        "include",
                                        "metadata",
                                        "truncation",
                                        "store",
                                        "previous_response_id",
                                        "conversation",
                                        "background",
                                        "prompt",
                                        "moderation",
                                        "max_tool_calls",
                                        "stream_options",
                                        "prompt_cache_options",
                                        "prompt_cache_retention",
                                        "context_management"};

// Members of chats that responses do not have, or have under another name.
constexpr const char* kOfChats[] = {
    "messages",        "n",         "best_of",      "max_tokens",       "max_completion_tokens",
    "n_predict",       "logprobs",  "echo",         "reasoning_effort", "verbosity",
    "response_format", "functions", "function_call"};

// What a chat's member is called in a response, for messages.
struct Renamed {
  const char* chat;
  const char* response;
};
constexpr Renamed kRenamed[] = {{"response_format", "text.format"},
                                {"reasoning_effort", "reasoning.effort"},
                                {"verbosity", "text.verbosity"},
                                {"messages", "input"}};

constexpr int64_t kMaxTokens = int64_t{1} << 30;

// What would need something that is kept, or done elsewhere.
Status RefuseKept(Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation"}) {
    if (const json& value = fields.Member(name); !value.is_null())
      return Unsupported("{}: {}, {}: expected what was said before in input", name, Brief(value),
                         kNotKept);
  }
  for (const char* name : {"background", "prompt", "moderation"}) {
    if (const json& value = fields.Member(name); !value.is_null() && value != false)
      return Unsupported("{}: {}, not supported by this server", name, Brief(value));
  }
  bool store = false;  // nothing is kept in any case, as the answer says
  fields.Read("store", store);
  std::string truncation = "disabled";
  fields.Read("truncation", truncation);
  if (truncation != "disabled" && truncation != "auto")
    fields.Fail("truncation", "\"auto\" or \"disabled\"");
  return {};
}

Status CheckMetadata(Fields& fields) {
  const json& metadata = fields.Member("metadata");
  if (metadata.is_null()) return {};
  constexpr size_t kMost = 16, kKey = 64, kValue = 512;  // OpenAI's
  const auto fits = [&](const auto& pair) {
    return pair.key().size() <= kKey && pair.value().is_string() &&
           pair.value().template get_ref<const std::string&>().size() <= 4 * kValue;
  };
  bool all = metadata.is_object() && metadata.size() <= kMost;
  if (all) {
    for (const auto& pair : metadata.items()) all = all && fits(pair);
  }
  if (all) return {};
  return InvalidInput(
      "metadata: {}, expected an object of at most {} texts of at most {} "
      "characters, with names of at most {}",
      Brief(metadata), kMost, kValue, kKey);
}

// Of responses flat, of chats within a "function".
Result<ordered_json> ToolsOf(const ordered_json& tools) {
  if (!tools.is_array())
    return InvalidInput("tools: {}, expected a list of functions", Brief(json(tools)));
  ordered_json nested = ordered_json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const json tool = tools[i];
    const std::string type = JsonText(tool, "type");
    if (tool.is_object() && type != "function")
      return Unsupported("tools[{}]: of type {}, expected function", i,
                         type.empty() ? "none" : Shorten(type));
    if (JsonText(tool, "name").empty())
      return InvalidInput("tools[{}]: {}, expected an object with a name", i, Brief(tool));
    ordered_json function = ordered_json::object();
    for (const char* key : {"name", "description", "parameters", "strict"}) {
      if (tool.contains(key) && !tool[key].is_null()) function[key] = tools[i][key];
    }
    nested.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return nested;
}

// Only the tools that a choice of the type allowed_tools names. Its mode.
Result<ordered_json> AllowTools(const json& choice, ordered_json& tools) {
  const std::string mode = JsonText(choice, "mode");
  if (mode != "auto" && mode != "required")
    return InvalidInput("tool_choice.mode: {}, expected auto or required",
                        Brief(choice.contains("mode") ? choice["mode"] : json()));
  ordered_json allowed = ordered_json::array();
  for (const json& one : JsonArray(choice, "tools")) {
    const std::string name = JsonText(one, "name");
    const auto found = std::ranges::find_if(
        tools, [&](const ordered_json& tool) { return tool["function"]["name"] == name; });
    if (found == tools.end())
      return InvalidInput("tool_choice.tools[{}]: {} is none of the tools", allowed.size(),
                          Shorten(name));
    allowed.push_back(*found);
  }
  tools = std::move(allowed);
  return ordered_json(mode);
}

Status ReadTools(const ordered_json& root, ordered_json& chat) {
  ordered_json tools = ordered_json::array();
  if (root.contains("tools") && !root["tools"].is_null()) {
    EVOQ_ASSIGN(tools, ToolsOf(root["tools"]));
  }
  const json choice = root.contains("tool_choice") ? json(root["tool_choice"]) : json();
  const std::string type = JsonText(choice, "type");
  if (type == "allowed_tools") {
    EVOQ_ASSIGN(chat["tool_choice"], AllowTools(choice, tools));
  } else if (type == "function") {
    chat["tool_choice"] = {{"type", "function"},
                           {"function", {{"name", JsonText(choice, "name")}}}};
  } else if (choice.is_object()) {
    return Unsupported("tool_choice: of type {}, expected function or allowed_tools",
                       Shorten(type));
  } else if (!choice.is_null()) {
    chat["tool_choice"] = root["tool_choice"];
  }
  if (!tools.empty()) chat["tools"] = std::move(tools);
  return {};
}

Status ReadText(const ordered_json& root, Fields& fields, ordered_json& chat) {
  if (fields.Member("text").is_null()) return {};
  Fields text(fields.Member("text"), "text");
  EVOQ_TRY(text.Done(true));
  if (const json& verbosity = text.Member("verbosity"); !verbosity.is_null())
    chat["verbosity"] = root["text"]["verbosity"];
  const json& format = text.Member("format");
  if (format.is_null()) return {};
  if (!format.is_object())
    return InvalidInput("text.format: {}, expected an object", Brief(format));
  ordered_json flat = root["text"]["format"];
  if (JsonText(format, "type") == "json_schema") {
    if (!format.contains("schema"))
      return InvalidInput("text.format: {}, expected a schema", Brief(format));
    flat.erase("type");
    chat["response_format"] = {{"type", "json_schema"}, {"json_schema", std::move(flat)}};
  } else {
    chat["response_format"] = std::move(flat);
  }
  return {};
}

Status ReadReasoning(Fields& fields, ordered_json& chat) {
  const json& reasoning = fields.Member("reasoning");
  if (reasoning.is_null()) return {};
  Fields of(reasoning, "reasoning");
  EVOQ_TRY(of.Done(true));
  if (const json& effort = of.Member("effort"); !effort.is_null())
    chat["reasoning_effort"] = effort;
  return {};
}

// What more the answer is to say: of its list logprobs is here.
Status ReadInclude(Fields& fields, ordered_json& chat) {
  const json& include = fields.Member("include");
  int64_t likeliest = 0;
  fields.Read("top_logprobs", likeliest, 0, 20);
  if (!include.is_null() && !include.is_array())
    return InvalidInput("include: {}, expected a list", Brief(include));
  const bool named = include.is_array() &&
                     std::ranges::find(include, "message.output_text.logprobs") != include.end();
  if (named || likeliest > 0) chat["logprobs"] = true;
  return {};
}

// What the answer says again of the request.
json RepeatedOf(const json& root) {
  const json defaults = {{"instructions", nullptr},
                         {"max_output_tokens", nullptr},
                         {"metadata", json::object()},
                         {"parallel_tool_calls", true},
                         {"temperature", 1.0},
                         {"text", {{"format", {{"type", "text"}}}}},
                         {"tool_choice", "auto"},
                         {"tools", json::array()},
                         {"top_logprobs", 0},
                         {"top_p", 1.0},
                         {"truncation", "disabled"},
                         {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                         {"user", nullptr}};
  json repeated = defaults;
  for (const auto& [key, value] : defaults.items()) {
    if (!root.contains(key) || root[key].is_null()) continue;
    if (root[key].is_object() && value.is_object()) {
      repeated[key].update(root[key]);
    } else {
      repeated[key] = root[key];
    }
  }
  repeated["store"] = false;
  repeated["background"] = false;
  repeated["previous_response_id"] = nullptr;
  return repeated;
}

// The error in the words of responses.
Error InTheirWords(const Error& error) {
  for (const Renamed& row : kRenamed) {
    const std::string_view message = error.message(), chat = row.chat;
    if (message.starts_with(chat) && !message.substr(chat.size()).starts_with("_"))
      return Error(error.code(), fmt::format("{}{}", row.response, message.substr(chat.size())));
  }
  return error;
}

}  // namespace

Result<ChatOfResponse> AsChat(const ordered_json& root) {
  const json plain = root;
  Fields fields(plain, "");
  EVOQ_TRY(RefuseKept(fields));
  EVOQ_TRY(CheckMetadata(fields));
  ChatOfResponse out;
  out.chat = root;
  for (const char* name : kOfResponses) out.chat.erase(name);
  for (const char* name : kOfChats) {
    if (out.chat.erase(name) > 0) out.ignored.emplace_back(name);
  }
  std::string instructions;
  fields.Read("instructions", instructions);
  int64_t most = 0;
  fields.Read("max_output_tokens", most, 1, kMaxTokens);
  bool parallel = true;
  fields.Read("parallel_tool_calls", parallel);
  if (most > 0) out.chat["max_tokens"] = most;
  EVOQ_TRY(ReadTools(root, out.chat));
  EVOQ_TRY(ReadText(root, fields, out.chat));
  EVOQ_TRY(ReadReasoning(fields, out.chat));
  EVOQ_TRY(ReadInclude(fields, out.chat));
  EVOQ_TRY(fields.Done(/*others=*/true));
  EVOQ_ASSIGN(out.chat["messages"],
              MessagesOf(instructions, root.contains("input") ? root["input"] : ordered_json()));
  out.repeated = RepeatedOf(plain);
  return out;
}

Result<TextAsked> ReadResponse(const ordered_json& root, const TextModel& model) {
  EVOQ_ASSIGN(ChatOfResponse as, AsChat(root));
  auto asked = ReadChat(as.chat, model);
  if (!asked) return tl::unexpected(InTheirWords(asked.error()));
  asked->repeated = std::move(as.repeated);
  asked->ignored.insert(asked->ignored.end(), as.ignored.begin(), as.ignored.end());
  return asked;
}

}  // namespace evoq::serve
