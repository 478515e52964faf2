// One text under way: tokens go in, text comes out, until something ends it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generate/generate.h"

namespace evoq {

// Text of which the last part is held back while it may be the beginning of a stop text.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  // What of the text so far can be given out. stopped() says whether a stop text was met: nothing
  // from there on is given.
  std::string Next(std::string_view text);
  // What is still held back, at the end.
  std::string Finish() { return std::exchange(held_, ""); }
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

class TextUnderWay {
 public:
  // The text continues the prompt's.
  TextUnderWay(const std::optional<Tokenizer>& tokenizer, std::span<const int64_t> prompt,
               std::span<const int64_t> ends, const GenerateOptions& options, OnText on_text)
      : tokenizer_(tokenizer),
        ends_(options.stop_tokens),
        options_(options),
        stop_(options.stop),
        on_text_(std::move(on_text)) {
    if (!options.ignore_end) ends_.insert(ends_.end(), ends.begin(), ends.end());
    if (tokenizer) decoder_.emplace(*tokenizer).Follow(prompt);
  }

  // Tokens that end the text.
  const std::vector<int64_t>& ends() const { return ends_; }
  bool EndsWith(int64_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }
  // Takes the token that was chosen. True: the text goes on.
  Result<bool> Take(int64_t token);
  void End(Ended why) { ended_ = why; }
  bool ended() const { return ended_.has_value(); }
  int64_t count() const { return static_cast<int64_t>(out_.tokens.size()); }

  Generated& out() { return out_; }
  // Gives out what was held back. The result, once.
  Result<Generated> Finish();

 private:
  void Give(const std::string& text);
  // The text that the token completes.
  Result<std::string> TextOf(int64_t token);
  std::optional<Tokenizer> tokenizer_;
  std::optional<StreamDecoder> decoder_;
  std::vector<int64_t> ends_;
  const GenerateOptions& options_;
  StopTexts stop_;
  OnText on_text_;
  Generated out_;
  std::optional<Ended> ended_;
};

}  // namespace evoq
