#include "serve/tool_calls.h"

#include <gtest/gtest.h>

#include "tokenizer/gguf.h"
#include "tokenizer/grammar/grammar_testing.h"

namespace evoq::serve {
namespace {

using nlohmann::ordered_json;

const ordered_json& Tools() {
  static const ordered_json tools = ordered_json::parse(R"([
      {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"],
        "$defs": {"n": {"type": "integer"}}}}},
      {"type": "function", "function": {"name": "now"}}])");
  return tools;
}

Tokenizer WithTemplate(const std::string& text) {
  const GgufTokenizer gguf{.model = "llama",
                           .tokens = {"<unk>", "<s>", "</s>", "[TOOL_CALLS]"},
                           .scores = {0, 0, 0, 0},
                           .token_type = {2, 3, 3, 3},
                           .chat_template = text};
  return *TokenizerFromGguf(gguf);
}

// The text, and behind it each call.
std::string Read(const OfferedTools& offered, std::string_view text, size_t piece) {
  ToolCallReader reader(offered);
  std::string out;
  for (; !text.empty(); text = text.substr(std::min(piece, text.size())))
    out += reader.Next(text.substr(0, piece));
  out += reader.Finish();
  for (const ToolCall& call : reader.Calls()) {
    EXPECT_FALSE(call.id.empty());
    out += fmt::format("|{} {}", call.name, call.arguments);
  }
  return out;
}

struct Case {
  const char* in_template;
  const char* text;
  const char* want;
};

const Case kCases[] = {
    {"<tool_call>", "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "|add {\"a\":1}"},
    {"<tool_call>",
     "I add.\n<tool_call>{\"name\": \"add\", \"arguments\": {\"b\": 1, \"a\": 2}}</tool_call>\n"
     "<tool_call>\n{\"name\": \"now\"}\n</tool_call>",
     "I add.|add {\"b\":1,\"a\":2}|now {}"},
    {"<tool_call>", "<tool_call>{\"name\": \"now\", \"arguments\": \"{}\"}", "|now {}"},
    {"<tool_call>", "a <tool_call>{\"name\": </tool_call> b \n",
     "a <tool_call>{\"name\": </tool_call> b \n"},
    {"<tool_call>", "{\"name\": \"add\", \"arguments\": {}}",
     "{\"name\": \"add\", \"arguments\": {}}"},
    {"<tool_call>", "1 < 2 <tool", "1 < 2 <tool"},
    {"\"parameters\":", "{\"name\": \"add\", \"parameters\": {\"a\": \"}\\\"\"}}",
     "|add {\"a\":\"}\\\"\"}"},
    {"<|python_tag|>",
     "<|python_tag|>{\"name\": \"add\", \"parameters\": {\"a\": 1}}; {\"name\": "
     "\"now\", \"parameters\": {}}",
     "|add {\"a\":1}|now {}"},
    {"<|python_tag|>", "{\"type\": \"function\", \"name\": \"add\", \"parameters\": {\"a\": 1}}",
     "|add {\"a\":1}"},
    {"<|python_tag|>", "{\"name\": \"Bob\", \"parameters\": {}}",
     "{\"name\": \"Bob\", \"parameters\": {}}"},
    {"<|python_tag|>", "{\"a\": 1} ", "{\"a\": 1} "},
    {"[TOOL_CALLS]",
     "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": "
     "\"now\", \"arguments\": {}}]",
     "|add {\"a\":1}|now {}"},
    {"[TOOL_CALLS]", "[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]now[CALL_ID]x[ARGS]{}",
     "|add {\"a\":1}|now {}"},
    {"[TOOL_CALLS]", "[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", "|add {\"a\":1}"},
    {"[TOOL_CALLS]", "[1] is a list", "[1] is a list"},
    {"<|tool_call|>", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>",
     "|now {}"},
    {"", "plain text\n", "plain text\n"},
};

TEST(ToolCalls, ComeOutOfTextsInPiecesOfAnySize) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} {}", c.in_template, c.text));
    const auto offered = ReadTools(Tools(), WithTemplate(c.in_template));
    ASSERT_TRUE(offered) << offered.error().message();
    for (const size_t piece : {size_t{1}, size_t{3}, size_t{1000}})
      EXPECT_EQ(Read(*offered, c.text, piece), c.want) << piece;
  }
}

TEST(ToolCalls, AreGivenOutAsSoonAsTheyAreWhole) {
  const auto offered = ReadTools(Tools(), WithTemplate("<tool_call>"));
  ToolCallReader reader(*offered);
  EXPECT_EQ(reader.Next("a <tool_"), "a");
  EXPECT_EQ(reader.Next("call>{\"name\": \"now\"}"), "");
  EXPECT_EQ(reader.Calls().size(), 0U);
  EXPECT_EQ(reader.Next("</tool_call>"), "");
  EXPECT_EQ(reader.Calls().size(), 1U);
  EXPECT_EQ(reader.count(), 1U);
}

TEST(ToolCalls, TheGrammarIsOfTheTemplatesForm) {
  const std::pair<const char*, const char*> cases[] = {
      {"<tool_call>", "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"},
      {"[TOOL_CALLS]", "[{\"name\": \"add\", \"arguments\": {\"a\": 1}}]"},
      {"<|python_tag|>", "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"},
      {"", "{\"name\": \"add\", \"arguments\": {\"a\": 1}}"}};
  for (const auto& [in_template, text] : cases) {
    SCOPED_TRACE(in_template);
    const auto offered = ReadTools(Tools(), WithTemplate(in_template));
    ASSERT_TRUE(offered);
    EXPECT_EQ(offered->markers.size(), offered->form->list ? 1U : 0U);
    for (const char* name : {"", "add", "now"}) {
      const auto grammar = GrammarOfCalls(Tools(), *offered, name);
      ASSERT_TRUE(grammar) << grammar.error().message();
      EXPECT_EQ(FitOf(*grammar, text) == Fits::kWhole, std::string_view(name) != "now");
    }
    EXPECT_EQ(Read(*offered, text, 5), "|add {\"a\":1}");
    const auto none = GrammarOfCalls(Tools(), *offered, "sub");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message(), "tool_choice: sub is none of the tools");
  }
}

TEST(ToolCalls, RefusesWhatItDoesNotRead) {
  const auto error = [](const char* tools, const char* in_template) {
    const auto offered = ReadTools(ordered_json::parse(tools), WithTemplate(in_template));
    return offered ? "" : offered.error().message();
  };
  EXPECT_EQ(error("{}", ""), "tools: an object, expected a list of at most 1024 functions");
  EXPECT_EQ(error(R"([{"name": "a"}])", ""),
            "tools[0]: an object, expected an object with a function that has a name");
  EXPECT_EQ(error("[]", "<tool_call> <function=a>"),
            "tools: the model's chat template has calls in a form that this server does not read "
            "(<function=)");
}

}  // namespace
}  // namespace evoq::serve
