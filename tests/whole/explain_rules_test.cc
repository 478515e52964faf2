// Every cause that `explain` knows: a model that triggers it and one that does not, a section of
// documentation, a place in the list. Times are made up from types and sizes, so that nothing here
// depends on the machine.
#include <map>
#include <set>

#include "base/file.h"
#include "bench/fault_models.h"
#include "kernels/apart_testing.h"
#include "models/models.h"
#include "passes/pass.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "reference/test_graph.h"
#include "report/explain_rule.h"
#include "report/ledger.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

Limits TestLimits() {
  Limits limits;
  limits.int8_gops = 400;
  limits.bf16_gflops = 200;
  limits.fp32_gflops = 100;
  limits.l3_read_gbps = limits.dram_read_gbps = 100;
  return limits;
}

// A program with made-up times: `linear` float32 linear operators take 4 ms, others 1 ms, on
// integers a quarter of that.
struct TimedProgram {
  Program program;
  StepProfile profile;

  LedgerRun run() const { return {&profile, &program}; }
  void Slow(size_t step, double ms) {
    for (double* time : {&profile.steps[step].ms, &profile.steps_ms, &profile.total_ms})
      *time += ms;
  }
};

bool IsFloatStep(const Graph& graph, const Node& node) {
  const Value &in = graph.value(node.input(0)), &out = graph.value(node.outputs[0]);
  return !in.type.quantized() && !out.type.quantized() && in.type.dtype != DType::kBfloat16;
}

TimedProgram Timed(Graph graph, const Target& target = Target()) {
  auto model = LowerAndPack(std::move(graph));
  EVOQ_CHECK(model.has_value(), "{}", model ? "" : model.error().message());
  TimedProgram timed{Must(Compile(*model, kReference, {}, {}, nullptr, target), "compile"), {}};
  for (const Step& step : timed.program.steps) {
    const Node& node = timed.program.graph->node(step.node);
    StepTime t;
    t.name = node.name;
    t.op = node.op;
    t.macs = step.macs;
    t.bytes = step.bytes;
    t.shape = timed.program.graph->value(node.outputs[0]).type.shape.ToString();
    t.ms = (step.macs > 0 ? 4.0 : 1.0) / (IsFloatStep(*timed.program.graph, node) ? 1 : 4);
    timed.profile.steps_ms += t.ms;
    timed.profile.steps.push_back(t);
  }
  timed.profile.total_ms = timed.profile.steps_ms;
  return timed;
}

// All values between -1 and 1.
Ranges EvenRanges(const Graph& graph) {
  Ranges ranges;
  for (int i = 0; i < graph.value_count(); ++i)
    ranges[graph.value(ValueId{i}).name] = {.min = -1, .max = 1};
  return ranges;
}

struct CaseModel {
  Graph real, quantized;
};

using Quantizer = std::function<Result<QuantizeReport>(Graph&)>;

Result<QuantizeReport> Static(Graph& graph, const QuantizeOptions& options = {},
                              const char* without_range = "") {
  Ranges ranges = EvenRanges(graph);
  ranges.erase(without_range);
  return QuantizeStatic(graph, ranges, options);
}

CaseModel Made(
    const std::string& text, const Quantizer& quantize = [](Graph& g) { return Static(g); }) {
  CaseModel m{Parsed(text), Parsed(text)};
  Must(quantize(m.quantized), text);
  return m;
}

std::map<std::string, TimeCause> Causes(const TimeLedger& ledger) {
  std::map<std::string, TimeCause> causes;
  for (const TimeCause& c : ledger.causes) {
    if (std::fabs(c.ms) > 1e-9) causes[c.code] = c;
  }
  return causes;
}

TimeLedger LedgerOf(const CaseModel& m) {
  return BuildTimeLedger(Timed(m.real).run(), Timed(m.quantized).run(), {}, TestLimits());
}

// Three products in a row; `middle` between the first two.
std::string Chain(const std::string& middle = "", const std::string& behind = "%a",
                  const std::string& more = "") {
  return "graph g\ninput %x: float32[8, 64]\nconst %w1: float32[64, 64]\nconst %w2: float32[64, "
         "64]\nconst %w3: float32[64, 64]\n" +
         more + "c1: %a: float32[8, 64] = MatMul(%x, %w1)\n" + middle +
         "c2: %b: float32[8, 64] = MatMul(" + behind +
         ", %w2)\nc3: %c: float32[8, 64] = MatMul(%b, %w3)\noutput %c\n";
}

std::string Images(const std::string& rest) {
  return "graph g\ninput %x: float32[1, 16, 8, 8]\nconst %w1: float32[16, 16, 3, 3]\nconst %w2: "
         "float32[16, 16, 3, 3]\n"
         "c1: %a: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w1)\n" +
         rest;
}

// Integers from the input to the output, each step as fast as integers allow: nothing to say.
CaseModel SoundModel() {
  CaseModel m;
  m.real = Parsed(Chain());
  m.quantized = Parsed(R"(graph g
input %x: uint8[8, 64](scale 0.01, zero 128)
const %w1: int8[64, 64](scale 0.01, zero 0)
const %w2: int8[64, 64](scale 0.01, zero 0)
const %w3: int8[64, 64](scale 0.01, zero 0)
c1: %a: uint8[8, 64](scale 0.01, zero 128) = MatMul(%x, %w1)
c2: %b: uint8[8, 64](scale 0.01, zero 128) = MatMul(%a, %w2)
c3: %c: uint8[8, 64](scale 0.01, zero 128) = MatMul(%b, %w3)
output %c
)");
  return m;
}

QuantizeOptions Excluding(const std::string& name) {
  QuantizeOptions options;
  options.exclude = {name};
  return options;
}

QuantizeOptions Keeping(const std::string& name, const std::string& code) {
  QuantizeOptions options;
  options.keep[name] = {code, "as the test asks"};
  return options;
}

// Ledgers in which the cause of that code is there.
std::map<std::string, std::function<TimeLedger()>> TimeCases() {
  const auto of = [](
                      const std::string& text, const Quantizer& quantize = [](Graph& g) {
                        return Static(g);
                      }) { return [=] { return LedgerOf(Made(text, quantize)); }; };
  const Quantizer nothing = [](Graph&) { return QuantizeReport(); };
  const auto changed = [](const std::function<void(TimedProgram&)>& change,
                          bool attainable = false) {
    return [=] {
      const CaseModel sound = SoundModel();
      const TimedProgram real = Timed(sound.real), best = Timed(sound.quantized);
      TimedProgram quantized = Timed(sound.quantized);
      change(quantized);
      return BuildTimeLedger(real.run(), quantized.run(), attainable ? best.run() : LedgerRun(),
                             TestLimits());
    };
  };
  return {
      {"scale-is-dynamic", of(Chain(), [](Graph& g) { return QuantizeDynamic(g, {}); })},
      {"two-bytes",
       of(Chain(), [](Graph& g) { return QuantizeStaticBytes(g, EvenRanges(g), {}); })},
      {"sixteen-bits",
       [] {
         CaseModel m =
             Made(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "sixteen-bits")); });
         Graph& g = m.quantized;
         const NodeId c2 = g.FindNode("c2");
         const ValueId x = g.node(c2).input(0);
         const ValueId q =
             g.Apply("QuantizeLinear", "planted_q", {x}, {},
                     TensorType(DType::kUint16, Shape{8, 64}, QuantParams::PerTensor(0.1f, 3)));
         g.SetInput(c2, 0, g.Apply("DequantizeLinear", "planted_dq", {q}, {}, g.value(x).type));
         EVOQ_CHECK(g.Sort().has_value());
         return LedgerOf(m);
       }},
      {"no-int8-kernel", of(Chain("op: %m: float32[8, 64] = LogSoftmax(%a)\n", "%m"))},
      {"no-bf16-kernel", of(Chain("op: %m: float32[8, 64] = LogSoftmax(%a)\n", "%m"),
                            [](Graph& g) { return FindScheme("bf16")->run(g, {}, {}); })},
      {"excluded", of(Chain(), [](Graph& g) { return Static(g, Excluding("c2")); })},
      {"first-or-last", of(Chain(),
                           [](Graph& g) {
                             QuantizeOptions o;
                             o.skip_first_last = true;
                             return Static(g, o);
                           })},
      {"no-range", of(Chain(), [](Graph& g) { return Static(g, {}, "b"); })},
      {"not-quantized", of(Chain(), nothing)},
      {"weights-only", of(Chain(), [](Graph& g) { return QuantizeWeights(g, {}); })},
      {"weights-not-constant",
       of("graph g\ninput %x: float32[1, 16, 8, 8]\ninput %w: float32[16, 16, 3, 3]\nconst %w1: "
          "float32[16, 16, 3, 3]\n"
          "c1: %a: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w)\n"
          "c2: %b: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%a, %w1)\noutput %b\n")},
      {"bias-not-constant",
       of("graph g\ninput %x: float32[1, 16, 8, 8]\ninput %bias: float32[16]\nconst %w1: "
          "float32[16, 16, 3, 3]\n"
          "c1: %a: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w1, %bias)\noutput %a\n")},
      {"constant-input", of("graph g\ninput %x: float32[8, 64]\nconst %k: float32[8, 64]\nconst "
                            "%w1: float32[64, 64]\n"
                            "c1: %a: float32[8, 64] = MatMul(%k, %w1)\nsum: %b: float32[8, 64] = "
                            "Add(%a, %x)\noutput %b\n")},
      {"types",
       of("graph g\ninput %x: float32[8, 64]\nconst %w1: float32[64, 64]\nconst %w2: float16[64, "
          "64]\n"
          "c1: %a: float32[8, 64] = MatMul(%x, %w1)\ndown: %h: float16[8, 64] = Cast{to=10}(%a)\n"
          "c2: %b: float16[8, 64] = MatMul(%h, %w2)\noutput %b\n")},
      {"shape", of(Chain("op: %m: float32[2, 4, 64] = MatMul(%t, %w4)\nr2: %q: float32[8, 64] = "
                         "Reshape(%m, %s2)\n",
                         "%q",
                         "const %w4: float32[2, 64, 64]\nconst %s: int64[3] = [2, 4, 64]\nconst "
                         "%s2: int64[2] = [8, 64]\n"
                         "r1: %t: float32[2, 4, 64] = Reshape(%x, %s)\n"))},
      {"depth", of("graph g\ninput %x: float32[2, 40000]\nconst %w1: float32[40000, 8]\nc1: %a: "
                   "float32[2, 8] = MatMul(%x, %w1)\noutput %a\n")},
      {"outputs", of(Images("pool: %p: float32[1, 16, 4, 4], %i: int64[1, 16, 4, 4] = "
                            "MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)\n"
                            "c2: %b: float32[1, 16, 4, 4] = Conv{pads=[1, 1, 1, 1]}(%p, "
                            "%w2)\noutput %b\noutput %i\n"))},
      {"small", of("graph g\ninput %x: float32[2, 4]\nconst %w1: float32[4, 4]\nc1: %a: float32[2, "
                   "4] = MatMul(%x, %w1)\noutput %a\n",
                   [](Graph& g) { return QuantizeWeights(g, {}); })},
      {"slower-when-measured",
       of(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "slower-when-measured")); })},
      {"layer-kept-float-by-budget",
       of(Chain(),
          [](Graph& g) { return Static(g, Keeping("c2", "layer-kept-float-by-budget")); })},
      {"plan", of(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "plan")); })},
      {"router", of(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "router")); })},
      {"logarithm", of(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "logarithm")); })},
      {"no-narrow-form",
       of("graph g\ninput %x: int64[8]\nconst %t: float32[100, 64]\nconst %w1: float32[64, 64]\n"
          "look: %y: float32[8, 64] = Gather(%t, %x)\nc1: %a: float32[8, 64] = MatMul(%y, "
          "%w1)\noutput %a\n",
          [](Graph& g) { return Static(g, Keeping("look", "no-narrow-form")); })},
      {"activation-not-quantized",
       of(Chain(), [](Graph& g) { return Static(g, Keeping("c2", "activation-not-quantized")); })},
      {"float-inputs", of("graph g\ninput %x: float32[8, 64]\nconst %w1: float32[64, 64]\nr: %y: "
                          "float32[8, 64] = Tanh(%x)\n"
                          "c1: %a: float32[8, 64] = MatMul(%y, %w1)\noutput %a\n")},
      {"float-readers", of(Images("pool: %p: float32[1, 16, 4, 4] = MaxPool{kernel_shape=[2, 2], "
                                  "strides=[2, 2]}(%a)\noutput %p\n"))},
      {"extra-conversion",
       [] {
         CaseModel m = Made(Chain("op: %m: float32[8, 64] = LogSoftmax(%a)\n", "%m"));
         Graph& g = m.quantized;
         const NodeId op = g.FindNode("op");
         const ValueId x = g.node(op).input(0);
         const ValueId q =
             g.Apply("QuantizeLinear", "planted_q", {x}, {},
                     TensorType(DType::kUint8, Shape{8, 64}, QuantParams::PerTensor(0.1f, 3)));
         g.SetInput(op, 0, g.Apply("DequantizeLinear", "planted_dq", {q}, {}, g.value(x).type));
         EVOQ_CHECK(g.Sort().has_value());
         return LedgerOf(m);
       }},
      {"border-conversion", of(Chain())},
      {"copy-between-memories",
       [] {  // Add has a memory of its own: its input is copied there, and its output back.
         const std::string text = Chain("", "%a", "first: %s: float32[8, 64] = Add(%x, %x)\n");
         std::string summed = text;
         summed.replace(summed.find("MatMul(%x"), 9, "MatMul(%s");
         return BuildTimeLedger(Timed(Parsed(summed)).run(),
                                Timed(Parsed(summed), Target({&apart::kBackend})).run(), {},
                                TestLimits());
       }},
      {"layout-change",
       of(Images("c2: %b: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%a, %w2)\noutput %b\n"),
          [](Graph& g) {
            // The float model computes channels-last from its input on: it has no Transpose.
            return Static(g);
          })},
      {"other-kernel", changed(
                           [](TimedProgram& t) {
                             t.program.steps[1].decision.kernel = "another";
                             t.Slow(1, 1);
                           },
                           true)},
      {"kernel-below-ideal", changed([](TimedProgram& t) { t.Slow(1, 0.5); })},
      {"moves-bytes",
       [] {
         const CaseModel m = Made(Images(
             "pool: %p: float32[1, 16, 4, 4] = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%a)\n"
             "c2: %b: float32[1, 16, 4, 4] = Conv{pads=[1, 1, 1, 1]}(%p, %w2)\noutput %b\n"));
         TimedProgram quantized = Timed(m.quantized);
         for (size_t s = 0; s < quantized.profile.steps.size(); ++s)
           quantized.Slow(s, quantized.profile.steps[s].op == "MaxPool" ? 0.5 : 0);
         return BuildTimeLedger(Timed(m.real).run(), quantized.run(), {}, TestLimits());
       }},
      {"host-time", changed([](TimedProgram& t) {
         t.profile.host_ms = 1;
         t.profile.total_ms += 1;
       })},
      {"measurement-tax", changed([](TimedProgram& t) { t.profile.total_ms -= 0.1; })},
  };
}

// What each case's cause costs. A product in float takes 3 ms above its ideal of 1, another float
// step 0.75 above 0.25, a conversion to integers 0.25, one between floats 1; an operator without
// integer form is ideal at its 4,096 bytes, narrowed, at 100 per nanosecond. A Transpose that
// writes the model's output keeps half of its bytes, an Add a third: they lose half and two thirds
// of 0.75.
std::map<std::string, double> CostsByHand() {
  const double product = 3, other = 0.75, quantize = 0.25, byte_ns = 0.01;
  const double last = other / 2, last_sum = other * 2 / 3;
  return {
      {"scale-is-dynamic", 3 * (product + 1)},  // and a pass over each input
      {"two-bytes", 3 * (product + 4 + 1)},     // a second product, and a pass over each input
      {"sixteen-bits", product + 3 * quantize},
      {"no-int8-kernel", 1 - 1024 * byte_ns / 1e6 + quantize},
      {"no-bf16-kernel", 1 - 2048 * byte_ns / 1e6 + 1},  // and the Cast behind it
      {"excluded", product + quantize},
      {"first-or-last", 2 * product + quantize},
      {"no-range", 2 * product},  // what writes the value and what reads it
      {"not-quantized", 3 * product},
      {"weights-only", 3 * product},
      {"weights-not-constant", product + other + quantize},  // with the Transpose before it
      {"bias-not-constant", product + other + last},         // with both Transposes
      {"constant-input", product + last_sum},
      {"types", product},
      {"shape", product + quantize},
      {"depth", product},
      // The Transpose before the pooling, and that, which keeps 2,048 bytes of indices among 7,168.
      {"outputs", other + other * 5120 / 7168 + quantize},
      {"small", product},
      {"slower-when-measured", product + quantize},
      {"layer-kept-float-by-budget", product + quantize},
      {"plan", product + quantize},
      {"router", product + quantize},
      {"logarithm", product + quantize},
      {"no-narrow-form", other + quantize},
      {"activation-not-quantized", product + quantize},
      {"float-inputs", other + quantize},  // and what makes integers of its result
      {"float-readers", other},
      {"extra-conversion", 2 * quantize},
      {"border-conversion", quantize},
      {"copy-between-memories", 2},
      {"layout-change", quantize},
      {"other-kernel", 1},
      {"kernel-below-ideal", 0.5},
      {"moves-bytes", 0.5 + last},  // the slower pooling, and a Transpose of floats
      {"host-time", 1},
      {"measurement-tax", -0.1},
  };
}

TEST(ExplainRules, EachTimeRuleHasAModelThatTriggersIt) {
  const auto cases = TimeCases();
  const auto costs = CostsByHand();
  for (const ExplainRule* rule : AllExplainRules()) {
    if (rule->ledger != LedgerKind::kTime) continue;
    const auto it = cases.find(rule->code);
    ASSERT_NE(it, cases.end()) << rule->code << " has no model";
    const TimeLedger ledger = it->second();
    const auto causes = Causes(ledger);
    ASSERT_TRUE(causes.count(rule->code)) << rule->code << " is not named:\n" << ToText(ledger);
    ASSERT_TRUE(costs.count(rule->code)) << rule->code;
    EXPECT_NEAR(causes.at(rule->code).ms, costs.at(rule->code), 1e-9) << rule->code << "\n"
                                                                      << ToText(ledger);
    EXPECT_NEAR(causes.at(rule->code).gain_ms,
                rule->recoverable * std::max(costs.at(rule->code), 0.0), 1e-9)
        << rule->code;
    double sum = ledger.unexplained_ms;
    for (const TimeCause& c : ledger.causes) {
      sum += c.ms;
      EXPECT_NE(FindExplainRule(c.code, LedgerKind::kTime), nullptr) << c.code;
    }
    EXPECT_NEAR(sum, ledger.actual_ms - ledger.ideal_ms, 1e-9) << rule->code;
    EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-9) << rule->code;
  }
  for (const auto& [code, make] : cases)
    EXPECT_NE(FindExplainRule(code, LedgerKind::kTime), nullptr) << code << " is no rule";
}

TEST(ExplainRules, WhatTheStepsDoNotHoldIsUnexplained) {
  const CaseModel sound = SoundModel();
  TimedProgram quantized = Timed(sound.quantized);
  quantized.profile.steps[1].ms -= 0.25;  // steps_ms and total_ms know nothing of it
  EXPECT_NEAR(
      BuildTimeLedger(Timed(sound.real).run(), quantized.run(), {}, TestLimits()).unexplained_ms,
      0.25, 1e-9);
}

TEST(ExplainRules, ASoundModelTriggersNone) {
  const TimeLedger ledger = LedgerOf(SoundModel());
  EXPECT_TRUE(Causes(ledger).empty()) << ToText(ledger);
  EXPECT_NEAR(ledger.ideal_ms, 3, 1e-9);
}

// Two layers with weights of their own or of one initializer; biases, a reshape, and room for every
// kind of bytes.
std::string ByteNet(bool shared) {
  const std::string w2 = shared ? "%w1" : "%w2";
  return "graph g\ninput %x: float32[1, 16, 8, 8]\nconst %w1: float32[16, 16, 3, 3]\n" +
         std::string(shared ? "" : "const %w2: float32[16, 16, 3, 3]\n") +
         "const %bias: float32[16]\nconst %w3: float32[1024, 64]\nconst %s: int64[2] = [1, 1024]\n"
         "c1: %a: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%x, %w1, %bias)\n"
         "c2: %b: float32[1, 16, 8, 8] = Conv{pads=[1, 1, 1, 1]}(%a, " +
         w2 +
         ")\n"
         "flat: %f: float32[1, 1024] = Reshape(%b, %s)\nc3: %c: float32[1, 64] = MatMul(%f, "
         "%w3)\noutput %c\n";
}

// 1,000 columns are rounded up to whole registers.
constexpr char kOddNet[] =
    "graph g\ninput %x: float32[8, 64]\nconst %w1: float32[64, 1000]\nc1: %a: float32[8, 1000] = "
    "MatMul(%x, %w1)\noutput %a\n";

class ByteRules : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / fmt::format("evoq_bytes_{}.etm", ::getpid()))
                .string();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // Writes the model and returns its ledger, which adds up to the file.
  ByteLedger Written(const Model& model) {
    Must(WriteEtm(model, path_).map([] { return true; }), path_);
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path_));
    const ByteLedger ledger = BuildByteLedger(Must(EtmSections(path_), path_), file_bytes, 0,
                                              Must(ReadEtm(path_), path_));
    int64_t sum = 0;
    for (const ByteCause& c : ledger.causes) {
      sum += c.bytes;
      EXPECT_NE(FindExplainRule(c.code, LedgerKind::kBytes), nullptr) << c.code << " is no rule";
    }
    EXPECT_EQ(sum, file_bytes);
    EXPECT_EQ(ledger.unexplained_bytes, 0);
    return ledger;
  }
  // Random weights; with `twin` %w2 holds what %w1 does.
  ByteLedger Written(const std::string& text, const QuantizeOptions& options = {},
                     bool twin = false) {
    Graph graph = Parsed(text);
    for (int i = 0; i < graph.value_count(); ++i) {
      const Value& v = graph.value(ValueId{i});
      const bool second = twin && v.name == "w2";
      if (v.is_constant() && v.type.dtype == DType::kFloat32)
        graph.SetConstant(ValueId{i},
                          RandomTensor(v.type, second ? graph.FindValue("w1").index : i));
    }
    Must(Static(graph, options), text);
    return Written(Must(LowerAndPack(std::move(graph)), text));
  }
  // A product whose weights are 0 but for every fourth block of four rows.
  ByteLedger WrittenWithBlocks() {
    Graph graph = Parsed(
        "graph g\ninput %x: float32[16, 64]\nconst %w1: float32[64, 64]\nc1: %a: float32[16, 64] = "
        "MatMul(%x, %w1)\noutput %a\n");
    const ValueId w = graph.FindValue("w1");
    Tensor weights = RandomTensor(graph.value(w).type, 1);
    for (int64_t i = 0; i < weights.elements(); ++i) {
      if (i / 64 / 4 % 4 != 0) weights.mutable_data<float>()[i] = 0;
    }
    graph.SetConstant(w, std::move(weights));
    Must(Static(graph, {}), "blocks");
    return Written(Must(LowerAndPack(std::move(graph)), "blocks"));
  }
  static int64_t Bytes(const ByteLedger& ledger, const std::string& code) {
    for (const ByteCause& c : ledger.causes) {
      if (c.code == code) return c.bytes;
    }
    return 0;
  }
  static const std::vector<BytePart>& Parts(const ByteLedger& ledger, const std::string& code) {
    static const std::vector<BytePart> kNone;
    for (const ByteCause& c : ledger.causes) {
      if (c.code == code) return c.parts;
    }
    return kNone;
  }
  std::string path_;
};

Graph GraphWith(const QuantParams& params, bool attribute) {
  Graph g;
  const ValueId x = g.AddInput(
      "x", TensorType(DType::kUint8, Shape{1, 4, 8, 8}, QuantParams::PerTensor(0.5f, 3)));
  const ValueId w =
      g.AddConstant("w", Tensor::Allocate(TensorType(DType::kInt8, Shape{4, 4, 3, 3}, params)));
  Attrs attrs;
  if (attribute) attrs.Set("table", Tensor::FromValues<float>(Shape{2}, {1, 2}));
  g.MarkOutput(
      g.Apply("Conv", "c1", {x, w}, attrs,
              TensorType(DType::kUint8, Shape{1, 4, 6, 6}, QuantParams::PerTensor(0.1f, 0))));
  return g;
}

TEST_F(ByteRules, EachHasAFileThatHasItAndOneThatHasNot) {
  QuantizeOptions per_tensor;
  per_tensor.per_channel = false;
  const ByteLedger net = Written(ByteNet(false)), chain = Written(Chain(), per_tensor);
  const QuantParams even{{0.5f, 0.25f, 0.5f, 0.5f}, {0, 0, 0, 0}, 0, 0},
      uneven{even.scales, {0, 1, 2, 3}, 0, 0};
  const ByteLedger zeros = Written(Model{GraphWith(uneven, true), {}}),
                   no_zeros = Written(Model{GraphWith(even, false), {}});
  const ByteLedger odd = Written(kOddNet);
  Model promising{GraphWith(even, false), {}};
  promising.certificate = "{}";
  const ByteLedger certified = Written(promising);
  const ByteLedger excluded = Written(ByteNet(false), Excluding("c3"));
  const ByteLedger blocks = WrittenWithBlocks();
  Model scaled{GraphWith(even, false), {}};
  scaled.sets = {{.name = "day"}, {.name = "night"}};
  const ByteLedger sets = Written(scaled);
  const ByteLedger nothing = BuildByteLedger({}, 0, 0, {});
  const std::map<std::string, std::pair<const ByteLedger*, const ByteLedger*>> cases = {
      {"quantized-weights", {&net, &nothing}},
      {"scales", {&net, &chain}},
      {"zero-points", {&zeros, &no_zeros}},
      {"bias", {&net, &chain}},
      {"left-float", {&excluded, &net}},
      {"shape-constants", {&net, &chain}},
      {"attributes", {&zeros, &no_zeros}},
      {"packing", {&odd, &chain}},
      {"alignment", {&net, &nothing}},
      {"graph", {&net, &nothing}},
      {"strings", {&net, &nothing}},
      {"plans", {&net, &nothing}},
      {"header", {&net, &nothing}},
      {"certificate", {&certified, &net}},
      {"block-indices", {&blocks, &net}},
      {"scale-sets", {&sets, &net}},
  };
  for (const ExplainRule* rule : AllExplainRules()) {
    if (rule->ledger != LedgerKind::kBytes || std::string(rule->code) == "duplicates")
      continue;  // duplicates: below
    const auto it = cases.find(rule->code);
    ASSERT_NE(it, cases.end()) << rule->code << " has no file";
    EXPECT_GT(Bytes(*it->second.first, rule->code), 0) << rule->code << "\n"
                                                       << ToText(*it->second.first);
    EXPECT_EQ(Bytes(*it->second.second, rule->code), 0) << rule->code << "\n"
                                                        << ToText(*it->second.second);
  }
}

// A file of three matrices and a shape, whose sizes follow from their types: 256 x 256 bytes with a
// scale for each column, 100 x 100 halves, 50 x 7 floats and two 64-bit sizes. (More than 64 KiB of
// constants are stored as they are.)
TEST_F(ByteRules, AFileByHand) {
  Graph g;
  const auto product = [&](const std::string& name, const TensorType& in, const TensorType& weights,
                           const TensorType& out) {
    const ValueId x = g.AddInput(name + "_in", in),
                  w = g.AddConstant(name, RandomTensor(weights, 7));
    const ValueId y = g.Apply("MatMul", name + "_product", {x, w}, {}, out);
    g.MarkOutput(y);
    return y;
  };
  std::vector<float> scales(256, 0.5f);
  scales[3] = 0.25f;
  const QuantParams per_tensor = QuantParams::PerTensor(0.5f, 3);
  product("bytes", TensorType(DType::kUint8, Shape{1, 256}, per_tensor),
          TensorType(DType::kInt8, Shape{256, 256},
                     QuantParams{scales, std::vector<int32_t>(256), 1, 0}),
          TensorType(DType::kUint8, Shape{1, 256}, per_tensor));
  product("halves", TensorType(DType::kFloat16, Shape{1, 100}),
          TensorType(DType::kFloat16, Shape{100, 100}), TensorType(DType::kFloat16, Shape{1, 100}));
  const ValueId y =
      product("floats", TensorType(DType::kFloat32, Shape{1, 50}),
              TensorType(DType::kFloat32, Shape{50, 7}), TensorType(DType::kFloat32, Shape{1, 7}));
  const ValueId sizes = g.AddConstant("sizes", Tensor::FromValues<int64_t>(Shape{2}, {7, 1}));
  g.MarkOutput(
      g.Apply("Reshape", "turn", {y, sizes}, {}, TensorType(DType::kFloat32, Shape{7, 1})));
  const ByteLedger ledger = Written(Model{std::move(g), {}});
  EXPECT_EQ(Bytes(ledger, "quantized-weights"), 256 * 256);
  EXPECT_EQ(Bytes(ledger, "scales"), 256 * 4);
  EXPECT_EQ(Bytes(ledger, "left-float"), 100 * 100 * 2 + 50 * 7 * 4);
  EXPECT_EQ(Bytes(ledger, "shape-constants"), 2 * 8);
  for (const char* code :
       {"duplicates", "packing", "bias", "zero-points", "attributes", "certificate"})
    EXPECT_EQ(Bytes(ledger, code), 0) << code;
  const std::vector<BytePart>& parts = Parts(ledger, "left-float");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "halves");
  EXPECT_EQ(parts[0].bytes, 20000);
  EXPECT_EQ(parts[1].name, "floats");
  EXPECT_EQ(parts[1].bytes, 1400);
  for (const ByteCause& c : ledger.causes)
    EXPECT_EQ(c.gain_bytes, c.code == "left-float" ? 16050 : 0)
        << c.code << ": three quarters of floats, no more";
}

TEST_F(ByteRules, WhatStaysFloatSaysWhy) {
  const ByteLedger ledger = Written(ByteNet(false), Excluding("c3"));
  const std::vector<BytePart>& parts = Parts(ledger, "left-float");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].bytes, 4 * 1024 * 64);
  EXPECT_NE(parts[0].why.find("c3 (excluded)"), std::string::npos) << parts[0].why;
}

TEST_F(ByteRules, WeightsStoredTwice) {
  QuantizeOptions options;
  options.equalize = false;
  const ByteLedger twice = Written(ByteNet(false), options, true),
                   shared = Written(ByteNet(true), options);
  EXPECT_EQ(Bytes(shared, "duplicates"), 0) << "an initializer with two readers is stored once";
  const double truth = static_cast<double>(twice.actual_file - shared.actual_file);
  const double ratio = static_cast<double>(Bytes(twice, "duplicates")) / truth;
  EXPECT_GT(Bytes(twice, "duplicates"), 16 * 16 * 9);
  EXPECT_NEAR(ratio, 1, 0.15) << truth << " bytes in truth";
  EXPECT_EQ(Bytes(Written(ByteNet(false), options), "duplicates"), 0);
}

TEST(ExplainRules, EachHasASectionOfDocumentation) {
  const std::string docs =
      Must(ReadTextFile(std::string(EVOQ_SOURCE_DIR) + "/docs/explain.md"), "docs/explain.md");
  std::set<std::string> codes;
  for (const ExplainRule* rule : AllExplainRules()) {
    EXPECT_NE(docs.find(fmt::format("\n### {}\n", rule->code)), std::string::npos) << rule->code;
    EXPECT_TRUE(codes.insert(rule->code).second) << rule->code << " stands twice";
    EXPECT_NE(std::string(rule->sentence), "") << rule->code;
  }
}

// The benchmark's faults: with made-up times, what is charged to the right cause is what the faulty
// model takes longer, but for steps whose kernel is the same and whose neighbours are not faulty.
TEST(TimeLedger, PlantedFaultsAreNamed) {
  const FaultModel m = Must(MakeFaultModel("pointwise", 1), "pointwise");
  for (const PlantedFault& fault :
       {Must(ExcludedLayer(m, 3), "excluded"),
        Must(NoIntegerKernel(m, 4, "LpNormalization"), "kernel"),
        Must(DynamicScales(m, 3, 3), "dynamic"), Must(DynamicScales(m, 2, 5), "dynamic"),
        Must(ExtraQdq(m, 4), "qdq")}) {
    const TimedProgram real = Timed(fault.real), sound = Timed(fault.sound);
    TimedProgram faulty = Timed(fault.faulty);
    for (size_t s = 0; s < faulty.program.steps.size();
         ++s) {  // a table in a convolution costs as much as one beside it
      if (faulty.program.graph->node(faulty.program.steps[s].node).attrs.Has("evoq.function"))
        faulty.Slow(s, 0.25);
    }
    const TimeLedger ledger = BuildTimeLedger(real.run(), faulty.run(), sound.run(), TestLimits());
    const double truth = faulty.profile.total_ms - sound.profile.total_ms;
    EXPECT_GT(truth, 0.2) << fault.code;
    EXPECT_NEAR(Causes(ledger)[fault.code].ms, truth, 0.15 * truth) << fault.code << "\n"
                                                                    << ToText(ledger);
    EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-9);
  }
}

// Eight parts of the measured time that agree with the profile but for `scatter` in step `step`.
void AddParts(TimedProgram& timed, size_t step, double scatter) {
  StepProfile& p = timed.profile;
  StepSums sums{p.total_ms, p.steps_ms, {}};
  for (const StepTime& t : p.steps) sums.steps_ms.push_back(t.ms);
  for (int part = 0; part < 8; ++part) {
    p.parts.push_back(sums);
    p.parts.back().steps_ms[step] += part % 2 == 0 ? scatter : -scatter;
  }
}

// c1 in float; c3, which does not stand beside it, takes longer because its weights left the
// caches.
TEST(TimeLedger, WhatAFaultDoesToLaterStepsIsItsOwn) {
  const std::string text = Chain();
  const CaseModel m = Made(text, [](Graph& g) { return Static(g, Excluding("c1")); });
  const TimedProgram real = Timed(m.real), best = Timed(Made(text).quantized),
                     quantized = Timed(m.quantized);
  const auto excluded = [&](double slower, double scatter, bool parts) {
    TimedProgram r = real, b = best, q = quantized;
    size_t step = 0;
    while (q.profile.steps[step].name != "c3") ++step;
    q.Slow(step, slower);
    if (parts) {
      AddParts(r, 0, 0);
      AddParts(b, 0, 0);
      AddParts(q, step, scatter);
    }
    TimeLedger ledger = BuildTimeLedger(r.run(), q.run(), b.run(), TestLimits());
    EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-9);
    return Causes(ledger)["excluded"];
  };
  const double before = excluded(0, 0, false).ms;
  EXPECT_NEAR(excluded(0.5, 0, false).ms, before, 1e-9) << "one figure says nothing of its noise";
  const TimeCause sure = excluded(0.5, 0.1, true);
  EXPECT_NEAR(sure.ms, before + 0.5, 1e-9);
  EXPECT_TRUE(std::count(sure.steps.begin(), sure.steps.end(), "c3")) << "named";
  EXPECT_NEAR(sure.spread_ms, 2.365 * 0.1 / std::sqrt(7.0), 1e-6)
      << "half of Student's interval of eight figures";
  EXPECT_NEAR(excluded(0.5, 1, true).ms, before, 1e-9) << "within what parts of the time vary by";
}

// c1 in float; two steps that do not stand beside it take longer, neither of them surely alone.
TEST(TimeLedger, WhatAFaultDoesToAllLaterStepsIsItsOwn) {
  const std::string text =
      "graph g\ninput %x: float32[8, 64]\nconst %w1: float32[64, 64]\nconst %w2: float32[64, "
      "64]\nconst %w3: float32[64, 64]\n"
      "const %w4: float32[64, 64]\nc1: %a: float32[8, 64] = MatMul(%x, %w1)\nc2: %b: float32[8, "
      "64] = MatMul(%a, %w2)\n"
      "c3: %c: float32[8, 64] = MatMul(%b, %w3)\nc4: %d: float32[8, 64] = MatMul(%c, %w4)\noutput "
      "%d\n";
  const CaseModel m = Made(text, [](Graph& g) { return Static(g, Excluding("c1")); });
  const TimedProgram real = Timed(m.real), best = Timed(Made(text).quantized),
                     quantized = Timed(m.quantized);
  // `second`: of what parts vary by in the second step, when it is 1 in the first.
  const auto excluded = [&](double slower, double second) {
    TimedProgram r = real, b = best, q = quantized;
    size_t step = 0;
    while (q.profile.steps[step].name != "c3") ++step;
    EXPECT_LT(step + 1, q.profile.steps.size()) << "a step behind c3";
    q.Slow(step, slower);
    q.Slow(step + 1, slower);
    AddParts(r, 0, 0);
    AddParts(b, 0, 0);
    AddParts(q, step, 1);
    for (size_t part = 0; part < 8; ++part)
      q.profile.parts[part].steps_ms[step + 1] += part % 2 == 0 ? second : -second;
    TimeLedger ledger = BuildTimeLedger(r.run(), q.run(), b.run(), TestLimits());
    EXPECT_NEAR(ledger.unexplained_ms, 0, 1e-9);
    return Causes(ledger)["excluded"].ms;
  };
  const double before = excluded(0, 1);
  EXPECT_NEAR(excluded(0.25, -1), before + 0.5, 1e-9) << "their sum does not vary";
  EXPECT_NEAR(excluded(0.25, 1), before, 1e-9) << "their sum varies by more than it grew";
}

// The chain c1, c2, c3 with c2 in float: what that costs is its own time and both conversions,
// nothing else.
TEST(TimeLedger, AFaultIsChargedWithWhatItCosts) {
  const std::string text = Chain();
  const CaseModel m = Made(text, [](Graph& g) { return Static(g, Excluding("c2")); });
  const TimedProgram real = Timed(m.real), quantized = Timed(m.quantized),
                     best = Timed(Made(text).quantized);
  for (const bool measured : {true, false}) {
    const TimeLedger ledger = BuildTimeLedger(real.run(), quantized.run(),
                                              measured ? best.run() : LedgerRun(), TestLimits());
    auto causes = Causes(ledger);
    EXPECT_NEAR(causes["excluded"].ms, quantized.profile.total_ms - best.profile.total_ms, 1e-9)
        << ToText(ledger);
    EXPECT_NEAR(causes["excluded"].gain_ms, causes["excluded"].ms, 1e-9);
    EXPECT_EQ(causes.size(), 2u) << ToText(ledger);
    EXPECT_TRUE(causes.count("border-conversion")) << ToText(ledger);
  }
  EXPECT_TRUE(RunsSameSteps(best.program, best.program));
  EXPECT_FALSE(RunsSameSteps(quantized.program, best.program));
}

}  // namespace
}  // namespace evoq
