#include "kernels/conv/conv_taps_int8.h"
#include "kernels/gemm/int8_geometry.h"
#include "kernels/gemm/int8_test_case.h"

namespace evoq::int8_test {
namespace {

Case Conv2D(Ints x, Ints w, Ints strides = {}, Ints pads = {}, int64_t group = 1,
            Ints dilations = {}) {
  Case c;
  c.x = std::move(x);
  c.w = std::move(w);
  c.strides = std::move(strides);
  c.pads = std::move(pads);
  c.group = group;
  c.dilations = std::move(dilations);
  return c;
}

TEST(ConvInt8, ShapesOfRealNetworks) {
  Check("conv_int8", Conv2D({1, 14, 14, 64}, {64, 64, 3, 3}, {}, {1, 1, 1, 1}));
  Check("conv_int8", Conv2D({1, 19, 18, 3}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}));
  Check("conv_int8", Conv2D({2, 9, 9, 3}, {16, 3, 3, 3}, {2, 2}, {0, 0, 1, 1}));
  Check("conv_int8", Conv2D({1, 7, 7, 128}, {80, 128, 1, 1}));
  Check("conv_int8", Conv2D({1, 8, 8, 96}, {160, 96, 1, 1}, {2, 2}));
  Check("conv_int8", Conv2D({1, 16, 16, 3}, {40, 3, 8, 8}, {8, 8}));
  Check("conv_int8", Conv2D({1, 6, 6, 128}, {128, 4, 3, 3}, {}, {1, 1, 1, 1}, 32));
  Check("conv_int8", Conv2D({1, 6, 6, 48}, {240, 16, 1, 1}, {}, {}, 3));
}

// Large enough to be cut into several pieces by rows, by columns and by groups.
TEST(ConvInt8, CutForThreads) {
  Check("conv_int8", Conv2D({1, 23, 21, 32}, {48, 32, 3, 3}, {}, {1, 1, 1, 1}));
  Check("conv_int8", Conv2D({1, 3, 5, 512}, {1000, 512, 1, 1}));
  Check("conv_int8", Conv2D({1, 1, 700, 1}, {1, 1, 1, 255}, {1, 2}));
  Check("conv_int8", Conv2D({2, 9, 30, 1}, {1, 1, 3, 39}, {}, {1, 19, 1, 19}));
  Check("conv_int8", Conv2D({1, 40, 40, 3}, {40, 3, 5, 5}, {}, {2, 2, 2, 2}));
  Check("conv_int8", Conv2D({1, 30, 30, 64}, {64, 8, 3, 3}, {}, {1, 1, 1, 1}, 8));
  Check("conv_int8", Conv2D({1, 9, 9, 120}, {480, 40, 3, 3}, {}, {1, 1, 1, 1}, 3));
  Check("conv_int8", Conv2D({1, 90, 90, 24}, {24, 1, 5, 5}, {}, {2, 2, 2, 2}, 24));
  Case zeros = Conv2D({2, 19, 19, 24}, {70, 24, 3, 3}, {}, {1, 1, 1, 1});
  zeros.w_zeros = 2;
  zeros.op = "ConvInteger";
  zeros.runtime_zero = true;
  Check("conv_integer", zeros);
}

TEST(ConvInt8, Dimensions) {
  Check("conv_int8", Conv2D({2, 30, 12}, {20, 12, 5}, {2}, {3, 1}));
  Check("conv_int8",
        Conv2D({1, 5, 6, 7, 8}, {17, 8, 3, 2, 3}, {1, 2, 1}, {1, 0, 1, 1, 1, 0}, 1, {1, 1, 2}));
  Check("conv_int8", Conv2D({1, 4, 5, 6, 3}, {5, 3, 2, 2, 2}, {1, 1, 2}, {1, 1, 1, 0, 0, 0}));
}

// All taps beside one another: in several bands of lines and of a lone line, in pieces of a line.
TEST(ConvInt8, TapsBeside) {
  Check("conv_int8", Conv2D({2, 9, 11, 64}, {1, 64, 3, 3}, {}, {1, 1, 1, 1}));
  Check("conv_int8", Conv2D({1, 180, 170, 16}, {1, 16, 3, 3}, {}, {1, 1, 1, 1}));
  Check("conv_int8", Conv2D({1, 38000, 4}, {1, 4, 7}, {}, {3, 3}));
  Case c = Conv2D({1, 7, 720, 20}, {3, 20, 3, 5}, {1, 2}, {0, 2, 1, 1}, 1, {2, 1});
  c.table = true;
  Check("conv_int8", c);
}

TEST(ConvInt8, ChoosesTapsBesideForFewOutputs) {
  ConvShapeF32 s;
  s.channels_in = 64, s.channels_out = 1;
  s.in = s.out = {1, 224, 224}, s.kernel = {1, 3, 3}, s.pad = {0, 1, 1};
  EXPECT_TRUE(ChooseTapsInt8(s, false, ""));
  EXPECT_TRUE(ChooseTapsInt8(s, false, kTapsBeside));
  EXPECT_FALSE(ChooseTapsInt8(s, false, "32 wide"));
  s.channels_out = 8;
  EXPECT_FALSE(ChooseTapsInt8(s, false, ""));
  s.channels_out = 3, s.stride = {1, 2, 2}, s.kernel = {1, 4, 4}, s.out = {1, 448, 448};
  EXPECT_TRUE(ChooseTapsInt8(s, true, ""));
  s.group = 3;
  EXPECT_FALSE(ChooseTapsInt8(s, true, kTapsBeside));
}

TEST(ConvInt8, EmptyInputsAndOutputs) {
  Check("conv_int8", Conv2D({0, 4, 4, 8}, {8, 8, 3, 3}, {}, {1, 1, 1, 1}));
  Check("conv_int8", Conv2D({1, 2, 2, 8}, {8, 8, 3, 3}));
  Check("conv_int8", Conv2D({1, 0, 2, 3}, {8, 3, 2, 1}, {}, {1, 0, 2, 0}));
  Case dynamic = Conv2D({0, 4, 4, 6}, {6, 2, 3, 3}, {}, {1, 1, 1, 1}, 3);  // computed directly
  dynamic.op = "DynamicConv";
  dynamic.y_type = DType::kFloat32;
  Check("dynamic_conv", dynamic);
}

// Each part sends the columns that it computed through the table, once.
TEST(ConvInt8, CutForThreadsBehindATable) {
  for (Case c : {Conv2D({1, 3, 5, 512}, {1000, 512, 1, 1}),
                 Conv2D({1, 9, 9, 120}, {480, 40, 3, 3}, {}, {1, 1, 1, 1}, 3),
                 Conv2D({1, 14, 15, 96}, {120, 32, 1, 1}, {}, {}, 3)}) {
    c.table = true;
    Check("conv_int8", c);
  }
}

// Rows 4096 bytes apart, many taps, padding wider than the image, a huge multiplier.
TEST(ConvInt8, Extremes) {
  Check("conv_int8", Conv2D({1, 3, 5, 4096}, {66, 4096, 1, 1}));
  Check("conv_int8", Conv2D({1, 1, 40, 2048}, {16, 2048, 1, 1}, {1, 2}));
  Check("conv_int8", Conv2D({1, 12, 12, 4}, {3, 4, 11, 11}, {}, {5, 5, 5, 5}));
  Check("conv_int8", Conv2D({1, 2, 2, 5}, {4, 5, 3, 3}, {}, {4, 4, 4, 4}));
  Check("conv_int8", Conv2D({1, 2, 2, 3}, {4, 3, 2, 2}, {3, 3}, {5, 5, 6, 6}, 1, {2, 3}));
  Case huge = Conv2D({1, 5, 5, 16}, {18, 16, 3, 3}, {}, {1, 1, 1, 1});
  for (float gain : {1e-30f, 1e-10f, 1e20f}) {
    huge.y_gain = gain;
    Check("conv_int8", huge);
    huge.residual = DType::kUint8;
    Check("conv_int8", huge);
  }
}

// Values of some 10^4 to 10^6 steps: they saturate when they narrow to 16 bits and when the zero
// point is added, and must not wrap around. With every end of a tile: bytes of both signs, with a
// residual, from registers and through memory.
TEST(ConvInt8, SaturatesBeyond16Bits) {
  for (float gain : {1e-2f, 1e-3f, 1e-4f}) {
    for (DType y : {DType::kUint8, DType::kInt8}) {
      for (DType residual : {DType::kUndefined, DType::kUint8, DType::kInt8}) {
        for (int32_t zero : {0, 100}) {
          Case c = Conv2D({1, 7, 9, 32}, {37, 32, 3, 3}, {}, {1, 1, 1, 1});
          c.y_gain = gain;
          c.y_type = y;
          c.y_zero = zero;
          c.residual = residual;
          c.extremes = zero == 0 ? 1 : 0;
          Check("conv_int8", c);
          c.w = {32, 32, 1, 1};
          c.pads = {};
          Check("conv_int8", c);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Nothing saturates on the way: sums of least and largest values, with the zero point at either
// end.
TEST(ConvInt8, LeastAndLargestValues) {
  for (int extremes : {1, 2}) {
    for (DType x : {DType::kUint8, DType::kInt8}) {
      for (bool high_zero : {false, true}) {
        Case c = Conv2D({1, 8, 7, 64}, {24, 64, 3, 3}, {}, {1, 1, 1, 1});
        c.x_type = x;
        c.x_zero = (x == DType::kInt8 ? -128 : 0) + (high_zero ? 255 : 0);
        c.extremes = extremes;
        c.y_type = DType::kFloat32;
        Check("conv_int8", c);
        c.w = {24, 64, 1, 1};
        c.pads = {};
        Check("conv_int8", c);
      }
    }
  }
  Case deep = Conv2D({1, 4, 4, 1824}, {16, 1824, 3, 3}, {}, {1, 1, 1, 1});
  deep.x_zero = 0;
  deep.y_type = DType::kFloat32;
  deep.extremes = 2;
  Check("conv_int8", deep);
  // Sixteen channels more, and four times a sum no longer fits int32: Winograd's way must not be
  // taken.
  deep.x[3] = deep.w[1] = 1840;
  Check("conv_int8", deep);
}

// Few weights are large, so that few pairs of products leave int16: on their own, in all columns of
// a panel, on both sides of a tap's end and beyond what one tile keeps; and pairs at the edge.
TEST(ConvInt8, FewUnsafePairs) {
  for (const Ints& w : {Ints{16, 64, 1, 1}, Ints{33, 76, 1, 1}, Ints{80, 20, 3, 2},
                        Ints{24, 1024, 1, 6}, Ints{24, 1028, 1, 6}}) {
    Case c = Conv2D({1, 5, 7, w[1]}, w, {}, {1, 1, 1, 1});
    c.w_small = true;
    c.y_type = DType::kFloat32;
    Check("conv_int8", c);
    if (HasFatalFailure()) return;
  }
  Problem p = Build(Conv2D({1, 1, 13, 64}, {16, 64, 1, 1}));
  const int8_t pairs[][2] = {{127, 1},     {127, 2},    {127, 127}, {-128, -1}, {-128, 0},
                             {-128, -128}, {-128, 127}, {64, 64},   {64, 65},   {-64, -65}};
  for (size_t i = 0; i < p.data[1].bytes(); ++i)
    p.data[1].mutable_raw()[i] =
        static_cast<std::byte>(i / 64 % 7 == 1 && i % 64 < 20 ? pairs[i % 64 / 2][i % 2] : 0);
  for (size_t i = 0; i < p.data[0].bytes(); ++i) p.data[0].mutable_raw()[i] = std::byte{255};
  CheckProblem("conv_int8", p);
}

// Sizes around those of Winograd's tiles, of runs and chunks of them, and of panels; every
// epilogue.
TEST(ConvInt8, ThreeByThree) {
  uint32_t seed = 5001;
  for (int64_t size : {1, 2, 3, 8, 31, 33, 66}) {
    for (int64_t pad : {0, 1, 2}) {
      if (size + 2 * pad < 3) continue;
      std::mt19937 rng(seed);
      Case c = Conv2D(
          {1 + static_cast<int64_t>(rng() % 2), size, 1 + size * 2 / 3 + pad, 16 << rng() % 3}, {},
          {}, {pad, pad, pad, pad});
      c.w = {std::array<int64_t, 6>{1, 15, 16, 17, 48, 81}[rng() % 6], c.x[3], 3, 3};
      if (c.x[2] + 2 * pad < 3) c.pads[3] += 2;
      c.x_type = rng() % 2 == 0 ? DType::kInt8 : DType::kUint8;
      c.w_type = rng() % 4 == 0 ? DType::kUint8 : DType::kInt8;
      c.x_zero = static_cast<int32_t>(rng() % 256) - (c.x_type == DType::kInt8 ? 128 : 0);
      c.y_type = std::array{DType::kUint8, DType::kInt8, DType::kFloat32}[rng() % 3];
      c.residual = std::array{DType::kUndefined, DType::kUint8, DType::kInt8}[rng() % 3];
      c.activation = {std::array{ActivationKind::kNone, ActivationKind::kRelu,
                                 ActivationKind::kLeakyRelu, ActivationKind::kPRelu}[rng() % 4],
                      0.1f};
      c.table = c.y_type == DType::kUint8 && rng() % 3 == 0;
      c.seed = seed++;
      Check("conv_int8", c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ConvInt8, EpiloguesAndTypes) {
  const Activation activations[] = {{ActivationKind::kNone},
                                    {ActivationKind::kRelu},
                                    {ActivationKind::kClip, -0.4f, 1.3f},
                                    {ActivationKind::kLeakyRelu, 0.1f},
                                    {ActivationKind::kPRelu}};
  uint32_t seed = 1;
  for (const Activation& activation : activations) {
    for (DType y : {DType::kUint8, DType::kInt8, DType::kFloat32}) {
      for (DType residual : {DType::kUndefined, DType::kUint8, DType::kInt8, DType::kFloat32}) {
        if (residual == DType::kFloat32 && y != DType::kFloat32) continue;
        for (DType x : {DType::kUint8, DType::kInt8}) {
          Case c = Conv2D({1, 5, 4, 8}, {37, 8, 3, 3}, {}, {1, 1, 1, 1});
          c.activation = activation;
          c.y_type = y;
          c.y_zero = y == DType::kInt8 ? -9 : 31;
          c.residual = residual;
          c.x_type = x;
          c.x_zero = x == DType::kInt8 ? -20 : 140;
          c.w_type = seed % 3 == 0 ? DType::kUint8 : DType::kInt8;
          c.w_zeros = static_cast<int>(seed % 4 == 3 ? 0 : seed % 4);
          c.per_channel = seed % 2 == 0;
          c.bias = seed % 5 != 0;
          c.seed = seed++;
          Check("conv_int8", c);
        }
      }
    }
  }
}

// A random convolution whose sizes stand around those of tiles and panels.
Case RandomCase(uint32_t seed, bool integer) {
  std::mt19937 rng(seed);
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + rng() % values.size());
  };
  Case c;
  c.seed = seed;
  c.op = integer ? "ConvInteger" : "Conv";
  const size_t rank = rng() % 8 == 0 ? 1 : rng() % 8 == 1 ? 3 : 2;
  c.group = pick({1, 1, 1, 1, 2, 3, 8});
  const int64_t per_group =
      c.group == 1 ? pick({1, 3, 4, 5, 16, 31, 64}) : pick({1, 2, 3, 4, 8, 11});
  const int64_t columns = c.group == 1 ? pick({1, 15, 16, 17, 31, 32, 33, 48, 64, 65, 70})
                                       : pick({1, 2, 4, 4, 7, 8, 16, 20});
  c.x = {pick({1, 1, 2})};
  c.w = {columns * c.group, per_group};
  Ints ends;
  for (size_t i = 0; i < rank; ++i) {
    c.x.push_back(rank == 1   ? pick({1, 13, 14, 15, 29, 57})
                  : rank == 2 ? pick({1, 2, 4, 5, 7})
                              : pick({1, 3, 5}));
    c.w.push_back(pick({1, 1, 2, 3, 3, 4}));
    c.strides.push_back(pick({1, 1, 2, 3}));
    c.dilations.push_back(pick({1, 1, 1, 2}));
    c.pads.push_back(pick({0, 0, 1, 2}));
    ends.push_back(pick({0, 1, 2}));
  }
  c.pads.insert(c.pads.end(), ends.begin(), ends.end());
  c.x.push_back(per_group * c.group);
  c.x_type = rng() % 4 == 0 ? DType::kInt8 : DType::kUint8;
  c.w_type = rng() % 4 == 0 ? DType::kUint8 : DType::kInt8;
  c.x_zero = c.x_type == DType::kInt8 ? static_cast<int32_t>(rng() % 256) - 128
                                      : static_cast<int32_t>(rng() % 256);
  c.w_zeros = static_cast<int>(pick({0, 0, 1, 2}));
  c.runtime_zero = rng() % 2 == 0;
  c.bias = rng() % 3 != 0;
  c.y_type = rng() % 4 == 0 ? DType::kFloat32 : DType::kUint8;
  c.y_zero = static_cast<int32_t>(pick({0, 128, 255, 17}));
  c.residual = rng() % 4 == 0 ? DType::kUint8 : DType::kUndefined;
  if (rng() % 3 == 0) c.activation = {ActivationKind::kRelu};
  c.table = !integer && c.y_type == DType::kUint8 && rng() % 4 == 0;
  c.w_small = rng() % 2 == 0;
  return c;
}

TEST(ConvInt8, RandomShapes) {
  for (uint32_t seed = 1; seed <= 300 && !HasFatalFailure(); ++seed)
    Check("conv_int8", RandomCase(seed, false));
}

TEST(ConvInteger, RandomShapes) {
  for (uint32_t seed = 1001; seed <= 1200 && !HasFatalFailure(); ++seed)
    Check("conv_integer", RandomCase(seed, true));
}

// A random dynamic convolution: float32 residual, any activation.
Case RandomDynamic(uint32_t seed) {
  Case c = RandomCase(seed, false);
  std::mt19937 rng(seed);
  const ActivationKind kinds[] = {ActivationKind::kNone, ActivationKind::kRelu,
                                  ActivationKind::kClip, ActivationKind::kLeakyRelu,
                                  ActivationKind::kSilu, ActivationKind::kHardSwish};
  c.op = "DynamicConv";
  c.y_type = DType::kFloat32;
  c.table = false;
  c.residual = rng() % 3 == 0 ? DType::kFloat32 : DType::kUndefined;
  c.activation = {kinds[rng() % 6], rng() % 2 == 0 ? 0.1f : -0.3f, 1.5f};
  return c;
}

TEST(DynamicConv, RandomShapes) {
  for (uint32_t seed = 2001; seed <= 2300 && !HasFatalFailure(); ++seed)
    Check("dynamic_conv", RandomDynamic(seed));
}

// Scales and zero points of the run, in several bands and pieces.
TEST(DynamicConv, TapsBeside) {
  uint32_t seed = 4000;
  for (const Case& shape : {Conv2D({2, 9, 11, 64}, {1, 64, 3, 3}, {}, {1, 1, 1, 1}),
                            Conv2D({1, 180, 170, 16}, {1, 16, 3, 3}, {}, {1, 1, 1, 1}),
                            Conv2D({1, 38000, 4}, {1, 4, 7}, {}, {3, 3}),
                            Conv2D({1, 40, 40, 32}, {3, 32, 3, 3}, {}, {1, 1, 1, 1})}) {
    for (const DType type : {DType::kUint8, DType::kInt8}) {
      Case c = RandomDynamic(++seed);
      c.x = shape.x, c.w = shape.w, c.group = shape.group;
      c.strides = shape.strides, c.dilations = shape.dilations, c.pads = shape.pads;
      c.x_type = type;
      c.x_zero = type == DType::kUint8 ? 117 : -9;
      c.seed = seed;
      Check("dynamic_conv", c);
    }
  }
}

TEST(DynamicConv, Depthwise) {
  uint32_t seed = 1;
  for (int64_t channels : {2, 16, 21, 37, 64, 70, 144}) {
    for (int64_t kernel : {3, 5, 7, 2}) {
      for (int64_t stride : {1, 2}) {
        const int64_t pad = kernel / 2;
        Case c = RandomDynamic(3000 + seed);
        const Case shape = Conv2D({2, 9, 11, channels}, {channels, 1, kernel, kernel},
                                  {stride, stride}, {pad, pad, pad, pad}, channels);
        c.x = shape.x, c.w = shape.w, c.group = shape.group;
        c.strides = shape.strides, c.dilations = shape.dilations, c.pads = shape.pads;
        c.x_type = DType::kUint8;
        c.x_zero = static_cast<int32_t>(seed * 37 % 256);
        c.seed = seed++;
        Check("dynamic_dwconv", c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ConvInteger, Depthwise) {
  for (int w_zeros : {0, 1, 2}) {
    Case c = Conv2D({1, 9, 9, 37}, {37, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, 37);
    c.op = "ConvInteger";
    c.w_type = DType::kUint8;
    c.w_zeros = w_zeros;
    c.runtime_zero = true;
    Check("conv_integer", c);
  }
}

// Models with free sizes keep auto_pad until their sizes are known.
TEST(ConvInt8, AutoPad) {
  Problem p = Build(Conv2D({1, 9, 8, 16}, {16, 16, 3, 3}, {2, 2}, {1, 0, 1, 1}));
  p.attrs.Erase("pads");
  const auto pads = [&](const char* mode) {
    p.attrs.Set("auto_pad", mode);
    Int8Geometry g;
    const auto rejection = ReadConvGeometry(p.call(), g);
    EXPECT_FALSE(rejection) << mode << ": " << rejection->sentence;
    return Ints{g.pad[1], g.pad[2]};
  };
  EXPECT_EQ(pads("SAME_UPPER"), (Ints{1, 0}));
  EXPECT_EQ(pads("SAME_LOWER"), (Ints{1, 1}));
  p = Build(Conv2D({1, 9, 8, 16}, {16, 16, 3, 3}, {2, 2}));
  EXPECT_EQ(pads("VALID"), (Ints{0, 0}));
}

TEST(ConvInt8, RejectsWithAReason) {
  const KernelDef* kernel = FindKernel("conv_int8");
  const Case good = Conv2D({1, 8, 8, 16}, {16, 16, 3, 3});
  const auto code = [&](auto change) -> std::string {
    Problem p = Build(good);
    change(p);
    const auto rejection = kernel->reject(p.call());
    return rejection ? rejection->code : "";
  };
  EXPECT_EQ(code([](Problem&) {}), "");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Erase("channels_last"); }), "layout");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("auto_pad", "SAME_UPPER"); }), "shape")
      << "the output would be as large as the input";
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("auto_pad", "SAME"); }), "attribute");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("pads", Ints{-1, 0, 0, 0}); }), "attribute");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("strides", Ints{1, 1, 1}); }), "attribute");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("dilations", Ints{1, 0}); }), "attribute");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("group", 2); }), "shape");
  EXPECT_EQ(code([](Problem& p) {
              p.attrs.Set("pads", Ints{int64_t{1} << 39, int64_t{1} << 39, 0, 0});
              p.attrs.Set("strides", Ints{int64_t{1} << 39, int64_t{1} << 39});
              p.outputs[0].shape[1] = p.outputs[0].shape[2] = Dim(2);
            }),
            "shape");
  EXPECT_EQ(code([](Problem& p) { p.attrs.Set("activation", "Silu"); }), "attribute");
  EXPECT_EQ(code([](Problem& p) { p.outputs[0].shape[1] = Dim(7); }), "shape");
  EXPECT_EQ(code([](Problem& p) { p.inputs[0].shape[1] = Dim::Symbolic("H"); }), "shape");
  EXPECT_EQ(code([](Problem& p) { p.constants[1] = nullptr; }), "not-constant");
  EXPECT_EQ(code([](Problem& p) { p.constants[2] = nullptr; }), "not-constant");
  const auto add_table = [](Problem& p, Shape shape) {
    p.inputs.resize(5);
    p.constants.resize(5);
    p.inputs[4] = TensorType(DType::kUint8, shape, *p.outputs[0].quant);
  };
  EXPECT_EQ(code([&](Problem& p) { add_table(p, Shape{256}); }), "not-constant");
  EXPECT_EQ(code([&](Problem& p) { add_table(p, Shape{255}); }), "types");
  EXPECT_EQ(code([](Problem& p) { p.inputs[0].quant = nullptr; }), "types");
  EXPECT_EQ(code([](Problem& p) { p.inputs[2].dtype = DType::kFloat32; }), "types");
  EXPECT_EQ(code([](Problem& p) { p.outputs[0].dtype = DType::kInt32; }), "types");
}

TEST(ConvInt8, BindRefusesPackedWeightsOfAnotherSize) {
  Problem p = Build(Conv2D({1, 8, 8, 16}, {16, 16, 3, 3}));
  const KernelDef* kernel = FindKernel("conv_int8");
  const Tensor cut = Tensor::Packed(p.inputs[1], "k4n16-conv", std::vector<std::byte>(64));
  p.constants[1] = &cut;
  EXPECT_FALSE(kernel->bind(p.call(), BindOptions{}));
}

}  // namespace
}  // namespace evoq::int8_test
