#include "serve/tool_calls.h"

#include <algorithm>
#include <random>

#include "base/brief.h"
#include "base/json_file.h"
#include "serve/fields.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

constexpr size_t kMaxTools = 1024;

// The first row whose text a template has.
constexpr ToolForm kForms[] = {
    // Qwen3-Coder, GLM, gpt-oss, DeepSeek, Command R
    {"<function=", "", "", "", false, false},
    {"<arg_key>", "", "", "", false, false},
    {"<|channel|>", "", "", "", false, false},
    {"<｜tool▁calls▁begin｜>", "", "", "", false, false},
    {"<|START_ACTION|>", "", "", "", false, false},
    // Mistral; Phi and Granite; Hermes and Qwen; Llama 3
    {"[TOOL_CALLS]", "[TOOL_CALLS]", "", "arguments", true},
    {"<|tool_call|>", "<|tool_call|>", "<|/tool_call|>", "arguments", true},
    {"<tool_call>", "<tool_call>", "</tool_call>", "arguments"},
    {"<|python_tag|>", "<|python_tag|>", "", "parameters"},
    {"\"parameters\":", "", "", "parameters"},
    {"", "", "", "arguments"},
};
// Mistral's between a call's name and its arguments.
constexpr std::string_view kCallId = "[CALL_ID]", kArguments = "[ARGS]";

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// Nine letters and digits, which Mistral's templates insist on.
std::string NewId() {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr size_t kLength = 9;
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id;
  while (id.size() < kLength) id += kLetters[random() % kLetters.size()];
  return id;
}

// The object or list that the text begins with, taken off it; "" where there is none.
std::string_view TakeValue(std::string_view& text) {
  text = Trim(text);
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return "";
  int64_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth > 0) continue;
    const std::string_view value = text.substr(0, i + 1);
    text = Trim(text.substr(i + 1));
    return value;
  }
  return "";
}

std::optional<ordered_json> Parsed(std::string_view text) {
  if (!ParseJson(text)) return std::nullopt;
  return ordered_json::parse(text);
}

// {"name": ..., "arguments": ...}, also within a "function".
std::optional<ToolCall> CallOf(const ordered_json& object) {
  if (!object.is_object()) return std::nullopt;
  if (object.contains("function") && object["function"].is_object())
    return CallOf(object["function"]);
  if (!object.contains("name") || !object["name"].is_string()) return std::nullopt;
  ToolCall call{NewId(), object["name"].get<std::string>(), "{}"};
  if (object.contains("id") && object["id"].is_string()) call.id = object["id"].get<std::string>();
  for (const char* key : {"arguments", "parameters"}) {
    if (!object.contains(key) || object[key].is_null()) continue;
    const ordered_json& value = object[key];
    if (!value.is_object() && !value.is_string()) return std::nullopt;
    call.arguments = value.is_string() ? value.get<std::string>() : value.dump();
    break;
  }
  return call;
}

// Mistral's newer form: NAME[CALL_ID]ID[ARGS]{...}.
std::optional<ToolCall> NamedCall(std::string_view text) {
  const size_t at = text.find(kArguments);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view name = text.substr(0, at), value = text.substr(at + kArguments.size());
  ToolCall call{NewId(), "", ""};
  if (const size_t id = name.find(kCallId); id != std::string_view::npos) {
    call.id = Trim(name.substr(id + kCallId.size()));
    name = name.substr(0, id);
  }
  call.name = Trim(name);
  const auto arguments = Parsed(TakeValue(value));
  if (!arguments || call.name.empty() || !value.empty()) return std::nullopt;
  call.arguments = arguments->dump();
  return call;
}

// All of the text, which is calls one after the other, or lists of them; else none.
std::vector<ToolCall> CallsOf(std::string_view text) {
  text = Trim(text);
  if (const auto named = NamedCall(text)) return {*named};
  std::vector<ToolCall> calls;
  while (!text.empty()) {
    const auto value = Parsed(TakeValue(text));
    if (!value) return {};
    const ordered_json list = value->is_array() ? *value : ordered_json::array({*value});
    for (const ordered_json& one : list) {
      const auto call = CallOf(one);
      if (!call) return {};
      calls.push_back(*call);
    }
    if (text.starts_with(';') || text.starts_with(',')) text = Trim(text.substr(1));
  }
  return calls;
}

// A schema's references, where the schema stands at `at` of a larger one.
void MoveReferences(ordered_json& schema, const std::string& at) {
  if (!schema.is_structured()) return;
  for (auto& [key, value] : schema.items()) {
    if (schema.is_object() && key == "$ref" && value.is_string() &&
        value.get<std::string>().starts_with('#')) {
      value = "#" + at + value.get<std::string>().substr(1);
    } else {
      MoveReferences(value, at);
    }
  }
}

// How much of the end of the text may be the beginning of what is looked for.
size_t BegunAtEnd(std::string_view text, std::string_view wanted) {
  if (wanted.empty()) return 0;
  for (size_t n = std::min(text.size(), wanted.size() - 1); n > 0; --n) {
    if (text.ends_with(wanted.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

Result<OfferedTools> ReadTools(const ordered_json& tools, const Tokenizer& tokenizer) {
  OfferedTools offered;
  if (!tools.is_array() || tools.size() > kMaxTools)
    return InvalidInput("tools: {}, expected a list of at most {} functions", Brief(json(tools)),
                        kMaxTools);
  for (size_t i = 0; i < tools.size(); ++i) {
    const json tool = tools[i];
    const std::string name =
        tool.is_object() && tool.contains("function") ? JsonText(tool["function"], "name") : "";
    if (name.empty())
      return InvalidInput("tools[{}]: {}, expected an object with a function that has a name", i,
                          Brief(tool));
    offered.names.push_back(name);
  }
  const std::string& source =
      tokenizer.tool_template().empty() ? tokenizer.chat_template() : tokenizer.tool_template();
  const auto has = [&](const ToolForm& row) { return source.find(row.in_template) != source.npos; };
  offered.form = std::ranges::find_if(kForms, has);
  if (!offered.form->readable)
    return Unsupported(
        "tools: the model's chat template has calls in a form that this server does not read ({})",
        offered.form->in_template);
  for (const std::string_view marker : {std::string_view(offered.form->begin),
                                        std::string_view(offered.form->end), kCallId, kArguments}) {
    if (const auto id = tokenizer.Find(marker); id && tokenizer.IsSpecial(*id))
      offered.markers.push_back(*id);
  }
  return offered;
}

Result<std::shared_ptr<const Grammar>> GrammarOfCalls(const ordered_json& tools,
                                                      const OfferedTools& offered,
                                                      const std::string& name) {
  const ToolForm& form = *offered.form;
  ordered_json any = ordered_json::array(), all = ordered_json::object();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!name.empty() && offered.names[i] != name) continue;
    const ordered_json& function = tools[i]["function"];
    ordered_json parameters = {{"type", "object"}};
    if (function.contains("parameters") && function["parameters"].is_object() &&
        !function["parameters"].empty())
      parameters = function["parameters"];
    const std::string key = fmt::format("tool{}", i);
    MoveReferences(parameters, "/$defs/" + key);
    all[key] = std::move(parameters);
    ordered_json call = {{"name", {{"const", offered.names[i]}}},
                         {form.arguments, {{"$ref", "#/$defs/" + key}}}};
    any.push_back({{"type", "object"},
                   {"properties", std::move(call)},
                   {"required", {"name", form.arguments}}});
  }
  if (any.empty()) return InvalidInput("tool_choice: {} is none of the tools", Shorten(name));
  ordered_json schema = {{"anyOf", any}};
  if (form.list) {
    ordered_json items = std::move(schema);
    schema = {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}};
    if (!name.empty()) schema["maxItems"] = 1;
  }
  schema["$defs"] = std::move(all);
  const bool closed = *form.end != '\0';  // else special pieces, which a grammar does not write
  const std::string before = closed ? fmt::format("{}\n", form.begin) : "",
                    behind = closed ? fmt::format("\n{}", form.end) : "";
  return GrammarOfSchema(schema.dump(), before, behind);
}

std::string ToolCallReader::Next(std::string_view text) {
  held_ += text;
  std::string out;
  while (Read(false, out)) {
  }
  return out;
}

std::string ToolCallReader::Finish() {
  std::string out;
  while (Read(true, out)) {
  }
  // Blanks around calls belong to them.
  if (const std::string rest = std::exchange(held_, ""); count_ == 0 || !Trim(rest).empty())
    out += rest;
  return out;
}

// Takes calls; false: the text is none.
bool ToolCallReader::Take(std::string_view inner, bool offered_only) {
  std::vector<ToolCall> calls = CallsOf(inner);
  const auto is_offered = [&](const ToolCall& call) {
    return std::ranges::find(offered_.names, call.name) != offered_.names.end();
  };
  if (calls.empty() || (offered_only && !std::ranges::all_of(calls, is_offered))) return false;
  count_ += calls.size();
  for (ToolCall& call : calls) calls_.push_back(std::move(call));
  return true;
}

// Gives out so many bytes of what is held, but for blanks at their end, which wait.
void ToolCallReader::Give(size_t count, std::string& out) {
  const std::string_view text = std::string_view(held_).substr(0, count);
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == std::string_view::npos) return;
  out += text.substr(0, last + 1);
  held_.erase(0, last + 1);
  plain_ = false;
}

// A step: gives out what is no call, or takes calls. False: no more without more text.
bool ToolCallReader::Read(bool finished, std::string& out) {
  const std::string_view begin = offered_.form->begin, end = offered_.form->end;
  const std::string_view text = Trim(held_);
  const bool may_begin = text.starts_with(begin) || begin.starts_with(text);
  if (plain_ && end.empty() && (text.starts_with('{') || text.starts_with('[')) &&
      (begin.empty() || !may_begin)) {
    // What begins as JSON is nothing but calls, or none.
    if (!finished) return false;
    if (Take(text, true)) held_.clear();
    return false;
  }
  const size_t at = begin.empty() ? std::string::npos : held_.find(begin);
  if (at == std::string::npos) {
    Give(held_.size() - BegunAtEnd(held_, begin), out);
    return false;
  }
  const size_t first = at + begin.size();
  size_t last = held_.find(end.empty() ? begin : end, first);
  if (last == std::string::npos) {
    if (!finished) {
      Give(at, out);
      return false;
    }
    last = held_.size();
  }
  const size_t behind = std::min(last + end.size(), held_.size());
  if (Take(std::string_view(held_).substr(first, last - first), false)) {
    std::string rest = held_.substr(behind);
    held_.resize(at);
    Give(at, out);
    held_ = std::move(rest);
  } else {
    Give(behind, out);
  }
  return true;
}

}  // namespace evoq::serve
