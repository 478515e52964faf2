// The layout is that of ggml's page on GGUF.
#include "llm/gguf.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/budget_scope.h"
#include "base/file.h"
#include "base/math.h"
#include "base/printable.h"
#include "llm/block_format.h"

namespace evoq {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxText = uint64_t{1} << 28, kMaxName = 4096, kMaxTensors = 1 << 20,
                   kMaxFacts = 1 << 16;
constexpr uint64_t kDefaultAlignment = 32, kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxRank = 4;
constexpr int64_t kEntryFootprint = 512;  // bytes of memory for a fact or a tensor

// The file's numbers of types.
enum FactType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kTruth,
  kText,
  kList,
  kU64,
  kI64,
  kF64,
};

// ggml's numbers of plain element types.
constexpr std::pair<uint32_t, DType> kPlain[] = {
    {0, DType::kFloat32}, {1, DType::kFloat16}, {24, DType::kInt8},    {25, DType::kInt16},
    {26, DType::kInt32},  {27, DType::kInt64},  {28, DType::kFloat64}, {30, DType::kBfloat16},
};

// Reads forward; every read is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  template <typename T>
  Result<T> Take() {
    if (left() < sizeof(T)) return InvalidInput("the file ends at byte {}", bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  Result<std::string_view> TakeText(uint64_t most) {
    EVOQ_ASSIGN(const uint64_t size, Take<uint64_t>());
    if (size > most || size > left())
      return InvalidInput("a text of {} bytes at byte {}, expected at most {}", size, at_,
                          std::min<uint64_t>(most, left()));
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

// Calls use(T) for the C++ type of a number's type; false for other types.
template <typename Use>
bool WithNumber(uint32_t type, const Use& use) {
  switch (type) {
    case kU8: use(uint8_t{}); return true;
    case kI8: use(int8_t{}); return true;
    case kU16: use(uint16_t{}); return true;
    case kI16: use(int16_t{}); return true;
    case kU32: use(uint32_t{}); return true;
    case kI32: use(int32_t{}); return true;
    case kF32: use(float{}); return true;
    case kTruth: use(uint8_t{}); return true;
    case kU64: use(uint64_t{}); return true;
    case kI64: use(int64_t{}); return true;
    case kF64: use(double{}); return true;
    default: return false;
  }
}

Result<GgufValue> TakeList(Cursor& in) {
  EVOQ_ASSIGN(const uint32_t type, in.Take<uint32_t>());
  EVOQ_ASSIGN(const uint64_t count, in.Take<uint64_t>());
  if (type == kList) return Unsupported("a list of lists");
  size_t least = type == kText ? sizeof(uint64_t) : 0;
  WithNumber(type, [&](auto tag) { least = sizeof(tag); });
  if (least == 0) return InvalidInput("a list of the type {}, expected 0 to 12", type);
  if (count > in.left() / least)
    return InvalidInput("a list of {} items at byte {}, with {} bytes left", count, in.at(),
                        in.left());
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(count) * 16, "a list"));
  if (type == kText) {
    GgufValue::Texts texts;
    texts.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      EVOQ_ASSIGN(const std::string_view text, in.TakeText(kMaxText));
      texts.push_back(text);
    }
    return GgufValue{std::move(texts)};
  }
  GgufValue::Numbers numbers;
  numbers.reserve(count);
  WithNumber(type, [&](auto tag) {
    for (uint64_t i = 0; i < count; ++i)
      numbers.push_back(static_cast<double>(*in.Take<decltype(tag)>()));
  });
  return GgufValue{std::move(numbers)};
}

Result<GgufValue> TakeValue(Cursor& in, uint32_t type) {
  if (type == kList) return TakeList(in);
  if (type == kText) {
    EVOQ_ASSIGN(const std::string_view text, in.TakeText(kMaxText));
    return GgufValue{text};
  }
  Result<GgufValue> value = InvalidInput("the type {}, expected 0 to 12", type);
  WithNumber(type, [&](auto tag) {
    using T = decltype(tag);
    const Result<T> number = in.Take<T>();
    if (!number) {
      value = tl::unexpected(number.error());
    } else if (type == kTruth) {
      value = GgufValue{*number != 0};
    } else if constexpr (std::is_floating_point_v<T>) {
      value = GgufValue{static_cast<double>(*number)};
    } else if constexpr (std::is_signed_v<T>) {
      value = GgufValue{static_cast<int64_t>(*number)};
    } else {
      value = GgufValue{static_cast<uint64_t>(*number)};
    }
  });
  return value;
}

struct TensorInfo {
  std::string name;
  StoredTensor tensor;
  uint64_t offset = 0, bytes = 0;
};

// What ggml calls the types that are not read, of models that are in use.
std::string TypeName(uint32_t type) {
  constexpr std::pair<uint32_t, const char*> kNames[] = {{9, "Q8_1"},      {15, "Q8_K"},
                                                         {31, "Q4_0_4_4"}, {32, "Q4_0_4_8"},
                                                         {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}};
  for (const auto& [id, name] : kNames) {
    if (id == type) return name;
  }
  return fmt::format("{}", type);
}

// The types that are.
std::string ReadTypes() {
  std::string names = "F32, F16, BF16";
  for (const BlockFormat* format : AllBlockFormats()) names += fmt::format(", {}", format->name);
  return names;
}

// Type and sizes; how many bytes they take.
Result<uint64_t> BytesOf(StoredTensor& tensor, uint32_t type) {
  for (const auto& [id, dtype] : kPlain) {
    if (id == type) tensor.dtype = dtype;
  }
  tensor.blocks = FindBlockFormat(type);
  if (tensor.dtype == DType::kUndefined && tensor.blocks == nullptr)
    return Unsupported("ggml's tensor type {} is not supported, expected one of {}", TypeName(type),
                       ReadTypes());
  const auto elements = CheckedProduct(tensor.sizes);
  const int64_t width =
      tensor.blocks != nullptr ? tensor.blocks->bytes : DTypeBits(tensor.dtype) / 8;
  const int64_t per_block = tensor.blocks != nullptr ? tensor.blocks->elements : 1;
  const int64_t row = tensor.sizes.back();
  if (row % per_block != 0)
    return InvalidInput("{}: rows are no multiple of {} elements", tensor.ToString(), per_block);
  const auto bytes = elements ? CheckedMul(*elements / per_block, width) : std::nullopt;
  if (!bytes) return Fail(ErrorCode::kTooLarge, "{} is too large", tensor.ToString());
  return static_cast<uint64_t>(*bytes);
}

Status TakeInfo(Cursor& in, TensorInfo& info) {
  EVOQ_ASSIGN(const uint32_t rank, in.Take<uint32_t>());
  if (rank < 1 || rank > kMaxRank) return InvalidInput("rank {}, expected 1 to {}", rank, kMaxRank);
  for (uint32_t i = 0; i < rank; ++i) {
    EVOQ_ASSIGN(const uint64_t size, in.Take<uint64_t>());
    if (size < 1 || size > INT64_MAX) return InvalidInput("size {} on axis {}", size, i);
    info.tensor.sizes.insert(info.tensor.sizes.begin(), static_cast<int64_t>(size));
  }
  EVOQ_ASSIGN(const uint32_t type, in.Take<uint32_t>());
  EVOQ_ASSIGN(info.offset, in.Take<uint64_t>());
  EVOQ_ASSIGN(info.bytes, BytesOf(info.tensor, type));
  return {};
}

Status TakeFacts(Cursor& in, std::span<const std::byte> bytes, uint64_t count, GgufFile& out) {
  for (uint64_t i = 0; i < count; ++i) {
    const size_t begin = in.at();
    EVOQ_ASSIGN(const std::string_view key,
                WithContext(in.TakeText(kMaxName), fmt::format("key {}", i)));
    const std::string place = "fact " + std::string(key);
    EVOQ_ASSIGN(const uint32_t type, WithContext(in.Take<uint32_t>(), place));
    EVOQ_ASSIGN(GgufValue value, WithContext(TakeValue(in, type), place));
    if (!out.facts.emplace(key, std::move(value)).second)
      return InvalidInput("{} is there twice", place);
    if (key.starts_with("tokenizer.")) {
      out.tokenizer_facts.append(reinterpret_cast<const char*>(bytes.data()) + begin,
                                 in.at() - begin);
      ++out.tokenizer_count;
    }
  }
  return {};
}

// Scales of whole tensors beside their blocks (NVFP4's, BitNet's) go into these. Those of data are
// not used.
Status TakeFactors(StoredTensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    constexpr std::string_view kWeight = ".weight";
    if (tensor.blocks == nullptr || !name.ends_with(kWeight)) continue;
    const std::string stem = name.substr(0, name.size() - kWeight.size()), scale = stem + ".scale";
    tensors.erase(stem + ".input_scale");
    const auto found = tensors.find(scale);
    if (found == tensors.end()) continue;
    const StoredTensor& scales = found->second;
    const int64_t stack = tensor.sizes.size() == 3 ? tensor.sizes[0] : 1;
    const bool fits = scales.dtype == DType::kFloat32 && scales.sizes.size() == 1 &&
                      (scales.sizes[0] == 1 || scales.sizes[0] == stack);
    if (!fits)
      return InvalidInput("tensor {} is {}, expected float32[{}]", scale, scales.ToString(), stack);
    tensor.factors.resize(static_cast<size_t>(scales.sizes[0]));
    std::memcpy(tensor.factors.data(), scales.bytes.data(), scales.bytes.size());
    for (const float factor : tensor.factors) {
      if (!(factor > 0 && std::isfinite(factor)))
        return InvalidInput("tensor {} holds {}, expected positive numbers", scale, factor);
    }
    tensors.erase(found);
  }
  return {};
}

Result<GgufFile> Read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  if (!IsGguf(bytes)) return InvalidInput("does not begin with GGUF");
  Cursor in(bytes.subspan(kMagic.size()));
  const std::span<const std::byte> rest = bytes.subspan(kMagic.size());
  EVOQ_ASSIGN(const uint32_t version, in.Take<uint32_t>());
  if (version == 0x02000000 || version == 0x03000000) return Unsupported("big-endian GGUF");
  if (version != 2 && version != 3) return Unsupported("GGUF version {}, expected 2 or 3", version);
  EVOQ_ASSIGN(const uint64_t tensors, in.Take<uint64_t>());
  EVOQ_ASSIGN(const uint64_t facts, in.Take<uint64_t>());
  if (tensors > kMaxTensors || facts > kMaxFacts)
    return Fail(ErrorCode::kTooLarge, "{} tensors and {} facts, expected at most {} and {}",
                tensors, facts, kMaxTensors, kMaxFacts);
  if ((tensors + facts) * 12 > in.left())  // each takes more
    return InvalidInput("{} tensors and {} facts in {} bytes", tensors, facts, bytes.size());
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(tensors + facts) * kEntryFootprint, "the directory"));
  GgufFile out;
  out.owner = owner;
  EVOQ_TRY(TakeFacts(in, rest, facts, out));
  std::vector<TensorInfo> infos;
  for (uint64_t i = 0; i < tensors; ++i) {
    EVOQ_ASSIGN(const std::string_view name,
                WithContext(in.TakeText(kMaxName), fmt::format("tensor {}", i)));
    TensorInfo& info = infos.emplace_back();
    info.name = name;
    EVOQ_TRY(WithContext(TakeInfo(in, info), "tensor " + info.name));
  }
  uint64_t alignment = kDefaultAlignment;
  if (out.facts.contains("general.alignment")) {
    const auto given = out.Int("general.alignment");
    if (!given || *given < 1 || static_cast<uint64_t>(*given) > kMaxAlignment ||
        (*given & (*given - 1)) != 0)
      return InvalidInput("general.alignment is no power of two up to {}", kMaxAlignment);
    alignment = static_cast<uint64_t>(*given);
  }
  const uint64_t header = kMagic.size() + in.at(),
                 begin = (header + alignment - 1) / alignment * alignment;
  if (begin > bytes.size() && tensors > 0)
    return InvalidInput("the file ends at byte {}, before the data at {}", bytes.size(), begin);
  const std::span<const std::byte> data =
      begin > bytes.size() ? std::span<const std::byte>() : bytes.subspan(begin);
  std::vector<Stretch> stretches;
  for (TensorInfo& info : infos) {
    if (info.offset % alignment != 0)
      return InvalidInput("tensor {}: offset {} is no multiple of {}", info.name, info.offset,
                          alignment);
    if (info.offset > data.size() || info.bytes > data.size() - info.offset)
      return InvalidInput("tensor {}: {} bytes at {} of data that has {}", info.name, info.bytes,
                          info.offset, data.size());
    info.tensor.bytes = data.subspan(info.offset, info.bytes);
    info.tensor.owner = owner;
    stretches.push_back({info.name, info.offset, info.offset + info.bytes});
    if (!out.tensors.emplace(info.name, std::move(info.tensor)).second)
      return InvalidInput("tensor {} is there twice", info.name);
  }
  EVOQ_TRY(CheckStretches(std::move(stretches), data.size(), /*no_gaps=*/false));
  EVOQ_TRY(TakeFactors(out.tensors));
  return out;
}

template <typename T>
const T* Get(const GgufFile& file, std::string_view key) {
  const auto found = file.facts.find(key);
  return found == file.facts.end() ? nullptr : std::get_if<T>(&found->second.value);
}

}  // namespace

std::optional<int64_t> GgufFile::Int(std::string_view key) const {
  if (const auto* n = Get<int64_t>(*this, key)) return *n;
  const auto* n = Get<uint64_t>(*this, key);
  if (n == nullptr || *n > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(*n);
}

std::optional<double> GgufFile::Real(std::string_view key) const {
  if (const auto* x = Get<double>(*this, key)) return *x;
  const auto n = Int(key);
  return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
}

std::optional<bool> GgufFile::Truth(std::string_view key) const {
  const auto* b = Get<bool>(*this, key);
  return b == nullptr ? std::nullopt : std::optional(*b);
}

std::string GgufFile::Text(std::string_view key) const {
  const auto* text = Get<std::string_view>(*this, key);
  return text == nullptr ? "" : std::string(*text);
}

const GgufValue::Texts* GgufFile::Texts(std::string_view key) const {
  return Get<GgufValue::Texts>(*this, key);
}

const GgufValue::Numbers* GgufFile::Numbers(std::string_view key) const {
  return Get<GgufValue::Numbers>(*this, key);
}

bool IsGguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<GgufFile> ReadGguf(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  return WithContext(Read(file->bytes(), file), path);
}

Result<GgufFile> ParseGguf(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return Read(std::as_bytes(std::span(*owner)), owner);
}

std::string TokenizerGguf(const GgufFile& file) {
  const auto little = [](uint64_t n, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&n), bytes);
  };
  return std::string(kMagic) + little(3, 4) + little(0, 8) + little(file.tokenizer_count, 8) +
         file.tokenizer_facts;
}

}  // namespace evoq
