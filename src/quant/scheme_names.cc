#include "quant/scheme_names.h"

#include <algorithm>
#include <cctype>

#include "base/nearest.h"
#include "quant/quant.h"

namespace evoq {
namespace {

struct Name {
  std::string_view elsewhere, here;
};
// In small letters, '-' for '_'. W and A: weights and activations of so many bits.
constexpr Name kNames[] = {
    {"w8a8", "int8, int8-dynamic"},
    {"a8w8", "int8"},
    {"u8s8", "int8"},
    {"s8s8", "int8"},
    {"xint8", "int8"},
    {"static", "int8"},
    {"ptq", "int8"},
    {"int8-static", "int8"},
    {"dynamic", "int8-dynamic"},
    {"w8a16", "int8-weights, int16x8"},
    {"a16w8", "int16x8"},
    {"16x8", "int16x8"},
    {"int8x16", "int16x8"},
    {"w8", "int8-weights"},
    {"int8-weight-only", "int8-weights"},
    {"w4a16", "int4-weights"},
    {"w4", "int4-weights"},
    {"int4-sym", "int4-weights"},
    {"int4-asym", "uint4-weights"},
    {"int8-sym", "int8-weights"},
    {"int8-asym", "int8-weights"},
    {"int4-weight-only", "int4-weights"},
    {"q4-k-m", "uint4-weights"},
    {"q4-0", "int4-weights"},
    {"q8-0", "int8-weights"},
    {"w4a8", "int4-dynamic"},
    {"fp16", "bf16"},
    {"float16", "bf16"},
    {"half", "bf16"},
    {"bfloat16", "bf16"},
    {"fp32", "float32"},
    {"nf4", "nf4-weights"},
    {"fp8", "fp8-weights, fp8-e5m2-weights"},
    {"fp4", "mxfp4-weights, nvfp4-weights"},
    {"mixed", "auto"},
    {"best", "auto"},
};

}  // namespace

std::string_view SchemeNamedElsewhere(std::string_view name) {
  std::string plain(name.substr(0, 32));
  std::ranges::transform(plain, plain.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  const auto found = std::ranges::find(kNames, std::string_view(plain), &Name::elsewhere);
  return found == std::end(kNames) ? std::string_view() : found->here;
}

std::string SchemeHint(std::string_view name) {
  const std::string_view here = SchemeNamedElsewhere(name);
  return here.empty() ? NearestHint(name, AllSchemes()) : "; here it is " + std::string(here);
}

}  // namespace evoq
