#include "serve/response_items.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

Result<std::string> TextOf(const ordered_json& item, const char* key, const std::string& at) {
  if (item.contains(key) && item[key].is_string()) return item[key].get<std::string>();
  return InvalidInput("{}.{}: {}, expected a text", at, key,
                      Brief(item.contains(key) ? json(item[key]) : json()));
}

// A text, or a list of parts that have one.
Result<std::string> ContentOf(const ordered_json& item, const char* key, const std::string& at) {
  if (!item.contains(key) || !item[key].is_array()) return TextOf(item, key, at);
  constexpr const char* kTexts[] = {"input_text",     "output_text",  "text",
                                    "reasoning_text", "summary_text", "refusal"};
  std::string text;
  const ordered_json& parts = item[key];
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string where = fmt::format("{}.{}[{}]", at, key, i);
    const json part = parts[i];
    const std::string type = JsonText(part, "type");
    if (std::ranges::find(kTexts, type) == std::end(kTexts))
      return Unsupported("{}: {}{}, expected one of type input_text or output_text", where,
                         Brief(part), type.empty() ? "" : " of type " + Shorten(type));
    EVOQ_ASSIGN(const std::string piece,
                TextOf(parts[i], type == "refusal" ? "refusal" : "text", where));
    text += piece;
  }
  return text;
}

class Messages {
 public:
  // Templates take one text of the system, in front.
  void System(const std::string& text) {
    if (!list_.empty() && list_.back()["role"] == "system") {
      auto& before = list_.back()["content"].get_ref<std::string&>();
      before += "\n\n" + text;
    } else {
      list_.push_back({{"role", "system"}, {"content", text}});
    }
  }

  Status Add(const ordered_json& item, const std::string& at);
  ordered_json Take() { return std::move(list_); }

 private:
  Status Message(const ordered_json& item, const std::string& at);
  Status Call(const ordered_json& item, const std::string& at);
  Status Output(const ordered_json& item, const std::string& at);
  Status Reasoning(const ordered_json& item, const std::string& at);
  bool OfAssistant() const { return !list_.empty() && list_.back()["role"] == "assistant"; }
  void BeginAssistant() { list_.push_back({{"role", "assistant"}, {"content", ""}}); }

  struct Kind {
    const char* type;
    Status (Messages::*add)(const ordered_json& item, const std::string& at);
  };

  ordered_json list_ = ordered_json::array();
  std::map<std::string, std::string> names_;  // of the functions, by their calls
};

Status Messages::Message(const ordered_json& item, const std::string& at) {
  EVOQ_ASSIGN(std::string role, TextOf(item, "role", at));
  EVOQ_ASSIGN(const std::string text, ContentOf(item, "content", at));
  if (role == "system" || role == "developer") {
    System(text);
  } else if (role == "assistant") {
    // Behind what the model thought of it.
    const bool open =
        OfAssistant() && list_.back()["content"] == "" && !list_.back().contains("tool_calls");
    if (!open) BeginAssistant();
    list_.back()["content"] = text;
  } else if (role == "user") {
    list_.push_back({{"role", "user"}, {"content", text}});
  } else {
    return InvalidInput("{}.role: {}, expected user, assistant, system or developer", at,
                        Shorten(role));
  }
  return {};
}

Status Messages::Call(const ordered_json& item, const std::string& at) {
  EVOQ_ASSIGN(const std::string id, TextOf(item, "call_id", at));
  EVOQ_ASSIGN(const std::string name, TextOf(item, "name", at));
  EVOQ_ASSIGN(const std::string arguments, TextOf(item, "arguments", at));
  names_[id] = name;
  if (!OfAssistant()) BeginAssistant();
  ordered_json call = {
      {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  list_.back()["tool_calls"].push_back(std::move(call));
  return {};
}

Status Messages::Output(const ordered_json& item, const std::string& at) {
  EVOQ_ASSIGN(const std::string id, TextOf(item, "call_id", at));
  EVOQ_ASSIGN(const std::string text, ContentOf(item, "output", at));
  ordered_json message = {{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
  if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
  list_.push_back(std::move(message));
  return {};
}

// What was thought, where the item says it, else the summary.
Status Messages::Reasoning(const ordered_json& item, const std::string& at) {
  for (const char* key : {"content", "summary"}) {
    if (!item.contains(key) || item[key].is_null() || item[key].empty()) continue;
    EVOQ_ASSIGN(const std::string text, ContentOf(item, key, at));
    BeginAssistant();
    list_.back()["reasoning_content"] = text;
    return {};
  }
  return {};
}

Status Messages::Add(const ordered_json& item, const std::string& at) {
  static constexpr Kind kKinds[] = {{"message", &Messages::Message},
                                    {"function_call", &Messages::Call},
                                    {"function_call_output", &Messages::Output},
                                    {"reasoning", &Messages::Reasoning}};
  if (!item.is_object()) return InvalidInput("{}: {}, expected an item", at, Brief(json(item)));
  std::string type = "message";  // OpenAI's short form has none
  if (item.contains("type")) {
    EVOQ_ASSIGN(type, TextOf(item, "type", at));
  }
  for (const Kind& kind : kKinds) {
    if (type == kind.type) return (this->*kind.add)(item, at);
  }
  return Unsupported(
      "{}: of type {}, expected message, function_call, function_call_output or reasoning", at,
      Shorten(type));
}

}  // namespace

Result<ordered_json> MessagesOf(const std::string& instructions, const ordered_json& input) {
  Messages messages;
  if (!instructions.empty()) messages.System(instructions);
  if (input.is_string()) {
    ordered_json message = {{"role", "user"}, {"content", input}};
    EVOQ_TRY(messages.Add(message, "input"));
    return messages.Take();
  }
  if (!input.is_array() || input.empty())
    return InvalidInput("input: {}, expected a text or a list of items", Brief(json(input)));
  for (size_t i = 0; i < input.size(); ++i)
    EVOQ_TRY(messages.Add(input[i], fmt::format("input[{}]", i)));
  return messages.Take();
}

}  // namespace evoq::serve
