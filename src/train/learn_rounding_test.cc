// Block reconstruction: what is learned beside every rounding that there is, and the method as a
// whole.
#include "train/learn_rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "quant/method.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

constexpr char kBlock[] = R"(graph block
input %x: float32[1, 5, 3]
const %w1: float32[3, 3]
const %w2: float32[3, 2]
a: %a: float32[1, 5, 3] = MatMul(%x, %w1)
r: %r: float32[1, 5, 3] = Relu(%a)
b: %b: float32[1, 5, 2] = MatMul(%r, %w2)
const %row: int64[2] = [1, -1]
y: %y: float32[1, 10] = Reshape(%b, %row)
output %y
)";
constexpr int kNumbers = 15;  // of both weights

class SmallBlock : public testing::Test {
 protected:
  SmallBlock() : net_(MakeNet(kBlock, 0.6f, 4)) {
    for (const char* name : {"w1", "w2"}) {
      const Tensor& w = net_.value(net_.FindValue(name)).constant;
      SoftWeight soft{.name = name};
      for (const float v : w.values<float>()) {
        soft.low.push_back(std::floor(v / kStep) * kStep);
        soft.high.push_back(soft.low.back() + kStep);
        soft.start.push_back((v - soft.low.back()) / kStep);
      }
      weights_.push_back(std::move(soft));
    }
    for (int s = 0; s < 40; ++s) {
      inputs_.push_back({RandomInput(net_, s)});
      targets_.push_back(EvaluateGraph(net_, inputs_.back()).value()[0]);
    }
  }

  // Of rounding number i up where bit i is set.
  double Error(unsigned up) const {
    std::vector<double> w;
    for (const SoftWeight& weight : weights_) {
      for (size_t i = 0; i < weight.low.size(); ++i)
        w.push_back(up >> w.size() & 1 ? weight.high[i] : weight.low[i]);
    }
    double sum = 0;
    for (size_t s = 0; s < inputs_.size(); ++s) {
      const float* x = inputs_[s][0].data<float>();
      double error = 0, size = 0;
      for (int row = 0; row < 5; ++row) {
        double y[2] = {0, 0};
        for (int k = 0; k < 3; ++k) {
          double a = 0;
          for (int i = 0; i < 3; ++i) a += x[row * 3 + i] * w[i * 3 + k];
          for (int n = 0; n < 2; ++n) y[n] += std::max(a, 0.0) * w[9 + k * 2 + n];
        }
        for (int n = 0; n < 2; ++n) {
          const double t = targets_[s].data<float>()[row * 2 + n];
          error += (y[n] - t) * (y[n] - t);
          size += t * t;
        }
      }
      sum += error / size;
    }
    return sum / static_cast<double>(inputs_.size());
  }

  unsigned Nearest() const {
    unsigned up = 0;
    int bit = 0;
    for (const SoftWeight& weight : weights_) {
      for (const float start : weight.start) up |= (start >= 0.5f ? 1u : 0u) << bit++;
    }
    return up;
  }

  Result<unsigned> Learned(int threads) const {
    EVOQ_ASSIGN(const auto higher, LearnRounding({.graph = net_,
                                                  .weights = weights_,
                                                  .inputs = inputs_,
                                                  .targets = targets_,
                                                  .error_before = Error(Nearest()),
                                                  .threads = threads}));
    unsigned up = 0;
    int bit = 0;
    for (const std::vector<bool>& of : higher) {
      for (const bool one : of) up |= (one ? 1u : 0u) << bit++;
    }
    EXPECT_EQ(bit, kNumbers);
    return up;
  }

  static constexpr float kStep = 0.25f;
  Graph net_;
  std::vector<SoftWeight> weights_;
  std::vector<std::vector<Tensor>> inputs_;
  std::vector<Tensor> targets_;
};

TEST_F(SmallBlock, IsNearTheBestOfAllRoundings) {
  const auto learned = Learned(1);
  ASSERT_TRUE(learned) << learned.error().message();
  int better = 0;
  double best = INFINITY;
  const double own = Error(*learned), nearest = Error(Nearest());
  for (unsigned up = 0; up < 1u << kNumbers; ++up) {
    const double error = Error(up);
    best = std::min(best, error);
    better += error < own;
  }
  EXPECT_LT(own, 0.7 * nearest);
  EXPECT_LE(better, 1 << (kNumbers - 11)) << own << ", best " << best << ", nearest " << nearest;
}

TEST_F(SmallBlock, DoesNotDependOnThreads) {
  const auto one = Learned(1), two = Learned(2);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
}

// ---- the method

Graph Quantized(const Graph& net, const char* methods, std::vector<std::string>* warnings = nullptr,
                QuantizeOptions options = {.weight_bits = {{"*", 2}}}) {
  const SamplesFn samples = RandomSamples(net, 24);
  const auto ranges = Calibrate(net, Reference(), samples, {});
  EXPECT_TRUE(ranges);
  const auto choice = ParseMethods(methods);
  EXPECT_TRUE(choice);
  Graph graph = net;
  const auto report = QuantizeBy(*FindScheme("int8"), *choice, graph, *ranges, options,
                                 {Reference(), samples, {}, LearnRounding});
  EXPECT_TRUE(report) << report.error().message();
  if (report && warnings != nullptr) *warnings = report->warnings;
  return graph;
}

TEST(Brecq, LosesLessThanTheNearest) {
  const Graph net = MakeNet(kConvNet);
  std::vector<std::string> warnings;
  const double none = Sqnr(net, Quantized(net, "none"));
  EXPECT_GT(Sqnr(net, Quantized(net, "brecq", &warnings)), none + 2);
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  // Behind another method it begins with its numbers, and keeps the better ones.
  const double gptq = Sqnr(net, Quantized(net, "gptq"));
  EXPECT_GT(Sqnr(net, Quantized(net, "gptq,brecq")), gptq - 0.3);
  const Graph one = Quantized(net, "brecq", nullptr, {.weight_bits = {{"*", 2}}, .threads = 1}),
              two = Quantized(net, "brecq", nullptr, {.weight_bits = {{"*", 2}}, .threads = 2});
  EXPECT_EQ(Sqnr(one, two), INFINITY);
}

// What a block is given to learn from, with numbers that stay where they begin.
struct Given {
  std::vector<Tensor> inputs, targets;  // of sample 0
  std::vector<float> starts;
  size_t samples = 0;
};

std::vector<Given> GivenTo(const Graph& net, const char* methods) {
  std::vector<Given> blocks;
  const LearnRoundingFn learn =
      [&](const BlockRounding& block) -> Result<std::vector<std::vector<bool>>> {
    Given& given = blocks.emplace_back();
    given.inputs = block.inputs[0];
    given.samples = block.inputs.size();
    given.targets = {block.targets[0]};
    std::vector<std::vector<bool>> higher;
    for (const SoftWeight& weight : block.weights) {
      given.starts.insert(given.starts.end(), weight.start.begin(), weight.start.end());
      higher.emplace_back();
      for (const float start : weight.start) higher.back().push_back(start >= 0.5f);
    }
    return higher;
  };
  const SamplesFn samples = RandomSamples(net, 24);
  const auto ranges = Calibrate(net, Reference(), samples, {});
  EXPECT_TRUE(ranges);
  Graph graph = net;
  EXPECT_TRUE(QuantizeBy(*FindScheme("int8"), *ParseMethods(methods), graph, *ranges,
                         {.weight_bits = {{"*", 2}}}, {Reference(), samples, {}, learn}));
  return blocks;
}

// A block learns on what the blocks before give with their weights rounded, to give what the float
// model gives.
TEST(Brecq, InputsAreThoseOfRoundedBlocks) {
  const Graph net = MakeNet(kConvNet);
  const std::vector<Given> blocks = GivenTo(net, "brecq");
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].samples, 21u);  // of 24, three judge
  Graph shown = net;
  shown.MarkOutput(shown.FindValue("p"));
  const Tensor input = RandomInput(net, 100);
  const auto real = EvaluateGraph(shown, std::span(&input, 1));
  ASSERT_TRUE(real);
  EXPECT_TRUE(BitEqual(blocks[0].inputs[0], input));
  const Tensor &rounded = blocks[1].inputs[0], &exact = (*real)[1];
  ASSERT_EQ(rounded.sizes(), exact.sizes());
  double error = 0, size = 0;
  for (int64_t i = 0; i < exact.elements(); ++i) {
    error += std::pow(rounded.data<float>()[i] - exact.data<float>()[i], 2);
    size += std::pow(exact.data<float>()[i], 2);
  }
  EXPECT_GT(error, 0.01 * size);  // by weights of 2 bits
  EXPECT_LT(error, size);
  const auto wanted = (*real)[0].values<float>(), target = blocks[1].targets[0].values<float>();
  for (size_t i = 1; i < wanted.size(); ++i)  // times a factor
    EXPECT_NEAR(target[i] / target[0], wanted[i] / wanted[0],
                1e-4 * std::fabs(target[i] / target[0]));
}

// Learning begins at the weights, or near the numbers that a method before has chosen otherwise
// than the nearest.
TEST(Brecq, BeginsWhereTheMethodBeforeEnded) {
  const Graph net = MakeNet(kConvNet);
  const auto middle = [](const std::vector<Given>& blocks) {
    int count = 0;
    for (const Given& block : blocks) {
      for (const float start : block.starts) count += start > 0.11f && start < 0.89f;
    }
    return count;
  };
  EXPECT_GT(middle(GivenTo(net, "brecq")), 500);
  // Of small groups the nearest may be what it chose.
  EXPECT_LT(middle(GivenTo(net, "gptq,brecq")), 100);
}

// A block that holds an operator without a gradient keeps what it has, and the others are learned.
TEST(Brecq, SaysWhatItCannotLearn) {
  const Graph net = MakeNet(R"(graph sinh
input %x: float32[1, 16]
const %w1: float32[16, 16]
a: %a: float32[1, 16] = MatMul(%x, %w1)
const %w2: float32[16, 16]
b: %b: float32[1, 16] = MatMul(%a, %w2)
const %w3: float32[16, 16]
c: %c: float32[1, 16] = MatMul(%b, %w3)
const %w4: float32[16, 16]
d: %d: float32[1, 16] = MatMul(%c, %w4)
s: %s: float32[1, 16] = Sinh(%d)
const %w5: float32[16, 4]
e: %e: float32[1, 4] = MatMul(%s, %w5)
output %e
)");
  std::vector<std::string> warnings;
  const Graph learned = Quantized(net, "brecq", &warnings), plain = Quantized(net, "none");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("2 layers keep the rounding that they had before it: no gradient for "
                             "node s (Sinh)"),
            std::string::npos)
      << warnings[0];
  const auto weight = [](const Graph& graph, const char* node) {
    return graph.value(graph.node(graph.FindNode(node)).input(1)).constant;
  };
  EXPECT_FALSE(BitEqual(weight(learned, "a"), weight(plain, "a")));
  EXPECT_TRUE(BitEqual(weight(learned, "d"), weight(plain, "d")));
  EXPECT_TRUE(BitEqual(weight(learned, "e"), weight(plain, "e")));
}

// A layer of a language model beside its cache: what every sample has alike (an empty cache, where
// it is written, how much of it is read) is known, so that gradients reach the weights before it.
TEST(Brecq, LearnsThroughCaches) {
  const Graph net = MakeNet(R"(graph cached
input %x: float32[1, 4, 32]
input %past: float32[1, 2, 6, 16]
input %at: int64[1]
input %length: int64[1]
const %wq: float32[32, 32]
const %wk: float32[32, 32]
const %wo: float32[32, 32]
const %heads: int64[4] = [1, 4, 2, 16]
const %row: int64[3] = [1, 4, 32]
q: %q: float32[1, 4, 32] = MatMul(%x, %wq)
qh: %qh: float32[1, 4, 2, 16] = Reshape(%q, %heads)
qt: %qt: float32[1, 2, 4, 16] = Transpose{perm=[0, 2, 1, 3]}(%qh)
k: %k: float32[1, 4, 32] = MatMul(%x, %wk)
kh: %kh: float32[1, 4, 2, 16] = Reshape(%k, %heads)
kt: %kt: float32[1, 2, 4, 16] = Transpose{perm=[0, 2, 1, 3]}(%kh)
cache: %all: float32[1, 2, 6, 16] = TensorScatter(%past, %kt, %at)
attention: %a: float32[1, 2, 4, 16] = Attention{is_causal=1}(%qt, %all, %all, _, _, _, %length)
at: %ah: float32[1, 4, 2, 16] = Transpose{perm=[0, 2, 1, 3]}(%a)
flat: %f: float32[1, 4, 32] = Reshape(%ah, %row)
o: %y: float32[1, 4, 32] = MatMul(%f, %wo)
output %y
output %all
)");
  const SamplesFn samples =
      [&](const std::function<Status(std::span<const Tensor>)>& use) -> Status {
    for (int i = 0; i < 40; ++i) {
      const std::vector<Tensor> inputs = {
          RandomInput(net, i),
          Tensor::FromValues<float>(Shape{1, 2, 6, 16}, std::vector<float>(192)),
          Tensor::FromValues<int64_t>(Shape{1}, {0}), Tensor::FromValues<int64_t>(Shape{1}, {4})};
      EVOQ_TRY(use(inputs));
    }
    return {};
  };
  const auto quantized = [&](const char* methods) {
    Graph graph = net;
    const auto report = QuantizeBy(*FindScheme("int4-weights"), *ParseMethods(methods), graph, {},
                                   {}, {Reference(), samples, {}, LearnRounding});
    EXPECT_TRUE(report) << report.error().message();
    EXPECT_TRUE(report && report->warnings.empty());
    return graph;
  };
  const Graph learned = quantized("brecq"), plain = quantized("none");
  double before = 0, after = 0;
  const auto error = [&](const Graph& graph, std::span<const Tensor> inputs) {
    const Tensor y = EvaluateGraph(graph, inputs).value()[0],
                 t = EvaluateGraph(net, inputs).value()[0];
    double sum = 0;
    for (int64_t i = 0; i < y.elements(); ++i)
      sum += std::pow(static_cast<double>(y.data<float>()[i]) - t.data<float>()[i], 2);
    return sum;
  };
  ASSERT_TRUE(samples([&](std::span<const Tensor> inputs) -> Status {
    before += error(plain, inputs);
    after += error(learned, inputs);
    return {};
  }));
  EXPECT_LT(after, 0.7 * before);
  for (const char* layer : {"q", "k", "o"}) {
    const auto weight = [&](const Graph& graph) {
      return graph.value(graph.node(graph.FindNode(layer)).input(1)).constant;
    };
    EXPECT_FALSE(BitEqual(weight(learned), weight(plain))) << layer;
  }
}

TEST(Brecq, NeedsGradients) {
  const Graph net = MakeNet(kConvNet);
  const SamplesFn samples = RandomSamples(net, 8);
  const auto ranges = Calibrate(net, Reference(), samples, {});
  ASSERT_TRUE(ranges);
  Graph graph = net;
  const auto report = QuantizeBy(*FindScheme("int8"), *ParseMethods("brecq"), graph, *ranges, {},
                                 {Reference(), samples});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), ErrorCode::kUsage);
}

}  // namespace
}  // namespace evoq
