#include "foreign/profiles/foreign_run.h"

#include <algorithm>
#include <cctype>

namespace evoq {

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

double ForeignRun::GroupMs(LayerGroup group) const {
  double ms = 0;
  for (const ForeignLayer& layer : layers) ms += layer.group == group ? layer.ms : 0;
  return ms;
}

bool ForeignRun::quantized() const {
  return std::any_of(layers.begin(), layers.end(), [](const ForeignLayer& layer) {
    return layer.conversion != Conversion::kNone
               ? layer.conversion == Conversion::kQuantize
               : BitsOf(layer.precision) == 8 || BitsOf(layer.precision) == 4;
  });
}

std::string PrecisionIn(const std::string& words) {
  struct Name {
    const char* word;
    const char* precision;
  };
  // Longer spellings before those they contain, and bfloat16 before the words that come beside it.
  constexpr Name kNames[] = {
      {"bfloat16", "bf16"}, {"bf16", "bf16"},   {"float16", "fp16"}, {"fp16", "fp16"},
      {"half", "fp16"},     {"f16", "fp16"},    {"fp8", "fp8"},      {"float8", "fp8"},
      {"fp4", "fp4"},       {"float4", "fp4"},  {"fp32", "fp32"},    {"float", "fp32"},
      {"f32", "fp32"},      {"int32", "int32"}, {"i32", "int32"},    {"int64", "int64"},
      {"i64", "int64"},     {"int8", "int8"},   {"i8", "int8"},      {"u8", "int8"},
      {"int4", "int4"},     {"u4", "int4"},     {"i4", "int4"}};
  const std::string lower = LowerCase(words);
  for (const Name& name : kNames) {
    if (lower.find(name.word) != std::string::npos) return name.precision;
  }
  return "";
}

int BitsOf(const std::string& precision) {
  if (precision == "fp32" || precision == "int32") return 32;
  if (precision == "fp16" || precision == "bf16") return 16;
  if (precision == "int8" || precision == "fp8") return 8;
  if (precision == "int4" || precision == "fp4") return 4;
  return precision == "int64" ? 64 : 0;
}

void Summarize(ForeignRun& run) {
  run.layer_sum_ms = 0;
  run.weight_bytes = 0;
  for (const ForeignLayer& layer : run.layers) {
    run.layer_sum_ms += layer.ms;
    run.weight_bytes += layer.weight_bytes;
  }
}

}  // namespace evoq
