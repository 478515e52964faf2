#include "certify/samples.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

Samples Two(std::optional<int64_t> first = 3, std::optional<int64_t> second = 4, float value = 1) {
  Samples samples;
  samples.inputs.push_back({Tensor::FromValues<float>(Shape{1, 2}, {value, 2})});
  samples.inputs.push_back({Tensor::FromValues<float>(Shape{1, 2}, {5, 6})});
  samples.labels = {first, second};
  return samples;
}

// A checksum tells samples apart by what they are, by their labels, and by which label belongs to
// which sample.
TEST(Samples, ChecksumOfInputsAndLabels) {
  const uint32_t crc = Two().Crc();
  EXPECT_EQ(Two().Crc(), crc);
  EXPECT_NE(Two(3, 5).Crc(), crc);
  EXPECT_NE(Two(5, 4).Crc(), crc);
  EXPECT_NE(Two(4, 3).Crc(), crc);
  EXPECT_NE(Two(std::nullopt, 4).Crc(), crc);
  EXPECT_NE(Two(3, std::nullopt).Crc(), crc);
  EXPECT_NE(Two(0, 4).Crc(), Two(std::nullopt, 4).Crc());  // no label is none of the classes
  EXPECT_NE(Two(3, 4, 1.5f).Crc(), crc);
  Samples turned = Two();
  std::swap(turned.inputs[0], turned.inputs[1]);
  EXPECT_NE(turned.Crc(), crc);
  Samples fewer = Two();
  fewer.inputs.pop_back(), fewer.labels.pop_back();
  EXPECT_NE(fewer.Crc(), crc);
  EXPECT_EQ(Two().labelled(), 2);
  EXPECT_EQ(Two(std::nullopt, 4).labelled(), 1);
}

// Sample i is labelled 10 + i and holds i.
class Counting : public Dataset {
 public:
  explicit Counting(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Result<Sample> At(int64_t index) const override {
    return Sample{std::to_string(index),
                  {Tensor::FromValues<float>(Shape{1, 1}, {static_cast<float>(index)})},
                  10 + index};
  }

 private:
  int64_t size_;
};

// i * size / count: of 10 samples, 4 are 0, 2, 5, 7; all where the limit is 0 or larger.
TEST(Samples, EvenlySpread) {
  const auto indices = [](int64_t size, int64_t limit) {
    const auto samples = LoadSamples(Counting(size), limit);
    EXPECT_TRUE(samples);
    std::vector<int> found;
    for (size_t i = 0; i < samples->inputs.size(); ++i) {
      found.push_back(static_cast<int>(samples->inputs[i][0].values<float>()[0]));
      EXPECT_EQ(samples->labels[i], 10 + found.back());
    }
    return found;
  };
  EXPECT_EQ(indices(10, 4), (std::vector<int>{0, 2, 5, 7}));
  EXPECT_EQ(indices(3, 0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(indices(3, 5), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(indices(3, 1), (std::vector<int>{0}));
  EXPECT_EQ(indices(0, 5), (std::vector<int>{}));
}

// Samples of one tensor of 2 MiB: 512 of them are 1 GiB. Two inputs make it half as many.
class Large : public Dataset {
 public:
  explicit Large(size_t inputs)
      : inputs_(inputs, Tensor::Allocate(TensorType(DType::kUint8, Shape{2 << 20}))) {}
  int64_t size() const override { return 600; }
  Result<Sample> At(int64_t) const override { return Sample{"", inputs_, std::nullopt}; }

 private:
  std::vector<Tensor> inputs_;
};

TEST(Samples, NoMoreThanOneGibibyte) {
  EXPECT_EQ(LoadSamples(Large(1), 0)->size(), 512);
  EXPECT_EQ(LoadSamples(Large(2), 0)->size(), 256);
  EXPECT_EQ(LoadSamples(Large(1), 7)->size(), 7);
}

// Noise in the range of each type: floats in [-1, 1), bytes of any value, other types 0; the same
// each time, another for each sample.
TEST(Samples, RandomInputsOfEachType) {
  const auto graph = ParseGraph(
      "input %x: float32[1, 500]\ninput %b: uint8[1, 500]\ninput %i: int64[1, 5]\na: %y = "
      "Relu(%x)\noutput %y");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto samples = RandomInputs(*graph, {}, 2), again = RandomInputs(*graph, {}, 2);
  ASSERT_TRUE(samples) << samples.error().message();
  EXPECT_EQ(samples->size(), 2);
  EXPECT_EQ(samples->random, 2);
  EXPECT_EQ(samples->labelled(), 0);
  EXPECT_EQ(samples->labels.size(), 2);
  EXPECT_EQ(samples->Crc(), again->Crc());
  EXPECT_FALSE(BitEqual(samples->inputs[0][0], samples->inputs[1][0]));
  float low = 1, high = -1;
  for (float v : samples->inputs[0][0].values<float>())
    low = std::min(low, v), high = std::max(high, v);
  EXPECT_GE(low, -1);
  EXPECT_LT(high, 1);
  EXPECT_LT(low, -0.9f);  // 500 draws: none below -0.9 would be 0.95^500
  EXPECT_GT(high, 0.9f);
  uint8_t least = 255, most = 0;
  for (uint8_t v : samples->inputs[0][1].values<uint8_t>())
    least = std::min(least, v), most = std::max(most, v);
  EXPECT_LT(least, 20);
  EXPECT_GT(most, 235);
  for (int64_t v : samples->inputs[0][2].values<int64_t>()) EXPECT_EQ(v, 0);
}

// xorshift64 with the shifts 13, 7 and 17 from the seed of Marsaglia's paper (Xorshift RNGs, 2003):
// the upper halves of its first numbers are 2036926837, 708014935 and 804196474, of which floats
// take the upper 24 bits, in steps of 2^-23 from -1, and bytes the lowest.
TEST(Samples, RandomInputsAreTheSameEverywhere) {
  const auto graph = ParseGraph(
      "input %x: float32[2]\ninput %b: int8[1]\ninput %f: bool[4]\na: %y = Relu(%x)\noutput %y");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto samples = RandomInputs(*graph, {}, 1);
  ASSERT_TRUE(samples) << samples.error().message();
  EXPECT_EQ(samples->inputs[0][0].values<float>()[0], -0.05148208141326904f);
  EXPECT_EQ(samples->inputs[0][0].values<float>()[1], -0.6703048944473267f);
  EXPECT_EQ(samples->inputs[0][1].values<uint8_t>()[0], 804196474 % 256);
  for (uint8_t v : samples->inputs[0][2].values<uint8_t>()) EXPECT_EQ(v, 0) << "no truth value";
}

TEST(Samples, RandomInputsAreTensorsOfNumbers) {
  const auto graph = ParseGraph("input %x: string[2]\na: %y: string[2] = Identity(%x)\noutput %y");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto none = RandomInputs(*graph, {}, 1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(none.error().message(), "input x is string[2]: random samples are tensors of numbers");
}

// 1 GiB together, but one sample of any size: 2^18 floats are a MiB, of which 1024 fit.
TEST(Samples, RandomInputsAreNoMoreThanFit) {
  const auto many = [](int64_t count, const InputShapes& shapes) {
    const auto graph =
        ParseGraph("input %x: float32[N, 1024]\na: %y: float32[N, 1024] = Relu(%x)\noutput %y");
    EXPECT_TRUE(graph) << graph.error().message();
    const auto samples = RandomInputs(*graph, shapes, count);
    return samples ? "" : samples.error().message();
  };
  EXPECT_EQ(many(2, {{"x", {256, 1024}}}), "");
  EXPECT_EQ(many(1025, {{"x", {256, 1024}}}),
            "1025 random samples of 1048576 bytes are more than 1 GiB");
  // Whose sizes overflow, too.
  EXPECT_NE(many(2, {{"x", {int64_t{1} << 60, 1024}}}), "");
}

}  // namespace
}  // namespace evoq
