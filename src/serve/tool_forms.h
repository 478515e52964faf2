// The forms in which families of chat models write calls of tools.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evoq::serve {

struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON
};

// The tools that a request offers: what tells the types of arguments that are written as texts.
struct ToolSchemas {
  std::vector<std::string> names;
  std::vector<nlohmann::ordered_json> parameters;  // of each name; null: none
};

// How a family of models writes its calls, which its chat template tells.
struct ToolForm {
  const char* in_template;  // the template that has this text is of this form
  const char* begin;        // of a call or of a list of them; "": a text that is nothing but calls
  const char* end;          // "": the end of the text, or the next begin
  const char* arguments;    // their name in JSON; nullptr: calls are no JSON between begin and end
  bool list = false;        // a list is what stands between begin and end
  bool channels = false;    // gpt-oss: all of a text stands in channels
  bool by_name = false;     // a text that is nothing but a call begins with the tool's name
  // The calls of which all of the text consists; none where it does not.
  std::vector<ToolCall> (*read)(std::string_view text, const ToolSchemas& tools) = nullptr;
};

// The form of a chat template. Every one has a `read`.
const ToolForm& FormOfTemplate(std::string_view source);
// JSON objects with a name and arguments, one after the other, and lists of them.
std::vector<ToolCall> JsonCalls(std::string_view text, const ToolSchemas& tools);
// Special pieces that the text must show beside begin and end.
std::span<const std::string_view> ToolMarkers();

// Of a channel of gpt-oss's: what stands before <|message|>.
struct ChannelHead {
  std::string channel;  // "final"
  std::string tool;     // to whom it goes; "": the user
};
ChannelHead ReadChannelHead(std::string_view head);
// The call of a tool whose arguments are a channel's text; none where they are no JSON.
std::vector<ToolCall> ChannelCall(const ChannelHead& head, std::string_view text);

std::string_view TrimBlanks(std::string_view text);

}  // namespace evoq::serve
