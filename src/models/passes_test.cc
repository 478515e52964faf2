// The passes on real models: how many nodes, Transposes and float linear operators are left, and
// that every stage computes what the imported model computes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/rows.h"
#include "kernels/kernel.h"
#include "onnx/onnx.h"
#include "onnx/test_data.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

using InputSizes = std::map<std::string, std::vector<int64_t>>;

struct Case {
  const char* path;
  int optimized;     // nodes after kOptimize, at most
  int transposes;    // Transposes after kLower, at most
  int float_linear;  // Conv and MatMul on float32 after kLower
  double tolerance;  // of outputs, relative to the largest; < 0: not evaluated
  InputSizes sizes;
};

const Case kCases[] = {
    {"models/mobilenetv2.onnx", 55, 1, 53, -1, {}},
    {"models/squeezenet1.1.onnx", 39, 1, 26, -1, {}},
    {"models/tiny_darknet.onnx", 22, 1, 16, -1, {}},
    {"models/resnet20_cifar10.onnx", 26, 1, 20, 1e-5, {}},
    {"models/resnet8_cifar10_mlperf.onnx", 13, 1, 10, 1e-5, {}},
    {"models/mnist_cntk.onnx", 6, 1, 3, 1e-5, {}},
    {"models/yolox_nano_bigisland.onnx", 153, 1, 113, -1, {}},
    {"models/deeplabv3_mnv2_pascal.onnx", 66, 2, 55, 1e-5, {{"input", {1, 3, 65, 97}}}},
    {"models/ultraface_version-slim-320_simplified.onnx", 61, 1, 42, 1e-5, {}},
    {"models/fastestdet.onnx", 132, 2, 70, 1e-5, {}},
    {"models/yunet_n_dynamic.onnx", 97, 1, 59, 1e-5, {{"input", {1, 3, 64, 96}}}},
    {"models/basic_pitch_nmp.onnx", 161, 0, 32, -1, {}},
    {"models/stories260K.onnx", 224, 20, 36, 1e-5, {{"input_ids", {1, 16}}}},
    // Rounding of exact integer sums may fall on the other side of a step of the output or of a
    // coarse value before it.
    {"quantized/mobilenetv2_qat_uint8_qdq.onnx", 68, 1, 0, -1, {}},
    {"quantized/mobilenetv1_0.5_160_qat_uint8_qdq.onnx", 33, 1, 0, 0.05, {}},
    {"quantized/resnet8_cifar10_mlperf_int8_qdq.onnx", 18, 1, 0, 0.05, {}},
    {"quantized/espcn_subpixel_qonnx.onnx", 9, 2, 1, 0.05, {}},
    {"quantized/edgeopt_model_uint8.onnx", 330, 1, 0, -1, {}},
    {"onnx-backend-tests/light/light_resnet50.onnx",
     75,
     1,
     54,
     -1,
     {}},  // 100 MB of weights from ConstantOfShape: more than is folded
    {"onnx-backend-tests/light/light_densenet121.onnx", 308, 1, 121, -1, {}},
};

int CountFloatLinear(const Graph& graph) {
  int count = 0;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op == "Conv" || node.op == "MatMul" || node.op == "Gemm")
      count += !graph.value(node.inputs[0]).type.quantized();
  }
  return count;
}

int CountTransposes(const Graph& graph) {
  int count = 0;
  for (NodeId id : graph.order()) count += graph.node(id).op == "Transpose";
  return count;
}

std::vector<Tensor> RandomInputs(const Graph& graph) {
  std::mt19937 random(11);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    Tensor tensor = Tensor::Allocate(graph.value(id).type);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      if (tensor.dtype() == DType::kFloat32)
        tensor.mutable_data<float>()[i] = std::uniform_real_distribution<float>(-1, 1)(random);
      if (tensor.dtype() == DType::kInt64)
        tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(random() % 100);
      if (DTypeBits(tensor.dtype()) == 8)
        tensor.mutable_raw()[i] = static_cast<std::byte>(random() % 256);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Result<std::vector<Tensor>> Evaluated(Graph graph, const InputSizes& sizes) {
  EVOQ_TRY(BindShapes(graph, sizes));
  return EvaluateGraph(graph, RandomInputs(graph));
}

void ExpectClose(const Tensor& a, const Tensor& b, double tolerance) {
  const auto x = ToFloat32(a), y = ToFloat32(b);
  ASSERT_TRUE(x && y);
  ASSERT_EQ(x->elements(), y->elements());
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < x->elements(); ++i) {
    largest = std::max<double>(largest, std::abs(x->data<float>()[i]));
    difference = std::max<double>(
        difference, std::abs(static_cast<double>(x->data<float>()[i]) - y->data<float>()[i]));
  }
  EXPECT_LE(difference, tolerance * largest);
}

void ExpectSame(const Graph& imported, const Graph& optimized, const Graph& lowered,
                const Case& c) {
  const auto a = Evaluated(imported, c.sizes), b = Evaluated(optimized, c.sizes),
             d = Evaluated(lowered, c.sizes);
  ASSERT_TRUE(a) << a.error().message();
  ASSERT_TRUE(b) << b.error().message();
  ASSERT_TRUE(d) << d.error().message();
  for (size_t i = 0; i < a->size(); ++i) {
    ExpectClose((*a)[i], (*b)[i], c.tolerance);
    ExpectClose((*b)[i], (*d)[i], 1e-6);
    if (c.float_linear == 0)
      EXPECT_TRUE(BitEqual((*b)[i], (*d)[i])) << "lowering an integer model changed its output";
  }
}

TEST(PassesOnModels, FewNodesAndEqualResults) {
  const std::string data = DataFolder();
  if (data.empty()) GTEST_SKIP() << "no data folder: set EVOQ_DATA";
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.path);
    const std::string path = data + "/" + c.path;
    if (!std::filesystem::exists(path)) continue;
    auto imported = ImportOnnx(path);
    ASSERT_TRUE(imported) << imported.error().message();
    Graph optimized = *imported;
    const Status optimize = RunPasses(optimized, Stage::kOptimize);
    ASSERT_TRUE(optimize) << optimize.error().message();
    EXPECT_LE(optimized.order().size(), static_cast<size_t>(c.optimized));
    Graph lowered = optimized;
    const Status lower = RunPasses(lowered, Stage::kLower);
    ASSERT_TRUE(lower) << lower.error().message();
    EXPECT_LE(CountTransposes(lowered), c.transposes);
    EXPECT_EQ(CountFloatLinear(lowered), c.float_linear);
    if (c.tolerance >= 0) ExpectSame(*imported, optimized, lowered, c);
  }
}

// A kernel row that shares its C++ name with an operator's would be that operator's memory.
TEST(Kernels, ComputeOperators) {
  for (const KernelDef* kernel : AllKernels()) {
    EXPECT_EQ(FindKernel(kernel->name), kernel) << kernel->name;
    EXPECT_NE(FindRow(AllOps(), kernel->op), nullptr) << kernel->name;
  }
}

}  // namespace
}  // namespace evoq
