// The recurrent kernels beside the operators' definition: random sizes, directions, layouts,
// lengths and activations.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compile/compile.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

struct Case {
  std::string op;
  int64_t gates, steps, batch, input, hidden, directions;
  bool layout, bias, lengths, initial, reverse, relu, linear_first;
  float clip;

  std::string ToString() const {
    return fmt::format(
        "{} steps {} batch {} input {} hidden {} directions {} layout {} bias {} lengths {} "
        "initial {} reverse {} relu {} linear {} clip {}",
        op, steps, batch, input, hidden, directions, layout, bias, lengths, initial, reverse, relu,
        linear_first, clip);
  }
};

Tensor Random(std::vector<int64_t> sizes, std::mt19937& random, float scale) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = uniform(random);
  return t;
}

Case RandomCase(std::mt19937& random) {
  const auto pick = [&](std::vector<int64_t> of) { return of[random() % of.size()]; };
  Case c;
  c.op = std::vector<std::string>{"LSTM", "GRU", "RNN"}[random() % 3];
  c.gates = c.op == "LSTM" ? 4 : c.op == "GRU" ? 3 : 1;
  c.steps = pick({1, 2, 5, 9});
  c.batch = pick({1, 2, 3, 7});
  c.input = pick({1, 3, 16, 33});
  c.hidden = pick({1, 4, 5, 15, 16, 17, 40});
  c.directions = pick({1, 1, 2});
  c.layout = random() % 3 == 0;
  c.bias = random() % 3 != 0;
  c.lengths = random() % 3 == 0;
  c.initial = random() % 2 == 0;
  c.reverse = c.directions == 1 && random() % 3 == 0;
  c.relu = random() % 4 == 0;
  c.linear_first = random() % 2 == 0;
  c.clip = random() % 4 == 0 ? 0.5f : 0;
  return c;
}

Graph GraphOf(const Case& c, std::mt19937& random) {
  Graph graph;
  Node node;
  node.op = c.op;
  node.name = "cell";
  const int64_t rows = c.gates * c.hidden;
  const std::vector<int64_t> x = c.layout ? std::vector<int64_t>{c.batch, c.steps, c.input}
                                          : std::vector<int64_t>{c.steps, c.batch, c.input};
  const std::vector<int64_t> state = c.layout
                                         ? std::vector<int64_t>{c.batch, c.directions, c.hidden}
                                         : std::vector<int64_t>{c.directions, c.batch, c.hidden};
  node.inputs = {graph.AddInput("x", TensorType(DType::kFloat32, Shape(x))),
                 graph.AddConstant("w", Random({c.directions, rows, c.input}, random, 0.7f)),
                 graph.AddConstant("r", Random({c.directions, rows, c.hidden}, random, 0.5f))};
  node.inputs.push_back(
      c.bias ? graph.AddConstant("b", Random({c.directions, 2 * rows}, random, 0.5f)) : ValueId{});
  std::vector<int32_t> lengths;
  for (int64_t b = 0; b < c.batch; ++b)
    lengths.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.steps + 1)));
  node.inputs.push_back(
      c.lengths ? graph.AddConstant("lengths", Tensor::FromValues<int32_t>(Shape{c.batch}, lengths))
                : ValueId{});
  if (c.initial)
    node.inputs.push_back(graph.AddInput("h", TensorType(DType::kFloat32, Shape(state))));
  if (c.initial && c.op == "LSTM")
    node.inputs.push_back(graph.AddInput("c", TensorType(DType::kFloat32, Shape(state))));
  node.attrs.Set("layout", c.layout ? 1 : 0);
  node.attrs.Set("direction", c.directions == 2 ? "bidirectional"
                              : c.reverse       ? "reverse"
                                                : "forward");
  if (c.op == "GRU") node.attrs.Set("linear_before_reset", c.linear_first ? 1 : 0);
  if (c.clip > 0) node.attrs.Set("clip", c.clip);
  if (c.relu) {
    std::vector<std::string> names;
    for (int64_t d = 0; d < c.directions; ++d) {
      if (c.op != "RNN") names.emplace_back("Sigmoid");
      names.emplace_back("Relu");
      if (c.op == "LSTM") names.emplace_back("Tanh");
    }
    node.attrs.Set("activations", names);
  }
  for (const char* name : {"y", "y_h", "y_c"}) {
    if (name == std::string("y_c") && c.op != "LSTM") continue;
    node.outputs.push_back(graph.AddValue(name));
    graph.MarkOutput(node.outputs.back());
  }
  graph.AddNode(std::move(node));
  EXPECT_TRUE(graph.Sort());
  const Status inferred = InferTypes(graph);
  EXPECT_TRUE(inferred) << inferred.error().message();
  return graph;
}

void ExpectClose(const Graph& graph, const Case& c, Isa isa, int threads, std::mt19937& random) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs())
    inputs.push_back(Random(graph.value(id).type.shape.sizes(), random, 1.0f));
  const auto wanted = EvaluateGraph(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  const auto model = PackModel(graph, kReference);
  ASSERT_TRUE(model) << model.error().message();
  auto program = Compile(*model, kReference);
  ASSERT_TRUE(program) << program.error().message();
  ASSERT_TRUE(program->steps[0].decision.kernel.ends_with("_f32"))
      << program->steps[0].decision.kernel;
  const auto executor = Executor::Create(std::make_shared<const Program>(std::move(*program)),
                                         {.threads = threads, .isa = isa});
  ASSERT_TRUE(executor) << executor.error().message();
  std::vector<Tensor> outputs;
  for (const TensorType& type : (*executor)->output_types())
    outputs.push_back(Tensor::Allocate(type));
  for (int run = 0; run < 2; ++run)
    ASSERT_TRUE((*executor)->Run(inputs, outputs));  // nothing is left over from a run
  for (size_t i = 0; i < outputs.size(); ++i) {
    // Each step's products err by a few units in the last place of sums below hidden + input;
    // slopes are at most 1, so that errors at most add up over the steps, and grow with Relu by the
    // weights.
    const double bound =
        2e-6 * static_cast<double>(c.steps * (c.hidden + c.input)) * (c.relu ? 20 : 1);
    for (int64_t k = 0; k < outputs[i].elements(); ++k) {
      const double want = (*wanted)[i].data<float>()[k];
      ASSERT_NEAR(outputs[i].data<float>()[k], want, bound * std::max(1.0, std::fabs(want)))
          << "output " << i << "[" << k << "] on " << IsaName(isa);
    }
  }
}

TEST(Recurrent, RandomCells) {
  std::mt19937 random(11);
  for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const Case c = RandomCase(random);
    SCOPED_TRACE(c.ToString());
    const Graph graph = GraphOf(c, random);
    for (Isa isa : AllIsas()) {
      if (IsaSupported(isa)) ExpectClose(graph, c, isa, 1 + static_cast<int>(random() % 2), random);
    }
  }
}

TEST(Recurrent, RefusesWhatItDoesNotHave) {
  std::mt19937 random(3);
  Case c = RandomCase(random);
  c.op = "LSTM";
  c.gates = 4;
  Graph graph = GraphOf(c, random);
  graph.attrs(graph.order()[0]).Set("input_forget", 1);
  const auto model = PackModel(graph, kReference);
  ASSERT_TRUE(model) << model.error().message();
  const auto program = Compile(*model, kReference);
  ASSERT_TRUE(program) << program.error().message();
  EXPECT_EQ(program->steps[0].decision.kernel, kReferenceKernel);
  ASSERT_EQ(program->steps[0].decision.rejected.size(), 1u);
  EXPECT_EQ(program->steps[0].decision.rejected[0].reason.sentence, "input_forget=1");
}

}  // namespace
}  // namespace evoq
