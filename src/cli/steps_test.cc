// Runs over steps, texts and options in files: what is written and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/tiny_testing.h"

namespace evoq {
namespace {

class Steps : public TinyModels {};

TEST_F(Steps, AStateIsHandedOn) {
  const std::string model = Model("sum.onnx", kSumModel);
  const std::string x = Values("x.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const std::string s = Values("s.npy", Shape{2}, {10, 20});
  const auto out = Json({"run", model, "--input", "x=" + x, "--input", "s=" + s, "--state", "y=s",
                         "--output-dir", At("out")});
  EXPECT_EQ(out["outputs"][0]["shape"], (std::vector<int64_t>{3, 2}));
  const auto y = ReadNpy(At("out/y.npy"));
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(std::vector<float>(y->data<float>(), y->data<float>() + 6),
            (std::vector<float>{11, 22, 14, 26, 19, 32}));  // sums of the rows so far
}

// One step, and as many of each input that has them: a row of its own counts more than a state.
TEST_F(Steps, InputsWithRowsOfTheirOwn) {
  const std::string model = Model("sum.onnx", kSumModel);
  const auto run = [&](int64_t steps, const std::vector<float>& x, const std::vector<float>& s) {
    Json({"run", model, "--input", "x=" + Values("x.npy", Shape{steps, 2}, x), "--input",
          "s=" + Values("s.npy", Shape{steps, 2}, s), "--state", "y=s", "--output-dir", At("out")});
    const auto y = ReadNpy(At("out/y.npy"));
    EXPECT_EQ(y->sizes(), (std::vector<int64_t>{steps, 2}));
    return std::vector<float>(y->data<float>(), y->data<float>() + y->elements());
  };
  EXPECT_EQ(run(1, {1, 2}, {10, 20}), (std::vector<float>{11, 22}));
  EXPECT_EQ(run(2, {1, 2, 3, 4}, {10, 20, 30, 40}), (std::vector<float>{11, 22, 33, 44}));
}

// A state that is not given begins with zeros, which are the zero point of a quantized one.
TEST_F(Steps, StatesBeginWithZeros) {
  const std::string x = Values("x.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  Json({"run", Model("sum.onnx", kSumModel), "--input", "x=" + x, "--state", "y=s", "--output-dir",
        At("zeros")});
  const auto y = ReadNpy(At("zeros/y.npy"));
  ASSERT_TRUE(y) << y.error().message();
  EXPECT_EQ(y->values<float>()[5], 2 + 4 + 6);
}

TEST_F(Steps, StatesOfIntegers) {
  const char* const quant = "int8[2](scale 0.5, zero -3)";
  const std::string model =
      Model("sum8.onnx", fmt::format("graph g\ninput %x: {0}\ninput %s: {0}\na: %y: {0} = Add(%x, "
                                     "%s)\noutput %y\n",
                                     quant));
  const Tensor steps = Tensor::FromValues<int8_t>(Shape{3, 2}, {-1, -3, 1, -3, 3, -3});
  ASSERT_TRUE(WriteNpy(steps, At("x8.npy")));
  Json({"run", model, "--input", "x=" + At("x8.npy"), "--state", "y=s", "--output-dir", At("o8")});
  const auto y = ReadNpy(At("o8/y.npy"));
  ASSERT_TRUE(y) << y.error().message();
  const std::vector<int8_t> sums(y->data<int8_t>(), y->data<int8_t>() + 6);
  EXPECT_EQ(sums, (std::vector<int8_t>{-1, -3, 3, -3, 9, -3}));  // q - 3: 2, 2 + 4, 2 + 4 + 6
}

TEST_F(Steps, FilesWhosePathsHoldAnEqualsSign) {
  const std::string model =
      Model("abs.onnx",
            "graph g\ninput %\"a=b\": float32[2]\na: %y: float32[2] = Abs(%\"a=b\")\noutput %y\n");
  std::filesystem::create_directories(At("run=3"));
  const std::string file = Values("run=3/x.npy", Shape{2}, {-1, 2});
  for (const std::string& given : {"a=b=" + file, file})
    EXPECT_EQ(Run({"run", model, "--input", given}).code, 0) << given;
}

TEST_F(Steps, StatesWhoseNamesHoldAnEqualsSign) {
  const std::string model = Model("named.onnx",
                                  "graph g\ninput %x: float32[2]\ninput %\"s=t\": float32[2]\n"
                                  "a: %\"y=z\": float32[2] = Add(%x, %\"s=t\")\noutput %\"y=z\"\n");
  const std::string x = Values("x.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const std::string s = Values("s.npy", Shape{2}, {10, 20});
  Json({"run", model, "--input", "x=" + x, "--input", "s=t=" + s, "--state", "y=z=s=t",
        "--output-dir", At("named")});
  const auto sums = ReadNpy(At("named/y_z.npy"));
  ASSERT_TRUE(sums) << sums.error().message();
  EXPECT_EQ(sums->values<float>()[4], 10 + 1 + 3 + 5);
}

TEST_F(Steps, StatesThatAreRefused) {
  const std::string model = Model("sum.onnx", kSumModel);
  const std::string x = Values("x.npy", Shape{3, 2}, {1, 2, 3, 4, 5, 6});
  const std::string s = Values("s.npy", Shape{2}, {0, 0});
  const std::string none = Values("none.npy", Shape{0, 2}, {});
  const std::string two = Values("two.npy", Shape{2, 2}, {0, 0, 0, 0});
  struct Row {
    std::string x, s, state, error;
  };
  const Row rows[] = {
      {x, s, "y", "--state y: expected OUTPUT=INPUT"},
      {x, s, "z=s", "--state z=s: the model has no output of that name"},
      {x, s, "x=s", "--state x=s: the model has no output of that name"},
      {x, s, "y=z", "--state y=z: the model has no input of that name"},
      {x, s, "y=y", "--state y=y: the model has no input of that name"},
      {s, s, "y=s", "--state: expected an input with the steps as an axis in front of the model's"},
      {none, s, "y=s",
       "--state: expected an input with the steps as an axis in front of the model's"},
      {none, two, "y=s", "inputs of 0 and 2 steps"},
      {x, two, "y=s", "inputs of 3 and 2 steps"}};
  for (const Row& row : rows) {
    const std::string log = Refused(
        {"run", model, "--input", "x=" + row.x, "--input", "s=" + row.s, "--state", row.state},
        kUsage);
    EXPECT_NE(log.find(row.error), std::string::npos) << log;
  }
  const std::string image =
      Refused({"run", model, "--input", "x=" + At("x.png"), "--input", "s=" + s}, kUsage);
  EXPECT_NE(image.find("x.png: an image needs --preprocess F.json"), std::string::npos) << image;
}

// The text " ab" is the pieces 3, 4 and 5 after 1, the begin of a text. The model gives the next
// piece 5 / 10 after 1, 15 / 20 after 3, and one of six after 4, where the first of equals is not
// the one that comes: a mean loss of ln(2 * 4/3 * 6) / 3 = ln(16) / 3.
class Language : public Steps {
 protected:
  std::vector<std::string> Words(const std::string& type = "int64", int columns = 6) {
    std::vector<float> table(6 * static_cast<size_t>(columns), 0);
    table[1 * static_cast<size_t>(columns) + 3] = std::log(5.0f);
    table[3 * static_cast<size_t>(columns) + 4] = std::log(15.0f);
    const std::string model =
        Model(type + std::to_string(columns) + ".onnx",
              fmt::format("graph g\ninput %x: {}[1, N]\nconst %t: float32[6, {}] = [{}]\n"
                          "g: %y: float32[1, N, {}] = Gather(%t, %x)\noutput %y\n",
                          type, columns, fmt::join(table, ", "), columns));
    const std::string vocab =
        Text("pieces.vocab", "<unk>\t0\n<s>\t0\n</s>\t0\n\xe2\x96\x81\t-1\na\t-2\nb\t-3\n");
    return {"eval", model, "--text", Text("ab.txt", "ab"), "--tokenizer", vocab};
  }
};

TEST_F(Language, Perplexity) {
  struct Row {
    std::vector<std::string> options;
    int64_t windows, tokens;
    double loss, top1;
  };
  const double a = std::log(2.0), b = std::log(4.0 / 3), c = std::log(6.0);
  const Row rows[] = {{{}, 1, 3, (a + b + c) / 3, 2.0 / 3},
                      {{"--window", "2"}, 1, 2, (a + b) / 2, 1},
                      {{"--window", "1"}, 3, 3, (a + b + c) / 3, 2.0 / 3},
                      {{"--window", "1", "--limit", "1"}, 1, 1, a, 1},
                      {{"--window", "1", "--limit", "9"}, 3, 3, (a + b + c) / 3, 2.0 / 3}};
  for (const char* type : {"int64", "int32"}) {
    for (const Row& row : rows) {
      std::vector<std::string> words = Words(type);
      words.insert(words.end(), row.options.begin(), row.options.end());
      const auto out = Json(words);
      SCOPED_TRACE(out.dump());
      EXPECT_EQ(out["samples"], row.windows);
      EXPECT_EQ(out["tokens"], row.tokens);
      EXPECT_NEAR(out["nll"].get<double>(), row.loss, 1e-5);
      EXPECT_NEAR(out["perplexity"].get<double>(), std::exp(row.loss), 1e-4);
      EXPECT_NEAR(out["top1"].get<double>(), row.top1, 1e-9);
      EXPECT_TRUE(out["top5"].is_null());
      EXPECT_GT(out["ms_per_sample"].get<double>(), 0);
    }
  }
  std::vector<std::string> words = Words();
  words.insert(words.end(), {"--tokens", At("tokens.npy")});
  const Ran ran = Run(words);
  EXPECT_NE(ran.out.find("perplexity 2.5198 (negative log-likelihood 0.92420) on 3 tokens in 1 "
                         "windows of 3; 0.6667 of them the first choice"),
            std::string::npos)
      << ran.out;
  const auto tokens = ReadNpy(At("tokens.npy"));
  ASSERT_TRUE(tokens) << tokens.error().message();
  EXPECT_EQ(std::vector<int64_t>(tokens->data<int64_t>(), tokens->data<int64_t>() + 4),
            (std::vector<int64_t>{1, 3, 4, 5}));
}

TEST_F(Language, ModelsOfAnotherForm) {
  std::string log = Refused(Words("int64", 5), kBadInput);
  EXPECT_NE(log.find("output 0 is float32[1, 3, 5], expected [1, 3, 6]"), std::string::npos) << log;
  std::vector<std::string> words = Words();
  const std::string tokens = "graph g\ninput %x: int64[1, N]\n";
  const std::pair<std::string, std::string> rows[] = {
      {kSumModel, "expected a model of one input, token numbers [batch, length]"},
      {"graph g\ninput %x: int64[1, N]\ninput %s: int64[1, N]\na: %y: int64[1, N] = Add(%x, %s)\n"
       "output %y\n",
       "expected a model of one input, token numbers [batch, length]"},
      {tokens + ""
                "c: %c: float32[1, N] = Cast{to=1}(%x)\noutput %c\n",
       "output 0 is float32[1, 3], expected [1, 3, 6]"},
      {tokens + "c: %c: float32[1, N] = Cast{to=1}(%x)\n"
                "const %a: int64[2] = [0, 2]\nu: %u: float32[1, 1, N, 1] = Unsqueeze(%c, %a)\n"
                "output %u\n",
       "expected [1, 3, 6]"},
      {tokens +
           "c: %c: float32[1, N] = Cast{to=1}(%x)\n"
           "const %a: int64[1] = [2]\nu: %u: float32[1, N, 1] = Unsqueeze(%c, %a)\n"
           "const %m: int64[3] = [1, 2, 6]\ne: %e: float32[1, ?, 6] = Tile(%u, %m)\noutput %e\n",
       "output 0 is float32[1, 6, 6], expected [1, 3, 6]"},
      {tokens +
           "c: %c: float32[1, N] = Cast{to=1}(%x)\n"
           "const %a: int64[1] = [2]\nu: %u: float32[1, N, 1] = Unsqueeze(%c, %a)\n"
           "const %m: int64[3] = [2, 1, 6]\ne: %e: float32[2, N, 6] = Tile(%u, %m)\noutput %e\n",
       "output 0 is float32[2, 3, 6], expected [1, 3, 6]"}};
  for (const auto& [text, error] : rows) {
    words[1] = Model("other.onnx", text);
    log = Refused(words, kBadInput);
    EXPECT_NE(log.find(error), std::string::npos) << log;
  }
}

// ---- options in a file

TEST_F(Steps, PassesByAFile) {
  const std::string model =
      Model("twice.onnx",
            "graph g\ninput %x: float32[2]\na: %a: float32[2] = Identity(%x)\n"
            "b: %b: float32[2] = Relu(%a)\nc: %y: float32[2] = Relu(%b)\n"
            "output %y\n");
  const auto after = [&](const std::string& config) {
    const auto out =
        Json({"optimize", model, "-o", At("out.onnx"), "--config", Text("o.json", config)});
    EXPECT_EQ(out["nodes_before"], 3);
    return out["nodes_after"].get<int>();
  };
  const int all = after("{}");
  EXPECT_LT(all, 3);
  EXPECT_EQ(after(R"({"disable": ["*"]})"), 3);
  EXPECT_EQ(after(R"({"opt_level": 0})"), 3);
  EXPECT_EQ(after(R"({"opt_level": 3})"), all);
  EXPECT_EQ(after(R"({"stop_after": 0})"), 3);
  EXPECT_EQ(after(R"({"stop_after": 1000000})"), all);
  const std::pair<std::string, std::string> wrong[] = {
      {"[]", "expected a JSON object"},
      {R"({"disable": [1]})", "disable: expected names of passes"},
      {R"({"disable": "a"})", "field 'disable', expected disable (a list of names)"},
      {R"({"opt_level": 4})", "field 'opt_level', expected"},
      {R"({"stop_after": -1})", "field 'stop_after', expected"},
      {R"({"stop_after": 1000001})", "field 'stop_after', expected"},
      {R"({"stop_after": "1"})", "field 'stop_after', expected"},
      {R"({"stop_after": 1.5})", "field 'stop_after', expected"},
      {R"({"other": ["relu"]})", "field 'other', expected"},
      {R"({"other": 1})", "field 'other', expected"}};
  for (const auto& [config, error] : wrong) {
    const std::string file = Text("o.json", config);
    const std::string log =
        Refused({"optimize", model, "-o", At("out.onnx"), "--config", file}, kBadInput);
    EXPECT_NE(log.find(file + ": " + error), std::string::npos) << log;
  }
}

TEST_F(Steps, QuantizingByAFileOfTheWrongForm) {
  const std::string model = Model("sum.onnx", kSumModel);
  const std::pair<std::string, std::string> wrong[] = {
      {"[]", "expected a JSON object"},
      {R"({"exclude": [1]})", "exclude: expected a list of texts, found [1]"},
      {R"({"exclude": "a"})", "exclude: expected a list of texts, found \"a\""},
      {R"({"percentile": "a"})", "percentile: expected a number, found \"a\""},
      {R"({"max_drop": true})", "max_drop: expected a number, found true"},
      {R"({"calib": [1]})", "calib: expected a list of texts, found [1]"},
      {R"({"calib": 1})", "calib: expected a list of texts, found 1"},
      {R"({"calib_limit": -1})",
       "calib_limit: expected a whole number from 0 to 1000000000, found -1"},
      {R"({"calib_limit": 1000000001})", "calib_limit: expected a whole number"},
      {R"({"calib_limit": 1.5})", "calib_limit: expected a whole number"},
      {R"({"scheme": 1})", "scheme: expected a text, found 1"},
      {R"({"signed": 1})", "signed: expected true or false, found 1"},
      {R"({"calib_limits": 1})", "there is no field 'calib_limits'; the nearest is calib_limit"},
      {R"({"entirely_other": true})", "there is no field 'entirely_other'\n"}};
  for (const auto& [config, error] : wrong) {
    const std::string file = Text("q.json", config);
    const std::string log =
        Refused({"quantize", model, "-o", At("out.onnx"), "--config", file}, kBadInput);
    const std::string wanted = file + ": " + error;
    EXPECT_NE(log.find(wanted), std::string::npos) << log << wanted;
  }
}

// ---- the command line itself

TEST_F(Steps, HelpIsNoError) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--help"}, {"run", "--help"}}) {
    const Ran ran = Run(words, false);
    EXPECT_EQ(ran.code, 0) << ran.log;
    EXPECT_NE(ran.out.find("--help"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.log, "");
  }
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"run", "--unknown"}, {"run"}, {"eval", "m.onnx", "--tokenizer", "t"}}) {
    const Ran ran = Run(words, false);
    EXPECT_EQ(ran.code, kUsage);
    EXPECT_NE(ran.log.find("Run with --help for more information."), std::string::npos) << ran.log;
    EXPECT_EQ(ran.out, "");
  }
}

}  // namespace
}  // namespace evoq
