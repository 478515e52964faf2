#include "generate/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/stopwatch.h"
#include "generate/beams.h"
#include "generate/text_rules.h"
#include "generate/writing_run.h"

namespace evoq {
namespace {

// A draft model proposes the fewer at a time, the more after a round of which all were kept: with
// the token before them they fill a chunk.
constexpr int64_t kFewDrafts = 3, kManyDrafts = 7;

// Of a prompt, in a run: where it is scored, each has a row of logits.
constexpr size_t kMaxPiece = CachedModel::kMaxChunk, kScoredPiece = 64;

Status CheckOptions(const GenerateOptions& options) {
  const int64_t least = options.score_prompt ? 0 : 1;
  if (options.max_tokens < least)
    return Fail(ErrorCode::kUsage, "{} tokens at most, expected {} or more", options.max_tokens,
                least);
  if (options.likeliest < 0 || options.likeliest > kMostLikeliest)
    return Fail(ErrorCode::kUsage, "the {} likeliest tokens, expected 0 to {}", options.likeliest,
                kMostLikeliest);
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

// Tokens of the source as the model counts them: two frames of a sound are one.
int64_t TokensOf(const Source& source) {
  return source.sound != nullptr ? source.sound->sizes()[0] / 2 : std::ssize(source.tokens);
}

double PerSecond(double count, double ms) { return ms > 0 && count > 0 ? 1e3 * count / ms : 0; }

}  // namespace

Status CheckText(const CachedModel& model, std::span<const int64_t> prompt,
                 const GenerateOptions& options) {
  EVOQ_TRY(CheckOptions(options));
  if (!model.reads()) {
    if (options.sound != nullptr)
      return Fail(ErrorCode::kUsage, "a sound: the model hears nothing");
    if (!options.begin.empty())
      return Fail(ErrorCode::kUsage, "a language of the text: the model goes on in its prompt's");
    return CheckPrompt(model, prompt);
  }
  EVOQ_TRY(model.CheckSource(SourceOf(prompt, options)));
  if (options.score_prompt)
    return Fail(ErrorCode::kUsage, "the model reads its prompt, and says nothing of its tokens");
  if (!options.begin.empty()) EVOQ_TRY(model.CheckTokens(options.begin));
  return CheckPrompt(model, BeforeText(model, prompt, options));
}

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
  if (model.reads() || draft.reads())
    return Fail(ErrorCode::kUsage, "no model that reads one text and writes another takes a draft");
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

Result<ScoredToken> ScoreToken(std::span<const float> logits, int64_t token, int64_t likeliest) {
  float largest = -INFINITY;
  for (const float logit : logits) {
    if (std::isnan(logit) || logit == INFINITY)
      return InvalidInput("a logit is {}, expected a number", logit);
    largest = std::max(largest, logit);
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double all = largest + std::log(sum);
  const auto logprob = [&](int64_t id) { return logits[static_cast<size_t>(id)] - all; };
  ScoredToken scored{token, logprob(token), {}};
  if (likeliest == 0) return scored;
  std::vector<int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = ids.begin() + std::min<int64_t>(likeliest, std::ssize(ids));
  std::partial_sort(ids.begin(), kept, ids.end(), [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (auto id = ids.begin(); id != kept; ++id) scored.likeliest.push_back({*id, logprob(*id)});
  return scored;
}

Writing::Run::Run(Writer& writer, Sampler sampler, const GenerateOptions& options, OnText on_text,
                  OnToken on_token, std::span<const int64_t> prompt)
    : w_(writer),
      change_(writer.changes_),
      sampler_(std::move(sampler)),
      options_(options),
      progress_(writer.tokenizer_, BeforeText(writer.model_, prompt, options_), writer.ends_,
                options_, std::move(on_text)),
      on_token_(std::move(on_token)),
      rules_(writer.model_, options_, progress_.ends()),
      drafts_(kFewDrafts) {
  history_ = BeforeText(writer.model_, prompt, options_);
  prompt_ = history_.size();
  if (writer.model_.reads() && writer.source_.empty()) source_ = SourceOf(prompt, options_);
}

Result<bool> Writing::Run::Advance() {
  if (change_ != w_.changes_)
    return Fail(ErrorCode::kUsage, "the text was given up: its model has begun something else");
  if (progress_.ended()) return false;
  if (!decoding_) return Prompt();
  const double runs_before = w_.run_ms();
  const Stopwatch watch;
  EVOQ_ASSIGN(const bool more, w_.draft_ != nullptr ? WithDrafts() : OneToken());
  AddDecode(watch.ms(), watch.ms() - (w_.run_ms() - runs_before));
  return more;
}

void Writing::Run::AddDecode(double ms, double host_ms) {
  progress_.out().decode_ms += ms;
  progress_.out().host_ms += host_ms;
}

Result<Generated> Writing::Run::Finish() {
  if (!progress_.ended()) progress_.End(Ended::kCaller);
  return progress_.Finish();
}

Result<int64_t> Writing::Run::Sample(std::span<const float> logits) {
  const std::span<const int64_t> all(history_), written = all.subspan(prompt_);
  banned_.clear();
  rules_.Ban(all, std::ssize(written), banned_);
  PiecesBefore before{.recent = Recent(all), .written = written, .banned = banned_};
  if (matcher_) before.allowed = allowed_;
  return sampler_.Next(logits, before);
}

Result<bool> Writing::Run::Choose(std::span<const float> logits) {
  const std::optional<int64_t> forced =
      rules_.Forced(static_cast<int64_t>(history_.size() - prompt_));
  if (matcher_ && !forced) {
    EVOQ_ASSIGN(const bool some, Allow());
    if (!some) {
      progress_.End(Ended::kEndToken);
      return false;
    }
  }
  EVOQ_ASSIGN(const int64_t token, forced ? Result<int64_t>(*forced) : Sample(logits));
  if (on_token_ && !progress_.EndsWith(token)) {
    EVOQ_ASSIGN(ScoredToken scored, ScoreToken(logits, token, options_.likeliest));
    on_token_(std::move(scored));
  }
  if (matcher_ && !forced && !progress_.EndsWith(token)) EVOQ_TRY(matcher_->Take(token));
  EVOQ_ASSIGN(bool more, progress_.Take(token));
  history_.push_back(token);
  if (more && matcher_ && matcher_->ended()) {
    progress_.End(Ended::kEndToken);
    more = false;
  }
  return more;
}

Result<bool> Writing::Run::Allow() {
  constexpr int64_t kBits = 64;
  EVOQ_ASSIGN(const std::span<const uint64_t> mask, matcher_->Allowed());
  allowed_.assign(mask.begin(), mask.end());
  const int64_t vocabulary = w_.model_.vocabulary();
  allowed_.resize(static_cast<size_t>((vocabulary + kBits - 1) / kBits));
  for (const int64_t end : progress_.ends()) {
    if (end < 0 || end >= vocabulary) continue;
    const uint64_t bit = uint64_t{1} << (end % kBits);
    uint64_t& bits = allowed_[static_cast<size_t>(end / kBits)];
    bits = matcher_->whole() ? bits | bit : bits & ~bit;
  }
  return std::ranges::any_of(allowed_, [](uint64_t bits) { return bits != 0; });
}

size_t Writing::Run::piece() const {
  if (source_.sound != nullptr) return kMaxPiece;
  if (!source_.empty()) return std::min(source_.tokens.size(), kMaxPiece);
  return std::min(prompt_ - w_.tokens_.size(), options_.score_prompt ? kScoredPiece : kMaxPiece);
}

Result<bool> Writing::Run::Prompt() {
  const Stopwatch watch;
  const auto more = RunPrompt();
  progress_.out().prompt_ms += watch.ms();
  return more;
}

Status Writing::Run::TellPrompt(size_t first, std::span<const float> logits) {
  if (!on_token_) return {};
  const auto vocabulary = static_cast<size_t>(w_.model_.vocabulary());
  for (size_t at = 0; at < logits.size() && first < prompt_; at += vocabulary, ++first) {
    EVOQ_ASSIGN(ScoredToken scored,
                ScoreToken(logits.subspan(at, vocabulary), history_[first], options_.likeliest));
    on_token_(std::move(scored));
  }
  return {};
}

Result<bool> Writing::Run::RunPrompt() {
  if (!source_.empty()) {
    EVOQ_TRY(w_.model_.Encode(w_.slot_, source_));
    progress_.out().prompt_tokens += TokensOf(source_);
    w_.source_ = std::exchange(source_, Source());
  }
  const size_t at = w_.tokens_.size(), count = piece();
  const size_t wanted = options_.score_prompt ? count : 1;
  EVOQ_ASSIGN(const std::span<const float> logits,
              w_.Append(std::span(history_).subspan(at, count), static_cast<int64_t>(wanted)));
  if (!w_.model_.reads()) progress_.out().prompt_tokens += static_cast<int64_t>(count);
  if (options_.score_prompt) {
    if (at == 0 && on_token_) on_token_({history_[0], std::nullopt, {}});
    EVOQ_TRY(TellPrompt(at + 1, logits));
  }
  if (at + count < prompt_) return true;
  decoding_ = true;
  if (options_.max_tokens > 0) return Choose(logits.last(w_.model_.vocabulary()));
  progress_.End(Ended::kMaxTokens);
  return false;
}

std::optional<int64_t> Writing::Run::NextToken() {
  if (w_.model_.length(w_.slot_) < w_.model_.context()) return history_.back();
  progress_.End(Ended::kContext);
  return std::nullopt;
}

Result<bool> Writing::Run::Took(std::span<const float> logits) {
  w_.tokens_.push_back(history_.back());
  return Choose(logits);
}

Result<bool> Writing::Run::OneToken() {
  const std::optional<int64_t> token = NextToken();
  if (!token) return false;
  EVOQ_ASSIGN(const std::span<const float> logits, w_.Append(std::span(&*token, 1), 1));
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
Writing::Writing(std::unique_ptr<BeamText> beams) : beams_(std::move(beams)) {}
Writing::Writing(Writing&&) noexcept = default;
Writing& Writing::operator=(Writing&&) noexcept = default;
Writing::~Writing() = default;

Result<bool> Writing::Advance() { return beams_ ? beams_->Advance() : run_->Advance(); }
Result<Generated> Writing::Finish() { return beams_ ? beams_->Finish() : run_->Finish(); }

void Writer::Keep(std::span<const int64_t> tokens, int64_t rerun) {
  ++changes_;
  const int64_t known =
      std::min(CommonPrefix(tokens_, tokens), static_cast<int64_t>(tokens.size()) - rerun);
  model_.Truncate(slot_, known);
  tokens_.resize(static_cast<size_t>(known));
}

void Writer::Reserve(size_t more) {
  if (const size_t all = tokens_.size() + more; all > tokens_.capacity())
    tokens_.reserve(std::max(all, 2 * tokens_.capacity()));
}

Result<std::span<const float>> Writer::Append(std::span<const int64_t> tokens, int64_t wanted) {
  Reserve(tokens.size());  // nothing may fail once the model has run
  EVOQ_ASSIGN(const std::span<const float> logits, model_.Append(slot_, tokens, wanted));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return logits;
}

void Writer::Forget() {
  Keep({}, 0);
  source_ = Source();
}

Result<std::span<const float>> Writer::Beginning(const Source& source) {
  Forget();
  EVOQ_TRY(model_.Encode(slot_, source));
  source_ = source;
  return Append(model_.target().start, 1);
}

Result<std::span<const float>> Writer::Logits(std::span<const int64_t> tokens, int64_t wanted) {
  if (model_.reads())
    return Fail(ErrorCode::kUsage, "the model reads its prompt, and says nothing of its tokens");
  EVOQ_TRY(CheckPrompt(model_, tokens));
  if (wanted < 1 || wanted > static_cast<int64_t>(tokens.size()))
    return Fail(ErrorCode::kUsage, "the logits of {} tokens, expected of 1 to {}", wanted,
                tokens.size());
  Keep(tokens, wanted);
  return Append(tokens.subspan(tokens_.size()), wanted);
}

Result<std::unique_ptr<Writing::Run>> Writer::NewRun(std::span<const int64_t> prompt,
                                                     const GenerateOptions& options, OnText on_text,
                                                     OnToken on_token) {
  EVOQ_TRY(CheckText(model_, prompt, options));
  if (draft_ != nullptr && options.sampling.temperature > 0)
    return Fail(ErrorCode::kUsage, "a draft model needs greedy choices: temperature 0");
  if (draft_ != nullptr) EVOQ_TRY(CheckDraft(model_, *draft_));
  if (options.beams != 1)
    return Fail(ErrorCode::kUsage, "{} beams of one of several texts, expected 1", options.beams);
  EVOQ_ASSIGN(Sampler sampler, Sampler::Make(options.sampling));
  std::optional<GrammarMatcher> matcher;
  if (options.grammar != nullptr) {
    if (!tokenizer_) return Fail(ErrorCode::kUsage, "a grammar needs the model's tokenizer");
    EVOQ_ASSIGN(auto tree, tokenizer_->Tree());
    matcher.emplace(options.grammar, std::move(tree));
  }
  if (model_.reads() && source_ != SourceOf(prompt, options)) source_ = Source();
  const std::vector<int64_t> before = BeforeText(model_, prompt, options);
  // Logits are those of a token that is run; another source has none of what is held.
  const bool anew = options.score_prompt || (model_.reads() && source_.empty());
  Keep(before, anew ? std::ssize(before) : 1);
  auto run = std::make_unique<Writing::Run>(*this, std::move(sampler), options, std::move(on_text),
                                            std::move(on_token), prompt);
  if (matcher) run->Follow(std::move(*matcher));
  return run;
}

Result<Writing> Writer::Begin(std::span<const int64_t> prompt, const GenerateOptions& options,
                              OnText on_text, OnToken on_token) {
  if (options.beams > 1 && on_token == nullptr) {
    EVOQ_ASSIGN(auto beams, BeamText::Make(*this, prompt, options, std::move(on_text)));
    return Writing(std::move(beams));
  }
  EVOQ_ASSIGN(auto run, NewRun(prompt, options, std::move(on_text), std::move(on_token)));
  return Writing(std::move(run));
}

Result<Generated> Writer::Write(std::span<const int64_t> prompt, const GenerateOptions& options,
                                const OnText& on_text, const Cancelled& cancelled) {
  EVOQ_ASSIGN(Writing writing, Begin(prompt, options, on_text));
  for (bool more = true; more && !(cancelled && cancelled());) {
    EVOQ_ASSIGN(more, writing.Advance());
  }
  return writing.Finish();
}

}  // namespace evoq
