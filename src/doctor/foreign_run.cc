#include "doctor/foreign_run.h"

#include <algorithm>
#include <cctype>

namespace evoq {
namespace {

std::string Lower(const std::string& text) {
  std::string out = text;
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

struct Word {
  const char* word;
  LayerGroup group;
};

// Searched in this order in lower-cased types: a pooling kernel may be named after a convolution library.
constexpr Word kTypeWords[] = {
    {"reformat", LayerGroup::kReformatQdq},  {"reorder", LayerGroup::kReformatQdq},  {"memcpy", LayerGroup::kReformatQdq},
    {"quantizelinear", LayerGroup::kReformatQdq}, {"fakequantize", LayerGroup::kReformatQdq}, {"convert", LayerGroup::kReformatQdq},
    {"cast", LayerGroup::kReformatQdq},      {"pool", LayerGroup::kPooling},          {"conv", LayerGroup::kConv},
    {"matmul", LayerGroup::kMatMul},         {"matrixmultiply", LayerGroup::kMatMul}, {"gemm", LayerGroup::kMatMul},
    {"fullyconnected", LayerGroup::kMatMul}, {"pointwise", LayerGroup::kElementwise}, {"elementwise", LayerGroup::kElementwise},
    {"eltwise", LayerGroup::kElementwise},   {"activation", LayerGroup::kElementwise}, {"relu", LayerGroup::kElementwise},
    {"sigmoid", LayerGroup::kElementwise},   {"scale", LayerGroup::kElementwise},     {"clip", LayerGroup::kElementwise},
    {"silu", LayerGroup::kElementwise},      {"gelu", LayerGroup::kElementwise},      {"swish", LayerGroup::kElementwise},
};
// Whole types that are short words of other types.
constexpr Word kWholeTypes[] = {
    {"add", LayerGroup::kElementwise}, {"mul", LayerGroup::kElementwise}, {"sub", LayerGroup::kElementwise},
    {"div", LayerGroup::kElementwise}, {"tanh", LayerGroup::kElementwise}, {"qlinearadd", LayerGroup::kElementwise},
    {"qlinearmul", LayerGroup::kElementwise}, {"math", LayerGroup::kElementwise},
};

const LayerGroup* FindWord(const std::string& lower) {
  for (const Word& w : kWholeTypes) {
    if (lower == w.word) return &w.group;
  }
  for (const Word& w : kTypeWords) {
    if (lower.find(w.word) != std::string::npos) return &w.group;
  }
  return nullptr;
}

// The group of one operator by its name: "/layer1/conv1/Conv", "QuantizeLinear_7", "resnetv15_pool0_fwd".
LayerGroup GroupOfPart(std::string part) {
  if (part.ends_with(".weight") || part.ends_with(".bias")) return LayerGroup::kOther;
  if (const size_t slash = part.rfind('/'); slash != std::string::npos) part = part.substr(slash + 1);
  const auto has = [&](const char* word) { return part.find(word) != std::string::npos; };
  if (has("quantizelinear") || has("cast")) return LayerGroup::kReformatQdq;
  if (has("conv")) return LayerGroup::kConv;
  if (has("gemm") || has("matmul")) return LayerGroup::kMatMul;
  if (has("pool")) return LayerGroup::kPooling;
  for (const char* word : {"relu", "add", "mul", "sub", "div", "sigmoid", "clip", "tanh", "pwn("}) {
    if (has(word)) return LayerGroup::kElementwise;
  }
  return LayerGroup::kOther;
}

// A fused layer is named after all its operators ("conv1.weight + QuantizeLinear_7 + Conv_9"): the one that does most of the
// work names the group.
LayerGroup GroupOfName(const std::string& lower) {
  if (lower.starts_with("reformatting copynode")) return LayerGroup::kReformatQdq;
  if (lower.starts_with("{foreignnode")) return LayerGroup::kOther;  // a whole part of the graph, from its first layer to its last
  constexpr LayerGroup kByWork[] = {LayerGroup::kConv, LayerGroup::kMatMul, LayerGroup::kPooling, LayerGroup::kReformatQdq,
                                    LayerGroup::kElementwise};
  bool found[kLayerGroups] = {};
  for (size_t begin = 0; begin <= lower.size();) {  // " || " stands between layers that were merged side by side
    const size_t plus = std::min(lower.find(" + ", begin), lower.size()), bars = std::min(lower.find(" || ", begin), lower.size());
    const size_t end = std::min(plus, bars);
    found[static_cast<int>(GroupOfPart(lower.substr(begin, end - begin)))] = true;
    begin = end + (bars < plus ? 4 : 3);
  }
  for (LayerGroup group : kByWork) {
    if (found[static_cast<int>(group)]) return group;
  }
  return LayerGroup::kOther;
}

}  // namespace

const char* LayerGroupName(LayerGroup group) {
  constexpr const char* kNames[kLayerGroups] = {"conv", "reformat_qdq", "pooling", "matmul", "elementwise", "other"};
  return kNames[static_cast<int>(group)];
}

double ForeignRun::GroupMs(LayerGroup group) const {
  double ms = 0;
  for (const ForeignLayer& layer : layers) ms += layer.group == group ? layer.ms : 0;
  return ms;
}

bool ForeignRun::quantized() const {
  return std::any_of(layers.begin(), layers.end(), [](const ForeignLayer& layer) {
    return layer.conversion != Conversion::kNone ? layer.conversion == Conversion::kQuantize
                                                 : layer.precision == "int8" || layer.precision == "fp8" || layer.precision == "int4";
  });
}

std::string PrecisionIn(const std::string& words) {
  struct Name {
    const char* word;
    const char* precision;
  };
  // Longer spellings before those they contain.
  constexpr Name kNames[] = {{"float16", "fp16"}, {"bfloat16", "bf16"}, {"bf16", "bf16"},   {"fp16", "fp16"},   {"half", "fp16"},
                             {"f16", "fp16"},     {"fp8", "fp8"},       {"float8", "fp8"},  {"fp32", "fp32"},   {"float", "fp32"},
                             {"f32", "fp32"},     {"int32", "int32"},   {"i32", "int32"},   {"int64", "int64"}, {"i64", "int64"},
                             {"int8", "int8"},    {"i8", "int8"},       {"u8", "int8"},     {"int4", "int4"},   {"u4", "int4"},
                             {"i4", "int4"}};
  const std::string lower = Lower(words);
  if (lower.find("bf16") != std::string::npos || lower.find("bfloat16") != std::string::npos) return "bf16";
  for (const Name& name : kNames) {
    if (lower.find(name.word) != std::string::npos) return name.precision;
  }
  return "";
}

int BitsOf(const std::string& precision) {
  if (precision == "fp32" || precision == "int32") return 32;
  if (precision == "fp16" || precision == "bf16") return 16;
  if (precision == "int8" || precision == "fp8") return 8;
  if (precision == "int4") return 4;
  return precision == "int64" ? 64 : 0;
}

LayerGroup GroupOf(const std::string& type, const std::string& name) {
  if (const LayerGroup* group = FindWord(Lower(type))) return *group;
  return GroupOfName(Lower(name));
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
