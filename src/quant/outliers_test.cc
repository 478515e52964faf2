#include "quant/outliers.h"

#include "quant/test_net.h"

namespace evoq {
namespace {

Tensor Normal(const Shape& shape, int seed, float deviation = 1) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<float> normal(0, deviation);
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = normal(random);
  return t;
}

OutlierStatistics Of(const Tensor& value, int axis = -1) {
  OutlierStatistics statistics;
  statistics.Add(value, axis);
  return statistics;
}

TEST(Outliers, MomentsOfKnownDistributions) {
  const Tensor normal = Normal(Shape{200000}, 1);
  EXPECT_NEAR(Of(normal).kurtosis(), 3, 0.1);
  Tensor far = normal.Clone();  // the mean counts for nothing
  for (int64_t i = 0; i < far.elements(); ++i) far.mutable_data<float>()[i] += 40;
  EXPECT_NEAR(Of(far).kurtosis(), Of(normal).kurtosis(), 1e-3);
  Tensor uniform = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1000}));
  for (int i = 0; i < 1000; ++i) uniform.mutable_data<float>()[i] = static_cast<float>(i);
  EXPECT_NEAR(Of(uniform).kurtosis(), 1.8, 1e-3);
  EXPECT_EQ(Of(Tensor::FromValues<float>(Shape{3}, {5, 5, 5})).kurtosis(), 0);
  EXPECT_EQ(OutlierStatistics().kurtosis(), 0);
}

TEST(Outliers, ThePercentileIsThatOfTheSortedMagnitudes) {
  Tensor values = Normal(Shape{20000}, 2);
  values.mutable_data<float>()[17] = -90;
  std::vector<float> sorted;
  for (const float x : values.values<float>()) sorted.push_back(std::fabs(x));
  std::ranges::sort(sorted);
  const float exact = sorted[19979];  // 99.9% are not above it
  const OutlierStatistics statistics = Of(values);
  EXPECT_GE(statistics.p999(), exact);
  EXPECT_LE(statistics.p999(), exact * (1 + 1.0 / 64));
  EXPECT_EQ(statistics.largest(), 90);
  EXPECT_DOUBLE_EQ(statistics.tail(), 90 / statistics.p999());
  EXPECT_EQ(Of(Tensor::FromValues<float>(Shape{2}, {3, -4})).tail(),
            1);  // too few to leave one out
  EXPECT_EQ(Of(Tensor::FromValues<float>(Shape{2}, {0, 0})).tail(), 1);
}

TEST(Outliers, SamplesAddUp) {
  const Tensor a = Normal(Shape{2, 3, 50}, 3), b = Normal(Shape{1, 3, 70}, 4, 5);
  OutlierStatistics parts;
  parts.Add(a, 1);
  parts.Add(b, 1);
  std::vector<float> all(a.values<float>().begin(), a.values<float>().end());
  all.insert(all.end(), b.values<float>().begin(), b.values<float>().end());
  const OutlierStatistics whole = Of(Tensor::FromValues(all));
  EXPECT_EQ(parts.elements(), whole.elements());
  EXPECT_EQ(parts.largest(), whole.largest());
  EXPECT_EQ(parts.p999(), whole.p999());
  EXPECT_EQ(parts.kurtosis(), whole.kurtosis());
  EXPECT_EQ(parts.channels(), 3);
  parts.Add(Normal(Shape{1, 4, 2}, 5), 1);  // another number of channels: they are not known
  EXPECT_EQ(parts.channels(), 0);
  EXPECT_TRUE(parts.OutlierChannels().empty());
}

TEST(Outliers, ChannelsAboveEightTimesTheMedian) {
  Tensor value = Tensor::Allocate(TensorType(DType::kFloat32, Shape{2, 5, 2}));
  const float largest[] = {1, 2, 3, 24, 24.5f};  // the median is 3
  for (int64_t i = 0; i < value.elements(); ++i)
    value.mutable_data<float>()[i] = (i % 2 ? -1.0f : 0.5f) * largest[i / 2 % 5];
  EXPECT_EQ(Of(value, 1).OutlierChannels(), (std::vector<int64_t>{4}));
  EXPECT_TRUE(Of(value).OutlierChannels().empty());
}

// Of a net in which one channel between two layers, and one row of a weight, are 50 times larger.
TEST(Outliers, NamesThePlantedChannels) {
  Graph net = MakeNet(kConvNet);
  const ValueId w1 = net.FindValue("w1"), w5 = net.FindValue("w5");
  Tensor stem = net.value(w1).constant.Clone(), classes = net.value(w5).constant.Clone();
  for (int64_t i = 0; i < 27; ++i) stem.mutable_data<float>()[3 * 27 + i] *= 50;
  for (int64_t i = 0; i < 16; ++i) classes.mutable_data<float>()[i * 10 + 7] *= 50;
  net.SetConstant(w1, stem);
  net.SetConstant(w5, classes);
  std::vector<NodeId> layers;
  for (const char* name : {"stem", "depthwise", "project", "last", "classes"})
    layers.push_back(net.FindNode(name));
  const auto found =
      FindOutliers(net, layers, {.prepare = Reference(), .samples = RandomSamples(net, 4)});
  ASSERT_TRUE(found) << found.error().message();
  std::map<std::string, const TensorOutliers*> tensors;
  for (const TensorOutliers& tensor : *found) {
    EXPECT_TRUE(tensors.emplace(tensor.name, &tensor).second) << tensor.name << " is there twice";
  }
  ASSERT_EQ(tensors.size(), 10);  // five weights, and x, s, d, m, f
  EXPECT_EQ(tensors.at("s")->layers, (std::vector<std::string>{"depthwise", "project"}));
  EXPECT_EQ(tensors.at("s")->statistics.OutlierChannels(), (std::vector<int64_t>{3}));
  EXPECT_GT(tensors.at("s")->statistics.kurtosis(), 3 * tensors.at("x")->statistics.kurtosis());
  EXPECT_EQ(tensors.at("w1")->statistics.OutlierChannels(), (std::vector<int64_t>{3}));
  EXPECT_EQ(tensors.at("w5")->statistics.OutlierChannels(), (std::vector<int64_t>{7}));
  EXPECT_TRUE(tensors.at("w5")->weight);
  EXPECT_EQ(tensors.at("x")->statistics.elements(), 4 * 3 * 12 * 12);
  for (const char* name : {"x", "w3", "f"})
    EXPECT_TRUE(tensors.at(name)->statistics.OutlierChannels().empty()) << name;
}

}  // namespace
}  // namespace evoq
