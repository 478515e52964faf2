// For tests: imports, evaluates and exports models that standard input names, one command per line
// of tab-separated words.
//   export IN OUT             ONNX to graph to ONNX
//   optimize IN OUT           the same with the optimizing passes between
//   evaluate IN OUT X...      writes output N of the graph for these inputs (.pb files) to
//   OUT_N.npy
// Answers one line per command: "ok" or the error.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "onnx/onnx.h"
#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// Version 1 of numpy's file format: enough for the element types that tests compare.
Status WriteNpy(const Tensor& t, const std::string& path) {
  const char* kind = t.dtype() == DType::kFloat16   ? "<f2"
                     : t.dtype() == DType::kFloat32 ? "<f4"
                     : t.dtype() == DType::kFloat64 ? "<f8"
                     : t.dtype() == DType::kBool    ? "|b1"
                     : t.dtype() == DType::kInt8    ? "|i1"
                     : t.dtype() == DType::kUint8   ? "|u1"
                     : t.dtype() == DType::kInt32   ? "<i4"
                     : t.dtype() == DType::kInt64   ? "<i8"
                                                    : nullptr;
  if (kind == nullptr) return Unsupported("no .npy of {}", t.type().ToString());
  std::string shape;
  for (int64_t d : t.sizes()) shape += fmt::format("{}, ", d);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", kind, shape);
  header.resize((10 + header.size() + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out.write("\x93NUMPY\x01\x00", 8);
  out.put(static_cast<char>(header.size() & 0xff)).put(static_cast<char>(header.size() >> 8));
  out << header;
  out.write(reinterpret_cast<const char*>(t.raw()), static_cast<std::streamsize>(t.bytes()));
  return out ? Status() : Fail(ErrorCode::kIo, "{}: cannot write", path);
}

Status Evaluate(const std::vector<std::string>& words) {
  EVOQ_ASSIGN(Graph graph, ImportOnnx(words[1]));
  std::vector<Tensor> inputs;
  for (size_t i = 3; i < words.size(); ++i) {
    EVOQ_ASSIGN(Tensor t, ReadTensorProto(words[i]));
    const TensorType& type = graph.value(graph.inputs()[i - 3]).type;
    if (type.quantized()) t = t.WithType(TensorType(t.dtype(), t.shape(), *type.quant));
    inputs.push_back(std::move(t));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> outputs, EvaluateGraph(graph, inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    EVOQ_TRY(WriteNpy(outputs[i], fmt::format("{}_{}.npy", words[2], i)));
  return {};
}

Status RunCommand(const std::vector<std::string>& words) {
  if (words.size() < 3) return Fail(ErrorCode::kUsage, "expected: COMMAND IN OUT ...");
  if (words[0] == "evaluate") return Evaluate(words);
  EVOQ_ASSIGN(Graph graph, ImportOnnx(words[1]));
  if (words[0] == "optimize") EVOQ_TRY(RunPasses(graph, Stage::kOptimize));
  return ExportOnnx(graph, words[2]);
}

}  // namespace
}  // namespace evoq

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; std::getline(in, word, '\t');) words.push_back(word);
    const evoq::Status status = evoq::RunCommand(words);
    std::cout << (status ? "ok" : status.error().message()) << std::endl;
  }
}
