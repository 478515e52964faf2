#include "tokenizer/grammar/grammar.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json_file.h"
#include "tokenizer/grammar/grammar_testing.h"

namespace evoq {
namespace {

struct Case {
  const char* grammar;
  std::vector<std::string> whole, begins, no;
};

void Check(const std::shared_ptr<const Grammar>& grammar, const Case& c) {
  SCOPED_TRACE(c.grammar);
  for (const std::string& text : c.whole) EXPECT_EQ(FitOf(grammar, text), Fits::kWhole) << text;
  for (const std::string& text : c.begins) EXPECT_EQ(FitOf(grammar, text), Fits::kBegins) << text;
  for (const std::string& text : c.no) EXPECT_EQ(FitOf(grammar, text), Fits::kNo) << text;
}

TEST(Grammar, Gbnf) {
  const Case cases[] = {
      {R"(root ::= "yes" | "no")", {"yes", "no"}, {"", "ye", "n"}, {"yesno", "maybe", "Y"}},
      {"root ::= [a-c]+ \"!\"? # letters\n", {"a", "abc!", "b"}, {""}, {"d", "!", "a!b"}},
      {"root ::= item{2,3}\nitem ::= \"ab\"", {"abab", "ababab"}, {"ab", "a"}, {"abababab"}},
      {"root ::= \"x\"{2}", {"xx"}, {"x"}, {"xxx"}},
      {"root ::= \"x\"{1,}", {"x", "xxxxx"}, {""}, {"y"}},
      {"root ::= (\"a\" |\n  \"b\") \"c\"", {"ac", "bc"}, {"a"}, {"c", "ab"}},
      {"root ::= a | b\na ::= \"a\"\n  | \"aa\"\nb ::= \"\"", {"", "a", "aa"}, {}, {"aaa"}},
      {"root ::= [^a\\]é-ü]*", {"", "b", "日本", "[", "Z"}, {}, {"a", "]", "é", "ñ"}},
      {"root ::= .", {"a", "é", "日", "😀"}, {"", "\xF0\x9F"}, {"\x80", "\xED\xA0\x80", "ab"}},
      {R"(root ::= "\x41\u00e9\U0001F600\n\"\\")", {"Aé😀\n\"\\"}, {"A"}, {"B"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(("}, {")", "())"}},
      {"root ::= (\"a\"?)* \"b\"", {"b", "aaab"}, {"", "aa"}, {"c"}},
      {"root ::= x root | \"\"\nx ::= \"a\" | \"\"", {"", "aaa"}, {}, {"b"}},
      {"root-1_b ::= \"q\"\r\nroot ::= root-1_b", {"q"}, {}, {"r"}},
      {"root ::= \"a\" never | \"b\"\nnever ::= \"c\" never", {"b"}, {""}, {"a"}},
  };
  for (const Case& c : cases) {
    const auto grammar = ParseGrammar(c.grammar);
    ASSERT_TRUE(grammar) << c.grammar << grammar.error().message();
    Check(*grammar, c);
  }
}

TEST(Grammar, GbnfThatIsWrong) {
  const struct {
    std::string text;
    const char* wanted;
  } cases[] = {
      {"", "the grammar has no rule root"},
      {"rot ::= \"a\"", "the grammar has no rule root"},
      {"root = \"a\"", "line 1, column 6: found '= \"a\"', expected ::="},
      {"root ::= x", "line 1, column 10: there is no rule x"},
      {"root ::= \"a\n\"", "a text without its end"},
      {"root ::= [a", "a class without its end"},
      {"root ::= [b-a]", "a range that ends before its beginning"},
      {"root ::= (\"a\"", "expected )"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: rule root is there twice"},
      {"root ::= \"a\"{3,2}", "repeated fewer times than at least"},
      {"root ::= \"a\"{99999}", "the grammar has more than"},
      {"root ::= \"a\"{,2}", "expected a number"},
      {"root ::= \"\\q\"", "expected one of n t r x u U"},
      {"root ::= \"\\x4\"", "expected 2 hexadecimal digits"},
      {"root ::= \"\\UFFFFFFFF\"", "a character behind U+10FFFF"},
      {"root ::= root \"a\" | \"b\"", "rule root begins with itself"},
      {"root ::= x \"a\" | \"b\"\nx ::= \"\" | y\ny ::= root", "rule root begins with itself"},
      {"root ::= \"a\" root", "no text is of this grammar"},
      {"root ::= []", "no text is of this grammar"},
      {"root ::= \"a\" ) ", "expected the end of the line"},
      {"root ::= " + std::string(200, '('), "groups nest too deeply"},
      {std::string((1 << 20) + 1, ' '), "a grammar of 1048577 bytes"},
  };
  for (const auto& c : cases) {
    const auto grammar = ParseGrammar(c.text);
    ASSERT_FALSE(grammar) << c.wanted;
    EXPECT_NE(grammar.error().message().find(c.wanted), std::string::npos)
        << grammar.error().message() << "\nwanted: " << c.wanted;
  }
}

TEST(Grammar, Schemas) {
  const Case cases[] = {
      {"true", {"1", "\"a\"", "[1, {}]", "null", "-0.5e+3"}, {"[", "-", "tru"}, {"x", "01", "+1"}},
      {"{}", {"{}", R"({"a": [1,2], "b":{"c":null}})"}, {"{", R"({"a":)"}, {"[", "1"}},
      {R"({"type": "string"})", {R"("")", R"("aé\n\u00e9")"}, {"\""}, {"\"\n", "\"\\x", "a"}},
      {R"({"type": "string", "minLength": 1, "maxLength": 2})",
       {R"("a")", R"("é\n")"},
       {R"("a)"},
       {R"("")", R"("abc)"}},
      {R"({"type": "integer"})", {"0", "-12", "999"}, {"-"}, {"1.", "01", "1e3"}},
      {R"({"type": "integer", "minimum": 0, "maximum": 120})",
       {"0", "7", "99", "100", "119", "120"},
       {""},
       {"-", "121", "130", "200", "1000", "00"}},
      {R"({"type": "integer", "minimum": -15, "exclusiveMaximum": 3})",
       {"-15", "-9", "-1", "0", "2"},
       {"-"},
       {"-16", "-20", "3", "12", "-0"}},
      {R"({"type": "integer", "maximum": 0})", {"0", "-1", "-20"}, {"-"}, {"1", "-0"}},
      {R"({"type": "integer", "minimum": 7, "exclusiveMinimum": 3, "maximum": 8,
          "exclusiveMaximum": 20})",
       {"7", "8"},
       {""},
       {"4", "6", "9", "19"}},
      {R"({"type": "integer", "minimum": 995, "maximum": 12034})",
       {"995", "999", "1000", "9999", "10000", "12034", "11999"},
       {"9", "99", "994", "13", "121"},
       {"12035", "121000", "-"}},
      {R"({"type": "integer", "minimum": 18})", {"18", "19", "20", "100"}, {"1", "17"}, {"0", "-"}},
      {R"({"type": "number", "minimum": 0})",
       {"0", "1.5", "2e-3", "1E+38"},
       {"1."},
       {"-", "1e100"}},
      {R"({"enum": ["red", 2, null, {"a": 1}]})",
       {R"("red")", "2", "null", R"({"a":1})"},
       {R"("r)"},
       {"red", "3"}},
      {R"({"const": "x"})", {R"("x")"}, {}, {R"("y)"}},
      {R"({"type": ["integer", "null"]})", {"1", "null"}, {"n"}, {"\""}},
      {R"({"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": null, "title": "t"})",
       {"true", "null"},
       {"f"},
       {"1"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
       {"[1]", "[ 1, 2,3 ]"},
       {"[", "[1,"},
       {"[]", "[1,2,3,", "[\""}},
      {R"({"type": "array", "items": {"type": "null"}})", {"[]", "[null,null]"}, {"["}, {"[1"}},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
          "items": false})",
       {R"([1, "a"])"},
       {"[1,"},
       {"[]", R"(["a)", R"([1, "a",)"}},
      {R"({"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "integer"},
          "minItems": 2, "maxItems": 3})",
       {"[null,1]", "[null,1,2]"},
       {"[null", "[null,"},
       {"[null]", "[1", "[null,1,2,"}},
      {R"({"$defs": {"a/b": {"const": 1}, "c~d": {"const": 2}},
          "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c~0d"}]})",
       {"1", "2"},
       {""},
       {"3"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {}, {"[1"}},
      {R"({"type": "object", "properties": {"name": {"type": "string"}, "age":
          {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false})",
       {R"({"name": "a", "age": 3})", R"({"name":"a","age":3})",
        "{\n  \"name\": \"\",\n\"age\":1}"},
       {R"({"name": "a")", "{"},
       {R"({"age)", "{}", R"({"name": "a"})", R"({"name": "a", "age": 3,)"}},
      {R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
          "required": ["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})"},
       {R"({"a":1,)"},
       {"{}", R"({"c)", R"({"a":1,"c)", R"({"b":2,"a)"}},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"x": 1, "y": 2})"},
       {"{\""},
       {R"({"x": ")"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}, "abc": {"type": "null"}},
          "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"ab":null})", R"({"a":1})", R"({"abd":1,"":2})", R"({"ab":null,"abcd":1})",
        R"({"é":1})"},
       {"{\"ab"},
       {R"({"ab":1)", R"({"abc":2)", R"({"a":null)", R"({"\u)"}},
      {R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
          "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
          "required": ["v", "next"]}}, "$ref": "#/$defs/node"})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1,"next":{)"},
       {R"({"v":1})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[["}, {"[1"}},
  };
  for (const Case& c : cases) {
    const auto grammar = GrammarOfSchema(c.grammar);
    ASSERT_TRUE(grammar) << c.grammar << grammar.error().message();
    Check(*grammar, c);
  }
}

TEST(Grammar, SchemasThatAreRefused) {
  const struct {
    const char* schema;
    const char* wanted;
  } cases[] = {
      {"{", "schema: not JSON"},
      {"false", "schema #: false, expected an object or true"},
      {R"({"type": "strnig"})", "schema #: type is \"strnig\", which is not supported"},
      {R"({"type": "string", "pattern": "^a$"})", "schema #: pattern is \"^a$\", which is not"},
      {R"({"properties": {"x": {"not": {}}}})", "schema #/properties/x: not is {}, which is not"},
      {R"({"type": "number", "maximum": 3})", "limits of numbers that are no integers"},
      {R"({"type": "integer", "minimum": 0.5})", "schema #: minimum is 0.5"},
      {R"({"type": "integer", "minimum": 5, "maximum": 4})", "from 5 to 4 there is no integer"},
      {R"({"$ref": "#/$defs/x"})", "schema #: $ref is \"#/$defs/x\", which is not there"},
      {R"({"$ref": "http://x"})", "schema #: $ref is \"http://x\", which is not supported"},
      {R"({"$ref": "#"})", "no text is of this grammar"},
      {R"({"enum": []})", "schema #: enum is [], expected a list of values"},
      {R"({"anyOf": 3})", "schema #: anyOf is 3, expected a list of schemas"},
      {R"({"allOf": [{}, {}]})", "schema #: allOf is [{},{}], which is not supported"},
      {R"({"required": ["a"]})", "schema #: a is required and not among the properties"},
      {R"({"type": "array", "minItems": -1})", "minItems is -1, expected 0 to 10000"},
      {R"({"type": "array", "minItems": 2, "maxItems": 1})", "maxItems is 1, expected at least"},
      {R"({"type": "string", "minLength": 2, "maxLength": 1})", "maxLength is 1, expected at"},
  };
  for (const auto& c : cases) {
    const auto grammar = GrammarOfSchema(c.schema);
    ASSERT_FALSE(grammar) << c.schema;
    EXPECT_NE(grammar.error().message().find(c.wanted), std::string::npos)
        << grammar.error().message() << "\nwanted: " << c.wanted;
  }
}

bool Has(std::span<const uint64_t> mask, int64_t token) {
  return (mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

// Masks are what tokens can be taken; texts of random allowed tokens are whole where they end.
TEST(Grammar, MasksAreWhatCanBeTaken) {
  const Tokenizer tokenizer =
      ByteTokenizer({"{\"", "\":", "\": ", "name", "{\"name\": \"", "true", "tr", "12", "\xC3", "é",
                     "\xA9\"}", "[[", "]]", ", ", "\n  ", "null}", "a\"", "日本"});
  const auto tree = TokenTree::Of(tokenizer);
  ASSERT_TRUE(tree);
  std::mt19937 random(7);
  for (const char* schema :
       {"{}", "true", R"({"properties": {"name": {"type": "string", "maxLength": 9}, "x":
        {"type": "array", "items": {"type": "integer", "maximum": 300}}}})"}) {
    const auto grammar = GrammarOfSchema(schema);
    ASSERT_TRUE(grammar);
    for (int text = 0; text < 8; ++text) {
      GrammarMatcher matcher(*grammar, *tree);
      std::string written;
      for (int step = 0; step < 40 && !matcher.ended(); ++step) {
        const auto mask = matcher.Allowed();
        ASSERT_TRUE(mask) << mask.error().message();
        std::vector<int64_t> allowed;
        for (int64_t token = 0; token < tokenizer.size(); ++token) {
          GrammarMatcher copy = matcher;
          ASSERT_EQ(Has(*mask, token), copy.Take(token).has_value()) << token << " " << written;
          if (Has(*mask, token)) allowed.push_back(token);
        }
        if (allowed.empty()) break;
        const int64_t token = allowed[random() % allowed.size()];
        ASSERT_TRUE(matcher.Take(token));
        written += (*tree)->bytes(token);
      }
      if (matcher.ended()) EXPECT_TRUE(ParseJson(written)) << written;
    }
  }
}

// Sets of places that are forgotten change nothing.
TEST(Grammar, LongTextsForget) {
  const auto tree = TokenTree::Of(ByteTokenizer());
  const auto grammar = ParseGrammar("root ::= \"a\"{9999} \"b\"");
  ASSERT_TRUE(grammar) << grammar.error().message();
  GrammarMatcher matcher(*grammar, *tree);
  for (int i = 0; i < 9999; ++i) {
    const auto mask = matcher.Allowed();
    ASSERT_TRUE(mask);
    ASSERT_TRUE(Has(*mask, 'a') && !Has(*mask, 'b')) << i;
    ASSERT_TRUE(matcher.Take('a'));
  }
  EXPECT_TRUE(Has(*matcher.Allowed(), 'b'));
  EXPECT_FALSE(matcher.whole());
  ASSERT_TRUE(matcher.Take('b'));
  EXPECT_TRUE(matcher.ended());
  EXPECT_FALSE(matcher.Take('b'));
  EXPECT_FALSE(matcher.Take(256)) << "special";
}

TEST(Grammar, BoundsOfAmbiguity) {
  const auto tree = TokenTree::Of(ByteTokenizer());
  const auto grammar = ParseGrammar(
      "root ::= x x x x x x x x x x x x x x x x\nx ::= y y y y y y y y\ny ::= \"a\" | \"a\" y | "
      "\"a\" y y | z y\nz ::= \"a\" z y | \"a\"");
  ASSERT_TRUE(grammar) << grammar.error().message();
  GrammarMatcher matcher(*grammar, *tree);
  Status status;
  for (int i = 0; i < 200 && status; ++i) {
    const auto mask = matcher.Allowed();
    status = mask ? matcher.Take('a') : Status(tl::unexpected(mask.error()));
  }
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("too ambiguous"), std::string::npos)
      << status.error().message();
}

// What cannot be written with the tokens that there are.
TEST(Grammar, NoTokenGoesOn) {
  const auto grammar = ParseGrammar("root ::= \"é\"");
  auto tree = std::make_shared<TokenTree>();
  GrammarMatcher matcher(*grammar, tree);
  const auto mask = matcher.Allowed();
  ASSERT_FALSE(mask);
  EXPECT_EQ(mask.error().message(), "no token of the model goes on with a text of this grammar");
}

}  // namespace
}  // namespace evoq
