// Room: tokenizer
// Grammars and JSON schemas: each is read or refused, and what its masks allow can be taken. The
// first byte says which of the two the rest is.
#include <iterator>
#include <random>

#include "base/check.h"
#include "tests/fuzz/time_limit.h"
#include "tests/fuzz/word_mutator.h"
#include "tokenizer/grammar/grammar_testing.h"

namespace {

using namespace evoq;

constexpr std::string_view kWords[] = {"root ::= ",
                                       "x ::= ",
                                       "\n",
                                       " | ",
                                       "\"a\"",
                                       "\"\"",
                                       "[a-z]",
                                       "[^\\n\"]",
                                       "[\\u00e9-\\U0001F600]",
                                       ".",
                                       "(",
                                       ")",
                                       "*",
                                       "+",
                                       "?",
                                       "{2}",
                                       "{1,}",
                                       "{0,3}",
                                       "{9999}",
                                       "root",
                                       "x",
                                       "y",
                                       "#c\n",
                                       "\\",
                                       "{\"type\": ",
                                       "\"object\"",
                                       "\"array\"",
                                       "\"string\"",
                                       "\"integer\"",
                                       "\"number\"",
                                       "\"null\"",
                                       "[\"integer\", \"null\"]",
                                       "}",
                                       ", ",
                                       "\"properties\": {",
                                       "\"a\": ",
                                       "\"required\": [\"a\"]",
                                       "\"additionalProperties\": ",
                                       "true",
                                       "false",
                                       "\"items\": ",
                                       "\"prefixItems\": [",
                                       "]",
                                       "\"minItems\": 2",
                                       "\"maxItems\": 3",
                                       "\"minLength\": 1",
                                       "\"maxLength\": 9",
                                       "\"minimum\": -15",
                                       "\"maximum\": 120",
                                       "\"exclusiveMinimum\": 0",
                                       "\"enum\": [1, \"b\"]",
                                       "\"const\": null",
                                       "\"anyOf\": [",
                                       "\"allOf\": [",
                                       "{\"$ref\": \"#\"}",
                                       "{\"$ref\": \"#/properties/a\"}",
                                       "{}",
                                       "\"$defs\": {",
                                       "-9007199254740993",
                                       "0.5",
                                       "1e300",
                                       "\xC3\xA9"};

const std::vector<std::string>& Seeds() {
  static const std::vector<std::string> seeds = {
      "froot ::= \"yes\" | \"no\" x{2,3}\nx ::= [a-z]+ # letters\n",
      "froot ::= \"(\" root \")\" | y*\ny ::= (\"a\" | \"\xC3\xA9\")? \"b\" .",
      "s{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": "
      "5}, "
      "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 120}}, \"required\": "
      "[\"name\"], "
      "\"additionalProperties\": {\"type\": \"null\"}}",
      "s{\"$defs\": {\"n\": {\"properties\": {\"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/n\"}, "
      "{\"type\": \"null\"}]}}}}, \"$ref\": \"#/$defs/n\"}",
      "s{\"type\": \"array\", \"prefixItems\": [{\"enum\": [1, \"x\"]}], \"items\": true, "
      "\"minItems\": 2, \"maxItems\": 4}"};
  return seeds;
}

const std::shared_ptr<const TokenTree>& Tree() {
  static const auto tree = *TokenTree::Of(
      ByteTokenizer({"{\"", "\": ", "aa", "ab", "12", "\xC3\xA9", "null", "true}", "  \n"}));
  return tree;
}

// A text of tokens that are allowed, by chance.
void Write(const std::shared_ptr<const Grammar>& grammar, unsigned seed) {
  std::minstd_rand random(seed);
  GrammarMatcher matcher(grammar, Tree());
  for (int step = 0; step < 24 && !matcher.ended(); ++step) {
    const auto mask = matcher.Allowed();
    if (!mask) {
      EVOQ_CHECK(mask.error().code() == ErrorCode::kTooLarge, "{}", mask.error().message());
      return;
    }
    std::vector<int64_t> allowed;
    for (int64_t token = 0; token < Tree()->size(); ++token) {
      if ((*mask)[static_cast<size_t>(token / 64)] >> (token % 64) & 1) allowed.push_back(token);
    }
    EVOQ_CHECK(!allowed.empty(), "a text that is not whole, and nothing goes on");
    const Status taken = matcher.Take(allowed[random() % allowed.size()]);
    EVOQ_CHECK(taken, "{}", taken.error().message());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto grammar = data[0] % 2 == 0 ? ParseGrammar(text) : GrammarOfSchema(text);
  if (!grammar) {
    EVOQ_CHECK(grammar.error().code() != ErrorCode::kInternal, "{}", grammar.error().message());
    EVOQ_CHECK(grammar.error().message().size() < 4096, "an error of {} bytes",
               grammar.error().message().size());
    return 0;
  }
  Write(*grammar, static_cast<unsigned>(size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return evoq::fuzz::MutateText(data, size, max_size, seed, kWords, Seeds());
}
