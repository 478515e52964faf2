// Checkpoints of Andrej Karpathy's llama2.c, versions 0 and 1: a header and float32 matrices.
#pragma once

#include <string>

#include "llm/language_model.h"

namespace evoq {

struct Llama2c {
  LanguageModel model;
  StoredTensors tensors;  // under GGUF's names
};

// Whether the header's sizes give the size of the file: version 0 has no magic number.
bool IsLlama2c(std::span<const std::byte> bytes);

// Errors: those of MappedFile::Open; kInvalidInput and kUnsupported (version 2), naming the file.
Result<Llama2c> ReadLlama2c(const std::string& path);

}  // namespace evoq
