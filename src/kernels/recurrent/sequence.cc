#include "kernels/recurrent/sequence.h"

#include "base/math.h"
#include "kernels/call_util.h"

namespace evoq {
namespace {

std::vector<std::string> DefaultsOf(Cell cell) {
  switch (cell) {
    case Cell::kRnn: return {"Tanh"};
    case Cell::kGru: return {"Sigmoid", "Tanh"};
    case Cell::kLstm: return {"Sigmoid", "Tanh", "Tanh"};
  }
  return {};
}

// Floats from `first` on: `n` of them, or zeros where there are none.
std::vector<float> Some(const Tensor& from, int64_t first, int64_t n) {
  if (!from.defined()) return std::vector<float>(static_cast<size_t>(n), 0.0f);
  return {from.data<float>() + first, from.data<float>() + first + n};
}

std::optional<Reason> RejectTypes(const KernelCall& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (i == kRecurrentLengths) continue;
    const bool weight = i == kRecurrentW || i == kRecurrentR || i == kRecurrentB;
    if (weight && call.has_input(i) && call.constant(i) == nullptr)
      return Reject("not-constant", "input {} is computed", i);
    if (call.has_input(i) && !weight && !PlainFloat(call.inputs[i]))
      return Reject("types", "input {} is {}, expected float32", i, call.inputs[i].ToString());
  }
  if (call.has_input(kRecurrentLengths) && call.inputs[kRecurrentLengths].dtype != DType::kInt32)
    return Reject("types", "input {} is {}, expected int32", +kRecurrentLengths,
                  call.inputs[kRecurrentLengths].ToString());
  for (const TensorType& type : call.outputs) {
    if (type.dtype != DType::kUndefined && !PlainFloat(type))
      return Reject("types", "output {}, expected float32", type.ToString());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Reason> RejectRecurrent(const KernelCall& call, Cell cell) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  if (auto types = RejectTypes(call)) return types;
  for (size_t i : {kRecurrentX, kRecurrentW, kRecurrentR}) {
    if (!call.has_input(i) || call.inputs[i].shape.rank() != 3)
      return Reject("shape", "input {} has not rank 3", i);
  }
  const auto functions =
      GateFnsOf(call.attrs, DefaultsOf(cell), call.inputs[kRecurrentW].shape[0].value);
  if (!functions) return Reject("attribute", "{}", functions.error().message());
  if (call.constant(kRecurrentLengths) == nullptr) return std::nullopt;
  const auto lengths = ToInt64s(*call.constant(kRecurrentLengths));
  const int64_t steps = call.inputs[kRecurrentX].shape[call.attrs.Int("layout") != 0 ? 1 : 0].value;
  for (int64_t n : lengths.value_or(std::vector<int64_t>{-1})) {
    if (n < 0 || n > steps) return Reject("shape", "a length of {} in {} steps", n, steps);
  }
  return std::nullopt;
}

Result<RecurrentShape> RecurrentShapeOf(const KernelCall& call, Cell cell) {
  const std::vector<int64_t> x = call.inputs[kRecurrentX].shape.sizes();
  const bool batch_first = call.attrs.Int("layout") != 0;
  RecurrentShape s{.cell = cell,
                   .steps = x[batch_first ? 1 : 0],
                   .batch = x[batch_first ? 0 : 1],
                   .input = x[2],
                   .hidden = call.inputs[kRecurrentR].shape[2].value,
                   .gates = cell == Cell::kLstm  ? 4
                            : cell == Cell::kGru ? 3
                                                 : 1,
                   .directions = call.inputs[kRecurrentW].shape[0].value,
                   .batch_first = batch_first,
                   .linear_before_reset = call.attrs.Int("linear_before_reset") != 0,
                   .input_forget = call.attrs.Int("input_forget") != 0,
                   .reverse = call.attrs.String("direction", "forward") == "reverse",
                   .clip = call.attrs.Float("clip", 0),
                   .has_lengths = call.has_input(kRecurrentLengths),
                   .has_h = call.has_input(kRecurrentH),
                   .has_c = call.has_input(kRecurrentC),
                   .has_peepholes = call.has_input(kRecurrentPeepholes),
                   .gives = {},
                   .functions = {}};
  for (size_t i = 0; i < std::size(s.gives) && i < call.outputs.size(); ++i)
    s.gives[i] = call.outputs[i].dtype != DType::kUndefined;
  EVOQ_ASSIGN(s.functions, GateFnsOf(call.attrs, DefaultsOf(cell), s.directions));
  const int64_t sizes[] = {s.steps * s.batch + s.batch, s.gates + 3, s.hidden,
                           static_cast<int64_t>(sizeof(float))};
  if (!CheckedProduct(sizes))
    return Fail(ErrorCode::kTooLarge, "{}: {} steps of {} units", call.op, s.steps * s.batch,
                s.hidden);
  return s;
}

Result<RecurrentBiases> RecurrentBiasesOf(const KernelCall& call, const RecurrentShape& shape,
                                          int64_t d) {
  Tensor b;
  if (call.has_input(kRecurrentB)) {
    EVOQ_ASSIGN(b, ToFloat32(*call.constant(kRecurrentB)));
  }
  const int64_t columns = shape.columns();
  RecurrentBiases biases = {Some(b, d * 2 * columns, columns),
                            Some(b, d * 2 * columns + columns, columns)};
  // The state's bias joins the input's, but for the gate that is reset after it.
  const bool apart = shape.cell == Cell::kGru && shape.linear_before_reset;
  for (int64_t k = 0; k < columns; ++k) {
    if (apart && k >= 2 * shape.hidden) continue;
    biases.input[k] += biases.state[k];
    biases.state[k] = 0;
  }
  if (!apart) biases.state.clear();
  return biases;
}

}  // namespace evoq
