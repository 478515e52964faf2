// Heads of attention: [batch, heads, length, size], or flat, [batch, length, heads * size].
#pragma once

#include "kernels/call_util.h"

namespace evoq {

struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  bool flat = false;

  // The first element of a head's row.
  int64_t At(int64_t b, int64_t h, int64_t i) const {
    return flat ? ((b * length + i) * heads + h) * size : ((b * heads + h) * length + i) * size;
  }
  // From a row to the same head's next one, in elements.
  int64_t step() const { return flat ? heads * size : size; }
};

// Of a static type of rank 4, or of rank 3 with `heads` heads; nothing where it is neither.
inline std::optional<Heads> HeadsOf(const TensorType& type, int64_t heads) {
  const std::vector<int64_t> s = type.shape.sizes();
  if (s.size() == 4) return Heads{s[0], s[1], s[2], s[3], false};
  if (s.size() != 3 || heads <= 0 || s[2] % heads != 0) return std::nullopt;
  return Heads{s[0], heads, s[1], s[2] / heads, true};
}

}  // namespace evoq
