#include "generate/generate.h"

#include <algorithm>
#include <array>

#include "base/stopwatch.h"
#include "generate/text_under_way.h"

namespace evoq {
namespace {

// A draft model proposes the fewer at a time, the more after a round of which all were kept: with
// the token before them they fill a chunk.
constexpr int64_t kFewDrafts = 3, kManyDrafts = 7;

Status CheckOptions(const GenerateOptions& options) {
  if (options.max_tokens < 1)
    return Fail(ErrorCode::kUsage, "{} tokens at most, expected 1 or more", options.max_tokens);
  return {};
}

Status CheckPrompt(const CachedModel& model, std::span<const int64_t> prompt) {
  if (prompt.empty()) return Fail(ErrorCode::kUsage, "a prompt of no tokens");
  EVOQ_TRY(model.CheckTokens(prompt));
  if (static_cast<int64_t>(prompt.size()) > model.context())
    return Fail(ErrorCode::kUsage,
                "the context is full: a prompt of {} tokens, expected at most {}", prompt.size(),
                model.context());
  return {};
}

int64_t CommonPrefix(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

// Of a prompt and what was chosen.
std::span<const int64_t> Recent(std::span<const int64_t> history) {
  return history.last(std::min(history.size(), kRecentTokens));
}

double PerSecond(double count, double ms) { return ms > 0 && count > 0 ? 1e3 * count / ms : 0; }

}  // namespace

const char* EndedName(Ended why) {
  constexpr std::array kNames = {"end", "stop", "length", "context", "cancelled"};
  return kNames[static_cast<size_t>(why)];
}

double Generated::prompt_tokens_per_s() const {
  return PerSecond(static_cast<double>(prompt_tokens), prompt_ms);
}

double Generated::tokens_per_s() const {
  return PerSecond(static_cast<double>(tokens.size()) - 1, decode_ms);
}

Status CheckDraft(const CachedModel& model, const CachedModel& draft) {
  if (draft.vocabulary() != model.vocabulary())
    return Fail(ErrorCode::kUsage, "the draft model knows {} tokens, the model {}",
                draft.vocabulary(), model.vocabulary());
  return {};
}

Status PrepareDraft(CachedModel& model, CachedModel& draft, int64_t prompt_tokens) {
  for (const int64_t drafts : {kFewDrafts, kManyDrafts}) {
    if (1 + drafts <= model.context()) EVOQ_TRY(model.PrepareChecks(1 + drafts));
  }
  // The draft model first sees the prompt and the first token, later one or two tokens.
  EVOQ_TRY(draft.Prepare(prompt_tokens + 1, 1));
  return draft.Prepare(2, 1);
}

class Writing::Run {
 public:
  Run(Writer& writer, Sampler sampler, const GenerateOptions& options, OnText on_text,
      std::span<const int64_t> prompt)
      : w_(writer),
        change_(writer.changes_),
        sampler_(std::move(sampler)),
        options_(options),
        progress_(writer.tokenizer_, prompt, writer.ends_, options_, std::move(on_text)),
        prompt_(prompt.size()),
        history_(prompt.begin(), prompt.end()) {
    progress_.out().prompt_tokens = static_cast<int64_t>(prompt_ - w_.tokens_.size());
  }

  Result<bool> Advance();
  Result<Generated> Finish();

 private:
  // Chooses the next token behind history_ and takes it. False: the text has ended.
  Result<bool> Choose(std::span<const float> logits);
  Result<bool> Prompt();
  Result<bool> OneToken();
  Result<bool> WithDrafts();
  Result<std::vector<int64_t>> Drafts(int64_t count);

  Writer& w_;
  uint64_t change_;
  Sampler sampler_;
  GenerateOptions options_;
  TextUnderWay progress_;
  size_t prompt_;                 // its tokens
  std::vector<int64_t> history_;  // the prompt and what was chosen
  bool decoding_ = false;
  int64_t drafts_ = kFewDrafts;  // of the next round
};

Result<bool> Writing::Run::Advance() {
  if (change_ != w_.changes_)
    return Fail(ErrorCode::kUsage, "the text was given up: its model has begun something else");
  if (progress_.ended()) return false;
  const bool decoding = decoding_;
  const double runs_before = w_.run_ms();
  const Stopwatch watch;
  EVOQ_ASSIGN(const bool more, !decoding              ? Prompt()
                               : w_.draft_ != nullptr ? WithDrafts()
                                                      : OneToken());
  const double ms = watch.ms();
  (decoding ? progress_.out().decode_ms : progress_.out().prompt_ms) += ms;
  if (decoding) progress_.out().host_ms += ms - (w_.run_ms() - runs_before);
  return more;
}

Result<Generated> Writing::Run::Finish() {
  if (!progress_.ended()) progress_.End(Ended::kCaller);
  return progress_.Finish();
}

Result<bool> Writing::Run::Choose(std::span<const float> logits) {
  EVOQ_ASSIGN(const int64_t token, sampler_.Next(logits, Recent(history_)));
  EVOQ_ASSIGN(const bool more, progress_.Take(token));
  history_.push_back(token);
  return more;
}

Result<bool> Writing::Run::Prompt() {
  const size_t at = w_.tokens_.size();
  const size_t count = std::min<size_t>(prompt_ - at, CachedModel::kMaxChunk);
  EVOQ_ASSIGN(const std::span<const float> logits,
              w_.Append(std::span(history_).subspan(at, count), 1));
  if (at + count < prompt_) return true;
  decoding_ = true;
  return Choose(logits);
}

Result<bool> Writing::Run::OneToken() {
  if (w_.model_.length(w_.slot_) >= w_.model_.context()) {
    progress_.End(Ended::kContext);
    return false;
  }
  EVOQ_ASSIGN(const std::span<const float> logits, w_.Append(std::span(&history_.back(), 1), 1));
  return Choose(logits);
}

// The draft model's greedy choices behind history_, as many as asked for or as its context holds.
Result<std::vector<int64_t>> Writing::Run::Drafts(int64_t count) {
  CachedModel& draft = *w_.draft_;
  std::vector<int64_t>& cached = w_.draft_tokens_;
  std::vector<int64_t> drafts;
  const auto all = static_cast<int64_t>(history_.size());
  if (all + count > draft.context()) return drafts;
  const int64_t known = std::min(CommonPrefix(cached, history_), all - 1);
  draft.Truncate(w_.slot_, known);
  cached.resize(static_cast<size_t>(known));
  std::vector<int64_t> next(history_.begin() + known, history_.end());
  while (static_cast<int64_t>(drafts.size()) < count) {
    EVOQ_ASSIGN(const std::span<const float> logits, draft.Append(w_.slot_, next));
    cached.insert(cached.end(), next.begin(), next.end());
    next.assign(1, std::ranges::max_element(logits) - logits.begin());
    drafts.push_back(next[0]);
  }
  return drafts;
}

Result<bool> Writing::Run::WithDrafts() {
  CachedModel& model = w_.model_;
  const auto vocabulary = static_cast<size_t>(model.vocabulary());
  const int64_t room = model.context() - model.length(w_.slot_);
  if (room < 1) {
    progress_.End(Ended::kContext);
    return false;
  }
  EVOQ_ASSIGN(std::vector<int64_t> tokens, Drafts(std::min(drafts_, room - 1)));
  const size_t drafted = tokens.size();
  tokens.insert(tokens.begin(), history_.back());
  const auto before = static_cast<int64_t>(w_.tokens_.size());
  EVOQ_ASSIGN(const std::span<const float> logits,
              w_.Append(tokens, static_cast<int64_t>(tokens.size())));
  // The model's own choice at each place; as long as it is the draft's, what follows holds.
  size_t kept = 0;
  bool more = true, agreed = true;
  for (size_t i = 0; more && agreed; ++i) {
    EVOQ_ASSIGN(more, Choose(logits.subspan(i * vocabulary, vocabulary)));
    agreed = i < drafted && history_.back() == tokens[i + 1];
    kept += agreed;
  }
  progress_.out().drafted += static_cast<int64_t>(drafted);
  progress_.out().accepted += static_cast<int64_t>(kept);
  const int64_t length = before + 1 + static_cast<int64_t>(kept);
  model.Truncate(w_.slot_, length);
  w_.tokens_.resize(static_cast<size_t>(length));
  drafts_ = drafted > 0 && kept == drafted ? kManyDrafts : kFewDrafts;
  return more;
}

Writing::Writing(std::unique_ptr<Run> run) : run_(std::move(run)) {}
Writing::Writing(Writing&&) noexcept = default;
Writing& Writing::operator=(Writing&&) noexcept = default;
Writing::~Writing() = default;

Result<bool> Writing::Advance() { return run_->Advance(); }
Result<Generated> Writing::Finish() { return run_->Finish(); }

void Writer::Keep(std::span<const int64_t> tokens, int64_t rerun) {
  ++changes_;
  const int64_t known =
      std::min(CommonPrefix(tokens_, tokens), static_cast<int64_t>(tokens.size()) - rerun);
  model_.Truncate(slot_, known);
  tokens_.resize(static_cast<size_t>(known));
}

Result<std::span<const float>> Writer::Append(std::span<const int64_t> tokens, int64_t wanted) {
  // Nothing may fail once the model has run.
  if (const size_t all = tokens_.size() + tokens.size(); all > tokens_.capacity())
    tokens_.reserve(std::max(all, 2 * tokens_.capacity()));
  EVOQ_ASSIGN(const std::span<const float> logits, model_.Append(slot_, tokens, wanted));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return logits;
}

void Writer::Forget() { Keep({}, 0); }

Result<std::span<const float>> Writer::Logits(std::span<const int64_t> tokens, int64_t wanted) {
  EVOQ_TRY(CheckPrompt(model_, tokens));
  if (wanted < 1 || wanted > static_cast<int64_t>(tokens.size()))
    return Fail(ErrorCode::kUsage, "the logits of {} tokens, expected of 1 to {}", wanted,
                tokens.size());
  Keep(tokens, wanted);
  return Append(tokens.subspan(tokens_.size()), wanted);
}

Result<Writing> Writer::Begin(std::span<const int64_t> prompt, const GenerateOptions& options,
                              OnText on_text) {
  EVOQ_TRY(CheckOptions(options));
  EVOQ_TRY(CheckPrompt(model_, prompt));
  if (draft_ != nullptr && options.sampling.temperature > 0)
    return Fail(ErrorCode::kUsage, "a draft model needs greedy choices: temperature 0");
  if (draft_ != nullptr) EVOQ_TRY(CheckDraft(model_, *draft_));
  EVOQ_ASSIGN(Sampler sampler, Sampler::Make(options.sampling));
  Keep(prompt, 1);  // logits are those of a token that is run
  return Writing(std::make_unique<Writing::Run>(*this, std::move(sampler), options,
                                                std::move(on_text), prompt));
}

Result<Generated> Writer::Write(std::span<const int64_t> prompt, const GenerateOptions& options,
                                const OnText& on_text, const Cancelled& cancelled) {
  EVOQ_ASSIGN(Writing writing, Begin(prompt, options, on_text));
  for (bool more = true; more && !(cancelled && cancelled());) {
    EVOQ_ASSIGN(more, writing.Advance());
  }
  return writing.Finish();
}

namespace {

// A request in a slot.
struct Active {
  size_t request;
  Sampler sampler;
  TextUnderWay progress;
  std::vector<int64_t> history;
  Stopwatch decode;
  double runs_before;  // CachedModel::run_ms when decoding began

  Result<bool> Choose(std::span<const float> logits) {
    EVOQ_ASSIGN(const int64_t token, sampler.Next(logits, Recent(history)));
    EVOQ_ASSIGN(const bool more, progress.Take(token));
    history.push_back(token);
    return more;
  }
};

}  // namespace

Result<std::vector<Generated>> GenerateMany(
    CachedModel& model, const std::optional<Tokenizer>& tokenizer, std::span<const int64_t> ends,
    std::span<const Request> requests,
    const std::function<bool(size_t request, std::string_view text)>& on_text,
    const Cancelled& cancelled) {
  for (const Request& request : requests) {
    EVOQ_TRY(CheckOptions(request.options));
    EVOQ_TRY(CheckPrompt(model, request.prompt));
  }
  std::vector<Generated> results(requests.size());
  std::vector<std::unique_ptr<Active>> active;  // by slot
  const auto end = [&](Active& one) -> Status {
    Generated& out = one.progress.out();
    out.decode_ms = one.decode.ms();
    out.host_ms = out.decode_ms - (model.run_ms() - one.runs_before);
    EVOQ_ASSIGN(results[one.request], one.progress.Finish());
    return {};
  };
  for (size_t next = 0; next < requests.size() || !active.empty();) {
    if (cancelled && cancelled()) {
      for (const auto& one : active) {
        one->progress.End(Ended::kCaller);
        EVOQ_TRY(end(*one));
      }
      for (; next < requests.size(); ++next) results[next].ended = Ended::kCaller;
      break;
    }
    // Free slots take the next requests.
    while (next < requests.size() && static_cast<int64_t>(active.size()) < model.slots()) {
      const Request& request = requests[next];
      const auto slot = static_cast<int64_t>(active.size());
      OnText given;
      if (on_text) given = [&on_text, next](std::string_view text) { return on_text(next, text); };
      EVOQ_ASSIGN(Sampler sampler, Sampler::Make(request.options.sampling));
      auto one = std::make_unique<Active>(
          Active{next, std::move(sampler),
                 TextUnderWay(tokenizer, request.prompt, ends, request.options, std::move(given)),
                 request.prompt, Stopwatch(), 0});
      ++next;
      model.Truncate(slot, 0);
      EVOQ_ASSIGN(const std::span<const float> logits, model.Append(slot, request.prompt));
      EVOQ_ASSIGN(const bool more, one->Choose(logits));
      one->progress.out().prompt_tokens = static_cast<int64_t>(request.prompt.size());
      one->progress.out().prompt_ms = one->decode.ms();
      one->decode = Stopwatch();
      one->runs_before = model.run_ms();
      if (more) {
        active.push_back(std::move(one));
      } else {
        EVOQ_TRY(end(*one));
      }
    }
    if (active.empty()) continue;
    std::vector<int64_t> tokens;
    for (size_t slot = 0; slot < active.size(); ++slot) {
      if (model.length(static_cast<int64_t>(slot)) >= model.context())
        active[slot]->progress.End(Ended::kContext);
    }
    const auto retire = [&]() -> Status {
      for (size_t slot = active.size(); slot-- > 0;) {
        if (!active[slot]->progress.ended()) continue;
        EVOQ_TRY(end(*active[slot]));
        const auto last = static_cast<int64_t>(active.size()) - 1;
        if (static_cast<int64_t>(slot) != last) {
          EVOQ_TRY(model.Give(static_cast<int64_t>(slot), model.Take(last)));
          std::swap(active[slot], active.back());
        }
        active.pop_back();
        model.Truncate(last, 0);
      }
      return {};
    };
    EVOQ_TRY(retire());
    if (active.empty()) continue;
    for (const auto& one : active) tokens.push_back(one->history.back());
    EVOQ_ASSIGN(const std::span<const float> logits, model.Step(0, tokens));
    const auto vocabulary = static_cast<size_t>(model.vocabulary());
    for (size_t slot = 0; slot < active.size(); ++slot)
      EVOQ_TRY(active[slot]->Choose(logits.subspan(slot * vocabulary, vocabulary)));
    EVOQ_TRY(retire());
  }
  return results;
}

}  // namespace evoq
