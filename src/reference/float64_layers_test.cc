// float64 in attention, recurrent layers, sampling and losses: against sums in long double, to
// 1e-14.
#include <functional>

#include "reference/float64_test_util.h"
#include "reference/test_node.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

Real Sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }

std::vector<Tensor> EvalOutputs(const std::string& op, const std::vector<Tensor>& inputs,
                                Attrs attrs, size_t count) {
  auto values = EvalAll(op, inputs, std::move(attrs), std::vector<TensorType>(count));
  EXPECT_TRUE(values) << values.error().message();
  return values ? std::move(*values) : std::vector<Tensor>(count);
}

// Two query heads share one key head; a bias for each query and key; scores capped at 2.
TEST(Float64Layers, Attention) {
  const Tensor q = Doubles({1, 2, 3, 4}, 1), k = Doubles({1, 1, 5, 4}, 2),
               v = Doubles({1, 1, 5, 2}, 3), mask = Doubles({3, 5}, 4);
  for (bool bias : {false, true}) {
    std::vector<Real> want;
    for (int h = 0; h < 2; ++h) {
      for (int i = 0; i < 3; ++i) {
        Real p[5], sum = 0;
        for (int j = 0; j < 5; ++j) {
          Real s = 0;
          for (int d = 0; d < 4; ++d)
            s += static_cast<Real>(D(q)[(h * 3 + i) * 4 + d]) * D(k)[j * 4 + d];
          p[j] = std::exp(2 * std::tanh(s / 2 / 2) + (bias ? D(mask)[i * 5 + j] : 0));
          sum += p[j];
        }
        for (int d = 0; d < 2; ++d) {
          Real y = 0;
          for (int j = 0; j < 5; ++j) y += p[j] / sum * D(v)[j * 2 + d];
          want.push_back(y);
        }
      }
    }
    std::vector<Tensor> inputs = {q, k, v};
    if (bias) inputs.push_back(mask);
    ExpectNear(Eval("Attention", inputs, With({{"softcap", 2.0f}})), want,
               bias ? "Attention with a bias" : "Attention");
  }
  // A mask of bools: query i sees the keys up to i.
  Tensor upto = Tensor::Allocate(TensorType(DType::kBool, Shape{3, 5}));
  for (int i = 0; i < 15; ++i) upto.mutable_data<bool>()[i] = i % 5 <= i / 5;
  const Tensor y = Eval("Attention", {q, k, v, upto});
  ASSERT_EQ(y.dtype(), DType::kFloat64);
  for (int d = 0; d < 2; ++d) EXPECT_EQ(D(y)[d], D(v)[d]) << "query 0 sees key 0 alone";
}

// S = exp(decay) S + k (beta (v - S^T k))^T, y = S^T q / sqrt(2), for two query heads on one state.
TEST(Float64Layers, LinearAttention) {
  const Tensor q = Doubles({1, 3, 4}, 1), k = Doubles({1, 3, 2}, 2), v = Doubles({1, 3, 3}, 3),
               past = Doubles({1, 1, 2, 3}, 4), decay = Doubles({1, 3, 2}, 5),
               beta = Doubles({1, 3, 1}, 6);
  std::vector<Real> s(D(past), D(past) + 6), want;
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 6; ++i) s[i] *= std::exp(static_cast<Real>(D(decay)[t * 2 + i / 3]));
    Real write[3];
    for (int m = 0; m < 3; ++m)
      write[m] = D(beta)[t] * (D(v)[t * 3 + m] - s[m] * D(k)[t * 2] - s[3 + m] * D(k)[t * 2 + 1]);
    for (int i = 0; i < 6; ++i) s[i] += D(k)[t * 2 + i / 3] * write[i % 3];
    for (int g = 0; g < 2; ++g) {
      for (int m = 0; m < 3; ++m)
        want.push_back((D(q)[t * 4 + g * 2] * s[m] + D(q)[t * 4 + g * 2 + 1] * s[3 + m]) /
                       std::sqrt(2.0L));
    }
  }
  const auto outputs =
      EvalOutputs("LinearAttention", {q, k, v, past, decay, beta},
                  With({{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{1}}}), 2);
  ExpectNear(outputs[0], want, "LinearAttention");
  ExpectNear(outputs[1], s, "state");
}

TEST(Float64Layers, CausalConvWithState) {
  const Tensor x = Doubles({1, 2, 4}, 1), w = Doubles({2, 1, 3}, 2), bias = Doubles({2}, 3),
               past = Doubles({1, 2, 2}, 4);
  std::vector<Real> want, state;
  for (int c = 0; c < 2; ++c) {
    const auto at = [&](int t) { return t < 0 ? D(past)[c * 2 + t + 2] : D(x)[c * 4 + t]; };
    for (int t = 0; t < 4; ++t) {
      Real sum = D(bias)[c];
      for (int i = 0; i < 3; ++i) sum += static_cast<Real>(D(w)[c * 3 + i]) * at(t - 2 + i);
      want.push_back(sum * Sigmoid(sum));
    }
    state.push_back(at(2)), state.push_back(at(3));
  }
  const auto outputs =
      EvalOutputs("CausalConvWithState", {x, w, bias, past}, With({{"activation", "silu"}}), 2);
  ExpectNear(outputs[0], want, "CausalConvWithState");
  ExpectNear(outputs[1], state, "state");
}

TEST(Float64Layers, RotaryEmbeddingAndSwiGlu) {
  const Tensor x = Doubles({1, 2, 3, 4}, 1), c = Doubles({1, 3, 2}, 2), s = Doubles({1, 3, 2}, 3);
  std::vector<Real> rotated(24), gated;
  for (int i = 0; i < 24; i += 4) {
    const int t = i / 4 % 3;
    for (int k = 0; k < 2; ++k) {
      const Real a = D(x)[i + k], b = D(x)[i + k + 2], cosine = D(c)[t * 2 + k],
                 sine = D(s)[t * 2 + k];
      rotated[i + k] = a * cosine - b * sine;
      rotated[i + k + 2] = a * sine + b * cosine;
    }
  }
  ExpectNear(Eval("RotaryEmbedding", {x, c, s}), rotated, "RotaryEmbedding");
  const Tensor a = Doubles({30}, 4), b = Doubles({30}, 5);
  for (int i = 0; i < 30; ++i) gated.push_back(D(a)[i] * Sigmoid(1.5L * D(a)[i]) * D(b)[i]);
  ExpectNear(Eval("SwiGLU", {a, b}, With({{"alpha", 1.5f}})), gated, "SwiGLU");
}

// One direction, batch 1, 3 inputs, 2 units; rows of W, R and B by gate.
struct Cell {
  explicit Cell(int gates)
      : x(Doubles({2, 1, 3}, 1)),
        w(Doubles({1, gates * 2, 3}, 2)),
        r(Doubles({1, gates * 2, 2}, 3)),
        b(Doubles({1, gates * 4}, 4)),
        h0(Doubles({1, 1, 2}, 5)),
        gates(gates) {}
  Real FromInput(int t, int row) const {
    Real sum = D(b)[row];
    for (int i = 0; i < 3; ++i) sum += static_cast<Real>(D(w)[row * 3 + i]) * D(x)[t * 3 + i];
    return sum;
  }
  Real FromState(int row, const std::vector<Real>& h) const {
    return D(b)[gates * 2 + row] + D(r)[row * 2] * h[0] + D(r)[row * 2 + 1] * h[1];
  }
  Tensor x, w, r, b, h0;
  int gates;
};

TEST(Float64Layers, RecurrentLayers) {
  const Attrs two = With({{"hidden_size", int64_t{2}}});
  const std::vector<std::pair<const char*, std::function<Real(Real)>>> functions = {
      {"Tanh", [](Real x) { return std::tanh(x); }},
      {"Sigmoid", Sigmoid},
      {"Relu", [](Real x) { return std::max<Real>(x, 0); }},
      {"Affine", [](Real x) { return 0.75L * x + 0.5L; }},
      {"ScaledTanh", [](Real x) { return 0.75L * std::tanh(0.5L * x); }},
      {"Elu", [](Real x) { return x < 0 ? 0.75L * (std::exp(x) - 1) : x; }},
      {"HardSigmoid",
       [](Real x) { return std::min<Real>(std::max<Real>(0.75L * x + 0.5L, 0), 1); }},
      {"LeakyRelu", [](Real x) { return x < 0 ? 0.75L * x : x; }},
      {"Softplus", [](Real x) { return std::log(1 + std::exp(x)); }},
      {"Softsign", [](Real x) { return x / (1 + std::fabs(x)); }},
      {"ThresholdedRelu", [](Real x) { return x > 0.75L ? x : 0; }}};
  const Cell rnn(1);
  for (const auto& [name, f] : functions) {
    std::vector<Real> h(D(rnn.h0), D(rnn.h0) + 2), want;
    for (int t = 0; t < 2; ++t) {
      const std::vector<Real> before = h;
      for (int j = 0; j < 2; ++j) h[j] = f(rnn.FromInput(t, j) + rnn.FromState(j, before));
      want.insert(want.end(), h.begin(), h.end());
    }
    Attrs attrs = two;
    attrs.Set("activations", std::vector<std::string>{name});
    attrs.Set("activation_alpha", std::vector<float>{0.75f});
    attrs.Set("activation_beta", std::vector<float>{0.5f});
    ExpectNear(Eval("RNN", {rnn.x, rnn.w, rnn.r, rnn.b, Tensor(), rnn.h0}, attrs), want, name);
  }

  const Cell gru(3);
  std::vector<Real> h(D(gru.h0), D(gru.h0) + 2), want;
  for (int t = 0; t < 2; ++t) {
    const std::vector<Real> before = h;
    std::vector<Real> reset(2);
    for (int j = 0; j < 2; ++j)
      reset[j] = Sigmoid(gru.FromInput(t, 2 + j) + gru.FromState(2 + j, before)) * before[j];
    for (int j = 0; j < 2; ++j) {
      const Real z = Sigmoid(gru.FromInput(t, j) + gru.FromState(j, before));
      h[j] = (1 - z) * std::tanh(gru.FromInput(t, 4 + j) + gru.FromState(4 + j, reset)) +
             z * before[j];
    }
    want.insert(want.end(), h.begin(), h.end());
  }
  ExpectNear(Eval("GRU", {gru.x, gru.w, gru.r, gru.b, Tensor(), gru.h0}, two), want, "GRU");

  const Cell lstm(4);
  const Tensor c0 = Doubles({1, 1, 2}, 6), peepholes = Doubles({1, 6}, 7);
  std::vector<Real> c(D(c0), D(c0) + 2);
  h.assign(D(lstm.h0), D(lstm.h0) + 2);
  want.clear();
  for (int t = 0; t < 2; ++t) {
    const std::vector<Real> before = h;
    for (int j = 0; j < 2; ++j) {
      const auto gate = [&](int g) {
        return lstm.FromInput(t, g * 2 + j) + lstm.FromState(g * 2 + j, before);
      };
      const Real in = Sigmoid(gate(0) + D(peepholes)[j] * c[j]),
                 forget = Sigmoid(gate(2) + D(peepholes)[4 + j] * c[j]);
      c[j] = forget * c[j] + in * std::tanh(gate(3));
      h[j] = Sigmoid(gate(1) + D(peepholes)[2 + j] * c[j]) * std::tanh(c[j]);
    }
    want.insert(want.end(), h.begin(), h.end());
  }
  const auto outputs = EvalOutputs(
      "LSTM", {lstm.x, lstm.w, lstm.r, lstm.b, Tensor(), lstm.h0, c0, peepholes}, two, 3);
  ExpectNear(outputs[0], want, "LSTM");
  ExpectNear(outputs[1], h, "hidden state");
  ExpectNear(outputs[2], c, "cell state");
}

// The plane's value at (y, x) between its pixels; what lies outside is 0.
Real Bilinear(const double* plane, int height, int width, Real y, Real x) {
  Real sum = 0;
  for (int i = static_cast<int>(std::floor(y)); i <= std::floor(y) + 1; ++i) {
    for (int j = static_cast<int>(std::floor(x)); j <= std::floor(x) + 1; ++j) {
      if (i < 0 || i >= height || j < 0 || j >= width) continue;
      sum += (1 - std::fabs(y - i)) * (1 - std::fabs(x - j)) * plane[i * width + j];
    }
  }
  return sum;
}

// Keys' cubic with a = -0.75.
Real Cubic(Real d) {
  d = std::fabs(d);
  if (d <= 1) return 1.25L * d * d * d - 2.25L * d * d + 1;
  return d < 2 ? -0.75L * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

TEST(Float64Layers, GridSample) {
  const Tensor x = Doubles({1, 1, 4, 5}, 1);
  Tensor grid = Doubles({1, 2, 4, 2}, 2);  // some places lie outside of the image
  for (int i = 0; i < 16; ++i) grid.mutable_data<double>()[i] *= 1.5;
  std::vector<Real> linear, corners, cubic, mirrored;
  for (int p = 0; p < 8; ++p) {
    const Real gx = D(grid)[p * 2], gy = D(grid)[p * 2 + 1];
    const Real at_y = ((gy + 1) * 4 - 1) / 2, at_x = ((gx + 1) * 5 - 1) / 2;
    linear.push_back(Bilinear(D(x), 4, 5, at_y, at_x));
    corners.push_back(Bilinear(D(x), 4, 5, (gy + 1) / 2 * 3, (gx + 1) / 2 * 4));
    Real sum = 0;
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 5; ++j) sum += Cubic(at_y - i) * Cubic(at_x - j) * D(x)[i * 5 + j];
    }
    cubic.push_back(sum);
    // Mirrored at the outer edges of the pixels: -0.5 to 0 comes back as 0 to 0.5 does.
    const auto inside = [](Real at, int n) {
      return at < -0.5L ? -1 - at : at > n - 0.5L ? 2 * n - 1 - at : at;
    };
    const Real my = inside(at_y, 4), mx = inside(at_x, 5);
    Real value = 0;
    for (int i = static_cast<int>(std::floor(my)); i <= std::floor(my) + 1; ++i) {
      for (int j = static_cast<int>(std::floor(mx)); j <= std::floor(mx) + 1; ++j) {
        const int row = i < 0 ? 0 : i > 3 ? 3 : i, column = j < 0 ? 0 : j > 4 ? 4 : j;
        value += (1 - std::fabs(my - i)) * (1 - std::fabs(mx - j)) * D(x)[row * 5 + column];
      }
    }
    mirrored.push_back(value);
  }
  ExpectNear(Eval("GridSample", {x, grid}), linear, "linear");
  ExpectNear(Eval("GridSample", {x, grid}, With({{"align_corners", int64_t{1}}})), corners,
             "linear between corners");
  ExpectNear(Eval("GridSample", {x, grid}, With({{"mode", "cubic"}})), cubic, "cubic");
  ExpectNear(Eval("GridSample", {x, grid}, With({{"padding_mode", "reflection"}})), mirrored,
             "reflection");
}

// Regions inside the image, 2 x 2 bins of 2 x 2 samples each.
TEST(Float64Layers, Regions) {
  const Tensor x = Doubles({1, 2, 6, 7}, 1);
  const Tensor rois =
      Tensor::FromValues<double>(Shape{2, 4}, {1.1, 1.3, 4.7, 4.9, 0.7, 0.9, 5.3, 3.1});
  std::vector<Real> mean, largest;
  for (int r = 0; r < 2; ++r) {
    const Real x1 = D(rois)[r * 4] - 0.5L, y1 = D(rois)[r * 4 + 1] - 0.5L;
    const Real width = (D(rois)[r * 4 + 2] - 0.5L - x1) / 2,
               height = (D(rois)[r * 4 + 3] - 0.5L - y1) / 2;
    for (int c = 0; c < 2; ++c) {
      for (int bin = 0; bin < 4; ++bin) {
        Real sum = 0;
        for (int i = 0; i < 4; ++i)
          sum += Bilinear(D(x) + c * 42, 6, 7, y1 + height * (bin / 2 + (i / 2 + 0.5L) / 2),
                          x1 + width * (bin % 2 + (i % 2 + 0.5L) / 2));
        mean.push_back(sum / 4);
      }
    }
  }
  const Tensor batch = Tensor::FromValues<int64_t>(Shape{2}, {0, 0});
  ExpectNear(Eval("RoiAlign", {x, rois, batch},
                  With({{"output_height", int64_t{2}},
                        {"output_width", int64_t{2}},
                        {"sampling_ratio", int64_t{2}}})),
             mean, "RoiAlign");
  // Pixels 1 to 4 of rows 2 and 3.
  const Tensor box = Tensor::FromValues<double>(Shape{1, 5}, {0, 1, 2, 4, 3});
  for (int c = 0; c < 2; ++c) {
    double most = -1;
    for (int i = 2; i <= 3; ++i) {
      for (int j = 1; j <= 4; ++j) most = std::max(most, D(x)[c * 42 + i * 7 + j]);
    }
    largest.push_back(most);
  }
  ExpectNear(Eval("MaxRoiPool", {x, box}, With({{"pooled_shape", Ints{1, 1}}})), largest,
             "MaxRoiPool");
}

TEST(Float64Layers, AffineGrid) {
  const Tensor theta = Doubles({1, 2, 3}, 1);
  std::vector<Real> want;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 5; ++j) {
      const Real y = (2 * i + 1) / 3.0L - 1, x = (2 * j + 1) / 5.0L - 1;
      for (int d = 0; d < 2; ++d)
        want.push_back(D(theta)[d * 3] * x + D(theta)[d * 3 + 1] * y + D(theta)[d * 3 + 2]);
    }
  }
  ExpectNear(Eval("AffineGrid", {theta, Tensor::FromValues<int64_t>(Shape{4}, {1, 1, 3, 5})}), want,
             "AffineGrid");
}

TEST(Float64Layers, DeformConv) {
  const Tensor x = Doubles({1, 2, 4, 5}, 1), w = Doubles({3, 2, 2, 2}, 2),
               offset = Doubles({1, 8, 3, 4}, 3), bias = Doubles({3}, 4),
               mask = Doubles({1, 4, 3, 4}, 5);
  std::vector<Real> want;
  for (int m = 0; m < 3; ++m) {
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) {
        Real sum = D(bias)[m];
        for (int c = 0; c < 2; ++c) {
          for (int k = 0; k < 4; ++k) {
            const int place = i * 4 + j;
            sum += static_cast<Real>(D(w)[(m * 2 + c) * 4 + k]) * D(mask)[k * 12 + place] *
                   Bilinear(D(x) + c * 20, 4, 5,
                            i + k / 2 + static_cast<Real>(D(offset)[2 * k * 12 + place]),
                            j + k % 2 + static_cast<Real>(D(offset)[(2 * k + 1) * 12 + place]));
          }
        }
        want.push_back(sum);
      }
    }
  }
  ExpectNear(Eval("DeformConv", {x, w, offset, bias, mask}), want, "DeformConv");
}

// Scores [2, 4, 3], the third target is ignored.
TEST(Float64Layers, Losses) {
  const Tensor x = Doubles({2, 4, 3}, 1),
               weight = Tensor::FromValues<double>(Shape{4}, {0.3, 0.7, 1.1, 0.45});
  const Ints classes = {0, 3, 2, 1, 1, 0};
  const Tensor target = Tensor::FromValues<int64_t>(Shape{2, 3}, classes);
  std::vector<Real> logs(24);
  Real nll = 0, entropy = 0, weights = 0;
  for (int i = 0; i < 6; ++i) {
    const auto at = [&](int c) { return (i / 3 * 4 + c) * 3 + i % 3; };
    Real sum = 0;
    for (int c = 0; c < 4; ++c) sum += std::exp(static_cast<Real>(D(x)[at(c)]));
    for (int c = 0; c < 4; ++c) logs[at(c)] = D(x)[at(c)] - std::log(sum);
    if (classes[i] == 2) continue;
    const Real w = D(weight)[classes[i]];
    nll -= w * D(x)[at(static_cast<int>(classes[i]))];
    entropy -= w * logs[at(static_cast<int>(classes[i]))];
    weights += w;
  }
  const Attrs attrs = With({{"ignore_index", int64_t{2}}});
  const auto per_weight = [&](Real v) { return std::vector<Real>{v / weights}; };
  ExpectNear(Eval("NegativeLogLikelihoodLoss", {x, target, weight}, attrs), per_weight(nll),
             "NegativeLogLikelihoodLoss");
  const auto outputs = EvalOutputs("SoftmaxCrossEntropyLoss", {x, target, weight}, attrs, 2);
  ExpectNear(outputs[0], per_weight(entropy), "SoftmaxCrossEntropyLoss");
  ExpectNear(outputs[1], logs, "log_prob");
}

// Unit boxes d apart share (1 - d) / (1 + d): a half at d = 1/3. Float32 does not tell 1e-9 more
// from 1e-9 less.
TEST(Float64Layers, NonMaxSuppression) {
  constexpr double part = 1e-9;
  const auto chosen = [&](double shift) {
    const Tensor boxes =
        Tensor::FromValues<double>(Shape{1, 2, 4}, {0, 0, 1, 1, 0, shift, 1, 1 + shift});
    const Tensor scores = Tensor::FromValues<double>(Shape{1, 1, 2}, {0.9, 0.8});
    return Eval("NonMaxSuppression", {boxes, scores, Tensor::FromValues<int64_t>(Shape{1}, {9}),
                                      Tensor::FromValues<double>(Shape{1}, {0.5})})
        .sizes()[0];
  };
  EXPECT_EQ(chosen(1.0 / 3 + part), 2);
  EXPECT_EQ(chosen(1.0 / 3 - part), 1);
}

}  // namespace
}  // namespace evoq
