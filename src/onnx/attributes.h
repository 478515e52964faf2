// AttributeProto -> Attrs.
#pragma once

#include "base/result.h"
#include "onnx/external.h"
#include "onnx/proto.h"
#include "tensor/attrs.h"

namespace evoq {

// The attributes of a node. 16-bit float types become float32, in tensors and in attributes that
// name a type. Errors: kUnsupported for subgraphs, sparse tensors and types; kInvalidInput for an
// attribute of another kind than its name has in ONNX, one that appears twice, or one that only
// evoq's dialect has.
Result<Attrs> AttrsFromProto(const onnx::NodeProto& node, ExternalFiles* external);

// The tensor as the dialect holds it: float16 and bfloat16 as float32.
Result<Tensor> ComputeTensor(Tensor tensor);

bool HasSubgraph(const onnx::NodeProto& node);

void AttrToProto(const std::string& name, const AttrValue& value, onnx::NodeProto& node);

}  // namespace evoq
