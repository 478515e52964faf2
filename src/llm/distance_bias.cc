#include "llm/distance_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace evoq {

// T5's (Raffel et al., "Exploring the Limits of Transfer Learning", 2020), which MPNet has too: the
// first half of a side's buckets stand for one distance each, the others for more and more.
int64_t DistanceBuckets::Of(int64_t distance) const {
  const int64_t side = both_sides ? buckets / 2 : buckets, exact = side / 2;
  const int64_t first = both_sides && distance > 0 ? side : 0;
  const int64_t far = both_sides ? std::abs(distance) : std::max<int64_t>(-distance, 0);
  if (far < exact) return first + far;
  const float steps =
      std::log(static_cast<float>(far) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(farthest) / static_cast<double>(exact))) *
      static_cast<float>(side - exact);
  return first + std::min(exact + static_cast<int64_t>(steps), side - 1);
}

std::vector<float> SlopesOf(int64_t heads, float steepness) {
  int64_t whole = 1;
  while (2 * whole <= heads) whole *= 2;
  std::vector<float> slopes;
  const auto add = [&](int64_t step, int64_t of) {
    const double share = static_cast<double>(step) / static_cast<double>(of);
    slopes.push_back(static_cast<float>(std::exp2(-share * static_cast<double>(steepness))));
  };
  for (int64_t h = 0; h < whole; ++h) add(h + 1, whole);
  for (int64_t h = whole; h < heads; ++h) add(2 * (h - whole) + 1, 2 * whole);
  return slopes;
}

}  // namespace evoq
