// The runs of one text: of a writer alone, or one of several whose tokens a run takes together.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "generate/generate.h"
#include "generate/text_rules.h"
#include "generate/text_under_way.h"
#include "tokenizer/grammar/matcher.h"

namespace evoq {

// Whether the model can continue the prompt so. Errors: kUsage.
Status CheckText(const CachedModel& model, std::span<const int64_t> prompt,
                 const GenerateOptions& options);

class Writing::Run {
 public:
  Run(Writer& writer, Sampler sampler, const GenerateOptions& options, OnText on_text,
      OnToken on_token, std::span<const int64_t> prompt);

  Result<bool> Advance();
  Result<Generated> Finish();

  // All tokens that are chosen from now on are of the grammar.
  void Follow(GrammarMatcher matcher) { matcher_.emplace(std::move(matcher)); }

  // What Advance does, by its parts.
  bool decoding() const { return decoding_; }
  // How many tokens the next piece of the prompt has.
  size_t piece() const;
  Result<bool> Prompt();
  // The token that is to be run for the next one; none where the context is full and the text has
  // ended.
  std::optional<int64_t> NextToken();
  // What the run of that token gave.
  Result<bool> Took(std::span<const float> logits);
  // Time of one or more runs behind the prompt, and what of it passed outside of them.
  void AddDecode(double ms, double host_ms);

 private:
  friend class evoq::Sequences;
  // Chooses the next token behind history_ and takes it. False: the text has ended.
  Result<bool> Choose(std::span<const float> logits);
  // Chooses by the logits and the rules.
  Result<int64_t> Sample(std::span<const float> logits);
  // Fills allowed_. False: nothing may follow.
  Result<bool> Allow();
  Result<bool> RunPrompt();
  Result<bool> OneToken();
  Result<bool> WithDrafts();
  Result<std::vector<int64_t>> Drafts(int64_t count);
  // Tells the prompt's tokens from `first` on; a row of logits for each, of the one before it.
  Status TellPrompt(size_t first, std::span<const float> logits);

  Writer& w_;
  uint64_t change_;
  Sampler sampler_;
  GenerateOptions options_;
  TextUnderWay progress_;
  OnToken on_token_;
  TextRules rules_;
  Source source_;                 // that is still to be read
  std::vector<int64_t> history_;  // the prompt and what was chosen
  size_t prompt_;                 // its tokens
  bool decoding_ = false;
  int64_t drafts_;  // of the next round
  std::optional<GrammarMatcher> matcher_;
  std::vector<uint64_t> allowed_;  // tokens, with those that end the text
  std::vector<int64_t> banned_;
};

}  // namespace evoq
