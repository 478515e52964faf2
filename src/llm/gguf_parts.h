// Models in several GGUF files, as llama.cpp's gguf-split writes them: NAME-00001-of-00003.gguf has
// the facts, and each file its tensors.
#pragma once

#include <string>
#include <vector>

#include "llm/gguf.h"

namespace evoq {

// The files of a model whose name ends in "-00001-of-00003.gguf"; of any other name the path alone.
std::vector<std::string> GgufPartPaths(const std::string& path);

// The file with the tensors of all parts; one that is whole as it is. Errors: those of ReadGguf;
// kInvalidInput where `path` is another part than the first, parts do not belong together, a tensor
// is in two of them, or the number of tensors is not what the first part says.
Result<GgufFile> ReadGgufParts(const std::string& path);

}  // namespace evoq
