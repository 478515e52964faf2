// MatMul, ScatterND, NonMaxSuppression, DeformConv and Col2Im of random shapes against their
// formulas, written out one element at a time: equal bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "reference/test_node.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t Within(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool Coin() { return random_() % 2 == 0; }
  float Real(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  Tensor Floats(const Shape& shape, float low, float high) {
    std::vector<float> values(static_cast<size_t>(*shape.elements()));
    for (float& v : values) v = Real(low, high);
    return Tensor::FromValues(shape, values);
  }

 private:
  std::mt19937 random_;
};

// ---- MatMul

// Sums of type Acc in order of k.
template <typename T, typename Acc>
void CheckMatMul(Draw& draw, int64_t m, int64_t k, int64_t n) {
  const auto values = [&](int64_t count) {
    std::vector<T> list(static_cast<size_t>(count));
    for (T& v : list) {
      v = std::is_floating_point_v<T> ? static_cast<T>(draw.Real(-1, 1))
                                      : static_cast<T>(draw.Within(-100000, 100000));
    }
    return list;
  };
  const std::vector<T> a = values(2 * m * k), b = values(k * n);
  std::vector<T> want;
  for (int64_t row = 0; row < 2 * m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      Acc sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += static_cast<Acc>(a[static_cast<size_t>(row * k + i)]) *
               static_cast<Acc>(b[static_cast<size_t>(i * n + column)]);
      want.push_back(static_cast<T>(sum));
    }
  }
  const Tensor y =
      Eval("MatMul", {Tensor::FromValues(Shape{2, m, k}, a), Tensor::FromValues(Shape{k, n}, b)});
  EXPECT_EQ(std::vector<T>(y.data<T>(), y.data<T>() + y.elements()), want)
      << m << " x " << k << " x " << n;
}

TEST(RandomShapes, MatMul) {
  Draw draw(4);
  for (int round = 0; round < 100; ++round) {
    const int64_t m = draw.Within(1, 9), k = draw.Within(0, 7), n = draw.Within(1, 19);
    CheckMatMul<float, double>(draw, m, k, n);
    CheckMatMul<double, double>(draw, m, k, n);
    CheckMatMul<int32_t, uint64_t>(draw, m, k, n);
    CheckMatMul<int64_t, uint64_t>(draw, m, k, n);
  }
}

// ---- ScatterND

// Rows of `block` elements, at places that repeat.
TEST(RandomShapes, ScatterND) {
  Draw draw(5);
  const std::map<std::string, float (*)(float, float)> reductions = {
      {"none", [](float, float b) { return b; }},
      {"add", [](float a, float b) { return a + b; }},
      {"mul", [](float a, float b) { return a * b; }},
      {"max", [](float a, float b) { return std::max(a, b); }},
      {"min", [](float a, float b) { return std::min(a, b); }}};
  for (int round = 0; round < 40; ++round) {
    const int64_t places = draw.Within(1, 5), rows = draw.Within(0, 12), block = draw.Within(1, 9);
    const Tensor data = draw.Floats(Shape{places, block}, -1, 1),
                 updates = draw.Floats(Shape{rows, block}, -1, 1);
    Ints indices;
    for (int64_t i = 0; i < rows; ++i) indices.push_back(draw.Within(-places, places - 1));
    for (const auto& [name, reduce] : reductions) {
      std::vector<float> want(data.data<float>(), data.data<float>() + data.elements());
      for (int64_t i = 0; i < rows * block; ++i) {
        const int64_t place = (indices[static_cast<size_t>(i / block)] + places) % places;
        float& to = want[static_cast<size_t>(place * block + i % block)];
        to = reduce(to, updates.data<float>()[i]);
      }
      const Tensor y =
          Eval("ScatterND", {data, Tensor::FromValues(Shape{rows, 1}, indices), updates},
               With("reduction", name));
      EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.elements()), want) << name;
    }
  }
}

// ---- NonMaxSuppression

struct Suppression {
  Tensor boxes, scores;
  int64_t most;
  float overlap, threshold;
  bool has_threshold;
};

float OverlapOf(const float* a, const float* b) {
  const auto low = [](const float* p, int i) { return std::min(p[i], p[i + 2]); };
  const auto high = [](const float* p, int i) { return std::max(p[i], p[i + 2]); };
  const auto area = [&](const float* p) {
    return (high(p, 0) - low(p, 0)) * (high(p, 1) - low(p, 1));
  };
  const float height = std::min(high(a, 0), high(b, 0)) - std::max(low(a, 0), low(b, 0)),
              width = std::min(high(a, 1), high(b, 1)) - std::max(low(a, 1), low(b, 1));
  if (height <= 0 || width <= 0) return 0;
  const float all = area(a) + area(b) - height * width;
  return all > 0 ? height * width / all : 0;
}

// All boxes sorted by falling score, NaNs last, then by place.
Ints Chosen(const Suppression& s) {
  const Ints sizes = s.scores.sizes();
  Ints rows;
  for (int64_t row = 0; row < sizes[0] * sizes[1]; ++row) {
    const float* scores = s.scores.data<float>() + row * sizes[2];
    const float* boxes = s.boxes.data<float>() + row / sizes[1] * sizes[2] * 4;
    Ints order, kept;
    for (int64_t i = 0; i < sizes[2]; ++i) order.push_back(i);
    const auto key = [&](int64_t i) {
      return std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity() : scores[i];
    };
    std::sort(order.begin(), order.end(),
              [&](int64_t i, int64_t j) { return std::pair(-key(i), i) < std::pair(-key(j), j); });
    for (int64_t i : order) {
      const bool covered = std::any_of(kept.begin(), kept.end(), [&](int64_t other) {
        return OverlapOf(boxes + i * 4, boxes + other * 4) > s.overlap;
      });
      if (static_cast<int64_t>(kept.size()) >= s.most || covered ||
          (s.has_threshold && !(scores[i] > s.threshold)))
        continue;
      kept.push_back(i);
      rows.insert(rows.end(), {row / sizes[1], row % sizes[1], i});
    }
  }
  return rows;
}

TEST(RandomShapes, NonMaxSuppression) {
  Draw draw(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t batch = draw.Within(1, 2), classes = draw.Within(1, 3),
                  boxes = draw.Within(0, 40);
    Suppression s{.boxes = draw.Floats(Shape{batch, boxes, 4}, 0, 3),
                  .scores = draw.Floats(Shape{batch, classes, boxes}, -1, 1),
                  .most = draw.Within(0, boxes + 1),
                  .overlap = draw.Real(0, 0.5f),
                  .threshold = static_cast<float>(draw.Within(-2, 2)) / 4,
                  .has_threshold = draw.Coin()};
    float* scores = s.scores.mutable_data<float>();
    for (int64_t i = 0; i < s.scores.elements(); ++i) {  // ties, zeros of both signs, NaNs
      scores[i] = std::round(scores[i] * 4) / 4;
      if (draw.Within(0, 15) == 0) scores[i] = std::numeric_limits<float>::quiet_NaN();
      if (draw.Within(0, 15) == 0) scores[i] = -std::numeric_limits<float>::infinity();
    }
    std::vector<Tensor> inputs{s.boxes, s.scores, Tensor::Scalar(s.most),
                               Tensor::Scalar(s.overlap)};
    if (s.has_threshold) inputs.push_back(Tensor::Scalar(s.threshold));
    const Tensor y = Eval("NonMaxSuppression", inputs);
    EXPECT_EQ(Ints(y.data<int64_t>(), y.data<int64_t>() + y.elements()), Chosen(s)) << round;
  }
}

// ---- DeformConv

struct Deformed {
  Tensor x, w, offset, bias, mask;
  Ints strides, dilations, pads;
  int64_t group, offset_group, height, width;
};

float Sampled(const float* plane, int64_t height, int64_t width, float y, float x) {
  if (!(y > -1 && y < static_cast<float>(height) && x > -1 && x < static_cast<float>(width)))
    return 0;
  const float y0 = std::floor(y), x0 = std::floor(x), down = y - y0, across = x - x0;
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const auto row = static_cast<int64_t>(y0) + k / 2, column = static_cast<int64_t>(x0) + k % 2;
    const float weight = (k / 2 == 0 ? 1 - down : down) * (k % 2 == 0 ? 1 - across : across);
    if (row >= 0 && row < height && column >= 0 && column < width)
      sum += weight * plane[row * width + column];
  }
  return sum;
}

float DeformedAt(const Deformed& d, int64_t n, int64_t m, int64_t i, int64_t j) {
  const Ints x = d.x.sizes(), w = d.w.sizes();
  const int64_t taps = w[2] * w[3], places = d.height * d.width, place = i * d.width + j;
  float sum = d.bias.defined() ? d.bias.data<float>()[m] : 0;
  for (int64_t c = 0; c < w[1]; ++c) {
    const int64_t channel = m / (w[0] / d.group) * w[1] + c;
    const int64_t group = channel / (x[1] / d.offset_group);
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t at = (n * d.offset_group + group) * taps + k;
      const float* shift = d.offset.data<float>() + at * 2 * places + place;
      const float y =
          static_cast<float>(i * d.strides[0] - d.pads[0] + k / w[3] * d.dilations[0]) + shift[0];
      const float across =
          static_cast<float>(j * d.strides[1] - d.pads[1] + k % w[3] * d.dilations[1]) +
          shift[places];
      float v =
          Sampled(d.x.data<float>() + (n * x[1] + channel) * x[2] * x[3], x[2], x[3], y, across);
      if (d.mask.defined()) v *= d.mask.data<float>()[at * places + place];
      sum += d.w.data<float>()[(m * w[1] + c) * taps + k] * v;
    }
  }
  return sum;
}

Deformed RandomDeformed(Draw& draw) {
  Deformed d;
  d.group = draw.Within(1, 2), d.offset_group = draw.Within(1, 2);
  const int64_t batch = draw.Within(1, 2), channels = 2 * draw.Within(1, 3),
                out = d.group * draw.Within(1, 6), kernel_h = draw.Within(1, 3),
                kernel_w = draw.Within(1, 3), height = draw.Within(6, 9), width = draw.Within(6, 9);
  d.strides = {draw.Within(1, 2), draw.Within(1, 2)};
  d.dilations = {draw.Within(1, 2), draw.Within(1, 2)};
  d.pads = {draw.Within(0, 1), draw.Within(0, 1), draw.Within(0, 1), draw.Within(0, 1)};
  d.height =
      (height + d.pads[0] + d.pads[2] - d.dilations[0] * (kernel_h - 1) - 1) / d.strides[0] + 1;
  d.width =
      (width + d.pads[1] + d.pads[3] - d.dilations[1] * (kernel_w - 1) - 1) / d.strides[1] + 1;
  const int64_t taps = kernel_h * kernel_w * d.offset_group;
  d.x = draw.Floats(Shape{batch, channels, height, width}, -1, 1);
  d.w = draw.Floats(Shape{out, channels / d.group, kernel_h, kernel_w}, -1, 1);
  d.offset = draw.Floats(Shape{batch, 2 * taps, d.height, d.width}, -3, 3);
  if (draw.Coin()) d.bias = draw.Floats(Shape{out}, -1, 1);
  if (draw.Coin()) d.mask = draw.Floats(Shape{batch, taps, d.height, d.width}, 0, 1);
  return d;
}

TEST(RandomShapes, DeformConv) {
  Draw draw(2);
  for (int round = 0; round < 40; ++round) {
    const Deformed d = RandomDeformed(draw);
    const Tensor y = Eval("DeformConv", {d.x, d.w, d.offset, d.bias, d.mask},
                          With({{"group", d.group},
                                {"offset_group", d.offset_group},
                                {"strides", d.strides},
                                {"dilations", d.dilations},
                                {"pads", d.pads}}));
    const Ints sizes = y.sizes();
    ASSERT_EQ(sizes, (Ints{d.x.sizes()[0], d.w.sizes()[0], d.height, d.width}));
    for (int64_t e = 0; e < y.elements(); ++e) {
      const int64_t place = e % (d.height * d.width), m = e / (d.height * d.width) % sizes[1];
      ASSERT_EQ(y.data<float>()[e], DeformedAt(d, e / (d.height * d.width * sizes[1]), m,
                                               place / d.width, place % d.width))
          << "round " << round << ", element " << e;
    }
  }
}

// ---- Col2Im

// Of one to three axes: each column of x is a block, whose elements are added in order of their
// place within the block, then of the block.
TEST(RandomShapes, Col2Im) {
  Draw draw(3);
  for (int round = 0; round < 100; ++round) {
    const int64_t batch = draw.Within(1, 2), channels = draw.Within(1, 3);
    const auto axes = static_cast<size_t>(draw.Within(1, 3));
    Ints image, block, strides, dilations, pads(2 * axes), counts, sizes{batch, channels};
    int64_t block_size = 1, places = 1, image_size = 1;
    for (size_t a = 0; a < axes; ++a) {
      image.push_back(draw.Within(5, 8));
      block.push_back(draw.Within(1, 3));
      strides.push_back(draw.Within(1, 3));
      dilations.push_back(draw.Within(1, 2));
      pads[a] = draw.Within(0, 3), pads[a + axes] = draw.Within(0, 3);
      counts.push_back((image[a] + pads[a] + pads[a + axes] - dilations[a] * (block[a] - 1) - 1) /
                           strides[a] +
                       1);
      sizes.push_back(image[a]);
      block_size *= block[a], places *= counts[a], image_size *= image[a];
    }
    const Tensor x = draw.Floats(Shape{batch, channels * block_size, places}, -1, 1);
    std::vector<float> want(static_cast<size_t>(batch * channels * image_size));
    for (int64_t i = 0; i < x.elements(); ++i) {
      int64_t place = i % places, within = i / places % block_size, at = 0, step = 1;
      bool inside = true;
      for (size_t a = axes; a-- > 0;) {
        const int64_t pixel =
            place % counts[a] * strides[a] - pads[a] + within % block[a] * dilations[a];
        inside = inside && pixel >= 0 && pixel < image[a];
        at += pixel * step;
        step *= image[a], place /= counts[a], within /= block[a];
      }
      if (inside)
        want[static_cast<size_t>(i / places / block_size * image_size + at)] += x.data<float>()[i];
    }
    const Tensor y = Eval("Col2Im",
                          {x, Tensor::FromValues(Shape{static_cast<int64_t>(axes)}, image),
                           Tensor::FromValues(Shape{static_cast<int64_t>(axes)}, block)},
                          With({{"strides", strides}, {"dilations", dilations}, {"pads", pads}}));
    EXPECT_EQ(y.sizes(), sizes);
    EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + y.elements()), want) << round;
  }
}

}  // namespace
}  // namespace evoq
