#include "serve/tool_forms.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>

#include "base/json_file.h"

namespace evoq::serve {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBlanks = " \t\r\n";

// Mistral's between a call's name and its arguments.
constexpr std::string_view kCallId = "[CALL_ID]", kArguments = "[ARGS]";
// Of a section of calls: what begins one, stands before its arguments, and ends it.
struct CallMarkers {
  std::string_view begin, arguments, end;
};
constexpr CallMarkers kDeepSeek = {
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
};
constexpr CallMarkers kKimi = {
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
};
constexpr char kDeepSeekCalls[] = "<｜tool▁calls▁begin｜>";
constexpr char kDeepSeekEnd[] = "<｜tool▁calls▁end｜>";

constexpr std::string_view kMarkers[] = {kCallId, kArguments, kDeepSeek.begin, kDeepSeek.arguments,
                                         kDeepSeek.end, kKimi.begin, kKimi.arguments, kKimi.end,
                                         // gpt-oss
                                         "<|start|>", "<|message|>", "<|constrain|>", "<|end|>",
                                         "<|call|>", "<|return|>",
                                         // GLM
                                         "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};

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
  text = TrimBlanks(text);
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
    text = TrimBlanks(text.substr(i + 1));
    return value;
  }
  return "";
}

std::optional<ordered_json> Parsed(std::string_view text) {
  if (!ParseJson(text)) return std::nullopt;
  return ordered_json::parse(text);
}

// {"name": ..., "arguments": ...}, also within a "function"; Command R's names.
std::optional<ToolCall> CallOf(const ordered_json& object) {
  if (!object.is_object()) return std::nullopt;
  if (object.contains("function") && object["function"].is_object())
    return CallOf(object["function"]);
  const char* const key_of_name = object.contains("tool_name") ? "tool_name" : "name";
  if (!object.contains(key_of_name) || !object[key_of_name].is_string()) return std::nullopt;
  ToolCall call{NewId(), object[key_of_name].get<std::string>(), "{}"};
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
    call.id = TrimBlanks(name.substr(id + kCallId.size()));
    name = name.substr(0, id);
  }
  call.name = TrimBlanks(name);
  const auto arguments = Parsed(TakeValue(value));
  if (!arguments || call.name.empty() || !value.empty()) return std::nullopt;
  call.arguments = arguments->dump();
  return call;
}

// What stands between `begin` and `end`, taken off the text with them; nothing where the text, but
// for blanks, does not begin so.
std::optional<std::string_view> TakeBetween(std::string_view& text, std::string_view begin,
                                            std::string_view end) {
  const std::string_view trimmed = TrimBlanks(text);
  if (!trimmed.starts_with(begin)) return std::nullopt;
  const size_t last = trimmed.find(end, begin.size());
  if (last == std::string_view::npos) return std::nullopt;
  text = trimmed.substr(last + end.size());
  return trimmed.substr(begin.size(), last - begin.size());
}

// The types that a schema allows.
std::vector<std::string> TypesOf(const ordered_json& schema) {
  std::vector<std::string> types;
  if (!schema.is_object()) return types;
  if (schema.contains("type")) {
    const ordered_json& type = schema["type"];
    for (const ordered_json& one : type.is_array() ? type : ordered_json::array({type})) {
      if (one.is_string()) types.push_back(one.get<std::string>());
    }
  }
  for (const char* several : {"anyOf", "oneOf"}) {
    if (!schema.contains(several) || !schema[several].is_array()) continue;
    for (const ordered_json& one : schema[several]) {
      if (!one.is_object() || one.contains("anyOf") || one.contains("oneOf")) continue;
      for (std::string& type : TypesOf(one)) types.push_back(std::move(type));
    }
  }
  return types;
}

// An argument that is written as it is: a text where its schema says so, else JSON. `texts`: what
// no schema says is a text.
ordered_json ValueOf(std::string_view text, const ordered_json& schema, bool texts) {
  const std::vector<std::string> types = TypesOf(schema);
  const auto may_be = [&](const char* type) {
    return std::ranges::find(types, type) != types.end();
  };
  const std::string_view trimmed = TrimBlanks(text);
  if (may_be("null") && (trimmed == "null" || trimmed == "None")) return nullptr;
  if (!may_be("string") && (!types.empty() || !texts)) {
    if (const auto value = Parsed(trimmed)) return *value;
    if (trimmed == "True" || trimmed == "False") return trimmed == "True";
  }
  return std::string(text);
}

// Puts the arguments of a call together.
class Arguments {
 public:
  Arguments(std::string_view name, const ToolSchemas& tools, bool texts) : texts_(texts) {
    const auto found = std::ranges::find(tools.names, name);
    if (found == tools.names.end()) return;
    const ordered_json& schema = tools.parameters[static_cast<size_t>(found - tools.names.begin())];
    if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object())
      properties_ = schema["properties"];
  }
  void Add(std::string_view key, std::string_view text) {
    const std::string name(TrimBlanks(key));
    values_[name] =
        ValueOf(text, properties_.contains(name) ? properties_[name] : ordered_json(), texts_);
  }
  std::string Json() const { return values_.dump(); }

 private:
  ordered_json properties_ = ordered_json::object(), values_ = ordered_json::object();
  bool texts_;
};

// Without one line's end at its beginning and one at its end.
std::string_view WithoutLineEnds(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Qwen3-Coder: <function=NAME><parameter=KEY>VALUE</parameter>...</function>.
std::vector<ToolCall> FunctionCalls(std::string_view text, const ToolSchemas& tools) {
  std::vector<ToolCall> calls;
  while (!TrimBlanks(text).empty()) {
    const auto function = TakeBetween(text, "<function=", "</function>");
    const size_t head = function ? function->find('>') : std::string_view::npos;
    if (head == std::string_view::npos) return {};
    const std::string_view name = TrimBlanks(function->substr(0, head));
    std::string_view rest = function->substr(head + 1);
    Arguments arguments(name, tools, /*texts=*/true);
    while (!TrimBlanks(rest).empty()) {
      const auto one = TakeBetween(rest, "<parameter=", "</parameter>");
      const size_t end = one ? one->find('>') : std::string_view::npos;
      if (end == std::string_view::npos) return {};
      arguments.Add(one->substr(0, end), WithoutLineEnds(one->substr(end + 1)));
    }
    calls.push_back({NewId(), std::string(name), arguments.Json()});
  }
  return calls;
}

// GLM-4.5 and later: NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...
std::vector<ToolCall> KeyedCall(std::string_view text, const ToolSchemas& tools) {
  const size_t head = std::min(text.find("<arg_key>"), text.size());
  const std::string_view name = TrimBlanks(text.substr(0, head));
  if (name.empty() || name.find_first_of("<{\n") != std::string_view::npos) return {};
  Arguments arguments(name, tools, /*texts=*/false);
  for (std::string_view rest = text.substr(head); !TrimBlanks(rest).empty();) {
    const auto key = TakeBetween(rest, "<arg_key>", "</arg_key>");
    const auto value = TakeBetween(rest, "<arg_value>", "</arg_value>");
    if (!key || !value) return {};
    arguments.Add(*key, *value);
  }
  return {{NewId(), std::string(name), arguments.Json()}};
}

// GLM-4: NAME, a line's end, {...}.
std::vector<ToolCall> LineCall(std::string_view text, const ToolSchemas&) {
  text = TrimBlanks(text);
  const size_t line = text.find('\n');
  if (line == std::string_view::npos) return {};
  const std::string_view name = TrimBlanks(text.substr(0, line));
  std::string_view rest = text.substr(line);
  const auto arguments = Parsed(TakeValue(rest));
  if (!arguments || !arguments->is_object() || !rest.empty()) return {};
  return {{NewId(), std::string(name), arguments->dump()}};
}

// DeepSeek V3.1: BEGIN NAME SEP {...} END; V3 and R1: BEGIN function SEP NAME, a line's end, the
// JSON in a fence, END. Kimi: the name is functions.NAME:NUMBER, which is the id.
std::vector<ToolCall> SectionCalls(std::string_view text, const CallMarkers& markers) {
  constexpr std::string_view kFence = "```", kPrefix = "functions.";
  std::vector<ToolCall> calls;
  while (!TrimBlanks(text).empty()) {
    const auto one = TakeBetween(text, markers.begin, markers.end);
    const size_t middle = one ? one->find(markers.arguments) : std::string_view::npos;
    if (middle == std::string_view::npos) return {};
    ToolCall call{NewId(), std::string(TrimBlanks(one->substr(0, middle))), ""};
    std::string_view value = TrimBlanks(one->substr(middle + markers.arguments.size()));
    if (const size_t fence = value.find(kFence);
        fence != std::string_view::npos && !value.starts_with('{')) {
      call.name = TrimBlanks(value.substr(0, fence));
      value =
          value.substr(value.find('\n', fence) == std::string_view::npos ? fence + kFence.size()
                                                                         : value.find('\n', fence));
      if (value.ends_with(kFence)) value.remove_suffix(kFence.size());
    }
    if (call.name.starts_with(kPrefix)) {
      call.id = call.name;
      call.name = call.name.substr(kPrefix.size(), call.name.rfind(':') - kPrefix.size());
    }
    const auto arguments = Parsed(TakeValue(value));
    if (!arguments || call.name.empty() || !value.empty()) return {};
    call.arguments = arguments->dump();
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<ToolCall> DeepSeekCalls(std::string_view text, const ToolSchemas&) {
  return SectionCalls(text, kDeepSeek);
}
std::vector<ToolCall> KimiCalls(std::string_view text, const ToolSchemas&) {
  return SectionCalls(text, kKimi);
}

// Command R: a list in a fence.
std::vector<ToolCall> FencedCalls(std::string_view text, const ToolSchemas& tools) {
  text = TrimBlanks(text);
  for (const std::string_view fence : {"```json", "```"}) {
    if (text.starts_with(fence)) text.remove_prefix(fence.size());
  }
  if (text.ends_with("```")) text.remove_suffix(3);
  return JsonCalls(text, tools);
}

// The first row whose text a template has.
constexpr ToolForm kForms[] = {
    // Qwen3-Coder; GLM-4.5; gpt-oss; DeepSeek; Kimi; Command R7B and A; Command R
    {"<function=", "<tool_call>", "</tool_call>", nullptr, .read = FunctionCalls},
    {"<arg_key>", "<tool_call>", "</tool_call>", nullptr, .read = KeyedCall},
    {"<|channel|>", "<|channel|>", "", nullptr, .channels = true, .read = JsonCalls},
    {kDeepSeekCalls, kDeepSeekCalls, kDeepSeekEnd, nullptr, .read = DeepSeekCalls},
    {"<|tool_call_argument_begin|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>",
     nullptr, .read = KimiCalls},
    {"<|START_ACTION|>", "<|START_ACTION|>", "<|END_ACTION|>", nullptr, .read = JsonCalls},
    {"'Action:' followed by", "Action:", "", nullptr, .read = FencedCalls},
    // Mistral; Phi and Granite; Hermes and Qwen; Llama 3; GLM-4
    {"[TOOL_CALLS]", "[TOOL_CALLS]", "", "arguments", true, .read = JsonCalls},
    {"<|tool_call|>", "<|tool_call|>", "<|/tool_call|>", "arguments", true, .read = JsonCalls},
    {"<tool_call>", "<tool_call>", "</tool_call>", "arguments", .read = JsonCalls},
    {"<|python_tag|>", "<|python_tag|>", "", "parameters", .read = JsonCalls},
    {"\"parameters\":", "", "", "parameters", .read = JsonCalls},
    {"<|observation|>", "", "", nullptr, .by_name = true, .read = LineCall},
    {"", "", "", "arguments", .read = JsonCalls},
};

}  // namespace

// All of the text, which is calls one after the other, or lists of them; else none.
std::vector<ToolCall> JsonCalls(std::string_view text, const ToolSchemas&) {
  text = TrimBlanks(text);
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
    if (text.starts_with(';') || text.starts_with(',')) text = TrimBlanks(text.substr(1));
  }
  return calls;
}

const ToolForm& FormOfTemplate(std::string_view source) {
  return *std::ranges::find_if(kForms, [&](const ToolForm& row) {
    return source.find(row.in_template) != std::string_view::npos;
  });
}

std::span<const std::string_view> ToolMarkers() { return kMarkers; }

ChannelHead ReadChannelHead(std::string_view head) {
  constexpr std::string_view kChannel = "<|channel|>", kTo = "to=", kPrefix = "functions.";
  constexpr std::string_view kEnds = " \t\r\n<";
  ChannelHead read;
  const auto word = [&](size_t at) {
    const size_t end = std::min(head.find_first_of(kEnds, at), head.size());
    return head.substr(at, end - at);
  };
  if (const size_t at = head.find(kChannel); at != std::string_view::npos)
    read.channel = word(at + kChannel.size());
  if (const size_t at = head.find(kTo); at != std::string_view::npos) {
    std::string_view tool = word(at + kTo.size());
    if (tool.starts_with(kPrefix)) tool.remove_prefix(kPrefix.size());
    read.tool = tool;
  }
  return read;
}

std::vector<ToolCall> ChannelCall(const ChannelHead& head, std::string_view text) {
  const auto arguments = Parsed(TrimBlanks(text));
  if (!arguments) return {};
  return {{NewId(), head.tool, arguments->dump()}};
}

std::string_view TrimBlanks(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

}  // namespace evoq::serve
