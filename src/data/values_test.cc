// Resampling, preprocessing and tokenizing, with values from their definitions or from Pillow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/dataset.h"
#include "data/resize.h"

namespace evoq {
namespace {

using Numbers = std::vector<uint8_t>;
using Floats = std::vector<float>;

template <typename T>
std::vector<T> Values(const Tensor& tensor) {
  return {tensor.values<T>().begin(), tensor.values<T>().end()};
}

Numbers Resized(const Image& image, int width, int height) {
  Budget budget = Budget::ForFile(0);
  const auto out = ResizeBilinear(image, width, height, budget);
  EXPECT_TRUE(out);
  EXPECT_EQ(std::tuple(out->width, out->height, out->channels),
            std::tuple(width, height, image.channels));
  return out->pixels;
}

// One row of 4 to 2: s = f = 2, centres 1 and 3. Pixels 0 to 2 at distances 0.5, 0.5, 1.5 weigh
// 0.75, 0.75, 0.25 of 1.75: (7.5 + 15 + 25) / 1.75 = 27.1; pixels 1 to 3 weigh 0.25, 0.75, 0.75: (5
// + 75 + 150) / 1.75 = 131.4. A column does the same.
TEST(Resize, HalvesByTheFormula) {
  EXPECT_EQ(Resized({4, 1, 1, {10, 20, 100, 200}}, 2, 1), (Numbers{27, 131}));
  EXPECT_EQ(Resized({1, 4, 1, {10, 20, 100, 200}}, 1, 2), (Numbers{27, 131}));
}

// One row of 2 to 4: s = 0.5, f = 1, centres 0.25, 0.75, 1.25, 1.75: 10; 0.75 * 10 + 0.25 * 200
// = 57.5, up; 152.5, up; 200.
TEST(Resize, DoublesByTheFormulaAndRoundsHalvesUp) {
  EXPECT_EQ(Resized({2, 1, 1, {10, 200}}, 4, 1), (Numbers{10, 58, 153, 200}));
  EXPECT_EQ(Resized({1, 2, 1, {10, 200}}, 1, 4), (Numbers{10, 58, 153, 200}));
  // Across, then down: each column of the result above it, 8-bit between the passes.
  EXPECT_EQ(Resized({2, 2, 1, {10, 200, 10, 200}}, 4, 1), (Numbers{10, 58, 153, 200}));
}

// The same size is the same pixels; only the other axis changes.
TEST(Resize, OneAxisAtATime) {
  const Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Resized(image, 2, 3), image.pixels);
  EXPECT_EQ(Resized(image, 1, 3), (Numbers{2, 4, 6}));  // 1.5, 3.5 and 5.5 round up
  EXPECT_EQ(Resized(image, 2, 1), (Numbers{3, 4}));     // weights 0.5 + 1/6, 1, 0.5 + 1/6 of 7/3
}

// Pillow 13's Image.fromarray(a).resize((w, old h)).resize((w, h)), both Image.BILINEAR, of images
// wider than tall and taller than wide.
TEST(Resize, NonSquareImagesEqualPillow) {
  const Image wide{5, 3, 1, {139, 74, 229, 241, 169, 65, 6, 160, 149, 106, 38, 175, 188, 205, 175}};
  EXPECT_EQ(Resized(wide, 2, 7),
            (Numbers{137, 208, 127, 197, 96, 164, 66, 131, 96, 156, 126, 182, 136, 190}));
  EXPECT_EQ(Resized(wide, 7, 2),
            (Numbers{111, 75, 93, 203, 206, 180, 145, 48, 84, 131, 178, 182, 169, 149}));
  EXPECT_EQ(Resized(wide, 5, 2), (Numbers{111, 49, 203, 207, 145, 48, 112, 178, 184, 149}));
  EXPECT_EQ(Resized(wide, 3, 3), (Numbers{111, 197, 200, 40, 123, 124, 97, 189, 188}));
  EXPECT_EQ(Resized(wide, 1, 1), (Numbers{140}));
  EXPECT_EQ(Resized(wide, 9, 4),
            (Numbers{139, 117, 81,  143, 229, 236, 233, 193, 169, 93,  72,  39,
                     100, 186, 185, 177, 147, 130, 55,  60,  68,  114, 171, 170,
                     166, 144, 132, 38,  84,  160, 181, 188, 197, 202, 185, 175}));
  const Image tall{2, 6, 3, {98,  249, 10,  148, 95,  86, 147, 198, 66,  39,  106, 213,
                             171, 45,  167, 57,  69,  81, 55,  14,  153, 178, 215, 76,
                             52,  39,  250, 72,  215, 50, 161, 223, 112, 172, 161, 233}};
  EXPECT_EQ(Resized(tall, 3, 2), (Numbers{129, 150, 88, 109, 129, 110, 88, 108, 131, 95, 80, 181,
                                          109, 132, 144, 122, 183, 106}));
  EXPECT_EQ(Resized(tall, 1, 4),
            (Numbers{112, 165, 83, 107, 95, 128, 98, 113, 128, 128, 168, 164}));
}

Image Steps(int width, int height) {  // pixel (y, x) is 10 y + x
  Image image{width, height, 1, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) image.pixels.push_back(static_cast<uint8_t>(10 * y + x));
  }
  return image;
}

// int(size * long / short): 5 x 3 to a short side of 4 is 6.67 long, cut to 6; 3 x 5 the same the
// other way; a square keeps its form.
TEST(Resize, ShortSideOfEachOrientation) {
  const auto sizes = [](int width, int height, int size) {
    Budget budget(1000000, 1000000);
    const auto out = ResizeShortSide(Steps(width, height), size, budget);
    EXPECT_TRUE(out) << out.error().message();
    if (!out) return std::pair(0, 0);
    EXPECT_EQ(budget.memory_left(), 1000000 - int64_t{out->width} * out->height);  // of one channel
    return std::pair(out->width, out->height);
  };
  EXPECT_EQ(sizes(5, 3, 4), std::pair(6, 4));
  EXPECT_EQ(sizes(3, 5, 4), std::pair(4, 6));
  EXPECT_EQ(sizes(5, 3, 2), std::pair(3, 2));
  EXPECT_EQ(sizes(3, 5, 2), std::pair(2, 3));
  EXPECT_EQ(sizes(4, 4, 7), std::pair(7, 7));
  Budget small(23, 1000000);  // 6 x 4 = 24
  const auto refused = ResizeShortSide(Steps(5, 3), 4, small);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "image of 5 x 3 pixels resized to a short side of 4: 24 bytes of memory, expected at "
            "most the 23 left of 23");
  Image line{100000, 1, 1, Numbers(100000)};
  Budget large(int64_t{1} << 40, 0);
  const auto beyond = ResizeShortSide(line, 60000, large);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), ErrorCode::kTooLarge);
}

TEST(Resize, MostPixelsAreTwoToThe28) {
  Budget budget = Budget::ForFile(0);
  const auto refused = ResizeBilinear(Steps(1, 1), 16385, 16384, budget);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "resized image of 16385 x 16384 pixels, at most 268435456");
}

// The first pass makes a row of each of the image's: 2 taps x the wider width x channels x rows of
// work. Of one colour it stays.
TEST(Resize, TallImagesDrawOnTheBudget) {
  const Image tall{1, 100000, 3, Numbers(300000, 7)};
  EXPECT_EQ(Resized(tall, 20, 3), Numbers(180, 7));
  Budget exact(0, 2 * 20 * 3 * 100000), less(0, 2 * 20 * 3 * 100000 - 1);
  EXPECT_TRUE(ResizeBilinear(tall, 20, 3, exact));
  EXPECT_EQ(exact.work_left(), 0);
  const auto refused = ResizeBilinear(tall, 20, 3, less);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "resizing 100000 rows to a width of 20: 12000000 units of work, expected at most the "
            "11999999 left of 11999999");
  EXPECT_TRUE(ResizeBilinear(Steps(5, 4), 5, 2, exact));  // no first pass
}

// Offsets floor((in - out) / 2): 5 x 4 to height 2 and width 3 begins at row 1, column 1; to height
// 3, width 2 at row 0, column 1.
TEST(CentreCrop, OffsetsOfEachAxis) {
  const auto crop = [](int height, int width) {
    const auto out = CentreCrop(Steps(5, 4), height, width);
    EXPECT_TRUE(out);
    EXPECT_EQ(std::pair(out->height, out->width), std::pair(height, width));
    return out->pixels;
  };
  EXPECT_EQ(crop(2, 3), (Numbers{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(crop(3, 2), (Numbers{1, 2, 11, 12, 21, 22}));
  EXPECT_EQ(crop(1, 4), (Numbers{10, 11, 12, 13}));
  EXPECT_EQ(crop(4, 5), Steps(5, 4).pixels);
  for (const auto& [height, width] : {std::pair(5, 5), std::pair(4, 6)}) {
    const auto out = CentreCrop(Steps(5, 4), height, width);
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().message(),
              fmt::format("crop to {} x {} (height x width) of an image of 4 x 5", height, width));
  }
}

// ---- preprocessing

Tensor Input(const Image& image, const std::string& json) {
  const auto p = ParsePreprocess(json);
  EXPECT_TRUE(p) << p.error().message();
  auto input = ToInput(image, *p);
  EXPECT_TRUE(input) << input.error().message();
  return *input;
}

// [height, width] of a crop and a resize, in both layouts: 5 wide, 4 tall, pixel 10 y + x.
TEST(PreprocessValues, HeightComesFirst) {
  const Tensor crop = Input(Steps(5, 4), R"({"color": "GRAY", "crop": [2, 3], "scale": 1})");
  EXPECT_EQ(crop.sizes(), (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_EQ(Values<float>(crop), (Floats{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(Input(Steps(5, 4), R"({"color": "GRAY", "resize": [2, 3], "layout": "NHWC"})").sizes(),
            (std::vector<int64_t>{1, 2, 3, 1}));
  EXPECT_EQ(Input(Steps(5, 4), R"({"color": "GRAY", "resize": [2, 3]})").sizes(),
            (std::vector<int64_t>{1, 1, 2, 3}));
  EXPECT_EQ(Input(Steps(5, 4), R"({"resize_short": 8})").sizes(),
            (std::vector<int64_t>{1, 3, 8, 10}));
}

// Short side, crop, resize, in this order: 2 x 4 doubled to 4 x 8, its middle 4 x 4, halved. Rows
// are alike, so that only columns matter: 0 0 100 100 doubled is 0 0 0 25 75 100 100 100; the
// middle 0 25 75 100... of columns 2 to 5 is 0 25 75 100; halved with weights 0.75 0.75 0.25
// of 1.75: (18.75 + 18.75) / 1.75 = 21.4 and (0.25 * 25 + 0.75 * 175) / 1.75 = 78.6.
TEST(PreprocessValues, StepsInTheirOrder) {
  const Image image{4, 2, 1, {0, 0, 100, 100, 0, 0, 100, 100}};
  const Tensor t = Input(
      image,
      R"({"color": "GRAY", "resize_short": 4, "crop": [4, 4], "resize": [1, 2], "scale": 1})");
  EXPECT_EQ(Values<float>(t), (Floats{21, 79}));
}

// (19595 R + 38470 G + 7471 B + 32768) / 65536 of pure colours: 76.2, 150.2, 29.6 (each with its
// half added and cut).
TEST(PreprocessValues, GrayWeights) {
  const Tensor t = Input({4, 1, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}},
                         R"({"color": "GRAY", "scale": 1})");
  EXPECT_EQ(Values<float>(t), (Floats{76, 150, 29, 255}));
}

// x = (pixel * scale - mean) / std, each channel with its own, in the order of the model's
// channels; one number stands for all.
TEST(PreprocessValues, MeanAndDeviationByChannel) {
  const Image image{1, 1, 3, {10, 20, 30}};
  EXPECT_EQ(Values<float>(Input(image, R"({"scale": 2, "mean": [1, 2, 3], "std": [2, 4, 8]})")),
            (Floats{9.5f, 9.5f, 7.125f}));
  EXPECT_EQ(Values<float>(Input(
                image, R"({"scale": 2, "mean": [1, 2, 3], "std": [2, 4, 8], "color": "BGR"})")),
            (Floats{29.5f, 9.5f, 2.125f}));
  EXPECT_EQ(Values<float>(Input(image, R"({"scale": 1, "mean": 5, "std": 5})")), (Floats{1, 3, 5}));
  EXPECT_EQ(Values<float>(Input(image, R"({"scale": 1, "mean": [5], "std": [5]})")),
            (Floats{1, 3, 5}));
  EXPECT_EQ(Values<float>(Input(image, "{}")),
            (Floats{10 * (1.0f / 255), 20 * (1.0f / 255), 30 * (1.0f / 255)}));
  EXPECT_EQ(Values<float>(Input({1, 1, 1, {8}}, R"({"scale": 1, "mean": [1, 2, 3]})")),
            (Floats{7, 6, 5}));  // gray in three channels
}

// Half to even, saturated: 0.5 * (5, 7, 9) is 2.5, 3.5, 4.5.
TEST(PreprocessValues, IntegersRoundHalfToEvenAndSaturate) {
  const Image image{1, 1, 3, {5, 7, 9}};
  EXPECT_EQ(Values<uint8_t>(Input(image, R"({"scale": 0.5, "dtype": "uint8"})")),
            (Numbers{2, 4, 4}));
  EXPECT_EQ(Values<uint8_t>(
                Input(image, R"({"scale": 100, "mean": [1000, 444.5, 0], "dtype": "uint8"})")),
            (Numbers{0, 255, 255}));
  EXPECT_EQ(
      Values<int8_t>(Input(image, R"({"scale": 100, "mean": [1000, 573, 0], "dtype": "int8"})")),
      (std::vector<int8_t>{-128, 127, 127}));
  EXPECT_EQ(Values<int8_t>(Input(image, R"({"scale": -0.5, "dtype": "int8"})")),
            (std::vector<int8_t>{-2, -4, -4}));
  Preprocess p;
  p.scale = 1000, p.mean = {10000, 0, 0};
  const auto as = [&](DType dtype) {
    p.dtype = dtype;
    return *ToInput(image, p);
  };
  EXPECT_EQ(Values<int32_t>(as(DType::kInt32)), (std::vector<int32_t>{-5000, 7000, 9000}));
  EXPECT_EQ(Values<int64_t>(as(DType::kInt64)), (std::vector<int64_t>{-5000, 7000, 9000}));
  EXPECT_EQ(Values<uint16_t>(as(DType::kUint16)), (std::vector<uint16_t>{0, 7000, 9000}));
  EXPECT_EQ(Values<int16_t>(as(DType::kInt16)), (std::vector<int16_t>{-5000, 7000, 9000}));
  EXPECT_EQ(Values<uint32_t>(as(DType::kUint32)), (std::vector<uint32_t>{0, 7000, 9000}));
  EXPECT_EQ(Values<uint64_t>(as(DType::kUint64)), (std::vector<uint64_t>{0, 7000, 9000}));
  p.scale = 1e9f, p.mean = {1e10f, 0, 0};  // -5e9, 7e9, 9e9
  EXPECT_EQ(Values<int32_t>(as(DType::kInt32)),
            (std::vector<int32_t>{INT32_MIN, INT32_MAX, INT32_MAX}));
  p.scale = 1e30f;
  EXPECT_EQ(Values<int64_t>(as(DType::kInt64)),
            (std::vector<int64_t>{INT64_MAX, INT64_MAX, INT64_MAX}));
  p.dtype = DType::kInt4;
  const auto refused = ToInput(image, p);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
}

// Sizes that the image decides draw on its budget, those that the user names do not.
TEST(PreprocessValues, BudgetOfTheImage) {
  const Image image{100, 100, 3, Numbers(30000)};
  Budget budget(119999, 0);  // float32: 120000 bytes
  const auto refused = ToInput(image, Preprocess{}, budget);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "input float32[1, 3, 100, 100]: 120000 bytes of memory, expected at most the 119999 "
            "left of 119999");
  Budget enough(120000, 0);
  EXPECT_TRUE(ToInput(image, Preprocess{}, enough));
  Budget none(0, 0);
  EXPECT_TRUE(ToInput(image, Preprocess{.resize = std::pair(90, 100)}, none));
  EXPECT_TRUE(ToInput(image, Preprocess{.crop = std::pair(99, 99)}, none));
}

}  // namespace
}  // namespace evoq
