// Einsum: sums of products over named axes, "bij,bjk->bik". Sums are sequential in float64, rounded
// to float32 once.
#include "ops/einsum.h"

#include <algorithm>

#include "base/budget_scope.h"
#include "base/math.h"
#include "reference/definition.h"
#include "reference/real.h"
#include "reference/util.h"

namespace evoq {
namespace {

EvalResult Evaluate(const EvalArgs& args) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : args.inputs) shapes.push_back(tensor.shape());
  EVOQ_ASSIGN(const EinsumEquation equation, ParseEinsum(args.node, EinsumRanks(shapes)));
  EVOQ_ASSIGN(const auto label_sizes, EinsumSizes(equation, shapes));
  // Output axes first, then the summed ones.
  EinsumLabels order = equation.output;
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

namespace reference {

extern const Definition kEinsum = {.name = "Einsum", .evaluate = Evaluate};

}  // namespace reference
}  // namespace evoq
