// Steps that compute in float32, or on integers whose scale is found at each run, and what they
// cost with the conversions and float neighbours that they cause.
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

bool IsDynamic(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  const OpDef* op = FindOp(node.op, node.domain);
  if (op == nullptr) return false;
  const bool zero_at_run_time = op->linear != nullptr && InputWith(*op, Role::kZeroPoint) >= 0;
  return op->ranges_at_run_time || zero_at_run_time;
}

bool HasNoIntegerForm(const Graph& graph, const Step& step) {
  const Node& node = graph.node(step.node);
  const OpDef* op = FindOp(node.op, node.domain);
  if (IsConversion(node)) return false;
  return (op == nullptr || op->quant == QuantTrait::kFloat) &&
         step.decision.precision == Precision::kFloat32 && ComputesReals(graph, node);
}

}  // namespace

extern const ExplainRule kCauseScaleIsDynamic = {
    "scale-is-dynamic",
    LedgerKind::kTime,
    "The scales of these steps' inputs are found at each run: a pass over the data, and float32 "
    "between the layers.",
    "Calibrate: evoq quantize --scheme int8 --calib DATA.",
    1,
    IsDynamic};
extern const ExplainRule kCauseNoInt8Kernel = {
    "no-int8-kernel",
    LedgerKind::kTime,
    "No integer kernel takes these operators: they run in float32, between conversions, and break "
    "the integers' chain.",
    "Replace them by operators with an integer form (evoq list ops), or move them to the model's "
    "border.",
    1,
    HasNoIntegerForm};
extern const ExplainRule kCauseNoBf16Kernel = {
    "no-bf16-kernel", LedgerKind::kTime,
    "No bfloat16 kernel takes these operators: they run in float32 between Casts.",
    "Replace them, or exclude them with their neighbours to save the Casts.", 1};
extern const ExplainRule kCauseExcluded = {
    "excluded", LedgerKind::kTime, "These operators were excluded from quantization.",
    "Drop the --exclude that names them, where accuracy allows it.", 1};
extern const ExplainRule kCauseFirstOrLast = {
    "first-or-last", LedgerKind::kTime,
    "The first and the last linear operator were asked to stay float.",
    "Quantize them too, where accuracy allows it.", 1};
extern const ExplainRule kCauseNoRange = {
    "no-range", LedgerKind::kTime, "These operators' values have no calibrated range.",
    "Calibrate with data that reaches them, or give ranges that name them.", 1};
extern const ExplainRule kCauseNotQuantized = {
    "not-quantized", LedgerKind::kTime, "These operators are float32 in the model.",
    "Quantize them: evoq quantize --scheme int8, or Q/DQ pairs around them in the ONNX file.", 1};
extern const ExplainRule kCauseWeightsOnly = {
    "weights-only", LedgerKind::kTime, "Only the weights are integers: the arithmetic is float32.",
    "Use --scheme int8 for integer arithmetic.", 1};
extern const ExplainRule kCauseWeightsNotConstant = {
    "weights-not-constant", LedgerKind::kTime,
    "The weights of these operators are computed at run time.",
    "Make them constants (fold what computes them) before quantizing.", 1};
extern const ExplainRule kCauseBiasNotConstant = {
    "bias-not-constant", LedgerKind::kTime, "The bias of these operators is computed at run time.",
    "Make it a constant, or an Add behind the operator.", 1};
extern const ExplainRule kCauseConstantInput = {
    "constant-input", LedgerKind::kTime, "The input of these operators is a constant.",
    "Fold them before exporting: their result is a constant too.", 1};
extern const ExplainRule kCauseTypes = {
    "types", LedgerKind::kTime,
    "The inputs or weights of these operators are of a type that is not quantized.",
    "Export the model in float32.", 1};
extern const ExplainRule kCauseShape = {
    "shape", LedgerKind::kTime,
    "The weights of these operators have a shape that integer kernels do not take.",
    "Reshape them to a matrix (MatMul) before exporting.", 1};
extern const ExplainRule kCauseDepth = {
    "depth", LedgerKind::kTime, "The sums of these operators are too long for 32-bit integers.",
    "Split them along the summed dimension.", 1};
extern const ExplainRule kCauseOutputs = {
    "outputs", LedgerKind::kTime,
    "These operators have several outputs, which have no integer form together.",
    "Use an operator with one output where the others are not needed.", 1};
extern const ExplainRule kCauseSmall = {
    "small", LedgerKind::kTime, "The weights of these operators are too few to be worth scales.",
    "", 0};
extern const ExplainRule kCauseSlowerWhenMeasured = {
    "slower-when-measured", LedgerKind::kTime,
    "The search measured these operators and found that narrowing them does not pay.", "", 0};
extern const ExplainRule kCauseKeptByBudget = {
    "layer-kept-float-by-budget", LedgerKind::kTime,
    "Narrowing these operators would pay, and lose more accuracy than was allowed.",
    "Allow more: a larger --max-drop.", 1};
extern const ExplainRule kCausePlan = {"plan", LedgerKind::kTime,
                                       "A plan by layer computes these operators in a wider type.",
                                       "Change the plan.", 1};
extern const ExplainRule kCauseTable = {"table", LedgerKind::kTime,
                                        "A plan by layer leaves tables in float32.", "", 0};
extern const ExplainRule kCauseFloatInputs = {
    "float-inputs", LedgerKind::kTime, "These operators read values that are computed in float32.",
    "They become integers when what computes their inputs does.", 0};
extern const ExplainRule kCauseFloatReaders = {
    "float-readers", LedgerKind::kTime,
    "Only the model's outputs and float operators read these operators' results.",
    "None needed: integers would be converted back at once.", 0};

}  // namespace evoq
