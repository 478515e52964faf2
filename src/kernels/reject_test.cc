// What kernels do not take, clause by clause: a call that each accepts, then the same with one
// thing changed and the code it gives. A clause that went missing would let a kernel run on what it
// was not written for.
#include <functional>
#include <map>

#include "kernels/test_util.h"

namespace evoq {
namespace {

const DType kF = DType::kFloat32, kU = DType::kUint8;

TensorType F(Shape shape) { return TensorType(kF, std::move(shape)); }
TensorType Q(Shape shape, DType dtype = DType::kUint8) {
  return TensorType(dtype, std::move(shape), QuantParams::PerTensor(0.5f, 3));
}
TensorType PerAxis(Shape shape, int axis, DType dtype = DType::kUint8) {
  QuantParams q;
  q.axis = axis;
  q.scales.assign(static_cast<size_t>(shape[axis].value), 0.5f);
  q.zero_points.assign(q.scales.size(), 0);
  return TensorType(dtype, std::move(shape), q);
}
Tensor Zeros(TensorType type) { return Tensor::Allocate(std::move(type)); }
Tensor Ints(std::vector<int64_t> values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  return Tensor::FromValues<int64_t>(shape, values);
}

// Types, with data for the constants.
struct Call {
  std::string op;
  Attrs attrs;
  std::vector<TensorType> inputs, outputs;
  std::map<size_t, Tensor> data;

  Call& Constant(size_t i, Tensor tensor) {
    if (inputs.size() <= i) inputs.resize(i + 1);
    inputs[i] = tensor.type();
    data[i] = std::move(tensor);
    return *this;
  }
  Call& Attr(const char* name, AttrValue value) {
    attrs.Set(name, std::move(value));
    return *this;
  }
};

using Change = std::function<void(Call&)>;

Change Input(size_t i, TensorType type) {
  return [i, type = std::move(type)](Call& c) { c.inputs[i] = type; };
}
Change Output(size_t i, TensorType type) {
  return [i, type = std::move(type)](Call& c) { c.outputs[i] = type; };
}
Change With(const char* attribute, AttrValue value) {
  return [attribute, value = std::move(value)](Call& c) { c.Attr(attribute, value); };
}

// The base is taken; each change gives its code.
void Expect(const char* kernel, const Call& base,
            const std::vector<std::pair<const char*, Change>>& changes) {
  const KernelDef* def = FindKernel(kernel);
  ASSERT_NE(def, nullptr) << kernel;
  const auto code = [&](const Call& c) -> std::string {
    std::vector<const Tensor*> constants(c.inputs.size(), nullptr);
    for (const auto& [i, tensor] : c.data) constants[i] = &tensor;
    const auto why = def->reject(KernelCall{c.op, c.attrs, c.inputs, c.outputs, constants});
    return why ? why->code : "";
  };
  EXPECT_EQ(code(base), "") << kernel << " does not take the call that the others are made of";
  int number = 0;
  for (const auto& [want, change] : changes) {
    Call changed = base;
    change(changed);
    EXPECT_EQ(code(changed), want) << kernel << ", change " << number;
    ++number;
  }
}

Attrs WithAxis(int64_t axis) {
  Attrs attrs;
  attrs.Set("axis", AttrValue(axis));
  return attrs;
}

Shape Unknown() { return Shape(std::vector<Dim>{Dim::Symbolic("N"), Dim(3)}); }

TEST(Reject, Normalizations) {
  Expect("softmax_f32", {"Softmax", {}, {F({2, 3})}, {F({2, 3})}, {}},
         {{"types", Input(0, Q({2, 3}))},
          {"types", Output(0, Q({2, 3}))},
          {"shape",
           [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }},
          {"shape", [](Call& c) { c.inputs[0].shape = c.outputs[0].shape = Unknown(); }},
          {"attribute", With("axis", 2)},
          {"attribute", With("axis", -3)}});
  Expect("softmax_u8", {"Softmax", {}, {Q({2, 3})}, {Q({2, 3})}, {}},
         {{"types", Input(0, Q({2, 3}, DType::kInt8))},
          {"types", Output(0, F({2, 3}))},
          {"types", Input(0, PerAxis({2, 3}, 1))},
          {"shape", [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }}});
  Expect("layer_norm_f32", {"LayerNormalization", {}, {F({2, 3}), F({3}), F({3})}, {F({2, 3})}, {}},
         {{"types", Input(1, Q({3}))},
          {"types", Output(0, Q({2, 3}))},
          {"shape", Input(1, F({1}))},
          {"shape", Input(2, F({2}))},
          {"shape", Output(0, F({3, 2}))},
          {"attribute", With("axis", 5)}});
}

TEST(Reject, Reductions) {
  const Call reduce = Call{"ReduceMax", {}, {F({2, 3})}, {F({2, 1})}, {}}.Constant(1, Ints({1}));
  Expect("ReduceMax_f32", reduce,
         {{"types", Input(0, TensorType(DType::kInt64, Shape{2, 3}))},
          {"types", Output(0, Q({2, 1}))},
          {"not-constant", [](Call& c) { c.data.clear(); }},
          {"attribute", [](Call& c) { c.Constant(1, Ints({2})); }},
          {"shape", Output(0, F({1, 3}))},
          {"shape", Input(0, F({2, 0}))},
          {"shape", [](Call& c) { c.inputs[0].shape = Unknown(); }}});
  Expect("reduce_mean_u8",
         Call{"ReduceMean", {}, {Q({2, 3})}, {Q({2, 1})}, {}}.Constant(1, Ints({1})),
         {{"types", Input(0, F({2, 3}))},
          {"types", Output(0, F({2, 1}))},
          {"types", Input(0, Q({2, 3}, DType::kInt8))},
          {"not-constant", [](Call& c) { c.data.clear(); }},
          // A sum of more than 2^22 bytes might leave int32.
          {"", Input(0, Q({2, 1 << 22}))},
          {"shape", Input(0, Q({2, (1 << 22) + 1}))}});
  Expect("argmax_f32", {"ArgMax", {}, {F({2, 3})}, {TensorType(DType::kInt64, Shape{1, 3})}, {}},
         {{"types", Input(0, Q({2, 3}))},
          {"types", [](Call& c) { c.outputs[0].dtype = DType::kInt32; }},
          {"attribute", With("axis", 2)},
          {"shape",
           [](Call& c) {
             c.outputs[0].shape = Shape{2, 1};
           }},
          {"shape", Input(0, F({0, 3}))}});
}

TEST(Reject, ElementwiseOperators) {
  Expect("add_f32", {"Add", {}, {F({2, 3}), F({3})}, {F({2, 3})}, {}},
         {{"types", Input(1, Q({3}))},
          {"types", Output(0, Q({2, 3}))},
          {"types", [](Call& c) { c.inputs.push_back(F({3})); }},
          {"shape", Input(1, F({2}))},
          {"shape", Output(0, F({3, 2}))},
          {"attribute", With("activation", "Reluu")},
          {"", With("activation", "Silu")}});
  Expect("add_u8", {"Add", {}, {Q({2, 3}), Q({3})}, {Q({2, 3})}, {}},
         {{"types", Input(1, F({3}))},
          {"types", Input(0, Q({2, 3}, DType::kInt8))},
          {"types", Output(0, F({2, 3}))},
          {"types", Input(0, PerAxis({2, 3}, 0))},
          {"attribute", With("activation", "Silu")},
          {"", With("activation", "Relu")}});
  Expect("mul_u8", {"Mul", {}, {Q({2, 3}), Q({3})}, {Q({2, 3})}, {}},
         {{"attribute", With("activation", "Relu")}});
  Expect("Clip_f32", {"Clip", {}, {F({2, 3}), F({}), F({})}, {F({2, 3})}, {}},
         {{"types", Input(0, Q({2, 3}))},
          {"types", Input(1, F({2}))},
          {"types", [](Call& c) { c.inputs[2].dtype = DType::kInt32; }},
          {"shape", Output(0, F({3, 2}))}});
  Expect("Relu_u8", {"Relu", {}, {Q({2, 3})}, {Q({2, 3}, DType::kInt8)}, {}},
         {{"types", Input(0, F({2, 3}))},
          {"types", Output(0, F({2, 3}))},
          {"types", Input(0, PerAxis({2, 3}, 1))},
          {"shape",
           [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }},
          {"types", [](Call& c) { c.Constant(1, Zeros(F({}))); }}});
  Expect("Clip_u8", Call{"Clip", {}, {Q({2, 3})}, {Q({2, 3})}, {}}.Constant(1, Zeros(F({}))),
         {{"not-constant", [](Call& c) { c.data.clear(); }},
          {"types", [](Call& c) { c.Constant(1, Zeros(F({2}))); }}});
  Expect("Equal", {"Equal", {}, {F({2, 3}), F({3})}, {TensorType(DType::kBool, Shape{2, 3})}, {}},
         {{"types", [](Call& c) { c.inputs[1].dtype = DType::kInt32; }},
          {"types", [](Call& c) { c.outputs[0].dtype = kU; }},
          {"types", [](Call& c) { c.inputs[0] = c.inputs[1] = Q({3}); }},
          {"types", [](Call& c) { c.inputs[0].dtype = c.inputs[1].dtype = DType::kFloat64; }},
          {"shape", [](Call& c) { c.inputs[1].shape = Shape{2}; }}});
  Expect("Where",
         {"Where", {}, {TensorType(DType::kBool, Shape{3}), F({2, 3}), F({})}, {F({2, 3})}, {}},
         {{"types", [](Call& c) { c.inputs[0].dtype = kU; }},
          {"types", Input(1, Q({2, 3}))},
          {"types", [](Call& c) { c.inputs[2].dtype = DType::kInt32; }},
          {"types",
           [](Call& c) {
             c.inputs[1] = c.outputs[0] = Q({2, 3}),
             c.inputs[2] = TensorType(kU, Shape{}, QuantParams::PerTensor(0.25f, 3));
           }},
          {"shape", [](Call& c) { c.inputs[0].shape = Shape{2}; }}});
}

TEST(Reject, MovingOperators) {
  Expect("concat", {"Concat", WithAxis(1), {F({2, 3}), F({2, 1})}, {F({2, 4})}, {}},
         {{"types", [](Call& c) { c.inputs[1].dtype = DType::kInt32; }},
          {"attribute", With("axis", 2)},
          {"shape", Input(1, F({1, 1}))},
          {"shape", Input(1, F({2}))},
          {"shape", Output(0, F({2, 5}))}});
  Expect("gather", Call{"Gather", {}, {F({4, 3})}, {F({2, 3})}, {}}.Constant(1, Ints({0, -4})),
         {{"types", [](Call& c) { c.Constant(1, Zeros(F({2}))); }},
          {"attribute", With("axis", 2)},
          {"shape", Output(0, F({3, 3}))},
          {"shape",
           [](Call& c) {
             c.Constant(1, Ints({0, 4}));
           }},
          {"shape",
           [](Call& c) {
             c.Constant(1, Ints({0, -5}));
           }},
          {"types", [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  Expect("pad", Call{"Pad", {}, {F({2, 3})}, {F({3, 3})}, {}}.Constant(1, Ints({1, 0, 0, 0})),
         {{"not-constant", [](Call& c) { c.data.clear(); }},
          {"not-constant",
           [](Call& c) {
             c.Constant(1, Ints({1, 0}));
           }},
          {"attribute", With("mode", "mirror")},
          {"", With("mode", "edge")},
          {"shape", Output(0, F({2, 3}))},
          {"shape",
           [](Call& c) {
             c.inputs[0] = F({0, 3}), c.outputs[0] = F({1, 3}), c.Attr("mode", "edge");
           }},
          {"shape", [](Call& c) { c.Constant(2, Zeros(F({2}))); }},
          {"types", [](Call& c) { c.Constant(2, Ints({1})); }},
          {"not-constant",
           [](Call& c) {
             c.inputs[0] = Q({2, 3}), c.outputs[0] = Q({3, 3}), c.inputs.push_back(F({1}));
           }},
          {"",
           [](Call& c) {
             c.inputs[0] = Q({2, 3}), c.outputs[0] = Q({3, 3});
           }},
          {"types", [](Call& c) {
             c.inputs[0] = Q({2, 3}, DType::kInt32), c.outputs[0] = Q({3, 3}, DType::kInt32);
           }}});
  Expect("transpose", {"Transpose", {}, {F({2, 3})}, {F({3, 2})}, {}},
         {{"attribute", With("perm", std::vector<int64_t>{0, 0})},
          {"attribute", With("perm", std::vector<int64_t>{0})},
          {"attribute", With("perm", std::vector<int64_t>{0, 2})},
          {"shape", Output(0, F({2, 3}))},
          {"types", [](Call& c) { c.outputs[0].dtype = DType::kInt32; }}});
  Expect("resize_nearest",
         Call{"Resize", {}, {Q({1, 1, 2})}, {Q({1, 1, 4})}, {}}.Constant(3, Ints({1, 1, 4})),
         {{"types", Output(0, F({1, 1, 4}))},
          {"types", Input(0, PerAxis({1, 1, 2}, 2))},
          {"attribute", With("mode", "linear")}});
}

TEST(Reject, Views) {
  Expect("tile", {"Tile", {}, {F({2, 1})}, {F({4, 3})}, {}},
         {{"", Output(0, F({2, 1}))},
          {"shape", Output(0, F({3, 3}))},
          {"shape", Output(0, F({4}))},
          {"shape", Output(0, F({4, 3, 1}))},
          {"types", Output(0, Q({4, 3}))},
          {"", Output(0, F({0, 3}))},
          {"shape",
           [](Call& c) {
             c.inputs[0] = F({0, 1});
           }},
          {"", [](Call& c) {
             c.inputs[0] = F({0, 1}), c.outputs[0] = F({0, 3});
           }}});
  Expect("expand", {"Expand", {}, {F({3, 1})}, {F({2, 3, 4})}, {}},
         {{"", Output(0, F({3, 1}))},
          {"", Output(0, F({3, 0}))},
          {"shape", Output(0, F({3}))},
          {"shape", Output(0, F({2, 4, 4}))},
          {"types", Output(0, Q({2, 3, 4}))}});
  Expect(
      "slice",
      Call{"Slice", {}, {F({4, 3})}, {F({2, 3})}, {}}.Constant(1, Ints({1})).Constant(2, Ints({3})),
      {{"shape", Output(0, F({3, 3}))},
       {"shape", Output(0, F({2, 2}))},
       {"types", Output(0, Q({2, 3}))},
       {"not-constant", [](Call& c) { c.data.clear(); }},
       {"not-constant",
        [](Call& c) {
          c.Constant(1, Ints({1, 0}));
        }},
       {"not-constant", [](Call& c) { c.Constant(3, Ints({2})); }},
       {"not-constant", [](Call& c) { c.Constant(3, Ints({0})).Constant(4, Ints({0})); }},
       {"shape", [](Call& c) { c.Constant(3, Ints({0})).Constant(4, Ints({2})); }}});
  Expect("split", {"Split", {}, {F({4, 3})}, {F({1, 3}), F({3, 3})}, {}},
         {{"shape", Output(1, F({2, 3}))},
          {"shape", Output(1, F({3}))},
          {"types", Output(1, Q({3, 3}))},
          {"attribute", With("axis", 2)},
          {"shape", With("axis", 1)}});
  Attrs two;
  two.Set("blocksize", AttrValue(int64_t{2}));
  Expect("depth_to_space", {"DepthToSpace", two, {F({1, 8, 3, 3})}, {F({1, 2, 6, 6})}, {}},
         {{"attribute", With("blocksize", 0)},
          {"shape", With("blocksize", 3)},
          {"attribute", Input(0, F({8, 3, 3}))},
          {"shape", Input(0, F({1, 6, 3, 3}))},
          {"shape", Output(0, F({1, 2, 6, 5}))}});
  Expect("space_to_depth", {"SpaceToDepth", two, {F({1, 2, 6, 4})}, {F({1, 8, 3, 2})}, {}},
         {{"shape", Input(0, F({1, 2, 5, 4}))},
          {"shape", Input(0, F({1, 2, 6, 3}))},
          {"shape", With("blocksize", 4)}});
}

TEST(Reject, Conversions) {
  Expect("quantize_u8", {"QuantizeLinear", {}, {F({2, 3})}, {Q({2, 3})}, {}},
         {{"types", [](Call& c) { c.inputs.push_back(F({})); }},
          {"types", [](Call& c) { c.inputs[0].dtype = DType::kInt32; }},
          {"types", Output(0, Q({2, 3}, DType::kInt16))},
          {"types", Output(0, TensorType(kU, Shape{2, 3}))},
          {"shape", [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }}});
  Expect("dequantize", {"DequantizeLinear", {}, {Q({2, 3})}, {F({2, 3})}, {}},
         {{"types", [](Call& c) { c.inputs.push_back(F({})); }},
          {"types", Input(0, F({2, 3}))},
          {"types", [](Call& c) { c.outputs[0].dtype = DType::kFloat16; }},
          {"shape", [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }}});
  Expect("dequantize_runtime",
         {"DequantizeLinear",
          {},
          {TensorType(kU, Shape{2, 3}), F({}), TensorType(kU, Shape{})},
          {F({2, 3})},
          {}},
         {{"types", [](Call& c) { c.inputs.resize(1); }},
          {"types", [](Call& c) { c.inputs[1].dtype = DType::kFloat16; }},
          {"types", [](Call& c) { c.inputs[2].dtype = DType::kInt8; }},
          {"types", [](Call& c) { c.inputs[2].shape = Shape{3}; }},
          {"types", Input(0, Q({2, 3}))},
          {"shape", With("block_size", 2)},
          {"shape", [](Call& c) { c.inputs[1] = F({2}), c.inputs[2].shape = Shape{2}; }},
          {"shape", [](Call& c) {
             c.outputs[0].shape = Shape{3, 2};
           }}});
  Expect("cast", {"Cast", {}, {F({2, 3})}, {TensorType(DType::kInt32, Shape{2, 3})}, {}},
         {{"types", Input(0, Q({2, 3}))},
          {"types", [](Call& c) { c.outputs[0].dtype = DType::kInt4; }},
          {"shape", [](Call& c) {
             c.outputs[0].shape = Shape{2, 4};
           }}});
}

TEST(Reject, Pooling) {
  Call pool{"MaxPool", {}, {F({1, 6, 4})}, {F({1, 5, 4})}, {}};
  pool.Attr("channels_last", 1).Attr("kernel_shape", std::vector<int64_t>{2});
  Expect("maxpool_f32", pool,
         {{"types", Input(0, Q({1, 6, 4}))},
          {"layout", [](Call& c) { c.attrs.Erase("channels_last"); }},
          {"shape",
           [](Call& c) {
             c.inputs[0] = c.outputs[0] = F({6, 4});
           }},
          {"shape", Output(0, F({1, 5, 3}))},
          {"shape", Output(0, F({2, 5, 4}))},
          {"attribute", With("kernel_shape", std::vector<int64_t>{0})},
          {"attribute", [](Call& c) {
             c.outputs.push_back(TensorType(DType::kInt64, Shape{1, 5, 4}));
           }}});
  Call bytes = pool;
  bytes.inputs[0] = Q({1, 6, 4}), bytes.outputs[0] = Q({1, 5, 4});
  Expect("maxpool_u8", bytes,
         {{"types", Output(0, TensorType(kU, Shape{1, 5, 4}, QuantParams::PerTensor(0.25f, 3)))},
          {"types",
           [](Call& c) {
             c.inputs[0] = PerAxis({1, 6, 4}, 2), c.outputs[0] = PerAxis({1, 5, 4}, 2);
           }},
          {"types", Input(0, F({1, 6, 4}))}});
  bytes.op = "AveragePool";
  Expect("avgpool_u8", bytes,
         {{"types", Output(0, F({1, 5, 4}))}, {"types", Input(0, Q({1, 6, 4}, DType::kInt8))}});
}

TEST(Reject, Products) {
  const Call product =
      Call{"MatMul", {}, {F({2, 3}), F({3, 4}), F({4}), F({2, 4})}, {F({2, 4})}, {}};
  Expect("matmul_f32", product,
         {{"types", Input(0, Q({2, 3}))},
          {"types", Output(0, Q({2, 4}))},
          {"shape", Input(1, F({2, 4}))},
          {"shape", Input(2, F({3}))},
          {"shape", Input(3, F({1, 4}))},
          {"shape", Input(0, F({}))},
          {"shape", Output(0, F({2, 5}))},
          {"attribute", With("activation", "Reluu")}});
  const Call pair = Call{"MatMul", {}, {Q({2, 3}), Q({3, 4})}, {Q({2, 4})}, {}};
  Expect("matmul_pair_int8", pair,
         {{"types", Input(1, F({3, 4}))},
          {"types", Input(0, PerAxis({2, 3}, 1))},
          {"types", Output(0, Q({2, 4}, DType::kInt16))},
          {"types", [](Call& c) { c.inputs.push_back(TensorType(DType::kInt32, Shape{4})); }},
          {"shape", Input(0, Q({3}))},
          {"shape", Input(1, Q({2, 4}))},
          {"attribute", With("activation", "Silu")},
          // The largest K of which 255 * 255 each fit int32: 33025.
          {"",
           [](Call& c) {
             c.inputs[0] = Q({1, 33025}), c.inputs[1] = Q({33025, 4}), c.outputs[0] = Q({1, 4});
           }},
          {"shape", [](Call& c) {
             c.inputs[0] = Q({1, 33026}), c.inputs[1] = Q({33026, 4}), c.outputs[0] = Q({1, 4});
           }}});
  const Call weights =
      Call{"MatMul", {}, {F({2, 3})}, {F({2, 4})}, {}}.Constant(1, Zeros(Q({3, 4}, DType::kInt8)));
  Expect("matmul_w8", weights,
         {{"types", Input(0, Q({2, 3}))},
          {"types", Output(0, Q({2, 4}))},
          {"not-constant", [](Call& c) { c.data.clear(); }},
          {"types",
           [](Call& c) {
             c.Constant(1, Zeros(F({3, 4})));
           }},
          {"types",
           [](Call& c) {
             c.Constant(1, Zeros(PerAxis({3, 4}, 0, DType::kInt8)));
           }},
          {"",
           [](Call& c) {
             c.Constant(1, Zeros(PerAxis({3, 4}, 1, DType::kInt8)));
           }},
          {"",
           [](Call& c) {
             c.inputs[0] = F({16, 3}), c.outputs[0] = F({16, 4});
           }},
          {"shape", [](Call& c) {
             c.inputs[0] = F({17, 3}), c.outputs[0] = F({17, 4});
           }}});
}

}  // namespace
}  // namespace evoq
