// Text from a language model, token by token.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "generate/cached_model.h"
#include "tokenizer/sampling.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

struct Grammar;  // tokenizer/grammar/grammar.h

inline constexpr size_t kRecentTokens = 64;  // that a repeat penalty looks at

struct GenerateOptions {
  int64_t max_tokens = 128;                // 0: only the prompt is run, where it is scored
  int64_t min_tokens = 0;                  // before so many, none comes that would end the text
  SamplingOptions sampling;                // repeat_penalty: of the last kRecentTokens
  std::vector<std::string> stop;           // texts that end it; they are not part of what is given
  std::vector<int64_t> stop_tokens;        // the same, beside the model's end tokens
  std::vector<int64_t> shown_tokens;       // special pieces that the text shows as they are written
  std::shared_ptr<const Grammar> grammar;  // that the text is of; null: it may be anything
  // Of a model that reads a text: the first tokens of the one that it writes; empty: what its facts
  // say.
  std::vector<int64_t> begin;
  std::shared_ptr<const Tensor> sound;   // what a model that hears has in place of a prompt
  int64_t beams = 1;                     // texts that are followed at a time (generate/beams.h)
  std::optional<double> length_penalty;  // of beams; none: what the model's facts say, or 1
  bool ignore_end = false;               // goes on behind the model's end tokens: for measurements
  int64_t likeliest = 0;                 // of ScoredToken, at most kMostLikeliest
  bool score_prompt = false;             // its tokens are told too; all of them are run
};
inline constexpr int64_t kMostLikeliest = 1024;

// A token, and what the model thought of it: logarithms of probabilities, from its logits as they
// are, whatever the token was chosen by.
struct ScoredToken {
  struct Chance {
    int64_t token;
    double logprob;
  };
  int64_t token;
  std::optional<double> logprob;  // none: the first one of a prompt, which nothing precedes
  std::vector<Chance> likeliest;  // in its place, the likeliest first
};

// Of the logits of a token's place. Errors: kInvalidInput where one is no number.
Result<ScoredToken> ScoreToken(std::span<const float> logits, int64_t token, int64_t likeliest);

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
// Gets each token of the text, and of the prompt where that is scored, before the text that it
// completes; not the one that ended it. May be null: nothing is scored then.
using OnToken = std::function<void(ScoredToken token)>;

// Asked between runs of the model; true: texts end as they are, by the caller. May be null.
using Cancelled = std::function<bool()>;

// Whether the draft knows the model's tokens. Errors: kUsage.
Status CheckDraft(const CachedModel& model, const CachedModel& draft);

// Prepares both for texts behind prompts of so many tokens, so that little is compiled later.
Status PrepareDraft(CachedModel& model, CachedModel& draft, int64_t prompt_tokens);

class BeamText;
class Sequences;
class Writer;

// A text under way, of a writer that must outlive it. It ends where the writer does anything else.
class Writing {
 public:
  Writing(Writing&&) noexcept;
  Writing& operator=(Writing&&) noexcept;
  ~Writing();

  // Runs a piece of the prompt (CachedModel::kMaxChunk tokens) or what gives the next token, with a
  // draft the next tokens, with beams those of all. False: the text has ended. Errors: kUsage where
  // the writer has done something else meanwhile.
  Result<bool> Advance();
  // What was written, once; `ended` is kCaller where Advance did not say the end.
  Result<Generated> Finish();

 private:
  friend class Sequences;
  friend class Writer;
  class Run;
  explicit Writing(std::unique_ptr<Run> run);
  explicit Writing(std::unique_ptr<BeamText> beams);
  std::unique_ptr<Run> run_;
  std::unique_ptr<BeamText> beams_;  // instead of a run
};

// A sequence of one slot of a model. Tokens that a prompt has in common with what the slot's cache
// holds already are not run again. The prompt of a model that reads one text and writes another is
// the text that it reads: it is not run again where it is the one before.
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
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Tokens that the cache holds, of the text that is written.
  const std::vector<int64_t>& tokens() const { return tokens_; }

  // Errors: kUsage for a prompt of no tokens or one that the context cannot hold, and for options
  // out of range.
  Result<Generated> Write(std::span<const int64_t> prompt, const GenerateOptions& options,
                          const OnText& on_text = nullptr, const Cancelled& cancelled = nullptr);
  // The same, run by run. Nothing has run yet. Errors: as Write's.
  Result<Writing> Begin(std::span<const int64_t> prompt, const GenerateOptions& options,
                        OnText on_text = nullptr, OnToken on_token = nullptr);

  // The cache becomes that of these tokens. The logits [wanted, vocabulary] of the last `wanted` of
  // them, until the model runs again. Errors: kUsage for `wanted` not in 1 to their number, and of
  // a model that reads another text before; those of CachedModel::Append.
  Result<std::span<const float>> Logits(std::span<const int64_t> tokens, int64_t wanted);
  // Of a model that reads: the logits [vocabulary] of what texts of this source begin with. Errors:
  // those of CachedModel::Encode.
  Result<std::span<const float>> Beginning(const Source& source);
  // The cache holds nothing.
  void Forget();

  // Writes the cache and its tokens to a file, and takes them from one (docs/generate.md).
  // Errors: kInvalidInput for a file of another model; kUsage for one that reads a text.
  Status Save(const std::string& path) const;
  Status Restore(const std::string& path);

 private:
  friend class BeamText;
  friend class Sequences;
  friend class Writing;
  Result<std::unique_ptr<Writing::Run>> NewRun(std::span<const int64_t> prompt,
                                               const GenerateOptions& options, OnText on_text,
                                               OnToken on_token);
  // Forgets what the cache does not have in common with all but the last `rerun` of the tokens.
  void Keep(std::span<const int64_t> tokens, int64_t rerun);
  // Room for so many tokens more.
  void Reserve(size_t more);
  Result<std::span<const float>> Append(std::span<const int64_t> tokens, int64_t wanted);
  double run_ms() const { return model_.run_ms() + (draft_ != nullptr ? draft_->run_ms() : 0); }

  CachedModel& model_;
  CachedModel* draft_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int64_t> ends_;
  int64_t slot_;
  uint64_t changes_ = 0;               // by others than the text that is under way
  Source source_;                      // of the model's slot, where it reads
  std::vector<int64_t> tokens_;        // of the model's cache
  std::vector<int64_t> draft_tokens_;  // of the draft's
};

}  // namespace evoq
