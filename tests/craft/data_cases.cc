#include "tests/craft/data_cases.h"

#include "base/check.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/labels.h"
#include "data/wav.h"
#include "tests/craft/data.h"
#include "tokenizer/tokenizer.h"

namespace evoq::craft {
namespace {

struct ReaderRow {
  const char* name;
  const char* file;
};
constexpr ReaderRow kRows[kReaders] = {
    {"npy", "a.npy"},         {"npz", "a.npz"},    {"idx", "a-idx"},     {"image", "a.png"},
    {"preprocess", "a.json"}, {"labels", "a.tsv"}, {"vocab", "a.vocab"}, {"tokenizer", "a.bin"},
    {"dataset", "a.npy"},     {"cifar", "a.bin"},  {"wav", "a.wav"}};

// `change` made to a good file.
template <typename T, typename Change>
std::string With(Change change, T file = {}) {
  change(file);
  return Write(file);
}

template <typename T>
std::string Good() {
  return Write(T{});
}

std::string NpyOf(const std::string& descr, const std::string& shape, const std::string& data) {
  return With<Npy>([&](Npy& f) { f.descr = descr, f.shape = shape, f.data = data; });
}

// `n` entries for the one member of 16 MiB, by names of their own; arrays of strings are left out
// again when they are unpacked.
std::string Overlapping(int n, const std::string& descr) {
  const std::string array = NpyOf(descr, "(16777216,)", std::string(1 << 24, '\0'));
  const uint64_t packed_bytes = Deflate(array).size();
  const uint32_t crc = Crc32(array);
  Zip zip;
  zip.members[0].data = array;
  for (int i = 1; i < n; ++i) {
    ZipMember m;
    m.name = "m" + std::to_string(i), m.data = "", m.no_local = true, m.offset = 0;
    m.packed_bytes = packed_bytes, m.unpacked_bytes = array.size(), m.crc = crc;
    zip.members.push_back(std::move(m));
  }
  return Write(zip);
}

// Arrays under many names that share the bytes of one, behind end records that all give the one
// directory: a reader that follows each of the records reads 17,000 entries 2,900 times.
std::string ManyEndRecords() {
  Zip zip;
  zip.members[0].method = 0;
  const std::string array = zip.members[0].data;
  for (int i = 1; i < 17000; ++i) {
    ZipMember m;
    m.name = "m" + std::to_string(i), m.data = "", m.method = 0, m.no_local = true, m.offset = 0;
    m.packed_bytes = m.unpacked_bytes = array.size(), m.crc = Crc32(array);
    zip.members.push_back(std::move(m));
  }
  constexpr size_t kEndBytes = 22;
  const std::string plain = Write(zip), end = plain.substr(plain.size() - kEndBytes);
  for (int i = 1; i < 2900; ++i) zip.comment += end;
  return Write(zip);
}

std::vector<DataCase> MakeNpyCases() {
  constexpr Reader r = Reader::kNpy;
  using N = Npy;
  return {
      {r, "good", Good<N>(), ""},
      {r, "version 2", With<N>([](N& f) { f.version = 2; }), ""},
      {r, "version 3", With<N>([](N& f) { f.version = 3; }), ""},
      {r, "fortran order", With<N>([](N& f) { f.fortran = "True"; }), ""},
      {r, "no axis", With<N>([](N& f) { f.shape = "()", f.data = "abcd"; }), ""},
      {r, "double quotes", With<N>([](N& f) { f.descr = "\"<f4\""; }), ""},
      {r, "bools", NpyOf("'|b1'", "(3,)", std::string("\0\1\2", 3)), ""},
      {r, "nothing", "", "npy: byte 0: no NPY magic"},
      {r, "9 bytes", Good<N>().substr(0, 9), "no NPY magic"},
      {r, "magic", With<N>([](N& f) { f.magic = "\x93NUMPX"; }), "no NPY magic"},
      {r, "version 0", With<N>([](N& f) { f.version = 0; }), "npy: version 0, expected 1 to 3"},
      {r, "version 4", With<N>([](N& f) { f.version = 4; }), "npy: version 4, expected 1 to 3"},
      {r, "version 2 in 11 bytes", With<N>([](N& f) { f.version = 2; }).substr(0, 11),
       "in a file of 11"},
      {r, "header beyond the end", With<N>([](N& f) { f.header_bytes = 65535; }),
       "npy: header of 65535 bytes in a file of"},
      {r, "header of 4 GB", With<N>([](N& f) { f.version = 2, f.header_bytes = UINT32_MAX; }),
       "npy: header of 4294967295 bytes in a file of"},
      {r, "header of no bytes", With<N>([](N& f) { f.header_bytes = 0; }),
       "npy: header is not {'descr'"},
      {r, "no dictionary", With<N>([](N& f) { f.header = "x"; }), "header is not"},
      {r, "open dictionary", With<N>([](N& f) { f.header = "{'descr': '<f4'"; }), "header is not"},
      {r, "no colon", With<N>([](N& f) { f.header = "{'descr' '<f4'}"; }), "header is not"},
      {r, "another key", With<N>([](N& f) { f.more = "'colour': 3"; }),
       "npy: header has the key 'colour', expected descr, fortran_order and shape"},
      {r, "no descr", With<N>([](N& f) { f.header = "{'fortran_order': False, 'shape': (2, 3)}"; }),
       "header is not"},
      {r, "no order", With<N>([](N& f) { f.header = "{'descr': '<f4', 'shape': (2, 3)}"; }),
       "header is not"},
      {r, "no shape", With<N>([](N& f) { f.header = "{'descr': '<f4', 'fortran_order': False}"; }),
       "header is not"},
      {r, "descr without quotes", With<N>([](N& f) { f.descr = "<f4"; }), "header is not"},
      {r, "descr that does not end", With<N>([](N& f) { f.header = "{'descr': '<f4"; }),
       "header is not"},
      {r, "order of another word", With<N>([](N& f) { f.fortran = "Maybe"; }), "header is not"},
      {r, "shape without brackets", With<N>([](N& f) { f.shape = "2"; }), "header is not"},
      {r, "shape without comma", With<N>([](N& f) { f.shape = "(2 3)"; }), "header is not"},
      {r, "shape that does not end",
       With<N>([](N& f) { f.header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3"; }),
       "header is not"},
      {r, "shape of words", With<N>([](N& f) { f.shape = "(two, 3)"; }), "header is not"},
      {r, "negative size", With<N>([](N& f) { f.shape = "(-2, 3)"; }), "header is not"},
      {r, "size beyond 64 bits", With<N>([](N& f) { f.shape = "(9223372036854775808,)"; }),
       "header is not"},
      {r, "big-endian", With<N>([](N& f) { f.descr = "'>f4'"; }),
       "npy: big-endian data ('>f4'), expected little-endian"},
      {r, "strings", With<N>([](N& f) { f.descr = "'<U6'"; }),
       "npy: strings ('<U6'), which files do not give to a model: evoq.load(MODEL).run() in Python "
       "takes them"},
      {r, "a long type", With<N>([](N& f) { f.descr = "'" + std::string(1000, 't') + "'"; }),
       "tttttt...', expected a little-endian"},
      {r, "a long key", With<N>([](N& f) { f.more = "'" + std::string(1000, 'k') + "': 3"; }),
       "kkkkkk...', expected descr"},
      {r, "empty type", With<N>([](N& f) { f.descr = "''"; }), "npy: element type '', expected"},
      {r, "64 axes", With<N>([](N& f) {
         f.shape = "(";
         for (int i = 0; i < 64; ++i) f.shape += "1,";
         f.shape += ")", f.data = "abcd";
       }),
       ""},
      {r, "65 axes", With<N>([](N& f) {
         f.shape = "(";
         for (int i = 0; i < 65; ++i) f.shape += "1,";
         f.shape += ")", f.data = "abcd";
       }),
       "npy: 65 axes, expected at most 64"},
      {r, "2^26 beside 0", NpyOf("'<f4'", "(0, 67108864)", ""), ""},
      {r, "2^26 + 1 beside 0", NpyOf("'<f4'", "(67108865, 0)", ""),
       "npy: [67108865, 0] has no element, but sizes beyond 67108864"},
      {r, "2^40 beside 0", NpyOf("'<f4'", "(1099511627776, 0)", ""),
       "npy: [1099511627776, 0] has no element, but sizes beyond 67108864"},
      {r, "overflow beside 0", NpyOf("'<f4'", "(4611686018427387904, 4, 0)", ""),
       "has no element, but sizes beyond"},
      {r, "a byte too few", With<N>([](N& f) { f.data.pop_back(); }),
       "npy: 23 bytes of data at byte 128, expected 24 for float32[2, 3]"},
      {r, "a byte too many", With<N>([](N& f) { f.data += 'x'; }),
       "npy: 25 bytes of data at byte 128, expected 24 for float32[2, 3]"},
      {r, "no data", With<N>([](N& f) { f.data = ""; }),
       "npy: 0 bytes of data at byte 128, expected 24"},
      {r, "elements beyond 64 bits", With<N>([](N& f) { f.shape = "(4294967296, 4294967296)"; }),
       "expected more than fit 64 bits for"},
      {r, "bytes beyond 64 bits", With<N>([](N& f) { f.shape = "(4611686018427387904,)"; }),
       "expected more than fit 64 bits for"},
  };
}

std::vector<DataCase> MakeZipCases() {
  constexpr Reader r = Reader::kNpz;
  const auto member = [](auto change) { return With<Zip>([&](Zip& f) { change(f.members[0]); }); };
  using M = ZipMember;
  using Z = Zip;
  const std::string good = Good<Z>(), array = Write(Npy{});
  const auto half = [](std::string text) { return text.substr(0, text.size() / 2); };
  return {
      {r, "deflated", good, ""},
      {r, "stored", member([](M& m) { m.method = 0; }), ""},
      {r, "zip64 entry", member([](M& m) { m.zip64 = true; }), ""},
      {r, "zip64 size unpacked alone", member([](M& m) { m.zip64 = true, m.zip64_fields = 1; }),
       ""},
      {r, "zip64 size packed alone", member([](M& m) { m.zip64 = true, m.zip64_fields = 2; }), ""},
      {r, "zip64 offset alone", With<Z>([](Z& f) {
         f.members.push_back(f.members[0]);
         f.members[1].name = "y.npy", f.members[1].zip64 = true, f.members[1].zip64_fields = 4;
       }),
       ""},
      {r, "zip64 field too short", member([](M& m) { m.zip64 = true, m.zip64_cut = 8; }),
       "zip: member x.npy: no header at byte 4294967295"},
      {r, "zip64 entry after another field",
       member([](M& m) { m.zip64 = true, m.extra = Little(0x5455, 2) + Little(3, 2) + "abc"; }),
       ""},
      {r, "zip64 end record", With<Z>([](Z& f) { f.zip64 = true; }), ""},
      {r, "comment", With<Z>([](Z& f) { f.comment = "made by hand"; }), ""},
      {r, "no member", With<Z>([](Z& f) { f.members.clear(); }), ""},
      {r, "strings are left out", member([](M& m) { m.data = NpyOf("'<U1'", "(1,)", "abcd"); }),
       ""},
      {r, "21 bytes", good.substr(good.size() - 21), "zip: 21 bytes, too short for an archive"},
      {r, "no end record", good.substr(0, good.size() - 22), "zip: no end-of-directory record"},
      {r, "comment longer than 65535", With<Z>([](Z& f) { f.comment = std::string(70000, 'c'); }),
       "zip: no end-of-directory record"},
      {r, "zip64 record elsewhere", With<Z>([](Z& f) { f.zip64 = true, f.zip64_offset = 3; }),
       "zip: the zip64 directory record at byte 3 is not one"},
      {r, "zip64 record beyond the end",
       With<Z>([](Z& f) { f.zip64 = true, f.zip64_offset = UINT64_MAX - 20; }),
       "zip: the zip64 directory record at byte"},
      {r, "directory beyond the end", With<Z>([](Z& f) { f.directory_offset = 1 << 20; }),
       "zip: a directory of 1 entries in"},
      {r, "zip64 directory beyond the end",
       With<Z>([](Z& f) { f.zip64 = true, f.directory_offset = UINT64_MAX; }),
       "does not fit the file"},
      {r, "zip64 directory of 2^64 bytes",
       With<Z>([](Z& f) { f.zip64 = true, f.directory_bytes = UINT64_MAX; }),
       "zip: a directory of 1 entries in 18446744073709551615 bytes"},
      {r, "more entries than fit", With<Z>([](Z& f) { f.entries = 60000; }),
       "zip: a directory of 60000 entries in"},
      {r, "zip64 entries beyond memory",
       With<Z>([](Z& f) { f.zip64 = true, f.entries = UINT64_MAX; }),
       "zip: a directory of 18446744073709551615 entries in"},
      {r, "directory elsewhere", With<Z>([](Z& f) { f.directory_offset = 1; }),
       "zip: no directory entry at byte 1"},
      {r, "entry's signature", member([](M& m) { m.entry_signature = "PK\1\3"; }),
       "zip: no directory entry at byte"},
      {r, "extra field that is cut off",
       member([](M& m) { m.extra = Little(1, 2) + Little(9, 2); }), ""},
      {r, "entry past the end", member([](M& m) { m.name_bytes = 65535; }),
       "zip: the directory entry at byte 108 runs past the end"},
      {r, "encrypted", member([](M& m) { m.flags = 1; }), "zip: member x.npy is encrypted"},
      {r, "a name of 60000 bytes",
       member([](M& m) { m.name = std::string(60000, 'n'), m.flags = 1; }),
       "nnnnnn... is encrypted"},
      {r, "a long name's checksum",
       member([](M& m) { m.name = std::string(3000, 'n'), m.crc = 1; }), "nnnnnn... has CRC-32"},
      {r, "no local header", member([](M& m) { m.offset = 2; }),
       "zip: member x.npy: no header at byte 2"},
      {r, "local header beyond the end", member([](M& m) { m.offset = 1 << 20; }),
       "zip: member x.npy: no header at byte 1048576"},
      {r, "local signature", member([](M& m) { m.local_signature = "PK\3\5"; }),
       "zip: member x.npy: no header at byte 0"},
      {r, "zip64 local header beyond the end",
       member([](M& m) { m.zip64 = true, m.offset = UINT64_MAX - 29; }),
       "no header at byte 18446744073709551586"},
      {r, "data past the end", member([](M& m) { m.packed_bytes = 100000; }),
       "zip: member x.npy: 100000 bytes at byte 35 run past the end of the file"},
      {r, "zip64 data past the end",
       member([](M& m) { m.zip64 = true, m.packed_bytes = UINT64_MAX; }),
       "bytes at byte 35 run past the end of the file"},
      {r, "more than deflate can make", member([](M& m) { m.unpacked_bytes = 4000000000u; }),
       "zip: member x.npy claims 4000000000 bytes from"},
      {r, "stored, smaller than it says", member([](M& m) { m.method = 0, m.unpacked_bytes = 10; }),
       "zip: stored member x.npy has 152 bytes, expected 10"},
      {r, "stored, larger than it says", member([](M& m) { m.method = 0, m.unpacked_bytes = 153; }),
       "zip: member x.npy claims 153 bytes from 152 packed ones"},
      {r, "another method", member([](M& m) { m.method = 12; }),
       "zip: member x.npy has compression method 12, expected 0 (stored) or 8 (deflate)"},
      {r, "not deflated", member([](M& m) { m.packed = std::string(20, '\xff'); }),
       "zip: member x.npy cannot be unpacked: "},
      {r, "cut off", member([&](M& m) { m.packed = half(Deflate(m.data)); }),
       "zip: member x.npy cannot be unpacked: the data ends too early"},
      {r, "unpacks to more", member([](M& m) { m.unpacked_bytes = 151; }),
       "zip: member x.npy cannot be unpacked: the size differs"},
      {r, "unpacks to less", member([](M& m) { m.unpacked_bytes = 153; }),
       "zip: member x.npy cannot be unpacked: the size differs"},
      {r, "another checksum, deflated", member([](M& m) { m.crc = 1; }), "has CRC-32 "},
      {r, "a flipped byte, stored", member([](M& m) {
         m.method = 0, m.packed = m.data;
         m.packed->back() ^= 1;
       }),
       "zip: member x.npy has CRC-32 "},
      {r, "a flipped byte, deflated", member([](M& m) {
         std::string other = m.data;
         other.back() ^= 1;
         m.packed = Deflate(other);
       }),
       "zip: member x.npy has CRC-32 "},
      {r, "no array", member([](M& m) { m.data = "hello, world"; }),
       "x: npy: byte 0: no NPY magic"},
      {r, "twice", With<Z>([](Z& f) { f.members.push_back(f.members[0]); }), "x: occurs twice"},
      {r, "many end records", ManyEndRecords(), ""},
      {r, "one member under many names", Overlapping(12, "'|u1'"),
       "m8: zip: member m8: 16777344 bytes of memory, expected at most the"},
      {r, "one member under many names, left out", Overlapping(80, "'|S1'"),
       "units of work, expected at most the"},
  };
}

std::vector<DataCase> MakeIdxCases() {
  constexpr Reader r = Reader::kIdx;
  using I = Idx;
  using G = Gzip;
  const std::string good = Good<I>();
  const auto gzip = [&](auto change) {
    return With<G>([&](G& f) {
      f.data = good;
      change(f);
    });
  };
  const auto nothing = [](G&) {};
  const std::string part = gzip([](G& f) { f.data = std::string(1 << 24, '\0'); });
  std::string bomb;
  for (int i = 0; i < 8; ++i) bomb += part;
  return {
      {r, "images", good, ""},
      {r, "gzipped", gzip(nothing), ""},
      {r, "two gzip members", gzip([&](G& f) { f.data = good.substr(0, 9); }) + gzip([&](G& f) {
                                f.data = good.substr(9);
                              }),
       ""},
      {r, "nothing", "", "idx: byte 0: no idx magic"},
      {r, "magic", "\1" + good.substr(1), "idx: byte 0: no idx magic"},
      {r, "magic's second byte", std::string("\0\1", 2) + good.substr(2),
       "idx: byte 0: no idx magic"},
      {r, "type", With<I>([](I& f) { f.type = 9; }),
       "idx: element type 0x09, expected 0x08 (unsigned byte)"},
      {r, "no dimension", With<I>([](I& f) { f.sizes = {}; }), "idx: 0 dimensions in 28 bytes"},
      {r, "243 dimensions", With<I>([](I& f) { f.sizes.assign(243, 1'000'000'000); }),
       "idx: 24 bytes of data, expected too many for [1000000000, 1000000000, "},
      {r, "243 dimensions of 1", With<I>([](I& f) { f.sizes.assign(243, 1); }),
       "expected 1 for [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ... 243 in all]"},
      {r, "sizes past the end", good.substr(0, 15), "idx: 3 dimensions in 15 bytes"},
      {r, "data too short", good.substr(0, good.size() - 1),
       "idx: 23 bytes of data, expected 24 for [2, 3, 4]"},
      {r, "data too long", good + "x", "idx: 25 bytes of data, expected 24 for [2, 3, 4]"},
      {r, "sizes beyond 64 bits",
       With<I>([](I& f) { f.sizes = {UINT32_MAX, UINT32_MAX, UINT32_MAX}; }),
       "idx: 24 bytes of data, expected too many for"},
      {r, "4 dimensions", With<I>([](I& f) { f.sizes = {2, 3, 4, 1}; }),
       "idx sizes [2, 3, 4, 1], expected [samples, height, width]"},
      {r, "no height", With<I>([](I& f) { f.sizes = {2, 0, 4}, f.data = ""; }),
       "idx sizes [2, 0, 4], expected [samples, height, width]"},
      {r, "no width", With<I>([](I& f) { f.sizes = {2, 3, 0}, f.data = ""; }),
       "idx sizes [2, 3, 0], expected [samples, height, width]"},
      {r, "a side beyond 2^14",
       With<I>([](I& f) { f.sizes = {1, 1, 16385}, f.data = std::string(16385, 'x'); }),
       "idx sizes [1, 1, 16385], expected"},
      {r, "a side of 2^14",
       With<I>([](I& f) { f.sizes = {1, 1, 16384}, f.data = std::string(16384, 'x'); }), ""},
      {r, "no sample", With<I>([](I& f) { f.sizes = {0, 3, 4}, f.data = ""; }),
       "no sample found: the data is empty"},
      {r, "gzip cut off", gzip(nothing).substr(0, 25),
       "gzip: cannot be unpacked: the data ends too early"},
      {r, "gzip method", gzip([](G& f) { f.method = 7; }),
       "gzip: cannot be unpacked: unknown compression method"},
      {r, "gzip checksum", gzip([](G& f) { f.crc = 1; }),
       "gzip: cannot be unpacked: incorrect data check"},
      {r, "gzip length", gzip([](G& f) { f.bytes = 1; }),
       "gzip: cannot be unpacked: incorrect length check"},
      {r, "gzip data", gzip([](G& f) { f.packed = "\xff\xff\xff\xff"; }),
       "gzip: cannot be unpacked: invalid block type"},
      {r, "gzip tail", gzip(nothing) + "tail", "gzip: cannot be unpacked: "},
      {r, "gzip of 128 MiB", bomb, "gzip: unpacked data: "},
  };
}

std::vector<DataCase> MakeImageCases() {
  constexpr Reader r = Reader::kImage;
  const auto png = [](auto change) { return With<Png>(change); };
  const auto bmp = [](auto change) { return With<Bmp>(change); };
  const auto tiff = [](auto change) { return With<Tiff>(change); };
  const std::string text(1 << 20, ' '), jpeg = ProgressiveJpeg(20, 10, 1);
  constexpr uint16_t kByte = 1, kShort = 3, kLong = 4, kRational = 5;
  const char* other_tiff =
      "a TIFF other than of gray or RGB of 8 bits without compression, palette or planes";
  return {
      {r, "nothing", "", "neither JPEG nor PNG, BMP, PNM or TIFF: the file is empty"},
      {r, "something else", "GIF89a",
       "neither JPEG nor PNG, BMP, PNM or TIFF: unknown first bytes"},
      // PNG
      {r, "png", Good<Png>(), ""},
      {r, "gray png", png([](Png& f) { f.color = 0, f.rows = std::string("\0ab\0cd", 6); }), ""},
      {r, "gray png of 1 bit",
       png([](Png& f) { f.color = 0, f.depth = 1, f.rows = std::string("\0\x80\0\x40", 4); }), ""},
      {r, "png of 16 bits with alpha",
       png([](Png& f) { f.color = 6, f.depth = 16, f.rows = std::string(2 * 17, '\0'); }), ""},
      {r, "interlaced png",
       png([](Png& f) { f.interlace = 1, f.rows = std::string(3 + 12, '\0'); }), ""},
      {r, "palette png", png([](Png& f) {
         f.color = 3, f.before = {{"PLTE", "abcdef"}}, f.rows = std::string("\0\0\1\0\1\0", 6);
       }),
       ""},
      {r, "palette png without palette",
       png([](Png& f) { f.color = 3, f.rows = std::string(6, '\0'); }), "corrupt PNG: "},
      {r, "png of no width", png([](Png& f) { f.width = 0; }), "corrupt PNG: "},
      {r, "png of no height", png([](Png& f) { f.height = 0; }), "corrupt PNG: "},
      {r, "png of 3 bits", png([](Png& f) { f.depth = 3; }), "corrupt PNG: "},
      {r, "png of color type 5", png([](Png& f) { f.color = 5; }), "corrupt PNG: "},
      {r, "png of another compression", png([](Png& f) { f.compression = 1; }), "corrupt PNG: "},
      {r, "png of another filter", png([](Png& f) { f.filter = 9; }), "corrupt PNG: "},
      {r, "png of another interlacing", png([](Png& f) { f.interlace = 2; }), "corrupt PNG: "},
      {r, "png with too few rows", png([](Png& f) { f.rows.resize(7); }),
       "corrupt or truncated PNG: "},
      {r, "png of another row filter", png([](Png& f) { f.rows[0] = 7; }),
       "corrupt or truncated PNG: "},
      {r, "png of pixels that do not unpack", png([](Png& f) { f.idat = "these are no pixels"; }),
       "corrupt or truncated PNG: "},
      {r, "png without end", png([](Png& f) { f.end = false; }),
       "corrupt or truncated PNG: the file ends too early"},
      {r, "png with an unknown critical chunk", png([](Png& f) { f.before = {{"EVOQ", "x"}}; }),
       "PNG: "},
      {r, "png with a chunk that nobody needs",
       png([](Png& f) { f.before = {{"tEXt", "Title\0x"}, {"gAMA", Big(45455, 4)}}; }), ""},
      {r, "png with texts of a megabyte each", png([&](Png& f) {
         f.before.assign(40, {"zTXt", std::string("Comment\0\0", 9) + ZlibDeflate(text)});
       }),
       ""},
      {r, "png of 6000 x 6000 pixels, no rows", png([](Png& f) { f.width = f.height = 6000; }),
       "corrupt or truncated PNG: "},
      {r, "png beyond its budget", png([](Png& f) { f.width = f.height = 7000; }),
       "image of 7000 x 7000 pixels: 147000000 bytes of memory, expected at most"},
      {r, "png beyond 2^28 pixels", png([](Png& f) { f.width = f.height = 16385; }),
       "image of 16385 x 16385 pixels, at most 268435456 are read"},
      // JPEG
      {r, "progressive jpeg", jpeg, ""},
      {r, "progressive jpeg of 300 scans", ProgressiveJpeg(20, 10, 300), ""},
      {r, "progressive jpeg of 300 large scans", ProgressiveJpeg(2500, 2500, 300), "JPEG: scan 17"},
      {r, "half a progressive jpeg", jpeg.substr(0, jpeg.size() / 2),
       "corrupt JPEG: Premature end of JPEG file"},
      {r, "progressive jpeg without end", jpeg.substr(0, jpeg.size() - 2),
       "corrupt or truncated JPEG: Premature end of JPEG file"},
      {r, "progressive jpeg beyond its budget", ProgressiveJpeg(6400, 5200, 1),
       "coefficients of a progressive JPEG: 66560000 bytes of memory, expected at most"},
      // BMP
      {r, "bmp", Good<Bmp>(), ""},
      {r, "bmp from the top", bmp([](Bmp& f) { f.height = -2; }), ""},
      {r, "bmp of 53 bytes", Good<Bmp>().substr(0, 53),
       "a bitmap of 24 bits, expected 24 without compression"},
      {r, "bmp of an old header", bmp([](Bmp& f) { f.header_bytes = 12; }), "a bitmap of"},
      {r, "bmp of 32 bits", bmp([](Bmp& f) { f.bits = 32; }),
       "a bitmap of 32 bits, expected 24 without compression"},
      {r, "compressed bmp", bmp([](Bmp& f) { f.compression = 1; }),
       "a bitmap of 24 bits, expected 24 without compression"},
      {r, "bmp of height -2^31", bmp([](Bmp& f) { f.height = INT32_MIN; }),
       "a height of -2147483648"},
      {r, "bmp of no height", bmp([](Bmp& f) { f.height = 0; }),
       "image of 2 x 0 pixels, expected at least 1 x 1"},
      {r, "bmp of negative width", bmp([](Bmp& f) { f.width = -2; }),
       "image of -2 x 2 pixels, expected at least 1 x 1"},
      {r, "bmp larger than its file", bmp([](Bmp& f) { f.width = 8000, f.height = 8000; }),
       "8000 x 8000 pixels of 3 bytes, in a file of 70 bytes"},
      {r, "bmp a byte too short", Good<Bmp>().substr(0, 67), "the file ends within row 0 of 2"},
      {r, "bmp without its last padding", Good<Bmp>().substr(0, 68), ""},
      {r, "bmp of pixels beyond the end", bmp([](Bmp& f) { f.start = UINT32_MAX; }),
       "the file ends within row 0 of 2"},
      // PNM
      {r, "pnm", "P6 2 1 255\nabcdef", ""},
      {r, "gray pnm with comments", "P5 # wide\n2#\n 1\n255\nab", ""},
      {r, "pnm a byte too short", "P6 2 1 255\nabcde", "the file ends within row 0 of 1"},
      {r, "pnm of words", "P6 two", "expected a number at byte 3"},
      {r, "pnm that ends in a comment", "P6 #", "expected a number at byte 4"},
      {r, "pnm of 16 bits", "P6 2 1 65535\nabcdefghijkl", "a largest value of 65535, expected 255"},
      {r, "pnm without blank", "P5 1 1 255", "the file ends within row 0 of 1"},
      {r, "pnm of no pixels", "P5 0 1 255\n", "image of 0 x 1 pixels, expected at least 1 x 1"},
      {r, "pnm larger than its file", "P5 20000 20000 255\nabc",
       "20000 x 20000 pixels of 1 bytes, in a file of 22 bytes"},
      {r, "pnm of many digits", "P5 99999999999999999999 99999999999999999999 255\nabc",
       "2147483648 x 2147483648 pixels of 1 bytes, in a file of"},
      // TIFF
      {r, "tiff", Good<Tiff>(), ""},
      {r, "big-endian tiff", tiff([](Tiff& f) { f.big_endian = true; }), ""},
      {r, "tiff of strips", tiff([](Tiff& f) { f.rows_per_strip = 1; }), ""},
      {r, "gray tiff", tiff([](Tiff& f) { f.samples = 1, f.photometric = 1; }), ""},
      {r, "white-is-zero tiff", tiff([](Tiff& f) { f.samples = 1, f.photometric = 0; }), ""},
      {r, "tiff of four samples",
       tiff([](Tiff& f) { f.samples = 4, f.pixels = "abcdefghijklmnop"; }), ""},
      {r, "tiff without optional tags", tiff([](Tiff& f) { f.without = {259, 262, 278, 284}; }),
       ""},
      {r, "tiff of CMYK",
       tiff([](Tiff& f) { f.samples = 4, f.photometric = 5, f.pixels = "abcdefghijklmnop"; }),
       other_tiff},
      {r, "tiff of a palette", tiff([](Tiff& f) { f.samples = 1, f.photometric = 3; }), other_tiff},
      {r, "tiff of YCbCr", tiff([](Tiff& f) { f.photometric = 6; }), other_tiff},
      {r, "rgb tiff of one sample", tiff([](Tiff& f) { f.samples = 1; }), other_tiff},
      {r, "gray tiff of three samples", tiff([](Tiff& f) { f.photometric = 1; }), other_tiff},
      {r, "tiff of 2 samples", tiff([](Tiff& f) { f.samples = 2; }), other_tiff},
      {r, "tiff of 5 samples", tiff([](Tiff& f) { f.samples = 5; }), other_tiff},
      {r, "tiff of 16 bits", tiff([](Tiff& f) { f.bits = 16; }), other_tiff},
      {r, "tiff without bits", tiff([](Tiff& f) { f.without = {258}; }), other_tiff},
      {r, "compressed tiff", tiff([](Tiff& f) { f.compression = 5; }), other_tiff},
      {r, "tiff of planes", tiff([](Tiff& f) { f.planes = 2; }), other_tiff},
      {r, "tiff of reversed bits", tiff([](Tiff& f) { f.more = {{266, kShort, 1, 2}}; }),
       other_tiff},
      {r, "tiff of three depths",
       tiff([](Tiff& f) { f.without = {258}, f.more = {{258, kShort, 3, 0}}; }), other_tiff},
      {r, "tiff, first of two widths", tiff([](Tiff& f) { f.more = {{256, kLong, 1, 999}}; }), ""},
      {r, "tiff of strips of no rows", tiff([](Tiff& f) { f.rows_per_strip = 0; }),
       "strips of no rows"},
      {r, "tiff of no width", tiff([](Tiff& f) { f.width = 0; }),
       "image of 0 x 2 pixels, expected at least 1 x 1"},
      {r, "tiff without height", tiff([](Tiff& f) { f.without = {257}; }),
       "image of 2 x 0 pixels, expected at least 1 x 1"},
      {r, "tiff larger than its file",
       tiff([](Tiff& f) { f.width = 30000, f.height = 30000, f.rows_per_strip = UINT32_MAX; }),
       "30000 x 30000 pixels of 3 bytes, in a file of"},
      {r, "tiff without strips", tiff([](Tiff& f) { f.without = {273}; }),
       "0 strips, expected one for row 0"},
      {r, "tiff of too few strips", tiff([](Tiff& f) { f.rows_per_strip = 1, f.strips = 1; }),
       "1 strips, expected one for row 1"},
      {r, "tiff of strips' offsets beyond the end",
       tiff([](Tiff& f) { f.rows_per_strip = 1, f.strips = 1 << 30; }),
       "tag 273: 4294967296 bytes at byte"},
      {r, "tiff of bytes as numbers", tiff([](Tiff& f) {
         f.without = {258, 259}, f.more = {{258, kByte, 3, 0x080808}, {259, kByte, 1, 1}};
       }),
       ""},
      {r, "big-endian tiff of bytes as numbers", tiff([](Tiff& f) {
         f.big_endian = true, f.without = {258, 259};
         f.more = {{258, kByte, 3, 0x08080800}, {259, kByte, 1, 0x01ffffff}};
       }),
       ""},
      {r, "compressed tiff, as a byte",
       tiff([](Tiff& f) { f.without = {259}, f.more = {{259, kByte, 1, 5}}; }), other_tiff},
      {r, "tiff of a type that is no number",
       tiff([](Tiff& f) { f.without = {259}, f.more = {{259, kRational, 1, 8}}; }),
       "tag 259 is of type 5, expected 1, 3 or 4"},
      {r, "tiff, a tag that nobody reads",
       tiff([](Tiff& f) { f.more = {{282, kRational, 1, 1 << 30}}; }), ""},
      {r, "tiff of a strip beyond the end", tiff([](Tiff& f) { f.strip_at = 1 << 20; }),
       "the file ends within row 0 of 2"},
      {r, "tiff a byte too short", tiff([](Tiff& f) { f.pixels.pop_back(); }),
       "the file ends within row 1 of 2"},
      {r, "tiff of a directory beyond the end", tiff([](Tiff& f) { f.directory = 1 << 20; }),
       "a directory of 0 entries at byte 1048576 of"},
      {r, "tiff of more entries than fit", tiff([](Tiff& f) { f.entries = 65535; }),
       "a directory of 65535 entries at byte 8 of"},
      {r, "tiff of 4 bytes", std::string("II*\0", 4),
       "a directory of 18761 entries at byte 0 of 4"},
  };
}

std::vector<DataCase> MakePreprocessCases() {
  constexpr Reader r = Reader::kPreprocess;
  return {
      {r, "empty object", "{}", ""},
      {r, "every field",
       R"({"_why": "x", "resize_short": 9, "crop": [8, 7], "resize": [5, 6], "color": "BGR",
           "layout": "NHWC", "scale": 0.5, "mean": [1, 2, 3], "std": 2, "label_offset": -1,
           "dtype": "int8"})",
       ""},
      {r, "one mean", R"({"mean": 0.5, "std": [0.25]})", ""},
      {r, "gray", R"({"color": "GRAY", "mean": [0.5], "std": 4})", ""},
      {r, "nothing", "", "not JSON (0 bytes)"},
      {r, "no object", "[1]", "expected a JSON object of preprocessing fields"},
      {r, "65 levels", std::string(65, '['), "nested deeper than 64 levels"},
      {r, "unknown field", R"({"crp": [8, 8]})", "unknown field \"crp\", expected resize_short"},
      {r, "a long field", "{\"" + std::string(1000, 'f') + "\": 1}",
       "ffffff...\", expected resize_short"},
      {r, "unnamed field", R"({"": 1})", "unknown field \"\""},
      {r, "short side 0", R"({"resize_short": 0})",
       "field \"resize_short\" is 0, expected a whole number from 1 to 65536"},
      {r, "short side 1", R"({"resize_short": 1})", ""},
      {r, "short side 65537", R"({"resize_short": 65537})",
       "field \"resize_short\" is 65537, expected a whole number from 1 to 65536"},
      {r, "short side 2^64 - 1", R"({"resize_short": 18446744073709551615})",
       "field \"resize_short\" is 18446744073709551615, expected"},
      {r, "short side of words", R"({"resize_short": "x"})",
       "field \"resize_short\" is \"x\", expected a whole number"},
      {r, "short side of a fraction", R"({"resize_short": 2.5})",
       "field \"resize_short\" is 2.5, expected a whole number"},
      {r, "crop of one", R"({"crop": [8]})", "field \"crop\" is [8], expected [height, width]"},
      {r, "crop of three", R"({"crop": [8, 8, 8]})",
       "field \"crop\" is [8,8,8], expected [height, width]"},
      {r, "crop of no height", R"({"crop": [0, 8]})",
       "field \"crop\" is [0,8], expected [height, width]"},
      {r, "resize of no width", R"({"resize": [8, 0]})",
       "field \"resize\" is [8,0], expected [height, width]"},
      {r, "resize of a number", R"({"resize": 8})",
       "field \"resize\" is 8, expected [height, width]"},
      {r, "color", R"({"color": "YUV"})",
       "field \"color\" is \"YUV\", expected one of RGB, BGR, GRAY"},
      {r, "layout", R"({"layout": 3})", "field \"layout\" is 3, expected one of NCHW, NHWC"},
      {r, "two means", R"({"mean": [1, 2]})",
       "field \"mean\" is [1,2], expected a number or an array of 1 or 3"},
      {r, "mean of words", R"({"mean": ["a", 2, 3]})",
       "field \"mean\" is [\"a\",2,3], expected finite numbers"},
      {r, "mean of a word", R"({"mean": "a"})", "field \"mean\" is \"a\", expected finite numbers"},
      {r, "infinite mean", R"({"mean": [1e39, 2, 3]})", "expected finite numbers"},
      {r, "std 0", R"({"std": [1, 0, 1]})",
       "field \"std\" is [1,0,1], expected numbers other than 0"},
      {r, "three means of gray", R"({"color": "GRAY", "mean": [1, 2, 3]})",
       "field \"mean\" has 3 numbers, expected 1 for color GRAY"},
      {r, "scale", R"({"scale": [1]})", "field \"scale\" is [1], expected a finite number"},
      {r, "infinite scale", R"({"scale": 1e39})",
       "field \"scale\" is 1e+39, expected a finite number"},
      {r, "offset of a fraction", R"({"label_offset": 0.5})",
       "field \"label_offset\" is 0.5, expected a whole number within a million"},
      {r, "offset -1000000", R"({"label_offset": -1000000})", ""},
      {r, "offset 1000000", R"({"label_offset": 1000000})", ""},
      {r, "offset 1000001", R"({"label_offset": 1000001})",
       "field \"label_offset\" is 1000001, expected a whole number within a million"},
      {r, "offset -1000001", R"({"label_offset": -1000001})",
       "field \"label_offset\" is -1000001, expected"},
      {r, "offset that wraps to -5", R"({"label_offset": 18446744073709551611})",
       "field \"label_offset\" is 18446744073709551611, expected"},
      {r, "type", R"({"dtype": "float64"})",
       "field \"dtype\" is \"float64\", expected one of float32, uint8, int8"},
  };
}

std::vector<DataCase> MakeTableCases() {
  constexpr Reader r = Reader::kLabels, v = Reader::kVocab, t = Reader::kTokenizerBin;
  const std::vector<Piece> pieces = {{"<unk>"}, {"<s>"}, {"a", -1}, {"b", -2}, {"ab", -3}};
  const auto bin = [&](auto change) {
    std::vector<Piece> changed = pieces;
    change(changed);
    return WriteTokenizerBin(changed);
  };
  return {
      {r, "good", "file\tclass_index\na.png\t3\n", ""},
      {r, "label, and another column", "label\tname\tfile\r\n3\tcat\ta.png\r\n\r\n", ""},
      {r, "both columns", "file\tlabel\tclass_index\na.png\tx\t4\n", ""},
      {r, "nothing", "",
       "line 1: columns are \"\", expected file and class_index (or label), separated by tabs"},
      {r, "no file", "name\tlabel\na\t1\n", "line 1: columns are \"name, label\", expected file"},
      {r, "no label", "file\tclass\na\t1\n", "line 1: columns are \"file, class\", expected file"},
      {r, "header alone", "file\tlabel\n", "no labels below the header"},
      {r, "a column too few", "file\tlabel\na.png\n", "line 2: 1 columns, expected 2"},
      {r, "a word", "file\tlabel\n\na.png\tcat\n", "line 3: label \"cat\" is not a whole number"},
      {r, "a word after a number", "file\tlabel\na.png\t3cats\n",
       "line 2: label \"3cats\" is not a whole number"},
      {r, "an empty label", "file\tlabel\na.png\t\n", "line 2: label \"\" is not a whole number"},
      {r, "beyond 64 bits", "file\tlabel\na.png\t9223372036854775808\n",
       "line 2: label \"9223372036854775808\" is not a whole number"},
      {r, "twice", "file\tlabel\na.png\t1\nb\t2\na.png\t1\n", "line 4: file a.png occurs twice"},
      {r, "a long line", std::string(100000, 'x'), "xxxxxxxx...\", expected file"},
      {v, "good", "<unk>\t0\n<s>\t0\na\t-1\nb\t-2\nab\t-3\n\xE2\x96\x81\t-4\n", ""},
      {v, "nothing", "", "0 pieces, expected at least 2"},
      {v, "one piece", "<unk>\t0\n", "1 pieces, expected at least 2"},
      {v, "no tab", "<unk>\t0\n<s>\n", "line 2: expected a piece, a tab and a score"},
      {v, "no score", "<unk>\t0\n<s>\tx\n", "line 2: expected a piece, a tab and a score"},
      {v, "score NaN", "<unk>\t0\n<s>\tnan\n", "piece 1 has the score nan, expected a number"},
      {v, "piece of 4096 bytes", "<unk>\t0\n" + std::string(4096, 'a') + "\t0\n", ""},
      {v, "piece of 4097 bytes", "<unk>\t0\n" + std::string(4097, 'a') + "\t0\n",
       "piece 1 has 4097 bytes, expected at most 4096"},
      {t, "good", bin([](auto&) {}), ""},
      {t, "nothing", "", "0 pieces, expected at least 2"},
      {t, "one piece", WriteTokenizerBin({{"<unk>"}}), "1 pieces, expected at least 2"},
      {t, "cut off in the size", bin([](auto&) {}).substr(0, 24), "piece 1 is cut off"},
      {t, "negative size", bin([](auto& p) { p[1].bytes = -1; }),
       "piece 1 has -1 bytes, expected at most 4096"},
      {t, "size beyond the end", bin([](auto& p) { p[4].bytes = 3; }),
       "piece 4 has 3 bytes, expected at most the 2 left in the file"},
      {t, "size of 4097", bin([](auto& p) { p[1].bytes = 4097; }),
       "piece 1 has 4097 bytes, expected at most 4096"},
      {t, "score NaN", bin([](auto& p) { p[3].score = __builtin_nanf(""); }),
       "piece 3 has the score nan, expected a number"},
  };
}

std::vector<DataCase> MakeDatasetCases() {
  constexpr Reader r = Reader::kDataset, c = Reader::kCifar;
  const auto record = [](char label) { return label + std::string(3072, 'p'); };
  return {
      {r, "two samples of three", Good<Npy>(), ""},
      {r, "bools", NpyOf("'|b1'", "(1, 3)", std::string("\0\1\2", 3)), ""},
      {r, "one sample without its batch axis", NpyOf("'<f8'", "(3,)", std::string(24, '\0')), ""},
      {r, "no axis", NpyOf("'<f4'", "()", "abcd"),
       "expected rank 2 (1 for one sample, 3 for whole inputs)"},
      {r, "two whole inputs", NpyOf("'<f4'", "(2, 1, 3)", std::string(24, '\0')), ""},
      {r, "two axes too many", NpyOf("'<f4'", "(1, 1, 1, 1)", "abcd"),
       "float32[1, 1, 1, 1], expected rank 2 (1 for one sample, 3 for whole inputs)"},
      {r, "no sample", NpyOf("'<f4'", "(0, 3)", ""), "no sample found: the data is empty"},
      {r, "samples without elements", NpyOf("'<f4'", "(5, 0)", ""),
       "float32[5, 0], samples of no elements"},
      {r, "one sample without elements", NpyOf("'<f4'", "(0,)", ""),
       "float32[0], samples of no elements"},
      {r, "2^26 samples without elements", NpyOf("'<f4'", "(67108864, 0)", ""),
       "samples of no elements"},
      {r, "2^40 samples without elements", NpyOf("'<f4'", "(1099511627776, 0)", ""),
       "no element, but sizes beyond"},
      {r, "another size", NpyOf("'<f4'", "(1, 1)", "abcd"),
       "a sample of float32[1, 1], expected [?, 3] for the model's input"},
      {c, "two records", record('\3') + record('\1'), ""},
      {c, "nothing", "", "no sample found: the data is empty"},
      {c, "a byte too many", record('\3') + "x",
       "3074 bytes, expected a multiple of 3073 (CIFAR-10: label, 32 x 32 x 3 pixels)"},
      {c, "a byte too few", record('\3').substr(1), "3072 bytes, expected a multiple of 3073"},
  };
}

std::vector<DataCase> MakeWavCases() {
  constexpr Reader r = Reader::kWav;
  using W = Wav;
  const std::string good = Good<W>();
  return {
      {r, "a sound", good, ""},
      {r, "bytes", With<W>([](W& f) { f.bits = 8; }), ""},
      {r, "float32", With<W>([](W& f) { f.encoding = 3, f.bits = 32; }), ""},
      {r, "24 bits of two channels",
       With<W>([](W& f) { f.bits = 24, f.channels = 2, f.data = std::string(12, '\7'); }), ""},
      {r, "an extensible format", With<W>([](W& f) {
         f.encoding = 0xfffe, f.more = Little(22, 2) + Little(0, 6) + Little(1, 2) + "rest";
       }),
       ""},
      {r, "half a sample at the end", good + "x", ""},
      {r, "data of an unknown size", With<W>([](W& f) { f.data_bytes = UINT32_MAX; }), ""},
      {r, "no sample", With<W>([](W& f) { f.data = ""; }), ""},
      {r, "nothing", "", "no WAV file: it does not begin with RIFF and WAVE"},
      {r, "another form", With<W>([](W& f) { f.form = "AVI "; }), "no WAV file"},
      {r, "cut in its format", good.substr(0, 40), "byte 24: a format of 8 bytes, expected 16"},
      {r, "cut before its data", good.substr(0, 50), "no data of a sound"},
      {r, "a short format", With<W>([](W& f) { f.format_bytes = 15; }),
       "byte 24: a format of 15 bytes, expected 16"},
      {r, "an extensible format without its end", With<W>([](W& f) { f.encoding = 0xfffe; }),
       "encoding 65534 of 16 bits, expected PCM of 8, 16, 24 or 32, or float32"},
      {r, "12 bits", With<W>([](W& f) { f.bits = 12; }), "encoding 1 of 12 bits, expected PCM"},
      {r, "A-law", With<W>([](W& f) { f.encoding = 6, f.bits = 8; }), "encoding 6 of 8 bits"},
      {r, "no channel", With<W>([](W& f) { f.channels = 0; }),
       "0 channels of 16000 samples in a second"},
      {r, "65 channels", With<W>([](W& f) { f.channels = 65; }), "65 channels of 16000"},
      {r, "no rate", With<W>([](W& f) { f.rate = 0; }), "1 channels of 0 samples in a second"},
      {r, "a rate beyond 2^20", With<W>([](W& f) { f.rate = (1 << 20) + 1; }),
       "1 channels of 1048577 samples in a second"},
      {r, "a chunk beyond the end",
       With<W>([](W& f) { f.before = "LIST" + Little(UINT32_MAX, 4); }), "no data of a sound"},
      {r, "data before their format", good.substr(0, 12) + "data" + Little(0, 4) + good.substr(12),
       "byte 12: data before their format"},
      {r, "more than ten hours",
       With<W>([](W& f) { f.rate = 1, f.bits = 8, f.data = std::string(36001, 'x'); }),
       "36001 seconds, expected at most 36000"},
  };
}

// The first and the last sample.
Status Use(Result<std::unique_ptr<Dataset>> opened) {
  EVOQ_ASSIGN(const std::unique_ptr<Dataset> data, std::move(opened));
  EVOQ_TRY(data->At(0));
  EVOQ_TRY(data->At(data->size() - 1));
  return {};
}

template <typename T>
Status Outcome(const Result<T>& result) {
  EVOQ_TRY(result);
  return {};
}

}  // namespace

const char* ReaderName(Reader reader) { return kRows[static_cast<int>(reader)].name; }
const char* FileName(Reader reader) { return kRows[static_cast<int>(reader)].file; }

Status ReadAs(Reader reader, const std::string& path) {
  Preprocess small;
  small.crop = {1, 1};
  switch (reader) {
    case Reader::kNpy: return Outcome(ReadNpy(path));
    case Reader::kNpz: return Outcome(ReadNpz(path));
    case Reader::kIdx: {
      small.color = "GRAY", small.mean = {0}, small.std = {1};
      return Use(OpenDataset(path, {.preprocess = small}));
    }
    case Reader::kImage: {
      Preprocess gray;
      gray.color = "GRAY", gray.resize = {5, 4};
      return Outcome(LoadInput(path, gray));
    }
    case Reader::kPreprocess: return Outcome(LoadPreprocess(path));
    case Reader::kLabels: return Outcome(LoadLabels(path));
    case Reader::kVocab:
    case Reader::kTokenizerBin: {
      EVOQ_ASSIGN(const Tokenizer tokenizer, Tokenizer::Load(path));
      EVOQ_ASSIGN(const std::vector<int64_t> pieces, tokenizer.Encode("ab ba\n\xC3\xA4 aabb"));
      for (int64_t piece : pieces) EVOQ_CHECK(piece >= 0 && piece < tokenizer.size());
      return {};
    }
    case Reader::kDataset: return Use(OpenDataset(path, {.input_sizes = {-1, 3}}));
    case Reader::kCifar: return Use(OpenDataset(path, {.preprocess = small}));
    case Reader::kWav: return Outcome(ReadWav(path));
  }
  return {};
}

const std::vector<DataCase>& DataCases() {
  static const std::vector<DataCase> all = [] {
    std::vector<DataCase> cases;
    for (auto make : {MakeNpyCases, MakeZipCases, MakeIdxCases, MakeImageCases, MakePreprocessCases,
                      MakeTableCases, MakeDatasetCases, MakeWavCases}) {
      for (DataCase& c : make()) cases.push_back(std::move(c));
    }
    return cases;
  }();
  return all;
}

}  // namespace evoq::craft
