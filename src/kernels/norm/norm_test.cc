#include "kernels/norm/norm.h"

#include <cmath>

#include "kernels/math/math.h"
#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
extern const KernelDef kSoftmaxByte, kSoftmaxFloat, kLogSoftmaxFloat, kLayerNormFloat,
    kRmsNormFloat, kBatchNormFloat, kInstanceNormFloat, kGroupNormFloat, kReduceMeanByte,
    kArgMaxFloat, kArgMinFloat, kCumSumKernel;
namespace {

Tensor RandomFloat(Shape shape, uint32_t seed) {
  return RandomTensor(TensorType(DType::kFloat32, std::move(shape)), seed);
}

float AxisSum(const std::vector<float>& v, bool contiguous) {
  if (contiguous) return SumF(v.data(), static_cast<int64_t>(v.size()));
  float sum = 0;
  for (float x : v) sum += x;
  return sum;
}

Tensor SoftmaxReference(const Tensor& x, int64_t outer, int64_t n, int64_t inner, bool log) {
  Tensor y = Tensor::Allocate(x.type());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<float> row, exps;
      for (int64_t k = 0; k < n; ++k) row.push_back(x.data<float>()[(o * n + k) * inner + i]);
      const float max = MaxF(row.data(), n);
      for (float v : row) exps.push_back(ExpF(v - max));
      const float sum = AxisSum(exps, inner == 1);
      for (int64_t k = 0; k < n; ++k) {
        y.mutable_data<float>()[(o * n + k) * inner + i] =
            log ? (row[k] - max) - LogF(sum) : exps[k] * (1.0f / sum);
      }
    }
  }
  return y;
}

TEST(Norm, SoftmaxAnyAxis) {
  // Those with an inner axis of less than 64, or a rest of 64, compute columns beside each other:
  // 16 rows and a rest, 2 rows, 1.
  const int64_t cases[][3] = {{3, 1, 1},   {4, 128, 1}, {5, 77, 1},   {2, 10, 7}, {1, 21, 300},
                              {0, 4, 1},   {70, 1, 1},  {1, 1000, 1}, {2, 3, 64}, {17, 2, 1},
                              {64, 3, 1},  {65, 4, 1},  {5, 5, 1},    {33, 6, 1}, {16, 7, 1},
                              {100, 8, 1}, {20, 9, 1},  {3, 37, 4},   {2, 9, 31}, {2, 5, 33},
                              {1, 6, 63},  {2, 33, 68}};
  for (const auto& [outer, n, inner] : cases) {
    for (bool log : {false, true}) {
      TestCall t;
      t.op = log ? "LogSoftmax" : "Softmax";
      t.attrs.Set("axis", 1);
      t.inputs = {RandomFloat(Shape{outer, n, inner}, 3)};
      t.outputs = {t.inputs[0].type()};
      ExpectKernel(log ? kLogSoftmaxFloat : kSoftmaxFloat, t,
                   {SoftmaxReference(t.inputs[0], outer, n, inner, log)},
                   t.inputs[0].type().ToString());
    }
  }
}

// The definition of kernels/requant.h.
Tensor SoftmaxBytesReference(const Tensor& x, const TensorType& y_type, int64_t outer, int64_t n,
                             int64_t inner) {
  Tensor y = Tensor::Allocate(y_type);
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t base = o / inner * n * inner + o % inner;
    int max = 0;
    for (int64_t k = 0; k < n; ++k) max = std::max<int>(max, x.data<uint8_t>()[base + k * inner]);
    std::vector<float> e;
    for (int64_t k = 0; k < n; ++k)
      e.push_back(ExpF(-static_cast<float>(max - x.data<uint8_t>()[base + k * inner]) *
                       x.type().quant->scales[0]));
    const float m = SoftmaxMultiplier(Sum64F(e.data(), n), y_type.quant->scales[0]);
    for (int64_t k = 0; k < n; ++k)
      y.mutable_data<uint8_t>()[base + k * inner] =
          static_cast<uint8_t>(RoundToInteger(e[k] * m, y_type.quant->zero_points[0], 0, 255));
  }
  return y;
}

TEST(Norm, SoftmaxOfBytes) {
  std::mt19937 rng(7);
  const int64_t sizes[][3] = {{3, 1, 1}, {4, 128, 1},  {5, 77, 1}, {2, 10, 7},
                              {0, 4, 1}, {1, 1000, 1}, {2, 64, 3}, {1, 9000, 1}};
  for (int i = 0; i < 300; ++i) {
    int64_t outer = 1 + rng() % 4, n = 1 + rng() % 300, inner = rng() % 3 == 0 ? 1 + rng() % 5 : 1;
    if (i < 8) outer = sizes[i][0], n = sizes[i][1], inner = sizes[i][2];
    TestCall t;
    t.op = "Softmax";
    t.attrs.Set("axis", 1);
    const float scales[] = {0.08f, 0.5f, 1e-3f, 30.0f},
                out_scales[] = {1.0f / 256, 0.004f, 0.0007f, 1e-39f};
    t.inputs = {RandomTensor(TensorType(DType::kUint8, Shape{outer, n, inner},
                                        QuantParams::PerTensor(scales[rng() % 4], 100)),
                             i)};
    t.outputs = {TensorType(
        DType::kUint8, Shape{outer, n, inner},
        QuantParams::PerTensor(out_scales[rng() % 4], static_cast<int32_t>(rng() % 256)))};
    ExpectKernel(kSoftmaxByte, t,
                 {SoftmaxBytesReference(t.inputs[0], t.outputs[0], outer, n, inner)},
                 t.inputs[0].type().ToString());
  }
}

TEST(Norm, LayerNormAndRmsNorm) {
  for (int64_t n : {1, 16, 77, 768}) {
    TestCall t;
    t.op = "LayerNormalization";
    t.inputs = {RandomFloat(Shape{3, 5, n}, 1), RandomFloat(Shape{n}, 2), RandomFloat(Shape{n}, 3)};
    const TensorType moments(DType::kFloat32, Shape{3, 5, 1});
    t.outputs = {t.inputs[0].type(), moments, moments};
    Tensor y = Tensor::Allocate(t.outputs[0]), mean = Tensor::Allocate(moments),
           inverse = Tensor::Allocate(moments), rms = y.Clone();
    for (int64_t r = 0; r < 15; ++r) {
      const float* x = t.inputs[0].data<float>() + r * n;
      const float *scale = t.inputs[1].data<float>(), *bias = t.inputs[2].data<float>();
      const float m = SumF(x, n) / static_cast<float>(n);
      const float inv = 1.0f / std::sqrt(SumSquaresF(x, n, m) / static_cast<float>(n) + 1e-5f);
      const float inv_rms = 1.0f / std::sqrt(SumSquaresF(x, n, 0) / static_cast<float>(n) + 1e-5f);
      mean.mutable_data<float>()[r] = m;
      inverse.mutable_data<float>()[r] = inv;
      for (int64_t i = 0; i < n; ++i) {
        y.mutable_data<float>()[r * n + i] = (x[i] - m) * inv * scale[i] + bias[i];
        rms.mutable_data<float>()[r * n + i] = x[i] * inv_rms * scale[i];
      }
    }
    ExpectKernel(kLayerNormFloat, t, {y, mean, inverse}, fmt::format("{}", n));
    t.outputs.pop_back();
    ExpectKernel(kLayerNormFloat, t, {y, mean}, fmt::format("{}", n));
    t.op = "RMSNormalization";
    t.inputs.pop_back();
    t.outputs.resize(1);
    ExpectKernel(kRmsNormFloat, t, {rms}, fmt::format("{}", n));
  }
}

TEST(Norm, BatchAndInstanceNorm) {
  for (bool last : {false, true}) {
    for (int64_t channels : {1, 21, 64}) {
      const int64_t batch = 2, h = 5, w = 7, pixels = h * w;
      const auto index = [&](int64_t n, int64_t c, int64_t p) {
        return last ? (n * pixels + p) * channels + c : (n * channels + c) * pixels + p;
      };
      TestCall t;
      t.op = "BatchNormalization";
      if (last) t.attrs.Set("channels_last", 1);
      t.inputs = {
          RandomFloat(last ? Shape{batch, h, w, channels} : Shape{batch, channels, h, w}, 1)};
      for (uint32_t i = 0; i < 4; ++i) t.inputs.push_back(RandomFloat(Shape{channels}, 2 + i));
      for (int64_t c = 0; c < channels; ++c) {
        float& variance = t.inputs[4].mutable_data<float>()[c];
        variance = std::abs(variance) + 0.1f;
      }
      t.is_constant = {false, true, true, true, true};
      t.outputs = {t.inputs[0].type()};
      const float* x = t.inputs[0].data<float>();
      const auto in = [&](size_t i, int64_t c) { return t.inputs[i].data<float>()[c]; };
      Tensor batch_y = Tensor::Allocate(t.outputs[0]), instance_y = batch_y.Clone();
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          const float a = in(1, c) / std::sqrt(in(4, c) + 1e-5f);
          const auto count = static_cast<float>(pixels);
          std::vector<float> row, less, squared;
          for (int64_t p = 0; p < pixels; ++p) row.push_back(x[index(n, c, p)]);
          const bool together = !last || channels == 1;
          const float first = AxisSum(row, together) / count;
          for (const float v : row) {
            less.push_back(v - first);
            squared.push_back((v - first) * (v - first));
          }
          const float off = AxisSum(less, together) / count, mean = first + off,
                      variance = std::max(AxisSum(squared, together) / count - off * off, 0.0f),
                      scaled = in(1, c) / std::sqrt(variance + 1e-5f);
          for (int64_t p = 0; p < pixels; ++p) {
            batch_y.mutable_data<float>()[index(n, c, p)] =
                x[index(n, c, p)] * a + (in(2, c) - in(3, c) * a);
            instance_y.mutable_data<float>()[index(n, c, p)] =
                (x[index(n, c, p)] - mean) * scaled + in(2, c);
          }
        }
      }
      ExpectKernel(kBatchNormFloat, t, {batch_y},
                   fmt::format("last {} channels {}", last, channels));
      t.op = "InstanceNormalization";
      t.inputs.resize(3);
      ExpectKernel(kInstanceNormFloat, t, {instance_y},
                   fmt::format("last {} channels {}", last, channels));
    }
  }
}

// Sums of hundreds of thousands of values err no more than those of a few.
TEST(Norm, InstanceNormOfLargePlanes) {
  const int64_t pixels = 300'000;
  for (const bool last : {false, true}) {
    for (const int64_t channels : {1, 2, 5, 17}) {
      TestCall t;
      t.op = "InstanceNormalization";
      if (last) t.attrs.Set("channels_last", 1);
      t.inputs = {RandomFloat(last ? Shape{1, pixels, channels} : Shape{1, channels, pixels}, 1),
                  Tensor::FromValues<float>(Shape{channels}, std::vector<float>(channels, 1)),
                  Tensor::FromValues<float>(Shape{channels}, std::vector<float>(channels, 0))};
      for (int64_t i = 0; i < t.inputs[0].elements(); ++i)
        t.inputs[0].mutable_data<float>()[i] += 3;
      t.outputs = {t.inputs[0].type()};
      for (const Isa isa : TestIsas()) {
        const std::vector<Tensor> y = RunKernel(kInstanceNormFloat, t, isa);
        const float *x = t.inputs[0].data<float>(), *out = y[0].data<float>();
        const auto at = [&](int64_t c, int64_t p) {
          return last ? p * channels + c : c * pixels + p;
        };
        for (int64_t c = 0; c < channels; ++c) {
          double mean = 0, variance = 0;
          for (int64_t p = 0; p < pixels; ++p) mean += x[at(c, p)];
          mean /= static_cast<double>(pixels);
          for (int64_t p = 0; p < pixels; ++p) variance += std::pow(x[at(c, p)] - mean, 2);
          const double by = std::sqrt(variance / static_cast<double>(pixels) + 1e-5);
          double worst = 0;
          for (int64_t p = 0; p < pixels; ++p)
            worst = std::max(worst, std::fabs(out[at(c, p)] - (x[at(c, p)] - mean) / by));
          EXPECT_LT(worst, 3e-6) << IsaName(isa) << " last " << last << " channel " << c;
        }
      }
    }
  }
}

// Of each instruction set and number of threads the same bits; near what doubles give, also far
// from 0.
TEST(Norm, GroupNorm) {
  const int64_t sizes[][4] = {// batch, channels, groups, pixels
                              {2, 6, 3, 35}, {1, 32, 8, 64},  {3, 40, 1, 65},  {1, 48, 16, 200},
                              {2, 3, 3, 1},  {1, 1, 1, 9},    {1, 128, 4, 30}, {0, 4, 2, 5},
                              {1, 4, 2, 0},  {1, 37, 37, 130}};
  for (const auto& [batch, channels, groups, pixels] : sizes) {
    for (const bool last : {false, true}) {
      TestCall t;
      t.op = "GroupNormalization";
      t.attrs.Set("num_groups", groups);
      if (last) t.attrs.Set("channels_last", 1);
      t.inputs = {
          RandomFloat(last ? Shape{batch, pixels, channels} : Shape{batch, channels, pixels}, 1),
          RandomFloat(Shape{channels}, 2), RandomFloat(Shape{channels}, 3)};
      for (int64_t i = 0; i < t.inputs[0].elements(); ++i)
        t.inputs[0].mutable_data<float>()[i] += 30;
      t.outputs = {t.inputs[0].type()};
      const Tensor first = RunKernel(kGroupNormFloat, t, Isa::kScalar)[0];
      ExpectKernel(kGroupNormFloat, t, {first},
                   fmt::format("{} channels in {} groups, last {}", channels, groups, last));
      const auto at = [&](int64_t n, int64_t c, int64_t p) {
        return last ? (n * pixels + p) * channels + c : (n * channels + c) * pixels + p;
      };
      const float* x = t.inputs[0].data<float>();
      const int64_t size = channels / groups;
      for (int64_t g = 0; g < batch * groups; ++g) {
        const int64_t n = g / groups, from = g % groups * size;
        double mean = 0, variance = 0;
        const auto each = [&](const auto& body) {
          for (int64_t c = from; c < from + size; ++c) {
            for (int64_t p = 0; p < pixels; ++p) body(c, at(n, c, p));
          }
        };
        const double count = static_cast<double>(size * pixels);
        each([&](int64_t, int64_t i) { mean += x[i] / count; });
        each([&](int64_t, int64_t i) { variance += std::pow(x[i] - mean, 2) / count; });
        each([&](int64_t c, int64_t i) {
          const double want =
              (x[i] - mean) / std::sqrt(variance + 1e-5) * t.inputs[1].data<float>()[c] +
              t.inputs[2].data<float>()[c];
          ASSERT_NEAR(first.data<float>()[i], want, count > 1 ? 3e-5 * (1 + std::fabs(want)) : 1e-2)
              << channels << " channels in " << groups << " groups, last " << last;
        });
      }
    }
  }
}

// What norm.h says, element by element: the row of trailing axes first, then the other reduced axes
// in index order.
struct ReduceCase {
  std::vector<int64_t> sizes, axes, out;
  bool row_reduced;
  int64_t row;
};
const ReduceCase kReduce[] = {{{3, 4, 100}, {2}, {3, 4, 1}, true, 100},
                              {{3, 4, 100}, {1, 2}, {3, 1, 1}, true, 400},
                              {{2, 7, 7, 300}, {1, 2}, {2, 1, 1, 300}, false, 300},
                              {{5, 6, 7}, {0, 2}, {1, 6, 1}, true, 7},
                              {{4, 9}, {}, {1, 1}, true, 36},
                              {{5, 6, 33}, {0}, {1, 6, 33}, false, 6 * 33},
                              {{2, 3, 4, 5}, {0, 2}, {1, 3, 1, 5}, false, 5},
                              {{7, 5, 2}, {2}, {7, 5, 1}, true, 2},
                              {{7, 5, 3}, {2}, {7, 5, 1}, true, 3},
                              {{2, 6, 5, 4}, {1, 3}, {2, 1, 5, 1}, true, 4},
                              // Kept axes of which only the later ones go on as one; a size of 1
                              // beside a reduced row; bands of columns.
                              {{2, 3, 4, 5, 6}, {1, 4}, {2, 1, 4, 5, 1}, true, 6},
                              {{3, 4, 1, 5}, {3}, {3, 4, 1, 1}, true, 5},
                              {{3, 600}, {0}, {1, 600}, false, 600},
                              {{2, 3, 5, 257}, {0, 2}, {1, 3, 1, 257}, false, 257}};

Tensor ReduceReference(const std::string& op, const Tensor& x, const ReduceCase& s) {
  Tensor y = Tensor::Allocate(TensorType(DType::kFloat32, Shape(s.out)));
  const bool max = op == "ReduceMax", min = op == "ReduceMin", product = op == "ReduceProd";
  const bool square = op == "ReduceL2" || op == "ReduceSumSquare";
  std::vector<float> acc(static_cast<size_t>(y.elements()), max       ? -INFINITY
                                                            : min     ? INFINITY
                                                            : product ? 1.0f
                                                                      : 0.0f);
  const auto combine = [&](float a, float t) {
    return max ? (t > a ? t : a) : min ? (t < a ? t : a) : product ? a * t : a + t;
  };
  const auto strides = RowMajorStrides(s.out);
  std::vector<float> terms;
  for (float v : x.values<float>())
    terms.push_back(square ? v * v : op == "ReduceL1" ? std::abs(v) : v);
  for (int64_t first = 0; first < x.elements(); first += s.row_reduced ? s.row : 1) {
    int64_t rest = first, to = 0;
    for (size_t i = s.sizes.size(); i-- > 0;) {
      if (s.out[i] != 1) to += rest % s.sizes[i] * strides[i];
      rest /= s.sizes[i];
    }
    float t = terms[first];
    if (s.row_reduced && product) {
      t = 1;
      for (int64_t k = 0; k < s.row; ++k) t *= terms[first + k];
    } else if (s.row_reduced) {
      t = max   ? MaxF(&terms[first], s.row)
          : min ? MinF(&terms[first], s.row)
                : SumF(&terms[first], s.row);
    }
    acc[to] = combine(acc[to], t);
  }
  const float count = static_cast<float>(x.elements() / y.elements());
  for (int64_t i = 0; i < y.elements(); ++i) {
    const float a = acc[i];
    y.mutable_data<float>()[i] = op == "ReduceMean"     ? a / count
                                 : op == "ReduceL2"     ? std::sqrt(a)
                                 : op == "ReduceLogSum" ? LogF(a)
                                 : max || min           ? a + 0.0f
                                                        : a;
  }
  return y;
}

TEST(Norm, ReduceOverAnyAxes) {
  std::vector<ReduceCase> cases(std::begin(kReduce), std::end(kReduce));
  for (int64_t n = 1; n <= 17; ++n) cases.push_back({{37, n}, {1}, {37, 1}, true, n});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}) {
    for (const ReduceCase& s : cases) {
      TestCall t;
      t.op = op;
      Tensor x = RandomFloat(Shape(s.sizes), 1);
      if (std::string(op) == "ReduceLogSum") {
        for (int64_t i = 0; i < x.elements(); ++i)
          x.mutable_data<float>()[i] = std::abs(x.data<float>()[i]) + 0.1f;
      } else if (s.row_reduced) {  // of nothing but -0, and of more than there is
        std::fill_n(x.mutable_data<float>(), s.row, -0.0f);
        if (x.elements() > s.row) x.mutable_data<float>()[s.row] = -INFINITY;
      }
      t.inputs = {x};
      if (!s.axes.empty()) t.inputs.push_back(Tensor::FromValues(s.axes));
      t.is_constant = {false, true};
      t.outputs = {TensorType(DType::kFloat32, Shape(s.out))};
      ExpectKernel(*FindKernel(std::string(op) + "_f32"), t, {ReduceReference(op, x, s)},
                   Shape(s.sizes).ToString() + Shape(s.axes).ToString());
    }
  }
}

// Without axes all are reduced, or with noop_with_empty_axes none.
TEST(Norm, ReduceWithoutAxes) {
  TestCall t{"ReduceSum",
             {},
             {Tensor::FromValues<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6})},
             {},
             {TensorType(DType::kFloat32, Shape{1, 1})}};
  const KernelDef& kernel = *FindKernel("ReduceSum_f32");
  ExpectKernel(kernel, t, {Tensor::FromValues<float>(Shape{1, 1}, {21})}, "all");
  t.attrs.Set("noop_with_empty_axes", 1);
  const auto why = RejectOf(kernel, t);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, "shape");
  t.outputs[0] = t.inputs[0].type();
  ExpectKernel(kernel, t, {t.inputs[0]}, "none");
}

// Attributes that are not there: the last axis for Softmax and layers, the first for ArgMax;
// epsilon 1e-5.
TEST(Norm, DefaultAttributes) {
  // x and x + ln 3: shares of 1/4 and 3/4, so far as float32 goes.
  TestCall t{"Softmax",
             {},
             {Tensor::FromValues<float>(Shape{2, 2}, {0, std::log(3.0f), 5, 5})},
             {},
             {TensorType(DType::kFloat32, Shape{2, 2})}};
  const Tensor shares = RunKernel(kSoftmaxFloat, t, Isa::kScalar)[0];
  const float want[] = {0.25f, 0.75f, 0.5f, 0.5f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(shares.data<float>()[i], want[i], 1e-6f);
  t = {"ArgMax",
       {},
       {Tensor::FromValues<float>(Shape{2, 3}, {1, 9, 2, 5, 0, 7})},
       {},
       {TensorType(DType::kInt64, Shape{1, 3})}};
  ExpectKernel(kArgMaxFloat, t, {Tensor::FromValues<int64_t>(Shape{1, 3}, {1, 0, 1})},
               "first axis");
  // Equal values: 0 whatever epsilon is; one apart: (x - mean) / sqrt(0.25 + epsilon).
  for (const float epsilon : {1e-5f, 0.75f}) {
    t = {"LayerNormalization",
         {},
         {Tensor::FromValues<float>(Shape{2, 2}, {3, 3, 1, 2}),
          Tensor::FromValues<float>(Shape{2}, {1, 2})},
         {},
         {TensorType(DType::kFloat32, Shape{2, 2})}};
    if (epsilon == 0.75f) t.attrs.Set("epsilon", epsilon);
    const float y = 0.5f / std::sqrt(0.25f + epsilon);
    for (Isa isa : TestIsas()) {
      const Tensor got = RunKernel(kLayerNormFloat, t, isa)[0];
      const float rows[] = {0, 0, -y, 2 * y};
      for (int i = 0; i < 4; ++i)
        EXPECT_NEAR(got.data<float>()[i], rows[i], 1e-6f) << IsaName(isa) << " " << i;
    }
  }
}

TEST(Norm, QuantizedMean) {
  for (const ReduceCase& s : kReduce) {
    TestCall t;
    t.op = "ReduceMean";
    t.inputs = {RandomTensor(
        TensorType(DType::kUint8, Shape(s.sizes), QuantParams::PerTensor(0.1f, 127)), 1)};
    if (!s.axes.empty()) t.inputs.push_back(Tensor::FromValues(s.axes));
    t.is_constant = {false, true};
    t.outputs = {TensorType(DType::kUint8, Shape(s.out), QuantParams::PerTensor(0.03f, 120))};
    Tensor want = Tensor::Allocate(t.outputs[0]);
    std::vector<int64_t> sums(static_cast<size_t>(want.elements()), 0);
    const auto strides = RowMajorStrides(s.out);
    for (int64_t at = 0; at < t.inputs[0].elements(); ++at) {
      int64_t rest = at, to = 0;
      for (size_t i = s.sizes.size(); i-- > 0;) {
        if (s.out[i] != 1) to += rest % s.sizes[i] * strides[i];
        rest /= s.sizes[i];
      }
      sums[to] += t.inputs[0].data<uint8_t>()[at] - 127;
    }
    const double count = static_cast<double>(t.inputs[0].elements() / want.elements());
    const float m =
        static_cast<float>(static_cast<double>(0.1f) / (static_cast<double>(0.03f) * count));
    for (size_t i = 0; i < sums.size(); ++i) {
      want.mutable_data<uint8_t>()[i] =
          static_cast<uint8_t>(RoundToInteger(static_cast<float>(sums[i]) * m, 120, 0, 255));
    }
    ExpectKernel(kReduceMeanByte, t, {want}, Shape(s.sizes).ToString() + Shape(s.axes).ToString());
  }
}

TEST(Norm, ArgMaxTakesTheFirstOrTheLast) {
  TestCall t;
  t.op = "ArgMax";
  t.attrs.Set("axis", 1);
  t.inputs = {
      Tensor::FromValues<float>(Shape{2, 3, 2}, {1, 5, 4, 5, 4, 0, -1, -2, -3, -2, -1, -9})};
  t.outputs = {TensorType(DType::kInt64, Shape{2, 1, 2})};
  ExpectKernel(kArgMaxFloat, t, {Tensor::FromValues<int64_t>(Shape{2, 1, 2}, {1, 0, 0, 0})},
               "first");
  t.attrs.Set("select_last_index", 1);
  ExpectKernel(kArgMaxFloat, t, {Tensor::FromValues<int64_t>(Shape{2, 1, 2}, {2, 1, 2, 1})},
               "last");
  t.op = "ArgMin";
  ExpectKernel(kArgMinFloat, t, {Tensor::FromValues<int64_t>(Shape{2, 1, 2}, {0, 2, 1, 2})},
               "least");
}

TEST(Norm, ArgMaxOfRandomShapes) {
  std::mt19937 rng(9);
  for (uint32_t i = 0; i < 300; ++i) {
    const int64_t inner = rng() % 2 == 0 ? 1 : 1 + rng() % 150,
                  outer = 1 + rng() % (inner == 1 && i % 3 != 0 ? 150 : 5), n = 1 + rng() % 70;
    TestCall t;
    t.op = rng() % 2 == 0 ? "ArgMax" : "ArgMin";
    t.attrs.Set("axis", 1);
    t.attrs.Set("select_last_index", static_cast<int64_t>(rng() % 2));
    Tensor x = RandomFloat(Shape{outer, n, inner}, i);
    for (int64_t k = 0; k < x.elements(); ++k) {
      float& v = x.mutable_data<float>()[k];
      v = std::floor(v);  // many equals
      if (rng() % 64 == 0) v = std::nanf("");
    }
    t.inputs = {x};
    t.outputs = {TensorType(DType::kInt64, Shape{outer, 1, inner})};
    Tensor want = Tensor::Allocate(t.outputs[0]);
    const bool max = t.op == "ArgMax", last = t.attrs.Int("select_last_index") != 0;
    for (int64_t o = 0; o < outer * inner; ++o) {
      const float* row = x.data<float>() + o / inner * n * inner + o % inner;
      int64_t best = 0;
      for (int64_t k = 1; k < n; ++k) {
        const float v = row[k * inner], found = row[best * inner];
        const bool nan = std::isnan(v),
                   found_nan = std::isnan(found);  // better than any number, equal to another
        const bool better = !found_nan && (nan || (max ? v > found : v < found));
        if (better || (last && (v == found || (nan && found_nan)))) best = k;
      }
      want.mutable_data<int64_t>()[o] = best;
    }
    ExpectKernel(max ? kArgMaxFloat : kArgMinFloat, t, {want},
                 fmt::format("{} {} last {}", t.op, x.type().ToString(), last));
  }
}

// Integers wrap around.
template <typename T>
T Added(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
  } else {
    return a + b;
  }
}

template <typename T>
Tensor CumSumReference(const Tensor& x, size_t axis, bool exclusive, bool reverse) {
  Tensor y = Tensor::Allocate(x.type());
  const auto sizes = x.sizes(), strides = RowMajorStrides(sizes);
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t place = i / strides[axis] % sizes[axis], first = i - place * strides[axis];
    T sum = 0;
    const int64_t n = reverse ? sizes[axis] - place : place + 1;
    for (int64_t k = 0; k < n - (exclusive ? 1 : 0); ++k)
      sum = Added(sum, x.data<T>()[first + (reverse ? sizes[axis] - 1 - k : k) * strides[axis]]);
    y.mutable_data<T>()[i] = sum;
  }
  return y;
}

TEST(Norm, CumSum) {
  const std::vector<int64_t> shapes[] = {{7}, {3, 1}, {2, 5, 9}, {40, 33}, {2, 0, 3}, {0, 4}};
  for (const auto& sizes : shapes) {
    for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis) {
      for (DType dtype : {DType::kFloat32, DType::kInt32, DType::kInt64}) {
        for (int way = 0; way < 4; ++way) {
          const bool exclusive = way % 2 != 0, reverse = way / 2 != 0;
          TestCall t;
          t.op = "CumSum";
          t.attrs.Set("exclusive", static_cast<int64_t>(exclusive));
          t.attrs.Set("reverse", static_cast<int64_t>(reverse));
          Tensor x = RandomTensor(TensorType(dtype, Shape(sizes)), 5);
          if (dtype == DType::kFloat32 && x.elements() > 0) x.mutable_data<float>()[0] = -0.0f;
          const int64_t rank = static_cast<int64_t>(sizes.size());
          t.inputs = {x, Tensor::FromValues<int64_t>(Shape{1}, {way < 2 ? axis : axis - rank})};
          t.is_constant = {false, true};
          t.outputs = {x.type()};
          const auto at = static_cast<size_t>(axis);
          const Tensor want =
              dtype == DType::kFloat32 ? CumSumReference<float>(x, at, exclusive, reverse)
              : dtype == DType::kInt32 ? CumSumReference<int32_t>(x, at, exclusive, reverse)
                                       : CumSumReference<int64_t>(x, at, exclusive, reverse);
          ExpectKernel(kCumSumKernel, t, {want}, fmt::format("{} {}", x.type().ToString(), way));
        }
      }
    }
  }
}

}  // namespace
}  // namespace evoq
