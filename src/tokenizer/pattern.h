// Regular expressions as tokenizers write them: Unicode classes, lookaheads, possessive repeats.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace evoq {

// Matched by PCRE2's interpreter; the dialect is Oniguruma's as far as tokenizers use it: \s is
// White_Space, \w is UTS 18's without joiners and with Latin-1's numbers, ^ and $ are the ends of
// lines. A value; matching is safe from many threads.
class Pattern {
 public:
  // Errors: kInvalidInput with PCRE2's reason and the place; kTooLarge over 16 KiB.
  static Result<Pattern> Make(std::string_view regex);
  // Text that stands for itself.
  static Result<Pattern> Literal(std::string_view text);

  // Calls `found(begin, end)` for the matches of `text`, valid UTF-8, from left to right; empty
  // matches are left out. Work and memory of each match are bounded.
  // Errors: kTooLarge where a match takes more than that.
  Status ForEachMatch(std::string_view text,
                      const std::function<void(size_t begin, size_t end)>& found) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

}  // namespace evoq
