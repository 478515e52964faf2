// What kernels of products and of convolutions in floating point do not take (reject_testing.h).
#include "kernels/reject_testing.h"

namespace evoq {
namespace {

TEST(Reject, Products) {
  const Call product =
      Call{"MatMul", {}, {F({2, 3}), F({3, 4}), F({4}), F({2, 4})}, {F({2, 4})}, {}};
  Expect(
      "matmul_f32", product,
      {{"types: input 0 is uint8[2, 3](scale 0.5, zero 3), expected float32", Input(0, Q({2, 3}))},
       {"types: output uint8[2, 4](scale 0.5, zero 3), expected float32", Output(0, Q({2, 4}))},
       {"shape: float32[2, 3] * float32[2, 4] -> float32[2, 4]", Input(1, F({2, 4}))},
       {"shape: bias float32[3]", Input(2, F({3}))},
       {"shape: residual float32[1, 4]", Input(3, F({1, 4}))},
       {"shape: a scalar operand", Input(0, F({}))},
       {"shape: float32[2, 3] * float32[3, 4] -> float32[2, 5]", Output(0, F({2, 5}))},
       {"attribute: the data is rounded to int8 in blocks of 32",
        With("data_block", AttrValue(int64_t{32}))},
       {"attribute: activation Reluu", With("activation", "Reluu")}});
  const Call pair = Call{"MatMul", {}, {Q({2, 3}), Q({3, 4})}, {Q({2, 4})}, {}};
  Expect(
      "matmul_pair_int8", pair,
      {{"types: uint8[2, 3](scale 0.5, zero 3) * float32[3, 4], expected bytes with one scale each",
        Input(1, F({3, 4}))},
       {"types: uint8[2, 3](3 scales on axis 1) * uint8[3, 4](scale 0.5, zero 3), expected bytes "
        "with one scale each",
        Input(0, PerAxis({2, 3}, 1))},
       {"types: y is int16[2, 4](scale 0.5, zero 3), expected bytes or float32",
        Output(0, Q({2, 4}, DType::kInt16))},
       {"types: a bias", [](Call& c) { c.inputs.push_back(TensorType(DType::kInt32, Shape{4})); }},
       {"shape: an operand of rank 1 or 0", Input(0, Q({3}))},
       {"shape: uint8[2, 3](scale 0.5, zero 3) * uint8[2, 4](scale 0.5, zero 3)",
        Input(1, Q({2, 4}))},
       {"attribute: activation Silu", With("activation", "Silu")},
       // The largest K of which 255 * 255 each fit int32: 33025.
       {"",
        [](Call& c) {
          c.inputs[0] = Q({1, 33025}), c.inputs[1] = Q({33025, 4}), c.outputs[0] = Q({1, 4});
        }},
       {"shape: sums of 33026 products", [](Call& c) {
          c.inputs[0] = Q({1, 33026}), c.inputs[1] = Q({33026, 4}), c.outputs[0] = Q({1, 4});
        }}});
  const Call weights =
      Call{"MatMul", {}, {F({2, 3})}, {F({2, 4})}, {}}.Constant(1, Zeros(Q({3, 4}, DType::kInt8)));
  const Call rounded = Call(weights).Attr("data_block", AttrValue(int64_t{32}));
  Expect(
      "matmul_blocks", rounded,
      {{"attribute: no data_block: the data is not rounded", [](Call& c) { c.attrs = {}; }},
       {"shape: 5 inputs and 1 outputs, expected a, b and y",
        [](Call& c) { c.inputs.resize(4), c.inputs.push_back(F({256})); }},
       {"types: input 0 is uint8[2, 3](scale 0.5, zero 3), expected float32", Input(0, Q({2, 3}))},
       {"types: output uint8[2, 4](scale 0.5, zero 3), expected float32", Output(0, Q({2, 4}))},
       {"not-constant: b is computed", [](Call& c) { c.data.clear(); }},
       {"types: b is float32[3, 4], expected quantized integers of 2, 4 or 8 bits or float4e2m1",
        [](Call& c) { c.Constant(1, Zeros(F({3, 4}))); }},
       {"attribute: activation Reluu", With("activation", "Reluu")},
       {"shape: bias float32[3]", [](Call& c) { c.inputs.push_back(F({3})); }},
       {"types: b has scales along axis 0, expected columns or blocks along K",
        [](Call& c) { c.Constant(1, Zeros(PerAxis({3, 4}, 0, DType::kInt8))); }},
       {"", [](Call& c) { c.inputs[0] = F({0, 3}), c.outputs[0] = F({0, 4}); }}});
  Expect(
      "matmul_w8", weights,
      {{"types: input 0 is uint8[2, 3](scale 0.5, zero 3), expected float32", Input(0, Q({2, 3}))},
       {"types: output uint8[2, 4](scale 0.5, zero 3), expected float32", Output(0, Q({2, 4}))},
       {"not-constant: b is computed", [](Call& c) { c.data.clear(); }},
       {"attribute: the data is rounded to int8 in blocks of 32",
        With("data_block", AttrValue(int64_t{32}))},
       {"types: b is float32[3, 4], expected quantized int8 or uint8",
        [](Call& c) { c.Constant(1, Zeros(F({3, 4}))); }},
       {"types: b has scales along axis 0, expected columns or blocks along K",
        [](Call& c) { c.Constant(1, Zeros(PerAxis({3, 4}, 0, DType::kInt8))); }},
       {"", [](Call& c) { c.Constant(1, Zeros(PerAxis({3, 4}, 1, DType::kInt8))); }},
       {"", [](Call& c) { c.inputs[0] = F({16, 3}), c.outputs[0] = F({16, 4}); }},
       {"shape: 17 rows, expected 1 to 16",
        [](Call& c) { c.inputs[0] = F({17, 3}), c.outputs[0] = F({17, 4}); }}});
}

TEST(Reject, ProductsWithExtras) {
  const Call product =
      Call{"MatMul", {}, {F({2, 3}), F({3, 4}), F({4}), F({2, 4})}, {F({2, 4})}, {}};
  Expect(
      "matmul_f32", product,
      {{"shape: a batch of 2147483648",
        [](Call& c) {
          const int64_t many = int64_t{1} << 31;
          c.inputs = {F({many, 2, 3}), F({many, 3, 4})}, c.outputs[0] = F({many, 2, 4});
        }},
       {"shape: 4 inputs and 2 outputs, expected a, b and y",
        [](Call& c) { c.outputs.push_back(F({2, 4})); }},
       {"shape: 1 inputs and 1 outputs, expected a, b and y", [](Call& c) { c.inputs.resize(1); }},
       {"types: input 1 is float16[3, 4], expected float32",
        Input(1, TensorType(DType::kFloat16, Shape{3, 4}))},
       {"", [](Call& c) { c.Constant(1, Zeros(TensorType(DType::kFloat16, Shape{3, 4}))); }},
       {"", [](Call& c) { c.Constant(1, Zeros(B({3, 4}))); }},
       {"", [](Call& c) { c.Constant(1, Zeros(Q({3, 4}))); }},
       {"types: input 1 is int32[3, 4], expected float32",
        [](Call& c) { c.Constant(1, Zeros(TensorType(kI32, Shape{3, 4}))); }},
       {"types: input 2 is uint8[4](scale 0.5, zero 3), expected float32", Input(2, Q({4}))},
       {"types: input 3 is uint8[2, 4](scale 0.5, zero 3), expected float32", Input(3, Q({2, 4}))},
       {"shape: a scalar operand", Input(1, F({}))}});
  const Call narrow =
      Call{"MatMul", {}, {B({2, 3}), B({3, 4}), F({4}), F({2, 4})}, {B({2, 4})}, {}};
  Expect(
      "matmul_bf16", narrow,
      {{"", [](Call& c) { c.outputs[0] = F({2, 4}), c.inputs[3] = B({2, 4}); }},
       {"shape: 4 inputs and 2 outputs, expected x, w and y",
        [](Call& c) { c.outputs.push_back(F({2, 4})); }},
       {"shape: 1 inputs and 1 outputs, expected x, w and y", [](Call& c) { c.inputs.resize(1); }},
       {"types: input 0 is float32[2, 3], expected bfloat16", Input(0, F({2, 3}))},
       {"types: input 1 is float32[3, 4], expected bfloat16", Input(1, F({3, 4}))},
       {"types: the bias is bfloat16[4], expected float32", Input(2, B({4}))},
       {"types: the residual is uint8[2, 4](scale 0.5, zero 3), expected bfloat16 or float32",
        Input(3, Q({2, 4}))},
       {"types: output uint8[2, 4](scale 0.5, zero 3), expected bfloat16 or float32",
        Output(0, Q({2, 4}))},
       {"attribute: the data is rounded to int8 in blocks of 32",
        With("data_block", AttrValue(int64_t{32}))},
       {"attribute: activation Reluu", With("activation", "Reluu")},
       {"shape: bfloat16[2, 3] * bfloat16[2, 4] -> bfloat16[2, 4]", Input(1, B({2, 4}))},
       {"shape: a constant b of rank 3, expected 2",
        [](Call& c) { c.Constant(1, Zeros(B({1, 3, 4}))); }}});
  const Call pair =
      Call{"MatMul", {}, {Q({2, 3}), Q({3, 4}, kI8), TensorType(), TensorType()}, {Q({2, 4})}, {}};
  Expect(
      "matmul_pair_int8", pair,
      {{"", [](Call& c) { c.outputs[0] = F({2, 4}), c.inputs[3] = F({2, 4}); }},
       {"types: int8[2, 3](scale 0.5, zero 3) * int8[3, 4](scale 0.5, zero 3), expected bytes with "
        "one scale each",
        Input(0, Q({2, 3}, kI8))},
       {"types: residual is float32[2, 4], y uint8[2, 4](scale 0.5, zero 3)", Input(3, F({2, 4}))},
       {"types: residual is uint8[4](scale 0.5, zero 3), y uint8[2, 4](scale 0.5, zero 3)",
        Input(3, Q({4}))},
       {"types: residual is bfloat16[2, 4], y float32[2, 4]",
        [](Call& c) { c.outputs[0] = F({2, 4}), c.inputs[3] = B({2, 4}); }},
       {"types: input 4 is uint8[256]",
        [](Call& c) { c.inputs.push_back(TensorType(kU, Shape{256})); }},
       {"attribute: activation Reluu", With("activation", "Reluu")},
       {"shape: an operand of rank 1 or 0",
        [](Call& c) { c.inputs[1] = Q({3}), c.outputs[0] = c.inputs[3] = Q({2, 1}); }},
       {"shape: uint8[2, 3](scale 0.5, zero 3) * int8[3, 4](scale 0.5, zero 3) -> uint8[2, "
        "5](scale 0.5, zero 3)",
        [](Call& c) { c.outputs[0] = c.inputs[3] = Q({2, 5}); }},
       {"",
        [](Call& c) {
          c.inputs[0] = Q({1 << 20, 2, 3}), c.outputs[0] = c.inputs[3] = Q({1 << 20, 2, 4});
        }},
       {"shape: a batch of 1048577", [](Call& c) {
          c.inputs[0] = Q({(1 << 20) + 1, 2, 3}),
          c.outputs[0] = c.inputs[3] = Q({(1 << 20) + 1, 2, 4});
        }}});
  const Call weights =
      Call{"MatMul", {}, {F({2, 4})}, {F({2, 4})}, {}}.Constant(1, Zeros(Q({4, 4}, kI8)));
  Expect("matmul_w8", weights,
         {{"shape: 2 inputs and 2 outputs, expected a, b and y",
           [](Call& c) { c.outputs.push_back(F({2, 4})); }},
          {"types: input 2 is uint8[4](scale 0.5, zero 3), expected float32",
           [](Call& c) { c.inputs.resize(3), c.inputs[2] = Q({4}); }},
          {"types: input 3 is uint8[2, 4](scale 0.5, zero 3), expected float32",
           [](Call& c) { c.inputs.resize(4), c.inputs[3] = Q({2, 4}); }},
          {"types: b is int16[4, 4](scale 0.5, zero 3), expected quantized int8 or uint8",
           Input(1, Q({4, 4}, DType::kInt16))},
          {"types: b is int8[4, 4], expected quantized int8 or uint8",
           Input(1, TensorType(kI8, Shape{4, 4}))},
          {"", Input(1, Q({4, 4}))},
          {"shape: b has rank 3, expected 2", Input(1, Q({4, 4, 1}, kI8))},
          {"", Blocked(1)},
          {"types: blocks with zero points",
           [](Call& c) {
             Blocked(1)(c);
             QuantParams q = *c.inputs[1].quant;
             q.zero_points[1] = 1;
             c.inputs[1].quant = std::make_shared<const QuantParams>(q);
           }},
          {"types: b has scales along axis 1, expected columns or blocks along K",
           [](Call& c) {
             Blocked(1)(c);
             QuantParams q = *c.inputs[1].quant;
             q.axis = 1;
             c.inputs[1].quant = std::make_shared<const QuantParams>(q);
           }},
          {"attribute: activation Reluu", With("activation", "Reluu")},
          {"shape: 0 rows, expected 1 to 16",
           [](Call& c) { c.inputs[0] = F({0, 4}), c.outputs[0] = F({0, 4}); }},
          {"shape: float32[2, 4] * int8[4, 4](scale 0.5, zero 3) -> float32[2, 5]",
           Output(0, F({2, 5}))}});
  const Call bytes =
      Call{"MatMul", {}, {Q({2, 3})}, {Q({2, 4})}, {}}.Constant(1, Zeros(Q({3, 4}, kI8)));
  Expect("matmul_int8", bytes,
         {{"shape: a [], b [3, 4], y [2, 4]", Input(0, Q({}))},
          {"shape: a [2, 4], b [3, 4], y [2, 4]", Input(0, Q({2, 4}))},
          {"shape: a [2, 3], b [1, 3, 4], y [2, 4]", Input(1, Q({1, 3, 4}, kI8))},
          {"shape: a [2, 0], b [0, 4], y [2, 4]",
           [](Call& c) { c.inputs[0] = Q({2, 0}), c.inputs[1] = Q({0, 4}); }},
          {"shape: a [2, 3], b [3, 0], y [2, 0]",
           [](Call& c) { c.inputs[1] = Q({3, 0}), c.outputs[0] = Q({2, 0}); }},
          {"shape: a [2, 3], b [3, 4], y [2, 5]", Output(0, Q({2, 5}))},
          {"", Input(1, PerAxis({3, 4}, 1))},
          {"types: w is uint8[3, 4](3 scales on axis 0), expected one scale, or one per output "
           "channel",
           Input(1, PerAxis({3, 4}, 0))}});
}

TEST(Reject, FloatConvolutions) {
  const Call conv = Windows("Conv", F({1, 8, 8, 4}), F({6, 4, 3, 3}), F({1, 6, 6, 6}));
  Expect(
      "conv_f32", conv,
      {{"shape: 2 inputs and 2 outputs, expected x, w and y",
        [](Call& c) { c.outputs.push_back(F({1})); }},
       {"shape: 1 inputs and 1 outputs, expected x, w and y", [](Call& c) { c.inputs.resize(1); }},
       {"types: input 0 is uint8[1, 8, 8, 4](scale 0.5, zero 3), expected float32",
        Input(0, Q({1, 8, 8, 4}))},
       {"types: output uint8[1, 6, 6, 6](scale 0.5, zero 3), expected float32",
        Output(0, Q({1, 6, 6, 6}))},
       {"types: input 2 is uint8[6](scale 0.5, zero 3), expected float32",
        [](Call& c) { c.inputs.resize(3), c.inputs[2] = Q({6}); }},
       {"types: input 3 is uint8[1, 6, 6, 6](scale 0.5, zero 3), expected float32",
        [](Call& c) { c.inputs.resize(4), c.inputs[3] = Q({1, 6, 6, 6}); }},
       {"types: weight int8[6, 4, 3, 3]", Input(1, TensorType(kI8, Shape{6, 4, 3, 3}))},
       {"", Input(1, Q({6, 4, 3, 3}))},
       {"", Input(1, TensorType(DType::kFloat16, Shape{6, 4, 3, 3}))},
       {"", Input(1, B({6, 4, 3, 3}))},
       {"", Computed(1)},
       {"not-constant: the weight, float16[6, 4, 3, 3], is computed",
        [](Call& c) {
          Computed(1)(c);
          c.inputs[1] = TensorType(DType::kFloat16, Shape{6, 4, 3, 3});
        }},
       {"layout: the values are not channels-last",
        [](Call& c) { c.attrs.Erase("channels_last"); }},
       {"shape: ranks 5, 4 and 4, expected 3 to 5", Reshaped(0, {1, 8, 8, 1, 4})},
       {"shape: ranks 4, 3 and 4, expected 3 to 5", Reshaped(1, {6, 4, 3})},
       {"shape: ranks 4, 4 and 3, expected 3 to 5", Output(0, F({1, 36, 6}))},
       {"shape: ranks 2, 2 and 2, expected 3 to 5",
        [](Call& c) {
          c.inputs[0] = F({1, 4}), c.inputs[1] = F({6, 4}), c.outputs[0] = F({1, 6});
        }},
       {"shape: float32[1, 8, 8, 4] * float32[6, 2, 3, 3] -> float32[1, 6, 6, 6] in 1 groups",
        Reshaped(1, {6, 2, 3, 3})},
       {"shape: float32[1, 8, 8, 4] * float32[5, 4, 3, 3] -> float32[1, 6, 6, 6] in 1 groups",
        Reshaped(1, {5, 4, 3, 3})},
       {"shape: float32[1, 8, 8, 4] * float32[6, 4, 3, 3] -> float32[2, 6, 6, 6] in 1 groups",
        Output(0, F({2, 6, 6, 6}))},
       {"shape: float32[1, 8, 8, 4] * float32[6, 4, 3, 3] -> float32[1, 6, 6, 6] in 0 groups",
        With("group", 0)},
       {"shape: float32[1, 8, 8, 4] * float32[6, 4, 3, 3] -> float32[1, 6, 6, 6] in 3 groups",
        With("group", 3)},
       {"shape: bias float32[5]", [](Call& c) { c.inputs.resize(3), c.inputs[2] = F({5}); }},
       {"shape: residual float32[1, 6, 6, 5]",
        [](Call& c) { c.inputs.resize(4), c.inputs[3] = F({1, 6, 6, 5}); }},
       {"attribute: activation Reluu", With("activation", "Reluu")},
       {"attribute: strides, dilations, pads or output_padding do not have the rank of x",
        With("strides", Sizes{1})},
       {"attribute: strides, dilations, pads or output_padding do not have the rank of x",
        With("dilations", Sizes{1, 1, 1})},
       {"attribute: strides, dilations, pads or output_padding do not have the rank of x",
        With("pads", Sizes{0, 0})},
       {"attribute: strides, dilations, pads or output_padding do not have the rank of x",
        With("output_padding", Sizes{0})},
       {"attribute: axis 1: stride 1, dilation 1, kernel 3, pad 0",
        With("output_padding", Sizes{0, -1})},
       {"attribute: axis 1: stride 0, dilation 1, kernel 3, pad 0", With("strides", Sizes{1, 0})},
       {"attribute: axis 0: stride 1, dilation 0, kernel 3, pad 0", With("dilations", Sizes{0, 1})},
       // 2^30 is the largest pad, kernel times dilation and size times stride.
       {"", With("pads", Sizes{-(1 << 30), 0, 0, 0})},
       {"attribute: axis 0: stride 1, dilation 1, kernel 3, pad -1073741825",
        With("pads", Sizes{-(1 << 30) - 1, 0, 0, 0})},
       {"", With("pads", Sizes{0, 1 << 30, 0, 0})},
       {"attribute: axis 1: stride 1, dilation 1, kernel 3, pad 1073741825",
        With("pads", Sizes{0, (1 << 30) + 1, 0, 0})},
       {"", With("dilations", Sizes{(1 << 30) / 3, 1})},
       {"attribute: axis 0: stride 1, dilation 357913942, kernel 3, pad 0",
        With("dilations", Sizes{(1 << 30) / 3 + 1, 1})},
       {"", With("strides", Sizes{1 << 27, 1})},
       {"attribute: axis 0: stride 134217729, dilation 1, kernel 3, pad 0",
        With("strides", Sizes{(1 << 27) + 1, 1})}});
  const Call transposed =
      Windows("ConvTranspose", F({1, 6, 6, 6}), F({6, 4, 3, 3}), F({1, 8, 8, 4}));
  Expect("conv_transpose_f32", transposed,
         {{"shape: float32[1, 6, 6, 6] * float32[4, 6, 3, 3] -> float32[1, 8, 8, 4] in 1 groups",
           Reshaped(1, {4, 6, 3, 3})},
          {"shape: float32[1, 6, 6, 6] * float32[6, 2, 3, 3] -> float32[1, 8, 8, 4] in 1 groups",
           Reshaped(1, {6, 2, 3, 3})},
          {"", With("strides", Sizes{64, 64})},
          {"attribute: more than 4096 phases (the product of the strides)",
           With("strides", Sizes{64, 65})}});
  const Call narrow = Windows("Conv", B({1, 8, 8, 4}), B({6, 4, 3, 3}), B({1, 6, 6, 6}));
  Expect(
      "conv_bf16", narrow,
      {{"shape: 1 inputs and 1 outputs, expected x, w and y", [](Call& c) { c.inputs.resize(1); }},
       {"types: input 0 is float32[1, 8, 8, 4], expected bfloat16", Input(0, F({1, 8, 8, 4}))},
       {"types: the bias is bfloat16[6], expected float32",
        [](Call& c) { c.inputs.resize(3), c.inputs[2] = B({6}); }},
       {"not-constant: the weight is computed", Computed(1)},
       {"layout: the values are not channels-last",
        [](Call& c) { c.attrs.Erase("channels_last"); }},
       {"", [](Call& c) {
          c.inputs[0].shape = Shape{1, 8, 8, 3}, c.inputs[1].shape = Shape{6, 3, 3, 3};
        }}});
  const Call back = Windows("ConvTranspose", B({1, 6, 6, 6}), B({6, 4, 3, 3}), B({1, 8, 8, 4}));
  Expect("conv_transpose_bf16", back,
         {{"shape: 5 input channels in a group, expected an even number", [](Call& c) {
             c.inputs[0].shape = Shape{1, 6, 6, 5}, c.inputs[1].shape = Shape{5, 4, 3, 3};
           }}});
}

TEST(Reject, AttentionOfBytes) {
  Call attention = Call{"QuantizedAttention",
                        {},
                        {Q({2, 6, 3}), Q({2, 3, 5}), Q({2, 5, 4}), F({6, 5})},
                        {Q({2, 6, 4})},
                        {}};
  attention.attrs.Set("weights_scale", 0.5f);
  const auto mask = [](Shape shape) { return Input(3, F(std::move(shape))); };
  Expect(
      "attention_pair_int8", attention,
      {{"", mask({5})},
       {"", mask({2, 1, 5})},
       {"", Output(0, F({2, 6, 4}))},
       {"", Input(3, TensorType())},
       {"types: mask is float64[6, 5], expected float32",
        Input(3, TensorType(DType::kFloat64, Shape{6, 5}))},
       {"types: y is int16[2, 6, 4](scale 0.5, zero 3), expected bytes or float32",
        Output(0, Q({2, 6, 4}, DType::kInt16))},
       {"types: float32[2, 6, 3], uint8[2, 3, 5](scale 0.5, zero 3) and uint8[2, 5, 4](scale "
        "0.5, zero 3), expected bytes with one scale each, uint8 first",
        Input(0, F({2, 6, 3}))},
       {"shape: y is uint8[4](scale 0.5, zero 3)", Output(0, Q({4}))},
       {"shape: uint8[2, 6, 3](scale 0.5, zero 3) * uint8[2, 2, 5](scale 0.5, zero 3)",
        Input(1, Q({2, 2, 5}))},
       {"shape: uint8[2, 6, 5](scale 0.5, zero 0) * uint8[2, 4, 4](scale 0.5, zero 3)",
        Input(2, Q({2, 4, 4}))},
       {"shape: uint8[2, 6, 3](scale 0.5, zero 3) * uint8[2, 3, 5](scale 0.5, zero 3) * uint8[3, "
        "2, 5, 4](scale 0.5, zero 3) -> uint8[3, 2, 6, 4](scale 0.5, zero 3)",
        [](Call& c) { c.inputs[2] = Q({3, 2, 5, 4}), c.outputs[0] = Q({3, 2, 6, 4}); }},
       {"shape: mask float32[6, 1] for scores [2, 6, 5]", mask({6, 1})},
       {"shape: mask float32[4, 5] for scores [2, 6, 5]", mask({4, 5})},
       {"shape: mask float32[1, 2, 6, 5] for scores [2, 6, 5]", mask({1, 2, 6, 5})},
       {"attribute: attribute weights_scale is 0, expected a positive number",
        With("weights_scale", AttrValue(0.0f))},
       {"attribute: attribute factor is -2, expected a positive number",
        With("factor", AttrValue(-2.0f))},
       {"attribute: attribute weights_zero_point is 256, expected one of uint8",
        With("weights_zero_point", AttrValue(int64_t{256}))}});
}

}  // namespace
}  // namespace evoq
