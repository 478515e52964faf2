// MatMul with data_block: what the reference evaluator gives is what a compiled model gives.
#include <gtest/gtest.h>

#include <random>

#include "compile/compile.h"
#include "models/models.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

Tensor Weights(DType dtype, int64_t k, int64_t n, int64_t block, std::mt19937& random) {
  QuantParams quant;
  const int64_t count = block == 0 ? n : (k + block - 1) / block * n;
  const int64_t low = IntegerMin(dtype), range = IntegerMax(dtype) - low + 1;
  for (int64_t i = 0; i < count; ++i) {
    quant.scales.push_back(0.01f + 0.001f * static_cast<float>(random() % 16));
    const auto zero = static_cast<int32_t>(low + static_cast<int64_t>(random()) % range);
    quant.zero_points.push_back(IsInteger(dtype) ? zero : 0);
  }
  quant.axis = block == 0 ? 1 : 0;
  quant.block = block;
  Tensor w = Tensor::Allocate(TensorType(dtype, Shape{k, n}, std::move(quant)));
  for (size_t i = 0; i < w.bytes(); ++i) w.mutable_raw()[i] = static_cast<std::byte>(random());
  return w;
}

TEST(Blocks, TheReferenceGivesTheKernelsBits) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  struct Case {
    DType dtype;
    int64_t m, k, n, block, data_block;
  };
  const Case cases[] = {{DType::kInt4, 1, 96, 40, 32, 32},      {DType::kUint4, 9, 100, 17, 32, 64},
                        {DType::kInt8, 30, 64, 33, 64, 32},     {DType::kUint8, 3, 48, 5, 0, 16},
                        {DType::kUint4, 26, 80, 48, 16, 80},    {DType::kInt4, 2, 50, 16, 0, 1000},
                        {DType::kUint2, 5, 90, 33, 32, 32},     {DType::kInt2, 40, 64, 20, 0, 64},
                        {DType::kFloat4E2M1, 7, 96, 40, 32, 32}};
  for (const Case& c : cases) {
    Graph g;
    const ValueId x = g.AddInput("x", TensorType(DType::kFloat32, Shape{c.m, c.k}));
    std::vector<float> bias(static_cast<size_t>(c.n));
    for (float& b : bias) b = normal(random);
    Node node;
    node.op = "MatMul";
    node.name = "product";
    node.attrs.Set("data_block", c.data_block);
    node.attrs.Set("activation", "Gelu");
    const ValueId y = g.AddValue("y");
    node.inputs = {x, g.AddConstant("w", Weights(c.dtype, c.k, c.n, c.block, random)),
                   g.AddConstant("b", Tensor::FromValues<float>(Shape{c.n}, bias))};
    node.outputs = {y};
    g.AddNode(std::move(node));
    g.MarkOutput(y);
    ASSERT_TRUE(InferTypes(g));
    Tensor data = Tensor::Allocate(TensorType(DType::kFloat32, Shape{c.m, c.k}));
    for (int64_t i = 0; i < data.elements(); ++i) data.mutable_data<float>()[i] = normal(random);
    const std::vector<Tensor> expected = EvaluateGraph(g, std::span(&data, 1)).value();
    const Model model = LowerAndPack(Graph(g)).value();
    const auto program = std::make_shared<const Program>(Compile(model, kReference).value());
    ASSERT_EQ(program->steps.size(), 1);
    EXPECT_EQ(program->steps[0].decision.kernel, "matmul_blocks");
    for (Isa isa : AllIsas()) {
      if (!IsaSupported(isa)) continue;
      const auto executor = Executor::Create(program, {2, isa, 1, nullptr}).value();
      std::vector<Tensor> out = {Tensor::Allocate(executor->output_types()[0])};
      ASSERT_TRUE(executor->Run(std::span(&data, 1), out));
      EXPECT_TRUE(std::ranges::equal(out[0].values<float>(), expected[0].values<float>()))
          << c.m << " x " << c.k << " x " << c.n << " on " << IsaName(isa);
    }
  }
}

// An attribute that cannot be meant.
TEST(Blocks, RefusesOtherBlocks) {
  const auto infer = [](const char* type, int64_t block) {
    auto g =
        ParseGraph(fmt::format("input %x: {0}[2, 3]\ninput %w: {0}[3, 4]\n"
                               "m: %y: {0}[2, 4] = MatMul{{data_block={1}}}(%x, %w)\noutput %y\n",
                               type, block));
    EXPECT_TRUE(g) << g.error().message();
    const Status status = InferTypes(*g);
    return status ? "" : status.error().message();
  };
  EXPECT_EQ(infer("float32", 32), "");
  EXPECT_NE(infer("float32", -1).find("data_block is -1 for float32 data"), std::string::npos);
  EXPECT_NE(infer("int32", 32).find("data_block is 32 for int32 data"), std::string::npos);
}

}  // namespace
}  // namespace evoq
