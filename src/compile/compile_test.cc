// Programs step by step: kernels and the reasons for them, constants packed once, what a plan says,
// places, counts.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include "compile/choose.h"
#include "graph/float_reason.h"
#include "kernels/layout.h"
#include "ops/op.h"
#include "ops/test_graph.h"

namespace evoq {
namespace {

Model Packed(const std::string& text, const InputShapes& shapes = {}) {
  auto model = PackModel(Parsed(text), kNoEvaluator, shapes);
  EXPECT_TRUE(model) << model.error().message();
  return std::move(*model);
}

Program Compiled(const std::string& text) {
  auto program = Compile(Packed(text), kNoEvaluator);
  EXPECT_TRUE(program) << program.error().message();
  return std::move(*program);
}

Decision DecisionOf(const std::string& text, const std::string& name) {
  const Graph graph = Parsed(text);
  return ChooseKernel(graph, graph.node(graph.FindNode(name)));
}

// Why a step that could compute on integers computes in float.
TEST(ChooseKernel, SaysWhyAStepIsFloat) {
  const Decision plain = DecisionOf(
      "input %x: float32[2, 3]\nconst %w: float32[3, 4]\np: %y = MatMul(%x, %w)\noutput %y\n", "p");
  EXPECT_EQ(plain.kernel, "matmul_f32");
  EXPECT_EQ(plain.precision, Precision::kFloat32);
  EXPECT_EQ(plain.float_reason.code, "not-quantized");
  EXPECT_EQ(plain.float_reason.sentence, "its inputs are float32 in the model");

  const Decision weights = DecisionOf(
      "input %x: float32[2, 3]\nconst %w: int8[3, 4](scale 0.5, zero 0)\np: %y = MatMul(%x, %w)\n"
      "output %y\n",
      "p");
  EXPECT_EQ(weights.float_reason.code, "weights-only");
  EXPECT_EQ(weights.float_reason.sentence,
            "its weights are stored as integers and its activations are float32, so it computes in "
            "float32");

  const Decision int8 = DecisionOf(
      "input %x: uint8[2, 3](scale 0.5, zero 0)\nconst %w: int8[3, 4](scale 0.5, zero 0)\n"
      "p: %y: uint8[2, 4](scale 0.5, zero 0) = MatMul(%x, %w)\noutput %y\n",
      "p");
  EXPECT_EQ(int8.precision, Precision::kInt8);
  EXPECT_EQ(int8.float_reason.code, "");

  // No kernel takes it, and one that says nothing of quantization.
  const Decision reference = DecisionOf(
      "input %x: uint16[2, 3](scale 0.5, zero 0)\nconst %w: int8[3, 4](scale 0.5, zero 0)\n"
      "p: %y: uint16[2, 4](scale 0.5, zero 0) = MatMul(%x, %w)\noutput %y\n",
      "p");
  EXPECT_EQ(reference.kernel, kReferenceKernel);
  EXPECT_EQ(reference.precision, Precision::kFloat32);
  EXPECT_EQ(reference.float_reason.code, "no-int8-kernel");
  EXPECT_EQ(reference.float_reason.sentence,
            "no integer kernel takes MatMul with these types; it runs in the reference evaluator");
  EXPECT_FALSE(reference.rejected.empty());
  const Decision none = DecisionOf("input %x: float32[3]\nnz: %i = NonZero(%x)\noutput %i\n", "nz");
  EXPECT_EQ(none.kernel, kReferenceKernel);
  EXPECT_EQ(none.float_reason.code, "");

  // What an earlier stage has found out, "code: sentence", or a code alone.
  Graph graph = Parsed(
      "input %x: float32[2, 3]\nconst %w: float32[3, 4]\np: %y = MatMul(%x, %w)\noutput %y\n");
  const NodeId p = graph.FindNode("p");
  for (const auto& [reason, code, why] :
       {std::tuple{"excluded: by name: p*", "excluded", "by name: p*"},
        {"no-range", "no-range", ""}}) {
    graph.attrs(p).Set(kFloatReason, reason);
    const Decision told = ChooseKernel(graph, graph.node(p));
    EXPECT_EQ(told.float_reason.code, code);
    EXPECT_EQ(told.float_reason.sentence, why);
  }
}

TEST(WhyNoProgram, SaysIt) {
  const auto why = [](const std::string& text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph && InferTypes(*graph, kNoEvaluator)) << text;
    const auto model = PackModel(*graph, kNoEvaluator);
    EXPECT_FALSE(model);
    if (!model) EXPECT_EQ(model.error().code(), ErrorCode::kUnsupported);
    return model ? "" : model.error().message();
  };
  EXPECT_EQ(why("input %x: string[3]\ni: %y = Identity(%x)\noutput %y\n"),
            "x is string[3], expected a tensor of numbers");
  EXPECT_EQ(why("input %x: float32[3]\ns: %s = Cast{to=8}(%x)\nt: %y = Cast{to=1}(%s)\noutput "
                "%y\n"),
            "node s (Cast): output s is string[3], expected a tensor of numbers");
  EXPECT_EQ(why("input %x: float32[3]\nnz: %i = NonZero(%x)\nf: %f = Cast{to=1}(%i)\noutput %f\n"),
            "node nz (NonZero): output i has the type int64[1, ?], expected a static shape; it "
            "depends on the data, so that it is known when it runs");
  EXPECT_EQ(why("input %x: float32[3]\ninput %c: bool[]\nif: %y = If{captured=1}(%c, %x)\n"
                "| graph \"then\"\n| input %a: float32[3]\n| t: %b = Neg(%a)\n| output %b\n"
                "| graph \"else\"\n| input %a: float32[3]\n| e: %b = Abs(%a)\n| output %b\n"
                "output %y\n"),
            "node if (If): it has subgraphs, which are compiled when they are run");
}

// Steps, kernels and places; views take no step; an output that is a view of an input is copied.
TEST(Compile, PrintsItsSteps) {
  const Program program = Compiled(
      "input %x: float32[2, 16]\nconst %c: float32[16]\nconst %s: int64[2] = [16, 2]\n"
      "n: %a: float32[2, 16] = Sin(%x)\nm: %b: float32[2, 16] = Mul(%x, %c)\n"
      "v: %v: float32[16, 2] = Reshape(%b, %s)\nw: %w: float32[2, 16] = Add(%a, %b)\n"
      "output %w\noutput %v\noutput %x\n");
  EXPECT_EQ(program.weight_bytes, 64);
  EXPECT_EQ(program.live_bytes, 128);
  EXPECT_EQ(program.value_bytes, 128);  // of %a; the others are outputs
  EXPECT_EQ(program.arena_bytes(), 128);
  EXPECT_EQ(Print(program),
            "arena 128 bytes, 128 alive at once, weights 64 bytes\n"
            "n [Sin_f32] @0: float32[2, 16] = Sin(input0)\n"
            "m [mul_f32] output1: float32[2, 16] = Mul(input0, %c)\n"
            "w [add_f32] output0: float32[2, 16] = Add(@0, output1)\n"
            "copy_x [copy-bytes] output2: float32[2, 16] = Identity(input0)\n");
  // 2 x 16 floats in, 16 of the constant, 2 x 16 out.
  const Step& product = program.steps.at(1);
  EXPECT_EQ(product.bytes, 128 + 64 + 128);
  EXPECT_EQ(program.steps.at(3).decision.precision, Precision::kAny);
}

TEST(Compile, CountsMultiplyAccumulates) {
  const Program program = Compiled(
      "input %x: float32[2, 30]\nconst %w: float32[30, 16]\np: %y = MatMul(%x, %w)\noutput %y\n");
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].macs, 2 * 30 * 16);
  EXPECT_EQ(program.steps[0].bytes, (2 * 30 + 30 * 16 + 2 * 16) * 4);
}

constexpr char kProduct[] =
    "input %x: float32[N, 64]\nconst %w: float32[64, 48]\np: %y = MatMul(%x, %w)\noutput %y\n";

// A plan is followed for its shapes, where its kernel still takes the step, with the tuning of the
// machine and threads at hand.
TEST(Compile, FollowsThePlan) {
  Model model = Packed(kProduct, {{"x", {2, 64}}});
  ASSERT_EQ(model.plans.size(), 1u);
  EXPECT_EQ(model.plans[0].shapes, (InputShapes{{"x", {2, 64}}}));
  Decision& decision = model.plans[0].decisions.at("p");
  EXPECT_EQ(decision.kernel, "matmul_f32");
  decision.rejected = {{"some", {"code", "from the plan"}}};
  model.plans[0].tunings = {{"here", 2, {{"p", {"fast", 1, {{"slow", {"lost", "3 us"}}}}}}},
                            {"here", 1, {{"p", {"one", 0, {}}}}},
                            {"there", 2, {{"p", {"other", 0, {}}}}}};
  const auto step = [&](const InputShapes& shapes, const TuningKey& key) {
    return Compile(model, kNoEvaluator, shapes, key).value().steps.at(0);
  };
  const Step tuned = step({}, {"here", 2});
  EXPECT_EQ(tuned.tuning.variant, "fast");
  EXPECT_EQ(tuned.tuning.threads, 1);
  ASSERT_EQ(tuned.decision.rejected.size(), 2u);
  EXPECT_EQ(tuned.decision.rejected[0].reason.sentence, "from the plan");
  EXPECT_EQ(tuned.decision.rejected[1].reason.sentence, "3 us");
  EXPECT_EQ(step({{"x", {2, 64}}}, {"here", 1}).tuning.variant, "one");
  EXPECT_EQ(step({}, {"there", 2}).tuning.variant, "other");
  for (const TuningKey& key : {TuningKey{"there", 1}, TuningKey{}}) {
    EXPECT_EQ(step({}, key).tuning.variant, "");
    EXPECT_EQ(step({}, key).decision.rejected.size(), 1u);
  }
  const Step elsewhere = step({{"x", {3, 64}}}, {"here", 2});
  EXPECT_EQ(elsewhere.tuning.variant, "");
  EXPECT_TRUE(elsewhere.decision.rejected.empty() ||
              elsewhere.decision.rejected[0].reason.sentence != "from the plan");
  // Kernels that there are none of, of another operator, or that refuse the step: chosen anew.
  for (const char* kernel : {"gone", "conv_f32", "matmul_int8", kReferenceKernel}) {
    decision.kernel = kernel;
    EXPECT_EQ(step({}, {}).decision.kernel, "matmul_f32") << kernel;
  }
}

// The first of two plans for one shape counts; a plan that does not fit its model is the file's
// fault, shapes that do not fit the caller's.
TEST(Compile, PlansOfTheFile) {
  Model model = Packed(kProduct, {{"x", {2, 64}}});
  model.plans.push_back(model.plans[0]);
  model.plans[0].decisions.at("p").rejected = {{"a", {"b", "first"}}};
  model.plans[1].decisions.at("p").rejected = {{"a", {"b", "second"}}};
  EXPECT_EQ(
      Compile(model, kNoEvaluator).value().steps.at(0).decision.rejected.at(0).reason.sentence,
      "first");
  EXPECT_EQ(Compile(model, kNoEvaluator).value().graph->value(ValueId{0}).type.shape.ToString(),
            "[2, 64]");
  const auto own = Compile(model, kNoEvaluator, {{"x", {2, 63}}});
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().code(), ErrorCode::kUsage);
  model.plans[0].shapes = {{"x", {2, 63}}};
  const auto file = Compile(model, kNoEvaluator);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), ErrorCode::kInvalidInput);
  EXPECT_TRUE(file.error().message().starts_with("plan 0: ")) << file.error().message();
}

const Tensor& WeightsOf(const Model& model) {
  return model.graph.value(model.graph.FindValue("w")).constant;
}

// 64 x 48 floats fill three panels; 64 x 40 would grow by a fifth, so that files keep them plain,
// up to a twentieth: 61 of 64 columns.
TEST(PackModel, PacksWhereItDoesNotGrow) {
  const auto layout = [](int64_t columns) {
    return WeightsOf(Packed(fmt::format("input %x: float32[2, 64]\nconst %w: float32[64, {}]\n"
                                        "p: %y = MatMul(%x, %w)\noutput %y\n",
                                        columns)))
        .layout();
  };
  EXPECT_EQ(layout(48), "k1n16-matmul-f32");
  EXPECT_EQ(layout(40), "");
  EXPECT_EQ(layout(61), "k1n16-matmul-f32");
  EXPECT_EQ(layout(60), "");
}

// Constants that are read elsewhere too stay as they are beside their packed form, which several
// readers share.
TEST(PackModel, SharedConstants) {
  const Model model = Packed(
      "input %x: float32[2, 16]\nconst %w: float32[16, 16]\np: %a = MatMul(%x, %w)\n"
      "q: %b = MatMul(%a, %w)\nr: %y = Add(%b, %x)\nt: %t = Neg(%w)\noutput %y\noutput %t\n");
  const Graph& g = model.graph;
  const auto weights = [&](const char* node) { return g.node(g.FindNode(node)).inputs[1]; };
  EXPECT_EQ(weights("p"), weights("q"));
  EXPECT_EQ(g.value(weights("p")).constant.layout(), "k1n16-matmul-f32");
  EXPECT_EQ(g.ConstantInput(g.node(g.FindNode("t")), 0)->layout(), "");
  // One reader, but the model's output too.
  const Model output = Packed(
      "input %x: float32[2, 16]\nconst %w: float32[16, 16]\np: %a = MatMul(%x, %w)\noutput %a\n"
      "output %w\n");
  EXPECT_EQ(WeightsOf(output).layout(), "");
  // One reader alone: in place.
  const Model alone = Packed(
      "input %x: float32[2, 16]\nconst %w: float32[16, 16]\np: %a = MatMul(%x, %w)\noutput %a\n");
  EXPECT_EQ(WeightsOf(alone).layout(), "k1n16-matmul-f32");
  EXPECT_EQ(alone.graph.value_count(), 3);
}

// A weight of few bits whose columns are looked up too is stored once, in the product's layout.
TEST(PackModel, TiedTables) {
  for (const char* attrs : {"{data_block=32}", ""}) {
    const Model model = Packed(
        fmt::format("input %ids: int64[3]\ninput %x: float32[1, 64]\n"
                    "const %w: int4[64, 64](128 scales on axis 0, block 32)\n"
                    "look: %rows = evoq::GatherColumns(%w, %ids)\nhead: %y = MatMul{}(%x, %w)\n"
                    "output %rows\noutput %y\n",
                    attrs));
    const Graph& g = model.graph;
    const ValueId table = g.node(g.FindNode("look")).inputs[0];
    EXPECT_EQ(table, g.node(g.FindNode("head")).inputs[1]);
    EXPECT_EQ(g.value(table).constant.layout(),
              *attrs != 0 ? "stream-matmul-w4-steps" : "k2n16-matmul-w4");
    EXPECT_EQ(model.plans[0].decisions.at("look").kernel, "gather_columns");
    const Program program = Compile(model, kNoEvaluator).value();
    for (const Step& step : program.steps) {
      const Node& node = program.graph->node(step.node);
      const Tensor* read = program.graph->ConstantInput(node, node.op == "MatMul" ? 1 : 0);
      ASSERT_NE(read, nullptr) << node.name;
      EXPECT_EQ(read->raw(), g.value(table).constant.raw()) << "in place, by " << node.name;
    }
  }
}

// Sizes that are not known keep nothing plain that products read in one layout at any sizes.
TEST(PackForAnySizes, WhatProductsRead) {
  const auto graph = PackForAnySizes(
      Parsed(
          "input %x: float32[N, M, 64]\nconst %w: int4[64, 64](128 scales on axis 0, block 32)\n"
          "const %v: int4[64, 64](128 scales on axis 0, block 32)\nconst %f: float32[64, 64]\n"
          "const %i: int8[64, 64](64 scales on axis 1)\n"
          "p: %a = MatMul{data_block=32}(%x, %w)\nq: %b = MatMul(%a, %v)\n"
          "r: %c = MatMul(%b, %f)\nround: %q, %s, %z = DynamicQuantizeLinear(%c)\n"
          "t: %y = evoq::DynamicMatMul(%q, %i, _, _, %s, %z)\noutput %y\n"
          "input %n: uint8[N, 64](scale 0.1, zero 3)\nconst %j: int8[64, 64](64 scales on axis 1)\n"
          "u: %m: uint8[N, 64](scale 0.2, zero 5) = MatMul(%n, %j)\noutput %m\n"),
      kNoEvaluator);
  ASSERT_TRUE(graph) << graph.error().message();
  const auto layout = [&](const char* node) {
    return graph->ConstantInput(graph->node(graph->FindNode(node)), 1)->layout();
  };
  EXPECT_EQ(layout("p"), "stream-matmul-w4-steps") << "all scales are equal";
  EXPECT_EQ(layout("q"), "k2n16-matmul-w4");
  EXPECT_EQ(layout("r"), "k1n16-matmul-f32");
  EXPECT_EQ(layout("t"), "k4n16-matmul");
  EXPECT_EQ(layout("u"), "") << "its kernel says nothing of layouts";
  const Graph unranked = Parsed("input %x: float32[N, 2]\nr: %y = Relu(%x)\noutput %y\n");
  EXPECT_EQ(Print(PackForAnySizes(unranked, kNoEvaluator).value()), Print(unranked));
}

// What files of before hold, lines without their scales, is packed anew.
TEST(Compile, OlderLayouts) {
  Model model = Packed(
      "input %x: float32[1, 64]\nconst %w: int4[64, 40](80 scales on axis 0, block 32)\n"
      "p: %y = MatMul{data_block=32}(%x, %w)\noutput %y\n");
  const Tensor plain = WeightsOf(model);
  EXPECT_EQ(plain.layout(), "") << "a fifth larger than plain";
  model.graph.SetConstant(model.graph.FindValue("w"),
                          FindLayout("k8n16-matmul-w4")->pack(plain).value());
  const Program program = Compile(model, kNoEvaluator).value();
  const Tensor* read = program.graph->ConstantInput(program.graph->node(program.steps[0].node), 1);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->layout(), "stream-matmul-w4-steps");
  EXPECT_TRUE(BitEqual(ToPlain(*read).value(), plain));
}

// Constants that a file holds packed for another kernel are unpacked, and packed for the one at
// hand.
TEST(Compile, ConstantsOfOtherKernels) {
  Model model = Packed(
      "input %x: float32[2, 16]\nconst %w: float32[16, 16]\np: %y = MatMul(%x, %w)\noutput %y\n");
  const auto bytes = [](const Program& program) {
    const Tensor* w = program.graph->ConstantInput(program.graph->node(program.steps[0].node), 1);
    return std::pair(w->layout(), ToPlain(*w).value());
  };
  const auto [layout, plain] = bytes(Compile(model, kNoEvaluator).value());
  EXPECT_EQ(layout, "k1n16-matmul-f32");
  model.plans[0].decisions.at("p").kernel = "matmul_int8";  // whose layout it then would be
  const auto [again, same] = bytes(Compile(model, kNoEvaluator).value());
  EXPECT_EQ(again, "k1n16-matmul-f32");
  EXPECT_TRUE(BitEqual(plain, same));
  // A packed constant where no kernel packs: an operand of Sub.
  Graph other = Parsed(
      "input %x: float32[16, 16]\nconst %w: float32[16, 16]\ns: %y = Sub(%x, %w)\n"
      "output %y\n");
  other.SetConstant(other.FindValue("w"), WeightsOf(model));
  Model odd;
  odd.graph = std::move(other);
  EXPECT_EQ(bytes(Compile(odd, kNoEvaluator).value()).first, "");
}

// Of kept constants each form is made once; others, and kernels, inputs and attributes of their
// own, are made each time or apart.
TEST(PackCache, KeepsForms) {
  Graph graph =
      Parsed("input %x: float32[2]\nconst %c: float32[2]\na: %y = Add(%x, %c)\noutput %y\n");
  const Tensor kept = graph.value(graph.FindValue("c")).constant;
  PackCache cache;
  int made = 0;
  const auto get = [&](const Tensor& t, const std::string& kernel, const Attrs& attrs, size_t i) {
    return cache
        .Get(t, kernel, attrs, i,
             [&]() -> Result<Tensor> {
               ++made;
               return Tensor::Scalar<int64_t>(made);
             })
        .value()
        .data<int64_t>()[0];
  };
  Attrs other;
  other.Set("axis", int64_t{1});
  EXPECT_EQ(get(kept, "k", {}, 0), 1) << "not kept yet";
  EXPECT_EQ(get(kept, "k", {}, 0), 2);
  cache.Keep(graph);
  EXPECT_EQ(get(kept, "k", {}, 0), 3);
  EXPECT_EQ(get(kept, "k", {}, 0), 3);
  EXPECT_EQ(get(kept, "l", {}, 0), 4);
  EXPECT_EQ(get(kept, "k", other, 0), 5);
  EXPECT_EQ(get(kept, "k", {}, 1), 6);
  EXPECT_EQ(get(kept, "k", {}, 0), 3);
  const Tensor typed = kept.WithType(TensorType(DType::kFloat32, Shape{1, 2}));
  EXPECT_EQ(get(typed, "k", {}, 0), 7) << "the same memory, another type";
  EXPECT_EQ(get(typed, "k", {}, 0), 8);
  EXPECT_EQ(get(kept.Clone(), "k", {}, 0), 9);
}

}  // namespace
}  // namespace evoq
