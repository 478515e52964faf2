#include "kernels/conv/tap_sums.h"
#include "kernels/requant.h"
#include "kernels/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

struct TransposeCase {
  Ints in, kernel, strides, dilations, pads, output_padding;  // spatial
  int64_t batch = 1, channels = 4, columns = 4, group = 1;    // columns: per group
  DType w_type = DType::kInt8, y_type = DType::kUint8;
  bool per_channel = true, bias = true, residual = false;
  int32_t x_zero = 121;

  int64_t Out(size_t i) const {
    return strides[i] * (in[i] - 1) + output_padding[i] + (kernel[i] - 1) * dilations[i] + 1 -
           pads[i] - pads[i + in.size()];
  }
};

TestCall CallOf(const TransposeCase& c, uint32_t seed) {
  TestCall t;
  t.op = "ConvTranspose";
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("group", AttrValue(c.group));
  t.attrs.Set("strides", c.strides);
  t.attrs.Set("dilations", c.dilations);
  t.attrs.Set("pads", c.pads);
  t.attrs.Set("output_padding", c.output_padding);
  t.attrs.Set("activation", "Relu");
  const int64_t m = c.columns * c.group;
  Ints x = {c.batch}, w = {c.channels, c.columns}, y = {c.batch};
  for (size_t i = 0; i < c.in.size(); ++i)
    x.push_back(c.in[i]), w.push_back(c.kernel[i]), y.push_back(c.Out(i));
  x.push_back(c.channels), y.push_back(m);
  QuantParams wq = QuantParams::PerTensor(0.004f, c.w_type == DType::kUint8 ? 117 : 0);
  if (c.per_channel) {  // one of each group's, shared by all groups
    wq = QuantParams{{}, std::vector<int32_t>(static_cast<size_t>(c.columns), 0), 1, 0};
    for (int64_t i = 0; i < c.columns; ++i)
      wq.scales.push_back(0.002f + 0.0001f * static_cast<float>(i % 50));
  }
  const TensorType out = c.y_type == DType::kFloat32
                             ? TensorType(c.y_type, Shape(y))
                             : TensorType(c.y_type, Shape(y), QuantParams::PerTensor(0.3f, 20));
  t.inputs = {
      RandomTensor(TensorType(DType::kUint8, Shape(x), QuantParams::PerTensor(0.05f, c.x_zero)),
                   seed),
      RandomTensor(TensorType(c.w_type, Shape(w), wq), seed + 1), Tensor(), Tensor()};
  if (c.bias) t.inputs[2] = RandomTensor(TensorType(DType::kInt32, Shape{m}), seed + 2);
  if (c.residual) t.inputs[3] = RandomTensor(out, seed + 3);
  t.is_constant = {false, true, true, false};
  t.outputs = {out};
  return t;
}

// Every input pixel adds its products to the outputs that it reaches; then kernels/requant.h.
Tensor Expected(const TransposeCase& c, const TestCall& t) {
  const size_t rank = c.in.size();
  const int64_t m = c.columns * c.group, depth = c.channels / c.group;
  int64_t pixels = 1, taps = 1, outs = 1;
  for (size_t i = 0; i < rank; ++i) pixels *= c.in[i], taps *= c.kernel[i], outs *= c.Out(i);
  std::vector<int32_t> acc(static_cast<size_t>(c.batch * outs * m));
  const QuantParams& wq = *t.inputs[1].type().quant;
  for (int64_t n = 0; n < c.batch * pixels; ++n) {
    for (int64_t tap = 0; tap < taps; ++tap) {
      int64_t pixel = n % pixels, rest = tap, place = 0, stride = 1;
      bool inside = true;
      for (size_t i = rank; i-- > 0;) {
        const int64_t o =
            pixel % c.in[i] * c.strides[i] + rest % c.kernel[i] * c.dilations[i] - c.pads[i];
        inside = inside && o >= 0 && o < c.Out(i);
        place += o * stride;
        stride *= c.Out(i);
        pixel /= c.in[i];
        rest /= c.kernel[i];
      }
      for (int64_t k = 0; inside && k < m; ++k) {
        for (int64_t d = 0; d < depth; ++d) {
          const int64_t channel = k / c.columns * depth + d,
                        at = (channel * c.columns + k % c.columns) * taps + tap;
          const int32_t w = c.w_type == DType::kInt8 ? t.inputs[1].data<int8_t>()[at]
                                                     : t.inputs[1].data<uint8_t>()[at];
          acc[static_cast<size_t>((n / pixels * outs + place) * m + k)] +=
              (t.inputs[0].data<uint8_t>()[n * c.channels + channel] - c.x_zero) *
              (w - wq.zero_points[0]);
        }
      }
    }
  }
  Tensor y = Tensor::Allocate(t.outputs[0]);
  const bool real = c.y_type == DType::kFloat32;
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t k = i % m;
    const int32_t sum = acc[static_cast<size_t>(i)] + (c.bias ? t.inputs[2].data<int32_t>()[k] : 0);
    float v = static_cast<float>(sum) *
              LinearMultiplier(0.05f, wq.scales[static_cast<size_t>(k) % wq.scales.size()],
                               real ? 1 : 0.3f);
    if (c.residual && real) v = v + t.inputs[3].data<float>()[i];
    if (c.residual && !real)
      v = v + static_cast<float>(t.inputs[3].data<uint8_t>()[i] - 20) * ScaleRatio(0.3f, 0.3f);
    v = v > 0 ? v : 0;
    if (real) {
      y.mutable_data<float>()[i] = v;
    } else {
      y.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(RoundToInteger(v, 20, 0, 255));
    }
  }
  return y;
}

void Check(const TransposeCase& c, uint32_t seed) {
  TestCall t = CallOf(c, seed);
  const Tensor expected = Expected(c, t);
  for (const char* variant : {"", "direct", kTapsBeside}) {
    t.variant = variant;
    ExpectKernel(*FindKernel("conv_transpose_int8"), t, {expected},
                 fmt::format("{} {} -> {} strides {} seed {} variant '{}'",
                             t.inputs[0].type().ToString(), t.inputs[1].type().ToString(),
                             t.outputs[0].ToString(), c.strides[0], seed, variant));
  }
}

TEST(ConvTransposeInt8, ShapesOfRealNetworks) {
  Check({{7, 9}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 1, 64, 64}, 1);
  Check({{5, 5}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {0, 0}, 2, 32, 16}, 2);
  Check({{4, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, 8, 70}, 3);
  Check({{11}, {16}, {8}, {1}, {4, 4}, {0}, 1, 12, 20}, 4);
  // Groups and depthwise, with scales of a group's output channels.
  Check({{6, 7}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 1, 32, 8, 4}, 5);
  Check({{6, 7}, {4, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {0, 0}, 1, 32, 1, 32}, 6);
}

TEST(ConvTransposeInt8, RandomShapes) {
  std::mt19937 rng(5);
  for (uint32_t done = 0; done < 300;) {
    TransposeCase c;
    const size_t rank = 1 + rng() % 3;
    for (size_t i = 0; i < rank; ++i) {
      c.in.push_back(1 + rng() % (rank == 3 ? 4 : 7)), c.kernel.push_back(1 + rng() % 4),
          c.strides.push_back(1 + rng() % 3);
      c.dilations.push_back(1 + rng() % 2), c.output_padding.push_back(rng() % 2);
    }
    for (size_t i = 0; i < 2 * rank; ++i) c.pads.push_back(rng() % 3);
    bool fits = true;
    for (size_t i = 0; i < rank; ++i) fits = fits && c.Out(i) > 0;
    if (!fits) continue;
    const int64_t depths[] = {1, 2, 3, 4, 8, 20};
    c.group = rng() % 3 == 0 ? 1 + rng() % 3 : 1;
    c.channels = depths[rng() % 6] * c.group;
    c.columns = 1 + rng() % 20;
    c.batch = 1 + rng() % 2;
    c.per_channel = rng() % 2 == 0;
    if (!c.per_channel && rng() % 2 == 0) c.w_type = DType::kUint8;
    if (rng() % 3 == 0) c.y_type = DType::kFloat32;
    c.residual = rng() % 3 == 0;
    c.bias = rng() % 2 == 0;
    Check(c, 10 + done++);
  }
}

}  // namespace
}  // namespace evoq
