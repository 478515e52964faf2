#include "workflow/skipped_zeros.h"

#include <algorithm>
#include <map>

#include "base/printable.h"
#include "base/text.h"
#include "kernels/gemm/int8_sparse.h"
#include "kernels/gemm/layout_blocks.h"

namespace evoq {
namespace {

// Beyond what the clock and other programs make of equal steps.
constexpr double kSlower = 1.1;

// The weight of a node that is stored as blocks, or null.
const Tensor* BlocksOf(const Graph& graph, const Node& node) {
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Tensor* const constant = graph.ConstantInput(node, i);
    if (constant != nullptr && IsBlockLayout(constant->layout())) return constant;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Engine>> LoadWithoutBlocks(const Model& model,
                                                  const EngineOptions& options) {
  Loaded full{.model = {.graph = model.graph}};
  bool any = false;
  for (int i = 0; i < model.graph.value_count(); ++i) {
    const Value& value = model.graph.value(ValueId{i});
    if (!value.is_constant() || !IsBlockLayout(value.constant.layout())) continue;
    EVOQ_ASSIGN(Tensor weights, WithContext(UnpackBlocks(value.constant), value.name));
    full.model.graph.SetConstant(ValueId{i}, std::move(weights));
    any = true;
  }
  if (!any) return std::unique_ptr<Engine>();
  return Engine::Of(std::move(full), options, AllParts());
}

SkippedZeros ZerosOf(const Runnable& model, const StepProfile& profile, const StepProfile& full) {
  std::map<std::string, double> full_ms;
  for (const StepTime& step : full.steps) full_ms[step.name] = step.ms;
  SkippedZeros zeros;
  const Program& program = model.program();
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Node& node = program.graph->node(program.steps[s].node);
    const Tensor* const weight = BlocksOf(*program.graph, node);
    const auto other = full_ms.find(node.name);
    if (weight == nullptr || other == full_ms.end()) continue;
    const auto blocks = ReadBlocks(*weight);
    if (!blocks) continue;
    zeros.layers.push_back({.node = node.name,
                            .share = StoredShare(*blocks),
                            .skips = ShareOfBlocks(model.plans()[s].method) < 1,
                            .ms = profile.steps[s].ms,
                            .full_ms = other->second,
                            .bytes = static_cast<int64_t>(weight->bytes()),
                            .full_bytes = blocks->sizes.panels * blocks->sizes.panel_bytes});
  }
  return zeros;
}

Told Tell(const SkippedZeros& zeros) {
  SkippedZeros::Layer sum;
  int skip = 0;
  std::string slower;
  Told told;
  nlohmann::json layers = nlohmann::json::array();
  for (const SkippedZeros::Layer& layer : zeros.layers) {
    sum.ms += layer.ms;
    sum.full_ms += layer.full_ms;
    sum.bytes += layer.bytes;
    sum.full_bytes += layer.full_bytes;
    skip += layer.skips ? 1 : 0;
    layers.push_back({{"node", layer.node},
                      {"blocks", layer.share},
                      {"skips", layer.skips},
                      {"ms", layer.ms},
                      {"ms_with_zeros", layer.full_ms},
                      {"weight_bytes", layer.bytes},
                      {"weight_bytes_with_zeros", layer.full_bytes}});
    if (layer.skips && layer.ms > kSlower * layer.full_ms)
      slower += fmt::format("  {}: {:.4f} ms, {:.4f} with its zeros\n", layer.node, layer.ms,
                            layer.full_ms);
  }
  told.json = {{"layers", layers},
               {"ms", sum.ms},
               {"ms_with_zeros", sum.full_ms},
               {"weight_bytes", sum.bytes},
               {"weight_bytes_with_zeros", sum.full_bytes}};
  told.text = fmt::format(
      "zeros: {} of {} layers whose weights are stored without their blocks of zeros skip them\n"
      "  {:.4f} ms, {:.4f} with the zeros, {:.2f}x; weights in memory {}, {} with the zeros\n",
      skip, zeros.layers.size(), sum.ms, sum.full_ms, sum.ms > 0 ? sum.full_ms / sum.ms : 1,
      HumanBytes(sum.bytes), HumanBytes(sum.full_bytes));
  if (!slower.empty())
    told.text += "zeros that do not pay in time (tuning chooses, docs/tuning.md):\n" + slower;
  return told;
}

}  // namespace evoq
