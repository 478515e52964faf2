// Binding of symbolic shapes.
#include <map>

#include "base/brief.h"
#include "base/text.h"
#include "ops/driver.h"

namespace evoq {
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

Status FixShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes,
                 const Evaluator& evaluator) {
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
  return InferTypes(graph, evaluator);
}

Status BindShapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes,
                  const Evaluator& evaluator) {
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
  return InferTypes(graph, evaluator);
}

}  // namespace evoq
