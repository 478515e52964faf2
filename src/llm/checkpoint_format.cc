#include "llm/checkpoint_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/json_file.h"
#include "base/rows.h"
#include "base/text.h"
#include "llm/packed_matrix.h"
#include "llm/settings.h"

namespace evoq {

#define EVOQ_ROW_TYPE CheckpointFormat
#define EVOQ_ROW_FILE "llm/checkpoint_formats.inc"
#include "base/rows.inl.h"

std::span<const CheckpointFormat* const> AllCheckpointFormats() { return kAllRows; }

const StoredTensor* CheckpointMatrix::Find(const char* part) const {
  const auto found = tensors.find(stem + "." + part);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<const StoredTensor*> CheckpointMatrix::Need(const char* part) const {
  if (const StoredTensor* found = Find(part)) return found;
  return InvalidInput("tensor {}.{} is missing", stem, part);
}

Result<const StoredTensor*> CheckpointMatrix::Need(const char* part, DType dtype,
                                                   std::vector<int64_t> sizes) const {
  EVOQ_ASSIGN(const StoredTensor* found, Need(part));
  if (found->dtype != dtype || found->sizes != sizes)
    return InvalidInput("tensor {}.{} is {}, expected {}{}", stem, part, found->ToString(),
                        DTypeName(dtype), Bracketed(std::span<const int64_t>(sizes)));
  return found;
}

Result<const StoredTensor*> CheckpointMatrix::NeedWords(const char* part) const {
  EVOQ_ASSIGN(const StoredTensor* found, Need(part));
  // Sizes times the numbers of a word stay in range.
  if (found->dtype != DType::kInt32 || found->sizes.size() != 2 || found->sizes[0] < 1 ||
      std::max(found->sizes[0], found->sizes[1]) > INT64_MAX / 32)
    return InvalidInput("tensor {}.{} is {}, expected int32 of two sizes", stem, part,
                        found->ToString());
  return found;
}

Result<const StoredTensor*> CheckpointMatrix::NeedReal(const char* part) const {
  EVOQ_ASSIGN(const StoredTensor* found, Need(part));
  EVOQ_TRY(CheckReal(*found, stem + "." + part));
  return found;
}

Result<std::array<int64_t, 2>> BlockSizes(const nlohmann::json& settings, const char* key) {
  std::array<int64_t, 2> block = {0, 0};
  if (!Given(settings, key)) return block;
  const nlohmann::json& sizes = settings[key];
  if (!sizes.is_array() || sizes.size() != 2 || !sizes[0].is_number_unsigned() ||
      !sizes[1].is_number_unsigned())
    return InvalidInput("{} is {}, expected two sizes", key, sizes.dump().substr(0, 60));
  for (size_t i : {0, 1}) block[i] = sizes[i].get<int64_t>();
  return block;
}

Status JoinQuantized(const nlohmann::json& config, StoredTensors& tensors) {
  const bool quanto = std::ranges::any_of(tensors, [](const auto& named) {
    return named.first.ends_with(".weight._data") || named.first.ends_with(".weight._data._data");
  });
  if (!Given(config, "quantization_config") && !quanto) return {};
  const nlohmann::json settings = config.value("quantization_config", nlohmann::json());
  std::string method = JsonText(settings, "quant_method");
  if (method.empty() && Given(settings, "bits") && Given(settings, "group_size")) method = "mlx";
  if (method.empty() && quanto) method = "quanto";
  const CheckpointFormat* format = nullptr;
  std::vector<std::string> known;
  for (const CheckpointFormat* row : AllCheckpointFormats()) {
    if (row->method == method) format = row;
    known.emplace_back(row->method);
  }
  if (format == nullptr)
    return Unsupported("quantization_config: quant_method '{}', expected one of {}",
                       method.substr(0, 60), fmt::join(known, ", "));
  std::set<std::string> stems;
  for (const auto& [name, tensor] : tensors) {
    for (const char* sign : format->signs) {
      const std::string end = sign != nullptr ? fmt::format(".{}", sign) : "";
      if (!end.empty() && name.ends_with(end))
        stems.insert(name.substr(0, name.size() - end.size()));
    }
  }
  for (const std::string& stem : stems) {
    EVOQ_ASSIGN(StoredTensor weight,
                WithContext(format->join({settings, tensors, stem}), "quantization_config"));
    for (const char* part : format->parts) {
      if (part != nullptr) tensors.erase(stem + "." + part);
    }
    if (!tensors.emplace(stem + ".weight", std::move(weight)).second)
      return InvalidInput("tensor {}.weight stands beside its own parts", stem);
  }
  return {};
}

}  // namespace evoq
