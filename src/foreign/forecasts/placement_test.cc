#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "foreign/forecasts/complete.h"
#include "foreign/forecasts/rule.h"
#include "foreign/forecasts/test_net.h"
#include "reference/reference.h"

namespace evoq {
namespace {

// A net with a fault, or the same net without it.
struct Case {
  const char* code;
  const char* runtime;
  std::function<Graph(bool faulty)> make;
  double tolerance = 0.06;  // of the outputs after the repair, as a share of the largest
};

// Integers up to a convolution, its Relu and the pair behind it.
ValueId Healthy(Net& n) { return n.Pair(n.Op("Relu", {n.Conv(n.Pair(n.x, 0.02f, 128))}), 0.02f); }

Graph Dynamic(bool faulty) {
  Net n;
  if (!faulty) return n.Done({Healthy(n)});
  const ValueId x = n.x;
  Node quantize{.op = "DynamicQuantizeLinear", .name = "dynamic", .inputs = {x}, .outputs = {}};
  for (const char* name : {"xq", "xs", "xz"}) quantize.outputs.push_back(n.graph.AddValue(name));
  const std::vector<ValueId> parts = quantize.outputs;
  n.graph.AddNode(std::move(quantize));
  EXPECT_TRUE(InferTypes(n.graph));
  Tensor w = Tensor::Allocate(TensorType(DType::kUint8, Shape{4, 8, 3, 3}));
  for (int64_t i = 0; i < w.elements(); ++i)
    w.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i * 37 % 251);
  const ValueId weights = n.graph.AddConstant("w", w),
                zero = n.graph.AddConstant("wz", Tensor::Scalar<uint8_t>(120));
  const ValueId sums = n.Op("ConvInteger", {parts[0], weights, parts[2], zero});
  Attrs to;
  to.Set("to", static_cast<int64_t>(DType::kFloat32));
  const ValueId real = n.Op("Cast", {sums}, to);
  const ValueId scale = n.Op("Mul", {parts[1], n.Floats(Shape{}, {0.01f})});
  return n.Done({n.Op("Mul", {real, scale})});
}

Graph Residual(bool faulty, const char* runtime) {
  const bool symmetric = std::string_view(runtime) == "tensorrt";
  Net n;
  const DType dtype = symmetric ? DType::kInt8 : DType::kUint8;
  const int zero = symmetric ? 0 : 128;
  const ValueId in = n.Op("Relu", {n.Conv(n.Pair(n.x, 0.03f, zero, dtype))});
  const ValueId a = n.Pair(in, 0.04f, 0, dtype);
  const ValueId product = n.Conv(a);
  const ValueId shortcut = faulty ? in : a;
  const ValueId left = symmetric || faulty ? product : n.Pair(product, 0.05f, zero, dtype);
  return n.Done({n.Pair(n.Op("Add", {left, shortcut}), 0.08f, zero, dtype)});
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> kCases = {
      {"qlinear-operators", "ort-cuda",
       [](bool faulty) {
         Net n;
         const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
         if (faulty) n.graph.attrs(n.graph.value(y).producer).Set("evoq.from", "QLinearConv");
         return n.Done({n.Pair(y, 0.02f, 128)});
       }},
      {"dynamic-quantization", "ort-cpu", Dynamic},
      {"batch-norm-apart", "ort-cpu",
       [](bool faulty) {
         Net n;
         ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
         const auto constant = [&](float v) {
           return n.Floats(Shape{8}, std::vector<float>(8, v));
         };
         if (faulty)
           y = n.Op("BatchNormalization",
                    {y, constant(1.5f), constant(0.2f), constant(0.1f), constant(2)});
         return n.Done({n.Pair(y, 0.04f, 128)});
       }},
      {"activation-apart", "ort-cpu",
       [](bool faulty) {
         Net n;
         ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
         if (faulty) y = n.Pair(y, 0.04f, 128);
         return n.Done({n.Pair(n.Op("Relu", {y}), 0.02f)});
       }},
      {"activation-not-split", "ort-cpu",
       [](bool faulty) {
         Net n;
         ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128));
         if (!faulty) y = n.Pair(y, 0.04f, 128);
         Attrs attrs;
         attrs.Set("alpha", 0.25f);
         return n.Done({n.Pair(n.Op("LeakyRelu", {y}, attrs), 0.025f, 50)});
       }},
      {"double-pair", "tensorrt",
       [](bool faulty) {
         Net n;
         ValueId y = n.Pair(n.x, 0.02f, 0, DType::kInt8);
         if (faulty) y = n.Pair(y, 0.03f, 0, DType::kInt8);
         return n.Done({n.Conv(y)});
       }},
      {"pair-repeated", "ort-cpu",
       [](bool faulty) {
         Net n;
         const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128)), a = n.Pair(y, 0.05f, 128);
         const ValueId b = faulty ? n.Pair(y, 0.05f, 128) : a;
         const ValueId gate = n.Pair(n.Op("Sigmoid", {a}), 0.01f);
         return n.Done({n.Pair(n.Op("Mul", {b, gate}), 0.05f, 128)});
       },
       1e-6},
      {"residual-not-quantized", "ort-cpu",
       [](bool faulty) { return Residual(faulty, "ort-cpu"); }},
      {"residual-not-quantized", "tensorrt",
       [](bool faulty) { return Residual(faulty, "tensorrt"); }},
      {"residual-not-quantized", "openvino",
       [](bool faulty) { return Residual(faulty, "openvino"); }},
      {"concat-not-quantized", "ort-cpu",
       [](bool faulty) {
         Net n;
         const ValueId x = n.Pair(n.x, 0.02f, 128);
         const ValueId a = n.Conv(x), b = n.Pair(n.Conv(x), 0.05f, 128);
         Attrs attrs;
         attrs.Set("axis", int64_t{1});
         return n.Done(
             {n.Pair(n.Op("Concat", {faulty ? a : n.Pair(a, 0.05f, 128), b}, attrs), 0.05f, 128)});
       }},
      {"pooling-in-float", "ort-cpu",
       [](bool faulty) {
         Net n;
         ValueId y = n.Op("GlobalAveragePool", {Healthy(n)});
         if (!faulty) y = n.Pair(y, 0.02f);
         return n.Done({n.Pair(n.Conv(y), 0.05f, 128)});
       },
       0.2},
      {"move-in-float", "ort-cpu",
       [](bool faulty) {
         Net n;
         ValueId y = n.Op("Flatten", {Healthy(n)});
         if (!faulty) y = n.Pair(y, 0.02f);
         return n.Done({n.Pair(n.Op("Gemm", {y, n.Stored({288, 10}, 1)}), 0.1f, 128)});
       }},
      {"grid-change", "ort-cpu",
       [](bool faulty) {
         Net n;
         Attrs attrs;
         attrs.Set("kernel_shape", std::vector<int64_t>{2, 2});
         const ValueId pooled = n.Op("MaxPool", {Healthy(n)}, attrs);
         const ValueId y = n.Pair(pooled, faulty ? 0.03f : 0.02f);
         return n.Done(
             {n.Pair(n.Conv(y, n.Stored({8, 8, 3, 3}, -1),
                            n.Stored({8}, -1, DType::kInt32, 0, (faulty ? 0.03f : 0.02f) * 0.001f)),
                     0.05f, 128)});
       }},
      {"output-read-twice", "ort-cpu",
       [](bool faulty) {
         Net n;
         const ValueId y = n.Conv(n.Pair(n.x, 0.02f, 128)), z = n.Pair(y, 0.04f, 128);
         return n.Done({n.Op("Exp", {faulty ? y : z}), n.Pair(n.Conv(z), 0.05f, 128)});
       }},
      {"relu-kept", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done(
             {n.Pair(n.Op("Relu", {n.Conv(n.Pair(n.x, 0.02f, 128))}), 0.03f, faulty ? 100 : 0)});
       }},
      {"signed-activations", "ort-cpu",
       [](bool faulty) {
         Net n;
         const DType dtype = faulty ? DType::kInt8 : DType::kUint8;
         const int zero = faulty ? 0 : 128;
         const ValueId a = n.Pair(n.x, 0.02f, zero, dtype);
         return n.Done(
             {n.Pair(n.Conv(a), 0.05f, zero, dtype), n.Pair(n.Conv(a), 0.05f, zero, dtype)});
       },
       1e-6},
      {"asymmetric-activations", "tensorrt",
       [](bool faulty) {
         Net n;
         return n.Done({n.Conv(
             n.Pair(n.x, 0.02f, faulty ? 100 : 0, faulty ? DType::kUint8 : DType::kInt8), {}, {})});
       }},
      {"unsigned-weights", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done(
             {n.Pair(n.Conv(n.Pair(n.x, 0.02f, 128),
                            n.Stored({8, 8, 3, 3}, -1, faulty ? DType::kUint8 : DType::kInt8,
                                     faulty ? 120 : 0)),
                     0.05f, 128)});
       }},
      {"weight-axis", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done({n.Pair(
             n.Conv(n.Pair(n.x, 0.02f, 128), n.Stored({8, 8, 3, 3}, faulty ? 1 : 0)), 0.05f, 128)});
       }},
      {"bias-not-int32", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done({n.Pair(n.Conv(n.Pair(n.x, 0.02f, 128), n.Stored({8, 8, 3, 3}, -1),
                                      n.Stored({8}, -1, faulty ? DType::kInt8 : DType::kInt32, 0,
                                               faulty ? 0.01f : 2e-5f)),
                               0.05f, 128)});
       }},
      {"bias-not-int32", "ort-cpu",
       [](bool faulty) {
         Net n;
         const ValueId w = n.Stored({8, 8, 3, 3}, -1),
                       b = n.Stored({8}, -1, DType::kInt32, 0, faulty ? 2.05e-5f : 2.01e-5f);
         return n.Done({n.Pair(n.Conv(n.Pair(n.x, 0.02f, 128), w, b), 0.05f, 128)});
       }},
      {"bias-quantized", "tensorrt",
       [](bool faulty) {
         Net n;
         const ValueId bias = faulty ? n.Stored({8}, -1, DType::kInt32)
                                     : n.Floats(Shape{8}, std::vector<float>(8, 0.5f));
         return n.Done({n.Conv(n.Pair(n.x, 0.02f, 0, DType::kInt8), {}, bias)});
       },
       1e-6},
      {"no-integer-kernel", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done({n.Pair(n.Op(faulty ? "HardSwish" : "Sigmoid", {Healthy(n)}), 0.01f)});
       }},
      {"pair-between-floats", "ort-cpu",
       [](bool faulty) {
         Net n;
         const ValueId a = n.Op("Tanh", {n.x});
         return n.Done({n.Op("Exp", {faulty ? n.Pair(a, 0.01f, 128) : a}), Healthy(n)});
       }},
      {"weights-dequantized-each-run", "ort-cpu",
       [](bool faulty) {
         Net n;
         return n.Done(
             {n.Conv(n.x, faulty ? n.Stored({8, 8, 3, 3}, 0)
                                 : n.Floats(Shape{8, 8, 3, 3}, std::vector<float>(576, 0.01f)))});
       },
       1e-6},
      {"cpu-fallback", "ort-cuda",
       [](bool faulty) {
         Net n;
         return n.Done({n.Op("Relu", {n.Op(faulty ? "Tan" : "Tanh", {n.Op("Relu", {n.x})})})});
       }},
  };
  return kCases;
}

const PlacementFinding* FindingOf(const Examination& e, std::string_view code) {
  for (const PlacementFinding& finding : e.findings) {
    if (code == finding.rule->code) return &finding;
  }
  return nullptr;
}

std::vector<Tensor> Outputs(const Graph& graph) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-2, 2);
  Tensor x = Tensor::Allocate(graph.value(graph.inputs()[0]).type);
  for (int64_t i = 0; i < x.elements(); ++i) x.mutable_data<float>()[i] = uniform(random);
  auto y = EvaluateGraph(graph, std::span(&x, 1));
  EXPECT_TRUE(y) << y.error().message();
  return y ? *y : std::vector<Tensor>();
}

// The largest difference, as a share of the largest number.
double Difference(const Graph& a, const Graph& b) {
  const std::vector<Tensor> x = Outputs(a), y = Outputs(b);
  EXPECT_EQ(x.size(), y.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double largest = 1e-6, difference = 0;
    for (int64_t k = 0; k < x[i].elements(); ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(x[i].data<float>()[k])));
      difference = std::max(
          difference, std::abs(static_cast<double>(x[i].data<float>()[k] - y[i].data<float>()[k])));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

class PlacementRules : public testing::TestWithParam<size_t> {};

TEST_P(PlacementRules, FindsItsFaultAndNothingInTheHealthyNet) {
  const Case& c = Cases()[GetParam()];
  const Runtime& runtime = *FindRuntime(c.runtime);
  EXPECT_NE(FindingOf(Examine(c.make(true), runtime), c.code), nullptr);
  EXPECT_EQ(FindingOf(Examine(c.make(false), runtime), c.code), nullptr);
}

TEST_P(PlacementRules, RepairRemovesTheFaultAndKeepsTheNumbers) {
  const Case& c = Cases()[GetParam()];
  const Runtime& runtime = *FindRuntime(c.runtime);
  Graph graph = c.make(true);
  const Graph before = graph;
  const Examination seen = Examine(graph, runtime);
  ASSERT_NE(FindingOf(seen, c.code), nullptr) << c.code;
  const PlacementFinding finding = *FindingOf(seen, c.code);
  if (finding.rule->repair == nullptr) return;
  EXPECT_EQ(finding.repairable, static_cast<int>(finding.faults.size()));
  auto repairs = RepairPlacement(graph, runtime);
  ASSERT_TRUE(repairs) << repairs.error().message();
  EXPECT_TRUE(std::any_of(repairs->repairs.begin(), repairs->repairs.end(), [&](const Repair& r) {
    return r.rule == finding.rule && r.places > 0 && r.made;
  }));
  EXPECT_EQ(FindingOf(Examine(graph, runtime), c.code), nullptr);
  EXPECT_EQ(Examine(graph, runtime).repairable(), 0);
  EXPECT_LE(Difference(before, graph), c.tolerance);
  for (size_t i = 0; i < before.outputs().size(); ++i)
    EXPECT_EQ(graph.value(graph.outputs()[i]).name, before.value(before.outputs()[i]).name);
  auto again = RepairPlacement(graph, runtime);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(again->repairs.empty());
}

std::string CaseName(const testing::TestParamInfo<size_t>& info) {
  std::string name = std::string(Cases()[info.param].code) + "_" + Cases()[info.param].runtime;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + "_" + std::to_string(info.param);
}
INSTANTIATE_TEST_SUITE_P(All, PlacementRules, testing::Range(size_t{0}, Cases().size()), CaseName);

TEST(Placement, EveryRuleHasACaseTextsAndASectionOfTheDocs) {
  std::ifstream file(std::string(EVOQ_SOURCE_DIR) + "/docs/runtime-forecasts.md");
  std::stringstream docs;
  docs << file.rdbuf();
  for (const PlacementRule* rule : AllPlacementRules()) {
    EXPECT_TRUE(std::any_of(Cases().begin(), Cases().end(), [&](const Case& c) {
      return std::string_view(c.code) == rule->code;
    })) << rule->code;
    EXPECT_NE(docs.str().find("## " + std::string(rule->code) + "\n"), std::string::npos)
        << rule->code << " has no section in docs/runtime-forecasts.md";
    for (const char* text : {rule->sentence, rule->fix, rule->source})
      EXPECT_NE(*text, '\0') << rule->code;
    std::istringstream names(rule->runtimes);
    for (std::string name; names >> name;)
      EXPECT_NE(FindRuntime(name), nullptr) << rule->code << " names " << name;
  }
}

// What a repair gives must be integer arithmetic, not only free of the fault.
TEST(Placement, RepairsMakeIntegers) {
  for (const char* code :
       {"batch-norm-apart", "activation-not-split", "residual-not-quantized",
        "concat-not-quantized", "pooling-in-float", "move-in-float", "grid-change", "relu-kept",
        "signed-activations", "weight-axis", "bias-not-int32"}) {
    const Case& c = *std::find_if(Cases().begin(), Cases().end(),
                                  [&](const Case& k) { return std::string_view(k.code) == code; });
    Graph graph = c.make(true);
    const Runtime& runtime = *FindRuntime(c.runtime);
    EXPECT_GT(Examine(graph, runtime).fates.Count(Fate::kFloat), 0) << code;
    EXPECT_TRUE(RepairPlacement(graph, runtime)) << code;
    EXPECT_EQ(Examine(graph, runtime).fates.Count(Fate::kFloat), 0) << code;
  }
}

// Integers between operators that stay float gain nothing, nor does ONNX Runtime's MaxPool of 8
// bits without an integer convolution before it: such places are named and left as they are.
TEST(Placement, RepairsThatGainNothingAreNotOffered) {
  const Attrs kernel = [] {
    Attrs attrs;
    attrs.Set("kernel_shape", std::vector<int64_t>{2, 2});
    return attrs;
  }();
  const auto offered = [](Graph graph, const char* code) {
    const Examination e = Examine(graph, *FindRuntime("ort-cpu"));
    const PlacementFinding* finding = FindingOf(e, code);
    if (finding == nullptr) return std::string("no finding");
    return std::to_string(finding->repairable) + ": " + finding->faults[0].detail;
  };
  const auto pool = [&](bool integers) {
    Net n;
    const ValueId before = integers ? Healthy(n) : n.Op("Exp", {n.x});
    const ValueId pooled = n.Op("MaxPool", {before}, kernel);
    n.graph.metadata["onnx.opset"] = "11";  // from 12 on the session moves the pair itself
    const ValueId y = n.Pair(pooled, 0.02f);
    return n.Done({integers ? n.Pair(n.Conv(y), 0.05f, 128) : n.Op("Exp", {y})});
  };
  EXPECT_EQ(offered(pool(true), "move-in-float"), "no finding");
  EXPECT_EQ(offered(pool(false), "move-in-float"),
            "0: input 0; nothing gained: its neighbours stay float");
  const auto grid = [&](bool convolved) {
    Net n;
    const ValueId x = convolved ? Healthy(n) : n.Pair(n.Op("Exp", {n.x}), 0.02f);
    const ValueId y = n.Pair(n.Op("MaxPool", {x}, kernel), 0.03f);
    return n.Done({n.Pair(n.Conv(y), 0.05f, 128)});
  };
  EXPECT_EQ(offered(grid(true), "grid-change"), "1: ");
  EXPECT_EQ(offered(grid(false), "grid-change"),
            "0: nothing gained: no integer convolution before it");
  const auto sum = [](bool integers) {
    Net n;
    const ValueId a = integers ? n.Conv(n.Pair(n.x, 0.02f, 128)) : n.Op("Exp", {n.x});
    const ValueId b = n.Pair(n.Op("Tanh", {n.x}), 0.01f, 128);
    return n.Done({n.Op("Exp", {n.Pair(n.Op("Add", {a, b}), 0.05f, 128)})});
  };
  EXPECT_EQ(offered(sum(true), "residual-not-quantized"), "1: input 0");
  EXPECT_EQ(offered(sum(false), "residual-not-quantized"),
            "0: input 0; nothing gained: its neighbours stay float");
}

// Twelve operators without a CUDA kernel between operators that have one: each value is carried
// there and back.
TEST(Placement, MemcpyNodesAreCounted) {
  Net n;
  ValueId y = n.Op("Relu", {n.x});
  for (int i = 0; i < 12; ++i) y = n.Op("Relu", {n.Op("Tan", {y})});
  const Examination e = Examine(n.Done({y}), *FindRuntime("ort-cuda"));
  EXPECT_EQ(e.fates.copies.size(), 24);
  EXPECT_EQ(e.fates.Count(Fate::kHost), 12);
  ASSERT_NE(FindingOf(e, "cpu-fallback"), nullptr);
  EXPECT_EQ(FindingOf(e, "cpu-fallback")->faults.size(), 12);
}

// CUDA's kernels do not have every type: an operator without its own carries its value there and
// back between two that have it.
TEST(Placement, CudaKernelsHaveNotEveryType) {
  const auto copies = [](const std::string& op, DType type, Attrs attrs = {}, DType second = {}) {
    Graph graph;
    ValueId x = graph.AddInput("x", TensorType(type, Shape{1, 4, 6, 6}));
    x = graph.Apply("Identity", "before", {x}, {}, graph.value(x).type);
    std::vector<ValueId> inputs = {x};
    if (op == "Resize") {
      const auto scales = Tensor::FromValues<float>(Shape{4}, {1, 1, 0.5f, 0.5f});
      inputs.insert(inputs.end(), {ValueId(), graph.AddConstant("scales", scales)});
      attrs.Set("mode", AttrValue("linear"));
    }
    if (second != DType::kUndefined)
      inputs.push_back(graph.AddInput("w", TensorType(second, Shape{1, 4, 6, 6})));
    const ValueId y = graph.Apply(op, op, inputs, attrs);
    EXPECT_TRUE(InferTypes(graph)) << op;
    graph.MarkOutput(graph.Apply("Identity", "after", {y}, {}, graph.value(y).type));
    return Examine(graph, *FindRuntime("ort-cuda")).fates.copies.size();
  };
  for (const char* reduce : {"ReduceMax", "ReduceMean", "ReduceSum"}) {
    for (const DType type : {DType::kFloat32, DType::kFloat16, DType::kInt32, DType::kInt64})
      EXPECT_EQ(copies(reduce, type), 0u) << reduce << DTypeName(type);
    for (const DType type : {DType::kInt8, DType::kUint8, DType::kUint32})
      EXPECT_EQ(copies(reduce, type), 2u) << reduce << DTypeName(type);
  }
  EXPECT_EQ(copies("ReduceMin", DType::kUint8), 0u);
  EXPECT_EQ(copies("NonZero", DType::kUint8), 0u);
  EXPECT_EQ(copies("NonZero", DType::kInt8), 2u);
  EXPECT_EQ(copies("Resize", DType::kUint8), 0u);
  EXPECT_EQ(copies("Resize", DType::kInt8), 2u);
  Attrs antialias;
  antialias.Set("antialias", AttrValue(int64_t{1}));
  EXPECT_EQ(copies("Resize", DType::kFloat32), 0u);
  EXPECT_EQ(copies("Resize", DType::kFloat32, antialias), 2u);
  EXPECT_EQ(copies("MatMulInteger", DType::kInt8, {}, DType::kInt8), 0u);
  EXPECT_EQ(copies("MatMulInteger", DType::kUint8, {}, DType::kInt8), 2u);
  EXPECT_EQ(copies("MatMulInteger", DType::kInt8, {}, DType::kUint8), 2u);
}

// Shapes are computed on the host in any case: reading them copies nothing.
TEST(Placement, ShapeArithmeticStaysOnTheHost) {
  Net n;
  const ValueId shape = n.Op("Shape", {n.Op("Relu", {n.x})});
  const ValueId half = n.Op(
      "Mul",
      {shape, n.graph.AddConstant("one", Tensor::FromValues<int64_t>(Shape{4}, {1, 1, 1, 1}))});
  const Examination e =
      Examine(n.Done({n.Op("Reshape", {n.Op("Exp", {n.x}), half})}), *FindRuntime("ort-cuda"));
  EXPECT_TRUE(e.fates.copies.empty());
  EXPECT_EQ(e.fates.Count(Fate::kHost), 0);
}

// int32 biases are read from the host by CUDA at every inference.
TEST(Placement, BiasesAreCopiedToTheGpu) {
  Net n;
  const ValueId y =
      n.Pair(n.Conv(n.Pair(n.x, 0.02f, 128), {}, n.Stored({8}, -1, DType::kInt32)), 0.05f, 128);
  Graph graph = n.Done({y});
  const Runtime& cuda = *FindRuntime("ort-cuda");
  EXPECT_EQ(Examine(graph, cuda).fates.copies.size(), 1);
  ASSERT_TRUE(RepairPlacement(graph, cuda));
  const Examination after = Examine(graph, cuda);
  EXPECT_TRUE(after.fates.copies.empty());
  EXPECT_TRUE(after.fates.conversions.empty());
  EXPECT_TRUE(after.fates.weights.empty());
}

// ONNX Runtime repeats pairs around Reshape, Transpose and the like by itself.
TEST(Placement, OrtPropagatesPairsItself) {
  Net n;
  const ValueId y = n.Op("Transpose", {Healthy(n)});
  const Examination e = Examine(n.Done({n.Pair(n.Conv(y, n.Stored({8, 6, 3, 3}, 0)), 0.05f, 128)}),
                                *FindRuntime("ort-cpu"));
  EXPECT_EQ(e.fates.Count(Fate::kMoved), 1);
  EXPECT_EQ(e.fates.Count(Fate::kFloat), 0);
  EXPECT_TRUE(e.findings.empty());
}

// Quantization parameters hold behind operators that only move values: TensorRT and OpenVINO carry
// DequantizeLinear down.
TEST(Placement, ParametersHoldBehindMoves) {
  for (const char* runtime : {"tensorrt", "openvino"}) {
    Net n;
    const ValueId y = n.Op("Flatten", {n.Pair(n.x, 0.02f, 0, DType::kInt8)});
    const Examination e =
        Examine(n.Done({n.Op("Gemm", {y, n.Stored({288, 10}, 1)})}), *FindRuntime(runtime));
    EXPECT_EQ(e.fates.Count(Fate::kInteger), 1) << runtime;
    EXPECT_EQ(e.fates.Count(Fate::kFloat), 0) << runtime;
  }
}

// The range of an addend follows from the sum's and the other's; nothing that reaches the result is
// lost.
TEST(Placement, AddendsTakeTheRangeThatTheSumLeaves) {
  Net n;
  const ValueId a = n.Pair(n.x, 0.01f, 0), product = n.Conv(a);
  Graph graph = n.Done({n.Pair(n.Op("Relu", {n.Op("Add", {product, a})}), 0.02f)});
  ASSERT_TRUE(RepairPlacement(graph, *FindRuntime("ort-cpu")));
  const NodeId add = graph.FindNode("Add");
  const TensorType* type = ReadQuantType(graph, graph.node(add).input(0));
  ASSERT_NE(type, nullptr);
  EXPECT_NEAR(LowOf(*type), -2.55, 0.06);  // a sum of less than -2.55 + 2.55 is 0 behind the Relu
  EXPECT_NEAR(HighOf(*type), 5.1, 0.06);
}

// A result that only holds its operands' numbers: of one range, theirs; of two, from the least to
// the greatest of both, also where an operand's pair is still to come.
TEST(Placement, ResultsOfMovesReachAsFarAsTheirOperands) {
  struct Case {
    float scale;
    int zero;
    double low, high;
  };
  // The other operand is [0, 5.1] in steps of 0.02.
  Attrs axis;
  axis.Set("axis", AttrValue(int64_t{1}));
  for (const Case c : {Case{0.01f, 128, -1.28, 5.1}, {0.03f, 0, 0, 7.65}, {0.02f, 0, 0, 5.1}}) {
    for (const bool missing_first : {false, true}) {
      Net n;
      const ValueId known = n.Pair(n.x, 0.02f, 0), real = n.Op("Sigmoid", {n.x});
      const ValueId elsewhere = n.Op("Flatten", {n.Pair(real, c.scale, c.zero)});
      const ValueId y =
          missing_first ? n.Op("Concat", {real, known}, axis) : n.Op("Concat", {known, real}, axis);
      const Graph graph = n.Done({y, elsewhere});
      const Node& concat = graph.node(graph.FindNode("Concat"));
      const Missing missing = MissingPairs(graph, concat);
      EXPECT_EQ(missing.inputs, (std::vector<size_t>{missing_first ? 0u : 1u}));
      EXPECT_TRUE(missing.output);
      const Completion plan = PlanCompletion(graph, concat, missing, true);
      EXPECT_TRUE(plan.complete);
      ASSERT_EQ(plan.inputs.size(), 1u);
      EXPECT_EQ(plan.inputs[0].quant->scales[0], c.scale);
      EXPECT_EQ(plan.inputs[0].quant->zero_points[0], c.zero);
      const double step = (c.high - c.low) / 255;
      EXPECT_NEAR(LowOf(plan.output), c.low, step) << c.scale << missing_first;
      EXPECT_NEAR(HighOf(plan.output), c.high, step) << c.scale << missing_first;
      EXPECT_FALSE(PlanCompletion(graph, concat, missing, false).output.quantized());
    }
  }
}

// At the model's end integers would be made for nobody.
TEST(Placement, PoolingIntoFloatsIsNoFault) {
  Net n;
  EXPECT_TRUE(Examine(n.Done({n.Op("GlobalAveragePool", {Healthy(n)})}), *FindRuntime("ort-cpu"))
                  .findings.empty());
}

TEST(Placement, WhatOnlyDataCanTellIsNotRepaired) {
  Net n;
  const ValueId x = n.Pair(n.x, 0.02f, 128);
  Graph graph = n.Done({n.Pair(n.Op("GlobalAveragePool", {n.Conv(x)}), 0.02f, 128)});
  const Runtime& ort = *FindRuntime("ort-cpu");
  const Examination e = Examine(graph, ort);
  ASSERT_NE(FindingOf(e, "pooling-in-float"), nullptr);
  EXPECT_EQ(FindingOf(e, "pooling-in-float")->repairable, 0);
}

// The output channels of weights: axis 0 of Conv, 1 of ConvTranspose, the columns of MatMul, of
// Gemm the columns or, with transB, the rows.
TEST(Placement, ScalesOfWeightsNumberOutputChannels) {
  struct Case {
    const char* op;
    int64_t trans_b;
    std::vector<int64_t> shape;
    int axis;  // of the output channels
  };
  for (const Case& c : {Case{"Gemm", 0, {288, 10}, 1}, Case{"Gemm", 1, {10, 288}, 0},
                        Case{"MatMul", -1, {288, 10}, 1}}) {
    for (const int axis : {0, 1}) {
      Net n;
      Attrs attrs;
      if (c.trans_b >= 0) attrs.Set("transB", c.trans_b);
      const ValueId x = n.Pair(n.Op("Flatten", {n.Pair(n.x, 0.02f, 128)}), 0.02f, 128);
      const ValueId y = n.Op(c.op, {x, n.Stored(c.shape, axis)}, attrs);
      EXPECT_EQ(WeightAxis(n.graph.node(n.graph.value(y).producer), 2), c.axis)
          << c.op << " " << c.trans_b;
      Graph graph = n.Done({n.Pair(y, 0.5f, 128)});
      const Runtime& ort = *FindRuntime("ort-cpu");
      const Examination e = Examine(graph, ort);
      EXPECT_EQ(FindingOf(e, "weight-axis") != nullptr, axis != c.axis)
          << c.op << ", transB " << c.trans_b << ", axis " << axis;
      EXPECT_TRUE(RepairPlacement(graph, ort));
      const TensorType* w = ReadQuantType(graph, graph.node(graph.FindNode(c.op)).input(1));
      if (w == nullptr) {
        ADD_FAILURE() << c.op << ": the weights lost their quantization";
        continue;
      }
      EXPECT_EQ(w->quant->axis, c.axis) << c.op << ", transB " << c.trans_b << ", axis " << axis;
      EXPECT_EQ(w->quant->scales.size(), 10)
          << c.op << ", transB " << c.trans_b << ", axis " << axis;
    }
  }
  Node conv{.op = "Conv"}, transposed{.op = "ConvTranspose"};
  EXPECT_EQ(WeightAxis(conv, 4), 0);
  EXPECT_EQ(WeightAxis(transposed, 4), 1);
}

}  // namespace
}  // namespace evoq
