// The drawn digits against another implementation's.
#include "cli/digits.h"

#include <gtest/gtest.h>

#include <span>

namespace evoq {
namespace {

struct Drawn {
  int label;
  double ink, x, y;  // the sum of an image's pixels, and their centre of gravity
};

// By a program in numpy (float32) that knows the strokes and the order of the random numbers. Each
// of the ten digits, and each way of writing it, is among the first 26 of seed 1.
constexpr Drawn kDrawn[] = {
    {3, 112.499, 13.1752, 12.4574}, {2, 73.423, 14.6446, 12.6621},  {4, 95.743, 13.7741, 13.0173},
    {9, 79.043, 15.5406, 13.2767},  {3, 101.217, 13.6833, 14.2246}, {8, 92.069, 11.8409, 13.6836},
    {4, 121.998, 14.3440, 13.6042}, {8, 68.805, 14.6927, 14.3002},  {1, 49.923, 14.0589, 13.6254},
    {3, 49.703, 13.7646, 13.8966},  {2, 105.622, 14.0220, 13.0431}, {2, 113.292, 14.1877, 15.0984},
    {6, 100.971, 13.5057, 13.2577}, {5, 85.591, 15.3311, 12.7823},  {5, 75.314, 13.4040, 14.1552},
    {7, 75.426, 13.3413, 11.4474},  {3, 65.021, 14.0679, 12.6158},  {9, 86.996, 11.6450, 13.0379},
    {1, 58.553, 13.9283, 12.6307},  {0, 137.520, 14.0782, 14.3537}, {4, 84.696, 13.1733, 12.9334},
    {2, 122.143, 14.1259, 14.4071}, {4, 107.849, 12.4727, 13.5355}, {2, 78.692, 14.4321, 13.7373},
    {7, 72.350, 13.5996, 11.1416},  {3, 57.715, 12.7562, 14.6290},  {8, 92.143, 14.2892, 13.2736},
    {3, 94.990, 15.1487, 12.2358},  {5, 119.459, 13.2883, 13.2903}, {6, 116.949, 14.3711, 13.7264},
};

TEST(Digits, AreThoseOfAnotherImplementation) {
  const auto count = static_cast<int64_t>(std::size(kDrawn));
  const Digits digits = DrawDigits(count, 1);
  ASSERT_EQ(digits.images.sizes(), (std::vector<int64_t>{count, 1, 28, 28}));
  ASSERT_EQ(digits.labels.sizes(), (std::vector<int64_t>{count}));
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(digits.labels.data<int64_t>()[i], kDrawn[i].label) << i;
    const Tensor image = DigitAt(digits, i);
    ASSERT_EQ(image.sizes(), (std::vector<int64_t>{1, 1, 28, 28}));
    double ink = 0, x = 0, y = 0;
    for (int p = 0; p < 28 * 28; ++p) {
      const double value = image.data<float>()[p];
      ink += value;
      x += value * (p % 28);
      y += value * (p / 28);
    }
    EXPECT_NEAR(ink, kDrawn[i].ink, 0.002) << i;
    EXPECT_NEAR(x / ink, kDrawn[i].x, 0.0002) << i;
    EXPECT_NEAR(y / ink, kDrawn[i].y, 0.0002) << i;
  }
}

}  // namespace
}  // namespace evoq
