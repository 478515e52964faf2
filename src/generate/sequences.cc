#include "generate/sequences.h"

#include <algorithm>

#include "base/guarded.h"
#include "base/stopwatch.h"
#include "generate/writing_run.h"

namespace evoq {
namespace {

// Copying fewer tokens of a cache is not worth it.
constexpr size_t kLeastCopied = 4;

size_t Common(std::span<const int64_t> a, std::span<const int64_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

struct Sequences::Place {
  std::unique_ptr<Writer> writer;
  std::unique_ptr<Writing::Run> text;  // null: idle
  size_t number = 0;                   // of the text
  uint64_t turn = 0;                   // when the text began, or ended
};

Sequences::Sequences(CachedModel& model, const std::optional<Tokenizer>& tokenizer,
                     std::span<const int64_t> ends)
    : model_(model) {
  for (int64_t slot = 0; slot < model.slots(); ++slot) {
    model.Truncate(slot, 0);
    auto place = std::make_unique<Place>();
    place->writer = std::make_unique<Writer>(
        model, tokenizer, std::vector<int64_t>(ends.begin(), ends.end()), nullptr, slot);
    places_.push_back(std::move(place));
  }
  tokens_.reserve(places_.size());
  more_.reserve(places_.size());
}
Sequences::~Sequences() = default;

size_t Sequences::PlaceFor(std::span<const int64_t> prompt) const {
  std::optional<size_t> best, oldest;
  int64_t most = 0;
  for (size_t i = decoding_; i < places_.size(); ++i) {
    const Place& place = *places_[i];
    if (place.text != nullptr) continue;
    if (!oldest || place.turn < places_[*oldest]->turn) oldest = i;
    // What is the prompt's counts for a sequence, what would be lost against it: the prompt's can
    // be copied.
    const auto held = std::ssize(place.writer->tokens());
    const auto common = static_cast<int64_t>(Common(place.writer->tokens(), prompt));
    if (const int64_t worth = common - (held - common); worth > most) {
      best = i;
      most = worth;
    }
  }
  EVOQ_CHECK(oldest.has_value(), "no idle sequence of {}", places_.size());
  return best.value_or(*oldest);
}

Status Sequences::Begin(size_t number, std::span<const int64_t> prompt,
                        const GenerateOptions& options, OnText on_text, OnToken on_token) {
  Place& place = *places_[PlaceFor(prompt)];
  EVOQ_ASSIGN(place.text,
              place.writer->NewRun(prompt, options, std::move(on_text), std::move(on_token)));
  place.number = number;
  place.turn = ++turn_;
  ++active_;
  return {};
}

void Sequences::Exchange(size_t a, size_t b) {
  if (a == b) return;
  model_.Exchange(static_cast<int64_t>(a), static_cast<int64_t>(b));
  std::swap(places_[a], places_[b]);
  std::swap(places_[a]->writer->slot_, places_[b]->writer->slot_);
}

size_t Sequences::Retire(size_t place) {
  Place& one = *places_[place];
  one.text.reset();
  one.turn = ++turn_;
  --active_;
  const size_t number = one.number;
  if (place < decoding_) Exchange(place, --decoding_);
  return number;
}

void Sequences::End(size_t place, const OnEnded& ended) {
  auto text = Guarded([&] { return places_[place]->text->Finish(); });
  ended(Retire(place), std::move(text));
}

void Sequences::Fail(size_t place, const Error& error, const OnEnded& ended) {
  ended(Retire(place), tl::unexpected(error));
}

Result<Generated> Sequences::Leave(size_t number) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i]->text == nullptr || places_[i]->number != number) continue;
    auto text = Guarded([&] { return places_[i]->text->Finish(); });
    Retire(i);
    return text;
  }
  EVOQ_CHECK(false, "text {} is not under way", number);
}

std::optional<size_t> Sequences::NextPrompt() const {
  std::optional<size_t> next;
  for (size_t i = decoding_; i < places_.size(); ++i) {
    if (places_[i]->text != nullptr && (!next || places_[i]->turn < places_[*next]->turn)) next = i;
  }
  return next;
}

void Sequences::CopyPrefix(size_t place) {
  Writer& writer = *places_[place]->writer;
  const Writing::Run& text = *places_[place]->text;
  if (text.options_.score_prompt || model_.reads()) return;
  const std::span<const int64_t> prompt(text.history_);
  size_t most = writer.tokens_.size() + kLeastCopied - 1;
  const Writer* from = nullptr;
  for (const auto& other : places_) {
    const size_t common = Common(other->writer->tokens_, prompt.first(prompt.size() - 1));
    if (common <= most) continue;
    most = common;
    from = other->writer.get();
  }
  if (from == nullptr) return;
  std::vector<int64_t> tokens(prompt.begin(), prompt.begin() + static_cast<int64_t>(most));
  model_.Copy(from->slot_, writer.slot_, static_cast<int64_t>(most));
  writer.tokens_ = std::move(tokens);
}

void Sequences::RunPrompts(const OnEnded& ended) {
  for (size_t left = CachedModel::kMaxChunk; left > 0;) {
    const std::optional<size_t> next = NextPrompt();
    if (!next) return;
    Writing::Run& text = *places_[*next]->text;
    auto more = Guarded([&]() -> Result<bool> {
      if (text.progress_.out().prompt_tokens == 0) CopyPrefix(*next);
      const size_t piece = text.piece();
      if (piece > left && left < CachedModel::kMaxChunk) {
        left = 0;
        return true;
      }
      left -= piece;
      return text.Prompt();
    });
    if (!more) {
      Fail(*next, more.error(), ended);
    } else if (!*more) {
      End(*next, ended);
    } else if (text.decoding()) {
      Exchange(*next, decoding_++);
    }
  }
}

void Sequences::RunTexts(const OnEnded& ended) {
  tokens_.clear();
  for (size_t i = decoding_; i-- > 0;) {
    if (!places_[i]->text->NextToken()) End(i, ended);
  }
  if (decoding_ == 0) return;
  const double runs_before = model_.run_ms();
  const Stopwatch watch;
  const auto logits = Guarded([&] {
    for (size_t i = 0; i < decoding_; ++i) {
      places_[i]->writer->Reserve(1);
      tokens_.push_back(places_[i]->text->history_.back());
    }
    return model_.Step(0, tokens_);
  });
  const auto vocabulary = static_cast<size_t>(model_.vocabulary());
  more_.clear();
  for (size_t i = 0; i < decoding_; ++i) {
    more_.push_back(Guarded([&]() -> Result<bool> {
      if (!logits) return tl::unexpected(logits.error());
      return places_[i]->text->Took(logits->subspan(i * vocabulary, vocabulary));
    }));
  }
  const double ms = watch.ms(), host_ms = ms - (model_.run_ms() - runs_before);
  // From the last on: one that has ended gives its place to the last of those that have not.
  for (size_t i = decoding_; i-- > 0;) {
    places_[i]->text->AddDecode(ms, host_ms);
    if (!more_[i]) {
      Fail(i, more_[i].error(), ended);
    } else if (!*more_[i]) {
      End(i, ended);
    }
  }
}

void Sequences::Advance(const OnEnded& ended) {
  const size_t decoding = decoding_;
  const double runs_before = model_.run_ms();
  const Stopwatch watch;
  RunPrompts(ended);
  // Texts that were under way have waited for the prompts of others.
  const double ms = watch.ms(), host_ms = ms - (model_.run_ms() - runs_before);
  for (size_t i = 0; i < std::min(decoding, decoding_); ++i)
    places_[i]->text->AddDecode(ms, host_ms);
  RunTexts(ended);
}

Result<std::vector<Generated>> GenerateMany(
    CachedModel& model, const std::optional<Tokenizer>& tokenizer, std::span<const int64_t> ends,
    std::span<const Request> requests,
    const std::function<bool(size_t request, std::string_view text)>& on_text,
    const Cancelled& cancelled) {
  for (const Request& request : requests) {
    EVOQ_TRY(CheckText(model, request.prompt, request.options));
  }
  Sequences sequences(model, tokenizer, ends);
  std::vector<Generated> results(requests.size());
  for (Generated& result : results) result.ended = Ended::kCaller;
  std::vector<size_t> under_way;
  Status failed;
  const auto ended = [&](size_t request, Result<Generated> text) {
    std::erase(under_way, request);
    if (text) {
      results[request] = std::move(*text);
    } else if (failed) {
      failed = tl::unexpected(text.error());
    }
  };
  for (size_t next = 0; next < requests.size() || sequences.active() > 0;) {
    if (cancelled && cancelled()) {
      for (const size_t request : std::vector(under_way)) ended(request, sequences.Leave(request));
      break;
    }
    for (; next < requests.size() && sequences.idle() > 0; ++next) {
      OnText given;
      if (on_text) given = [&on_text, next](std::string_view text) { return on_text(next, text); };
      EVOQ_TRY(
          sequences.Begin(next, requests[next].prompt, requests[next].options, std::move(given)));
      under_way.push_back(next);
    }
    sequences.Advance(ended);
    EVOQ_TRY(failed);
  }
  EVOQ_TRY(failed);
  return results;
}

}  // namespace evoq
