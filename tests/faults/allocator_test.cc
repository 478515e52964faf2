// Memory and threads run out at every request that loading, preparing and running make: each time
// an error comes out, nothing is lost, and the same session goes on with right results.
#include "tests/faults/faults.h"

#ifndef EVOQ_NO_FAULTS

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <optional>

#include "api/test_model.h"
#include "base/file.h"
#include "base/guarded.h"
#include "engine/shared.h"
#include "evoq/evoq.h"
#include "evoq/evoq_c.h"
#include "evoq/gemm.h"
#include "models/models.h"
#include "onnx/onnx.h"
#include "runtime/buffers.h"
#include "workflow/compile.h"
#include "workflow/quantize.h"

namespace evoq {
namespace {

using faults::Failing;
using faults::How;
using faults::What;

// What may happen to one attempt.
enum class Outcome { kRight, kError, kWrong };

// A session of the model, and one run of it with known results.
class AllocatorTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, bool planned) {
    file_.emplace(text, planned);
    path_ = file_->path();
  }

  // Tries with request n failing, n = 1, 2, ... until none is left to fail: all of the first 100,
  // then a sample of about `sample`, or all of them (EVOQ_LONG=1). `attempt` gives back all that it
  // takes; afterwards it must be right with nothing failing.
  void WalkAll(const std::function<Outcome()>& attempt, What what = What::kMemory,
               int64_t sample = 150, int64_t may_lose = 0) {
    for (int warm = 0; warm < 3; ++warm)
      ASSERT_EQ(attempt(), Outcome::kRight);  // what is made once is there now
    const int64_t before = faults::Requests();
    ASSERT_EQ(attempt(), Outcome::kRight);
    const int64_t requests = faults::Requests() - before;
    int64_t living = faults::Living();
    const int64_t step = faults::LongForm() ? 1 : std::max<int64_t>(1, requests / sample);
    int errors = 0;
    for (const How how : {How::kOnce, How::kFromThenOn}) {
      bool hit = true;
      for (int64_t n = 1; hit; n += n < 100 ? 1 : step) {
        Outcome outcome;
        {
          const Failing failing(what, how, n);
          outcome = attempt();
          hit = failing.hit();
        }
        ASSERT_NE(outcome, Outcome::kWrong) << "request " << n << " of " << requests;
        const int64_t lost = faults::Living() - living;
        ASSERT_LE(lost, may_lose) << "request " << n << " of " << requests << " lost memory";
        ASSERT_GE(lost, 0);
        living += lost;
        if (!hit) ASSERT_EQ(outcome, Outcome::kRight) << "nothing failed";
        errors += outcome == Outcome::kError;
        if (n % 16 == 0) ASSERT_EQ(attempt(), Outcome::kRight) << "after request " << n;
      }
    }
    EXPECT_GT(errors, 0);
    EXPECT_EQ(attempt(), Outcome::kRight);
    EXPECT_EQ(faults::Living(), living);
  }

  std::optional<ModelFile> file_;
  std::string path_;
};

// y = relu(x W + b) with W = [[1, -1], [2, 1]], b = [1, -20], in rows: [3, 4] -> [12, 0].
constexpr char kGemm[] = R"(input %x: float32[N, 2]
const %w: float32[2, 2] = [1.0, -1.0, 2.0, 1.0]
const %b: float32[2] = [1.0, -20.0]
g: %g: float32[N, 2] = Gemm(%x, %w, %b)
r: %y: float32[N, 2] = Relu(%g)
output %y
)";

Outcome RunGemm(Session& session, std::string* error) {
  Array x;
  std::vector<Array> inputs, outputs;
  x.shape = {1, 2};
  x.bytes.resize(8);
  x.data<float>()[0] = 3;
  x.data<float>()[1] = 4;
  inputs.push_back(std::move(x));
  if (!session.Run(inputs, &outputs, error))
    return error->empty() ? Outcome::kWrong : Outcome::kError;
  const bool right =
      outputs.size() == 1 && outputs[0].data<float>()[0] == 12 && outputs[0].data<float>()[1] == 0;
  return right ? Outcome::kRight : Outcome::kWrong;
}

// The test's own requests fail too: they count as errors.
template <typename Attempt>
Outcome Tried(const Attempt& attempt) {
  try {
    return attempt();
  } catch (const std::bad_alloc&) {
    return Outcome::kError;
  }
}

TEST_F(AllocatorTest, LoadingAndTheFirstRun) {
  for (const bool planned : {true, false}) {
    Write(kGemm, planned);
    WalkAll([&] {
      std::string error;
      auto session = Session::Load(path_, {1}, &error);
      if (!session) return error.empty() ? Outcome::kWrong : Outcome::kError;
      return Tried([&] { return RunGemm(*session, &error); });
    });
  }
}

// The session lives on: what failed once must not be there in the next run.
TEST_F(AllocatorTest, ASessionGoesOn) {
  Write(kGemm, true);
  std::string error(100, ' ');
  auto session = Session::Load(path_, {1}, &error);
  ASSERT_TRUE(session);
  int64_t rows = 1;
  const std::function<Outcome()> attempt = [&]() -> Outcome {
    Array x;
    std::vector<Array> inputs, outputs;
    x.shape = {rows, 2};
    x.bytes.resize(static_cast<size_t>(8 * rows));
    for (int64_t i = 0; i < rows; ++i) {
      x.data<float>()[2 * i] = 3;
      x.data<float>()[2 * i + 1] = static_cast<float>(4 + i);
    }
    inputs.push_back(std::move(x));
    error = "none";
    if (!session->Run(inputs, &outputs, &error))
      return error == "none" ? Outcome::kWrong : Outcome::kError;
    for (int64_t i = 0; i < rows; ++i) {
      // 3 + 2 (4 + i) + 1 and -3 + 4 + i - 20.
      if (outputs[0].data<float>()[2 * i] != static_cast<float>(12 + 2 * i)) return Outcome::kWrong;
      if (outputs[0].data<float>()[2 * i + 1] != std::max(0.0f, static_cast<float>(i - 19)))
        return Outcome::kWrong;
    }
    return outputs[0].shape == std::vector<int64_t>{rows, 2} ? Outcome::kRight : Outcome::kWrong;
  };
  for (const How how : {How::kOnce, How::kFromThenOn}) {
    bool hit = true;
    for (int64_t n = 1; hit; n += faults::LongForm() || n < 60 ? 1 : 7) {
      rows = rows % 40 + 1;  // mostly shapes that are not prepared
      Outcome outcome;
      {
        const Failing failing(What::kMemory, how, n);
        outcome = Tried(attempt);
        hit = failing.hit();
      }
      ASSERT_NE(outcome, Outcome::kWrong) << "request " << n;
      ASSERT_EQ(attempt(), Outcome::kRight) << "after request " << n;
      if (n > 100000) break;
    }
  }
}

// The places of what is not 0, and x x or -x.
constexpr char kPartitions[] = R"(input %x: float32[N]
input %c: bool[]
nz: %i = NonZero(%x)
if: %y = If(%c, %x)
| graph "then"
| input %a: float32[...]
| t: %b = Mul(%a, %a)
| output %b
| graph "else"
| input %a: float32[...]
| e: %b = Neg(%a)
| output %b
output %i
output %y
)";

TEST_F(AllocatorTest, ModelsInRegions) {
  Write(kPartitions, /*planned=*/false);
  WalkAll([&] {
    std::string error;
    auto session = Session::Load(path_, {1}, &error);
    if (!session) return error.empty() ? Outcome::kWrong : Outcome::kError;
    return Tried([&] {
      Array x, c;
      x.shape = {3};
      x.bytes.resize(12);
      x.data<float>()[1] = 5;
      c.type = ElementType::kBool;
      c.bytes.resize(1);
      std::vector<Array> inputs, outputs;
      inputs.push_back(std::move(x));
      inputs.push_back(std::move(c));
      if (!session->Run(inputs, &outputs, &error))
        return error.empty() ? Outcome::kWrong : Outcome::kError;
      const bool right = outputs[0].shape == std::vector<int64_t>{1, 1} &&
                         outputs[0].data<int64_t>()[0] == 1 && outputs[1].data<float>()[1] == -5;
      return right ? Outcome::kRight : Outcome::kWrong;
    });
  });
}

TEST_F(AllocatorTest, TheCInterface) {
  Write(kGemm, true);
  WalkAll([&] {
    char error[100] = "";
    evoq_session* s = evoq_session_load(path_.c_str(), 1, error, sizeof(error));
    if (s == nullptr) return *error == 0 ? Outcome::kWrong : Outcome::kError;
    const int64_t shape[] = {1, 2};
    float x[] = {3, 4}, y[] = {-1, -1};
    const evoq_array in = {1, 2, shape, x}, out = {1, 2, shape, y};
    const bool ran = evoq_session_run(s, &in, 1, &out, 1, error, sizeof(error)) == 0;
    evoq_session_free(s);
    if (!ran) return *error == 0 || y[0] != -1 ? Outcome::kWrong : Outcome::kError;
    return y[0] == 12 && y[1] == 0 ? Outcome::kRight : Outcome::kWrong;
  });
}

// An array that no element's address fits is copied, which takes memory the first time; others are
// read where they lie.
TEST_F(AllocatorTest, TheCInterfaceCopiesOnlyWhatIsNotAligned) {
  Write(kGemm, true);
  evoq_session* s = evoq_session_load(path_.c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  alignas(float) std::byte bytes[12];
  const auto requests = [&](size_t offset) {
    const float values[] = {3, 4};
    std::memcpy(bytes + offset, values, sizeof(values));
    const int64_t shape[] = {1, 2};
    float y[] = {-1, -1};
    const evoq_array in = {1, 2, shape, bytes + offset}, out = {1, 2, shape, y};
    const int64_t before = faults::Requests();
    EXPECT_EQ(evoq_session_run(s, &in, 1, &out, 1, nullptr, 0), 0);
    const int64_t made = faults::Requests() - before;
    EXPECT_EQ(y[0], 12);
    EXPECT_EQ(y[1], 0);
    return made;
  };
  for (int warm = 0; warm < 3; ++warm) requests(0);
  const int64_t in_place = requests(4);
  EXPECT_EQ(requests(0), in_place);
  EXPECT_EQ(requests(1), in_place + 1);
  EXPECT_EQ(requests(2), in_place) << "the copy's memory is kept";
  evoq_session_free(s);
}

// What is refused is refused with its reason or, without memory for that, with the lack of memory.
TEST_F(AllocatorTest, RefusedCalls) {
  Write(kGemm, true);
  auto session = Session::Load(path_, {1});
  ASSERT_TRUE(session);
  evoq_session* s = evoq_session_load(path_.c_str(), 1, nullptr, 0);
  ASSERT_NE(s, nullptr);
  const auto outcome = [](bool refused, std::string_view told, std::string_view reason) {
    if (refused && told == "out of memory") return Outcome::kError;
    return refused && told == reason ? Outcome::kRight : Outcome::kWrong;
  };
  WalkAll([&] {
    const int64_t shape[] = {1, 2};
    const evoq_array none = {1, 2, shape, nullptr};
    char error[100] = "";
    const bool refused = evoq_session_compute(s, &none, 1, error, sizeof(error)) != 0;
    return outcome(refused, error, "input x: 8 bytes without data");
  });
  const std::vector<Array> inputs = {Array{ElementType::kFloat32, {1, 2}, {}}};
  std::vector<Array> outputs;
  std::string error(100, ' ');
  WalkAll([&] {
    const bool refused = !session->Run(inputs, &outputs, &error);
    return outcome(refused, error, "input x: 0 bytes for shape [1, 2], expected 8");
  });
  evoq_session_free(s);
}

// Import, passes, packing of a real network.
TEST_F(AllocatorTest, AnOnnxModel) {
  const std::string path = std::string(EVOQ_SOURCE_DIR) + "/examples/digits/digits.onnx";
  std::vector<std::byte> expected;
  const auto attempt = [&] {
    std::string error;
    auto session = Session::Load(path, {1}, &error);
    if (!session) return error.empty() ? Outcome::kWrong : Outcome::kError;
    return Tried([&] {
      std::vector<Array> inputs, outputs;
      std::vector<int64_t> shape = session->inputs()[0].shape;
      for (int64_t& size : shape) size = std::max<int64_t>(size, 1);
      Array x;
      x.shape = shape;
      x.bytes.resize(x.size() * 4);
      for (size_t i = 0; i < x.size(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) / 8;
      inputs.push_back(std::move(x));
      if (!session->Run(inputs, &outputs, &error))
        return error.empty() ? Outcome::kWrong : Outcome::kError;
      if (expected.empty()) expected = outputs[0].bytes;
      return outputs[0].bytes == expected ? Outcome::kRight : Outcome::kWrong;
    });
  };
  ASSERT_EQ(attempt(), Outcome::kRight);
  // protobuf loses the message that it was about to link, and what that has.
  WalkAll(attempt, What::kMemory, 60, /*may_lose=*/4);
}

// Tasks of the toolchain, without their reports: the JSON library allocates in a destructor. They
// write the bytes of the first attempt or nothing.
TEST_F(AllocatorTest, TasksOfTheToolchain) {
  for (const char* graph : {kGemm, kPartitions}) {
    Write(graph, false);
    const std::string model = path_ + ".onnx", out = path_ + ".out.etm";
    ASSERT_TRUE(ExportOnnx(ParseGraph(graph).value(), model));
    const std::vector<std::vector<Tensor>> samples = {
        {Tensor::FromValues<float>(Shape{1, 2}, {0, 3})}};
    QuantizeJob quantize;
    quantize.model = model, quantize.output = out, quantize.threads = 1;
    if (graph == kGemm) {
      quantize.samples = samples;
    } else {
      quantize.scheme = "int8-dynamic";
    }
    const CompileJob compile{.model = model, .output = out, .threads = 1};
    for (const bool narrow : {false, true}) {
      std::string whole;
      const auto attempt = [&] {
        ::unlink(out.c_str());
        const bool done = narrow ? Guarded([&] { return Quantize(quantize); }).has_value()
                                 : Guarded([&] { return evoq::Compile(compile); }).has_value();
        if (done != (::access(out.c_str(), F_OK) == 0)) return Outcome::kWrong;
        if (!done) return Outcome::kError;
        return Tried([&] {
          const auto bytes = ReadTextFile(out);
          if (!bytes) return Outcome::kError;
          if (whole.empty()) whole = *bytes;
          return *bytes == whole ? Outcome::kRight : Outcome::kWrong;
        });
      };
      WalkAll(attempt, What::kMemory, 60, /*may_lose=*/4);
    }
    ::unlink(out.c_str());
    ::unlink(model.c_str());
  }
}

// gemm.h: without memory C stays as it was, bit for bit, also where it would be scaled first. A
// part of B is packed; new threads mean new memory for it.
TEST_F(AllocatorTest, ProductsOfMatrices) {
  constexpr auto kRow = EVOQ_ROW_MAJOR;
  constexpr auto kNo = EVOQ_NO_TRANSPOSE;
  constexpr int64_t m = 4, n = 40, k = 70;
  const auto walk = [&]<typename T>(T beta, const auto& multiply) {
    std::vector<T> a(m * k), b(k * n), before(m * n), wanted(m * n), c(m * n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i % 5) - 2;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i % 7) - 3;
    for (size_t i = 0; i < c.size(); ++i) {
      before[i] = wanted[i] = static_cast<T>(i % 3 + 1);
      wanted[i] *= beta;
      for (size_t l = 0; l < k; ++l) wanted[i] += a[i / n * k + l] * b[l * n + i % n];
    }
    WalkAll([&] {
      std::copy(before.begin(), before.end(), c.begin());
      if (evoq_gemm_set_threads(1) != 0) return Outcome::kError;
      const int done =
          multiply(kRow, kNo, kNo, m, n, k, T{1}, a.data(), k, b.data(), n, beta, c.data(), n);
      if (done == 0) return c == wanted ? Outcome::kRight : Outcome::kWrong;
      const bool untouched = std::memcmp(c.data(), before.data(), c.size() * sizeof(T)) == 0;
      return done == EVOQ_GEMM_NO_MEMORY && untouched ? Outcome::kError : Outcome::kWrong;
    });
  };
  walk(2.0f, evoq_sgemm);
  walk(2.0, evoq_dgemm);
}

// evoq.h: an array without bytes where memory is short.
TEST_F(AllocatorTest, ArraysOfZeros) {
  std::vector<int64_t> shape = {4};
  Array a;
  {
    const Failing failing(What::kMemory, How::kOnce, 1);
    a = Array::Zeros(ElementType::kFloat32, std::move(shape));
    EXPECT_TRUE(failing.hit());
  }
  EXPECT_TRUE(a.bytes.empty());
  EXPECT_EQ(a.shape, (std::vector<int64_t>{4}));
}

// A model that several threads share: a failed run leaves its stream to the next one.
TEST_F(AllocatorTest, SharedStreamsComeBack) {
  const struct {
    const char* graph;
    std::vector<Tensor> inputs;
    float last;  // of the last output
  } cases[] = {{kGemm, {Tensor::FromValues<float>(Shape{1, 2}, {5, 10})}, 0},
               {kPartitions,
                {Tensor::FromValues<float>(Shape{2}, {0, 5}), Tensor::Scalar<bool>(false)},
                -5}};
  for (const auto& c : cases) {
    Write(c.graph, /*planned=*/false);
    auto engine = LoadEngine(path_, {2});
    ASSERT_TRUE(engine);
    SharedEngine shared(std::move(*engine), 1);
    const auto attempt = [&] {
      return Tried([&] {
        const auto y = shared.Run(c.inputs);
        if (!y) return Outcome::kError;
        return y->back().data<float>()[1] == c.last ? Outcome::kRight : Outcome::kWrong;
      });
    };
    for (int warm = 0; warm < 3; ++warm) ASSERT_EQ(attempt(), Outcome::kRight);
    bool hit = true;
    for (int64_t n = 1; hit; ++n) {
      {
        const Failing failing(What::kMemory, How::kOnce, n);
        ASSERT_NE(attempt(), Outcome::kWrong);
        hit = failing.hit();
      }
      ASSERT_EQ(shared.running(), 0);
      ASSERT_EQ(attempt(), Outcome::kRight);  // or waits forever for a stream
    }
  }
}

// What measures and explains a model in partitions, made and run.
TEST_F(AllocatorTest, PartitionsThatAreMeasured) {
  Write(kPartitions, /*planned=*/false);
  auto engine = LoadEngine(path_, {1});
  ASSERT_TRUE(engine);
  const std::vector<Tensor> inputs = {Tensor::FromValues<float>(Shape{2}, {0, 5}),
                                      Tensor::Scalar<bool>(true)};
  WalkAll([&] {
    return Tried([&] {
      const auto runnable = (*engine)->RunnableFor(inputs);
      if (!runnable) return Outcome::kError;
      RunBuffers buffers = MakeBuffers(**runnable);
      std::vector<int64_t> ns((*runnable)->program().steps.size());
      if (!(*runnable)->RunTimed(buffers.inputs, buffers.outputs, ns)) return Outcome::kError;
      return buffers.outputs[1].data<float>()[1] == 25 ? Outcome::kRight : Outcome::kWrong;
    });
  });
}

#ifndef EVOQ_NO_THREAD_FAULTS

// The system refuses the first, second, third thread of four.
TEST_F(AllocatorTest, ThreadsThatCannotStart) {
  Write(kGemm, true);
  for (int64_t nth = 1; nth <= 4; ++nth) {
    for (const How how : {How::kOnce, How::kFromThenOn}) {
      std::string error;
      auto session = Session::Load(path_, {4}, &error);
      ASSERT_TRUE(session) << error;
      {
        const Failing failing(What::kThreads, how, nth);
        const Outcome outcome = RunGemm(*session, &error);
        EXPECT_EQ(outcome, nth <= 3 ? Outcome::kError : Outcome::kRight);
        if (nth <= 3) {
          const auto says =
              fmt::format("thread {} of 4 cannot start: Resource temporarily unavailable", nth + 1);
          EXPECT_NE(error.find(says), std::string::npos) << error;
        }
      }
      EXPECT_EQ(RunGemm(*session, &error), Outcome::kRight) << error;
    }
  }
}

#endif

}  // namespace
}  // namespace evoq

#endif  // EVOQ_NO_FAULTS
