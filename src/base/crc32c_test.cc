#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evoq {
namespace {

TEST(Crc32c, KnownAnswers) {
  const std::string digits = "123456789";
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(digits))), 0xe3069283u);  // RFC 3720's check value
  EXPECT_EQ(Crc32c({}), 0u);
  // Long spans, which are summed in streams, against the polynomial bit by bit.
  std::vector<std::byte> bytes(20000);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  for (size_t size : {1, 7, 3071, 3072, 3073, 6151, 20000}) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; ++i) {
      crc ^= static_cast<uint8_t>(bytes[i]);
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    }
    EXPECT_EQ(Crc32c(std::span(bytes).first(size)), ~crc) << size;
  }
}

}  // namespace
}  // namespace evoq
