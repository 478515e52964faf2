#include "engine/stream_set.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/forks.h"
#include "base/guarded.h"
#include "base/thread_pool.h"

namespace evoq {
namespace {

StreamSetOptions Settled(StreamSetOptions options, int threads) {
  EVOQ_CHECK(!options.priorities.empty() && options.at_once >= 0);
  if (options.at_once == 0) options.at_once = std::max(1, PhysicalCores() / threads);
  options.at_once = std::min(options.at_once, static_cast<int>(options.priorities.size()));
  return options;
}

Error WhyNot(StreamSet::Ending ending) {
  return Error(ErrorCode::kConditionFailed, ending == StreamSet::Ending::kLate
                                                ? "the run has not ended at its deadline"
                                                : "the run was cancelled");
}

}  // namespace

StreamSet::StreamSet(std::unique_ptr<Engine> engine, StreamSetOptions options)
    : options_(Settled(std::move(options), engine->threads())),
      shared_(std::move(engine), static_cast<int>(options_.priorities.size())) {
  for (const int priority : options_.priorities) {
    Stream& stream = streams_.emplace_back();
    stream.index = static_cast<int>(streams_.size()) - 1;
    stream.priority = priority;
  }
  Start();
}

void StreamSet::Start() {
  try {
    for (Stream& stream : streams_) stream.thread = std::thread([this, &stream] { Serve(stream); });
    watch_ = std::thread([this] { WatchDeadlines(); });
  } catch (...) {
    Close();
    throw;
  }
}

void StreamSet::Begin() {
  if (born_.load() == Forks()) return;
  static std::mutex one;
  const std::lock_guard lock(one);
  if (born_.load() == Forks()) return;
  ForgetParent();
  born_.store(Forks());
  if (!closing_) Start();
}

// The parent's runs are told of there: what they hold on to is not ours to give back.
void StreamSet::ForgetParent() {
  (void)new auto(std::move(runs_));
  runs_.clear();
  deadlines_.clear();
  given_up_.clear();
  for (Stream& stream : streams_) {
    stream.waiting.clear();
    stream.current = nullptr;
    stream.may_begin = stream.telling = false;
    MakeAnew(stream.changed);
    MakeAnew(stream.thread);
  }
  MakeAnew(mutex_);
  MakeAnew(close_mutex_);
  MakeAnew(watch_changed_);
  MakeAnew(ended_);
  MakeAnew(watch_);
}

// Ends those threads that there are.
void StreamSet::Close() {
  if (born_.load() != Forks()) {
    ForgetParent();
    closing_ = true;
    born_.store(Forks());
    return;
  }
  const std::lock_guard close(close_mutex_);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const auto& [id, run] : runs_) GiveUp(*run, Ending::kCancelled);
    for (Stream& stream : streams_) stream.changed.notify_one();
    watch_changed_.notify_one();
  }
  for (Stream& stream : streams_) {
    if (stream.thread.joinable()) stream.thread.join();
  }
  if (watch_.joinable()) watch_.join();
}

Result<StreamSet::RunId> StreamSet::Submit(int stream, std::vector<Tensor> inputs, Done done,
                                           std::optional<Clock::time_point> deadline) {
  if (stream < 0 || stream >= streams())
    return Fail(ErrorCode::kUsage, "stream {}, expected 0 to {}", stream, streams() - 1);
  Begin();
  const std::lock_guard lock(mutex_);
  if (closing_) return Fail(ErrorCode::kUsage, "the streams are closed");
  Stream& to = streams_[static_cast<size_t>(stream)];
  if (to.waiting.size() >= options_.queue)
    return Fail(ErrorCode::kTooLarge, "stream {}: {} runs wait already, as many as may", stream,
                to.waiting.size());
  const RunId id = next_++;
  std::unique_ptr<Run> run(new Run{id, stream, std::move(inputs), std::move(done), deadline});
  to.waiting.push_back(run.get());
  runs_.emplace(id, std::move(run));
  if (deadline) {
    deadlines_.emplace(*deadline, id);
    watch_changed_.notify_one();
  }
  Choose();
  return id;
}

bool StreamSet::Cancel(RunId run) {
  Begin();
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(run);
  return found != runs_.end() && GiveUp(*found->second, Ending::kCancelled);
}

Status StreamSet::SetPriority(int stream, int priority) {
  if (stream < 0 || stream >= streams())
    return Fail(ErrorCode::kUsage, "stream {}, expected 0 to {}", stream, streams() - 1);
  Begin();
  const std::lock_guard lock(mutex_);
  streams_[static_cast<size_t>(stream)].priority = priority;
  Choose();
  return {};
}

bool StreamSet::Idle(int stream) const {
  if (stream < 0) return runs_.empty();
  return std::ranges::none_of(runs_, [&](const auto& run) { return run.second->stream == stream; });
}

void StreamSet::Wait(int stream) {
  Begin();
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return Idle(stream); });
}

// Lets those runs go on that are to, and holds up the others.
void StreamSet::Choose() {
  std::vector<Stream*> ready;
  for (Stream& stream : streams_) {
    if (!stream.idle() && !stream.telling) ready.push_back(&stream);
  }
  std::ranges::sort(ready, {}, [](const Stream* stream) {
    const bool began = stream->current != nullptr;
    return std::tuple(stream->priority, !began, (began ? stream->current : stream->waiting[0])->id);
  });
  for (size_t i = 0; i < ready.size(); ++i) {
    Stream& stream = *ready[i];
    const bool goes_on = i < static_cast<size_t>(options_.at_once);
    if (stream.current != nullptr) {
      goes_on ? stream.current->control.Resume() : stream.current->control.Pause();
      continue;
    }
    stream.may_begin = goes_on;
    if (goes_on) stream.changed.notify_one();
  }
}

// Under the lock. False for a run that is over.
bool StreamSet::GiveUp(Run& run, Ending why) {
  Stream& stream = streams_[static_cast<size_t>(run.stream)];
  const bool over = stream.current == &run && stream.telling;
  if (over || run.ending != Ending::kRan) return false;
  run.ending = why;
  if (stream.current == &run) {
    run.control.Stop();
    return true;
  }
  std::erase(stream.waiting, &run);
  given_up_.push_back(&run);
  watch_changed_.notify_one();
  Choose();
  return true;
}

// Calls the run's `done`, without the lock, and forgets the run.
void StreamSet::Tell(Run& run, Outputs outputs, std::unique_lock<std::mutex>& lock) {
  if (run.ending != Ending::kRan) outputs = tl::unexpected(WhyNot(run.ending));
  lock.unlock();
  run.done(std::move(outputs), run.ending);
  run.done = nullptr;  // what it holds on to goes without the lock
  lock.lock();
  if (run.deadline) deadlines_.erase({*run.deadline, run.id});
  runs_.erase(run.id);
  ended_.notify_all();
}

void StreamSet::Serve(Stream& stream) {
  std::unique_lock lock(mutex_);
  for (;;) {
    stream.changed.wait(lock, [&] { return stream.waiting.empty() ? closing_ : stream.may_begin; });
    if (stream.waiting.empty()) return;
    Run& run = *stream.waiting.front();
    stream.waiting.pop_front();
    stream.current = &run;
    stream.may_begin = false;
    if (run.deadline && Clock::now() >= *run.deadline) GiveUp(run, Ending::kLate);
    lock.unlock();
    const int own = options_.share_arenas ? -1 : stream.index;
    Outputs outputs = Guarded([&] { return shared_.Run(run.inputs, {&run.control, own}); });
    run.inputs.clear();
    lock.lock();
    stream.telling = true;
    Choose();
    Tell(run, std::move(outputs), lock);
    stream.telling = false;
    stream.current = nullptr;
    Choose();
  }
}

void StreamSet::WatchDeadlines() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const Clock::time_point now = Clock::now();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      GiveUp(*runs_.at(deadlines_.begin()->second), Ending::kLate);
      deadlines_.erase(deadlines_.begin());
    }
    if (!given_up_.empty()) {
      Run& run = *given_up_.front();
      given_up_.pop_front();
      Tell(run, {}, lock);
    } else if (closing_) {
      return;
    } else if (deadlines_.empty()) {
      watch_changed_.wait(lock);
    } else {
      const Clock::time_point next = deadlines_.begin()->first;  // it may end while this waits
      watch_changed_.wait_until(lock, next);
    }
  }
}

}  // namespace evoq
