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
      {"type": "function", "function": {"name": "now"}},
      {"type": "function", "function": {"name": "put", "parameters": {"type": "object",
        "properties": {"n": {"type": "number"}, "s": {"type": "string"},
          "l": {"type": "array"}, "o": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}}])");
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
    // Qwen3-Coder: values by their schemas
    {"<function=",
     "Well.\n<tool_call>\n<function=put>\n<parameter=n>\n1.5\n</parameter>\n<parameter=s>\n12\n\n"
     "</parameter>\n<parameter=l>\n[1, \"a\"]\n</parameter>\n<parameter=o>\nnull\n</parameter>\n"
     "<parameter=x>\n3\n</parameter>\n</function>\n</tool_call>",
     "Well.|put {\"n\":1.5,\"s\":\"12\\n\",\"l\":[1,\"a\"],\"o\":null,\"x\":\"3\"}"},
    {"<function=",
     "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now></"
     "function>"
     "</tool_call>",
     "|now {}|now {}"},
    {"<function=", "<tool_call><function=now</tool_call>", "<tool_call><function=now</tool_call>"},
    // GLM-4.5 and GLM-4
    {"<arg_key>",
     "<tool_call>put\n<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n<arg_key>s</arg_key>\n"
     "<arg_value>2</arg_value>\n<arg_key>x</arg_key><arg_value>{\"a\": 1}</arg_value></tool_call>",
     "|put {\"n\":2,\"s\":\"2\",\"x\":{\"a\":1}}"},
    {"<arg_key>", "<tool_call>now</tool_call> done", " done|now {}"},
    {"<arg_key>", "<tool_call>{\"a\": 1}</tool_call>", "<tool_call>{\"a\": 1}</tool_call>"},
    {"<|observation|>", "add\n{\"a\": 1}", "|add {\"a\":1}"},
    {"<|observation|>", "adding is easy", "adding is easy"},
    {"<|observation|>", "add\nmore", "add\nmore"},
    // gpt-oss
    {"<|channel|>",
     "<|channel|>analysis<|message|>I think.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.add <|constrain|>json<|message|>{\"a\": 1}",
     "|add {\"a\":1}"},
    {"<|channel|>",
     " to=functions.now<|channel|>commentary json<|message|>{}<|call|><|start|>assistant<|channel|>"
     "final<|message|>It is < noon.\n",
     "It is < noon.\n|now {}"},
    {"<|channel|>", "<|channel|>commentary to=functions.sub<|message|>{}", "{}"},
    {"<|channel|>", "<|channel|>final<|message|>a<|return|>", "a"},
    {"<|channel|>", "plain text\n", "plain text\n"},
    {"<|channel|>", "<|channel|>final", ""},
    // DeepSeek V3.1, V3
    {"<｜tool▁calls▁begin｜>",
     "So:<｜tool▁calls▁begin｜>"
     "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
     "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
     "<｜tool▁calls▁end｜>",
     "So:|add {\"a\":1}|now {}"},
    {"<｜tool▁calls▁begin｜>",
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
     "add\n```json\n{\"a\": 1}\n```"
     "<｜tool▁call▁end｜>\n<｜tool▁calls▁end｜>",
     "|add {\"a\":1}"},
    {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>",
     "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>"},
    {"<|tool_call_argument_begin|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{"
     "\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
     "|add {\"a\":1}"},
    // Command R
    {"<|START_ACTION|>",
     "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": "
     "{\"a\": 1}}\n]<|END_ACTION|>",
     "|add {\"a\":1}"},
    {"'Action:' followed by",
     "Action: ```json\n[{\"tool_name\": \"now\", \"parameters\": {}}]\n```", "|now {}"},
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

// Where a grammar cannot write a form's calls, they are plain JSON.
TEST(ToolCalls, OtherFormsAreMadeToBeJson) {
  for (const char* in_template : {"<function=", "<arg_key>", "<|channel|>", "<|START_ACTION|>"}) {
    SCOPED_TRACE(in_template);
    auto offered = ReadTools(Tools(), WithTemplate(in_template));
    ASSERT_TRUE(offered);
    offered->plain_json = true;
    const auto grammar = GrammarOfCalls(Tools(), *offered, "add");
    ASSERT_TRUE(grammar) << grammar.error().message();
    const char* const text = "{\"name\": \"add\", \"arguments\": {\"a\": 1}}";
    EXPECT_EQ(FitOf(*grammar, text), Fits::kWhole);
    EXPECT_EQ(Read(*offered, text, 5), "|add {\"a\":1}");
    EXPECT_EQ(Read(*offered, "{\"a\": 1}", 5), "{\"a\": 1}");
    const auto either = GrammarOfEither(**grammar, **GrammarOfSchema("{\"type\": \"integer\"}"));
    EXPECT_EQ(FitOf(either, text), Fits::kWhole);
    EXPECT_EQ(FitOf(either, "17"), Fits::kWhole);
    EXPECT_NE(FitOf(either, "true"), Fits::kWhole);
  }
}

TEST(ToolCalls, OneAtMostWhereTheyAreNotParallel) {
  auto offered = ReadTools(Tools(), WithTemplate("<tool_call>"));
  offered->single = true;
  const std::string call = "<tool_call>{\"name\": \"now\"}</tool_call>";
  EXPECT_EQ(Read(*offered, call + call, 7), "|now {}");
  auto list = ReadTools(Tools(), WithTemplate("[TOOL_CALLS]"));
  list->single = true;
  const std::string one = "{\"name\": \"now\", \"arguments\": {}}";
  EXPECT_EQ(Read(*list, "[TOOL_CALLS][" + one + ", " + one + "]", 7), "|now {}");
  const auto grammar = GrammarOfCalls(Tools(), *list, "");
  EXPECT_EQ(FitOf(*grammar, "[" + one + "]"), Fits::kWhole);
  EXPECT_NE(FitOf(*grammar, "[" + one + ", " + one + "]"), Fits::kWhole);
}

TEST(ToolCalls, WhatAModelWritesForItselfIsApart) {
  const auto offered = ReadTools(ordered_json::array(), WithTemplate("<|channel|>"));
  ToolCallReader reader(*offered);
  EXPECT_EQ(reader.Next("<|channel|>analysis<|message|>Hm"), "");
  EXPECT_EQ(reader.Reasoning(), "Hm");
  EXPECT_EQ(reader.Next("m.<|en"), "");
  EXPECT_EQ(reader.Reasoning(), "m.");
  EXPECT_EQ(reader.Next("d|><|start|>assistant<|channel|>final<|message|>Good "), "Good ");
  EXPECT_EQ(reader.Next("day"), "day");
  EXPECT_EQ(reader.Finish(), "");
  EXPECT_FALSE(reader.has_reasoning());
}

TEST(ToolCalls, RefusesWhatItDoesNotRead) {
  const auto error = [](const char* tools, const char* in_template) {
    const auto offered = ReadTools(ordered_json::parse(tools), WithTemplate(in_template));
    return offered ? "" : offered.error().message();
  };
  EXPECT_EQ(error("{}", ""), "tools: an object, expected a list of at most 1024 functions");
  EXPECT_EQ(error(R"([{"name": "a"}])", ""),
            "tools[0]: an object, expected an object with a function that has a name");
}

}  // namespace
}  // namespace evoq::serve
