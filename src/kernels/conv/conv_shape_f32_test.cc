#include "kernels/conv/conv_shape_f32.h"

#include "kernels/test_util.h"

namespace evoq {
namespace {

using Ints = std::vector<int64_t>;

// One spatial dimension of two groups, 4 channels to 6.
struct Case {
  const char* auto_pad;
  int64_t in, out, kernel, stride, dilation;
  int64_t pad;  // the first one
  int64_t output_padding = 0;
  bool output_shape = false;
};

ConvShapeF32 ShapeOf(const Case& c, bool transposed) {
  Attrs attrs;
  attrs.Set("channels_last", 1);
  attrs.Set("group", 2);
  attrs.Set("auto_pad", c.auto_pad);
  attrs.Set("pads", Ints{5, 6});
  attrs.Set("strides", Ints{c.stride});
  attrs.Set("dilations", Ints{c.dilation});
  if (transposed) attrs.Set("output_padding", Ints{c.output_padding});
  if (c.output_shape) attrs.Set("output_shape", Ints{c.out});
  const DType f = DType::kFloat32;
  const Shape weights = transposed ? Shape{4, 3, c.kernel} : Shape{6, 2, c.kernel};
  const std::vector<TensorType> inputs = {TensorType(f, Shape{2, c.in, 4}), TensorType(f, weights)};
  const std::vector<TensorType> outputs = {TensorType(f, Shape{2, c.out, 6})};
  const Tensor w = Tensor::Allocate(inputs[1]);
  const std::vector<const Tensor*> constants = {nullptr, &w};
  ConvShapeF32 shape;
  const auto why = ReadConvShape(
      KernelCall{transposed ? "ConvTranspose" : "Conv", attrs, inputs, outputs, constants},
      transposed, shape);
  EXPECT_FALSE(why) << why->sentence;
  return shape;
}

TEST(ConvShapeF32, FieldsOfOneDimension) {
  const ConvShapeF32 s = ShapeOf({"NOTSET", 20, 9, 3, 2, 4, 5}, false);
  EXPECT_EQ((Ints{s.batch, s.channels_in, s.channels_out, s.group}), (Ints{2, 4, 6, 2}));
  EXPECT_EQ((Ints{s.depth(), s.columns(), s.taps()}), (Ints{2, 3, 3}));
  EXPECT_EQ((Ints{s.in[0], s.in[1], s.in[2]}), (Ints{1, 1, 20}));
  EXPECT_EQ((Ints{s.out[0], s.out[1], s.out[2]}), (Ints{1, 1, 9}));
  EXPECT_EQ((Ints{s.kernel[0], s.kernel[1], s.kernel[2]}), (Ints{1, 1, 3}));
  EXPECT_EQ((Ints{s.stride[0], s.stride[1], s.stride[2]}), (Ints{1, 1, 2}));
  EXPECT_EQ((Ints{s.dilation[0], s.dilation[1], s.dilation[2]}), (Ints{1, 1, 4}));
  EXPECT_EQ((Ints{s.pad[0], s.pad[1], s.pad[2]}), (Ints{0, 0, 5}));
}

TEST(ConvShapeF32, FirstPads) {
  const Case convolutions[] = {
      {"NOTSET", 7, 4, 4, 2, 1, 5},     {"VALID", 7, 4, 4, 2, 1, 0},
      {"SAME_UPPER", 7, 4, 4, 2, 1, 1},  // (4 - 1) 2 + 4 - 7 = 3 in all
      {"SAME_LOWER", 7, 4, 4, 2, 1, 2}, {"SAME_UPPER", 5, 5, 2, 1, 3, 1},  // 4 + 4 - 5 = 3
      {"SAME_UPPER", 9, 3, 1, 3, 1, 0},  // (3 - 1) 3 + 1 - 9 is below 0
      {"SAME_LOWER", 9, 3, 1, 3, 1, 0},
  };
  for (const Case& c : convolutions)
    EXPECT_EQ(ShapeOf(c, false).pad[2], c.pad) << c.auto_pad << " " << c.in;
  const Case transposed[] = {
      {"NOTSET", 4, 7, 3, 2, 1, 5},          {"VALID", 4, 9, 3, 2, 1, 0},
      {"SAME_UPPER", 4, 7, 3, 2, 1, 1, 1},  // 2 (4 - 1) + 1 + 3 - 7 = 3 in all
      {"SAME_LOWER", 4, 7, 3, 2, 1, 2, 1},   {"SAME_LOWER", 4, 7, 3, 2, 2, 2},  // 6 + 5 - 7 = 4
      {"SAME_UPPER", 4, 12, 3, 2, 1, 0, 1},  // 10 - 12 is below 0
      {"NOTSET", 4, 7, 3, 2, 1, 2, 1, true},
  };
  for (const Case& c : transposed)
    EXPECT_EQ(ShapeOf(c, true).pad[2], c.pad) << "transposed " << c.auto_pad << " " << c.out;
}

// The way that a profile names.
TEST(ConvShapeF32, NamesOfVariants) {
  TestCall t{"Conv", {}, {}, {false, true}, {TensorType(DType::kFloat32, Shape{1, 8, 8, 16})}};
  t.inputs = {RandomTensor(TensorType(DType::kFloat32, Shape{1, 8, 8, 16}), 1),
              RandomTensor(TensorType(DType::kFloat32, Shape{16, 16, 3, 3}), 2)};
  t.attrs.Set("channels_last", 1);
  t.attrs.Set("pads", Ints{1, 1, 1, 1});
  const KernelDef& kernel = *FindKernel("conv_f32");
  const auto types = t.InputTypes();
  const auto constants = t.Constants(t.inputs);
  const KernelCall call{t.op, t.attrs, types, t.outputs, constants};
  const auto variant = [&](const char* choice) {
    return kernel.bind(call, BindOptions{Isa::kScalar, 1, choice}).value().plan.ToString();
  };
  EXPECT_EQ(variant("direct"), "scalar 2x16");
  EXPECT_EQ(variant("winograd 2x2"), "scalar 2x16 winograd 2x2");
  EXPECT_EQ(variant("winograd 4x4"), "scalar 2x16 winograd 4x4");
  EXPECT_EQ(kernel.variants(call, BindOptions{}),
            (std::vector<std::string>{"direct", "winograd 2x2", "winograd 4x4"}));
  t.attrs.Set("strides", Ints{2, 2});
  t.outputs[0].shape = Shape{1, 4, 4, 16};
  EXPECT_EQ(kernel.variants(KernelCall{t.op, t.attrs, types, t.outputs, constants}, BindOptions{}),
            std::vector<std::string>());
}

}  // namespace
}  // namespace evoq
