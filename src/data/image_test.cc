// Decoding and resampling against Pillow: tests/golden/preprocess.tsv, written by
// tests/golden/preprocess.py.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "data/dataset.h"
#include "data/resize.h"

namespace evoq {
namespace {

const std::string kGolden = std::string(EVOQ_SOURCE_DIR) + "/tests/golden/";

std::string DataFolder() {
  const char* folder = std::getenv("EVOQ_DATA");
  return folder ? folder : std::string(EVOQ_SOURCE_DIR) + "/../shared/data";
}

struct Row {
  std::string file, operation;
  int width, height;
  uint32_t crc;
};

std::vector<Row> GoldenRows() {
  std::ifstream in(kGolden + "preprocess.tsv");
  std::string line;
  std::getline(in, line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    std::istringstream cells(line);
    Row row;
    cells >> row.file >> row.operation >> row.width >> row.height >> std::hex >> row.crc;
    rows.push_back(row);
  }
  return rows;
}

Result<Image> ApplyOperation(Image image, const std::string& operation) {
  if (operation == "decode") return image;
  if (operation == "gray") {
    Preprocess p;
    p.color = "GRAY";
    p.layout = "NHWC";
    p.scale = 1;
    p.dtype = DType::kUint8;
    EVOQ_ASSIGN(const Tensor t, ToInput(image, p));
    return Image{
        image.width, image.height, 1, {t.values<uint8_t>().begin(), t.values<uint8_t>().end()}};
  }
  Budget budget = Budget::ForFile(0);
  if (operation.starts_with("short_"))
    return ResizeShortSide(image, std::stoi(operation.substr(6)), budget);
  int crop = 0, height = 0, width = 0;
  EXPECT_EQ(std::sscanf(operation.c_str(), "crop_%d_%dx%d", &crop, &height, &width), 3)
      << operation;
  EVOQ_ASSIGN(const Image cropped, CentreCrop(image, crop, crop));
  return ResizeBilinear(cropped, width, height, budget);
}

TEST(Image, EqualsPillowByteForByte) {
  const auto rows = GoldenRows();
  ASSERT_GE(rows.size(), 70);
  int photos = 0;
  for (const Row& row : rows) {
    std::string path = kGolden + "images/" + row.file;
    if (!std::filesystem::exists(path)) {
      path = DataFolder() + "/images/imagenet/" + row.file;
      if (!std::filesystem::exists(path)) continue;
      ++photos;
    }
    auto image = DecodeImage(path);
    ASSERT_TRUE(image) << image.error().message();
    auto result = ApplyOperation(*image, row.operation);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(result->width, row.width) << row.file << " " << row.operation;
    EXPECT_EQ(result->height, row.height) << row.file << " " << row.operation;
    EXPECT_EQ(crc32(0, result->pixels.data(), result->pixels.size()), row.crc)
        << row.file << " " << row.operation;
  }
  if (photos == 0) GTEST_SKIP() << "photographs not compared: no images in " << DataFolder();
}

std::string TempFile(const std::string& name, std::string_view bytes) {
  const std::string path = testing::TempDir() + "/evoq_image_" + name;
  EXPECT_TRUE(WriteFileAtomic(path, bytes));
  return path;
}

TEST(Image, TruncatedFilesAreErrorsAtEveryLength) {
  for (const char* name : {"rgb.jpg", "progressive.jpg", "rgb.png", "palette.png"}) {
    auto whole = ReadTextFile(kGolden + "images/" + name);
    ASSERT_TRUE(whole);
    // The last bytes of a JPEG are its end marker, which holds no pixel.
    for (size_t length = 0; length + 12 < whole->size(); length += 7) {
      auto image = DecodeImage(TempFile(name, std::string_view(*whole).substr(0, length)));
      ASSERT_FALSE(image) << name << " cut to " << length << " of " << whole->size();
      EXPECT_NE(image.error().message().find(std::string("evoq_image_") + name), std::string::npos);
    }
  }
}

TEST(Image, CorruptPixelsAreErrors) {
  auto png = ReadTextFile(kGolden + "images/rgb.png");
  ASSERT_TRUE(png);
  (*png)[png->size() / 2] ^= 0x40;
  EXPECT_FALSE(DecodeImage(TempFile("bad.png", *png)));
  auto image = DecodeImage(TempFile("text.jpg", "hello"));
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message().find("neither JPEG nor PNG"), std::string::npos);
}

TEST(Image, HugeClaimsAreRefusedBeforeAllocation) {
  auto png = ReadTextFile(kGolden + "images/rgb.png");
  ASSERT_TRUE(png);
  // IHDR: width at 16, height at 20, its CRC at 29.
  for (int i : {16, 20})
    (*png)[i] = 0, (*png)[i + 1] = 0x0f, (*png)[i + 2] = 0x42, (*png)[i + 3] = 0x40;  // 1,000,000
  const uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(png->data()) + 12, 17);
  for (int i = 0; i < 4; ++i) (*png)[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  auto image = DecodeImage(TempFile("huge.png", *png));
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code(), ErrorCode::kTooLarge) << image.error().message();
}

TEST(Preprocess, FormulaAndLayouts) {
  const Image image{2, 1, 3, {10, 20, 30, 40, 50, 60}};
  auto p = ParsePreprocess(
      R"({"_comment": 1, "color": "BGR", "scale": 0.5, "mean": [1, 2, 3], "std": [2, 4, 8]})");
  ASSERT_TRUE(p) << p.error().message();
  auto nchw = ToInput(image, *p);
  ASSERT_TRUE(nchw);
  EXPECT_EQ(nchw->sizes(), (std::vector<int64_t>{1, 3, 1, 2}));
  // B: (30 * 0.5 - 1) / 2, (60 * 0.5 - 1) / 2; G: (20 * 0.5 - 2) / 4, ...; R: (10 * 0.5 - 3) / 8,
  // ...
  EXPECT_EQ(std::vector<float>(nchw->values<float>().begin(), nchw->values<float>().end()),
            (std::vector<float>{7, 14.5, 2, 5.75, 0.25, 2.125}));
  p->layout = "NHWC";
  auto nhwc = ToInput(image, *p);
  ASSERT_TRUE(nhwc);
  EXPECT_EQ(nhwc->values<float>()[1], 2);
  EXPECT_EQ(nhwc->sizes(), (std::vector<int64_t>{1, 1, 2, 3}));
}

TEST(Preprocess, ErrorsNameTheField) {
  for (const auto& [json, expected] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "JSON object"},
           {"{", "not JSON (1 bytes)"},
           {std::string(65, '[') + std::string(65, ']'), "nested deeper than 64 levels"},
           {R"({"resize_shrt": 256})", "unknown field \"resize_shrt\""},
           {R"({"crop": [224]})", "\"crop\" is [224], expected [height, width]"},
           {R"({"resize": [0, 5]})", "\"resize\""},
           {R"({"std": [1, 0, 1]})", "\"std\""},
           {R"({"mean": [1, 2]})", "\"mean\""},
           {R"({"color": "GRAY", "mean": [1, 2, 3]})", "\"mean\" has 3 numbers, expected 1"},
           {R"({"color": "HSV"})", "\"color\" is \"HSV\", expected one of RGB, BGR, GRAY"},
           {R"({"scale": "big"})", "\"scale\""},
           {R"({"scale": 1e300})", "\"scale\""},
           {R"({"label_offset": 1.5})", "\"label_offset\""},
           {R"({"dtype": "float64"})", "\"dtype\""},
       }) {
    auto p = ParsePreprocess(json);
    ASSERT_FALSE(p) << json;
    EXPECT_NE(p.error().message().find(expected), std::string::npos) << p.error().message();
  }
}

TEST(Preprocess, ReadsEveryFileOfTheModels) {
  int count = 0;
  for (const char* folder : {"/models", "/quantized"}) {
    auto files = ListFiles(DataFolder() + folder);
    if (!files) GTEST_SKIP() << files.error().message();
    for (const std::string& file : *files) {
      if (!file.ends_with(".preprocess.json")) continue;
      auto p = LoadPreprocess(file);
      EXPECT_TRUE(p) << p.error().message();
      ++count;
    }
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace evoq
