#include "kernels/amx/software.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace evoq {
namespace amx_software {
namespace {

struct State {
  bool configured = false;
  AmxConfig config = {.palette = 0};  // all zeros take no room in a file
  AmxCounts counts;
  alignas(64) uint8_t tiles[kAmxTiles][kAmxRows][kAmxRowBytes] = {};

  int rows(int tile) const { return config.rows[tile]; }
  int row_bytes(int tile) const { return config.row_bytes[tile]; }
};

// As a processor's registers are a thread's.
constinit thread_local State current;

struct Totals {
  std::atomic<int64_t> configurations, releases, loads, stores, products;
};
Totals totals;

State& Configured(int tile) {
  EVOQ_CHECK(current.configured, "tile {} is used before tiles are configured", tile);
  EVOQ_CHECK(tile >= 0 && tile < kAmxTiles && current.rows(tile) > 0, "tile {} is not configured",
             tile);
  return current;
}

// The row numbers that a product may use: of three tiles whose sizes fit each other.
State& ForProduct(int c, int a, int b) {
  EVOQ_CHECK(c != a && c != b && a != b, "a product of tiles {} = {} * {}", c, a, b);
  Configured(c), Configured(a);
  State& s = Configured(b);
  EVOQ_CHECK(s.row_bytes(a) % 4 == 0 && s.row_bytes(b) % 4 == 0,
             "a product of rows of {} and {} bytes", s.row_bytes(a), s.row_bytes(b));
  EVOQ_CHECK(
      s.rows(c) == s.rows(a) && s.row_bytes(c) == s.row_bytes(b) && s.row_bytes(a) == 4 * s.rows(b),
      "a product of {} x {} and {} x {} bytes into {} x {}", s.rows(a), s.row_bytes(a), s.rows(b),
      s.row_bytes(b), s.rows(c), s.row_bytes(c));
  ++s.counts.products;
  return s;
}

// c += a * b of groups of four bytes; `A` is uint8_t or int8_t.
template <typename A>
void DotBytes(int c, int a, int b) {
  State& s = ForProduct(c, a, b);
  const int depth = s.row_bytes(a) / 4, columns = s.row_bytes(c) / 4;
  for (int m = 0; m < s.rows(c); ++m) {
    uint32_t sums[kAmxRowBytes / 4] = {};
    std::memcpy(sums, s.tiles[c][m], sizeof(sums));
    for (int k = 0; k < depth; ++k) {
      A x[4];
      std::memcpy(x, &s.tiles[a][m][4 * k], sizeof(x));
      int8_t w[kAmxRowBytes];
      std::memcpy(w, s.tiles[b][k], sizeof(w));
      for (int n = 0; n < columns; ++n) {
        const int32_t four =
            x[0] * w[4 * n] + x[1] * w[4 * n + 1] + x[2] * w[4 * n + 2] + x[3] * w[4 * n + 3];
        sums[n] += static_cast<uint32_t>(four);
      }
    }
    std::memcpy(s.tiles[c][m], sums, sizeof(sums));
  }
}

float Flushed(float v) {
  return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v;
}

float WidenBf16(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return Flushed(std::bit_cast<float>(uint32_t{bits} << 16));
}

}  // namespace

void Configure(const AmxConfig& config) {
  EVOQ_CHECK(config.palette == 1 && config.start_row == 0, "palette {}, start row {}",
             config.palette, config.start_row);
  for (const uint8_t byte : config.reserved) EVOQ_CHECK(byte == 0, "a reserved byte is {}", byte);
  for (int i = 0; i < 16; ++i) {
    const int rows = config.rows[i], bytes = config.row_bytes[i];
    EVOQ_CHECK(rows <= kAmxRows && bytes <= kAmxRowBytes && (rows == 0) == (bytes == 0) &&
                   (i < kAmxTiles || rows == 0),
               "tile {} has {} rows of {} bytes", i, rows, bytes);
  }
  current.configured = true;
  current.config = config;
  std::memset(current.tiles, 0, sizeof(current.tiles));
  ++current.counts.configurations;
}

void Release() {
  EVOQ_CHECK(current.configured, "tiles are released that are not configured");
  AmxCounts& counts = current.counts;
  totals.configurations += counts.configurations;
  totals.releases += counts.releases + 1;
  totals.loads += counts.loads;
  totals.stores += counts.stores;
  totals.products += counts.products;
  counts = {};
  current.configured = false;
}

void Load(int tile, const void* from, int64_t stride) {
  State& s = Configured(tile);
  ++s.counts.loads;
  std::memset(s.tiles[tile], 0, sizeof(s.tiles[tile]));
  for (int r = 0; r < s.rows(tile); ++r)
    std::memcpy(s.tiles[tile][r], static_cast<const uint8_t*>(from) + r * stride,
                static_cast<size_t>(s.row_bytes(tile)));
}

void Store(int tile, void* to, int64_t stride) {
  State& s = Configured(tile);
  ++s.counts.stores;
  for (int r = 0; r < s.rows(tile); ++r)
    std::memcpy(static_cast<uint8_t*>(to) + r * stride, s.tiles[tile][r],
                static_cast<size_t>(s.row_bytes(tile)));
}

void Zero(int tile) {
  State& s = Configured(tile);
  std::memset(s.tiles[tile], 0, sizeof(s.tiles[tile]));
}

void DotU8S8(int c, int a, int b) { DotBytes<uint8_t>(c, a, b); }
void DotS8S8(int c, int a, int b) { DotBytes<int8_t>(c, a, b); }

// TDPBF16PS: products of even and of odd elements are two chains of fused multiply-adds from 0 on,
// whose sum is added to c; numbers below the least normal one are 0, in and out of each operation.
void DotBf16(int c, int a, int b) {
  State& s = ForProduct(c, a, b);
  const int depth = s.row_bytes(a) / 4, columns = s.row_bytes(c) / 4;
  for (int m = 0; m < s.rows(c); ++m) {
    for (int n = 0; n < columns; ++n) {
      float chains[2] = {};
      for (int k = 0; k < depth; ++k) {
        for (int i = 0; i < 2; ++i)
          chains[i] = Flushed(std::fma(WidenBf16(&s.tiles[a][m][4 * k + 2 * i]),
                                       WidenBf16(&s.tiles[b][k][4 * n + 2 * i]), chains[i]));
      }
      float sum;
      std::memcpy(&sum, &s.tiles[c][m][4 * n], sizeof(sum));
      sum = Flushed(Flushed(sum) + Flushed(chains[0] + chains[1]));
      std::memcpy(&s.tiles[c][m][4 * n], &sum, sizeof(sum));
    }
  }
}

}  // namespace amx_software

AmxCounts AmxSoftwareCounts() {
  const auto& t = amx_software::totals;
  return {t.configurations, t.releases, t.loads, t.stores, t.products};
}

}  // namespace evoq
