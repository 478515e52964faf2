#include "kernels/ways.h"

#include <algorithm>
#include <charconv>

namespace evoq {

std::string Way::ToString() const {
  std::string text(direct ? kDirectWay : "");
  if (block_rows == 0) return text;
  return text + (direct ? " " : "") + std::to_string(block_rows) + " rows";
}

Way ParseWay(std::string_view variant) {
  Way way;
  if (variant.starts_with(kDirectWay)) {
    way.direct = true;
    variant.remove_prefix(kDirectWay.size());
    if (variant.starts_with(' ')) variant.remove_prefix(1);
    if (variant.empty()) return way;
  }
  const auto [end, error] =
      std::from_chars(variant.data(), variant.data() + variant.size(), way.block_rows);
  const std::string_view rest(end, static_cast<size_t>(variant.data() + variant.size() - end));
  if (error != std::errc() || rest != " rows" || way.block_rows < 1) return {};
  way.block_rows = std::min(way.block_rows, kMostBlockRows);
  return way;
}

}  // namespace evoq
