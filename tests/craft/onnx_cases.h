// Crafted .onnx files, one row each: the condition that the file meets, its bytes, and a part of
// the error expected. onnx_test.cc walks them; tests/fuzz/onnx_fuzz.cc starts from them.
#pragma once

#include <string>
#include <vector>

namespace evoq::craft {

struct OnnxCase {
  const char* condition;
  std::string bytes;
  std::string error;  // "": the file is good
};
const std::vector<OnnxCase>& OnnxCases();

}  // namespace evoq::craft
