// KernelPlan::widened: which kernels hold weights of fewer bits as float32, whatever their names.
#include "kernels/test_util.h"

namespace evoq {
namespace {

Tensor Weights(Shape shape, bool narrow) {
  return narrow ? RandomTensor(TensorType(DType::kInt8, shape, QuantParams::PerTensor(0.1f, 0)), 1)
                : RandomTensor(TensorType(DType::kFloat32, shape), 1);
}

TensorType Real(Shape shape) { return TensorType(DType::kFloat32, std::move(shape)); }

bool Widened(const char* kernel, const TestCall& call) {
  return Bind(*FindKernel(kernel), call, Isa::kScalar, 1).bound.plan.widened;
}

TestCall Convolution(const char* op, Shape weights, int64_t group, bool narrow) {
  TestCall call{.op = op};
  call.attrs.Set("channels_last", int64_t{1});
  call.attrs.Set("group", group);
  call.inputs = {RandomTensor(Real(Shape{1, 4, 4, 8}), 2), Weights(weights, narrow)};
  call.is_constant = {false, true};
  call.outputs = {Real(Shape{1, 4, 4, 8})};
  return call;
}

TEST(Widened, WhereFewerBitsBecomeFloats) {
  for (const bool narrow : {false, true}) {
    EXPECT_EQ(Widened("conv_f32", Convolution("Conv", Shape{8, 8, 1, 1}, 1, narrow)), narrow);
    EXPECT_EQ(
        Widened("conv_transpose_f32", Convolution("ConvTranspose", Shape{8, 8, 1, 1}, 1, narrow)),
        narrow);
    EXPECT_EQ(Widened("dwconv_f32", Convolution("Conv", Shape{8, 1, 1, 1}, 8, narrow)), narrow);
    TestCall product{.op = "MatMul"};
    product.inputs = {RandomTensor(Real(Shape{3, 8}), 2), Weights(Shape{8, 5}, narrow)};
    product.is_constant = {false, true};
    product.outputs = {Real(Shape{3, 5})};
    EXPECT_EQ(Widened("matmul_f32", product), narrow);
  }
  // Winograd's weights are made from floats.
  TestCall winograd = Convolution("Conv", Shape{8, 8, 3, 3}, 1, true);
  winograd.attrs.Set("pads", std::vector<int64_t>{1, 1, 1, 1});
  const auto types = winograd.InputTypes();
  const auto constants = winograd.Constants(winograd.inputs);
  const auto bound = FindKernel("conv_f32")
                         ->bind({winograd.op, winograd.attrs, types, winograd.outputs, constants},
                                BindOptions{Isa::kScalar, 1, "winograd 2x2"});
  ASSERT_TRUE(bound) << bound.error().message();
  EXPECT_EQ(bound->plan.method, "winograd 2x2");
  EXPECT_TRUE(bound->plan.widened);
  // A recurrent cell lays its weights out anew in any case.
  TestCall cell{.op = "LSTM"};
  cell.attrs.Set("hidden_size", int64_t{4});
  cell.inputs = {RandomTensor(Real(Shape{2, 1, 3}), 2), Weights(Shape{1, 16, 3}, true),
                 Weights(Shape{1, 16, 4}, true)};
  cell.is_constant = {false, true, true};
  cell.outputs = {Real(Shape{2, 1, 1, 4})};
  EXPECT_TRUE(Widened("lstm_f32", cell));
}

}  // namespace
}  // namespace evoq
