#include "cli/digits.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/xorshift.h"

namespace evoq {
namespace {

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// Strokes in a unit square, y downwards; two ways of writing where people differ.
const std::vector<std::vector<Glyph>>& Glyphs() {
  static const Stroke kRing = {{.5f, .1f},   {.66f, .15f}, {.76f, .32f}, {.78f, .5f},  {.76f, .68f},
                               {.66f, .85f}, {.5f, .9f},   {.34f, .85f}, {.24f, .68f}, {.22f, .5f},
                               {.24f, .32f}, {.34f, .15f}, {.5f, .1f}};
  static const Stroke kTop = {{.5f, .1f},   {.66f, .17f}, {.7f, .3f},   {.62f, .43f}, {.5f, .48f},
                              {.38f, .43f}, {.3f, .3f},   {.34f, .17f}, {.5f, .1f}};
  static const Stroke kBottom = {{.5f, .48f},  {.68f, .57f}, {.75f, .7f},  {.67f, .84f}, {.5f, .9f},
                                 {.33f, .84f}, {.25f, .7f},  {.32f, .57f}, {.5f, .48f}};
  static const Stroke kSix = {{.66f, .12f}, {.48f, .2f}, {.34f, .4f},  {.28f, .62f},
                              {.32f, .8f},  {.46f, .9f}, {.62f, .88f}, {.72f, .74f},
                              {.7f, .58f},  {.58f, .5f}, {.42f, .52f}, {.3f, .65f}};
  static const auto turned = [](Stroke s) {
    for (Point& p : s) p = {1 - p.x, 1 - p.y};
    return s;
  };
  static const std::vector<std::vector<Glyph>> kGlyphs = {
      {{kRing}},
      {{{{.35f, .25f}, {.55f, .1f}, {.55f, .9f}}}, {{{.5f, .1f}, {.5f, .9f}}}},
      {{{{.25f, .3f},
         {.3f, .17f},
         {.42f, .1f},
         {.58f, .1f},
         {.7f, .18f},
         {.74f, .3f},
         {.68f, .45f},
         {.5f, .63f},
         {.25f, .9f},
         {.78f, .9f}}}},
      {{{{.27f, .18f},
         {.4f, .1f},
         {.6f, .1f},
         {.72f, .22f},
         {.7f, .36f},
         {.55f, .47f},
         {.45f, .48f}},
        {{.45f, .48f},
         {.6f, .5f},
         {.74f, .62f},
         {.74f, .76f},
         {.62f, .88f},
         {.42f, .9f},
         {.25f, .8f}}}},
      {{{{.62f, .9f}, {.62f, .1f}, {.22f, .65f}, {.8f, .65f}}},
       {{{.3f, .1f}, {.26f, .5f}, {.74f, .5f}}, {{.7f, .15f}, {.66f, .9f}}}},
      {{{{.72f, .1f},
         {.32f, .1f},
         {.28f, .45f},
         {.45f, .4f},
         {.62f, .43f},
         {.74f, .58f},
         {.72f, .76f},
         {.58f, .89f},
         {.4f, .9f},
         {.25f, .8f}}}},
      {{kSix}},
      {{{{.24f, .1f}, {.76f, .1f}, {.42f, .9f}}},
       {{{.24f, .12f}, {.76f, .12f}, {.45f, .9f}}, {{.35f, .5f}, {.7f, .5f}}}},
      {{kTop, kBottom}},
      {{turned(kSix)}, {{kTop, {{.7f, .3f}, {.66f, .6f}, {.56f, .9f}}}}},
  };
  return kGlyphs;
}

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull) {
    for (int i = 0; i < 4; ++i) Bits();
  }
  uint32_t Bits() { return static_cast<uint32_t>(bits_.Next() >> 32); }
  float Uniform(float low, float high) {
    return low + (high - low) * (static_cast<float>(Bits() >> 8) * 0x1p-24f);
  }
  float Normal() {  // sum of twelve uniforms (Irwin and Hall)
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform(0, 1);
    return sum;
  }

 private:
  XorShift bits_;
};

float DistanceToSegment(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
  float t = length2 > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length2 : 0;
  t = std::clamp(t, 0.0f, 1.0f);
  const float ex = a.x + t * dx - p.x, ey = a.y + t * dy - p.y;
  return std::sqrt(ex * ex + ey * ey);
}

// Adds ink along a stroke given in pixels: full inside `width`, fading over one pixel.
void DrawStroke(const Stroke& stroke, float width, float ink, float* image) {
  for (int y = 0; y < kDigitSize; ++y) {
    for (int x = 0; x < kDigitSize; ++x) {
      float distance = 1e9f;
      for (size_t i = 0; i + 1 < stroke.size(); ++i)
        distance =
            std::min(distance, DistanceToSegment({static_cast<float>(x), static_cast<float>(y)},
                                                 stroke[i], stroke[i + 1]));
      const float value = ink * std::clamp(width + 0.5f - distance, 0.0f, 1.0f);
      image[y * kDigitSize + x] = std::max(image[y * kDigitSize + x], value);
    }
  }
}

void DrawOne(int digit, Random& random, float* image) {
  const auto& styles = Glyphs()[digit];
  const Glyph& glyph = styles[random.Bits() % styles.size()];
  // Rotation by the angle whose half has the tangent t, up to about 20 degrees.
  const float t = random.Uniform(-0.17f, 0.17f), cosine = (1 - t * t) / (1 + t * t),
              sine = 2 * t / (1 + t * t);
  const float shear = random.Uniform(-0.25f, 0.25f), width = random.Uniform(13, 21),
              height = random.Uniform(17, 24);
  const float cx = 13.5f + random.Uniform(-2.5f, 2.5f), cy = 13.5f + random.Uniform(-2, 2);
  const float pen = random.Uniform(0.6f, 1.6f), ink = random.Uniform(0.6f, 1.0f);
  for (int i = static_cast<int>(random.Bits() % 3); i > 0; --i) {  // clutter
    const Point a{random.Uniform(0, 27), random.Uniform(0, 27)};
    const Point b{a.x + random.Uniform(-9, 9), a.y + random.Uniform(-9, 9)};
    const float thin = random.Uniform(0.2f, 0.8f), faint = ink * random.Uniform(0.4f, 0.8f);
    DrawStroke({a, b}, thin, faint, image);
  }
  for (const Stroke& source : glyph) {
    Stroke stroke;
    for (const Point& p : source) {
      const float u = (p.x - 0.5f + random.Uniform(-0.035f, 0.035f)) * width;
      const float v = (p.y - 0.5f + random.Uniform(-0.035f, 0.035f)) * height;
      const float s = u + shear * v;
      stroke.push_back({cx + cosine * s - sine * v, cy + sine * s + cosine * v});
    }
    DrawStroke(stroke, pen, ink, image);
  }
  const float noise = random.Uniform(0.02f, 0.16f);
  for (int i = 0; i < kDigitSize * kDigitSize; ++i)
    image[i] = std::clamp(image[i] + noise * random.Normal(), 0.0f, 1.0f);
}

}  // namespace

Digits DrawDigits(int64_t count, uint64_t seed) {
  Digits digits{
      Tensor::Allocate(TensorType(DType::kFloat32, Shape{count, 1, kDigitSize, kDigitSize})),
      Tensor::Allocate(TensorType(DType::kInt64, Shape{count}))};
  Random random(seed);
  for (int64_t i = 0; i < count; ++i) {
    const int digit = static_cast<int>(random.Bits() % 10);
    digits.labels.mutable_data<int64_t>()[i] = digit;
    DrawOne(digit, random, digits.images.mutable_data<float>() + i * kDigitSize * kDigitSize);
  }
  return digits;
}

Tensor DigitAt(const Digits& digits, int64_t index) {
  Tensor one = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 1, kDigitSize, kDigitSize}));
  const float* from = digits.images.data<float>() + index * kDigitSize * kDigitSize;
  std::copy_n(from, kDigitSize * kDigitSize, one.mutable_data<float>());
  return one;
}

}  // namespace evoq
