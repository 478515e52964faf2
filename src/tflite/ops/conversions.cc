// QUANTIZE, DEQUANTIZE, DENSIFY and CAST.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

// From real numbers, or from one quantization to another.
Status Quantize(Translator& to) {
  if (!to.output(0).quant) return InvalidInput("output {} has no scale", to.output(0).name);
  return to.Set(0, to.Real(0));
}

// Of integers, or of float16 constants, which are float32 here already.
Status Dequantize(Translator& to) { return to.Set(0, to.Real(0)); }

// Sparse constants are dense here already.
Status Densify(Translator& to) {
  if (!to.is_constant(0)) return Unsupported("input 0 ({}) is no constant", to.input(0).name);
  return to.SetSame(0, 0);
}

Status Cast(Translator& to) {
  if (to.output(0).quant) return Unsupported("a cast to a quantized type");
  if (to.output(0).elements != Elements::kReal) return Unsupported("a cast to complex numbers");
  // Of complex numbers the real part.
  const bool complex = to.input(0).elements == Elements::kComplex;
  Attrs attrs = Attrs::Of("to", static_cast<int>(to.output(0).dtype));
  const ValueId x = complex ? to.Part(0, 0) : to.Real(0);
  // Rounded to 16 bits, which are 32 here.
  if (to.output(0).half() && !complex)
    return to.Set(
        0, to.Apply("Cast",
                    {to.Apply("Cast", {x}, Attrs::Of("to", static_cast<int>(to.output(0).stored)))},
                    std::move(attrs)));
  return to.Set(0, to.Apply("Cast", {x}, std::move(attrs)));
}

}  // namespace

extern const OpRow kDequantize = {.name = "DEQUANTIZE", .number = 6, .translate = Dequantize};
extern const OpRow kCast = {
    .name = "CAST", .number = 53, .complex = true, .translate = Cast, .sizes = SizesOfCast};
extern const OpRow kQuantize = {.name = "QUANTIZE", .number = 114, .translate = Quantize};
extern const OpRow kDensify = {.name = "DENSIFY", .number = 124, .translate = Densify};

}  // namespace evoq::tflite
