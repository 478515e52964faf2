// Writers of .etm files with any field wrong and every checksum right. A test or a fuzzer changes a
// field of a small good file, and what the format computes from others (offsets, lengths,
// checksums) follows unless it is given too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/etm_generated.h"

namespace evoq::craft {

// ---- the container (docs/etm.md)
struct EtmBlob {
  std::string name, bytes;
  bool zstd = false;
  uint8_t required = 1;
  int64_t alignment = 8;
  std::optional<std::string> stored;  // instead of what stands in the file for the bytes
  std::optional<uint64_t> offset, stored_bytes, raw_bytes;
  std::optional<uint32_t> crc;
  std::optional<uint8_t> codec;
};
struct EtmFile {
  std::string magic = "EvoTiny\n";
  uint32_t version = 1;
  std::vector<EtmBlob> blobs;
  std::string tail;  // after the last blob, within the file's size
  std::optional<uint32_t> count, header_crc, directory_crc;
  std::optional<uint64_t> size;
};
std::string Write(const EtmFile& file);

// ---- a small good model: x float32[1, 2], a quantized constant w with two scales, b, words; y =
// Add(x, b)
struct EtmModel {
  fb::GraphT graph;
  fb::PlansT plans;
  fb::ScaleSetsT sets;  // none; AddSets makes two
  std::string weights, certificate;

  EtmModel();
  fb::ValueT& value(size_t i) { return *graph.values[i]; }
  fb::NodeT& node(size_t i = 0) { return *graph.nodes[i]; }
};
// Value 5, "q", uint8 of scale 0.5, that a second node computes; the sets "day" and "night", the
// latter with 0.25 for q and other contents for b.
void AddSets(EtmModel& model);
EtmFile FileOf(const EtmModel& model);
std::string Write(const EtmModel& model);
std::string Pack(const fb::GraphT& graph);
std::string Pack(const fb::PlansT& plans);
std::string Pack(const fb::ScaleSetsT& sets);

// ---- FlatBuffers by hand, for what the library's builder does not write: parts in the order of
// the file, offsets set last
class RawTables {
 public:
  int U16(uint16_t value);
  int U32(uint32_t value);
  int Text(const std::string& bytes);  // as they are
  // A layout and a table of it: for field i an offset (U32) when `fields[i]`. Returns where the
  // offset of the first of these stands.
  int Table(const std::vector<bool>& fields);
  void AlignTo(int alignment, int rest = 0);
  int at() const { return static_cast<int>(bytes.size()); }
  // The offset that stands at `from` leads to `to`.
  void Point(int from, int to);

  std::string bytes;
  int last_table = 0;  // where the last table begins
};

}  // namespace evoq::craft
