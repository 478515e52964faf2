// Sound in WAV files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

struct Sound {
  int64_t rate = 0;            // samples in a second
  std::vector<float> samples;  // from -1 to 1, the mean of all channels
};

// PCM of 8, 16, 24 and 32 bits, and float32. Errors: kInvalidInput naming the place; kUnsupported
// for another encoding; kTooLarge for more than ten hours.
Result<Sound> ParseWav(std::span<const std::byte> bytes);
Result<Sound> ReadWav(const std::string& path);

}  // namespace evoq
