// TensorProto <-> Tensor.
#pragma once

#include "base/result.h"
#include "onnx/external.h"
#include "onnx/proto.h"
#include "tensor/tensor.h"

namespace evoq {

// The tensor of a message: raw bytes, typed fields or external data, whose element count must be
// what the dimensions say. External data is aliased where its address is aligned, else copied.
// `external` may be null: external data is refused. Errors: kInvalidInput, kUnsupported for types
// that evoq lacks; without the tensor's name, which the caller adds.
Result<Tensor> TensorFromProto(const onnx::TensorProto& proto, ExternalFiles* external);

// The message of a tensor in plain layout, as raw bytes. Quantized types lose their parameters:
// they are plain integers.
void TensorToProto(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto);

// evoq's element type for ONNX's number. Errors: kUnsupported naming the type.
Result<DType> DTypeFromProto(int number);

// float32 for the 16-bit float types, which the dialect does not compute in; others as they are.
inline DType ComputeType(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 ? DType::kFloat32 : dtype;
}

}  // namespace evoq
