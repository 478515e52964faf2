// Real models: what imports with all types inferred, and what is refused and why.
#include <gtest/gtest.h>

#include <filesystem>

#include "onnx/onnx.h"
#include "onnx/test_data.h"
#include "ops/op.h"

namespace evoq {
namespace {

struct Case {
  const char* path;
  const char* refused = nullptr;  // part of the expected error; nullptr: it imports
};

constexpr Case kCases[] = {
    {"models/mobilenetv2.onnx"},
    {"models/squeezenet1.1.onnx"},
    {"models/tiny_darknet.onnx"},
    {"models/squeezenet_fp16_winml.onnx"},
    {"models/resnet20_cifar10.onnx"},
    {"models/resnet56_cifar10.onnx"},
    {"models/resnet8_cifar10_mlperf.onnx"},
    {"models/mnist_cntk.onnx"},
    {"models/yolox_nano_bigisland.onnx"},
    {"models/fastestdet.onnx"},
    {"models/yunet_n_dynamic.onnx"},
    {"models/ultraface_version-slim-320_simplified.onnx"},
    {"models/deeplabv3_mnv2_pascal.onnx"},
    {"models/brainchop_model11_gw_ae.onnx"},
    {"models/basic_pitch_nmp.onnx"},
    {"models/magika_standard_v3_3.onnx"},
    {"models/stories260K.onnx"},
    {"models/babyllama105.onnx"},
    {"models/dtln_model_1.onnx"},
    {"models/silero_vad.onnx"},
    {"models/silero_vad_16k_op15.onnx"},
    {"models/super_resolution.onnx", "no opset_import"},
    {"models/style_candy_winml.onnx",
     "3 operators that evoq does not have: ImageScaler (ai.onnx 7"},
    {"quantized/edgeopt_model_uint8.onnx"},
    {"quantized/mobilenetv2_qat_uint8_qdq.onnx"},
    {"quantized/mobilenetv1_0.5_160_qat_uint8_qdq.onnx"},
    {"quantized/resnet8_cifar10_mlperf_int8_qdq.onnx"},
    {"quantized/espcn_subpixel_qonnx.onnx"},
    {"onnx-backend-tests/light/light_bvlc_alexnet.onnx"},
    {"onnx-backend-tests/light/light_densenet121.onnx"},
    {"onnx-backend-tests/light/light_inception_v1.onnx"},
    {"onnx-backend-tests/light/light_inception_v2.onnx"},
    {"onnx-backend-tests/light/light_resnet50.onnx"},
    {"onnx-backend-tests/light/light_shufflenet.onnx"},
    {"onnx-backend-tests/light/light_squeezenet.onnx"},
    {"onnx-backend-tests/light/light_vgg19.onnx"},
    {"onnx-backend-tests/light/light_zfnet512.onnx"},
};

TEST(Models, ImportOrSayWhyNot) {
  const std::string data = DataFolder();
  if (data.empty()) GTEST_SKIP() << "no data folder: set EVOQ_DATA";
  for (const Case& c : kCases) {
    const auto graph = ImportOnnx(data + "/" + c.path);
    if (c.refused != nullptr) {
      ASSERT_FALSE(graph) << c.path;
      fmt::print("{:55} refused: {}\n", c.path, graph.error().message().substr(data.size() + 1));
      EXPECT_NE(graph.error().message().find(c.refused), std::string::npos)
          << graph.error().message();
      continue;
    }
    if (!graph) {
      ADD_FAILURE() << graph.error().message();
      continue;
    }
    EXPECT_TRUE(graph->Verify());
    int unknown = 0;
    bool branches = false;  // may give values of different ranks
    for (NodeId id : graph->order()) {
      branches |= !graph->node(id).bodies.empty();
      for (ValueId out : graph->node(id).outputs)
        unknown += out.valid() && !graph->value(out).type.shape.ranked();
    }
    EXPECT_TRUE(unknown == 0 || branches) << c.path << ": values of unknown rank";
    std::string outputs;
    for (ValueId out : graph->outputs()) outputs += graph->value(out).type.ToString() + " ";
    fmt::print("{:55} {:4} nodes -> {}\n", c.path, graph->order().size(), outputs);
  }
}

}  // namespace
}  // namespace evoq
