#include "generate/text_under_way.h"

#include <algorithm>

namespace evoq {

std::string StopTexts::Next(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stop_) {
    if (!stop.empty()) first = std::min(first, held_.find(stop));
  }
  if (first != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, "").substr(0, first);
  }
  // The longest end of the text that begins a stop text waits.
  size_t kept = 0;
  for (const std::string& stop : stop_) {
    for (size_t n = std::min(stop.size(), held_.size() + 1); n-- > kept + 1;) {
      if (!stop.starts_with(std::string_view(held_).substr(held_.size() - n))) continue;
      kept = n;
      break;
    }
  }
  std::string out = held_.substr(0, held_.size() - kept);
  held_.erase(0, out.size());
  return out;
}

void TextUnderWay::Give(const std::string& text) {
  if (text.empty()) return;
  out_.text += text;
  if (on_text_ && !on_text_(text) && !ended_) ended_ = Ended::kCaller;
}

Result<std::string> TextUnderWay::TextOf(int64_t token) {
  if (std::ranges::find(options_.shown_tokens, token) == options_.shown_tokens.end())
    return decoder_->Next(token);
  EVOQ_ASSIGN(const std::string piece, tokenizer_->Piece(token));
  return decoder_->Finish() + piece;
}

Result<bool> TextUnderWay::Take(int64_t token) {
  if (EndsWith(token)) {
    ended_ = Ended::kEndToken;
    return false;
  }
  out_.tokens.push_back(token);
  if (decoder_) {
    EVOQ_ASSIGN(const std::string text, TextOf(token));
    Give(stop_.Next(text));
  }
  if (ended_) return false;
  if (stop_.stopped()) ended_ = Ended::kStopText;
  if (!ended_ && count() >= options_.max_tokens) ended_ = Ended::kMaxTokens;
  return !ended_;
}

Result<Generated> TextUnderWay::Finish() {
  if (decoder_ && !stop_.stopped() && ended_ != Ended::kCaller) {
    Give(stop_.Next(decoder_->Finish()));
    Give(stop_.Finish());
  }
  out_.ended = ended_.value_or(Ended::kMaxTokens);
  return std::move(out_);
}

}  // namespace evoq
