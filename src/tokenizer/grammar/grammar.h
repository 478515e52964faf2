// Context-free grammars of texts, down to their bytes: what a text must be.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"

namespace evoq {

// Rules, of which each is one of several sequences of symbols. A symbol is a set of bytes or a
// rule. Rule 0 is the whole text. From GrammarBuilder::Finish: each rule stands for some text, and
// none begins with itself.
struct Grammar {
  using Bytes = std::bitset<256>;
  struct Symbol {
    bool is_rule;
    int32_t index;  // of rules, else of sets
  };
  using Sequence = std::vector<Symbol>;
  std::vector<Bytes> sets;
  std::vector<std::vector<Sequence>> rules;
};

// Of llama.cpp's GBNF: rules `name ::= ...`, of which `root` is the text; "texts", [classes], `.`,
// ( ), |, * + ? {m} {m,} {m,n} and # comments. Errors: kInvalidInput naming line and column.
Result<std::shared_ptr<const Grammar>> ParseGrammar(std::string_view text);

// Of JSON texts that a JSON schema describes (docs/generate.md); "{}" is any JSON object, and
// true any value. The texts `before` and `behind` stand around it. Errors: kInvalidInput and
// kUnsupported naming the place in the schema.
Result<std::shared_ptr<const Grammar>> GrammarOfSchema(std::string_view schema,
                                                       std::string_view before = "",
                                                       std::string_view behind = "");

// Of the texts of either.
std::shared_ptr<const Grammar> GrammarOfEither(const Grammar& a, const Grammar& b);

// Of these texts and no other. Errors: kInvalidInput where there is none.
Result<std::shared_ptr<const Grammar>> GrammarOfTexts(const std::vector<std::string>& texts);

// Puts a grammar together. Sizes are bounded: what is added beyond them is left out, and Finish
// is the error.
class GrammarBuilder {
 public:
  using Symbol = Grammar::Symbol;
  using Sequence = Grammar::Sequence;
  static constexpr size_t kMaxSymbols = size_t{1} << 20;
  static constexpr int64_t kMaxRepeats = 10000;

  struct Range {
    uint32_t low, high;  // Unicode characters, both included
  };

  // A rule of no sequences yet.
  Symbol NewRule();
  void Add(Symbol rule, Sequence sequence);

  Symbol Set(const Grammar::Bytes& bytes);
  Sequence Text(std::string_view text);
  // A character of the ranges, or of none of them, as UTF-8.
  Symbol Character(std::vector<Range> ranges, bool others = false);
  Symbol Choice(std::vector<Sequence> sequences);
  // `least` to `most` times; most < 0: any number.
  Sequence Repeat(Symbol symbol, int64_t least, int64_t most);

  // The text is `root`. Errors: kInvalidInput: no text is; `name` of a rule begins with the rule
  // itself. kTooLarge.
  Result<std::shared_ptr<const Grammar>> Finish(Symbol root);
  // For messages of Finish.
  void Name(Symbol rule, std::string name);

 private:
  Status CheckLeft() const;
  void DropEmpty();
  Grammar grammar_;
  std::unordered_map<Grammar::Bytes, int32_t> sets_;
  std::vector<std::string> names_;
  size_t symbols_ = 0;
};

}  // namespace evoq
