#include "serve/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/guarded.h"

namespace evoq::serve {
namespace {

int64_t NsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

int64_t CountOf(const Inference& inference) { return std::max<int64_t>(1, inference.samples); }

// Runs of these inputs are of one shape.
std::string ShapeOf(const Tensors& inputs) {
  std::string shape;
  for (const Tensor& t : inputs) shape += t.shape().ToString();
  return shape;
}

// More shapes than these are tried anew now and then, so that what is remembered stays bounded.
constexpr size_t kMaxTrials = 4096;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Runner runner, Statistics& statistics)
    : options_(options),
      runner_(std::move(runner)),
      statistics_(statistics),
      free_(options.instances) {
  try {
    for (int i = 0; i < options_.instances + kMostAway; ++i)
      workers_.emplace_back([this] { Work(); });
    workers_.emplace_back([this] { Sweep(); });
  } catch (...) {
    Close();
    throw;
  }
}

Scheduler::~Scheduler() { Close(); }

class Scheduler::Instance : public Place {
 public:
  explicit Instance(Scheduler& scheduler) : scheduler_(scheduler) {}
  void Leave() override {
    const std::lock_guard lock(scheduler_.mutex_);
    scheduler_.Free();
  }
  void Return() override {
    std::unique_lock lock(scheduler_.mutex_);
    ++scheduler_.returning_;
    scheduler_.freed_.wait(lock, [&] { return scheduler_.free_ > 0; });
    --scheduler_.returning_;
    --scheduler_.free_;
  }

 private:
  Scheduler& scheduler_;
};

void Scheduler::Free() {
  ++free_;
  if (returning_ > 0) freed_.notify_one();
  if (closed_) {  // whoever finds nothing left ends
    changed_.notify_all();
  } else if (free_ > returning_) {
    changed_.notify_one();
  }
}

void Scheduler::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  sweeps_.notify_all();
  const std::lock_guard lock(closing_);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

int64_t Scheduler::queued() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(queue_.size());
}

int Scheduler::RetryAfter() const {
  const double waits_s = mean_run_s_ * static_cast<double>(queue_.size()) / options_.instances;
  return static_cast<int>(std::clamp(std::ceil(waits_s), 1.0, 60.0));
}

Served<void> Scheduler::Submit(Inference& inference) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Refuse(Why::kUnavailable, "the model is being unloaded");
    if (static_cast<int64_t>(queue_.size()) >= options_.max_queue) {
      Refusal full{Why::kOverloaded,
                   fmt::format("{} requests are waiting, the most that this model's queue takes",
                               queue_.size()),
                   RetryAfter()};
      statistics_.Failed(full.why, 0);
      return tl::unexpected(std::move(full));
    }
    const bool may_expire = inference.deadline != Clock::time_point::max();
    queue_.push_back({std::move(inference), Clock::now()});
    if (may_expire) sweeps_.notify_one();
  }
  changed_.notify_one();
  return {};
}

std::vector<Scheduler::Waiting> Scheduler::TakeStale() {
  std::vector<Waiting> stale;
  const auto now = Clock::now();
  for (auto it = queue_.begin(); it != queue_.end();) {
    const Inference& i = it->inference;
    if (i.deadline > now && (i.cancelled == nullptr || !*i.cancelled)) {
      ++it;
      continue;
    }
    stale.push_back(std::move(*it));
    it = queue_.erase(it);
  }
  return stale;
}

void Scheduler::AnswerStale(std::vector<Waiting> stale) {
  const auto now = Clock::now();
  for (Waiting& one : stale) {
    const bool given_up = one.inference.cancelled != nullptr && *one.inference.cancelled;
    InferenceTimes times;
    times.queue_ns = NsBetween(one.arrived, now);
    Answer(one,
           given_up ? Refuse(Why::kCancelled, "the request was cancelled")
                    : Refuse(Why::kExpired, "the request's time ran out after {:.1f} ms of waiting",
                             static_cast<double>(times.queue_ns) * 1e-6),
           times);
  }
}

void Scheduler::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  sweeps_.notify_one();
}

void Scheduler::Sweep() {
  std::unique_lock lock(mutex_);
  while (!closed_ || !queue_.empty()) {
    auto first = Clock::time_point::max();
    for (const Waiting& one : queue_) first = std::min(first, one.inference.deadline);
    if (!woken_ && first > Clock::now()) {
      if (first == Clock::time_point::max()) {
        sweeps_.wait(lock);
      } else {
        sweeps_.wait_until(lock, first);
      }
    }
    woken_ = false;
    std::vector<Waiting> stale = TakeStale();
    if (stale.empty()) continue;
    lock.unlock();
    AnswerStale(std::move(stale));
    lock.lock();
    changed_.notify_all();
  }
}

std::vector<size_t> Scheduler::Companions() const {
  std::vector<size_t> places = {0};
  int64_t samples = queue_[0].inference.samples;
  if (samples == 0) return places;
  for (size_t i = 1; i < queue_.size() && samples < options_.max_batch; ++i) {
    const Inference& other = queue_[i].inference;
    if (other.samples == 0 || samples + other.samples > options_.max_batch ||
        !Joinable(queue_[0].inference.inputs, other.inputs))
      continue;
    samples += other.samples;
    places.push_back(i);
  }
  return places;
}

Scheduler::Batch Scheduler::Next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return queue_.empty() ? closed_ : free_ > returning_; });
    if (std::vector<Waiting> stale = TakeStale(); !stale.empty()) {
      lock.unlock();
      AnswerStale(std::move(stale));
      lock.lock();
      continue;
    }
    if (queue_.empty()) {  // closed
      sweeps_.notify_one();
      changed_.notify_all();
      return {};
    }
    std::vector<size_t> places = options_.max_batch > 1 ? Companions() : std::vector<size_t>{0};
    // The largest preferred size that the first of them make up.
    int64_t samples = 0;
    size_t preferred = 0;
    for (size_t k = 0; k < places.size(); ++k) {
      samples += queue_[places[k]].inference.samples;
      if (std::find(options_.preferred.begin(), options_.preferred.end(), samples) !=
          options_.preferred.end())
        preferred = k + 1;
    }
    const auto until = queue_[0].arrived + std::chrono::microseconds(options_.max_delay_us);
    const bool full = samples == 0 || samples >= options_.max_batch || preferred > 0;
    if (!full && !closed_ && Clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    if (preferred > 0 && samples < options_.max_batch) places.resize(preferred);
    Batch batch;
    for (size_t place : places) batch.push_back(std::move(queue_[place]));
    for (size_t k = places.size(); k-- > 0;)
      queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(places[k]));
    --free_;
    ++running_;
    return batch;
  }
}

void Scheduler::Work() {
  for (Batch batch = Next(); !batch.empty(); batch = Next()) Run(std::move(batch));
}

void Scheduler::Run(Batch batch) {
  const auto begun = Clock::now();
  if (batch.size() < 2 || !RunJoined(batch, begun)) {
    for (Waiting& one : batch) RunAlone(one, batch.size() < 2 ? begun : Clock::now());
  }
  const double took_s = static_cast<double>(NsBetween(begun, Clock::now())) * 1e-9;
  const double each_s = took_s / static_cast<double>(batch.size());
  const std::lock_guard lock(mutex_);
  mean_run_s_ = mean_run_s_ == 0 ? each_s : 0.9 * mean_run_s_ + 0.1 * each_s;
  --running_;
  Free();
}

void Scheduler::RunAlone(Waiting& one, Clock::time_point begun) {
  InferenceTimes times;
  times.queue_ns = NsBetween(one.arrived, begun);
  Instance place(*this);
  Result<Tensors> outputs = Guarded([&] { return runner_.run(one.inference.inputs, place); });
  times.infer_ns = NsBetween(begun, Clock::now());
  times.run_samples = CountOf(one.inference);
  statistics_.Executed(times.run_samples, times);
  if (outputs) {
    Answer(one, std::move(*outputs), times);
  } else {
    Answer(one, tl::unexpected(RefusalOf(outputs.error())), times);
  }
}

Scheduler::Trial Scheduler::TrialOf(const Tensors& joined, int64_t samples) const {
  const std::lock_guard lock(mutex_);
  const auto found = trials_.find(fmt::format("{}: {}", ShapeOf(joined), samples));
  return found != trials_.end() ? found->second : Trial{};
}

void Scheduler::Saw(const Tensors& joined, int64_t samples, bool equal) {
  const std::lock_guard lock(mutex_);
  if (trials_.size() >= kMaxTrials) trials_.clear();
  Trial& trial = trials_[fmt::format("{}: {}", ShapeOf(joined), samples)];
  ++trial.seen;
  trial.differs = trial.differs || !equal;
}

// False: they must be run one by one, and none is answered yet.
bool Scheduler::RunJoined(Batch& batch, Clock::time_point begun) {
  std::vector<const Tensors*> requests;
  int64_t total = 0;
  for (const Waiting& one : batch) {
    requests.push_back(&one.inference.inputs);
    total += one.inference.samples;
  }
  InferenceTimes times;
  Trial trial;
  Instance place(*this);
  Result<Tensors> outputs = Guarded([&]() -> Result<Tensors> {
    const Tensors joined = Joined(requests);
    trial = TrialOf(joined, total);
    if (trial.seen == 0) {
      trial.differs = !runner_.independent(joined);
      if (trial.differs) Saw(joined, total, false);
    }
    if (trial.differs) return Fail(ErrorCode::kConditionFailed, "not joined");
    const auto joined_at = Clock::now();
    times.input_ns = NsBetween(begun, joined_at);
    Result<Tensors> all = runner_.run(joined, place);
    times.infer_ns = NsBetween(joined_at, Clock::now());
    if (all && trial.seen < kTrials) {
      bool equal = Separable(*all, total);
      int64_t first = 0;
      for (const Waiting& one : batch) {
        if (!equal) break;
        const Result<Tensors> alone = runner_.run(one.inference.inputs, place);
        equal = alone && BitEqual(*alone, Samples(*all, first, one.inference.samples, total));
        first += one.inference.samples;
      }
      Saw(joined, total, equal);
      if (!equal) return Fail(ErrorCode::kConditionFailed, "not joined");
    }
    return all;
  });
  // One request may have made all fail: each is told of its own errors.
  if (!outputs || !Separable(*outputs, total)) return false;
  times.run_samples = total;
  statistics_.Executed(total, times);
  int64_t first = 0;
  for (Waiting& one : batch) {
    const auto taking = Clock::now();
    InferenceTimes its = times;
    its.queue_ns = NsBetween(one.arrived, begun);
    Tensors own = Samples(*outputs, first, one.inference.samples, total);
    first += one.inference.samples;
    its.output_ns = NsBetween(taking, Clock::now());
    Answer(one, std::move(own), its);
  }
  return true;
}

void Scheduler::Answer(Waiting& one, Served<Tensors> outputs, const InferenceTimes& times) {
  if (outputs) {
    statistics_.Succeeded(CountOf(one.inference), times);
  } else {
    statistics_.Failed(outputs.error().why, times.total_ns());
  }
  one.inference.done(std::move(outputs), times);
  one.inference = {};  // its tensors are not kept while others of the batch are answered
}

}  // namespace evoq::serve
