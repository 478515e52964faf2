#include "kernels/reject_testing.h"

namespace evoq {
namespace {

struct Case {
  Sizes x;
  int64_t dim, size, step;
  Sizes y;
};

// y[.., i, .., k] = x[.., i * step + k, ..], index by index.
Tensor Unfolded(const Tensor& x, const Case& c) {
  TensorType type = x.type();
  type.shape = Shape(c.y);
  Tensor y = Tensor::Allocate(type);
  const size_t axis = static_cast<size_t>(c.dim < 0 ? c.dim + x.type().shape.rank() : c.dim);
  const auto strides = RowMajorStrides(c.x);
  const int64_t bytes = DTypeBits(x.dtype()) / 8;
  for (int64_t at = 0; at < y.elements(); ++at) {
    int64_t rest = at / c.size, from = at % c.size * strides[axis];
    for (size_t i = c.x.size(); i-- > 0;) {
      from += rest % c.y[i] * (i == axis ? c.step : 1) * strides[i];
      rest /= c.y[i];
    }
    std::memcpy(y.mutable_raw() + at * bytes, x.raw() + from * bytes, bytes);
  }
  return y;
}

TestCall CallOf(const Case& c, DType dtype) {
  TestCall call{.op = "UnfoldTensor"};
  call.attrs.Set("dim", c.dim);
  call.attrs.Set("size", c.size);
  call.attrs.Set("step", c.step);
  const bool quantized = dtype == DType::kUint8;
  call.inputs = {RandomTensor(quantized ? Q(Shape(c.x)) : TensorType(dtype, Shape(c.x)), 5)};
  call.outputs = {quantized ? Q(Shape(c.y)) : TensorType(dtype, Shape(c.y))};
  return call;
}

TEST(UnfoldTensor, EqualsItsFormula) {
  const Case cases[] = {{{9}, 0, 3, 2, {4, 3}},
                        {{9}, -1, 9, 5, {1, 9}},
                        {{9}, 0, 1, 1, {9, 1}},
                        {{9}, 0, 2, INT64_MAX, {1, 2}},
                        {{2, 37, 5}, 1, 8, 3, {2, 10, 5, 8}},
                        {{2, 3, 400}, 2, 25, 10, {2, 3, 38, 25}},
                        {{4, 3, 5}, -3, 2, 2, {2, 3, 5, 2}},
                        {{0, 7}, 1, 3, 1, {0, 5, 3}}};
  for (const Case& c : cases) {
    for (DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
      const TestCall call = CallOf(c, dtype);
      ExpectKernel(*FindKernel("unfold_tensor"), call, {Unfolded(call.inputs[0], c)},
                   Shape(c.x).ToString());
    }
  }
}

TEST(UnfoldTensor, Rejects) {
  Expect("unfold_tensor",
         Call{"UnfoldTensor", {}, {Q({2, 9})}, {Q({2, 4, 3})}, {}}
             .Attr("size", int64_t{3})
             .Attr("step", int64_t{2}),
         {{"types: input 0 is float32[2, 9], output uint8[2, 4, 3](scale 0.5, zero 3): moving "
           "elements needs the same type of whole bytes",
           Input(0, F({2, 9}))},
          {"types: input 0 has scales along an axis",
           [](Call& c) { c.inputs[0] = PerAxis({2, 2}, 0), c.outputs[0] = PerAxis({2, 2}, 0); }},
          {"attribute: axis 2 is outside [-2, 2)", With("dim", int64_t{2})},
          {"attribute: windows of 0 every 2 of [2, 9]", With("size", int64_t{0})},
          {"attribute: windows of 10 every 2 of [2, 9]", With("size", int64_t{10})},
          {"attribute: windows of 3 every 0 of [2, 9]", With("step", int64_t{0})},
          {"shape: [2, 9] -> [2, 3, 3]", Output(0, Q({2, 3, 3}))}});
}

}  // namespace
}  // namespace evoq
