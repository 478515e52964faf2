#include "parity/value_names.h"

#include <algorithm>
#include <map>
#include <optional>

namespace evoq {
namespace {

constexpr FormEnding kEndings[] = {
    {".dequantized", "evoq: what float operators read of an integer value"},
    {".quantize", "evoq: what integer operators read of a float value"},
    {".quantized", "evoq: the integers of a constant or an input"},
    {".int8", "evoq: the integers of a constant"},
    {".bf16", "evoq: bfloat16 of a constant"},
    {"_bf16", "evoq: bfloat16 of a value"},
    {"_float32", "evoq: a value that the model has in another type"},
    {"_t", "evoq: the axes in another order"},
    {"_transposed", "evoq: the axes in another order"},
    {"_narrow", "evoq: quantized before its axes are moved"},
    {"_moved", "evoq: quantized before its elements are moved"},
    {"_unsigned", "evoq: int8 as uint8"},
    {"_real", "evoq: the float result of an operator whose integers are rounded behind it"},
    {"_quantized", "evoq; ONNX Runtime: the integers of a value (QOperator format)"},
    {"_dequantized", "ONNX Runtime, Neural Compressor: the floats of integers"},
    {"_QuantizeLinear_Input", "ONNX Runtime: an output of the model before its Q/DQ pair"},
    {"_QuantizeLinear_Output", "ONNX Runtime: the integers of a value (QDQ format)"},
    {"_DequantizeLinear_Output", "ONNX Runtime: the floats of those"},
    {"_QuantizeLinear", "Neural Compressor: the integers of a value"},
    {"_DequantizeLinear", "Neural Compressor: the floats of those"},
    {"_qdq", "AIMET: behind a quantizer"},
    {"_updated", "AIMET: an output of the model before its quantizer"},
};

// The name without one ending; nothing where it has none.
std::optional<std::string_view> WithoutEnding(std::string_view name) {
  for (const FormEnding& row : kEndings) {
    const std::string_view ending = row.ending;
    if (name.size() > ending.size() && name.ends_with(ending))
      return name.substr(0, name.size() - ending.size());
  }
  const size_t digits = name.find_last_not_of("0123456789");
  if (digits == std::string_view::npos || digits + 1 == name.size() || name[digits] != '_')
    return std::nullopt;
  // A number alone tells two values apart; behind an ending, two forms of one.
  return WithoutEnding(name.substr(0, digits));
}

// The name, and what is left of it without one ending, two, ...
std::vector<std::string> Stems(const std::string& name) {
  std::vector<std::string> stems = {name};
  for (std::optional<std::string_view> next = WithoutEnding(name); next;
       next = WithoutEnding(stems.back()))
    stems.emplace_back(*next);
  return stems;
}

}  // namespace

std::span<const FormEnding> AllFormEndings() { return kEndings; }

std::vector<int> MatchNames(std::span<const std::string> a, std::span<const std::string> b) {
  std::map<std::string, int> exact, by_stem;
  for (size_t i = 0; i < a.size(); ++i) {
    exact.emplace(a[i], static_cast<int>(i));
    for (const std::string& stem : Stems(a[i])) by_stem.emplace(stem, static_cast<int>(i));
  }
  std::vector<int> matched;
  for (const std::string& name : b) {
    int found = -1;
    const std::vector<std::string> stems = Stems(name);
    for (const auto* names : {&exact, &by_stem}) {
      for (const std::string& stem : stems) {
        if (const auto it = names->find(stem); it != names->end() && found < 0) found = it->second;
      }
    }
    matched.push_back(found);
  }
  return matched;
}

}  // namespace evoq
