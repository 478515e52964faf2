#include "runtime/range_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace evoq {
namespace {

TensorType Bytes(DType dtype, int64_t count, float scale, int zero) {
  return {dtype, Shape{1, count}, QuantParams::PerTensor(scale, zero)};
}

std::vector<uint32_t> Counts(const RangeWatch& watch, std::span<const uint8_t> data, size_t sets) {
  std::vector<uint32_t> outside(sets);
  watch.Count(reinterpret_cast<const std::byte*>(data.data()), outside);
  return outside;
}

// Counts by the definition, of a value all of whose elements are looked at: the stored number is
// real number (q - zero) * scale, and outside where no number of the other set comes nearer than
// half a step of the stored one.
TEST(RangeWatch, CountsWhatOtherRangesDoNotReach) {
  std::minstd_rand random(1);
  for (DType dtype : {DType::kUint8, DType::kInt8}) {
    const int least = dtype == DType::kInt8 ? -128 : 0;
    for (int round = 0; round < 50; ++round) {
      std::vector<TensorType> types;
      for (int s = 0; s < 3; ++s)
        types.push_back(Bytes(dtype, 200, 0.01f * static_cast<float>(1 + random() % 40),
                              least + static_cast<int>(random() % 256)));
      std::vector<uint8_t> data(200);
      for (uint8_t& q : data) q = static_cast<uint8_t>(random());
      for (size_t stored = 0; stored < 3; ++stored) {
        const RangeWatch watch(types, stored);
        ASSERT_EQ(watch.elements(), 200);
        const std::vector<uint32_t> counts = Counts(watch, data, 3);
        for (size_t s = 0; s < 3; ++s) {
          uint32_t expected = 0;
          for (uint8_t byte : data) {
            const int q = dtype == DType::kInt8 ? static_cast<int8_t>(byte) : byte;
            const QuantParams &own = *types[stored].quant, &other = *types[s].quant;
            if (s == stored) {
              expected += (q == least && own.zero_points[0] > least) ||
                          (q == least + 255 && own.zero_points[0] < least + 255);
              continue;
            }
            const double x = (q - own.zero_points[0]) * static_cast<double>(own.scales[0]);
            const double slack = 2e-3 * own.scales[0];
            expected += x < other.scales[0] * (least - other.zero_points[0]) - slack ||
                        x > other.scales[0] * (least + 255 - other.zero_points[0]) + slack;
          }
          EXPECT_EQ(counts[s], expected)
              << DTypeName(dtype) << " stored " << stored << " set " << s;
        }
      }
    }
  }
}

// After Relu 0 is the function's end, and after a Clip its bounds are: nothing is cut off there.
TEST(RangeWatch, EndsOfTheFunctionItselfCutNothingOff) {
  const TensorType types[] = {Bytes(DType::kUint8, 4, 6.0f / 255, 0),
                              Bytes(DType::kUint8, 4, 3.0f / 255, 0)};
  const uint8_t data[] = {0, 255, 255, 128};
  EXPECT_EQ(Counts(RangeWatch(types, 0), data, 2), (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(Counts(RangeWatch(types, 0, {0, 6}), data, 2), (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(Counts(RangeWatch(types, 1, {0, 6}), data, 2), (std::vector<uint32_t>{0, 2}));
}

TEST(RangeWatch, LooksAtPiecesThatAreSpreadEvenly) {
  const TensorType types[] = {Bytes(DType::kUint8, 100000, 0.1f, 0),
                              Bytes(DType::kUint8, 100000, 0.05f, 0)};
  const RangeWatch watch(types, 0);
  EXPECT_EQ(watch.elements(), kWatchedElements);
  std::vector<uint8_t> data(100000, 0);
  std::fill(data.begin(), data.begin() + 50000, 255);
  EXPECT_EQ(Counts(watch, data, 2)[0], kWatchedElements / 2);
  data.assign(100000, 0);
  std::fill_n(data.begin(), 16, 255);  // both ends are looked at
  std::fill_n(data.end() - 16, 16, 255);
  EXPECT_EQ(Counts(watch, data, 2)[0], 32u);
}

TEST(RangeWatch, TellsSetsApartByTheirRanges) {
  const auto tells = [](TensorType a, TensorType b) {
    const TensorType types[] = {std::move(a), std::move(b)};
    return RangeWatch::Tells(types);
  };
  EXPECT_TRUE(tells(Bytes(DType::kUint8, 4, 0.2f, 0), Bytes(DType::kUint8, 4, 0.1f, 9)));
  EXPECT_FALSE(tells(Bytes(DType::kUint8, 4, 0.105f, 0), Bytes(DType::kUint8, 4, 0.1f, 0)));
  EXPECT_FALSE(tells(Bytes(DType::kUint8, 0, 0.2f, 0), Bytes(DType::kUint8, 0, 0.1f, 0)));
  EXPECT_FALSE(tells(TensorType(DType::kFloat32, Shape{4}), TensorType(DType::kFloat32, Shape{4})));
  // One set is watched for itself.
  const TensorType bytes = Bytes(DType::kInt8, 4, 0.2f, 0), none = Bytes(DType::kInt8, 0, 0.2f, 0),
                   real(DType::kFloat32, Shape{4});
  EXPECT_TRUE(RangeWatch::Tells(std::span(&bytes, 1)));
  EXPECT_FALSE(RangeWatch::Tells(std::span(&none, 1)));
  EXPECT_FALSE(RangeWatch::Tells(std::span(&real, 1)));
}

}  // namespace
}  // namespace evoq
