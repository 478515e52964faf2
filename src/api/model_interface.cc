#include "api/model_interface.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "api/parts.h"
#include "base/brief.h"
#include "base/check.h"
#include "base/math.h"
#include "ops/op.h"

namespace evoq {
namespace {

// The public numbers are the inner ones.
constexpr bool Agree(ElementType type, DType dtype) {
  return static_cast<int>(type) == static_cast<int>(dtype);
}
static_assert(
    Agree(ElementType::kFloat32, DType::kFloat32) && Agree(ElementType::kUint8, DType::kUint8) &&
    Agree(ElementType::kInt8, DType::kInt8) && Agree(ElementType::kUint16, DType::kUint16) &&
    Agree(ElementType::kInt16, DType::kInt16) && Agree(ElementType::kInt32, DType::kInt32) &&
    Agree(ElementType::kInt64, DType::kInt64) && Agree(ElementType::kBool, DType::kBool) &&
    Agree(ElementType::kFloat16, DType::kFloat16) &&
    Agree(ElementType::kFloat64, DType::kFloat64) && Agree(ElementType::kUint32, DType::kUint32) &&
    Agree(ElementType::kUint64, DType::kUint64) &&
    Agree(ElementType::kBfloat16, DType::kBfloat16) &&
    Agree(ElementType::kFloat8E4M3FN, DType::kFloat8E4M3FN) &&
    Agree(ElementType::kFloat8E4M3FNUZ, DType::kFloat8E4M3FNUZ) &&
    Agree(ElementType::kFloat8E5M2, DType::kFloat8E5M2) &&
    Agree(ElementType::kFloat8E5M2FNUZ, DType::kFloat8E5M2FNUZ) &&
    Agree(ElementType::kFloat8E8M0, DType::kFloat8E8M0));

// What a graph says of its inputs or outputs. Errors: kUnsupported for what arrays do not carry.
Result<std::vector<ArrayInfo>> Describe(const Graph& graph, std::span<const ValueId> ids,
                                        const char* what) {
  std::vector<ArrayInfo> infos;
  for (ValueId id : ids) {
    const Value& v = graph.value(id);
    if (!Carried(v.type))
      return Unsupported("{} {} is {}, which arrays do not carry", what, v.name, v.type.ToString());
    infos.push_back({v.name, static_cast<ElementType>(v.type.dtype), v.type.shape.sizes()});
  }
  return infos;
}

}  // namespace

bool Carried(const TensorType& type) {
  return type.is_tensor() && ElementBytes(static_cast<ElementType>(type.dtype)) > 0;
}

Result<size_t> BytesOf(ElementType type, std::span<const int64_t> shape) {
  const size_t element = ElementBytes(type);
  if (element == 0)
    return Fail(ErrorCode::kUsage, "element type {}, which arrays do not carry",
                static_cast<int>(type));
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; }))
    return Fail(ErrorCode::kUsage, "shape {}, expected sizes from 0 on", BracketedBriefly(shape));
  // A size of 0 makes no bytes, whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return size_t{0};
  const auto elements = CheckedProduct(shape);
  const auto bytes = elements ? CheckedMul(*elements, static_cast<int64_t>(element)) : std::nullopt;
  if (!bytes)
    return Fail(ErrorCode::kTooLarge, "shape {} is beyond what memory can hold",
                BracketedBriefly(shape));
  return static_cast<size_t>(*bytes);
}

Result<std::span<const std::byte>> CallersBytes(ElementType type, std::span<const int64_t> shape,
                                                const void* data) {
  EVOQ_ASSIGN(const size_t bytes, BytesOf(type, shape));
  if (bytes > 0 && data == nullptr) return Fail(ErrorCode::kUsage, "{} bytes without data", bytes);
  if (reinterpret_cast<uintptr_t>(data) % ElementBytes(type) != 0)
    return Fail(ErrorCode::kUsage, "its data is not aligned to {} bytes", ElementBytes(type));
  return std::span(static_cast<const std::byte*>(data), bytes);
}

Result<ModelInterface> ModelInterface::Of(const Graph& graph, const std::string& path) {
  // Files need not say the types of outputs.
  Graph typed = graph;
  const std::vector<ValueId> outputs(typed.outputs().begin(), typed.outputs().end());
  if (std::any_of(outputs.begin(), outputs.end(),
                  [&](ValueId id) { return typed.value(id).type.dtype == DType::kUndefined; }))
    EVOQ_TRY(WithContext(InferTypes(typed, *LibraryParts().evaluator), path));
  ModelInterface model;
  EVOQ_ASSIGN(model.inputs, WithContext(Describe(typed, typed.inputs(), "input"), path));
  EVOQ_ASSIGN(model.outputs, WithContext(Describe(typed, outputs, "output"), path));
  return model;
}

Status ModelInterface::Check(std::span<const ArrayView> arrays) const {
  if (arrays.size() != inputs.size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", arrays.size(), inputs.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& info = inputs[i];
    const ArrayView& a = arrays[i];
    if (a.type != info.type)
      return Fail(ErrorCode::kUsage, "input {}: element type {}, expected {}", info.name,
                  static_cast<int>(a.type), static_cast<int>(info.type));
    const auto bytes = BytesOf(a.type, a.shape);
    if (!bytes) return WithContext(Status(tl::unexpected(bytes.error())), "input " + info.name);
    if (*bytes != a.bytes.size())
      return Fail(ErrorCode::kUsage, "input {}: {} bytes for shape {}, expected {}", info.name,
                  a.bytes.size(), BracketedBriefly(a.shape), *bytes);
    EVOQ_CHECK(reinterpret_cast<uintptr_t>(a.bytes.data()) % ElementBytes(a.type) == 0);
    if (a.type != ElementType::kBool) continue;
    const auto bad =
        std::find_if(a.bytes.begin(), a.bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != a.bytes.end())
      return Fail(ErrorCode::kUsage, "input {}: byte {} of a bool array is {}, expected 0 or 1",
                  info.name, bad - a.bytes.begin(), static_cast<int>(*bad));
  }
  return {};
}

std::vector<Tensor> TensorsOf(std::span<const TensorType> types, std::span<const ArrayView> arrays,
                              std::shared_ptr<const void> owner) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    TensorType type = types[i];
    type.shape = Shape(std::vector<int64_t>(arrays[i].shape.begin(), arrays[i].shape.end()));
    static constexpr std::byte kEmpty{};
    const std::byte* const data = arrays[i].bytes.data();
    tensors.push_back(Tensor::View(std::move(type), data != nullptr ? data : &kEmpty, owner));
  }
  return tensors;
}

Status CopyOutputs(std::span<const Tensor> values, const std::vector<ArrayInfo>& infos,
                   std::vector<Array>& to) {
  to.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Carried(values[i].type()))
      return Unsupported("output {} is {}, which arrays do not carry", infos[i].name,
                         values[i].type().ToString());
    Array& a = to[i];
    a.type = static_cast<ElementType>(values[i].dtype());
    a.shape = values[i].sizes();
    a.bytes.assign(values[i].raw(), values[i].raw() + values[i].bytes());
  }
  return {};
}

}  // namespace evoq
