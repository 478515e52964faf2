// Calibration on samples of different sizes.
#include "quant/test_net.h"

namespace evoq {
namespace {

// x has 2 channels in every sample; the product of x with its transpose has as many as the sample
// has rows.
TEST(FreeSizes, ChannelsAreCountedWhereTheyStayTheSame) {
  const Graph graph = MakeNet(
      "input %x: float32[1, S, 2]\nt: %t = Transpose{perm=[0, 2, 1]}(%x)\np: %p = MatMul(%x, "
      "%t)\ny: %y = MatMul(%p, %x)\noutput %y\n");
  const std::vector<Tensor> given = {Tensor::FromValues<float>({1, 2, 2}, {1, 2, 3, 4}),
                                     Tensor::FromValues<float>({1, 3, 2}, {5, 6, 7, 8, 9, -10}),
                                     Tensor::FromValues<float>({1, 1, 2}, {0, 0})};
  const SamplesFn samples =
      [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (const Tensor& sample : given) EVOQ_TRY(use(std::span(&sample, 1)));
    return {};
  };
  const auto ranges = Calibrate(graph, Reference(), samples, {});
  ASSERT_TRUE(ranges) << ranges.error().message();
  const Range& x = ranges->at("x");
  EXPECT_EQ(x.channel_means,
            (std::vector<float>{(1 + 3 + 5 + 7 + 9) / 6.0f, (2 + 4 + 6 + 8 - 10) / 6.0f}));
  EXPECT_EQ(x.channel_max, (std::vector<float>{9, 10}));
  const Range& p = ranges->at("p");
  EXPECT_TRUE(p.channel_means.empty());
  EXPECT_TRUE(p.channel_max.empty());
  EXPECT_EQ(p.min, 7 * 9 - 80);  // of the second sample, row 1 times row 2: 7 * 9 + 8 * -10
  EXPECT_EQ(p.max, 9 * 9 + 100);
}

}  // namespace
}  // namespace evoq
