// How a quantized model is told in one line.
#include <gtest/gtest.h>

#include "workflow/quantize.h"

namespace evoq {
namespace {

TEST(QuantizeTold, EachPrecisionThatThereIs) {
  struct Row {
    int int8, bf16, floats, moves, weights;
    std::string why, text;
  };
  const Row rows[] = {
      {55, 0, 0, 1, 0, "", "55 of 56 steps int8, 0 float"},
      {50, 1, 3, 0, 0, "", "50 of 54 steps int8, 1 bf16, 3 float"},
      {0, 4, 2, 0, 0, "", "4 of 6 steps bf16, 2 float"},
      {0, 0, 7, 0, 5, "",
       "7 of 7 steps float, 5 layers with int8 weights (they compute in float32)"},
      {0, 0, 7, 0, 1, "", "7 of 7 steps float, 1 layer with int8 weights (it computes in float32)"},
      {0, 0, 6, 0, 0, "because", "6 of 6 nodes float"},
      {0, 0, 0, 2, 0, "", "2 steps"}};
  for (const Row& row : rows) {
    Quantized done{.model = "m.onnx", .output = "m.etm"};
    done.steps.Add(Precision::kInt8, row.int8);
    done.steps.Add(Precision::kBf16, row.bf16);
    done.steps.Add(Precision::kFloat32, row.floats);
    done.steps.Add(Precision::kAny, row.moves);
    done.int8_weights = row.weights;
    done.steps_why = row.why;
    const Told told = Tell(done);
    EXPECT_NE(told.text.find("of the float32 weights), " + row.text + ", 0.0 s\n"),
              std::string::npos)
        << told.text;
    EXPECT_EQ(told.json.value("steps_why", ""), row.why);
    EXPECT_EQ(told.json["int8_weights"], row.weights);
    done.int8_weights = 0, done.low_bit_weights = {{"int4", 3}};
    EXPECT_NE(Tell(done).text.find(", 3 layers with int4 weights (they compute in float32), "),
              std::string::npos);
    EXPECT_EQ(Tell(done).json["low_bit_weights"]["int4"], 3);
    done.low_bit_weights.clear();
    done.weight_bits = {{"x", 4}, {"y", 2}, {"z", 4}};
    EXPECT_NE(
        Tell(done).text.find(", 1 layer with weights of 2 bits, 2 layers with weights of 4 bits, "),
        std::string::npos);
    EXPECT_EQ(Tell(done).json["weight_bits"]["y"], 2);
    done.weight_bits.clear();
    done.activation_bits = {{"a", 4}, {"b", 2}, {"c", 4}};
    EXPECT_NE(
        Tell(done).text.find(", 1 value of 2 bits (in bytes), 2 values of 4 bits (in bytes), "),
        std::string::npos);
    EXPECT_EQ(Tell(done).json["activation_bits"]["b"], 2);
  }
}

TEST(QuantizeTold, EntriesOfAFileThatAreUsed) {
  Quantized done{.model = "m.onnx", .output = "m.etm"};
  EXPECT_FALSE(Tell(done).json.contains("encodings"));
  done.encodings.file = "given.json";
  done.encodings.entries = 5;
  done.encodings.not_used = {{"x", "nobody reads it"}, {"y", "nobody reads it"}};
  const Told told = Tell(done);
  EXPECT_NE(told.text.find("\n  given.json: 3 of 5 entries are used\n"), std::string::npos)
      << told.text;
  EXPECT_EQ(told.json["encodings"]["entries"], 5);
  EXPECT_EQ(told.json["encodings"]["used"], 3);
  EXPECT_EQ(told.json["encodings"]["not_used"].size(), 2u);
}

TEST(QuantizeTold, MethodsThatWereTried) {
  Quantized done{.model = "m.onnx", .output = "m.etm"};
  EXPECT_FALSE(Tell(done).json.contains("methods"));
  done.methods =
      MethodSearch{.chosen = {FindMethod("gptq")},
                   .tried = {{.names = "none", .sqnr_db = 20.25, .seconds = 0.5, .taken = true},
                             {.names = "hadamard", .seconds = 0.1, .why_not = "it does not reach"},
                             {.names = "gptq", .sqnr_db = 22, .seconds = 1.5, .taken = true}},
                   .out_of_time = true,
                   .observed = 48,
                   .judged = 16};
  const Told told = Tell(done);
  EXPECT_TRUE(told.text.starts_with(
      "  tried none: 20.25 dB, 0.5 s, taken\n"
      "  tried hadamard: it does not reach, 0.1 s\n"
      "  tried gptq: 22.00 dB, 1.5 s, taken\n"
      "  --method auto takes gptq: observed on 48 samples, judged by 16 others; the time "
      "(--search-s) was too short for all methods\n"))
      << told.text;
  const nlohmann::json& methods = told.json["methods"];
  EXPECT_EQ(methods["chosen"], "gptq");
  EXPECT_EQ(methods["tried"][0]["sqnr_db"], 20.25);
  EXPECT_EQ(methods["tried"][1]["why_not"], "it does not reach");
  EXPECT_FALSE(methods["tried"][1].contains("sqnr_db"));
  EXPECT_EQ(methods["tried"][2]["taken"], true);
  EXPECT_EQ(methods["observed_samples"], 48);
  EXPECT_EQ(methods["out_of_time"], true);
}

TEST(QuantizeTold, WhatTheProcessorMakesOfBf16) {
  struct Row {
    Verdict verdict;
    double speedup, bf16, fp32;
    std::string warning;
  };
  const Row rows[] = {
      {Verdict::kFaster, 1.6, 0, 0, ""},
      {Verdict::kSame, 1, 0, 0, ""},
      {Verdict::kSlower, 0.625, 108, 216,
       "takes 1.60 times as long as float32 here, because this processor multiplies 108 GFLOPS in "
       "bf16 and 216 in float32; `--scheme auto`"},
      {Verdict::kSlower, 0.8, 0, 216,
       "takes 1.25 times as long as float32 here, because this processor multiplies bf16 in "
       "float32; `--scheme auto`"}};
  for (const Row& row : rows) {
    Quantized done{.model = "m.onnx", .output = "m.etm"};
    done.gain = Gain{.scheme = "bf16", .threads = 2};
    done.gain->measured.verdict = row.verdict;
    done.gain->measured.speedup = row.speedup;
    done.gain->measured.a_ms = 8;
    done.gain->measured.b_ms = 8 / row.speedup;
    done.gain->narrow_gflops = row.bf16;
    done.gain->fp32_gflops = row.fp32;
    const Told told = Tell(done);
    EXPECT_NE(told.text.find(" ms beside 8.000 ms of the float32 model: "), std::string::npos)
        << told.text;
    EXPECT_NE(told.text.find("on 2 threads\n"), std::string::npos) << told.text;
    EXPECT_EQ(told.json["gain"]["speedup"], row.speedup);
    EXPECT_EQ(told.json["gain"]["threads"], 2);
    ASSERT_EQ(told.log.empty(), row.warning.empty());
    if (!told.log.empty()) {
      EXPECT_NE(told.log[0].find(row.warning), std::string::npos) << told.log[0];
    }
  }
  EXPECT_FALSE(Tell(Quantized()).json.contains("gain"));
}

}  // namespace
}  // namespace evoq
