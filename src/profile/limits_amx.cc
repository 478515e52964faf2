#include <cstdint>

#include "kernels/amx/hardware.h"
#include "profile/peak_loops.h"

namespace evoq {
namespace {

constexpr int kRepeats = 64;

// Makes all tiles zero.
void Configure() {
  AmxConfig config;
  for (int t = 0; t < kAmxTiles; ++t) config.rows[t] = kAmxRows, config.row_bytes[t] = kAmxRowBytes;
  AmxHardware::Configure(config);
}

// Four tiles of sums hide the latency of a product.
double Int8Loop(int64_t rounds) {
  Configure();
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
    AmxHardware::DotU8S8<0, 4, 6>();
    AmxHardware::DotU8S8<1, 4, 7>();
    AmxHardware::DotU8S8<2, 5, 6>();
    AmxHardware::DotU8S8<3, 5, 7>();
  }
  AmxHardware::Release();
  return 2.0 * kAmxRows * 16 * kAmxRowBytes * 4 * kRepeats * static_cast<double>(rounds);
}

double Bf16Loop(int64_t rounds) {
  Configure();
  for (int64_t r = 0; r < rounds * kRepeats; ++r) {
    AmxHardware::DotBf16<0, 4, 6>();
    AmxHardware::DotBf16<1, 4, 7>();
    AmxHardware::DotBf16<2, 5, 6>();
    AmxHardware::DotBf16<3, 5, 7>();
  }
  AmxHardware::Release();
  return 2.0 * kAmxRows * 16 * (kAmxRowBytes / 2) * 4 * kRepeats * static_cast<double>(rounds);
}

}  // namespace

const PeakLoops& AmxPeakLoops() {
  static const PeakLoops kLoops = {
      .int8 = Int8Loop,
      .fp32 = Avx512PeakLoops().fp32,
      .bf16 = Bf16Loop,
      .read = Avx512PeakLoops().read,
  };
  return kLoops;
}

}  // namespace evoq
