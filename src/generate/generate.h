// Text from a language model, token by token.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/cached_model.h"
#include "tokenizer/sampling.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

inline constexpr size_t kRecentTokens = 64;  // that a repeat penalty looks at

struct GenerateOptions {
  int64_t max_tokens = 128;
  SamplingOptions sampling;       // repeat_penalty: of the last kRecentTokens
  std::vector<std::string> stop;  // texts that end it; they are not part of what is given
  bool ignore_end = false;        // goes on behind the model's end tokens: for measurements
};

enum class Ended { kEndToken, kStopText, kMaxTokens, kContext, kCaller };
const char* EndedName(Ended why);  // "end", "stop", "length", "context", "cancelled"

struct Generated {
  std::vector<int64_t> tokens;  // without the one that ended it
  std::string text;
  Ended ended = Ended::kMaxTokens;
  int64_t prompt_tokens = 0;          // that were run: without those that the cache had
  double prompt_ms = 0;               // until the first token was chosen
  double decode_ms = 0;               // of all tokens behind the first
  double host_ms = 0;                 // of decode_ms, what passed outside of runs of the models
  int64_t drafted = 0, accepted = 0;  // tokens of a draft model, and those that were kept

  double prompt_tokens_per_s() const;
  double tokens_per_s() const;  // behind the first one; 0 where there are none
};

// Gets each piece of text as it is complete; false: stop. May be null.
using OnText = std::function<bool(std::string_view text)>;

// A sequence of one slot of a model. Tokens that a prompt has in common with what the slot's cache
// holds already are not run again.
class Writer {
 public:
  // `draft`: a smaller model of the same vocabulary, or null. It proposes tokens that the model
  // checks several at a time; greedy choices are then exactly those of the model alone. Both are
  // used in their slot `slot`. Both must outlive the writer. Without a tokenizer there are tokens
  // and no text.
  Writer(CachedModel& model, std::optional<Tokenizer> tokenizer, std::vector<int64_t> ends,
         CachedModel* draft = nullptr, int64_t slot = 0)
      : model_(model),
        draft_(draft),
        tokenizer_(std::move(tokenizer)),
        ends_(std::move(ends)),
        slot_(slot) {}

  // Tokens that the cache holds.
  const std::vector<int64_t>& tokens() const { return tokens_; }

  // Errors: kUsage for a prompt of no tokens or one that the context cannot hold, and for options
  // out of range.
  Result<Generated> Write(std::span<const int64_t> prompt, const GenerateOptions& options,
                          const OnText& on_text = nullptr);

  // Writes the cache and its tokens to a file, and takes them from one (docs/generate.md).
  // Errors: kInvalidInput for a file of another model.
  Status Save(const std::string& path) const;
  Status Restore(const std::string& path);

 private:
  class Run;
  CachedModel& model_;
  CachedModel* draft_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int64_t> ends_;
  int64_t slot_;
  std::vector<int64_t> tokens_;        // of the model's cache
  std::vector<int64_t> draft_tokens_;  // of the draft's
};

// What one of several sequences asks for.
struct Request {
  std::vector<int64_t> prompt;
  GenerateOptions options;
};

// All requests, as many at a time as the model has slots: a sequence that ends makes room for the
// next one. Results by request; each is what it would be alone (docs/generate.md). `on_text` gets
// the request's number too.
Result<std::vector<Generated>> GenerateMany(
    CachedModel& model, const std::optional<Tokenizer>& tokenizer, std::span<const int64_t> ends,
    std::span<const Request> requests,
    const std::function<bool(size_t request, std::string_view text)>& on_text = nullptr);

}  // namespace evoq
