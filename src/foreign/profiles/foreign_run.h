// What another runtime measured of one model: the one form that the readers of its files (source.h)
// produce and the rules (rule.h) judge.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace evoq {

// What a layer is for, in every tool's words alike.
enum class LayerGroup { kConv, kReformatQdq, kPooling, kMatMul, kElementwise, kOther };
inline constexpr int kLayerGroups = 6;
// "conv", "reformat_qdq", "pooling", "matmul", "elementwise", "other": the keys of the JSON.
const char* LayerGroupName(LayerGroup group);

// A tensor as the tool describes it; what it does not say is empty.
struct ForeignTensor {
  std::string name;
  std::vector<int64_t> dims;
  std::string format;  // the tool's own words: "Row major linear FP32", "float"
  std::string
      precision;  // "fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4", "int32", "" unknown
  bool constant = false;     // surely the same in each run
  bool of_integers = false;  // a constant that the model has as integers
};

// The type of what is no layer: nothing works while the host is on its way to the next one.
inline constexpr char kHostLayer[] = "Host";

// What a layer does to the precision of its data.
enum class Conversion { kNone, kQuantize, kDequantize, kReformat, kCopy };

struct ForeignLayer {
  std::string name;
  std::string type;       // as the tool names it: "CaskConvolution", "MemcpyToHost", "Reorder"
  std::string where;      // execution provider, or kernel ("tactic", "exec_type")
  std::string precision;  // what it computes in; "" unknown
  LayerGroup group = LayerGroup::kOther;
  Conversion conversion = Conversion::kNone;
  double ms = 0;              // mean time per run
  bool has_residual = false;  // an Add of two activations is fused into it
  int64_t weight_bytes = 0;
  bool weights_told = true;            // false: it has weights of which the tool says nothing
  int64_t weight_count = 0;            // elements, without the bias; 0 unknown
  std::vector<int64_t> kernel;         // of a convolution, {3, 3}; empty: unknown, or none
  std::vector<std::string> operators;  // of the model: what it is made of, by name
  std::vector<ForeignTensor> inputs, outputs;
};

struct ForeignRun {
  std::string
      tool;  // "trtexec", "onnxruntime", "benchmark_app", "openvino", "tflite", "msprof", "pytorch"
  std::string path;          // what was read
  std::string device;        // "" unknown
  double end_to_end_ms = 0;  // median latency of a run measured without the profiler; 0 unknown
  double layer_sum_ms = 0;
  int64_t weight_bytes = 0;  // of the layers that say so; 0 unknown, also where one keeps silent
  bool detailed = false;     // tensors and precisions are known, not names alone
  std::vector<ForeignLayer> layers;  // in order of execution
  bool in_order = true;              // false: in another, as in reports that are sorted by time
  std::string note;                  // what the figures are not; mostly empty
  // Why the layers' sum can exceed a run's time.
  const char* excess = "the profiler's own cost";

  double GroupMs(LayerGroup group) const;
  // Whether any layer computes in 8 bits or fewer.
  bool quantized() const;
};

// ASCII letters in lower case: the tools' spellings differ.
std::string LowerCase(std::string text);

// "fp32" of "Row major linear FP32", "int8" of "Four wide channel vectorized row major Int8 format"
// or "jit_avx512_I8".
std::string PrecisionIn(const std::string& words);
int BitsOf(const std::string& precision);  // 32 for "fp32"; 0 unknown

// The group of a layer from the tool's type and, where that says nothing, from the names of the
// operators in its name.
LayerGroup GroupOf(const std::string& type, const std::string& name);
bool TypeTellsGroup(const std::string& type);  // whether the type alone says what a layer is for
// The operators that a fused layer is named after: "conv1.weight", "QuantizeLinear_7" and "Conv_9"
// of "conv1.weight + QuantizeLinear_7 + Conv_9".
std::vector<std::string> OperatorsIn(const std::string& name);

// Sums what the layers say; called by every reader at its end.
void Summarize(ForeignRun& run);

}  // namespace evoq
