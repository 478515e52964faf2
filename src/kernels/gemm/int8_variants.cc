#include "kernels/gemm/int8_variants.h"

#include "base/text.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/in_place.h"

namespace evoq {
namespace {

constexpr std::string_view kRows = " rows", kColumns = " columns", kLarge = " large blocks";

bool Eat(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::vector<std::string> Int8Variants(const Int8Geometry& geometry, const BindOptions& options) {
  std::vector<std::string> names;
  if (UsesDirect(geometry)) return names;
  if (FitsInt8Winograd(geometry, options.isa)) names.emplace_back(kInt8Winograd);
  for (const int panels : {2, 4}) {
    if (panels > Int8TileFor(options.isa).max_panels || geometry.group_columns() <= 8 * panels)
      continue;
    const std::string width = fmt::format("{} wide", 16 * panels);
    names.push_back(width);
    if (geometry.rows() > 64) names.push_back(width + std::string(kLarge));
    if (options.threads == 1) continue;
    names.push_back(width + std::string(kRows));
    names.push_back(width + std::string(kColumns));
  }
  return names;
}

Int8Variant ParseInt8Variant(std::string_view name) {
  Int8Variant variant;
  variant.large_blocks = Eat(name, kLarge);
  if (Eat(name, kRows)) variant.cut = ShareBy::kRows;
  if (Eat(name, kColumns)) variant.cut = ShareBy::kColumns;
  if (name == "32 wide") {
    variant.panels = 2;
  } else if (name == "64 wide") {
    variant.panels = 4;
  } else {
    return {};
  }
  return variant;
}

uint32_t Int8InPlace(const KernelCall& call) { return SameSizeInputs(call) & 1u << 3; }

}  // namespace evoq
