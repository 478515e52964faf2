// The options of Ascend's model compiler `atc` (docs/ascend.md) as a job of evoq's.
#pragma once

#include <string>
#include <vector>

#include "workflow/compile.h"

namespace evoq {

struct AtcOptions {
  std::string model, output;       // `output` without its ending, .om
  int framework = 5;               // 5: ONNX
  int optimization_level = -1;     // 0 to 3; -1: all passes
  std::string input_shape;         // "input:1,3,224,224;other:-1,16"
  std::string dynamic_batch_size;  // "1,8,16": what the -1 of first sizes may be
  std::string dynamic_image_size;  // "224,224;448,448": what two -1 of an input may be
  std::string dynamic_dims;        // "1,224;8,448": what all -1, in order, may be
  std::string out_nodes;           // "NODE:0;NODE2:1": what the model gives; "": as it is
  std::string input_format;        // "NCHW", "NHWC" or "ND"; "": as it is
  std::string output_type;         // "FP32", ...; "": as it is
  std::string precision_mode;      // "force_fp16", ...; "": as it is
  std::string fusion_switch_file;  // JSON: {"Switch": {"GraphFusion": {"PASS": "off"}}}
  std::string insert_op_conf;      // AIPP (workflow/aipp.h)
  std::string soc_version;         // changes nothing
};

// Errors: kUsage naming the option, what was found and what was expected; those of reading files.
Result<CompileJob> AtcJob(const AtcOptions& options);

}  // namespace evoq
