#include "base/ms_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace evoq {

std::string MsText(double ms) {
  constexpr int kLeast = 3, kMost = 7;
  const double size = std::fabs(ms);
  const int digits =
      size > 0 && size < 1 ? kLeast - static_cast<int>(std::floor(std::log10(size))) : kLeast;
  return fmt::format("{:.{}f}", ms, std::min(digits, kMost));
}

}  // namespace evoq
