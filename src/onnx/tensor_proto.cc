#include "onnx/tensor_proto.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/brief.h"
#include "base/budget_scope.h"
#include "base/math.h"
#include "base/text.h"

namespace evoq {
namespace {

// Names of the ONNX element types by number, for messages about those that evoq lacks.
constexpr const char* kOnnxTypeNames[] = {
    "undefined",      "float32",  "uint8",        "int8",           "uint16",
    "int16",          "int32",    "int64",        "string",         "bool",
    "float16",        "float64",  "uint32",       "uint64",         "complex64",
    "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
    "uint2",          "int2"};

Result<int64_t> ParseNumber(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return InvalidInput("external data: {} '{}', expected a number of bytes", key, text);
  return value;
}

Result<Tensor> FromExternal(const onnx::TensorProto& proto, const TensorType& type, int64_t bytes,
                            ExternalFiles* external) {
  if (external == nullptr) return InvalidInput("external data where none is allowed");
  std::string location;
  int64_t offset = 0, length = bytes;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      EVOQ_ASSIGN(offset, ParseNumber("offset", entry.value()));
    }
    if (entry.key() == "length") {
      EVOQ_ASSIGN(length, ParseNumber("length", entry.value()));
    }
  }
  if (length != bytes)
    return InvalidInput("external data of {} bytes, {} needs {}", length, type.ToString(), bytes);
  EVOQ_ASSIGN(const ExternalBytes piece, external->Read(location, offset, length));
  const bool aligned = reinterpret_cast<uintptr_t>(piece.bytes.data()) % 64 == 0;
  if (aligned && bytes > 0) return Tensor::View(type, piece.bytes.data(), piece.owner);
  EVOQ_TRY(SpendMemory(bytes, "external data that is copied"));  // pieces of a file may overlap
  Tensor t = Tensor::Allocate(type);
  if (bytes > 0) std::memcpy(t.mutable_raw(), piece.bytes.data(), bytes);
  return t;
}

// Copies a typed field of `expected` values, each stored as a T. The count is checked before memory
// is asked for.
template <typename T, typename Field>
Result<Tensor> FromField(const TensorType& type, const Field& field, int64_t expected) {
  if (field.size() != expected)
    return InvalidInput("{} values in its data field, {} needs {}", field.size(), type.ToString(),
                        expected);
  Tensor t = Tensor::Allocate(type);
  auto* y = reinterpret_cast<T*>(t.mutable_raw());
  for (int i = 0; i < field.size(); ++i) y[i] = static_cast<T>(field[i]);
  return t;
}

Result<Tensor> FromFields(const onnx::TensorProto& proto, const TensorType& type) {
  const int64_t n = *type.shape.elements();
  switch (type.dtype) {
    case DType::kFloat32: return FromField<float>(type, proto.float_data(), n);
    case DType::kFloat64: return FromField<double>(type, proto.double_data(), n);
    case DType::kInt64: return FromField<int64_t>(type, proto.int64_data(), n);
    case DType::kUint64: return FromField<uint64_t>(type, proto.uint64_data(), n);
    case DType::kUint32: return FromField<uint32_t>(type, proto.uint64_data(), n);
    case DType::kInt32: return FromField<int32_t>(type, proto.int32_data(), n);
    case DType::kInt16: return FromField<int16_t>(type, proto.int32_data(), n);
    case DType::kUint16:
    case DType::kFloat16:
    case DType::kBfloat16: return FromField<uint16_t>(type, proto.int32_data(), n);
    case DType::kBool:
    case DType::kInt8:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0:
    case DType::kUint8: return FromField<uint8_t>(type, proto.int32_data(), n);
    case DType::kFloat4E2M1:
    case DType::kInt4:
    case DType::kUint4:
      return FromField<uint8_t>(type, proto.int32_data(), CeilDiv(n, 2));  // two to a value
    case DType::kInt2:
    case DType::kUint2: return FromField<uint8_t>(type, proto.int32_data(), CeilDiv(n, 4));
    case DType::kString: {
      if (proto.string_data_size() != n)
        return InvalidInput("{} values in its data field, {} needs {}", proto.string_data_size(),
                            type.ToString(), n);
      Tensor t = Tensor::Allocate(type);
      std::copy(proto.string_data().begin(), proto.string_data().end(),
                t.mutable_data<std::string>());
      return t;
    }
    default: return Unsupported("element type {}", DTypeName(type.dtype));
  }
}

// Bytes of a bool other than 0 and 1 would be undefined behaviour when read as bool.
void NormalizeBools(Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  auto* bytes = reinterpret_cast<uint8_t*>(tensor.mutable_raw());
  for (int64_t i = 0; i < tensor.elements(); ++i) bytes[i] = bytes[i] != 0;
}

}  // namespace

Result<DType> DTypeFromProto(int number) {
  const auto dtype = DTypeFromOnnx(number);
  if (dtype && *dtype != DType::kUndefined) return *dtype;
  if (number > 0 && number < static_cast<int>(std::size(kOnnxTypeNames)))
    return Unsupported("element type {}, which evoq does not have", kOnnxTypeNames[number]);
  return InvalidInput("element type number {}, which ONNX does not have", number);
}

Result<Tensor> TensorFromProto(const onnx::TensorProto& proto, ExternalFiles* external) {
  if (proto.has_segment()) return Unsupported("a tensor in segments");
  EVOQ_ASSIGN(const DType dtype, DTypeFromProto(proto.data_type()));
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  for (int64_t d : dims) {
    if (d < 0)
      return InvalidInput("dimension {} in {}, expected sizes >= 0", d,
                          BracketedBriefly<int64_t>(dims));
  }
  const TensorType type(dtype, Shape(dims));
  const auto bytes = type.bytes();
  if (!bytes)
    return Fail(ErrorCode::kTooLarge, "{} has more elements than a file can hold", type.ToString());
  const bool field_only = dtype == DType::kString;
  if (field_only && (proto.has_raw_data() || proto.data_location() == onnx::TensorProto::EXTERNAL))
    return InvalidInput("strings outside their data field");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    EVOQ_ASSIGN(Tensor t, FromExternal(proto, type, *bytes, external));
    if (dtype == DType::kBool) {
      EVOQ_TRY(SpendMemory(*bytes, "external bools, which are copied"));
      t = t.Clone();
    }
    NormalizeBools(t);
    return t;
  }
  if (!proto.has_raw_data()) {
    EVOQ_ASSIGN(Tensor t, FromFields(proto, type));
    NormalizeBools(t);
    return t;
  }
  if (static_cast<int64_t>(proto.raw_data().size()) != *bytes)
    return InvalidInput("{} bytes of raw data, {} needs {}", proto.raw_data().size(),
                        type.ToString(), *bytes);
  Tensor t = Tensor::Allocate(type);
  if (*bytes > 0) std::memcpy(t.mutable_raw(), proto.raw_data().data(), *bytes);
  NormalizeBools(t);
  return t;
}

void TensorToProto(const Tensor& tensor, const std::string& name, onnx::TensorProto& proto) {
  EVOQ_CHECK(tensor.layout().empty(), "{} in layout {}", name, tensor.layout());
  proto.set_name(name);
  proto.set_data_type(static_cast<int>(tensor.dtype()));
  for (int64_t d : tensor.sizes()) proto.add_dims(d);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& s : tensor.values<std::string>()) proto.add_string_data(s);
    return;
  }
  proto.set_raw_data(tensor.raw(), tensor.bytes());
}

}  // namespace evoq
