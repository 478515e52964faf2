#include "tests/craft/data.h"

#include <jpeglib.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace evoq::craft {
namespace {

constexpr size_t kMostUnpacked = size_t{1} << 22;  // what a Fix* unpacks at most

std::string Pack(std::string_view bytes, int window) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// What raw deflated data unpacks to, up to a limit, and the bytes that it took.
std::pair<std::string, size_t> Unpack(std::string_view packed) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return {};
  std::string out;
  char chunk[4096];
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int state = Z_OK;
  while (state == Z_OK && out.size() < kMostUnpacked) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk);
    stream.avail_out = sizeof(chunk);
    state = inflate(&stream, Z_NO_FLUSH);
    out.append(chunk, sizeof(chunk) - stream.avail_out);
  }
  const size_t used = stream.total_in;
  inflateEnd(&stream);
  return {state == Z_STREAM_END ? out : std::string(), state == Z_STREAM_END ? used : 0};
}

uint64_t Number(std::string_view bytes, size_t at, int count, bool big = false) {
  uint64_t value = 0;
  for (int i = 0; i < count && at + i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * (big ? count - 1 - i : i));
  return value;
}

void Put(std::string& bytes, size_t at, std::string_view value) {
  if (at <= bytes.size() && value.size() <= bytes.size() - at)
    bytes.replace(at, value.size(), value);
}

}  // namespace

std::string Little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
  return out;
}

std::string Big(uint64_t value, int bytes) {
  std::string out = Little(value, bytes);
  std::reverse(out.begin(), out.end());
  return out;
}

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string Deflate(std::string_view bytes) { return Pack(bytes, -MAX_WBITS); }
std::string ZlibDeflate(std::string_view bytes) { return Pack(bytes, MAX_WBITS); }

std::string Write(const Npy& file) {
  std::string header =
      file.header.value_or("{'descr': " + file.descr + ", 'fortran_order': " + file.fortran +
                           ", 'shape': " + file.shape + ", " + file.more + "}");
  const size_t prefix = file.magic.size() + 2 + (file.version == 1 ? 2 : 4);
  if (!file.header) header += std::string(63 - (prefix + header.size()) % 64, ' ') + "\n";
  return file.magic + Little(file.version, 1) + Little(0, 1) +
         Little(file.header_bytes.value_or(header.size()), file.version == 1 ? 2 : 4) + header +
         file.data;
}

std::string Write(const Zip& file) {
  constexpr uint32_t kAllOnes = 0xffffffff;
  std::string out, directory;
  for (const ZipMember& m : file.members) {
    const std::string packed = m.packed.value_or(m.method == 8 ? Deflate(m.data) : m.data);
    const uint64_t packed_bytes = m.packed_bytes.value_or(packed.size()),
                   unpacked_bytes = m.unpacked_bytes.value_or(m.data.size());
    const uint64_t offset = m.offset.value_or(out.size());
    std::string extra = m.extra;
    const unsigned wide = m.zip64 ? m.zip64_fields : 0;
    if (m.zip64) {
      std::string field = (wide & 1 ? Little(unpacked_bytes, 8) : "") +
                          (wide & 2 ? Little(packed_bytes, 8) : "") +
                          (wide & 4 ? Little(offset, 8) : "");
      field.resize(field.size() - m.zip64_cut);
      extra += Little(1, 2) + Little(field.size(), 2) + field;
    }
    const std::string common = Little(20, 2) + Little(m.flags, 2) + Little(m.method, 2) +
                               Little(0, 4) + Little(m.crc.value_or(Crc32(m.data)), 4) +
                               Little(wide & 2 ? kAllOnes : packed_bytes, 4) +
                               Little(wide & 1 ? kAllOnes : unpacked_bytes, 4);
    if (!m.no_local)
      out += m.local_signature + common + Little(m.name.size(), 2) + Little(0, 2) + m.name + packed;
    directory += m.entry_signature + Little(20, 2) + common +
                 Little(m.name_bytes.value_or(m.name.size()), 2) + Little(extra.size(), 2) +
                 Little(0, 2) + Little(0, 8) + Little(wide & 4 ? kAllOnes : offset, 4) + m.name +
                 extra;
  }
  const uint64_t entries = file.entries.value_or(file.members.size()),
                 bytes = file.directory_bytes.value_or(directory.size());
  const uint64_t offset = file.directory_offset.value_or(out.size());
  out += directory;
  if (file.zip64) {
    const uint64_t at = file.zip64_offset.value_or(out.size());
    out += "PK\6\6" + Little(44, 8) + Little(45, 2) + Little(45, 2) + Little(0, 8) +
           Little(entries, 8) + Little(entries, 8) + Little(bytes, 8) + Little(offset, 8);
    out += "PK\6\7" + Little(0, 4) + Little(at, 8) + Little(1, 4);
  }
  out += "PK\5\6" + Little(0, 4) + Little(file.zip64 ? 0xffff : entries, 2) +
         Little(file.zip64 ? 0xffff : entries, 2) + Little(file.zip64 ? kAllOnes : bytes, 4) +
         Little(file.zip64 ? kAllOnes : offset, 4) + Little(file.comment.size(), 2) + file.comment;
  return out;
}

std::string Write(const Gzip& file) {
  return "\x1f\x8b" + Little(file.method, 1) + Little(file.flags, 1) + Little(0, 5) +
         Little(255, 1) + file.packed.value_or(Deflate(file.data)) +
         Little(file.crc.value_or(Crc32(file.data)), 4) +
         Little(file.bytes.value_or(static_cast<uint32_t>(file.data.size())), 4);
}

std::string Write(const Idx& file) {
  std::string out = Little(0, 2) + Little(file.type, 1) + Little(file.sizes.size(), 1);
  for (uint32_t size : file.sizes) out += Big(size, 4);
  return out + file.data;
}

std::string Write(const Png& file) {
  std::string out = "\x89PNG\r\n\x1a\n";
  const auto chunk = [&](const std::string& type, const std::string& data) {
    out += Big(data.size(), 4) + type + data + Big(Crc32(type + data), 4);
  };
  chunk("IHDR", Big(file.width, 4) + Big(file.height, 4) + Little(file.depth, 1) +
                    Little(file.color, 1) + Little(file.compression, 1) + Little(file.filter, 1) +
                    Little(file.interlace, 1));
  for (const auto& [type, data] : file.before) chunk(type, data);
  chunk("IDAT", file.idat.value_or(ZlibDeflate(file.rows)));
  if (file.end) chunk("IEND", "");
  return out;
}

std::string ProgressiveJpeg(int width, int height, int scans) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = 1;
  info.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  const jpeg_scan_info script[] = {{1, {0}, 0, 0, 0, 0}, {1, {0}, 1, 63, 0, 0}};
  info.scan_info = script;
  info.num_scans = 2;
  jpeg_start_compress(&info, TRUE);
  std::vector<JSAMPLE> row(static_cast<size_t>(width), 77);
  for (JSAMPROW rows[] = {row.data()}; info.next_scanline < info.image_height;)
    jpeg_write_scanlines(&info, rows, 1);
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  const size_t last = file.rfind("\xff\xda");
  const std::string scan = file.substr(last, file.size() - 2 - last);  // up to the end marker
  for (int i = 1; i < scans; ++i) file.insert(last, scan);
  return file;
}

std::string Write(const Bmp& file) {
  return "BM" + Little(54 + file.pixels.size(), 4) + Little(0, 4) + Little(file.start, 4) +
         Little(file.header_bytes, 4) + Little(static_cast<uint32_t>(file.width), 4) +
         Little(static_cast<uint32_t>(file.height), 4) + Little(1, 2) + Little(file.bits, 2) +
         Little(file.compression, 4) + Little(file.pixels.size(), 4) + Little(0, 16) + file.pixels;
}

std::string Write(const Wav& file) {
  const uint32_t frame = file.channels * file.bits / 8u;
  const std::string format = Little(file.encoding, 2) + Little(file.channels, 2) +
                             Little(file.rate, 4) + Little(uint64_t{file.rate} * frame, 4) +
                             Little(frame, 2) + Little(file.bits, 2) + file.more;
  const std::string chunks =
      file.form + file.before + "fmt " + Little(file.format_bytes.value_or(format.size()), 4) +
      format + "data" + Little(file.data_bytes.value_or(file.data.size()), 4) + file.data;
  return "RIFF" + Little(chunks.size(), 4) + chunks;
}

std::string Write(const Tiff& file) {
  constexpr uint16_t kShort = 3, kLong = 4;
  const auto number = [&](uint64_t value, int bytes) {
    return file.big_endian ? Big(value, bytes) : Little(value, bytes);
  };
  const uint32_t strips =
      file.rows_per_strip == 0 ? 1 : (file.height + file.rows_per_strip - 1) / file.rows_per_strip;
  std::vector<TiffTag> tags = {
      {256, kLong, 1, file.width},        {257, kLong, 1, file.height},
      {258, kShort, 1, file.bits},        {259, kShort, 1, file.compression},
      {262, kShort, 1, file.photometric}, {273, kLong, file.strips.value_or(strips), 0},
      {277, kShort, 1, file.samples},     {278, kLong, 1, file.rows_per_strip},
      {284, kShort, 1, file.planes}};
  std::erase_if(tags, [&](const TiffTag& t) {
    return std::find(file.without.begin(), file.without.end(), t.tag) != file.without.end();
  });
  tags.insert(tags.end(), file.more.begin(), file.more.end());
  // The header, the directory, the strips' offsets where there are several, the pixels.
  const uint32_t after = static_cast<uint32_t>(8 + 2 + tags.size() * 12 + 4);
  const uint32_t list_bytes = strips > 1 ? strips * 4 : 0, pixels = after + list_bytes;
  std::string out = (file.big_endian ? std::string("MM\0*", 4) : std::string("II*\0", 4)) +
                    number(file.directory.value_or(8), 4);
  out += number(file.entries.value_or(tags.size()), 2);
  for (TiffTag tag : tags) {
    if (tag.tag == 273 && tag.value == 0)
      tag.value = file.strips.value_or(strips) > 1 ? after : file.strip_at.value_or(pixels);
    out += number(tag.tag, 2) + number(tag.type, 2) + number(tag.count, 4);
    out += tag.type == kShort && tag.count == 1 ? number(tag.value, 2) + number(0, 2)
                                                : number(tag.value, 4);
  }
  out += number(0, 4);
  const uint64_t strip_bytes = uint64_t{file.rows_per_strip} * file.width * file.samples;
  for (uint32_t i = 0; list_bytes > 0 && i < strips; ++i)
    out += number(file.strip_at.value_or(pixels) + i * strip_bytes, 4);
  return out + file.pixels;
}

std::string WriteTokenizerBin(const std::vector<Piece>& pieces) {
  std::string out = Little(16, 4);
  for (const Piece& piece : pieces) {
    uint32_t score = 0;
    std::memcpy(&score, &piece.score, sizeof(score));
    out +=
        Little(score, 4) +
        Little(static_cast<uint32_t>(piece.bytes.value_or(static_cast<int32_t>(piece.text.size()))),
               4) +
        piece.text;
  }
  return out;
}

std::string GgufText(std::string_view text) { return Little(text.size(), 8) + std::string(text); }

std::string Write(const Gguf& file) {
  std::string out = file.magic + Little(file.version, 4) +
                    Little(file.tensor_count.value_or(file.tensors.size()), 8) +
                    Little(file.key_count.value_or(file.keys.size()), 8);
  for (const GgufKey& key : file.keys) out += GgufText(key.key) + Little(key.type, 4) + key.value;
  std::string data;
  const auto pad = [&](std::string& bytes) {
    if (file.alignment > 0)
      bytes.resize((bytes.size() + file.alignment - 1) / file.alignment * file.alignment, '\0');
  };
  for (const GgufTensor& tensor : file.tensors) {
    pad(data);
    out += GgufText(tensor.name) + Little(tensor.dims.size(), 4);
    for (uint64_t dim : tensor.dims) out += Little(dim, 8);
    out += Little(tensor.type, 4) + Little(tensor.offset.value_or(data.size()), 8);
    data += tensor.data;
  }
  pad(out);
  return out + data;
}

void FixZip(std::string& bytes) {
  const size_t end = bytes.rfind("PK\5\6");
  if (end == std::string::npos) return;
  size_t at = Number(bytes, end + 16, 4);
  const uint64_t entries = std::min<uint64_t>(Number(bytes, end + 10, 2), 64);
  for (uint64_t i = 0;
       i < entries && at + 46 <= bytes.size() && bytes.compare(at, 4, "PK\1\2") == 0; ++i) {
    const uint64_t packed = Number(bytes, at + 20, 4), offset = Number(bytes, at + 42, 4);
    const uint64_t data =
        offset + 30 + Number(bytes, offset + 26, 2) + Number(bytes, offset + 28, 2);
    if (data <= bytes.size() && packed <= bytes.size() - data) {
      const std::string_view member = std::string_view(bytes).substr(data, packed);
      const std::string unpacked =
          Number(bytes, at + 10, 2) == 8 ? Unpack(member).first : std::string(member);
      Put(bytes, at + 16, Little(Crc32(unpacked), 4));
    }
    at += 46 + Number(bytes, at + 28, 2) + Number(bytes, at + 30, 2) + Number(bytes, at + 32, 2);
  }
}

void FixGzip(std::string& bytes) {
  constexpr size_t kHeader = 10;  // without optional fields
  if (bytes.size() < kHeader) return;
  const auto [data, used] = Unpack(std::string_view(bytes).substr(kHeader));
  if (used > 0) Put(bytes, kHeader + used, Little(Crc32(data), 4) + Little(data.size(), 4));
}

void FixPng(std::string& bytes) {
  size_t at = 8;
  while (at + 12 <= bytes.size()) {
    const uint64_t length = Number(bytes, at, 4, /*big=*/true);
    if (length > bytes.size() - at - 12) return;
    Put(bytes, at + 8 + length, Big(Crc32(std::string_view(bytes).substr(at + 4, 4 + length)), 4));
    at += 12 + length;
  }
}

}  // namespace evoq::craft
