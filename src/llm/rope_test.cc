// Scalings of rotary positions, by hand: of 8 values that turn, with theta 10000 frequency i is
// 10^-i.
#include "llm/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace evoq {
namespace {

using nlohmann::json;

Rope Read(const json& settings, double theta = 10000) {
  Rope rope;
  rope.theta = theta;
  const Status read = ReadRope(settings, {.rotated = 8, .context = 8192}, rope);
  EXPECT_TRUE(read) << read.error().message();
  return rope;
}

void ExpectSlow(const Rope& rope, const std::vector<double>& slow) {
  ASSERT_EQ(rope.slow.size(), slow.size());
  for (size_t i = 0; i < slow.size(); ++i) EXPECT_NEAR(rope.slow[i], slow[i], 1e-3) << i;
}

// A wave of the last frequency turns 8192 * 10^-3 / 2 pi = 1.3038 times in the old context: of the
// way from one turn to four 0.10127, and 1 / (0.89873 / 8 + 0.10127) = 4.6814. With theta 10^5 it
// turns 0.23 times, and the one before it 4.12.
TEST(Rope, Llama3) {
  const json settings = {{"rope_type", "llama3"},
                         {"factor", 8},
                         {"low_freq_factor", 1},
                         {"high_freq_factor", 4},
                         {"original_max_position_embeddings", 8192}};
  ExpectSlow(Read(settings), {1, 1, 1, 4.6814});
  ExpectSlow(Read(settings, 1e5), {1, 1, 1, 8});
  // Those are what is meant where nothing is said.
  ExpectSlow(Read({{"rope_type", "llama3"}, {"factor", 8}}), {1, 1, 1, 4.6814});
}

// 32 turns in 2048 positions are at frequency 4 log10(2048 / (32 * 2 pi)) / 4 = 1.008 of the list,
// one is at 2.5133: from 1 to 3 in whole ones.
TEST(Rope, Yarn) {
  json settings = {
      {"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 2048}};
  const Rope whole = Read(settings);
  ExpectSlow(whole, {1, 1, 1 / (0.5 / 4 + 0.5), 4});
  EXPECT_NEAR(whole.magnitude, 0.1 * std::log(4) + 1, 1e-9);
  EXPECT_EQ(whole.original, 2048);
  settings["truncate"] = false;
  constexpr double kMixed = (2 - 1.008) / (2.5133 - 1.008);
  ExpectSlow(Read(settings), {1, 1, 1 / (kMixed / 4 + 1 - kMixed), 4});
  // A factor of the magnitude counts where there is one of all dimensions too.
  settings["mscale"] = 0.5;
  EXPECT_NEAR(Read(settings).magnitude, 0.1 * std::log(4) + 1, 1e-9);
  settings["mscale_all_dim"] = 2;
  EXPECT_NEAR(Read(settings).magnitude, (0.05 * std::log(4) + 1) / (0.2 * std::log(4) + 1), 1e-9);
  settings["attention_factor"] = 1.25;
  EXPECT_EQ(Read(settings).magnitude, 1.25);
}

}  // namespace
}  // namespace evoq
