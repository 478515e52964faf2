// Einsum becomes the operators that it is short for, which have kernels and whose weights quantize.
#include <algorithm>

#include "ops/einsum.h"
#include "passes/match.h"
#include "passes/size_probe.h"

namespace evoq {
namespace {

using Groups = std::vector<EinsumLabels>;  // labels of each axis, which are its sizes' factors

bool Has(const EinsumLabels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
bool IsOne(const Dim& dim) { return dim.known() && dim.value == 1; }

// An operand: a label and a size per axis.
struct Term {
  ValueId value;
  EinsumLabels labels;
  std::vector<Dim> dims;

  const Dim& dim(int label) const {
    return dims[static_cast<size_t>(std::find(labels.begin(), labels.end(), label) -
                                    labels.begin())];
  }
};

struct Origin {
  ValueId value;
  int axis;
};

// What is known before anything changes.
struct Plan {
  NodeId node;
  EinsumEquation equation;
  std::vector<Term> terms;
  std::map<int, Origin> sizes;  // where to read a label's size; not where it is known to be 1
};

// Whether all axes of a label that are not known to be 1 have the same size.
bool SameSizes(SizeProbes& probes, const Plan& plan, int label, Origin& origin) {
  const Dim* first = nullptr;
  bool same = true;
  for (const Term& term : plan.terms) {
    for (size_t axis = 0; axis < term.labels.size(); ++axis) {
      if (term.labels[axis] != label || IsOne(term.dims[axis])) continue;
      const Origin here{term.value, static_cast<int>(axis)};
      if (first == nullptr) {
        first = &term.dims[axis];
        origin = here;
      } else {
        same = same && (SameDim(*first, term.dims[axis]) ||
                        probes.Same(origin.value, origin.axis, here.value, here.axis));
      }
    }
  }
  return same;
}

std::optional<Plan> PlanOf(const Graph& graph, NodeId id, SizeProbes& probes) {
  const Node& node = graph.node(id);
  Plan plan{.node = id};
  std::vector<Shape> shapes;
  for (ValueId input : node.inputs) {
    const TensorType& type = graph.value(input).type;
    if (type.dtype != DType::kFloat32 || type.quantized() || !type.shape.ranked())
      return std::nullopt;
    shapes.push_back(type.shape);
  }
  if (shapes.empty() || graph.value(node.outputs[0]).type.quantized()) return std::nullopt;
  auto equation = ParseEinsum(node, EinsumRanks(shapes));
  if (!equation) return std::nullopt;
  plan.equation = std::move(*equation);
  EinsumLabels all;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const EinsumLabels& labels = plan.equation.inputs[i];
    for (int label : labels) {
      if (std::count(labels.begin(), labels.end(), label) > 1) return std::nullopt;  // a diagonal
      if (!Has(all, label)) all.push_back(label);
    }
    plan.terms.push_back({node.inputs[i], labels, shapes[i].dims()});
    for (const Dim& dim : plan.terms.back().dims) {
      if (dim.known() && dim.value == 0) return std::nullopt;
    }
  }
  for (int label : all) {
    Origin origin{};
    // Axes of the result that two terms have broadcast as MatMul's and Mul's do.
    const bool may_differ = shapes.size() <= 2 && Has(plan.equation.output, label);
    if (!SameSizes(probes, plan, label, origin) && !may_differ) return std::nullopt;
    plan.sizes[label] = origin;
  }
  return plan;
}

// A constant, or what computes one from a constant alone.
bool IsWeight(const Graph& graph, ValueId value) {
  while (!graph.value(value).is_constant()) {
    const NodeId id = graph.value(value).producer;
    if (!IsOp(graph, id, "DequantizeLinear") && !IsOp(graph, id, "Cast") &&
        !IsOp(graph, id, "Transpose"))
      return false;
    value = graph.node(id).input(0);
  }
  return true;
}

class Lowering {
 public:
  Lowering(Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), name_(graph.node(plan.node).name) {}

  void Run() {
    const ValueId out = graph_.node(plan_.node).outputs[0];
    graph_.RemoveNode(plan_.node);
    Term term = plan_.terms[0];
    for (size_t i = 1; i < plan_.terms.size(); ++i) {
      EinsumLabels needed = plan_.equation.output;
      for (size_t later = i + 1; later < plan_.terms.size(); ++later)
        needed.insert(needed.end(), plan_.terms[later].labels.begin(),
                      plan_.terms[later].labels.end());
      term = Product(std::move(term), plan_.terms[i], needed);
    }
    const EinsumLabels& output = plan_.equation.output;
    term = Ordered(Summed(std::move(term), output), output);
    if (term.value == plan_.terms[0].value) term.value = Apply("Identity", "", {term.value});
    graph_.SetOutput(graph_.value(term.value).producer, 0, out);
  }

 private:
  ValueId Apply(const char* op, const char* suffix, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph_.Apply(op, name_ + suffix, std::move(inputs), std::move(attrs));
  }
  ValueId Ints(const char* suffix, const std::vector<int64_t>& values) {
    return AddInts(graph_, name_ + suffix, values);
  }

  Term Ordered(Term term, const EinsumLabels& order) {
    Permutation perm;
    std::vector<Dim> dims;
    for (int label : order) {
      perm.push_back(std::find(term.labels.begin(), term.labels.end(), label) -
                     term.labels.begin());
      dims.push_back(term.dim(label));
    }
    if (IsIdentity(perm)) return term;
    return {Apply("Transpose", "_transpose", {term.value}, Attrs::Of("perm", perm)), order,
            std::move(dims)};
  }

  // Without the axes that `needed` lacks: their sums.
  Term Summed(Term term, const EinsumLabels& needed) {
    std::vector<int64_t> ones, axes;
    Term rest;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (Has(needed, term.labels[i])) {
        rest.labels.push_back(term.labels[i]);
        rest.dims.push_back(term.dims[i]);
      } else if (IsOne(term.dims[i])) {
        ones.push_back(static_cast<int64_t>(i));
      } else {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    if (ones.empty() && axes.empty()) return term;
    if (axes.empty()) {
      rest.value = Apply("Squeeze", "_squeeze", {term.value, Ints("_axes", ones)});
      return rest;
    }
    axes.insert(axes.end(), ones.begin(), ones.end());
    std::sort(axes.begin(), axes.end());
    rest.value = Apply("ReduceSum", "_sum", {term.value, Ints("_axes", axes)},
                       Attrs::Of("keepdims", int64_t{0}));
    return rest;
  }

  // The size of a group that shapes leave open, as int64[1].
  ValueId SizeOf(const EinsumLabels& group) {
    ValueId size;
    for (int label : group) {
      ValueId one;
      if (const Dim& dim = dims_.at(label); dim.known()) {
        one = Ints("_size", {dim.value});
      } else {
        const Origin& origin = plan_.sizes.at(label);
        const ValueId shape = Apply("Shape", "_shape", {origin.value});
        one = Apply("Gather", "_size", {shape, Ints("_axis", {origin.axis})});
      }
      size = size.valid() ? Apply("Mul", "_size", {size, one}) : one;
    }
    return size;
  }

  // `value`, whose axes are `from`, with axes `to`: the same labels in the same order. Only one of
  // the two has axes without labels, which are 1.
  ValueId Shaped(ValueId value, const Groups& from, const Groups& to) {
    if (from == to) return value;
    for (const bool adds : {true, false}) {
      Groups labelled;
      std::vector<int64_t> ones;
      const Groups& longer = adds ? to : from;
      for (size_t i = 0; i < longer.size(); ++i) {
        if (longer[i].empty()) {
          ones.push_back(static_cast<int64_t>(i));
        } else {
          labelled.push_back(longer[i]);
        }
      }
      if (labelled == (adds ? from : to))
        return Apply(adds ? "Unsqueeze" : "Squeeze", adds ? "_unsqueeze" : "_squeeze",
                     {value, Ints("_axes", ones)});
    }
    std::vector<int64_t> target;
    std::vector<size_t> open;
    for (size_t i = 0; i < to.size(); ++i) {
      int64_t size = 1;
      bool known = true;
      for (int label : to[i]) {
        const Dim& dim = dims_.at(label);
        known = known && dim.known();
        if (known) size *= dim.value;
      }
      if (i < from.size() && std::equal(to.begin(), to.begin() + i + 1, from.begin())) {
        target.push_back(0);
      } else if (known) {
        target.push_back(size);
      } else {
        open.push_back(i);
        target.push_back(-1);
      }
    }
    ValueId shape;
    if (open.size() <= 1) {
      shape = Ints("_target", target);
    } else {
      std::vector<ValueId> parts;
      for (size_t i = 0; i < target.size(); ++i)
        parts.push_back(target[i] < 0 ? SizeOf(to[i]) : Ints("_target", {target[i]}));
      Attrs axis;
      axis.Set("axis", int64_t{0});
      shape = Apply("Concat", "_target", std::move(parts), axis);
    }
    return Apply("Reshape", "_reshape", {value, shape});
  }

  static Groups Single(const EinsumLabels& labels) {
    Groups groups;
    for (int label : labels) groups.push_back({label});
    return groups;
  }
  // `labels` as an axis each, or together as one.
  static void Append(Groups& groups, const EinsumLabels& labels, bool together) {
    if (together) groups.push_back(labels);
    for (size_t i = 0; !together && i < labels.size(); ++i) groups.push_back({labels[i]});
  }

  // The sizes of all labels of two terms; of axes that both have, that which is not 1.
  void NoteSizes(const Term& a, const Term& b) {
    dims_.clear();
    for (const Term* term : {&a, &b}) {
      for (size_t i = 0; i < term->labels.size(); ++i) {
        Dim& dim = dims_.emplace(term->labels[i], term->dims[i]).first->second;
        if (IsOne(dim) || (!dim.known() && term->dims[i].known() && !IsOne(term->dims[i])))
          dim = term->dims[i];
      }
    }
  }
  Term Made(ValueId value, EinsumLabels labels) const {
    Term term{value, std::move(labels), {}};
    for (int label : term.labels) term.dims.push_back(dims_.at(label));
    return term;
  }

  // a[..] * b[..] with broadcasting.
  Term Multiplied(const Term& a, const Term& b, const EinsumLabels& labels) {
    std::vector<ValueId> inputs;
    for (const Term* term : {&a, &b}) {
      EinsumLabels own;
      Groups axes;
      for (int label : labels) {
        const bool has = Has(term->labels, label);
        if (has) own.push_back(label);
        if (has || !axes.empty()) axes.push_back(has ? EinsumLabels{label} : EinsumLabels{});
      }
      inputs.push_back(Shaped(Ordered(*term, own).value, Single(own), axes));
    }
    return Made(Apply("Mul", "", std::move(inputs)), labels);
  }

  // A product with constant weights of the channels at axis 1, which stay there, is a convolution.
  std::optional<Term> Convolved(const Term& a, const Term& b, const EinsumLabels& summed,
                                const EinsumLabels& columns) {
    const size_t rank = a.labels.size();
    if (rank < 3 || rank > 5 || summed.size() != 1 || columns.size() != 1 ||
        a.labels[1] != summed[0])
      return std::nullopt;
    EinsumLabels labels = a.labels;
    labels[1] = columns[0];
    if (labels != plan_.equation.output || !IsWeight(graph_, b.value)) return std::nullopt;
    Groups axes{columns, summed};
    axes.resize(rank);
    const ValueId weights =
        Shaped(Ordered(b, {columns[0], summed[0]}).value, Single({columns[0], summed[0]}), axes);
    return Made(Apply("Conv", "", {a.value, weights},
                      Attrs::Of("kernel_shape", std::vector<int64_t>(rank - 2, 1))),
                labels);
  }

  // sum_k a[batch, rows, k] * b[batch, k, columns]
  Term Multiply(Term a, Term b, const EinsumLabels& batch, const EinsumLabels& summed,
                EinsumLabels rows, EinsumLabels columns) {
    const EinsumLabels& output = plan_.equation.output;
    const bool a_weight = IsWeight(graph_, a.value), b_weight = IsWeight(graph_, b.value);
    if (a_weight != b_weight ? a_weight : !output.empty() && Has(rows, output.back())) {
      std::swap(a, b);
      std::swap(rows, columns);
    }
    if (batch.empty()) {
      if (auto convolved = Convolved(a, b, summed, columns)) return *std::move(convolved);
    }
    EinsumLabels left = batch, right = batch, labels = batch;
    left.insert(left.end(), rows.begin(), rows.end());
    left.insert(left.end(), summed.begin(), summed.end());
    right.insert(right.end(), summed.begin(), summed.end());
    right.insert(right.end(), columns.begin(), columns.end());
    labels.insert(labels.end(), rows.begin(), rows.end());
    labels.insert(labels.end(), columns.begin(), columns.end());
    Groups left_axes = Single(batch), right_axes = Single(batch), axes = Single(batch);
    const bool join_rows = !batch.empty() || rows.empty();  // else MatMul takes any number of them
    Append(left_axes, rows, join_rows);
    left_axes.push_back(summed);
    right_axes.push_back(summed);
    right_axes.push_back(columns);
    Append(axes, rows, join_rows);
    axes.push_back(columns);
    const ValueId x = Shaped(Ordered(std::move(a), left).value, Single(left), left_axes);
    const ValueId w = Shaped(Ordered(std::move(b), right).value, Single(right), right_axes);
    const ValueId y = Apply("MatMul", "", {x, w});
    return Made(Shaped(y, axes, Single(labels)), labels);
  }

  Term Product(Term a, Term b, const EinsumLabels& needed) {
    // A sum over an axis that one of the two has with size 1 is a sum of the other one.
    for (auto [one, other] : {std::pair{&a, &b}, {&b, &a}}) {
      EinsumLabels kept;
      for (int label : one->labels) {
        if (Has(needed, label) || !Has(other->labels, label) || !IsOne(one->dim(label)) ||
            IsOne(other->dim(label)))
          kept.push_back(label);
      }
      *one = Summed(std::move(*one), kept);
    }
    EinsumLabels of_a = needed, of_b = needed;
    of_a.insert(of_a.end(), b.labels.begin(), b.labels.end());
    of_b.insert(of_b.end(), a.labels.begin(), a.labels.end());
    a = Summed(std::move(a), of_a);
    b = Summed(std::move(b), of_b);
    NoteSizes(a, b);
    // Labels of the result first, in its order: nothing is left to transpose where that is the
    // order of the product.
    EinsumLabels order = plan_.equation.output, batch, summed, rows, columns;
    for (const Term* term : {&a, &b}) {
      for (int label : term->labels) {
        if (!Has(order, label)) order.push_back(label);
      }
    }
    std::erase_if(order, [&](int label) { return !Has(a.labels, label) && !Has(b.labels, label); });
    for (int label : order) {
      const bool both = Has(a.labels, label) && Has(b.labels, label);
      EinsumLabels& kind = !Has(needed, label)    ? summed
                           : both                 ? batch
                           : Has(a.labels, label) ? rows
                                                  : columns;
      kind.push_back(label);
    }
    if (!summed.empty() && !(rows.empty() && columns.empty()))
      return Multiply(std::move(a), std::move(b), batch, summed, rows, columns);
    return Summed(Multiplied(a, b, order), needed);
  }

  Graph& graph_;
  const Plan& plan_;
  const std::string name_;
  std::map<int, Dim> dims_;
};

Result<int> Run(Graph& graph) {
  SizeProbes probes(graph);
  std::vector<Plan> plans;  // all, before the graph changes
  for (NodeId id : NodesOf(graph)) {
    if (!IsOp(graph, id, "Einsum")) continue;
    if (auto plan = PlanOf(graph, id, probes)) plans.push_back(*std::move(plan));
  }
  for (const Plan& plan : plans) Lowering(graph, plan).Run();
  return static_cast<int>(plans.size());
}

}  // namespace

extern const PassDef kLowerEinsum;
const PassDef kLowerEinsum = {
    .name = "lower-einsum",
    .doc = "Writes Einsum as Transpose, Reshape, ReduceSum, and MatMul, Conv or Mul.",
    .stage = Stage::kOptimize,
    .level = 0,
    .run = Run,
};

}  // namespace evoq
