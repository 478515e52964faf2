// Einsum: sums of products over named axes, "bij,bjk->bik". Sums are sequential in float64, rounded
// to float32 once.
#include <algorithm>
#include <map>

#include "base/budget_scope.h"
#include "base/math.h"
#include "ops/real.h"
#include "ops/util.h"

namespace evoq {
namespace {

// A label per axis: a letter, or 1, 2, ... for the axes of "...", counted from the last.
using Labels = std::vector<int>;

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

// One term with "..." filled up to `rank` axes; rank < 0 for the output, whose "..." has
// `broadcast` axes.
Result<Labels> TermLabels(std::string_view term, int rank, int broadcast) {
  Labels labels;
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
Labels ImplicitOutput(const std::vector<Labels>& inputs, int broadcast) {
  std::map<int, int> count;
  for (const Labels& labels : inputs) {
    for (int label : labels) ++count[label];
  }
  Labels output;
  for (int k = broadcast; k > 0; --k) output.push_back(k);
  for (const auto& [label, times] : count) {
    if (label > 64 && times == 1) output.push_back(label);
  }
  return output;
}

Result<Equation> Parse(const Node& node, const std::vector<int>& ranks) {
  std::string text = node.attrs.String("equation");
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Equation equation;
  int broadcast = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const size_t comma = left.find(',');
    if ((comma == left.npos) != (i + 1 == ranks.size()))
      return InvalidInput("attribute equation '{}' does not have {} terms", text, ranks.size());
    EVOQ_ASSIGN(Labels labels, TermLabels(left.substr(0, comma), ranks[i], 0));
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

// The size of each label. Axes of "..." and of size 1 broadcast.
Result<std::map<int, Dim>> LabelSizes(const Equation& equation, std::span<const Shape> shapes) {
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

std::vector<int> RanksOf(std::span<const Shape> shapes) {
  std::vector<int> ranks;
  for (const Shape& shape : shapes) ranks.push_back(shape.rank());
  return ranks;
}

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
  EVOQ_ASSIGN(const Equation equation, Parse(args.node, RanksOf(shapes)));
  EVOQ_ASSIGN(const auto sizes, LabelSizes(equation, shapes));
  std::vector<Dim> dims;
  for (int label : equation.output) dims.push_back(sizes.at(label));
  return std::vector<TensorType>{TensorType(args.inputs[0].dtype, Shape(std::move(dims)))};
}

EvalResult Evaluate(const EvalArgs& args) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : args.inputs) shapes.push_back(tensor.shape());
  EVOQ_ASSIGN(const Equation equation, Parse(args.node, RanksOf(shapes)));
  EVOQ_ASSIGN(const auto label_sizes, LabelSizes(equation, shapes));
  // Output axes first, then the summed ones.
  Labels order = equation.output;
  for (const auto& [label, size] : label_sizes) {
    if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
  }
  std::vector<int64_t> sizes;
  for (int label : order) sizes.push_back(label_sizes.at(label).value);
  std::vector<std::vector<int64_t>> strides;
  for (size_t i = 0; i < shapes.size(); ++i) {
    strides.emplace_back(order.size(), 0);
    const std::vector<int64_t> own = RowMajorStrides(shapes[i].sizes());
    for (size_t d = 0; d < own.size(); ++d) {
      const size_t at =
          std::find(order.begin(), order.end(), equation.inputs[i][d]) - order.begin();
      if (shapes[i][static_cast<int>(d)].value != 1) strides[i][at] += own[d];
    }
  }
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  const std::vector<int64_t> outer(sizes.begin(), sizes.begin() + equation.output.size());
  const std::vector<int64_t> inner(sizes.begin() + equation.output.size(), sizes.end());
  const auto inner_count = CheckedProduct(inner);
  if (!inner_count) return Fail(ErrorCode::kTooLarge, "sums of too many terms");
  EVOQ_TRY(SpendWork({y.elements(), *inner_count,
                      static_cast<int64_t>(strides.size() * sizes.size() + sizes.size() + 1)},
                     "the sums"));
  std::vector<int64_t> index(sizes.size());
  const auto unravel = [&](int64_t linear, size_t begin, size_t end) {
    for (size_t d = end; d-- > begin; linear /= sizes[d]) index[d] = linear % sizes[d];
  };
  return EvaluateAsFloats(args, [&](auto tag) -> EvalResult {
    using T = decltype(tag);
    for (int64_t o = 0; o < y.elements(); ++o) {
      unravel(o, 0, outer.size());
      double sum = 0;
      for (int64_t k = 0; k < *inner_count; ++k) {
        unravel(k, outer.size(), sizes.size());
        double product = 1;
        for (size_t i = 0; i < strides.size(); ++i) {
          int64_t offset = 0;
          for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[i][d];
          product *= static_cast<double>(args.inputs[i].data<T>()[offset]);
        }
        sum += product;
      }
      y.mutable_data<T>()[o] = static_cast<T>(sum);
    }
    return One(std::move(y));
  });
}

}  // namespace

extern const OpDef kEinsum = {
    .name = "Einsum", .max_inputs = -1, .infer = Infer, .evaluate = Evaluate};

}  // namespace evoq
