#include "compile/compile.h"

#include <algorithm>
#include <set>

#include "base/budget_scope.h"
#include "base/text.h"
#include "compile/choose.h"
#include "compile/memory.h"
#include "kernels/layout.h"
#include "ops/driver.h"
#include "ops/op.h"

namespace evoq {
namespace {

// The value whose memory `id` uses: itself, or what it is a view of.
class Roots {
 public:
  explicit Roots(const Graph& graph) : root_(graph.value_count()) {
    for (int i = 0; i < graph.value_count(); ++i) root_[i] = ValueId{i};
    for (NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      if (IsView(graph, node)) root_[node.outputs[0].index] = root_[node.inputs[0].index];
    }
  }
  ValueId operator[](ValueId id) const { return root_[id.index]; }

  static bool IsView(const Graph& graph, const Node& node) {
    return KeepsBytes(graph, node) && !node.attrs.Has("evoq.copy");
  }
  // A view that has to give its output memory of its own (SeparateOutputs).
  static bool IsCopy(const Graph& graph, const Node& node) {
    return KeepsBytes(graph, node) && node.attrs.Has("evoq.copy");
  }

 private:
  // A view that changes the element type or its scale computes something.
  static bool KeepsBytes(const Graph& graph, const Node& node) {
    const OpDef* op = FindOp(node.op, node.domain);
    if (op == nullptr || !op->view || !node.outputs[0].valid()) return false;
    TensorType from = graph.value(node.inputs[0]).type;
    const TensorType& to = graph.value(node.outputs[0]).type;
    from.shape = to.shape;
    return from == to;
  }

  std::vector<ValueId> root_;
};

// A model output needs memory of its own: where it is a view of an input, a constant or another
// output, a copying Identity is put before it.
Status SeparateOutputs(Graph& graph) {
  const Roots roots(graph);
  std::set<ValueId> taken;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId out = graph.outputs()[i];
    const ValueId root = roots[out];
    if (graph.value(root).producer.valid() && taken.insert(root).second) continue;
    Attrs attrs;
    attrs.Set("evoq.copy", 1);
    const ValueId copy = graph.Apply("Identity", "copy_" + graph.value(out).name, {out}, attrs,
                                     graph.value(out).type);
    graph.ReplaceOutput(i, copy);
  }
  return graph.Sort();
}

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

// Brings the constants of a node into the layouts its kernel wants: those that were packed for
// another kernel, and those that the file keeps plain because packing would have made it larger.
// Kernels only pack weights, input 1, and check their layout when they bind; whatever else a file
// holds packed is unpacked.
Status FitConstants(const Model& model, Graph& graph, NodeId id, const Decision& decision,
                    PackCache* cache) {
  const KernelDef* kernel = FindKernel(decision.kernel);
  const std::string* packed_by = PackedBy(model, graph.node(id).name);
  const bool packs = kernel != nullptr && kernel->pack != nullptr && packed_by != nullptr &&
                     *packed_by == decision.kernel;
  for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
    const Tensor* constant = graph.ConstantInput(graph.node(id), i);
    if (constant == nullptr || (packs && i == 1 && !constant->layout().empty())) continue;
    const bool wants = kernel != nullptr && kernel->pack != nullptr;
    if (!wants && constant->layout().empty()) continue;
    const Tensor before = *constant;
    const std::string name = graph.value(graph.node(id).inputs[i]).name;
    const auto fit = [&]() -> Result<Tensor> {
      if (!before.layout().empty()) {
        EVOQ_ASSIGN(Tensor plain, ToPlain(before));
        if (!wants) return plain;
        graph.SetInput(id, i, graph.AddConstant(name, std::move(plain)));
      }
      return PackInput(*kernel, NodeCall(graph, graph.node(id)), i);
    };
    EVOQ_ASSIGN(Tensor fitted, Remembered(cache, before, decision.kernel, graph.node(id), i, fit));
    if (fitted.raw() != before.raw())
      graph.SetInput(id, i, graph.AddConstant(name, std::move(fitted)));
  }
  return {};
}

// Whether a decision read from a file can be followed here and now.
bool Holds(const Decision& decision, const Graph& graph, const Node& node) {
  const KernelDef* kernel = FindKernel(decision.kernel);
  if (kernel == nullptr || node.op != kernel->op)
    return false;  // the reference: there may be a kernel by now
  const NodeCall args(graph, node);
  return !kernel->reject(args.call);
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
          "{}: output {} has the type {}, expected a static shape; name the input shapes (--shape "
          "NAME=1x3x224x224)",
          NodeLabel(node), graph.value(id).name, type.ToString());
  }
  return std::nullopt;
}

// The block of an input that output 0 of a step may overwrite: the kernel allows it and nothing
// reads the input later. -1 where there is none.
int Overwritable(const Graph& graph, const Step& step, const Roots& roots,
                 const std::vector<int>& block_of, const std::vector<int>& last_use, int index) {
  const KernelDef* kernel = FindKernel(step.decision.kernel);
  if (kernel == nullptr || kernel->in_place == nullptr) return -1;
  const Node& node = graph.node(step.node);
  const NodeCall args(graph, node);
  const uint32_t mask = kernel->in_place(args.call);
  for (size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
    if (!node.inputs[i].valid() || (mask >> i & 1) == 0) continue;
    const ValueId root = roots[node.inputs[i]];
    // The same memory may come in again, as an input that must not change.
    bool only = true;
    for (size_t k = 0; k < node.inputs.size(); ++k)
      only &= !node.inputs[k].valid() || roots[node.inputs[k]] != root ||
              (k < 32 && (mask >> k & 1) != 0);
    if (only && block_of[root.index] >= 0 && last_use[root.index] == index)
      return block_of[root.index];
  }
  return -1;
}

// Placements of all values from the lifetimes of their roots.
Status PlanMemory(Program& program) {
  const Graph& graph = *program.graph;
  const Roots roots(graph);
  program.placements.assign(graph.value_count(), {});
  const auto place = [&](ValueId id) -> Placement& { return program.placements[id.index]; };
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    place(graph.inputs()[i]) = {Placement::Kind::kInput, static_cast<int64_t>(i)};
  for (int i = 0; i < graph.value_count(); ++i) {
    if (graph.value(ValueId{i}).is_constant()) place(ValueId{i}) = {Placement::Kind::kConstant, i};
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    place(roots[graph.outputs()[i]]) = {Placement::Kind::kOutput, static_cast<int64_t>(i)};
  std::vector<int> last_use(graph.value_count(), -1);  // by root
  for (size_t s = 0; s < program.steps.size(); ++s) {
    for (ValueId id : graph.node(program.steps[s].node).inputs) {
      if (id.valid()) last_use[roots[id].index] = static_cast<int>(s);
    }
  }
  std::vector<Lifetime> blocks;
  std::vector<int> block_of(graph.value_count(), -1);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const int step = static_cast<int>(s);
    const Node& node = graph.node(program.steps[s].node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      const ValueId root = roots[node.outputs[i]];
      if (place(root).kind != Placement::Kind::kUnused) continue;
      const int64_t bytes = *graph.value(root).type.bytes();
      int block =
          i == 0 ? Overwritable(graph, program.steps[s], roots, block_of, last_use, step) : -1;
      if (block < 0 || blocks[block].bytes != bytes) {
        block = static_cast<int>(blocks.size());
        blocks.push_back({bytes, step, step, 0});
      }
      block_of[root.index] = block;
      blocks[block].last = std::max(step, last_use[root.index]);
    }
  }
  EVOQ_ASSIGN(program.arena_bytes, PlanArena(blocks));
  program.live_bytes = LiveBytes(blocks);
  for (int i = 0; i < graph.value_count(); ++i) {
    if (block_of[i] >= 0)
      program.placements[i] = {Placement::Kind::kArena, blocks[block_of[i]].offset};
  }
  for (int i = 0; i < graph.value_count(); ++i)
    program.placements[i] = program.placements[roots[ValueId{i}].index];
  return {};
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
  const auto asks = [&](NodeId id) {
    const OpDef* op = FindOp(bound.node(id).op, bound.node(id).domain);
    return op != nullptr && (op->axes == AxisUse::kShapeOf || op->axes == AxisUse::kSizeOf);
  };
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

Result<Model> PackModel(Graph lowered, const Evaluator& evaluator, const InputShapes& shapes) {
  EVOQ_ASSIGN(const Graph bound, Bound(lowered, shapes, evaluator));
  return PackModel(std::move(lowered), bound, nullptr);
}

Result<Model> PackModel(Graph lowered, const Graph& bound, PackCache* packs) {
  if (const auto why = WhyNoProgram(bound)) return Unsupported("{}", *why);
  Model model;
  Plan plan;
  plan.shapes = ShapesOf(bound);
  std::map<ValueId, std::vector<ValueId>>
      packed_of;  // packed forms of constants with several readers
  for (NodeId id : bound.order()) {
    const Node& node = bound.node(id);
    if (Roots::IsView(bound, node)) continue;
    Decision decision = ChooseKernel(bound, node);
    const KernelDef* kernel = FindKernel(decision.kernel);
    if (kernel != nullptr && kernel->pack != nullptr) {
      const NodeCall args(bound, node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Tensor* constant = args.constants[i];
        if (constant == nullptr || !constant->layout().empty()) continue;
        const auto pack = [&] { return PackInput(*kernel, args, i); };
        EVOQ_ASSIGN(Tensor packed,
                    WithContext(Remembered(packs, *constant, decision.kernel, node, i, pack),
                                NodeLabel(node)));
        if (packed.layout().empty() || packed.bytes() * 20 > constant->bytes() * 21)
          continue;  // plain, or packed at load
        const ValueId old = node.inputs[i];
        if (!lowered.value(old).is_constant()) continue;  // known for these sizes only
        std::vector<ValueId>& forms = packed_of[old];
        auto form = std::find_if(forms.begin(), forms.end(), [&](ValueId v) {
          return BitEqual(lowered.value(v).constant, packed);
        });
        if (form == forms.end() && lowered.value(old).users.size() == 1 && !lowered.IsOutput(old)) {
          lowered.SetConstant(old, std::move(packed));
          continue;
        }
        if (form == forms.end())
          form =
              forms.insert(form, lowered.AddConstant(lowered.value(old).name, std::move(packed)));
        lowered.SetInput(id, i, *form);
      }
    }
    plan.decisions[node.name] = std::move(decision);
  }
  model.graph = lowered.Compacted();
  model.plans.push_back(std::move(plan));
  return model;
}

Result<Program> Compile(const Model& model, const Evaluator& evaluator, const InputShapes& shapes,
                        const TuningKey& key, PackCache* packs) {
  const BudgetScope budget(Budget::ForFile(GraphBytes(model.graph)));
  auto graph = std::make_shared<Graph>(model.graph);
  EVOQ_TRY(BindOrPlanned(model, shapes, evaluator, *graph));
  EVOQ_TRY(FoldSizes(*graph, evaluator));
  if (const auto why = WhyNoProgram(*graph)) return Unsupported("{}", *why);
  EVOQ_TRY(SeparateOutputs(*graph));
  const Planned planned(model, ShapesOf(*graph), key);
  Program program;
  program.evaluator = &evaluator;
  const std::vector<NodeId> order = graph->order();
  for (NodeId id : order) {
    if (Roots::IsView(*graph, graph->node(id))) {
      EVOQ_TRY(WithContext(FitConstants(model, *graph, id, {}, packs), NodeLabel(graph->node(id))));
      continue;
    }
    Step step;
    step.node = id;
    if (Roots::IsCopy(*graph, graph->node(id))) {
      step.decision.kernel = kCopyKernel;
      step.decision.precision = "any";
    } else if (const Decision* decision = planned.decision(graph->node(id).name);
               decision != nullptr && Holds(*decision, *graph, graph->node(id))) {
      step.decision = *decision;
      if (const StepTuning* tuning = planned.step(graph->node(id).name)) {
        step.tuning = *tuning;
        for (const Decision::Rejected& r : tuning->slower) step.decision.rejected.push_back(r);
      }
    } else {
      step.decision = ChooseKernel(*graph, graph->node(id));
    }
    EVOQ_TRY(WithContext(FitConstants(model, *graph, id, step.decision, packs),
                         NodeLabel(graph->node(id))));
    const Cost cost = NodeCost(*graph, graph->node(id));
    step.macs = cost.macs;
    step.bytes = cost.bytes;
    for (ValueId in : graph->node(id).inputs) {
      if (in.valid() && graph->value(in).is_constant())
        program.weight_bytes += static_cast<int64_t>(graph->value(in).constant.bytes());
    }
    program.steps.push_back(std::move(step));
  }
  program.graph = std::move(graph);
  EVOQ_TRY(PlanMemory(program));
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
      case Placement::Kind::kArena: return fmt::format("@{}", p.offset);
      case Placement::Kind::kUnused: return "_";
    }
    return "_";
  };
  std::string out = fmt::format("arena {} bytes, {} alive at once, weights {} bytes\n",
                                program.arena_bytes, program.live_bytes, program.weight_bytes);
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
