#include "quant/observe.h"

#include <algorithm>
#include <set>

#include "reference/reference.h"

namespace evoq {

Result<Graph> PartThatComputes(const Graph& graph, const std::vector<std::string>& values,
                               const std::map<std::string, Tensor>& known) {
  std::set<NodeId> needed;
  std::vector<ValueId> open;
  for (const std::string& name : values) open.push_back(graph.FindValue(name));
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!v.valid()) continue;
    const NodeId producer = graph.value(v).producer;
    if (!producer.valid() || !needed.insert(producer).second) continue;
    const auto& inputs = graph.node(producer).inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  Graph part;
  part.name = graph.name;
  part.metadata = graph.metadata;
  std::map<ValueId, ValueId> copies;
  for (ValueId v : graph.inputs()) {
    const auto given = known.find(graph.value(v).name);
    copies[v] = given != known.end() ? part.AddConstant(given->first, given->second)
                                     : part.AddInput(graph.value(v).name, graph.value(v).type);
  }
  for (NodeId id : graph.order()) {
    if (!needed.count(id)) continue;
    Node node = graph.node(id);
    for (ValueId& v : node.inputs) {
      if (!v.valid()) continue;
      const Value& value = graph.value(v);
      if (!copies.count(v)) copies[v] = part.AddConstant(value.name, value.constant);
      v = copies.at(v);
    }
    for (ValueId& v : node.outputs) {
      if (!v.valid()) continue;
      const Value& value = graph.value(v);
      copies[v] = part.AddValue(value.name, value.type);
      v = copies.at(v);
    }
    part.AddNode(std::move(node));
  }
  for (const std::string& name : values) {
    const ValueId v = graph.FindValue(name);
    if (v.valid() && graph.value(v).producer.valid() && !part.IsOutput(copies.at(v)))
      part.MarkOutput(copies.at(v));
  }
  EVOQ_TRY(part.Sort());
  EVOQ_TRY(InferTypes(part));
  return part;
}

namespace {

// The part of a graph that computes values, ready to run.
struct Runner {
  Graph part;
  RunFn run;  // empty: all of them are inputs

  Result<std::vector<Tensor>> Values(std::span<const Tensor> inputs,
                                     const std::vector<std::string>& values) const {
    std::vector<Tensor> outputs, all;
    if (run) {
      EVOQ_ASSIGN(outputs, run(inputs));
    }
    for (const std::string& name : values) {
      const ValueId v = part.FindValue(name);
      const bool given = v.valid() && part.IsInput(v);
      const std::vector<ValueId>& list = given ? part.inputs() : part.outputs();
      const auto at = static_cast<size_t>(std::ranges::find(list, v) - list.begin());
      if (at == list.size()) return Fail(ErrorCode::kInternal, "no operator computes {}", name);
      all.push_back(given ? inputs[at] : outputs[at]);
    }
    return all;
  }
};

}  // namespace

Status ObserveValues(std::span<const Graph* const> graphs, const std::vector<std::string>& values,
                     const MethodData& data,
                     const std::function<Status(const ValuesOfGraphs& all)>& use) {
  std::vector<Runner> runners;
  for (const Graph* graph : graphs) {
    Runner runner;
    EVOQ_ASSIGN(runner.part, PartThatComputes(*graph, values));
    if (!runner.part.outputs().empty()) {
      EVOQ_ASSIGN(runner.run, data.prepare(runner.part));
    }
    runners.push_back(std::move(runner));
  }
  int count = 0;
  EVOQ_TRY(data.samples([&](std::span<const Tensor> inputs) -> Status {
    ValuesOfGraphs all;
    for (const Runner& runner : runners) {
      EVOQ_ASSIGN(std::vector<Tensor> of_graph, runner.Values(inputs, values));
      all.push_back(std::move(of_graph));
    }
    ++count;
    return use(all);
  }));
  return count > 0 ? Status() : InvalidInput("no sample was given");
}

Status ObserveValues(const Graph& graph, const std::vector<std::string>& values,
                     const MethodData& data,
                     const std::function<Status(size_t which, const Tensor& value)>& use) {
  const Graph* const graphs[] = {&graph};
  return ObserveValues(graphs, values, data, [&](const ValuesOfGraphs& all) -> Status {
    for (size_t i = 0; i < values.size(); ++i) EVOQ_TRY(use(i, all[0][i]));
    return {};
  });
}

}  // namespace evoq
