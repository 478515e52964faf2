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

constexpr std::string_view kBlanks = " \t\r\n";

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

// Whether a channel's head, or a text that may become one, begins so.
bool MayBeHead(std::string_view text) {
  constexpr std::string_view kBegins[] = {"<|channel|>", "<|start|>", "to="};
  return std::ranges::any_of(kBegins, [&](std::string_view begin) {
    return text.starts_with(begin) || begin.starts_with(text);
  });
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
    offered.tools.names.push_back(name);
    const ordered_json& function = tools[i]["function"];
    offered.tools.parameters.push_back(function.contains("parameters") ? function["parameters"]
                                                                       : ordered_json());
  }
  const std::string& source =
      tokenizer.tool_template().empty() ? tokenizer.chat_template() : tokenizer.tool_template();
  offered.form = &FormOfTemplate(source);
  std::vector<std::string_view> markers = {offered.form->begin, offered.form->end};
  markers.insert(markers.end(), ToolMarkers().begin(), ToolMarkers().end());
  for (const std::string_view marker : markers) {
    if (const auto id = tokenizer.Find(marker); id && tokenizer.IsSpecial(*id))
      offered.markers.push_back(*id);
  }
  return offered;
}

Result<std::shared_ptr<const Grammar>> GrammarOfCalls(const ordered_json& tools,
                                                      const OfferedTools& offered,
                                                      const std::string& name) {
  const ToolForm& form = *offered.form;
  const bool json_form = form.arguments != nullptr;
  const char* const arguments = json_form ? form.arguments : "arguments";
  ordered_json any = ordered_json::array(), all = ordered_json::object();
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!name.empty() && offered.tools.names[i] != name) continue;
    const ordered_json& function = tools[i]["function"];
    ordered_json parameters = {{"type", "object"}};
    if (function.contains("parameters") && function["parameters"].is_object() &&
        !function["parameters"].empty())
      parameters = function["parameters"];
    const std::string key = fmt::format("tool{}", i);
    MoveReferences(parameters, "/$defs/" + key);
    all[key] = std::move(parameters);
    ordered_json call = {{"name", {{"const", offered.tools.names[i]}}},
                         {arguments, {{"$ref", "#/$defs/" + key}}}};
    any.push_back(
        {{"type", "object"}, {"properties", std::move(call)}, {"required", {"name", arguments}}});
  }
  if (any.empty()) return InvalidInput("tool_choice: {} is none of the tools", Shorten(name));
  ordered_json schema = {{"anyOf", any}};
  if (form.list) {
    ordered_json items = std::move(schema);
    schema = {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}};
    if (!name.empty() || offered.single) schema["maxItems"] = 1;
  }
  schema["$defs"] = std::move(all);
  const bool closed =
      json_form && *form.end != '\0';  // else special pieces, which a grammar does not write
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
  if (const std::string rest = std::exchange(held_, ""); count_ == 0 || !TrimBlanks(rest).empty())
    out += rest;
  return out;
}

// Takes calls; false: there are none.
bool ToolCallReader::Take(std::vector<ToolCall> calls, bool offered_only) {
  const auto is_offered = [&](const ToolCall& call) {
    const std::vector<std::string>& names = offered_.tools.names;
    return std::ranges::find(names, call.name) != names.end();
  };
  if (calls.empty() || (offered_only && !std::ranges::all_of(calls, is_offered))) return false;
  if (offered_.single) calls.resize(count_ > 0 ? 0 : 1);
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

// Whether the text is a tool's name and a line's end, or may become that.
bool ToolCallReader::MayBeginByName(std::string_view text) const {
  if (!offered_.form->by_name || text.empty()) return false;
  return std::ranges::any_of(offered_.tools.names, [&](const std::string& name) {
    const std::string line = name + "\n";
    return text.starts_with(line) || std::string_view(line).starts_with(text);
  });
}

// What a channel's text becomes: an answer, a call, or what the model wrote for itself.
void ToolCallReader::EndChannel(std::string_view text, std::string& out) {
  if (head_.channel == "analysis") {
    reasoning_ += text;
  } else if (head_.tool.empty() || !Take(ChannelCall(head_, text), true)) {
    out += text;
  }
}

// A step in gpt-oss's texts: HEAD<|message|>TEXT, which ends where another head begins. A text
// without any is an answer.
bool ToolCallReader::ReadChannel(bool finished, std::string& out) {
  constexpr std::string_view kMessage = "<|message|>";
  constexpr std::string_view kEnds[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                        "<|channel|>"};
  if (!in_channel_) {
    const size_t at = held_.find(kMessage);
    if (at != std::string::npos) {
      head_ = ReadChannelHead(std::string_view(held_).substr(0, at));
      held_.erase(0, at + kMessage.size());
    } else if (MayBeHead(TrimBlanks(held_))) {
      if (finished) held_.clear();  // a head without a text
      return false;
    } else {
      head_ = {};
    }
    in_channel_ = true;
    plain_ = false;
  }
  size_t end = held_.size(), behind = end, begun = 0;
  bool ended = finished;
  for (const std::string_view marker : kEnds) {
    begun = std::max(begun, BegunAtEnd(held_, marker));
    const size_t at = held_.find(marker);
    if (at >= end) continue;
    ended = true;
    end = at;
    behind = marker == "<|channel|>" || marker == "<|start|>" ? at : at + marker.size();
  }
  // A call is read as a whole, and so is what may be one.
  if (!ended && !head_.tool.empty()) return false;
  if (!ended) end = behind = held_.size() - begun;
  EndChannel(std::string_view(held_).substr(0, end), out);
  held_.erase(0, behind);
  if (ended) in_channel_ = false;
  return ended && !held_.empty();
}

// A step: gives out what is no call, or takes calls. False: no more without more text.
bool ToolCallReader::Read(bool finished, std::string& out) {
  const std::string_view begin = offered_.form->begin, end = offered_.form->end;
  const std::string_view text = TrimBlanks(held_);
  const bool may_begin = text.starts_with(begin) || begin.starts_with(text);
  const bool json = text.starts_with('{') || text.starts_with('[');
  if (plain_ && !offered_.tools.names.empty() && (end.empty() || offered_.plain_json) &&
      (json || MayBeginByName(text)) && (begin.empty() || !may_begin)) {
    // What begins as JSON, or with a tool's name, is nothing but calls, or none.
    if (!finished) return false;
    const auto read = json ? JsonCalls : offered_.form->read;
    if (Take(read(text, offered_.tools), true)) held_.clear();
    return false;
  }
  if (offered_.form->channels) return ReadChannel(finished, out);
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
  const std::string_view inner = std::string_view(held_).substr(first, last - first);
  if (Take(offered_.form->read(inner, offered_.tools), false)) {
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
