// Searched scales against every scale that there is, by the layer's results themselves.
#include "quant/scale_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/half_quadratic.h"
#include "quant/low_bits.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr int64_t kDepth = 40, kColumns = 6, kRows = 100;

// A layer whose inputs have much in common and whose weights reach far out here and there.
struct LayerToRound {
  WeightRounding rounding;
  std::vector<double> x;  // [rows, depth]
  std::vector<double> gram = std::vector<double>(kDepth * kDepth);
  std::vector<float> w;
  Workspace workspace{1};

  LayerToRound(const LowBits* bits, int64_t block)
      : rounding{.node = "m",
                 .weight = "w",
                 .values = Tensor::Allocate(TensorType(DType::kFloat32, Shape{kDepth, kColumns})),
                 .low_bits = bits,
                 .block = block,
                 .axis = bits == nullptr ? 1 : -1} {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1);
    for (int64_t i = 0; i < kDepth * kColumns; ++i)
      rounding.values.mutable_data<float>()[i] = normal(random) * (random() % 16 == 0 ? 4 : 1);
    for (int64_t row = 0; row < kRows; ++row) {
      const double common = normal(random);
      for (int64_t k = 0; k < kDepth; ++k) x.push_back(common + 0.5 * normal(random));
    }
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kDepth * kDepth; ++i)
        gram[i] += x[row * kDepth + i / kDepth] * x[row * kDepth + i % kDepth];
    }
    w = WeightGrid(rounding, {1, kDepth, kColumns, false}).Matrix(0);
  }

  // |X e|^2 over rows [first, end) of the weight, of column n.
  double Error(const WeightGrid& grid, const RoundedMatrix& r, int64_t n, int64_t first,
               int64_t end) const {
    double sum = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      double off = 0;
      for (int64_t k = first; k < end; ++k) {
        const double stored =
            r.numbers[k * kColumns + n] * r.scales[k / grid.block() * kColumns + n];
        off += x[row * kDepth + k] * (w[k * kColumns + n] - stored);
      }
      sum += off * off;
    }
    return sum;
  }
};

// Column n of block b gets the share of its scale, and its nearest numbers.
void Rescale(const WeightGrid& grid, std::span<const float> w, int64_t b, int64_t n, float scale,
             RoundedMatrix& r) {
  r.scales[b * kColumns + n] = scale;
  for (int64_t k = b * grid.block(); k < std::min((b + 1) * grid.block(), kDepth); ++k)
    grid.Nearest(&w[k * kColumns + n], &scale, &r.zeros[b * kColumns + n], 1,
                 &r.numbers[k * kColumns + n]);
}

TEST(ScaleSearch, FindsTheLeastErrorOfTheResults) {
  std::vector<std::pair<const LowBits*, int64_t>> cases = {{nullptr, 0}};
  for (const LowBits* bits : AllLowBits()) cases.push_back({bits, 16});
  for (const auto& [bits, block] : cases) {
    LayerToRound layer(bits, block);
    const WeightGrid grid(layer.rounding, {1, kDepth, kColumns, false});
    const RoundedMatrix nearest = Nearest(grid, 0, layer.w, {});
    for (const BesideBlock beside : {BesideBlock::kNothing, BesideBlock::kErrors}) {
      RoundedMatrix searched = nearest, tried = nearest;
      SearchScales(grid, 0, layer.w, layer.gram, beside, {SelectIsa().value(), layer.workspace},
                   searched);
      for (int64_t b = 0; b < grid.blocks(); ++b) {
        const bool own = beside == BesideBlock::kNothing;
        const int64_t first = own ? b * grid.block() : 0;
        const int64_t end = own ? std::min(first + grid.block(), kDepth) : kDepth;
        for (int64_t n = 0; n < kColumns; ++n) {
          float best = nearest.scales[b * kColumns + n];
          double least = layer.Error(grid, tried, n, first, end);
          for (const float share : kScaleShares) {
            const float scale =
                grid.Storable(0, b, n, nearest.scales, share * nearest.scales[b * kColumns + n]);
            Rescale(grid, layer.w, b, n, scale, tried);
            const double error = layer.Error(grid, tried, n, first, end);
            if (error < least * (1 - 1e-9)) {
              least = error;
              best = scale;
            }
          }
          Rescale(grid, layer.w, b, n, best, tried);
        }
      }
      EXPECT_EQ(searched.scales, tried.scales) << (bits != nullptr ? bits->name : "int8");
      EXPECT_EQ(searched.numbers, tried.numbers);
      double before = 0, after = 0;
      for (int64_t n = 0; n < kColumns; ++n) {
        before += layer.Error(grid, nearest, n, 0, kDepth);
        after += layer.Error(grid, searched, n, 0, kDepth);
      }
      if (beside == BesideBlock::kErrors) {
        EXPECT_LT(after, 0.8 * before) << (bits != nullptr ? bits->name : "int8");
      }
    }
  }
}

double PowerError(const LayerToRound& layer, const WeightGrid& grid, const RoundedMatrix& r,
                  int64_t b, int64_t n) {
  double sum = 0;
  for (int64_t k = b * grid.block(); k < std::min((b + 1) * grid.block(), kDepth); ++k)
    sum += std::pow(std::fabs(static_cast<double>(layer.w[k * kColumns + n]) -
                              r.numbers[k * kColumns + n] * r.scales[b * kColumns + n]),
                    0.7);
  return sum;
}

// The zero point of the least sum beside the scale, which stays; the first of equals is the one
// that it was. What has one zero point is as it was.
TEST(HalfQuadratic, FindsTheBestZeroPoint) {
  int moved = 0;
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 1);
  for (int i = 0; i < 20 * std::ssize(AllLowBits()); ++i) {
    const LowBits* const bits = AllLowBits()[static_cast<size_t>(i) / 20];
    LayerToRound layer(bits, 16);
    for (float& w : layer.w) w = normal(random) * (random() % 16 == 0 ? 3 : 1);
    const WeightGrid grid(layer.rounding, {1, kDepth, kColumns, false});
    const RoundedMatrix nearest = Nearest(grid, 0, layer.w, {});
    RoundedMatrix found = nearest, tried = nearest;
    HalfQuadratic(grid, layer.w, found);
    EXPECT_EQ(found.scales, nearest.scales) << bits->name;
    if (grid.Zeros().size() == 1) {
      EXPECT_EQ(found.numbers, nearest.numbers) << bits->name;
      EXPECT_EQ(found.zeros, nearest.zeros) << bits->name;
      continue;
    }
    for (int64_t b = 0; b < grid.blocks(); ++b) {
      for (int64_t n = 0; n < kColumns; ++n) {
        const int64_t at = b * kColumns + n;
        float best = nearest.zeros[at];
        double least = PowerError(layer, grid, nearest, b, n);
        for (const float zero : grid.Zeros()) {
          tried.zeros[at] = zero;
          Rescale(grid, layer.w, b, n, nearest.scales[at], tried);
          const double error = PowerError(layer, grid, tried, b, n);
          if (error < least) best = zero;
          least = std::min(least, error);
        }
        EXPECT_EQ(found.zeros[at], best) << bits->name;
        EXPECT_EQ(PowerError(layer, grid, found, b, n), least) << bits->name;
        moved += best != nearest.zeros[at];
      }
    }
  }
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace evoq
