#include "compile/compile.h"

#include <algorithm>

#include "base/budget_scope.h"
#include "base/text.h"
#include "compile/choose.h"
#include "compile/place.h"
#include "compile/roots.h"
#include "compile/transfers.h"
#include "graph/moving_out.h"
#include "kernels/layout.h"
#include "ops/driver.h"
#include "ops/op.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

Result<Tensor> Remembered(PackCache* packs, const Tensor& constant, const std::string& kernel,
                          const Node& node, size_t i, const std::function<Result<Tensor>()>& make) {
  return packs == nullptr ? make() : packs->Get(constant, kernel, node.attrs, i, make);
}

// The form of plain constant input `i` that this kernel wants: packed, or as it is.
Result<Tensor> PackInput(const KernelDef& kernel, const NodeCall& args, size_t i) {
  EVOQ_ASSIGN(Tensor packed, kernel.pack(args.call, i));
  return packed.defined() ? packed : *args.constants[i];
}

template <typename Value>
const Value* Find(const std::map<std::string, Value>& map, const std::string& key) {
  auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

// What a model's plan says for these shapes; null where it says nothing.
struct Planned {
  const Plan* plan = nullptr;
  const Tuning* tuning = nullptr;

  Planned(const Model& model, const InputShapes& shapes, const TuningKey& key) {
    for (const Plan& p : model.plans) {
      if (p.shapes == shapes && plan == nullptr) plan = &p;
    }
    for (size_t i = 0; plan != nullptr && i < plan->tunings.size(); ++i) {
      if (plan->tunings[i].machine == key.machine && plan->tunings[i].threads == key.threads)
        tuning = &plan->tunings[i];
    }
  }
  const Decision* decision(const std::string& node) const {
    return plan ? Find(plan->decisions, node) : nullptr;
  }
  const StepTuning* step(const std::string& node) const {
    return tuning ? Find(tuning->steps, node) : nullptr;
  }
};

// The shapes that a compiled graph ended up with, by input name.
InputShapes ShapesOf(const Graph& graph) {
  InputShapes shapes;
  for (ValueId id : graph.inputs())
    shapes[graph.value(id).name] = graph.value(id).type.shape.sizes();
  return shapes;
}

// Which kernel packed this node's constants: the one of the model's first plan.
const std::string* PackedBy(const Model& model, const std::string& node) {
  if (model.plans.empty()) return nullptr;
  const Decision* decision = Find(model.plans[0].decisions, node);
  return decision == nullptr ? nullptr : &decision->kernel;
}

// Whether the kernel takes packed constant input `i` of the node as it lies: it says so, or packed
// it. Kernels only pack weights, input 1, and check their layout when they bind.
bool Reads(const Model& model, const Graph& graph, const Node& node, const KernelDef* kernel,
           size_t i, const Tensor& packed) {
  if (kernel == nullptr) return false;
  if (kernel->reads != nullptr)
    return kernel->reads(NodeCall(graph, node).call, i, packed.layout());
  const std::string* packed_by = PackedBy(model, node.name);
  return i == 1 && kernel->pack != nullptr && packed_by != nullptr && *packed_by == kernel->name;
}

// Brings the constants of a node into the layouts its kernel wants: those that were packed for
// another kernel, and those that the file keeps plain because packing would have made it larger.
// Whatever else a file holds packed is unpacked.
Status FitConstants(const Model& model, Graph& graph, NodeId id, const KernelDef* kernel,
                    PackCache* cache) {
  const std::string name = kernel != nullptr ? kernel->name : "";
  const bool wants = kernel != nullptr && kernel->pack != nullptr;
  for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
    const Tensor* constant = graph.ConstantInput(graph.node(id), i);
    if (constant == nullptr || (!wants && constant->layout().empty())) continue;
    if (!constant->layout().empty() && Reads(model, graph, graph.node(id), kernel, i, *constant))
      continue;
    const Tensor before = *constant;
    const std::string value = graph.value(graph.node(id).inputs[i]).name;
    const auto fit = [&]() -> Result<Tensor> {
      if (!before.layout().empty()) {
        EVOQ_ASSIGN(Tensor plain, ToPlain(before));
        if (!wants) return plain;
        graph.SetInput(id, i, graph.AddConstant(value, std::move(plain)));
      }
      return PackInput(*kernel, NodeCall(graph, graph.node(id)), i);
    };
    EVOQ_ASSIGN(Tensor fitted, Remembered(cache, before, name, graph.node(id), i, fit));
    if (fitted.raw() != before.raw())
      graph.SetInput(id, i, graph.AddConstant(value, std::move(fitted)));
  }
  return {};
}

// Whether a decision read from a file can be followed here and now: no backend that is preferred
// takes the node.
bool Holds(const Decision& decision, const Graph& graph, const Node& node, const Target& target) {
  const auto [found, kernel] = target.Find(decision.kernel);
  if (kernel == nullptr || node.op != kernel->op)
    return false;  // the reference: there may be a kernel by now
  const NodeCall args(graph, node);
  for (const Backend* backend : target.backends()) {
    if (backend == found) break;
    if (FirstThatTakes(*backend, node, args.call, nullptr) != nullptr) return false;
  }
  return MayCompute(*found, node, args.call) && !kernel->reject(args.call);
}

// What computes a step, by the model's plan where that can be followed.
Step Choose(const Graph& graph, NodeId id, const Planned& planned, const Target& target) {
  const Node& node = graph.node(id);
  Step step;
  step.node = id;
  const Decision* decision = planned.decision(node.name);
  if (decision != nullptr && Holds(*decision, graph, node, target)) {
    step.decision = *decision;
    if (const StepTuning* tuning = planned.step(node.name)) {
      step.tuning = *tuning;
      for (const Decision::Rejected& r : tuning->slower) step.decision.rejected.push_back(r);
    }
  } else {
    step.decision = ChooseKernel(graph, node, target);
  }
  const auto [backend, kernel] = target.Find(step.decision.kernel);
  step.kernel = kernel;
  step.backend = backend != nullptr ? backend : target.backends().back();
  step.writes = step.backend->memory;
  return step;
}

// The backend whose memory this is.
const Backend* OwnerOf(const MemorySpace* space, const Target& target) {
  for (const Backend* backend : target.backends()) {
    if (backend->memory == space) return backend;
  }
  EVOQ_CHECK(false, "{}", space->name);
}

// A step that copies: within the host's memory, or between it and one that is apart, which does it.
Step CopyStep(const Graph& graph, NodeId id, const std::vector<const MemorySpace*>& spaces,
              const Roots& roots, const Target& target) {
  Step step;
  step.node = id;
  step.decision.precision = Precision::kAny;
  step.writes = spaces[id.index];
  const NodeId producer = graph.value(roots[graph.node(id).inputs[0]]).producer;
  const MemorySpace* const reads = producer.valid() ? spaces[producer.index] : &kHostMemory;
  step.decision.kernel = reads == step.writes ? kCopyKernel : kTransferKernel;
  step.backend = OwnerOf(reads == &kHostMemory ? step.writes : reads, target);
  return step;
}

// The steps in order, with kernels chosen. Values are brought into the memories of those that read
// them, which adds nodes.
Result<std::vector<Step>> StepsOf(Graph& graph, const Planned& planned, const Target& target) {
  std::map<NodeId, Step> chosen;
  std::vector<const MemorySpace*> spaces;  // where a node's outputs are
  for (NodeId id : graph.order()) {
    if (spaces.size() <= static_cast<size_t>(id.index)) spaces.resize(id.index + 1, &kHostMemory);
    const Node& node = graph.node(id);
    if (Roots::IsView(graph, node) || Roots::IsCopy(graph, node)) continue;
    const Step& step = chosen[id] = Choose(graph, id, planned, target);
    spaces[id.index] = step.writes;
  }
  if (!target.HasOneMemory()) {
    EVOQ_ASSIGN(spaces, AddTransfers(graph, std::move(spaces)));
  }
  const Roots roots(graph);
  std::vector<Step> steps;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (Roots::IsCopy(graph, node)) {
      steps.push_back(CopyStep(graph, id, spaces, roots, target));
    } else if (!Roots::IsView(graph, node)) {
      steps.push_back(std::move(chosen.at(id)));
    }
  }
  return steps;
}

// As WhyNoProgram, of one node.
std::optional<std::string> WhyNoStep(const Graph& graph, const Node& node) {
  if (!node.bodies.empty())
    return fmt::format("{}: it has subgraphs, which are compiled when they are run",
                       NodeLabel(node));
  for (ValueId id : node.outputs) {
    if (!id.valid()) continue;
    const TensorType& type = graph.value(id).type;
    if (!IsNumbers(type))
      return fmt::format("{}: output {} is {}, expected a tensor of numbers", NodeLabel(node),
                         graph.value(id).name, type.ToString());
    if (type.dtype == DType::kUndefined || !type.bytes())
      return fmt::format(
          "{}: output {} has the type {}, expected a static shape; it depends on the data, so that "
          "it is known when it runs",
          NodeLabel(node), graph.value(id).name, type.ToString());
  }
  return std::nullopt;
}

// Binds `shapes`, or the first plan's where there are none: those come from the file, so that a
// misfit is the file's.
Status BindOrPlanned(const Model& model, const InputShapes& shapes, const Evaluator& evaluator,
                     Graph& graph) {
  if (!shapes.empty() || model.plans.empty()) return BindShapes(graph, shapes, evaluator);
  Status bound = BindShapes(graph, model.plans[0].shapes, evaluator);
  if (bound || bound.error().code() != ErrorCode::kUsage) return bound;
  return InvalidInput("plan 0: {}", bound.error().message());
}

// Sizes that the graph computes are known once its inputs' are: they become constants, which more
// kernels take, and take no steps.
Status FoldSizes(Graph& bound, const Evaluator& evaluator) {
  const auto asks = [&](NodeId id) { return GivesSizes(bound.node(id)); };
  return std::any_of(bound.order().begin(), bound.order().end(), asks) ? FoldKnown(bound, evaluator)
                                                                       : Status();
}

}  // namespace

bool IsNumbers(const TensorType& type) { return type.is_tensor() && type.dtype != DType::kString; }

Result<Graph> Bound(const Graph& lowered, const InputShapes& shapes, const Evaluator& evaluator) {
  const BudgetScope budget(Budget::ForFile(GraphBytes(lowered)));
  Graph bound = lowered;
  EVOQ_TRY(BindShapes(bound, shapes, evaluator));
  EVOQ_TRY(FoldSizes(bound, evaluator));
  return bound;
}

std::optional<std::string> WhyNoProgram(const Graph& bound) {
  for (const auto* ends : {&bound.inputs(), &bound.outputs()}) {
    for (ValueId id : *ends) {
      const Value& value = bound.value(id);
      if (!IsNumbers(value.type))
        return fmt::format("{} is {}, expected a tensor of numbers", value.name,
                           value.type.ToString());
    }
  }
  for (NodeId id : bound.order()) {
    if (auto why = WhyNoStep(bound, bound.node(id))) return why;
  }
  return std::nullopt;
}

Result<Model> PackModel(Graph lowered, const Evaluator& evaluator, const InputShapes& shapes,
                        const Target& target) {
  EVOQ_ASSIGN(const Graph bound, Bound(lowered, shapes, evaluator));
  return PackModel(std::move(lowered), bound, nullptr, target);
}

namespace {

// Whether a packed form is small enough for a file. Scales and zero points that it holds are no
// longer stored beside it, where zero points took fewer bits.
bool IsSmallEnough(const Tensor& packed, const Tensor& plain) {
  auto bytes = static_cast<int64_t>(plain.bytes());
  const auto& inside = packed.type().quant ? packed.type().quant->inside : std::nullopt;
  if (!inside) return static_cast<int64_t>(packed.bytes()) * 20 <= bytes * 21;
  const int64_t scales = ScaleCount(packed.type());
  bytes += scales * (inside->half_scales ? 2 : 4);
  if (inside->zeros) bytes += scales * DTypeBits(packed.dtype()) / 8;
  return static_cast<int64_t>(packed.bytes()) * 10 <= bytes * 11;
}

// Nodes whose kernels pack nothing and read what another packed share its form.
void ShareForms(Graph& lowered, const Graph& bound, const Target& target, const Plan& plan,
                const std::map<ValueId, std::vector<ValueId>>& packed_of) {
  for (NodeId id : bound.order()) {
    const auto decision = plan.decisions.find(bound.node(id).name);
    if (decision == plan.decisions.end()) continue;
    const KernelDef* kernel = target.Find(decision->second.kernel).kernel;
    if (kernel == nullptr || kernel->reads == nullptr || kernel->pack != nullptr) continue;
    const NodeCall args(bound, bound.node(id));
    for (size_t i = 0; i < bound.node(id).inputs.size(); ++i) {
      const auto forms = packed_of.find(bound.node(id).inputs[i]);
      if (forms == packed_of.end()) continue;
      const auto form = std::ranges::find_if(forms->second, [&](ValueId v) {
        return kernel->reads(args.call, i, lowered.value(v).constant.layout());
      });
      if (form != forms->second.end()) lowered.SetInput(id, i, *form);
    }
  }
}

}  // namespace

namespace {

enum class Packs {
  kAll,
  kAnySizes,  // what kernels read at any sizes: those that say which layouts they read
};

bool IsReadAtAnySizes(const KernelDef& kernel, const KernelCall& call, size_t input,
                      const Tensor& packed) {
  return kernel.reads != nullptr && kernel.reads(call, input, packed.layout());
}

// `done`: null, or `bound`, whose constants that were packed for their only reader are let go.
Result<Model> PackFor(Graph lowered, const Graph& bound, PackCache* packs, const Target& target,
                      Packs what, Graph* done = nullptr) {
  if (const auto why = WhyNoProgram(bound)) return Unsupported("{}", *why);
  Model model;
  Plan plan;
  plan.shapes = ShapesOf(bound);
  std::map<ValueId, std::vector<ValueId>>
      packed_of;  // packed forms of constants with several readers
  MovingOut moving(lowered, MovingOut::To::kResult);
  for (NodeId id : bound.order()) {
    const Node& node = bound.node(id);
    if (Roots::IsView(bound, node)) continue;
    Decision decision = ChooseKernel(bound, node, target);
    const KernelDef* kernel = target.Find(decision.kernel).kernel;
    std::vector<ValueId> packed_for_one;
    if (kernel != nullptr && kernel->pack != nullptr) {
      const NodeCall args(bound, node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Tensor* constant = args.constants[i];
        if (constant == nullptr || !constant->layout().empty()) continue;
        const auto pack = [&] { return PackInput(*kernel, args, i); };
        EVOQ_ASSIGN(Tensor packed,
                    WithContext(Remembered(packs, *constant, decision.kernel, node, i, pack),
                                NodeLabel(node)));
        ReleasePages(*constant);
        if (packed.layout().empty() || !IsSmallEnough(packed, *constant))
          continue;  // plain, or packed at load
        if (what == Packs::kAnySizes && !IsReadAtAnySizes(*kernel, args.call, i, packed)) continue;
        const ValueId old = node.inputs[i];
        if (!lowered.value(old).is_constant()) continue;  // known for these sizes only
        std::vector<ValueId>& forms = packed_of[old];
        auto form = std::find_if(forms.begin(), forms.end(), [&](ValueId v) {
          return BitEqual(lowered.value(v).constant, packed);
        });
        if (form == forms.end() && lowered.value(old).users.size() == 1 && !lowered.IsOutput(old)) {
          lowered.SetConstant(old, std::move(packed));
          moving.Take(old);
          packed_for_one.push_back(old);
          continue;
        }
        if (form == forms.end()) {
          form =
              forms.insert(form, lowered.AddConstant(lowered.value(old).name, std::move(packed)));
          moving.Take(*form);
        }
        lowered.SetInput(id, i, *form);
      }
    }
    plan.decisions[node.name] = std::move(decision);
    for (ValueId constant : packed_for_one) {
      if (done != nullptr) done->SetConstant(constant, Tensor());
    }
  }
  moving.Settle();
  ShareForms(lowered, bound, target, plan, packed_of);
  model.graph = lowered.Compacted();
  model.plans.push_back(std::move(plan));
  return model;
}

}  // namespace

Result<Model> PackModel(Graph lowered, const Graph& bound, PackCache* packs, const Target& target) {
  return PackFor(std::move(lowered), bound, packs, target, Packs::kAll);
}

Result<Graph> PackForAnySizes(Graph lowered, const Evaluator& evaluator) {
  InputShapes shapes;
  for (ValueId id : lowered.inputs()) {
    const Value& input = lowered.value(id);
    if (!input.type.shape.ranked()) return lowered;
    for (const Dim& dim : input.type.shape.dims())
      shapes[input.name].push_back(dim.known() ? dim.value : 1);
  }
  auto bound = Bound(lowered, shapes, evaluator);
  if (!bound || WhyNoProgram(*bound)) return lowered;
  EVOQ_ASSIGN(Model model,
              PackFor(std::move(lowered), *bound, nullptr, Target(), Packs::kAnySizes, &*bound));
  return std::move(model.graph);
}

Result<Program> Compile(const Model& model, const Evaluator& evaluator, const InputShapes& shapes,
                        const TuningKey& key, PackCache* packs, const Target& target) {
  const BudgetScope budget(Budget::ForFile(GraphBytes(model.graph)));
  auto graph = std::make_shared<Graph>(model.graph);
  EVOQ_TRY(BindOrPlanned(model, shapes, evaluator, *graph));
  EVOQ_TRY(FoldSizes(*graph, evaluator));
  if (const auto why = WhyNoProgram(*graph)) return Unsupported("{}", *why);
  EVOQ_TRY(SeparateOutputs(*graph));
  const Planned planned(model, ShapesOf(*graph), key);
  Program program;
  program.evaluator = &evaluator;
  EVOQ_ASSIGN(program.steps, StepsOf(*graph, planned, target));
  auto step = program.steps.begin();
  for (NodeId id : std::vector<NodeId>(graph->order())) {
    const bool computes = step != program.steps.end() && step->node == id;  // else a view
    EVOQ_TRY(WithContext(FitConstants(model, *graph, id, computes ? step->kernel : nullptr, packs),
                         NodeLabel(graph->node(id))));
    if (!computes) continue;
    const Cost cost = NodeCost(*graph, graph->node(id));
    step->macs = cost.macs;
    step->bytes = cost.bytes;
    ++step;
    for (ValueId in : graph->node(id).inputs) {
      if (in.valid() && graph->value(in).is_constant())
        program.weight_bytes += static_cast<int64_t>(graph->value(in).constant.bytes());
    }
  }
  program.graph = std::move(graph);
  EVOQ_TRY(PlaceValues(program));
  return program;
}

std::string Print(const Program& program) {
  const Graph& graph = *program.graph;
  const auto place = [&](ValueId id) -> std::string {
    if (!id.valid()) return "_";
    const Placement& p = program.placements[id.index];
    switch (p.kind) {
      case Placement::Kind::kInput: return fmt::format("input{}", p.offset);
      case Placement::Kind::kOutput: return fmt::format("output{}", p.offset);
      case Placement::Kind::kConstant: return "%" + graph.value(id).name;
      case Placement::Kind::kArena:
        return fmt::format("{}@{}", p.space == &kHostMemory ? "" : p.space->name, p.offset);
      case Placement::Kind::kUnused: return "_";
    }
    return "_";
  };
  std::string out = fmt::format("arena {} bytes, {} alive at once, weights {} bytes\n",
                                program.arena_bytes(), program.live_bytes, program.weight_bytes);
  for (const Step& step : program.steps) {
    const Node& node = graph.node(step.node);
    std::vector<std::string> inputs, outputs;
    for (ValueId id : node.inputs) inputs.push_back(place(id));
    for (ValueId id : node.outputs)
      outputs.push_back(id.valid() ? place(id) + ": " + graph.value(id).type.ToString() : "_");
    out += fmt::format("{} [{}] {} = {}({})\n", node.name, step.decision.kernel,
                       fmt::join(outputs, ", "), node.op, fmt::join(inputs, ", "));
  }
  return out;
}

}  // namespace evoq
