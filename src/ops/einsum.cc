// Einsum: sums of products over named axes, "bij,bjk->bik".
#include "ops/einsum.h"

#include <algorithm>
#include <map>

#include "base/math.h"
#include "ops/util.h"

namespace evoq {
namespace {

// One term with "..." filled up to `rank` axes; rank < 0 for the output, whose "..." has
// `broadcast` axes.
Result<EinsumLabels> TermLabels(std::string_view term, int rank, int broadcast) {
  EinsumLabels labels;
  const size_t dots = term.find("...");
  const int letters = static_cast<int>(term.size()) - (dots == term.npos ? 0 : 3);
  const int hidden = dots == term.npos ? 0 : rank < 0 ? broadcast : rank - letters;
  if (hidden < 0 || (rank >= 0 && letters + hidden != rank))
    return InvalidInput("attribute equation: '{}' stands for an input of rank {}", term, rank);
  for (size_t i = 0; i < term.size(); ++i) {
    if (i == dots) {
      for (int k = hidden; k > 0; --k) labels.push_back(k);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i] + 64);
    } else {
      return InvalidInput("attribute equation: unexpected '{}' in '{}'", term[i], term);
    }
  }
  return labels;
}

// Without "->": the axes of "...", then the letters that occur once, in alphabetical order.
EinsumLabels ImplicitOutput(const std::vector<EinsumLabels>& inputs, int broadcast) {
  std::map<int, int> count;
  for (const EinsumLabels& labels : inputs) {
    for (int label : labels) ++count[label];
  }
  EinsumLabels output;
  for (int k = broadcast; k > 0; --k) output.push_back(k);
  for (const auto& [label, times] : count) {
    if (label > 64 && times == 1) output.push_back(label);
  }
  return output;
}

}  // namespace

Result<EinsumEquation> ParseEinsum(const Node& node, const std::vector<int>& ranks) {
  std::string text = node.attrs.String("equation");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  EinsumEquation equation;
  int broadcast = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t comma = left.find(',');
    if ((comma == left.npos) != (i + 1 == ranks.size()))
      return InvalidInput("attribute equation '{}' does not have {} terms", text, ranks.size());
    EVOQ_ASSIGN(EinsumLabels labels, TermLabels(left.substr(0, comma), ranks[i], 0));
    for (int label : labels) broadcast = label <= 64 ? std::max(broadcast, label) : broadcast;
    equation.inputs.push_back(std::move(labels));
    left = comma == left.npos ? std::string_view() : left.substr(comma + 1);
  }
  if (broadcast > 60) return Unsupported("more than 60 axes");
  if (arrow == text.npos) {
    equation.output = ImplicitOutput(equation.inputs, broadcast);
  } else {
    EVOQ_ASSIGN(equation.output,
                TermLabels(std::string_view(text).substr(arrow + 2), -1, broadcast));
  }
  return equation;
}

Result<std::map<int, Dim>> EinsumSizes(const EinsumEquation& equation,
                                       std::span<const Shape> shapes) {
  std::map<int, Dim> sizes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    for (size_t d = 0; d < equation.inputs[i].size(); ++d) {
      const Dim& dim = shapes[i][static_cast<int>(d)];
      const auto [it, fresh] = sizes.emplace(equation.inputs[i][d], dim);
      if (fresh || it->second == dim || dim.value == 1) continue;
      if (it->second.value == 1 || !it->second.known()) {
        it->second = dim;
      } else if (dim.known()) {
        return InvalidInput("axis {} of input {} has size {}, expected {}", d, i, dim.value,
                            it->second.value);
      }
    }
  }
  for (int label : equation.output) {
    if (!sizes.count(label))
      return InvalidInput("attribute equation: the output has a label that no input has");
    if (std::count(equation.output.begin(), equation.output.end(), label) > 1)
      return InvalidInput("attribute equation: the output has a label twice");
  }
  return sizes;
}

std::vector<int> EinsumRanks(std::span<const Shape> shapes) {
  std::vector<int> ranks;
  for (const Shape& shape : shapes) ranks.push_back(shape.rank());
  return ranks;
}

namespace {

InferResult Infer(const InferArgs& args) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (args.inputs[i].dtype != args.inputs[0].dtype)
      return InvalidInput("input {} is {}, expected {} as input 0", i, args.inputs[i].ToString(),
                          DTypeName(args.inputs[0].dtype));
    if (!args.inputs[i].shape.ranked())
      return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape::UnknownRank())};
    shapes.push_back(args.inputs[i].shape);
  }
  EVOQ_ASSIGN(const EinsumEquation equation, ParseEinsum(args.node, EinsumRanks(shapes)));
  EVOQ_ASSIGN(const auto sizes, EinsumSizes(equation, shapes));
  std::vector<Dim> dims;
  for (int label : equation.output) dims.push_back(sizes.at(label));
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape(std::move(dims)))};
}

}  // namespace

extern const OpDef kEinsum = {.name = "Einsum", .max_inputs = -1, .infer = Infer};

}  // namespace evoq
