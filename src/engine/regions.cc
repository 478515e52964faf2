#include "engine/regions.h"

#include <algorithm>
#include <chrono>

#include "compile/compile.h"
#include "ops/control.h"
#include "ops/driver.h"
#include "passes/pass.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NsSince(Clock::time_point start) { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count(); }

// So many types of inputs get their stages at once; of further ones those that come again (a state that grows from round to round
// never does).
constexpr size_t kEagerStages = 8;

bool IsNumbers(const TensorType& type) { return type.is_tensor() && type.dtype != DType::kString; }

// Whether no types of inputs bring the node into a Program.
bool AlwaysOpen(const Graph& graph, const Node& node) {
  const auto other = [&](ValueId id) { return id.valid() && !IsNumbers(graph.value(id).type); };
  return !node.bodies.empty() || std::any_of(node.inputs.begin(), node.inputs.end(), other) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), other);
}

bool HasSizes(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return !id.valid() || graph.value(id).type.bytes(); });
}

// The part of a graph that `nodes`, in execution order, are: its inputs are what they read of the rest, its outputs `outputs`.
struct Part {
  Graph graph;
  std::vector<ValueId> inputs;  // ids of the whole
};

Part Extract(const Graph& whole, const std::vector<NodeId>& nodes, const std::vector<ValueId>& outputs) {
  Part part;
  part.graph.name = whole.name;
  std::vector<ValueId> to(static_cast<size_t>(whole.value_count()));
  for (NodeId id : nodes) {
    for (ValueId out : whole.node(id).outputs) {
      if (out.valid()) to[out.index] = part.graph.AddValue(whole.value(out).name, whole.value(out).type);
    }
  }
  for (NodeId id : nodes) {
    Node node = whole.node(id);
    for (ValueId& in : node.inputs) {
      if (!in.valid()) continue;
      const Value& value = whole.value(in);
      ValueId& mapped = to[in.index];
      if (!mapped.valid() && value.is_constant()) mapped = part.graph.AddConstant(value.name, value.constant);
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
  const auto passes = AllPasses();
  const auto inline_if = std::find_if(passes.begin(), passes.end(), [](const PassDef* p) { return p->name == std::string_view("inline-if"); });
  EVOQ_CHECK(inline_if != passes.end());
  for (int total = 0;;) {
    EVOQ_ASSIGN(const int changes, RunPass(graph, **inline_if));
    if (changes == 0) return total > 0 ? RunPasses(graph, Stage::kLower) : Status();
    total += changes;
    EVOQ_TRY(FoldKnown(graph));
  }
}

// The data of a subgraph's inputs that are constants of the graph around it: captured values, which are the last inputs of
// both; undefined for the others.
std::vector<Tensor> Captured(const Graph& graph, const Node& node, const Graph& body) {
  std::vector<Tensor> bound(body.inputs().size());
  const size_t count = node.op == "If" ? node.inputs.size() - 1 : static_cast<size_t>(node.attrs.Int("captured", 0));
  for (size_t i = 1; i <= std::min(count, bound.size()); ++i) {
    const ValueId id = node.inputs[node.inputs.size() - i];
    if (id.valid() && graph.value(id).constant.layout().empty()) bound[bound.size() - i] = graph.value(id).constant;
  }
  return bound;
}

// How a graph falls apart: what is computed at once, what is next, and what waits.
struct Cut {
  std::vector<NodeId> known, open, rest;

  explicit Cut(const Graph& graph) {
    enum Where { kOpenLater, kNow, kByOpen };  // of values: computed in `rest`, by an input or a known node, by an open one
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

}  // namespace

// Values that a stage hands from part to part have slots.
struct Region::Stage {
  struct Open {
    Node node;
    std::vector<TensorType> output_types;
    std::vector<int> inputs, outputs;  // slots; -1: omitted
    std::vector<std::unique_ptr<Region>> bodies;
    int64_t ns = 0, runs = 0;
  };

  std::shared_ptr<RegionContext> context;
  std::vector<Tensor> slots;  // constants stay, the others are of one run
  std::vector<int> variable;  // slots that are emptied after a run
  std::vector<int> inputs, outputs;
  std::unique_ptr<Executor> executor;  // null: no node has known sizes
  std::vector<int> program_inputs, program_outputs;
  std::vector<int64_t> step_ns, total_ns;
  int64_t runs = 0;
  std::vector<Open> open;
  std::unique_ptr<Region> rest;  // null: nothing is left
  std::vector<int> rest_inputs, rest_outputs;

  Status RunProgram();
  Status RunOpen(Open& step);
  Status RunRest();
  Result<std::vector<Tensor>> Run(std::span<const Tensor> given);
  std::vector<Tensor> Read(std::span<const int> from) const;
};

std::vector<Tensor> Region::Stage::Read(std::span<const int> from) const {
  std::vector<Tensor> tensors;
  tensors.reserve(from.size());
  for (int slot : from) tensors.push_back(slot < 0 ? Tensor() : slots[slot]);
  return tensors;
}

Status Region::Stage::RunProgram() {
  const std::vector<Tensor> given = Read(program_inputs);
  std::vector<Tensor> results;
  for (const TensorType& type : executor->output_types()) results.push_back(Tensor::Allocate(type));
  if (context->timed) {
    EVOQ_TRY(executor->RunTimed(given, results, step_ns));
    for (size_t i = 0; i < step_ns.size(); ++i) total_ns[i] += step_ns[i];
    ++runs;
  } else {
    EVOQ_TRY(executor->Run(given, results));
  }
  for (size_t i = 0; i < results.size(); ++i) slots[program_outputs[i]] = std::move(results[i]);
  return {};
}

Status Region::Stage::RunOpen(Open& step) {
  const auto start = Clock::now();
  const std::vector<Tensor> given = Read(step.inputs);
  const auto run_body = [&](size_t body, std::span<const Tensor> inputs) { return step.bodies[body]->Run(inputs); };
  EVOQ_ASSIGN(std::vector<Tensor> results, step.bodies.empty() ? EvaluateNode(step.node, given, step.output_types)
                                                               : EvaluateControl(step.node, given, step.output_types, run_body));
  for (size_t i = 0; i < step.outputs.size() && i < results.size(); ++i) {
    if (step.outputs[i] >= 0) slots[step.outputs[i]] = std::move(results[i]);
  }
  step.ns += NsSince(start);
  ++step.runs;
  return {};
}

Status Region::Stage::RunRest() {
  EVOQ_ASSIGN(std::vector<Tensor> results, rest->Run(Read(rest_inputs)));
  for (size_t i = 0; i < results.size(); ++i) slots[rest_outputs[i]] = std::move(results[i]);
  return {};
}

Result<std::vector<Tensor>> Region::Stage::Run(std::span<const Tensor> given) {
  for (size_t i = 0; i < inputs.size(); ++i) slots[inputs[i]] = given[i];
  Status status;
  if (executor != nullptr) status = RunProgram();
  for (size_t i = 0; status && i < open.size(); ++i) status = RunOpen(open[i]);
  if (status && rest != nullptr) status = RunRest();
  std::vector<Tensor> results = Read(outputs);
  for (int slot : variable) slots[slot] = Tensor();
  EVOQ_TRY(std::move(status));
  return results;
}

Region::Region(Graph graph, Form form, std::shared_ptr<RegionContext> context, const std::vector<Tensor>& bound)
    : graph_(std::move(graph)), form_(form), context_(std::move(context)) {
  const std::vector<ValueId> inputs = graph_.inputs();
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].defined()) graph_.ReplaceUses(inputs[i], graph_.AddConstant(graph_.value(inputs[i]).name, bound[i]));
  }
}
Region::~Region() = default;

namespace {

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

}  // namespace

Result<std::unique_ptr<Region::Stage>> Region::Prepare(std::span<const Tensor> inputs) const {
  EVOQ_ASSIGN(const Graph graph, Specialize(graph_, form_ == Form::kRaw, inputs));
  const Cut cut(graph);
  auto stage = std::make_unique<Stage>();
  stage->context = context_;
  std::vector<int> slot_of(static_cast<size_t>(graph.value_count()), -1);
  const auto slot = [&](ValueId id) {
    if (!id.valid()) return -1;
    if (slot_of[id.index] < 0) {
      slot_of[id.index] = static_cast<int>(stage->slots.size());
      stage->slots.push_back(graph.value(id).constant);
      if (!graph.value(id).is_constant()) stage->variable.push_back(slot_of[id.index]);
    }
    return slot_of[id.index];
  };
  for (ValueId id : graph.inputs()) stage->inputs.push_back(slot(id));
  for (ValueId id : graph.outputs()) stage->outputs.push_back(slot(id));
  for (NodeId id : cut.open) {
    Stage::Open open{.node = graph.node(id), .output_types = {}, .inputs = {}, .outputs = {}, .bodies = {}};
    for (ValueId in : open.node.inputs) open.inputs.push_back(slot(in));
    for (ValueId out : open.node.outputs) {
      open.outputs.push_back(slot(out));
      open.output_types.push_back(out.valid() ? graph.value(out).type : TensorType());
    }
    for (const auto& body : open.node.bodies) open.bodies.push_back(std::make_unique<Region>(*body, Form::kRaw, context_, Captured(graph, open.node, *body)));
    stage->open.push_back(std::move(open));
  }
  // What leaves a part: values that something outside it reads.
  const auto leaving = [&](const std::vector<NodeId>& nodes) {
    std::set<NodeId> inside(nodes.begin(), nodes.end());
    std::vector<ValueId> values;
    for (NodeId id : nodes) {
      for (ValueId out : graph.node(id).outputs) {
        if (!out.valid()) continue;
        const auto& users = graph.value(out).users;
        const bool read = std::any_of(users.begin(), users.end(), [&](NodeId user) { return !inside.count(user); });
        if (read || graph.IsOutput(out)) values.push_back(out);
      }
    }
    return values;
  };
  if (!cut.known.empty()) {
    const std::vector<ValueId> results = leaving(cut.known);
    Part part = Extract(graph, cut.known, results);
    EVOQ_TRY(part.graph.Sort());
    for (ValueId id : part.inputs) stage->program_inputs.push_back(slot(id));
    for (ValueId id : results) stage->program_outputs.push_back(slot(id));
    EVOQ_ASSIGN(const Model model, PackModel(std::move(part.graph)));
    EVOQ_ASSIGN(Program program, Compile(model));
    ExecutorOptions options;
    options.isa = context_->isa;
    options.pool = context_->pool;
    EVOQ_ASSIGN(stage->executor, Executor::Create(std::make_shared<const Program>(std::move(program)), options));
    stage->step_ns.resize(stage->executor->program().steps.size());
    stage->total_ns.resize(stage->step_ns.size());
  }
  if (!cut.rest.empty()) {
    const std::vector<ValueId> results = leaving(cut.rest);
    Part part = Extract(graph, cut.rest, results);
    EVOQ_TRY(part.graph.Sort());
    for (ValueId id : part.inputs) stage->rest_inputs.push_back(slot(id));
    for (ValueId id : results) stage->rest_outputs.push_back(slot(id));
    stage->rest = std::make_unique<Region>(std::move(part.graph), Form::kLowered, context_);
  }
  return stage;
}

Result<std::vector<Tensor>> Region::Run(std::span<const Tensor> inputs) {
  Key key;
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      key.push_back(-1);  // CheckInputs names it
      continue;
    }
    key.push_back(static_cast<int64_t>(t.type().kind) * 256 + static_cast<int64_t>(t.dtype()));
    if (!t.type().is_tensor()) continue;
    key.push_back(t.shape().rank());
    for (const Dim& dim : t.shape().dims()) key.push_back(dim.value);
  }
  auto found = stages_.find(key);
  if (found == stages_.end()) {
    EVOQ_TRY(CheckInputs(graph_, inputs));
    if (stages_.size() >= kEagerStages && seen_.insert(key).second) return EvaluateGraph(graph_, inputs);
    const auto start = Clock::now();
    const double inner = context_->prepare_ms;
    EVOQ_ASSIGN(auto stage, Prepare(inputs));
    context_->prepare_ms = inner + static_cast<double>(NsSince(start)) / 1e6;
    ++context_->prepared;
    found = stages_.emplace(std::move(key), std::move(stage)).first;
  }
  return found->second->Run(inputs);
}

void Region::Collect(const std::string& prefix, std::vector<RegionStep>& steps) const {
  for (const auto& [key, stage] : stages_) {
    for (size_t i = 0; i < stage->total_ns.size(); ++i) {
      const Program& program = stage->executor->program();
      const Step& step = program.steps[i];
      const Node& node = program.graph->node(step.node);
      steps.push_back({prefix + node.name, node.op, step.decision.kernel, step.decision.precision, step.macs, step.bytes, stage->total_ns[i], stage->runs});
    }
    for (const Stage::Open& open : stage->open) {
      steps.push_back({prefix + open.node.name, open.node.op, open.bodies.empty() ? kReferenceKernel : "subgraph", "any", 0, 0, open.ns, open.runs});
      for (const auto& body : open.bodies) body->Collect(prefix + open.node.name + "/", steps);
    }
    if (stage->rest != nullptr) stage->rest->Collect(prefix, steps);
  }
}

void Region::ResetTimes() {
  for (const auto& [key, stage] : stages_) {
    std::fill(stage->total_ns.begin(), stage->total_ns.end(), 0);
    stage->runs = 0;
    for (Stage::Open& open : stage->open) {
      open.ns = open.runs = 0;
      for (const auto& body : open.bodies) body->ResetTimes();
    }
    if (stage->rest != nullptr) stage->rest->ResetTimes();
  }
}

int64_t Region::arena_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, stage] : stages_) {
    if (stage->executor != nullptr) bytes += stage->executor->arena_bytes();
    for (const Stage::Open& open : stage->open) {
      for (const auto& body : open.bodies) bytes += body->arena_bytes();
    }
    if (stage->rest != nullptr) bytes += stage->rest->arena_bytes();
  }
  return bytes;
}

int64_t Region::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, stage] : stages_) {
    if (stage->executor != nullptr) bytes += stage->executor->program().weight_bytes;
    for (const Stage::Open& open : stage->open) {
      for (const auto& body : open.bodies) bytes += body->weight_bytes();
    }
    if (stage->rest != nullptr) bytes += stage->rest->weight_bytes();
  }
  return bytes;
}

}  // namespace evoq
