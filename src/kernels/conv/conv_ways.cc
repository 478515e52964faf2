#include "kernels/conv/conv_ways.h"

#include "kernels/conv/conv_taps_f32.h"
#include "kernels/conv/winograd_f32.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

constexpr const char* kWinograd2 = "winograd 2x2";
constexpr const char* kWinograd4 = "winograd 4x4";

int WinogradFor(const ConvShapeF32& shape, std::string_view variant, double speed) {
  if (!FitsWinogradF32(shape) || ParseWay(variant).direct) return 0;
  if (variant == kWinograd2) return 2;
  return variant == kWinograd4 ? 4 : ChooseWinogradF32(shape, speed);
}

}  // namespace

ConvWay ConvWayOf(const ConvShapeF32& shape, std::string_view variant, double speed) {
  if (ChooseTapsF32(shape, false, variant, WinogradFor(shape, "", speed) > 0, speed))
    return {.taps_beside = true};
  return {.winograd = WinogradFor(shape, variant, speed)};
}

std::vector<std::string> ConvVariantsOf(const ConvShapeF32& shape, double speed) {
  std::vector<std::string> variants;
  if (FitsWinogradF32(shape)) variants = {std::string(kDirectWay), kWinograd2, kWinograd4};
  if (ConvWayOf(shape, "", speed).taps_beside) {
    if (variants.empty()) variants = {std::string(kDirectWay)};
    variants.emplace_back(kTapsBeside);
  }
  return variants;
}

}  // namespace evoq
