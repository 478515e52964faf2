// Which rows are copied for tiles that read whole registers of them, and where they lie then.
#include "kernels/gemm/int8_copies.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/isa.h"

namespace evoq {
namespace {

#if defined(__x86_64__)

Int8Geometry MatMulOf(int64_t rows, int64_t depth) {
  Int8Geometry g;
  g.batch = rows, g.channels = depth;
  return g;
}

// A row of 68 bytes is read to its 128th: that of the last row lies behind the matrix, though the
// rows are whole registers.
TEST(Int8Copies, LastRegisterIsCopiedWhereItWouldReadBeyondTheMatrix) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  constexpr int64_t kRows = 32, kDepth = 68;
  const Int8TileDef& isa = kInt8TileAmxSoftware;
  const Int8Rows rows(MatMulOf(kRows, kDepth), kDepth, false, true);
  const Int8Copies copies(isa, rows, 1, 4);
  EXPECT_TRUE(copies.padded());
  EXPECT_FALSE(copies.all());
  std::vector<uint8_t> x(kRows * kDepth);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 7);
  std::vector<const uint8_t*> pointers(kRows);
  rows.Pointers(isa, {x.data(), nullptr}, 0, kRows, kRows, pointers.data());
  std::vector<std::byte> room(static_cast<size_t>(copies.bytes(kRows)));
  const uint8_t* const* taken =
      copies.Copy(isa, rows, 0, kRows, kRows, kRows, pointers.data(), room.data());
  const auto* const begin = reinterpret_cast<const uint8_t*>(room.data());
  for (int64_t r = 0; r < kRows; ++r) {
    const bool copied = r >= 16;
    EXPECT_EQ(taken[r], copied ? begin + (r - 16) * copies.stride() : x.data() + r * kDepth) << r;
    EXPECT_EQ(std::memcmp(taken[r], x.data() + r * kDepth, kDepth), 0) << r;
    if (copied) EXPECT_LE(taken[r] + 128, begin + room.size());
  }
}

TEST(Int8Copies, WholeRegistersOfWholeStepsLieWhereTheyAre) {
  const Int8TileDef& isa = kInt8TileAmxSoftware;
  const auto of = [&](int64_t rows, int64_t depth, int64_t panels) {
    return Int8Copies(isa, Int8Rows(MatMulOf(rows, depth), depth, false, true), 1, panels);
  };
  EXPECT_TRUE(of(32, 128, 4).padded());
  EXPECT_EQ(of(32, 128, 4).stride(), 0);
  EXPECT_GT(of(33, 128, 4).stride(), 0) << "one row of three registers";
  EXPECT_FALSE(of(33, 128, 4).all());
  EXPECT_TRUE(of(32, 4096, 16).all()) << "rows that fall on the same lines of the caches";
  EXPECT_FALSE(of(32, 4096, 4).all()) << "for few panels a copy would not pay";
  EXPECT_EQ(of(32, 4096, 16).stride() % 128, 64);
  Int8Geometry conv = MatMulOf(1, 64);
  conv.in[1] = conv.in[2] = conv.out[1] = conv.out[2] = 8;
  conv.kernel[1] = conv.kernel[2] = 3, conv.pad[1] = conv.pad[2] = 1;
  EXPECT_TRUE(Int8Copies(isa, Int8Rows(conv, 64, false, true), 1, 4).all());
  // Tiles of other sets take rows wherever they lie.
  EXPECT_FALSE(Int8Copies(kInt8TileAvx512, Int8Rows(conv, 64, false, true), 1, 4).padded());
}

#endif

}  // namespace
}  // namespace evoq
