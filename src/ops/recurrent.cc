// RNN, GRU and LSTM.
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/recurrent/gates.h"
#include "ops/op.h"
#include "ops/util.h"

namespace evoq {
namespace {

// ---- geometry. With layout 1 the batch comes first in x, y and the states.

Result<int64_t> DirectionsOf(const Node& node) {
  const std::string direction = node.attrs.String("direction", "forward");
  if (direction == "bidirectional") return 2;
  if (direction == "forward" || direction == "reverse") return 1;
  return InvalidInput("attribute direction is '{}', expected forward, reverse or bidirectional",
                      direction);
}

// Errors unless a present input i has this shape where both are known.
Status CheckShape(const InferArgs& args, size_t i, const std::vector<Dim>& wanted) {
  if (!args.has(i) || !args.inputs[i].shape.ranked()) return {};
  const Shape &shape = args.inputs[i].shape, expected(wanted);
  bool fits = shape.rank() == expected.rank();
  for (int d = 0; fits && d < shape.rank(); ++d)
    fits = !shape[d].known() || !expected[d].known() || shape[d].value == expected[d].value;
  return fits ? Status()
              : InvalidInput("input {} is {}, expected {}", i, shape.ToString(),
                             expected.ToString());
}

// Types of Y and the states Y_h, Y_c of a cell with `gates` gates.
template <int kGates>
InferResult Infer(const InferArgs& args) {
  for (size_t i : {0, 1, 2, 3, 5, 6, 7}) EVOQ_TRY(CheckFloat(args, i));
  for (size_t i : {0, 1, 2}) EVOQ_TRY(CheckRank(args, i, 3));
  EVOQ_ASSIGN(const int64_t directions, DirectionsOf(args.node));
  const std::vector<std::string> names(kGates == 4 ? 3 : kGates == 3 ? 2 : 1, "Tanh");
  EVOQ_TRY(GateFnsOf(args.node.attrs, names, directions));
  EVOQ_ASSIGN(const int64_t data_block, IntAttr(args.node, kDataBlock, 0));
  if (data_block < 0)
    return InvalidInput("attribute {} is {}, expected 1 or more", kDataBlock, data_block);
  const bool batch_first = args.node.attrs.Int("layout") != 0;
  const Shape &x = args.inputs[0].shape, &r = args.inputs[2].shape;
  Dim steps, batch, input, hidden;
  if (x.ranked()) steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1], input = x[2];
  if (r.ranked()) hidden = r[2];
  EVOQ_ASSIGN(const int64_t declared, IntAttr(args.node, "hidden_size", hidden.value));
  if (hidden.known() && declared != hidden.value)
    return InvalidInput("attribute hidden_size is {}, input 2 says {}", declared, hidden.value);
  if (hidden.value > int64_t{1} << 32)
    return Fail(ErrorCode::kTooLarge, "hidden size {}", hidden.value);
  const auto times = [&](int64_t factor) {
    return hidden.known() ? Dim(hidden.value * factor) : Dim();
  };
  const std::vector<Dim> state = batch_first ? std::vector<Dim>{batch, directions, hidden}
                                             : std::vector<Dim>{directions, batch, hidden};
  EVOQ_TRY(CheckShape(args, 1, {directions, times(kGates), input}));
  EVOQ_TRY(CheckShape(args, 2, {directions, times(kGates), hidden}));
  EVOQ_TRY(CheckShape(args, 3, {directions, times(2 * kGates)}));
  EVOQ_TRY(CheckShape(args, 4, {batch}));
  EVOQ_TRY(CheckShape(args, 5, state));
  EVOQ_TRY(CheckShape(args, 6, state));
  EVOQ_TRY(CheckShape(args, 7, {directions, times(3)}));
  const DType dtype = args.inputs[0].dtype;
  const std::vector<Dim> y = batch_first ? std::vector<Dim>{batch, steps, directions, hidden}
                                         : std::vector<Dim>{steps, directions, batch, hidden};
  std::vector<TensorType> types = {TensorType(dtype, Shape(y)), TensorType(dtype, Shape(state))};
  if (kGates == 4) types.emplace_back(dtype, Shape(state));
  return types;
}

// ---- running

int64_t Macs(const Node&, std::span<const TensorType> inputs, std::span<const TensorType>) {
  const int64_t positions = inputs[0].shape[0].value * inputs[0].shape[1].value;
  return positions *
         (inputs[1].shape.elements().value_or(0) + inputs[2].shape.elements().value_or(0));
}

}  // namespace

extern const OpDef kGRU = {.name = "GRU",
                           .min_inputs = 3,
                           .max_inputs = 6,
                           .outputs = 2,
                           .infer = Infer<3>,
                           .macs = Macs,
                           .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};
extern const OpDef kLSTM = {.name = "LSTM",
                            .min_inputs = 3,
                            .max_inputs = 8,
                            .outputs = 3,
                            .infer = Infer<4>,
                            .macs = Macs,
                            .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};
extern const OpDef kRNN = {.name = "RNN",
                           .min_inputs = 3,
                           .max_inputs = 6,
                           .outputs = 2,
                           .infer = Infer<1>,
                           .macs = Macs,
                           .roles = {Role::kData, Role::kWeight, Role::kWeight, Role::kBias}};

}  // namespace evoq
