#include "llm/cache_type.h"

#include <algorithm>
#include <set>

#include "base/math.h"
#include "kernels/attention/attention_inputs.h"
#include "llm/phase.h"
#include "reference/reference.h"

namespace evoq {
namespace {

struct CacheName {
  std::string_view name;
  DType dtype;
};
constexpr CacheName kNames[] = {{"", DType::kUndefined},   {"float32", DType::kFloat32},
                                {"f32", DType::kFloat32},  {"float16", DType::kFloat16},
                                {"fp16", DType::kFloat16}, {"f16", DType::kFloat16},
                                {"int8", DType::kInt8},    {"q8_0", DType::kInt8}};

// past_key.3 and _scale: past_key_scale.3
std::string Beside(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name + "_scale"
                                  : name.substr(0, dot) + "_scale" + name.substr(dot);
}

// The step that extends a cache, and the attention that reads it.
struct CacheUse {
  ValueId past, present;
  NodeId scatter;
  std::vector<std::pair<NodeId, size_t>> readers;  // with the input
};

Result<CacheUse> UseOf(const Graph& graph, ValueId past) {
  const std::string& name = graph.value(past).name;
  CacheUse use{.past = past};
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != past || node.op == "Shape") continue;  // sizes stay
      if (node.op != "TensorScatter" || i != 0 || use.scatter.valid())
        return Unsupported("node {} ({}) reads the cache {} in a way that is not known", node.name,
                           node.op, name);
      use.scatter = id;
      use.present = node.outputs[0];
    }
  }
  if (!use.scatter.valid()) return Unsupported("nothing extends the cache {}", name);
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != use.present) continue;
      if (node.op != "Attention" || (i != kK && i != kV))
        return Unsupported("node {} ({}) reads the cache {}, expected attention alone", node.name,
                           node.op, name);
      use.readers.emplace_back(id, i);
    }
  }
  if (!graph.IsOutput(use.present)) return Unsupported("the cache {} is no output", name);
  return use;
}

void ToHalf(Graph& graph, const CacheUse& use) {
  const std::string name = graph.node(use.scatter).name;
  const ValueId narrow = graph.Apply("Cast", name + ".float16", {graph.node(use.scatter).inputs[1]},
                                     Attrs::Of("to", static_cast<int64_t>(DType::kFloat16)));
  graph.SetInput(use.scatter, 1, narrow);
}

void ToInt8(Graph& graph, const CacheUse& use) {
  const Node scatter = graph.node(use.scatter);
  Node node{.op = "DynamicQuantizeBlocks", .domain = "evoq", .name = scatter.name + ".int8"};
  node.attrs.Set("block_size", kCacheBlock);
  node.inputs = {scatter.inputs[1]};
  node.outputs = {graph.AddValue(node.name), graph.AddValue(node.name + ".scales")};
  const std::vector<ValueId> rows = node.outputs;
  graph.AddNode(std::move(node));
  graph.SetInput(use.scatter, 1, rows[0]);

  const Value& past = graph.value(use.past);
  std::vector<Dim> sizes = past.type.shape.dims();
  sizes[3] = Dim(CeilDiv(sizes[3].value, kCacheBlock));
  const std::string present = graph.value(use.present).name;
  std::vector<ValueId> inputs = scatter.inputs;
  inputs[0] = graph.AddInput(Beside(past.name), TensorType(DType::kFloat16, Shape(sizes)));
  inputs[1] = rows[1];
  const ValueId scales =
      graph.Apply("TensorScatter", scatter.name + ".scales", std::move(inputs), scatter.attrs);
  graph.Rename(scales, Beside(present));
  graph.MarkOutput(scales);
  for (const auto& [reader, input] : use.readers) {
    graph.SetInput(reader, input == kK ? kKeyScale : kValueScale, scales);
    graph.attrs(reader).Set(kCacheBlockSize, kCacheBlock);
  }
}

}  // namespace

Result<DType> ParseCacheType(std::string_view name) {
  for (const CacheName& row : kNames) {
    if (row.name == name) return row.dtype;
  }
  return Fail(ErrorCode::kUsage, "a cache of '{}', expected float32, float16 or int8", name);
}

bool HasCaches(const Graph& graph, DType type) {
  const auto inputs = FindCacheInputs(graph);
  if (!inputs) return false;
  std::set<std::string> scales;  // of int8 caches
  for (const ValueId cache : inputs->caches) {
    const Value& value = graph.value(cache);
    if (value.type.dtype == DType::kInt8) scales.insert(Beside(value.name));
  }
  return std::ranges::all_of(inputs->caches, [&](ValueId cache) {
    const Value& value = graph.value(cache);
    return value.type.dtype == type || (type == DType::kInt8 && scales.contains(value.name));
  });
}

Status SetCacheType(Graph& graph, DType type) {
  if (type == DType::kUndefined || HasCaches(graph, type)) return {};
  const auto inputs = FindCacheInputs(graph);
  if (!inputs) return Unsupported("no language model with caches (docs/llm.md)");
  std::vector<CacheUse> uses;
  for (const ValueId cache : inputs->caches) {
    const TensorType& now = graph.value(cache).type;
    if (now.dtype != DType::kFloat32)
      return Unsupported("its caches are {} already: {} needs the model as it was before",
                         DTypeName(now.dtype), DTypeName(type));
    EVOQ_ASSIGN(CacheUse use, UseOf(graph, cache));
    uses.push_back(std::move(use));
  }
  for (const CacheUse& use : uses) {
    TensorType narrow(type, graph.value(use.past).type.shape);
    if (type == DType::kInt8) {
      ToInt8(graph, use);
    } else {
      ToHalf(graph, use);
    }
    graph.SetType(use.past, std::move(narrow));
  }
  EVOQ_TRY(graph.Sort());
  return InferTypes(graph, kReference);
}

}  // namespace evoq
