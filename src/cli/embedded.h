// Files that are part of the binary.
#pragma once

#include <string_view>

namespace evoq {

// examples/digits/digits.onnx.
std::string_view EmbeddedDigitsModel();

}  // namespace evoq
