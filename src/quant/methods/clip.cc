// Searched clipping, as AWQ has it beside its scaling (Lin et al. 2023, section "clipping" of its
// code): each block's or channel's scale becomes the share of what it was whose clipped and rounded
// weights give the layer the least squared error on the float model's inputs.
#include "quant/gram.h"
#include "quant/method.h"
#include "quant/rounding_method.h"
#include "quant/scale_search.h"

namespace evoq {
namespace {

Status Run(MethodRun& run) {
  EVOQ_ASSIGN(const Isa isa, SelectIsa());
  Workspace workspace(run.options.threads);
  return ObserveLayers(run,
                       [&](const WeightRounding& rounding, const LayerMatrices& matrices,
                           const Gram& gram) -> Status {
                         const WeightGrid grid(rounding, matrices);
                         const auto chosen = run.rounded.find(rounding.weight);
                         std::vector<RoundedMatrix> groups;
                         for (int64_t g = 0; g < matrices.groups; ++g) {
                           const std::vector<float> w = grid.Matrix(g);
                           groups.push_back(chosen != run.rounded.end()
                                                ? grid.Read(g, chosen->second)
                                                : Nearest(grid, g, w, {}));
                           SearchScales(grid, g, w, gram.groups[g], BesideBlock::kNothing,
                                        {isa, workspace}, groups.back());
                         }
                         run.Choose(rounding.weight, grid.Store(groups), /*fitted=*/false);
                         return {};
                       });
}

}  // namespace

extern const QuantMethod kMethodClip = {
    .name = "clip",
    .doc =
        "Searched clipping: the scale of each block or channel of a weight becomes the one whose "
        "nearest numbers give the layer the least error on the float model's inputs, each block "
        "for itself.",
    .paper = "Lin et al. 2023, arXiv:2306.00978",
    .stage = MethodStage::kRounding,
    .needs_samples = true,
    .refuses = HasNoScales,
    .run = Run,
};

}  // namespace evoq
