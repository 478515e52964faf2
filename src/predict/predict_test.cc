#include "predict/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/kernel.h"
#include "models/models.h"
#include "predict/test_forecast.h"
#include "program/etm_size.h"
#include "quant/assume.h"
#include "quant/quant.h"
#include "quant/test_net.h"

namespace evoq {
namespace {

using namespace std::string_literals;

// What Winograd's convolution computes with a quarter of the multiplications, not of integers.
Graph WideConvolution() {
  return Parsed(R"(
    input %x: float32[1, 256, 56, 56]
    const %w: float32[256, 256, 3, 3]
    wide: %y: float32[1, 256, 56, 56] = Conv{pads=[1, 1, 1, 1]}(%x, %w)
    output %y
  )");
}

Forecast MustPredict(const Graph& graph, const MachineLimits& limits,
                     std::vector<std::string> schemes = {}) {
  PredictOptions options;
  options.limits = limits;
  options.schemes = std::move(schemes);
  Result<Forecast> forecast = Predict(graph, "m.onnx", options);
  EVOQ_CHECK(forecast.has_value(), "{}", forecast ? "" : forecast.error().message());
  return std::move(*forecast);
}

const SchemeForecast& Scheme(const Forecast& forecast, std::string_view name) {
  for (const SchemeForecast& s : forecast.schemes) {
    if (s.scheme == name) return s;
  }
  EVOQ_CHECK(false, "no scheme {}", name);
  return forecast.schemes[0];
}

TEST(Predict, EverySchemeWithFloat32First) {
  const Forecast forecast = MustPredict(Convolutions(32, 32), SomeMachine());
  ASSERT_EQ(forecast.schemes.size(), AllSchemes().size());
  EXPECT_EQ(forecast.schemes[0].scheme, "float32");
  for (const SchemeForecast& s : forecast.schemes) {
    EXPECT_EQ(s.unavailable, "") << s.scheme;
    EXPECT_GT(s.file_bytes, 0) << s.scheme;
    EXPECT_LT(s.low_ms, s.ms) << s.scheme;
    EXPECT_GT(s.high_ms, s.ms) << s.scheme;
    EXPECT_EQ(s.measured_ms, -1) << s.scheme << " was run";
    double sum = 0;
    for (const StepForecast& step : s.step_list) sum += step.ms;
    EXPECT_NEAR(sum, s.ms, 0.001) << s.scheme;
  }
}

TEST(Predict, OnlyTheSchemesAskedFor) {
  const Forecast forecast = MustPredict(Convolutions(16, 16), SomeMachine(), {"int8"});
  ASSERT_EQ(forecast.schemes.size(), 2u);
  EXPECT_EQ(forecast.schemes[1].scheme, "int8");
  PredictOptions options;
  options.limits = SomeMachine();
  options.schemes = {"int3"};
  const auto refused = Predict(Convolutions(16, 16), "m.onnx", options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUsage);
  EXPECT_EQ(refused.error().message(),
            "--scheme int3: not one of `evoq list schemes`; the nearest is int8");
}

TEST(Predict, NarrowWeightsTakeFewerBytes) {
  const Forecast forecast = MustPredict(Convolutions(128, 16), SomeMachine());
  const auto bytes = [&](const char* name) {
    return static_cast<double>(Scheme(forecast, name).file_bytes);
  };
  EXPECT_NEAR(bytes("bf16") / bytes("float32"), 0.5, 0.03);
  for (const char* name : {"int8", "int8-dynamic", "int8-weights"})
    EXPECT_NEAR(bytes(name) / bytes("float32"), 0.25, 0.03) << name;
}

// Convolutions hold int8 weights as floats: the same kernels read the same bytes, whatever the file
// has.
// A table of 16 bits that is the head's weight too stays one constant, as quantize writes it.
TEST(Predict, TiedTablesAreOneConstant) {
  Graph graph = Parsed(R"(
    input %i: int64[3]
    input %x: float32[4, 128]
    const %t: bfloat16[8192, 128]
    g: %e: bfloat16[3, 128] = Gather(%t, %i)
    e: %wide: float32[3, 128] = Cast{to=1}(%e)
    c: %c: float32[8192, 128] = Cast{to=1}(%t)
    s: %s: float32[128, 8192] = Transpose{perm=[1, 0]}(%c)
    y: %y: float32[4, 8192] = MatMul(%x, %s)
    output %wide
    output %y
  )");
  const Forecast forecast = MustPredict(graph, SomeMachine(), {"int4-dynamic"});
  EXPECT_LT(Scheme(forecast, "int4-dynamic").file_bytes, 8192 * 128 * 5 / 8);
}

TEST(Predict, NarrowWeightsOfConvolutionsGainNoTime) {
  const Forecast forecast = MustPredict(Convolutions(256, 8), SomeMachine(), {"int8-weights"});
  EXPECT_NEAR(Scheme(forecast, "int8-weights").speedup, 1, 0.001);
}

// Products that begin anew every few values cost more than those of whole tensors.
TEST(Predict, ShortRowsOfBroadcastCost) {
  const auto ms = [](const char* shape) {
    const Graph graph = Parsed(fmt::format(R"(
      input %x: float32[1, 512, 16, 40]
      const %w: float32[{}]
      y: %y: float32[1, 512, 16, 40] = Mul(%x, %w)
      output %y
    )",
                                           shape));
    return MustPredict(graph, SomeMachine(), {"float32"}).schemes[0].ms;
  };
  EXPECT_GT(ms("1, 512, 16, 1"), 2 * ms("1"));
}

TEST(Predict, MoreWorkTakesLonger) {
  for (const QuantScheme* scheme : AllSchemes()) {
    double before = 0;
    for (const int64_t channels : {16, 32, 64, 128}) {
      const double ms =
          Scheme(MustPredict(Convolutions(channels, 32), SomeMachine(), {scheme->name}),
                 scheme->name)
              .ms;
      EXPECT_GT(ms, before) << scheme->name << ", " << channels << " channels";
      before = ms;
    }
    before = 0;
    for (const int64_t size : {16, 32, 64, 128}) {
      const double ms =
          Scheme(MustPredict(Convolutions(32, size), SomeMachine(), {scheme->name}), scheme->name)
              .ms;
      EXPECT_GT(ms, before) << scheme->name << ", " << size << " pixels";
      before = ms;
    }
  }
}

TEST(Predict, AMachineWithTwiceTheLimitsTakesHalfTheTime) {
  MachineLimits fast = SomeMachine();
  using Rate = double MachineLimits::*;
  for (const Rate rate : std::initializer_list<Rate>{
           &MachineLimits::int8_gops, &MachineLimits::bf16_gflops, &MachineLimits::fp32_gflops,
           &MachineLimits::dram_read_gbps, &MachineLimits::l3_read_gbps,
           &MachineLimits::l2_read_gbps, &MachineLimits::clock_ghz})
    fast.*rate *= 2;
  const Forecast slow = MustPredict(Convolutions(64, 64), SomeMachine()),
                 quick = MustPredict(Convolutions(64, 64), fast);
  for (size_t i = 0; i < slow.schemes.size(); ++i)
    EXPECT_NEAR(quick.schemes[i].ms / slow.schemes[i].ms, 0.5, 0.02) << slow.schemes[i].scheme;
}

TEST(Predict, ThreadsShareLargeStepsOnly) {
  const double one = MustPredict(Convolutions(128, 64), SomeMachine(1), {"float32"}).schemes[0].ms;
  const double two = MustPredict(Convolutions(128, 64), SomeMachine(2), {"float32"}).schemes[0].ms;
  EXPECT_LT(two, 0.75 * one);
  EXPECT_GT(two, 0.45 * one);
  const double tiny_one =
      MustPredict(Convolutions(4, 8), SomeMachine(1), {"float32"}).schemes[0].ms;
  EXPECT_EQ(MustPredict(Convolutions(4, 8), SomeMachine(2), {"float32"}).schemes[0].ms, tiny_one);
}

// Forecasts are for machines that have what this one lacks, too: no kernel of theirs is run here,
// also where finding how threads share a step runs one.
TEST(Predict, ForEveryNamedInstructionSet) {
  const Graph graph = MakeNet(
      "graph g\ninput %x: float32[1, 32, 20, 20]\n"
      "const %d: float32[32, 1, 3, 3]\nconst %m: float32[20, 64]\n"
      "c: %y = Conv{group=32, pads=[1, 1, 1, 1]}(%x, %d)\np: %z = MatMul(%y, %m)\noutput %z\n");
  for (Isa isa : AllIsas()) {
    for (int threads : {1, 2}) {
      MachineLimits limits = SomeMachine(threads);
      limits.isa = isa;
      for (const SchemeForecast& s : MustPredict(graph, limits).schemes) {
        EXPECT_EQ(s.unavailable, "") << IsaName(isa) << " " << s.scheme;
        EXPECT_GT(s.ms, 0) << IsaName(isa) << " " << s.scheme;
      }
    }
  }
}

// What a step takes by its counts, its cut and its family's constants (predict/cost.h), on
// `threads` threads.
double StepNs(const StepForecast& s, const MachineLimits& limits, int threads) {
  double ns = 0;
  for (double term : s.weighed) ns += term;
  const Efficiency& e = EfficiencyOf(EfficienciesFor(limits), s.family->name);
  ns *= 1 - e.shared + e.shared * s.cut.share;
  if (s.cut.loops > 0)
    ns += s.cut.loops * e.fork * limits.fork_ns +
          e.remote * s.terms[kStream] * (threads - 1) / threads / threads;
  return ns;
}

// A product, an operator that one thread computes by its definition, another product. Where the
// definition takes longer than the 50 us for which the other thread spins, that one sleeps, and the
// second product wakes it, in 20 us. Runs follow each other: before the first product stands the
// second.
TEST(Predict, ThreadsThatSleepAreWoken) {
  for (const int64_t rows : {32, 1024}) {
    const Graph graph = Parsed(fmt::format(R"(
      input %x: float32[{0}, 512]
      const %w: float32[512, 512]
      const %v: float32[512, 512]
      first: %a: float32[{0}, 512] = MatMul(%x, %w)
      const %axis: int64[] = [1]
      alone: %b: float32[{0}, 512] = CumProd(%a, %axis)
      second: %y: float32[{0}, 512] = MatMul(%b, %v)
      output %y
    )",
                                           rows));
    const MachineLimits limits = SomeMachine(2);
    const SchemeForecast f = MustPredict(graph, limits, {"float32"}).schemes[0];
    double sum_ns = 300;  // a run outside its steps
    bool slept = false;
    for (const StepForecast& s : f.step_list) {
      if (s.name == "alone") {
        EXPECT_EQ(s.cut.loops, 0);
        slept = s.ms > 0.05;
      }
      const double wake_ns = s.name == "second" && slept ? 20'000 : 0;
      if (s.name == "second") EXPECT_GT(s.cut.loops, 0);
      const double ns = StepNs(s, limits, 2) + wake_ns;
      EXPECT_NEAR(s.ms, ns / 1e6, 1e-12) << s.name << ", " << rows << " rows";
      EXPECT_EQ(s.known, s.name != "alone");
      if (s.known) sum_ns += ns;
    }
    EXPECT_EQ(slept, rows == 1024);
    EXPECT_NEAR(f.ms, sum_ns / 1e6, 1e-9) << rows;
  }
}

// A step by its definition is named, has no time, and takes the forecast and the payoff with it,
// unless it is too small to count.
TEST(Predict, StepsByTheirDefinitionHaveNoTime) {
  const auto forecast = [](int64_t rows, const char* alone) {
    return MustPredict(Parsed(fmt::format(R"(
      input %x: float32[{0}, 512]
      const %w: float32[512, 512]
      const %axis: int64[] = [1]
      first: %a: float32[{0}, 512] = MatMul(%x, %w)
      alone: %b = {1}
      second: %y = MatMul(%b, %w)
      output %y
    )",
                                          rows, alone)),
                       SomeMachine(), {"int8"});
  };
  const Forecast with = forecast(64, "CumProd(%a, %axis)"), without = forecast(64, "Relu(%a)");
  for (const SchemeForecast& s : with.schemes) {
    EXPECT_EQ(s.unknown, std::vector<std::string>{"alone"}) << s.scheme;
    EXPECT_LT(s.ms, 2 * without.schemes[0].ms);
  }
  EXPECT_EQ(with.schemes[1].payoff, Payoff::kNotKnown);
  const auto is_definition = [](const Hindrance& h) { return h.code == "by-definition"; };
  EXPECT_TRUE(std::ranges::any_of(with.schemes[1].hindrances, is_definition));
  EXPECT_FALSE(std::ranges::any_of(without.schemes[1].hindrances, is_definition));
  const nlohmann::json json = ToJson(with);
  for (const char* key : {"ms", "low_ms", "high_ms"})
    EXPECT_TRUE(json["schemes"][0][key].is_null());
  EXPECT_TRUE(json["schemes"][1]["speedup"].is_null());
  EXPECT_EQ(json["schemes"][1]["payoff"], "not-known");
  EXPECT_EQ(json["schemes"][1]["unknown_steps"], nlohmann::json({"alone"}));
  const std::string text = ToText(with);
  EXPECT_NE(text.find("not known"), std::string::npos) << text;
  EXPECT_NE(text.find("1 step (alone) runs by definition, for want of a kernel; its time is"),
            std::string::npos)
      << text;
  EXPECT_TRUE(without.schemes[1].unknown.empty());
  EXPECT_NE(without.schemes[1].payoff, Payoff::kNotKnown);
}

// A loop's body has the counts of one round, as often as there are rounds.
TEST(Predict, RoundsOfALoop) {
  const Graph graph = Parsed(
      "input %x: float32[1, 16, 12, 12]\ninput %n: int64[]\nloop: %y = Loop(%n, _, %x)\n"
      "| input %i: int64[]\n| input %c: bool[]\n| input %s: float32[1, 16, 12, 12]\n"
      "| const %w: float32[16, 16, 3, 3]\n| p: %p = Conv{pads=[1, 1, 1, 1]}(%s, %w)\n"
      "| same: %d = Identity(%c)\n| output %d\n| output %p\noutput %y\n");
  std::map<int64_t, StepForecast> body;  // by rounds
  for (const int64_t rounds : {1, 5}) {
    PredictOptions options;
    options.limits = SomeMachine();
    options.schemes = {"bf16"};
    options.sample = {Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 16, 12, 12})),
                      Tensor::Scalar<int64_t>(rounds)};
    const auto forecast = Predict(graph, "m.onnx", options);
    ASSERT_TRUE(forecast) << forecast.error().message();
    for (const StepForecast& step : forecast->schemes[0].step_list) {
      if (step.name == "loop/p") body[rounds] = step;
    }
  }
  ASSERT_EQ(body.size(), 2u);
  for (int t = 0; t < kTermCount; ++t)
    EXPECT_DOUBLE_EQ(body[5].terms[t], body[1].terms[t]) << TermName(static_cast<Term>(t));
  EXPECT_NEAR(body[5].ms, 5 * body[1].ms, 1e-12);
}

// Two such operators, neither of which takes 50 us, and together they do.
TEST(Predict, WhatThreadsWaitForAddsUp) {
  const Graph graph = Parsed(R"(
    input %x: float32[192, 512]
    const %w: float32[512, 512]
    const %v: float32[512, 512]
    first: %a: float32[192, 512] = MatMul(%x, %w)
    const %axis: int64[] = [1]
    alone: %b: float32[192, 512] = CumProd(%a, %axis)
    again: %c: float32[192, 512] = CumProd(%b, %axis)
    second: %y: float32[192, 512] = MatMul(%c, %v)
    output %y
  )");
  const MachineLimits limits = SomeMachine(2);
  const SchemeForecast f = MustPredict(graph, limits, {"float32"}).schemes[0];
  double alone_ms = 0;
  for (const StepForecast& s : f.step_list) {
    if (s.op == "CumProd") {
      EXPECT_LT(s.ms, 0.05);
      alone_ms += s.ms;
    }
    EXPECT_NEAR(s.ms, (StepNs(s, limits, 2) + (s.name == "second" ? 20'000 : 0)) / 1e6, 1e-12)
        << s.name;
  }
  EXPECT_GT(alone_ms, 0.05);
}

// No thread has less than its part of a step's work, and none more than all of it, however many
// loops a kernel has and whatever their grain is.
TEST(Predict, SharesAreParts) {
  const Graph large = Parsed(R"(
    input %x: float32[1, 4, 512, 512]
    y: %y: float32[1, 4, 512, 512] = Relu(%x)
    output %y
  )");
  for (const Graph& graph : {WideConvolution(), Convolutions(64, 64), large}) {
    for (const int threads : {2, 3}) {
      const Forecast forecast = MustPredict(graph, SomeMachine(threads), {"float32"});
      int cut = 0;
      for (const StepForecast& s : forecast.schemes[0].step_list) {
        EXPECT_GE(s.cut.share, 1.0 / threads - 1e-12) << s.name;
        EXPECT_LE(s.cut.share, 1) << s.name;
        cut += s.cut.loops > 0;
      }
      EXPECT_GT(cut, 0);
    }
  }
}

// Eight samples of which each thread takes whole ones: each step is one thread's, eight times over
// as many lanes as there are threads.
TEST(Predict, SamplesAreSharedAmongLanes) {
  const Graph graph = Parsed(R"(
    input %x: float32[N, 32, 96, 96]
    const %w: float32[32, 32, 3, 3]
    const %v: float32[32, 32, 3, 3]
    first: %a: float32[N, 32, 48, 48] = Conv{pads=[1, 1, 1, 1], strides=[2, 2]}(%x, %w)
    second: %y: float32[N, 32, 24, 24] = Conv{pads=[1, 1, 1, 1], strides=[2, 2]}(%a, %v)
    output %y
  )");
  for (const int threads : {1, 2, 4}) {
    PredictOptions options;
    options.limits = SomeMachine(threads);
    options.run_shapes = {{"x", {8, 32, 96, 96}}};
    options.schemes = {"float32"};
    const Result<Forecast> forecast = Predict(graph, "m.onnx", options);
    ASSERT_TRUE(forecast.has_value()) << forecast.error().message();
    const SchemeForecast& f = forecast->schemes[0];
    double sum_ns = 300;
    for (const StepForecast& s : f.step_list) {
      EXPECT_EQ(s.cut.loops, 0) << s.name << ": a step is one thread's";
      EXPECT_NEAR(s.ms, StepNs(s, options.limits, 1) * 8 / threads / 1e6, 1e-12)
          << s.name << ", " << threads << " threads";
      EXPECT_EQ(s.shape.rfind("[1, ", 0), 0u) << s.shape << ": of one sample";
      sum_ns += s.ms * 1e6;
    }
    EXPECT_NEAR(f.ms, sum_ns / 1e6, 1e-9);
  }
}

// The range: what families may be off, each by its spread and independently of the others, and what
// all steps are off together, 15%; nine of ten lie within 1.65 deviations.
TEST(Predict, RangesByHand) {
  const Forecast forecast = MustPredict(Convolutions(32, 32), SomeMachine());
  for (const SchemeForecast& s : forecast.schemes) {
    std::map<std::string, double> families;  // ms
    for (const StepForecast& step : s.step_list) families[step.family->name] += step.ms;
    double variance = 0.15 * 0.15;  // SomeMachine has no cores whose constants there are
    for (const auto& [family, ms] : families)
      variance +=
          std::pow(ms * EfficiencyOf(EfficienciesFor(SomeMachine()), family).spread / s.ms, 2);
    const double factor = std::exp(1.65 * std::sqrt(variance));
    EXPECT_NEAR(s.low_ms, s.ms / factor, 1e-12) << s.scheme;
    EXPECT_NEAR(s.high_ms, s.ms * factor, 1e-12) << s.scheme;
    EXPECT_NEAR(s.speedup, forecast.schemes[0].ms / s.ms, 1e-12) << s.scheme;
    EXPECT_EQ(s.payoff, s.speedup > 1.05       ? Payoff::kFaster
                        : s.speedup * 1.05 < 1 ? Payoff::kSlower
                                               : Payoff::kSame)
        << s.scheme;
    PrecisionCounts counts;
    for (const StepForecast& step : s.step_list) counts.Add(step.precision);
    EXPECT_EQ(s.steps.Total(), static_cast<int>(s.step_list.size())) << s.scheme;
    EXPECT_EQ(s.steps, counts) << s.scheme;
  }
}

TEST(Predict, IntegersPayForLargeConvolutions) {
  const Forecast forecast = MustPredict(Convolutions(128, 64), SomeMachine());
  EXPECT_EQ(Scheme(forecast, "int8").payoff, Payoff::kFaster);
  EXPECT_GT(Scheme(forecast, "int8").speedup, 2);
  EXPECT_EQ(Scheme(forecast, "int8-weights").payoff, Payoff::kSame);
  // Weights and data of 16 bits are four products of bytes; no other scheme is slower.
  int slower = 0;
  for (const SchemeForecast& s : forecast.schemes) {
    if (s.payoff != Payoff::kSlower) continue;
    EXPECT_TRUE(s.scheme == "int16" || s.scheme == "int16-dynamic") << s.scheme;
    ++slower;
  }
  int told = 0;
  const std::string text = ToText(forecast);
  for (size_t at = 0; (at = text.find("will be slower", at)) != std::string::npos; ++at) ++told;
  EXPECT_EQ(told, slower);
}

TEST(Predict, SaysWhereASchemeWillBeSlower) {
  const Forecast forecast = MustPredict(WideConvolution(), SomeMachine(), {"int16-dynamic"});
  const SchemeForecast& int16 = Scheme(forecast, "int16-dynamic");
  EXPECT_EQ(int16.payoff, Payoff::kSlower);
  EXPECT_NE(ToText(forecast).find("will be slower"), std::string::npos);
  EXPECT_EQ(ToJson(forecast)["schemes"][1]["payoff"], "slower");
  ASSERT_FALSE(int16.hindrances.empty());
  const Hindrance& costliest = int16.hindrances[0];
  EXPECT_EQ(costliest.code, "added-step");  // 16 bits are several products of bytes
  EXPECT_TRUE(std::ranges::count(costliest.steps, "wide_10"));
  for (const Hindrance& h : int16.hindrances) EXPECT_LE(h.lost_ms, costliest.lost_ms) << h.code;
  EXPECT_GT(costliest.lost_ms, 0);
}

// But for AMX, whose tiles multiply all of it in less time.
TEST(Predict, Bf16TakesWinogradsConvolutionToo) {
  MachineLimits limits = SomeMachine();
  const Isa here = SelectIsa().value_or(Isa::kScalar);  // whose kernels are counted
  if (here.Has(Isa::kAmx) || here.Has(Isa::kAmxSoftware))
    limits.isa = Isa::kAmx, limits.bf16_gflops = 3400, limits.int8_gops = 6900;
  const Forecast forecast = MustPredict(WideConvolution(), limits, {"bf16"});
  const SchemeForecast& bf16 = Scheme(forecast, "bf16");
  EXPECT_NE(bf16.payoff, Payoff::kSlower);
  for (const Hindrance& h : bf16.hindrances) EXPECT_NE(h.code, "winograd");
}

TEST(Predict, ConversionsAndWhatStaysFloatAreNamed) {
  const Forecast forecast = MustPredict(Convolutions(64, 64), SomeMachine());
  const auto codes = [&](const char* scheme) {
    std::set<std::string> codes;
    for (const Hindrance& h : Scheme(forecast, scheme).hindrances) {
      codes.insert(h.code);
      EXPECT_FALSE(h.steps.empty()) << h.code;
      EXPECT_FALSE(h.sentence.empty()) << h.code;
      EXPECT_GT(h.ms, 0) << h.code;
    }
    return codes;
  };
  EXPECT_TRUE(codes("int8").count("conversion")) << "the input has to be quantized";
  EXPECT_TRUE(codes("int8-weights").count("weights-only"));
  EXPECT_TRUE(codes("float32").empty());
}

TEST(Predict, FreeSizesMustBeNamed) {
  const Graph graph = Parsed(R"(
    input %x: float32[1, C]
    y: %y: float32[1, C] = Relu(%x)
    output %y
  )");
  PredictOptions options;
  options.limits = SomeMachine();
  EXPECT_FALSE(Predict(graph, "m.onnx", options).has_value());
  options.shapes = {{"x", {1, 64}}};
  EXPECT_TRUE(Predict(graph, "m.onnx", options).has_value());
}

TEST(Predict, WithTheRangesOfAFileTheSizeIsThatFiles) {
  std::string w, v;  // what a compressor cannot guess
  uint32_t random = 1;
  for (int i = 0; i < 16 * 16; ++i) {
    for (std::string* text : {&w, &v})
      *text += fmt::format("{}{}", i > 0 ? ", " : "",
                           ((random = random * 1664525 + 1013904223) >> 16) / 32768.0 - 1);
  }
  const Graph graph = Parsed(fmt::format(R"(
    input %x: float32[1, 16, 8, 8]
    const %w: float32[16, 16, 1, 1] = [{}]
    const %v: float32[16, 16, 1, 1] = [{}]
    first: %a: float32[1, 16, 8, 8] = Conv(%x, %w)
    relu: %b: float32[1, 16, 8, 8] = Relu(%a)
    second: %y: float32[1, 16, 8, 8] = Conv(%b, %v)
    output %y
  )",
                                         w, v));
  PredictOptions options;
  options.limits = SomeMachine();
  options.schemes = {"int8"};
  options.ranges = AssumedRanges(graph);
  for (auto& [name, range] : options.ranges) {
    for (size_t c = 0; c < range.channel_max.size(); c += 2)
      range.channel_max[c] = range.channel_means[c] = 0;  // dead channels
  }
  Graph quantized = graph;
  ASSERT_TRUE(FindScheme("int8")->run(quantized, options.ranges, {}));
  quantized.metadata["evoq.scheme"] = "int8";
  quantized.metadata["evoq.float_weight_bytes"] = "0";
  const auto engine = EngineFromGraph(std::move(quantized), {1, {}, false});
  ASSERT_TRUE(engine.has_value());
  const auto given = Predict(graph, "m.onnx", options);
  ASSERT_TRUE(given.has_value());
  EXPECT_EQ(Scheme(*given, "int8").file_bytes, EtmBytes((*engine)->model()));
  EXPECT_NE(Scheme(*given, "int8").file_bytes,
            Scheme(MustPredict(graph, SomeMachine(), {"int8"}), "int8").file_bytes);
}

TEST(Predict, KernelsSayHowTheyCutTheirWork) {
  const Graph graph = Parsed(R"(
    input %x: float32[512, 512]
    const %w: float32[512, 512]
    product: %a: float32[512, 512] = MatMul(%x, %w)
    const %begin: int64[2]
    const %end: int64[2] = [8, 8]
    some: %b: float32[8, 8] = Slice(%a, %begin, %end)
    small: %y: float32[8, 8] = Relu(%b)
    output %y
  )");
  const auto step = [&](int threads, const char* name) {
    const Forecast forecast = MustPredict(graph, SomeMachine(threads), {"float32"});
    for (const StepForecast& s : forecast.schemes[0].step_list) {
      if (s.name == name) return s;
    }
    EVOQ_CHECK(false, "no step {}", name);
    return StepForecast();
  };
  EXPECT_EQ(step(1, "product").cut.loops, 0);
  EXPECT_EQ(step(1, "product").cut.share, 1);
  EXPECT_EQ(step(2, "small").cut.loops, 0) << "64 values are not worth a second thread";
  EXPECT_EQ(step(2, "product").cut.loops, 1);
  EXPECT_GE(step(2, "product").cut.share, 0.5);
  EXPECT_LT(step(2, "product").cut.share, 0.6);
  EXPECT_LT(step(2, "product").ms, 0.7 * step(1, "product").ms);
  EXPECT_GE(step(3, "product").cut.share, 1.0 / 3);
  EXPECT_LT(step(3, "product").cut.share, 0.45);
}

TEST(Predict, ConstantsOfAnotherInstructionSetMakeTheRangeWideAndAreNamed) {
  MachineLimits fitted = SomeMachine();
  fitted.core = "AMD family 25 model 17";
  MachineLimits other = fitted;
  other.isa = Isa::kScalar;
  const Forecast own = MustPredict(Convolutions(32, 32), fitted),
                 foreign = MustPredict(Convolutions(32, 32), other);
  EXPECT_EQ(own.constants.isa, Isa::kAvx512);
  EXPECT_EQ(foreign.constants.isa, Isa::kAvx512);
  const auto width = [](const Forecast& f) { return f.schemes[0].high_ms / f.schemes[0].low_ms; };
  EXPECT_GT(width(foreign), 2 * width(own));
  EXPECT_EQ(ToText(own).find("constants"), std::string::npos);
  EXPECT_NE(
      ToText(MustPredict(Convolutions(32, 32), SomeMachine()))
          .find("with constants of AMD family 25 model 17, for want of any of some cores: the "
                "ranges are wider for that"),
      std::string::npos);
  EXPECT_NE(ToText(foreign).find("constants of AVX512"), std::string::npos) << ToText(foreign);
}

TEST(Cost, EveryFamilyHasConstantsOfItsOwn) {
  for (const CostFamily* family : AllCostFamilies()) {
    for (const char* core :
         {"AMD family 25 model 17", "AMD family 26 model 2", "Intel family 6 model 207"}) {
      MachineLimits limits = SomeMachine();
      limits.core = core;
      const Efficiency& e = EfficiencyOf(EfficienciesFor(limits), family->name);
      EXPECT_STREQ(e.family, family->name) << "bench/predict.py fit";
      EXPECT_STREQ(e.on.core, core);
      for (double times : e.times) EXPECT_TRUE(times >= 0 && times < 1000) << family->name;
      EXPECT_GT(*std::max_element(e.times.begin(), e.times.end()), 0) << family->name;
      EXPECT_GT(e.spread, 0) << family->name;
    }
  }
}

// Those of its cores before those of the same maker, those before others of its instruction set,
// and those before any else.
TEST(Cost, ConstantsAreThoseOfTheMachineWhereThereAreAny) {
  const auto fitted = [](const char* core, Isa isa) {
    MachineLimits limits = SomeMachine();
    limits.core = core, limits.isa = isa;
    const FittedOn on = EfficienciesFor(limits).front().on;
    return std::pair(fmt::format("{} {}", on.core, IsaName(on.isa)), CommonSpread(on, limits));
  };
  const auto expected = [](const char* core, double spread, const char* isa = "AVX512") {
    return std::pair(fmt::format("{} {}", core, isa), spread);
  };
  const char *const zen4 = "AMD family 25 model 17", *const xeon = "Intel family 6 model 207",
                    *const with_amx = "Intel family 6 model 167";
  EXPECT_EQ(fitted(zen4, Isa::kAvx512Bf16), expected(zen4, 0.08));
  EXPECT_EQ(fitted(xeon, Isa::kAvx512), expected(xeon, 0.08));
  EXPECT_EQ(fitted(with_amx, Isa::kAmx), expected(with_amx, 0.08, "AMX"));
  EXPECT_EQ(fitted(xeon, Isa::kAmx), expected(with_amx, 0.15, "AMX"));
  EXPECT_EQ(fitted(with_amx, Isa::kAvx512Bf16), expected(xeon, 0.15));
  EXPECT_EQ(fitted("AMD family 25 model 97", Isa::kAvx512), expected(zen4, 0.15));
  EXPECT_EQ(fitted("Intel family 6 model 143", Isa::kAvx512), expected(xeon, 0.15));
  EXPECT_EQ(fitted("Intelligent family 6 model 207", Isa::kAvx512), expected(zen4, 0.15));
  EXPECT_EQ(fitted("Intel Xeon", Isa::kAvx512), expected(xeon, 0.15)) << "a file without cores";
  EXPECT_EQ(fitted(zen4, Isa::kAvx2), expected(zen4, 0.4));
}

TEST(Cost, EveryFamilyTakesAKernel) {
  std::map<std::string, int> taken;
  const auto take = [&](const std::string& kernel, const char* method, const char* op = "Einsum") {
    Step step;
    step.decision.kernel = kernel;
    ++taken[FamilyOf(step, op, method).name];
  };
  for (const KernelDef* kernel : AllKernels()) {
    for (const char* method : {"", "direct", "winograd 4x4"}) take(kernel->name, method);
  }
  take(kReferenceKernel, "");
  take(kReferenceKernel, "", "Equal");
  take("a kernel of another version", "");
  for (const CostFamily* family : AllCostFamilies())
    EXPECT_GT(taken[family->name], 0) << family->name;
}

}  // namespace
}  // namespace evoq
