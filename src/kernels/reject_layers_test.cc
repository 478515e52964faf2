// What kernels of conversions, windows, normalizations and recurrent layers do not take
// (reject_testing.h).
#include "kernels/reject_testing.h"

namespace evoq {
namespace {

TEST(Reject, Conversions) {
  Expect(
      "quantize", {"QuantizeLinear", {}, {F({2, 3})}, {Q({2, 3})}, {}},
      {{"types: the scale is an input", [](Call& c) { c.inputs.push_back(F({})); }},
       {"types: input 0 is int32[2, 3], expected float32 or quantized integers of 8, 16 or 32 bits",
        [](Call& c) { c.inputs[0].dtype = DType::kInt32; }},
       {"types: output is int32[2, 3](scale 0.5, zero 3), expected quantized integers of 8 or 16 "
        "bits",
        Output(0, Q({2, 3}, DType::kInt32))},
       {"types: output is uint8[2, 3], expected quantized integers of 8 or 16 bits",
        Output(0, TensorType(kU, Shape{2, 3}))},
       {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }}});
  Expect("dequantize", {"DequantizeLinear", {}, {Q({2, 3})}, {F({2, 3})}, {}},
         {{"types: uint8[2, 3](4 scales on axis 0, block 2) -> float32[2, 3], expected quantized "
           "integers of 8, 16 or 32 bits to float32",
           Blocked(0)},
          {"types: the scale is an input", [](Call& c) { c.inputs.push_back(F({})); }},
          {"types: float32[2, 3] -> float32[2, 3], expected quantized integers of 8, 16 or 32 bits "
           "to float32",
           Input(0, F({2, 3}))},
          {"types: uint8[2, 3](scale 0.5, zero 3) -> float16[2, 3], expected quantized integers "
           "of 8, 16 or 32 bits to float32",
           [](Call& c) { c.outputs[0].dtype = DType::kFloat16; }},
          {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }}});
  Expect("dequantize_runtime",
         {"DequantizeLinear",
          {},
          {TensorType(kU, Shape{2, 3}), F({}), TensorType(kU, Shape{})},
          {F({2, 3})},
          {}},
         {{"types: no scale input: it is in the type", [](Call& c) { c.inputs.resize(1); }},
          {"types: scale is float16[], expected float32",
           [](Call& c) { c.inputs[1].dtype = DType::kFloat16; }},
          {"types: zero point is int8[] for integers uint8[2, 3] and a scale float32[]",
           [](Call& c) { c.inputs[2].dtype = DType::kInt8; }},
          {"types: zero point is uint8[3] for integers uint8[2, 3] and a scale float32[]",
           [](Call& c) { c.inputs[2].shape = Shape{3}; }},
          {"types: integers are uint8[2, 3](scale 0.5, zero 3), expected plain ones of 8, 16 or 32 "
           "bits",
           Input(0, Q({2, 3}))},
          {"shape: scales [] for [2, 3], expected one or one per index of the axis",
           With("block_size", 2)},
          {"shape: scales [2] for [2, 3], expected one or one per index of the axis",
           [](Call& c) { c.inputs[1] = F({2}), c.inputs[2].shape = Shape{2}; }},
          {"shape: [2, 3] -> [3, 2]", [](Call& c) { c.outputs[0].shape = Shape{3, 2}; }}});
  Expect(
      "cast", {"Cast", {}, {F({2, 3})}, {TensorType(DType::kInt32, Shape{2, 3})}, {}},
      {{"types: uint8[2, 3](scale 0.5, zero 3) -> int32[2, 3], expected plain types of whole bytes",
        Input(0, Q({2, 3}))},
       {"types: float32[2, 3] -> int4[2, 3], expected plain types of whole bytes",
        [](Call& c) { c.outputs[0].dtype = DType::kInt4; }},
       {"shape: [2, 3] -> [2, 4]", [](Call& c) { c.outputs[0].shape = Shape{2, 4}; }}});
}

TEST(Reject, Pooling) {
  Call pool{"MaxPool", {}, {F({1, 6, 4})}, {F({1, 5, 4})}, {}};
  pool.Attr("channels_last", 1).Attr("kernel_shape", std::vector<int64_t>{2});
  Expect("maxpool_f32", pool,
         {{"types: uint8[1, 6, 4](scale 0.5, zero 3) -> float32[1, 5, 4], expected float32",
           Input(0, Q({1, 6, 4}))},
          {"layout: needs channels_last=1", [](Call& c) { c.attrs.Erase("channels_last"); }},
          {"shape: input 0 has rank 2, expected 3 to 5",
           [](Call& c) { c.inputs[0] = c.outputs[0] = F({6, 4}); }},
          {"shape: output [1, 5, 3] for an input [1, 6, 4]", Output(0, F({1, 5, 3}))},
          {"shape: output [2, 5, 4] for an input [1, 6, 4]", Output(0, F({2, 5, 4}))},
          {"attribute: kernel, stride or dilation 0 in dimension 0",
           With("kernel_shape", std::vector<int64_t>{0})},
          {"attribute: output 1 (indices) is read",
           [](Call& c) { c.outputs.push_back(TensorType(DType::kInt64, Shape{1, 5, 4})); }}});
  Call bytes = pool;
  bytes.inputs[0] = Q({1, 6, 4}), bytes.outputs[0] = Q({1, 5, 4});
  Expect(
      "maxpool_u8", bytes,
      {{"types: uint8[1, 6, 4](scale 0.5, zero 3) -> uint8[1, 5, 4](scale 0.25, zero 3): max "
        "pooling keeps the integers, so both need the same parameters",
        Output(0, TensorType(kU, Shape{1, 5, 4}, QuantParams::PerTensor(0.25f, 3)))},
       {"types: uint8[1, 6, 4](4 scales on axis 2) -> uint8[1, 5, 4](4 scales on axis 2): max "
        "pooling keeps the integers, so both need the same parameters",
        [](Call& c) { c.inputs[0] = PerAxis({1, 6, 4}, 2), c.outputs[0] = PerAxis({1, 5, 4}, 2); }},
       {"types: input 0 is float32[1, 6, 4], expected uint8 or int8", Input(0, F({1, 6, 4}))}});
  bytes.op = "AveragePool";
  Expect("avgpool_u8", bytes,
         {{"types: uint8[1, 6, 4](scale 0.5, zero 3) -> float32[1, 5, 4], expected uint8 with one "
           "scale each",
           Output(0, F({1, 5, 4}))},
          {"types: int8[1, 6, 4](scale 0.5, zero 3) -> uint8[1, 5, 4](scale 0.5, zero 3), expected "
           "uint8 with one scale each",
           Input(0, Q({1, 6, 4}, DType::kInt8))}});
}

TEST(Reject, NormalizationsOfChannels) {
  Call batch{"BatchNormalization", {}, {F({2, 3, 4})}, {F({2, 3, 4})}, {}};
  for (size_t i = 1; i <= 4; ++i) batch.Constant(i, Zeros(F({3})));
  Expect(
      "batch_norm_f32", batch,
      {{"types: input 3 is uint8[3](scale 0.5, zero 3), expected float32", Input(3, Q({3}))},
       {"types: output is uint8[2, 3, 4](scale 0.5, zero 3), expected float32",
        Output(0, Q({2, 3, 4}))},
       {"shape: input 0 is float32[6], expected rank 2 or more",
        [](Call& c) { c.inputs[0] = c.outputs[0] = F({6}); }},
       {"shape: [2, 3, 4] -> [2, 3, 5]", Output(0, F({2, 3, 5}))},
       {"shape: input 1 is float32[4], expected one per channel", Input(1, F({4}))},
       {"shape: input 4 is float32[4], expected one per channel", Input(4, F({4}))},
       {"shape: input 4 is missing, expected one per channel", [](Call& c) { c.inputs.resize(4); }},
       {"shape: input 1 is float32[3], expected one per channel", With("channels_last", 1)},
       {"attribute: training mode", With("training_mode", 1)},
       {"attribute: training mode", [](Call& c) { c.outputs.push_back(F({3})); }},
       {"not-constant: input 1 is computed at run time", Computed(1)},
       {"not-constant: input 4 is computed at run time", Computed(4)}});
  Expect("instance_norm_f32",
         {"InstanceNormalization", {}, {F({2, 3, 4}), F({3}), F({3})}, {F({2, 3, 4})}, {}},
         {{"", With("training_mode", 1)},
          {"shape: input 2 is float32[4], expected one per channel", Input(2, F({4}))},
          {"shape: input 2 is missing, expected one per channel",
           [](Call& c) { c.inputs.resize(2); }}});
  const Call groups =
      Call{"GroupNormalization", {}, {F({2, 4, 3}), F({4}), F({4})}, {F({2, 4, 3})}, {}}.Attr(
          "num_groups", 2);
  Expect("group_norm_f32", groups,
         {{"shape: input 1 is float32[2], expected one per channel", Input(1, F({2}))},
          {"attribute: 3 groups of 4 channels", With("num_groups", 3)},
          {"attribute: 0 groups of 4 channels", With("num_groups", 0)}});
  Expect("softmax_bf16", {"Softmax", {}, {B({2, 3})}, {B({2, 3})}, {}},
         {{"types: input 0 is float32[2, 3], expected bfloat16", Input(0, F({2, 3}))},
          {"types: output is float32[2, 3], expected bfloat16", Output(0, F({2, 3}))},
          {"shape: [2, 3] -> [3, 2]", Output(0, B({3, 2}))},
          {"shape: 3 elements beside each other", With("axis", 0)},
          {"shape: axis 2 is outside [-2, 2)", With("axis", 2)},
          {"shape: rows of 0, expected 1 to 8192",
           [](Call& c) { c.inputs[0] = c.outputs[0] = B({2, 0}); }},
          {"", [](Call& c) { c.inputs[0] = c.outputs[0] = B({2, 8192}); }},
          {"shape: rows of 8193, expected 1 to 8192",
           [](Call& c) { c.inputs[0] = c.outputs[0] = B({2, 8193}); }}});
  Expect("layer_norm_bf16",
         {"LayerNormalization", {}, {B({2, 3}), F({3}), F({3})}, {B({2, 3})}, {}},
         {{"types: input 1 is bfloat16[3], expected 3 of float32", Input(1, B({3}))},
          {"types: input 2 is float32[2], expected 3 of float32", Input(2, F({2}))},
          {"", [](Call& c) { c.inputs[1] = TensorType(); }},
          {"", [](Call& c) { c.outputs.resize(3); }},
          {"attribute: output 1 is read",
           [](Call& c) { c.outputs.resize(2), c.outputs[1] = F({2, 1}); }}});
}

TEST(Reject, LargeSizes) {
  const Call sum = Call{"ReduceSum", {}, {F({1 << 22, 2})}, {F({1, 2})}, {}}.Constant(1, Ints({0}));
  Expect("ReduceSum_f32", sum,
         {{"attribute: more than 4 million places", Input(0, F({(1 << 22) + 1, 2}))}});
  const int64_t most = int64_t{INT32_MAX};
  Expect("argmin_f32", {"ArgMin", WithAxis(1), {F({2, most})}, {TensorType(kI64, Shape{2, 1})}, {}},
         {{"shape: 2147483648 along the axis", Input(0, F({2, most + 1}))}});
  Expect("softmax_u8", {"Softmax", WithAxis(0), {Q({8192, 2})}, {Q({8192, 2})}, {}},
         {{"shape: 8193 elements along an inner axis, expected at most 8192",
           [](Call& c) { c.inputs[0] = c.outputs[0] = Q({8193, 2}); }},
          {"", [](Call& c) { c.inputs[0] = c.outputs[0] = Q({8193, 1}); }}});
  Attrs pool;
  pool.Set("channels_last", 1);
  Expect("global_avgpool_f32",
         {"GlobalAveragePool", pool, {F({1, 1000, 4000, 2})}, {F({1, 1, 1, 2})}, {}},
         {{"shape: a window of 1x1000x4001 could overflow int32", Input(0, F({1, 1000, 4001, 2}))},
          {"shape: output [1, 1, 1, 2] for an input [1, 100, 100, 401, 2]",
           Input(0, F({1, 100, 100, 401, 2}))},
          {"layout: needs channels_last=1", [](Call& c) { c.attrs.Erase("channels_last"); }}});
}

TEST(Reject, TablesAndRows) {
  Expect(
      "gather_dequantize",
      {"Gather", {}, {Q({4, 3}, kI8), TensorType(kI64, Shape{2})}, {F({2, 3})}, {}},
      {{"", Input(0, PerAxis({4, 3}, 0))},
       {"types: uint8[4, 3](3 scales on axis 1) -> float32[2, 3], expected bytes with one scale or "
        "one per row, and float32",
        Input(0, PerAxis({4, 3}, 1))},
       {"types: float32[4, 3] -> float32[2, 3], expected bytes with one scale or one per row, and "
        "float32",
        Input(0, F({4, 3}))},
       {"types: int16[4, 3](scale 0.5, zero 3) -> float32[2, 3], expected bytes with one scale or "
        "one per row, and float32",
        Input(0, Q({4, 3}, DType::kInt16))},
       {"types: int8[4, 3](4 scales on axis 0, block 2) -> float32[2, 3], expected bytes with one "
        "scale or one per row, and float32",
        Blocked(0)},
       {"types: int8[4, 3](scale 0.5, zero 3) -> uint8[2, 3](scale 0.5, zero 3), expected bytes "
        "with one scale or one per row, and float32",
        Output(0, Q({2, 3}))},
       {"types: indices are float32[2], expected int64 or int32", Input(1, F({2}))},
       {"", Input(1, TensorType(kI32, Shape{2}))},
       {"", With("axis", -2)},
       {"attribute: axis 1, expected 0", With("axis", 1)},
       {"attribute: axis 0, expected 0",
        [](Call& c) { c.inputs[0] = Q({}), c.inputs[1].shape = c.outputs[0].shape = Shape{}; }},
       {"shape: uint8[0, 3](scale 0.5, zero 3) at int64[2] -> float32[2, 3]", Input(0, Q({0, 3}))},
       {"shape: int8[4, 3](scale 0.5, zero 3) at int64[2] -> float32[3, 3]",
        Output(0, F({3, 3}))}});
  Expect("lookup_u8", {"Lookup", {}, {Q({2, 3}), TensorType(kU, Shape{256})}, {Q({2, 3})}, {}},
         {{"types: int8[2, 3](scale 0.5, zero 3) -> uint8[2, 3](scale 0.5, zero 3), expected uint8 "
           "with one scale each",
           Input(0, Q({2, 3}, kI8))},
          {"types: uint8[2, 3](scale 0.5, zero 3) -> int8[2, 3](scale 0.5, zero 3), expected uint8 "
           "with one scale each",
           Output(0, Q({2, 3}, kI8))},
          {"types: table is int8[256], expected uint8[256]", Input(1, TensorType(kI8, Shape{256}))},
          {"types: table is uint8[255], expected uint8[256]", Input(1, TensorType(kU, Shape{255}))},
          {"shape: [2, 3] -> [3, 2]", Output(0, Q({3, 2}))}});
  Expect(
      "quantize_runtime",
      {"QuantizeLinear", {}, {F({2, 3}), F({3})}, {TensorType(kI8, Shape{2, 3})}, {}},
      {{"types: input 0 is uint8[2, 3](scale 0.5, zero 3), expected float32", Input(0, Q({2, 3}))},
       {"types: output is int32, expected 8 or 16 bits", Output(0, TensorType(kI32, Shape{2, 3}))},
       {"types: integers are uint32[2, 3], expected plain ones of 8, 16 or 32 bits",
        Output(0, TensorType(DType::kUint32, Shape{2, 3}))},
       {"types: scale is uint8[3](scale 0.5, zero 3), expected float32", Input(1, Q({3}))},
       {"shape: scales [3] for [2, 3], expected one or one per index of the axis", With("axis", 0)},
       {"shape: [2, 3] -> [3, 2]", Output(0, TensorType(kI8, Shape{3, 2}))}});
  const Call dynamic{"DynamicQuantizeLinear",
                     {},
                     {F({2, 3})},
                     {TensorType(kU, Shape{2, 3}), F({}), TensorType(kU, Shape{})},
                     {}};
  Expect(
      "dynamic_quantize", dynamic,
      {{"types: input 0 is uint8[2, 3](scale 0.5, zero 3), expected float32", Input(0, Q({2, 3}))},
       {"", [](Call& c) { c.inputs.push_back(F({2})); }},
       {"types: range is float32[3], expected float32[2]",
        [](Call& c) { c.inputs.push_back(F({3})); }},
       {"types: range is uint8[2], expected float32[2]",
        [](Call& c) { c.inputs.push_back(TensorType(kU, Shape{2})); }},
       {"types: 2 outputs, expected 3", [](Call& c) { c.outputs.resize(2); }},
       {"types: output 0 is int8[2, 3], expected plain uint8",
        Output(0, TensorType(kI8, Shape{2, 3}))},
       {"types: output 0 is uint8[2, 3](scale 0.5, zero 3), expected plain uint8",
        Output(0, Q({2, 3}))}});
}

TEST(Reject, Resizing) {
  const Call linear = Call{"Resize", {}, {F({1, 2, 4, 4})}, {F({1, 2, 8, 6})}, {}}
                          .Constant(3, Ints({1, 2, 8, 6}))
                          .Attr("mode", "linear");
  Expect("resize_linear", linear,
         {{"types: uint8[1, 2, 4, 4](scale 0.5, zero 3) -> float32[1, 2, 8, 6], expected float32 "
           "or uint8 with one scale",
           Input(0, Q({1, 2, 4, 4}))},
          {"types: float64[1, 2, 4, 4] -> float32[1, 2, 8, 6], expected float32 or uint8 with one "
           "scale",
           Input(0, TensorType(DType::kFloat64, Shape{1, 2, 4, 4}))},
          {"attribute: mode nearest", With("mode", "nearest")},
          {"attribute: mode nearest", [](Call& c) { c.attrs.Erase("mode"); }},
          {"attribute: antialias or exclude_outside", With("antialias", 1)},
          {"attribute: antialias or exclude_outside", With("exclude_outside", 1)},
          {"attribute: coordinate_transformation_mode tf_crop_and_resize",
           With("coordinate_transformation_mode", "tf_crop_and_resize")},
          {"attribute: keep_aspect_ratio_policy not_larger",
           With("keep_aspect_ratio_policy", "not_larger")},
          {"attribute: batch or channels resized", Output(0, F({2, 2, 8, 6}))},
          {"attribute: batch or channels resized", Output(0, F({1, 4, 8, 6}))},
          {"attribute: an empty axis", Output(0, F({1, 2, 0, 6}))},
          // Looking at a call takes no longer where outputs are large.
          {"", Output(0, F({1, 2, 8, int64_t{1} << 40}))},
          {"attribute: coordinate_transformation_mode tf_crop_and_resize",
           [](Call& c) {
             c.outputs[0] = F({1, 2, 8, int64_t{1} << 40});
             c.attrs.Set("coordinate_transformation_mode", "tf_crop_and_resize");
           }},
          {"attribute: rank 2, expected 3 to 5",
           [](Call& c) { c.inputs[0] = F({1, 2}), c.outputs[0] = F({1, 2}); }},
          {"attribute: rank 6, expected 3 to 5",
           [](Call& c) { c.inputs[0] = c.outputs[0] = F({1, 2, 3, 3, 3, 3}); }},
          {"attribute: rank 4, expected 3 to 5", Output(0, F({1, 2, 8}))},
          {"attribute: the scales are computed at run time", [](Call& c) { c.inputs[2] = F({4}); }},
          {"", [](Call& c) { c.inputs[2] = F({0}); }},
          {"attribute: 3 scales for 4 axes",
           [](Call& c) { c.Constant(2, Tensor::FromValues<float>(Shape{3}, {1, 1, 2})); }},
          {"attribute: batch or channels resized",
           [](Call& c) { c.Constant(2, Tensor::FromValues<float>(Shape{4}, {2, 1, 2, 2})); }},
          {"attribute: batch or channels resized",
           [](Call& c) { c.Constant(2, Tensor::FromValues<float>(Shape{4}, {1, 2, 2, 2})); }},
          {"attribute: axis 4 is outside [-4, 4)", With("axes", Sizes{4})}});
  Expect("resize_nearest", Call{"Resize", {}, {Q({1, 1, 2})}, {Q({1, 1, 4})}, {}},
         {{"attribute: nearest_mode up", With("nearest_mode", "up")},
          {"types: int4[1, 1, 2] -> int4[1, 1, 2]: nearest keeps the elements", [](Call& c) {
             c.inputs[0] = c.outputs[0] = TensorType(DType::kInt4, Shape{1, 1, 2});
           }}});
}

TEST(Reject, RecurrentLayers) {
  Call lstm{"LSTM", {}, {F({5, 2, 3})}, {F({5, 1, 2, 4}), F({1, 2, 4}), F({1, 2, 4})}, {}};
  lstm.Constant(1, Zeros(F({1, 16, 3}))).Constant(2, Zeros(F({1, 16, 4})));
  Call lengths = lstm;
  lengths.Constant(4, Tensor::FromValues<int32_t>(Shape{2}, {0, 5}));
  Expect(
      "lstm_f32", lengths,
      {{"types: input 0 is uint8[5, 2, 3](scale 0.5, zero 3), expected float32",
        Input(0, Q({5, 2, 3}))},
       {"types: output uint8[1, 2, 4](scale 0.5, zero 3), expected float32",
        Output(2, Q({1, 2, 4}))},
       {"", [](Call& c) { c.outputs[1] = TensorType(); }},
       {"not-constant: input 1 is computed", Computed(1)},
       {"not-constant: input 2 is computed", Computed(2)},
       {"", Computed(4)},
       {"types: input 4 is int64[2], expected int32",
        [](Call& c) { c.inputs[4] = TensorType(DType::kInt64, Shape{2}); }},
       {"not-constant: input 3 is computed", [](Call& c) { c.inputs[3] = F({1, 32}); }},
       {"", [](Call& c) { c.Constant(3, Zeros(F({1, 32}))); }},
       {"shape: input 0 has not rank 3", Reshaped(0, {5, 6})},
       {"shape: input 1 has not rank 3", [](Call& c) { c.Constant(1, Zeros(F({16, 3}))); }},
       {"shape: input 2 has not rank 3", [](Call& c) { c.Constant(2, Zeros(F({1, 16, 2, 2}))); }},
       {"", [](Call& c) { c.inputs.resize(8), c.inputs[7] = F({1, 12}); }},
       {"", With("input_forget", 1)},
       {"attribute: attribute activations has 2 names, expected 3",
        With("activations", std::vector<std::string>{"Sigmoid", "Tanh"})},
       {"attribute: attribute activations names 'Sine', which ONNX does not have",
        With("activations", std::vector<std::string>{"Sigmoid", "Tanh", "Sine"})},
       {"", With("activations", std::vector<std::string>{"Sigmoid", "Tanh", "Elu"})},
       {"", With("activations", std::vector<std::string>{"Sigmoid", "Relu", "Relu"})},
       {"shape: a length of 6 in 5 steps",
        [](Call& c) { c.Constant(4, Tensor::FromValues<int32_t>(Shape{2}, {6, 5})); }},
       {"shape: a length of -1 in 5 steps",
        [](Call& c) { c.Constant(4, Tensor::FromValues<int32_t>(Shape{2}, {0, -1})); }},
       {"shape: a length of 5 in 2 steps", With("layout", 1)}});
}

TEST(Reject, RoundedRecurrentLayers) {
  const auto weights = [](DType dtype, int64_t k, QuantParams params) {
    return Zeros(TensorType(dtype, Shape{1, 16, k}, std::move(params)));
  };
  const QuantParams rows = {std::vector<float>(16, 0.5f), std::vector<int32_t>(16, 0), 1, 0};
  Call lstm{"LSTM", {}, {F({5, 2, 3})}, {F({5, 1, 2, 4}), F({1, 2, 4}), F({1, 2, 4})}, {}};
  lstm.Constant(1, weights(DType::kInt8, 3, rows)).Constant(2, weights(DType::kInt8, 4, rows));
  lstm.attrs.Set("data_block", 4);
  Expect(
      "lstm_int8", lstm,
      {{"attribute: no data_block: the data is not rounded", With("data_block", 0)},
       {"types: input 0 is uint8[5, 2, 3](scale 0.5, zero 3), expected float32",
        Input(0, Q({5, 2, 3}))},
       {"not-constant: input 2 is computed", Computed(2)},
       {"types: input 1 is float32[1, 16, 3], expected quantized weights with scales by rows or "
        "by blocks along the last axis",
        [](Call& c) { c.Constant(1, Zeros(F({1, 16, 3}))); }},
       {"types: input 2 is int8[1, 16, 4](4 scales on axis 2), expected quantized weights with "
        "scales by rows or by blocks along the last axis",
        [&](Call& c) {
          c.Constant(2, weights(DType::kInt8, 4, {{1, 1, 1, 1}, {0, 0, 0, 0}, 2, 0}));
        }},
       {"types: b is int16[4, 16](scale 0.5, zero 0), expected quantized integers of 2, 4 or 8 "
        "bits or float4e2m1",
        [&](Call& c) {
          c.Constant(2, weights(DType::kInt16, 4, QuantParams::PerTensor(0.5f, 0)));
        }},
       {"",
        [&](Call& c) { c.Constant(2, weights(DType::kInt8, 4, QuantParams::PerTensor(0.5f, 0))); }},
       {"", [](Call& c) { c.inputs.resize(8), c.inputs[7] = F({1, 12}); }},
       {"", With("input_forget", 1)}});
  lstm.attrs.Set("data_block", 0);
  Expect("lstm_f32", lstm,
         {{"attribute: data_block: the data is rounded", With("data_block", 4)},
          {"", [](Call& c) { c.Attr("data_block", 4).Constant(2, Zeros(F({1, 16, 4}))); }}});
}

}  // namespace
}  // namespace evoq
