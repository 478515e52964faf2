// Every pass against its golden file src/passes/golden/NAME.txt, which holds cases of the form
//   ==== what the case shows
//   graph text
//   ---- how many changes the pass counts
//   graph text after the pass
// EVOQ_UPDATE_GOLDENS=1 rewrites what stands in and after the line. Both sides are evaluated on
// random data and must agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "passes/pass.h"
#include "reference/reference.h"

namespace evoq {
namespace {

struct Case {
  std::string title, before, after;
  int changes = 0;
};

std::string GoldenPath(const PassDef& pass) {
  return std::string(EVOQ_SOURCE_DIR) + "/src/passes/golden/" + pass.name + ".txt";
}

std::vector<Case> ReadCases(const PassDef& pass) {
  std::vector<Case> cases;
  std::ifstream file(GoldenPath(pass));
  bool after = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("==== ")) {
      cases.push_back({line.substr(5), "", ""});
      after = false;
    } else if (line.starts_with("----")) {
      cases.back().changes = std::atoi(line.c_str() + 4);
      after = true;
    } else if (!cases.empty()) {
      (after ? cases.back().after : cases.back().before) += line + "\n";
    }
  }
  return cases;
}

void WriteCases(const PassDef& pass, const std::vector<Case>& cases) {
  std::ofstream file(GoldenPath(pass));
  for (const Case& c : cases)
    file << "==== " << c.title << "\n" << c.before << "---- " << c.changes << "\n" << c.after;
}

Result<Graph> Parsed(const std::string& text) {
  EVOQ_ASSIGN(Graph graph, ParseGraph(text));
  EVOQ_TRY(InferTypes(graph));
  return graph;
}

// Random numbers in a range that suits the type: reals within 2, positive for vectors (variances),
// small integers.
Tensor RandomTensor(TensorType type, std::mt19937& random) {
  if (type.quantized() && !type.quant->per_tensor()) {
    QuantParams quant = *type.quant;
    for (float& scale : quant.scales)
      scale = std::uniform_real_distribution<float>(0.005f, 0.02f)(random);
    type.quant = std::make_shared<const QuantParams>(std::move(quant));
  }
  Tensor tensor = Tensor::Allocate(type);
  if (DTypeBits(type.dtype) == 4) {
    for (size_t i = 0; i < tensor.bytes(); ++i)
      tensor.mutable_raw()[i] = static_cast<std::byte>(random() % 256);
    return tensor;
  }
  std::uniform_real_distribution<float> real(type.shape.rank() == 1 ? 0.1f : -2.0f, 2.0f);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (type.dtype == DType::kFloat32) tensor.mutable_data<float>()[i] = real(random);
    if (type.dtype == DType::kBfloat16)
      tensor.mutable_data<uint16_t>()[i] = FloatToBfloat16(real(random));
    if (type.dtype == DType::kFloat16)
      tensor.mutable_data<uint16_t>()[i] = FloatToHalf(real(random));
    if (type.dtype == DType::kUint8)
      tensor.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(random() % 256);
    if (type.dtype == DType::kInt8)
      tensor.mutable_data<int8_t>()[i] =
          static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
    if (type.dtype == DType::kInt32)
      tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(random() % 2001) - 1000;
    if (type.dtype == DType::kInt64)
      tensor.mutable_data<int64_t>()[i] = static_cast<int64_t>(random() % 3);
  }
  return tensor;
}

// Constants that the text does not spell out (more than 8 elements) become random.
void FillConstants(Graph& graph, std::mt19937& random) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const ValueId id{i};
    if (graph.value(id).is_constant() && graph.value(id).constant.elements() > 8)
      graph.SetConstant(id, RandomTensor(graph.value(id).type, random));
  }
}

// Shapes for inputs with symbolic dimensions: N is 2, others differ from each other.
std::map<std::string, std::vector<int64_t>> StaticShapes(const Graph& graph) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (ValueId id : graph.inputs()) {
    std::vector<int64_t> sizes;
    for (const Dim& d : graph.value(id).type.shape.dims())
      sizes.push_back(d.known()                             ? d.value
                      : d.symbol == "N" || d.symbol.empty() ? 2
                      : d.symbol == "H"                     ? 8
                                                            : 6);
    shapes[graph.value(id).name] = sizes;
  }
  return shapes;
}

// The largest scale of a computed value: what one quantization step may change.
double OneStep(const Graph& graph) {
  double step = 0;
  for (NodeId id : graph.order()) {
    for (ValueId out : graph.node(id).outputs) {
      if (out.valid() && graph.value(out).type.quantized())
        step = std::max<double>(step, graph.value(out).type.quant->scales[0]);
    }
  }
  return step;
}

void ExpectClose(const Tensor& a, const Tensor& b, double relative, double absolute) {
  ASSERT_EQ(a.type().shape.ToString(), b.type().shape.ToString());
  ASSERT_EQ(a.type().quantized(), b.type().quantized());
  if (absolute == 0 && a.dtype() != DType::kFloat32) {
    EXPECT_TRUE(BitEqual(a, b));
    return;
  }
  const auto x = ToFloat32(a), y = ToFloat32(b);
  ASSERT_TRUE(x && y);
  double largest = 0, difference = 0;
  for (int64_t i = 0; i < x->elements(); ++i) {
    largest = std::max<double>(largest, std::abs(x->data<float>()[i]));
    difference = std::max<double>(
        difference, std::abs(static_cast<double>(x->data<float>()[i]) - y->data<float>()[i]));
  }
  EXPECT_LE(difference, relative * largest + absolute);
}

// How far a pass may move results: quantization steps, and a part of the largest result.
struct Tolerance {
  double steps = 0, relative = 1e-5;
};
Tolerance ToleranceOf(std::string_view pass) {
  if (pass == "import-qdq")
    return {
        .steps =
            1.01};  // exact integers against float arithmetic: rounding may fall on the other side
  if (pass == "lower-pow" || pass == "lower-resize") return {.relative = 0};
  if (pass == "fuse-cast") return {.relative = 0x1p-8};  // drops a rounding to bfloat16
  return {};
}

// Both graphs compute the same.
void ExpectEquivalent(Graph before, Graph after, const Tolerance& tolerance, std::mt19937& random) {
  const auto shapes = StaticShapes(before);
  ASSERT_TRUE(BindShapes(before, shapes));
  const Status bound = BindShapes(after, shapes);
  ASSERT_TRUE(bound) << bound.error().message();
  std::vector<Tensor> inputs;
  for (ValueId id : before.inputs()) inputs.push_back(RandomTensor(before.value(id).type, random));
  const auto a = EvaluateGraph(before, inputs), b = EvaluateGraph(after, inputs);
  ASSERT_TRUE(a) << a.error().message();
  ASSERT_TRUE(b) << b.error().message();
  ASSERT_EQ(a->size(), b->size());
  for (size_t i = 0; i < a->size(); ++i)
    ExpectClose((*a)[i], (*b)[i], tolerance.relative, tolerance.steps * OneStep(before));
}

class PassTest : public testing::TestWithParam<const PassDef*> {};

TEST_P(PassTest, Golden) {
  const PassDef& pass = *GetParam();
  std::vector<Case> cases = ReadCases(pass);
  ASSERT_FALSE(cases.empty()) << "missing " << GoldenPath(pass);
  const bool update = std::getenv("EVOQ_UPDATE_GOLDENS") != nullptr;
  int changing = 0, keeping = 0;
  for (Case& c : cases) {
    SCOPED_TRACE(c.title);
    auto graph = Parsed(c.before);
    ASSERT_TRUE(graph) << graph.error().message();
    const auto changes = RunPass(*graph, pass);
    ASSERT_TRUE(changes) << changes.error().message();
    ++(*changes > 0 ? changing : keeping);
    if (update) {
      c.after = Print(*graph);
      c.changes = *changes;
    } else {
      EXPECT_EQ(Print(*graph), c.after);
      EXPECT_EQ(*changes, c.changes);
    }
    const auto again = RunPass(*graph, pass);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(*again, 0) << "a second run changes its own result:\n" << Print(*graph);
  }
  EXPECT_GT(changing, 0) << "no case that the pass changes";
  EXPECT_GT(keeping, 0) << "no case that the pass leaves alone";
  if (update) WriteCases(pass, cases);
}

TEST_P(PassTest, Equivalent) {
  const PassDef& pass = *GetParam();
  for (const Case& c : ReadCases(pass)) {
    SCOPED_TRACE(c.title);
    std::mt19937 random(7);
    auto before = Parsed(c.before);
    ASSERT_TRUE(before) << before.error().message();
    FillConstants(*before, random);
    Graph after = *before;
    const auto changes = RunPass(after, pass);
    ASSERT_TRUE(changes) << changes.error().message();
    ExpectEquivalent(*before, after, ToleranceOf(pass.name), random);
  }
}

// A node that the pass is told to leave alone is what it was, whichever it is, and the others
// compute the same.
TEST_P(PassTest, LeavesHeldNodesAlone) {
  const PassDef& pass = *GetParam();
  for (const Case& c : ReadCases(pass)) {
    SCOPED_TRACE(c.title);
    std::mt19937 random(7);
    auto before = Parsed(c.before);
    ASSERT_TRUE(before) << before.error().message();
    FillConstants(*before, random);
    for (const NodeId id : before->order()) {
      const Node& held = before->node(id);
      SCOPED_TRACE(held.name);
      Graph after = *before;
      const Disabled disabled{.pass = pass.name, .node = held.name};
      const auto changes = RunPass(after, pass, {&disabled, 1});
      ASSERT_TRUE(changes) << changes.error().message();
      if (const NodeId kept = after.FindNode(held.name); kept.valid()) {
        EXPECT_EQ(after.node(kept).op, held.op);
        EXPECT_EQ(after.node(kept).domain, held.domain);
        EXPECT_EQ(after.node(kept).attrs, held.attrs);
        EXPECT_EQ(after.node(kept).bodies, held.bodies);
        EXPECT_EQ(after.node(kept).inputs.size(), held.inputs.size());
      } else {  // only as what nothing reads any more
        const ValueId out = after.FindValue(before->value(held.outputs[0]).name);
        EXPECT_TRUE(!out.valid() || !after.value(out).producer.valid());
        EXPECT_FALSE(before->IsOutput(held.outputs[0]));
      }
      std::mt19937 inputs = random;  // those of test Equivalent
      ExpectEquivalent(*before, after, ToleranceOf(pass.name), inputs);
    }
  }
}

std::string TestName(const testing::TestParamInfo<const PassDef*>& info) {
  std::string name = info.param->name;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PassTest, testing::ValuesIn(AllPasses().begin(), AllPasses().end()),
                         TestName);

TEST(Passes, AreDocumented) {
  std::ifstream file(std::string(EVOQ_SOURCE_DIR) + "/docs/passes.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const PassDef* pass : AllPasses())
    EXPECT_NE(text.str().find(std::string("### ") + pass->name + "\n"), std::string::npos)
        << pass->name;
}

// Relu, Clip and nearest Resize behind a DequantizeLinear: on integers they give the reals they
// gave before, bit for bit, for all 256 values, whatever the scale (also one whose products are
// denormal or overflow).
TEST(ImportQdq, CarriedIntegersGiveTheSameReals) {
  const auto pass = std::find_if(AllPasses().begin(), AllPasses().end(), [](const PassDef* p) {
    return std::string_view(p->name) == "import-qdq";
  });
  ASSERT_NE(pass, AllPasses().end());
  for (const char* type : {"uint8", "int8"}) {
    const int low = std::string(type) == "uint8" ? 0 : -128;
    for (float scale : {0.1f, 0.02f, 0.023529412f, 1.0f, 1e-40f, 3e36f}) {
      for (int zero : {low, low + 3, low + 128, low + 255}) {
        // Bounds at the values of the integers 100 above and 20 below the middle.
        const float from = static_cast<float>(low + 108 - zero) * scale,
                    to = static_cast<float>(low + 228 - zero) * scale;
        auto graph = Parsed(fmt::format(R"(input %x: {}[1, 1, 256](scale {}, zero {})
const %sizes: int64[3] = [1, 1, 512]
const %low: float32[] = [{:.9e}]
const %high: float32[] = [{:.9e}]
d: %d = DequantizeLinear(%x)
relu: %a = Relu(%d)
clip: %b = Clip(%d, %low, %high)
resize: %c = Resize{{mode="nearest"}}(%d, _, _, %sizes)
output %a
output %b
output %c
)",
                                        type, scale, zero, from, to));
        ASSERT_TRUE(graph) << graph.error().message();
        Tensor x = Tensor::Allocate(graph->value(graph->inputs()[0]).type);
        for (int i = 0; i < 256; ++i) x.mutable_raw()[i] = static_cast<std::byte>(i);
        const auto before = EvaluateGraph(*graph, std::vector{x});
        ASSERT_TRUE(before) << before.error().message();
        ASSERT_TRUE(RunPass(*graph, **pass));
        int carried = 0;
        for (NodeId id : graph->order())
          carried += graph->node(id).op != "DequantizeLinear" &&
                     graph->value(graph->node(id).input(0)).type.quantized();
        if (scale > 0.01f && scale < 2) EXPECT_EQ(carried, 3) << Print(*graph);
        const auto after = EvaluateGraph(*graph, std::vector{x});
        ASSERT_TRUE(after) << after.error().message();
        for (size_t i = 0; i < before->size(); ++i)
          EXPECT_TRUE(BitEqual((*before)[i], (*after)[i]))
              << type << " " << scale << " " << zero << " output " << i;
      }
    }
  }
}

// Bounds that a file names without holding as much: no list of the places between them is written,
// and none of them overflows.
TEST(FuseBags, BagsOfAnySizeThatIsNamed) {
  const auto pass = std::find_if(AllPasses().begin(), AllPasses().end(), [](const PassDef* p) {
    return std::string_view(p->name) == "fuse-bags";
  });
  ASSERT_NE(pass, AllPasses().end());
  const auto fused = [&](int64_t begin, int64_t end) {
    auto graph = Parsed(fmt::format(R"(input %x: int64[17179869184]
const %count: int64[] = [2]
const %yes: bool[] = [1]
const %b: int64[2] = [{0}, {0}]
const %e: int64[2] = [{1}, {1}]
l: %y: float32[?, 5] = Loop{{captured=3}}(%count, %yes, %b, %e, %x)
| graph body
| input %i: int64[...]
| input %c: bool[...]
| input %b: int64[...]
| input %e: int64[...]
| input %x: int64[...]
| from: %from: int64[] = Gather{{axis=0}}(%b, %i)
| to: %to: int64[] = Gather{{axis=0}}(%e, %i)
| const %zero: int64[1] = [0]
| first: %first: int64[1] = Unsqueeze(%from, %zero)
| last: %last: int64[1] = Unsqueeze(%to, %zero)
| cut: %cut: int64[?] = Slice(%x, %first, %last, %zero)
| const %table: float32[9, 5]
| look: %rows: float32[?, 5] = Gather{{axis=0}}(%table, %cut)
| sum: %sum: float32[5] = ReduceSum{{keepdims=0}}(%rows, %zero)
| output %c
| output %sum
output %y
)",
                                    begin, end));
    return graph ? RunPass(*graph, **pass).value_or(-1) : -2;
  };
  EXPECT_EQ(fused(1, 4), 1);
  EXPECT_EQ(fused(0, int64_t{1} << 34), 0);
  EXPECT_EQ(fused(-3, 0), 0);
  EXPECT_EQ(fused(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()), 0);
  EXPECT_EQ(fused(std::numeric_limits<int64_t>::max() - 3, std::numeric_limits<int64_t>::max()), 0);
}

constexpr char kChain[] = R"(input %x: float32[1, 4]
a: %a = Identity(%x)
b: %b = Relu(%a)
c: %c = Identity(%b)
output %c
)";

TEST(RunPasses, StopsAfterN) {
  auto graph = Parsed(kChain);
  ASSERT_TRUE(graph);
  PassOptions options;
  options.stop_after = 0;
  ASSERT_TRUE(RunPasses(*graph, Stage::kOptimize, options));
  EXPECT_EQ(graph->order().size(), 3);
  int changed = 0;
  options.stop_after = 1;
  options.log = [&](const PassDef&, int changes, const Graph&) { changed += changes > 0; };
  ASSERT_TRUE(RunPasses(*graph, Stage::kOptimize, options));
  EXPECT_EQ(changed, 1);
  EXPECT_EQ(graph->order().size(), 1);
}

// No pass asks an operator that may have no inputs for its first one (the sanitizers see it).
TEST(Passes, OperatorsWithoutInputs) {
  for (const PassDef* pass : AllPasses()) {
    auto graph = ParseGraph(
        "graph g\nh: %y = OptionalHasElement()\nr: %r = RandomUniform{shape=[2]}()\n"
        "output %y\noutput %r\n");
    ASSERT_TRUE(graph) << graph.error().message();
    ASSERT_TRUE(InferTypes(*graph));
    const auto changes = pass->run(*graph);
    EXPECT_TRUE(changes) << pass->name;
  }
}

}  // namespace
}  // namespace evoq
