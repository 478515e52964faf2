// An attribute of another kind than its operator's is refused, not read as its default.
#include <sstream>

#include "ops/test_call.h"

namespace evoq {
namespace {

struct KindRow {
  const char* op;  // with what else it needs
  std::vector<std::string> inputs;
  const char* integers;  // names with spaces between
  const char* floats = "";
  const char* lists = "";
  const char* strings = "";
};

void Check(const KindRow& row, const char* names, const char* value, const char* kind) {
  std::istringstream in(names);
  for (std::string name; in >> name;) {
    std::string op = row.op;
    const bool braces = op.ends_with("}");
    if (braces) op.pop_back();
    op += (braces ? ", " : "{") + name + "=" + value + "}";
    EXPECT_EQ(InferCall({op, row.inputs}), "attribute " + name + " is not " + kind) << op;
  }
}

TEST(AttributeKinds, OthersAreRefused) {
  const std::string x = "float32[1, 4, 6, 6]", w = "float32[4, 4, 3, 3]",
                    offset = "float32[1, 18, 4, 4]";
  const KindRow rows[] = {
      {"HardSigmoid", {x}, "", "alpha beta"},
      {"Selu", {x}, "", "alpha gamma"},
      {"Shrink", {x}, "", "bias lambd"},
      {"SwiGLU", {x, x}, "", "alpha"},
      {"ArgMax", {x}, "axis keepdims select_last_index"},
      {"CumSum", {x, "int64[]"}, "exclusive reverse"},
      {"ReverseSequence", {"float32[2, 2]", "int64[2]"}, "batch_axis time_axis"},
      {"OneHot", {"int64[2]", "int64[]", "float32[2]"}, "axis"},
      {"Trilu", {x}, "upper"},
      {"Attention",
       {x, x, x},
       "q_num_heads kv_num_heads left_window_size right_window_size qk_matmul_output_mode "
       "is_causal",
       "scale softcap"},
      {"LinearAttention{update_rule=\"linear\"}",
       {"float32[1, 2, 4]", "float32[1, 2, 4]", "float32[1, 2, 4]"},
       "q_num_heads"},
      {"LinearAttention{update_rule=\"linear\", q_num_heads=2}",
       {"float32[1, 2, 4]", "float32[1, 2, 4]", "float32[1, 2, 4]"},
       "kv_num_heads"},
      {"LinearAttention{update_rule=\"linear\", q_num_heads=2, kv_num_heads=2}",
       {"float32[1, 2, 4]", "float32[1, 2, 4]", "float32[1, 2, 4]"},
       "",
       "scale"},
      {"CausalConvWithState", {"float32[1, 2, 4]", "float32[2, 1, 2]"}, "", "", "", "activation"},
      {"Mod", {x, x}, "fmod"},
      {"BitShift", {"uint8[2]", "uint8[2]"}, "", "", "", "direction"},
      {"Cast", {x}, "to"},
      {"BitCast", {x}, "to"},
      {"Concat", {x}, "axis"},
      {"Split", {x}, "axis num_outputs"},
      {"Conv", {x, w}, "group", "", "kernel_shape strides dilations pads"},
      {"ConvTranspose", {x, w}, "group", "", "kernel_shape strides output_padding output_shape"},
      {"DeformConv",
       {x, w, offset},
       "group offset_group",
       "",
       "strides dilations pads kernel_shape"},
      {"DepthToSpace", {x}, "blocksize"},
      {"MaxPool", {x}, "", "", "kernel_shape"},
      {"MaxPool{kernel_shape=[2, 2]}", {x}, "", "", "strides dilations pads"},
      {"Gather", {x, "int64[1]"}, "axis"},
      {"GatherElements", {x, "int64[1, 1, 1, 1]"}, "axis"},
      {"GatherND", {x, "int64[1]"}, "batch_dims"},
      {"ScatterElements",
       {x, "int64[1, 1, 1, 1]", "float32[1, 1, 1, 1]"},
       "axis",
       "",
       "",
       "reduction"},
      {"Shape", {x}, "start end"},
      {"EyeLike", {"float32[2, 2]"}, "k dtype"},
      {"Pad", {x, "int64[8]"}, "", "", "", "mode"},
      {"Reshape", {x, "int64[1]"}, "allowzero"},
      {"Flatten", {x}, "axis"},
      {"Transpose", {x}, "", "", "perm"},
      {"TopK", {x, "int64[1]"}, "axis largest sorted"},
      {"Unique", {x}, "axis sorted"},
      {"Compress", {x, "bool[4]"}, "axis"},
      {"Softmax", {x}, "axis"},
      {"IsInf", {x}, "detect_negative detect_positive"},
      {"Gemm", {"float32[2, 2]", "float32[2, 2]"}, "transA transB", "alpha beta"},
      {"LayerNormalization", {x, "float32[6]"}, "axis"},
      {"GroupNormalization", {x, "float32[4]", "float32[4]"}, "num_groups"},
      {"MeanVarianceNormalization", {x}, "", "", "axes"},
      {"LRN", {x}, "size"},
      {"ReduceSum", {x}, "keepdims noop_with_empty_axes"},
      {"RotaryEmbedding",
       {x, "float32[1, 6, 3]", "float32[1, 6, 3]"},
       "num_heads rotary_embedding_dim"},
      {"RNN", {"float32[1, 1, 2]", "float32[1, 3, 2]", "float32[1, 3, 3]"}, "hidden_size"},
      {"NegativeLogLikelihoodLoss",
       {"float32[2, 3]", "int64[2]"},
       "ignore_index",
       "",
       "",
       "reduction"},
      {"QuantizeLinear", {x, "float32[]"}, "axis block_size output_dtype"},
      {"DequantizeLinear", {"uint8[2]", "float32[]"}, "axis block_size output_dtype"},
      {"RoiAlign",
       {x, "float32[1, 4]", "int64[1]"},
       "output_height output_width sampling_ratio",
       "spatial_scale",
       "",
       "mode"},
      {"MaxRoiPool{pooled_shape=[1, 1]}", {x, "float32[1, 5]"}, "", "spatial_scale"},
      {"MaxRoiPool", {x, "float32[1, 5]"}, "", "", "pooled_shape"},
      {"AffineGrid", {"float32[1, 2, 3]", "int64[4]"}, "align_corners"},
      {"Resize", {x, "", "float32[4] = [1, 1, 1, 1]"}, "", "", "axes"},
      {"Col2Im",
       {"float32[1, 4, 4]", "int64[1] = [4]", "int64[1] = [1]"},
       "",
       "",
       "dilations strides pads"},
      {"MaxUnpool", {"float32[1, 1, 2]", "int64[1, 1, 2]"}, "", "", "kernel_shape"},
      {"MaxUnpool{kernel_shape=[1]}",
       {"float32[1, 1, 2]", "int64[1, 1, 2]"},
       "",
       "",
       "strides pads"},
      {"CenterCropPad", {x, "int64[4]"}, "", "", "axes"},
      {"TensorScatter", {x, x}, "axis", "", "", "mode"},
      {"DFT", {"float32[1, 4, 2]"}, "inverse onesided"},
      {"STFT", {"float32[1, 8]", "int64[]", "", "int64[]"}, "onesided"},
      {"HannWindow", {"int64[]"}, "periodic output_datatype"},
      {"RandomNormal", {}, "dtype", "", "shape"},
      {"Bernoulli", {x}, "dtype"},
      {"Multinomial", {"float32[1, 2]"}, "dtype sample_size"},
      {"ImageDecoder", {"uint8[2]"}, "", "", "", "pixel_format"},
      {"RegexFullMatch", {"string[2]"}, "", "", "", "pattern"},
      {"StringNormalizer", {"string[2]"}, "", "", "", "case_change_action"},
      {"StringSplit", {"string[2]"}, "maxsplit", "", "", "delimiter"},
      {"TfIdfVectorizer",
       {"int64[2]"},
       "min_gram_length max_gram_length max_skip_count",
       "",
       "ngram_indexes ngram_counts pool_int64s"},
      {"SequenceEmpty", {}, "dtype"},
      {"SplitToSequence", {x}, "axis keepdims"},
      {"Optional", {}, "type"},
  };
  for (const KindRow& row : rows) {
    Check(row, row.integers, "\"a\"", "an integer");
    Check(row, row.floats, "\"a\"", "a number");
    Check(row, row.lists, "\"a\"", "a list of integers");
    Check(row, row.strings, "1", "a string");
  }
}

}  // namespace
}  // namespace evoq
