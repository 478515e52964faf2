#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace evoq {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

uint32_t CrcTable(uint32_t crc, std::span<const std::byte> bytes) {
  for (std::byte b : bytes) crc = kCrcTable[(crc ^ static_cast<uint8_t>(b)) & 255] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
// The instruction takes 8 bytes per cycle but answers after three: three streams of kStream bytes
// side by side, joined by what kStream zero bytes do to a checksum, a linear map over bits. Waiting
// for answers fills the window of the processor before it sees far ahead: lines are fetched
// explicitly.
constexpr size_t kStream = 1024, kAhead = 6 * kStream;
using CrcMap = std::array<uint32_t, 32>;  // the images of single bits

constexpr uint32_t Apply(const CrcMap& map, uint32_t crc) {
  uint32_t image = 0;
  for (int i = 0; i < 32; ++i) image ^= crc >> i & 1 ? map[i] : 0;
  return image;
}

// [k][b]: what kStream zero bytes make of b << 8k.
constexpr std::array<std::array<uint32_t, 256>, 4> kStreamShift = [] {
  CrcMap map{};  // of one zero byte, then of twice as many until kStream
  for (int i = 0; i < 32; ++i) map[i] = kCrcTable[(1u << i) & 255] ^ ((1u << i) >> 8);
  for (size_t bytes = 1; bytes < kStream; bytes *= 2) {
    CrcMap twice{};
    for (int i = 0; i < 32; ++i) twice[i] = Apply(map, map[i]);
    map = twice;
  }
  std::array<std::array<uint32_t, 256>, 4> shift{};
  for (int k = 0; k < 4; ++k) {
    for (uint32_t b = 0; b < 256; ++b) shift[k][b] = Apply(map, b << (8 * k));
  }
  return shift;
}();

uint32_t ShiftStream(uint32_t crc) {
  return kStreamShift[0][crc & 255] ^ kStreamShift[1][crc >> 8 & 255] ^
         kStreamShift[2][crc >> 16 & 255] ^ kStreamShift[3][crc >> 24];
}

uint64_t Word(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t CrcHardware(uint32_t crc,
                                                       std::span<const std::byte> bytes) {
  uint64_t a = crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kStream; left -= 3 * kStream, at += 3 * kStream) {
    uint64_t b = 0, c = 0;
    for (size_t line = 0; line < kStream; line += 64) {
      for (size_t s = 0; s < 3; ++s)
        _mm_prefetch(reinterpret_cast<const char*>(at) + kAhead + s * kStream + line, _MM_HINT_T0);
      for (size_t i = line; i < line + 64; i += 8) {
        a = _mm_crc32_u64(a, Word(at + i));
        b = _mm_crc32_u64(b, Word(at + kStream + i));
        c = _mm_crc32_u64(c, Word(at + 2 * kStream + i));
      }
    }
    const uint32_t joined = ShiftStream(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    a = ShiftStream(joined) ^ static_cast<uint32_t>(c);
  }
  for (; left >= 8; left -= 8, at += 8) a = _mm_crc32_u64(a, Word(at));
  return CrcTable(static_cast<uint32_t>(a), {at, left});
}
#endif

}  // namespace

void Crc32cSum::Add(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    state_ = CrcHardware(state_, bytes);
    return;
  }
#endif
  state_ = CrcTable(state_, bytes);
}

uint32_t Crc32c(std::span<const std::byte> bytes) {
  Crc32cSum sum;
  sum.Add(bytes);
  return sum.value();
}

}  // namespace evoq
