// The tiles of every instruction set of this machine against those of plain C++, each way that they
// end.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/isa.h"
#include "kernels/amx/emulator_testing.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_sparse.h"

namespace evoq {
namespace {

// Bytes behind which memory begins that may not be touched.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : size_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EVOQ_CHECK(base_ != MAP_FAILED && mprotect(base_ + mapped_ - page, page, PROT_NONE) == 0);
    data_ = base_ + mapped_ - page - bytes;
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  uint8_t* data() const { return data_; }
  uint8_t* begin() const { return data_; }
  uint8_t* end() const { return data_ + size_; }

 private:
  uint8_t *base_, *data_;
  size_t size_, mapped_;
};

// A tile of random operands, and what is computed of it.
struct Operands {
  std::mt19937 random;
  int rows, panels;
  int64_t groups, taps;
  Guarded x, weights;
  std::vector<const uint8_t*> pointers;
  std::vector<int64_t> tap_offsets;
  std::vector<int32_t> bias, zeros, row_sums;
  std::vector<float> multiplier, offset, slopes;
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
    for (uint8_t& v : weights) v = random() % 4 == 0 ? 0x80 : static_cast<uint8_t>(random());
    for (int64_t i = 0; i < rows * taps; ++i) pointers.push_back(x.data() + i * groups * 4);
    for (int n = 0; n < 16 * panels; ++n) {
      bias.push_back(static_cast<int32_t>(random() % 20001) - 10000);
      zeros.push_back(static_cast<int32_t>(random() % 256) - 128);
      multiplier.push_back(1e-5f * static_cast<float>(random() % 100 + 1));
      offset.push_back(static_cast<float>(random() % 100) - 50);
      slopes.push_back(0.01f * static_cast<float>(static_cast<int>(random() % 300) - 100));
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
    tile.low = -10;  // within uint8 with the zero point 17, within int8 with 7
    tile.high = 120;
  }

  // Rows that lie anywhere, as those of convolutions do, in place of one behind the other.
  void Scatter() { std::shuffle(pointers.begin(), pointers.end(), random); }
  // One pointer for a row, at one distance, behind which its taps lie in reverse.
  void OffsetTaps() {
    pointers.clear();
    for (int r = 0; r < rows; ++r) pointers.push_back(x.data() + r * taps * groups * 4);
    for (int64_t t = 0; t < taps; ++t) tap_offsets.push_back((taps - 1 - t) * groups * 4);
    tile.rows = pointers.data();
    tile.row_stride = 0;
    tile.tap_offsets = tap_offsets.data();
  }

  // The bytes that `def` writes, in memory that is not zero.
  std::vector<uint8_t> Run(const Int8TileDef& def) {
    y.assign(static_cast<size_t>(64 * panels * rows), 0xa5);
    tile.y = y.data();
    {
      const Int8TileTask task(def, tile);
      def.run(tile);
    }
    return y;
  }
};

void ExpectLikePlain(const Int8TileDef& def) {
  uint32_t seed = 1;
  for (const int panels : {1, 2, 4}) {
    for (int rows = 1; panels <= def.max_panels && rows <= def.max_rows[panels]; ++rows) {
      for (const int64_t groups : {1, 2, 7, 16, 17, 20, 33}) {
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
          if (kind == 2)
            o.tile.residual_type = Int8Residual::kInt8, o.tile.slopes = o.slopes.data();
          if (kind == 5) o.tile.residual_type = Int8Residual::kFloat32;
          if (kind == 4) o.tile.offset = o.offset.data();
          if (kind == 3 || kind == 6)
            o.tile.w_zero = o.zeros.data(), o.tile.row_sums = o.row_sums.data();
          if (kind == 5) o.tile.last_mask = 0x07ff;
          if (kind == 0) o.tile.first_mask = 0xfff8;
          o.tile.prefetch = kind == 0 ? 64 : 0;
          if (kind == 1 || kind == 4) o.Scatter();
          if (kind == 5) o.OffsetTaps();
          const std::vector<uint8_t> plain = o.Run(kInt8TileScalar);
          EXPECT_EQ(o.Run(def), plain) << def.name << ": " << rows << " rows, " << panels
                                       << " panels, " << groups << " groups, kind " << kind;
        }
      }
    }
  }
}

// Tiles of one task that differ in height, width and output: each is what it is alone.
void ExpectTasks(const Int8TileDef& def) {
  for (const int64_t groups : {8, 33, 160}) {
    Operands o(def.max_rows[1], def.max_panels, groups, 1, static_cast<uint32_t>(groups));
    o.tile.output = Int8Output::kInt8;
    o.tile.small = true;
    o.tile.y_zero = 17;
    o.tile.residual_type = Int8Residual::kUint8;
    o.tile.w_zero = o.zeros.data(), o.tile.row_sums = o.row_sums.data();
    constexpr int kTiles = 12;
    std::vector<std::vector<uint8_t>> alone, together;
    std::vector<Int8Tile> tiles;
    for (int i = 0; i < kTiles; ++i) {
      Int8Tile tile = o.tile;
      tile.panel_count = i % 3 == 0 ? 1 : i % 3 == 1 ? std::min(2, def.max_panels) : def.max_panels;
      tile.row_count = std::max(1, def.max_rows[tile.panel_count] * (kTiles - i) / kTiles);
      tile.y_stride = 16 * tile.panel_count + 5;
      tiles.push_back(tile);
    }
    for (Int8Tile tile : tiles) {
      alone.emplace_back(static_cast<size_t>(tile.y_stride * tile.row_count), 0xa5);
      together.push_back(alone.back());
      tile.y = alone.back().data();
      const Int8TileTask task(def, tile);
      def.run(tile);
    }
    {
      Int8TileTask task(def, o.tile);
      for (int i = 0; i < kTiles; ++i) {
        tiles[i].task = o.tile.task;
        tiles[i].y = together[i].data();
        def.run(tiles[i]);
        if (i != 5) continue;
        task.Flush();
        EXPECT_EQ(together[5], alone[5]) << def.name << ": what was flushed";
      }
    }
    for (int i = 0; i < kTiles; ++i)
      EXPECT_EQ(together[i], alone[i]) << def.name << ": tile " << i << ", " << groups << " groups";
  }
}

// Rows at one distance, but for one of them: what reads rows together must see which.
void ExpectOneApart(const Int8TileDef& def) {
  for (int rows = 16; rows <= def.max_rows[1]; rows += 16) {
    for (int apart = 0; apart < rows; ++apart) {
      Operands o(rows, 1, 16, 1, static_cast<uint32_t>(apart));
      o.tile.output = Int8Output::kInt32;
      o.pointers[static_cast<size_t>(apart)] = o.pointers[static_cast<size_t>(rows - apart) / 3];
      const std::vector<uint8_t> plain = o.Run(kInt8TileScalar);
      EXPECT_EQ(o.Run(def), plain) << def.name << ": row " << apart << " of " << rows;
    }
  }
}

TEST(Int8Tiles, OfEveryInstructionSet) {
  for (const IsaRow<Int8TileDef>& row : kInt8TileRows) {
    if (!IsaSupported(row.needs)) continue;
    ExpectLikePlain(*row.table);
    ExpectOneApart(*row.table);
    ExpectTasks(*row.table);
  }
}

// Sparse tiles of any number of rows, whose pointers are the last ones before memory that may not
// be touched: a register holds more rows than a tile may have.
TEST(Int8Tiles, SparseOnesOfEveryInstructionSet) {
  uint32_t seed = 1;
  for (const IsaRow<Int8TileDef>& row : kInt8TileRows) {
    if (!IsaSupported(row.needs) || row.table->sparse == nullptr) continue;
    const Int8TileDef& def = *row.table->sparse;
    for (const int panels : {1, 2, 4}) {
      for (int rows = 1; rows <= def.max_rows[panels]; ++rows) {
        for (const BlockShape shape : {BlockShape::k4x4, BlockShape::k1x16}) {
          constexpr int64_t kGroups = 9;
          Operands o(rows, panels, kGroups, 1, seed++);
          const Guarded pointers(o.pointers.size() * sizeof(const uint8_t*));
          std::memcpy(pointers.data(), o.pointers.data(),
                      o.pointers.size() * sizeof(const uint8_t*));
          o.tile.rows = reinterpret_cast<const uint8_t* const*>(pointers.data());
          // Some blocks of each line.
          std::vector<uint32_t> begin = {0};
          std::vector<uint16_t> groups;
          for (int line = 0; line < 16 * panels / LineColumns(shape); ++line) {
            for (uint16_t g = 0; g < kGroups; g += shape == BlockShape::k4x4 ? 1 : 4) {
              if (o.random() % 2 == 0) groups.push_back(g);
            }
            begin.push_back(static_cast<uint32_t>(groups.size()));
          }
          std::vector<int8_t> weights(16 * groups.size());
          for (int8_t& w : weights) w = static_cast<int8_t>(o.random());
          BlockWeights blocks;
          blocks.shape = shape;
          blocks.begin = begin;
          blocks.groups = groups;
          blocks.weights = weights.data();
          o.tile.output = Int8Output::kInt32;
          const auto run = [&](const Int8TileDef& tiles) {
            const auto sparse = PrepareSparse(blocks, tiles);
            o.tile.sparse = &sparse->tiles;
            return o.Run(tiles);
          };
          EXPECT_EQ(run(def), run(*kInt8TileScalar.sparse))
              << def.name << ": " << rows << " rows, " << panels << " panels";
        }
      }
    }
  }
}

#if defined(__x86_64__)
// What the compiler made of AMX's tiles, where no processor runs them.
TEST(Int8Tiles, OfAmxInstructionByInstruction) {
  if (!IsaSupported(Isa::kAvx512)) GTEST_SKIP() << "no AVX-512";
  if (IsaSupported(Isa::kAmx)) GTEST_SKIP() << "the processor runs them";
  const AmxEmulator emulator;
  ExpectLikePlain(kInt8TileAmx);
  ExpectTasks(kInt8TileAmx);
}
#endif

}  // namespace
}  // namespace evoq
