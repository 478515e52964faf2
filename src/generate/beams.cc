#include "generate/beams.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/stopwatch.h"
#include "generate/text_under_way.h"
#include "generate/writing_run.h"

namespace evoq {
namespace {

constexpr float kNever = -1e9f;  // what transformers has for a text that cannot be

struct Text {
  std::vector<int64_t> tokens;  // without what stands before them
  float score = kNever;
  bool whole = false;
};

// A beam and the token behind it.
struct Step {
  float score = kNever;
  int64_t beam = 0, token = 0;
  bool operator<(const Step& other) const {  // comes earlier
    if (score != other.score) return score > other.score;
    return beam != other.beam ? beam < other.beam : token < other.token;
  }
};

Status CheckBeams(const CachedModel& model, const GenerateOptions& o) {
  if (o.beams < 1 || o.beams > model.slots())
    return Fail(ErrorCode::kUsage, "{} beams, expected 1 to the {} sequences that the model holds",
                o.beams, model.slots());
  const auto refuse = [](const char* what) {
    return Fail(ErrorCode::kUsage, "beams take the likeliest texts: they take no {}", what);
  };
  const SamplingOptions& s = o.sampling;
  if (s.temperature != 0) return refuse("temperature");
  if (s.repeat_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0)
    return refuse("penalty of tokens that a text has");
  if (!s.logit_bias.empty()) return refuse("bias of tokens");
  if (o.grammar != nullptr) return refuse("grammar and no JSON schema");
  if (o.score_prompt || o.likeliest != 0) return refuse("scores of single tokens");
  constexpr double kMost = 100;
  if (o.length_penalty && !(std::abs(*o.length_penalty) <= kMost))
    return Fail(ErrorCode::kUsage, "a length penalty of {}, expected -{} to {}", *o.length_penalty,
                kMost, kMost);
  return {};
}

// e^x of x from -87 to 0, within 2e-7 of itself: 2^k e^r with k a whole number and a polynomial of
// r, in a form that a compiler makes vectors of (Cephes, expf).
inline float Exponential(float x) {
  constexpr float kRound = 0x1.8p23f, kLog2E = 1.44269504f, kHigh = 0.693359375f,
                  kLow = -2.12194440e-4f;
  const float moved = x * kLog2E + kRound, k = moved - kRound;
  const float r = x - k * kHigh - k * kLow;
  float y = 1.9875691500e-4f;
  for (const float c :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    y = y * r + c;
  y = y * r * r + r + 1;
  constexpr int kMantissa = 23;
  const uint32_t power =
      (std::bit_cast<uint32_t>(moved) << kMantissa) + std::bit_cast<uint32_t>(1.0f);
  return y * std::bit_cast<float>(power);
}

// NaN counts for nothing.
float LargestOf(std::span<const float> numbers) {
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(-INFINITY);
  size_t i = 0;
  for (; i + kLanes <= numbers.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = numbers[i + lane] > lanes[lane] ? numbers[i + lane] : lanes[lane];
  }
  for (; i < numbers.size(); ++i) lanes[0] = std::max(lanes[0], numbers[i]);
  return *std::ranges::max_element(lanes);
}

// The sum of e^(logit - largest).
double SumOfExponentials(std::span<const float> logits, float largest) {
  constexpr size_t kLanes = 16, kBlock = 1024;
  constexpr float kLeast = -87;
  double sum = 0;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<const float> block =
        logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    std::array<float, kLanes> lanes{};
    size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane)
        lanes[lane] += Exponential(std::max(block[i + lane] - largest, kLeast));
    }
    for (; i < block.size(); ++i) lanes[0] += Exponential(std::max(block[i] - largest, kLeast));
    for (const float lane : lanes) sum += lane;
  }
  return sum;
}

class Search {
 public:
  Search(CachedModel& model, std::span<const int64_t> before, const GenerateOptions& options,
         std::vector<int64_t> ends)
      : model_(model),
        before_(before),
        ends_(std::move(ends)),
        rules_(model, options, ends_),
        beams_(static_cast<size_t>(options.beams)),
        most_(std::min(options.max_tokens, model.context() - std::ssize(before))),
        penalty_(
            static_cast<float>(options.length_penalty.value_or(model.target().length_penalty))),
        early_(model.target().early_stopping) {
    running_.resize(beams_);
    running_[0].score = 0;
    whole_.resize(beams_);
  }

  bool in_room(int64_t max_tokens) const { return most_ == max_tokens; }

  // The next token of all beams by logits [beams, vocabulary], of the first time [vocabulary].
  // False: the search has ended; else the model's slots and tokens() are to be run.
  Result<bool> Take(std::span<const float> logits);
  std::vector<int64_t> tokens() const {
    std::vector<int64_t> last;
    for (const Text& text : running_) last.push_back(text.tokens.back());
    return last;
  }
  const std::vector<int64_t>& parents() const { return parents_; }
  // The best so far.
  const Text& best() const { return whole_[0].whole ? whole_[0] : running_[0]; }

 private:
  // Logarithms of probabilities of what may follow a beam, in scores_.
  Status Score(const Text& text, std::span<const float> logits);
  bool Ends(int64_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }
  // Takes the tokens [begin, end) behind a beam by scores_ into the `wanted` likeliest.
  void LookAt(int64_t beam, size_t begin, size_t end, size_t wanted);
  // The likeliest continuations.
  Status Look(std::span<const float> logits);
  void Finish(const std::vector<bool>& whole, int64_t length);
  void GoOn(const std::vector<bool>& whole);

  CachedModel& model_;
  std::span<const int64_t> before_;
  std::vector<int64_t> ends_;
  TextRules rules_;
  size_t beams_;
  int64_t most_;
  float penalty_;
  bool early_;
  std::vector<Text> running_, whole_;  // best first
  bool improves_ = true;
  std::vector<Step> steps_;
  std::vector<float> scores_;
  std::vector<int64_t> parents_, history_, banned_;
};

Status Search::Score(const Text& text, std::span<const float> logits) {
  const auto written = std::ssize(text.tokens);
  scores_.assign(logits.size(), -INFINITY);
  if (const auto forced = rules_.Forced(written)) {
    scores_[static_cast<size_t>(*forced)] = 0;
    return {};
  }
  const float largest = LargestOf(logits);
  const double sum = SumOfExponentials(logits, largest);
  if (!std::isfinite(largest) || !std::isfinite(sum))
    return InvalidInput("a logit that is no number");
  const auto log_sum = static_cast<float>(std::log(sum));
  for (size_t i = 0; i < logits.size(); ++i) scores_[i] = logits[i] - largest - log_sum;
  history_.assign(before_.begin(), before_.end());
  history_.insert(history_.end(), text.tokens.begin(), text.tokens.end());
  banned_.clear();
  rules_.Ban(history_, written, banned_);
  for (const int64_t id : banned_) {
    if (id >= 0 && id < std::ssize(scores_)) scores_[static_cast<size_t>(id)] = -INFINITY;
  }
  return {};
}

void Search::LookAt(int64_t beam, size_t begin, size_t end, size_t wanted) {
  const float before = running_[static_cast<size_t>(beam)].score;
  if (steps_.size() == wanted) {
    const float best = LargestOf(std::span(scores_).subspan(begin, end - begin)) + before;
    if (best < steps_.front().score) return;
  }
  for (size_t id = begin; id < end; ++id) {
    const Step step{scores_[id] + before, beam, static_cast<int64_t>(id)};
    if (steps_.size() < wanted) {
      steps_.push_back(step);
    } else if (step < steps_.front()) {
      std::pop_heap(steps_.begin(), steps_.end());
      steps_.back() = step;
    } else {
      continue;
    }
    std::push_heap(steps_.begin(), steps_.end());
  }
}

Status Search::Look(std::span<const float> logits) {
  constexpr size_t kTogether = 64;
  const auto vocabulary = static_cast<size_t>(model_.vocabulary());
  const size_t wanted = std::max<size_t>(2, ends_.size() + 1) * beams_;
  steps_.clear();  // a heap, the worst on top
  for (size_t beam = 0; beam * vocabulary < logits.size(); ++beam) {
    EVOQ_TRY(Score(running_[beam], logits.subspan(beam * vocabulary, vocabulary)));
    for (size_t first = 0; first < vocabulary; first += kTogether)
      LookAt(static_cast<int64_t>(beam), first, std::min(first + kTogether, vocabulary), wanted);
  }
  std::sort(steps_.begin(), steps_.end());
  // Fewer than beams where the vocabulary is small: what cannot be fills up.
  while (steps_.size() < beams_) steps_.push_back({-INFINITY, 0, 0});
  return {};
}

void Search::Finish(const std::vector<bool>& whole, int64_t length) {
  const bool full = std::ranges::all_of(whole_, [](const Text& text) { return text.whole; });
  if (!improves_ || (full && early_)) return;
  const float divisor = std::pow(static_cast<float>(length), penalty_);
  for (size_t i = 0; i < beams_; ++i) {
    if (!whole[i] || steps_[i].score == -INFINITY) continue;
    Text text{running_[static_cast<size_t>(steps_[i].beam)].tokens, steps_[i].score / divisor,
              true};
    text.tokens.push_back(steps_[i].token);
    const auto at =
        std::ranges::find_if(whole_, [&](const Text& t) { return t.score < text.score; });
    whole_.insert(at, std::move(text));
  }
  whole_.resize(beams_);
}

void Search::GoOn(const std::vector<bool>& whole) {
  std::vector<Step> going;
  for (size_t i = 0; i < steps_.size(); ++i) {
    going.push_back(steps_[i]);
    if (whole[i]) going.back().score += kNever;
  }
  std::sort(going.begin(), going.end());
  std::vector<Text> next;
  parents_.clear();
  for (size_t i = 0; i < beams_; ++i) {
    const Step& step = going[i];
    next.push_back({running_[static_cast<size_t>(step.beam)].tokens, step.score});
    next.back().tokens.push_back(step.token);
    parents_.push_back(step.beam);
  }
  running_ = std::move(next);
}

Result<bool> Search::Take(std::span<const float> logits) {
  const int64_t length = std::ssize(running_[0].tokens) + 1;
  EVOQ_TRY(Look(logits));
  std::vector<bool> whole;
  for (const Step& step : steps_) whole.push_back(length >= most_ || Ends(step.token));
  Finish(whole, length);
  GoOn(whole);
  const float possible = running_[0].score / std::pow(static_cast<float>(length), penalty_);
  const bool full = std::ranges::all_of(whole_, [](const Text& text) { return text.whole; });
  improves_ = improves_ && possible > (full ? whole_.back().score : kNever);
  return improves_ && !(full && early_) && !std::ranges::all_of(whole, [](bool w) { return w; });
}

}  // namespace

struct BeamText::State {
  State(Writer& writer, std::span<const int64_t> text, const GenerateOptions& asked, OnText on_text)
      : w(writer),
        change(writer.changes_),
        options(asked),
        prompt(text.begin(), text.end()),
        before(BeforeText(writer.model_, prompt, options)),
        progress(writer.tokenizer_, before, writer.ends_, options, std::move(on_text)),
        search(writer.model_, before, options, progress.ends()) {}

  Writer& w;
  uint64_t change;
  GenerateOptions options;
  std::vector<int64_t> prompt;
  std::vector<int64_t> before;
  TextUnderWay progress;
  Search search;
  bool begun = false, ended = false;
};

BeamText::BeamText(std::unique_ptr<State> state) : state_(std::move(state)) {}
BeamText::~BeamText() = default;

Result<std::unique_ptr<BeamText>> BeamText::Make(Writer& writer, std::span<const int64_t> prompt,
                                                 const GenerateOptions& options, OnText on_text) {
  CachedModel& model = writer.model_;
  EVOQ_TRY(CheckText(model, prompt, options));
  EVOQ_TRY(CheckBeams(model, options));
  if (writer.slot_ != 0 || writer.draft_ != nullptr)
    return Fail(ErrorCode::kUsage, "beams take no draft model, and one text at a time");
  if (const auto before = BeforeText(model, prompt, options); std::ssize(before) >= model.context())
    return Fail(ErrorCode::kUsage, "the context is full: {} tokens of {}", before.size(),
                model.context());
  writer.Forget();
  return std::unique_ptr<BeamText>(
      new BeamText(std::make_unique<State>(writer, prompt, options, std::move(on_text))));
}

Status BeamText::Prompt() {
  State& s = *state_;
  CachedModel& model = s.w.model_;
  const Stopwatch watch;
  for (int64_t slot = 0; slot < s.options.beams; ++slot) model.Truncate(slot, 0);
  if (model.reads()) EVOQ_TRY(model.Encode(0, SourceOf(s.prompt, s.options)));
  EVOQ_ASSIGN(const std::span<const float> logits, model.Append(0, s.before));
  EVOQ_ASSIGN(const bool more, s.search.Take(logits));
  s.ended = !more;
  for (int64_t slot = 1; more && slot < s.options.beams; ++slot) {
    if (model.reads()) model.CopySource(0, slot);
    model.Copy(0, slot, model.length(0));
  }
  s.progress.out().prompt_tokens = std::ssize(s.prompt);
  s.progress.out().prompt_ms = watch.ms();
  return {};
}

Result<bool> BeamText::Advance() {
  State& s = *state_;
  CachedModel& model = s.w.model_;
  if (s.change != s.w.changes_)
    return Fail(ErrorCode::kUsage, "the text was given up: its model has begun something else");
  if (!std::exchange(s.begun, true)) {
    EVOQ_TRY(Prompt());
    return !s.ended;
  }
  if (s.ended) return false;
  const double runs_before = model.run_ms();
  const Stopwatch watch;
  EVOQ_ASSIGN(const std::span<const float> logits, model.Step(0, s.search.tokens()));
  EVOQ_ASSIGN(const bool more, s.search.Take(logits));
  if (more) model.Reorder(s.search.parents());
  s.ended = !more;
  s.progress.out().decode_ms += watch.ms();
  s.progress.out().host_ms += watch.ms() - (model.run_ms() - runs_before);
  return more;
}

Result<Generated> BeamText::Finish() {
  State& s = *state_;
  for (const int64_t token : s.search.best().tokens) {
    EVOQ_ASSIGN(const bool goes_on, s.progress.Take(token));
    if (!goes_on) break;
  }
  if (!s.progress.ended())
    s.progress.End(!s.ended                                 ? Ended::kCaller
                   : s.search.in_room(s.options.max_tokens) ? Ended::kMaxTokens
                                                            : Ended::kContext);
  return s.progress.Finish();
}

}  // namespace evoq
