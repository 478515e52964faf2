// safetensors files: the size of a header in 8 bytes, the header in JSON, the tensors' bytes.
#pragma once

#include <string>

#include "llm/stored_tensor.h"

namespace evoq {

// The tensors of a file, which stays mapped. Names, types, shapes and stretches are checked: the
// data is covered without gap or overlap, as the format's specification asks. Errors: those of
// MappedFile::Open; kInvalidInput, kUnsupported and kTooLarge, naming file and tensor.
Result<StoredTensors> ReadSafetensors(const std::string& path);

// The tensors of a folder: of model.safetensors, or of the shards that
// model.safetensors.index.json names. Errors: as above; kNotFound where neither file or a shard is
// there; kInvalidInput for a shard outside of the folder or without a tensor that the index places
// in it.
Result<StoredTensors> ReadSafetensorsFolder(const std::string& folder);

}  // namespace evoq
