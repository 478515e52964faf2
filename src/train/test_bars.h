// Samples that a small network learns within a few epochs.
#pragma once

#include <cstdint>
#include <random>

#include "train/samples.h"

namespace evoq {

// Bars of three directions in noise, of which a label is the direction.
inline LabelledSamples Bars(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> noise(0, 0.3f);
  LabelledSamples out;
  out.sizes = {{1, 8, 8}};
  out.inputs.resize(1);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int64_t>(random() % 3), at = static_cast<int64_t>(random() % 8);
    for (int64_t y = 0; y < 8; ++y) {
      for (int64_t x = 0; x < 8; ++x) {
        const bool bar = (label == 0 ? y : label == 1 ? x : (x + y) % 8) == at;
        out.inputs[0].push_back(noise(random) + (bar ? 1.0f : 0.0f));
      }
    }
    out.labels.push_back(label);
  }
  return out;
}

}  // namespace evoq
