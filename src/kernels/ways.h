// Ways to go about a product that its kernels take as BindOptions::variant and do not list: nothing
// measures them, the user of a model asks for them (graph/run_choices.h). "direct": not by
// Winograd's method; "64 rows": in blocks of 64 rows of outputs (of a convolution pixels), which a
// thread computes before it turns to others; "direct 64 rows".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace evoq {

inline constexpr std::string_view kDirectWay = "direct";

// As many rows as a block may have: more do not stay in a core's cache beside the weights.
inline constexpr int64_t kMostBlockRows = 768;

struct Way {
  bool direct = false;
  int64_t block_rows = 0;  // 1 to kMostBlockRows; 0: the kernel's choice

  std::string ToString() const;  // "" for none
};
// Of a text that is none: Way().
Way ParseWay(std::string_view variant);

}  // namespace evoq
