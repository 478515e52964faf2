// Several texts of one model that are written at the same time: a run takes the next token of each
// of them, so the weights are read once for all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "generate/generate.h"

namespace evoq {

// The sequences of a model's slots, and their texts. What a sequence holds stays when its text has
// ended: a prompt that continues it is not run again, and what a prompt has in common with any
// sequence is copied from there. Each text is what it would be alone (docs/generate.md).
//
// Texts behind their prompts have the first slots, whose caches a run takes as they lie; sequences
// change their slots for that. Of prompts the one that came first is run first, in pieces, with a
// token of each text after so many tokens of prompts as one piece has.
class Sequences {
 public:
  // By what Begin was told: a text, once it has ended, or why it has not.
  using OnEnded = std::function<void(size_t number, Result<Generated> text)>;

  // The model outlives it, and does nothing else meanwhile; it may hold tokens of nobody.
  Sequences(CachedModel& model, const std::optional<Tokenizer>& tokenizer,
            std::span<const int64_t> ends);
  ~Sequences();
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  int64_t idle() const { return static_cast<int64_t>(places_.size()) - active_; }
  int64_t active() const { return active_; }

  // Of an idle sequence, of which there must be one. Nothing has run yet. Errors: as Writer's.
  Status Begin(size_t number, std::span<const int64_t> prompt, const GenerateOptions& options,
               OnText on_text = nullptr, OnToken on_token = nullptr);
  // Runs pieces of prompts, and a token of each text. What fails fails for the texts of that run.
  void Advance(const OnEnded& ended);
  // The text as it is; it has ended by its caller. `number` must be under way.
  Result<Generated> Leave(size_t number);

 private:
  struct Place;
  // That the prompt goes on from, or the one that was left alone for longest.
  size_t PlaceFor(std::span<const int64_t> prompt) const;
  // The prompt that is run next; none where there is none.
  std::optional<size_t> NextPrompt() const;
  // Takes from the other sequences what the place's prompt has in common with them.
  void CopyPrefix(size_t place);
  void Exchange(size_t a, size_t b);
  void RunPrompts(const OnEnded& ended);
  void RunTexts(const OnEnded& ended);
  // The place is idle from now on; its number.
  size_t Retire(size_t place);
  void End(size_t place, const OnEnded& ended);
  void Fail(size_t place, const Error& error, const OnEnded& ended);

  CachedModel& model_;
  std::vector<std::unique_ptr<Place>> places_;  // by slot
  std::vector<int64_t> tokens_;                 // of a run
  std::vector<Result<bool>> more_;              // whether its texts go on
  size_t decoding_ = 0;                         // the first places: texts behind their prompts
  int64_t active_ = 0;
  uint64_t turn_ = 0;
};

// What one of several sequences asks for.
struct Request {
  std::vector<int64_t> prompt;
  GenerateOptions options;
};

// All requests, as many at a time as the model has slots: a sequence that ends makes room for the
// next one. Results by request; each is what it would be alone (docs/generate.md). `on_text` gets
// the request's number too. Writers of the model must Forget.
Result<std::vector<Generated>> GenerateMany(
    CachedModel& model, const std::optional<Tokenizer>& tokenizer, std::span<const int64_t> ends,
    std::span<const Request> requests,
    const std::function<bool(size_t request, std::string_view text)>& on_text = nullptr,
    const Cancelled& cancelled = nullptr);

}  // namespace evoq
