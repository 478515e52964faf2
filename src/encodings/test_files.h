// Encodings of each version, written by hand from AIMET's specification, and a table of ONNX
// Runtime, for tests and the fuzzer.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <string>
#include <utility>
#include <vector>

#include "encodings/ort_table_generated.h"

namespace evoq {

inline constexpr char kText061[] = R"({
"version": "0.6.1",
"activation_encodings": {
  "x": [{"dtype": "int", "bitwidth": 8, "is_symmetric": "False", "min": -0.5, "max": 0.775,
         "scale": 0.005, "offset": -100}],
  "y": [{"dtype": "int", "bitwidth": 16, "is_symmetric": "False", "scale": 0.25, "offset": -7.0}],
  "s": [{"dtype": "int", "bitwidth": 8, "is_symmetric": "True", "min": -64, "max": 63.5,
         "scale": 0.5, "offset": -128}],
  "f": [{"dtype": "float", "bitwidth": 16}]
},
"param_encodings": {
  "w": [{"dtype": "int", "bitwidth": 4, "is_symmetric": "True", "scale": 0.5, "offset": -8},
        {"dtype": "int", "bitwidth": 4, "is_symmetric": "True", "scale": 0.125, "offset": -8}]
},
"quantizer_args": {"activation_bitwidth": 8, "param_bitwidth": 4, "dtype": "int",
  "is_symmetric": "True", "per_channel_quantization": "True", "quant_scheme": "post_training_tf"}
})";

inline constexpr char kText100[] = R"({
"version": "1.0.0",
"activation_encodings": [
  {"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": false,
   "scale": [0.005], "offset": [-100]},
  {"name": "f", "enc_type": "PER_TENSOR", "dtype": "FLOAT", "bw": 16}],
"param_encodings": [
  {"name": "w", "enc_type": "PER_CHANNEL", "dtype": "INT", "bw": 4, "is_sym": true,
   "scale": [0.5, 0.125], "offset": [-8, -8]},
  {"name": "b", "enc_type": "PER_BLOCK", "dtype": "INT", "bw": 4, "is_sym": true,
   "scale": [1, 2, 3, 4], "offset": [-8, -8, -8, -8], "block_size": 16},
  {"name": "l", "enc_type": "LPBQ", "dtype": "INT", "bw": 8, "compressed_bw": 4, "is_sym": true,
   "scale": [0.5, 0.25], "offset": [-128, -128], "per_block_int_scale": [1, 2, 3, 16],
   "block_size": 16}],
"excluded_layers": [], "quantizer_args": {}
})";

inline constexpr char kText200[] = R"({
"version": "2.0.0",
"encodings": [
  {"name": "x", "output_dtype": "uint8", "y_scale": 0.005, "y_zero_point": 100},
  {"name": "s", "output_dtype": "int8", "y_scale": 0.5},
  {"name": "w", "output_dtype": "int4", "y_scale": [0.5, 0.125], "axis": 0},
  {"name": "bias", "output_dtype": "int32", "y_scale": [0.0025, 0.000625], "axis": 0},
  {"name": "b", "output_dtype": "uint4", "y_scale": [[1, 2], [3, 4]], "axis": 1, "block_size": 16,
   "y_zero_point": [[8, 7], [6, 5]]},
  {"name": "l", "output_dtype": "int4", "per_channel_float_scale": [[0.5], [0.25]],
   "per_block_int_scale": [[1, 2], [3, 16]], "axis": 1, "block_size": 16},
  {"name": "two", "output_dtype": "int2", "y_scale": 1.0, "y_zero_point": -0.5},
  {"name": "e4m3", "output_dtype": "float8e4m3fn", "y_scale": 0.5}]
})";

inline constexpr char kText210[] = R"({
"version": "2.1.0",
"encodings": [
  {"name": "x", "output_dtype": "uint8", "y_scale": 0.005, "y_zero_point": 100},
  {"name": "l", "output_dtype": "int4", "axis": 1, "block_size": 16,
   "y_scale": {"x": [[1, 2], [3, 16]], "x_scale": [0.5, 0.25], "axis": 0}}]
})";

// calibration.flatbuffers: tensor, largest magnitude.
inline std::string FlatTable(const std::vector<std::pair<std::string, std::string>>& entries) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<ortfb::KeyValue>> items;
  for (const auto& [key, value] : entries)
    items.push_back(ortfb::CreateKeyValueDirect(builder, key.c_str(), value.c_str()));
  builder.Finish(ortfb::CreateCalibrationDictDirect(builder, &items));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace evoq
