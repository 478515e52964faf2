#include "kernels/conv/winograd_f32.h"

#include "kernels/gemm/linear_bf16_testing.h"

namespace evoq {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The matrices of winograd_f32_tile.h, straight from their definition.
struct Matrices {
  Matrix at, g, bt;

  explicit Matrices(int m) {
    const int n = m + 2;
    const std::vector<double> points =
        m == 2 ? std::vector<double>{0, 1, -1} : std::vector<double>{0, 0.625, -0.625, 1.5, -1.5};
    at.assign(m, std::vector<double>(n, 0)), g.assign(n, std::vector<double>(3, 0)),
        bt.assign(n, std::vector<double>(n, 0));
    for (int i = 0; i < n; ++i) {
      std::vector<double> polynomial = {1};
      double divisor = 1;
      for (int j = 0; j + 1 < n; ++j) {
        if (j == i) continue;
        std::vector<double> next(polynomial.size() + 1, 0);
        for (size_t k = 0; k < polynomial.size(); ++k)
          next[k] -= points[j] * polynomial[k], next[k + 1] += polynomial[k];
        polynomial = next;
        if (i + 1 < n) divisor *= points[i] - points[j];
      }
      std::copy(polynomial.begin(), polynomial.end(), bt[i].begin());
      for (int k = 0; k < 3; ++k) g[i][k] = i + 1 < n ? std::pow(points[i], k) / divisor : k == 2;
      for (int k = 0; k < m; ++k) at[k][i] = i + 1 < n ? std::pow(points[i], k) : k == m - 1;
    }
  }
};

struct Sizes {
  int64_t batch, height, width, channels_in, channels_out, top, left, bottom, right;
  int64_t out_height() const { return height + top + bottom - 2; }
  int64_t out_width() const { return width + left + right - 2; }
};

// |A^T| [sum_c |G g G^T| * (|B^T| |d| |B|)] |A| for the output tile at (oy, ox) and output channel
// k.
Matrix Magnitude(const Matrices& f, int m, const Sizes& s, const float* x, const float* w,
                 int64_t image, int64_t oy, int64_t ox, int64_t k) {
  const int n = m + 2;
  Matrix sum(n, std::vector<double>(n, 0)), y(m, std::vector<double>(m, 0));
  for (int64_t c = 0; c < s.channels_in; ++c) {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        double u = 0, v = 0;
        for (int a = 0; a < 3; ++a) {
          for (int b = 0; b < 3; ++b)
            u += f.g[i][a] * f.g[j][b] * w[((k * s.channels_in + c) * 3 + a) * 3 + b];
        }
        for (int a = 0; a < n; ++a) {
          for (int b = 0; b < n; ++b) {
            const int64_t iy = oy + a - s.top, ix = ox + b - s.left;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            v += std::fabs(f.bt[i][a] * f.bt[j][b] *
                           x[((image * s.height + iy) * s.width + ix) * s.channels_in + c]);
          }
        }
        sum[i][j] += std::fabs(u) * v;
      }
    }
  }
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < m; ++j) {
      for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) y[i][j] += std::fabs(f.at[i][a] * f.at[j][b]) * sum[a][b];
      }
    }
  }
  return y;
}

double Exact(const Sizes& s, const float* x, const float* w, int64_t image, int64_t oy, int64_t ox,
             int64_t k) {
  double sum = 0;
  for (int64_t t = 0; t < 9; ++t) {
    const int64_t iy = oy + t / 3 - s.top, ix = ox + t % 3 - s.left;
    if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
    for (int64_t c = 0; c < s.channels_in; ++c)
      sum += double{x[((image * s.height + iy) * s.width + ix) * s.channels_in + c]} *
             w[(k * s.channels_in + c) * 9 + t];
  }
  return sum;
}

// Of float32, or with `bf16` of values that bfloat16 has.
Tensor Values(const Shape& shape, bool bf16, std::mt19937& random) {
  Tensor values = RandomF32(shape, random);
  for (int64_t i = 0; bf16 && i < values.elements(); ++i) {
    float& v = values.mutable_data<float>()[i];
    v = Bfloat16ToFloat(FloatToBfloat16(v));
  }
  return values;
}

LinearCaseF32 MakeCase(const Sizes& s, int m, bool bias, bool residual,
                       const Activation& activation, std::mt19937& random, bool bf16 = false) {
  LinearCaseF32 c;
  c.name = fmt::format("m {} n{} {}x{} c{} k{} pads {} {} {} {} bias {} residual {} '{}'", m,
                       s.batch, s.height, s.width, s.channels_in, s.channels_out, s.top, s.left,
                       s.bottom, s.right, bias, residual, ActivationName(activation.kind));
  c.kernel = FindKernel("conv_f32");
  c.variant = m == 2 ? "winograd 2x2" : "winograd 4x4";
  c.attrs.Set("channels_last", 1);
  c.attrs.Set("pads", std::vector<int64_t>{s.top, s.left, s.bottom, s.right});
  ActivationToAttrs(activation, c.attrs);
  const Shape y({s.batch, s.out_height(), s.out_width(), s.channels_out});
  c.output = TensorType(DType::kFloat32, y);
  c.inputs = {Values(Shape({s.batch, s.height, s.width, s.channels_in}), bf16, random),
              Values(Shape({s.channels_out, s.channels_in, 3, 3}), bf16, random), Tensor(),
              Tensor()};
  if (bias) c.inputs[2] = RandomF32(Shape({s.channels_out}), random);
  if (residual) c.inputs[3] = Values(y, bf16, random);
  c.constant = {false, true, true, false};
  const Matrices f(m);
  const float *x = c.inputs[0].data<float>(), *w = c.inputs[1].data<float>();
  std::vector<double> sum, magnitude(static_cast<size_t>(*y.elements()));
  int64_t at = 0;
  for (int64_t image = 0; image < s.batch; ++image) {
    for (int64_t oy = 0; oy < s.out_height(); ++oy) {
      for (int64_t ox = 0; ox < s.out_width(); ++ox) {
        for (int64_t k = 0; k < s.channels_out; ++k, ++at) {
          sum.push_back(Exact(s, x, w, image, oy, ox, k));
          if (oy % m != 0 || ox % m != 0) continue;
          const Matrix tile = Magnitude(f, m, s, x, w, image, oy, ox, k);
          for (int64_t i = 0; i < m && oy + i < s.out_height(); ++i) {
            for (int64_t j = 0; j < m && ox + j < s.out_width(); ++j)
              magnitude[at + (i * s.out_width() + j) * s.channels_out] = tile[i][j];
          }
        }
      }
    }
  }
  for (size_t i = 0; i < sum.size(); ++i) {
    double v = sum[i], all = magnitude[i];
    if (bias) v += c.inputs[2].data<float>()[i % s.channels_out], all += 1;
    if (residual) v += c.inputs[3].data<float>()[i], all += 1;
    // 8 roundings of the input's transforms, 1 of the weights, C of the sum, 10 of the output's
    // transforms.
    ExpectActivated(activation, v, all, s.channels_in + 20, c);
  }
  return c;
}

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

TEST(WinogradF32, RandomShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 150 && !testing::Test::HasFatalFailure();) {
    const auto pad = [&] { return static_cast<int64_t>(random() % 3); };
    Sizes s = {Pick<int64_t>(random, {1, 1, 1, 2, 0}),
               1 + static_cast<int64_t>(random() % 14),
               1 + static_cast<int64_t>(random() % 14),
               Pick<int64_t>(random, {1, 2, 3, 5, 15, 16, 17, 33}),
               Pick<int64_t>(random, {1, 3, 8, 15, 16, 17, 32, 33, 50, 70}),
               pad(),
               pad(),
               pad(),
               pad()};
    if (s.out_height() < 1 || s.out_width() < 1) continue;
    const bool bias = random() % 2 == 0, residual = random() % 3 == 0;
    const Activation activation = RandomActivation(random);
    for (int m : {2, 4}) CheckLinearF32(MakeCase(s, m, bias, residual, activation, random));
    ++i;
  }
}

// Several chunks of tiles, shared by threads in either way; several groups of columns; strides of a
// multiple of 512 bytes.
TEST(WinogradF32, ChunksAndGroups) {
  std::mt19937 random(2);
  const Activation relu = {ActivationKind::kRelu, 0, 0}, silu = {ActivationKind::kSilu, 0, 0};
  for (int m : {2, 4}) {
    CheckLinearF32(MakeCase({1, 40, 44, 3, 5, 1, 1, 1, 1}, m, true, false, relu, random));
    CheckLinearF32(MakeCase({3, 13, 9, 128, 18, 1, 1, 1, 1}, m, true, true, silu, random));
    CheckLinearF32(MakeCase({1, 5, 6, 4, 330, 1, 1, 1, 1}, m, false, true, silu, random));
  }
}

Tensor Narrowed(const Tensor& values) {
  Tensor narrow = Tensor::Allocate(TensorType(DType::kBfloat16, values.shape()));
  for (int64_t i = 0; i < values.elements(); ++i)
    narrow.mutable_data<uint16_t>()[i] = FloatToBfloat16(values.data<float>()[i]);
  return narrow;
}

// The call with x and w in bfloat16, the residual and y in either.
LinearCaseBf16 InBf16(LinearCaseF32 c, std::mt19937& random) {
  LinearCaseBf16 narrow;
  TestCall& call = narrow.call;
  call = {.op = "Conv", .attrs = c.attrs, .inputs = c.inputs, .is_constant = c.constant};
  call.variant = c.variant;
  for (size_t i : {0, 1, 3}) {
    if (call.inputs[i].defined() && (i < 3 || random() % 2 == 0))
      call.inputs[i] = Narrowed(call.inputs[i]);
  }
  call.outputs = {BfloatOrFloat(c.output.shape, random)};
  // Rounding to 8 significant bits, of a value that may be off by the bound.
  for (size_t i = 0; i < c.bound.size() && call.outputs[0].dtype == DType::kBfloat16; ++i)
    c.bound[i] += 0x1p-8 * (std::fabs(c.expected[i]) + c.bound[i]) + 0x1p-126;
  narrow.exact = std::move(c);
  return narrow;
}

// The same sums of bfloat16 values: channels in one block and in two, some of a vector.
TEST(WinogradBf16, RandomShapes) {
  std::mt19937 random(3);
  const KernelDef& kernel = *FindKernel("conv_bf16");
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure();) {
    const auto pad = [&] { return static_cast<int64_t>(random() % 3); };
    const Sizes s = {Pick<int64_t>(random, {1, 1, 2, 0}),
                     1 + static_cast<int64_t>(random() % 14),
                     1 + static_cast<int64_t>(random() % 14),
                     Pick<int64_t>(random, {1, 2, 3, 15, 16, 17, 34, 128, 150}),
                     Pick<int64_t>(random, {1, 8, 16, 17, 33, 50}),
                     pad(),
                     pad(),
                     pad(),
                     pad()};
    if (s.out_height() < 1 || s.out_width() < 1) continue;
    const bool bias = random() % 2 == 0, residual = random() % 3 == 0;
    const Activation activation = RandomActivation(random);
    for (int m : {2, 4}) {
      const LinearCaseBf16 c =
          InBf16(MakeCase(s, m, bias, residual, activation, random, true), random);
      EXPECT_EQ(Bind(kernel, c.call, Isa::kScalar, 1).bound.plan.method, c.call.variant);
      CheckLinearBf16(kernel, c, c.exact.name);
    }
    ++i;
  }
  // Several groups of columns, whose tiles are not whole lines of y.
  for (int m : {2, 4})
    CheckLinearBf16(kernel,
                    InBf16(MakeCase({1, 5, 6, 4, 330, 1, 1, 1, 1}, m, true, true,
                                    {ActivationKind::kRelu, 0, 0}, random, true),
                           random),
                    "groups");
}

TEST(WinogradF32, TheRuleFollowsSizes) {
  const auto choice = [](int64_t batch, int64_t size, int64_t channels_in, int64_t channels_out,
                         int64_t stride = 1, double direct = 1) {
    ConvShapeF32 s;
    s.batch = batch, s.channels_in = channels_in, s.channels_out = channels_out;
    s.in = s.out = {1, size, size}, s.kernel = {1, 3, 3}, s.pad = {0, 1, 1},
    s.stride = {1, stride, stride};
    return ChooseWinogradF32(s, direct);
  };
  EXPECT_EQ(choice(1, 56, 64, 64), 4);
  EXPECT_EQ(choice(1, 14, 256, 256), 4);
  EXPECT_EQ(choice(1, 7, 512, 512),
            2);  // four tiles of 4 x 4 would not use the weights often enough
  EXPECT_EQ(choice(8, 7, 512, 512), 4);
  EXPECT_EQ(choice(1, 2, 512, 512), 0);  // one tile
  EXPECT_EQ(choice(1, 112, 1, 1), 0);    // the transforms would take longer than the sum
  EXPECT_EQ(choice(1, 56, 64, 64, 2), 0);
  // Beside products that are faster than float32's.
  EXPECT_EQ(choice(1, 56, 64, 64, 1, 2), 4);
  EXPECT_EQ(choice(1, 7, 512, 512, 1, 2), 0);
  EXPECT_EQ(choice(1, 56, 64, 64, 1, 16), 0);
}

}  // namespace
}  // namespace evoq
