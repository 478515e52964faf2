#include "quant/quant.h"

namespace evoq {
namespace {

Result<QuantizeReport> Run(Graph& graph, const Ranges&, const QuantizeOptions&) {
  QuantizeReport report;
  report.nodes_total = report.nodes_float = static_cast<int>(graph.order().size());
  return report;
}

}  // namespace

extern const QuantMethod kMethodFloat32 = {
    "float32", "Nothing is quantized: the optimized model as it is.", /*needs_calibration=*/false,
    /*values=*/DType::kFloat32, Run};

}  // namespace evoq
