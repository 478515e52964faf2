#include "data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/brief.h"

namespace evoq {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50,
                   kDirectoryEnd = 0x06054b50;
constexpr uint32_t kDirectoryEnd64 = 0x06064b50, kDirectoryEnd64Locator = 0x07064b50;
// Deflate cannot shrink by more than this factor (zlib's technical notes): bounds what a header may
// claim.
constexpr int64_t kMaxDeflateRatio = 1032;

using Bytes = std::span<const std::byte>;

template <typename T>
T Little(Bytes bytes, size_t at) {  // the caller checked that it is inside
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

bool Inside(Bytes bytes, uint64_t at, uint64_t count) {
  return at <= bytes.size() && count <= bytes.size() - at;
}

struct Directory {
  uint64_t entries = 0, bytes = 0, offset = 0;
};

Result<Directory> FindDirectory(Bytes archive) {
  constexpr size_t kEndBytes = 22, kMaxComment = 65535;
  if (archive.size() < kEndBytes)
    return InvalidInput("zip: {} bytes, too short for an archive", archive.size());
  size_t at = archive.size() - kEndBytes;
  const size_t lowest = at - std::min(at, kMaxComment);
  while (Little<uint32_t>(archive, at) != kDirectoryEnd) {
    if (at == lowest)
      return InvalidInput(
          "zip: no end-of-directory record (the file is truncated or no zip archive)");
    --at;
  }
  Directory d{Little<uint16_t>(archive, at + 10), Little<uint32_t>(archive, at + 12),
              Little<uint32_t>(archive, at + 16)};
  if (d.entries != 0xffff && d.bytes != 0xffffffff && d.offset != 0xffffffff) return d;
  if (at < 20 || Little<uint32_t>(archive, at - 20) != kDirectoryEnd64Locator) return d;
  const auto at64 = Little<uint64_t>(archive, at - 20 + 8);
  if (!Inside(archive, at64, 56) || Little<uint32_t>(archive, at64) != kDirectoryEnd64) {
    return InvalidInput("zip: the zip64 directory record at byte {} is not one", at64);
  }
  return Directory{Little<uint64_t>(archive, at64 + 32), Little<uint64_t>(archive, at64 + 40),
                   Little<uint64_t>(archive, at64 + 48)};
}

struct Sizes {
  uint64_t unpacked, packed, offset;
};

// The zip64 extra field holds those of the three that are all ones in the entry, in this order.
void ApplyZip64(Bytes extra, Sizes& sizes) {
  size_t at = 0;
  while (Inside(extra, at, 4)) {
    const auto id = Little<uint16_t>(extra, at), size = Little<uint16_t>(extra, at + 2);
    if (!Inside(extra, at + 4, size)) return;
    if (id == 1) {
      Bytes field = extra.subspan(at + 4, size);
      for (uint64_t* v : {&sizes.unpacked, &sizes.packed, &sizes.offset}) {
        if (*v != 0xffffffff || field.size() < 8) continue;
        *v = Little<uint64_t>(field, 0);
        field = field.subspan(8);
      }
      return;
    }
    at += 4 + size;
  }
}

// Inflates `in` into `out`, which must be filled exactly. Returns zlib's complaint, or nothing.
std::optional<std::string> InflateInto(Bytes in, std::span<std::byte> out) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return "zlib has no memory left";
  constexpr size_t kChunk = size_t{1} << 30;  // zlib counts in 32 bits
  int state = Z_OK;
  std::byte spare;
  while (state == Z_OK) {
    const size_t in_now = std::min(in.size(), kChunk), out_now = std::min(out.size(), kChunk);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(in_now);
    // A full output still needs room to see the end marker; a byte landing there is one too many.
    stream.next_out = reinterpret_cast<Bytef*>(out_now ? out.data() : &spare);
    stream.avail_out = out_now ? static_cast<uInt>(out_now) : 1;
    state = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(in_now - stream.avail_in);
    if (out_now) {
      out = out.subspan(out_now - stream.avail_out);
    } else if (stream.avail_out == 0) {
      state = Z_DATA_ERROR;
    }
  }
  std::string why = stream.msg             ? stream.msg
                    : state == Z_BUF_ERROR ? "the data ends too early"
                                           : "the size differs";
  inflateEnd(&stream);
  if (state == Z_STREAM_END && out.empty()) return std::nullopt;
  return why;
}

Result<ZipMember> ReadEntry(Bytes archive, uint64_t at, size_t* next) {
  if (!Inside(archive, at, 46) || Little<uint32_t>(archive, at) != kDirectoryEntry) {
    return InvalidInput("zip: no directory entry at byte {}", at);
  }
  const auto name_bytes = Little<uint16_t>(archive, at + 28),
             extra_bytes = Little<uint16_t>(archive, at + 30),
             comment_bytes = Little<uint16_t>(archive, at + 32);
  if (!Inside(archive, at + 46, name_bytes + extra_bytes + comment_bytes)) {
    return InvalidInput("zip: the directory entry at byte {} runs past the end", at);
  }
  *next = at + 46 + name_bytes + extra_bytes + comment_bytes;
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(archive.data() + at + 46), name_bytes);
  member.method = Little<uint16_t>(archive, at + 10);
  member.crc = Little<uint32_t>(archive, at + 16);
  if (Little<uint16_t>(archive, at + 8) & 1)
    return InvalidInput("zip: member {} is encrypted", Shorten(member.name));
  Sizes sizes{Little<uint32_t>(archive, at + 24), Little<uint32_t>(archive, at + 20),
              Little<uint32_t>(archive, at + 42)};
  ApplyZip64(archive.subspan(at + 46 + name_bytes, extra_bytes), sizes);
  if (!Inside(archive, sizes.offset, 30) ||
      Little<uint32_t>(archive, sizes.offset) != kLocalHeader) {
    return InvalidInput("zip: member {}: no header at byte {}", Shorten(member.name), sizes.offset);
  }
  const uint64_t data = sizes.offset + 30 + Little<uint16_t>(archive, sizes.offset + 26) +
                        Little<uint16_t>(archive, sizes.offset + 28);
  if (!Inside(archive, data, sizes.packed)) {
    return InvalidInput(
        "zip: member {}: {} bytes at byte {} run past the end of the file ({} bytes)",
        Shorten(member.name), sizes.packed, data, archive.size());
  }
  const uint64_t largest =
      member.method == 0 ? sizes.packed : (sizes.packed + 1) * kMaxDeflateRatio;
  if (sizes.unpacked > largest) {
    return InvalidInput("zip: member {} claims {} bytes from {} packed ones", Shorten(member.name),
                        sizes.unpacked, sizes.packed);
  }
  member.bytes = static_cast<int64_t>(sizes.unpacked);
  member.compressed = archive.subspan(data, sizes.packed);
  return member;
}

}  // namespace

Result<std::vector<ZipMember>> ReadZipDirectory(std::span<const std::byte> archive) {
  EVOQ_ASSIGN(const Directory directory, FindDirectory(archive));
  if (!Inside(archive, directory.offset, directory.bytes) ||
      directory.entries > directory.bytes / 46) {
    return InvalidInput(
        "zip: a directory of {} entries in {} bytes at byte {} does not fit the file ({} bytes)",
        directory.entries, directory.bytes, directory.offset, archive.size());
  }
  std::vector<ZipMember> members;
  size_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    EVOQ_ASSIGN(ZipMember member, ReadEntry(archive, at, &at));
    members.push_back(std::move(member));
  }
  return members;
}

Result<std::vector<std::byte>> UnpackMember(const ZipMember& member, Budget& budget) {
  const std::string what = "zip: member " + Shorten(member.name);
  EVOQ_TRY(budget.TakeMemory(member.bytes, what));
  EVOQ_TRY(budget.TakeWork(member.bytes + static_cast<int64_t>(member.compressed.size()), what));
  std::vector<std::byte> out;
  if (member.method == 0) {
    if (member.bytes != static_cast<int64_t>(member.compressed.size())) {
      return InvalidInput("zip: stored member {} has {} bytes, expected {}", Shorten(member.name),
                          member.compressed.size(), member.bytes);
    }
    out.assign(member.compressed.begin(), member.compressed.end());
  } else if (member.method == 8) {
    out.resize(member.bytes);
    if (auto why = InflateInto(member.compressed, out)) {
      return InvalidInput("zip: member {} cannot be unpacked: {}", Shorten(member.name), *why);
    }
  } else {
    return Unsupported(
        "zip: member {} has compression method {}, expected 0 (stored) or 8 (deflate)",
        Shorten(member.name), member.method);
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size());
  if (static_cast<uint32_t>(crc) != member.crc) {
    return InvalidInput("zip: member {} has CRC-32 {:08x}, expected {:08x}", Shorten(member.name),
                        static_cast<uint32_t>(crc), member.crc);
  }
  return out;
}

Result<std::vector<std::byte>> Gunzip(std::span<const std::byte> bytes, Budget& budget) {
  std::vector<std::byte> out;
  int64_t taken = 0;
  // Doubles the room for the result; while it grows, old and new room are there together.
  const auto grow = [&](size_t wanted) -> Status {
    if (wanted <= out.capacity()) return {};
    const auto room = static_cast<int64_t>(std::max(wanted, 2 * out.capacity()));
    EVOQ_TRY(budget.TakeMemory(room, "gzip: unpacked data"));
    out.reserve(static_cast<size_t>(room));
    budget.GiveMemory(std::exchange(taken, room));
    return {};
  };
  std::vector<std::byte> chunk(1 << 18);
  while (!bytes.empty()) {
    z_stream stream = {};
    if (inflateInit2(&stream, MAX_WBITS + 16) != Z_OK)
      return Fail(ErrorCode::kTooLarge, "gzip: zlib has no memory left");
    struct End {
      z_stream* stream;
      ~End() { inflateEnd(stream); }
    } end{&stream};
    int state = Z_OK;
    std::string why;
    while (state == Z_OK) {
      const size_t in_now = std::min(bytes.size(), size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(in_now);
      stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
      stream.avail_out = static_cast<uInt>(chunk.size());
      state = inflate(&stream, Z_NO_FLUSH);
      bytes = bytes.subspan(in_now - stream.avail_in);
      const size_t made = chunk.size() - stream.avail_out;
      EVOQ_TRY(grow(out.size() + made));
      out.insert(out.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(made));
      why = stream.msg ? stream.msg : "the data ends too early";
    }
    if (state != Z_STREAM_END) return InvalidInput("gzip: cannot be unpacked: {}", why);
  }
  return out;
}

}  // namespace evoq
