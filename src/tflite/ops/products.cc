// FULLY_CONNECTED and BATCH_MATMUL.
#include <numeric>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// y = x w^T + b over the last axis, whose size is w's; with keep_num_dims unset all other axes
// become one.
Status FullyConnected(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::FullyConnectedOptions>());
  if (o->weights_format() != 0) return Unsupported("shuffled weights");
  EVOQ_TRY(to.CheckRank(1, 2));
  const std::vector<int64_t>& x = to.input(0).sizes;
  const int64_t depth = to.input(1).sizes[1];
  if (x.empty()) return InvalidInput("input 0 is a scalar");
  Attrs attrs;
  EVOQ_TRY(to.AddActivation(o->activation(), attrs));
  EVOQ_ASSIGN(const ValueId w, to.Weight(1, {1, 0}));
  EVOQ_ASSIGN(const ValueId b, to.Bias(2, 0, 1));
  ValueId data = to.Real(0);
  if (x.back() != depth || (x.size() != 2 && !o->keep_num_dims()))
    data = to.Apply("Reshape", {data, to.Int64Constant({-1, depth})});
  std::vector<ValueId> inputs = {data, w};
  if (b.valid()) inputs.push_back(b);
  return to.Set(0, to.Apply("MatMul", std::move(inputs), std::move(attrs)));
}

Result<ValueId> Operand(Translator& to, size_t i, bool transposed) {
  if (!transposed) return to.Real(i);
  const int rank = to.input(i).rank();
  if (rank < 2) return InvalidInput("input {} has rank {}, expected at least 2", i, rank);
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return to.Weight(i, perm);
}

Status BatchMatMul(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::BatchMatMulOptions>());
  EVOQ_ASSIGN(const ValueId a, Operand(to, 0, o->adj_x()));
  EVOQ_ASSIGN(const ValueId b, Operand(to, 1, o->adj_y()));
  return to.Set(0, to.Apply("MatMul", {a, b}));
}

}  // namespace

extern const OpRow kFullyConnected = {.name = "FULLY_CONNECTED",
                                      .number = 9,
                                      .least_inputs = 2,
                                      .most_inputs = 3,
                                      .translate = FullyConnected};
extern const OpRow kBatchMatMul = {.name = "BATCH_MATMUL",
                                   .number = 126,
                                   .least_inputs = 2,
                                   .most_inputs = 2,
                                   .translate = BatchMatMul};

}  // namespace evoq::tflite
