#include "data/idx.h"

#include "base/brief.h"
#include "base/file.h"
#include "base/math.h"
#include "base/text.h"
#include "data/zip.h"

namespace evoq {
namespace {

Status ParseIdx(IdxArray& array) {
  const auto byte = [&](size_t i) { return static_cast<int64_t>(array.bytes[i]); };
  if (array.bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    return InvalidInput("idx: byte 0: no idx magic");
  if (byte(2) != 8)
    return Unsupported("idx: element type 0x{:02x}, expected 0x08 (unsigned byte)", byte(2));
  const size_t rank = byte(3);
  array.offset = 4 + 4 * rank;
  if (rank < 1 || array.bytes.size() < array.offset)
    return InvalidInput("idx: {} dimensions in {} bytes", rank, array.bytes.size());
  for (size_t i = 4; i < array.offset; i += 4) {
    array.sizes.push_back(byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3));
  }
  const auto wanted = CheckedProduct(array.sizes);
  const int64_t left = array.bytes.size() - array.offset;
  if (!wanted || *wanted != left) {
    return InvalidInput("idx: {} bytes of data, expected {} for {}", left,
                        wanted ? std::to_string(*wanted) : "too many",
                        BracketedBriefly<int64_t>(array.sizes));
  }
  return {};
}

}  // namespace

Result<IdxArray> ReadIdx(const std::string& path) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  IdxArray array;
  if (bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b}) {
    Budget budget = Budget::ForFile(static_cast<int64_t>(bytes.size()));
    EVOQ_ASSIGN(array.bytes, WithContext(Gunzip(bytes, budget), path));
  } else {
    array.bytes.assign(bytes.begin(), bytes.end());
  }
  EVOQ_TRY(WithContext(ParseIdx(array), path));
  return array;
}

}  // namespace evoq
