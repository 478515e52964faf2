#include "llm/safetensors.h"

#include <filesystem>
#include <set>
#include <utility>

#include "base/budget_scope.h"
#include "base/file.h"
#include "base/json_file.h"
#include "base/math.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr size_t kSizeBytes = 8;
constexpr uint64_t kMaxHeader = uint64_t{64} << 20;
constexpr int64_t kJsonFootprint = 16;  // bytes of memory for a byte of JSON
constexpr size_t kMaxRank = 8;

// The format's names.
constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"F32", DType::kFloat32},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBfloat16},
    {"F64", DType::kFloat64},
    {"I8", DType::kInt8},
    {"U8", DType::kUint8},
    {"I16", DType::kInt16},
    {"U16", DType::kUint16},
    {"I32", DType::kInt32},
    {"U32", DType::kUint32},
    {"I64", DType::kInt64},
    {"U64", DType::kUint64},
    {"BOOL", DType::kBool},
    {"F8_E4M3", DType::kFloat8E4M3FN},
    {"F8_E5M2", DType::kFloat8E5M2},
};

Result<uint64_t> Offset(const json& offsets, size_t i) {
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[i].is_number_unsigned())
    return InvalidInput("data_offsets are not two numbers");
  return offsets[i].get<uint64_t>();
}

// `data`: the bytes behind the header.
Result<StoredTensor> Entry(const json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) return InvalidInput("not an object");
  StoredTensor tensor;
  const std::string dtype = JsonText(entry, "dtype");
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) tensor.dtype = type;
  }
  if (tensor.dtype == DType::kUndefined) {
    std::string names;
    for (const auto& [name, type] : kTypes) names += fmt::format(" {}", name);
    return Unsupported("dtype '{}', expected one of{}", dtype.substr(0, 100), names);
  }
  const json& shape = JsonArray(entry, "shape");
  if (!entry.contains("shape") || !entry["shape"].is_array() || shape.size() > kMaxRank)
    return InvalidInput("shape is not a list of at most {} sizes", kMaxRank);
  for (const json& size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX)
      return InvalidInput("shape holds {}", size.dump().substr(0, 40));
    tensor.sizes.push_back(size.get<int64_t>());
  }
  const auto elements = CheckedProduct(tensor.sizes);
  const auto bytes = elements ? CheckedMul(*elements, DTypeBits(tensor.dtype) / 8) : std::nullopt;
  if (!bytes) return Fail(ErrorCode::kTooLarge, "{} is too large", tensor.ToString());
  const json offsets = entry.value("data_offsets", json());
  EVOQ_ASSIGN(const uint64_t begin, Offset(offsets, 0));
  EVOQ_ASSIGN(const uint64_t end, Offset(offsets, 1));
  if (begin > end || end > data.size())
    return InvalidInput("bytes {} to {} of data that has {}", begin, end, data.size());
  if (end - begin != static_cast<uint64_t>(*bytes))
    return InvalidInput("{} in {} bytes, expected {}", tensor.ToString(), end - begin, *bytes);
  tensor.bytes = data.subspan(begin, end - begin);
  return tensor;
}

Result<StoredTensors> Read(const std::shared_ptr<const MappedFile>& file) {
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < kSizeBytes)
    return InvalidInput("{} bytes, too short for a safetensors file", bytes.size());
  uint64_t header = 0;
  for (size_t i = kSizeBytes; i-- > 0;) header = header << 8 | static_cast<uint64_t>(bytes[i]);
  if (header > bytes.size() - kSizeBytes)
    return InvalidInput("a header of {} bytes in a file of {}", header, bytes.size());
  if (header > kMaxHeader)
    return Fail(ErrorCode::kTooLarge, "a header of {} bytes, expected at most {}", header,
                kMaxHeader);
  EVOQ_TRY(SpendMemory(static_cast<int64_t>(header) * kJsonFootprint, "the header"));
  const std::span<const std::byte> data = bytes.subspan(kSizeBytes + header);
  EVOQ_ASSIGN(const json root,
              WithContext(ParseJson({reinterpret_cast<const char*>(bytes.data()) + kSizeBytes,
                                     static_cast<size_t>(header)}),
                          "header"));
  if (!root.is_object()) return InvalidInput("the header is not a JSON object");
  StoredTensors tensors;
  std::vector<Stretch> stretches;
  for (const auto& [name, entry] : root.items()) {
    if (name == "__metadata__") continue;
    const std::string place = "tensor " + name.substr(0, 200);
    EVOQ_ASSIGN(StoredTensor tensor, WithContext(Entry(entry, data), place));
    tensor.owner = file;
    const auto begin = static_cast<uint64_t>(tensor.bytes.data() - data.data());
    stretches.push_back({name, begin, begin + tensor.bytes.size()});
    tensors.emplace(name, std::move(tensor));
  }
  EVOQ_TRY(CheckStretches(std::move(stretches), data.size(), /*no_gaps=*/true));
  return tensors;
}

// A shard's name leads nowhere but into the folder.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

Result<StoredTensors> ReadShards(const std::string& folder, const std::string& index_path) {
  EVOQ_ASSIGN(const json index, ReadJsonFile(index_path, kMaxHeader));
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object())
    return InvalidInput("{}: no object weight_map", index_path);
  std::map<std::string, StoredTensors> shards;
  StoredTensors tensors;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !IsPlainName(shard.get<std::string>()))
      return InvalidInput("{}: tensor {} is in {}, expected the name of a file in the folder",
                          index_path, name.substr(0, 200), shard.dump().substr(0, 200));
    const auto file = shard.get<std::string>();
    auto read = shards.find(file);
    if (read == shards.end()) {
      EVOQ_ASSIGN(StoredTensors all, WithContext(ReadSafetensors(folder + "/" + file), index_path));
      read = shards.emplace(file, std::move(all)).first;
    }
    const auto found = read->second.find(name);
    if (found == read->second.end())
      return InvalidInput("{}: tensor {} is not in {}", index_path, name.substr(0, 200), file);
    tensors.insert(*found);
  }
  return tensors;
}

}  // namespace

Result<StoredTensors> ReadSafetensors(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  return WithContext(Read(file), path);
}

Result<StoredTensors> ReadSafetensorsFolder(const std::string& folder) {
  const std::string index = folder + "/model.safetensors.index.json",
                    whole = folder + "/model.safetensors";
  std::error_code error;
  if (std::filesystem::exists(index, error)) return ReadShards(folder, index);
  if (std::filesystem::exists(whole, error)) return ReadSafetensors(whole);
  return Fail(ErrorCode::kNotFound,
              "{}: neither model.safetensors nor model.safetensors.index.json", folder);
}

}  // namespace evoq
