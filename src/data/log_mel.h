// What models of speech hear: energies of a sound in bins of frequencies.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

struct LogMel {
  int64_t rate = 16000;              // samples in a second
  int64_t window = 400, hop = 160;   // samples of a frame, an even number, and between frames
  int64_t bins = 80, frames = 3000;  // of the result
};

// float32 [frames, bins] of a sound that is filled up with silence, or cut off, to frames * hop
// samples. With X the spectrum of frame t, `window` samples around t * hop (the sound goes on
// mirrored at both ends) times Hann's window, and F the triangles of area 1 that stand evenly on
// the mel scale of Slaney's auditory toolbox between 0 Hz and half the rate or 8000 Hz,
//   e[t, b] = log10(max(1e-10, sum over k of F[k, b] |X[k]|^2)),
//   y[t, b] = (max(e[t, b], max(e) - 8) + 4) / 4
// (Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", 2022). Errors:
// kTooLarge for a result that the memory does not hold.
Result<Tensor> LogMelOf(std::span<const float> samples, const LogMel& options);

}  // namespace evoq
