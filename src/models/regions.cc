#include "models/regions.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/rows.h"
#include "compile/compile.h"
#include "graph/choices.h"
#include "models/region_stage.h"
#include "ops/control.h"
#include "passes/pass.h"
#include "reference/control.h"
#include "reference/definition.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// So many types of inputs get their stages at once; of further ones those that come again.
constexpr size_t kEagerStages = 8;
// Limits of one region. A state that grows from round to round brings new types in each, and the
// same ones again in the next run of the model.
constexpr size_t kMaxStages = 32, kMaxSeen = 256;
// Where a Program has so many multiply-accumulates, its definition takes longer than preparing it.
constexpr int64_t kHeavyMacs = 1 << 20;

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

}  // namespace

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

namespace {

// With the data of inputs that never change.
std::shared_ptr<const Graph> WithBound(Graph graph, const std::vector<Tensor>& bound) {
  const std::vector<ValueId> inputs = graph.inputs();
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].defined())
      graph.ReplaceUses(inputs[i], graph.AddConstant(graph.value(inputs[i]).name, bound[i]));
  }
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace

Region::Region(Graph graph, Form form, std::shared_ptr<RegionContext> context,
               const std::vector<Tensor>& bound)
    : Region(WithBound(std::move(graph), bound), form, std::move(context)) {}
Region::Region(std::shared_ptr<const Graph> graph, Form form,
               std::shared_ptr<RegionContext> context)
    : graph_(std::move(graph)), form_(form), context_(std::move(context)) {}
Region::~Region() = default;

namespace {

int64_t MacsOf(const Program& program) {
  int64_t macs = 0;
  for (const Step& step : program.steps) macs += step.macs;
  return macs;
}

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

Result<std::unique_ptr<RegionStage>> Region::Prepare(std::span<const Tensor> inputs) const {
  EVOQ_ASSIGN(const Graph graph, Specialize(*graph_, form_ == Form::kRaw, inputs));
  const Cut cut(graph);
  auto stage = std::make_unique<RegionStage>();
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
    RegionStage::Open open;
    open.node = graph.node(id);
    open.op = FindOp(open.node);
    open.definition = FindDefinition(open.node);
    EVOQ_CHECK(open.op != nullptr && open.definition != nullptr, "{}", NodeLabel(open.node));
    for (ValueId in : open.node.inputs) open.inputs.push_back(slot(in));
    for (ValueId out : open.node.outputs) {
      open.outputs.push_back(slot(out));
      open.output_types.push_back(out.valid() ? graph.value(out).type : TensorType());
    }
    open.found_types = open.output_types;
    for (const auto& body : open.node.bodies) {
      Graph inner = *body;
      InheritChoices(graph, inner);
      open.bodies.push_back(std::make_unique<Region>(std::move(inner), Form::kRaw, context_,
                                                     Captured(graph, open.node, *body)));
    }
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
        const bool read = std::any_of(users.begin(), users.end(),
                                      [&](NodeId user) { return !inside.count(user); });
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
    EVOQ_ASSIGN(const Graph bound, Bound(part.graph, {}, kReference));
    EVOQ_ASSIGN(const Model model, PackModel(std::move(part.graph), bound, context_->packs.get()));
    EVOQ_ASSIGN(Program program, Compile(model, kReference, {}, {}, context_->packs.get()));
    ExecutorOptions options;
    options.isa = context_->isa;
    options.pool = context_->pool;
    EVOQ_ASSIGN(stage->executor,
                Executor::Create(std::make_shared<const Program>(std::move(program)), options));
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
  EVOQ_ASSIGN(RegionStage* const stage, StageFor(std::move(key), inputs));
  return stage != nullptr ? stage->Run(inputs) : EvaluateGraph(*graph_, inputs);
}

// The types, among those with or without a stage, that did not come for the longest time.
std::map<Region::Key, Region::Seen>::iterator Region::Oldest(bool with_stage) {
  auto oldest = seen_.end();
  for (auto it = seen_.begin(); it != seen_.end(); ++it) {
    if ((it->second.stage != nullptr) == with_stage &&
        (oldest == seen_.end() || it->second.last < oldest->second.last))
      oldest = it;
  }
  return oldest;
}

// Whether types without a stage get one; `again`: they came before, `unused` runs ago.
bool Region::IsWorthAStage(bool again, int64_t unused) const {
  if (stages_ < kEagerStages || macs_ >= kHeavyMacs) return true;
  if (!again || stages_ < kMaxStages) return again;
  // More types in turn than there is room for would each find their stage gone: one gives way to
  // types that come more often.
  const auto used = [&](const auto& type) {
    return type.second.stage == nullptr || runs_ - type.second.last <= unused;
  };
  return !std::all_of(seen_.begin(), seen_.end(), used);
}

// The stage that was not used for the longest time goes where there are as many as may be.
void Region::MakeRoom() {
  if (stages_ < kMaxStages) return;
  Oldest(/*with_stage=*/true)->second.stage.reset();
  --stages_;
}

// The stage for inputs of these types; null where they are better run by definition.
Result<RegionStage*> Region::StageFor(Key key, std::span<const Tensor> inputs) {
  ++runs_;
  auto found = seen_.find(key);
  const bool again = found != seen_.end();
  const int64_t unused = again ? runs_ - found->second.last : 0;
  if (!again) {
    EVOQ_TRY(CheckInputs(*graph_, inputs));
    if (seen_.size() >= kMaxSeen) seen_.erase(Oldest(/*with_stage=*/false));
    found = seen_.emplace(std::move(key), Seen()).first;
  }
  Seen& seen = found->second;
  seen.last = runs_;
  if (seen.stage != nullptr) return seen.stage.get();
  if (!IsWorthAStage(again, unused)) return nullptr;
  MakeRoom();
  const auto start = Clock::now();
  const double inner = context_->prepare_ms;
  EVOQ_ASSIGN(seen.stage, Prepare(inputs));
  context_->prepare_ms = inner + static_cast<double>(NsSince(start)) / 1e6;
  ++context_->prepared;
  ++stages_;
  if (seen.stage->executor != nullptr)
    macs_ = std::max(macs_, MacsOf(seen.stage->executor->program()));
  return seen.stage.get();
}

}  // namespace evoq
