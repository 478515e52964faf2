#include "kernels/gemm/linear_f32_testing.h"

namespace evoq {
namespace {

struct Sizes {
  std::vector<int64_t> a, b, y;  // y: as inferred
  bool b_constant = true, bias = false, residual = false;
  Activation activation;
  DType weight = DType::kFloat32;
};

LinearCaseF32 MakeCase(const Sizes& s, std::mt19937& random) {
  LinearCaseF32 c;
  c.name =
      fmt::format("[{}] * [{}] -> [{}] constant {} bias {} residual {} activation '{}' {}",
                  fmt::join(s.a, ", "), fmt::join(s.b, ", "), fmt::join(s.y, ", "), s.b_constant,
                  s.bias, s.residual, ActivationName(s.activation.kind), DTypeName(s.weight));
  c.kernel = FindKernel("matmul_f32");
  ActivationToAttrs(s.activation, c.attrs);
  c.output = TensorType(DType::kFloat32, Shape(s.y));
  c.inputs = {RandomF32(Shape(s.a), random), RandomF32(Shape(s.b), random), Tensor(), Tensor()};
  if (s.weight != DType::kFloat32)
    c.inputs[1] = *QuantizeTensor(
        c.inputs[1], TensorType(s.weight, Shape(s.b), QuantParams::PerTensor(0.0625f, 1)));
  std::vector<int64_t> a = s.a, b = s.b;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  const int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  if (s.bias) c.inputs[2] = RandomF32(Shape({n}), random);
  if (s.residual) c.inputs[3] = RandomF32(Shape(s.y), random);
  c.constant = {false, s.b_constant, false, false};

  const Tensor weight = *ToFloat32(c.inputs[1]);
  const float *pa = c.inputs[0].data<float>(), *pb = weight.data<float>();
  const int64_t elements = *c.output.shape.elements();
  // The batch sizes of a and b, padded to four, and those of y.
  std::vector<int64_t> a4(a.begin(), a.end() - 2), b4(b.begin(), b.end() - 2);
  a4.insert(a4.begin(), 4 - a4.size(), 1);
  b4.insert(b4.begin(), 4 - b4.size(), 1);
  for (int64_t i = 0; i < elements; ++i) {
    int64_t rest = i / n / m, index_a = 0, index_b = 0, stride_a = 1, stride_b = 1;
    for (int j = 3; j >= 0; --j) {
      const int64_t size = a4[j] == 1 ? b4[j] : a4[j], at = rest % size;
      rest /= size;
      index_a += (a4[j] == 1 ? 0 : at) * stride_a, stride_a *= a4[j];
      index_b += (b4[j] == 1 ? 0 : at) * stride_b, stride_b *= b4[j];
    }
    const int64_t row = i / n % m, column = i % n;
    double v = 0, magnitude = 0;
    for (int64_t p = 0; p < k; ++p) {
      const double product =
          double{pa[(index_a * m + row) * k + p]} * pb[(index_b * k + p) * n + column];
      v += product, magnitude += std::fabs(product);
    }
    if (s.bias)
      v += c.inputs[2].data<float>()[column],
          magnitude += std::fabs(c.inputs[2].data<float>()[column]);
    if (s.residual)
      v += c.inputs[3].data<float>()[i], magnitude += std::fabs(c.inputs[3].data<float>()[i]);
    ExpectActivated(s.activation, v, magnitude, k, c);
  }
  return c;
}

TEST(MatMulF32, RandomShapes) {
  std::mt19937 random(1);
  const int64_t kSizes[] = {0, 1, 2, 5, 6, 7, 13, 14, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100};
  const auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
  for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    Sizes s;
    const int64_t m = size(), n = size(), k = random() % 20 == 0 ? 700 : size();
    s.a = {m, k}, s.b = {k, n}, s.y = {m, n};
    s.b_constant = random() % 2 == 0;
    s.bias = random() % 2 == 0;
    s.residual = random() % 3 == 0;
    s.activation = RandomActivation(random);
    if (s.b_constant && random() % 3 == 0)
      s.weight = random() % 2 == 0 ? DType::kInt8 : DType::kInt4;
    CheckLinearF32(MakeCase(s, random));
  }
}

TEST(MatMulF32, Broadcasting) {
  std::mt19937 random(2);
  const Sizes kCases[] = {
      {{7}, {7}, {}},
      {{7}, {7, 20}, {20}},
      {{5, 7}, {7}, {5}},
      {{2, 3, 5, 7}, {7, 20}, {2, 3, 5, 20}},
      {{2, 3, 5, 7}, {2, 3, 7, 20}, {2, 3, 5, 20}},
      {{2, 1, 5, 7}, {3, 7, 20}, {2, 3, 5, 20}},
      {{5, 7}, {2, 3, 7, 20}, {2, 3, 5, 20}},
      {{4, 1, 5, 7}, {1, 1, 7, 20}, {4, 1, 5, 20}},
      {{1, 5, 7}, {6, 1, 7, 9}, {6, 1, 5, 9}},
      {{3, 0, 7}, {3, 7, 9}, {3, 0, 9}},
      {{0, 4, 7}, {0, 7, 9}, {0, 4, 9}},
      {{2, 4, 0}, {2, 0, 9}, {2, 4, 9}},
      {{12, 33, 64}, {12, 64, 33}, {12, 33, 33}},
      {{12, 1, 64}, {12, 64, 48}, {12, 1, 48}},
      {{3, 8, 64}, {3, 64, 128}, {3, 8, 128}},
  };
  for (Sizes s : kCases) {
    for (bool constant : {false, true}) {
      s.b_constant = constant;
      s.bias = s.a.size() != 1 && s.b.size() != 1;
      s.residual = true;
      CheckLinearF32(MakeCase(s, random));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Every height of the register tile, several segments of K, rows 4 KiB apart.
TEST(MatMulF32, TileHeightsAndSegments) {
  std::mt19937 random(3);
  for (int64_t m = 1; m <= 30; ++m) {
    for (int64_t n : {16, 50, 64, 127}) CheckLinearF32(MakeCase({{m, 9}, {9, n}, {m, n}}, random));
  }
  for (int64_t k : {639, 640, 641, 1024, 1300, 2048})
    CheckLinearF32(MakeCase({{37, k}, {k, 70}, {37, 70}, true, true, true}, random));
}

}  // namespace
}  // namespace evoq
