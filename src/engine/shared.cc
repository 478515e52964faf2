#include "engine/shared.h"

#include <algorithm>

#include "base/guarded.h"
#include "base/stopwatch.h"

namespace evoq {
namespace {

// What a dynamic partition returns may be an input or a constant itself.
Tensor Own(const Tensor& t) {
  if (t.type().is_tensor()) return t.Clone();
  std::vector<Tensor> items;
  for (const Tensor& item : t.items()) items.push_back(Own(item));
  return Tensor::Of(t.type().kind, t.type(), std::move(items));
}

// Counts a run while it is under way.
class Running {
 public:
  explicit Running(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Running() { --count_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<int>& count_;
};

// A caller away from its place until the end, without the engine's lock where it waits for that.
class Away {
 public:
  Away(SharedEngine::Place* place, std::unique_lock<std::mutex>& lock)
      : place_(place), lock_(lock) {}
  ~Away() {
    if (!left_) return;
    lock_.unlock();
    place_->Return();
    lock_.lock();
  }
  Away(const Away&) = delete;
  Away& operator=(const Away&) = delete;
  void Begin() {
    if (place_ == nullptr || left_) return;
    place_->Leave();
    left_ = true;
  }

 private:
  SharedEngine::Place* place_;
  std::unique_lock<std::mutex>& lock_;
  bool left_ = false;
};

}  // namespace

SharedEngine::SharedEngine(std::unique_ptr<Engine> engine, int streams)
    : engine_(std::move(engine)), streams_(static_cast<size_t>(streams)) {
  streams_[0].first = true;
  for (Stream& stream : streams_) idle_.push_back(&stream);
}

std::string SharedEngine::in_regions() const {
  const std::lock_guard lock(mutex_);
  return engine_->in_regions();
}

std::optional<AdaptiveState> SharedEngine::adaptive() {
  std::unique_lock lock(mutex_);
  if (engine_->adaptive() == nullptr || streams() > 1) return std::nullopt;
  freed_.wait(lock, [&] { return !idle_.empty(); });
  return *engine_->adaptive();
}

Status SharedEngine::PinScaleSet(const std::string& name) {
  std::unique_lock lock(mutex_);
  if (streams() > 1)
    return Fail(ErrorCode::kUsage, "scale set {}: {} streams follow their own runs", name,
                streams());
  freed_.wait(lock, [&] { return !idle_.empty(); });
  return engine_->PinScaleSet(name);
}

bool SharedEngine::Stream::Has(const std::shared_ptr<Executor>& own) const {
  return first || std::any_of(copies.begin(), copies.end(),
                              [&](const Copy& copy) { return copy.of.lock() == own; });
}

// This stream's executor like `own`, made on first use.
Result<std::shared_ptr<Executor>> SharedEngine::Stream::For(const std::shared_ptr<Executor>& own) {
  if (first) return own;
  std::erase_if(copies, [](const Copy& copy) { return copy.of.expired(); });
  const auto found = std::find_if(copies.begin(), copies.end(),
                                  [&](const Copy& copy) { return copy.of.lock() == own; });
  if (found != copies.end()) return found->executor;
  if (pool == nullptr) pool = std::make_shared<ThreadPool>(own->threads());
  EVOQ_ASSIGN(std::shared_ptr<Executor> executor, own->Another(pool, memory));
  copies.push_back({own, executor});
  return executor;
}

bool SharedEngine::Idle(int stream) const {
  return stream < 0 ? !idle_.empty() : std::ranges::find(idle_, &streams_[stream]) != idle_.end();
}

// An idle stream, which must be: `stream`, or one that has such an executor, if any has.
SharedEngine::Stream* SharedEngine::Take(const std::shared_ptr<Executor>& own, int stream) {
  auto taken = std::find_if(idle_.begin(), idle_.end(), [&](const Stream* idle) {
    return stream < 0 ? idle->Has(own) : idle == &streams_[stream];
  });
  if (taken == idle_.end()) taken = idle_.begin();
  Stream* const found = *taken;
  idle_.erase(taken);
  return found;
}

// A stream that is its caller's until the end, whatever happens meanwhile. Holds or takes the lock
// then.
class SharedEngine::Taken {
 public:
  Taken(SharedEngine& engine, std::unique_lock<std::mutex>& lock, Stream* stream)
      : engine_(engine), lock_(lock), stream_(stream) {}
  ~Taken() {
    if (!lock_.owns_lock()) lock_.lock();
    engine_.idle_.push_back(stream_);  // there is room: it came from there
    lock_.unlock();
    engine_.freed_.notify_all();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  Stream* stream() const { return stream_; }

 private:
  SharedEngine& engine_;
  std::unique_lock<std::mutex>& lock_;
  Stream* stream_;
};

Result<std::vector<Tensor>> SharedEngine::RunInRegions(std::span<const Tensor> inputs) {
  const std::lock_guard lock(regions_mutex_);
  auto outputs = [&] {
    const Running running(running_);
    return engine_->Run(inputs);
  }();
  if (!outputs) return outputs;
  for (Tensor& t : *outputs) t = Own(t);
  return outputs;
}

int64_t SharedEngine::arena_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = engine_->arena_bytes();
  for (const Stream& stream : streams_) bytes += stream.memory->bytes();
  return bytes;
}

GearReport SharedEngine::gears() {
  const std::lock_guard lock(mutex_);
  return engine_->gears();
}

void SharedEngine::WaitForGears() {
  if (Preparer* const preparer = engine_->preparer()) preparer->Wait();
}

// What serves the inputs, prepared without the lock where nothing does. Callers of the same sizes
// wait for one of them, none of them at its place.
Result<Engine::Serving> SharedEngine::ServingFor(std::span<const Tensor> inputs,
                                                 std::unique_lock<std::mutex>& lock, Place* place) {
  Away away(place, lock);
  std::optional<double> waited_ms;
  for (;;) {
    EVOQ_ASSIGN(std::optional<Engine::Serving> found, engine_->Find(inputs, waited_ms));
    if (found) return std::move(*found);
    const Engine::Unserved unserved = engine_->ToResolve(inputs);
    away.Begin();
    const Stopwatch watch;
    if (resolving_.contains(unserved.shapes)) {
      resolved_.wait(lock, [&] { return !resolving_.contains(unserved.shapes); });
      waited_ms = waited_ms.value_or(0) + watch.ms();
      continue;
    }
    resolving_.insert(unserved.shapes);
    lock.unlock();
    auto resolved = Guarded([&] { return engine_->Resolve(unserved); });
    lock.lock();
    resolving_.erase(unserved.shapes);
    resolved_.notify_all();
    if (!resolved) return tl::unexpected(std::move(resolved.error()));
    if (!resolved->serving.padding) waited_ms = waited_ms.value_or(0) + watch.ms();
    engine_->Take(std::move(*resolved));
  }
}

Result<std::vector<Tensor>> SharedEngine::Run(std::span<const Tensor> inputs,
                                              const RunOptions& options) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return Idle(options.stream); });
  EVOQ_ASSIGN(const Engine::Serving serving, ServingFor(inputs, lock, options.place));
  if (serving.executor == nullptr) {
    lock.unlock();
    return RunInRegions(inputs);
  }
  freed_.wait(lock, [&] { return Idle(options.stream); });  // others came while it was prepared
  const Taken taken(*this, lock, Take(serving.executor, options.stream));
  lock.unlock();
  EVOQ_ASSIGN(const std::shared_ptr<Executor> executor, taken.stream()->For(serving.executor));
  const Running running(running_);
  return engine_->RunOn(*executor, inputs, options.control, serving.padding);
}

}  // namespace evoq
