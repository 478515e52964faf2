// How large a model is on disk.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace evoq {

// The bytes of a model's file; of an ONNX file, together with those of the files that its tensors'
// external data is in, each once. Errors: kNotFound, kIo; kInvalidInput for external data that
// ImportOnnx would refuse.
Result<int64_t> ModelFileBytes(const std::string& path);

}  // namespace evoq
