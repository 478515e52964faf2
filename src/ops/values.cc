// What graphs hold, and what their inputs may be.
#include "ops/driver.h"

namespace evoq {
namespace {

bool Fits(const TensorType& type, const TensorType& declared) {
  if (type.dtype != declared.dtype) return false;
  if (!declared.is_tensor()) {  // an optional takes what it may hold
    const bool held =
        (declared.kind == ValueKind::kOptional && type.is_tensor()) ||
        (declared.kind == ValueKind::kOptionalSequence && type.kind == ValueKind::kSequence);
    return held || type.kind == declared.kind;
  }
  if (!type.is_tensor()) return false;
  if (type.quantized() != declared.quantized()) return false;
  if (type.quantized() && !(*type.quant == *declared.quant)) return false;
  if (!declared.shape.ranked()) return true;
  if (type.shape.rank() != declared.shape.rank()) return false;
  for (int i = 0; i < type.shape.rank(); ++i) {
    if (declared.shape[i].known() && declared.shape[i] != type.shape[i]) return false;
  }
  return true;
}

}  // namespace

int64_t GraphBytes(const Graph& graph) {
  constexpr int64_t kNodeBytes = 256;
  int64_t bytes = 0;
  for (int i = 0; i < graph.value_count(); ++i)
    bytes += FootprintBytes(graph.value(ValueId{i}).constant);
  for (NodeId id : graph.order()) {
    bytes += kNodeBytes;
    for (const auto& body : graph.node(id).bodies) bytes += GraphBytes(*body);
  }
  return bytes;
}

int64_t FootprintBytes(const Tensor& tensor) {
  int64_t bytes = static_cast<int64_t>(tensor.bytes());
  if (!tensor.defined()) return bytes;
  if (!tensor.type().is_tensor()) {
    for (const Tensor& item : tensor.items()) bytes += FootprintBytes(item);
  } else if (tensor.dtype() == DType::kString) {
    for (const std::string& s : tensor.values<std::string>())
      bytes += static_cast<int64_t>(s.size());
  }
  return bytes;
}

Status CheckInputs(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs().size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", inputs.size(),
                graph.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs()[i]);
    if (!inputs[i].defined() || !Fits(inputs[i].type(), value.type))
      return Fail(ErrorCode::kUsage, "input {} is {}, expected {}", value.name,
                  inputs[i].defined() ? inputs[i].type().ToString() : "missing",
                  value.type.ToString());
  }
  return {};
}

}  // namespace evoq
