// libevoq: models from any file, all operators, dynamic partitions, images.
#include "api/model_session.h"
#include "api/parts.h"
#include "base/guarded.h"
#include "data/dataset.h"
#include "evoq/evoq.h"
#include "models/models.h"

namespace evoq {
namespace {

Array ToArray(const Tensor& tensor) {
  Array a;
  a.type = static_cast<ElementType>(tensor.dtype());
  a.shape = tensor.sizes();
  a.bytes.assign(tensor.raw(), tensor.raw() + tensor.bytes());
  return a;
}

}  // namespace

const EngineParts& LibraryParts() { return AllParts(); }

std::optional<Array> LoadImage(const std::string& image, const std::string& preprocess_json,
                               std::string* error) {
  auto array = Guarded([&]() -> Result<Array> {
    EVOQ_ASSIGN(const Preprocess how, LoadPreprocess(preprocess_json));
    EVOQ_ASSIGN(const Tensor tensor, LoadInput(image, how));
    return ToArray(tensor);
  });
  if (array) return std::move(*array);
  if (error != nullptr) *error = SentenceOf(array.error());
  return std::nullopt;
}

}  // namespace evoq
