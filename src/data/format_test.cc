// What each format's bytes mean, with values worked out by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/labels.h"
#include "data/npy.h"
#include "data/zip.h"

namespace evoq {
namespace {

std::string Save(const std::string& name, const std::string& bytes) {
  const std::string folder = testing::TempDir() + "/evoq_format";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  return folder + "/" + name;
}

std::string Npy(const std::string& descr, const std::string& shape, const std::string& data,
                bool fortran = false) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + data;  // 10 + 118 = 128
}

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

using Floats = std::vector<float>;
using Numbers = std::vector<uint8_t>;

TEST(NpyFormat, AnyByteButZeroIsTrue) {
  const std::string bytes = Npy("|b1", "(5,)", std::string("\0\1\2\x80\xff", 5));
  const auto t = ParseNpy(Bytes(bytes));
  ASSERT_TRUE(t);
  EXPECT_EQ(Values<uint8_t>(*t), (Numbers{0, 1, 1, 1, 1}));
  // Also in Fortran order, and for the samples of a data set, which views the file in place: 2 x 2,
  // the second row first in memory.
  for (const bool fortran : {false, true}) {
    const std::string path =
        Save("bools.npy", Npy("|b1", "(2, 2)", std::string("\2\0\x40\0", 4), fortran));
    auto data = OpenDataset(path, {.input_sizes = {-1, 2}, .input_dtype = DType::kBool});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ(Values<uint8_t>((*data)->At(0)->inputs[0]),
              (fortran ? Numbers{1, 1} : Numbers{1, 0}));
    EXPECT_EQ(Values<uint8_t>((*data)->At(1)->inputs[0]),
              (fortran ? Numbers{0, 0} : Numbers{1, 0}));
    auto floats = OpenDataset(path, {.input_sizes = {-1, 2}});
    ASSERT_TRUE(floats);
    EXPECT_EQ(Values<float>((*floats)->At(0)->inputs[0]), (fortran ? Floats{1, 1} : Floats{1, 0}));
  }
}

// numpy.arange(24).reshape(2, 3, 4).tobytes('F'): element (i, j, k) = 12 i + 4 j + k stands at i +
// 2 j + 6 k.
TEST(NpyFormat, FortranOrderOfThreeAxes) {
  std::string data(24, '\0');
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) data[i + 2 * j + 6 * k] = static_cast<char>(12 * i + 4 * j + k);
    }
  }
  const std::string bytes = Npy("|u1", "(2, 3, 4)", data, true);
  const auto t = ParseNpy(Bytes(bytes));
  ASSERT_TRUE(t);
  for (int n = 0; n < 24; ++n) EXPECT_EQ(t->values<uint8_t>()[n], n);
  // Elements of several bytes move as one: (2, 2) of int16 [[1, 2], [3, 4]] is 1, 3, 2, 4 in the
  // file.
  const std::string wide = Npy("<i2", "(2, 2)", Raw<int16_t>({1, 3, 2, 4}), true);
  EXPECT_EQ(Values<int16_t>(*ParseNpy(Bytes(wide))), (std::vector<int16_t>{1, 2, 3, 4}));
}

TEST(NpyFormat, TypesAreWhatTheirNamesSay) {
  const auto dtype = [](const std::string& descr, size_t width) {
    const std::string bytes = Npy(descr, "(1,)", std::string(width, '\0'));
    const auto header = ParseNpyHeader(Bytes(bytes));
    EXPECT_TRUE(header) << header.error().message();
    return header ? header->type.dtype : DType::kString;
  };
  const std::tuple<const char*, size_t, DType> rows[] = {
      {"<f2", 2, DType::kFloat16}, {"<f4", 4, DType::kFloat32}, {"<f8", 8, DType::kFloat64},
      {"|u1", 1, DType::kUint8},   {"<u2", 2, DType::kUint16},  {"<u4", 4, DType::kUint32},
      {"<u8", 8, DType::kUint64},  {"|i1", 1, DType::kInt8},    {"<i2", 2, DType::kInt16},
      {"<i4", 4, DType::kInt32},   {"<i8", 8, DType::kInt64},   {"|b1", 1, DType::kBool}};
  for (const auto& [descr, width, wanted] : rows) EXPECT_EQ(dtype(descr, width), wanted) << descr;
}

// What WriteNpy writes, byte for byte, as NumPy's format description has it: magic, version 1.0,
// length 118, dictionary, blanks, newline, data.
TEST(NpyFormat, WrittenBytes) {
  const std::string path = Save("written.npy", "");
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<int16_t>(Shape{2, 1}, {258, -1}), path));
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1, ), }";
  header.resize(117, ' ');
  EXPECT_EQ(*ReadTextFile(path),
            std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n\2\1\xff\xff");
}

// A binary PNM of 3 x 2: every pixel at its place, red first; gray gives its value to all three.
TEST(ImageFormat, PixelsOfEachUncompressedFormat) {
  const std::string pixels("\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22", 18);  // 1 to 18
  Numbers expected(18);
  for (int i = 0; i < 18; ++i) expected[i] = static_cast<uint8_t>(i + 1);
  const auto decode = [](const std::string& bytes) { return DecodeImage(Bytes(bytes)); };
  auto image = decode("P6\n# a comment\n3 2\n255\n" + pixels);
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(std::tuple(image->width, image->height, image->channels), std::tuple(3, 2, 3));
  EXPECT_EQ(image->pixels, expected);
  image = decode("P5 3 2 255 " + pixels.substr(0, 6));
  ASSERT_TRUE(image) << image.error().message();
  EXPECT_EQ(image->pixels, (Numbers{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6}));
  // BMP: blue first, rows of 9 bytes padded to 12, the lowest row first unless the height is
  // negative.
  const auto bmp = [&](int height) {
    std::string head("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\3\0\0\0", 22);
    head += Raw<int32_t>({height}) + std::string("\1\0\x18\0", 4);
    head.resize(54, '\0');
    const auto row = [&](int y) {
      std::string text;
      for (int x = 0; x < 3; ++x) {
        for (int c = 2; c >= 0; --c) text += pixels[y * 9 + x * 3 + c];
      }
      return text + "pad";
    };
    return head + (height < 0 ? row(0) + row(1) : row(1) + row(0));
  };
  for (const int height : {2, -2}) {
    image = decode(bmp(height));
    ASSERT_TRUE(image) << image.error().message();
    EXPECT_EQ(std::tuple(image->width, image->height), std::tuple(3, 2));
    EXPECT_EQ(image->pixels, expected) << height;
  }
}

// A TIFF by hand, both byte orders: a directory of 7 entries at byte 8 (2 + 7 * 12 + 4 = 90 bytes),
// the two strips' offsets at 98, pixels at 106. The strips stand in the file in the other order.
std::string TiffOf(bool big, int samples, int photometric, const std::string& first,
                   const std::string& second) {
  const auto number = [&](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i)
      text += static_cast<char>(value >> (8 * (big ? bytes - 1 - i : i)));
    return text;
  };
  std::string out =
      (big ? std::string("MM\0*", 4) : std::string("II*\0", 4)) + number(8, 4) + number(7, 2);
  const auto entry = [&](int tag, int type, int count, uint32_t value) {
    out += number(tag, 2) + number(type, 2) + number(count, 4) +
           (type == 3 ? number(value, 2) + number(0, 2) : number(value, 4));
  };
  entry(256, 3, 1, 2);  // width
  entry(257, 3, 1, 2);  // height
  entry(258, 3, 1, 8);
  entry(262, 3, 1, photometric);
  entry(273, 4, 2, 98);
  entry(277, 3, 1, samples);
  entry(278, 3, 1, 1);  // a row for each strip
  return out + number(0, 4) + number(106 + static_cast<uint32_t>(second.size()), 4) +
         number(106, 4) + second + first;
}

TEST(ImageFormat, TiffStripsAndColors) {
  for (const bool big : {false, true}) {
    const auto decode = [&](int samples, int photometric, const std::string& first,
                            const std::string& second) {
      const std::string bytes = TiffOf(big, samples, photometric, first, second);
      auto image = DecodeImage(Bytes(bytes));
      EXPECT_TRUE(image) << image.error().message();
      return image ? image->pixels : Numbers{};
    };
    EXPECT_EQ(decode(3, 2, "\1\2\3\4\5\6", "\7\10\11\12\13\14"),
              (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(decode(4, 2, "\1\2\3x\4\5\6x", "\7\10\11x\12\13\14x"),
              (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(decode(1, 1, "\1\2", "\3\4"), (Numbers{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}));
    EXPECT_EQ(decode(1, 0, "\1\2", "\3\4"),
              (Numbers{254, 254, 254, 253, 253, 253, 252, 252, 252, 251, 251, 251}));
  }
}

// ---- data sets

Preprocess Plain(const std::string& color) {
  Preprocess p;
  p.color = color, p.scale = 1;
  if (color == "GRAY") p.mean = {0}, p.std = {1};
  return p;
}

// 2 images of 2 rows and 3 columns; labels beside them, with the preprocess's offset.
TEST(DatasetFormat, IdxImagesAndLabels) {
  const std::string head("\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3", 16);
  const std::string path =
      Save("images-idx3-ubyte", head + std::string("\1\2\3\4\5\6\7\10\11\12\13\14", 12));
  const std::string labels = Save("labels-idx1-ubyte", std::string("\0\0\10\1\0\0\0\2\5\xc8", 10));
  Preprocess p = Plain("GRAY");
  p.label_offset = 2;
  auto data = OpenDataset(path, {.preprocess = p, .labels = labels, .input_sizes = {1, 1, 2, 3}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 2);
  const auto first = (*data)->At(0), second = (*data)->At(1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(Values<float>(first->inputs[0]), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Values<float>(second->inputs[0]), (Floats{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(first->label, 7);     // 5 + 2
  EXPECT_EQ(second->label, 202);  // bytes have no sign: 200 + 2
  EXPECT_EQ(second->name, "images-idx3-ubyte[1]");
  // Gray pixels for a model of three channels.
  auto rgb = OpenDataset(path, {.preprocess = Plain("RGB"), .input_sizes = {1, 3, 2, 3}});
  ASSERT_TRUE(rgb);
  EXPECT_EQ(Values<float>((*rgb)->At(0)->inputs[0]),
            (Floats{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
}

// Two CIFAR records: a label, 1024 red, 1024 green, 1024 blue. Label and pixels of each; BGR turns
// the planes around.
TEST(DatasetFormat, CifarRecords) {
  const auto plane = [](char value) {
    return std::string(1023, value) + '\x63';
  };  // 99 at the last place
  const std::string path = Save("two.bin", '\4' + plane(10) + plane(20) + plane(30) + '\x9' +
                                               plane(40) + plane(50) + plane(60));
  for (const bool bgr : {false, true}) {
    Preprocess p = Plain(bgr ? "BGR" : "RGB");
    p.label_offset = -1;
    p.mean = {1, 2, 3};
    auto data = OpenDataset(path, {.preprocess = p});
    ASSERT_TRUE(data) << data.error().message();
    ASSERT_EQ((*data)->size(), 2);
    const auto sample = (*data)->At(1);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->label, 8);
    EXPECT_EQ(sample->name, "two.bin[1]");
    EXPECT_EQ(sample->inputs[0].sizes(), (std::vector<int64_t>{1, 3, 32, 32}));
    const auto x = sample->inputs[0].values<float>();
    EXPECT_EQ(x[0], bgr ? 59 : 39);     // 60 - 1, 40 - 1
    EXPECT_EQ(x[1024], 48);             // 50 - 2
    EXPECT_EQ(x[2048], bgr ? 37 : 57);  // 40 - 3, 60 - 3
    EXPECT_EQ(x[1023], 98);             // 99 - 1: the last pixel of the first plane
    EXPECT_EQ(x[3071], 96);
    EXPECT_EQ((*data)->At(0)->label, 3);
  }
}

// Samples of several arrays: three of a.npy, none of b.npy, one of c.npy that lacks its batch axis,
// one of d.npy.
TEST(DatasetFormat, SamplesOfSeveralArrays) {
  const std::string folder = testing::TempDir() + "/evoq_format_arrays";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const Shape& shape, const Floats& values) {
    ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(shape, values), folder + "/" + name));
  };
  write("a.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  write("b.npy", Shape{0, 2}, {});
  write("c.npy", Shape{2}, {7, 8});
  write("d.npy", Shape{1, 2}, {9, 10});
  auto data = OpenDataset(folder, {.input_sizes = {-1, 2}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 5);
  const std::pair<const char*, Floats> expected[] = {{"a.npy[0]", {1, 2}},
                                                     {"a.npy[1]", {3, 4}},
                                                     {"a.npy[2]", {5, 6}},
                                                     {"c.npy", {7, 8}},
                                                     {"d.npy", {9, 10}}};
  for (int i = 0; i < 5; ++i) {
    const auto sample = (*data)->At(i);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->name, expected[i].first);
    EXPECT_EQ(Values<float>(sample->inputs[0]), expected[i].second);
    EXPECT_EQ(sample->inputs[0].sizes(), (std::vector<int64_t>{1, 2}));
    EXPECT_FALSE(sample->label.has_value());
  }
}

// The .npz of np.savez(x=..., y=...): samples of x, labels of y; labels that are given win.
std::string StoredZip(const std::vector<std::pair<std::string, std::string>>& members,
                      const std::vector<uint32_t>& crcs) {
  std::string out, directory;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto& [name, data] = members[i];
    const std::string common = Raw<uint16_t>({20, 0, 0, 0, 0}) +
                               Raw<uint32_t>({crcs[i], static_cast<uint32_t>(data.size()),
                                              static_cast<uint32_t>(data.size())}) +
                               Raw<uint16_t>({static_cast<uint16_t>(name.size()), 0});
    directory += "PK\1\2" + Raw<uint16_t>({20}) + common + std::string(10, '\0') +
                 Raw<uint32_t>({static_cast<uint32_t>(out.size())}) + name;
    out += "PK\3\4" + common + name + data;
  }
  const auto count = static_cast<uint16_t>(members.size());
  return out + directory + std::string("PK\5\6\0\0\0\0", 8) + Raw<uint16_t>({count, count}) +
         Raw<uint32_t>(
             {static_cast<uint32_t>(directory.size()), static_cast<uint32_t>(out.size())}) +
         Raw<uint16_t>({0});
}

uint32_t CrcOf(
    const std::string& bytes) {  // CRC-32 bit by bit, as the zip format's appendix defines it
  uint32_t crc = 0xffffffff;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

TEST(DatasetFormat, NpzSamplesAndLabels) {
  const std::string x = Npy("<f4", "(2, 1)", Raw<float>({1.5f, -2})),
                    y = Npy("<i8", "(2,)", Raw<int64_t>({3, 4})),
                    z = Npy("<f4", "(1, 1)", Raw<float>({7}));
  const auto save = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    std::vector<uint32_t> crcs;
    for (const auto& [name, data] : members) crcs.push_back(CrcOf(data));
    return Save("set.npz", StoredZip(members, crcs));
  };
  std::string path = save({{"z.npy", z}, {"y.npy", y}, {"x.npy", x}});
  auto data = OpenDataset(path, {.input_sizes = {-1, 1}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 2);  // x, not z
  EXPECT_EQ((*data)->At(1)->inputs[0].values<float>()[0], -2);
  EXPECT_EQ((*data)->At(0)->label, 3);
  EXPECT_EQ((*data)->At(1)->label, 4);
  EXPECT_EQ((*data)->At(1)->name, "set.npz[1]");
  const std::string labels = Save("other.npy", Npy("|u1", "(2,)", "\11\12"));
  auto relabelled = OpenDataset(path, {.labels = labels, .input_sizes = {-1, 1}});
  ASSERT_TRUE(relabelled);
  EXPECT_EQ((*relabelled)->At(1)->label, 10);
  // The only array besides labels, whatever its name.
  path = save({{"label.npy", y}, {"what.npy", x}});
  data = OpenDataset(path, {.input_sizes = {-1, 1}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->At(0)->label, 3);
  path = save({{"p.npy", x}, {"q.npy", z}});
  data = OpenDataset(path, {.input_sizes = {-1, 1}});
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().message().find("arrays p, q, expected one, or one named x"),
            std::string::npos)
      << data.error().message();
  // A flipped byte of a stored member is found by its checksum alone.
  std::string flipped = *ReadTextFile(path);
  flipped[flipped.find("NUMPY") + 125] ^= 4;  // in the first member's data
  path = Save("flipped.npz", flipped);
  const auto npz = ReadNpz(path);
  ASSERT_FALSE(npz);
  EXPECT_NE(npz.error().message().find("p: zip: member p.npy has CRC-32 "), std::string::npos)
      << npz.error().message();
}

TEST(DatasetFormat, FortranNpzAndNpyAreTransposed) {
  const std::string x = Npy("<f4", "(2, 2)", Raw<float>({1, 3, 2, 4}), true);
  for (const bool npz : {false, true}) {
    const std::string path =
        npz ? Save("f.npz", StoredZip({{"x.npy", x}}, {CrcOf(x)})) : Save("f.npy", x);
    auto data = OpenDataset(path, {.input_sizes = {-1, 2}});
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ(Values<float>((*data)->At(0)->inputs[0]), (Floats{1, 2}));
    EXPECT_EQ(Values<float>((*data)->At(1)->inputs[0]), (Floats{3, 4}));
  }
}

TEST(DatasetFormat, LabelsByPositionAndByName) {
  auto labels = LoadLabels(Save("by_position.npy", Npy("<i4", "(3,)", Raw<int32_t>({5, -1, 9}))));
  ASSERT_TRUE(labels);
  EXPECT_EQ(*labels->Of("whatever", 1), -1);
  EXPECT_EQ(*labels->Of("whatever", 2), 9);
  EXPECT_FALSE(labels->Of("whatever", 3));
  labels = LoadLabels(Save("by_name.tsv", "file\tclass_index\tlabel\na\t5\t1\nb\t-6\t2\n"));
  ASSERT_TRUE(labels);
  EXPECT_EQ(*labels->Of("b", 0), -6);  // class_index before label
  EXPECT_EQ(*labels->Of("a", 99), 5);
  EXPECT_FALSE(labels->Of("c", 0));
  EXPECT_EQ(*Labels{}.Of("a", 0), std::nullopt);
  EXPECT_FALSE(LoadLabels(Save("empty.npy", Npy("<i4", "(0,)", ""))));
  EXPECT_FALSE(LoadLabels(
      Save("plane-idx", std::string("\0\0\10\2\0\0\0\1\0\0\0\1x", 13))));  // two dimensions
  EXPECT_FALSE(LoadLabels(Save("float.npy", Npy("<f4", "(1,)", Raw<float>({1})))));
}

// A label and an offset whose sum does not fit.
TEST(DatasetFormat, LabelPlusOffsetBeyond64Bits) {
  const std::string path = Save("one.npy", Npy("<f4", "(1, 1)", Raw<float>({1})));
  const std::string labels = Save("large.npy", Npy("<i8", "(1,)", Raw<int64_t>({INT64_MAX})));
  Preprocess p;
  p.label_offset = 1;
  auto data = OpenDataset(path, {.preprocess = p, .labels = labels, .input_sizes = {-1, 1}});
  ASSERT_TRUE(data) << data.error().message();
  const auto sample = (*data)->At(0);
  ASSERT_FALSE(sample);
  EXPECT_NE(sample.error().message().find("label 9223372036854775807 with an offset of 1"),
            std::string::npos);
}

TEST(GzipFormat, MembersFollowEachOther) {
  // Two members of stored blocks: "ab" and "c". CRC-32 as computed above.
  const auto member = [](const std::string& text) {
    const auto size = static_cast<uint16_t>(text.size());
    return std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10) + '\1' +
           Raw<uint16_t>({size, static_cast<uint16_t>(~size)}) + text +
           Raw<uint32_t>({CrcOf(text), static_cast<uint32_t>(size)});
  };
  const std::string file = member("ab") + member("c");
  Budget budget(1000, 1000);
  const auto bytes = Gunzip(Bytes(file), budget);
  ASSERT_TRUE(bytes) << bytes.error().message();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), "abc");
  Budget small(2, 1000);
  const auto refused = Gunzip(Bytes(file), small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace evoq
