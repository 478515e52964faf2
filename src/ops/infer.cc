// Type inference of nodes and graphs, and binding of symbolic shapes.
#include <algorithm>
#include <map>

#include "base/brief.h"
#include "base/math.h"
#include "base/text.h"
#include "ops/driver.h"
#include "ops/util.h"

namespace evoq {
namespace {

// Integer values that inference computes on the way (shape arithmetic) are no larger than this.
constexpr int64_t kMaxKnownElements = 1024;

// Loops run over the sizes of a tensor also where one of them is 0: the product of the others is no
// larger than this.
constexpr int64_t kMaxEmptyProduct = 1 << 26;

Status CheckSize(const TensorType& type, const char* what, size_t index) {
  // Every dimension by itself too, so that inference may add and multiply a few of them without a
  // check.
  for (const Dim& dim : type.shape.dims()) {
    if (dim.value > kMaxTensorBytes)
      return Fail(ErrorCode::kTooLarge, "{} {} would be {}, more than {} bytes", what, index,
                  type.ToString(), kMaxTensorBytes);
  }
  if (!type.shape.is_static() || !type.is_tensor()) return {};
  const auto bytes = type.bytes();
  if (!bytes || *bytes > kMaxTensorBytes)
    return Fail(ErrorCode::kTooLarge, "{} {} would be {}, more than {} bytes", what, index,
                type.ToString(), kMaxTensorBytes);
  if (*bytes > 0) return {};
  std::vector<int64_t> sizes = type.shape.sizes();
  std::erase(sizes, 0);
  const auto product = CheckedProduct(sizes);
  if (product && *product <= kMaxEmptyProduct) return {};
  return Fail(ErrorCode::kTooLarge, "{} {} is {}: no element, but sizes beyond {}", what, index,
              type.ToString(), kMaxEmptyProduct);
}

// The inferred type, with the declared quantization.
Result<TensorType> Merge(TensorType inferred, const TensorType& declared, size_t output) {
  if (!declared.quantized()) return inferred;
  if (inferred.dtype != DType::kFloat32)
    return InvalidInput("output {} is declared {} but is {}", output, declared.ToString(),
                        inferred.ToString());
  inferred.dtype = declared.dtype;
  inferred.quant = declared.quant;
  EVOQ_TRY(ValidateQuant(inferred));
  return inferred;
}

// Types and data of a node's inputs, data of computed ones where `known` has it.
struct NodeInputs {
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants;

  NodeInputs(const Graph& graph, const Node& node,
             const std::map<ValueId, Tensor>* known = nullptr) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      types.push_back(id.valid() ? graph.value(id).type : TensorType());
      constants.push_back(graph.ConstantInput(node, i));
      if (known == nullptr || constants.back() != nullptr) continue;
      if (auto it = known->find(id); it != known->end()) constants.back() = &it->second;
    }
  }
};

Result<std::vector<TensorType>> InferFrom(const Node& node, const NodeInputs& in,
                                          std::span<const TensorType> declared) {
  const auto infer = [&]() -> Result<std::vector<TensorType>> {
    EVOQ_ASSIGN(const OpDef* op, CheckedOp(node, [&](size_t i) { return node.inputs[i].valid(); }));
    for (size_t i = 0; i < in.types.size(); ++i) {
      if (node.inputs[i].valid() && in.types[i].dtype == DType::kUndefined)
        return InvalidInput("input {} has no type yet", i);
    }
    return InferOutputs(*op, node, in.types, in.constants, declared);
  };
  return WithContext(infer(), NodeLabel(node));
}

// The value of Shape (slice [start, end) of the sizes) or Size, when the sizes that it needs are
// known.
std::optional<Tensor> SizesValue(const Node& node, const TensorType& type) {
  if (!node.domain.empty() || !type.shape.ranked() || !type.is_tensor()) return std::nullopt;
  if (node.op == "Size") {
    const auto elements = type.shape.elements();
    return elements ? std::optional(Tensor::Scalar<int64_t>(*elements)) : std::nullopt;
  }
  if (node.op != "Shape") return std::nullopt;
  const int64_t rank = type.shape.rank();
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const int64_t start = clamp(node.attrs.Int("start", 0)), end = clamp(node.attrs.Int("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = start; i < end; ++i) {
    if (!type.shape[i].known()) return std::nullopt;
    sizes.push_back(type.shape[i].value);
  }
  return Tensor::FromValues<int64_t>(Shape{static_cast<int64_t>(sizes.size())}, sizes);
}

bool IsSmall(const TensorType& type) {
  const auto elements = type.shape.elements();
  return elements && *elements <= kMaxKnownElements && !type.quantized() && type.is_tensor() &&
         type.dtype != DType::kString;
}

// Computes small integer outputs of a node whose inputs are all known, so that shapes that are
// computed in the graph (Shape, Gather, Concat, Reshape) are inferred in one walk.
void LearnValues(const Node& node, const NodeInputs& in, std::span<const TensorType> outputs,
                 std::map<ValueId, Tensor>& known) {
  if (node.outputs.empty() || !node.outputs[0].valid()) return;
  if (auto value = in.types.empty() ? std::nullopt : SizesValue(node, in.types[0])) {
    known[node.outputs[0]] = std::move(*value);
    return;
  }
  const OpDef* op = FindOp(node.op, node.domain);
  if (op == nullptr || op->random || op->bodies > 0) return;
  bool wanted = false;
  for (const TensorType& type : outputs) wanted |= IsSmall(type);
  if (!wanted) return;
  std::vector<Tensor> inputs(in.types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    if (in.constants[i] == nullptr || !IsSmall(in.types[i])) return;
    inputs[i] = *in.constants[i];
  }
  auto values = EvaluateAhead(node, inputs, outputs);
  if (!values) return;
  for (size_t i = 0; i < values->size(); ++i) {
    if (node.outputs[i].valid()) known[node.outputs[i]] = std::move((*values)[i]);
  }
}

// Infers every value; `known` gets what is computed on the way.
Status InferValues(Graph& graph, std::map<ValueId, Tensor>& known) {
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<TensorType> declared;
    for (ValueId out : node.outputs)
      declared.push_back(out.valid() ? graph.value(out).type : TensorType());
    const NodeInputs in(graph, node, &known);
    EVOQ_ASSIGN(const std::vector<TensorType> types, InferFrom(node, in, declared));
    for (size_t i = 0; i < types.size(); ++i) {
      if (node.outputs[i].valid()) graph.SetType(node.outputs[i], types[i]);
    }
    LearnValues(node, in, types, known);
  }
  return {};
}

}  // namespace

Result<std::vector<TensorType>> InferOutputs(const OpDef& op, const Node& node,
                                             std::span<const TensorType> inputs,
                                             std::span<const Tensor* const> constants,
                                             std::span<const TensorType> declared) {
  std::vector<TensorType> real(inputs.size());
  std::vector<const Tensor*> data(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor() && !op.containers)
      return InvalidInput("input {} is {}, expected a tensor", i, inputs[i].ToString());
    const bool moved = InputIsChannelsLast(op, node, i);
    EVOQ_TRY(CheckSize(inputs[i], "input", i));
    real[i] = (moved ? ToChannelsFirst(inputs[i]) : inputs[i]).Dequantized();
    const Tensor* constant = i < constants.size() ? constants[i] : nullptr;
    if (constant != nullptr && !moved && !inputs[i].quantized() && constant->layout().empty())
      data[i] = constant;
  }
  EVOQ_ASSIGN(std::vector<TensorType> types,
              op.infer({.node = node, .inputs = real, .constants = data}));
  if (types.size() < declared.size())
    return InvalidInput("{} outputs are used, expected at most {}", declared.size(), types.size());
  types.resize(declared.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (i == 0 && IsChannelsLast(op, node)) types[i] = ToChannelsLast(types[i]);
    EVOQ_ASSIGN(types[i], Merge(std::move(types[i]), declared[i], i));
    EVOQ_TRY(CheckSize(types[i], "output", i));
  }
  return types;
}

Result<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node,
                                          std::span<const TensorType> declared) {
  return InferFrom(node, NodeInputs(graph, node), declared);
}

Status InferTypes(Graph& graph) { return InferTypes(graph, {}); }

Status InferTypes(Graph& graph, std::map<ValueId, Tensor> known) {
  return InferValues(graph, known);
}

Status FoldKnown(Graph& graph) {
  std::map<ValueId, Tensor> known;
  EVOQ_TRY(InferValues(graph, known));
  for (auto& [id, tensor] : known) {
    const NodeId producer = graph.value(id).producer;
    if (!producer.valid() || graph.node(producer).outputs.size() != 1) continue;
    graph.RemoveNode(producer);
    graph.SetConstant(id, std::move(tensor));
  }
  EVOQ_TRY(graph.Sort());
  graph.RemoveDeadNodes();
  return {};
}
namespace {

Status UsageError(std::string message) {
  return tl::unexpected<Error>(Error(ErrorCode::kUsage, std::move(message)));
}

// Checks one requested shape against the declared one and notes what its symbols become. `partly`:
// a size of -1 says nothing.
Status BindSymbols(const std::string& name, const Shape& declared,
                   const std::vector<int64_t>& sizes, std::map<std::string, int64_t>& symbols,
                   bool partly = false) {
  if (declared.ranked() && declared.rank() != static_cast<int>(sizes.size()))
    return UsageError(fmt::format("input {}: shape {} has rank {}, the model's is {}", name,
                                  BracketedBriefly<int64_t>(sizes), sizes.size(),
                                  declared.ToString()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 && partly && declared.ranked()) continue;
    if (sizes[i] < 0)
      return UsageError(
          fmt::format("input {}: dimension {} is {}, expected at least 0", name, i, sizes[i]));
    if (!declared.ranked()) continue;
    const Dim& dim = declared[static_cast<int>(i)];
    if (dim.known() && dim.value != sizes[i])
      return UsageError(fmt::format("input {}: dimension {} is {}, the model's is fixed to {}",
                                    name, i, sizes[i], dim.value));
    if (dim.known() || dim.symbol.empty()) continue;
    const auto [it, fresh] = symbols.emplace(dim.symbol, sizes[i]);
    if (!fresh && it->second != sizes[i])
      return UsageError(fmt::format("input {}: dimension {} ({}) is {}, but {} is already {}", name,
                                    i, dim.symbol, sizes[i], dim.symbol, it->second));
  }
  return {};
}

// The static shape of an input for which none was requested.
Result<Shape> DefaultShape(const std::string& name, Shape shape,
                           const std::map<std::string, int64_t>& symbols) {
  if (!shape.ranked())
    return Fail(ErrorCode::kUsage,
                "input {}: its rank is not known, give its shape (--shape {}=...)", name, name);
  const std::string declared = shape.ToString();
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i].known()) continue;
    const auto it = symbols.find(shape[i].symbol);
    if (it == symbols.end() && i > 0)
      return Fail(ErrorCode::kUsage,
                  "input {}: dimension {} of {} is not known, give its shape (--shape {}=...)",
                  name, i, declared, name);
    shape[i] = it == symbols.end() ? 1 : it->second;
  }
  return shape;
}

Result<ValueId> InputNamed(const Graph& graph, const std::string& name) {
  const ValueId id = graph.FindValue(name);
  if (id.valid() && graph.IsInput(id)) return id;
  std::vector<std::string> names;
  for (ValueId input : graph.inputs()) names.push_back(graph.value(input).name);
  return Fail(ErrorCode::kUsage, "the model has no input {}; it has {}", name,
              fmt::join(names, ", "));
}

// An input may have this type.
Status CheckBound(const std::string& name, const TensorType& type) {
  const auto bytes = type.bytes();
  if (!bytes || *bytes > kMaxTensorBytes)
    return Fail(ErrorCode::kTooLarge, "input {} would be {}, more than {} bytes", name,
                type.ToString(), kMaxTensorBytes);
  return WithContext(ValidateQuant(type), fmt::format("input {}", name));
}

}  // namespace

Status FixShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  if (shapes.empty()) return {};
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, sizes] : shapes) {
    EVOQ_ASSIGN(const ValueId id, InputNamed(graph, name));
    EVOQ_TRY(BindSymbols(name, graph.value(id).type.shape, sizes, symbols, /*partly=*/true));
  }
  for (ValueId id : graph.inputs()) {
    TensorType type = graph.value(id).type;
    if (!type.is_tensor()) continue;
    const auto named = shapes.find(graph.value(id).name);
    if (named != shapes.end() && !type.shape.ranked()) type.shape = Shape(named->second);
    for (int i = 0; type.shape.ranked() && i < type.shape.rank(); ++i) {
      if (type.shape[i].known()) continue;
      const auto symbol = symbols.find(type.shape[i].symbol);
      const int64_t size = named != shapes.end() ? named->second[static_cast<size_t>(i)] : -1;
      if (size >= 0) {
        type.shape[i] = Dim(size);
      } else if (symbol != symbols.end()) {
        type.shape[i] = Dim(symbol->second);
      }
    }
    if (type.shape.is_static()) EVOQ_TRY(CheckBound(graph.value(id).name, type));
    graph.SetType(id, std::move(type));
  }
  return InferTypes(graph);
}

Status BindShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, sizes] : shapes) {
    EVOQ_ASSIGN(const ValueId id, InputNamed(graph, name));
    EVOQ_TRY(BindSymbols(name, graph.value(id).type.shape, sizes, symbols));
  }
  // Dimension 0 of inputs that nobody named: 1, and then everywhere its symbol stands.
  for (ValueId id : graph.inputs()) {
    const Shape& shape = graph.value(id).type.shape;
    if (!graph.value(id).type.is_tensor() || shapes.count(graph.value(id).name) ||
        !shape.ranked() || shape.rank() == 0 || shape[0].known())
      continue;
    if (!shape[0].symbol.empty()) symbols.emplace(shape[0].symbol, 1);
  }
  std::vector<std::pair<ValueId, TensorType>> bound;
  for (ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    TensorType type = value.type;
    if (!type.is_tensor()) continue;  // a run brings the sizes
    if (auto it = shapes.find(value.name); it != shapes.end()) {
      type.shape = Shape(it->second);
    } else {
      EVOQ_ASSIGN(type.shape, DefaultShape(value.name, type.shape, symbols));
    }
    EVOQ_TRY(CheckBound(value.name, type));
    bound.emplace_back(id, std::move(type));
  }
  for (auto& [id, type] : bound) graph.SetType(id, std::move(type));
  return InferTypes(graph);
}

}  // namespace evoq
