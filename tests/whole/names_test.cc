// Names in model files may hold anything: escape sequences, line breaks, bytes that are no UTF-8,
// characters that turn the direction of text. Whatever a verb prints holds none of it, and JSON
// stays JSON.
#include "base/isa.h"
#include "certify/certificate.h"
#include "onnx/onnx.h"
#include "profile/limits_file.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "tests/whole/cli_runner.h"

namespace evoq {
namespace {

// Clears the screen, sets the window's title, forges a line, hides what follows, turns the
// direction, and is no UTF-8. The "\u009b" is C1's escape sequence in one character.
const std::string kEvil =
    "\x1b[2J\x1b]0;title\x07\nFORGED: line\r\x7f\u009b31m\u202e\u200bturned\u2066\xff\xc0\x9b\t";

// What Unicode's table 3-7 calls well-formed, spelled as it is there.
bool IsUtf8(const std::string& s, size_t& bad) {
  const auto in = [&](size_t i, unsigned low, unsigned high) {
    const unsigned byte = i < s.size() ? static_cast<unsigned char>(s[i]) : 256;
    return byte >= low && byte <= high;
  };
  for (size_t i = 0; i < s.size();) {
    size_t bytes = 0;
    if (in(i, 0x00, 0x7f))
      bytes = 1;
    else if (in(i, 0xc2, 0xdf) && in(i + 1, 0x80, 0xbf))
      bytes = 2;
    else if (in(i, 0xe0, 0xe0) && in(i + 1, 0xa0, 0xbf) && in(i + 2, 0x80, 0xbf))
      bytes = 3;
    else if (in(i, 0xe1, 0xec) && in(i + 1, 0x80, 0xbf) && in(i + 2, 0x80, 0xbf))
      bytes = 3;
    else if (in(i, 0xed, 0xed) && in(i + 1, 0x80, 0x9f) && in(i + 2, 0x80, 0xbf))
      bytes = 3;
    else if (in(i, 0xee, 0xef) && in(i + 1, 0x80, 0xbf) && in(i + 2, 0x80, 0xbf))
      bytes = 3;
    else if (in(i, 0xf0, 0xf0) && in(i + 1, 0x90, 0xbf) && in(i + 2, 0x80, 0xbf) &&
             in(i + 3, 0x80, 0xbf))
      bytes = 4;
    else if (in(i, 0xf1, 0xf3) && in(i + 1, 0x80, 0xbf) && in(i + 2, 0x80, 0xbf) &&
             in(i + 3, 0x80, 0xbf))
      bytes = 4;
    else if (in(i, 0xf4, 0xf4) && in(i + 1, 0x80, 0x8f) && in(i + 2, 0x80, 0xbf) &&
             in(i + 3, 0x80, 0xbf))
      bytes = 4;
    if (bytes == 0) {
      bad = i;
      return false;
    }
    i += bytes;
  }
  return true;
}

void ExpectPlain(const std::string& text, const std::string& what) {
  size_t bad = 0;
  EXPECT_TRUE(IsUtf8(text, bad)) << what << ": byte " << bad << " of\n" << text;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    EXPECT_FALSE((c < 0x20 && c != '\n') || c == 0x7f)
        << what << ": control character " << int{c} << " at " << i << " of\n"
        << text;
  }
  for (const char* character : {"\u009b", "\u202e", "\u200b", "\u2066"})
    EXPECT_EQ(text.find(character), std::string::npos) << what << "\n" << text;
  EXPECT_EQ(text.find("\nFORGED"), std::string::npos) << what << ": a name made a line of its own\n"
                                                      << text;
}

class NamesTest : public CliRunner {
 protected:
  void SetUp() override {
    CliRunner::SetUp();
    onnx_ = At("m" + kEvil.substr(0, 4) + ".onnx");
    Graph graph;
    graph.name = "graph" + kEvil;
    graph.metadata["key" + kEvil] = "value" + kEvil;
    const ValueId x = graph.AddInput("in" + kEvil, TensorType(DType::kFloat32, Shape{1, 32}));
    const auto weight = [&](const char* name, int64_t rows, int64_t columns, int step) {
      std::vector<float> values;
      for (int64_t i = 0; i < rows * columns; ++i)
        values.push_back(static_cast<float>(i * step % 17 - 8) / 16);
      return graph.AddConstant(name + kEvil,
                               Tensor::FromValues<float>(Shape{rows, columns}, values));
    };
    const ValueId a = graph.Apply("MatMul", "first" + kEvil, {x, weight("w", 32, 64, 5)});
    EXPECT_TRUE(InferTypes(graph));
    const ValueId b = graph.Apply("Tan", "tan" + kEvil, {a});
    EXPECT_TRUE(InferTypes(graph));
    graph.MarkOutput(graph.Apply("MatMul", "out" + kEvil, {b, weight("v", 64, 10, 7)}));
    EXPECT_TRUE(graph.Sort());
    EXPECT_TRUE(InferTypes(graph));
    const Status written = ExportOnnx(graph, onnx_);
    ASSERT_TRUE(written) << written.error().message();
  }

  // Runs it with and checks all that it says; `code` is what it must exit with.
  Ran Check(const std::vector<std::string>& words, int code = 0) {
    Ran ran = Run(words, code == 0);
    EXPECT_EQ(ran.code, code) << words[0] << ": " << ran.log;
    ExpectPlain(ran.out, words[0] + ", stdout");
    ExpectPlain(ran.log, words[0] + ", stderr");
    if (code == 0) EXPECT_FALSE(ran.json.is_discarded()) << words[0] << ": --json is no JSON";
    said_ += ran.out + ran.log;
    return ran;
  }

  std::string onnx_, said_;
};

TEST_F(NamesTest, NoVerbPrintsThemRaw) {
  const std::string etm = At("q.etm"), qdq = At("q.onnx"), x = At("x.npy"), first = "1",
                    quick = "0.02";
  ASSERT_TRUE(WriteNpy(Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 32})), x));
  const auto inspected = Check({"inspect", onnx_}).json;
  // JSON keeps what is UTF-8; the bytes that are not are replaced.
  std::string shown = "in" + kEvil;
  shown.replace(shown.find("\xff\xc0\x9b"), 3, "\ufffd\ufffd\ufffd");
  EXPECT_EQ(inspected["inputs"][0]["name"], shown);
  Check({"inspect", onnx_, "--dump"});
  Check({"optimize", onnx_, "-o", At("opt.onnx"), "--log-passes"});
  for (const char* scheme : {"int8", "int8-dynamic", "int8-weights", "bf16", "float32"})
    Check({"quantize", onnx_, "--scheme", scheme, "--calib-random", "2", "-o",
           At(std::string("q-") + scheme + ".etm")});
  Check({"quantize", onnx_, "--calib", x, "-o", etm, "--save-ranges", At("ranges.json")});
  Check({"quantize", onnx_, "--ranges", At("ranges.json"), "-o", qdq});
  Check({"inspect", etm});
  Check({"inspect", etm, "--dump"});
  Check({"compile", onnx_, "-o", At("c.etm")});
  Check({"run", onnx_, "--input", x, "--output-dir", At("out"), "--topk", "2"});
  Check({"eval", etm, "--data", x, "--reference", onnx_});
  Check({"bench", etm, "--threads", first, "--duration-s", quick, "--warmup-ms", "1",
         "--dump-profile", "--dump-layer-info"});
  Check({"profile", etm, "--threads", first, "--duration-s", quick, "--warmup-ms", "1"});
  Check({"explain", etm, "--baseline", onnx_, "--threads", first, "--duration-s", quick, "--report",
         At("r.html")});
  Check({"explain", qdq, "--target", "ort-cpu"});
  Check({"explain", qdq, "--target", "tensorrt", "--fix", "--accept-changes", "-o",
         At("fixed.onnx")});
  Check({"compare", onnx_, etm, "--threads", first, "--duration-s", quick, "--rounds", "3",
         "--warmup-ms", "1"});
  MachineLimits limits;
  limits.cpu = "a machine";
  limits.isa = SelectIsa().value();
  limits.int8_gops = 400, limits.bf16_gflops = 200, limits.fp32_gflops = 100;
  limits.dram_read_gbps = 20, limits.l3_read_gbps = 100, limits.l2_read_gbps = 200;
  limits.clock_ghz = 3, limits.fork_ns = 1000, limits.l2_bytes = 1 << 20, limits.l3_bytes = 1 << 25;
  ASSERT_TRUE(WriteFileAtomic(At("limits.json"), ToJson(limits).dump()));
  Check({"predict", onnx_, "--limits", At("limits.json")});
  // They are there, as text.
  for (const char* name : {"in\\u001b[2J",
                           "first\\u001b[2J\\u001b]0;title\\u0007\\nFORGED: "
                           "line\\r\\u007f\\u009b31m\\u202e\\u200bturned\\u2066\\xff\\xc0\\x9b\\t"})
    EXPECT_NE(said_.find(name), std::string::npos) << name;
  // A certificate whose texts come from elsewhere.
  const Ran certified =
      Run({"quantize", onnx_, "--scheme", "float32", "--min-sqnr", "1", "--calib-random", "2",
           "--measure-s", quick, "--threads", first, "-o", At("certified.etm")},
          false);
  ExpectPlain(certified.out + certified.log, "quantize with a promise");
  if (certified.code == 1) return;  // the machine is too busy for a promise
  ASSERT_EQ(certified.code, 0) << certified.log;
  auto model = ReadEtm(At("certified.etm"));
  ASSERT_TRUE(model) << model.error().message();
  auto certificate = nlohmann::json::parse(model->certificate);
  certificate["machine"] = "machine\x1b[2J\nFORGED";
  model->certificate = certificate.dump();
  ASSERT_TRUE(WriteEtm(*model, At("certified.etm")));
  const Ran verified = Run({"verify", At("certified.etm"), "--measure-s", quick}, false);
  ExpectPlain(verified.out + verified.log, "verify");
  EXPECT_GT((verified.out + verified.log).size(), 40);
}

TEST_F(NamesTest, NorDoErrors) {
  const std::string evil = kEvil;
  Check({"evoq" + evil}, 2);
  Check({"inspect", At("missing" + evil)}, 3);
  Check({"inspect", onnx_, "--no" + evil}, 2);
  Check({"bench", onnx_, "--shape", "in" + evil + "=1x" + evil}, 2);
  Check({"run", onnx_, "--input", "in" + evil + "=" + At("no" + evil + ".npy")}, 3);
  Check({"run", onnx_, "--input", "no" + evil + "=x.npy"}, 2);
  Check({"quantize", onnx_, "--scheme", "int" + evil, "-o", At("q.etm")}, 2);
  // Names of the file itself.
  ASSERT_TRUE(
      WriteNpy(Tensor::Allocate(TensorType(DType::kFloat32, Shape{1, 31})), At("short.npy")));
  Check({"run", onnx_, "--input", At("short.npy")}, 3);
  EXPECT_NE(said_.find("in\\u001b[2J"), std::string::npos) << said_;
  std::string bytes = ReadTextFile(onnx_).value();
  for (size_t at; (at = bytes.find("MatMul")) != std::string::npos;)
    bytes.replace(at, 6, "Mat\x1b\nu");
  ASSERT_TRUE(WriteFileAtomic(At("op.onnx"), bytes));
  Check({"inspect", At("op.onnx")}, 3);
  EXPECT_NE(said_.find("Mat\\u001b\\nu"), std::string::npos) << said_;
}

// For callers in this process, Python among them.
TEST_F(NamesTest, TextForCallersIsTheSame) {
  const auto ran = RunVerb("inspect", {onnx_});
  ASSERT_TRUE(ran) << ran.error().message();
  ExpectPlain(ran->out, "RunVerb");
  EXPECT_NE(ran->out.find("in\\u001b[2J"), std::string::npos);
  const auto warned = RunVerb("quantize", {onnx_, "--calib-random", "1", "-o", At("q.etm")});
  ASSERT_TRUE(warned) << warned.error().message();
  ASSERT_GT(warned->log.size(), 0);
  for (const std::string& line : warned->log) {
    ExpectPlain(line, "a warning");
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace evoq
