#include "quant/quant.h"

namespace evoq {
namespace {

Result<QuantizeReport> Run(Graph& graph, const Ranges&, const QuantizeOptions&) {
  QuantizeReport report;
  report.nodes.Add(Precision::kFloat32, static_cast<int>(graph.order().size()));
  return report;
}

}  // namespace

extern const QuantScheme kSchemeFloat32 = {
    .name = "float32",
    .doc = "Nothing is quantized: the optimized model as it is.",
    .precision = Precision::kFloat32,
    .needs_calibration = false,
    .values = DType::kFloat32,
    .run = Run,
};

}  // namespace evoq
