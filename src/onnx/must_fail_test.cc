// Every broken file of tests/must_fail gives its error, quickly and without asking for memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "onnx/onnx.h"

namespace evoq {
namespace {

struct Expected {
  const char* file;
  ErrorCode code;
  const char* message;  // part of it
};

constexpr ErrorCode kInvalid = ErrorCode::kInvalidInput, kUnsupported = ErrorCode::kUnsupported,
                    kTooLarge = ErrorCode::kTooLarge;

constexpr Expected kExpected[] = {
    {"add_sizes", kInvalid, "node Add_0 (Add): shapes [1, 4] and [3] do not broadcast"},
    {"attribute_kind", kInvalid,
     "node Conv_0 (Conv): attribute strides is of kind FLOAT, expected INTS"},
    {"attribute_list_kind", kInvalid,
     "node Conv_0 (Conv): attribute strides is of kind FLOATS, expected INTS"},
    {"attribute_of_dialect", kInvalid,
     "node Conv_0 (Conv): attribute channels_last, which Conv does not have"},
    {"attribute_of_function", kUnsupported,
     "node Softmax_0 (Softmax): attribute axis refers to a function's attribute"},
    {"attribute_subgraph", kInvalid, "node Relu_0 (Relu): a subgraph, which Relu does not have"},
    {"attribute_twice", kInvalid, "node Softmax_0 (Softmax): attribute axis appears twice"},
    {"bit_flipped", kInvalid, "the file holds no graph, expected an ONNX model"},
    {"cast_type", kUnsupported, "node Cast_0 (Cast): cast to ONNX element type 77"},
    {"concat_axis", kInvalid, "node Concat_0 (Concat): axis 9 is outside [-2, 2)"},
    {"concat_chain", kTooLarge,
     "node Concat_11 (Concat): output 0 would be float32[1, 274877906944], more than 274877906944 "
     "byte"},
    {"constant_of_shape_overflow", kTooLarge,
     "node ConstantOfShape_0 (ConstantOfShape): output 0 would be float32[1099511627776, "
     "1099511627776"},
    {"constant_of_shape_petabyte", kTooLarge,
     "node ConstantOfShape_0 (ConstantOfShape): output 0 would be float32[33554432, 33554432], "
     "more th"},
    {"constant_string", kInvalid, "output 'y' is declared as float32 but computed as string[]"},
    {"constant_without_value", kInvalid, "constant 'y': a Constant without a value"},
    {"conv_channels", kInvalid,
     "node Conv_0 (Conv): input 0 has 4 channels; the weight [2, 3, 3, 3] with group 1 wants 3"},
    {"conv_groups_of_weight", kInvalid,
     "node ConvTranspose_0 (ConvTranspose): 3 input channels do not divide into 5 groups"},
    {"conv_huge_pads", kInvalid,
     "node Conv_0 (Conv): attribute pads has the value 4611686018427387904, expected 0 to "
     "2147483648"},
    {"conv_kernel_larger", kInvalid,
     "node Conv_0 (Conv): a window of 3 is larger than the padded input, 2 on spatial axis 0"},
    {"conv_zero_group", kInvalid, "node Conv_0 (Conv): attribute group is 0, expected at least 1"},
    {"conv_zero_stride", kInvalid,
     "node Conv_0 (Conv): attribute strides has the value 0, expected 1 to 2147483648"},
    {"cycle", kInvalid, "node one (Add) is part of a cycle, expected an acyclic graph"},
    {"dims_huge", kInvalid,
     "initializer 'w': 4 bytes of raw data, float32[68719476736] needs 274877906944"},
    {"dims_huge_no_data", kInvalid,
     "initializer 'w': 0 values in its data field, float32[68719476736] needs 68719476736"},
    {"dims_overflow", kTooLarge,
     "initializer 'w': float32[1099511627776, 1099511627776] has more elements than a file can "
     "hold"},
    {"domain_not_imported", kInvalid,
     "the node of output 'y' (Relu): its domain 'org.example' is not imported by the model"},
    {"duplicate_initializer", kInvalid, "value 'w' is defined twice"},
    {"duplicate_input", kInvalid, "input 'x' is listed twice"},
    {"duplicate_output", kInvalid, "value 'y' is defined twice"},
    {"empty", kInvalid, "the file is empty"},
    {"evoq_domain", kUnsupported,
     "1 operator that evoq does not have: Silu (evoq 1, first at the node of output 'y')"},
    {"expand_petabyte", kTooLarge,
     "node Expand_0 (Expand): output 0 would be float32[281474976710656, 4], more than "
     "274877906944 by"},
    {"external_absolute", kInvalid,
     "initializer 'w': external data '/etc/hostname' is an absolute path, expected one relative to "
     "the"},
    {"external_bad_length", kInvalid,
     "initializer 'w': external data of 12 bytes, float32[4] needs 16"},
    {"external_bad_offset", kInvalid,
     "initializer 'w': external data: offset '-4', expected a number of bytes"},
    {"external_dotdot", kInvalid,
     "initializer 'w': external data '../../LICENSE' leaves the model's folder through '..'"},
    {"external_empty_name", kInvalid,
     "initializer 'w': external data without a file name, expected a path relative to the model's "
     "fold"},
    {"external_is_folder", kInvalid, "tests/must_fail: not a regular file"},
    {"external_missing", ErrorCode::kNotFound,
     "initializer 'w': external data 'not_there.bin': No such file or directory"},
    {"external_offset_overflow", kInvalid,
     "initializer 'w': external data 'data_16.bin': 16 bytes from 9223372036854775804 lie outside "
     "the "},
    {"external_past_end", kInvalid,
     "initializer 'w': external data 'data_16.bin': 16 bytes from 8 lie outside the file of 16 "
     "bytes"},
    {"external_symlink", kInvalid,
     "initializer 'w': external data 'link_out' is a link that leaves the model's folder"},
    {"field_of_other_type", kInvalid,
     "initializer 'w': 0 values in its data field, float32[4] needs 4"},
    {"field_too_short", kInvalid,
     "initializer 'w': 3 values in its data field, float32[4] needs 4"},
    {"float8_tensor", kInvalid,
     "node Add_0 (Add): input 1 is float8e4m3fn[1], expected float32 as input 0"},
    {"function_opset", kUnsupported, "function 'Twice' is of operator set 99, evoq reads 6 to 28"},
    {"function_recursion", kInvalid,
     "functions and subgraphs nested more than 64 deep, or a function that calls itself"},
    {"fused_inputs", kInvalid, "node Conv_0 (Conv): 4 inputs, expected 2 to 3"},
    {"if_condition", kInvalid, "node If_0 (If): input 0 is float32[1, 4], expected one bool"},
    {"input_dim_huge", kTooLarge,
     "input 'x': dimension 9223372036854775807, more than 274877906944 elements"},
    {"input_petabyte", kTooLarge,
     "node Relu_0 (Relu): input 0 would be float32[33554432, 33554432], more than 274877906944 "
     "bytes"},
    {"int4_too_short", kInvalid, "initializer 'w': 2 bytes of raw data, int4[5] needs 3"},
    {"loop_inputs", kInvalid, "node Loop_0 (Loop): 4 values for the subgraph's 3 inputs"},
    {"loop_type", kInvalid,
     "node Loop_0 (Loop): state 0 is float32[1, 4] and int32[1, 4], expected the same type"},
    {"matmul_scalar", kInvalid, "node MatMul_0 (MatMul): a scalar input, expected rank 1 or more"},
    {"matmul_sizes", kInvalid, "node MatMul_0 (MatMul): [1, 4] by [3, 2]: 4 columns, expected 3"},
    {"negative_dim", kInvalid, "initializer 'w': dimension -1 in [4, -1], expected sizes >= 0"},
    {"negative_input_dim", kInvalid, "input 'x': dimension -7, expected a size >= 0 or a name"},
    {"nested_150_deep", kInvalid,
     "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)"},
    {"no_graph", kInvalid, "the file holds no graph, expected an ONNX model"},
    {"no_operator", kInvalid, "the node of output 'y' names no operator"},
    {"no_opset", kInvalid,
     "the model does not say which operator set it uses (no opset_import), so its operators have "
     "no me"},
    {"no_outputs", kInvalid, "the graph has no outputs"},
    {"old_softmax_outputs", kInvalid,
     "node Softmax_0 (Softmax): output 1 is read, but the operator does not have it"},
    {"omitted_input", kInvalid, "node Add_0 (Add): input 0 is omitted, expected a value"},
    {"one_hot_huge", kTooLarge,
     "node OneHot_0 (OneHot): output 0 would be float32[1, 1125899906842624], more than "
     "27487790694"},
    {"opset_5", kUnsupported, "operator set 5, evoq reads 6 to 28"},
    {"opset_999", kUnsupported, "operator set 999 is newer than evoq, which reads 6 to 28"},
    {"opset_twice", kInvalid, "operator sets 17 and 13 of domain 'ai.onnx'"},
    {"output_is_input", kInvalid, "value 'x' is defined twice"},
    {"output_of_other_type", kInvalid,
     "output 'y' is declared as int64 but computed as float32[1, 4]"},
    {"pad_huge", kTooLarge,
     "node Pad_0 (Pad): output 0 would be float32[1, 2199023255556], more than 274877906944 bytes"},
    {"pad_negative", kInvalid, "node Pad_0 (Pad): pads -9 and 0 on axis 1 of [1, 4]"},
    {"png", kInvalid,
     "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)"},
    {"quantize_one_input", kInvalid,
     "node QuantizeLinear_0 (QuantizeLinear): 1 inputs, expected 2 to 3"},
    {"random", kInvalid,
     "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)"},
    {"range_huge", kTooLarge, "node Range_0 (Range): range from 0 to 1125899906842624 by 1"},
    {"raw_too_long", kInvalid, "initializer 'w': 17 bytes of raw data, float32[4] needs 16"},
    {"raw_too_short", kInvalid, "initializer 'w': 15 bytes of raw data, float32[4] needs 16"},
    {"reshape_sizes", kInvalid, "node Reshape_0 (Reshape): cannot reshape [1, 4] to [3, 5]"},
    {"resize_huge", kTooLarge,
     "node Resize_0 (Resize): output 0 would be float32[1, 3, 8000000000, 8000000000], more than"},
    {"self_loop", kInvalid, "node loop (Add) is part of a cycle, expected an acyclic graph"},
    {"sequence_input", kInvalid,
     "node Relu_0 (Relu): input 0 is sequence(float32[...]), expected a tensor"},
    {"softmax_axis", kInvalid, "node Softmax_0 (Softmax): axis -3 is outside [-2, 2)"},
    {"sparse_initializer", kUnsupported, "sparse initializers, expected dense ones"},
    {"split_sizes", kInvalid, "node Split_0 (Split): input 1 (split) adds up to 2, expected 4"},
    {"string_input", kInvalid, "node Relu_0 (Relu): input 0 is string, expected a number"},
    {"string_tensor", kInvalid,
     "node Add_0 (Add): input 1 is string[1], expected float32 as input 0"},
    {"subgraph_operators", kUnsupported,
     "2 operators that evoq does not have: Nicate (ai.onnx 17, first at the node of output 't'), "
     "Frob (ai.onnx 17, f"},
    {"subgraphs_deep", kUnsupported, "subgraphs nested more than 8 deep"},
    {"text", kInvalid,
     "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)"},
    {"tile_chain", kTooLarge,
     "node Tile_1 (Tile): output 0 would be float32[1048576, 4194304], more than 274877906944 "
     "bytes"},
    {"too_few_inputs", kInvalid, "node Conv_0 (Conv): 1 inputs, expected 2 to 3"},
    {"too_many_inputs", kInvalid, "node Relu_0 (Relu): 2 inputs, expected at most 1"},
    {"too_many_outputs", kInvalid, "node Relu_0 (Relu): 2 outputs, expected at most 1"},
    {"transpose_perm", kInvalid,
     "node Transpose_0 (Transpose): perm [0, 0] is not a permutation of 2 axes"},
    {"truncated", kInvalid,
     "not an ONNX file: protobuf cannot read it (truncated, damaged or of another format)"},
    {"type_99", kInvalid, "input 'x': element type number 99, which ONNX does not have"},
    {"undefined_input", kInvalid, "node Add_0 (Add): input 'ghost' is not defined anywhere"},
    {"undefined_output", kInvalid, "output 'y' is not defined anywhere"},
    {"unknown_domain", kUnsupported,
     "1 operator that evoq does not have: Relu (org.example 3, first at the node of output \'y\'; "
     "evoq has that of ai.onnx 6 to 28)"},
    {"unknown_operator", kUnsupported,
     "1 operator that evoq does not have: Frobnicate (ai.onnx 17, first at the node of output "
     "'y')"},
    {"unknown_operators", kUnsupported,
     "2 operators that evoq does not have: Frob (ai.onnx 17, first at node 'first'), Nicate "
     "(ai.onnx 1"},
};

int64_t PeakKilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(MustFail, EveryFileGivesItsError) {
  const std::string folder = std::string(EVOQ_SOURCE_DIR) + "/tests/must_fail";
  std::map<std::string, const Expected*> expected;
  for (const Expected& row : kExpected) expected[row.file] = &row;
  const int64_t before = PeakKilobytes();
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    ++files;
    const std::string name = entry.path().stem().string();
    const auto start = std::chrono::steady_clock::now();
    const auto graph = ImportOnnx(entry.path().string());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 2.0) << name;
    if (graph) {
      ADD_FAILURE() << name << " imports:\n" << Print(*graph);
      continue;
    }
    const std::string& message = graph.error().message();
    const auto row = expected.find(name);
    if (row == expected.end()) {
      ADD_FAILURE() << name << " has no row: " << ErrorCodeName(graph.error().code()) << ": "
                    << message;
      continue;
    }
    EXPECT_EQ(graph.error().code(), row->second->code) << name << ": " << message;
    EXPECT_NE(message.find(row->second->message), std::string::npos) << name << ": " << message;
    EXPECT_EQ(message.find(entry.path().string() + ": "), 0u) << name << ": " << message;
  }
  EXPECT_EQ(files, std::size(kExpected));
  EXPECT_LT(PeakKilobytes() - before, 64 * 1024) << "kilobytes";
}

}  // namespace
}  // namespace evoq
