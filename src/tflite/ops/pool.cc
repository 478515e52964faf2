// AVERAGE_POOL_2D, L2_POOL_2D and MAX_POOL_2D. Means do not count padding.
#include "tflite/translator.h"
#include "tflite/window.h"

namespace evoq::tflite {
namespace {

// Of planar x.
using Window = ValueId (*)(Translator& to, ValueId x, Attrs window);

Status Pool(Translator& to, Window pool) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::Pool2DOptions>());
  EVOQ_TRY(to.CheckRank(0, 4));
  Attrs attrs;
  EVOQ_TRY(AddWindow(o->padding(), o->stride_h(), o->stride_w(), attrs));
  if (o->filter_height() < 1 || o->filter_width() < 1)
    return InvalidInput("a window of {} x {}", o->filter_height(), o->filter_width());
  attrs.Set("kernel_shape", std::vector<int64_t>{o->filter_height(), o->filter_width()});
  EVOQ_ASSIGN(const ValueId y,
              to.Activated(pool(to, to.Planar(0), std::move(attrs)), o->activation()));
  return to.SetPlanar(0, y);
}

Status AveragePool(Translator& to) {
  return Pool(to, [](Translator& t, ValueId x, Attrs window) {
    return t.Apply("AveragePool", {x}, std::move(window));
  });
}
// The root of the mean of squares.
Status L2Pool(Translator& to) {
  return Pool(to, [](Translator& t, ValueId x, Attrs window) {
    return t.Apply("Sqrt", {t.Apply("AveragePool", {t.Apply("Mul", {x, x})}, std::move(window))});
  });
}
Status MaxPool(Translator& to) {
  return Pool(to, [](Translator& t, ValueId x, Attrs window) {
    return t.Apply("MaxPool", {x}, std::move(window));
  });
}

}  // namespace

extern const OpRow kAveragePool2D = {
    .name = "AVERAGE_POOL_2D", .number = 1, .translate = AveragePool};
extern const OpRow kL2Pool2D = {.name = "L2_POOL_2D", .number = 12, .translate = L2Pool};
extern const OpRow kMaxPool2D = {.name = "MAX_POOL_2D", .number = 17, .translate = MaxPool};

}  // namespace evoq::tflite
