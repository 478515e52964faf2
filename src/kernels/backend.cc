#include "kernels/backend.h"

#include <algorithm>

#include "base/rows.h"

namespace evoq {

#define EVOQ_ROW_TYPE Backend
#define EVOQ_ROW_FILE "kernels/backends.inc"
#include "base/rows.inl.h"

Target::Target() : Target(std::vector<const Backend*>(std::begin(kAllRows), std::end(kAllRows))) {}

Target::Target(std::vector<const Backend*> preferred) : backends_(std::move(preferred)) {
  std::erase(backends_, &kProcessor);
  backends_.push_back(&kProcessor);
}

Target::Found Target::Find(std::string_view name) const {
  for (const Backend* backend : backends_) {
    if (const KernelDef* kernel = FindRow(backend->kernels(), name)) return {backend, kernel};
  }
  return {};
}

bool Target::HasOneMemory() const {
  return std::all_of(backends_.begin(), backends_.end(),
                     [](const Backend* b) { return b->memory == &kHostMemory; });
}

}  // namespace evoq
