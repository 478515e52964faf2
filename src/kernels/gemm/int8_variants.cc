#include "kernels/gemm/int8_variants.h"

#include "base/math.h"
#include "base/text.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_sparse.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/in_place.h"

namespace evoq {
namespace {

constexpr std::string_view kRows = " rows", kColumns = " columns", kLarge = " large blocks",
                           kSmallest = " small tiles";

bool Eat(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

}  // namespace

std::vector<std::string> Int8Variants(const Int8Geometry& geometry, const BindOptions& options,
                                      const Tensor* weights) {
  std::vector<std::string> names;
  if (UsesDirect(geometry)) return names;
  if (FitsInt8Winograd(geometry, options.isa)) names.emplace_back(kInt8Winograd);
  const int64_t depth = geometry.taps() * RoundUp(geometry.group_channels(), 4);
  const Int8TileDef& best = *TilesFor(Int8TileFor(options.isa), {geometry.rows(), depth}).tiles;
  const auto worth = [&](const Int8TileDef& tiles, int panels) {
    if (panels == 1)
      return tiles.max_rows[1] > tiles.max_rows[2] && geometry.rows() > tiles.max_rows[2];
    return panels <= tiles.max_panels && geometry.group_columns() > 8 * panels;
  };
  for (const int panels : {1, 2, 4}) {
    if (!worth(best, panels)) continue;
    const std::string width = fmt::format("{} wide", 16 * panels);
    names.push_back(width);
    if (geometry.rows() > 64) names.push_back(width + std::string(kLarge));
    if (options.threads == 1) continue;
    names.push_back(width + std::string(kRows));
    names.push_back(width + std::string(kColumns));
  }
  for (const int panels : {2, 4}) {
    if (best.small != nullptr && worth(*best.small, panels))
      names.push_back(fmt::format("{} wide{}", 16 * panels, kSmallest));
  }
  if (weights != nullptr && SkipsBlocks(*weights, geometry, options)) {
    for (const std::string_view way : {kInt8Skipping, kInt8Dense}) names.emplace_back(way);
  }
  return names;
}

Int8Variant ParseInt8Variant(std::string_view name) {
  Int8Variant variant;
  variant.smallest = Eat(name, kSmallest);
  variant.large_blocks = Eat(name, kLarge);
  if (Eat(name, kRows)) variant.cut = ShareBy::kRows;
  if (Eat(name, kColumns)) variant.cut = ShareBy::kColumns;
  if (name == "16 wide") {
    variant.panels = 1;
  } else if (name == "32 wide") {
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
