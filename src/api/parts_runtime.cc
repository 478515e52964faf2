// libevoq_runtime: .etm files whose steps have kernels, at static and free sizes.
#include "api/parts.h"
#include "evoq/evoq.h"
#include "reference/sizes.h"

namespace evoq {

const EngineParts& LibraryParts() {
  static constexpr EngineParts kParts = {.evaluator = &kSizes};
  return kParts;
}

std::optional<Array> LoadImage(const std::string& image, const std::string&, std::string* error) {
  if (error != nullptr) *error = image + ": libevoq_runtime reads no images, libevoq does";
  return std::nullopt;
}

}  // namespace evoq
