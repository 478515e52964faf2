#include "program/container.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/aligned.h"
#include "base/crc32c.h"
#include "base/early_parts.h"
#include "base/math.h"
#include "base/pages.h"

namespace evoq {
namespace {

// Bounds what a small file may make us allocate.
constexpr int64_t kMaxExpansion = 256;
constexpr int64_t kMaxDecodedBytes = int64_t{1} << 30;
constexpr int64_t kMaxBlobs = 1024;

template <typename T>
void Put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
template <typename T>
T Get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

using Pieces = std::vector<std::span<const std::byte>>;

size_t BytesOf(const Pieces& pieces) {
  size_t bytes = 0;
  for (const auto& p : pieces) bytes += p.size();
  return bytes;
}

std::vector<std::byte> Join(const Pieces& pieces) {
  std::vector<std::byte> all;
  for (const auto& p : pieces) all.insert(all.end(), p.begin(), p.end());
  return all;
}

std::vector<std::byte> Compress(std::span<const std::byte> raw) {
  std::vector<std::byte> out(ZSTD_compressBound(raw.size()));
  const size_t n = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 19);
  out.resize(ZSTD_isError(n) ? raw.size() : n);  // an error: it found no memory; stored as it is
  return out;
}

void PutEntry(std::byte* to, const BlobInfo& blob) {
  std::memcpy(to, blob.name.data(), blob.name.size());
  Put<uint64_t>(to + 16, blob.offset);
  Put<uint64_t>(to + 24, blob.stored_bytes);
  Put<uint64_t>(to + 32, blob.raw_bytes);
  Put<uint32_t>(to + 40, blob.crc);
  Put<uint8_t>(to + 44, static_cast<uint8_t>(blob.codec));
  Put<uint8_t>(to + 45, blob.required ? 1 : 0);
}

Result<BlobInfo> GetEntry(const std::byte* from, int64_t file_bytes, int index) {
  const auto bad = [&](std::string what) {
    return InvalidInput("directory entry {}: {}", index, what);
  };
  BlobInfo blob;
  const char* name = reinterpret_cast<const char*>(from);
  blob.name.assign(name, strnlen(name, 16));
  if (blob.name.empty() || blob.name.size() > 15) return bad("the name is empty or not terminated");
  const uint64_t offset = Get<uint64_t>(from + 16), stored = Get<uint64_t>(from + 24),
                 raw = Get<uint64_t>(from + 32);
  const uint64_t size = static_cast<uint64_t>(file_bytes);
  if (offset > size || stored > size - offset)
    return bad(fmt::format("blob '{}' is at {} with {} bytes, expected to end within the file's {}",
                           blob.name, offset, stored, size));
  blob.offset = static_cast<int64_t>(offset);
  blob.stored_bytes = static_cast<int64_t>(stored);
  blob.crc = Get<uint32_t>(from + 40);
  const uint8_t codec = Get<uint8_t>(from + 44);
  if (codec > 1)
    return bad(fmt::format("blob '{}' has codec {}, expected 0 or 1", blob.name, codec));
  blob.codec = static_cast<Codec>(codec);
  blob.required = Get<uint8_t>(from + 45) != 0;
  const uint64_t limit = blob.codec == Codec::kRaw
                             ? stored
                             : std::min<uint64_t>(kMaxDecodedBytes, stored * kMaxExpansion + 65536);
  if (raw > limit || (blob.codec == Codec::kRaw && raw != stored))
    return bad(fmt::format("blob '{}' claims {} decoded bytes, expected at most {}", blob.name, raw,
                           limit));
  blob.raw_bytes = static_cast<int64_t>(raw);
  return blob;
}

// The blobs as stored, with their places.
struct Arranged {
  std::vector<BlobInfo> blobs;
  std::vector<Pieces> stored;
  std::vector<std::vector<std::byte>> compressed;  // what pieces of some blobs are
  int64_t bytes = 0;                               // of the whole file
};

// The blob compressed, or nothing where that saves too little.
std::vector<std::byte> Smaller(const Pieces& pieces) {
  const std::vector<std::byte> bytes = Join(pieces);
  if (bytes.empty()) return {};
  std::vector<std::byte> small = Compress(bytes);
  const bool saves = small.size() + bytes.size() / 16 <= bytes.size() &&
                     bytes.size() <= small.size() * kMaxExpansion + 65536;
  return saves ? small : std::vector<std::byte>();
}

// Without the checksums, which only who writes the file needs.
Arranged Arrange(std::span<const BlobSource> sources) {
  Arranged file;
  int64_t at = kEtmHeaderBytes + kEtmEntryBytes * static_cast<int64_t>(sources.size());
  for (const BlobSource& source : sources) {
    BlobInfo blob;
    blob.name = source.name;
    blob.required = source.required;
    blob.raw_bytes = static_cast<int64_t>(BytesOf(source.pieces));
    Pieces stored = source.pieces;
    int64_t alignment = source.alignment;
    if (std::vector<std::byte> small =
            source.compress ? Smaller(source.pieces) : std::vector<std::byte>();
        !small.empty()) {
      stored = {small};  // the bytes stay where they are when the vector is moved
      file.compressed.push_back(std::move(small));
      blob.codec = Codec::kZstd;
      alignment = 1;
    }
    blob.stored_bytes = static_cast<int64_t>(BytesOf(stored));
    at = RoundUp(at, alignment);
    blob.offset = at;
    at += blob.stored_bytes;
    file.blobs.push_back(std::move(blob));
    file.stored.push_back(std::move(stored));
  }
  file.bytes = at;
  return file;
}

// The header and the directory.
std::vector<std::byte> FrontOf(const Arranged& file) {
  std::vector<std::byte> front(kEtmHeaderBytes + kEtmEntryBytes * file.blobs.size());
  std::memcpy(front.data(), kEtmMagic, sizeof(kEtmMagic));
  Put<uint32_t>(front.data() + 8, kEtmVersion);
  Put<uint32_t>(front.data() + 12, static_cast<uint32_t>(file.blobs.size()));
  Put<uint64_t>(front.data() + 16, static_cast<uint64_t>(file.bytes));
  for (size_t i = 0; i < file.blobs.size(); ++i)
    PutEntry(front.data() + kEtmHeaderBytes + i * kEtmEntryBytes, file.blobs[i]);
  Put<uint32_t>(front.data() + 24, Crc32c(std::span(front).subspan(kEtmHeaderBytes)));
  Put<uint32_t>(front.data() + 28, Crc32c(std::span(front).first(28)));
  return front;
}

// What follows `end`, where the front ends, or where the first blob begins, of whose pieces so many
// are written.
Pieces PiecesFrom(int64_t end, size_t written, const Arranged& file) {
  static constexpr std::byte kZeros[4096] = {};
  Pieces pieces;
  for (size_t i = 0; i < file.blobs.size(); ++i) {
    const BlobInfo& blob = file.blobs[i];
    const Pieces& stored = file.stored[i];
    if (end < blob.offset)
      pieces.push_back(std::span(kZeros).first(static_cast<size_t>(blob.offset - end)));
    pieces.insert(pieces.end(), stored.begin() + (i == 0 ? static_cast<ptrdiff_t>(written) : 0),
                  stored.end());
    end = blob.offset + blob.stored_bytes;
  }
  return pieces;
}

// The rest of a file whose first pieces are in it.
Status Finish(NewFile& to, const Pieces& rest, std::span<const std::byte> front) {
  EVOQ_TRY(NoDamagedFileOpen());
  for (const auto& piece : rest) {
    EVOQ_TRY(to.Write(piece));
    ReleasePages(piece);
  }
  EVOQ_TRY(to.WriteAt(0, front));
  return to.Commit();
}

}  // namespace

int64_t ContainerBytes(std::span<const BlobSource> sources) { return Arrange(sources).bytes; }

Status WriteContainer(const std::string& path, std::span<const BlobSource> sources) {
  Arranged file = Arrange(sources);
  EarlyParts* const early = ThreadScope<EarlyParts>::Active();
  auto begun = early == nullptr || sources.empty()
                   ? std::nullopt
                   : early->Take(path, file.blobs[0].offset, file.stored[0]);
  const size_t written = begun ? begun->pieces : 0;
  for (size_t i = 0; i < file.blobs.size(); ++i) {
    Crc32cSum sum = i == 0 && begun ? begun->sum : Crc32cSum();
    for (const auto& piece : std::span(file.stored[i]).subspan(i == 0 ? written : 0)) {
      sum.Add(piece);
      ReleasePages(piece);  // pieces may together be larger than the memory
    }
    file.blobs[i].crc = sum.value();
  }
  const std::vector<std::byte> front = FrontOf(file);
  if (begun) return Finish(begun->file, PiecesFrom(file.blobs[0].offset, written, file), front);
  Pieces pieces = PiecesFrom(static_cast<int64_t>(front.size()), 0, file);
  pieces.insert(pieces.begin(), front);
  return WriteFileAtomic(path, pieces);
}

bool IsEtm(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof(kEtmMagic) &&
         std::memcmp(bytes.data(), kEtmMagic, sizeof(kEtmMagic)) == 0;
}

Result<Container> Container::Open(const std::string& path) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  if (IsEtm(file->bytes())) file->ReadsAll();
  const auto bytes = file->bytes();
  return Of(bytes, std::move(file), path);
}

Result<Container> Container::Of(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                const std::string& name) {
  Container container;
  container.bytes_ = bytes;
  container.owner_ = std::move(owner);
  container.path_ = name;
  EVOQ_TRY(container.Check());
  return container;
}

// The header, the directory and the checksums.
Status Container::Check() {
  const auto bytes = bytes_;
  const int64_t size = static_cast<int64_t>(bytes.size());
  const auto bad = [&](std::string what) { return InvalidInput("{}: {}", path_, what); };
  if (size < kEtmHeaderBytes)
    return bad(
        fmt::format("{} bytes, expected at least the {} of an .etm header", size, kEtmHeaderBytes));
  if (!IsEtm(bytes)) return bad("no .etm file: the first 8 bytes are not its magic");
  const uint32_t header_crc = Get<uint32_t>(bytes.data() + 28);
  if (Crc32c(bytes.first(28)) != header_crc)
    return bad("the header's checksum does not match: the file is damaged");
  const uint32_t version = Get<uint32_t>(bytes.data() + 8);
  if (version != kEtmVersion)
    return bad(fmt::format("version {}, expected {}", version, kEtmVersion));
  const int64_t count = Get<uint32_t>(bytes.data() + 12);
  if (Get<uint64_t>(bytes.data() + 16) != static_cast<uint64_t>(size))
    return bad(fmt::format("{} bytes, expected {}: the file is truncated or has a tail", size,
                           Get<uint64_t>(bytes.data() + 16)));
  if (count > kMaxBlobs || kEtmHeaderBytes + count * kEtmEntryBytes > size)
    return bad(fmt::format("a directory of {} entries does not fit the file", count));
  const auto directory =
      bytes.subspan(kEtmHeaderBytes, static_cast<size_t>(count * kEtmEntryBytes));
  if (Crc32c(directory) != Get<uint32_t>(bytes.data() + 24))
    return bad("the directory's checksum does not match: the file is damaged");
  int64_t end = kEtmHeaderBytes + count * kEtmEntryBytes;
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_ASSIGN(BlobInfo blob, WithContext(GetEntry(directory.data() + i * kEtmEntryBytes, size,
                                                    static_cast<int>(i)),
                                           path_));
    if (blob.offset < end)
      return bad(fmt::format("blob '{}' overlaps what stands before it", blob.name));
    end = blob.offset + blob.stored_bytes;
    if (Find(blob.name) != nullptr) return bad(fmt::format("blob '{}' appears twice", blob.name));
    const auto stored =
        bytes.subspan(static_cast<size_t>(blob.offset), static_cast<size_t>(blob.stored_bytes));
    if (Crc32c(stored) != blob.crc)
      return bad(
          fmt::format("blob '{}': the checksum does not match: the file is damaged", blob.name));
    blobs_.push_back(std::move(blob));
  }
  if (end != size) return bad(fmt::format("{} bytes after the last blob", size - end));
  return {};
}

const BlobInfo* Container::Find(std::string_view name) const {
  auto it =
      std::find_if(blobs_.begin(), blobs_.end(), [&](const BlobInfo& b) { return b.name == name; });
  return it == blobs_.end() ? nullptr : &*it;
}

Result<Container::Bytes> Container::Read(const BlobInfo& blob, Budget& budget) const {
  const auto stored =
      bytes_.subspan(static_cast<size_t>(blob.offset), static_cast<size_t>(blob.stored_bytes));
  if (blob.codec == Codec::kRaw) return Bytes{stored, owner_};
  EVOQ_TRY(
      WithContext(budget.TakeMemory(blob.raw_bytes, fmt::format("blob '{}'", blob.name)), path_));
  auto buffer = std::make_shared<AlignedBuffer>(static_cast<size_t>(blob.raw_bytes));
  const size_t n = ZSTD_decompress(buffer->data(), buffer->size(), stored.data(), stored.size());
  if (ZSTD_isError(n) || n != static_cast<size_t>(blob.raw_bytes))
    return InvalidInput("{}: blob '{}' does not decode to {} bytes{}{}", path_, blob.name,
                        blob.raw_bytes, ZSTD_isError(n) ? ": " : "",
                        ZSTD_isError(n) ? ZSTD_getErrorName(n) : "");
  const std::span<const std::byte> data(buffer->data(), n);
  return Bytes{data, std::move(buffer)};
}

}  // namespace evoq
