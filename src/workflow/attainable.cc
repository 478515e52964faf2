#include "workflow/attainable.h"

#include "models/models.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "workflow/calibrate.h"

namespace evoq {
namespace {

bool IsQuantized(const Graph& graph) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (QuantizesOrDequantizes(FindOp(node))) return true;
    for (ValueId v : node.outputs) {
      if (v.valid() && graph.value(v).type.quantized()) return true;
    }
  }
  return false;
}

// Lets the readers of these nodes read their input instead, where its type at the sample's sizes is
// theirs: sizes that are not known before may differ.
Status LeaveOut(Graph& graph, const std::set<std::string>& names,
                const std::vector<Tensor>& sample) {
  Graph sized = graph;
  InputShapes shapes;
  for (size_t i = 0; i < sample.size(); ++i)
    shapes[graph.value(graph.inputs()[i]).name] = sample[i].sizes();
  EVOQ_TRY(BindShapes(sized, shapes));
  const std::vector<NodeId> nodes = graph.order();
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (!names.count(node.name) || !node.bodies.empty() || node.outputs.size() != 1 ||
        !node.input(0).valid())
      continue;
    const ValueId x = node.input(0), y = node.outputs[0];
    const TensorType& type = sized.value(x).type;
    const bool inside = graph.value(x).producer.valid() && !graph.IsOutput(y);
    if (inside && type.dtype == DType::kFloat32 && type.shape.is_static() &&
        type == sized.value(y).type)
      graph.ReplaceUses(y, x);
  }
  graph.RemoveDeadNodes();
  EVOQ_TRY(graph.Sort());
  return InferTypes(graph);
}

}  // namespace

Result<std::unique_ptr<Engine>> LoadAttainable(const std::string& path, const std::string& scheme,
                                               const std::set<std::string>& leave_out,
                                               const std::vector<Tensor>& sample,
                                               const EngineOptions& options) {
  if (IsEtmFile(path))
    return Unsupported("{} is compiled: only an ONNX model can be quantized", path);
  EVOQ_ASSIGN(Graph graph, LoadOptimizedGraph(path));
  if (IsQuantized(graph)) return Unsupported("{} is quantized already", path);
  const QuantScheme* row = FindScheme(scheme);
  EVOQ_CHECK(row != nullptr, "scheme {}", scheme);
  Ranges ranges;
  if (row->needs_calibration) {
    EVOQ_ASSIGN(ranges, RangesOf(graph, sample, options.threads));
  }
  EVOQ_TRY(LeaveOut(graph, leave_out, sample));
  const auto report = row->run(graph, ranges, {});
  if (!report) return tl::unexpected(report.error());
  return EngineFromGraph(std::move(graph), options);
}

}  // namespace evoq
