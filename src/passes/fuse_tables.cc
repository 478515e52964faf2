// A value that depends on the bytes of one other value only, element by element, is a function with
// 256 results. Whatever chain of operators computes it, evaluating the chain on all 256 bytes gives
// it as a table, exactly.
#include <map>
#include <numeric>

#include "passes/match.h"
#include "reference/reference.h"

namespace evoq {
namespace {

bool IsByte(const TensorType& type) { return type.dtype == DType::kUint8 && IsByteQuantized(type); }

// What a value is as a function of the bytes of `root`: element b is its value where root's byte is
// b.
struct Function {
  ValueId root;
  Tensor values;
  int nodes = 0;           // operators between root and the value, on the longest way,
  std::string names = "";  // and theirs
};

class Tabulator {
 public:
  explicit Tabulator(Graph& graph) : graph_(graph) {}

  Result<int> Run() {
    int changes = 0;
    for (NodeId id : NodesOf(graph_)) {
      if (graph_.alive(id)) changes += Visit(id);
    }
    EVOQ_TRY(graph_.Sort());
    graph_.RemoveDeadNodes();  // they would count as readers
    for (NodeId id : NodesOf(graph_)) {
      if (graph_.alive(id)) changes += Absorb(id);
    }
    return changes;
  }

 private:
  // A constant of one element, as a scalar so that it changes no shape.
  std::optional<Tensor> Scalar(ValueId value) const {
    if (!graph_.value(value).is_constant()) return std::nullopt;
    const Tensor& constant = graph_.value(value).constant;
    if (constant.elements() != 1 || !constant.layout().empty()) return std::nullopt;
    TensorType type = constant.type();
    if (type.quantized() && !type.quant->per_tensor()) return std::nullopt;
    type.shape = Shape{};
    return constant.WithType(type);
  }

  // The value as a function: of itself, when its bytes are a quantized value that no function is
  // known of.
  std::optional<Function> FunctionOf(ValueId value) const {
    if (const auto it = functions_.find(value); it != functions_.end()) return it->second;
    const TensorType& type = graph_.value(value).type;
    if (!IsByte(type) || graph_.value(value).is_constant()) return std::nullopt;
    Tensor bytes = Tensor::Allocate(TensorType(DType::kUint8, Shape{256}, *type.quant));
    std::iota(bytes.mutable_data<uint8_t>(), bytes.mutable_data<uint8_t>() + 256, uint8_t{0});
    return Function{value, bytes};
  }

  // The function that an element-wise operator computes, where all its inputs are functions of one
  // root or scalars.
  std::optional<Function> Computed(const Node& node) const {
    const OpDef& op = OpOf(node);
    const bool lookup = node.op == "Lookup";
    if (op.random || (!op.elementwise && !lookup) || node.outputs.size() != 1) return std::nullopt;
    const TensorType& out = graph_.value(node.outputs[0]).type;
    const bool real = out.dtype == DType::kFloat32;
    if (!real && !IsByte(out)) return std::nullopt;
    std::optional<Function> result;
    std::vector<Tensor> inputs;
    for (ValueId in : node.inputs) {
      if (!in.valid()) {
        inputs.emplace_back();
      } else if (const auto scalar = Scalar(in)) {
        inputs.push_back(*scalar);
      } else if (lookup && graph_.value(in).is_constant()) {
        inputs.push_back(graph_.value(in).constant);
      } else {
        auto function = FunctionOf(in);
        if (!function || (result && result->root != function->root)) return std::nullopt;
        if (!SameShape(graph_.value(in).type.shape, out.shape)) return std::nullopt;
        inputs.push_back(function->values);
        if (!result || function->nodes >= result->nodes) {
          result = std::move(function);
        }
      }
    }
    if (!result) return std::nullopt;
    TensorType type = out;
    type.shape = Shape{256};
    const auto outputs = EvaluateNode(node, inputs, {&type, 1});
    if (!outputs || (*outputs)[0].elements() != 256) return std::nullopt;
    result->values = (*outputs)[0].WithType(type);
    ++result->nodes;
    result->names += (result->names.empty() ? "" : ", ") +
                     (lookup ? node.attrs.String("evoq.function") : node.op);
    return result;
  }

  // A quantized result of two operators or more, or of one without a table of its own, becomes a
  // Lookup.
  bool Visit(NodeId id) {
    const Node node = graph_.node(id);
    auto function = Computed(node);
    if (!function) return false;
    const ValueId out = node.outputs[0];
    functions_[out] = *function;
    if (!IsByte(graph_.value(out).type)) return false;
    const bool is_lookup = node.op == "Lookup" && function->nodes == 1;
    const bool has_table =
        function->nodes == 1 && node.inputs.size() == 1 && !Absorbs(function->root, id);
    if (is_lookup || has_table) return false;
    const ValueId table = graph_.AddConstant(node.name + "_table", TableOf(*function));
    ReplaceNode(graph_, id, "Lookup", "evoq", {function->root, table},
                Attrs::Of("evoq.function", function->names));
    return true;
  }

  static Tensor TableOf(const Function& function) {
    return function.values.WithType(TensorType(DType::kUint8, Shape{256}));
  }

  // `value`'s integer linear operator can send its bytes through a table: nothing but `reader`
  // reads them.
  bool Absorbs(ValueId value, NodeId reader) const {
    const NodeId id = graph_.value(value).producer;
    if (!graph_.alive(id) || graph_.OnlyUser(value) != reader) return false;
    const Node& linear = graph_.node(id);
    return InputWith(OpOf(linear), Role::kTable) >= 0 &&
           IsByte(graph_.value(linear.input(0)).type) && graph_.ConstantInput(linear, 1) != nullptr;
  }

  // Lookup(linear(...)) -> linear(..., table). Two tables in a row are one.
  bool Absorb(NodeId id) {
    const Node node = graph_.node(id);
    if (!IsOp(graph_, id, "Lookup", "evoq") || !Absorbs(node.input(0), id)) return false;
    const Tensor* second = graph_.ConstantInput(node, 1);
    if (second == nullptr) return false;
    const NodeId linear = graph_.value(node.input(0)).producer;
    const Tensor* first = graph_.ConstantInput(graph_.node(linear), 4);
    const auto& quant = first ? *first->type().quant : *graph_.value(node.input(0)).type.quant;
    Tensor table = Tensor::Allocate(TensorType(DType::kUint8, Shape{256}, quant));
    for (int i = 0; i < 256; ++i)
      table.mutable_data<uint8_t>()[i] =
          second->data<uint8_t>()[first ? first->data<uint8_t>()[i] : i];
    for (size_t i = graph_.node(linear).inputs.size(); i < 4; ++i)
      graph_.SetInput(linear, i, ValueId{});
    graph_.SetInput(linear, 4, graph_.AddConstant(node.name + "_table", std::move(table)));
    const std::string before = graph_.node(linear).attrs.String("evoq.function");
    graph_.attrs(linear).Set("evoq.function", before + (before.empty() ? "" : ", ") +
                                                  node.attrs.String("evoq.function"));
    evoq::Absorb(graph_, linear, id);
    return true;
  }

  Graph& graph_;
  std::map<ValueId, Function> functions_;
};

Result<int> Run(Graph& graph) { return Tabulator(graph).Run(); }

}  // namespace

extern const PassDef kFuseTables = {
    .name = "fuse-tables",
    .doc =
        "Chains of element-wise operators on one quantized value become a table of 256 bytes, "
        "where possible that of the Conv before it.",
    .stage = Stage::kLower,
    .level = 2,
    .run = Run,
};

}  // namespace evoq
