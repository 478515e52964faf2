// The table of operators: how many inputs and outputs each takes and what passes may assume.
#include <gtest/gtest.h>

#include "ops/op.h"

namespace evoq {
namespace {

// Operator, least inputs, most inputs, most outputs (-1: any number); v: a view, s: spatial, e: by
// element, r: random, c: containers. The counts are those of ONNX's schemas but for docs/graph.md's
// dialect: QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear with parameters in types,
// Conv, ConvTranspose and MatMul with a residual and a table, Attention with scales,
// BatchNormalization with one output, the captured inputs of If and a Loop without any. Those of
// other domains are what the domain's documentation says.
constexpr const char* kRows =
    "Abs 1 1 1 e; Acos 1 1 1 e; Acosh 1 1 1 e; Add 2 2 1 e; AffineGrid 2 2 1; And 2 2 1 e; "
    "ArgMax 1 1 1; ArgMin 1 1 1; Asin 1 1 1 e; Asinh 1 1 1 e; Atan 1 1 1 e; Atanh 1 1 1 e; "
    "Attention 3 10 4; AveragePool 1 1 1 s; BatchNormalization 5 5 1 s; Bernoulli 1 1 1 r; "
    "BitCast 1 1 1; BitShift 2 2 1 e; BitwiseAnd 2 2 1 e; BitwiseNot 1 1 1 e; "
    "BitwiseOr 2 2 1 e; BitwiseXor 2 2 1 e; BlackmanWindow 1 1 1; Cast 1 1 1 e; "
    "CastLike 2 2 1 e; CausalConvWithState 2 4 2; Ceil 1 1 1 e; Celu 1 1 1 e; "
    "CenterCropPad 2 2 1; Clip 1 3 1 e; Col2Im 3 3 1; Compress 2 2 1; Concat 1 -1 1; "
    "ConcatFromSequence 1 1 1 c; ConstantOfShape 1 1 1; Conv 2 5 1 s; ConvInteger 2 4 1 s; "
    "ConvTranspose 2 5 1 s; Cos 1 1 1 e; Cosh 1 1 1 e; CumProd 2 2 1; CumSum 2 2 1; "
    "DFT 1 3 1; DeformConv 3 5 1; DepthToSpace 1 1 1 s; DequantizeLinear 1 3 1 e; "
    "Det 1 1 1; Div 2 2 1 e; Dropout 1 3 2 ve; DynamicQuantizeLinear 1 2 3; Einsum 1 -1 1; "
    "Elu 1 1 1 e; Equal 2 2 1 e; Erf 1 1 1 e; Exp 1 1 1 e; Expand 2 2 1; EyeLike 1 1 1; "
    "Flatten 1 1 1 v; Floor 1 1 1 e; GRU 3 6 2; Gather 2 2 1; GatherElements 2 2 1; "
    "GatherND 2 2 1; Gelu 1 1 1 e; Gemm 2 3 1; GlobalAveragePool 1 1 1 s; "
    "GlobalLpPool 1 1 1 s; GlobalMaxPool 1 1 1 s; Greater 2 2 1 e; GreaterOrEqual 2 2 1 e; "
    "GridSample 2 2 1 s; GroupNormalization 3 3 1 s; HammingWindow 1 1 1; HannWindow 1 1 1; "
    "HardSigmoid 1 1 1 e; HardSwish 1 1 1 e; Hardmax 1 1 1; Identity 1 1 1 vec; "
    "If 1 -1 -1 c; ImageDecoder 1 1 1; InstanceNormalization 3 3 1 s; IsInf 1 1 1 e; "
    "IsNaN 1 1 1 e; LRN 1 1 1; LSTM 3 8 3; LayerNormalization 2 3 3; LeakyRelu 1 1 1 e; "
    "Less 2 2 1 e; LessOrEqual 2 2 1 e; LinearAttention 3 6 2; Log 1 1 1 e; "
    "LogSoftmax 1 1 1; Loop 0 -1 -1 c; LpNormalization 1 1 1; LpPool 1 1 1 s; "
    "MatMul 2 5 1; MatMulInteger 2 4 1; Max 1 -1 1 e; MaxPool 1 1 2 s; MaxRoiPool 2 2 1; "
    "MaxUnpool 2 3 1; Mean 1 -1 1 e; MeanVarianceNormalization 1 1 1; "
    "MelWeightMatrix 5 5 1; Min 1 -1 1 e; Mish 1 1 1 e; Mod 2 2 1 e; Mul 2 2 1 e; "
    "Multinomial 1 1 1 r; Neg 1 1 1 e; NegativeLogLikelihoodLoss 2 3 1; "
    "NonMaxSuppression 2 5 1; NonZero 1 1 1; Not 1 1 1 e; OneHot 3 3 1; Optional 0 1 1 c; "
    "OptionalGetElement 1 1 1 c; OptionalHasElement 0 1 1 c; Or 2 2 1 e; PRelu 2 2 1 e; "
    "Pad 2 4 1; Pow 2 2 1 e; QLinearConv 8 9 1; QLinearMatMul 8 8 1; "
    "QuantizeLinear 1 3 1 e; RMSNormalization 2 2 1; RNN 3 6 2; RandomNormal 0 0 1 r; "
    "RandomNormalLike 1 1 1 r; RandomUniform 0 0 1 r; RandomUniformLike 1 1 1 r; "
    "Range 3 3 1; Reciprocal 1 1 1 e; ReduceL1 1 2 1; ReduceL2 1 2 1; ReduceLogSum 1 2 1; "
    "ReduceLogSumExp 1 2 1; ReduceMax 1 2 1; ReduceMean 1 2 1; ReduceMin 1 2 1; "
    "ReduceProd 1 2 1; ReduceSum 1 2 1; ReduceSumSquare 1 2 1; RegexFullMatch 1 1 1; "
    "Relu 1 1 1 e; Reshape 2 2 1 v; Resize 1 4 1 s; ReverseSequence 2 2 1; RoiAlign 3 3 1; "
    "RotaryEmbedding 3 4 1; Round 1 1 1 e; STFT 2 4 1; Scan 1 -1 -1 c; Scatter 3 3 1; "
    "ScatterElements 3 3 1; ScatterND 3 3 1; Selu 1 1 1 e; SequenceAt 2 2 1 c; "
    "SequenceConstruct 1 -1 1 c; SequenceEmpty 0 0 1 c; SequenceErase 1 2 1 c; "
    "SequenceInsert 2 3 1 c; SequenceLength 1 1 1 c; SequenceMap 1 -1 -1 c; Shape 1 1 1; "
    "Shrink 1 1 1 e; Sigmoid 1 1 1 e; Sign 1 1 1 e; Sin 1 1 1 e; Sinh 1 1 1 e; Size 1 1 1; "
    "Slice 3 5 1; Softmax 1 1 1; SoftmaxCrossEntropyLoss 2 3 2; Softplus 1 1 1 e; "
    "Softsign 1 1 1 e; SpaceToDepth 1 1 1 s; Split 1 2 -1; SplitToSequence 1 2 1 c; "
    "Sqrt 1 1 1 e; Squeeze 1 2 1 v; StringConcat 2 2 1; StringNormalizer 1 1 1; "
    "StringSplit 1 1 2; Sub 2 2 1 e; Sum 1 -1 1 e; SwiGLU 2 2 1 e; Swish 1 1 1 e; "
    "Tan 1 1 1 e; Tanh 1 1 1 e; TensorScatter 2 3 1; TfIdfVectorizer 1 1 1; "
    "ThresholdedRelu 1 1 1 e; Tile 2 2 1; TopK 2 2 2; Transpose 1 1 1; Trilu 1 2 1; "
    "Unique 1 1 4; Unsqueeze 2 2 1 v; Where 3 3 1 e; Xor 2 2 1 e; "
    "com.microsoft::UnfoldTensor 1 1 1; "
    "evoq::ChooseExpert 2 -1 1; evoq::DequantizeTranspose 1 1 1; evoq::DynamicConv 2 6 2 s; "
    "evoq::DynamicMatMul 2 6 2; evoq::DynamicQuantizeBlocks 1 1 2; "
    "evoq::DynamicQuantizeBytes 1 2 5; evoq::ExpertMatMul 3 -1 1; evoq::GatherColumns 2 2 1; "
    "evoq::Lookup 2 2 1; "
    "evoq::QuantizeBytes 3 3 2; evoq::QuantizedAttention 3 4 1; evoq::Silu 1 1 1 e; "
    "finn.custom_op.general::Quant 4 4 1; onnx.brevitas::Quant 4 4 1; "
    "qonnx.custom_op.general::Quant 4 4 1; ";

TEST(Operators, CountsAndTraits) {
  std::string rows;
  for (const OpDef* op : AllOps()) {
    const std::string domain = op->domain[0] != 0 ? std::string(op->domain) + "::" : "";
    const std::string name = domain + op->name + " ";
    const std::string traits = std::string(op->view ? "v" : "") + (op->spatial ? "s" : "") +
                               (op->elementwise ? "e" : "") + (op->random ? "r" : "") +
                               (op->containers ? "c" : "");
    rows += fmt::format("{}{} {} {}{}{}; ", name, op->min_inputs, op->max_inputs, op->outputs,
                        traits.empty() ? "" : " ", traits);
  }
  EXPECT_EQ(rows, kRows);
}

}  // namespace
}  // namespace evoq
