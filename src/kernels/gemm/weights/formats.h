// The weight formats (weights/format.h) and their packed layouts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/gemm/weights/format.h"
#include "kernels/isa_table.h"
#include "kernels/kernel.h"
#include "kernels/layout.h"

namespace evoq {

// One format: what serves each set of features, better ones first.
using WeightFormatRows = std::span<const IsaRow<WeightFormat>>;

// In the order of formats.inc.
std::span<const WeightFormatRows> AllWeightFormats();
// The packed layout of each.
std::span<const LayoutDef> WeightLayouts();

inline const WeightFormat& FormatFor(WeightFormatRows rows, Isa isa) {
  size_t i = 0;
  while (i + 1 < rows.size() && !isa.Has(rows[i].needs)) ++i;
  return *rows[i].table;
}

// The format that stores weights of this type; empty where there is none.
WeightFormatRows FindWeightFormat(const TensorType& type);
// Why there is none: for the element type alone, and for the rest of a type that passed that.
std::optional<Reason> RejectWeightElements(const TensorType& type);
std::optional<Reason> RejectWeightScales(const TensorType& type);

// Scales and zero points (empty: none) of each block and column, the columns filled up with zeros.
struct WeightScales {
  std::vector<float> scales, zeros;
};

// Weights that a kernel holds, and the code for one instruction set.
struct BoundWeights {
  const WeightFormat* format = nullptr;
  Tensor packed;
  int64_t columns = 0, depth = 0, block = 1, blocks = 1;
  std::shared_ptr<const WeightScales> scales;  // of all kernels that hold these weights

  WeightPanels panels() const;
};

// Takes `weights`, whose type has a format, as it is when packed, else packs it.
// Errors: kInvalidInput for another layout, for bytes or scales that the type does not have.
Result<BoundWeights> BindWeights(const Tensor& weights, Isa isa);

// `weights` in the layout of its format; an undefined tensor where it has none or is packed.
Result<Tensor> PackWeights(const Tensor& weights);
// Whether this is the layout of the format of such weights.
bool ReadsWeights(const TensorType& weights, std::string_view layout);

}  // namespace evoq
