// Bad input through the command line: exit code 2 or 3, one sentence that names file, place and
// what was expected, no crash, no memory beyond a limit, nothing left behind. ONNX files are
// src/onnx/must_fail_test.cc's. Every case runs in a child process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "base/file.h"
#include "base/memory.h"
#include "cli/verb.h"
#include "compile/compile.h"
#include "data/dataset.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "program/container.h"
#include "program/etm.h"
#include "reference/reference.h"
#include "tests/sanitized.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMemoryLimit = int64_t{2} << 30, kPeakKilobytes = 600 << 10;
constexpr unsigned kSeconds = 60;

// ---- one run of the command line in a child

struct Outcome {
  int code = -1;  // 128 + the signal where it crashed
  std::string errors;
  int64_t peak_kilobytes = 0;
};

[[noreturn]] void Child(const std::vector<std::string>& args, int errors, int64_t file_limit) {
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  alarm(kSeconds);
#ifndef EVOQ_SANITIZED
  const rlimit memory{kMemoryLimit, kMemoryLimit};
  setrlimit(RLIMIT_AS, &memory);
#endif
  if (file_limit > 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit file{static_cast<rlim_t>(file_limit), static_cast<rlim_t>(file_limit)};
    setrlimit(RLIMIT_FSIZE, &file);
  }
  std::vector<const char*> argv = {"evoq"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  const int code = RunCommandLine(static_cast<int>(argv.size()), argv.data());
  std::fflush(stderr);
  _exit(code);
}

Outcome RunEvoq(const std::vector<std::string>& args, int64_t file_limit = 0) {
  int ends[2];
  EVOQ_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) Child(args, ends[1], file_limit);
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
    outcome.errors.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.peak_kilobytes = usage.ru_maxrss;
  return outcome;
}

// ---- good files, made once, and what is made bad from them

constexpr char kNet[] = R"(input %x: float32[N, 3, 8, 8]
const %w: float32[4, 3, 3, 3]
c: %y = Conv(%x, %w)
r: %r = Relu(%y)
f: %f = Flatten(%r)
const %m: float32[144, 5]
l: %o = MatMul(%f, %m)
output %o)";

class BadFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = (fs::temp_directory_path() / fmt::format("evoq_bad_{}", getpid())).string();
    for (const char* name : {"", "/out", "/empty", "/images", "/truncated", "/unreadable"})
      fs::create_directories(folder_ + name);
    Graph graph = Must(ParseGraph(kNet), "net");
    Must(InferTypes(graph).map([] { return true; }), "net");
    Must(ExportOnnx(graph, At("net.onnx")).map([] { return true; }), "net");
    Must(WriteEtm(Must(LowerAndPack(Must(LoadOptimizedGraph(At("net.onnx")), "net")), "net"),
                  At("net.etm"))
             .map([] { return true; }),
         "net");
    SaveArray("x.npy", Shape{1, 3, 8, 8}, 0.5f);
    SaveText("p.json", R"({"resize": [8, 8], "mean": [0.5], "std": [0.25], "scale": 0.00392})");
    const std::string golden = std::string(EVOQ_SOURCE_DIR) + "/tests/golden/images/";
    fs::copy_file(golden + "rgb.jpg", At("images/a.jpg"));
    fs::copy_file(golden + "rgb.jpg", At("truncated/a.jpg"));
    fs::resize_file(At("truncated/a.jpg"), fs::file_size(At("truncated/a.jpg")) / 2);
    fs::copy_file(golden + "rgb.jpg", At("unreadable/a.jpg"));
    SaveText("unreadable/b.png", "these are no pixels");
    fs::copy_file(golden + "rgb.png", At("png.etm"));
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static std::string At(const std::string& name) { return folder_ + "/" + name; }
  static void SaveText(const std::string& name, const std::string& text) {
    std::ofstream(At(name), std::ios::binary) << text;
  }
  static void SaveArray(const std::string& name, Shape shape, float value) {
    Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, std::move(shape)));
    for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = i == 7 ? value : 0.25f;
    Must(WriteNpy(t, At(name)).map([] { return true; }), name);
  }

  // Runs the words of `command`, "@name" standing for a file of the folder, and expects the code
  // and a part of the message.
  static void Expect(const std::string& command, int code, const std::string& message,
                     int64_t file_limit = 0) {
    SCOPED_TRACE(command);
    std::vector<std::string> args;
    std::istringstream words(command);
    for (std::string word; words >> word;) {
      if (const size_t at = word.find('@'); at != std::string::npos)
        word.replace(at, 1, folder_ + "/");
      args.push_back(word);
    }
    const Outcome outcome = RunEvoq(args, file_limit);
    EXPECT_EQ(outcome.code, code) << outcome.errors;
    EXPECT_NE(outcome.errors.find(message), std::string::npos)
        << outcome.errors << "expected: " << message;
#ifndef EVOQ_SANITIZED
    EXPECT_LT(outcome.peak_kilobytes, kPeakKilobytes);
#endif
    if (code != 0) EXPECT_TRUE(fs::is_empty(At("out"))) << "a file is left behind";
    fs::remove_all(At("out"));
    fs::create_directories(At("out"));
  }

  static std::string folder_;
};
std::string BadFiles::folder_;

constexpr char kBench[] = " --threads 1 --warmup-ms 0 --duration-s 0 --iterations 1";

TEST_F(BadFiles, TheGoodFilesWork) {
  Expect("run @net.etm --input @x.npy --output-dir @out", 0, "");
  Expect(std::string("bench @net.etm") + kBench, 0, "");
  Expect("quantize @net.onnx --calib @images --preprocess @p.json -o @out/net.etm", 0, "");
}

TEST_F(BadFiles, DamagedContainers) {
  const std::string good = ReadTextFile(At("net.etm")).value();
  SaveText("half.etm", good.substr(0, good.size() / 2));
  SaveText("empty.etm", "");
  SaveText("tail.etm", good + "x");
  SaveText("magic.etm", good.substr(0, 8));
  Expect("run @half.etm --input @x.npy", 3, "half.etm: ");
  Expect("run @half.etm --input @x.npy", 3, "the file is truncated or has a tail");
  Expect("run @tail.etm --input @x.npy", 3, "the file is truncated or has a tail");
  Expect("run @magic.etm --input @x.npy", 3,
         "magic.etm: 8 bytes, expected at least the 32 of an .etm header");
  Expect("run @empty.etm --input @x.npy", 3, "empty.etm: the file is empty");
  Expect("run @png.etm --input @x.npy", 3, "png.etm: not an ONNX file");
  Expect("run @none.etm --input @x.npy", 3, "none.etm: cannot open: No such file or directory");
  Expect("run @out --input @x.npy", 3, "out: not a regular file");
  // Every byte matters but for the alignment between blobs; the first ones are header, directory
  // and graph.
  for (size_t at : {size_t{9}, size_t{20}, size_t{26}, size_t{40}, size_t{70}, size_t{150},
                    size_t{200}, good.size() - 3}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    SaveText("flipped.etm", bad);
    Expect("run @flipped.etm --input @x.npy", 3, "checksum does not match: the file is damaged");
    Expect("inspect @flipped.etm", 3, "flipped.etm: ");
  }
}

// ---- files whose checksums hold

struct Hostile {
  const char* graph;
  const char* message;
};

// Each is an .etm whose graph no passes and no importer have seen.
constexpr Hostile kHostile[] = {
    {"input %x: float32[1, 4]\nn: %y = Frobnicate(%x)\noutput %y",
     "node n (Frobnicate): evoq has no operator of this name"},
    {"input %x: float32[1, 4]\nn: %y = Relu(%x, %x)\noutput %y",
     "node n (Relu): 2 inputs, expected at most 1"},
    {"input %x: float32[1, 4]\nn: %y = Add(%x)\noutput %y",
     "node n (Add): input 1 is missing, expected at least 2"},
    {"input %x: float32[1, 4]\nn: %y = Add(_, %x)\noutput %y", "node n (Add): input 0 is missing"},
    {"input %x: float32[1, 4]\nn: %y, %z = Relu(%x)\noutput %y",
     "node n (Relu): 2 outputs, expected at most 1"},
    {"input %x: float32[16777216, 16777216]\nn: %y = Relu(%x)\noutput %y",
     "input x would be float32[16777216, 16777216], more than 274877906944 bytes"},
    {"input %x: float32[65536, 65536]\nn: %y = Relu(%x)\noutput %y",
     "a run needs 34359738368 bytes of memory, expected at most"},
    {"input %x: float32[1, 1073741824, 0]\nn: %y = Relu(%x)\noutput %y",
     "no element, but sizes beyond 67108864"},
    {"input %x: float32[4611686018427387904, 4]\nn: %y = Relu(%x)\noutput %y",
     "more than 274877906944 bytes"},
    {"input %x: float32[1, 4]\nconst %s: int64[2] = [3, 5]\nn: %y = Reshape(%x, %s)\noutput %y",
     "node n (Reshape): cannot reshape [1, 4] to [3, 5]"},
    {"input %x: float32[1, 4]\nconst %s: int64[2] = [1, 1099511627776]\nn: %y = Expand(%x, "
     "%s)\noutput %y",
     "node n (Expand): "},
    {"input %x: float32[1, 4]\nconst %i: int64[1] = [99]\nn: %y = Gather{axis=1}(%x, %i)\noutput "
     "%y",
     "node n (Gather): input 1 (indices): index 99 is outside [-4, 4)"},
    {"input %x: float32[1, 4]\nconst %i: int64[1] = [1]\nn: %y = Gather{axis=7}(%x, %i)\noutput %y",
     "node n (Gather): axis 7 is outside [-2, 2)"},
    {"input %x: float32[1, 4]\nconst %s: int64[1] = [0]\nconst %e: int64[2] = [1, 2]\nn: %y = "
     "Slice(%x, %s, %e)\noutput %y",
     "node n (Slice): "},
    {"input %x: float32[1, 4]\nconst %s: int64[1] = [0]\nconst %a: int64[1] = [9]\nn: %y = "
     "Slice(%x, %s, %s, %a)\noutput %y",
     "node n (Slice): axis 9 is outside"},
    {"input %x: float32[1, 4]\nconst %p: int64[4] = [0, -9, 0, 0]\nn: %y = Pad(%x, %p)\noutput %y",
     "node n (Pad): pads -9 and 0 on axis 1 of [1, 4]"},
    {"input %x: float32[1, 4]\nn: %y = Transpose{perm=[0, 0]}(%x)\noutput %y",
     "node n (Transpose): perm [0, 0] is not a permutation"},
    {"input %x: float32[1, 4]\nn: %y = Concat{axis=-9}(%x, %x)\noutput %y",
     "node n (Concat): axis -9 is outside [-2, 2)"},
    {"input %x: float32[1, 4]\nn: %y = Softmax{axis=4}(%x)\noutput %y",
     "node n (Softmax): axis 4 is outside [-2, 2)"},
    {"input %x: float32[1, 4]\nn: %y = Cast{to=77}(%x)\noutput %y", "node n (Cast): "},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = Conv{group=0}(%x, "
     "%w)\noutput %y",
     "node n (Conv): attribute group is 0, expected at least 1"},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = Conv{group=3}(%x, "
     "%w)\noutput %y",
     "node n (Conv): "},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = Conv{strides=[0, "
     "1]}(%x, %w)\noutput %y",
     "node n (Conv): attribute strides has the value 0"},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = "
     "Conv{pads=[1099511627776, 0, 0, 0]}(%x, %w)\noutput %y",
     "node n (Conv): attribute pads has the value 1099511627776"},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = Conv{dilations=[-1, "
     "1]}(%x, %w)\noutput %y",
     "node n (Conv): attribute dilations has the value -1"},
    {"input %x: float32[1, 4, 6, 6]\nconst %w: float32[2, 4, 3, 3]\nn: %y = "
     "Conv{activation=\"Frob\"}(%x, %w)\noutput %y",
     "node n (Conv): "},
    {"input %x: float32[1, 4, 6, 6]\nn: %y = MaxPool{kernel_shape=[0, 2]}(%x)\noutput %y",
     "node n (MaxPool): kernel size 0 on spatial axis 0, expected 1 to"},
    {"input %x: uint8[1, 4](scale 0.5, zero 300)\nn: %y: uint8[1, 4](scale 0.5, zero 3) = "
     "Relu(%x)\noutput %y",
     "value x: zero point 300 outside uint8's range"},
    {"input %x: uint8[1, 4](scale 0.0, zero 0)\nn: %y: uint8[1, 4](scale 0.5, zero 3) = "
     "Relu(%x)\noutput %y",
     "value x: scale 0, expected a finite number > 0"},
    {"input %x: float32[1, 4](scale 0.5, zero 0)\nn: %y = Relu(%x)\noutput %y",
     "value x: a quantized type of float32, expected an integer type, a float of 4 bits, "
     "float8e4m3fn or float8e5m2"},
    {"input %x: float32[1, 4]\nn: %y: uint8[1, 4](scale nan, zero 0) = Relu(%x)\noutput %y",
     "value y: scale nan, expected a finite number > 0"},
    {"input %x: float32[1, 4]\nconst %w: int8[4, 3](3 scales on axis 7)\nn: %y = MatMul(%x, "
     "%w)\noutput %y",
     "value w: quantization axis 7 of a tensor of rank 2"},
    {"input %x: float32[1, 4]\nconst %w: int8[4, 3](5 scales on axis 1)\nn: %y = MatMul(%x, "
     "%w)\noutput %y",
     "value w: 5 scales on axis 1 of size 3"},
    {"input %x: float32[1, 5]\nconst %w: float32[4, 3]\nn: %y = MatMul(%x, %w)\noutput %y",
     "node n (MatMul): "},
};

TEST_F(BadFiles, HostileGraphs) {
  for (const Hostile& row : kHostile) {
    Model model;
    model.graph = Must(ParseGraph(row.graph), row.graph);
    Must(WriteEtm(model, At("hostile.etm")).map([] { return true; }), row.graph);
    SCOPED_TRACE(row.graph);
    Expect(std::string("bench @hostile.etm") + kBench, 3, row.message);
    Expect(std::string("bench @hostile.etm") + kBench, 3, "hostile.etm: ");
  }
}

// What text cannot say: links, layouts, sizes and plans.
TEST_F(BadFiles, HostileTables) {
  const auto write = [](Model model) {
    Must(WriteEtm(model, At("hostile.etm")).map([] { return true; }), "hostile");
  };
  const auto expect = [](const std::string& message) {
    Expect(std::string("bench @hostile.etm") + kBench, 3, "hostile.etm: " + message);
  };
  const auto graph = [](const char* text) {
    Model model;
    model.graph = Must(ParseGraph(text), text);
    return model;
  };
  constexpr char kTwo[] =
      "input %x: float32[1, 4]\na: %y = Add(%x, %x)\nb: %z = Relu(%y)\noutput %z";

  Model cycle = graph(kTwo);
  cycle.graph.SetInput(cycle.graph.FindNode("a"), 1, cycle.graph.FindValue("z"));
  write(cycle);
  expect("node a (Add) is part of a cycle, expected an acyclic graph");

  Model loose = graph(kTwo);
  loose.graph.SetInput(loose.graph.FindNode("b"), 0, loose.graph.AddValue("nowhere"));
  write(loose);
  expect("node b: input nowhere is not computed");

  Model negative = graph(kTwo);
  negative.graph.SetType(negative.graph.FindValue("x"), TensorType(DType::kFloat32, Shape{-5, 4}));
  write(negative);
  expect("value x: a dimension of -5");

  const auto packed = [&](const char* layout, size_t bytes) {
    Model model = graph(
        "input %x: float32[1, 4]\nconst %w: float32[4, 3]\nn: %y = MatMul(%x, %w)\noutput %y");
    model.graph.SetConstant(model.graph.FindValue("w"),
                            Tensor::Packed(TensorType(DType::kFloat32, Shape{4, 3}), layout,
                                           std::vector<std::byte>(bytes)));
    return model;
  };
  write(packed("zigzag", 48));
  expect("value w: unknown tensor layout 'zigzag'");
  write(packed("k4n16-matmul", 48));
  expect("value w: layout k4n16 holds int8 or uint8, got float32[4, 3]");
  // A layout that the plan's kernel does not read.
  Model swapped = graph(
      "input %x: float32[1, 6, 6, 20]\nconst %w: float32[20, 1, 3, 3]\nn: %y = Conv{group=20, "
      "channels_last=1}(%x, %w)\noutput %y");
  const TensorType taps = swapped.graph.value(swapped.graph.FindValue("w")).type;
  swapped.graph.SetConstant(
      swapped.graph.FindValue("w"),
      Tensor::Packed(taps, "k1n16-conv-f32", std::vector<std::byte>(2 * 16 * 9 * 4)));
  swapped.plans.push_back(
      {.shapes = {{"x", {1, 6, 6, 20}}},
       .decisions = {{"n", {.kernel = "dwconv_f32", .precision = Precision::kFloat32}}}});
  write(swapped);
  expect("node n (Conv): weights have layout 'k1n16-conv-f32', expected taps-c");
  write(packed("", 44));
  expect("value w: 44 bytes for float32[4, 3], expected 48");
}

TEST_F(BadFiles, PlansAreAdvice) {
  Model model = Must(ReadEtm(At("net.etm")), "net");
  for (auto& [node, decision] : model.plans[0].decisions) decision.kernel = "warp-drive";
  Must(WriteEtm(model, At("plan.etm")).map([] { return true; }), "plan");
  Expect(std::string("bench @plan.etm") + kBench, 0, "");
  model.plans[0].shapes["x"] = {1, 3, 8};
  Must(WriteEtm(model, At("plan.etm")).map([] { return true; }), "plan");
  Expect(std::string("bench @plan.etm") + kBench, 3,
         "plan.etm: plan 0: input x: shape [1, 3, 8] has rank 3, the model's is [N, 3, 8, 8]");
  model.plans[0].shapes = {{"x", {int64_t{1} << 40, 3, 8, 8}}};
  Must(WriteEtm(model, At("plan.etm")).map([] { return true; }), "plan");
  Expect(std::string("bench @plan.etm") + kBench, 3,
         "plan.etm: input x would be float32[1099511627776, 3, 8, 8], more than");
}

// The compiler's own note on a node, in a file that it did not write: computed as any other node.
TEST_F(BadFiles, NotesOfTheCompiler) {
  for (const char* text :
       {"input %x: float32[1, 4]\nn: %y = ReduceSum{keepdims=0, evoq.copy=1}(%x)\noutput %y",
        "input %x: float32[1, 4]\nn: %y: uint8[1, 4](scale 0.1, zero 0) = "
        "Identity{evoq.copy=1}(%x)\noutput %y"}) {
    Model model;
    model.graph = Must(ParseGraph(text), text);
    const Program program = Must(Compile(model, kReference), text);
    EXPECT_NE(program.steps[0].decision.kernel, kCopyKernel);
  }
}

// ---- data

TEST_F(BadFiles, Calibration) {
  const std::string quantize = "quantize @net.onnx -o @out/q.etm --preprocess @p.json --calib ";
  Expect(quantize + "@empty", 3,
         "empty: no sample found, looked for *.jpg, *.jpeg, *.png, *.bmp, *.pgm, *.ppm, *.pnm, "
         "*.tif, *.tiff and *.npy");
  Expect(quantize + "@unreadable", 3, "unreadable/b.png: neither JPEG nor PNG");
  Expect(quantize + "@truncated", 3, "truncated/a.jpg: ");
  Expect(quantize + "@none", 3, "none: no such file or folder");
  Expect(quantize + "@p.json", 3, "p.json: unknown kind of data, expected");
  Expect("quantize @net.onnx -o @out/q.etm", 2,
         "--scheme int8 needs data: --calib DIR, --calib-random N or --ranges F");
  Expect("quantize @net.onnx -o @out/q.etm --calib @images", 2, "images need a preprocess file");
  for (const auto& [name, value] :
       {std::pair("nan.npy", NAN), std::pair("infinity.npy", INFINITY)}) {
    SaveArray(name, Shape{1, 3, 8, 8}, value);
    Expect(quantize + "@" + name, 3,
           std::string(name) + ": calibration: value x holds a NaN or an infinity in sample 0");
  }
  SaveArray("rank.npy", Shape{8, 8}, 0);
  Expect(quantize + "@rank.npy", 3,
         "rank.npy: float32[8, 8], expected rank 4 (3 for one sample, 5 for whole inputs)");
  SaveArray("channels.npy", Shape{1, 4, 8, 8}, 0);
  Expect(
      quantize + "@channels.npy", 3,
      "channels.npy: a sample of float32[1, 4, 8, 8], expected [?, 3, 8, 8] for the model's input");
}

TEST_F(BadFiles, Npy) {
  const auto npy = [](const std::string& shape, size_t bytes) {
    const std::string header =
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n";
    std::string text = "\x93NUMPY\x01";
    text += {'\0', static_cast<char>(header.size()), '\0'};
    SaveText("bad.npy", text + header + std::string(bytes, '\0'));
  };
  const std::string run = "run @net.etm --input @bad.npy";
  npy("(1, 3, 8, 8)", 700);
  Expect(run, 3, "bad.npy: npy: 700 bytes of data at byte");
  npy("(4294967296, 4294967296)", 64);
  Expect(run, 3, "expected more than fit 64 bits for float32[4294967296, 4294967296]");
  npy("(1099511627776,)", 64);
  Expect(run, 3, "expected 4398046511104 for float32[1099511627776]");
  npy("(1099511627776, 0)", 0);
  Expect(run, 3, "bad.npy: npy: [1099511627776, 0] has no element, but sizes beyond 67108864");
  Expect("eval @net.etm --data @bad.npy", 3,
         "bad.npy: npy: [1099511627776, 0] has no element, but sizes beyond 67108864");
  npy("(1000000, 3, 8, 0)", 0);
  Expect("eval @net.etm --data @bad.npy", 3,
         "bad.npy: float32[1000000, 3, 8, 0], samples of no elements");
  npy("(-1, 4)", 64);
  Expect(run, 3, "bad.npy: npy: header is not {'descr'");
  npy("(1, 3, 8, 8", 768);
  Expect(run, 3, "bad.npy: npy: header is not {'descr'");
  SaveText("bad.npy", "PK\3\4 this is a zip");
  Expect(run, 3, "bad.npy: npy: byte 0: no NPY magic");
  SaveText("bad.npy", std::string("\x93NUMPY\x01\0\xff\xff", 10));
  Expect(run, 3, "bad.npy: npy: header of 65535 bytes in a file of 10");
  npy("(1, 3, 8, 9)", 864);
  Expect(run, 3, "bad.npy: float32[1, 3, 8, 9], expected [N, 3, 8, 8] for input x");
  Must(WriteNpy(Tensor::FromValues<int32_t>(Shape{2}, {1, 2}), At("bad.npy")).map([] {
    return true;
  }),
       "npy");
  Expect(run, 3, "bad.npy: elements are int32, expected float32 for input ");
}

TEST_F(BadFiles, Preprocess) {
  const std::string quantize =
      "quantize @net.onnx -o @out/q.etm --calib @images --preprocess @bad.json";
  const std::pair<const char*, const char*> rows[] = {
      {"{\"resize\": [8, 8", "bad.json: not JSON (16 bytes)"},
      {"[1, 2]", "bad.json: expected a JSON object of preprocessing fields"},
      {R"({"rezise": [8, 8]})", "bad.json: unknown field \"rezise\", expected resize_short"},
      {R"({"std": [0]})", "bad.json: field \"std\" is [0], expected numbers other than 0"},
      {R"({"resize": [-8, 8]})", "bad.json: field \"resize\" is [-8,8], expected [height, width]"},
      {R"({"resize_short": 1e9})",
       "bad.json: field \"resize_short\" is 1000000000.0, expected a whole number from 1 to 65536"},
      {R"({"mean": [1e400]})", "bad.json: "},
      {R"({"color": "CMYK"})",
       "bad.json: field \"color\" is \"CMYK\", expected one of RGB, BGR, GRAY"},
      {R"({"resize": [9, 9]})",
       "a.jpg: a sample of float32[1, 3, 9, 9], expected [?, 3, 8, 8] for the model's input"},
      {R"({"resize": [65536, 65536]})", "a.jpg: "},
  };
  for (const auto& [text, message] : rows) {
    SaveText("bad.json", text);
    Expect(quantize, 3, message);
  }
  fs::remove(At("bad.json"));
  Expect(quantize, 3, "bad.json: cannot open: No such file or directory");
}

TEST_F(BadFiles, Ranges) {
  const std::string quantize = "quantize @net.onnx -o @out/q.etm --ranges @bad.json";
  const std::string head = R"({"format": "evoq-ranges", "version": 1, "ranges": )";
  const std::pair<std::string, const char*> rows[] = {
      {"{", "bad.json: not JSON (1 bytes)"},
      {"[]", "bad.json: no ranges file: expected a JSON object with \"format\": \"evoq-ranges\""},
      {R"({"format": "evoq-ranges", "version": 9})", "bad.json: ranges of version 9, expected 1"},
      {R"({"format": "evoq-ranges", "version": 1})",
       "bad.json: \"ranges\" is missing, expected an object of value: [min, max]"},
      {head + R"({"x": [1]}})", "bad.json: range of x is [1], expected [min, max]"},
      {head + R"({"x": [2, 1]}})", "bad.json: range of x is [2,1], expected [min, max]"},
      {head + R"({"x": [0, 1e300]}})", "bad.json: range of x is"},
  };
  for (const auto& [text, message] : rows) {
    SaveText("bad.json", text);
    Expect(quantize, 3, message);
  }
}

TEST_F(BadFiles, Labels) {
  const std::string eval = "eval @net.etm --data @images --preprocess @p.json --labels @bad.tsv";
  const std::pair<const char*, const char*> rows[] = {
      {"", "bad.tsv: line 1: columns are \"\", expected file and class_index"},
      {"file\tname\na.jpg\t1\n",
       "bad.tsv: line 1: columns are \"file, name\", expected file and class_index (or label)"},
      {"file\tclass_index\na.jpg\tcat\n", "bad.tsv: line 2: label \"cat\" is not a whole number"},
      {"file\tclass_index\na.jpg\n", "bad.tsv: line 2: 1 columns, expected 2"},
      {"file\tclass_index\n", "bad.tsv: no labels below the header"},
      {"file\tclass_index\nb.jpg\t1\n", "bad.tsv: no label for a.jpg"},
      {"file\tclass_index\na.jpg\t5\n", "a.jpg: label 5 of a model with 5 classes"},
      {"file\tclass_index\na.jpg\t-1\n", "a.jpg: label -1 of a model with 5 classes"},
  };
  for (const auto& [text, message] : rows) {
    SaveText("bad.tsv", text);
    Expect(eval, 3, message);
  }
  fs::remove(At("bad.tsv"));
  Expect(eval, 3, "bad.tsv: cannot open: No such file or directory");
}

// ---- the command line and the disk

TEST_F(BadFiles, Usage) {
  const std::string quantize = "quantize @net.onnx -o @out/q.etm --calib-random 1 ";
  Expect("", 2, "A subcommand is required");
  Expect("quantise @net.onnx", 2,
         "unknown command 'quantise'; the nearest is quantize (`evoq --help` lists them)");
  Expect("run @net.etm --imput @x.npy", 2, "no option --imput; the nearest is --input");
  Expect("run @net.etm --input x=@x.npy --frobnicate", 2, "no option --frobnicate\n");
  Expect("bench --hint fast -- @net.etm", 2, "fast not in");
  Expect("run @net.etm --input z=@x.npy", 2,
         "--input z: the model has no input of that name; it has x\n");
  Expect("run @net.etm --input @x.npy --threads -3", 2, "--threads");
  Expect(quantize + "--scheme int7", 2,
         "--scheme int7: not one of `evoq list schemes`; the nearest is int8");
  Expect(quantize + "--observer glance", 2, "--observer glance: not one of `evoq list observers`");
  Expect(quantize + "--percentile 120", 2, "percentile 120, expected more than 0 and at most 100");
  Expect(quantize + "--calib-limit -1", 2, "--calib-limit");
  Expect("quantize @net.etm -o @out/q.etm --calib-random 1", 2,
         "net.etm is compiled already; quantize the .onnx");
  Expect(
      "optimize @net.onnx -o @out/o.onnx --disable fuse-everything", 2,
      "--disable fuse-everything: there is no pass 'fuse-everything'; the nearest is fuse-rotary");
  for (const char* shape : {"x", "=1x3x8x8", "x=1x3x8xq", "x=1x-3x8x8", "x=99999999999999999999"})
    Expect(std::string("compile @net.onnx -o @out/c.etm --shape ") + shape, 2,
           std::string("--shape ") + shape + ": expected NAME=1x3x224x224");
  Expect("compile @net.onnx -o @out/c.etm --shape y=1x3x8x8", 2,
         "the model has no input y; it has x");
  Expect("compile @net.onnx -o @out/c.etm --shape x=1x3x8", 2,
         "input x: shape [1, 3, 8] has rank 3, the model's is [N, 3, 8, 8]");
  Expect("compile @net.onnx -o @out/c.etm --shape x=1x3x8x9", 2,
         "input x: dimension 3 is 9, the model's is fixed to 8");
  Expect("compile @net.onnx -o @out/c.etm --shape x=0x3x8x8", 2,
         "--shape x=0x3x8x8: dimension 0 has size 0, expected at least 1");
  Expect("compile @net.onnx -o @out/c.etm --shape x=1x3x0x8", 2,
         "--shape x=1x3x0x8: dimension 2 has size 0, expected at least 1");
  Expect("compile @net.onnx -o @out/c.etm --shape x=9999999999x3x8x8", 3,
         "input x would be float32[9999999999, 3, 8, 8], more than");
  if (MemoryLimitBytes() < int64_t{1} << 38) {  // from there on the tensor itself is refused
    const int64_t samples = MemoryLimitBytes() / (3 * 8 * 8 * 4);  // which fill all of the memory
    Expect(fmt::format("bench @net.etm --shape x={}x3x8x8{}", samples, kBench), 3,
           "bytes of memory, expected at most 7/8 of this machine's");
  }
}

TEST_F(BadFiles, Configurations) {
  SaveText("bad.json", R"({"scheme": 8})");
  Expect("quantize @net.onnx -o @out/q.etm --calib-random 1 --config @bad.json", 3,
         "bad.json: scheme: expected a text, found 8");
  SaveText("bad.json", R"({"percentile": 150})");
  Expect("quantize @net.onnx -o @out/q.etm --calib-random 1 --config @bad.json", 2,
         "percentile 150, expected");
  SaveText("bad.json", R"({"stop_after": -1})");
  Expect("optimize @net.onnx -o @out/o.onnx --config @bad.json", 3,
         "bad.json: field 'stop_after', expected");
  SaveText("bad.json", "[]");
  Expect("optimize @net.onnx -o @out/o.onnx --config @bad.json", 3,
         "bad.json: expected a JSON object");
  SaveText("bad.json", "{{{");
  Expect("optimize @net.onnx -o @out/o.onnx --config @bad.json", 3, "bad.json: not JSON (3 bytes)");
  SaveText("bad.json", std::string(100, '[') + std::string(100, ']'));
  for (const char* verb :
       {"optimize @net.onnx -o @out/o.onnx --config @bad.json",
        "quantize @net.onnx -o @out/q.etm --calib-random 1 --config @bad.json",
        "quantize @net.onnx -o @out/q.etm --calib @images --preprocess @bad.json",
        "quantize @net.onnx -o @out/q.etm --ranges @bad.json",
        "predict @net.onnx --limits @bad.json", "compare @bad.json @bad.json",
        "explain @net.etm --report @out/r.html --duration-s 0.01 --eval @bad.json"})
    Expect(verb, 3, "bad.json: nested deeper than 64 levels");
}

TEST_F(BadFiles, OutputsThatCannotBeWritten) {
  const std::string missing = ": cannot write: there is no folder " + At("none");
  Expect("compile @net.onnx -o @none/c.etm", 3, "none/c.etm" + missing);
  Expect("optimize @net.onnx -o @none/o.onnx", 3, "none/o.onnx" + missing);
  Expect("quantize @net.onnx -o @none/q.etm --calib-random 1", 3, "none/q.etm" + missing);
  Expect("quantize @net.onnx -o @out/q.etm --calib-random 1 --save-ranges @none/r.json", 3,
         "none/r.json" + missing);
  Expect("inspect @net.onnx --json @none/i.json", 3, "none/i.json" + missing);
  Expect("compile @net.onnx -o @empty", 3, "empty: cannot write: it is a folder");
  Expect("run @net.etm --input @x.npy --output-dir @x.npy/out", 3,
         "x.npy/out: cannot make the directory");
  EXPECT_FALSE(fs::exists(At("none")));
}

// A limit on the size of a file is what a full disk is: a write that fails in the middle.
TEST_F(BadFiles, FullDisk) {
  constexpr int64_t kRoom = 512;
  Expect("compile @net.onnx -o @out/c.etm", 3, "out/c.etm: cannot write: File too large", kRoom);
  Expect("optimize @net.onnx -o @out/o.onnx", 3, "out/o.onnx: cannot write: File too large", kRoom);
  Expect("quantize @net.onnx -o @out/q.etm --calib-random 1", 3,
         "out/q.etm: cannot write: File too large", kRoom);
  Expect("quantize @net.onnx -o @out/q.onnx --calib-random 1", 3,
         "out/q.onnx: cannot write: File too large", kRoom);
  Expect("inspect @net.onnx --json @out/i.json", 3, "out/i.json: cannot write: File too large", 16);
  Expect("run @net.etm --input @x.npy --output-dir @out", 3, ".npy: cannot write: File too large",
         64);
}

}  // namespace
}  // namespace evoq
