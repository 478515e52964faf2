// SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION and LOCAL_RESPONSE_NORMALIZATION, over the last axis.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Attrs LastAxis() { return Attrs::Of("axis", -1); }

Status Softmax(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::SoftmaxOptions>());
  ValueId x = to.Real(0);
  if (o->beta() != 1) x = to.Apply("Mul", {x, to.FloatConstant(o->beta())});
  return to.Set(0, to.Apply("Softmax", {x}, LastAxis()));
}

Status LogSoftmax(Translator& to) {
  return to.Set(0, to.Apply("LogSoftmax", {to.Real(0)}, LastAxis()));
}

// x / max(sqrt(sum x^2), 1e-6)
Status L2Normalization(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::L2NormOptions>());
  const ValueId x = to.Real(0);
  const ValueId norm = to.Apply("ReduceL2", {x, to.Int64Constant({-1})});
  const ValueId y = to.Apply("Div", {x, to.Apply("Max", {norm, to.FloatConstant(1e-6f)})});
  EVOQ_ASSIGN(const ValueId activated, to.Activated(y, o->activation()));
  return to.Set(0, activated);
}

// x / (bias + alpha sum of x^2 over `radius` channels on both sides)^beta; ONNX's alpha is of the
// mean over the window.
Status LocalResponseNormalization(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::LocalResponseNormalizationOptions>());
  EVOQ_TRY(to.CheckRank(0, 4));
  if (o->radius() < 0 || o->radius() > 1 << 20) return InvalidInput("a radius of {}", o->radius());
  const int64_t size = 2 * int64_t{o->radius()} + 1;
  Attrs attrs;
  attrs.Set("size", size);
  attrs.Set("alpha", o->alpha() * static_cast<float>(size));
  attrs.Set("beta", o->beta());
  attrs.Set("bias", o->bias());
  return to.SetPlanar(0, to.Apply("LRN", {to.Planar(0)}, std::move(attrs)));
}

}  // namespace

extern const OpRow kL2Normalization = {
    .name = "L2_NORMALIZATION", .number = 11, .translate = L2Normalization};
extern const OpRow kLocalResponseNormalization = {
    .name = "LOCAL_RESPONSE_NORMALIZATION", .number = 13, .translate = LocalResponseNormalization};
extern const OpRow kSoftmax = {.name = "SOFTMAX", .number = 25, .translate = Softmax};
extern const OpRow kLogSoftmax = {.name = "LOG_SOFTMAX", .number = 50, .translate = LogSoftmax};

}  // namespace evoq::tflite
