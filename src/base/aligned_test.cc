#include "base/aligned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/guarded_ends.h"
#include "base/spare_blocks.h"

namespace evoq {
namespace {

constexpr size_t kLarge = size_t{5} << 20;

bool IsZero(const AlignedBuffer& buffer) {
  return std::all_of(buffer.data(), buffer.data() + buffer.size(),
                     [](std::byte b) { return b == std::byte{0}; });
}

// Where a block of this size lies that was written to and freed.
const std::byte* Freed(size_t bytes) {
  AlignedBuffer buffer(bytes);
  std::memset(buffer.data(), 0x5a, bytes);
  return buffer.data();
}

TEST(AlignedBuffer, SpareBlocksAreTakenAgain) {
  KeepSpareBlocks(size_t{12} << 20);
  const std::byte* const first = Freed(kLarge);
  {
    const AlignedBuffer zeros = AlignedBuffer::Zeros(kLarge), other(kLarge);
    EXPECT_TRUE(IsZero(zeros));
    if (!kGuardsEnds) EXPECT_EQ(zeros.data(), first);
    EXPECT_NE(other.data(), zeros.data()) << "the block has an owner";
  }
  // Two of 5 MiB are spare; one of 8 takes the place of both.
  const auto expect = [](size_t mebibytes) {
    if (!kGuardsEnds) EXPECT_EQ(SpareBytes(), mebibytes << 20);
  };
  expect(10);
  const std::byte* const large = Freed(size_t{8} << 20);
  expect(8);
  const AlignedBuffer again(size_t{8} << 20);
  if (!kGuardsEnds) EXPECT_EQ(again.data(), large);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(again.data()) % kAlignment, 0u);
  // More than all that may be kept is not.
  expect(0);
  Freed(size_t{16} << 20);
  expect(0);
  EXPECT_TRUE(IsZero(AlignedBuffer::Zeros(size_t{16} << 20)));
  KeepSpareBlocks(size_t{1} << 30);
  for (size_t i = 0; i < 40; ++i) Freed(kLarge + i * (size_t{64} << 10));
  EXPECT_LE(SpareBytes(), 16 * (size_t{8} << 20)) << "16 blocks at most";
  KeepSpareBlocks(0);
  expect(0);
  Freed(kLarge);
  expect(0);
  EXPECT_TRUE(IsZero(AlignedBuffer::Zeros(kLarge)));
}

}  // namespace
}  // namespace evoq
