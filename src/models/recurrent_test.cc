// The recurrent kernels beside the operators' definition: random sizes, directions, layouts,
// lengths and activations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include "compile/compile.h"
#include "reference/reference.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

struct Case {
  std::string op;
  int64_t gates, steps, batch, input, hidden, directions;
  bool layout, bias, lengths, initial, reverse, relu, linear_first, peepholes, coupled;
  float clip;
  // Of the weights, where they are quantized: their type, blocks along K (0: whole rows, -1: one
  // scale for all), blocks of the data (0: float32 data).
  DType dtype = DType::kFloat32;
  int64_t weight_block = 0, data_block = 0;
  bool lengths_given = false;  // by the run, where there are any

  std::string ToString() const {
    return fmt::format(
        "{} steps {} batch {} input {} hidden {} directions {} layout {} bias {} lengths {} "
        "initial {} reverse {} relu {} linear {} peepholes {} coupled {} clip {} weights {} in {} "
        "data in {}",
        op, steps, batch, input, hidden, directions, layout, bias, lengths, initial, reverse, relu,
        linear_first, peepholes, coupled, clip, DTypeName(dtype), weight_block, data_block);
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
  c.peepholes = c.op == "LSTM" && random() % 4 == 0;
  c.coupled = c.op == "LSTM" && random() % 5 == 0;
  c.lengths_given = random() % 2 == 0;
  return c;
}

// With quantized weights and rounded data.
Case RandomRoundedCase(std::mt19937& random) {
  Case c = RandomCase(random);
  const std::vector<DType> types = {DType::kInt8, DType::kInt8,  DType::kUint8,
                                    DType::kInt4, DType::kUint4, DType::kInt2};
  c.dtype = types[random() % types.size()];
  const std::vector<std::pair<int64_t, int64_t>> blocks = {{0, 64},  {0, 64},  {0, 16}, {-1, 64},
                                                           {16, 16}, {16, 64}, {32, 32}};
  std::tie(c.weight_block, c.data_block) = blocks[random() % blocks.size()];
  return c;
}

// Weights [directions, rows, K] with scales and zero points as the case has them.
Tensor Quantized(const Case& c, const Tensor& real, std::mt19937& random) {
  const std::vector<int64_t> sizes = real.sizes();
  const int64_t depth = sizes[2];
  QuantParams params;
  int64_t scales = 1;
  if (c.weight_block == 0 && sizes[0] == 1) {
    params.axis = 1, scales = sizes[1];
  } else if (c.weight_block >= 0) {
    params.axis = 2, params.block = c.weight_block == 0 ? depth : c.weight_block;
    scales = sizes[0] * sizes[1] * ((depth + params.block - 1) / params.block);
  }
  const int bits = DTypeBits(c.dtype);
  const int32_t low = IsSigned(c.dtype) ? -(1 << (bits - 1)) : 0;
  for (int64_t i = 0; i < scales; ++i) {
    params.scales.push_back((0.7f + 0.01f * static_cast<float>(random() % 50)) / (1 << (bits - 1)));
    const bool even = c.dtype == DType::kInt8 || c.dtype == DType::kInt4;
    params.zero_points.push_back(
        even ? 0 : low + (1 << (bits - 1)) + static_cast<int32_t>(random() % 2));
  }
  auto q = QuantizeTensor(real, TensorType(c.dtype, real.shape(), std::move(params)));
  EXPECT_TRUE(q) << q.error().message();
  return *q;
}

Tensor RandomLengths(const Case& c, std::mt19937& random) {
  std::vector<int32_t> lengths;
  for (int64_t b = 0; b < c.batch; ++b)
    lengths.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(c.steps + 1)));
  return Tensor::FromValues<int32_t>(Shape{c.batch}, lengths);
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
  const auto weights = [&](int64_t depth, float scale) {
    const Tensor real = Random({c.directions, rows, depth}, random, scale);
    return c.dtype == DType::kFloat32 ? real : Quantized(c, real, random);
  };
  node.inputs = {graph.AddInput("x", TensorType(DType::kFloat32, Shape(x))),
                 graph.AddConstant("w", weights(c.input, 0.7f)),
                 graph.AddConstant("r", weights(c.hidden, 0.5f))};
  node.inputs.push_back(
      c.bias ? graph.AddConstant("b", Random({c.directions, 2 * rows}, random, 0.5f)) : ValueId{});
  const auto lengths = [&] {
    if (c.lengths_given)
      return graph.AddInput("lengths", TensorType(DType::kInt32, Shape{c.batch}));
    return graph.AddConstant("lengths", RandomLengths(c, random));
  };
  node.inputs.push_back(c.lengths ? lengths() : ValueId{});
  if (c.initial)
    node.inputs.push_back(graph.AddInput("h", TensorType(DType::kFloat32, Shape(state))));
  if (c.initial && c.op == "LSTM")
    node.inputs.push_back(graph.AddInput("c", TensorType(DType::kFloat32, Shape(state))));
  if (c.peepholes) {
    node.inputs.resize(8);
    node.inputs[7] = graph.AddConstant("p", Random({c.directions, 3 * c.hidden}, random, 0.5f));
  }
  if (c.coupled) node.attrs.Set("input_forget", 1);
  if (c.data_block > 0) node.attrs.Set("data_block", c.data_block);
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

std::vector<Tensor> RandomInputs(const Graph& graph, const Case& c, std::mt19937& random) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs()) {
    const TensorType& type = graph.value(id).type;
    inputs.push_back(type.dtype == DType::kInt32 ? RandomLengths(c, random)
                                                 : Random(type.shape.sizes(), random, 1.0f));
  }
  return inputs;
}

// The outputs of the second of two runs: nothing is left over from a run.
std::vector<Tensor> Computed(const Graph& graph, std::span<const Tensor> inputs, Isa isa,
                             int threads, const std::string& kernel) {
  const auto model = PackModel(graph, kReference);
  EXPECT_TRUE(model) << model.error().message();
  auto program = Compile(*model, kReference);
  EXPECT_TRUE(program) << program.error().message();
  if (!program) return {};
  EXPECT_TRUE(program->steps[0].decision.kernel.ends_with(kernel))
      << program->steps[0].decision.kernel;
  const auto executor = Executor::Create(std::make_shared<const Program>(std::move(*program)),
                                         {.threads = threads, .isa = isa});
  EXPECT_TRUE(executor) << executor.error().message();
  std::vector<Tensor> outputs;
  for (const TensorType& type : (*executor)->output_types())
    outputs.push_back(Tensor::Allocate(type));
  for (int run = 0; run < 2; ++run) EXPECT_TRUE((*executor)->Run(inputs, outputs));
  return outputs;
}

void ExpectClose(const Graph& graph, const Case& c, Isa isa, int threads, std::mt19937& random) {
  const std::vector<Tensor> inputs = RandomInputs(graph, c, random);
  const auto wanted = EvaluateGraph(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  const std::vector<Tensor> outputs = Computed(graph, inputs, isa, threads, "_f32");
  ASSERT_EQ(outputs.size(), wanted->size());
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

void ExpectEqual(const Graph& graph, const Case& c, Isa isa, int threads, std::mt19937& random) {
  const std::vector<Tensor> inputs = RandomInputs(graph, c, random);
  const auto wanted = EvaluateGraph(graph, inputs);
  ASSERT_TRUE(wanted) << wanted.error().message();
  const std::vector<Tensor> outputs = Computed(graph, inputs, isa, threads, "_int8");
  ASSERT_EQ(outputs.size(), wanted->size());
  for (size_t i = 0; i < outputs.size(); ++i)
    ASSERT_TRUE(BitEqual(outputs[i], (*wanted)[i]))
        << "output " << i << " on " << IsaName(isa) << ", " << threads << " threads";
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

// Lengths that a run gives are looked at before the kernel reads them.
TEST(Recurrent, LengthsOfARunAreChecked) {
  for (const bool layout : {false, true}) {
    Case c{.op = "GRU", .gates = 3, .steps = 4, .batch = 2, .input = 3, .hidden = 5};
    c.directions = 1, c.layout = layout, c.lengths = c.lengths_given = true;
    std::mt19937 random(17);
    const Graph graph = GraphOf(c, random);
    const auto model = PackModel(graph, kReference);
    ASSERT_TRUE(model) << model.error().message();
    auto program = Compile(*model, kReference);
    ASSERT_TRUE(program) << program.error().message();
    const auto executor = Executor::Create(std::make_shared<const Program>(std::move(*program)),
                                           {.threads = 1, .isa = SelectIsa().value()});
    ASSERT_TRUE(executor) << executor.error().message();
    std::vector<Tensor> inputs = RandomInputs(graph, c, random), outputs;
    for (const TensorType& type : (*executor)->output_types())
      outputs.push_back(Tensor::Allocate(type));
    const auto run = [&](int32_t a, int32_t b) -> std::string {
      inputs[1] = Tensor::FromValues<int32_t>(Shape{2}, {a, b});
      const Status status = (*executor)->Run(inputs, outputs);
      return status ? "" : status.error().message();
    };
    EXPECT_EQ(run(0, 4), "");
    const std::string says = "node cell (GRU): input 4 (indices): index {} is outside [0, 5)";
    EXPECT_EQ(run(5, 4), fmt::format(fmt::runtime(says), 5));
    EXPECT_EQ(run(4, -1), fmt::format(fmt::runtime(says), -1));
    EXPECT_EQ(run(4, 4), "");
  }
}

// The integer kernels give the bits of the definition, on every instruction set.
TEST(RecurrentRounded, RandomCells) {
  std::mt19937 random(12);
  for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const Case c = RandomRoundedCase(random);
    SCOPED_TRACE(c.ToString());
    const Graph graph = GraphOf(c, random);
    for (Isa isa : AllIsas()) {
      if (IsaSupported(isa)) ExpectEqual(graph, c, isa, 1 + static_cast<int>(random() % 2), random);
    }
  }
}

// Weights large enough for threads to share.
TEST(RecurrentRounded, Threads) {
  std::mt19937 random(13);
  for (const auto& [op, gates] : {std::pair("LSTM", 4), {"GRU", 3}, {"RNN", 1}}) {
    Case c = RandomRoundedCase(random);
    c.op = op, c.gates = gates, c.steps = 3, c.batch = 5, c.input = 100, c.hidden = 300;
    c.dtype = DType::kInt8, c.weight_block = 0, c.data_block = 300;
    c.peepholes = c.coupled = c.lengths = false;
    const Graph graph = GraphOf(c, random);
    for (int threads : {1, 2, 3}) ExpectEqual(graph, c, SelectIsa().value(), threads, random);
  }
}

// A sample's results are those of a batch of it alone.
TEST(RecurrentRounded, SamplesDoNotDependOnEachOther) {
  Case c{.op = "GRU", .gates = 3, .steps = 4, .batch = 3, .input = 20, .hidden = 24};
  c.directions = 2, c.layout = c.bias = true, c.linear_first = false;
  c.dtype = DType::kInt8, c.data_block = 24;
  std::mt19937 random(14), again(14);
  const Graph all = GraphOf(c, random);
  c.batch = 1;
  const Graph one = GraphOf(c, again);
  const Tensor x = Random({3, 4, 20}, random, 1.0f);
  // Neighbours of other magnitudes.
  Tensor scaled = x.Clone();
  for (int64_t i = 0; i < 80; ++i) scaled.mutable_data<float>()[80 + i] *= 100;
  const std::vector<Tensor> batch =
      Computed(all, std::span(&scaled, 1), SelectIsa().value(), 2, "_int8");
  for (int64_t b = 0; b < 3; ++b) {
    Tensor own = Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 4, 20}));
    std::copy_n(scaled.data<float>() + b * 80, 80, own.mutable_data<float>());
    const std::vector<Tensor> alone =
        Computed(one, std::span(&own, 1), SelectIsa().value(), 1, "_int8");
    for (size_t i = 0; i < alone.size(); ++i) {
      const int64_t size = alone[i].elements();
      for (int64_t k = 0; k < size; ++k)
        ASSERT_EQ(alone[i].data<float>()[k], batch[i].data<float>()[b * size + k]) << i;
    }
  }
}

// Rounded rows and weights stay near the float32 operator.
TEST(RecurrentRounded, CloseToFloat) {
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    Case c{.op = op, .gates = 4, .steps = 20, .batch = 2, .input = 40, .hidden = 48};
    c.gates = c.op == "LSTM" ? 4 : c.op == "GRU" ? 3 : 1;
    c.directions = 2, c.bias = true;
    std::mt19937 random(15);
    Graph graph = GraphOf(c, random);
    const std::vector<Tensor> inputs = RandomInputs(graph, c, random);
    const auto wanted = EvaluateGraph(graph, inputs);
    ASSERT_TRUE(wanted);
    c.dtype = DType::kInt8, c.data_block = 48;
    std::mt19937 scales(16);
    for (const char* name : {"w", "r"}) {
      const ValueId w = graph.FindValue(name);
      Tensor q = Quantized(c, graph.value(w).constant, scales);
      graph.SetConstant(w, q);
    }
    graph.attrs(graph.order()[0]).Set("data_block", 48);
    const auto got = EvaluateGraph(graph, inputs);
    ASSERT_TRUE(got);
    double signal = 0, noise = 0;
    for (int64_t k = 0; k < (*got)[0].elements(); ++k) {
      const double a = (*wanted)[0].data<float>()[k], b = (*got)[0].data<float>()[k];
      signal += a * a, noise += (a - b) * (a - b);
    }
    EXPECT_GT(10 * std::log10(signal / noise), 25) << op;
    EXPECT_GT(noise, 0) << op;
  }
}

// Rounded data that no integer kernel multiplies is computed by the definition, not in float32.
TEST(RecurrentRounded, RefusesBlocksThatDoNotFit) {
  std::mt19937 random(3);
  Case c{.op = "LSTM", .gates = 4, .steps = 2, .batch = 1, .input = 40, .hidden = 40};
  c.directions = 1, c.dtype = DType::kInt8, c.weight_block = 16, c.data_block = 24;
  const Graph graph = GraphOf(c, random);
  const auto model = PackModel(graph, kReference);
  ASSERT_TRUE(model) << model.error().message();
  const auto program = Compile(*model, kReference);
  ASSERT_TRUE(program) << program.error().message();
  const auto& decision = program->steps[0].decision;
  EXPECT_EQ(decision.kernel, kReferenceKernel);
  ASSERT_EQ(decision.rejected.size(), 2u);
  EXPECT_EQ(decision.rejected[0].reason.sentence,
            "data in blocks of 24 by weights in blocks of 16, expected multiples of each other and "
            "of 8, up to 65536");
  EXPECT_EQ(decision.rejected[1].reason.sentence, "data_block: the data is rounded");
}

}  // namespace
}  // namespace evoq
