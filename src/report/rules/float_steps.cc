// Steps that compute in float32, or on integers whose scale is found at each run, and what they
// cost with the conversions and float neighbours that they cause.
#include "graph/float_reason.h"
#include "ops/op.h"
#include "report/explain_rule.h"

namespace evoq {
namespace {

bool IsReal(const TensorType& type) { return type.quantized() || IsFloat(type.dtype); }

bool ComputesReals(const Graph& graph, const Node& node) {
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (ValueId id : *values) {
      if (id.valid() && IsReal(graph.value(id).type)) return true;
    }
  }
  return false;
}

bool ScalesAreConstant(const Graph& graph, const Node& node, const OpDef& op) {
  if (InputWith(op, Role::kScale) < 0) return false;
  for (const Role role : {Role::kScale, Role::kZeroPoint}) {
    const int i = InputWith(op, role);
    if (i < 0) continue;
    const ValueId value = node.input(static_cast<size_t>(i));
    if (value.valid() && !graph.value(value).is_constant()) return false;
  }
  return true;
}

bool IsDynamic(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  const OpDef* op = FindOp(node);
  if (op == nullptr) return false;
  if (op->linear != nullptr && InputWith(*op, Role::kZeroPoint) >= 0)
    return !ScalesAreConstant(graph, node, *op);
  return op->ranges_at_run_time;
}

// Static integers of 16 bits: products of their bytes, by scales that are constants.
bool IsOfTwoBytes(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  const OpDef* op = FindOp(node);
  if (op == nullptr) return false;
  return (QuantizesOrDequantizes(op) && op->outputs == 2) ||
         (op->linear != nullptr && ScalesAreConstant(graph, node, *op));
}

bool ConvertsSixteenBits(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  return IsConversion(node) && ComputesSixteenBits(graph, node);
}

bool HasNoIntegerForm(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  const OpDef* op = FindOp(node);
  if (IsConversion(node)) return false;
  return (op == nullptr || op->quant == QuantTrait::kFloat) &&
         step.decision.precision == Precision::kFloat32 && ComputesReals(graph, node);
}

}  // namespace

extern const ExplainRule kCauseScaleIsDynamic = {
    .code = "scale-is-dynamic",
    .ledger = LedgerKind::kTime,
    .sentence =
        "The scales of these steps' inputs are found at each run: a pass over the data, and "
        "float32 between the layers.",
    .fix = "Calibrate: evoq quantize --scheme int8 --calib DATA.",
    .recoverable = 1,
    .claims = IsDynamic,
};
extern const ExplainRule kCauseTwoBytes = {
    .code = "two-bytes",
    .ledger = LedgerKind::kTime,
    .sentence =
        "These layers multiply integers of 16 bits: two int8 products each, four where the weights "
        "have 16 bits too, and float32 between the layers.",
    .fix = "Where accuracy allows it: evoq quantize --scheme int8 --calib DATA.",
    .recoverable = 1,
    .claims = IsOfTwoBytes,
};
extern const ExplainRule kCauseSixteenBits = {
    .code = kSixteenBits,
    .ledger = LedgerKind::kTime,
    .sentence =
        "The model was quantized to 16 bits, which no integer kernel multiplies: these operators "
        "compute in float32, between values that are rounded to 16 bits and back.",
    .fix =
        "Quantize the float model: --scheme int16x8 multiplies data of 16 bits as two bytes each, "
        "--scheme int8 takes one.",
    .recoverable = 1,
    .claims = ConvertsSixteenBits,
};
extern const ExplainRule kCauseNoInt8Kernel = {
    .code = kNoInt8Kernel,
    .ledger = LedgerKind::kTime,
    .sentence =
        "No integer kernel takes these operators: they run in float32, between conversions, and "
        "break the integers' chain.",
    .fix =
        "Replace them by operators with an integer form (evoq list ops), or move them to the "
        "model's border.",
    .recoverable = 1,
    .claims = HasNoIntegerForm,
};
extern const ExplainRule kCauseNoBf16Kernel = {
    .code = kNoBf16Kernel,
    .ledger = LedgerKind::kTime,
    .sentence = "No bfloat16 kernel takes these operators: they run in float32 between Casts.",
    .fix = "Replace them, or exclude them with their neighbours to save the Casts.",
    .recoverable = 1,
};
extern const ExplainRule kCauseExcluded = {
    .code = "excluded",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators were excluded from quantization.",
    .fix = "Drop the --exclude that names them, where accuracy allows it.",
    .recoverable = 1,
};
extern const ExplainRule kCauseFirstOrLast = {
    .code = "first-or-last",
    .ledger = LedgerKind::kTime,
    .sentence = "The first and the last linear operator were asked to stay float.",
    .fix = "Quantize them too, where accuracy allows it.",
    .recoverable = 1,
};
extern const ExplainRule kCauseNoRange = {
    .code = "no-range",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators' values have no calibrated range.",
    .fix = "Calibrate with data that reaches them, or give ranges that name them.",
    .recoverable = 1,
};
extern const ExplainRule kCauseNotQuantized = {
    .code = "not-quantized",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators are float32 in the model.",
    .fix =
        "Quantize them: evoq quantize --scheme int8, or Q/DQ pairs around them in the ONNX file.",
    .recoverable = 1,
};
extern const ExplainRule kCauseWeightsOnly = {
    .code = "weights-only",
    .ledger = LedgerKind::kTime,
    .sentence = "Only the weights are integers: the arithmetic is float32.",
    .fix = "Use --scheme int8 for integer arithmetic.",
    .recoverable = 1,
};
extern const ExplainRule kCauseWeightsNotConstant = {
    .code = "weights-not-constant",
    .ledger = LedgerKind::kTime,
    .sentence = "The weights of these operators are computed at run time.",
    .fix = "Make them constants (fold what computes them) before quantizing.",
    .recoverable = 1,
};
extern const ExplainRule kCauseBiasNotConstant = {
    .code = "bias-not-constant",
    .ledger = LedgerKind::kTime,
    .sentence = "The bias of these operators is computed at run time.",
    .fix = "Make it a constant, or an Add behind the operator.",
    .recoverable = 1,
};
extern const ExplainRule kCauseConstantInput = {
    .code = "constant-input",
    .ledger = LedgerKind::kTime,
    .sentence = "What integer kernels take as data is a constant in these operators.",
    .fix =
        "Where all operands are constants, fold them before exporting; in a product of constant "
        "weights by data, exchange the two: it is the transpose of the product of their "
        "transposes.",
    .recoverable = 1,
};
extern const ExplainRule kCauseTypes = {
    .code = "types",
    .ledger = LedgerKind::kTime,
    .sentence = "The inputs or weights of these operators are of a type that is not quantized.",
    .fix = "Export the model in float32.",
    .recoverable = 1,
};
extern const ExplainRule kCauseShape = {
    .code = "shape",
    .ledger = LedgerKind::kTime,
    .sentence = "The weights of these operators have a shape that integer kernels do not take.",
    .fix = "Reshape them to a matrix (MatMul) before exporting.",
    .recoverable = 1,
};
extern const ExplainRule kCauseDepth = {
    .code = "depth",
    .ledger = LedgerKind::kTime,
    .sentence = "The sums of these operators are too long for 32-bit integers.",
    .fix = "Split them along the summed dimension.",
    .recoverable = 1,
};
extern const ExplainRule kCauseOutputs = {
    .code = "outputs",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators have several outputs, which have no integer form together.",
    .fix = "Use an operator with one output where the others are not needed.",
    .recoverable = 1,
};
extern const ExplainRule kCauseSmall = {
    .code = "small",
    .ledger = LedgerKind::kTime,
    .sentence = "The weights of these operators are too few to be worth scales.",
    .fix = "",
};
extern const ExplainRule kCauseRouter = {
    .code = "router",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators choose experts, where an error would change whole experts.",
    .fix = "None needed: they are small beside the experts.",
};
extern const ExplainRule kCauseLogarithm = {
    .code = "logarithm",
    .ledger = LedgerKind::kTime,
    .sentence =
        "The logarithm of what these operators give is taken, where the steps of 8 bits would be "
        "large errors of small values.",
    .fix = "None needed where they are small, as banks of filters are.",
};
extern const ExplainRule kCauseSlowerWhenMeasured = {
    .code = "slower-when-measured",
    .ledger = LedgerKind::kTime,
    .sentence = "The search measured these operators and found that narrowing them does not pay.",
    .fix = "",
};
extern const ExplainRule kCauseKeptByBudget = {
    .code = "layer-kept-float-by-budget",
    .ledger = LedgerKind::kTime,
    .sentence = "Narrowing these operators would pay, and lose more accuracy than was allowed.",
    .fix = "Allow more: a larger --max-drop.",
    .recoverable = 1,
};
extern const ExplainRule kCausePlan = {
    .code = "plan",
    .ledger = LedgerKind::kTime,
    .sentence = "A plan by layer computes these operators in a wider type.",
    .fix = "Change the plan.",
    .recoverable = 1,
};
extern const ExplainRule kCauseNoNarrowForm = {
    .code = "no-narrow-form",
    .ledger = LedgerKind::kTime,
    .sentence = "The scheme that a plan by layer gives these operators leaves them as they are.",
    .fix = "Give them another scheme.",
};
extern const ExplainRule kCauseActivationNotQuantized = {
    .code = "activation-not-quantized",
    .ledger = LedgerKind::kTime,
    .sentence =
        "A nonlinear activation follows these operators in the model, and no QuantizeLinear stands "
        "between.",
    .fix = "Put a QuantizeLinear and a DequantizeLinear between the operator and its activation.",
    .recoverable = 1,
};
extern const ExplainRule kCauseFloatInputs = {
    .code = "float-inputs",
    .ledger = LedgerKind::kTime,
    .sentence = "These operators read values that are computed in float32.",
    .fix = "They become integers when what computes their inputs does.",
};
extern const ExplainRule kCauseFloatReaders = {
    .code = "float-readers",
    .ledger = LedgerKind::kTime,
    .sentence = "Only the model's outputs and float operators read these operators' results.",
    .fix = "None needed: integers would be converted back at once.",
};

}  // namespace evoq
