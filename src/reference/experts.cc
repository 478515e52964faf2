// evoq::ExpertMatMul and evoq::ChooseExpert (ops/experts.h): rows of one expert are a MatMul of
// those rows.
#include "ops/experts.h"

#include <cstring>

#include "kernels/gemm/blocks/block_data.h"
#include "reference/definition.h"
#include "reference/util.h"

namespace evoq {

namespace reference {
extern const Definition kMatMul;
}  // namespace reference

namespace {

using Evaluate = EvalResult (*)(const EvalArgs& args);

int64_t IndexAt(const Tensor& ids, int64_t row) {
  return ids.dtype() == DType::kInt32 ? ids.data<int32_t>()[row] : ids.data<int64_t>()[row];
}

size_t RowBytes(const Tensor& rows) {
  return static_cast<size_t>(rows.sizes().back() * DTypeBits(rows.dtype()) / 8);
}

// Row to[i] of y is row from[i] of x.
void CopyRows(const Tensor& x, std::span<const int64_t> from, std::span<const int64_t> to,
              Tensor& y) {
  const size_t bytes = RowBytes(x);
  for (size_t i = 0; i < to.size(); ++i)
    std::memcpy(y.mutable_raw() + static_cast<size_t>(to[i]) * bytes,
                x.raw() + static_cast<size_t>(from[i]) * bytes, bytes);
}

// `product`: one of MatMul's definitions, or null where rows are chosen from the inputs `first`,
// ...
EvalResult EvaluateRows(const EvalArgs& args, Evaluate product, const Tensor& data,
                        const Tensor& ids, size_t first, int64_t experts) {
  EVOQ_ASSIGN(Tensor y, AllocateOutput(args.output_types[0]));
  if (y.elements() == 0) return One(std::move(y));
  const int64_t share = ExpertRowsOf(data.shape(), ids.shape(), experts).share;
  for (int64_t r = 0; r < ids.elements(); ++r) {
    const int64_t e = IndexAt(ids, r);
    if (e < 0 || e >= experts)
      return InvalidInput("index {} is {}, expected one of {} experts", r, e, experts);
  }
  for (int64_t e = 0; e < experts; ++e) {
    std::vector<int64_t> rows, from, counted;
    for (int64_t r = 0; r < ids.elements(); ++r) {
      if (IndexAt(ids, r) != e) continue;
      counted.push_back(static_cast<int64_t>(rows.size()));
      rows.push_back(r);
      from.push_back(r / share);
    }
    const size_t at = first + static_cast<size_t>(e), bias = at + static_cast<size_t>(experts);
    if (product == nullptr) CopyRows(args.inputs[at], from, rows, y);
    if (product == nullptr || rows.empty()) continue;
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<Tensor> inputs = {
        Tensor::Allocate(TensorType(data.dtype(), Shape{count, data.sizes().back()})),
        args.inputs[at]};
    CopyRows(data, from, counted, inputs[0]);
    if (bias < args.inputs.size()) inputs.push_back(args.inputs[bias]);
    const TensorType type(y.dtype(), Shape{count, y.sizes().back()});
    EVOQ_ASSIGN(const std::vector<Tensor> out,
                product({.node = args.node, .inputs = inputs, .output_types = {&type, 1}}));
    CopyRows(out[0], counted, rows, y);
  }
  return One(std::move(y));
}

EvalResult EvaluateChoose(const EvalArgs& args) {
  return EvaluateRows(args, nullptr, args.inputs[1], args.inputs[0], 1,
                      static_cast<int64_t>(args.inputs.size()) - 1);
}

EvalResult EvaluateProducts(const EvalArgs& args, Evaluate product) {
  return EvaluateRows(args, product, args.inputs[kExpertData], args.inputs[kExpertIds],
                      kFirstExpert, args.node.attrs.Int(kExperts));
}

EvalResult EvaluateExperts(const EvalArgs& args) {
  return EvaluateProducts(args, reference::kMatMul.evaluate);
}

// Weights that are quantized, beside data that are rounded. Without, they are real numbers.
EvalResult EvaluateExpertsQuantized(const EvalArgs& args) {
  if (args.node.attrs.Int(kDataBlock, 0) == 0) return Unsupported("data that is not rounded");
  return EvaluateProducts(args, reference::kMatMul.evaluate_quantized);
}

}  // namespace

namespace reference {

extern const Definition kChooseExpert = {
    .name = "ChooseExpert", .domain = "evoq", .evaluate = EvaluateChoose};
extern const Definition kExpertMatMul = {.name = "ExpertMatMul",
                                         .domain = "evoq",
                                         .evaluate = EvaluateExperts,
                                         .evaluate_quantized = EvaluateExpertsQuantized};

}  // namespace reference
}  // namespace evoq
