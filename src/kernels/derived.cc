#include "kernels/derived.h"

#include "base/pages.h"

namespace evoq {
namespace {

thread_local DerivedWeights* current = nullptr;

// Of constants that lie in mapped files, which all models of a file read at the same place. Never
// freed: models may live as long as the process.
DerivedWeights& OfFiles() {
  static auto* const weights = new DerivedWeights;
  return *weights;
}

}  // namespace

DerivedScope::DerivedScope(DerivedWeights* weights) : outer_(current) { current = weights; }
DerivedScope::~DerivedScope() { current = outer_; }
DerivedWeights* DerivedScope::Current() { return current; }

std::shared_ptr<const void> DerivedWeights::Get(
    const Tensor& constant, const std::string& form,
    const std::function<std::shared_ptr<const void>()>& make) {
  const Key key(constant.raw(), form);
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      if (auto known = found->second.lock()) return known;
    }
  }
  struct Held {
    Tensor constant;  // its memory is no other's while this is here
    std::shared_ptr<const void> value;
  };
  const auto held = std::make_shared<const Held>(constant, make());
  const std::shared_ptr<const void> value(held, held->value.get());
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const void>& slot = known_[key];
  if (auto other = slot.lock()) return other;  // another caller was faster
  slot = value;
  return value;
}

std::shared_ptr<const void> DeriveAny(const Tensor& constant, const std::string& form,
                                      const std::function<std::shared_ptr<const void>()>& make) {
  if (current == nullptr) return make();
  return (LiesInMappedFile(constant.raw()) ? OfFiles() : *current).Get(constant, form, make);
}

}  // namespace evoq
