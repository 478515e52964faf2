#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "onnx/test_data.h"
#include "ops/op.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/page.h"
#include "tests/conformance/suite.h"

namespace evoq {
namespace {

std::string Root() {
  const std::string data = DataFolder();
  return data.empty() ? "" : data + "/onnx-backend-tests";
}

const std::string kList = std::string(EVOQ_SOURCE_DIR) + "/tests/conformance/ignore.txt";

// All cases in all modes, run once for all tests.
const SuiteResult& Suite() {
  static const SuiteResult result = [] {
    const auto list = ReadIgnoreList(kList);
    EVOQ_CHECK(list.has_value(), "{}", list.error().message());
    SuiteResult r = RunSuite(Root(), *list);
    fmt::print("{}\n", r.ToString());
    return r;
  }();
  return result;
}

class Conformance : public testing::Test {
 protected:
  void SetUp() override {
    if (Root().empty()) GTEST_SKIP() << "no data folder: set EVOQ_DATA";
  }
};

TEST_F(Conformance, EveryCasePassesOrIsListed) {
  EXPECT_FALSE(Suite().cases.empty());
  EXPECT_TRUE(Suite().problems.empty());
}

// Classic machine learning, optimizers and previews are not evoq's.
bool IsOutside(const std::string& name) {
  for (const char* pattern :
       {"node/test_ai_onnx_ml*", "node/test_ada*", "node/test_momentum*", "node/test_nesterov*",
        "node/test_flexattention*", "simple/test_gradient*"}) {
    if (GlobMatch(pattern, name)) return true;
  }
  return false;
}

TEST_F(Conformance, NinetyNinePercentOfNodesAndAllOfTheRest) {
  if (std::getenv("EVOQ_CASE") != nullptr) GTEST_SKIP() << "EVOQ_CASE selects cases";
  for (size_t m = 0; m < AllModes().size(); ++m) {
    int nodes = 0, passed = 0, others_failed = 0;
    for (const CaseResult& c : Suite().cases) {
      if (IsOutside(c.name)) continue;
      const bool node = c.name.starts_with("node/"), passes = c.why[m].empty();
      nodes += node;
      passed += node && passes;
      others_failed += !node && !passes;
    }
    EXPECT_GE(passed, nodes * 0.99) << AllModes()[m].name;
    EXPECT_EQ(others_failed, 0) << AllModes()[m].name;
    EXPECT_GT(nodes, 1700);
  }
}

// Of random values, types and shapes can be asked for.
TEST_F(Conformance, RandomCasesHaveTheRightTypes) {
  int cases = 0;
  for (const std::string& name : CaseNames(Root())) {
    if (!GlobMatch("node/test_bernoulli*", name) && !GlobMatch("node/test_training_dropout*", name))
      continue;
    SCOPED_TRACE(name);
    const auto c = ReadCase(Root() + "/" + name);
    ASSERT_TRUE(c) << c.error().message();
    for (const Mode& mode : AllModes()) {
      const auto got = mode.run(c->graph, c->data[0].inputs, testing::TempDir() + "/random.etm");
      ASSERT_TRUE(got) << got.error().message();
      const Status same = CompareTypes(*got, c->data[0].outputs);
      EXPECT_TRUE(same) << same.error().message();
    }
    ++cases;
  }
  EXPECT_GE(cases, 10);
}

// The only node of a graph with those of its outputs that `keep` numbers; trailing ones are not
// there, others have no name.
Graph WithOutputs(const Graph& graph, const std::vector<size_t>& keep) {
  Graph cut;
  cut.metadata = graph.metadata;
  std::map<ValueId, ValueId> known;
  Node node = graph.node(graph.order()[0]);
  for (ValueId id : graph.inputs())
    known[id] = cut.AddInput(graph.value(id).name, graph.value(id).type);
  for (ValueId& input : node.inputs) {
    if (!input.valid()) continue;
    const Value& value = graph.value(input);
    if (!known.contains(input)) known[input] = cut.AddConstant(value.name, value.constant);
    input = known.at(input);
  }
  const std::vector<ValueId> outputs = std::exchange(node.outputs, {});
  const OpDef* op = FindOp(node.op, node.domain);
  const bool any_number = op == nullptr || op->outputs < 0;  // it may count: Split has parts
  node.outputs.resize(any_number ? outputs.size() : keep.back() + 1);
  for (size_t i : keep)
    node.outputs[i] = cut.AddValue(graph.value(outputs[i]).name, graph.value(outputs[i]).type);
  const std::vector<ValueId> kept = node.outputs;
  cut.AddNode(std::move(node));
  for (ValueId id : kept) {
    if (id.valid()) cut.MarkOutput(id);
  }
  EVOQ_CHECK(cut.Sort().has_value());
  return cut;
}

// Outputs that a model leaves out cost the others nothing: no kernel counts on all of them.
TEST_F(Conformance, OutputsMayBeLeftOut) {
  int checks = 0;
  for (const CaseResult& result : Suite().cases) {
    const auto c = ReadCase(Root() + "/" + result.name);
    if (!c || c->graph.order().size() != 1) continue;
    const Node& node = c->graph.node(c->graph.order()[0]);
    const size_t count = node.outputs.size();
    if (count < 2 || c->graph.outputs() != node.outputs || !node.bodies.empty()) continue;
    // The first ones; each alone; all but one.
    std::set<std::vector<size_t>> choices;
    for (size_t i = 0; i < count; ++i) {
      std::vector<size_t> first(i + 1), others;
      std::iota(first.begin(), first.end(), size_t{0});
      for (size_t k = 0; k < count; ++k) {
        if (k != i) others.push_back(k);
      }
      choices.insert({first, {i}, others});
    }
    for (size_t m = 0; m < AllModes().size(); ++m) {
      if (!result.why[m].empty()) continue;
      const Mode& mode = AllModes()[m];
      for (const std::vector<size_t>& keep : choices) {
        SCOPED_TRACE(fmt::format("{} in mode {}, outputs {}", result.name, mode.name,
                                 fmt::join(keep, ", ")));
        const DataSet& data = c->data[0];
        std::vector<Tensor> wanted;
        for (size_t i : keep) wanted.push_back(data.outputs[i]);
        const auto got = mode.run(WithOutputs(c->graph, keep), data.inputs,
                                  testing::TempDir() + "/left_out.etm");
        const Status same = got ? CompareOutputs(*got, wanted) : tl::unexpected(got.error());
        EXPECT_TRUE(same) << same.error().message();
        ++checks;
      }
    }
  }
  if (std::getenv("EVOQ_CASE") == nullptr) EXPECT_GT(checks, 300);
}

// EVOQ_UPDATE_GOLDENS=1 rewrites the page.
TEST_F(Conformance, OperatorsPageSaysWhatHolds) {
  if (std::getenv("EVOQ_CASE") != nullptr) GTEST_SKIP() << "EVOQ_CASE selects cases";
  const auto page = OperatorsPage(Root(), Suite());
  ASSERT_TRUE(page) << page.error().message();
  const std::string path = std::string(EVOQ_SOURCE_DIR) + "/docs/operators.md";
  if (std::getenv("EVOQ_UPDATE_GOLDENS") != nullptr)
    ASSERT_TRUE(WriteFileAtomic(path, std::string_view(*page)));
  EXPECT_EQ(*page, ReadTextFile(path).value_or(""));
}

TEST(OperatorsPage, NamesEveryOperator) {
  const std::string page =
      ReadTextFile(std::string(EVOQ_SOURCE_DIR) + "/docs/operators.md").value_or("");
  for (const OpDef* op : AllOps()) {
    const std::string row = *op->domain ? fmt::format("\n| {} | {} |", op->domain, op->name)
                                        : fmt::format("\n| {} |", op->name);
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST(ConformanceList, RefusesLinesOfAnotherForm) {
  for (const char* line : {"node/test_abs", "node/test_abs: no mode",
                           "node/test_abs *:", "node/test_abs * extra: why"}) {
    const std::string path = testing::TempDir() + "/ignore.txt";
    ASSERT_TRUE(WriteFileAtomic(path, std::string_view(line)));
    EXPECT_FALSE(ReadIgnoreList(path)) << line;
  }
}

}  // namespace
}  // namespace evoq
