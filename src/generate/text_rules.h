// What a model's facts and the caller say of a text's next token, beside its logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "generate/generate.h"

namespace evoq {

class TextRules {
 public:
  // `ends`: tokens that end the text. `model` and `options` outlive it.
  TextRules(const CachedModel& model, const GenerateOptions& options, std::vector<int64_t> ends);

  // The token that must come behind so many of the text; none where it is free.
  std::optional<int64_t> Forced(int64_t written) const;
  // Adds tokens that must not come behind `history`, whose last `written` are the text's.
  void Ban(std::span<const int64_t> history, int64_t written, std::vector<int64_t>& banned) const;

 private:
  // Tokens that the text begins with.
  const std::vector<int64_t>& Begin() const;
  const TargetFacts& facts_;
  const GenerateOptions& options_;
  std::vector<int64_t> ends_;
};

// What a model that reads has before it writes.
Source SourceOf(std::span<const int64_t> prompt, const GenerateOptions& options);
// What stands before the text in the model's cache: the prompt, or of a model that reads it what
// such texts begin with, of speech with GenerateOptions::begin.
std::vector<int64_t> BeforeText(const CachedModel& model, std::span<const int64_t> prompt,
                                const GenerateOptions& options);

}  // namespace evoq
