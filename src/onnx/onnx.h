// ONNX files in and out. The only room that sees protobuf.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace evoq {

// Reads a model: opset 6 and newer are upgraded to the graph's dialect (graph/graph.h), external
// data is mapped from the file's folder, types are inferred. An input or output that the file
// quantizes (QuantizeLinear or DequantizeLinear directly on it) has a quantized type. Errors name
// file, node and what was expected; all operators that evoq lacks are listed at once with domain,
// opset and node.
Result<Graph> ImportOnnx(const std::string& path);
// The same from memory; external data is refused. `label` names the source in messages.
Result<Graph> ImportOnnxBytes(std::span<const std::byte> bytes, const std::string& label);

// The operator sets that are written: with axes of QuantizeLinear and DequantizeLinear at least.
inline constexpr int kOldestExport = 13, kNewestExport = 25;
// Of models that need nothing newer, unless asked.
inline constexpr int kExportOpset = 17;

// Writes plain ONNX: fused nodes are expanded, quantized types become QuantizeLinear and
// DequantizeLinear nodes. `opset`: of the file; 0: the oldest from kExportOpset on that can say it.
// Atomic. Errors: kUnsupported for what ONNX, or the operator set that was asked for, cannot say,
// naming it; kIo.
Status ExportOnnx(const Graph& graph, const std::string& path, int opset = 0);
// The file's bytes. `label` names it in messages.
Result<std::string> ExportOnnxBytes(const Graph& graph, const std::string& label, int opset = 0);

// A TensorProto file (.pb of the conformance suite), or a SequenceProto or OptionalProto file for a
// container `type`.
Result<Tensor> ReadTensorProto(const std::string& path);
Result<Tensor> ReadValueProto(const std::string& path, const TensorType& type);

}  // namespace evoq
