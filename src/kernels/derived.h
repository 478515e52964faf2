// What kernels derive from constant weights when they are bound (Winograd's weights, sums, wider
// copies): made once for all bound kernels that read it, of a model, and where the constant lies in
// a file, of all models of that file in this process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tensor/tensor.h"

namespace evoq {

// Any thread may call any function at any time.
class DerivedWeights {
 public:
  // What `make` gives for `constant` in this form. A form's name says all that its bytes depend on
  // beside the constant's. It is there as long as somebody holds it, and so is the constant: two
  // callers at once may both make it, and get the same.
  std::shared_ptr<const void> Get(const Tensor& constant, const std::string& form,
                                  const std::function<std::shared_ptr<const void>()>& make);
  template <typename T>
  std::shared_ptr<const T> Get(const Tensor& constant, const std::string& form,
                               const std::function<T()>& make) {
    return std::static_pointer_cast<const T>(Get(constant, form, Shared<T>(make)));
  }

  // What makes it in memory of its own.
  template <typename T>
  static std::function<std::shared_ptr<const void>()> Shared(const std::function<T()>& make) {
    return [&make] { return std::make_shared<const T>(make()); };
  }

 private:
  using Key = std::pair<const std::byte*, std::string>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const void>> known_;
};

// While it lives, what this thread binds shares its derived weights: in `weights`, and those of
// constants in mapped files with all others.
class DerivedScope {
 public:
  explicit DerivedScope(DerivedWeights* weights);
  ~DerivedScope();
  DerivedScope(const DerivedScope&) = delete;
  DerivedScope& operator=(const DerivedScope&) = delete;

  static DerivedWeights* Current();  // null outside of any

 private:
  DerivedWeights* outer_;
};

// As Get of the current scope's weights or of all files'; outside of any scope, for this caller
// alone.
std::shared_ptr<const void> DeriveAny(const Tensor& constant, const std::string& form,
                                      const std::function<std::shared_ptr<const void>()>& make);
template <typename T>
std::shared_ptr<const T> Derive(const Tensor& constant, const std::string& form,
                                const std::function<T()>& make) {
  return std::static_pointer_cast<const T>(
      DeriveAny(constant, form, DerivedWeights::Shared<T>(make)));
}

}  // namespace evoq
