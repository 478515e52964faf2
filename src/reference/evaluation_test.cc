// What only the data shows: what evaluation refuses, and what small inputs give.
#include "reference/test_call.h"

namespace evoq {
namespace {

TEST(Evaluation, DataIsChecked) {
  const std::string q = "float32[1, 2, 2, 4]", k = "float32[1, 2, 3, 4]";
  const std::string rotary = "RotaryEmbedding";
  CheckEvaluated({
      {{"ReverseSequence", {"float32[3, 2]", "int64[2] = [1, 4]"}},
       "length 4 of batch entry 1 is outside [0, 3]"},
      {{"ReverseSequence", {"float32[3, 2]", "int64[2] = [-1, 3]"}},
       "length -1 of batch entry 0 is outside [0, 3]"},
      {{"Attention", {q, k, k, "", "", "", "int64[2] = [1, 1]"}},
       "input 6 has 2 lengths, expected 1"},
      {{"Attention", {q, k, k, "", "", "", "int64[1] = [4]"}},
       "input 6 has the length 4 of 3 keys"},
      {{"Attention", {q, k, k, "", "", "", "int64[1] = [-1]"}},
       "input 6 has the length -1 of 3 keys"},
      {{"Attention", {q, k, k, "float32[]"}}, "input 3 is float32[], expected rank 1 to 4"},
      {{"Attention", {q, k, k, "float32[1, 1, 1, 1, 3]"}},
       "input 3 is float32[1, 1, 1, 1, 3], expected rank 1 to 4"},
      {{"Attention", {q, k, k, "float32[4]"}},
       "input 3 is float32[4], which does not fit the scores [1, 2, 2, 3]"},
      {{"Attention", {q, k, k, "float32[3, 3]"}},
       "input 3 is float32[3, 3], which does not fit the scores [1, 2, 2, 3]"},
      {{"Attention", {q, k, k, "", "float32[1, 2, 1, 4]", "float32[1, 2, 2, 4]"}},
       "4 keys and 5 values"},
      {{"Compress", {"float32[2]", "bool[3] = [0, 0, 1]"}},
       "input 1 (condition) selects 2, the axis has 2"},
      {{"Compress{axis=0}", {"float32[2]", "bool[3] = [0, 1, 0]"}}, "float32[1] = [0.0]"},
      {{"GatherND", {"float32[2]", "int64[1, 1] = [2]"}}, "index 2 is outside [-2, 2)"},
      {{"ScatterND", {"float32[2]", "int64[1, 1] = [-3]", "float32[1]"}},
       "index -3 is outside [-2, 2)"},
      {{"ScatterElements", {"float32[2]", "int64[1] = [2]", "float32[1]"}},
       "input 1 (indices): index 2 is outside [-2, 2)"},
      {{"MaxUnpool{kernel_shape=[2]}", {"float32[1, 1, 2]", "int64[1, 1, 1]"}},
       "inputs float32[1, 1, 2] and int64[1, 1, 1], expected equal shapes"},
      {{"MaxUnpool{kernel_shape=[2]}", {"float32[1, 1, 1]", "int64[1, 1, 1] = [2]"}},
       "index 2 of 2 elements"},
      {{"MaxUnpool{kernel_shape=[2]}", {"float32[1, 1, 1]", "int64[1, 1, 1] = [-1]"}},
       "index -1 of 2 elements"},
      {{"TensorScatter{axis=1}", {"float32[1, 3, 1]", "float32[1, 2, 1]", "int64[1] = [2]"}},
       "write index 2 in a cache of 3"},
      {{"TensorScatter{axis=1}", {"float32[1, 3, 1]", "float32[1, 2, 1]", "int64[1] = [-1]"}},
       "write index -1 in a cache of 3"},
      {{"TensorScatter{mode=\"circular\"}",
        {"float32[1, 3, 1]", "float32[1, 2, 1]", "int64[1] = [4]"}},
       "write index 4 in a cache of 3"},
      {{"TensorScatter", {"float32[2, 3, 1]", "float32[2, 2, 1]", "int64[1]"}},
       "1 write indices for a batch of 2"},
      {{"SwiGLU", {"float32[2]", "float32[1]"}},
       "inputs float32[2] and float32[1], expected equal shapes"},
      {{"STFT", {"float32[1, 4]", "int64[] = [1]", "float32[3]", "int64[] = [2]"}},
       "a window of 3 values for frames of 2"},
      {{"MelWeightMatrix",
        {"int64[2] = [1, 1]", "int64[] = [4]", "int64[] = [8]", "float32[]", "float32[]"}},
       "input int64[2], expected one value"},
      {{"MelWeightMatrix",
        {"int64[] = [1]", "int64[] = [4]", "int64[] = [0]", "float32[]", "float32[]"}},
       "a sample rate of 0"},
      {{"MelWeightMatrix",
        {"int64[] = [1]", "int64[] = [4]", "int64[] = [8]", "float32[]", "float32[] = [8000]"}},
       "edges beyond the spectrum's 3 bins"},
      {{"NegativeLogLikelihoodLoss", {"float32[1, 3]", "int64[1] = [3]"}}, "target 3 of 3 classes"},
      {{"NegativeLogLikelihoodLoss", {"float32[1, 3]", "int64[1] = [-1]"}},
       "target -1 of 3 classes"},
      {{"NegativeLogLikelihoodLoss", {"float32[1, 3]", "int64[1] = [0]", "float32[2]"}},
       "input 2 has 2 weights, expected 3"},
      {{"RNN", {"float32[3, 1, 2]", "float32[1, 1, 2]", "float32[1, 1, 1]", "", "int32[1] = [4]"}},
       "input 4 has the length 4 of 3 steps"},
      {{"RNN", {"float32[3, 1, 2]", "float32[1, 1, 2]", "float32[1, 1, 1]", "", "int32[1] = [-1]"}},
       "input 4 has the length -1 of 3 steps"},
      {{rotary + "{rotary_embedding_dim=6}",
        {"float32[1, 1, 2, 4]", "float32[1, 2, 3]", "float32[1, 2, 3]"}},
       "attribute rotary_embedding_dim is 6, heads have 4 values"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[1, 2, 3]", "float32[1, 2, 3]"}},
       "caches of float32[1, 2, 3] and float32[1, 2, 3], expected 2 values for each place"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[1, 2, 2]", "float32[2, 1, 2]"}},
       "caches of float32[1, 2, 2] and float32[2, 1, 2], expected 2 values for each place"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[2, 2]", "float32[2, 2]"}},
       "caches of float32[2, 2] and float32[2, 2], expected 2 values for each place"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[2, 2]", "float32[2, 2]", "int64[1, 1]"}},
       "1 positions for 2 tokens"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[2, 2]", "float32[2, 2]", "int64[1, 2] = [0, 2]"}},
       "position 2 of caches with 2 rows"},
      {{rotary, {"float32[1, 1, 2, 4]", "float32[2, 2]", "float32[2, 2]", "int64[1, 2] = [-1, 0]"}},
       "position -1 of caches with 2 rows"},
      {{"NonMaxSuppression", {"float32[1, 2, 4]", "float32[1, 1, 2]", "int64[2]"}},
       "input 2 is int64[2], expected one number"},
      {{"NonMaxSuppression", {"float32[1, 2, 4]", "float32[1, 1, 2]", "", "float32[2]"}},
       "input 3 is float32[2], expected one number"},
      {{"NonMaxSuppression", {"float32[1, 2, 4]", "float32[1, 1, 2]", "", "", "float32[2]"}},
       "input 4 is float32[2], expected one number"},
      {{"RoiAlign", {"float32[1, 1, 2, 2]", "float32[2, 4]", "int64[1]"}},
       "2 regions and 1 batch indices"},
      {{"RoiAlign", {"float32[1, 1, 2, 2]", "float32[1, 4]", "int64[1] = [1]"}},
       "input 2 (indices): index 1 is outside [-1, 1)"},
      {{"RoiAlign", {"float32[1, 1, 0, 2]", "float32[1, 4]", "int64[1]"}},
       "input 0 is float32[1, 1, 0, 2], which has nothing to sample"},
      {{"MaxRoiPool{pooled_shape=[1, 1]}",
        {"float32[1, 1, 2, 2]", "float32[1, 5] = [1, 0, 0, 1, 1]"}},
       "region 0 is of batch item 1 of 1"},
      {{"MaxRoiPool{pooled_shape=[1, 1]}",
        {"float32[1, 1, 2, 2]", "float32[1, 5] = [-1, 0, 0, 1, 1]"}},
       "region 0 is of batch item -1 of 1"},
      {{"GridSample", {"float32[1, 1, 0]", "float32[1, 1, 1]"}},
       "input 0 is float32[1, 1, 0], which has nothing to sample"},
      {{"Multinomial", {"float32[1, 0]"}}, "input 0 is float32[1, 0], expected at least one class"},
      {{"LpPool{kernel_shape=[1], p=0}", {"float32[1, 1, 1]"}},
       "attribute p is 0, expected at least 1"},
      {{"GlobalLpPool{p=0}", {"float32[1, 1, 1]"}}, "attribute p is 0, expected at least 1"},
      {{"QuantizeLinear{block_size=-1}", {"float32[2]", "float32[] = [1]"}},
       "attribute block_size is -1, expected 0 or more"},
      {{"QuantizeLinear{axis=1}", {"float32[2]", "float32[2] = [1, 1]"}},
       "axis 1 is outside [-1, 1)"},
      {{"QuantizeLinear{axis=0, block_size=2}", {"float32[4]", "float32[2, 1] = [1, 1]"}},
       "input 1 has rank 2, expected 1"},
      {{"QuantizeLinear{axis=0, block_size=3}", {"float32[4]", "float32[3] = [1, 1, 1]"}},
       "input 1 is float32[3], expected size 2 on axis 0"},
      {{"QuantizeLinear{axis=0}", {"float32[2]", "float32[2] = [1, 1]", "uint8[3]"}},
       "3 zero points for 2 scales"},
      {{"MatMulInteger", {"uint8[2, 3]", "uint8[3, 2]", "uint8[3]"}},
       "zero point uint8[3] for uint8[2, 3]"},
      {{"MatMulInteger", {"uint8[2, 3]", "uint8[3, 2]", "", "uint8[3]"}},
       "zero point uint8[3] for uint8[3, 2]"},
      {{"Gemm", {"float32[1, 1]", "float32[1, 1]", "int32[1]"}},
       "input 2 is int32[1], expected float32 where the inputs are not quantized"},
      {{"MatMul", {"float32[1, 1]", "float32[1, 1]", "int32[1]"}},
       "bias is int32[1], expected float32 where the inputs are not quantized"},
      {{"MatMul", {"float32[1, 1]", "float32[1, 1]", "", "", "uint8[256]"}},
       "a table behind float32 values"},
      {{"evoq::Lookup", {"float32[1]", "uint8[256]"}},
       "input 0 is float32[1], expected quantized uint8"},
      {{"evoq::DynamicMatMul", {"uint8[1, 2]", "int8[2, 1]", "", "", "float32[]"}},
       "input 1 is int8[2, 1], expected quantized weights"},
      {{"evoq::DynamicMatMul",
        {"uint8[1, 2]", "int8[2, 1](scale 1, zero 0)", "", "", "float32[2]"}},
       "x_scale and x_zero_point have 2 and 1 elements, expected one"},
      {{"evoq::DynamicMatMul",
        {"uint8[1, 2]", "int8[2, 1](scale 1, zero 0)", "", "", "float32[]", "uint8[2]"}},
       "x_scale and x_zero_point have 1 and 2 elements, expected one"},
  });
}

// By hand; zeros where an input has no values.
TEST(Evaluation, SmallValues) {
  CheckEvaluated({
      {{"Dropout", {"float32[2] = [3, 4]"}, "", 2}, "float32[2] = [3.0, 4.0], bool[2] = [1, 1]"},
      {{"ReverseSequence", {"float32[3, 2] = [1, 2, 3, 4, 5, 6]", "int64[2] = [2, 3]"}},
       "float32[3, 2] = [3.0, 6.0, 1.0, 4.0, 5.0, 2.0]"},
      {{"ReverseSequence{batch_axis=0, time_axis=1}",
        {"int32[1, 3, 2] = [1, 2, 3, 4, 5, 6]", "int64[1] = [2]"}},
       "int32[1, 3, 2] = [3, 4, 1, 2, 5, 6]"},
      {{"CumSum{exclusive=1, reverse=1}", {"int32[3] = [1, 2, 4]", "int64[] = [0]"}},
       "int32[3] = [6, 4, 0]"},
      {{"CumProd{exclusive=1}", {"int32[3] = [2, 3, 5]", "int64[] = [0]"}}, "int32[3] = [1, 2, 6]"},
      {{"OneHot", {"float32[3] = [0, -1, 2.5]", "int64[] = [2]", "int32[2] = [5, 7]"}},
       "int32[3, 2] = [7, 5, 5, 7, 5, 5]"},
      {{"OneHot{axis=0}", {"int64[2] = [1, -2]", "int64[] = [2]", "int32[2] = [5, 7]"}},
       "int32[2, 2] = [5, 7, 7, 5]"},
      {{"Trilu", {"int32[2, 3] = [1, 2, 3, 4, 5, 6]", "int64[] = [1]"}},
       "int32[2, 3] = [0, 2, 3, 0, 0, 6]"},
      {{"Trilu{upper=0}", {"int32[2, 3] = [1, 2, 3, 4, 5, 6]", "int64[] = [-1]"}},
       "int32[2, 3] = [0, 0, 0, 4, 0, 0]"},
      {{"Trilu", {"int32[3, 1] = [1, 2, 3]", "int64[] = [-9]"}}, "int32[3, 1] = [1, 2, 3]"},
      {{"Trilu", {"int32[1, 3] = [1, 2, 3]", "int64[] = [9]"}}, "int32[1, 3] = [0, 0, 0]"},
      {{"Col2Im{strides=[2], pads=[1, 0]}",
        {"int32[1, 2, 2] = [1, 2, 3, 4]", "int64[1] = [3]", "int64[1] = [2]"}},
       // Blocks at -1 and 1: the first row falls on -1 and 1, the second on 0 and 2.
       "int32[1, 1, 3] = [3, 2, 4]"},
      {{"CenterCropPad", {"int32[5] = [1, 2, 3, 4, 5]", "int64[1] = [2]"}}, "int32[2] = [2, 3]"},
      {{"CenterCropPad", {"int32[2] = [1, 2]", "int64[1] = [5]"}}, "int32[5] = [0, 1, 2, 0, 0]"},
      {{"TensorScatter{mode=\"circular\", axis=1}",
        {"int32[1, 3, 1] = [1, 2, 3]", "int32[1, 2, 1] = [8, 9]", "int64[1] = [2]"}},
       "int32[1, 3, 1] = [9, 2, 8]"},
      {{"TensorScatter{axis=1}",
        {"int32[2, 2, 1] = [1, 2, 3, 4]", "int32[2, 1, 1] = [8, 9]", "int64[2] = [1, 0]"}},
       "int32[2, 2, 1] = [1, 8, 9, 4]"},
      {{"Det", {"float32[2, 2] = [0, 2, 3, 4]"}}, "float32[] = [-6.0]"},
      {{"Det", {"float32[3, 3]"}}, "float32[] = [0.0]"},
      {{"BitCast{to=9}", {"uint8[3] = [0, 2, 1]"}}, "bool[3] = [0, 1, 1]"},
      {{"BitShift{direction=\"RIGHT\"}", {"int32[3] = [-8, 8, -8]", "int32[3] = [1, 32, 32]"}},
       "int32[3] = [-4, 0, -1]"},
      {{"BitShift{direction=\"LEFT\"}", {"uint8[3] = [3, 3, 3]", "uint8[3] = [7, 8, 0]"}},
       "uint8[3] = [128, 0, 3]"},
      {{"Mod", {"int32[4] = [7, -7, 7, -7]", "int32[4] = [3, 3, -3, -3]"}},
       "int32[4] = [1, 2, -2, -1]"},
      {{"Mod{fmod=1}", {"int32[4] = [7, -7, 7, -7]", "int32[4] = [3, 3, -3, 0]"}},
       "int32[4] = [1, -1, 1, 0]"},
      {{"Pow", {"int32[4] = [-1, -1, 2, 1]", "int32[4] = [-3, -2, -1, -5]"}},
       "int32[4] = [-1, 1, 0, 1]"},
      {{"Pow", {"int32[2] = [3, 4]", "float32[2] = [3, 0.5]"}}, "int32[2] = [27, 2]"},
      {{"ArgMax{select_last_index=1}", {"int32[4] = [3, 5, 5, 1]"}}, "int64[1] = [2]"},
      {{"ArgMin", {"int32[4] = [3, 1, 5, 1]"}}, "int64[1] = [1]"},
      {{"STFT{onesided=0}", {"float32[1, 4] = [1, 2, 3, 4]", "int64[] = [2]", "", "int64[] = [2]"}},
       // Frames (1, 2) and (3, 4): the sums and the differences.
       "float32[1, 2, 2, 2] = [3.0, 0.0, -1.0, 0.0, 7.0, 0.0, -1.0, 0.0]"},
      {{"DFT", {"float32[1, 2, 2] = [1, 5, 2, 7]"}}, "float32[1, 2, 2] = [3.0, 12.0, -1.0, -2.0]"},
      {{"DFT{inverse=1}", {"float32[1, 2, 2] = [3, 12, -1, -2]"}},
       "float32[1, 2, 2] = [1.0, 5.0, 2.0, 7.0]"},
      {{"HannWindow", {"int64[] = [2]"}}, "float32[2] = [0.0, 1.0]"},
      {{"HannWindow{periodic=0}", {"int64[] = [3]"}}, "float32[3] = [0.0, 1.0, 0.0]"},
      {{"HannWindow{periodic=0}", {"int64[] = [1]"}}, "float32[1] = [0.0]"},
  });
}

// acc = (x - 1) w, y = acc * (2 * 0.5) + bias + residual; the range holds 0.
TEST(Evaluation, DynamicProducts) {
  const std::string x = "uint8[1, 2] = [3, 5]", scale = "float32[] = [2]", zero = "uint8[] = [1]";
  const std::string refused =
      ", expected quantized weights with one scale or one per output channel";
  const std::string by_row = "int8[2, 2](2 scales on axis 0)",
                    wide = "int16[2, 2](scale 1, zero 0)";
  const std::string by_row_refused = "input 1 is " + by_row + refused,
                    wide_refused = "input 1 is " + wide + refused;
  CheckEvaluated({
      {{"evoq::DynamicMatMul",
        {x, "int8[2, 2](scale 0.5, zero 0) = [1, -3, 2, -4]", "float32[2] = [1, 2]",
         "float32[1, 2] = [10, 5]", scale, zero},
        "",
        2},
       "float32[1, 2] = [21.0, -15.0], float32[2] = [-15.0, 21.0]"},
      {{"evoq::DynamicMatMul",
        {x, "int8[2, 1](scale 0.5, zero 0) = [1, 2]", "", "", scale, zero},
        "",
        2},
       "float32[1, 1] = [10.0], float32[2] = [0.0, 10.0]"},
      {{"evoq::DynamicMatMul",
        {x, "int8[2, 1](scale 0.5, zero 0) = [-1, -2]", "", "", scale, zero},
        "",
        2},
       "float32[1, 1] = [-10.0], float32[2] = [-10.0, 0.0]"},
      {{"evoq::DynamicMatMul", {x, by_row, "", "", scale, zero}}, by_row_refused.c_str()},
      {{"evoq::DynamicMatMul", {x, wide, "", "", scale, zero}}, wide_refused.c_str()},
  });
}

// 5 stands twice, 6, 7 and the pair (5, 6) once; IDF gives the weight of what occurs.
TEST(Evaluation, CountsOfNGrams) {
  const auto call = [](const char* mode, const char* tokens) {
    return WrittenCall{
        fmt::format("TfIdfVectorizer{{mode=\"{}\", max_gram_length=2, pool_int64s=[5, 6, 7, 5, 6], "
                    "ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3], weights=[2.0, 3.0, 4.0, "
                    "0.5]}}",
                    mode),
        {tokens}};
  };
  constexpr char kTokens[] = "int64[4] = [5, 6, 5, 7]";
  CheckEvaluated({
      {call("TF", kTokens), "float32[4] = [2.0, 1.0, 1.0, 1.0]"},
      {call("IDF", kTokens), "float32[4] = [2.0, 3.0, 4.0, 0.5]"},
      {call("TFIDF", kTokens), "float32[4] = [4.0, 3.0, 4.0, 0.5]"},
      {call("IDF", "int64[1] = [9]"), "float32[4] = [0.0, 0.0, 0.0, 0.0]"},
  });
}

TEST(Evaluation, InputsMustFitTheGraph) {
  const auto graph = ParseGraph(
      "input %x: uint8[2, N](scale 0.5, zero 1)\nd: %y = DequantizeLinear(%x)\noutput %y\n");
  ASSERT_TRUE(graph) << graph.error().message();
  const auto said = [&](const std::vector<Tensor>& inputs) {
    const Status status = CheckInputs(*graph, inputs);
    if (status) return std::string();
    EXPECT_EQ(status.error().code(), ErrorCode::kUsage);
    return status.error().message();
  };
  const auto typed = [](DType dtype, Shape shape, float scale) {
    return std::vector<Tensor>{
        Tensor::Allocate(scale == 0 ? TensorType(dtype, shape)
                                    : TensorType(dtype, shape, QuantParams::PerTensor(scale, 1)))};
  };
  const std::string wanted = ", expected uint8[2, N](scale 0.5, zero 1)";
  EXPECT_EQ(said(typed(DType::kUint8, Shape{2, 3}, 0.5f)), "");
  EXPECT_EQ(said(typed(DType::kInt8, Shape{2, 3}, 0.5f)),
            "input x is int8[2, 3](scale 0.5, zero 1)" + wanted);
  EXPECT_EQ(said(typed(DType::kUint8, Shape{2, 3}, 0)), "input x is uint8[2, 3]" + wanted);
  EXPECT_EQ(said(typed(DType::kUint8, Shape{2, 3}, 0.25f)),
            "input x is uint8[2, 3](scale 0.25, zero 1)" + wanted);
  EXPECT_EQ(said(typed(DType::kUint8, Shape{2}, 0.5f)),
            "input x is uint8[2](scale 0.5, zero 1)" + wanted);
  EXPECT_EQ(said(typed(DType::kUint8, Shape{3, 3}, 0.5f)),
            "input x is uint8[3, 3](scale 0.5, zero 1)" + wanted);
  EXPECT_EQ(said({Tensor()}), "input x is missing" + wanted);
  EXPECT_EQ(said({}), "0 inputs given, expected 1");
}

}  // namespace
}  // namespace evoq
