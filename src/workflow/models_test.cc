// Loading models and data.
#include "workflow/models.h"

#include <gtest/gtest.h>

#include "workflow/tiny_testing.h"

namespace evoq {
namespace {

using Models = TinyFolder;

TEST_F(Models, SizesThatAreFixed) {
  const std::string free = Model(
      "free.onnx", "graph g\ninput %x: float32[N, M]\na: %y: float32[N, M] = Abs(%x)\noutput %y\n");
  const auto sizes = [&](const InputShapes& fixed) {
    const auto graph = LoadGraph(free, fixed);
    EXPECT_TRUE(graph) << graph.error().message();
    return graph->value(graph->inputs()[0]).type.shape.sizes();
  };
  EXPECT_EQ(sizes({}), (std::vector<int64_t>{-1, -1}));
  EXPECT_EQ(sizes({{"x", {-1, 4}}}), (std::vector<int64_t>{-1, 4}));
  EXPECT_EQ(sizes({{"x", {3, -1}}}), (std::vector<int64_t>{3, -1}));
  for (const int64_t size : {0, -2}) {
    const auto refused = LoadGraph(free, {{"x", {-1, size}}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              fmt::format("shape of x: dimension 1 has size {}, expected at least 1", size));
    EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  }
  EXPECT_NE(LoadGraph(free, {{"z", {1, 2}}}).error().message().find("no input z"),
            std::string::npos);
  EXPECT_NE(LoadGraph(At("none.onnx"), {}).error().message().find("none.onnx"), std::string::npos);
}

TEST_F(Models, Batches) {
  const Graph graph = Parsed(
      "graph g\ninput %x: float32[N, 3]\ninput %y: float32[4]\ninput %s: float32[]\n"
      "input %u: float32[...]\na: %z = Add(%x, %s)\noutput %z\n");
  EXPECT_EQ(*WithBatch(graph, {{"q", {9}}}, 0), (InputShapes{{"q", {9}}}));
  EXPECT_EQ(*WithBatch(graph, {}, 4), (InputShapes{{"x", {4, 3}}, {"y", {4}}}));
  EXPECT_EQ(*WithBatch(graph, {{"x", {7, 3}}}, 4), (InputShapes{{"x", {4, 3}}, {"y", {4}}}));
  EXPECT_FALSE(HasFreeBatch(graph)) << "y";
  const auto fixed = WithBatch(graph, {}, 1);
  ASSERT_FALSE(fixed);
  EXPECT_EQ(fixed.error().message(), "--batch 1: input y has the fixed shape [4]");
  EXPECT_EQ(fixed.error().code(), ErrorCode::kUsage);
  const Graph wide =
      Parsed("graph g\ninput %x: float32[N, W]\na: %z: float32[N, W] = Abs(%x)\noutput %z\n");
  const auto unnamed = WithBatch(wide, {}, 2);
  ASSERT_FALSE(unnamed);
  EXPECT_EQ(unnamed.error().message(), "input x is [N, W]: name its sizes with --shape x=...");
  EXPECT_EQ(unnamed.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(*WithBatch(wide, {{"x", {1, 5}}}, 2), (InputShapes{{"x", {2, 5}}}));
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>(), {1}, {1, 5, 5}}) {
    const auto refused = WithBatch(wide, {{"x", sizes}}, 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              fmt::format("input x: shape {} has rank {}, the model's is [N, W]",
                          Shape(sizes).ToString(), sizes.size()));
    EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  }
}

// By inputs that have a dimension 0.
TEST_F(Models, BatchesThatAreFree) {
  const auto free = [](const std::string& inputs) {
    return HasFreeBatch(Parsed("graph g\n" + inputs +
                               "const %c: float32[1] = [1]\na: %z: float32[1] = Abs(%c)\n"
                               "output %z\n"));
  };
  EXPECT_TRUE(free("input %x: float32[N, 3]\n"));
  EXPECT_TRUE(free("input %x: float32[N, 3]\ninput %s: float32[]\ninput %u: float32[...]\n"));
  EXPECT_FALSE(free("input %x: float32[N, 3]\ninput %y: float32[1]\n"));
  EXPECT_FALSE(free("input %s: float32[]\n"));
  EXPECT_FALSE(free(""));
}

TEST_F(Models, InputsAsDataSetsSeeThem) {
  const Graph graph = Parsed(
      "graph g\ninput %x: float32[N, 3]\ninput %i: int64[]\ninput %u: uint8[...]\n"
      "a: %z = Abs(%x)\noutput %z\n");
  const std::vector<InputSpec> inputs = InputsOf(graph);
  ASSERT_EQ(inputs.size(), 3);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].sizes, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(inputs[0].dtype, DType::kFloat32);
  EXPECT_TRUE(inputs[0].ranked);
  EXPECT_EQ(inputs[1].name, "i");
  EXPECT_EQ(inputs[1].dtype, DType::kInt64);
  EXPECT_TRUE(inputs[1].ranked);
  EXPECT_EQ(inputs[2].dtype, DType::kUint8);
  EXPECT_FALSE(inputs[2].ranked);
  EXPECT_TRUE(inputs[2].sizes.empty());
}

// Of 6 floats, 12 integers with a scale, 3 of a bias, 2 halves, and 5 in each branch; what nothing
// reads, what has two axes of int32 and what counts elements is no weight.
TEST_F(Models, BytesOfFloatWeights) {
  const Graph graph = Parsed(R"(graph g
input %x: float32[2, 3]
input %c: bool[]
const %f: float32[2, 3]
const %q: int8[3, 4](scale 0.5, zero 0)
const %b: int32[3]
const %n: int32[3, 1]
const %h: float16[2]
const %l: int64[3]
const %unread: float32[100]
a: %1 = Add(%x, %f)
m: %2 = MatMul(%1, %q)
b: %3 = Add(%2, %b)
n: %4 = Add(%3, %n)
h: %5 = Add(%4, %h)
l: %6 = Reshape(%5, %l)
if: %y = If{captured=1}(%c, %6)
| graph "then"
| input %p: float32[...]
| const %w: float32[5]
| t: %r = Mul(%p, %w)
| output %r
| graph "else"
| input %p: float32[...]
| const %w: float32[5]
| e: %r = Add(%p, %w)
| output %r
output %y
)");
  EXPECT_EQ(FloatWeightBytes(graph), 4 * (6 + 12 + 3 + 2 + 5 + 5));
}

TEST_F(Models, PreprocessingIsFoundBesideTheModel) {
  EXPECT_EQ(FindPreprocess(At("m.onnx"), "given.json"), "given.json");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), ""), "");
  const std::string beside = Text("m.preprocess.json", "{}");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), ""), beside);
  EXPECT_EQ(FindPreprocess(At("m.etm"), ""), beside);
  EXPECT_EQ(FindPreprocess(At("other.onnx"), ""), "");
  EXPECT_EQ(FindPreprocess(At("m.onnx"), "given.json"), "given.json");
  // A file that is there is read, also where the data needs none.
  Text("m.preprocess.json", "[]");
  const Graph graph = Parsed("graph g\ninput %x: float32[1, 2]\na: %y = Abs(%x)\noutput %y\n");
  const std::string rows = Values("rows.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const auto refused = OpenData({rows}, graph, At("m.onnx"), "", "");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("m.preprocess.json"), std::string::npos);
  const auto data = OpenData({rows}, graph, At("other.onnx"), "", "");
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 3);
  EXPECT_FALSE((*data)->At(1)->label);
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<int64_t>(Shape{3}, {7, 8, 9}), At("labels.npy")));
  const auto labelled = OpenData({rows}, graph, At("other.onnx"), "", At("labels.npy"));
  ASSERT_TRUE(labelled) << labelled.error().message();
  EXPECT_EQ((*labelled)->At(1)->label, 8);
}

TEST_F(Models, SizesAndThreads) {
  EXPECT_TRUE(CheckSizes({{"x", {1, 7}}, {"s", {}}}));
  EXPECT_TRUE(CheckSizes({{"x", {-1, 7}}}, /*free=*/true));
  EXPECT_EQ(CheckSizes({{"x", {-1, 7}}}).error().message(),
            "shape of x: dimension 0 has size -1, expected at least 1");
  EXPECT_FALSE(CheckSizes({{"x", {-1, 0}}}, /*free=*/true));
  EXPECT_TRUE(CheckThreads(0) && CheckThreads(1024));
  EXPECT_EQ(CheckThreads(1025).error().message(), "1025 threads, expected 0 to 1024");
  EXPECT_EQ(CheckThreads(-1).error().code(), ErrorCode::kUsage);
}

// By its name, a link, and another way to its folder.
TEST_F(Models, AnOutputIsNoInput) {
  const std::string model = Model("two.onnx", kSumModel);
  std::filesystem::create_symlink(model, At("link.onnx"));
  std::filesystem::create_hard_link(model, At("hard.onnx"));
  const std::string around = (folder_ / ".." / folder_.filename() / "two.onnx").string();
  for (const std::string& output : {model, At("link.onnx"), At("hard.onnx"), around}) {
    const Status refused = CheckOutput(output, {model});
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
    EXPECT_FALSE(CheckOutput(output, {"x=" + model})) << output;
  }
  EXPECT_TRUE(CheckOutput(At("other.onnx"), {model}));
  EXPECT_TRUE(CheckOutput(At("x.npy"), {model}));
}

}  // namespace
}  // namespace evoq
