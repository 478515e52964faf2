// A verifier of FlatBuffers tables by their reflection. The library's own (2.0.8) lets vectors of
// 64-bit numbers stand at odd places, and does not count what is reached along several ways.
#include <cstring>

#include "program/etm_tables.h"

namespace evoq {
namespace {

namespace fbs = flatbuffers;

constexpr int kMaxDepth = 32;
constexpr int64_t kTableBytes = 256, kStringBytes = 48;  // about what a graph keeps for one

// Bytes of a scalar, or of the offset to anything else.
int64_t WidthOf(fbs::ElementaryType type) {
  switch (type) {
    case fbs::ET_UTYPE:
    case fbs::ET_BOOL:
    case fbs::ET_CHAR:
    case fbs::ET_UCHAR: return 1;
    case fbs::ET_SHORT:
    case fbs::ET_USHORT: return 2;
    case fbs::ET_LONG:
    case fbs::ET_ULONG:
    case fbs::ET_DOUBLE: return 8;
    default: return 4;
  }
}

class TableVerifier {
 public:
  TableVerifier(std::span<const std::byte> bytes, const char* blob, Budget& budget)
      : bytes_(bytes), size_(static_cast<int64_t>(bytes.size())), blob_(blob), budget_(budget) {}

  Status Root(const fbs::TypeTable& type) {
    if (reinterpret_cast<uintptr_t>(bytes_.data()) % 8 != 0)
      return InvalidInput("blob '{}' does not stand at a multiple of 8 bytes", blob_);
    EVOQ_ASSIGN(const int64_t at, Target(0));
    return Table(at, type, 0);
  }

 private:
  tl::unexpected<Error> Bad(int64_t at, std::string_view what) const {
    return InvalidInput("blob '{}' is not a valid table: byte {}: {}", blob_, at, what);
  }
  template <typename T>
  T Get(int64_t at) const {
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }
  // `count` items of `width` bytes at `at`, aligned to their width; where none are, nothing is
  // read.
  Status Range(int64_t at, int64_t count, int64_t width) const {
    if (at > size_ || count > (size_ - at) / width) return Bad(at, "reaches past the end");
    if (count > 0 && at % width != 0) return Bad(at, "is not aligned");
    return {};
  }
  // Where the offset at `at`, which was checked, leads: to at least 4 bytes.
  Result<int64_t> Target(int64_t at) const {
    EVOQ_TRY(Range(at, 1, 4));
    const int64_t target = at + Get<uint32_t>(at);
    if (target == at) return Bad(at, "an offset of 0");
    EVOQ_TRY(Range(target, 1, 4));
    return target;
  }

  Status Table(int64_t at, const fbs::TypeTable& type, int depth) {
    if (depth > kMaxDepth) return Bad(at, "tables nested more than 32 deep");
    EVOQ_TRY(budget_.TakeMemory(kTableBytes, blob_));
    EVOQ_TRY(budget_.TakeWork(static_cast<int64_t>(type.num_elems) * 16, blob_));
    const int64_t layout = at - Get<int32_t>(at);
    if (layout < 0) return Bad(at, "its layout lies before the blob");
    EVOQ_TRY(Range(layout, 2, 2));
    const int64_t layout_bytes = Get<uint16_t>(layout), table_bytes = Get<uint16_t>(layout + 2);
    if (layout_bytes < 4 || layout_bytes % 2 != 0) return Bad(layout, "a bad layout");
    EVOQ_TRY(Range(layout, layout_bytes / 2, 2));
    if (table_bytes < 4 || table_bytes > size_ - at) return Bad(at, "reaches past the end");
    for (size_t i = 0; i < type.num_elems && 4 + 2 * static_cast<int64_t>(i) + 2 <= layout_bytes;
         ++i) {
      const int64_t offset = Get<uint16_t>(layout + 4 + 2 * static_cast<int64_t>(i));
      if (offset == 0) continue;
      const fbs::TypeCode code = type.type_codes[i];
      const int64_t width =
          code.is_repeating ? 4 : WidthOf(static_cast<fbs::ElementaryType>(code.base_type));
      if (offset < 4 || offset + width > table_bytes)
        return Bad(at, "a field outside of its table");
      EVOQ_TRY(Range(at + offset, 1, width));
      EVOQ_TRY(Field(at + offset, code, type, depth));
    }
    return {};
  }

  Status Field(int64_t at, fbs::TypeCode code, const fbs::TypeTable& type, int depth) {
    const auto base = static_cast<fbs::ElementaryType>(code.base_type);
    if (code.is_repeating == 0) return Item(at, base, code, type, depth);
    EVOQ_ASSIGN(const int64_t vector, Target(at));
    const int64_t count = Get<uint32_t>(vector), width = WidthOf(base);
    EVOQ_TRY(Range(vector + 4, count, width));
    EVOQ_TRY(budget_.TakeMemory(count * 8, blob_));
    if (base != fbs::ET_STRING && base != fbs::ET_SEQUENCE) return {};
    EVOQ_TRY(budget_.TakeWork(count * 8, blob_));
    for (int64_t i = 0; i < count; ++i) EVOQ_TRY(Item(vector + 4 + 4 * i, base, code, type, depth));
    return {};
  }

  // What stands at `at`: a scalar, or an offset to a string or a table.
  Status Item(int64_t at, fbs::ElementaryType base, fbs::TypeCode code, const fbs::TypeTable& type,
              int depth) {
    if (base == fbs::ET_STRING) {
      EVOQ_ASSIGN(const int64_t text, Target(at));
      const int64_t length = Get<uint32_t>(text);
      EVOQ_TRY(Range(text + 4, length + 1, 1));
      if (bytes_[static_cast<size_t>(text + 4 + length)] != std::byte{0})
        return Bad(text, "a string without its end");
      return budget_.TakeMemory(kStringBytes + length, blob_);
    }
    if (base != fbs::ET_SEQUENCE) return {};
    EVOQ_ASSIGN(const int64_t table, Target(at));
    return Table(table, *type.type_refs[code.sequence_ref](), depth + 1);
  }

  std::span<const std::byte> bytes_;
  int64_t size_;
  const char* blob_;
  Budget& budget_;
};

}  // namespace

Status VerifyTables(std::span<const std::byte> bytes, const fbs::TypeTable& root, const char* blob,
                    Budget& budget) {
  return TableVerifier(bytes, blob, budget).Root(root);
}

}  // namespace evoq
