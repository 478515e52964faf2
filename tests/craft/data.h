// Writers of data files with any field wrong and every checksum right. Each struct is a small good
// file; a test or a fuzzer changes a field, and what the format computes from others (lengths,
// checksums, offsets) follows unless it is given too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evoq::craft {

std::string Little(uint64_t value, int bytes);
std::string Big(uint64_t value, int bytes);
uint32_t Crc32(std::string_view bytes);
// Deflated, without a header.
std::string Deflate(std::string_view bytes);
// The zlib form that PNG holds.
std::string ZlibDeflate(std::string_view bytes);

// ---- .npy
struct Npy {
  std::string magic = "\x93NUMPY";
  int version = 1;
  std::string descr = "'<f4'", fortran = "False", shape = "(2, 3)",
              more;                      // values of the dictionary; entries after them
  std::optional<std::string> header;     // instead of the dictionary
  std::optional<uint32_t> header_bytes;  // instead of its length
  std::string data = std::string(24, '\0');
};
std::string Write(const Npy& file);

// ---- zip (.npz)
struct ZipMember {
  std::string name = "x.npy";
  std::string data = Write(Npy{});
  int method = 8;                     // 0: stored
  std::optional<std::string> packed;  // instead of what `method` makes of the data
  std::optional<uint32_t> crc;
  std::optional<uint64_t> packed_bytes, unpacked_bytes, offset;  // of the directory's entry
  std::optional<uint16_t> name_bytes;                            // of the directory's entry
  int flags = 0;
  bool zip64 = false;  // in the extra field, of the size unpacked, the size packed and the offset,
  unsigned zip64_fields = 7;  // those of bits 0, 1 and 2,
  size_t zip64_cut = 0;       // less so many bytes of its end
  std::string extra;          // before the zip64 field
  bool no_local = false;      // nothing is written beside the directory's entry: with `offset`, it
                              // shares another's bytes
  std::string local_signature = "PK\3\4", entry_signature = std::string("PK\1\2");
};
struct Zip {
  std::vector<ZipMember> members = {ZipMember{}};
  std::optional<uint64_t> entries, directory_bytes, directory_offset;  // of the end record
  bool zip64 = false;                                                  // an end record of zip64 too
  std::optional<uint64_t> zip64_offset;                                // of it, in its locator
  std::string comment;
};
std::string Write(const Zip& file);

// ---- gzip
struct Gzip {
  std::string data;
  std::optional<std::string> packed;
  std::optional<uint32_t> crc, bytes;  // of the trailer
  int method = 8, flags = 0;
};
std::string Write(const Gzip& file);

// ---- idx (MNIST)
struct Idx {
  int type = 8;
  std::vector<uint32_t> sizes = {2, 3, 4};
  std::string data = std::string(24, '\7');
};
std::string Write(const Idx& file);

// ---- PNG
struct Png {
  uint32_t width = 2, height = 2;
  int depth = 8, color = 2, compression = 0, filter = 0, interlace = 0;
  std::vector<std::pair<std::string, std::string>>
      before;  // chunks (type, data) between IHDR and IDAT
  std::string rows = std::string("\0abcdef\0ghijkl", 14);  // filter byte and pixels of each row
  std::optional<std::string> idat;                         // instead of the deflated rows
  bool end = true;
};
std::string Write(const Png& file);

// ---- JPEG: a progressive gray one of one value, whose last scan stands in it `scans` times
std::string ProgressiveJpeg(int width, int height, int scans);

// ---- BMP of 24 bits
struct Bmp {
  int32_t width = 2, height = 2;
  uint32_t start = 54, header_bytes = 40, compression = 0;
  uint16_t bits = 24;
  std::string pixels = "abcdef__ghijkl__";  // rows from the bottom, padded to 4 bytes, blue first
};
std::string Write(const Bmp& file);

// ---- WAV: mono PCM of 16 bits, 4 samples
struct Wav {
  std::string form = "WAVE";
  uint16_t encoding = 1, channels = 1, bits = 16;
  uint32_t rate = 16000;
  std::string more;                                           // of the format
  std::string before = std::string("LIST\3\0\0\0abc\0", 12);  // chunks
  std::string data = std::string("\0\0\0\x40\0\x80\xff\x7f", 8);
  std::optional<uint32_t> format_bytes, data_bytes;
};
std::string Write(const Wav& file);

// ---- TIFF
struct TiffTag {
  uint16_t tag, type;
  uint32_t count;
  uint32_t value;  // or where the values stand
};
struct Tiff {
  bool big_endian = false;
  uint32_t width = 2, height = 2, rows_per_strip = 2;
  uint16_t samples = 3, bits = 8, compression = 1, photometric = 2, planes = 1;
  std::string pixels = "abcdefghijkl";
  std::vector<TiffTag> more;      // tags after the usual ones
  std::vector<uint16_t> without;  // usual tags that are left out
  std::optional<uint32_t> strips,
      strip_at;  // count of StripOffsets (where its value stands follows), and the first strip
  std::optional<uint16_t> entries;
  std::optional<uint32_t> directory;
};
std::string Write(const Tiff& file);

// ---- tokenizers
struct Piece {
  std::string text;
  float score = 0;
  std::optional<int32_t> bytes;
};
std::string WriteTokenizerBin(const std::vector<Piece>& pieces);

// ---- GGUF: a header, keys with typed values, tensors' names, sizes, types and offsets, then their
// data, aligned
struct GgufKey {
  std::string key;
  uint32_t type = 4;                 // 4: uint32, 8: string, 9: array
  std::string value = Little(1, 4);  // as it stands in the file
};
struct GgufTensor {
  std::string name = "w";
  std::vector<uint64_t> dims = {4, 2};
  uint32_t type = 0;  // float32
  std::optional<uint64_t> offset;
  std::string data = std::string(32, '\0');
};
struct Gguf {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count, key_count;
  std::vector<GgufKey> keys;
  std::vector<GgufTensor> tensors = {GgufTensor{}};
  uint64_t alignment = 32;
};
std::string GgufText(std::string_view text);  // its length in 8 bytes, then the text
std::string Write(const Gguf& file);

// ---- after a mutation: makes the checksums right again, as far as the file can be followed
void FixZip(std::string& bytes);
void FixGzip(std::string& bytes);
void FixPng(std::string& bytes);

}  // namespace evoq::craft
