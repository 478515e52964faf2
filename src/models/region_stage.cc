#include "models/region_stage.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/rows.h"
#include "compile/compile.h"
#include "graph/choices.h"
#include "ops/control.h"
#include "passes/pass.h"
#include "reference/control.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// Whether no types of inputs bring the node into a Program.
bool AlwaysOpen(const Graph& graph, const Node& node) {
  const auto other = [&](ValueId id) { return id.valid() && !IsNumbers(graph.value(id).type); };
  return !node.bodies.empty() || std::any_of(node.inputs.begin(), node.inputs.end(), other) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), other);
}

bool HasSizes(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return !id.valid() || graph.value(id).type.bytes(); });
}

// The part of a graph that `nodes`, in execution order, are: its inputs are what they read of the
// rest, its outputs `outputs`.
struct Part {
  Graph graph;
  std::vector<ValueId> inputs;  // ids of the whole
};

Part Extract(const Graph& whole, const std::vector<NodeId>& nodes,
             const std::vector<ValueId>& outputs) {
  Part part;
  part.graph.name = whole.name;
  InheritChoices(whole, part.graph);
  std::vector<ValueId> to(static_cast<size_t>(whole.value_count()));
  for (NodeId id : nodes) {
    for (ValueId out : whole.node(id).outputs) {
      if (out.valid())
        to[out.index] = part.graph.AddValue(whole.value(out).name, whole.value(out).type);
    }
  }
  for (NodeId id : nodes) {
    Node node = whole.node(id);
    for (ValueId& in : node.inputs) {
      if (!in.valid()) continue;
      const Value& value = whole.value(in);
      ValueId& mapped = to[in.index];
      if (!mapped.valid() && value.is_constant())
        mapped = part.graph.AddConstant(value.name, value.constant);
      if (!mapped.valid()) {
        mapped = part.graph.AddInput(value.name, value.type);
        part.inputs.push_back(in);
      }
      in = mapped;
    }
    for (ValueId& out : node.outputs) {
      if (out.valid()) out = to[out.index];
    }
    part.graph.AddNode(std::move(node));
  }
  for (ValueId out : outputs) part.graph.MarkOutput(to[out.index]);
  return part;
}

// Branches whose condition is known by now become part of the graph.
Status InlineBranches(Graph& graph) {
  const PassDef* inline_if = FindRow(AllPasses(), "inline-if");
  EVOQ_CHECK(inline_if != nullptr);
  for (int total = 0;;) {
    EVOQ_ASSIGN(const int changes, RunPass(graph, *inline_if));
    if (changes == 0) return total > 0 ? RunPasses(graph, Stage::kLower) : Status();
    total += changes;
    EVOQ_TRY(FoldKnown(graph));
  }
}

// The data of a subgraph's inputs that are constants of the graph around it: captured values, which
// are the last inputs of both; undefined for the others.
std::vector<Tensor> Captured(const Graph& graph, const Node& node, const Graph& body) {
  std::vector<Tensor> bound(body.inputs().size());
  const size_t count = CapturedInputs(node).value_or(0);
  for (size_t i = 1; i <= std::min(count, bound.size()); ++i) {
    const ValueId id = node.inputs[node.inputs.size() - i];
    if (id.valid() && graph.value(id).constant.layout().empty())
      bound[bound.size() - i] = graph.value(id).constant;
  }
  return bound;
}

// How a graph falls apart: what is computed at once, what is next, and what waits.
struct Cut {
  std::vector<NodeId> known, open, rest;

  explicit Cut(const Graph& graph) {
    enum Where {
      kOpenLater,
      kNow,
      kByOpen
    };  // of values: computed in `rest`, by an input or a known node, by an open one
    std::vector<Where> where(static_cast<size_t>(graph.value_count()), kNow);
    for (NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      Where inputs = kNow;
      for (ValueId in : node.inputs) {
        if (!in.valid() || graph.value(in).is_constant() || where[in.index] == kNow) continue;
        inputs = where[in.index] == kOpenLater || inputs == kOpenLater ? kOpenLater : kByOpen;
      }
      const bool always = AlwaysOpen(graph, node);
      const bool now = inputs == kNow && !always && HasSizes(graph, node);
      const bool next = !now && (inputs == kNow || (inputs == kByOpen && always));
      (now ? known : next ? open : rest).push_back(id);
      for (ValueId out : node.outputs) {
        if (out.valid()) where[out.index] = now ? kNow : next ? kByOpen : kOpenLater;
      }
    }
  }
};

// The graph for inputs of these types, with everything that follows from them.
Result<Graph> Specialize(Graph graph, bool raw, std::span<const Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) graph.SetType(graph.inputs()[i], inputs[i].type());
  EVOQ_TRY(FoldKnown(graph));
  if (raw) {
    EVOQ_TRY(RunPasses(graph, Stage::kOptimize));
    EVOQ_TRY(RunPasses(graph, Stage::kLower));
  }
  EVOQ_TRY(InlineBranches(graph));
  return graph.Compacted();
}

// Puts a stage together, from the graph and how it falls apart.
class StageMaker {
 public:
  StageMaker(const Graph& graph, std::shared_ptr<RegionContext> context)
      : graph_(graph),
        stage_(std::make_unique<RegionStage>()),
        slot_of_(static_cast<size_t>(graph.value_count()), -1) {
    stage_->context = std::move(context);
    stage_->inputs = Slots(graph.inputs());
    stage_->outputs = Slots(graph.outputs());
  }

  void AddOpen(NodeId id) {
    RegionStage::Open open;
    open.node = graph_.node(id);
    open.op = FindOp(open.node);
    open.definition = FindDefinition(open.node);
    EVOQ_CHECK(open.op != nullptr && open.definition != nullptr, "{}", NodeLabel(open.node));
    open.inputs = Slots(open.node.inputs);
    open.outputs = Slots(open.node.outputs);
    for (ValueId out : open.node.outputs)
      open.output_types.push_back(out.valid() ? graph_.value(out).type : TensorType());
    open.found_types = open.output_types;
    for (const auto& body : open.node.bodies) {
      Graph inner = *body;
      InheritChoices(graph_, inner);
      open.bodies.push_back(std::make_unique<Region>(std::move(inner), Region::Form::kRaw,
                                                     stage_->context,
                                                     Captured(graph_, open.node, *body)));
    }
    stage_->open.push_back(std::move(open));
  }

  Status AddProgram(const std::vector<NodeId>& known) {
    const std::vector<ValueId> results = Leaving(known);
    Part part = Extract(graph_, known, results);
    EVOQ_TRY(part.graph.Sort());
    stage_->program_inputs = Slots(part.inputs);
    stage_->program_outputs = Slots(results);
    const RegionContext& context = *stage_->context;
    EVOQ_ASSIGN(const Graph bound, Bound(part.graph, {}, kReference));
    EVOQ_ASSIGN(const Model model, PackModel(std::move(part.graph), bound, context.packs.get()));
    EVOQ_ASSIGN(Program program, Compile(model, kReference, {}, {}, context.packs.get()));
    ExecutorOptions options;
    options.isa = context.isa;
    options.pool = context.pool;
    EVOQ_ASSIGN(stage_->executor,
                Executor::Create(std::make_shared<const Program>(std::move(program)), options));
    stage_->step_ns.resize(stage_->executor->program().steps.size());
    stage_->total_ns.resize(stage_->step_ns.size());
    return {};
  }

  Status AddRest(const std::vector<NodeId>& rest) {
    const std::vector<ValueId> results = Leaving(rest);
    Part part = Extract(graph_, rest, results);
    EVOQ_TRY(part.graph.Sort());
    stage_->rest_inputs = Slots(part.inputs);
    stage_->rest_outputs = Slots(results);
    stage_->rest =
        std::make_unique<Region>(std::move(part.graph), Region::Form::kLowered, stage_->context);
    return {};
  }

  std::unique_ptr<RegionStage> Take() { return std::move(stage_); }

 private:
  int Slot(ValueId id) {
    if (!id.valid()) return -1;
    int& slot = slot_of_[static_cast<size_t>(id.index)];
    if (slot < 0) {
      slot = static_cast<int>(stage_->slots.size());
      stage_->slots.push_back(graph_.value(id).constant);
      if (!graph_.value(id).is_constant()) stage_->variable.push_back(slot);
    }
    return slot;
  }
  std::vector<int> Slots(std::span<const ValueId> ids) {
    std::vector<int> slots;
    for (ValueId id : ids) slots.push_back(Slot(id));
    return slots;
  }
  // What leaves a part: values that something outside it reads.
  std::vector<ValueId> Leaving(const std::vector<NodeId>& nodes) const {
    const std::set<NodeId> inside(nodes.begin(), nodes.end());
    std::vector<ValueId> values;
    for (NodeId id : nodes) {
      for (ValueId out : graph_.node(id).outputs) {
        if (!out.valid()) continue;
        const bool read = std::ranges::any_of(graph_.value(out).users,
                                              [&](NodeId user) { return !inside.contains(user); });
        if (read || graph_.IsOutput(out)) values.push_back(out);
      }
    }
    return values;
  }

  const Graph& graph_;
  std::unique_ptr<RegionStage> stage_;
  std::vector<int> slot_of_;  // of each value; -1: none yet
};

}  // namespace

Result<std::unique_ptr<RegionStage>> RegionStage::Make(
    const Graph& whole, Region::Form form, const std::shared_ptr<RegionContext>& context,
    std::span<const Tensor> inputs) {
  EVOQ_ASSIGN(const Graph graph, Specialize(whole, form == Region::Form::kRaw, inputs));
  const Cut cut(graph);
  StageMaker maker(graph, context);
  for (NodeId id : cut.open) maker.AddOpen(id);
  if (!cut.known.empty()) EVOQ_TRY(maker.AddProgram(cut.known));
  if (!cut.rest.empty()) EVOQ_TRY(maker.AddRest(cut.rest));
  return maker.Take();
}

std::vector<Tensor> RegionStage::Read(std::span<const int> from) const {
  std::vector<Tensor> tensors;
  tensors.reserve(from.size());
  for (int slot : from) tensors.push_back(slot < 0 ? Tensor() : slots[slot]);
  return tensors;
}

Status RegionStage::RunProgram() {
  const std::vector<Tensor> given = Read(program_inputs);
  std::vector<Tensor> results;
  for (const TensorType& type : executor->output_types()) results.push_back(Tensor::Allocate(type));
  if (context->timed) {
    EVOQ_TRY(executor->RunTimed(given, results, step_ns));
    for (size_t i = 0; i < step_ns.size(); ++i) total_ns[i] += step_ns[i];
  } else {
    EVOQ_TRY(executor->Run(given, results));
  }
  for (size_t i = 0; i < results.size(); ++i) slots[program_outputs[i]] = std::move(results[i]);
  return {};
}

Status RegionStage::RunOpen(Open& step) {
  const auto start = context->timed ? Clock::now() : Clock::time_point();
  const std::vector<Tensor> given = Read(step.inputs);
  const auto run_body = [&](size_t body, std::span<const Tensor> inputs) {
    return step.bodies[body]->Run(inputs);
  };
  EVOQ_ASSIGN(std::vector<Tensor> results,
              step.bodies.empty() ? EvaluateBy(*step.op, *step.definition, kReference, step.node,
                                               given, step.output_types)
                                  : EvaluateControl(step.node, given, step.output_types, run_body));
  const int64_t ns = context->timed ? NsSince(start) : 0;
  for (size_t i = 0; i < step.outputs.size() && i < results.size(); ++i) {
    if (context->timed && results[i].defined()) step.found_types[i] = results[i].type();
    if (step.outputs[i] >= 0) slots[step.outputs[i]] = std::move(results[i]);
  }
  step.ns += ns;
  step.runs += context->timed;
  return {};
}

Status RegionStage::RunRest() {
  EVOQ_ASSIGN(std::vector<Tensor> results, rest->Run(Read(rest_inputs)));
  for (size_t i = 0; i < results.size(); ++i) slots[rest_outputs[i]] = std::move(results[i]);
  return {};
}

Result<std::vector<Tensor>> RegionStage::Run(std::span<const Tensor> given) {
  // The values of a run do not outlive it, also when something throws.
  struct Emptied {
    RegionStage& stage;
    ~Emptied() {
      for (int slot : stage.variable) stage.slots[slot] = Tensor();
    }
  };
  const Emptied emptied{*this};
  for (size_t i = 0; i < inputs.size(); ++i) slots[inputs[i]] = given[i];
  runs += context->timed;
  Status status;
  if (executor != nullptr) status = RunProgram();
  for (size_t i = 0; status && i < open.size(); ++i) status = RunOpen(open[i]);
  if (status && rest != nullptr) status = RunRest();
  EVOQ_TRY(std::move(status));
  return Read(outputs);
}

}  // namespace evoq
