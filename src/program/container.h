// The outer structure of an .etm file: a header, a directory, named blobs. docs/etm.md has the
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/budget.h"
#include "base/file.h"
#include "base/result.h"

namespace evoq {

inline constexpr char kEtmMagic[8] = {'E', 'v', 'o', 'T', 'i', 'n', 'y', '\n'};
inline constexpr uint32_t kEtmVersion = 1;
inline constexpr int64_t kEtmHeaderBytes = 32;
inline constexpr int64_t kEtmEntryBytes = 48;

// Whether they begin with the magic.
bool IsEtm(std::span<const std::byte> bytes);

enum class Codec : uint8_t { kRaw = 0, kZstd = 1 };

struct BlobInfo {
  std::string name;          // at most 15 bytes
  int64_t offset = 0;        // in the file
  int64_t stored_bytes = 0;  // in the file
  int64_t raw_bytes = 0;     // after decoding; equal to stored_bytes for kRaw
  uint32_t crc = 0;          // CRC-32C of the stored bytes
  Codec codec = Codec::kRaw;
  bool required = true;  // a reader that does not know it must refuse the file
};

// A blob to be written; `alignment` of its first byte in the file, a power of two.
struct BlobSource {
  std::string name;
  std::vector<std::span<const std::byte>> pieces;
  int64_t alignment = 8;
  bool compress = false;  // stored with zstd when that saves at least 1/16
  bool required = true;
};

// What EarlyParts (base/early_parts.h) has of the first blob's pieces is not copied.
Status WriteContainer(const std::string& path, std::span<const BlobSource> blobs);
// How large the file would be.
int64_t ContainerBytes(std::span<const BlobSource> blobs);

class Container {
 public:
  // Maps the file and checks header, directory and every blob's range and checksum.
  static Result<Container> Open(const std::string& path);
  // The same of bytes in memory that begin at a multiple of kAlignment; `owner` keeps them alive
  // and as they are, `name` stands for the path in messages.
  static Result<Container> Of(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& name);

  const std::vector<BlobInfo>& blobs() const { return blobs_; }
  const BlobInfo* Find(std::string_view name) const;
  // Decoded bytes and what keeps them alive; decoding draws on `budget`. Errors: kInvalidInput,
  // kTooLarge.
  struct Bytes {
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;
  };
  Result<Bytes> Read(const BlobInfo& blob, Budget& budget) const;
  int64_t file_bytes() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  Status Check();
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::string path_;
  std::vector<BlobInfo> blobs_;
};

}  // namespace evoq
