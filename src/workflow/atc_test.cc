// The options of atc: what each makes of a model, and how wrong ones are named.
#include "workflow/atc.h"

#include "workflow/deployment_testing.h"

namespace evoq {
namespace {

class AtcTest : public DeploymentTest {
 protected:
  evoq::Model Made(AtcOptions options) {
    options.model = At("in.onnx");
    options.output = At("out");
    const auto job = AtcJob(options);
    EXPECT_TRUE(job) << job.error().message();
    if (!job) return {};
    const auto done = Compile(*job);
    EXPECT_TRUE(done) << done.error().message();
    auto model = ReadEtm(At("out.om"));
    EXPECT_TRUE(model) << model.error().message();
    return model ? std::move(*model) : evoq::Model();
  }
  std::string Said(AtcOptions options) {
    options.output = "out";
    const auto job = AtcJob(options);
    EXPECT_FALSE(job);
    return job ? "" : job.error().message();
  }
};

TEST_F(AtcTest, LevelsAndSwitches) {
  EXPECT_TRUE(OpsOf(Made({.optimization_level = 0}).graph).contains("BatchNormalization"));
  EXPECT_FALSE(OpsOf(Made({.optimization_level = 2}).graph).contains("BatchNormalization"));
  const std::string file = Text("switch.json", R"({"Switch": {"GraphFusion": {
      "ConvBatchnormFusionPass": "off", "ALL": "on", "UnknownPass": "off"}}})");
  EXPECT_TRUE(OpsOf(Made({.fusion_switch_file = file}).graph).contains("BatchNormalization"));
  const auto job = AtcJob({.output = "x", .fusion_switch_file = file, .soc_version = "S"});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->deployment->notes.size(), 2);
  const std::string bad = Text("bad.json", R"({"Switch": {"GraphFusion": {"ALL": 1}}})");
  EXPECT_NE(Said({.fusion_switch_file = bad}).find("expected {\"Switch\""), std::string::npos);
}

TEST_F(AtcTest, Shapes) {
  const evoq::Model fixed = Made({.input_shape = "x:2,8,16,16"});
  EXPECT_EQ(fixed.graph.value(fixed.graph.inputs()[0]).type.shape.ToString(), "[2, 8, 16, 16]");
  const evoq::Model gears = Made({.input_shape = "x:-1,8,16,16", .dynamic_batch_size = "1,4"});
  ASSERT_EQ(gears.plans.size(), 2);
  EXPECT_EQ(gears.plans[1].shapes, (InputShapes{{"x", {4, 8, 16, 16}}}));
  const auto job = AtcJob(
      {.output = "o", .input_shape = "a:b:1,3,-1,-1;c:5", .dynamic_image_size = "8,9;16,17"});
  ASSERT_TRUE(job) << job.error().message();
  ASSERT_EQ(job->deployment->shapes.size(), 2);
  EXPECT_EQ(job->deployment->shapes[1], (InputShapes{{"a:b", {1, 3, 16, 17}}, {"c", {5}}}));
  EXPECT_NE(Said({.input_shape = "x:1,0"}).find("'0', expected a size"), std::string::npos);
  EXPECT_NE(Said({.input_shape = "1,2"}).find("expected NAME:"), std::string::npos);
  EXPECT_NE(Said({.input_shape = "x:1,2", .dynamic_batch_size = "1,2"}).find("0 sizes of -1"),
            std::string::npos);
  EXPECT_NE(Said({.dynamic_batch_size = "1", .dynamic_dims = "1"}).find("exclude each other"),
            std::string::npos);
}

TEST_F(AtcTest, Outputs) {
  const evoq::Model model = Made({.out_nodes = "pool:0;h"});
  ASSERT_EQ(model.graph.outputs().size(), 2);
  EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).name, "f");
  EXPECT_EQ(model.graph.value(model.graph.outputs()[1]).name, "h");
  EXPECT_FALSE(OpsOf(model.graph).contains("Add"));
  for (const char* wrong : {"poll:0", "pool:1", "x", "pool:"}) {
    const auto job = AtcJob({.model = At("in.onnx"), .output = At("o"), .out_nodes = wrong});
    ASSERT_TRUE(job);
    const auto done = Compile(*job);
    ASSERT_FALSE(done) << wrong;
    EXPECT_NE(done.error().message().find(fmt::format("no node computes '{}'", wrong)),
              std::string::npos)
        << done.error().message();
  }
  const auto job = AtcJob({.model = At("in.onnx"), .output = At("o"), .out_nodes = "poll:0"});
  EXPECT_NE(Compile(*job).error().message().find("the nearest is 'pool:0'"), std::string::npos);
}

TEST_F(AtcTest, ImagesOfBytes) {
  ASSERT_TRUE(ExportOnnx(Parsed("graph g\ninput %image: float32[\"N\", 3, 2, 3]\n"
                                "n: %y: float32[\"N\", 3, 2, 3] = Neg(%image)\noutput %y\n"),
                         At("image.onnx")));
  const std::string file = Text("aipp.cfg", R"(# of an image of 4 x 4
aipp_op { aipp_mode: static, input_format : RGB888_U8
  src_image_size_w: 4
  src_image_size_h: 4
  crop: true
  load_start_pos_w: 1
  load_start_pos_h: 2
  rbuv_swap_switch: true
  mean_chn_0: 10
  min_chn_0: 2
  mean_chn_1: 20
  var_reci_chn_2: 0.5
})");
  const auto job =
      AtcJob({.model = At("image.onnx"), .output = At("image"), .insert_op_conf = file});
  ASSERT_TRUE(job) << job.error().message();
  const auto done = Compile(*job);
  ASSERT_TRUE(done) << done.error().message();
  auto engine = LoadEngine(At("image.om"), {.threads = 1});
  ASSERT_TRUE(engine) << engine.error().message();
  Tensor x = Tensor::Allocate(TensorType(DType::kUint8, Shape{1, 4, 4, 3}));
  for (int i = 0; i < 48; ++i) x.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(5 * i);
  const auto y = (*engine)->Run({&x, 1});
  ASSERT_TRUE(y) << y.error().message();
  const float offset[] = {12, 20, 0}, factor[] = {1, 1, 0.5f};
  for (int c = 0; c < 3; ++c) {
    for (int h = 0; h < 2; ++h) {
      for (int w = 0; w < 3; ++w) {
        const auto byte = static_cast<float>(5 * (((h + 2) * 4 + w + 1) * 3 + 2 - c));
        EXPECT_EQ((*y)[0].values<float>()[(c * 2 + h) * 3 + w], -(byte - offset[c]) * factor[c]);
      }
    }
  }
  // Batches to prepare for, named as the model's: images of bytes.
  const auto batches = AtcJob({.model = At("image.onnx"),
                               .output = At("batches"),
                               .input_shape = "image:-1,3,2,3",
                               .dynamic_batch_size = "1,4",
                               .insert_op_conf = file});
  ASSERT_TRUE(batches) << batches.error().message();
  const auto made = Compile(*batches);
  ASSERT_TRUE(made) << made.error().message();
  const auto model = ReadEtm(At("batches.om"));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ(model->plans.size(), 2);
  EXPECT_EQ(model->plans[1].shapes, (InputShapes{{"image", {4, 4, 4, 3}}}));

  const std::pair<const char*, const char*> wrong[] = {
      {"", "the end of the file, expected aipp_op"},
      {"aipp_op {\n mean_chn_0 1\n}", "line 2: '1', expected ':'"},
      {"aipp_op { aipp_mode: static input_format: RGB888_U8\n means_chn_0: 1 }",
       "line 2: there is no 'means_chn_0'; the nearest is mean_chn_0"},
      {"aipp_op { aipp_mode: static input_format: RGB888_U8\n mean_chn_0: x }",
       "line 2: mean_chn_0: 'x', expected a number"},
      {"aipp_op { crop: true crop: true }", "expected each name once"},
      {"aipp_op { aipp_mode: dynamic }", "aipp_mode 'dynamic'"},
      {"aipp_op { aipp_mode: static input_format: YUV420SP_U8 }", "input_format 'YUV420SP_U8'"},
      {"aipp_op { aipp_mode: static input_format: RGB888_U8 csc_switch: true }", "csc_switch"}};
  for (const auto& [text, said] : wrong) {
    const auto read = ReadAipp(Text("bad.cfg", text));
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().message().find(said), std::string::npos) << read.error().message();
  }
  Graph graph = Parsed(kDeployedModel);
  std::vector<InputShapes> sets;
  EXPECT_NE(
      InsertAipp({}, graph, sets).error().message().find("expected float32[N, 3, height, width]"),
      std::string::npos);
  EXPECT_NE(InsertAipp({.input = 1}, graph, sets).error().message().find("has 1 inputs"),
            std::string::npos);
}

TEST_F(AtcTest, Precision) {
  const auto narrow = [&](const char* mode) {
    const evoq::Model model = Made({.precision_mode = mode});
    const Node& node = model.graph.node(model.graph.FindNode("product"));
    return model.graph.value(node.inputs[1]).type.dtype == DType::kBfloat16;
  };
  EXPECT_FALSE(narrow("must_keep_origin_dtype"));
  EXPECT_TRUE(narrow("allow_fp32_to_fp16"));
  EXPECT_NE(Said({.precision_mode = "fp12"}).find("--precision_mode fp12"), std::string::npos);
  EXPECT_NE(Said({.framework = 3}).find("--framework=3"), std::string::npos);
  EXPECT_NE(Said({.output_type = "FP31"}).find("--output_type FP31"), std::string::npos);
  EXPECT_NE(Said({.input_format = "CHWN"}).find("--input_format CHWN"), std::string::npos);
}

}  // namespace
}  // namespace evoq
