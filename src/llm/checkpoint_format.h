// Folders whose weights another tool quantized: a matrix is several tensors there. One row for each
// quant_method of config.json's quantization_config, in llm/checkpoint_formats.inc; its file is
// llm/checkpoints/NAME.cc.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "llm/stored_tensor.h"

namespace evoq {

// What the tensors of one matrix are named after: "model.layers.0.mlp.up_proj".
struct CheckpointMatrix {
  const nlohmann::json& settings;  // quantization_config
  StoredTensors& tensors;          // of the folder
  const std::string& stem;

  // The tensor STEM.part; nullptr where there is none.
  const StoredTensor* Find(const char* part) const;
  // Errors: kInvalidInput where it is missing.
  Result<const StoredTensor*> Need(const char* part) const;
  // Errors: kInvalidInput for a tensor of another type or other sizes.
  Result<const StoredTensor*> Need(const char* part, DType dtype, std::vector<int64_t> sizes) const;
  // int32 of two sizes, the first at least 1. Errors: as above.
  Result<const StoredTensor*> NeedWords(const char* part) const;
  // float32, float16 or bfloat16. Errors: as above.
  Result<const StoredTensor*> NeedReal(const char* part) const;
};

// Two sizes, as settings have those of blocks; nothing where there are none. Errors: kInvalidInput
// for something else.
Result<std::array<int64_t, 2>> BlockSizes(const nlohmann::json& settings, const char* key);

struct CheckpointFormat {
  const char* method;  // "gptq"
  // The tensors that tell a quantized matrix: STEM.sign.
  std::array<const char*, 2> signs;
  // All that it may have; they are gone when STEM.weight is there.
  std::array<const char*, 20> parts;
  // The weight [outputs, inputs] of the parts, whose sizes and types are checked. Errors:
  // kInvalidInput, kUnsupported.
  Result<StoredTensor> (*join)(const CheckpointMatrix& matrix);
};

std::span<const CheckpointFormat* const> AllCheckpointFormats();

// Joins the parts of each quantized matrix to one tensor, STEM.weight. A
// quantization_config of bits and group_size without quant_method is MLX's; quanto's tensors need
// none. Errors: kUnsupported for a quant_method that no row has; those of joining, naming the
// matrix.
Status JoinQuantized(const nlohmann::json& config, StoredTensors& tensors);

}  // namespace evoq
