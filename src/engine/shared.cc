#include "engine/shared.h"

namespace evoq {
namespace {

// What a region returns may be an input or a constant itself.
Tensor Own(const Tensor& t) {
  if (t.type().is_tensor()) return t.Clone();
  std::vector<Tensor> items;
  for (const Tensor& item : t.items()) items.push_back(Own(item));
  return Tensor::Of(t.type().kind, t.type(), std::move(items));
}

}  // namespace

std::string SharedEngine::needs_evaluator() const {
  const std::lock_guard lock(mutex_);
  return engine_->needs_evaluator();
}

// An idle executor like `own`, made or waited for.
Result<Executor*> SharedEngine::Take(Executor* own, std::unique_lock<std::mutex>& lock) {
  const auto [it, added] = by_shapes_.try_emplace(own);
  Streams& streams = it->second;
  if (added) streams.idle.push_back(own);
  if (streams.idle.empty() && static_cast<int>(streams.more.size()) + 1 < streams_) {
    EVOQ_ASSIGN(auto another, own->Another());
    streams.more.push_back(std::move(another));
    return streams.more.back().get();
  }
  freed_.wait(lock, [&] { return !streams.idle.empty(); });
  Executor* const taken = streams.idle.back();
  streams.idle.pop_back();
  return taken;
}

Result<std::vector<Tensor>> SharedEngine::Run(std::span<const Tensor> inputs) {
  std::unique_lock lock(mutex_);
  EVOQ_ASSIGN(Executor* const own, engine_->For(inputs));
  if (own == nullptr) {
    EVOQ_ASSIGN(std::vector<Tensor> outputs, engine_->Run(inputs));
    for (Tensor& t : outputs) t = Own(t);
    return outputs;
  }
  EVOQ_ASSIGN(Executor* const executor, Take(own, lock));
  lock.unlock();
  auto outputs = engine_->RunOn(*executor, inputs);
  lock.lock();
  by_shapes_.at(own).idle.push_back(executor);
  lock.unlock();
  freed_.notify_all();
  return outputs;
}

}  // namespace evoq
