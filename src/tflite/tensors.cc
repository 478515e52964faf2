#include "tflite/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "base/math.h"
#include "tensor/permute.h"
#include "tflite/sparsity.h"

namespace evoq::tflite {
namespace {

// By the schema's numbers of types: how the file stores elements, and how evoq does.
struct TypeRow {
  const char* name;
  DType stored = DType::kUndefined;  // kUndefined: not read
  DType dtype = DType::kUndefined;
  Elements elements = Elements::kReal;
};
constexpr TypeRow kTypes[] = {
    {"FLOAT32", DType::kFloat32, DType::kFloat32},
    {"FLOAT16", DType::kFloat16, DType::kFloat32},
    {"INT32", DType::kInt32, DType::kInt32},
    {"UINT8", DType::kUint8, DType::kUint8},
    {"INT64", DType::kInt64, DType::kInt64},
    {"STRING"},
    {"BOOL", DType::kBool, DType::kBool},
    {"INT16", DType::kInt16, DType::kInt16},
    {"COMPLEX64", DType::kFloat32, DType::kFloat32, Elements::kComplex},
    {"INT8", DType::kInt8, DType::kInt8},
    {"FLOAT64", DType::kFloat64, DType::kFloat64},
    {"COMPLEX128"},
    {"UINT64", DType::kUint64, DType::kUint64},
    {"RESOURCE", DType::kUndefined, DType::kUndefined, Elements::kResource},
    {"VARIANT"},
    {"UINT32", DType::kUint32, DType::kUint32},
    {"UINT16", DType::kUint16, DType::kUint16},
    {"INT4", DType::kInt4, DType::kInt8},
    {"BFLOAT16", DType::kBfloat16, DType::kFloat32},
    {"INT2", DType::kInt2, DType::kInt8},
    {"UINT4", DType::kUint4, DType::kUint8},
};

// In place of a scale of 0, that of weights which are all 0: all of the integers mean 0.
constexpr float kNoScale = 1e-30f;

// Files may be written with elements of 8 bytes at any multiple of 4.
int64_t ZeroPoint(const fb::Quantization& q, unsigned i) {
  int64_t value;
  std::memcpy(&value, q.zero_point()->Data() + i * sizeof(value), sizeof(value));
  return flatbuffers::EndianScalar(value);
}

// The numbers of the tensor that holds the scales of blocks.
Result<std::vector<float>> BlockScales(const File& file, const fb::Tensor& tensor) {
  EVOQ_ASSIGN(const TensorFacts facts, FactsOf(file, tensor, 0));
  EVOQ_ASSIGN(const Tensor constant, ConstantOf(file, tensor, facts));
  EVOQ_ASSIGN(const Tensor reals, ToFloat32(constant));
  return std::vector<float>(reals.data<float>(), reals.data<float>() + reals.elements());
}

// Along the axis where there are fewer scales than elements.
Status AddBlocks(const File& file, const fb::details::BlockwiseQuantization& q,
                 TensorFacts& facts) {
  if (!IsInteger(facts.dtype) || DTypeBits(facts.dtype) > 8)
    return Unsupported("scales by block of {}", DTypeName(facts.dtype));
  if (q.zero_points() >= 0) return Unsupported("zero points by block");
  const auto* tensors = file.graph().tensors();
  if (q.scales() < 0 || static_cast<size_t>(q.scales()) >= tensors->size())
    return InvalidInput("its scales are tensor {} of {}", q.scales(), tensors->size());
  const fb::Tensor& table = *tensors->Get(static_cast<unsigned>(q.scales()));
  if (table.quantization() != nullptr && table.quantization()->details_type() != 0)
    return InvalidInput("its scales have scales by block");
  QuantParams quant;
  EVOQ_ASSIGN(quant.scales, WithContext(BlockScales(file, table), "its scales"));
  std::vector<int64_t> sizes;
  for (unsigned d = 0; table.shape() != nullptr && d < table.shape()->size(); ++d)
    sizes.push_back(table.shape()->Get(d));
  for (size_t d = 0; d < facts.sizes.size() && sizes.size() == facts.sizes.size(); ++d) {
    if (sizes[d] != facts.sizes[d]) quant.axis = static_cast<int>(d);
  }
  quant.block = q.block_size();
  std::vector<int64_t> expected = facts.sizes;
  if (quant.axis >= 0 && quant.block > 0)
    expected[static_cast<size_t>(quant.axis)] =
        CeilDiv(expected[static_cast<size_t>(quant.axis)], quant.block);
  if (quant.axis < 0 || quant.block < 1 || sizes != expected)
    return InvalidInput("scales {} by blocks of {}, the tensor is {}", Shape(sizes).ToString(),
                        quant.block, Shape(facts.sizes).ToString());
  for (float& scale : quant.scales) {
    if (!(scale >= 0) || !std::isfinite(scale)) return InvalidInput("the scale {}", scale);
    if (scale == 0) scale = kNoScale;
  }
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(quant.scales.size()) * 8, "scales"));
  quant.zero_points.assign(quant.scales.size(), 0);
  facts.quant = std::move(quant);
  return {};
}

Status AddScales(const File& file, const fb::Quantization& q, TensorFacts& facts) {
  if (const auto* blocks = q.details_as_Blockwise()) return AddBlocks(file, *blocks, facts);
  if (q.details_type() != 0) return Unsupported("scales of a custom kind");
  if (q.scale() == nullptr || q.scale()->size() == 0) return {};
  const size_t scales = q.scale()->size(),
               zeros = q.zero_point() == nullptr ? 0 : q.zero_point()->size();
  if (zeros != 0 && zeros != 1 && zeros != scales)
    return InvalidInput("{} zero points for {} scales", zeros, scales);
  if (!IsInteger(facts.dtype)) return {};
  if (scales > 1) {
    const int axis = q.quantized_dimension();
    if (axis < 0 || axis >= facts.rank() ||
        facts.sizes[static_cast<size_t>(axis)] != static_cast<int64_t>(scales))
      return InvalidInput("{} scales along axis {}, the tensor is {}", scales, axis,
                          Shape(facts.sizes).ToString());
  }
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(scales) * 8, "scales"));
  if (DTypeBits(facts.dtype) > 16) {
    facts.bias_scales.assign(q.scale()->begin(), q.scale()->end());
    return {};
  }
  QuantParams quant;
  quant.axis = scales == 1 ? -1 : q.quantized_dimension();
  for (unsigned i = 0; i < scales; ++i) {
    const int64_t zero = zeros == 0 ? 0 : ZeroPoint(q, zeros == 1 ? 0 : i);
    if (zero < IntegerMin(facts.dtype) || zero > IntegerMax(facts.dtype))
      return InvalidInput("zero point {} of {}", zero, DTypeName(facts.dtype));
    const float scale = q.scale()->Get(i);
    if (!(scale >= 0) || !std::isfinite(scale)) return InvalidInput("the scale {}", scale);
    quant.scales.push_back(scale == 0 ? kNoScale : scale);
    quant.zero_points.push_back(static_cast<int32_t>(zero));
  }
  facts.quant = std::move(quant);
  return {};
}

// Integers of fewer than 8 bits, a byte each.
Tensor Unpacked(std::span<const std::byte> data, DType stored, Tensor to) {
  const int bits = DTypeBits(stored), shift = IsSigned(stored) ? 8 - bits : 0;
  for (int64_t i = 0; i < to.elements(); ++i) {
    const uint8_t value = PackedBits(data.data(), i, bits);
    to.mutable_raw()[i] =
        shift == 0 ? static_cast<std::byte>(value)
                   : static_cast<std::byte>(static_cast<int8_t>(value << shift) >> shift);
  }
  return to;
}

Tensor Widened(std::span<const std::byte> data, DType stored, Tensor to) {
  for (int64_t i = 0; i < to.elements(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, data.data() + 2 * i, sizeof(bits));
    to.mutable_data<float>()[i] =
        stored == DType::kFloat16 ? HalfToFloat(bits) : Bfloat16ToFloat(bits);
  }
  return to;
}

// The bytes of the dense constant: zeros where the sparse one has nothing.
Result<std::vector<std::byte>> DenseBytes(const fb::sparse::Sparsity& sparsity,
                                          std::span<const std::byte> data, const TensorFacts& facts,
                                          int64_t bytes) {
  const int bits = DTypeBits(facts.stored);
  const auto width = static_cast<size_t>(bits / 8);
  if (bits % 8 != 0) return Unsupported("a sparse constant of {}", DTypeName(facts.stored));
  if (facts.quant && std::ranges::any_of(facts.quant->zero_points, [](int z) { return z != 0; }))
    return Unsupported("a sparse constant whose zero point is not 0");
  if (bytes == 0) return std::vector<std::byte>();
  EVOQ_TRY(SpendMemory(bytes, "sparse constants"));
  EVOQ_ASSIGN(const std::vector<int64_t> places, DensePlaces(sparsity, facts.sizes));
  if (places.size() * width != data.size())
    return InvalidInput("{} bytes of data for {} elements of a sparse constant", data.size(),
                        places.size());
  std::vector<std::byte> dense(static_cast<size_t>(bytes));
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(dense.data() + static_cast<size_t>(places[i]) * width, data.data() + i * width,
                width);
  return dense;
}

template <typename T>
void PermuteAs(const Tensor& from, const std::vector<int64_t>& perm, Tensor& to) {
  const size_t rank = perm.size();
  const std::vector<int64_t> in = from.sizes(), out = to.sizes();
  std::vector<int64_t> strides(rank, 1), step(rank), at(rank, 0);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * in[d];
  for (size_t d = 0; d < rank; ++d) step[d] = strides[static_cast<size_t>(perm[d])];
  const auto* x = reinterpret_cast<const T*>(from.raw());
  auto* y = reinterpret_cast<T*>(to.mutable_raw());
  int64_t read = 0;
  for (int64_t i = 0; i < to.elements(); ++i) {
    y[i] = x[read];
    for (size_t d = rank; d-- > 0;) {
      read += step[d];
      if (++at[d] < out[d]) break;
      read -= step[d] * out[d];
      at[d] = 0;
    }
  }
}

}  // namespace

const char* ElementsName(Elements elements) {
  switch (elements) {
    case Elements::kReal: return "numbers";
    case Elements::kComplex: return "complex numbers";
    case Elements::kResource: return "a resource";
  }
  return "";
}

TensorType TensorFacts::type() const {
  std::vector<Dim> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0) {
      dims.push_back(sizes[i]);
    } else {
      dims.push_back(Dim::Symbolic(i == 0 ? "N" : fmt::format("{}_{}", name, i)));
    }
  }
  return quant ? TensorType(dtype, Shape(std::move(dims)), *quant)
               : TensorType(dtype, Shape(std::move(dims)));
}

Result<TensorFacts> FactsOf(const File& file, const fb::Tensor& tensor, size_t index) {
  TensorFacts facts;
  facts.name = TextOf(tensor.name());
  if (facts.name.empty()) facts.name = fmt::format("tensor_{}", index);
  const auto number = static_cast<size_t>(static_cast<uint8_t>(tensor.type()));
  if (number >= std::size(kTypes)) return Unsupported("element type number {}", number);
  facts.elements = kTypes[number].elements;
  if (kTypes[number].stored == DType::kUndefined && facts.elements == Elements::kReal)
    return Unsupported("elements of type {}", kTypes[number].name);
  facts.dtype = kTypes[number].dtype;
  facts.stored = kTypes[number].stored;
  facts.variable = tensor.is_variable();
  const auto* shape = tensor.shape_signature() != nullptr && tensor.shape_signature()->size() > 0
                          ? tensor.shape_signature()
                          : tensor.shape();
  for (unsigned d = 0; shape != nullptr && d < shape->size(); ++d) {
    if (shape->Get(d) < -1) return InvalidInput("size {} on axis {}", shape->Get(d), d);
    facts.sizes.push_back(shape->Get(d));
  }
  if (tensor.quantization() != nullptr && facts.elements == Elements::kReal)
    EVOQ_TRY(AddScales(file, *tensor.quantization(), facts));
  return facts;
}

Result<Tensor> ConstantOf(const File& file, const fb::Tensor& tensor, const TensorFacts& facts) {
  if (facts.elements != Elements::kReal)
    return Unsupported("a constant of {}", ElementsName(facts.elements));
  for (int64_t size : facts.sizes) {
    if (size < 0) return InvalidInput("a constant of an open size");
  }
  const TensorType type = facts.type();
  const auto bytes = TensorType(facts.stored, type.shape).bytes();
  if (!bytes) return Fail(ErrorCode::kTooLarge, "{} is too large", type.ToString());
  std::span<const std::byte> data = file.DataOf(tensor);
  std::vector<std::byte> dense;
  if (tensor.sparsity() != nullptr) {
    EVOQ_ASSIGN(dense, DenseBytes(*tensor.sparsity(), data, facts, *bytes));
    data = dense;
  }
  if (data.size() != static_cast<size_t>(*bytes))
    return InvalidInput("{} bytes of data, {} needs {}", data.size(), type.ToString(), *bytes);
  EVOQ_TRY(ValidateQuant(type));
  const auto alignment = static_cast<uintptr_t>(std::max(DTypeBits(facts.stored) / 8, 1));
  if (facts.stored == facts.dtype && facts.dtype != DType::kBool && !data.empty() &&
      dense.empty() && reinterpret_cast<uintptr_t>(data.data()) % alignment == 0)
    return Tensor::View(type, data.data(), file.owner);
  const auto copied = type.bytes();
  if (!copied) return Fail(ErrorCode::kTooLarge, "{} is too large", type.ToString());
  EVOQ_TRY(SpendMemory(*copied, "constants that are copied"));
  Tensor to = Tensor::Allocate(type);
  if (facts.half()) return Widened(data, facts.stored, std::move(to));
  if (facts.stored != facts.dtype) return Unpacked(data, facts.stored, std::move(to));
  if (!data.empty()) std::memcpy(to.mutable_raw(), data.data(), data.size());
  for (int64_t i = 0; facts.dtype == DType::kBool && i < to.elements(); ++i) {
    auto* byte = reinterpret_cast<uint8_t*>(to.mutable_raw()) + i;
    *byte = *byte != 0;
  }
  return to;
}

Result<Tensor> Permuted(const Tensor& from, const std::vector<int64_t>& perm) {
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(from.bytes()), "weights in another order"));
  Tensor to = Tensor::Allocate(PermutedAxes(from.type(), perm));
  switch (DTypeBits(from.dtype())) {
    case 8: PermuteAs<uint8_t>(from, perm, to); return to;
    case 16: PermuteAs<uint16_t>(from, perm, to); return to;
    case 32: PermuteAs<uint32_t>(from, perm, to); return to;
    case 64: PermuteAs<uint64_t>(from, perm, to); return to;
    default: return Unsupported("a {} in another order", from.type().ToString());
  }
}

}  // namespace evoq::tflite
