// The last that is read and the first that is not, of each format; what stands where a file says
// nothing.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "base/file.h"
#include "data/convert.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/image_decode.h"
#include "data/labels.h"
#include "data/npy.h"
#include "data/zip.h"

namespace evoq {
namespace {

class DataLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_limits_{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Save(const std::string& name, const std::string& bytes) const {
    EXPECT_TRUE(WriteFileAtomic((folder_ / name).string(), bytes));
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string Message(const auto& result) { return result ? "" : result.error().message(); }

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

std::string Big(uint32_t v) {
  std::string s;
  for (int shift = 24; shift >= 0; shift -= 8) s += static_cast<char>(v >> shift);
  return s;
}

std::string Little(uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

// ---- npy

// Magic, version, length, dictionary: "shape" as NumPy writes it.
std::string Npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  return out + Little(dictionary.size(), version == 1 ? 2 : 4) + dictionary + data;
}

std::string Dictionary(const std::string& shape) {
  return "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + "}";
}

// The data begins at a multiple of 64 bytes, as near as the dictionary allows: 55 bytes and 3 for
// each axis, ten before it, a newline behind it.
TEST_F(DataLimits, NpyDataIsAligned) {
  for (size_t rank = 0; rank < 120; ++rank) {
    const std::string path = (folder_ / "a.npy").string();
    const std::vector<int64_t> ones(rank, 1);
    ASSERT_TRUE(WriteNpy(Tensor::FromValues<uint8_t>(Shape(ones), {7}), path));
    const std::string file = ReadTextFile(path).value();
    const size_t start = (10 + 55 + 3 * rank + 1 + 63) / 64 * 64;
    ASSERT_EQ(file.size(), start + 1) << rank;
    EXPECT_EQ(file.substr(8, 2), Little(start - 10, 2)) << rank;
    EXPECT_EQ(file[start - 1], '\n');
    EXPECT_EQ(file[start], 7);
  }
  // 65526 bytes are the longest header of two bytes' length.
  const auto written = [&](size_t rank) {
    return WriteNpy(Tensor::FromValues<uint8_t>(Shape(std::vector<int64_t>(rank, 1)), {7}),
                    (folder_ / "long.npy").string());
  };
  EXPECT_TRUE(written(21823));
  ExpectContains(Message(written(21824)), "npy header of 65590 bytes");
  EXPECT_EQ(WriteNpy(Tensor::Packed(TensorType(DType::kInt8, Shape{1}), "rows", {}),
                     (folder_ / "p.npy").string())
                .error()
                .code(),
            ErrorCode::kUnsupported);
  ExpectContains(Message(WriteNpy(Tensor::Allocate(TensorType(DType::kInt4, Shape{2})),
                                  (folder_ / "p.npy").string())),
                 "p.npy: npy has no element type for int4[2]");
}

TEST_F(DataLimits, NpyHeaders) {
  const auto read = [](const std::string& bytes) { return Message(ParseNpyHeader(Bytes(bytes))); };
  for (const int version : {1, 2, 3}) {
    const std::string bytes = Npy(Dictionary("(2,)"), "ab", version);
    const auto header = ParseNpyHeader(Bytes(bytes));
    ASSERT_TRUE(header) << header.error().message();
    EXPECT_EQ(header->data_offset, bytes.size() - 2);
    EXPECT_FALSE(header->fortran_order);
  }
  EXPECT_EQ(read(Npy(Dictionary("(1,)"), "a", 0)), "npy: version 0, expected 1 to 3");
  EXPECT_EQ(read(Npy(Dictionary("(1,)"), "a", 4)), "npy: version 4, expected 1 to 3");
  EXPECT_EQ(read(std::string("\x93NUMPY\1\0\0", 9)), "npy: byte 0: no NPY magic");
  EXPECT_EQ(read(std::string("\x93NUMPY\2\0\0\0\0", 11)), "npy: header of 0 bytes in a file of 11");
  // Forms of one dictionary: Python's other quotes, blanks, another order, no last comma.
  for (const char* text : {"{\"shape\": (2, 1), \"fortran_order\": False, \"descr\": \"|u1\"}",
                           "  {  'descr' :'|u1' ,'fortran_order':False,'shape':( 2 , 1 , ) , }  ",
                           "{'descr': '|u1', 'fortran_order': False, 'shape': (2,1), }\n"})
    EXPECT_EQ(read(Npy(text, "ab")), "") << text;
  for (const char* shape : {"(2 1)", "2", "(2", "(2,", "(2;)", "(,)", "('2',)", "(-2,)"})
    ExpectContains(read(Npy(Dictionary(shape), "ab")), "npy: header is not {'descr'");
  for (const char* text :
       {"{'descr': '|u1', 'fortran_order': false, 'shape': (2,)}",
        "{'descr' '|u1', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '|u1, 'fortran_order': False, 'shape': (2,)}", "{'descr': '|u1'}",
        "'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "", "{"})
    ExpectContains(read(Npy(text, "ab")), "npy: header is not {'descr'");
  ExpectContains(read(Npy("{'order': 1}", "")), "npy: header has the key 'order'");
  // 64 axes; a product of the others of 2^26 beside a 0.
  const auto axes = [&](int count) {
    std::string shape = "(";
    for (int i = 0; i < count; ++i) shape += "1,";
    return read(Npy(Dictionary(shape + ")"), "a"));
  };
  EXPECT_EQ(axes(64), "");
  EXPECT_EQ(axes(65), "npy: 65 axes, expected at most 64");
  EXPECT_EQ(read(Npy(Dictionary("(0, 67108864)"), "")), "");
  EXPECT_EQ(read(Npy(Dictionary("(0, 67108865)"), "")),
            "npy: [0, 67108865] has no element, but sizes beyond 67108864");
  ExpectContains(read(Npy(Dictionary("(4294967296, 0, 4294967296)"), "")), "has no element");
}

// ---- zip

std::string ZipOf(const std::string& packed, uint32_t claimed, uint32_t crc, int method) {
  const std::string common =
      Little(20, 2) + Little(0, 2) + Little(static_cast<uint64_t>(method), 2) + Little(0, 4) +
      Little(crc, 4) + Little(packed.size(), 4) + Little(claimed, 4) + Little(1, 2) + Little(0, 2);
  const std::string local = "PK\3\4" + common + "m" + packed;
  const std::string entry =
      "PK\1\2" + Little(20, 2) + common + Little(0, 6) + Little(0, 4) + Little(0, 4) + "m";
  return local + entry + "PK\5\6" + Little(0, 4) + Little(1, 2) + Little(1, 2) +
         Little(entry.size(), 4) + Little(local.size(), 4) + Little(0, 2);
}

// What follows the archive's end is its comment, of at most 65535 bytes.
TEST_F(DataLimits, ZipComments) {
  const std::string zip = ZipOf("abc", 3, 0, 0);
  for (const size_t bytes : {0, 1, 65535}) {
    const std::string file = zip + std::string(bytes, '-');
    const auto members = ReadZipDirectory(Bytes(file));
    ASSERT_TRUE(members) << bytes << ": " << members.error().message();
    ASSERT_EQ(members->size(), 1u);
    EXPECT_EQ((*members)[0].name, "m");
    EXPECT_EQ((*members)[0].method, 0);
    EXPECT_EQ((*members)[0].bytes, 3);
    EXPECT_EQ((*members)[0].compressed.size(), 3u);
  }
  const std::string over = zip + std::string(65536, '-');
  ExpectContains(Message(ReadZipDirectory(Bytes(over))), "zip: no end-of-directory record");
  EXPECT_EQ(Message(ReadZipDirectory(Bytes(std::string(21, 'x')))),
            "zip: 21 bytes, too short for an archive");
  ExpectContains(Message(ReadZipDirectory(Bytes(std::string(22, 'x')))), "no end-of-directory");
}

// A header may claim 1032 times a byte more than is packed; a stored member no more than it has.
TEST_F(DataLimits, ZipClaims) {
  const auto read = [](uint32_t claimed, int method) {
    const std::string file = ZipOf("abc", claimed, 0, method);
    return Message(ReadZipDirectory(Bytes(file)));
  };
  EXPECT_EQ(read(4 * 1032, 8), "");
  EXPECT_EQ(read(4 * 1032 + 1, 8), "zip: member m claims 4129 bytes from 3 packed ones");
  EXPECT_EQ(read(3, 0), "");
  EXPECT_EQ(read(4, 0), "zip: member m claims 4 bytes from 3 packed ones");
}

// Of memory: the bytes; of work: these and the packed ones.
TEST_F(DataLimits, ZipBudgets) {
  const std::string text = "abc";
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
  const std::string file = ZipOf(text, 3, crc, 0);
  const ZipMember member = ReadZipDirectory(Bytes(file)).value().at(0);
  Budget exact(3, 6), memory(2, 6), work(3, 5);
  const auto bytes = UnpackMember(member, exact);
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ(exact.memory_left(), 0);
  EXPECT_EQ(exact.work_left(), 0);
  EXPECT_EQ(Message(UnpackMember(member, memory)),
            "zip: member m: 3 bytes of memory, expected at most the 2 left of 2");
  EXPECT_EQ(Message(UnpackMember(member, work)),
            "zip: member m: 6 units of work, expected at most the 5 left of 5");
  const std::string other = ZipOf(text, 3, crc, 7);
  Budget budget(100, 100);
  const auto refused = UnpackMember(ReadZipDirectory(Bytes(other)).value().at(0), budget);
  EXPECT_EQ(Message(refused),
            "zip: member m has compression method 7, expected 0 (stored) or 8 (deflate)");
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
}

// ---- idx

TEST_F(DataLimits, Idx) {
  const auto read = [&](const std::string& bytes) {
    const auto array = ReadIdx(Save("numbers", bytes));
    const std::string message = Message(array);
    return array ? fmt::format("{} {}", array->offset, fmt::join(array->sizes, "x"))
                 : message.substr(message.find("idx: "));
  };
  const std::string head("\0\0\10", 3);
  EXPECT_EQ(read(head + '\1' + Big(3) + "abc"), "8 3");
  EXPECT_EQ(read(head + '\2' + Big(1) + Big(2) + "ab"), "12 1x2");
  // Every byte of a size counts.
  EXPECT_EQ(read(head + '\2' + Big(0) + Big(0x01020304)), "12 0x16909060");
  EXPECT_EQ(read(head + '\1' + Big(3) + "ab"), "idx: 2 bytes of data, expected 3 for [3]");
  EXPECT_EQ(read(head + '\1' + Big(3) + "abcd"), "idx: 4 bytes of data, expected 3 for [3]");
  EXPECT_EQ(read(head + '\0'), "idx: 0 dimensions in 4 bytes");
  EXPECT_EQ(read(head + '\1' + "abc"), "idx: 1 dimensions in 7 bytes");
  EXPECT_EQ(read(std::string("\0\0\11\1\0\0\0\0", 8)),
            "idx: element type 0x09, expected 0x08 (unsigned byte)");
  for (const std::string& bytes : {std::string("\0\0\10", 3), std::string("\1\0\10\1\0\0\0\0", 8),
                                   std::string("\0\1\10\1\0\0\0\0", 8), std::string()})
    EXPECT_EQ(read(bytes), "idx: byte 0: no idx magic");
}

// 16384 pixels a side, at least one; three dimensions.
TEST_F(DataLimits, IdxImages) {
  Preprocess p;
  p.color = "GRAY", p.mean = {0}, p.std = {1}, p.scale = 1;
  const auto open = [&](std::vector<uint32_t> sizes) {
    std::string bytes("\0\0\10", 3);
    bytes += static_cast<char>(sizes.size());
    size_t count = 1;
    for (const uint32_t size : sizes) {
      bytes += Big(size);
      count *= size;
    }
    const auto data =
        OpenDataset(Save("i-idx", bytes + std::string(count, 'x')), {.preprocess = p});
    return data ? fmt::format("{} samples", (*data)->size()) : data.error().message();
  };
  EXPECT_EQ(open({2, 1, 16384}), "2 samples");
  EXPECT_EQ(open({2, 16384, 1}), "2 samples");
  for (const auto& sizes : std::vector<std::vector<uint32_t>>{
           {1, 1, 16385}, {1, 16385, 1}, {1, 0, 5}, {1, 5, 0}, {4, 4}, {1, 1, 2, 2}})
    ExpectContains(open(sizes), "expected [samples, height, width]");
}

// ---- images

// A row of 100 pixels and a column of as many; a pixel more than there are bytes.
TEST_F(DataLimits, LongImages) {
  for (const char* size : {"100 1", "1 100"}) {
    const auto decode = [&](int bytes) {
      const std::string file = fmt::format("P6 {} 255 {}", size, std::string(bytes, 'x'));
      return Message(DecodeImage(Bytes(file)));
    };
    EXPECT_EQ(decode(300), "");
    ExpectContains(decode(299), "the file ends within row ");
    ExpectContains(decode(200), "pixels of 3 bytes, in a file of 2");
  }
  Budget none(0, 0);
  const auto allocate = [&](int64_t width, int64_t height) {
    return Message(AllocateRgb(width, height, none));
  };
  ExpectContains(allocate(16384, 16384), "805306368 bytes of memory");  // 3 x 2^28
  EXPECT_EQ(allocate(16385, 16384), "image of 16385 x 16384 pixels, at most 268435456 are read");
  EXPECT_EQ(allocate(0, 1), "image of 0 x 1 pixels, expected at least 1 x 1");
  EXPECT_EQ(allocate(1, 0), "image of 1 x 0 pixels, expected at least 1 x 1");
  Budget six(6, 0);
  const auto image = AllocateRgb(2, 1, six);
  ASSERT_TRUE(image);
  EXPECT_EQ(std::tuple(image->width, image->height, image->channels), std::tuple(2, 1, 3));
  EXPECT_EQ(image->pixels.size(), 6u);
  EXPECT_EQ(six.memory_left(), 0);
}

// Each piece of the first bytes counts.
TEST_F(DataLimits, ImagesByTheirFirstBytes) {
  const auto kind = [](const std::string& bytes) {
    const std::string message = Message(DecodeImage(Bytes(bytes)));
    return message.substr(0, message.find(':'));
  };
  const std::string unknown = "neither JPEG nor PNG, BMP, PNM or TIFF";
  EXPECT_EQ(kind("\xff\xd8\xff"), "corrupt JPEG");
  EXPECT_EQ(kind("\xff\xd8"), unknown);
  EXPECT_EQ(kind("\x89PNG\r\n\x1a\n"), "corrupt PNG");
  EXPECT_EQ(kind("\x89PNG\r\n\x1a"), unknown);
  EXPECT_EQ(kind("BM").substr(0, 8), "a bitmap");
  EXPECT_EQ(kind("B"), unknown);
  for (const char* pnm : {"P5", "P6"}) EXPECT_EQ(kind(pnm), "expected a number at byte 2");
  for (const char* none : {"P4", "P7", "P"}) EXPECT_EQ(kind(none), unknown);
  EXPECT_EQ(kind(std::string("II\0*", 4)), unknown);
  EXPECT_EQ(kind(std::string("MM*\0", 4)), unknown);
}

// 64 coefficients of 2 bytes for each block of 8 x 8: of tests/golden/images/progressive.jpg they
// and its pixels are what it takes.
TEST_F(DataLimits, ProgressiveJpegs) {
  const std::string file =
      ReadTextFile(std::string(EVOQ_SOURCE_DIR) + "/tests/golden/images/progressive.jpg").value();
  // SOF2: height, width, three components with their sampling factors.
  const size_t sof = file.find("\xff\xc2");
  ASSERT_NE(sof, std::string::npos);
  const auto byte = [&](size_t at) { return static_cast<int64_t>(static_cast<uint8_t>(file[at])); };
  const int64_t height = byte(sof + 5) << 8 | byte(sof + 6),
                width = byte(sof + 7) << 8 | byte(sof + 8);
  ASSERT_EQ(byte(sof + 9), 3);
  const int64_t across = byte(sof + 11) >> 4, down = byte(sof + 11) & 15;
  ASSERT_EQ(byte(sof + 14), 0x11);
  ASSERT_EQ(byte(sof + 17), 0x11);
  // Units of (8 across) x (8 down) pixels, of across * down + 1 + 1 blocks.
  const int64_t units =
      (width + 8 * across - 1) / (8 * across) * ((height + 8 * down - 1) / (8 * down));
  const int64_t coefficients = units * (across * down + 2) * 64 * 2, pixels = width * height * 3;
  Budget exact(pixels + coefficients, int64_t{1} << 40);
  EXPECT_TRUE(DecodeImage(Bytes(file), exact));
  EXPECT_EQ(exact.memory_left(), 0);
  Budget less(pixels + coefficients - 1, int64_t{1} << 40);
  ExpectContains(
      Message(DecodeImage(Bytes(file), less)),
      fmt::format("coefficients of a progressive JPEG: {} bytes of memory", coefficients));
}

// ---- preprocessing, labels, tokens

TEST_F(DataLimits, PreprocessFields) {
  const auto read = [](const std::string& json) { return Message(ParsePreprocess(json)); };
  for (const char* good :
       {R"({"resize_short": 65536})", R"({"resize_short": 1})", R"({"crop": [65536, 1]})",
        R"({"resize": [1, 65536]})", R"({"label_offset": 1000000})",
        R"({"label_offset": -1000000})", R"({"": 1})", R"({"_x": 1})"}) {
    EXPECT_EQ(read(good).find("is "), std::string::npos) << good << read(good);
  }
  for (const char* bad :
       {R"({"resize_short": 65537})", R"({"resize_short": 0})", R"({"crop": [65537, 1]})",
        R"({"crop": [1, 65537]})", R"({"resize": [1, 0]})", R"({"crop": [1, 1, 1]})",
        R"({"label_offset": 1000001})", R"({"label_offset": -1000001})",
        R"({"label_offset": 18446744073709551615})", R"({"label_offset": -9223372036854775808})",
        R"({"mean": [1, 2, 3, 4]})", R"({"mean": []})", R"({"std": 0})", R"({"mean": "1"})"})
    ExpectContains(read(bad), ", expected ");
  const auto p = ParsePreprocess("{}");
  ASSERT_TRUE(p);
  EXPECT_FALSE(p->resize_short || p->crop || p->resize);
  EXPECT_EQ(p->color + p->layout, "RGBNCHW");
  EXPECT_EQ(p->label_offset, 0);
  EXPECT_EQ(p->dtype, DType::kFloat32);
  EXPECT_EQ(p->scale, 1.0f / 255);
  EXPECT_EQ(p->mean, (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(p->std, (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(Preprocess().scale, 1.0f / 255);
  EXPECT_EQ(Preprocess().mean, p->mean);
  EXPECT_EQ(Preprocess().std, p->std);
  EXPECT_EQ(Preprocess().label_offset, 0);
  const auto read_dtype = ParsePreprocess(R"({"dtype": "int8", "label_offset": -3})");
  EXPECT_EQ(read_dtype->dtype, DType::kInt8);
  EXPECT_EQ(read_dtype->label_offset, -3);
  const auto gray = ParsePreprocess(R"({"color": "GRAY"})");
  EXPECT_EQ(gray->mean, std::vector<float>{0});
  EXPECT_EQ(gray->std, std::vector<float>{1});
  // A file of a mebibyte at most.
  const std::string blanks(1 << 20, ' ');
  EXPECT_TRUE(LoadPreprocess(Save("p.json", blanks.substr(2) + "{}")));
  ExpectContains(Message(LoadPreprocess(Save("p.json", blanks.substr(1) + "{}"))),
                 "1048577 bytes, expected at most 1048576");
}

// A model that takes integers gets pixels as such, one that takes bools none.
TEST_F(DataLimits, PixelsForTheModelsType) {
  const std::string image = Save("a.pgm", "P5 1 1 255 d");
  Preprocess p;
  p.scale = 1;
  const auto open = [&](DType dtype) {
    return OpenDataset(image, {.preprocess = p, .input_dtype = dtype});
  };
  EXPECT_EQ((*open(DType::kInt16))->At(0)->inputs[0].dtype(), DType::kInt16);
  EXPECT_EQ((*open(DType::kFloat16))->At(0)->inputs[0].dtype(), DType::kFloat16);
  const auto bools = open(DType::kBool);
  ASSERT_FALSE(bools);
  EXPECT_EQ(bools.error().code(), ErrorCode::kUsage);
  ExpectContains(Message(bools), "preprocessing gives float32, but the model's input is bool");
  const Tensor half =
      ToInputType(Tensor::FromValues<float>(Shape{2}, {1.5f, -2}), DType::kFloat16).value();
  EXPECT_EQ(half.data<uint16_t>()[0], 0x3e00);
  const Tensor brain =
      ToInputType(Tensor::FromValues<float>(Shape{2}, {1.5f, -2}), DType::kBfloat16).value();
  EXPECT_EQ(brain.data<uint16_t>()[0], 0x3fc0);
}

TEST_F(DataLimits, TablesOfLabels) {
  // Lines of Windows, an empty one, no line feed at the end, columns in another order.
  const auto labels =
      LoadLabels(Save("l.txt", "label\tother\tfile\r\n5\tx\ta\r\n\r\n-6\ty\tb b\r\n7\tz\tc"));
  ASSERT_TRUE(labels) << labels.error().message();
  EXPECT_EQ(*labels->Of("a", 0), 5);
  EXPECT_EQ(*labels->Of("b b", 0), -6);
  EXPECT_EQ(*labels->Of("c", 0), 7);
  const auto read = [&](const std::string& text) {
    const std::string message = Message(LoadLabels(Save("m.tsv", text)));
    return message.substr(message.find("m.tsv: ") + 7);
  };
  EXPECT_EQ(read("file\tlabel\na\t1\n\nb\t1x\n"), "line 4: label \"1x\" is not a whole number");
  EXPECT_EQ(read("file\tlabel\na\t\n"), "line 2: label \"\" is not a whole number");
  EXPECT_EQ(read("file\tlabel\na\t99999999999999999999\n"),
            "line 2: label \"99999999999999999999\" is not a whole number");
  EXPECT_EQ(read("file\tx\tlabel\na\t1\n"), "line 2: 2 columns, expected 3");
  EXPECT_EQ(read("file\nb\n"),
            "line 1: columns are \"file\", expected file and class_index (or label), separated by "
            "tabs");
  EXPECT_EQ(read("label\n1\n").substr(0, 30), "line 1: columns are \"label\", e");
  EXPECT_EQ(read("file\tlabel\na\t1\nb\t2\na\t1\n"), "line 4: file a occurs twice");
  // Samples without a label or without a preprocess file stay as they are.
  Sample sample;
  EXPECT_TRUE(AddLabelOffset(Preprocess{.label_offset = 4}, sample));
  EXPECT_FALSE(sample.label.has_value());
  sample.label = 3;
  EXPECT_TRUE(AddLabelOffset(std::nullopt, sample));
  EXPECT_EQ(sample.label, 3);
  EXPECT_TRUE(AddLabelOffset(Preprocess{.label_offset = 4}, sample));
  EXPECT_EQ(sample.label, 7);
}

}  // namespace
}  // namespace evoq
