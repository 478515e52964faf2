#include "kernels/gemm/linear_f32_bench.h"

namespace evoq {
namespace {

struct Shape2d {
  const char* name;
  int64_t size, channels_in, channels_out, kernel, stride;
  bool residual = false;
  int64_t group = 1;
  bool line = false;  // one line of so many pixels, and a kernel of one line
};

constexpr Shape2d kShapes[] = {
    // ResNet-50
    {"resnet50/stem7x7s2_c3_224", 224, 3, 64, 7, 2},
    {"resnet50/1x1_c64_64_56", 56, 64, 64, 1, 1},
    {"resnet50/3x3_c64_56", 56, 64, 64, 3, 1},
    {"resnet50/1x1_c64_256_56_residual", 56, 64, 256, 1, 1, true},
    {"resnet50/1x1_c256_64_56", 56, 256, 64, 1, 1},
    {"resnet50/3x3s2_c128_56", 56, 128, 128, 3, 2},
    {"resnet50/1x1s2_c256_512_56", 56, 256, 512, 1, 2},
    {"resnet50/3x3_c128_28", 28, 128, 128, 3, 1},
    {"resnet50/1x1_c128_512_28_residual", 28, 128, 512, 1, 1, true},
    {"resnet50/1x1_c512_128_28", 28, 512, 128, 1, 1},
    {"resnet50/3x3_c256_14", 14, 256, 256, 3, 1},
    {"resnet50/1x1_c256_1024_14", 14, 256, 1024, 1, 1},
    {"resnet50/1x1_c1024_256_14", 14, 1024, 256, 1, 1},
    {"resnet50/3x3_c512_7", 7, 512, 512, 3, 1},
    {"resnet50/1x1_c512_2048_7", 7, 512, 2048, 1, 1},
    {"resnet50/1x1_c2048_512_7", 7, 2048, 512, 1, 1},
    {"1x1_c256_256_14", 14, 256, 256, 1, 1},
    {"gconv3x3_c128_g32_56", 56, 128, 128, 3, 1, false, 32},
    {"gconv3x3_c256_g32_28", 28, 256, 256, 3, 1, false, 32},
    {"gconv3x3_c256_g16_28", 28, 256, 256, 3, 1, false, 16},
    {"gconv3x3_c104_g13_28", 28, 104, 104, 3, 1, false, 13},  // RegNet's groups of eight channels
    // MobileNetV2
    {"mobilenetv2/stem3x3s2_c3_224", 224, 3, 32, 3, 2},
    {"mobilenetv2/1x1_c32_16_112", 112, 32, 16, 1, 1},
    {"mobilenetv2/1x1_c16_96_112", 112, 16, 96, 1, 1},
    {"mobilenetv2/1x1_c96_24_56", 56, 96, 24, 1, 1},
    {"mobilenetv2/1x1_c24_144_56", 56, 24, 144, 1, 1},
    {"mobilenetv2/1x1_c144_24_56_residual", 56, 144, 24, 1, 1, true},
    {"mobilenetv2/1x1_c32_192_28", 28, 32, 192, 1, 1},
    {"mobilenetv2/1x1_c192_32_28", 28, 192, 32, 1, 1},
    {"mobilenetv2/1x1_c64_384_14", 14, 64, 384, 1, 1},
    {"mobilenetv2/1x1_c384_64_14", 14, 384, 64, 1, 1},
    {"mobilenetv2/1x1_c96_576_14", 14, 96, 576, 1, 1},
    {"mobilenetv2/1x1_c160_960_7", 7, 160, 960, 1, 1},
    {"mobilenetv2/1x1_c960_160_7", 7, 960, 160, 1, 1},
    {"mobilenetv2/1x1_c320_1280_7", 7, 320, 1280, 1, 1},
    // SqueezeNet 1.1
    {"squeezenet/stem3x3s2_c3_224", 224, 3, 64, 3, 2},
    {"squeezenet/1x1_c64_16_55", 55, 64, 16, 1, 1},
    {"squeezenet/1x1_c16_64_55", 55, 16, 64, 1, 1},
    {"squeezenet/3x3_c16_64_55", 55, 16, 64, 3, 1},
    {"squeezenet/3x3_c32_128_27", 27, 32, 128, 3, 1},
    {"squeezenet/3x3_c64_256_13", 13, 64, 256, 3, 1},
    {"squeezenet/1x1_c512_1000_13", 13, 512, 1000, 1, 1},
    {"first/5x5_c1_8_28", 28, 1, 8, 5, 1},
    {"first/3x3_c3_16_224", 224, 3, 16, 3, 1},
};
// Also by a product for each tap. The last one is a vocoder's, of one axis.
constexpr Shape2d kLast[] = {
    {"last/3x3_c64_1_224", 224, 64, 1, 3, 1},
    {"last/3x3_c32_3_256", 256, 32, 3, 3, 1},
    {"last/1x7_c32_1_40000", 40000, 32, 1, 7, 1, false, 1, true},
};
constexpr const char* kBothWays[] = {"", "direct"};

void Conv(benchmark::State& state, const Shape2d& s, int threads, const char* variant = "") {
  const int64_t pad = s.kernel / 2, out = (s.size + 2 * pad - s.kernel) / s.stride + 1,
                pad_down = s.line ? 0 : pad, kernel_down = s.line ? 1 : s.kernel,
                size_down = s.line ? 1 : s.size, out_down = s.line ? 1 : out;
  Attrs attrs;
  attrs.Set("channels_last", 1);
  attrs.Set("group", AttrValue(s.group));
  attrs.Set("strides", std::vector<int64_t>{s.stride, s.stride});
  attrs.Set("pads", std::vector<int64_t>{pad_down, pad, pad_down, pad});
  attrs.Set("activation", "Relu");
  const TensorType y(DType::kFloat32, Shape{1, out_down, out, s.channels_out});
  std::vector<TensorType> inputs = {
      TensorType(DType::kFloat32, Shape{1, size_down, s.size, s.channels_in}),
      TensorType(DType::kFloat32,
                 Shape{s.channels_out, s.channels_in / s.group, kernel_down, s.kernel}),
      TensorType(DType::kFloat32, Shape{s.channels_out}), TensorType()};
  if (s.residual) inputs[3] = y;
  const double macs =
      1.0 * out_down * out * s.channels_out * s.channels_in / s.group * kernel_down * s.kernel;
  BenchLinearF32(state, *FindKernel("conv_f32"), attrs, inputs, {false, true, true, false}, y, macs,
                 threads, variant);
}

// To twice the size.
struct Upsampling {
  const char* name;
  int64_t size, channels_in, channels_out, kernel;
};
constexpr Upsampling kUpsamplings[] = {{"4x4s2_c64_28", 28, 64, 64, 4},
                                       {"last/9x9s2_c56_1_64", 64, 56, 1, 9}};

void ConvTranspose(benchmark::State& state, const Upsampling& s, int threads, const char* variant) {
  Attrs attrs;
  attrs.Set("channels_last", 1);
  attrs.Set("strides", std::vector<int64_t>{2, 2});
  const int64_t pad = (s.kernel - 1) / 2, end = s.kernel - 2 - pad;
  attrs.Set("pads", std::vector<int64_t>{pad, pad, end, end});
  const TensorType y(DType::kFloat32, Shape{1, 2 * s.size, 2 * s.size, s.channels_out});
  const std::vector<TensorType> inputs = {
      TensorType(DType::kFloat32, Shape{1, s.size, s.size, s.channels_in}),
      TensorType(DType::kFloat32, Shape{s.channels_in, s.channels_out, s.kernel, s.kernel})};
  BenchLinearF32(state, *FindKernel("conv_transpose_f32"), attrs, inputs, {false, true}, y,
                 1.0 * s.kernel * s.kernel * s.size * s.size * s.channels_in * s.channels_out,
                 threads, variant);
}

const int kRegistered = [] {
  for (int threads : {1, 2}) {
    for (const Shape2d& shape : kShapes) {
      benchmark::RegisterBenchmark(
          fmt::format("conv_f32/{}/threads:{}", shape.name, threads).c_str(),
          [&shape, threads](benchmark::State& state) { Conv(state, shape, threads); })
          ->UseRealTime();
    }
    for (const char* way : kBothWays) {
      const std::string end = fmt::format("{}{}/threads:{}", *way != 0 ? "/" : "", way, threads);
      for (const Shape2d& shape : kLast) {
        benchmark::RegisterBenchmark(
            fmt::format("conv_f32/{}{}", shape.name, end).c_str(),
            [&shape, threads, way](benchmark::State& state) { Conv(state, shape, threads, way); })
            ->UseRealTime();
      }
      for (const Upsampling& shape : kUpsamplings) {
        benchmark::RegisterBenchmark(
            fmt::format("conv_transpose_f32/{}{}", shape.name, end).c_str(),
            [&shape, threads, way](benchmark::State& state) {
              ConvTranspose(state, shape, threads, way);
            })
            ->UseRealTime();
      }
    }
  }
  return 0;
}();

}  // namespace
}  // namespace evoq
