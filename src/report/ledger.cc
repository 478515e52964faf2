#include "report/ledger.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "ops/op.h"

namespace evoq {
namespace {

// What a cause means and what helps against it. A step's own reason replaces the sentence where there is one step.
struct CauseText {
  const char* code;
  const char* sentence;
  const char* fix;
};
constexpr CauseText kTexts[] = {
    {"conversion", "Conversions between float32 and the smaller types that the float model does not have.",
     "Quantize the operators on both sides, or move the conversion to the model's border."},
    {"layout-change", "Transposes at the borders of the channels-last part.",
     "Feed channels-last data (N, H, W, C), or remove the operator that needs channels-first."},
    {"kernel-below-ideal", "Integer kernels that gain less over their float counterpart than the hardware allows.",
     "Compare the roofline share of these steps: small or thin layers are bound by memory and fixed cost."},
    {"moves-bytes", "Operators that only move or combine values gain less than the four times smaller bytes allow.",
     "Fuse them into a neighbour (residual, activation) where the graph allows it."},
    {"stays-float", "Operators without integer arithmetic run in float32.", "None needed when their share is small."},
    {"no-int8-kernel", "No integer kernel takes these operators.", "Exclude them together with their neighbours to save conversions."},
    {"no-bf16-kernel", "No bfloat16 kernel takes these operators.", "Exclude them together with their neighbours to save conversions."},
    {"not-quantized", "These operators are float32 in the model.", "Quantize the model: evoq quantize --scheme int8."},
    {"weights-only", "Only the weights are integers; the arithmetic is float32.", "Use --scheme int8 for integer arithmetic."},
    {"kept-float-by-user", "These operators were excluded by --exclude.", "Remove the exclusion if accuracy allows it."},
    {"not-calibrated", "No range was observed for these operators' values.", "Calibrate with data that reaches them."},
    {"fused-away", "Steps of the float run that the quantized run does not need.", ""},
    {"between-steps", "Time of a run outside its steps.", ""},
};

const CauseText* FindText(const std::string& code) {
  for (const CauseText& t : kTexts) {
    if (code == t.code) return &t;
  }
  return nullptr;
}

// Of ONNX, or of the dialect (Silu, Lookup, DynamicConv, ...).
const OpDef* OpOf(const StepTime& step) {
  const OpDef* op = FindOp(step.op);
  return op != nullptr ? op : FindOp(step.op, "evoq");
}

// The narrowest time of a step, from its measured float time.
double IdealMs(const StepTime& step, const Limits& limits, bool bf16) {
  const OpDef* op = OpOf(step);
  const bool quantizable = op != nullptr && op->quant != QuantTrait::kFloat;
  if (!quantizable) return step.ms;
  if (op->quant == QuantTrait::kLinear) return step.ms * limits.fp32_gflops / std::max(bf16 ? limits.bf16_gflops : limits.int8_gops, 1e-9);
  return step.ms / (bf16 ? 2 : 4);
}

std::string CodeOf(const StepTime& step, const Step& decided, bool matched) {
  if (step.op == "QuantizeLinear" || step.op == "DequantizeLinear" || step.op == "DynamicQuantizeLinear" || step.op == "Cast")
    return "conversion";
  if (step.op == "Transpose" && !matched) return "layout-change";
  if (!decided.decision.float_code.empty()) return decided.decision.float_code;
  const OpDef* op = OpOf(step);
  if (op == nullptr || op->quant == QuantTrait::kFloat) return "stays-float";
  return op->quant == QuantTrait::kLinear ? "kernel-below-ideal" : "moves-bytes";
}

}  // namespace

TimeLedger BuildTimeLedger(const StepProfile& float_run, const StepProfile& quantized_run, const Program& quantized,
                           const Limits& limits) {
  TimeLedger ledger;
  ledger.float_ms = float_run.total_ms;
  ledger.actual_ms = quantized_run.total_ms;
  std::map<std::string, double> ideal;  // by step name
  // Steps are timed a little slower than whole runs; the float run's times are brought to its total.
  const double float_scale = float_run.steps_ms > 0 ? std::min(1.0, float_run.total_ms / float_run.steps_ms) : 1;
  const double scale = quantized_run.steps_ms > 0 ? std::min(1.0, quantized_run.total_ms / quantized_run.steps_ms) : 1;
  const bool bf16 = std::any_of(quantized.steps.begin(), quantized.steps.end(),
                                [](const Step& step) { return step.decision.precision == "bf16"; });
  for (const StepTime& step : float_run.steps) ideal[step.name] += IdealMs(step, limits, bf16) * float_scale;
  for (const auto& [name, ms] : ideal) ledger.ideal_ms += ms;

  std::map<std::string, TimeCause> causes;
  const auto add = [&](const std::string& code, double ms, const std::string& step, const std::string& why) {
    TimeCause& cause = causes[code];
    if (cause.code.empty()) {
      const CauseText* text = FindText(code);
      cause.code = code;
      cause.sentence = text ? text->sentence : why;
      cause.fix = text ? text->fix : "";
    }
    cause.ms += ms;
    if (!step.empty()) cause.steps.push_back(step);
  };
  double steps_ms = 0;
  for (size_t i = 0; i < quantized_run.steps.size(); ++i) {
    const StepTime& step = quantized_run.steps[i];
    auto it = ideal.find(step.name);
    const bool matched = it != ideal.end();
    const double loss = step.ms * scale - (matched ? it->second : 0);
    steps_ms += step.ms * scale;
    if (matched) ideal.erase(it);
    add(CodeOf(step, quantized.steps[i], matched), loss, step.name, quantized.steps[i].decision.float_why);
  }
  for (const auto& [name, ms] : ideal) add("fused-away", -ms, name, "");
  if (const double between = ledger.actual_ms - steps_ms; between > 0) add("between-steps", between, "", "");
  for (auto& [code, cause] : causes) {
    ledger.unexplained_ms -= cause.ms;
    ledger.causes.push_back(std::move(cause));
  }
  ledger.unexplained_ms += ledger.actual_ms - ledger.ideal_ms;
  std::sort(ledger.causes.begin(), ledger.causes.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  return ledger;
}

ByteLedger BuildByteLedger(std::span<const EtmSection> sections, int64_t file_bytes, int64_t float_weights) {
  static const std::map<std::string, std::string> kSentences = {
      {"header and directory", "where the blobs are, with their checksums"},
      {"graph", "operators, names, types and attributes, compressed"},
      {"plans", "kernel choices with their reasons, compressed"},
      {"scales", "one float32 scale per output channel"},
      {"int32 bias", "biases at the scale of input times weights"},
      {"alignment", "so that mapped weights start on a cache line"},
      {"packing padding", "weights rounded up to whole registers"},
      {"shape constants", "constants of integer operators"},
      {"attributes", "tensors among the attributes"},
  };
  ByteLedger ledger;
  ledger.float_weights = float_weights;
  ledger.ideal_file = float_weights / 4;
  ledger.actual_file = file_bytes;
  ledger.unexplained_bytes = file_bytes;
  std::map<std::string, ByteCause> causes;
  for (const EtmSection& s : sections) {
    ByteCause& cause = causes[s.category];
    cause.code = s.category;
    auto it = kSentences.find(s.category);
    cause.sentence = it != kSentences.end() ? it->second : "constants of the graph as " + s.category;
    cause.bytes += s.bytes;
    ledger.unexplained_bytes -= s.bytes;
  }
  for (auto& [code, cause] : causes) ledger.causes.push_back(std::move(cause));
  std::sort(ledger.causes.begin(), ledger.causes.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return ledger;
}

}  // namespace evoq
