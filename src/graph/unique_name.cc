#include "graph/unique_name.h"

#include <cstdint>

#include "base/result.h"

namespace evoq {

std::string UniqueName(const std::string& wanted,
                       const std::function<bool(const std::string&)>& taken) {
  if (!taken(wanted)) return wanted;
  const auto numbered = [&](int64_t i) { return fmt::format("{}_{}", wanted, i); };
  constexpr int64_t kInOrder = 64;
  for (int64_t i = 1; i <= kInOrder; ++i) {
    if (std::string name = numbered(i); !taken(name)) return name;
  }
  int64_t low = kInOrder, high = 2 * kInOrder;  // `low` is taken
  for (; taken(numbered(high)); high *= 2) low = high;
  while (high - low > 1) {  // `high` is free
    const int64_t middle = low + (high - low) / 2;
    (taken(numbered(middle)) ? low : high) = middle;
  }
  return numbered(high);
}

}  // namespace evoq
