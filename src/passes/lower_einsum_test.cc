// Random equations: what takes the place of an Einsum gives what it gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

const PassDef& Pass() {
  return **std::find_if(AllPasses().begin(), AllPasses().end(), [](const PassDef* pass) {
    return std::string_view(pass->name) == "lower-einsum";
  });
}

struct Equation {
  std::string text;  // the graph
  std::map<std::string, std::vector<int64_t>> sizes;
};

// One to three terms of labels that differ within a term, each label of one size, at times 1 in one
// term; with "..." in some, with free sizes in others, and at times with constants.
Equation RandomEquation(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int terms = 1 + below(3), labels = 2 + below(5);
  const bool dots = below(4) == 0, free = below(3) == 0;
  std::vector<int64_t> sizes;
  for (int i = 0; i < labels; ++i) sizes.push_back(2 + below(4));
  const std::vector<int64_t> hidden{2, 3};
  std::string equation, inputs, names;
  std::vector<int> used;
  Equation made;
  for (int t = 0; t < terms; ++t) {
    std::vector<int> own;
    for (int i = 0; i < labels; ++i) {
      if (below(2) == 0) own.push_back(i);
    }
    std::shuffle(own.begin(), own.end(), random);
    const bool constant = t > 0 && below(3) == 0;
    const std::string name = std::string("abc").substr(t, 1);
    std::string term, shape;
    std::vector<int64_t> real;
    const auto axis = [&](int64_t size, const std::string& symbol) {
      const bool one = below(12) == 0;
      real.push_back(one ? 1 : size);
      shape += (shape.empty() ? "" : ", ") +
               (free && !one && !constant ? symbol : std::to_string(real.back()));
    };
    const int at = dots ? below(static_cast<int>(own.size()) + 1) : -1;
    for (int i = 0; i <= static_cast<int>(own.size()); ++i) {
      if (i == at) {
        term += "...";
        for (int d = below(3); d < 2; ++d) axis(hidden[d], "D" + std::to_string(d));
      }
      if (i == static_cast<int>(own.size())) continue;
      term += static_cast<char>('i' + own[i]);
      axis(sizes[own[i]], "S" + std::to_string(own[i]));
      used.push_back(own[i]);
    }
    equation += (t == 0 ? "" : ",") + term;
    inputs += fmt::format("{} %{}: float32[{}]\n", constant ? "const" : "input", name, shape);
    names += (t == 0 ? "%" : ", %") + name;
    if (!constant) made.sizes[name] = real;
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::shuffle(used.begin(), used.end(), random);
  std::string output = dots ? "..." : "";
  for (int label : used) {
    if (below(3) != 0) output += static_cast<char>('i' + label);
  }
  made.text = fmt::format("graph g\n{}y: %y = Einsum{{equation=\"{}->{}\"}}({})\noutput %y\n",
                          inputs, equation, output, names);
  return made;
}

Tensor Random(const TensorType& type, std::mt19937& random) {
  Tensor tensor = Tensor::Allocate(type);
  std::uniform_real_distribution<float> real(-1, 1);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor.mutable_data<float>()[i] = real(random);
  return tensor;
}

TEST(LowerEinsum, RandomEquations) {
  std::mt19937 random(3);
  int kept = 0;
  for (int i = 0; i < 600; ++i) {
    const Equation equation = RandomEquation(random);
    SCOPED_TRACE(equation.text);
    auto before = ParseGraph(equation.text);
    ASSERT_TRUE(before) << before.error().message();
    for (int v = 0; v < before->value_count(); ++v) {
      if (before->value(ValueId{v}).is_constant())
        before->SetConstant(ValueId{v}, Random(before->value(ValueId{v}).type, random));
    }
    const Status inferred = InferTypes(*before);
    ASSERT_TRUE(inferred) << inferred.error().message();
    Graph after = *before;
    const auto changes = RunPass(after, Pass());
    ASSERT_TRUE(changes) << changes.error().message();
    kept += *changes == 0;
    ASSERT_TRUE(BindShapes(*before, equation.sizes));
    const Status bound = BindShapes(after, equation.sizes);
    ASSERT_TRUE(bound) << bound.error().message();
    std::vector<Tensor> inputs;
    for (ValueId id : before->inputs()) inputs.push_back(Random(before->value(id).type, random));
    const auto expected = EvaluateGraph(*before, inputs), got = EvaluateGraph(after, inputs);
    ASSERT_TRUE(expected) << expected.error().message();
    ASSERT_TRUE(got) << got.error().message() << Print(after);
    const Tensor &x = (*expected)[0], &y = (*got)[0];
    ASSERT_EQ(x.shape().ToString(), y.shape().ToString()) << Print(after);
    for (int64_t k = 0; k < x.elements(); ++k)
      ASSERT_NEAR(x.data<float>()[k], y.data<float>()[k], 1e-4) << Print(after);
  }
  // A constant beside a free size, which might be 1.
  EXPECT_LT(kept, 60);
  EXPECT_GT(kept, 0);
}

// What quantization looks for: a product with a constant matrix on the right, or a Conv.
TEST(LowerEinsum, WeightsFold) {
  const struct {
    const char *x, *w, *equation, *op;
    Shape weights;
  } cases[] = {
      {"N, T, 8", "8, 2, 4", "abc,cde->abde", "MatMul", Shape{8, 8}},
      {"N, T, 2, 4", "2, 4, 6", "abcd,cde->abe", "MatMul", Shape{8, 6}},
      {"N, T, 8", "6, 8", "bid,ed->bie", "MatMul", Shape{8, 6}},
      {"N, 8, 5, H", "6, 8", "bchw,dc->bdhw", "Conv", Shape{6, 8, 1, 1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.equation);
    auto graph =
        ParseGraph(fmt::format("graph g\ninput %x: float32[{}]\nconst %w: float32[{}]\n"
                               "y: %y = Einsum{{equation=\"{}\"}}(%x, %w)\noutput %y\n",
                               c.x, c.w, c.equation));
    ASSERT_TRUE(graph) << graph.error().message();
    ASSERT_TRUE(InferTypes(*graph));
    ASSERT_TRUE(RunPasses(*graph, Stage::kOptimize));
    const NodeId id = graph->FindNode("y");
    ASSERT_TRUE(id.valid()) << Print(*graph);
    EXPECT_EQ(graph->node(id).op, c.op);
    const Tensor* weights = graph->ConstantInput(graph->node(id), 1);
    ASSERT_NE(weights, nullptr) << Print(*graph);
    EXPECT_EQ(weights->shape(), c.weights);
  }
}

}  // namespace
}  // namespace evoq
