#include "workflow/choose_gears.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/math.h"

namespace evoq {
namespace {

// What a choice costs, item by item.
double CostOf(std::span<const GearFamily> families, uint32_t chosen, double prepare_ms) {
  double ms = 0;
  uint32_t bit = 0;
  for (const GearFamily& family : families) {
    const auto taken = [&](size_t i) { return (chosen >> (bit + i) & 1) != 0; };
    for (size_t i = 0; i < family.items.size(); ++i) {
      const GearItem& item = family.items[i];
      double each = item.ms + prepare_ms;
      int64_t by = -1;
      for (size_t j = 0; j < family.items.size(); ++j) {
        if (!taken(j) || (j != i && !family.pads) || (j != i && family.items[j].samples < 2))
          continue;
        if (by < 0 || (static_cast<size_t>(by) < i && j > static_cast<size_t>(by)))
          by = static_cast<int64_t>(j);
      }
      if (taken(i)) by = static_cast<int64_t>(i);
      if (by >= 0) {
        const GearItem& gear = family.items[static_cast<size_t>(by)];
        each = static_cast<double>(CeilDiv(item.samples, gear.samples)) * gear.ms;
      }
      ms += static_cast<double>(item.runs) * each;
    }
    bit += static_cast<uint32_t>(family.items.size());
  }
  return ms;
}

TEST(ChooseGears, IsTheBestOfAllChoices) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<GearFamily> families(1 + random() % 3);
    size_t items = 0;
    for (GearFamily& family : families) {
      family.pads = random() % 2 == 0;
      int64_t samples = 1 + random() % 2;
      double ms = 1 + random() % 5;
      for (size_t i = 1 + random() % 4; i > 0; --i, ++items) {
        family.items.push_back({samples, static_cast<int64_t>(random() % 50), ms});
        samples += 1 + static_cast<int64_t>(random() % 6);
        ms += random() % 7;
      }
    }
    const double prepare_ms = random() % 20;
    const size_t most = 1 + random() % 5;
    const std::vector<ChosenGears> chosen = ChooseGears(families, most, prepare_ms);
    ASSERT_EQ(chosen.size(), std::min(most, items) + 1);
    for (size_t k = 0; k < chosen.size(); ++k) {
      ASSERT_LE(chosen[k].gears.size(), k);
      double best = CostOf(families, 0, prepare_ms);
      for (uint32_t mask = 0; k > 0 && mask < (1u << items); ++mask) {
        if (static_cast<size_t>(std::popcount(mask)) <= k)
          best = std::min(best, CostOf(families, mask, prepare_ms));
      }
      EXPECT_NEAR(chosen[k].total_ms, best, 1e-6 * (1 + best)) << round << " " << k;
      uint32_t mask = 0;
      for (const auto& [family, item] : chosen[k].gears) {
        uint32_t bit = static_cast<uint32_t>(item);
        for (size_t f = 0; f < family; ++f) bit += static_cast<uint32_t>(families[f].items.size());
        mask |= 1u << bit;
      }
      EXPECT_NEAR(CostOf(families, mask, prepare_ms), chosen[k].total_ms, 1e-6 * (1 + best));
    }
  }
}

}  // namespace
}  // namespace evoq
