// Which cause the steps of programs made up by hand belong to.
#include "report/step_causes.h"

#include <gtest/gtest.h>

#include "report/test_program.h"

namespace evoq {
namespace {

struct Decided {
  const char* name;
  const char* code = "";
  const char* precision = "int8";
};

// %x float input, %i an input of integers, %w and %v weights; what is not listed is a view.
Program Decide(const std::string& body, const std::vector<Decided>& steps) {
  std::vector<std::string> names;
  for (const Decided& d : steps) names.push_back(d.name);
  Program program = ProgramOf(R"(graph g
input %x: float32[1, 4, 8, 8]
input %i: uint8[1, 4, 8, 8](scale 0.1, zero 0)
const %w: int8[4, 4, 1, 1](scale 0.1, zero 0)
const %v: float32[4, 4, 1, 1]
)" + body,
                              names);
  for (size_t s = 0; s < steps.size(); ++s) {
    program.steps[s].decision.float_reason.code = steps[s].code;
    program.steps[s].decision.precision = ParsePrecision(steps[s].precision).value();
  }
  return program;
}

// The causes, with spaces between.
std::string Causes(const Program& program, bool in_float_run = true) {
  const StepCauses causes(program);
  std::string out;
  for (size_t s = 0; s < program.steps.size(); ++s)
    out += (s ? " " : "") + causes.Of(s, in_float_run);
  return out;
}

constexpr char kReal[] = "float32[1, 4, 8, 8]", kByte[] = "uint8[1, 4, 8, 8](scale 0.1, zero 0)";

// Lines of "name: %result = Op(args)": lower-case results are floats, those that begin with q
// bytes.
std::string Body(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    const size_t at = line.find('%'), end = line.find(' ', at);
    const bool node = line.find(':') < at;
    out +=
        node ? line.substr(0, end) + ": " + (line[at + 1] == 'q' ? kByte : kReal) + line.substr(end)
             : line;
    out += "\n";
  }
  return out;
}

TEST(StepCauses, SoundStepsLoseToTheirOwnKind) {
  const Program program = Decide(Body({"c: %qa = Conv(%i, %w)", "p: %qb = Relu(%qa)",
                                       "t: %qc = Transpose(%qb)", "output %qc"}),
                                 {{"c"}, {"p"}, {"t"}});
  EXPECT_EQ(Causes(program), "kernel-below-ideal moves-bytes moves-bytes");
  EXPECT_EQ(Causes(program, false), "kernel-below-ideal moves-bytes layout-change")
      << "a transpose that the float run does not have";
  const StepCauses causes(program);
  for (size_t s : {0, 1, 2}) {
    EXPECT_EQ(causes.Fault(s), "");
    EXPECT_EQ(causes.Beside(s), "");
    EXPECT_EQ(causes.Neighbour(s), "");
    EXPECT_EQ(causes.Before(s), "");
  }
}

// Conversions at the model's inputs and outputs, also behind views (f and g) and transposes.
TEST(StepCauses, ConversionsAtTheBorder) {
  EXPECT_EQ(Causes(Decide(Body({"q: %qa = QuantizeLinear(%x)", "c: %qb = Conv(%qa, %w)",
                                "d: %b = DequantizeLinear(%qb)", "output %b"}),
                          {{"q"}, {"c"}, {"d"}})),
            "border-conversion kernel-below-ideal border-conversion");
  EXPECT_EQ(Causes(Decide(Body({"f: %a = Identity(%x)", "q: %qa = QuantizeLinear(%a)",
                                "c: %qb = Conv(%qa, %w)", "d: %b = DequantizeLinear(%qb)",
                                "g: %c = Identity(%b)", "output %c"}),
                          {{"q"}, {"c"}, {"d"}})),
            "border-conversion kernel-below-ideal border-conversion");
  EXPECT_EQ(Causes(Decide(Body({"t: %a = Transpose(%x)", "q: %qa = QuantizeLinear(%a)",
                                "c: %qb = Conv(%qa, %w)", "d: %b = DequantizeLinear(%qb)",
                                "u: %c = Transpose(%b)", "output %c"}),
                          {{"t", "", "any"}, {"q"}, {"c"}, {"d"}, {"u", "", "any"}})),
            "moves-bytes border-conversion kernel-below-ideal border-conversion moves-bytes");
}

// A float step that follows another one, or has no integers to follow, needs its conversions: they
// belong to what it follows from, though that lies on another way to it.
TEST(StepCauses, ConversionsAtStepsThatFollowOthers) {
  // d makes floats for m, which is one because of p; q makes integers of what e gives.
  EXPECT_EQ(
      Causes(Decide(Body({"p: %a = Conv(%x, %v)", "d: %b = DequantizeLinear(%i)",
                          "m: %c = Mul(%a, %b)", "output %c"}),
                    {{"p", "constant-input", "float32"}, {"d"}, {"m", "float-inputs", "float32"}})),
      "constant-input constant-input constant-input");
  EXPECT_EQ(Causes(Decide(Body({"e: %a = Relu(%x)", "q: %qb = QuantizeLinear(%a)",
                                "c: %qc = Conv(%qb, %w)", "output %qc"}),
                          {{"e", "float-inputs", "float32"}, {"q"}, {"c"}})),
            "float-inputs float-inputs kernel-below-ideal");
}

// Pairs that nothing needs: integers at once made floats again, also behind a view (f); a change of
// scale between two integer operators; a table that only rescales.
TEST(StepCauses, ConversionsThatNothingNeeds) {
  EXPECT_EQ(Causes(Decide(
                Body({"q: %qa = QuantizeLinear(%x)", "d: %b = DequantizeLinear(%qa)", "output %b"}),
                {{"q"}, {"d"}})),
            "extra-conversion extra-conversion");
  EXPECT_EQ(Causes(Decide(Body({"q: %qa = QuantizeLinear(%x)", "f: %qb = Identity(%qa)",
                                "d: %b = DequantizeLinear(%qb)", "output %b"}),
                          {{"q"}, {"d"}})),
            "extra-conversion extra-conversion");
  // A convolution reads the integers, too: then only the second conversion is for nothing.
  EXPECT_EQ(Causes(Decide(Body({"q: %qa = QuantizeLinear(%x)", "d: %b = DequantizeLinear(%qa)",
                                "c: %qc = Conv(%qa, %w)", "output %b", "output %qc"}),
                          {{"q"}, {"d"}, {"c"}})),
            "border-conversion extra-conversion kernel-below-ideal");
  EXPECT_EQ(
      Causes(Decide(Body({"c: %qa = Conv(%i, %w)", "d: %b = DequantizeLinear(%qa)",
                          "q: %qb = QuantizeLinear(%b)", "e: %qc = Conv(%qb, %w)", "output %qc"}),
                    {{"c"}, {"d"}, {"q"}, {"e"}})),
      "kernel-below-ideal extra-conversion extra-conversion kernel-below-ideal");
  const std::string table = Body({"l: %qa = Identity(%i)", "output %qa"});
  for (const auto& [function, cause] :
       {std::pair("DequantizeLinear, QuantizeLinear", "extra-conversion"),
        std::pair("DequantizeLinear", "extra-conversion"),
        std::pair("QuantizeLinear", "extra-conversion"),
        std::pair("DequantizeLinear, Sigmoid, QuantizeLinear", "moves-bytes"),
        std::pair("Sigmoid", "moves-bytes"), std::pair("", "moves-bytes")}) {
    const Program program = Decide(table, {{"l"}});
    Node lookup = program.graph->node(program.graph->FindNode("l"));
    lookup.op = "Lookup";
    lookup.domain = "evoq";
    lookup.attrs.Set("evoq.function", function);
    EXPECT_EQ(OnlyRescales(lookup), std::string_view(cause) == "extra-conversion") << function;
    EXPECT_EQ(ConvertsOnly(lookup), std::string_view(cause) == "extra-conversion") << function;
    lookup.op = "Relu";
    EXPECT_FALSE(ConvertsOnly(lookup)) << "no table";
  }
}

// n, which has no integer form, and the conversions around it, also behind views and transposes.
TEST(StepCauses, AFloatOperatorCausesItsConversions) {
  const Program program =
      Decide(Body({"c: %qa = Conv(%i, %w)", "d: %b = DequantizeLinear(%qa)", "f: %c = Identity(%b)",
                   "n: %d = LpNormalization(%c)", "t: %e = Transpose(%d)",
                   "q: %qf = QuantizeLinear(%e)", "e: %qg = Conv(%qf, %w)", "output %qg"}),
             {{"c"}, {"d"}, {"n", "", "float32"}, {"t", "", "any"}, {"q"}, {"e"}});
  EXPECT_EQ(Causes(program),
            "kernel-below-ideal no-int8-kernel no-int8-kernel no-int8-kernel no-int8-kernel "
            "kernel-below-ideal");
  const StepCauses causes(program);
  EXPECT_EQ(causes.Beside(0), "no-int8-kernel") << "what reads it";
  EXPECT_EQ(causes.Beside(5), "no-int8-kernel") << "what it reads";
  EXPECT_EQ(causes.Neighbour(0), "no-int8-kernel");
  EXPECT_EQ(causes.Neighbour(5), "no-int8-kernel");
  EXPECT_EQ(causes.Before(5), "no-int8-kernel");
  EXPECT_EQ(causes.Before(0), "no-int8-kernel") << "in the run before";
  // An operator on integers is no reason.
  EXPECT_EQ(Causes(Decide("n: %y: int64[2] = Identity(%x)\noutput %y\n", {{"n", "", "any"}})),
            "moves-bytes");
}

// Of two faulty steps, the nearer one decides; of those before it and behind it, for a conversion
// to integers the one before, for one to floats the one behind.
TEST(StepCauses, TheSideOfAConversion) {
  const std::string body =
      Body({"a: %a = Conv(%x, %v)", "q: %qa = QuantizeLinear(%a)", "c: %qb = Conv(%qa, %w)",
            "d: %b = DequantizeLinear(%qb)", "e: %c = Conv(%b, %v)", "output %c"});
  const Program program = Decide(
      body, {{"a", "excluded", "float32"}, {"q"}, {"c"}, {"d"}, {"e", "no-range", "float32"}});
  EXPECT_EQ(Causes(program), "excluded excluded kernel-below-ideal no-range no-range");
  const StepCauses causes(program);
  EXPECT_EQ(causes.Beside(2), "no-range") << "what reads it comes first";
  EXPECT_EQ(causes.Neighbour(2), "excluded") << "what it reads comes first";
  EXPECT_EQ(causes.Before(2), "excluded");
  EXPECT_EQ(causes.Before(0), "no-range");
}

// A float step that only follows others belongs to them: to what it reads, else to what reads it.
TEST(StepCauses, FloatStepsThatOnlyFollow) {
  EXPECT_EQ(Causes(Decide(Body({"a: %a = Conv(%x, %v)", "r: %b = Relu(%a)", "e: %c = Conv(%b, %v)",
                                "output %c"}),
                          {{"a", "excluded", "float32"},
                           {"r", "float-inputs", "float32"},
                           {"e", "no-range", "float32"}})),
            "excluded excluded no-range");
  EXPECT_EQ(Causes(Decide(Body({"r: %b = Relu(%x)", "e: %c = Conv(%b, %v)", "output %c"}),
                          {{"r", "float-readers", "float32"}, {"e", "no-range", "float32"}})),
            "no-range no-range");
  EXPECT_EQ(
      Causes(Decide(Body({"r: %b = Relu(%x)", "output %b"}), {{"r", "float-readers", "float32"}})),
      "float-readers");
  EXPECT_EQ(Causes(Decide(Body({"r: %b = Relu(%x)", "output %b"}), {{"r", "", "float32"}})),
            "moves-bytes");
}

// Border conversions do not disturb others: neither beside a step nor before it.
TEST(StepCauses, TheBorderIsNoFault) {
  const Program program = Decide(Body({"q: %qa = QuantizeLinear(%x)", "c: %qb = Conv(%qa, %w)",
                                       "d: %b = DequantizeLinear(%qb)", "output %b"}),
                                 {{"q"}, {"c"}, {"d"}});
  const StepCauses causes(program);
  EXPECT_EQ(causes.Fault(0), "border-conversion");
  EXPECT_EQ(causes.Neighbour(1), "");
  EXPECT_EQ(causes.Before(1), "");
}

// A copy between memories is the reason of its own time alone: what stands beside it or runs after
// it looks past it.
TEST(StepCauses, CopiesAreNobodysReason) {
  const auto copied = [](const std::string& body, const std::vector<Decided>& steps,
                         std::vector<size_t> copies) {
    Program program = Decide(body, steps);
    for (size_t s : copies) program.steps[s].decision.kernel = kTransferKernel;
    return program;
  };
  const std::string sound = Body(
      {"c: %qa = Conv(%i, %w)", "to: %qb = Identity(%qa)", "e: %qc = Conv(%qb, %w)", "output %qc"});
  const Program program = copied(sound, {{"c"}, {"to"}, {"e"}}, {1});
  EXPECT_EQ(Causes(program), "kernel-below-ideal copy-between-memories kernel-below-ideal");
  const StepCauses causes(program);
  for (size_t s : {0, 2}) {
    EXPECT_EQ(causes.Neighbour(s), "");
    EXPECT_EQ(causes.Before(s), "");
  }
  // The fault behind copies is found.
  const std::string faulty =
      Body({"c: %qa = Conv(%i, %w)", "to: %qb = Identity(%qa)", "back: %qc = Identity(%qb)",
            "d: %d = DequantizeLinear(%qc)", "n: %e = Conv(%d, %v)", "output %e"});
  const Program behind =
      copied(faulty, {{"c"}, {"to"}, {"back"}, {"d"}, {"n", "excluded", "float32"}}, {1, 2});
  EXPECT_EQ(StepCauses(behind).Neighbour(0), "excluded");
  EXPECT_EQ(StepCauses(behind).Before(0), "excluded");
}

TEST(StepCauses, DynamicScalesAndBfloat16) {
  EXPECT_EQ(
      Causes(Decide(Body({"c: %a = MatMulInteger(%x, %v)", "output %a"}), {{"c", "", "int8"}})),
      "scale-is-dynamic");
  // A scale that is a constant is not found at each run: it belongs to 16 bits.
  const std::string scales = "const %s: float32[] = [0.5]\nconst %z: uint8[] = [3]\n";
  const auto product = [&](const char* scale) {
    const std::string line =
        fmt::format("c: %a: float32[1, 4] = evoq::DynamicMatMul(%q, %m, _, _, {}, %z)", scale);
    return Causes(
        Decide("input %q: uint8[1, 4]\ninput %t: float32[]\nconst %m: int8[4, 4](scale "
               "0.1, zero 0)\n" +
                   scales + line + "\noutput %a\n",
               {{"c", "", "int8"}}));
  };
  EXPECT_EQ(product("%s"), "two-bytes");
  EXPECT_EQ(product("%t"), "scale-is-dynamic");
  const std::string bytes =
      "b: %a: uint8[1, 4, 8, 8], %b: uint8[1, 4, 8, 8] = evoq::QuantizeBytes{rest_scale=0.1}(%x, "
      "%s, %z)\noutput %a\n";
  EXPECT_EQ(Causes(Decide(scales + bytes, {{"b", "", "int8"}})), "two-bytes");
  // Where bfloat16 is the narrow type, it is its kernel that is missing.
  const std::string body = Body({"n: %a = LpNormalization(%x)", "r: %b = Relu(%a)", "output %b"});
  EXPECT_EQ(Causes(Decide(body, {{"n", "", "float32"}, {"r", "", "bf16"}})),
            "no-bf16-kernel no-bf16-kernel");
  EXPECT_EQ(Causes(Decide(body, {{"n", "", "float32"}, {"r", "", "int8"}})),
            "no-int8-kernel no-int8-kernel");
}

// The same kernel on the same types, an absent input like an absent one.
TEST(StepCauses, SameSteps) {
  const auto step = [](const char* line, const char* kernel = "k") {
    Program program = Decide(std::string(line) + "\noutput %y\n", {{"a"}});
    program.steps[0].decision.kernel = kernel;
    return program;
  };
  const Program base = step("a: %y: float32[4] = Clip(%x, %v)");
  const auto same = [&](const Program& other) { return SameStep(base, 0, other, 0); };
  EXPECT_TRUE(same(step("a: %y: float32[5] = Clip(%v, %x)"))) << "shapes are not compared";
  EXPECT_FALSE(same(step("a: %y: float32[4] = Clip(%x, %v)", "l")));
  EXPECT_FALSE(same(step("a: %y: float32[4] = Clip(%x)")));
  EXPECT_FALSE(same(step("a: %y: float32[4] = Clip(%x, %v, %v)")));
  EXPECT_FALSE(same(step("a: %y: float32[4] = Clip(%x, %w)")));
  EXPECT_FALSE(same(step("a: %y: float16[4] = Clip(%x, %v)")));
  const Program absent = step("a: %y: float32[4] = Clip(%x, _, %v)"),
                present = step("a: %y: float32[4] = Clip(%x, %v, %v)");
  EXPECT_TRUE(SameStep(absent, 0, absent, 0));
  EXPECT_FALSE(SameStep(absent, 0, present, 0));
  EXPECT_FALSE(SameStep(present, 0, absent, 0));
}

}  // namespace
}  // namespace evoq
