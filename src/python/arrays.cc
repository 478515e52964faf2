#include "python/arrays.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace evoq {
namespace nb = nanobind;
namespace {

using Code = nb::dlpack::dtype_code;

// A type that numpy itself has, as DLPack says it.
struct PlainType {
  DType dtype;
  Code code;
  uint8_t bits;
  const char* numpy;
};
constexpr PlainType kPlain[] = {
    {DType::kFloat32, Code::Float, 32, "float32"}, {DType::kFloat64, Code::Float, 64, "float64"},
    {DType::kFloat16, Code::Float, 16, "float16"}, {DType::kInt8, Code::Int, 8, "int8"},
    {DType::kInt16, Code::Int, 16, "int16"},       {DType::kInt32, Code::Int, 32, "int32"},
    {DType::kInt64, Code::Int, 64, "int64"},       {DType::kUint8, Code::UInt, 8, "uint8"},
    {DType::kUint16, Code::UInt, 16, "uint16"},    {DType::kUint32, Code::UInt, 32, "uint32"},
    {DType::kUint64, Code::UInt, 64, "uint64"},    {DType::kBool, Code::Bool, 8, "bool"},
};

// A type of the package ml_dtypes.
struct ExtendedType {
  DType dtype;
  const char* name;
  std::optional<Code> code;  // where DLPack carries it with one element per byte or more
};
constexpr ExtendedType kExtended[] = {
    {DType::kBfloat16, "bfloat16", Code::Bfloat},
    {DType::kFloat8E4M3FN, "float8_e4m3fn", Code::Float8_E4M3FN},
    {DType::kFloat8E4M3FNUZ, "float8_e4m3fnuz", Code::Float8_E4M3FNUZ},
    {DType::kFloat8E5M2, "float8_e5m2", Code::Float8_E5M2},
    {DType::kFloat8E5M2FNUZ, "float8_e5m2fnuz", Code::Float8_E5M2FNUZ},
    {DType::kFloat8E8M0, "float8_e8m0fnu", Code::Float8_E8M0FNU},
    {DType::kFloat4E2M1, "float4_e2m1fn", std::nullopt},
    {DType::kInt4, "int4", std::nullopt},
    {DType::kUint4, "uint4", std::nullopt},
    {DType::kInt2, "int2", std::nullopt},
    {DType::kUint2, "uint2", std::nullopt},
};

std::optional<DType> FromDlpack(nb::dlpack::dtype type) {
  if (type.lanes != 1) return std::nullopt;
  for (const PlainType& row : kPlain) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits) return row.dtype;
  }
  for (const ExtendedType& row : kExtended) {
    if (row.code && static_cast<uint8_t>(*row.code) == type.code &&
        DTypeBits(row.dtype) == type.bits)
      return row.dtype;
  }
  return std::nullopt;
}

const PlainType* FindPlain(DType dtype) {
  const auto it = std::find_if(std::begin(kPlain), std::end(kPlain),
                               [&](const PlainType& row) { return row.dtype == dtype; });
  return it == std::end(kPlain) ? nullptr : it;
}

const ExtendedType* FindExtended(DType dtype) {
  const auto it = std::find_if(std::begin(kExtended), std::end(kExtended),
                               [&](const ExtendedType& row) { return row.dtype == dtype; });
  return it == std::end(kExtended) ? nullptr : it;
}

// The dtype that an array with a numpy dtype of ml_dtypes has.
std::optional<DType> ExtendedDType(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value.attr("dtype"), "name"))
    return std::nullopt;
  const std::string name = nb::cast<std::string>(nb::str(value.attr("dtype").attr("name")));
  for (const ExtendedType& row : kExtended) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

bool IsArray(nb::handle value) {
  return nb::hasattr(value, "dtype") || nb::hasattr(value, "__dlpack__") ||
         (PyObject_CheckBuffer(value.ptr()) && !nb::isinstance<nb::bytes>(value));
}

nb::object Numpy(const char* what) { return nb::module_::import_("numpy").attr(what); }

std::string TypeName(nb::handle value) {
  return nb::cast<std::string>(nb::str(value.type().attr("__name__")));
}

// Owns a tensor for as long as an array refers to its memory.
nb::capsule Owner(const Tensor& tensor) {
  return nb::capsule(new Tensor(tensor), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
}

nb::object Array(const void* data, const std::vector<int64_t>& sizes, Code code, uint8_t bits,
                 const nb::capsule& owner) {
  const std::vector<size_t> shape(sizes.begin(), sizes.end());
  const nb::dlpack::dtype type{static_cast<uint8_t>(code), bits, 1};
  return nb::cast(nb::ndarray<nb::numpy>(const_cast<void*>(data), shape.size(), shape.data(), owner,
                                         nullptr, type, nb::device::cpu::value));
}

nb::object StringsToPython(const Tensor& tensor) {
  nb::list items;
  for (const std::string& s : tensor.values<std::string>())
    items.append(nb::bytes(s.data(), s.size()).attr("decode")("utf-8", "surrogateescape"));
  const nb::object flat = Numpy("empty")(tensor.elements(), nb::arg("dtype") = "object");
  if (tensor.elements() > 0)
    flat.attr("__setitem__")(nb::slice(nb::none(), nb::none(), nb::none()), items);
  return flat.attr("reshape")(nb::cast(tensor.sizes()));
}

Result<nb::object> ExtendedToPython(const Tensor& tensor, const ExtendedType& row) {
  nb::object type;
  try {
    type = nb::module_::import_("ml_dtypes").attr(row.name);
  } catch (const nb::python_error&) {
    return Unsupported("{} is no type of numpy: install the package ml_dtypes",
                       DTypeName(tensor.dtype()));
  }
  const int bits = DTypeBits(tensor.dtype());
  if (bits >= 8) {
    return Array(tensor.raw(), tensor.sizes(), Code::UInt, static_cast<uint8_t>(bits),
                 Owner(tensor))
        .attr("view")(type);
  }
  Tensor bytes = Tensor::Allocate(TensorType(DType::kInt8, tensor.shape()));
  int8_t* out = bytes.mutable_data<int8_t>();
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const int value = PackedBits(tensor.raw(), i, bits);
    const bool negative =
        IsInteger(tensor.dtype()) && IsSigned(tensor.dtype()) && value >= 1 << (bits - 1);
    out[i] = static_cast<int8_t>(negative ? value - (1 << bits) : value);
  }
  const nb::object unpacked = Array(bytes.raw(), bytes.sizes(), Code::Int, 8, Owner(bytes));
  return unpacked.attr(IsInteger(tensor.dtype()) ? "astype" : "view")(type);
}

// Whether it is numpy's, of numbers whose bytes stand in another order than this machine's.
bool IsOfForeignOrder(nb::handle array) {
  return nb::hasattr(array, "astype") && nb::hasattr(array, "dtype") &&
         nb::hasattr(array.attr("dtype"), "isnative") &&
         !nb::cast<bool>(array.attr("dtype").attr("isnative"));
}

// Numbers and nested lists of them as an array. Errors: kUsage, also where a whole number or a bool
// would become another one.
Result<nb::object> FromNumbers(nb::handle value, DType dtype, const std::string& name) {
  const PlainType* const plain = FindPlain(dtype);
  if (plain == nullptr || value.is_none())
    return Fail(ErrorCode::kUsage, "input {}: {} given, expected an array of {}", name,
                value.is_none() ? "None" : TypeName(value), DTypeName(dtype));
  const auto is_no = [&](const std::string& why) {
    return Fail(ErrorCode::kUsage, "input {}: {} is no array of {}: {}", name, TypeName(value),
                plain->numpy, why);
  };
  try {
    const nb::object array = Numpy("asarray")(value, nb::arg("dtype") = plain->numpy);
    const nb::object given = Numpy("asarray")(value);
    const auto kind = nb::cast<std::string>(given.attr("dtype").attr("kind"));
    if (kind.find_first_of("biuf") == std::string::npos) return is_no("an element is no number");
    if (!IsFloat(dtype) && !nb::cast<bool>(Numpy("array_equal")(array, given)))
      return is_no("it has other numbers");
    return array;
  } catch (const nb::python_error& e) {
    return is_no(nb::cast<std::string>(nb::str(e.value())));
  }
}

bool HasOtherBools(const Tensor& t) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(t.raw());
  return std::any_of(bytes, bytes + t.bytes(), [](uint8_t b) { return b > 1; });
}

// The same elements as true and false proper.
Tensor CleanBools(const Tensor& t) {
  Tensor clean = Tensor::Allocate(t.type());
  for (size_t i = 0; i < t.bytes(); ++i)
    clean.mutable_raw()[i] = static_cast<std::byte>(t.raw()[i] != std::byte{0});
  return clean;
}

}  // namespace

// A view of the array's memory, which `kept_` keeps alive.
Result<Tensor> ArrayInputs::Point(nb::ndarray<nb::ro> array, DType dtype, const std::string& name) {
  const std::vector<int64_t> sizes(array.shape_ptr(), array.shape_ptr() + array.ndim());
  const TensorType type(dtype, Shape(sizes));
  if (!type.bytes()) return Fail(ErrorCode::kTooLarge, "input {}: {} elements", name, array.size());
  static constexpr std::byte kNothing{};
  const auto* data = static_cast<const std::byte*>(array.data());
  Tensor t = Tensor::View(type, data == nullptr ? &kNothing : data, nullptr);
  const size_t element = static_cast<size_t>(DTypeBits(dtype) / 8);
  if (reinterpret_cast<uintptr_t>(t.raw()) % element != 0) {
    Tensor copy = Tensor::Allocate(type);
    if (t.bytes() > 0) std::memcpy(copy.mutable_raw(), t.raw(), t.bytes());
    t = std::move(copy);
  }
  kept_.push_back(std::move(array));
  return dtype == DType::kBool && HasOtherBools(t) ? CleanBools(t) : t;
}

Result<Tensor> ArrayInputs::TakeStrings(nb::handle value, const std::string& name) {
  const nb::object array = Numpy("asarray")(value, nb::arg("dtype") = "object");
  const auto sizes = nb::cast<std::vector<int64_t>>(nb::list(array.attr("shape")));
  Tensor t = Tensor::Allocate(TensorType(DType::kString, Shape(sizes)));
  int64_t i = 0;
  for (nb::handle item : array.attr("ravel")()) {
    std::string& out = t.mutable_data<std::string>()[i++];
    if (nb::isinstance<nb::bytes>(item)) {
      const auto bytes = nb::borrow<nb::bytes>(item);
      out.assign(bytes.c_str(), bytes.size());
    } else if (nb::isinstance<nb::str>(item)) {
      try {
        const auto bytes = nb::borrow<nb::bytes>(item.attr("encode")("utf-8", "surrogateescape"));
        out.assign(bytes.c_str(), bytes.size());
      } catch (const nb::python_error& e) {
        return Fail(ErrorCode::kUsage, "input {}: an element is no text: {}", name,
                    nb::cast<std::string>(nb::str(e.value())));
      }
    } else {
      return Fail(ErrorCode::kUsage, "input {}: an element is {}, expected str", name,
                  TypeName(item));
    }
  }
  return t;
}

// Arrays whose dtype numpy gets from ml_dtypes: neither buffers nor DLPack carry them.
Result<Tensor> ArrayInputs::TakeExtended(nb::handle value, DType dtype, const std::string& name) {
  const int bits = DTypeBits(dtype);
  const bool packed = bits < 8 && IsInteger(dtype);
  const nb::object flat =
      Numpy("ascontiguousarray")(packed ? value.attr("astype")("int8") : nb::borrow(value));
  // ascontiguousarray makes a scalar a vector of one.
  const nb::object bytes = (packed ? flat : flat.attr("view")(bits == 16 ? "uint16" : "uint8"))
                               .attr("reshape")(value.attr("shape"));
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(bytes, array))
    return Fail(ErrorCode::kInternal, "input {}: its bytes cannot be read", name);
  if (bits >= 8) return Point(std::move(array), dtype, name);
  std::vector<int64_t> sizes(array.shape_ptr(), array.shape_ptr() + array.ndim());
  Tensor t = Tensor::Allocate(TensorType(dtype, Shape(sizes)));
  const auto* from = static_cast<const int8_t*>(array.data());
  for (int64_t i = 0; i < t.elements(); ++i) SetPackedBits(t.mutable_raw(), i, bits, from[i]);
  return t;
}

Result<Tensor> ArrayInputs::TakeTensor(nb::handle value, const TensorType& type,
                                       const std::string& name) {
  if (type.dtype == DType::kString) return TakeStrings(value, name);
  nb::object object = nb::borrow(value);
  if (!IsArray(value)) {
    EVOQ_ASSIGN(object, FromNumbers(value, type.dtype, name));
  } else if (IsOfForeignOrder(value)) {
    object = value.attr("astype")(value.attr("dtype").attr("newbyteorder")("="));
  }
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> array;
  if (nb::try_cast(object, array)) {
    const auto dtype = FromDlpack(array.dtype());
    if (!dtype)
      return Fail(ErrorCode::kUsage, "input {}: an array of a type that ONNX does not have", name);
    return Point(nb::ndarray<nb::ro>(array), *dtype, name);
  }
  if (const auto dtype = ExtendedDType(object)) return TakeExtended(object, *dtype, name);
  return Fail(ErrorCode::kUsage, "input {}: {} is no array of numbers in this machine's memory",
              name, TypeName(value));
}

Result<Tensor> ArrayInputs::Take(nb::handle value, const TensorType& type,
                                 const std::string& name) {
  if (type.is_tensor()) {
    EVOQ_ASSIGN(Tensor t, TakeTensor(value, type, name));
    if (type.dtype != DType::kUndefined && t.dtype() != type.dtype)
      return Fail(ErrorCode::kUsage, "input {}: {} given, expected {}", name, t.type().ToString(),
                  type.ToString());
    if (type.quantized()) return t.WithType(TensorType(t.dtype(), t.shape(), *type.quant));
    return t;
  }
  std::vector<Tensor> items;
  TensorType item_type = TensorType(type.dtype, type.shape);
  if (type.kind == ValueKind::kSequence) {
    if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value))
      return Fail(ErrorCode::kUsage, "input {}: {} given, expected a list of arrays", name,
                  TypeName(value));
    for (nb::handle item : nb::borrow<nb::iterable>(value)) {
      EVOQ_ASSIGN(Tensor t, Take(item, item_type, name));
      items.push_back(std::move(t));
    }
  } else if (!value.is_none()) {
    if (type.kind == ValueKind::kOptionalSequence)
      item_type = TensorType::In(ValueKind::kSequence, type.dtype, type.shape);
    EVOQ_ASSIGN(Tensor t, Take(value, item_type, name));
    items.push_back(std::move(t));
  }
  return Tensor::Of(type.kind, TensorType(type.dtype, Shape::UnknownRank()), std::move(items));
}

Result<nb::object> ToPython(const Tensor& tensor) {
  if (!tensor.type().is_tensor()) {
    if (tensor.type().kind != ValueKind::kSequence)
      return tensor.items().empty() ? nb::object(nb::none()) : ToPython(tensor.items()[0]);
    nb::list items;
    for (const Tensor& item : tensor.items()) {
      EVOQ_ASSIGN(const nb::object array, ToPython(item));
      items.append(array);
    }
    return nb::object(items);
  }
  if (tensor.dtype() == DType::kString) return StringsToPython(tensor);
  if (const PlainType* row = FindPlain(tensor.dtype()))
    return Array(tensor.raw(), tensor.sizes(), row->code, row->bits, Owner(tensor));
  if (const ExtendedType* row = FindExtended(tensor.dtype())) return ExtendedToPython(tensor, *row);
  return Unsupported("numpy has no {}", DTypeName(tensor.dtype()));
}

}  // namespace evoq
