// A writer of .onnx files with any field wrong: a model is protobuf's text form, made from pieces.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace evoq::craft {

using Names = std::vector<std::string>;
using Sizes = std::vector<int64_t>;

// ---- attributes
std::string Int(const std::string& name, int64_t value);
std::string Ints(const std::string& name, const Sizes& values);
std::string Float(const std::string& name, float value);
std::string Floats(const std::string& name, const std::vector<float>& values);
std::string Text(const std::string& name, const std::string& value);
std::string Subgraph(const std::string& name, const std::string& graph);

// ---- parts of a graph. Element types are ONNX's numbers; a size of -1 is free.
constexpr int kFloat32 = 1, kUint8 = 2, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9;
std::string Input(const std::string& name, int type, const Sizes& sizes);
std::string InputOfAnyRank(const std::string& name, int type);
std::string Output(const std::string& name);
// An initializer whose elements are all `value`.
std::string Constant(const std::string& name, int type, const Sizes& sizes, float value = 1);
std::string Node(const std::string& op, const Names& inputs, const Names& outputs,
                 const std::string& attributes = "", const std::string& domain = "");

// The file of a graph, of operator set `opset` of ai.onnx and 1 of every other domain that evoq
// knows. `more` is text beside the graph.
std::string WriteOnnx(int opset, const std::string& graph, const std::string& more = "");

}  // namespace evoq::craft
