// RFFT2D, and what makes real numbers of complex ones, whose parts lie on an axis at the end.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Status CheckInput(Translator& to, Elements elements) {
  if (to.input(0).elements == elements && to.input(0).dtype == DType::kFloat32) return {};
  return InvalidInput("input 0 ({}) is {} of {}, expected {} of float32", to.input(0).name,
                      ElementsName(to.input(0).elements), DTypeName(to.input(0).dtype),
                      ElementsName(elements));
}

ValueId Transformed(Translator& to, ValueId x, int64_t length, int64_t axis, bool onesided) {
  return to.Apply(
      "DFT",
      {x, to.Constant(Tensor::Scalar<int64_t>(length)), to.Constant(Tensor::Scalar<int64_t>(axis))},
      Attrs::Of("onesided", onesided ? 1 : 0));
}

// Of the last two axes, cut or filled with zeros to the lengths in input 1; of the last axis the
// first half, for the rest are conjugates.
Status Rfft2d(Translator& to) {
  EVOQ_TRY(CheckInput(to, Elements::kReal));
  if (to.output(0).elements != Elements::kComplex)
    return InvalidInput("output {} has no complex numbers", to.output(0).name);
  EVOQ_ASSIGN(const std::vector<int64_t> lengths, to.Ints(1));
  if (lengths.size() != 2 || lengths[0] < 1 || lengths[1] < 1)
    return InvalidInput("lengths [{}], expected two of at least 1", fmt::join(lengths, ", "));
  const int64_t rank = to.input(0).rank();
  if (rank < 2) return InvalidInput("input 0 has rank {}, expected at least 2", rank);
  const ValueId x = to.Apply("Unsqueeze", {to.Real(0), to.Int64Constant({rank})});
  ValueId y = Transformed(to, x, lengths[1], rank - 1, /*onesided=*/true);
  if (lengths[0] > 1 || to.input(0).sizes[static_cast<size_t>(rank) - 2] != 1)
    y = Transformed(to, y, lengths[0], rank - 2, /*onesided=*/false);
  return to.Set(0, y);
}

Status Real(Translator& to) {
  EVOQ_TRY(CheckInput(to, Elements::kComplex));
  return to.Set(0, to.Part(0, 0));
}

Status Imag(Translator& to) {
  EVOQ_TRY(CheckInput(to, Elements::kComplex));
  return to.Set(0, to.Part(0, 1));
}

Status ComplexAbs(Translator& to) {
  EVOQ_TRY(CheckInput(to, Elements::kComplex));
  return to.Set(
      0, to.Apply("ReduceL2", {to.Real(0), to.Int64Constant({-1})}, Attrs::Of("keepdims", 0)));
}

constexpr OpRow Row(const char* name, int number, Status (*translate)(Translator&)) {
  return {.name = name, .number = number, .complex = true, .translate = translate};
}

}  // namespace

extern const OpRow kRfft2d = {.name = "RFFT2D",
                              .number = 131,
                              .least_inputs = 2,
                              .most_inputs = 2,
                              .complex = true,
                              .translate = Rfft2d};
extern const OpRow kImag = Row("IMAG", 133, Imag);
extern const OpRow kReal = Row("REAL", 134, Real);
extern const OpRow kComplexAbs = Row("COMPLEX_ABS", 135, ComplexAbs);

}  // namespace evoq::tflite
