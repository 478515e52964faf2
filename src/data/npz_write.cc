#include <zlib.h>

#include <set>

#include "base/brief.h"
#include "base/file.h"
#include "data/npy.h"
#include "data/npz.h"

namespace evoq {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kMostBytes = 0xffffffff;  // larger ones need zip64's fields
constexpr size_t kMostMembers = 0xffff;

void Append16(std::string& out, size_t value) {
  out += static_cast<char>(value & 0xff);
  out += static_cast<char>(value >> 8 & 0xff);
}
void Append32(std::string& out, size_t value) {
  Append16(out, value & 0xffff);
  Append16(out, value >> 16);
}

struct Member {
  std::string name, local, npy_header;  // local: zip's header in front of the data
  Bytes data;
  uint32_t crc = 0;
  size_t offset = 0;

  size_t bytes() const { return npy_header.size() + data.size(); }
};

uint32_t CrcOf(const Member& member) {
  uLong crc = crc32(0, reinterpret_cast<const Bytef*>(member.npy_header.data()),
                    static_cast<uInt>(member.npy_header.size()));
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(member.data.data()), member.data.size()));
}

// What the local header and the directory say of a member in the same words: version 2.0, names in
// UTF-8, stored, 1980-01-01 00:00 (an archive is a function of its arrays), CRC-32 and sizes.
void AppendFacts(std::string& out, const Member& member) {
  Append16(out, 20);
  Append16(out, 1 << 11);
  Append16(out, 0);
  Append16(out, 0);
  Append16(out, 0x21);
  Append32(out, member.crc);
  Append32(out, member.bytes());
  Append32(out, member.bytes());
  Append16(out, member.name.size());
  Append16(out, 0);
}

std::string DirectoryOf(const std::vector<Member>& members, size_t offset) {
  std::string out;
  for (const Member& member : members) {
    Append32(out, 0x02014b50);
    Append16(out, 20);
    AppendFacts(out, member);
    Append16(out, 0);  // comment
    Append16(out, 0);  // disk
    Append16(out, 0);  // attributes inside
    Append32(out, 0);  // and outside
    Append32(out, member.offset);
    out += member.name;
  }
  const size_t bytes = out.size();
  Append32(out, 0x06054b50);
  Append32(out, 0);  // disks
  Append16(out, members.size());
  Append16(out, members.size());
  Append32(out, bytes);
  Append32(out, offset);
  Append16(out, 0);
  return out;
}

}  // namespace

Status WriteNpz(std::span<const std::pair<std::string, Tensor>> arrays, const std::string& path) {
  if (arrays.size() >= kMostMembers)
    return Fail(ErrorCode::kTooLarge, "{}: {} arrays, expected fewer than {}", path, arrays.size(),
                kMostMembers);
  std::vector<Member> members;
  std::set<std::string> names;
  size_t offset = 0;
  for (const auto& [name, tensor] : arrays) {
    const std::string place = path + ": " + Shorten(name);
    if (name.empty() || name.size() > 0xfffb || !names.insert(name).second)
      return InvalidInput("{}: expected a name of its own, of at most {} bytes", place, 0xfffb);
    if (!tensor.layout().empty())
      return Unsupported("{}: a tensor in the layout {}", place, tensor.layout());
    Member member;
    member.name = name + ".npy";
    EVOQ_ASSIGN(member.npy_header, WithContext(NpyHeaderBytes(tensor.type()), place));
    member.data = {tensor.raw(), tensor.bytes()};
    member.offset = offset;
    if (tensor.bytes() >= kMostBytes || offset + member.bytes() >= kMostBytes)
      return Fail(ErrorCode::kTooLarge, "{}: more than 4 GiB up to here", place);
    member.crc = CrcOf(member);
    Append32(member.local, 0x04034b50);
    AppendFacts(member.local, member);
    member.local += member.name;
    offset += member.local.size() + member.bytes();
    members.push_back(std::move(member));
  }
  const std::string directory = DirectoryOf(members, offset);
  if (offset + directory.size() >= kMostBytes)
    return Fail(ErrorCode::kTooLarge, "{}: more than 4 GiB", path);
  std::vector<Bytes> pieces;
  for (const Member& member : members) {
    pieces.push_back(std::as_bytes(std::span(member.local)));
    pieces.push_back(std::as_bytes(std::span(member.npy_header)));
    pieces.push_back(member.data);
  }
  pieces.push_back(std::as_bytes(std::span(directory)));
  return WriteFileAtomic(path, pieces);
}

}  // namespace evoq
