#include "graph/float_reason.h"
#include "kernels/gemm/blocks/block_data.h"
#include "ops/experts.h"
#include "passes/match.h"

namespace evoq {
namespace {

bool IsReal(const TensorType& type) {
  return !type.quantized() && (type.dtype == DType::kFloat32 || type.dtype == DType::kBfloat16);
}

// A product with constant weights of float32 or bfloat16 data, read by nothing but `reader`;
// nothing for another.
const Node* ProductOf(const Graph& graph, ValueId value, NodeId reader) {
  const NodeId id = ProducedBy(graph, value, "MatMul");
  if (!id.valid() || OnlyReader(graph, id) != reader) return nullptr;
  const Node& node = graph.node(id);
  const Tensor* w = graph.ConstantInput(node, 1);
  const bool fits = w != nullptr && w->layout().empty() && w->shape().rank() == 2 &&
                    !node.input(3).valid() && !node.input(4).valid() && !HasActivation(node) &&
                    IsReal(graph.value(node.input(0)).type) && IsReal(graph.value(value).type);
  return fits ? &node : nullptr;
}

// One of products of the same data with weights of one form.
bool Alike(const Graph& graph, const Node& a, const Node& b) {
  const TensorType &w = graph.value(a.input(1)).type, &v = graph.value(b.input(1)).type;
  return a.input(0) == b.input(0) && w.shape == v.shape &&
         a.attrs.Int("output_dtype") == b.attrs.Int("output_dtype") &&
         a.attrs.Int(kDataBlock, 0) == b.attrs.Int(kDataBlock, 0) &&
         a.input(2).valid() == b.input(2).valid();
}

bool Fuse(Graph& graph, NodeId id) {
  if (!IsOp(graph, id, "ChooseExpert", "evoq")) return false;
  const Node choose = graph.node(id);
  std::vector<ValueId> matrices, biases;
  std::vector<NodeId> products;
  const Node* first = ProductOf(graph, choose.input(1), id);
  for (size_t i = 1; i < choose.inputs.size(); ++i) {
    const Node* product = ProductOf(graph, choose.input(i), id);
    if (first == nullptr || product == nullptr || !Alike(graph, *first, *product)) return false;
    matrices.push_back(product->input(1));
    if (product->input(2).valid()) biases.push_back(product->input(2));
    products.push_back(graph.value(choose.input(i)).producer);
  }
  Attrs attrs;
  attrs.Set(kExperts, static_cast<int64_t>(matrices.size()));
  if (const Reason why = FloatReasonOf(first->attrs); !why.empty()) SetFloatReason(attrs, why);
  for (const char* name : {kDataBlock, "output_dtype"}) {
    if (const int64_t value = first->attrs.Int(name, 0); value > 0) attrs.Set(name, value);
  }
  std::vector<ValueId> inputs = {first->input(0), choose.input(0)};
  inputs.insert(inputs.end(), matrices.begin(), matrices.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  ReplaceNode(graph, id, "ExpertMatMul", "evoq", std::move(inputs), std::move(attrs));
  for (const NodeId product : products) {
    if (graph.alive(product)) graph.RemoveNode(product);
  }
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kExpertProducts = {
    .name = "expert-products",
    .doc =
        "Products of the same data of which each row chooses one become one ExpertMatMul, which "
        "computes those that are chosen.",
    .stage = Stage::kLower,
    .level = 1,
    .run = Run,
};

}  // namespace evoq
