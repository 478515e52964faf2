#include "llm/llama2c.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/math.h"
#include "llm/architecture.h"

namespace evoq {
namespace {

constexpr uint32_t kMagic = 0x616b3432;  // "ak42"; version 0 begins with its first size
constexpr size_t kHeader0 = 28, kHeader1 = 256;

struct Header {
  int32_t version = 0;
  std::array<int32_t, 7> sizes = {};  // width, inner, layers, heads, kv heads, vocabulary, context
  bool shared = false;                // the head is the embedding
  size_t bytes = 0;
};

Result<Header> ReadHeader(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < kHeader0)
    return InvalidInput("{} bytes, too short for a header of llama2.c", bytes.size());
  uint32_t magic;
  std::memcpy(&magic, bytes.data(), sizeof(magic));
  if (magic == kMagic) {
    if (bytes.size() < kHeader1)
      return InvalidInput("{} bytes, expected a header of {}", bytes.size(), kHeader1);
    std::memcpy(&header.version, bytes.data() + 4, sizeof(header.version));
    if (header.version != 1)
      return Unsupported("version {} of llama2.c's format, expected 0 or 1", header.version);
    std::memcpy(header.sizes.data(), bytes.data() + 8, sizeof(header.sizes));
    header.shared = bytes[36] != std::byte{0};
    header.bytes = kHeader1;
  } else {
    std::memcpy(header.sizes.data(), bytes.data(), sizeof(header.sizes));
    header.shared = header.sizes[5] > 0;  // a head of its own makes the vocabulary negative
    if (header.sizes[5] != INT32_MIN) header.sizes[5] = std::abs(header.sizes[5]);
    header.bytes = kHeader0;
  }
  return header;
}

LanguageModel ModelOf(const Header& header) {
  const auto& s = header.sizes;
  const Architecture& row = *FindArchitecture("llama");
  LanguageModel m = StartOf(row);
  m.width = s[0];
  m.inner = s[1];
  m.layers = s[2];
  m.heads = s[3];
  m.kv_heads = s[4];
  m.vocabulary = s[5];
  m.context = s[6];
  m.head_size = m.heads > 0 ? m.width / m.heads : 0;
  m.rotated = m.head_size;
  m.epsilon = 1e-5f;
  m.interleaved = true;
  m.tied = header.shared;
  if (m.vocabulary > 2) {  // as its tokenizers have them
    m.begin = {1};
    m.end = {1, 2};
  }
  Complete(row, m);
  return m;
}

// A stretch of `layers` tensors of `sizes`, one behind the other; layers 0: one tensor, no layers.
struct Part {
  const char* name;  // "" for what the graph has in another way
  int64_t layers;
  std::vector<int64_t> sizes;
};

// In the order of the file. The sizes are checked.
std::vector<Part> PartsOf(const LanguageModel& m, int32_t version) {
  const int64_t d = m.width, q = m.heads * m.head_size, kv = m.kv_heads * m.head_size;
  const Part table = {"token_embd", 0, {m.vocabulary, d}}, norm1 = {"attn_norm", m.layers, {d}},
             norm2 = {"ffn_norm", m.layers, {d}}, norm3 = {"output_norm", 0, {d}};
  const Part attention[] = {{"attn_q", m.layers, {q, d}},
                            {"attn_k", m.layers, {kv, d}},
                            {"attn_v", m.layers, {kv, d}},
                            {"attn_output", m.layers, {d, q}}};
  const Part feed[] = {{"ffn_gate", m.layers, {m.inner, d}},
                       {"ffn_down", m.layers, {d, m.inner}},
                       {"ffn_up", m.layers, {m.inner, d}}};
  std::vector<Part> parts;
  const auto add = [&](std::span<const Part> more) {
    parts.insert(parts.end(), more.begin(), more.end());
  };
  if (version == 0) {
    add({{table, norm1}});
    add(attention);
    parts.push_back(norm2);
    add(feed);
    parts.push_back(norm3);
    const Part angles = {"", 0, {m.context, m.head_size / 2}};
    add({{angles, angles}});
  } else {
    add({{norm1, norm2, norm3, table}});
    add(attention);
    add(feed);
  }
  if (!m.tied) parts.push_back({"output", 0, {m.vocabulary, d}});
  return parts;
}

// The file's size by its header.
std::optional<int64_t> BytesOf(const std::vector<Part>& parts, size_t header) {
  auto bytes = std::optional(static_cast<int64_t>(header));
  for (const Part& part : parts) {
    auto size = CheckedProduct(part.sizes);
    if (size) size = CheckedMul(*size, std::max<int64_t>(part.layers, 1) * 4);
    bytes = size && bytes ? CheckedAdd(*bytes, *size) : std::nullopt;
  }
  return bytes;
}

}  // namespace

bool IsLlama2c(std::span<const std::byte> bytes) {
  const auto header = ReadHeader(bytes);
  if (!header) return header.error().code() == ErrorCode::kUnsupported;
  const LanguageModel model = ModelOf(*header);
  if (!CheckLanguageModel(model)) return false;
  const auto size = BytesOf(PartsOf(model, header->version), header->bytes);
  return size && static_cast<uint64_t>(*size) == bytes.size();
}

Result<Llama2c> ReadLlama2c(const std::string& path) {
  EVOQ_ASSIGN(const auto file, MappedFile::Open(path));
  EVOQ_ASSIGN(const Header header, WithContext(ReadHeader(file->bytes()), path));
  Llama2c out;
  out.model = ModelOf(header);
  EVOQ_TRY(WithContext(CheckLanguageModel(out.model), path));
  const std::vector<Part> parts = PartsOf(out.model, header.version);
  const auto size = BytesOf(parts, header.bytes);
  if (!size || static_cast<uint64_t>(*size) != file->bytes().size())
    return InvalidInput("{}: {} bytes, expected {} by its header", path, file->bytes().size(),
                        size ? std::to_string(*size) : "too many");
  size_t at = header.bytes;
  for (const Part& part : parts) {
    const auto bytes = static_cast<size_t>(*CheckedProduct(part.sizes)) * 4;
    for (int64_t layer = 0; layer < std::max<int64_t>(part.layers, 1); ++layer, at += bytes) {
      if (*part.name == '\0') continue;
      StoredTensor tensor;
      tensor.sizes = part.sizes;
      tensor.dtype = DType::kFloat32;
      tensor.bytes = file->bytes().subspan(at, bytes);
      tensor.owner = file;
      const std::string block = part.layers == 0 ? "" : fmt::format("blk.{}.", layer);
      out.tensors.emplace(fmt::format("{}{}.weight", block, part.name), std::move(tensor));
    }
  }
  return out;
}

}  // namespace evoq
