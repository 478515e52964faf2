// UNIDIRECTIONAL_SEQUENCE_LSTM, with float or dequantized weights.
#include <cstring>

#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// The operator's inputs: four of each, for the input, forget, cell and output gate.
constexpr size_t kInputWeights = 1, kRecurrentWeights = 5, kPeepholes = 9, kBiases = 12,
                 kProjection = 16, kOutputState = 18, kCellState = 19, kLayerNorms = 20;
// The gates in ONNX's order: input, output, forget, cell.
constexpr size_t kGates[] = {0, 3, 1, 2};

// The four matrices or vectors of the gates, one after the other with an axis of size 1 in front.
ValueId Gates(Translator& to, size_t first) {
  std::vector<ValueId> parts;
  for (const size_t gate : kGates) parts.push_back(to.Real(first + gate));
  return to.Apply("Unsqueeze", {to.Apply("Concat", std::move(parts), Attrs::Of("axis", 0)),
                                to.Int64Constant({0})});
}

// W b are added as ONNX has them: biases of the input, then those of the recurrence, which are 0.
ValueId Biases(Translator& to, int64_t hidden) {
  Attrs attrs = Attrs::Of("axis", 1);
  const ValueId zeros =
      to.Constant(Tensor::Allocate(TensorType(DType::kFloat32, Shape{int64_t{1}, 4 * hidden})));
  return to.Apply("Concat", {Gates(to, kBiases), zeros}, std::move(attrs));
}

Status CheckForm(Translator& to, const fb::UnidirectionalSequenceLSTMOptions& o) {
  constexpr int kFusedTanh = 4;
  if (o.activation() != kFusedTanh)
    return Unsupported("the activation number {}, expected Tanh", o.activation());
  if (o.diagonal_recurrent_tensors()) return Unsupported("diagonal recurrent weights");
  if (o.proj_clip() != 0 || to.has(kProjection)) return Unsupported("a projection");
  for (size_t i = kPeepholes; i < kBiases; ++i) {
    if (to.has(i)) return Unsupported("peepholes");
  }
  for (size_t i = kLayerNorms; i < to.inputs(); ++i) {
    if (to.has(i)) return Unsupported("layer normalization");
  }
  for (size_t gate = 0; gate < 4; ++gate) {
    for (const size_t first : {kInputWeights, kRecurrentWeights, kBiases}) {
      if (!to.has(first + gate)) return Unsupported("an LSTM without input {}", first + gate);
    }
    EVOQ_TRY(to.CheckRank(kInputWeights + gate, 2));
    EVOQ_TRY(to.CheckRank(kRecurrentWeights + gate, 2));
    EVOQ_TRY(to.CheckRank(kBiases + gate, 1));
  }
  if (to.input(0).quant || to.output(0).quant)
    return Unsupported(
        "an LSTM of integer activations; evoq runs those of float32 with float or "
        "int8 weights");
  return to.CheckRank(0, 3);
}

Status SequenceLstm(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::UnidirectionalSequenceLSTMOptions>());
  EVOQ_TRY(CheckForm(to, *o));
  if (o->cell_clip() != 0)
    to.Note(fmt::format("cell states are not clipped to {}", o->cell_clip()));
  const int64_t hidden = to.input(kRecurrentWeights).sizes[1];
  if (hidden < 1) return InvalidInput("recurrent weights of width {}", hidden);
  Attrs attrs;
  attrs.Set("hidden_size", hidden);
  attrs.Set("layout", o->time_major() ? 0 : 1);
  std::vector<ValueId> inputs = {to.Real(0), Gates(to, kInputWeights), Gates(to, kRecurrentWeights),
                                 Biases(to, hidden)};
  const bool begins = to.has(kOutputState) && to.has(kCellState) &&
                      !(to.input(kOutputState).variable && to.input(kCellState).variable);
  if (begins) {
    const ValueId axis = to.Int64Constant({o->time_major() ? 0 : 1});
    inputs.push_back(ValueId());
    inputs.push_back(to.Apply("Unsqueeze", {to.Real(kOutputState), axis}));
    inputs.push_back(to.Apply("Unsqueeze", {to.Real(kCellState), axis}));
  }
  const ValueId y = to.Apply("LSTM", std::move(inputs), std::move(attrs));
  return to.Set(0, to.Apply("Squeeze", {y, to.Int64Constant({o->time_major() ? 1 : 2})}));
}

}  // namespace

extern const OpRow kSequenceLstm = {.name = "UNIDIRECTIONAL_SEQUENCE_LSTM",
                                    .number = 44,
                                    .least_inputs = 20,
                                    .most_inputs = 24,
                                    .translate = SequenceLstm};

}  // namespace evoq::tflite
