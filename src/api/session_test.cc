// Sessions of the C++ interface: what they describe, and what they keep from run to run.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "api/test_model.h"
#include "evoq/evoq.h"
#include "onnx/onnx.h"
#include "tflite/test_model.h"

namespace evoq {
namespace {

Array Floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  Array a = Array::Zeros(ElementType::kFloat32, std::move(shape));
  std::copy(values.begin(), values.end(), a.data<float>());
  return a;
}

template <typename T>
std::vector<T> ValuesOf(const Array& a) {
  return {a.data<T>(), a.data<T>() + a.size()};
}

Session Loaded(const ModelFile& file) {
  std::string error;
  auto session = Session::Load(file.path(), {1}, &error);
  EXPECT_TRUE(session) << error;
  return std::move(*session);
}

TEST(Session, NumbersOfThreads) {
  const ModelFile file("input %x: float32[2]\nn: %y: float32[2] = Neg(%x)\noutput %y\n");
  for (const int threads : {0, 1, 1024}) {
    std::string error;
    EXPECT_TRUE(Session::Load(file.path(), {threads}, &error)) << error;
  }
  for (const int threads : {-1, 1025}) {
    std::string error;
    EXPECT_FALSE(Session::Load(file.path(), {threads}, &error));
    EXPECT_EQ(error, fmt::format("{} threads, expected 0 to 1024", threads));
  }
}

constexpr char kDouble[] =
    "input %x: float32[N, 2]\na: %y: float32[N, 2] = Add(%x, %x)\noutput %y\n";

TEST(Session, TellsWhatServedItsRuns) {
  const ModelFile file(kDouble, {{{"x", {4, 2}}}});  // beside the plan of a batch of 1
  for (const bool gears : {true, false}) {
    std::string error;
    auto session = Session::Load(file.path(), {.threads = 1, .gears = gears}, &error);
    ASSERT_TRUE(session) << error;
    session->WaitForGears();
    EXPECT_EQ(session->sizes().ready, gears ? 2 : 0);
    std::vector<Array> outputs;
    for (const int64_t n : {4, 4, 3}) {
      const std::vector<float> values(static_cast<size_t>(2 * n), 1.5f);
      ASSERT_TRUE(session->Run({Floats({n, 2}, values)}, &outputs, &error)) << error;
      EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{n, 2}));
      EXPECT_EQ(ValuesOf<float>(outputs[0]), std::vector<float>(static_cast<size_t>(2 * n), 3.0f));
    }
    const SizesReport report = session->sizes();
    EXPECT_EQ(report.gears, gears ? 2 : 0);
    EXPECT_EQ(report.runs, 3);
    EXPECT_EQ(report.padded, gears ? 1 : 0);
    EXPECT_EQ(report.misses, gears ? 0 : 2);
    EXPECT_EQ(report.worst_miss_ms > 0, !gears);
    EXPECT_EQ(report.sizes.back().shapes, (std::vector<std::vector<int64_t>>{{4, 2}}));
    EXPECT_EQ(report.sizes.back().runs, 2);
    EXPECT_EQ(report.sizes.back().gear, gears);
  }
}

// Outputs in the caller's memory are written alone where the samples are: not those filled up.
TEST(Session, AGearWritesNoMoreThanTheSamples) {
  const ModelFile file(kDouble, {{{"x", {4, 2}}}});
  std::string error;
  auto session = Session::Load(file.path(), {1}, &error);
  ASSERT_TRUE(session) << error;
  session->WaitForGears();
  for (const int64_t n : {3, 7}) {
    const std::vector<float> x(static_cast<size_t>(2 * n), 2.0f);
    std::vector<float> y(x.size() + 2, -1.0f);
    ASSERT_TRUE(session->RunOn({{ElementType::kFloat32, {n, 2}, x.data()}},
                               {{ElementType::kFloat32, {n, 2}, y.data()}}, &error))
        << error;
    EXPECT_EQ(std::vector<float>(y.begin(), y.end() - 2), std::vector<float>(x.size(), 4.0f));
    EXPECT_EQ(y.back(), -1.0f);
  }
  EXPECT_EQ(session->sizes().padded, 2);
  EXPECT_EQ(session->SizesText(),
            "# evoq sizes: runs, then the shape of each input\n1 x=3x2\n1 x=7x2\n");
}

// Of two inputs only one takes another shape, the first or the second.
TEST(Session, EachInputsShapeCounts) {
  const ModelFile file(
      "input %a: float32[N, 2]\ninput %b: float32[M, 2]\ns: %y = Add(%a, %b)\noutput %y\n",
      /*planned=*/false);
  Session session = Loaded(file);
  std::vector<Array> outputs;
  for (const auto& [n, m] : {std::pair{1, 1}, {3, 1}, {1, 1}, {1, 2}, {2, 2}, {2, 1}}) {
    std::string error;
    const Array a = Floats({n, 2}, std::vector<float>(2 * n, 1)),
                b = Floats({m, 2}, std::vector<float>(2 * m, 2));
    ASSERT_TRUE(session.Run({a, b}, &outputs, &error)) << error;
    EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{std::max(n, m), 2}));
    EXPECT_EQ(ValuesOf<float>(outputs[0]), std::vector<float>(2 * std::max(n, m), 3));
  }
}

// Outputs that come back in are given the model's types and shapes.
TEST(Session, OutputsOfAnotherModel) {
  const ModelFile file("input %x: float32[2]\nc: %y: int32[2] = Cast{to=6}(%x)\noutput %y\n");
  Session session = Loaded(file);
  std::vector<Array> outputs = {Array::Zeros(ElementType::kFloat64, {3, 3}), Floats({1}, {1})};
  ASSERT_TRUE(session.Run({Floats({2}, {4, 5})}, &outputs));
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].type, ElementType::kInt32);
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(ValuesOf<int32_t>(outputs[0]), (std::vector<int32_t>{4, 5}));
}

// Sizes that depend on data, among outputs of several types; inputs without elements.
TEST(Session, OutputsWhoseSizesDependOnData) {
  const ModelFile file(
      "input %x: float32[N]\nnz: %i = NonZero(%x)\nd: %d = Cast{to=11}(%x)\nr: %r = Relu(%x)\n"
      "output %i\noutput %d\noutput %r\n",
      /*planned=*/false);
  Session session = Loaded(file);
  std::vector<Array> outputs(1);
  std::string error;
  for (const std::vector<float>& x : {std::vector<float>{}, {0, -2, 5}, {}, {0}}) {
    const auto n = static_cast<int64_t>(x.size());
    ASSERT_TRUE(session.Run({Floats({n}, x)}, &outputs, &error)) << error;
    ASSERT_EQ(outputs.size(), 3u);
    EXPECT_EQ(outputs[0].type, ElementType::kInt64);
    EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{1, n == 3 ? 2 : 0}));
    EXPECT_EQ(outputs[1].type, ElementType::kFloat64);
    EXPECT_EQ(outputs[1].shape, (std::vector<int64_t>{n}));
    EXPECT_EQ(ValuesOf<double>(outputs[1]), std::vector<double>(x.begin(), x.end()));
    EXPECT_EQ(outputs[2].type, ElementType::kFloat32);
  }
}

// Unknown ranks are told as no sizes.
TEST(Session, DescribesUnknownRanks) {
  const ModelFile file("input %x: float32[...]\nn: %y = Neg(%x)\noutput %y\n", /*planned=*/false);
  const Session session = Loaded(file);
  EXPECT_EQ(session.inputs()[0].shape, std::vector<int64_t>());
  EXPECT_EQ(session.inputs()[0].type, ElementType::kFloat32);
  EXPECT_EQ(session.outputs()[0].shape, std::vector<int64_t>());
}

// Types that do not fit are found when outputs are described.
TEST(Session, TypesThatDoNotFit) {
  const ModelFile file("input %x: float32[N]\ninput %k: int32[N]\na: %y = Add(%x, %k)\noutput %y\n",
                       /*planned=*/false);
  std::string error;
  EXPECT_FALSE(Session::Load(file.path(), {1}, &error));
  EXPECT_TRUE(error.starts_with(file.path() + ": node a (Add): ")) << error;
}

TEST(Session, MovesWithItsModel) {
  const ModelFile one("input %x: float32[1]\nn: %y: float32[1] = Neg(%x)\noutput %y\n"),
      other("input %x: float32[1]\nn: %y: float32[1] = Abs(%x)\noutput %y\n");
  Session a = Loaded(one), b = Loaded(other);
  a = std::move(b);
  std::vector<Array> outputs;
  ASSERT_TRUE(a.Run({Floats({1}, {-3})}, &outputs));
  EXPECT_EQ(outputs[0].data<float>()[0], 3);
}

// y = x + c, c equal to `value` everywhere: so large that it is read where it lies in the file.
std::string SumWith(int value) {
  std::string values = std::to_string(value);
  for (int i = 1; i < 32768; ++i) values += ", " + std::to_string(value);
  return "input %x: float32[N, 32768]\nconst %c: float32[32768] = [" + values +
         "]\na: %y: float32[N, 32768] = Add(%x, %c)\noutput %y\n";
}

// Also at shapes that are new to the session.
TEST(Session, AFileThatIsReplacedByRenamingIsNotNoticed) {
  const ModelFile one(SumWith(1)), other(SumWith(2));
  Session before = Loaded(one);
  std::filesystem::copy_file(other.path(), one.path() + ".new");
  std::filesystem::rename(one.path() + ".new", one.path());
  Session after = Loaded(one);
  for (const int64_t rows : {1, 3, 1}) {
    const std::vector<Array> x = {Array::Zeros(ElementType::kFloat32, {rows, 32768})};
    for (const auto& [session, value] : {std::pair(&before, 1.f), std::pair(&after, 2.f)}) {
      std::vector<Array> outputs;
      std::string error;
      ASSERT_TRUE(session->Run(x, &outputs, &error)) << error;
      EXPECT_EQ(ValuesOf<float>(outputs[0]), std::vector<float>(rows * 32768, value));
    }
  }
}

// In memory that the session reads where it is, and of which it has a copy: long constants tell.
TEST(Session, LoadsFromMemory) {
  const std::string file = ReadTextFile(ModelFile(SumWith(1)).path()).value();
  const std::vector<Array> x = {Array::Zeros(ElementType::kFloat32, {1, 32768})};
  const auto first = [&](Session& session) {
    std::vector<Array> outputs;
    std::string error;
    EXPECT_TRUE(session.Run(x, &outputs, &error)) << error;
    return outputs.empty() ? 0.f : outputs[0].data<float>()[0];
  };
  const float ones[] = {1, 1, 1, 1};
  const size_t at = file.find(std::string_view(reinterpret_cast<const char*>(ones), sizeof(ones)));
  ASSERT_NE(at, std::string::npos);
  std::string error;
  for (const bool copy : {false, true}) {
    InMemory bytes(file);
    SessionOptions options{1};
    options.copy_memory = copy;
    auto one = Session::LoadMemory(bytes.data(), bytes.size(), options, &error);
    auto two = Session::LoadMemory(bytes.data(), bytes.size(), options, &error);
    ASSERT_TRUE(one && two) << error;
    EXPECT_EQ(first(*one), 1);
    EXPECT_EQ(first(*two), 1);
    const float four = 4;
    std::memcpy(bytes.data() + at, &four, sizeof(four));
    EXPECT_EQ(first(*one), copy ? 1 : 4);
    EXPECT_EQ(first(*two), copy ? 1 : 4);
    EXPECT_FALSE(Session::LoadMemory(bytes.data(), bytes.size(), options, &error));
    EXPECT_EQ(error, "model: blob 'weights': the checksum does not match: the file is damaged");
  }
  InMemory other("a picture, say");
  EXPECT_FALSE(Session::LoadMemory(other.data(), other.size(), {}, &error));
  EXPECT_TRUE(error.starts_with("model: ")) << error;
  EXPECT_FALSE(Session::LoadMemory(nullptr, 100, {}, &error));
  EXPECT_EQ(error, "model: its bytes are NULL");
}

// Wherever they begin, and gone when they were read.
TEST(Session, LoadsOnnxAndTfliteFromMemory) {
  const std::string onnx = ExportOnnxBytes(ParseGraph(kDouble).value(), "m").value();
  tflite::TestModel sum;
  const int x = sum.Tensor("x", {1, 2}), y = sum.Tensor("y", {1, 2});
  sum.Operator(/*ADD*/ 0, {x, x}, {y});
  sum.graph().inputs = {x};
  sum.graph().outputs = {y};
  for (const std::string& file : {onnx, sum.Bytes()}) {
    InMemory bytes(file, 1);
    std::string error;
    auto session = Session::LoadMemory(bytes.data(), bytes.size(), {1}, &error);
    ASSERT_TRUE(session) << error;
    std::fill_n(bytes.data(), bytes.size(), std::byte{0xff});
    std::vector<Array> outputs;
    ASSERT_TRUE(session->Run({Floats({1, 2}, {3, -1})}, &outputs, &error)) << error;
    EXPECT_EQ(ValuesOf<float>(outputs[0]), (std::vector<float>{6, -2}));
  }
}

// A picture of two pixels, taken as it is: pixel by pixel and by planes.
TEST(Images, LoadImageFollowsThePreprocessFile) {
  const std::string base =
      (std::filesystem::temp_directory_path() / fmt::format("evoq_image_{}", ::getpid())).string();
  const std::string image = base + ".ppm", how = base + ".preprocess.json";
  std::ofstream(image) << "P6\n2 1\n255\n"
                       << "abcdef";
  std::string error;
  for (const bool planes : {false, true}) {
    std::ofstream(how) << fmt::format(R"({{"scale": 1, "layout": "{}"}})",
                                      planes ? "NCHW" : "NHWC");
    const auto array = LoadImage(image, how, &error);
    ASSERT_TRUE(array) << error;
    EXPECT_EQ(array->type, ElementType::kFloat32);
    EXPECT_EQ(array->shape,
              planes ? (std::vector<int64_t>{1, 3, 1, 2}) : (std::vector<int64_t>{1, 1, 2, 3}));
    const std::string order = planes ? "adbecf" : "abcdef";
    EXPECT_EQ(ValuesOf<float>(*array), std::vector<float>(order.begin(), order.end()));
  }
  std::ofstream(how) << R"({"scale": 1, "dtype": "uint8"})";
  EXPECT_EQ(LoadImage(image, how)->type, ElementType::kUint8);
  std::filesystem::remove(image);
  EXPECT_FALSE(LoadImage(image, how, &error));
  EXPECT_NE(error.find(image), std::string::npos) << error;
  std::filesystem::remove(how);
  EXPECT_FALSE(LoadImage(image, how, &error));
  EXPECT_NE(error.find(how), std::string::npos) << error;
  EXPECT_FALSE(LoadImage(image, how)) << "without a place for the reason";
}

}  // namespace
}  // namespace evoq
