#include "quant/rounding_method.h"

#include "quant/gram.h"
#include "quant/low_bits.h"

namespace evoq {

namespace {

// GPTQ's authors add 1% of the mean of the diagonal. More where there are few rows for the depth,
// which would be fitted to what they are by chance.
double Damping(const Gram& gram) {
  return std::min(1.0, 0.01 + static_cast<double>(gram.depth) / static_cast<double>(gram.rows));
}

}  // namespace

std::string RoundsNoWeights(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.precision == Precision::kInt8 ? "" : "it rounds no weights";
}

std::string RoundsNoWholeNumbers(const QuantScheme& scheme, const QuantizeOptions& options) {
  if (std::string why = RoundsNoWeights(scheme, options); !why.empty()) return why;
  const bool integers = scheme.low_bits == nullptr || IsInteger(scheme.low_bits->dtype);
  return integers ? "" : "it rounds up or down to whole numbers";
}

std::string HasNoScales(const QuantScheme& scheme, const QuantizeOptions& options) {
  if (std::string why = RoundsNoWeights(scheme, options); !why.empty()) return why;
  return options.per_channel || scheme.low_bits != nullptr
             ? ""
             : "it searches a scale for each channel, and weights have one (--per-tensor)";
}

std::string HasNoZeroPoints(const QuantScheme& scheme, const QuantizeOptions& options) {
  if (std::string why = RoundsNoWeights(scheme, options); !why.empty()) return why;
  const LowBits* const bits = scheme.low_bits;
  if (bits != nullptr && bits->loops(SelectIsa().value_or(Isa::kScalar)).zero_count > 1) return "";
  return fmt::format("it chooses zero points, and weights of {} have none (uint4, int2)",
                     bits != nullptr ? bits->name : "int8");
}

RoundedMatrix NearestBySize(const RoundedLayer& layer) {
  const int64_t depth = layer.grid.matrices().depth;
  std::vector<float> sizes;
  for (int64_t k = 0; k < depth; ++k)
    sizes.push_back(static_cast<float>(layer.damped[k * depth + k]));
  return Nearest(layer.grid, layer.group, layer.w, sizes);
}

Status RoundMatrices(MethodRun& run, Result<RoundedMatrix> (*round)(const RoundedLayer& layer)) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  Workspace workspace(run.options.threads);
  return RoundLayers(
      run,
      [&](const WeightRounding& rounding, const LayerMatrices& matrices,
          const Gram& gram) -> Result<Tensor> {
        const WeightGrid grid(rounding, matrices);
        const auto chosen = run.rounded.find(rounding.weight);
        std::vector<RoundedMatrix> groups;
        for (int64_t g = 0; g < matrices.groups; ++g) {
          const std::vector<double> damped = Damped(gram.groups[g], gram.depth, Damping(gram));
          EVOQ_ASSIGN(const std::vector<float> w, Refitted(grid.Matrix(g), damped, gram.missing[g],
                                                           gram.depth, {isa, workspace}));
          std::optional<RoundedMatrix> before;
          if (chosen != run.rounded.end()) before = grid.Read(g, chosen->second);
          EVOQ_ASSIGN(RoundedMatrix rounded,
                      WithContext(round({.grid = grid,
                                         .group = g,
                                         .w = w,
                                         .damped = damped,
                                         .before = before ? &*before : nullptr,
                                         .tools = {isa, workspace}}),
                                  rounding.node));
          groups.push_back(std::move(rounded));
        }
        return grid.Store(groups);
      });
}

}  // namespace evoq
