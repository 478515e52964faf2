// The same outputs, bit for bit, from the reference evaluator and from every instruction set and
// thread count.
#include "base/isa.h"
#include "compile/compile.h"
#include "kernels/amx/software.h"
#include "reference/reference.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

struct Case {
  const char* path;
  bool quantize;    // a float model: quantized here
  float low, high;  // of its inputs
  friend void PrintTo(const Case& c, std::ostream* os) { *os << c.path; }
};

class BitEquality : public ::testing::TestWithParam<Case> {};

TEST_P(BitEquality, ReferenceEqualsEveryMachine) {
  const Case& c = GetParam();
  EVOQ_NEED_DATA(c.path);
  const std::string path = DataFolder() + "/" + c.path;
  Graph graph = c.quantize ? QuantizedGraph(path, c.low, c.high) : BoundGraph(path);
  ASSERT_TRUE(RunPasses(graph, Stage::kLower));
  const Tensor input = RandomTensor(graph.value(graph.inputs()[0]).type, 7, c.low, c.high);
  const auto expected = EvaluateGraph(graph, std::span(&input, 1));
  ASSERT_TRUE(expected) << expected.error().message();
  const Model model = Must(PackModel(graph, kReference), path);
  auto program = std::make_shared<const Program>(Must(Compile(model, kReference), path));
  for (const Step& step : program->steps) {
    const Node& node = program->graph->node(step.node);
    EXPECT_FALSE(node.op == "Conv" && step.decision.precision == Precision::kFloat32)
        << node.name << ": " << step.decision.float_reason.sentence;
  }
  int configurations = 0;
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (int threads : {1, 2}) {
      auto executor = Must(Executor::Create(program, {threads, isa}), path);
      std::vector<Tensor> outputs;
      for (const TensorType& type : executor->output_types())
        outputs.push_back(Tensor::Allocate(type));
      const AmxCounts before = AmxSoftwareCounts();
      ASSERT_TRUE(executor->Run(std::span(&input, 1), outputs));
      if (isa.Has(Isa::kAmxSoftware)) {
        const AmxCounts after = AmxSoftwareCounts();
        EXPECT_GT(after.products, before.products) << "the tiles computed nothing";
        EXPECT_EQ(after.configurations, after.releases);
      }
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_TRUE(BitEqual(outputs[i], (*expected)[i]))
            << IsaName(isa) << ", " << threads << " threads, output " << i;
      ++configurations;
    }
  }
  EXPECT_GE(configurations, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Models, BitEquality,
    ::testing::Values(Case{"models/mnist_cntk.onnx", true, 0, 255},
                      Case{"models/resnet20_cifar10.onnx", true, -2, 2},
                      Case{"models/mobilenetv2.onnx", true, -2, 2},
                      Case{"models/squeezenet1.1.onnx", true, -2, 2},
                      Case{"models/tiny_darknet.onnx", true, 0, 1},
                      Case{"quantized/resnet8_cifar10_mlperf_int8_qdq.onnx", false, 0, 255},
                      Case{"quantized/mobilenetv1_0.5_160_qat_uint8_qdq.onnx", false, -1, 1},
                      Case{"quantized/mobilenetv2_qat_uint8_qdq.onnx", false, -1, 1},
                      Case{"quantized/edgeopt_model_uint8.onnx", false, -2, 2}),
    [](const auto& info) {
      std::string name = std::filesystem::path(info.param.path).stem().string();
      for (char& ch : name) ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
      return name;
    });

}  // namespace
}  // namespace evoq
