// The tiles of every instruction set of this machine against those of plain C++, each way that they
// end.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/aligned.h"
#include "base/isa.h"
#include "kernels/gemm/int8_linear.h"

namespace evoq {
namespace {

// A tile of random operands, and what is computed of it.
struct Operands {
  std::mt19937 random;
  int rows, panels;
  int64_t groups, taps;
  std::vector<uint8_t> x;
  AlignedBuffer weights;
  std::vector<const uint8_t*> pointers;
  std::vector<int32_t> bias, zeros, row_sums;
  std::vector<float> multiplier, offset;
  std::vector<uint8_t> residual, y;
  Int8Tile tile = {};

  Operands(int row_count, int panel_count, int64_t groups_of_4, int64_t tap_count, uint32_t seed)
      : random(seed),
        rows(row_count),
        panels(panel_count),
        groups(groups_of_4),
        taps(tap_count),
        x(static_cast<size_t>(rows * taps * groups * 4)),
        weights(static_cast<size_t>(panels * taps * groups * 64)) {
    for (uint8_t& v : x) v = random() % 4 == 0 ? 255 : static_cast<uint8_t>(random());
    for (size_t i = 0; i < weights.size(); ++i)
      weights.data()[i] = static_cast<std::byte>(random() % 4 == 0 ? 0x80 : random());
    for (int64_t i = 0; i < rows * taps; ++i) pointers.push_back(x.data() + i * groups * 4);
    for (int n = 0; n < 16 * panels; ++n) {
      bias.push_back(static_cast<int32_t>(random() % 20001) - 10000);
      zeros.push_back(static_cast<int32_t>(random() % 256) - 128);
      multiplier.push_back(1e-5f * static_cast<float>(random() % 100 + 1));
      offset.push_back(static_cast<float>(random() % 100) - 50);
    }
    for (int r = 0; r < rows; ++r) row_sums.push_back(static_cast<int32_t>(random() % 100000));
    residual.resize(static_cast<size_t>(64 * panels * rows));
    for (size_t i = 0; i < residual.size(); i += 4) {
      const float value = static_cast<float>(random() % 256);
      __builtin_memcpy(residual.data() + i, &value, 4);
    }
    tile.rows = pointers.data();
    tile.row_stride = rows;
    tile.taps = taps;
    tile.groups_of_4 = groups;
    tile.weights = reinterpret_cast<const int8_t*>(weights.data());
    tile.panel_bytes = taps * groups * 64;
    tile.row_count = rows;
    tile.panel_count = panels;
    tile.first_mask = tile.last_mask = 0xffff;
    tile.bias = bias.data();
    tile.multiplier = multiplier.data();
    tile.residual = residual.data();
    tile.residual_stride = tile.y_stride = 64 * panels;
    tile.residual_multiplier = 0.37f;
    tile.residual_zero = 11;
    tile.clamp = true;
    tile.leaky_alpha = 0.1f;
    tile.low = -10;  // within uint8 with the zero point 17, within int8 with 7
    tile.high = 120;
  }

  // The bytes that `def` writes, in memory that is not zero.
  std::vector<uint8_t> Run(const Int8TileDef& def) {
    y.assign(static_cast<size_t>(64 * panels * rows), 0xa5);
    tile.y = y.data();
    def.run(tile);
    return y;
  }
};

void ExpectLikePlain(const Int8TileDef& def) {
  uint32_t seed = 1;
  for (const int panels : {1, 2, 4}) {
    for (int rows = 1; panels <= def.max_panels && rows <= def.max_rows[panels]; ++rows) {
      for (const int64_t groups : {1, 2, 7, 33}) {
        for (const int kind : {0, 1, 2, 3, 4, 5, 6}) {
          Operands o(rows, panels, groups, kind % 2 == 0 ? 1 : 3, seed++);
          o.tile.output = kind < 4    ? Int8Output::kInt8
                          : kind == 6 ? Int8Output::kInt32
                                      : Int8Output::kFloat32;
          o.tile.small = kind < 3;
          o.tile.y_zero = kind < 3 ? 17 : kind == 3 ? 7 : 0;
          if (kind == 3) o.tile.y_flip = 0x80;  // y is int8
          o.tile.clamp = kind != 4;
          if (kind == 1) o.tile.residual_type = Int8Residual::kUint8;
          if (kind == 2) o.tile.residual_type = Int8Residual::kInt8, o.tile.leaky = true;
          if (kind == 5) o.tile.residual_type = Int8Residual::kFloat32;
          if (kind == 4) o.tile.offset = o.offset.data();
          if (kind == 3 || kind == 6)
            o.tile.w_zero = o.zeros.data(), o.tile.row_sums = o.row_sums.data();
          if (kind == 5) o.tile.last_mask = 0x07ff;
          if (kind == 0) o.tile.first_mask = 0xfff8;
          o.tile.prefetch = kind == 0 ? 64 : 0;
          const std::vector<uint8_t> plain = o.Run(kInt8TileScalar);
          EXPECT_EQ(o.Run(def), plain) << def.name << ": " << rows << " rows, " << panels
                                       << " panels, " << groups << " groups, kind " << kind;
        }
      }
    }
  }
}

TEST(Int8Tiles, OfEveryInstructionSet) {
  for (const IsaRow<Int8TileDef>& row : kInt8TileRows) {
    if (IsaSupported(row.needs)) ExpectLikePlain(*row.table);
  }
}

}  // namespace
}  // namespace evoq
