// What each field of another runtime's file becomes, also where it is missing or odd.
#include <gtest/gtest.h>

#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

class ProfileFields : public ProfileFiles {
 protected:
  // One layer of a trtexec engine: its object in the layer information.
  ForeignLayer Trtexec(json layer) {
    if (!layer.contains("Name")) layer["Name"] = "layer";
    Write("profile.json", {{{"count", 1}}, {{"name", layer["Name"]}, {"averageMs", 1}}});
    Write("layers.json", {{"Layers", {layer}}});
    const auto run = Source("trtexec").read(folder_.string());
    EXPECT_TRUE(run) << run.error().message();
    return run ? run->layers.at(0) : ForeignLayer();
  }
  std::string Error(const std::string& path) const {
    const auto run = Source("trtexec").read(path);
    return run ? "" : run.error().message();
  }
  // One node of an ONNX Runtime profile.
  ForeignLayer Ort(const std::string& op, const json& inputs, const json& more = json::object()) {
    json args = {{"op_name", op}, {"node_index", "0"}, {"input_type_shape", inputs}};
    args.update(more);
    const auto run =
        Source("onnxruntime")
            .read(Write("ort.json", {{{"name", "n_kernel_time"}, {"dur", 1}, {"args", args}}}));
    EXPECT_TRUE(run) << run.error().message();
    return run ? run->layers.at(0) : ForeignLayer();
  }
};

json Tensor(const std::string& format) {
  return {{"Name", format}, {"Dimensions", {1, 8}}, {"Format/Datatype", format}};
}

// Whether the sum of two activations is part of a convolution, by its operators' names.
TEST_F(ProfileFields, SumsInConvolutions) {
  for (const auto& [name, adds] :
       std::vector<std::pair<const char*, bool>>{{"/c/Conv + /layer1/Add", true},
                                                 {"Conv_1 + Add_36", true},
                                                 {"c/Conv + block1/add", true},
                                                 {"c/Conv + model/AddV2", true},
                                                 {"/c/Conv + PWN(/a/Add)", true},
                                                 {"/c/Conv + model/BiasAdd", false},
                                                 {"/c/Conv + /a/Address", false},
                                                 {"/c/Conv", false}}) {
    EXPECT_EQ(Trtexec({{"Name", name}, {"LayerType", "CaskConvolution"}}).has_residual, adds)
        << name;
    EXPECT_FALSE(Trtexec({{"Name", name}, {"LayerType", "PointWise"}}).has_residual) << name;
  }
  const auto inputs = [&](const char* type, int count) {
    json layer = {{"LayerType", type}, {"Inputs", json::array()}};
    for (int i = 0; i < count; ++i) layer["Inputs"].push_back(Tensor("Int8"));
    return Trtexec(layer).has_residual;
  };
  EXPECT_FALSE(inputs("CaskConvolution", 1));
  EXPECT_TRUE(inputs("CaskConvolution", 2));
  EXPECT_FALSE(inputs("PointWise", 2));
}

// What a reformat does, by the formats on both sides, else by its name.
TEST_F(ProfileFields, ConversionsByFormats) {
  const struct {
    const char *from, *to, *origin;
    Conversion conversion;
  } rows[] = {
      {"Float", "Int8", "", Conversion::kQuantize},
      {"Half", "FP8", "", Conversion::kQuantize},
      {"Float", "Int4", "", Conversion::kQuantize},
      {"Half", "FP4 E2M1", "", Conversion::kQuantize},
      {"Row major FP4", "BFloat16", "", Conversion::kDequantize},
      {"Int8", "Float", "", Conversion::kDequantize},
      {"FP8", "Half", "QDQ", Conversion::kDequantize},
      {"Int8", "Int8", "", Conversion::kReformat},
      {"Float", "Half", "", Conversion::kReformat},
      {"Float", "Half", "QDQ", Conversion::kQuantize},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(Trtexec({{"LayerType", "Reformat"},
                       {"Origin", row.origin},
                       {"Inputs", {Tensor(row.from)}},
                       {"Outputs", {Tensor(row.to)}}})
                  .conversion,
              row.conversion)
        << row.from << " " << row.to;
  }
  EXPECT_EQ(Trtexec({{"LayerType", "CaskConvolution"},
                     {"Inputs", {Tensor("Float")}},
                     {"Outputs", {Tensor("Int8")}}})
                .conversion,
            Conversion::kNone);
  for (const auto& [name, conversion] :
       {std::pair{"/a/DequantizeLinear", Conversion::kDequantize},
        {"/a/QuantizeLinear", Conversion::kQuantize},
        {"Reformatting CopyNode for Input Tensor 0 to x", Conversion::kReformat}}) {
    EXPECT_EQ(Trtexec({{"Name", name}}).conversion, conversion) << name;
    EXPECT_EQ(Trtexec({{"Name", name}, {"Inputs", {Tensor("Float")}}}).conversion, conversion)
        << name << ", of which one side is not told";
  }
}

TEST_F(ProfileFields, TensorsWeightsAndKernels) {
  const ForeignLayer layer = Trtexec(
      {{"LayerType", "CaskConvolution"},
       {"TacticName", "sm80"},
       {"Inputs",
        {{{"Name", "x"}, {"Dimensions", {"N", 3}}, {"Format", "Linear"}, {"Datatype", "Half"}}}},
       {"Outputs", {Tensor("Int8")}},
       {"Weights", {{"Type", "Int4"}, {"Count", 10}}},
       {"Kernel", {3, "n"}}});
  EXPECT_EQ(layer.type, "CaskConvolution");
  EXPECT_EQ(layer.where, "sm80");
  ASSERT_EQ(layer.inputs.size(), 1u);
  EXPECT_EQ(layer.inputs[0].name, "x");
  EXPECT_EQ(layer.inputs[0].dims, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(layer.inputs[0].format, "Linear Half");
  EXPECT_EQ(layer.inputs[0].precision, "fp16");
  EXPECT_EQ(layer.outputs[0].precision, "int8");
  EXPECT_EQ(layer.weight_bytes, 5);
  EXPECT_EQ(layer.weight_count, 10);
  EXPECT_EQ(layer.kernel, (std::vector<int64_t>{3, -1}));
  EXPECT_EQ(layer.precision, "int4");
  // Up to 10^15, of elements and of bytes.
  for (const auto& [count, known] : {std::pair{9e14, true}, {1.1e15, false}, {0.0, false}}) {
    const ForeignLayer odd = Trtexec({{"Weights", {{"Type", "Int8"}, {"Count", count}}}});
    EXPECT_EQ(odd.weight_count, known ? static_cast<int64_t>(count) : 0);
    EXPECT_EQ(odd.weight_bytes, known ? static_cast<int64_t>(count) : 0);
  }
}

TEST_F(ProfileFields, FilesOfAnEngine) {
  Write("profile.json", {{{"count", 4}},
                         {{"name", "a"}, {"timeMs", 2}},
                         {{"name", "b"}, {"averageMs", 0}, {"timeMs", 7}}});
  Write("times.json", {{{"latencyMs", 0}},
                       {{"latencyMs", -1}},
                       {{"latencyMs", 4}, {"computeMs", 9}},
                       {{"latencyMs", 5}}});
  Write("device.json", {{"device_information", {{"Selected Device", "L4"}}}});
  Write("layers.json", {{"Layers", {"a", "b"}}});
  const auto run = Source("trtexec").read(folder_.string());
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->device, "L4");
  EXPECT_EQ(run->tool, "trtexec");
  EXPECT_EQ(run->path, folder_.string());
  EXPECT_FALSE(run->detailed) << "names alone";
  EXPECT_EQ(run->layers[0].ms, 0.5);
  EXPECT_EQ(run->layers[1].ms, 0) << "which is a time";
  EXPECT_EQ(run->end_to_end_ms, 4) << "of 0, 4 and 5";
  // A profile that is named itself has nothing beside it.
  EXPECT_EQ(Source("trtexec").read(At("profile.json"))->device, "");
  Write("more.json", {{"Layers", {"a"}}});
  EXPECT_EQ(Error(folder_.string()),
            At("more.json") + ": a second layer-info file beside " + At("layers.json"));
  Clear();
  Write("profile.json", {{{"count", 0}}, {{"name", "a"}, {"timeMs", 2}}});
  EXPECT_EQ(Error(folder_.string()),
            At("profile.json") + ": entry 1 (a): averageMs is missing or negative");
  Write("profile.json", {{{"count", 1}}, {{"name", ""}, {"averageMs", 2}}});
  EXPECT_EQ(Error(folder_.string()), At("profile.json") + ": entry 1 has no name");
}

// Where an operator's weights stand, and how many they are.
TEST_F(ProfileFields, WeightsOfOrtNodes) {
  const auto inputs = [](const std::vector<std::vector<int64_t>>& dims) {
    json list = json::array();
    for (const auto& d : dims) list.push_back({{"int8", d}});
    return list;
  };
  const struct {
    const char* op;
    std::vector<std::vector<int64_t>> dims;
    int64_t count;
    std::vector<int64_t> kernel;
  } rows[] = {
      {"Conv", {{1, 3, 8, 8}, {16, 3, 5, 7}}, 16 * 3 * 5 * 7, {5, 7}},
      {"ConvInteger", {{1, 3, 8, 8}, {16, 3, 1, 1}}, 48, {1, 1}},
      {"QLinearConv", {{1, 3, 8, 8}, {}, {}, {4, 3, 3, 3}}, 108, {3, 3}},
      {"QLinearConv", {{1, 3, 8, 8}, {}, {4, 3, 3, 3}}, 0, {}},
      {"QLinearMatMul", {{5, 6}, {}, {}, {6, 7}}, 42, {}},
      {"QGemm", {{5, 6}, {}, {}, {6, 8}}, 48, {}},
      {"MatMul", {{5, 6}, {6, 7}}, 42, {}},
      {"MatMul", {{2, 5, 6}, {2, 6, 7}}, 84, {}},
      {"Gemm", {{5, 6}}, 0, {}},
      {"Gemm", {{5, 6}, {7}}, 0, {}},
      {"Conv", {{1, 3, 8, 8}, {16}}, 0, {}},
      {"Conv", {{1, 3, 8, 8}, {}}, 0, {}},
      {"Conv", {{1, 3, 8, 8}, {16, 0, 3, 3}}, 0, {}},
      {"Conv", {{1, 3, 8, 8}, {16, -1, 3, 3}}, 0, {}},
      {"Conv", {{1}, {int64_t{1} << 40, int64_t{1} << 40, 3}}, 0, {}},
      {"Conv", {{1, 3, 8, 8}, {16, 3}}, 48, {}},
      {"Add", {{5, 6}, {5, 6}}, 0, {}},
  };
  for (const auto& row : rows) {
    const ForeignLayer layer = Ort(row.op, inputs(row.dims));
    EXPECT_EQ(layer.weight_count, row.count) << row.op;
    EXPECT_EQ(layer.kernel, row.kernel) << row.op;
  }
  for (const auto& [text, bytes] :
       {std::pair{"12", 12}, {"1", 1}, {"0", 0}, {"-4", 0}, {"x", 0}, {"", 0}})
    EXPECT_EQ(Ort("Conv", inputs({}), {{"parameter_size", text}}).weight_bytes, bytes) << text;
  EXPECT_FALSE(Ort("FusedConv", inputs({{1}, {1, 2, 3}, {1}})).has_residual);
  EXPECT_TRUE(Ort("FusedConv", inputs({{1}, {1, 2, 3}, {1}, {1}})).has_residual);
  EXPECT_FALSE(Ort("Conv", inputs({{1}, {1, 2, 3}, {1}})).has_residual);
  EXPECT_TRUE(Ort("Conv", inputs({{1}, {1, 2, 3}, {1}, {1}})).has_residual)
      << "of blocked channels";
  const ForeignLayer odd = Ort("Relu", {json::object(), {{"float", {"N", 2}}}, 7});
  ASSERT_EQ(odd.inputs.size(), 3u);
  EXPECT_EQ(odd.inputs[1].dims, (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(odd.inputs[1].precision, "fp32");
  EXPECT_EQ(odd.precision, "") << "of the first input, which says nothing";
}

// Layers of one name are told apart by their order.
TEST_F(ProfileFields, LayersOfOneName) {
  Write("profile.json", {{{"count", 1}},
                         {{"name", "a"}, {"averageMs", 1}},
                         {{"name", "b"}, {"averageMs", 2}},
                         {{"name", "a"}, {"averageMs", 4}},
                         {{"name", "a"}, {"averageMs", 8}}});
  Write("layers.json", {{"Layers",
                         {{{"Name", "a"}, {"LayerType", "CaskConvolution"}},
                          {{"Name", "b"}, {"LayerType", "Reformat"}},
                          {{"Name", "a"}, {"LayerType", "CaskPooling"}}}}});
  const auto run = Source("trtexec").read(folder_.string());
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->GroupMs(LayerGroup::kConv), 1);
  EXPECT_EQ(run->GroupMs(LayerGroup::kReformatQdq), 2);
  EXPECT_EQ(run->GroupMs(LayerGroup::kPooling), 4 + 8) << "the last one for those beyond it";
}

// Weights that the session packed are no inputs: those behind them are not taken for them, and the
// run's weights are not known.
TEST_F(ProfileFields, PackedWeightsOfOrtNodes) {
  const json x = {{"uint8", {1, 8, 8, 3}}}, scale = {{"float", json::array()}},
             scales = {{"float", {16}}}, zero = {{"uint8", json::array()}},
             bias = {{"int32", {16}}};
  const json size = {{"parameter_size", "64"}, {"provider", "CPUExecutionProvider"}};
  const auto weights = [&](const ForeignLayer& layer) {
    const ForeignRun run = *Source("onnxruntime").read(At("ort.json"));
    EXPECT_EQ(run.weight_bytes, layer.weights_told ? 64 : 0);
    return std::pair(layer.weights_told, layer.weight_count);
  };
  const std::pair unknown(false, int64_t{0});
  EXPECT_EQ(weights(Ort("QLinearConv", {x, scale, zero, scales, zero, scale, zero, bias}, size)),
            unknown);
  ForeignRun run = *Source("onnxruntime").read(At("ort.json"));
  run.layers[0].ms = 1;
  EXPECT_EQ(LostBy(Diagnose(run, nullptr)),
            (std::map<std::string, double>{{"unsigned-weights", 0.5}}))
      << "their zero point is uint8";
  const json real = {{"float", {1, 8}}}, vector = {{"float", {16}}};
  EXPECT_EQ(weights(Ort("Gemm", {real, vector}, size)), unknown);
  EXPECT_EQ(weights(Ort("MatMul", json::array({real}), size)), unknown);
  EXPECT_EQ(weights(Ort("Gemm", {real, {{"float", {8, 16}}}, vector}, size)),
            std::pair(true, int64_t{128}));
  EXPECT_TRUE(Ort("FusedConv", {real, vector, real}).has_residual) << "bias, and what is added";
  EXPECT_FALSE(Ort("FusedConv", {real, vector}).has_residual);
}

TEST_F(ProfileFields, ConversionsOfOrtNodes) {
  for (const auto& [op, conversion] : {std::pair{"MemcpyToHost", Conversion::kCopy},
                                       {"MemcpyFromHost", Conversion::kCopy},
                                       {"QuantizeLinear", Conversion::kQuantize},
                                       {"DynamicQuantizeLinear", Conversion::kQuantize},
                                       {"DequantizeLinear", Conversion::kDequantize},
                                       {"ReorderInput", Conversion::kReformat},
                                       {"Cast", Conversion::kReformat},
                                       {"CastLike", Conversion::kNone},
                                       {"Conv", Conversion::kNone}})
    EXPECT_EQ(Ort(op, json::array()).conversion, conversion) << op;
}

// The rule on constants that are dequantized: as many bytes of parameters as elements, or half of
// it for 4 bits; more than one element.
TEST_F(ProfileFields, ConstantsThatAreDequantized) {
  const auto found = [&](std::vector<int64_t> dims, const char* bytes) {
    ForeignRun run;
    run.tool = "onnxruntime";
    run.layers = {ForeignLayer(),
                  Ort("DequantizeLinear", {{{"int8", dims}}}, {{"parameter_size", bytes}})};
    return LostBy(Diagnose(run, nullptr)).count("weights-dequantized-each-run") > 0;
  };
  for (ForeignLayer layer : {Ort("DequantizeLinear", {{{"int8", {8}}}})})
    EXPECT_NEAR(layer.ms, 1e-3, 1e-12) << "a microsecond: enough to be told";
  EXPECT_TRUE(found({10, 10}, "100"));
  EXPECT_TRUE(found({10, 10}, "50"));
  EXPECT_FALSE(found({10, 10}, "49"));
  EXPECT_FALSE(found({1}, "4"));
  EXPECT_TRUE(found({2}, "1"));
  EXPECT_FALSE(found({10, 10}, "0"));
}

TEST_F(ProfileFields, SummariesOfBenchmarkApp) {
  const json node = {{"name", "a"},
                     {"status", "EXECUTED"},
                     {"node_type", "Convolution"},
                     {"exec_type", "x_I8"},
                     {"real_time", 2}};
  Write("benchmark_report.json", {{"execution_results", {{"latency_median", 9.5}}},
                                  {"configuration_setup", {{"target_device", "beside"}}}});
  const auto read = [&](const json& report) {
    const auto run = Source("benchmark_app").read(Write("r.json", report));
    EXPECT_TRUE(run) << run.error().message();
    return run.value_or(ForeignRun());
  };
  const json nodes = {{"nodes", {node}}};
  ForeignRun run = read({{"avg_performance", nodes}});
  EXPECT_EQ(run.end_to_end_ms, 9.5) << "a number, of the file beside it";
  EXPECT_EQ(run.device, "beside");
  EXPECT_TRUE(run.detailed);
  EXPECT_EQ(run.layer_sum_ms, 2);
  run = read({{"avg_performance", nodes},
              {"execution_results", {{"latency_median", "4.5"}}},
              {"configuration_setup", {{"target_device", "own"}}}});
  EXPECT_EQ(run.end_to_end_ms, 4.5) << "its own";
  EXPECT_EQ(run.device, "own");
  // A summary that is no object says nothing.
  Write("benchmark_report.json", json::array({1}));
  run = read({{"avg_performance", nodes}});
  EXPECT_EQ(run.end_to_end_ms, 0);
  EXPECT_EQ(run.device, "");
  // The same node of three runs, each a third.
  run = read({{"detailed_performance", {nodes, nodes, nodes}}});
  ASSERT_EQ(run.layers.size(), 1u);
  EXPECT_NEAR(run.layers[0].ms, 2, 1e-12);
}

// benchmark_app feeds models of images with bytes: layers that convert them are as many as such
// inputs. Integers elsewhere are the model's own.
TEST_F(ProfileFields, FloatModelsThatBenchmarkAppFeedsWithBytes) {
  const auto lost = [&](const std::string& lines) {
    const std::string header =
        "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n";
    const std::string input = "input;Status.NOT_RUN;Parameter;unknown_I8;0.0;0.0\n";
    std::ofstream(folder_ / "r.csv") << header + input + lines;
    return LostBy(Diagnose(*Source("benchmark_app").read(At("r.csv")), nullptr));
  };
  const std::string converts = "Convert_9;Status.EXECUTED;Subgraph;jit_avx512_I8;0.03;0.03\n",
                    conv = "a;Status.EXECUTED;Convolution;brgconv_bf16;2;2\n",
                    pool = "p;Status.EXECUTED;Pooling;jit_bf16;1;1\n";
  const std::map<std::string, double> none, all = {{"stays-float", 1}, {"pooling-in-float", 0.5}};
  EXPECT_EQ(lost(converts + conv + pool), none);
  EXPECT_EQ(lost(converts + "i;EXECUTED;If;unknown_I8;0.1;0.1\n" + conv + pool), none);
  EXPECT_EQ(lost(converts + "m;EXECUTED;Eltwise;jit_u8;0.1;0.1\n" + conv + pool), all);
  EXPECT_EQ(lost(converts + "d;EXECUTED;Convolution;brgconv_u8;0.1;0.1\n" + conv + pool), all);
  EXPECT_EQ(lost("q;EXECUTED;Pooling;jit_i8;0.1;0.1\n" + conv + pool), all);
}

// What -pcsort writes: no order of execution, so that no layer is the first one or another's
// neighbour.
TEST_F(ProfileFields, SortedReportsOfBenchmarkApp) {
  const auto lines = [&](const std::string& text) {
    std::ofstream(folder_ / "r.csv") << text;
    return Source("benchmark_app").read(At("r.csv"));
  };
  const auto of_cpp = lines(
      "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms); %;\n"
      "r;EXECUTED;Reorder;jit_uni_I8;0.500;0.5;66.6667;\n"
      "a,b;EXECUTED;Convolution;brgconv_I8;0.250;0.250;33.3333;\nTotal;;;;0.750;0.750;100;\n\n");
  const auto marked = lines(
      "\xef\xbb\xbflayerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
      "r;EXECUTED;Reorder;jit_uni_I8;0.500;0.5\n");
  EXPECT_TRUE(marked) << marked.error().message() << ": of a spreadsheet, with a byte order mark";
  const auto of_python = lines(
      "layerName,execStatus,layerType,execType,realTime (ms),cpuTime (ms),\"proportion (%)\n\"\r\n"
      "r,Status.EXECUTED,Reorder,jit_uni_I8,0.500,0.500,66.67%\r\n"
      "\"a,b\",Status.EXECUTED,Convolution,brgconv_I8,0.250,0.250,33.33%\r\n\n"
      "Total time: 0.75 milliseconds\r\nTotal CPU time: 0.75 milliseconds\r\n\n\n");
  const auto node = [](const char* name, const char* type, const char* ms) {
    return json{{"name", name},    {"node_type", type},     {"status", "Status.EXECUTED"},
                {"real_time", ms}, {"exec_type", "jit_I8"}, {"%", "50.00%"}};
  };
  const json nodes = {node("r", "Reorder", "0.500"), node("a,b", "Convolution", "0.250")};
  const auto averages = Source("benchmark_app")
                            .read(Write("r.json", {{"report_type", "sorted"},
                                                   {"avg_performance", {{"nodes", nodes}}}}));
  const auto details = Source("benchmark_app")
                           .read(Write("d.json", {{"detailed_performance", {{{"nodes", nodes}}}}}));
  for (const auto* run : {&of_cpp, &of_python, &averages, &details}) {
    ASSERT_TRUE(*run) << run->error().message();
    ASSERT_EQ((*run)->layers.size(), 2u);
    EXPECT_EQ((*run)->layers[1].name, "a,b");
    EXPECT_EQ((*run)->layer_sum_ms, 0.75);
    EXPECT_FALSE((*run)->in_order);
    EXPECT_EQ(LostBy(Diagnose(**run, nullptr)),
              (std::map<std::string, double>{{"reformat-copies", 0.5}}));
    EXPECT_TRUE(Wiring(**run).Readers(0).empty());
    EXPECT_TRUE(Wiring(**run).Writers(1).empty());
  }
}

// What the program in Python writes: numbers as text, its own names, and tables without
// -json_stats.
TEST_F(ProfileFields, BenchmarkAppInPython) {
  const auto node = [](const char* name, const char* status, const char* ms) {
    return json{{"name", name},     {"node_type", "Convolution"},
                {"status", status}, {"real_time", ms},
                {"cpu_time", ms},   {"exec_type", "brgconv_I8"}};
  };
  const auto read = [&](const std::string& path) { return Source("benchmark_app").read(path); };
  Write("benchmark_report.json",
        {{"execution_results", {{"latency (ms)", "0.66"}, {"avg latency", "0.82"}}},
         {"configuration_setup", {{"target device", "CPU"}}}});
  const json run = {{"nodes",
                     {node("in", "Status.NOT_RUN", "7.0"), node("a", "Status.EXECUTED", "0.25"),
                      node("b", "Status.EXECUTED", "0.5")}}};
  const auto of_json = read(Write("r.json", {{"detailed_performance", {run, run}}}));
  ASSERT_TRUE(of_json) << of_json.error().message();
  std::filesystem::remove(folder_ / "benchmark_report.json");
  const auto text = [&](const std::string& name, const std::string& lines) {
    std::ofstream(folder_ / name) << lines;
    return (folder_ / name).string();
  };
  text("benchmark_report.csv",
       "Configuration setup\ntarget device;CPU\n\nExecution results\nlatency (ms);0.66\n"
       "avg latency;0.82\n");
  const std::string table =
      "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\r\n"
      "in;Status.NOT_RUN;Parameter;unknown_I8;7.000;0.000\r\n"
      "a;Status.EXECUTED;Convolution;brgconv_I8;0.250;0.250\r\n"
      "b;EXECUTED;Convolution;brgconv_I8;0.500;0.5\r\nTotal;;;;0.750;0.750\r\n\r\n";
  const auto of_lines = read(text("r.csv", table + table));
  ASSERT_TRUE(of_lines) << of_lines.error().message();
  for (const ForeignRun& one : {*of_json, *of_lines}) {
    ASSERT_EQ(one.layers.size(), 2u);
    EXPECT_EQ(one.layers[1].name, "b");
    EXPECT_EQ(one.layers[1].where, "brgconv_I8");
    EXPECT_EQ(one.layers[1].ms, 0.5);
    EXPECT_EQ(one.layer_sum_ms, 0.75);
    EXPECT_EQ(one.end_to_end_ms, 0.66);
    EXPECT_EQ(one.device, "CPU");
  }
  const auto refused = [&](const std::string& path) {
    const auto bad = read(path);
    return bad ? std::string("read") : bad.error().message();
  };
  const json first = {{"nodes", {node("in", "Status.NOT_RUN", "0.000")}}};
  EXPECT_NE(refused(Write("r.json", {{"avg_performance", first}})).find("take detailed_counters"),
            std::string::npos);
  const json slow = {{"nodes", {node("a", "Status.EXECUTED", "slow")}}};
  EXPECT_TRUE(refused(Write("r.json", {{"avg_performance", slow}}))
                  .ends_with("r.json: node 'a': real_time 'slow', expected a number"));
  EXPECT_TRUE(refused(text("r.csv", table.substr(0, 68) + "a;EXECUTED;Convolution;x;fast;1\n"))
                  .ends_with("r.csv: line 2: realTime 'fast', expected a number"));
  EXPECT_NE(refused(text("r.csv", "a;b\n")).find("no executed nodes; expected what benchmark_app"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
