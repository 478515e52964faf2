// TensorFlow Lite files (.tflite) in: docs/tflite.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Whether ImportTflite is who reads this file, told by its mark.
bool IsTflitePath(const std::string& path);
// The same of bytes in memory.
bool IsTflite(std::span<const std::byte> bytes);

// The graph of the file's first subgraph, in the dialect of docs/graph.md, with inferred types.
// Inputs and outputs keep names, types and axes of the file: images are N, H, W, C. Constants are
// views of the mapped file where they can be. Errors: naming the file, and the operator or tensor;
// kUnsupported lists all operators that evoq does not run, custom ones by their names.
Result<Graph> ImportTflite(const std::string& path);
// The same from memory. `label` names the source in messages.
Result<Graph> ImportTfliteBytes(std::span<const std::byte> bytes, const std::string& label);

// What a file is made of, whether or not evoq runs it.
struct TfliteOperators {
  struct Count {
    std::string name;  // "CONV_2D", "custom TFLite_Detection_PostProcess"
    int count = 0;
    bool runs = false;  // evoq has it
  };
  std::vector<Count> operators;  // sorted by name
};
Result<TfliteOperators> ListTfliteOperators(const std::string& path);

}  // namespace evoq
