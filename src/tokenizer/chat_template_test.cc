// What tests/chat_templates_agree_test.py compares with Jinja is not repeated here: the border to
// callers, bounds, and that nothing of one rendering stays for the next.
#include "tokenizer/chat_template.h"

#include <gtest/gtest.h>

#include <ctime>

#include "tokenizer/gguf.h"

namespace evoq {
namespace {

using Json = nlohmann::ordered_json;

std::string Rendered(std::string_view source, const Json& variables = Json::object()) {
  const auto parsed = ChatTemplate::Parse(source);
  if (!parsed) return parsed.error().message();
  const auto text = parsed->Render(variables);
  return text ? *text : text.error().message();
}

TEST(ChatTemplate, RendersMessages) {
  const Json chat = {{"messages", Json::array({{{"role", "user"}, {"content", "Hi"}},
                                               {{"role", "assistant"}, {"content", "Ho"}}})}};
  const char* source =
      "{% for m in messages %}\n<{{ m.role }}>{{ m['content'] }}\n{% endfor %}\n"
      "{%- if not loop is defined %}{{ messages|length }}{% endif %}\n";
  const auto parsed = ChatTemplate::Parse(source);
  ASSERT_TRUE(parsed) << parsed.error().message();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(*parsed->Render(chat), "<user>Hi\n<assistant>Ho\n2");
  EXPECT_EQ(parsed->Render(Json::array()).error().message(),
            "chat template: expected an object of variables");
}

TEST(ChatTemplate, TakesItsPiecesFromTheTokenizer) {
  GgufTokenizer gguf{.model = "llama",
                     .tokens = {"<unk>", "<s>", "</s>", "<end of turn>"},
                     .scores = {0, 0, 0, 0},
                     .token_type = {2, 3, 3, 3},
                     .bos_token_id = 1,
                     .eos_token_id = 2,
                     .eot_token_id = 3,
                     .chat_template = "{{ bos_token }}{{ x }}{{ eos_token }}"};
  const auto text = [&](const Json& variables) {
    const auto rendered = RenderChat(*TokenizerFromGguf(gguf), variables);
    return rendered ? *rendered : rendered.error().message();
  };
  EXPECT_EQ(text({{"x", 1}}), "<s>1</s>");
  EXPECT_EQ(text({{"x", 1}, {"bos_token", "<b>"}}), "<b>1</s>");
  EXPECT_EQ(text(Json::array()), "a chat: expected an object with messages");
  gguf.chat_template = "";
  EXPECT_EQ(text({{"x", 1}}), "a chat: the tokenizer has no chat template");
}

// gpt-oss, SmolLM3 and Granite 3.3 write the day in any case, Llama 3.1 where it is defined.
TEST(ChatTemplate, TheDay) {
  const auto year = [] {
    const std::time_t now = std::time(nullptr);
    return 1900 + std::localtime(&now)->tm_year;
  };
  const int before = year();
  const std::string text = Rendered("{{ strftime_now('%Y-%m-%d')[:4] }}");
  EXPECT_TRUE(text == std::to_string(before) || text == std::to_string(year())) << text;
  EXPECT_EQ(Rendered("{{ strftime_now is defined }}{{ strftime_now('') }}"), "False");
  EXPECT_EQ(Rendered("{{ strftime_now(format='x') }}{{ strftime_now('%%') }}"), "x%");
  EXPECT_EQ(Rendered("{{ strftime_now('a' * 1000) }}"),
            "chat template: line 1: strftime_now: a text of more than 1000 bytes");
  EXPECT_EQ(Rendered("{{ strftime_now('x') }}", {{"strftime_now", "own"}}),
            "chat template: line 1: a value of the type str cannot be called");
}

TEST(ChatTemplate, TitlesOfJinjaAndOfPython) {
  EXPECT_EQ(Rendered("{{ \"it's a (new) day-to-day \u00e9T\u00c9\" | title }}"),
            "It's A (New) Day-To-Day \u00c9t\u00e9");
  EXPECT_EQ(Rendered("{{ \"it's\".title() }}"), "It'S");
}

TEST(ChatTemplate, TojsonHasTheArgumentsOfTransformers) {
  EXPECT_EQ(Rendered("{{ ['\u00e9'] | tojson(4) }}"), "[\"\\u00e9\"]");
  EXPECT_EQ(Rendered("{{ ['\u00e9'] | tojson(false, 1) }}"), "[\n \"\u00e9\"\n]");
  EXPECT_EQ(Rendered("{{ {'b': 1, 'a': 2} | tojson(false, none, none, true) }}"),
            "{\"a\": 2, \"b\": 1}");
}

TEST(ChatTemplate, ArgumentsByName) {
  EXPECT_EQ(Rendered("{{ {'b': ['\u00e9'], 'a': 1} | tojson(separators=(',', ':')) }}"),
            "{\"b\":[\"\u00e9\"],\"a\":1}");
  EXPECT_EQ(Rendered("{{ {'b': 2, 'a': '\u00e9'} | tojson(sort_keys=true, ensure_ascii=true) }}"),
            "{\"a\": \"\\u00e9\", \"b\": 2}");
  EXPECT_EQ(Rendered("{{ [1, 2] | tojson(separators=('x' * 17, ':')) }}").substr(0, 49),
            "chat template: line 1: tojson: separators ['xxxxx");
  EXPECT_EQ(Rendered("{{ 1 | tojson(skipkeys=true) }}"),
            "chat template: line 1: the filter tojson with skipkeys=");
  EXPECT_EQ(Rendered("{{ ' a'.strip(character=' ') }}"),
            "chat template: line 1: the method strip with character=");
}

TEST(ChatTemplate, ReportsTheLine) {
  EXPECT_EQ(Rendered("\n{{ 'a' }}\n{% if 1 %}"), "chat template: line 3: a block without endif");
  EXPECT_EQ(Rendered("\n\n{{ {} | join(3).x.y }}"),
            "chat template: line 3: x is undefined, so it has no 'y'");
  EXPECT_EQ(Rendered("{% for i in [1] %}\n{{ i.strip(1, 2) }}{% endfor %}"),
            "chat template: line 2: the method strip has 2 arguments, expected at most 1");
  EXPECT_EQ(Rendered("{% break %}"), "chat template: line 1: outside of a loop");
  EXPECT_EQ(Rendered("{{ \"\\ud800\" }}"), "chat template: line 1: \\ud800 is no character");
  EXPECT_EQ(Rendered("{# x"), "chat template: line 1: a comment without an end");
  EXPECT_EQ(Rendered("{{ 1 ? 2 }}"), "chat template: line 1: \"?\" is not expected here");
  EXPECT_EQ(Rendered("{{ raise_exception('no tools') }}"),
            "chat template: line 1: the template says: no tools");
  EXPECT_EQ(Rendered(std::string((1 << 20) + 1, 'a')),
            "chat template: 1048577 bytes, expected at most 1048576");
}

// Values that are cheap to make and large to write, in the ways that templates can make them.
TEST(ChatTemplate, IsBounded) {
  const auto refused = [](const std::string& source, const std::string& message) {
    EXPECT_EQ(Rendered(source), "chat template: line 1: " + message) << source.substr(0, 60);
  };
  const std::string twice =
      "{% set n = namespace(v='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}"
      "{% set n.v = n.v + n.v %}{% endfor %}";
  refused(twice, "texts of more than 268435456 bytes");
  refused(
      "{% set n = namespace(v={'k': 1}) %}{% for i in range(60) %}"
      "{% set n.v = {'a': n.v, 'b': n.v} %}{% endfor %}",
      "a value of more than 16777216 bytes");
  refused("{% for i in range(1000000) %}{% endfor %}", "range: more than 100000 numbers");
  refused("{{ [1] * 3 }}", "list * int: values that have no such operator");
  refused("{{ range(1, 2, 0) }}", "range: a step of 0");
  refused("{{ (-9223372036854775807 - 1) // -1 }}", "a number of more than 64 bits");
  refused("{{ -(-9223372036854775807 - 1) }}", "a number of more than 64 bits");
  refused("{{ 'abc'.split('') }}", "split: an empty separator");
  EXPECT_EQ(Rendered("{{ 'abc'[9223372036854775807:] }}{{ 'abc'[::-9223372036854775807] }}"), "c");
  EXPECT_EQ(Rendered("{{ [1, 2][-9223372036854775807:] }}"), "[1, 2]");
  EXPECT_EQ(Rendered("{{ [1, 2, 3][::-9223372036854775807 - 1] }}"), "[3]");
  EXPECT_EQ(Rendered("{{ 'a b'.split(none, -9223372036854775807 - 1) }}"), "['a', 'b']");
  EXPECT_EQ(Rendered("{{ '' * 9223372036854775807 }}"), "");
  EXPECT_EQ(Rendered("{{ ('word ' * 20000).split() | length }}"), "20000");
  refused("{{ range(-9223372036854775807 - 1) }}", "range: expected numbers of at most 40 bits");
  refused("{{ range(100000) | join('x' * 1000000) }}", "texts of more than 268435456 bytes");
  refused(
      "{% set n = namespace(v=range(100000)) %}{% for i in range(98) %}"
      "{% set n.v = [n.v] %}{% endfor %}{{ n.v | tojson(indent=64) }}",
      "texts of more than 268435456 bytes");
  refused("{% if 1 %}{% 'endif' %}", "the statement \"endif\"");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "{% if 1 %}";
  refused(deep, "nested deeper than 100 levels");
}

}  // namespace
}  // namespace evoq
