// Engines of other versions and settings than those of the test data: the same layers, told
// differently, must give the same groups.
#include <gtest/gtest.h>

#include <functional>

#include "base/text.h"
#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Layer {
  const char* name;
  const char* type;  // LayerType
  double ms;
  const char *from, *to;  // formats of the first input and the output
};

// A residual network's beginning with Q/DQ on convolutions only: the residual and the pooling stay
// in float.
constexpr Layer kInt8[] = {
    {"/q/QuantizeLinear", "Reformat", 0.06, "Row major linear FP32",
     "Four wide channel vectorized row major Int8 format"},
    {"conv1.weight + /q1/QuantizeLinear + /conv1/Conv + /relu/Relu", "CaskConvolution", 0.20,
     "Four wide channel vectorized row major Int8 format",
     "Channel major FP16 format where channel % 8 == 0"},
    {"/maxpool/MaxPool", "CaskPooling", 0.09, "Channel major FP16 format where channel % 8 == 0",
     "Channel major FP16 format where channel % 8 == 0"},
    {"/q2/QuantizeLinear", "Reformat", 0.03, "Channel major FP16 format where channel % 8 == 0",
     "Thirty-two wide channel vectorized row major Int8 format"},
    {"w2 + /q3/QuantizeLinear + /layer1/conv1/Conv + /layer1/relu/Relu", "CaskConvolution", 0.04,
     "Thirty-two wide channel vectorized row major Int8 format",
     "Thirty-two wide channel vectorized row major Int8 format"},
    {"w3 + /q4/QuantizeLinear + /layer1/conv2/Conv + /layer1/Add + /layer1/relu_1/Relu",
     "CaskConvolution", 0.05, "Thirty-two wide channel vectorized row major Int8 format",
     "Channel major FP16 format where channel % 8 == 0"},
    {"/q5/QuantizeLinear", "Reformat", 0.02, "Channel major FP16 format where channel % 8 == 0",
     "Thirty-two wide channel vectorized row major Int8 format"},
    {"w4 + /q6/QuantizeLinear + /fc/Gemm", "CaskGemmConvolution", 0.01,
     "Thirty-two wide channel vectorized row major Int8 format", "Row major linear FP32"},
};

class Trtexec : public ProfileFiles {
 protected:
  // The files of an engine, changed by `change` before they are written.
  struct Files {
    json profile = json::array(), layers = json::array(), times = json::array();
    std::string profile_name = "profile.json", layers_name = "layers.json",
                times_name = "times.json";
  };
  Result<ForeignRun> Read(const std::function<void(Files&)>& change = nullptr) {
    Clear();
    Files f;
    f.profile.push_back({{"count", 100}});
    int i = 0;
    for (const Layer& layer : kInt8) {
      f.profile.push_back({{"name", layer.name},
                           {"timeMs", layer.ms * 100},
                           {"averageMs", layer.ms},
                           {"medianMs", layer.ms},
                           {"percentage", 10}});
      const auto tensor = [&](int at, const char* format) {
        return json{{"Name", fmt::format("t{}", at)},
                    {"Location", "Device"},
                    {"Dimensions", {1, 64, 56, 56}},
                    {"Format/Datatype", format}};
      };
      json object = {{"Name", layer.name},
                     {"LayerType", layer.type},
                     {"Inputs", {tensor(i, layer.from)}},
                     {"Outputs", {tensor(i + 1, layer.to)}},
                     {"TacticName", "sm80_xmma"},
                     {"StreamId", 0},
                     {"Metadata", ""}};
      f.layers.push_back(object);
      ++i;
    }
    for (double ms : {0.50, 0.40, 0.45})
      f.times.push_back(
          {{"latencyMs", ms + 0.1}, {"computeMs", ms}, {"h2dMs", 0.05}, {"d2hMs", 0.05}});
    if (change) change(f);
    const auto write = [&](const std::string& name, const json& value) {
      if (!value.is_null()) Write(name, value);
    };
    write(f.profile_name, f.profile);
    write(f.layers_name,
          f.layers.is_null() ? json() : json{{"Layers", f.layers}, {"Bindings", {"x", "y"}}});
    write(f.times_name, f.times);
    return Source("trtexec").read(folder_.string());
  }

  static void ExpectGroups(const Result<ForeignRun>& run) {
    ASSERT_TRUE(run) << run.error().message();
    // A classifier is a convolution to the engine, a Gemm by its name.
    EXPECT_NEAR(run->GroupMs(LayerGroup::kConv) + run->GroupMs(LayerGroup::kMatMul), 0.30, 1e-9);
    EXPECT_NEAR(run->GroupMs(LayerGroup::kReformatQdq), 0.11, 1e-9);
    EXPECT_NEAR(run->GroupMs(LayerGroup::kPooling), 0.09, 1e-9);
    EXPECT_NEAR(run->layer_sum_ms, 0.50, 1e-9);
  }

  static std::map<std::string, double> Lost(const ForeignRun& run,
                                            const ForeignRun* baseline = nullptr) {
    return LostBy(Diagnose(run, baseline));
  }
};

TEST_F(Trtexec, Detailed) {
  const auto run = Read();
  ExpectGroups(run);
  EXPECT_NEAR(run->end_to_end_ms, 0.55, 1e-9);
  const auto lost = Lost(*run);
  EXPECT_NEAR(lost.at("residual-not-quantized"), 0.02, 1e-9);
  EXPECT_NEAR(lost.at("pooling-in-float"), 0.045 + 0.03, 1e-9);
  EXPECT_NEAR(lost.at("input-conversion"), 0.06, 1e-9);
}

TEST_F(Trtexec, NamesOnly) {
  const auto run = Read([](Files& f) {
    for (json& layer : f.layers) layer = layer["Name"];
  });
  ExpectGroups(run);
  EXPECT_FALSE(run->detailed);
  const auto lost = Lost(*run);
  EXPECT_NEAR(lost.at("residual-not-quantized"), 0.02, 1e-9);
  EXPECT_TRUE(lost.count("pooling-in-float"));
}

TEST_F(Trtexec, ProfileAlone) {
  const auto run = Read([](Files& f) { f.layers = f.times = nullptr; });
  ExpectGroups(run);
  EXPECT_EQ(run->end_to_end_ms, 0);
  EXPECT_TRUE(Lost(*run).count("residual-not-quantized"));
}

TEST_F(Trtexec, NoAverages) {
  ExpectGroups(Read([](Files& f) {
    for (size_t i = 1; i < f.profile.size(); ++i) {
      f.profile[i].erase("averageMs");
      f.profile[i].erase("medianMs");
    }
  }));
}

TEST_F(Trtexec, FileNamesWithoutExtensionAndOthersBeside) {
  ExpectGroups(Read([this](Files& f) {
    f.profile_name = "prof";
    f.layers_name = "layer_info.txt";
    ASSERT_TRUE(WriteFileAtomic(At("engine.plan"), std::string("\x01\x02 no json")));
    ASSERT_TRUE(WriteFileAtomic(At("build.txt"), std::string("[I] === Model Options ===")));
    ASSERT_TRUE(
        WriteFileAtomic(At("metadata.json"),
                        std::string("{\"device_information\": {\"Selected Device\": \"L4\"}}")));
  }));
}

// TensorRT 9 and newer give layers names of their own and tell the ONNX layers in Metadata.
TEST_F(Trtexec, NamesInMetadata) {
  const auto run = Read([](Files& f) {
    for (size_t i = 0; i < f.layers.size(); ++i) {
      json& layer = f.layers[i];
      std::string metadata;
      for (std::string rest = layer["Name"]; !rest.empty();) {
        const size_t end = std::min(rest.find(" + "), rest.size());
        metadata +=
            (metadata.empty() ? "" : "\x1e") + ("[ONNX Layer: " + rest.substr(0, end) + "]");
        rest = end + 3 < rest.size() ? rest.substr(end + 3) : "";
      }
      layer["Metadata"] = metadata;
      layer["Name"] = f.profile[i + 1]["name"] = fmt::format("__myl_Fus_{}", i);
      layer["LayerType"] = "kgen";
    }
  });
  ExpectGroups(run);
  EXPECT_NEAR(Lost(*run).at("residual-not-quantized"), 0.02, 1e-9);
}

// Newer files tell format and type apart; FP8 narrows as int8 does.
TEST_F(Trtexec, FormatAndDatatypeApart) {
  for (const char* narrow : {"Int8", "FP8"}) {
    const auto run = Read([&](Files& f) {
      for (json& layer : f.layers) {
        for (const char* side : {"Inputs", "Outputs"}) {
          json& tensor = layer[side][0];
          const std::string format = tensor["Format/Datatype"];
          tensor.erase("Format/Datatype");
          tensor["Format"] = "N/C/H/W linear";
          tensor["Datatype"] = format.find("Int8") != std::string::npos   ? narrow
                               : format.find("FP16") != std::string::npos ? "Half"
                                                                          : "Float";
        }
      }
    });
    ExpectGroups(run);
    EXPECT_TRUE(run->quantized()) << narrow;
    EXPECT_NEAR(Lost(*run).at("residual-not-quantized"), 0.02, 1e-9) << narrow;
  }
}

// With several streams the runs of all streams are in one list, and layers on them in one profile.
TEST_F(Trtexec, SeveralStreams) {
  const auto run = Read([](Files& f) {
    json times = json::array();
    for (const json& t : f.times) {
      for (int stream = 0; stream < 2; ++stream) times.push_back(t);
    }
    f.times = times;
    for (size_t i = 0; i < f.layers.size(); ++i) f.layers[i]["StreamId"] = i % 2;
  });
  ExpectGroups(run);
  EXPECT_NEAR(run->end_to_end_ms, 0.55, 1e-9);
}

TEST_F(Trtexec, TimesWithoutTransfers) {
  const auto run = Read([](Files& f) {
    for (json& t : f.times) t = {{"computeMs", t["computeMs"]}};
  });
  ExpectGroups(run);
  EXPECT_NEAR(run->end_to_end_ms, 0.45, 1e-9);
}

// A layer of the profile that the layer information lacks counts by its name; the reverse is
// nothing.
TEST_F(Trtexec, LayersInOneFileOnly) {
  const auto run = Read([](Files& f) {
    f.profile.push_back(
        {{"name", "Reformatting CopyNode for Input Tensor 0 to /fc/Gemm"}, {"averageMs", 0.5}});
    f.layers.push_back({{"Name", "never ran"}, {"LayerType", "CaskConvolution"}});
    f.layers.push_back(nullptr);
  });
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_NEAR(run->GroupMs(LayerGroup::kReformatQdq), 0.61, 1e-9);
  EXPECT_EQ(run->layers.size(), 9);
}

TEST_F(Trtexec, Float32Baseline) {
  const auto int8 = Read();
  const auto fp32 = Read([](Files& f) {
    json profile = json::array({f.profile[0]}), layers = json::array();
    for (size_t i = 0; i < f.layers.size(); ++i) {
      if (f.layers[i]["LayerType"] == "Reformat") continue;
      for (const char* side : {"Inputs", "Outputs"})
        f.layers[i][side][0]["Format/Datatype"] = "Row major linear FP32";
      f.profile[i + 1]["averageMs"] = 4 * f.profile[i + 1]["averageMs"].get<double>();
      profile.push_back(f.profile[i + 1]);
      layers.push_back(f.layers[i]);
    }
    f.profile = profile;
    f.layers = layers;
  });
  ASSERT_TRUE(int8 && fp32);
  const Diagnosis diagnosis = Diagnose(*int8, &*fp32);
  EXPECT_NEAR(diagnosis.ideal_ms, fp32->layer_sum_ms / 4, 1e-9);
  double sum = diagnosis.ideal_ms + diagnosis.below_ideal_ms;
  for (const Finding& f : diagnosis.findings) sum += f.ms;
  EXPECT_NEAR(sum, int8->layer_sum_ms, 1e-9);
  EXPECT_TRUE(Diagnose(*fp32, nullptr).findings.empty());
}

TEST_F(Trtexec, MergedNames) {
  EXPECT_EQ(GroupOf("", "/a/Relu || /b/conv/Conv"), LayerGroup::kConv);
  EXPECT_EQ(GroupOf("", "/branch_conv/Relu || /branch_conv/Add"), LayerGroup::kElementwise);
  EXPECT_EQ(GroupOf("", "{ForeignNode[/a/Conv.../b/Add]}"), LayerGroup::kOther);
  EXPECT_EQ(GroupOf("", "/a/Cast_3"), LayerGroup::kReformatQdq);
  EXPECT_EQ(OperatorsIn("/a/Conv || /b/Conv + /b/Relu"),
            (std::vector<std::string>{"/a/Conv", "/b/Conv", "/b/Relu"}));
  EXPECT_EQ(OperatorsIn("one"), std::vector<std::string>{"one"});
}

// What a layer is for is told by its type, whatever its operators are called. The types are
// nvinfer1::LayerType's and those of kernels that stand for several of them.
TEST_F(Trtexec, TheTypeWinsOverTheName) {
  using G = LayerGroup;
  const std::map<G, std::vector<const char*>> types = {
      {G::kConv,
       {"Convolution", "CaskConvolution", "CaskGemmConvolution", "CudaDepthwiseConvolution",
        "CaskConvActPool", "ConvActPool", "conv_act_pool", "FusedConvActConvolution", "CaskJitConv",
        "CaskDeconvolutionV2", "DECONVOLUTION", "deconv", "correlation"}},
      {G::kPooling,
       {"Pooling", "CaskPooling", "TiledPooling", "CudaPooling", "PoolingV2", "maxpool",
        "avgpool"}},
      {G::kMatMul,
       {"MatrixMultiply", "MATRIX_MULTIPLY", "CaskGemmMatrixMultiply", "FullyConnected", "gemm",
        "fc", "_gemm_mha_v2", "Einsum"}},
      {G::kElementwise,
       {"ElementWise", "PointWise", "PointWiseV2", "Activation", "Scale", "Unary", "ParametricRelu",
        "PARAMETRIC_RELU", "Select"}},
      {G::kReformatQdq, {"Reformat", "Cast", "Quantize", "Dequantize", "DynamicQuantize"}},
      {G::kOther,
       {"Shuffle",
        "Slice",
        "Concatenation",
        "Softmax",
        "SoftMax",
        "CaskSoftMaxV2",
        "RaggedSoftMax",
        "Reduce",
        "TopK",
        "Gather",
        "Resize",
        "Padding",
        "Constant",
        "Identity",
        "Shape",
        "Fill",
        "Scatter",
        "NMS",
        "NonZero",
        "OneHot",
        "GridSample",
        "ReverseSequence",
        "Normalization",
        "Squeeze",
        "Unsqueeze",
        "Cumulative",
        "LRN",
        "NoOp",
        "Assertion",
        "TripLimit",
        "Recurrence",
        "Iterator",
        "LoopOutput",
        "Condition",
        "ConditionalInput",
        "ConditionalOutput",
        "shape_call",
        "wait",
        "signal"}},
  };
  for (const auto& [group, names] : types) {
    for (const char* type : names) {
      for (const char* name : {"model/conv1/Conv2D__6", "model/conv1/BiasAdd", "pool1 + MaxPool_3",
                               "MatMul_4 + Add_5", "/q/QuantizeLinear", ""})
        EXPECT_EQ(GroupOf(type, name), group) << type << " " << name;
    }
  }
  // Types that hold a word of another group.
  EXPECT_EQ(GroupOf("Broadcast", "a"), G::kOther);
  EXPECT_EQ(GroupOf("ConvertLike", "a"), G::kReformatQdq);
  EXPECT_EQ(GroupOf("ReduceSumSquare", "a"), G::kOther);
  EXPECT_EQ(GroupOf("QLinearConcat", "a"), G::kOther);
  EXPECT_EQ(GroupOf("DynamicQuantizeMatMul", "a"), G::kMatMul);
  EXPECT_EQ(GroupOf("QLinearGlobalAveragePool", "a"), G::kPooling);
  EXPECT_EQ(GroupOf("NoOp", "Reformatting CopyNode for Input Tensor 0 to Conv_8 + Relu_9"),
            G::kReformatQdq);
  // Generated code, foreign code and types that nobody knows say nothing.
  for (const char* type : {"", "kgen", "Myelin", "PluginV3", "a new one"}) {
    EXPECT_EQ(GroupOf(type, "model/conv1/Conv2D"), G::kConv) << type;
    EXPECT_EQ(GroupOf(type, "Relu_3"), G::kElementwise) << type;
  }
}

// With the layer information, as from the profile alone: a convolution that ends in pooling is a
// convolution. Transposes that an exporter named after what they stand beside are neither
// convolutions nor sums, and have no residual.
TEST_F(Trtexec, GroupsByTypeInFiles) {
  const auto rename = [](Files& f, size_t i, const char* name, const char* type,
                         const char* parameter_type) {
    f.layers[i]["Name"] = f.profile[i + 1]["name"] = name;
    f.layers[i]["LayerType"] = type;
    f.layers[i]["ParameterType"] = parameter_type;
  };
  for (const bool told : {true, false}) {
    const auto run = Read([&](Files& f) {
      rename(f, 1, "/conv1/Conv + /relu/Relu + /maxpool/MaxPool", "CaskConvActPool",
             "Pooling");                                            // 0.20 ms
      rename(f, 4, "/c2/Conv + /p2/MaxPool", "conv_act_pool", "");  // 0.04
      if (!told) f.layers = nullptr;
    });
    ASSERT_TRUE(run) << run.error().message();
    EXPECT_NEAR(run->GroupMs(LayerGroup::kConv) + run->GroupMs(LayerGroup::kMatMul), 0.30, 1e-12)
        << told;
    EXPECT_NEAR(run->GroupMs(LayerGroup::kPooling), 0.09, 1e-12) << told;
  }
  const auto run = Read([&](Files& f) {
    rename(f, 4, "model/conv1/Conv2D__6", "Shuffle", "Shuffle");    // 0.04
    rename(f, 5, "model/conv1/BiasAdd__12", "Shuffle", "Shuffle");  // 0.05
    rename(f, 7, "model/conv2/Conv2D + model/conv2/BiasAdd", "CaskConvolution", "Convolution");
    f.layers[6]["Origin"] = "QDQ";
    f.layers[6]["LayerType"] = "Scale";  // 0.02, as engines before 8.2 say
    rename(f, 2, "__myl_3", "kgen",
           "Pooling");  // 0.09, generated: what it is for says more than what it is
  });
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_NEAR(run->GroupMs(LayerGroup::kConv), 0.20 + 0.01, 1e-12);
  EXPECT_NEAR(run->GroupMs(LayerGroup::kElementwise), 0, 1e-12);
  EXPECT_NEAR(run->GroupMs(LayerGroup::kOther), 0.09, 1e-12);
  EXPECT_NEAR(run->GroupMs(LayerGroup::kPooling), 0.09, 1e-12);
  EXPECT_NEAR(run->GroupMs(LayerGroup::kReformatQdq), 0.11, 1e-12);
  EXPECT_EQ(run->layers[6].conversion, Conversion::kQuantize);
  for (const ForeignLayer& layer : run->layers) EXPECT_FALSE(layer.has_residual) << layer.name;
}

// The fields of a layer that pairing goes by, and bytes of its weights.
TEST_F(Trtexec, WeightsAndKernels) {
  const auto run = Read([](Files& f) {
    f.layers[1]["Weights"] = {{"Type", "Int8"}, {"Count", 9408}};
    f.layers[1]["Bias"] = {{"Type", "Float"}, {"Count", 64}};
    f.layers[1]["Kernel"] = {7, 7};
    f.layers[2]["WindowSize"] = {3, 2};
    f.layers[4]["Weights"] = {{"Type", "Half"}, {"Count", 1e300}};
    f.layers[4]["Inputs"].push_back(f.layers[4]["Inputs"][0]);
    f.layers[5]["Weights"] = {{"Type", "Half"}, {"Count", -4}};
    f.layers[5]["Metadata"] = "[ONNX Layer: /a/Conv]\x1e[ONNX Layer: /b/Relu]";
  });
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->layers[1].weight_count, 9408);
  EXPECT_EQ(run->layers[1].weight_bytes, 9408 + 4 * 64);
  EXPECT_EQ(run->layers[1].kernel, (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(run->layers[1].precision, "int8");
  EXPECT_EQ(run->layers[1].operators,
            (std::vector<std::string>{"conv1.weight", "/q1/QuantizeLinear", "/conv1/Conv",
                                      "/relu/Relu"}));
  EXPECT_EQ(run->layers[2].kernel, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(run->layers[4].weight_count, 0);
  EXPECT_EQ(run->layers[4].precision, "fp16") << "the weights', not the input's";
  EXPECT_EQ(run->layers[2].precision, "fp16") << "the input's, without weights";
  EXPECT_TRUE(run->layers[4].has_residual) << "two inputs";
  EXPECT_EQ(run->layers[5].weight_bytes, 0);
  EXPECT_EQ(run->layers[5].operators, (std::vector<std::string>{"/a/Conv", "/b/Relu"}));
  EXPECT_EQ(run->weight_bytes, 9408 + 4 * 64);
}

// Behind a pooling in float: the reformat that it reads, the one behind it and the quantization
// behind that belong to it, by tensors, wherever they run; a reformat that runs just before it for
// another layer does not. Its excess over the same pooling of the baseline counts where that is
// more than what 8 bits would save.
TEST_F(Trtexec, PoolingInFloatByHand) {
  const auto layer = [](const char* name, const char* type, double ms, const char* from,
                        const char* from_format, const char* to, const char* to_format) {
    return json{
        {"Name", name},
        {"LayerType", type},
        {"ms", ms},
        {"Inputs",
         {{{"Name", from}, {"Dimensions", {1, 64, 56, 56}}, {"Format/Datatype", from_format}}}},
        {"Outputs",
         {{{"Name", to}, {"Dimensions", {1, 64, 28, 28}}, {"Format/Datatype", to_format}}}}};
  };
  const auto read = [&](const std::vector<json>& layers) {
    return Read([&](Files& f) {
      f.profile = json::array({{{"count", 1}}});
      f.layers = layers;
      for (const json& l : layers)
        f.profile.push_back({{"name", l["Name"]}, {"averageMs", l["ms"]}});
    });
  };
  const auto int8 = read({layer("conv", "CaskConvolution", 0.5, "x", "Int8", "a", "Half"),
                          layer("in", "Reformat", 0.03, "a", "Half", "b", "Float"),
                          layer("aside", "Reformat", 0.07, "x", "Half", "z", "Float"),
                          layer("pool", "TiledPooling", 0.2, "b", "Float", "c", "Float"),
                          layer("late", "CaskConvolution", 0.5, "x", "Int8", "k", "Int8"),
                          layer("out", "Reformat", 0.02, "c", "Float", "d", "Half"),
                          layer("q", "Reformat", 0.01, "d", "Half", "e", "Int8"),
                          layer("end", "CaskConvolution", 0.5, "e", "Int8", "y", "Int8")});
  ASSERT_TRUE(int8) << int8.error().message();
  const auto pooling = [&](const ForeignRun* baseline) {
    return Lost(*int8, baseline).at("pooling-in-float");
  };
  EXPECT_NEAR(pooling(nullptr), 0.75 * 0.2 + 0.03 + 0.02 + 0.01, 1e-12);
  EXPECT_NEAR(Lost(*int8).at("reformat-copies"), 0.07, 1e-12);
  const auto fast = read({layer("pool", "CaskPooling", 0.04, "a", "Half", "b", "Half")}),
             slow = read({layer("pool", "CaskPooling", 0.06, "a", "Half", "b", "Half")});
  ASSERT_TRUE(fast && slow);
  EXPECT_NEAR(pooling(&*fast), 0.16 + 0.06, 1e-12)
      << "0.2 - 0.04 is more than three quarters of 0.2";
  EXPECT_NEAR(pooling(&*slow), 0.15 + 0.06, 1e-12) << "0.2 - 0.06 is less";
  // Two of that size in the baseline, of which neither is known to be the one.
  const auto two = read({layer("p1", "CaskPooling", 0.01, "a", "Half", "b", "Half"),
                         layer("p2", "CaskPooling", 0.01, "a", "Half", "c", "Half")});
  ASSERT_TRUE(two);
  EXPECT_NEAR(pooling(&*two), 0.15 + 0.06, 1e-12);
}

// TensorRT 10 fuses the conversion of a result into the layer that computes it, and names the layer
// after kernels: what it computes counts, not the words in its name.
TEST_F(Trtexec, ConversionsFusedIntoWhatComputes) {
  const auto group = [&](const std::string& metadata) {
    Clear();
    const std::string name = "__myl_CastMulMeanSub_myl0_0";
    Write("profile.json", {{{"count", 10}}, {{"name", name}, {"averageMs", 0.03}}});
    Write("layers.json",
          {{"Layers",
            json::array({{{"Name", name},
                          {"LayerType", "kgen"},
                          {"Inputs", json::array({{{"Name", "a"}, {"Format/Datatype", "Half"}}})},
                          {"Outputs", json::array({{{"Name", "b"}, {"Format/Datatype", "Int8"}}})},
                          {"Metadata", metadata}}})},
           {"Bindings", json::array()}});
    const auto run = Source("trtexec").read(folder_.string());
    EXPECT_TRUE(run) << run.error().message();
    return LayerGroupName(run->layers[0].group) + std::string(", ") +
           std::to_string(Lost(*run).size());
  };
  EXPECT_EQ(group("[ONNX Layer: /norm1/LayerNormalization]\x1f[ONNX Layer: /attn/QuantizeLinear]"),
            "other, 0");
  EXPECT_EQ(group("[ONNX Layer: /act/Relu]\x1f[ONNX Layer: /QuantizeLinear]"), "elementwise, 0");
  EXPECT_EQ(group("[ONNX Layer: /proj/QuantizeLinear]\x1f[ONNX Layer: /proj/Cast]"),
            "reformat_qdq, 1");
}

// The console's table where there is no profile file: of newer versions, of older ones without a
// median, and with the layer first.
TEST_F(Trtexec, ConsoleLogs) {
  const auto log = [](const std::string& table) {
    return "&&&& RUNNING TensorRT.trtexec\n[I] === Profile (100 iterations ) ===\n" + table +
           "\n[11/20/2025-10:00:00] [I] === Performance summary ===\n"
           "[11/20/2025-10:00:00] [I] Throughput: 4900 qps\n"
           "[11/20/2025-10:00:00] [I] Latency: min = 0.2 ms, max = 0.4 ms, mean = 0.3 ms, median = "
           "0.25 ms, percentile(99%) = 0.4 ms\n"
           "[11/20/2025-10:00:00] [I] H2D Latency: min = 1 ms, max = 1 ms, median = 1 ms\n";
  };
  const auto expect = [&](const std::string& text) {
    Clear();
    EXPECT_TRUE(WriteFileAtomic(At("trtexec.log"), text));
    for (const std::string& path : {folder_.string(), At("trtexec.log")}) {
      const auto run = Source("trtexec").read(path);
      ASSERT_TRUE(run) << run.error().message();
      ASSERT_EQ(run->layers.size(), 2u);
      EXPECT_EQ(run->layers[0].name, "conv1 + relu");
      EXPECT_EQ(run->layers[0].group, LayerGroup::kConv);
      EXPECT_NEAR(run->layers[0].ms, 0.2, 1e-12);
      EXPECT_NEAR(run->GroupMs(LayerGroup::kReformatQdq), 0.1, 1e-12);
      EXPECT_NEAR(run->end_to_end_ms, 0.25, 1e-12);
    }
  };
  expect(
      log("[11/20/2025-10:00:00] [I]    Time(ms)  Avg.(ms)  Median(ms)  Time(%)   Layer\n"
          "[11/20/2025-10:00:00] [I]      20.0     0.2000      0.1990     66.7   conv1 + relu\n"
          "[11/20/2025-10:00:00] [I]      10.0     0.1000      0.0990     33.3   Reformatting "
          "CopyNode for Input Tensor 0 to conv1\n"
          "[11/20/2025-10:00:00] [I]      30.0     0.3000      0.2980    100.0   Total"));
  expect(
      log("[I]  Time (ms)  Avg. Time (ms)  Time %  Layer\n[I]  20.0  0.2  66.7  conv1 + relu\n"
          "[I]  10.0  0.1  33.3  q/QuantizeLinear\n[I]  30.0  0.3  100.0  Total"));
  expect(
      log("[I]  Layer  Time (ms)  Avg. Time (ms)  Time %\n[I]  conv1 + relu  20.0  0.2  66.7\n"
          "[I]  q/QuantizeLinear  10.0  0.1  33.3\n[I]  Total  30.0  0.3  100.0"));
  // A file of its own is more exact, and a log without a table is none.
  const auto both = [&] {
    Clear();
    Write("profile.json", {{{"count", 10}}, {{"name", "a"}, {"averageMs", 7}}});
    EXPECT_TRUE(WriteFileAtomic(
        At("a.log"), log("[I] Time(ms) Avg.(ms) Time(%) Layer\n[I] 20 0.2 100 conv1\n")));
    return Source("trtexec").read(folder_.string());
  }();
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(both->layers[0].name, "a");
  Clear();
  EXPECT_TRUE(WriteFileAtomic(At("a.log"), std::string("[I] === Profile (9 iterations ) ===\n")));
  const auto none = Source("trtexec").read(At("a.log"));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("nor a log with the table"), std::string::npos);
  const std::string negative =
      log("[I]  Time(ms)  Avg.(ms)  Time(%)  Layer\n"
          "[I]  20.0  -0.2  66.7  conv1\n[I]  20.0  0.2  100.0  Total");
  EXPECT_TRUE(WriteFileAtomic(At("a.log"), negative));
  const auto refused = Source("trtexec").read(At("a.log"));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("averageMs is missing or negative"), std::string::npos);
}

// Layers with brackets around their names are no severities of lines.
TEST_F(Trtexec, NamesInBracketsInLogs) {
  const auto names = [&](const std::string& table) {
    EXPECT_TRUE(WriteFileAtomic(
        At("a.log"), "[11/20/2025-10:00:00] [I] === Profile (100 iterations ) ===\n" + table));
    const auto run = Source("trtexec").read(At("a.log"));
    EXPECT_TRUE(run) << run.error().message();
    std::vector<std::string> names;
    for (const ForeignLayer& layer : run ? run->layers : std::vector<ForeignLayer>())
      names.push_back(layer.name);
    if (run) EXPECT_NEAR(run->layer_sum_ms, 0.6, 1e-12);
    return names;
  };
  const std::vector<std::string> expected = {"[HostToDeviceCopy 0]", "a/Conv", "[trainStation1]"};
  EXPECT_EQ(names("[11/20/2025-10:00:00] [I]  Time(ms)  Avg.(ms)  Median(ms)  Time(%)   Layer\n"
                  "[11/20/2025-10:00:00] [I]  10.0  0.1000  0.1  16.7   [HostToDeviceCopy 0]\n"
                  "[11/20/2025-10:00:00] [I]  20.0  0.2000  0.2  33.3   a/Conv\n"
                  "[11/20/2025-10:00:00] [I]  30.0  0.3000  0.3  50.0   [trainStation1]\n"
                  "[11/20/2025-10:00:00] [I]  60.0  0.6000  0.6  100.0   Total\n"),
            expected);
  EXPECT_EQ(names("[I]  Layer  Time (ms)  Avg. Time (ms)  Time %\n"
                  "[I]  [HostToDeviceCopy 0]  10.0  0.1  16.7\n[I]  a/Conv  20.0  0.2  33.3\n"
                  "[I]  [trainStation1]  30.0  0.3  50.0\n[I]  Total  60.0  0.6  100.0\n"),
            expected);
}

// A table that stops before its row Total would tell of a part of the time as of the whole.
TEST_F(Trtexec, CutLogs) {
  const std::string head =
      "[I] === Profile (100 iterations ) ===\n[I] Time(ms) Avg.(ms) Time(%) Layer\n";
  const auto error = [&](const std::string& rows) {
    EXPECT_TRUE(WriteFileAtomic(At("a.log"), head + rows));
    const auto run = Source("trtexec").read(At("a.log"));
    return run ? std::string() : run.error().message();
  };
  EXPECT_EQ(error("[I] 20 0.2 50 conv1\n[I] 20 0.2 50 conv2\n[I] 40 0.4 100 Total\n"), "");
  EXPECT_TRUE(error("[I] 20 0.2 50 conv1\n")
                  .ends_with("a.log: the table of --dumpProfile is cut: the log ends within it"));
  EXPECT_TRUE(
      error("[I] 20 0.2 50 conv1\n[I] 20 0,2 50 conv2\n[I] 40 0.4 100 Total\n")
          .ends_with("line 4: '20 0,2 50 conv2', expected 3 numbers and a layer, or the row "
                     "Total"));
  EXPECT_NE(error("[I] 20,0 0,2 50 conv1\n[I] 40 0.4 100 Total\n").find("line 3: "),
            std::string::npos);
}

TEST_F(Trtexec, OneFileOfEachKind) {
  Write("profile.json", {{{"count", 10}}, {{"name", "a"}, {"averageMs", 7}}});
  Write("times.json", {{{"latencyMs", 7.5}}});
  Write("times2.json", {{{"latencyMs", 3}}});
  const auto run = Source("trtexec").read(folder_.string());
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message().find("times2.json: a second file of times beside "),
            std::string::npos)
      << run.error().message();
}

TEST_F(Trtexec, BadFiles) {
  const auto error = [](const Result<ForeignRun>& run) {
    return run ? std::string("read") : run.error().message();
  };
  EXPECT_NE(error(Read([](Files& f) { f.profile = nullptr; })).find("no profile among"),
            std::string::npos);
  EXPECT_NE(error(Read([](Files& f) { f.profile[3].erase("name"); })).find("entry 3 has no name"),
            std::string::npos);
  EXPECT_NE(error(Read([](Files& f) {
              f.profile[2] = {{"name", "a"}, {"averageMs", -1}};
            })).find("averageMs is missing or negative"),
            std::string::npos);
  EXPECT_NE(error(Read([](Files& f) {
              f.profile = json::array({f.profile[0]});
            })).find("no layer behind"),
            std::string::npos);
  EXPECT_NE(error(Read([](Files& f) { f.times = f.profile; })).find("a second profile beside"),
            std::string::npos);
}

}  // namespace
}  // namespace evoq
