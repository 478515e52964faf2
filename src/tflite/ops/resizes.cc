// RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, to the height and width in input 1.
//   pixel i of `out` reads at i * in / out, with half pixel centers at (i + 0.5) * in / out - 0.5
//   (bilinear) or (i + 0.5) * in / out (nearest), with aligned corners at i * (in - 1) / (out - 1);
//   nearest takes the floor, with aligned corners the nearest, halves up.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Status SetResized(Translator& to, const char* mode, bool align_corners, bool half_pixel) {
  EVOQ_TRY(to.CheckRank(0, 4));
  if (align_corners && half_pixel)
    return InvalidInput("both aligned corners and half pixel centers");
  Attrs attrs;
  attrs.Set("mode", mode);
  attrs.Set("axes", std::vector<int64_t>{2, 3});
  attrs.Set("coordinate_transformation_mode", align_corners ? "align_corners"
                                              : half_pixel  ? "half_pixel"
                                                            : "asymmetric");
  attrs.Set("nearest_mode", align_corners || half_pixel ? "round_prefer_ceil" : "floor");
  return to.SetPlanar(
      0, to.Apply("Resize", {to.Planar(0), ValueId(), ValueId(), to.Int64s(1)}, std::move(attrs)));
}

Status ResizeBilinear(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::ResizeBilinearOptions>());
  return SetResized(to, "linear", o->align_corners(), o->half_pixel_centers());
}

Status ResizeNearest(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::ResizeNearestNeighborOptions>());
  return SetResized(to, "nearest", o->align_corners(), o->half_pixel_centers());
}

}  // namespace

extern const OpRow kResizeBilinear = {.name = "RESIZE_BILINEAR",
                                      .number = 23,
                                      .least_inputs = 2,
                                      .most_inputs = 2,
                                      .translate = ResizeBilinear};
extern const OpRow kResizeNearest = {.name = "RESIZE_NEAREST_NEIGHBOR",
                                     .number = 97,
                                     .least_inputs = 2,
                                     .most_inputs = 2,
                                     .translate = ResizeNearest};

}  // namespace evoq::tflite
