#include "parity/part_runs.h"

#include "models/models.h"
#include "quant/mixed.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

class PartRunsTest : public ::testing::Test {
 protected:
  PartRunsTest() {
    for (int i = 0; i < 3; ++i) samples_.push_back({RandomInput(net_, i)});
    const auto ranges = Calibrate(net_, Reference(), RandomSamples(net_, 4), {});
    EXPECT_TRUE(ranges);
    ranges_ = *ranges;
  }

  Graph Quantized(const std::vector<std::string>& exclude) const {
    Graph graph = net_;
    QuantizeOptions options;
    options.exclude = exclude;
    EXPECT_TRUE(QuantizeStatic(graph, ranges_, options));
    return graph;
  }
  // By the reference evaluator; counts the nodes of what is run.
  PrepareFn Counted() {
    return [this](const Graph& graph) -> Result<RunFn> {
      nodes_ += graph.order().size();
      return Reference()(graph);
    };
  }
  void ExpectEqualRuns(PartRuns& runs, const Graph& variant, const std::string& what) {
    size_t count = 0;
    const Status ran = runs.Run(variant, [&](size_t s, std::span<const Tensor> outputs) -> Status {
      EXPECT_EQ(s, count++) << what;
      const auto whole = EvaluateGraph(variant, samples_[s]);
      EXPECT_TRUE(whole) << whole.error().message();
      EXPECT_EQ(outputs.size(), whole->size()) << what;
      for (size_t o = 0; o < outputs.size(); ++o)
        EXPECT_TRUE(BitEqual(outputs[o], (*whole)[o])) << what << ", sample " << s;
      return {};
    });
    ASSERT_TRUE(ran) << what << ": " << ran.error().message();
    EXPECT_EQ(count, samples_.size()) << what;
  }

  const Graph net_ = MakeNet(kConvNet);
  std::vector<std::vector<Tensor>> samples_;
  Ranges ranges_;
  size_t nodes_ = 0;
};

const std::vector<std::string> kAll = {"stem", "depthwise", "project", "last", "classes"};

TEST_F(PartRunsTest, EachLayerAloneAndEachOneSpared) {
  const Graph all = Quantized({});
  PartRuns of_float(net_, samples_, Counted()), of_quantized(all, samples_, Counted());
  size_t whole = 0;
  for (const std::string& layer : kAll) {
    std::vector<std::string> others = kAll;
    std::erase(others, layer);
    const Graph alone = Quantized(others), spared = Quantized({layer});
    whole += alone.order().size() + spared.order().size();
    ExpectEqualRuns(of_float, alone, layer + " alone");
    ExpectEqualRuns(of_quantized, spared, layer + " spared");
  }
  // The first layer changes from the input on; the others begin later. What is kept is computed
  // too.
  EXPECT_LT(nodes_, whole * 9 / 10);
  EXPECT_LE(of_float.whole_runs() + of_quantized.whole_runs(), 2);
}

TEST_F(PartRunsTest, InAnyOrderAndTwice) {
  const Graph all = Quantized({});
  PartRuns runs(all, samples_, Reference());
  for (const char* layer : {"classes", "stem", "last", "last", "depthwise", "classes"})
    ExpectEqualRuns(runs, Quantized({layer}), layer);
  ExpectEqualRuns(runs, all, "the model itself");
  ExpectEqualRuns(runs, net_, "in float");
}

TEST_F(PartRunsTest, WhatTakesTooMuchMemoryIsRunWhole) {
  const Graph all = Quantized({});
  // What `last` reads: [1, 8, 6, 6] bytes of three samples.
  PartRuns tight(all, samples_, Reference(), 3 * 8 * 36 - 1),
      enough(all, samples_, Reference(), 3 * 8 * 36);
  const Graph spared = Quantized({"classes"});
  ExpectEqualRuns(tight, spared, "tight");
  ExpectEqualRuns(enough, spared, "enough");
  EXPECT_EQ(enough.whole_runs(), 0);
  EXPECT_EQ(tight.whole_runs(), 1);
}

TEST_F(PartRunsTest, AnotherConstantIsAnotherValue) {
  Graph changed = net_;
  Tensor w = net_.value(net_.FindValue("w4")).constant.Clone();
  changed.SetConstant(changed.FindValue("w4"), w.Clone());
  const auto shares = [&](const char* name) {
    return SharedValues(net_, changed).count(changed.FindValue(name)) > 0;
  };
  EXPECT_TRUE(shares("l")) << "the same numbers elsewhere in memory";
  w.mutable_data<float>()[0] += 1;
  changed.SetConstant(changed.FindValue("w4"), w);
  EXPECT_TRUE(shares("x") && shares("m"));
  EXPECT_FALSE(shares("l") || shares("c"));
  PartRuns runs(net_, samples_, Reference());
  ExpectEqualRuns(runs, changed, "changed");
  EXPECT_EQ(runs.whole_runs(), 0);
}

TEST_F(PartRunsTest, AnInnerOutputIsTakenAsItIs) {
  Graph net = net_;
  net.MarkOutput(net.FindValue("p"));
  Graph changed = net;
  Tensor w = net.value(net.FindValue("w5")).constant.Clone();
  w.mutable_data<float>()[3] = 9;
  changed.SetConstant(changed.FindValue("w5"), w);
  PartRuns runs(net, samples_, Counted());
  ExpectEqualRuns(runs, changed, "two outputs");
  EXPECT_EQ(nodes_, net.order().size());  // what both share once, and the last layer
}

}  // namespace
}  // namespace evoq
