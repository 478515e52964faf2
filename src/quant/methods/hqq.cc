// HQQ: H. Badri, A. Shaji, "Half-Quadratic Quantization of Large Machine Learning Models", 2023,
// https://mobiusml.github.io/hqq_blog. No data: zero points of the least sum |w - stored|^p,
// p = 0.7 (quant/half_quadratic.h).
#include "quant/half_quadratic.h"
#include "quant/layer_rounding.h"
#include "quant/method.h"
#include "quant/rounding_method.h"

namespace evoq {
namespace {

Status Run(MethodRun& run) {
  EVOQ_ASSIGN(const std::vector<WeightRounding> weights,
              WeightsToRound(run.scheme, run.graph, run.ranges, run.options));
  for (const WeightRounding& rounding : weights) {
    const NodeId id = run.graph.FindNode(rounding.node);
    if (!id.valid() || rounding.input != 1) continue;
    const auto matrices = MatricesOf(run.graph.node(id), rounding.values);
    if (!matrices) continue;
    const WeightGrid grid(rounding, *matrices);
    const auto chosen = run.rounded.find(rounding.weight);
    std::vector<RoundedMatrix> groups;
    for (int64_t g = 0; g < matrices->groups; ++g) {
      const std::vector<float> w = grid.Matrix(g);
      groups.push_back(chosen != run.rounded.end() ? grid.Read(g, chosen->second)
                                                   : Nearest(grid, g, w, {}));
      HalfQuadratic(grid, w, groups.back());
    }
    run.Choose(rounding.weight, grid.Store(groups), /*fitted=*/false);
  }
  return {};
}

}  // namespace

extern const QuantMethod kMethodHqq = {
    .name = "hqq",
    .doc =
        "Half-quadratic quantization: the zero point of the least sum of |error|^0.7 over each "
        "block, for which weights far out count little. For uint4 and int2 weights. Needs no data.",
    .paper = "Badri and Shaji 2023, mobiusml.github.io/hqq_blog",
    .stage = MethodStage::kRounding,
    .refuses = HasNoZeroPoints,
    .run = Run,
};

}  // namespace evoq
