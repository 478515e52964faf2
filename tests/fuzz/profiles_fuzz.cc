// Room: foreign
// Files of other runtimes' profilers: what each reader takes is judged and told, alone and as its
// own baseline, or is an error. The fuzzer's first byte says whose file it is.
#include <cmath>
#include <random>

#include "base/check.h"
#include "foreign/profiles/diagnosis_text.h"
#include "foreign/profiles/source.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;

// By the source's tool. One that is missing begins from an empty file.
const std::map<std::string, std::vector<std::string>>& Seeds() {
  static const std::map<std::string, std::vector<std::string>> seeds = {
      {"trtexec",
       {R"([{"count": 2}, {"name": "conv1 + relu", "timeMs": 3, "averageMs": 1.5}])",
        "=== Profile (10 iterations ) ===\nTime(ms) Avg.(ms) Time(%) Layer\n20 0.002 100 a\n"}},
      {"onnxruntime", {R"([{"cat": "Session", "name": "model_run", "dur": 9, "ts": 1},
            {"cat": "Node", "name": "Conv_1_token_3_kernel_time", "dur": 4, "ts": 2, "tid": 7,
             "args": {"op_name": "QLinearConv", "provider": "CPUExecutionProvider",
                      "node_index": "1", "input_type_shape": [{"uint8": [1, 8, 4, 4]}],
                      "output_type_shape": [{"uint8": [1, 8, 4, 4]}], "parameter_size": "64"}}])"}},
      {"benchmark_app",
       {"layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
        "in;NOT_RUN;Parameter;unknown_I8;0;0\na;EXECUTED;Convolution;brgconv_I8;0.2;0.2\n",
        R"({"detailed_performance": [{"nodes": [{"name": "a", "status": "Status.EXECUTED",
            "node_type": "Reorder", "exec_type": "jit_I8", "real_time": "0.5"}]}]})"}},
      {"openvino",
       {R"(<net><layers><layer id="0" name="w" type="Const"><data execTimeMcs="not_executed"/>
           <output><port id="0" precision="U8"><dim>8</dim></port></output></layer>
           <layer id="1" name="c" type="Convolution"><data execOrder="1" execTimeMcs="20"
           originalLayersNames="a,b&amp;" primitiveType="jit_f32" runtimePrecision="f32"/><input>
           <port id="0" precision="FP32"><dim>1</dim><dim>8</dim></port><port id="1"><dim>8</dim>
           </port></input><output><port id="2"/></output></layer></layers><edges>
           <edge from-layer="0" from-port="0" to-layer="1" to-port="1"/></edges></net>)"}},
      {"tflite",
       {"Operator-wise Profiling Info for Regular Benchmark Runs:\n= Run Order =====\n"
        "[node type] [first] [avg ms] [%] [cdf%] [mem KB] [times called] [Name]\n"
        "Convolution (NHWC, QC8) IGEMM 0.1 0.2 1.0% 2.0% 0.0 2 Delegate/Convolution:0\n"
        "ADD 0.1 0.2 1.0% 2.0% 0.0 1 [a]:1\n",
        "= Run Order =====\nnode type, start, first, avg_ms, %, cdf%, mem KB, times called, name\n"
        "Convert (NC, F32, QD8), 0, 0.1, 0.2, 1%, 2%, 0, 1, [a]:1\n"}},
      {"msprof",
       {"Model ID,Op Name,OP Type,Task Type,Task Duration(us),Task Wait Time(us),Input Shapes,"
        "Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats\n"
        "1,c,Conv2D,AI_CORE,20,3,\"\"\"1,1,4,4,16;8,8\"\"\",FLOAT16;INT8,NC1HWC0;FRACTAL_Z,"
        "\"\"\"1,1,4,4,16\"\"\",FLOAT16,NC1HWC0\n1,t,TransData,AI_CPU,2,0,N/A,N/A,N/A,N/A,N/A,N/"
        "A\n",
        "OP Type,Core Type,Count,Total Time(us)\nCast,AI_CORE,2,7\n"}},
      {"pytorch", {R"({"deviceProperties": [{"name": "V"}], "traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 90},
            {"ph": "X", "cat": "cpu_op", "name": "aten::conv2d", "tid": "a", "ts": 1, "dur": 9,
             "args": {"Input Dims": [[1, 8, 4, 4], [8, 8, 3, 3]],
                      "Input type": ["float", "float"]}},
            {"ph": "X", "cat": "cuda_runtime", "tid": "a", "ts": 2, "dur": 1,
             "args": {"correlation": 4}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5, "dur": 30,
             "args": {"correlation": 4}}]})"}}};
  return seeds;
}

const ForeignSource& SourceOf(uint8_t kind) {
  return *AllForeignSources()[kind % AllForeignSources().size()];
}

void Judge(const ForeignRun& run, const ForeignRun* baseline) {
  const Diagnosis diagnosis = Diagnose(run, baseline);
  for (const Finding& f : diagnosis.findings)
    EVOQ_CHECK(std::isfinite(f.ms) && f.ms >= 0, "{} loses {} ms", f.rule->code, f.ms);
  EVOQ_CHECK(ToJson(run, baseline, diagnosis).contains("findings"));
  EVOQ_CHECK(!ToText(run, baseline, diagnosis).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const std::string path = fuzz::Folder() + "/profile";
  fuzz::Write(path, {reinterpret_cast<const char*>(data) + 1, size - 1});
  EVOQ_CHECK(FindForeignFile(path).has_value());
  const auto run = SourceOf(data[0]).read(path);
  if (!run) {
    EVOQ_CHECK(run.error().code() != ErrorCode::kInternal, "{}", run.error().message());
    EVOQ_CHECK(run.error().message().size() < 20000, "an error of {} bytes",
               run.error().message().size());
    return 0;
  }
  for (const ForeignLayer& layer : run->layers)
    EVOQ_CHECK(std::isfinite(layer.ms) && layer.ms >= 0, "{} takes {} ms", layer.name, layer.ms);
  Judge(*run, nullptr);
  Judge(*run, &*run);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return fuzz::MutateFile(
      data, size, max_size, seed,
      [](std::minstd_rand& random) {
        const auto kind = static_cast<uint8_t>(random() % AllForeignSources().size());
        const auto it = Seeds().find(SourceOf(kind).tool);
        const bool none = it == Seeds().end();
        return std::pair<uint8_t, std::string>(
            kind, none ? "" : it->second[random() % it->second.size()]);
      },
      [](uint8_t, std::string&) {});
}
