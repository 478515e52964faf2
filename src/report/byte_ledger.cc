#include <algorithm>
#include <map>

#include "base/text.h"
#include "graph/float_reason.h"
#include "ops/op.h"
#include "report/explain_rule.h"
#include "report/ledger.h"

namespace evoq {
namespace {

// The rule's code for a section's category (EtmSection::category).
std::string CodeOf(const std::string& category) {
  static const std::map<std::string, std::string> kCodes = {
      {"header and directory", "header"},     {"int32 bias", "bias"},
      {"zero points", "zero-points"},         {"packing padding", "packing"},
      {"block indices", "block-indices"},     {"scale sets", "scale-sets"},
      {"shape constants", "shape-constants"}, {"float32 weights", "left-float"},
      {"scale sets", "scale-sets"},           {"float64 weights", "left-float"},
      {"float16 weights", "left-float"}};
  if (const auto it = kCodes.find(category); it != kCodes.end()) return it->second;
  return category.ends_with(" weights") ? "quantized-weights" : category;
}

// "weights/conv_1.w" -> "conv_1.w".
std::string TensorName(const std::string& section) { return section.substr(section.find('/') + 1); }

// Why a float constant of the model is no integer: what its first reader says.
std::string WhyFloat(const Model& model, const std::string& name) {
  const ValueId id = model.graph.FindValue(name);
  if (!id.valid() || model.graph.value(id).users.empty()) return "";
  const Node& reader = model.graph.node(model.graph.value(id).users[0]);
  const std::map<std::string, Decision> none;  // a model in dynamic partitions has no plan
  const auto& decisions = model.plans.empty() ? none : model.plans[0].decisions;
  const auto it = decisions.find(reader.name);
  if (it != decisions.end() && !it->second.float_reason.empty())
    return fmt::format("{} ({}): {}", reader.name, it->second.float_reason.code,
                       it->second.float_reason.sentence);
  if (const Reason noted = FloatReasonOf(reader.attrs); !noted.empty())
    return fmt::format("{} ({})", reader.name, noted.ToString());
  const OpDef* const op = FindOp(reader);
  const int bias = op == nullptr ? -1 : InputWith(*op, Role::kBias);
  if (bias >= 0 && reader.input(static_cast<size_t>(bias)) == id)
    return fmt::format("{}: a bias, added in float32", reader.name);
  return fmt::format("{}: {} computes in float32", reader.name, reader.op);
}

// "weights/night/conv_1.b" and "scale-sets/night" -> "night": the names of values hold slashes too,
// so that those of sets do not.
std::string SetName(const std::string& section) {
  const std::string rest = TensorName(section);
  return rest.substr(0, rest.find('/'));
}

// Tensors by name, or for the payload element types; nothing where a part would say no more than
// the whole.
std::string PartName(const std::string& code, const EtmSection& section) {
  if (code == "quantized-weights") return section.category;
  if (code == "scale-sets") return SetName(section.name);
  return code == "left-float" || code == "duplicates" ? TensorName(section.name) : "";
}

}  // namespace

ByteLedger BuildByteLedger(std::span<const EtmSection> sections, int64_t file_bytes,
                           int64_t float_weights, const Model& model) {
  ByteLedger ledger;
  ledger.float_weights = float_weights;
  ledger.ideal_file = float_weights / 4;
  ledger.actual_file = file_bytes;
  ledger.unexplained_bytes = file_bytes;
  std::map<std::string, ByteCause> causes;
  std::map<std::string, std::map<std::string, int64_t>> parts;  // by code, by name
  for (const EtmSection& section : sections) {
    const std::string code = CodeOf(section.category);
    causes[code].bytes += section.bytes;
    ledger.unexplained_bytes -= section.bytes;
    if (const std::string name = PartName(code, section); !name.empty())
      parts[code][name] += section.bytes;
  }
  for (auto& [code, cause] : causes) {
    cause.code = code;
    if (const ExplainRule* rule = FindExplainRule(code, LedgerKind::kBytes)) {
      cause.sentence = rule->sentence;
      cause.fix = rule->fix;
      cause.gain_bytes = static_cast<int64_t>(rule->recoverable * static_cast<double>(cause.bytes));
    }
    for (const auto& [name, bytes] : parts[code])
      cause.parts.push_back({name, bytes, code == "left-float" ? WhyFloat(model, name) : ""});
    std::sort(cause.parts.begin(), cause.parts.end(), [](const BytePart& a, const BytePart& b) {
      return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
    });
    ledger.causes.push_back(std::move(cause));
  }
  std::sort(ledger.causes.begin(), ledger.causes.end(), [](const ByteCause& a, const ByteCause& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.code < b.code;
  });
  return ledger;
}

}  // namespace evoq
