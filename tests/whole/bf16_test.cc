// bfloat16 models through the file: near the float32 model on every instruction set, equal for
// every number of threads.
#include "quant/bf16.h"

#include <cmath>

#include "base/isa.h"
#include "compile/compile.h"
#include "ops/op.h"
#include "program/etm.h"
#include "quant/plan.h"
#include "reference/reference.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

class Bf16Models : public ::testing::TestWithParam<const char*> {};

double Sqnr(const Tensor& want, const Tensor& got) {
  double signal = 0, noise = 0;
  for (int64_t i = 0; i < want.elements(); ++i) {
    const double w = want.data<float>()[i], d = w - got.data<float>()[i];
    signal += w * w, noise += d * d;
  }
  return 10 * std::log10(signal / std::max(noise, 1e-30));
}

TEST_P(Bf16Models, FileRunsEverywhere) {
  EVOQ_NEED_DATA(GetParam());
  const std::string path = DataFolder() + "/" + GetParam();
  Graph graph = BoundGraph(path);
  const Tensor input = RandomTensor(graph.value(graph.inputs()[0]).type, 7, -2, 2);
  const Tensor expected = Must(EvaluateGraph(graph, std::span(&input, 1)), path)[0];
  const auto report = ConvertToBf16(graph, {});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->nodes[Precision::kFloat32], 0);
  ASSERT_TRUE(RunPasses(graph, Stage::kLower));
  const std::string file = ::testing::TempDir() + "/bf16_test.etm";
  ASSERT_TRUE(WriteEtm(Must(PackModel(graph, kReference), path), file));
  const Model model = Must(ReadEtm(file), file);
  auto program = std::make_shared<const Program>(Must(Compile(model, kReference), path));
  for (const Step& step : program->steps) {
    const Node& node = program->graph->node(step.node);
    EXPECT_FALSE(IsLinear(node) && step.decision.precision != Precision::kBf16)
        << node.name << ": " << step.decision.float_reason.sentence;
  }
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    Tensor first;
    for (int threads : {1, 2, 3}) {
      auto executor = Must(Executor::Create(program, {threads, isa}), path);
      std::vector<Tensor> outputs;
      for (const TensorType& type : executor->output_types())
        outputs.push_back(Tensor::Allocate(type));
      ASSERT_TRUE(executor->Run(std::span(&input, 1), outputs));
      EXPECT_GE(Sqnr(expected, outputs[0]), 30) << IsaName(isa);
      if (!first.defined()) first = outputs[0];
      EXPECT_TRUE(BitEqual(first, outputs[0])) << IsaName(isa) << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Bf16Models,
                         ::testing::Values("models/resnet20_cifar10.onnx",
                                           "models/mobilenetv2.onnx", "models/squeezenet1.1.onnx"),
                         [](const auto& info) {
                           std::string name = std::filesystem::path(info.param).stem().string();
                           for (char& ch : name)
                             ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
                           return name;
                         });

}  // namespace
}  // namespace evoq
