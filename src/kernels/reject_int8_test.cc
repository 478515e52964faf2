// What kernels of integer and depthwise convolutions do not take (reject_testing.h).
#include "kernels/reject_testing.h"

namespace evoq {
namespace {

constexpr int64_t kLarge = int64_t{1} << 40;

// PRelu with so many slopes.
Change Slopes(size_t count) {
  return [count](Call& c) {
    With("activation", "PRelu")(c);
    With("activation_slopes", std::vector<float>(count, 0.25f))(c);
  };
}

TEST(Reject, IntegerConvolutions) {
  const Call conv = Windows("Conv", Q({1, 8, 8, 4}), Q({6, 4, 3, 3}, kI8), Q({1, 6, 6, 6}));
  const TensorType i32(kI32, Shape{6});
  Expect(
      "conv_int8", conv,
      {{"shape: int8[N, 4, 3, 3](scale 0.5, zero 3) is not static",
        [](Call& c) { c.inputs[1].shape[0] = Dim::Symbolic("N"); }},
       {"shape: x [1, 1099511627777, 8, 4], w [6, 4, 3, 3], y [1, 6, 6, 6]",
        Reshaped(0, {1, kLarge + 1, 8, 4})},
       {"shape: x [1, 8, 8, 0], w [6, 4, 3, 3], y [1, 6, 6, 6]", Reshaped(0, {1, 8, 8, 0})},
       {"attribute: strides is [1, 1, 1], expected 2 values in range",
        With("strides", Sizes{1, 1, 1})},
       {"",
        [](Call& c) {  // the padded input may have 2^40 bytes, and no more: 8 lines of 2^35 of 4
                       // channels
          c.Attr("pads", Sizes{0, 0, 0, (kLarge >> 5) - 8}),
              c.outputs[0] = Q({1, 6, (kLarge >> 5) - 2, 6});
        }},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 6, 34359738367, 6] is too large with its "
        "padding",
        [](Call& c) {
          c.Attr("pads", Sizes{0, 0, 0, (kLarge >> 5) - 7}),
              c.outputs[0] = Q({1, 6, (kLarge >> 5) - 1, 6});
        }},
       {"shape: x [1, 1, 8, 8, 4], w [6, 4, 1, 3, 3], y [1, 34359738369, 6, 6, 6] is too large "
        "with its padding",
        [](Call& c) {
          c.inputs[0] = Q({1, 1, 8, 8, 4}), c.inputs[1].shape = Shape{6, 4, 1, 3, 3},
          c.outputs[0] = Q({1, (kLarge >> 5) + 1, 6, 6, 6});
          c.Attr("pads", Sizes{0, 0, 0, kLarge >> 5, 0, 0});
        }},
       {"shape: needs two inputs and an output", [](Call& c) { c.inputs.resize(1); }},
       {"shape: needs two inputs and an output", [](Call& c) { c.outputs.clear(); }},
       {"layout: channels_last is not set", [](Call& c) { c.attrs.Erase("channels_last"); }},
       {"shape: x [1, 4], w [6, 4], y [1, 6]",
        [](Call& c) {
          c.inputs[0] = Q({1, 4}), c.inputs[1] = Q({6, 4}, kI8), c.outputs[0] = Q({1, 6});
        }},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3], y [1, 6, 6, 6]", Reshaped(1, {6, 4, 3})},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 36, 6]", Output(0, Q({1, 36, 6}))},
       {"attribute: strides is [1], expected 2 values in range", With("strides", Sizes{1})},
       {"attribute: strides is [1, 1099511627777], expected 2 values in range",
        With("strides", Sizes{1, kLarge + 1})},
       {"attribute: dilations is [0, 1], expected 2 values in range",
        With("dilations", Sizes{0, 1})},
       {"attribute: pads is [0, 0, 0], expected 4 values in range", With("pads", Sizes{0, 0, 0})},
       {"attribute: auto_pad is SAME", With("auto_pad", "SAME")},
       {"attribute: the window of auto_pad is too large",
        [](Call& c) { c.Attr("auto_pad", "SAME_UPPER").Attr("dilations", Sizes{kLarge, 1}); }},
       {"shape: x [1, 8, 8, 4], w [6, 4, 0, 3], y [1, 6, 6, 6]", Reshaped(1, {6, 4, 0, 3})},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 6, 6, 6] with group 0", With("group", 0)},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 6, 6, 6] with group 3", With("group", 3)},
       {"shape: x [1, 8, 8, 4], w [6, 2, 3, 3], y [1, 6, 6, 6] with group 1",
        Reshaped(1, {6, 2, 3, 3})},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [2, 6, 6, 6] with group 1",
        Output(0, Q({2, 6, 6, 6}))},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 6, 6, 5] with group 1",
        Output(0, Q({1, 6, 6, 5}))},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 6, 5, 6]: axis 2 should be 6",
        Output(0, Q({1, 6, 5, 6}))},
       {"shape: x [1, 8, 8, 4], w [6, 4, 3, 3], y [1, 1099511627778, 6, 6] is too large with its "
        "padding",
        [](Call& c) {
          c.Attr("pads", Sizes{0, 0, kLarge - 4,
                               0});  // with the padding of the input that many rows of 8 x 4 bytes
          c.outputs[0] = Q({1, kLarge + 2, 6, 6});
        }},
       {"types: x is float32[1, 8, 8, 4], expected uint8 or int8, quantized per tensor",
        Input(0, F({1, 8, 8, 4}))},
       {"types: x is uint8[1, 8, 8, 4](4 scales on axis 3), expected uint8 or int8, quantized per "
        "tensor",
        Input(0, PerAxis({1, 8, 8, 4}, 3))},
       {"", Output(0, F({1, 6, 6, 6}))},
       {"types: y is int32[1, 6, 6, 6], expected uint8 or int8 quantized per tensor, or float32",
        Output(0, TensorType(kI32, Shape{1, 6, 6, 6}))},
       {"types: y is uint8[1, 6, 6, 6](6 scales on axis 3), expected uint8 or int8 quantized per "
        "tensor, or float32",
        Output(0, PerAxis({1, 6, 6, 6}, 3))},
       {"types: w is float32[6, 4, 3, 3], expected quantized int8 or uint8",
        Input(1, F({6, 4, 3, 3}))},
       {"types: w is int8[6, 4, 3, 3], expected quantized int8 or uint8",
        Input(1, TensorType(kI8, Shape{6, 4, 3, 3}))},
       {"types: w is int8[6, 4, 3, 3](4 scales on axis 0, block 2), expected unblocked scales",
        Blocked(1)},
       {"", Input(1, PerAxis({6, 4, 3, 3}, 0))},
       {"types: w is uint8[6, 4, 3, 3](4 scales on axis 1), expected one scale, or one per output "
        "channel",
        Input(1, PerAxis({6, 4, 3, 3}, 1))},
       {"not-constant: w is not constant", Computed(1)},
       {"", [&](Call& c) { c.Constant(2, Zeros(i32)); }},
       {"not-constant: bias is not a plain constant", Extra(2, i32)},
       {"types: bias is float32[6], expected int32, one per output channel", Extra(2, F({6}))},
       {"types: bias is int32[5], expected int32, one per output channel",
        Extra(2, TensorType(kI32, Shape{5}))},
       {"", Extra(3, Q({1, 6, 6, 6}, kI8))},
       {"shape: residual is uint8[1, 6, 6, 5](scale 0.5, zero 3), y uint8[1, 6, 6, 6](scale 0.5, "
        "zero 3)",
        Extra(3, Q({1, 6, 6, 5}))},
       {"types: residual is float32[1, 6, 6, 6], expected 8-bit quantized per tensor, or float32 "
        "with a float32 output",
        Extra(3, F({1, 6, 6, 6}))},
       {"types: residual is uint8[1, 6, 6, 6](6 scales on axis 3), expected 8-bit quantized per "
        "tensor, or float32 with a float32 output",
        Extra(3, PerAxis({1, 6, 6, 6}, 3))},
       {"", [&](Call& c) { Extra(3, F({1, 6, 6, 6}))(c), c.outputs[0] = F({1, 6, 6, 6}); }},
       {"attribute: attribute activation is 'Reluu', expected Relu, Clip, LeakyRelu, ...",
        With("activation", "Reluu")},
       {"attribute: activation Gelu is not piecewise linear", With("activation", "Gelu")},
       {"attribute: attribute activation_slopes: expected a finite slope for each channel",
        With("activation", "PRelu")},
       {"attribute: attribute activation_slopes: 2 slopes of 6 channels", Slopes(2)},
       {"", Slopes(6)},
       {"", [&](Call& c) { c.Constant(4, Zeros(Q({256}))); }},
       {"not-constant: table is not a plain constant", Extra(4, Q({256}))},
       {"types: output is float32[1, 6, 6, 6] behind a table, expected uint8 with one scale",
        [&](Call& c) { c.Constant(4, Zeros(Q({256}))), c.outputs[0] = F({1, 6, 6, 6}); }}});
  const Call integer =
      Windows("ConvInteger", TensorType(kU, Shape{1, 8, 8, 4}), TensorType(kI8, Shape{6, 4, 3, 3}),
              TensorType(kI32, Shape{1, 6, 6, 6}));
  Expect(
      "conv_integer", integer,
      {{"types: x is uint8[1, 8, 8, 4](scale 0.5, zero 3), expected plain uint8 or int8",
        Input(0, Q({1, 8, 8, 4}))},
       {"types: w is uint8[6, 4, 3, 3](scale 0.5, zero 3), expected plain uint8 or int8",
        Input(1, Q({6, 4, 3, 3}))},
       {"types: y is float32[1, 6, 6, 6], expected int32", Output(0, F({1, 6, 6, 6}))},
       {"not-constant: w is not constant", Computed(1)},
       {"", Extra(2, TensorType(kU, Shape{}))},
       {"types: x_zero_point is int8[], expected one of x's type",
        Extra(2, TensorType(kI8, Shape{}))},
       {"types: x_zero_point is uint8[2], expected one of x's type",
        Extra(2, TensorType(kU, Shape{2}))},
       {"", [&](Call& c) { c.Constant(3, Zeros(TensorType(kI8, Shape{6}))); }},
       {"not-constant: w_zero_point is not a plain constant", Extra(3, TensorType(kI8, Shape{}))},
       {"types: w_zero_point is uint8[], expected one, or one per output channel, of w's type",
        Extra(3, TensorType(kU, Shape{}))},
       {"types: w_zero_point is int8[5], expected one, or one per output channel, of w's type",
        Extra(3, TensorType(kI8, Shape{5}))}});
}

TEST(Reject, DynamicConvolutions) {
  Call dynamic = Windows("DynamicConv", TensorType(kU, Shape{1, 8, 8, 4}), Q({6, 4, 3, 3}, kI8),
                         F({1, 6, 6, 6}));
  dynamic.inputs.resize(6), dynamic.inputs[4] = F({}), dynamic.inputs[5] = TensorType(kU, Shape{});
  const std::vector<std::pair<const char*, Change>> changes = {
      {"types: x is uint8[1, 8, 8, 4](scale 0.5, zero 3), expected plain uint8 or int8",
       Input(0, Q({1, 8, 8, 4}))},
      {"types: w is float32[6, 4, 3, 3], expected 8 bits with one scale or one per output channel",
       Input(1, F({6, 4, 3, 3}))},
      {"types: w is int8[6, 4, 3, 3], expected 8 bits with one scale or one per output channel",
       Input(1, TensorType(kI8, Shape{6, 4, 3, 3}))},
      {"types: w is int8[6, 4, 3, 3](4 scales on axis 0, block 2), expected 8 bits with one scale "
       "or one per output channel",
       Blocked(1)},
      {"", Input(1, PerAxis({6, 4, 3, 3}, 0))},
      {"types: w is uint8[6, 4, 3, 3](4 scales on axis 1), expected 8 bits with one scale or one "
       "per output channel",
       Input(1, PerAxis({6, 4, 3, 3}, 1))},
      {"not-constant: w is computed at run time", Computed(1)},
      {"types: y is uint8[1, 6, 6, 6](scale 0.5, zero 3), expected float32",
       Output(0, Q({1, 6, 6, 6}))},
      {"", [](Call& c) { c.Constant(2, Zeros(F({6}))); }},
      {"not-constant: bias is computed at run time", Input(2, F({6}))},
      {"types: bias is float32[5], expected float32, one per output channel", Input(2, F({5}))},
      {"types: bias is uint8[6](scale 0.5, zero 3), expected float32, one per output channel",
       Input(2, Q({6}))},
      {"", Input(3, F({1, 6, 6, 6}))},
      {"types: residual is float32[1, 6, 6, 5] for float32[1, 6, 6, 6]", Input(3, F({1, 6, 6, 5}))},
      {"types: residual is uint8[1, 6, 6, 6](scale 0.5, zero 3) for float32[1, 6, 6, 6]",
       Input(3, Q({1, 6, 6, 6}))},
      {"types: x_scale is not one float32", Input(4, TensorType())},
      {"types: x_scale is not one float32", Input(4, F({2}))},
      {"", Input(5, TensorType())},
      {"types: x_zero_point is int8[], expected one of x's type",
       Input(5, TensorType(kI8, Shape{}))},
      {"types: x_zero_point is uint8[2], expected one of x's type",
       Input(5, TensorType(kU, Shape{2}))},
      {"attribute: attribute activation is 'Reluu', expected Relu, Clip, LeakyRelu, ...",
       With("activation", "Reluu")},
      {"", With("activation", "Gelu")}};
  Expect("dynamic_conv", dynamic, changes);
  Call depthwise = dynamic;
  depthwise.Constant(1, Zeros(Q({4, 1, 3, 3}, kI8))).Attr("group", 4);
  depthwise.outputs[0] = F({1, 6, 6, 4});
  Expect("dynamic_dwconv", depthwise,
         {{"types: x is int8[1, 8, 8, 4], expected uint8",
           Input(0, TensorType(kI8, Shape{1, 8, 8, 4}))},
          {"shape: group 2 with 4 input channels and weights [4, 1, 3, 3], expected a depthwise "
           "convolution",
           With("group", 2)},
          {"types: w is uint8[4, 1, 3, 3](1 scales on axis 1), expected 8 bits with one scale or "
           "one per output channel",
           Input(1, PerAxis({4, 1, 3, 3}, 1))},
          {"types: x_scale is not one float32", Input(4, TensorType())}});
}

TEST(Reject, TransposedIntegerConvolutions) {
  const Call conv =
      Windows("ConvTranspose", Q({1, 6, 6, 6}), Q({6, 4, 3, 3}, kI8), Q({1, 8, 8, 4}));
  Expect(
      "conv_transpose_int8", conv,
      {{"types: x is float32[1, 6, 6, 6], expected bytes with one scale",
        Input(0, F({1, 6, 6, 6}))},
       {"types: y is int32[1, 8, 8, 4], expected bytes or float32",
        Output(0, TensorType(kI32, Shape{1, 8, 8, 4}))},
       {"", Output(0, F({1, 8, 8, 4}))},
       {"not-constant: w is not constant", [](Call& c) { c.outputs.push_back(F({1})); }},
       {"not-constant: w is not constant", Computed(1)},
       {"types: w is float32[6, 4, 3, 3], expected bytes with one scale, or one per output channel "
        "of a group",
        Input(1, F({6, 4, 3, 3}))},
       {"types: w is int8[6, 4, 3, 3](4 scales on axis 0, block 2), expected bytes with one scale, "
        "or one per output channel of a group",
        Blocked(1)},
       {"", Input(1, PerAxis({6, 4, 3, 3}, 1))},
       {"types: w is uint8[6, 4, 3, 3](6 scales on axis 0), expected bytes with one scale, or one "
        "per output channel of a group",
        Input(1, PerAxis({6, 4, 3, 3}, 0))},
       {"types: bias is int32[4], expected constant int32",
        [](Call& c) { c.inputs.resize(3), c.inputs[2] = TensorType(kI32, Shape{4}); }},
       {"", [](Call& c) { c.Constant(2, Zeros(TensorType(kI32, Shape{4}))); }},
       {"types: bias is float32[4], expected constant int32",
        [](Call& c) { c.Constant(2, Zeros(F({4}))); }},
       {"types: residual is float32[1, 8, 8, 4], y uint8[1, 8, 8, 4](scale 0.5, zero 3)",
        [](Call& c) { c.inputs.resize(4), c.inputs[3] = F({1, 8, 8, 4}); }},
       {"", [](Call& c) { c.inputs.resize(4), c.inputs[3] = c.outputs[0] = F({1, 8, 8, 4}); }},
       {"types: table is float32[256], expected uint8[256] with one scale",
        [](Call& c) { c.inputs.resize(5), c.inputs[4] = F({256}); }},
       {"attribute: activation Reluu", With("activation", "Reluu")},
       {"attribute: activation Gelu", With("activation", "Gelu")},
       // Three taps, one pixel's step: a dilation of 21844 leaves room for 3 more.
       {"", With("dilations", Sizes{21845, 1})},
       {"", [](Call& c) { c.Attr("dilations", Sizes{21844, 1}).Attr("pads", Sizes{3, 0, 0, 0}); }},
       {"attribute: a window of 65537 with its padding, expected at most 65536",
        [](Call& c) { c.Attr("dilations", Sizes{21844, 1}).Attr("pads", Sizes{4, 0, 0, 0}); }},
       {"shape: the input is too large with its padding",
        [](Call& c) { c.Attr("dilations", Sizes{21845, 21845}); }}});
}

TEST(Reject, DepthwiseConvolutions) {
  const Call bytes =
      Windows("Conv", Q({1, 8, 8, 4}), Q({4, 1, 3, 3}, kI8), Q({1, 6, 6, 4})).Attr("group", 4);
  Expect(
      "dwconv_int8", bytes,
      {{"types: input 0 is int8[1, 8, 8, 4](scale 0.5, zero 3), expected uint8 with one scale",
        Input(0, Q({1, 8, 8, 4}, kI8))},
       {"types: weights are float32[4, 1, 3, 3], expected int8 or uint8 with scales per tensor or "
        "on axis 0",
        Input(1, F({4, 1, 3, 3}))},
       {"types: weights are int8[4, 1, 3, 3], expected int8 or uint8 with scales per tensor or on "
        "axis 0",
        Input(1, TensorType(kI8, Shape{4, 1, 3, 3}))},
       {"types: weights are int8[4, 1, 3, 3](4 scales on axis 0, block 2), expected int8 or uint8 "
        "with scales per tensor or on axis 0",
        Blocked(1)},
       {"", Input(1, PerAxis({4, 1, 3, 3}, 0))},
       {"types: weights are uint8[4, 1, 3, 3](1 scales on axis 1), expected int8 or uint8 with "
        "scales per tensor or on axis 0",
        Input(1, PerAxis({4, 1, 3, 3}, 1))},
       {"", Output(0, F({1, 6, 6, 4}))},
       {"types: output is int8[1, 6, 6, 4](scale 0.5, zero 3), expected uint8 with one scale or "
        "float32",
        Output(0, Q({1, 6, 6, 4}, kI8))},
       {"not-constant: input 2 (bias) is computed at run time",
        Extra(2, TensorType(kI32, Shape{4}))},
       {"types: bias is float32[4], expected plain int32", Extra(2, F({4}))},
       {"types: bias is int32[4](scale 0.5, zero 3), expected plain int32", Extra(2, Q({4}, kI32))},
       {"", Extra(3, Q({1, 6, 6, 4}))},
       {"types: residual is int8[1, 6, 6, 4](scale 0.5, zero 3) for an output uint8[1, 6, 6, "
        "4](scale 0.5, zero 3)",
        Extra(3, Q({1, 6, 6, 4}, kI8))},
       {"types: residual is uint8[1, 6, 6, 4](scale 0.5, zero 3) for an output float32[1, 6, 6, 4]",
        [&](Call& c) { Extra(3, Q({1, 6, 6, 4}))(c), c.outputs[0] = F({1, 6, 6, 4}); }},
       {"not-constant: table is not a plain constant", Extra(4, Q({256}))},
       {"attribute: activation Gelu is not piecewise linear: it takes a table step",
        With("activation", "Gelu")},
       {"layout: needs channels_last=1", [](Call& c) { c.attrs.Erase("channels_last"); }},
       {"shape: one channel: most lanes would be idle",
        [](Call& c) {
          c.inputs[0] = Q({1, 8, 8, 1}), c.inputs[1].shape = Shape{1, 1, 3, 3},
          c.outputs[0] = Q({1, 6, 6, 1});
          c.Attr("group", 1);
        }},
       {"",
        [](Call& c) {  // 2^15 taps of 255 * 255 each fit int32
          c.inputs[0] = Q({1, 128, 256, 4}), c.inputs[1].shape = Shape{4, 1, 128, 256},
          c.outputs[0] = Q({1, 1, 1, 4});
        }},
       {"shape: a kernel of 32895 taps could overflow int32", [](Call& c) {
          c.inputs[0] = Q({1, 129, 255, 4}), c.inputs[1].shape = Shape{4, 1, 129, 255},
          c.outputs[0] = Q({1, 1, 1, 4});
        }}});
  const Call floats =
      Windows("Conv", F({1, 8, 8, 4}), F({4, 1, 3, 3}), F({1, 6, 6, 4})).Attr("group", 4);
  Expect(
      "dwconv_f32", floats,
      {{"types: input 0 is uint8[1, 8, 8, 4](scale 0.5, zero 3), expected float32",
        Input(0, Q({1, 8, 8, 4}))},
       {"", Input(1, Q({4, 1, 3, 3}))},
       {"types: input 1 is int8[4, 1, 3, 3], expected float32",
        Input(1, TensorType(kI8, Shape{4, 1, 3, 3}))},
       {"types: output is uint8[1, 6, 6, 4](scale 0.5, zero 3), expected float32",
        Output(0, Q({1, 6, 6, 4}))},
       {"shape: input 0 has rank 5, expected 3 or 4",
        [](Call& c) { c.inputs[0] = F({1, 8, 8, 1, 4}); }},
       {"shape: group 4 with 4 input channels and weights [4, 1, 3], expected a depthwise "
        "convolution",
        Reshaped(1, {4, 1, 3})},
       {"shape: group 4 with 4 input channels and weights [4, 2, 3, 3], expected a depthwise "
        "convolution",
        Reshaped(1, {4, 2, 3, 3})},
       {"shape: group 4 with 4 input channels and weights [8, 1, 3, 3], expected a depthwise "
        "convolution",
        Reshaped(1, {8, 1, 3, 3})},
       {"shape: group 2 with 4 input channels and weights [4, 1, 3, 3], expected a depthwise "
        "convolution",
        With("group", 2)},
       {"shape: output [1, 6, 6, 8] for an input [1, 8, 8, 4]", Output(0, F({1, 6, 6, 8}))},
       {"shape: output [2, 6, 6, 4] for an input [1, 8, 8, 4]", Output(0, F({2, 6, 6, 4}))},
       {"shape: output [1, 36, 4] for an input [1, 8, 8, 4]", Output(0, F({1, 36, 4}))},
       {"not-constant: input 2 (bias) is computed at run time", Extra(2, F({4}))},
       {"shape: bias [3] for 4 channels", Extra(2, F({3}))},
       {"shape: the residual is [1, 6, 6, 3], the output [1, 6, 6, 4]", Extra(3, F({1, 6, 6, 3}))},
       {"not-constant: input 1 (weights) is computed at run time", Computed(1)},
       {"attribute: kernel, stride or dilation 0 in dimension 0", With("strides", Sizes{0, 1})},
       {"attribute: attribute activation is 'Reluu', expected Relu, Clip, LeakyRelu, ...",
        With("activation", "Reluu")},
       {"", With("activation", "Gelu")}});
  const Call narrow =
      Windows("Conv", B({1, 8, 8, 4}), B({4, 1, 3, 3}), B({1, 6, 6, 4})).Attr("group", 4);
  Expect("dwconv_bf16", narrow,
         {{"types: input 0 is float32[1, 8, 8, 4], expected bfloat16", Input(0, F({1, 8, 8, 4}))},
          {"types: input 1 is float32[4, 1, 3, 3], expected bfloat16", Input(1, F({4, 1, 3, 3}))},
          {"types: the bias is bfloat16[4], expected float32", Extra(2, B({4}))},
          {"types: input 3 is float32[1, 6, 6, 4], expected bfloat16", Extra(3, F({1, 6, 6, 4}))},
          {"", Output(0, F({1, 6, 6, 4}))},
          {"types: output is uint8[1, 6, 6, 4](scale 0.5, zero 3), expected bfloat16 or float32",
           Output(0, Q({1, 6, 6, 4}))}});
}

}  // namespace
}  // namespace evoq
