// What the stages of a region did: their steps joined to one program, times and memory.
#include <algorithm>
#include <map>
#include <tuple>

#include "models/region_stage.h"

namespace evoq {

// Joins nodes of stages to one graph. A node that several stages of a region have (a loop's body,
// prepared for several types) stands once for each kernel that computes it.
class RegionTracer {
 public:
  ValueId AddInput(const std::string& name, const TensorType& type) {
    return graph_.AddInput(name, type);
  }
  ValueId AddValue(const std::string& name, const TensorType& type) {
    return graph_.AddValue(name, type);
  }
  ValueId AddConstant(const std::string& name, const Tensor& tensor) {
    return graph_.AddConstant(name, tensor);
  }
  void MarkOutput(ValueId id) {
    if (id.valid() && !graph_.value(id).is_constant() && !graph_.IsOutput(id))
      graph_.MarkOutput(id);
  }

  // A node whose inputs are this graph's; `types` are those of its outputs, `names` what they are
  // called. Its outputs become this graph's: those of the node that stands for it already, if there
  // is one.
  NodeId AddNode(Node node, const std::string& kernel, std::span<const std::string> names,
                 std::span<const TensorType> types) {
    const auto [it, fresh] = nodes_.emplace(std::tuple(node.name, node.op, kernel), NodeId{});
    if (!fresh) return it->second;
    node.bodies.clear();
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) node.outputs[i] = graph_.AddValue(names[i], types[i]);
    }
    return it->second = graph_.AddNode(std::move(node));
  }
  const Node& node(NodeId id) const { return graph_.node(id); }

  // A step that computes node `id`, which ran `runs` times.
  int AddStep(NodeId id, const Step& step, const KernelPlan& plan, int64_t runs) {
    const auto [it, fresh] = rows_.emplace(id, static_cast<int>(trace_.runs.size()));
    if (fresh) {
      trace_.program.steps.push_back(step);
      trace_.program.steps.back().node = id;
      trace_.program.steps.back().macs = trace_.program.steps.back().bytes = 0;
      trace_.plans.push_back(plan);
      trace_.runs.push_back(0);
    }
    const auto row = static_cast<size_t>(it->second);
    trace_.program.steps[row].macs += step.macs * runs;
    trace_.program.steps[row].bytes += step.bytes * runs;
    trace_.runs[row] += runs;
    return it->second;
  }

  Result<RegionTrace> Finish() {
    EVOQ_TRY(graph_.Sort());
    trace_.program.graph = std::make_shared<const Graph>(std::move(graph_));
    return std::move(trace_);
  }

 private:
  Graph graph_;
  RegionTrace trace_;
  std::map<std::tuple<std::string, std::string, std::string>, NodeId> nodes_;
  std::map<NodeId, int> rows_;
};

namespace {

// The steps of a stage's program, views among them: they link what computes. `at`: by slot.
void AddProgram(RegionStage& stage, const std::string& prefix, std::vector<ValueId>& at,
                RegionTracer& tracer) {
  const Program& program = stage.executor->program();
  const Graph& graph = *program.graph;
  std::vector<ValueId> to(static_cast<size_t>(graph.value_count()));
  for (size_t i = 0; i < stage.program_inputs.size(); ++i)
    to[graph.inputs()[i].index] = at[stage.program_inputs[i]];
  std::map<NodeId, size_t> step_of;
  for (size_t s = 0; s < program.steps.size(); ++s) step_of[program.steps[s].node] = s;
  stage.rows.assign(program.steps.size(), -1);
  for (NodeId id : graph.order()) {
    Node node = graph.node(id);
    const std::vector<ValueId> outputs = node.outputs;
    const auto step = step_of.find(id);
    node.name = prefix + node.name;
    for (ValueId& in : node.inputs) {
      if (!in.valid()) continue;
      const Value& value = graph.value(in);
      ValueId& mapped = to[in.index];
      if (!mapped.valid())
        mapped = value.is_constant() ? tracer.AddConstant(value.name, value.constant)
                                     : tracer.AddValue(value.name, value.type);
      in = mapped;
    }
    std::vector<std::string> names(outputs.size());
    std::vector<TensorType> types(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].valid()) continue;
      names[i] = prefix + graph.value(outputs[i]).name;
      types[i] = graph.value(outputs[i]).type;
    }
    const NodeId added = tracer.AddNode(
        std::move(node), step == step_of.end() ? "" : program.steps[step->second].decision.kernel,
        names, types);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].valid()) to[outputs[i].index] = tracer.node(added).outputs[i];
    }
    if (step == step_of.end()) continue;
    stage.rows[step->second] = tracer.AddStep(added, program.steps[step->second],
                                              stage.executor->plans()[step->second], stage.runs);
  }
  for (size_t i = 0; i < stage.program_outputs.size(); ++i)
    at[stage.program_outputs[i]] = to[graph.outputs()[i].index];
}

}  // namespace

void Region::AddTo(RegionTracer& tracer, const std::string& prefix, std::span<const ValueId> inputs,
                   std::vector<ValueId>& outputs) {
  outputs.clear();
  for (const auto& [key, seen] : seen_) {
    RegionStage* const stage = seen.stage.get();
    if (stage == nullptr || stage->runs == 0) continue;
    std::vector<ValueId> at(stage->slots.size());
    for (size_t i = 0; i < stage->inputs.size() && i < inputs.size(); ++i)
      at[stage->inputs[i]] = inputs[i];
    const auto read = [&](int slot, const TensorType& type) {
      if (slot >= 0 && !at[slot].valid())
        at[slot] = stage->slots[slot].defined()
                       ? tracer.AddConstant(prefix + "constant", stage->slots[slot])
                       : tracer.AddValue(prefix + "value", type);
      return slot < 0 ? ValueId() : at[slot];
    };
    if (stage->executor != nullptr) {
      for (size_t i = 0; i < stage->program_inputs.size(); ++i)
        read(stage->program_inputs[i], stage->executor->input_types()[i]);
      AddProgram(*stage, prefix, at, tracer);
    }
    for (RegionStage::Open& open : stage->open) {
      Node node = open.node;
      node.name = prefix + node.name;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        node.inputs[i] = read(open.inputs[i], TensorType());
      std::vector<std::string> names(node.outputs.size());
      for (size_t i = 0; i < names.size(); ++i)
        names[i] = fmt::format("{}{}", node.name, i == 0 ? "" : fmt::format(".{}", i));
      Step step;
      step.decision.kernel = open.bodies.empty() ? kReferenceKernel : kSubgraphKernel;
      step.decision.precision = Precision::kAny;
      const std::string name = node.name;
      const NodeId added =
          tracer.AddNode(std::move(node), step.decision.kernel, names, open.found_types);
      for (size_t i = 0; i < open.outputs.size(); ++i) {
        if (open.outputs[i] >= 0) at[open.outputs[i]] = tracer.node(added).outputs[i];
      }
      open.row = tracer.AddStep(added, step, {}, open.runs);
      std::vector<ValueId> results;
      for (const auto& body : open.bodies) body->AddTo(tracer, name + "/", {}, results);
    }
    if (stage->rest != nullptr) {
      std::vector<ValueId> given, results;
      for (int slot : stage->rest_inputs) given.push_back(read(slot, TensorType()));
      stage->rest->AddTo(tracer, prefix, given, results);
      for (size_t i = 0; i < results.size(); ++i) at[stage->rest_outputs[i]] = results[i];
    }
    outputs.clear();
    for (int slot : stage->outputs) outputs.push_back(slot < 0 ? ValueId() : at[slot]);
  }
}

Result<RegionTrace> Region::Trace() {
  RegionTracer tracer;
  std::vector<ValueId> inputs, outputs;
  for (ValueId id : graph_->inputs())
    inputs.push_back(tracer.AddInput(graph_->value(id).name, graph_->value(id).type));
  AddTo(tracer, "", inputs, outputs);
  for (ValueId id : outputs) tracer.MarkOutput(id);
  EVOQ_ASSIGN(RegionTrace trace, tracer.Finish());
  trace.program.weight_bytes = weight_bytes();
  trace.program.arenas[0].bytes = trace.program.live_bytes = arena_bytes();
  return trace;
}

int64_t Region::AddTimes(std::span<int64_t> step_ns) const {
  int64_t sum = 0;
  for (const auto& [key, seen] : seen_) {
    const RegionStage* const stage = seen.stage.get();
    if (stage == nullptr) continue;
    for (size_t i = 0; i < stage->rows.size(); ++i) {
      step_ns[static_cast<size_t>(stage->rows[i])] += stage->total_ns[i];
      sum += stage->total_ns[i];
    }
    for (const RegionStage::Open& open : stage->open) {
      int64_t inner = 0;
      for (const auto& body : open.bodies) inner += body->AddTimes(step_ns);
      const int64_t own = open.row < 0 ? 0 : std::max<int64_t>(open.ns - inner, 0);
      if (open.row >= 0) step_ns[static_cast<size_t>(open.row)] += own;
      sum += own + inner;
    }
    if (stage->rest != nullptr) sum += stage->rest->AddTimes(step_ns);
  }
  return sum;
}

Result<std::unique_ptr<RegionStage>> RegionStage::Another(
    const std::shared_ptr<RegionContext>& other) const {
  auto stage = std::make_unique<RegionStage>();
  stage->context = other;
  stage->slots = slots;
  stage->variable = variable;
  stage->inputs = inputs;
  stage->outputs = outputs;
  if (executor != nullptr) {
    EVOQ_ASSIGN(stage->executor, executor->Another(other->pool));
  }
  stage->program_inputs = program_inputs;
  stage->program_outputs = program_outputs;
  stage->step_ns.resize(step_ns.size());
  stage->total_ns.resize(total_ns.size());
  stage->rows = rows;
  for (const Open& open : this->open) {
    Open copy{.node = open.node,
              .op = open.op,
              .definition = open.definition,
              .output_types = open.output_types,
              .found_types = open.found_types,
              .inputs = open.inputs,
              .outputs = open.outputs,
              .bodies = {},
              .row = open.row};
    for (const auto& body : open.bodies) {
      EVOQ_ASSIGN(copy.bodies.emplace_back(), body->Another(other));
    }
    stage->open.push_back(std::move(copy));
  }
  if (rest != nullptr) {
    EVOQ_ASSIGN(stage->rest, rest->Another(other));
  }
  stage->rest_inputs = rest_inputs;
  stage->rest_outputs = rest_outputs;
  return stage;
}

Result<std::unique_ptr<Region>> Region::Another(
    const std::shared_ptr<RegionContext>& context) const {
  auto region = std::unique_ptr<Region>(new Region(graph_, form_, context));
  for (const auto& [key, seen] : seen_) {
    Seen& copy = region->seen_[key];
    copy.last = seen.last;
    if (seen.stage == nullptr) continue;
    EVOQ_ASSIGN(copy.stage, seen.stage->Another(context));
  }
  region->stages_ = stages_;
  region->macs_ = macs_;
  region->runs_ = runs_;
  return region;
}

void Region::Collect(const std::string& prefix, std::vector<RegionStep>& steps) const {
  for (const auto& [key, seen] : seen_) {
    RegionStage* const stage = seen.stage.get();
    if (stage == nullptr) continue;
    for (size_t i = 0; i < stage->total_ns.size(); ++i) {
      const Program& program = stage->executor->program();
      const Step& step = program.steps[i];
      const Node& node = program.graph->node(step.node);
      steps.push_back({prefix + node.name, node.op, step.decision.kernel, step.decision.precision,
                       step.macs, step.bytes, stage->total_ns[i], stage->runs});
    }
    for (const RegionStage::Open& open : stage->open) {
      const size_t at = steps.size();
      steps.push_back({prefix + open.node.name, open.node.op,
                       open.bodies.empty() ? kReferenceKernel : kSubgraphKernel, Precision::kAny, 0,
                       0, open.ns, open.runs});
      for (const auto& body : open.bodies) body->Collect(prefix + open.node.name + "/", steps);
      int64_t inner = 0;
      for (size_t i = at + 1; i < steps.size(); ++i) inner += steps[i].ns;
      steps[at].ns = std::max<int64_t>(open.ns - inner, 0);
    }
    if (stage->rest != nullptr) stage->rest->Collect(prefix, steps);
  }
}

void Region::ResetTimes() {
  for (const auto& [key, seen] : seen_) {
    RegionStage* const stage = seen.stage.get();
    if (stage == nullptr) continue;
    std::fill(stage->total_ns.begin(), stage->total_ns.end(), 0);
    stage->runs = 0;
    for (RegionStage::Open& open : stage->open) {
      open.ns = open.runs = 0;
      for (const auto& body : open.bodies) body->ResetTimes();
    }
    if (stage->rest != nullptr) stage->rest->ResetTimes();
  }
}

int64_t Region::arena_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, seen] : seen_) {
    RegionStage* const stage = seen.stage.get();
    if (stage == nullptr) continue;
    if (stage->executor != nullptr) bytes += stage->executor->arena_bytes();
    for (const RegionStage::Open& open : stage->open) {
      for (const auto& body : open.bodies) bytes += body->arena_bytes();
    }
    if (stage->rest != nullptr) bytes += stage->rest->arena_bytes();
  }
  return bytes;
}

void Region::AddWeights(std::map<const std::byte*, int64_t>& bytes) const {
  for (const auto& [key, seen] : seen_) {
    const RegionStage* const stage = seen.stage.get();
    if (stage == nullptr) continue;
    if (stage->executor != nullptr) {
      const Graph& graph = *stage->executor->program().graph;
      for (NodeId id : graph.order()) {
        for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
          if (const Tensor* constant = graph.ConstantInput(graph.node(id), i))
            bytes[constant->raw()] = static_cast<int64_t>(constant->bytes());
        }
      }
    }
    for (const RegionStage::Open& open : stage->open) {
      for (const auto& body : open.bodies) body->AddWeights(bytes);
    }
    if (stage->rest != nullptr) stage->rest->AddWeights(bytes);
  }
}

int64_t Region::weight_bytes() const {
  std::map<const std::byte*, int64_t> bytes;
  AddWeights(bytes);
  int64_t sum = 0;
  for (const auto& [data, size] : bytes) sum += size;
  return sum;
}

}  // namespace evoq
