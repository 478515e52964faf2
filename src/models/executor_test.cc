// The executor's contract: what it takes, what it refuses, where it reads and writes.
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "base/memory.h"
#include "compile/compile.h"
#include "models/models.h"
#include "reference/reference.h"
#include "runtime/buffers.h"
#include "runtime/guard.h"

namespace evoq {
namespace {

std::shared_ptr<const Program> Compiled(std::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph) << graph.error().message();
  const Model model = LowerAndPack(std::move(*graph)).value();
  return std::make_shared<const Program>(Compile(model, kReference).value());
}

std::unique_ptr<Executor> ExecutorOf(std::string_view text, int threads = 1, int64_t repeats = 1) {
  ExecutorOptions options{threads, SelectIsa().value(), repeats, nullptr};
  auto executor = Executor::Create(Compiled(text), options);
  EXPECT_TRUE(executor) << executor.error().message();
  return std::move(*executor);
}

Tensor Floats(Shape shape, std::vector<float> values) {
  return Tensor::FromValues<float>(std::move(shape), values);
}

std::vector<Tensor> OutputsOf(const Executor& executor) {
  std::vector<Tensor> outputs;
  for (const TensorType& type : executor.output_types()) outputs.push_back(Tensor::Allocate(type));
  return outputs;
}

std::vector<float> ValuesOf(const Tensor& t) {
  const auto values = t.values<float>();
  return {values.begin(), values.end()};
}

// y = relu(x) is an output and is read by the step that makes z = y + c.
constexpr char kTwo[] = R"(input %x: float32[1, 3]
const %c: float32[3] = [10.0, 20.0, 30.0]
r: %y: float32[1, 3] = Relu(%x)
a: %z: float32[1, 3] = Add(%y, %c)
output %y
output %z
)";

TEST(Executor, AnOutputThatALaterStepReads) {
  const auto executor = ExecutorOf(kTwo);
  for (float first : {1.0f, -1.0f, 5.0f}) {
    auto outputs = OutputsOf(*executor);
    const Tensor x = Floats(Shape{1, 3}, {first, -2, 3});
    ASSERT_TRUE(executor->Run(std::span(&x, 1), outputs));
    const float y = std::max(first, 0.0f);
    EXPECT_EQ(ValuesOf(outputs[0]), (std::vector<float>{y, 0, 3}));
    EXPECT_EQ(ValuesOf(outputs[1]), (std::vector<float>{10 + y, 20, 33}));
  }
}

// Each repeat has its own rows of inputs and outputs, on one thread or on several; RunOn does the
// same on bare memory.
TEST(Executor, RepeatsTakeSlices) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t repeats : {1, 2, 5}) {
      const auto executor = ExecutorOf(kTwo, threads, repeats);
      EXPECT_EQ(executor->threads(), threads);
      EXPECT_EQ(executor->repeats(), repeats);
      ASSERT_EQ(executor->input_types()[0].shape.sizes(), (std::vector<int64_t>{repeats, 3}));
      ASSERT_EQ(executor->output_types()[1].shape.sizes(), (std::vector<int64_t>{repeats, 3}));
      std::vector<float> in, y, z;
      for (int64_t i = 0; i < 3 * repeats; ++i) {
        in.push_back(static_cast<float>(i % 4 == 0 ? -i : i));
        y.push_back(std::max(in.back(), 0.0f));
        z.push_back(y.back() + static_cast<float>(10 * (i % 3 + 1)));
      }
      const Tensor x = Floats(Shape{repeats, 3}, in);
      for (const bool bare : {false, true}) {
        auto outputs = OutputsOf(*executor);
        if (bare) {
          const std::byte* const from[] = {x.raw()};
          std::byte* const to[] = {outputs[0].mutable_raw(), outputs[1].mutable_raw()};
          ASSERT_TRUE(executor->RunOn(from, to));
        } else {
          ASSERT_TRUE(executor->Run(std::span(&x, 1), outputs));
        }
        EXPECT_EQ(ValuesOf(outputs[0]), y);
        EXPECT_EQ(ValuesOf(outputs[1]), z);
      }
    }
  }
}

TEST(Executor, RefusesTensorsOfOtherTypes) {
  const auto executor = ExecutorOf(kTwo);
  const auto run = [&](std::vector<Tensor> inputs, std::vector<Tensor> outputs) {
    const Status status = executor->Run(inputs, outputs);
    if (!status) EXPECT_EQ(status.error().code(), ErrorCode::kUsage);
    return status ? "" : status.error().message();
  };
  const Tensor x = Floats(Shape{1, 3}, {1, 2, 3});
  const std::vector<Tensor> good = OutputsOf(*executor);
  EXPECT_EQ(run({x}, good), "");
  EXPECT_EQ(run({}, good), "0 inputs and 2 outputs given, expected 1 and 2");
  EXPECT_EQ(run({x, x}, good), "2 inputs and 2 outputs given, expected 1 and 2");
  EXPECT_EQ(run({x}, {good[0]}), "1 inputs and 1 outputs given, expected 1 and 2");
  EXPECT_EQ(run({Floats(Shape{3}, {1, 2, 3})}, good),
            "input x: float32[3] given, expected float32[1, 3]");
  EXPECT_EQ(run({Tensor::FromValues<int32_t>(Shape{1, 3}, {1, 2, 3})}, good),
            "input x: int32[1, 3] given, expected float32[1, 3]");
  EXPECT_NE(run({Tensor::Packed(x.type(), "layout", std::vector<std::byte>(12))}, good), "");
  EXPECT_EQ(run({x}, {good[0], Floats(Shape{3, 1}, {1, 2, 3})}),
            "output z: float32[3, 1] given, expected float32[1, 3]");
  EXPECT_EQ(run({x}, {Tensor::Allocate(TensorType(DType::kInt32, Shape{1, 3})), good[1]}),
            "output y: int32[1, 3] given, expected float32[1, 3]");
}

TEST(Executor, AnotherHasMemoryOfItsOwn) {
  const auto executor = ExecutorOf(kTwo, 2, 2);
  const auto another = executor->Another().value();
  EXPECT_EQ(another->threads(), 2);
  EXPECT_EQ(another->repeats(), 2);
  EXPECT_EQ(&another->program(), &executor->program());
  EXPECT_EQ(another->arena_bytes(), executor->arena_bytes());
  const auto pool = std::make_shared<ThreadPool>(3);
  EXPECT_EQ(executor->Another(pool).value()->threads(), 3);
  const Tensor x = Floats(Shape{2, 3}, {1, 2, 3, 4, 5, 6});
  auto a = OutputsOf(*executor), b = OutputsOf(*another);
  ASSERT_TRUE(executor->Run(std::span(&x, 1), a));
  ASSERT_TRUE(another->Run(std::span(&x, 1), b));
  EXPECT_TRUE(BitEqual(a[1], b[1]));
  ASSERT_EQ(executor->plans().size(), executor->program().steps.size());
}

// An arena, inputs and outputs count: 7/8 of the memory is for all of them together.
TEST(Executor, MemoryBeyondTheMachine) {
  auto program = std::make_shared<Program>(*Compiled(kTwo));
  const ExecutorOptions options{1, SelectIsa().value(), 1, nullptr};
  program->arenas[0].bytes = MemoryLimitBytes() / 8 * 7;
  const auto over = Executor::Create(program, options);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code(), ErrorCode::kTooLarge);
  EXPECT_EQ(over.error().message(),
            fmt::format("a run needs {} bytes of memory, expected at most 7/8 of this machine's {}",
                        program->arena_bytes() + 3 * 12, MemoryLimitBytes()));
}

// Outputs that are inputs or constants, and ones without elements.
TEST(Executor, OutputsThatNoStepComputes) {
  const auto executor = ExecutorOf(
      "input %x: float32[2]\ninput %e: float32[0, 2]\nconst %c: float32[2] = [7.0, 8.0]\n"
      "const %s: int64[2] = [2, 1]\nr: %y: float32[2, 1] = Reshape(%x, %s)\n"
      "n: %n: float32[0, 2] = Neg(%e)\noutput %y\noutput %c\noutput %n\noutput %x\n");
  const std::vector<Tensor> in = {Floats(Shape{2}, {1, 2}),
                                  Tensor::Allocate(TensorType(DType::kFloat32, Shape{0, 2}))};
  auto out = OutputsOf(*executor);
  ASSERT_TRUE(executor->Run(in, out));
  EXPECT_EQ(ValuesOf(out[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(ValuesOf(out[1]), (std::vector<float>{7, 8}));
  EXPECT_EQ(out[2].elements(), 0);
  EXPECT_EQ(ValuesOf(out[3]), (std::vector<float>{1, 2}));
}

// Gather's indices are in [-3, 3); the first one outside is named, and the next good run is one.
TEST(Guard, IndicesAtTheLimits) {
  for (const bool wide : {true, false}) {
    const auto executor =
        ExecutorOf(fmt::format("input %i: {}[2]\nconst %w: float32[3] = [5.0, 6.0, 7.0]\n"
                               "g: %y: float32[2] = Gather(%w, %i)\noutput %y\n",
                               wide ? "int64" : "int32"));
    const auto run = [&](int64_t a, int64_t b) -> std::string {
      const Tensor i = wide ? Tensor::FromValues<int64_t>(Shape{2}, {a, b})
                            : Tensor::FromValues<int32_t>(
                                  Shape{2}, {static_cast<int32_t>(a), static_cast<int32_t>(b)});
      auto y = OutputsOf(*executor);
      const Status status = executor->Run(std::span(&i, 1), y);
      if (!status) return status.error().message();
      return fmt::format("{} {}", ValuesOf(y[0])[0], ValuesOf(y[0])[1]);
    };
    EXPECT_EQ(run(0, 2), "5 7");
    EXPECT_EQ(run(-1, -3), "7 5");
    for (const int64_t bad : {int64_t{3}, int64_t{-4}, int64_t{std::numeric_limits<int32_t>::max()},
                              int64_t{std::numeric_limits<int32_t>::min()}}) {
      const auto says =
          fmt::format("node g (Gather): input 1 (indices): index {} is outside [-3, 3)", bad);
      EXPECT_EQ(run(bad, 0), says);
      EXPECT_EQ(run(1, bad), says);
      EXPECT_EQ(run(1, 1), "6 6");
    }
    if (wide)
      EXPECT_EQ(run(int64_t{1} << 32, 0),
                "node g (Gather): input 1 (indices): index 4294967296 is outside [-3, 3)");
  }
}

TEST(Guard, OfAnAxis) {
  Node node;
  node.op = "Gather";
  node.name = "g";
  node.attrs.Set("axis", int64_t{-1});
  const std::vector<TensorType> types = {TensorType(DType::kFloat32, Shape{4, 9}),
                                         TensorType(DType::kInt32, Shape{2, 3})};
  const auto guard = GuardOf(node, types);
  ASSERT_TRUE(guard);
  EXPECT_EQ(guard->input, 1u);
  EXPECT_EQ(guard->count, 6);
  EXPECT_EQ(guard->low, -9);
  EXPECT_EQ(guard->end, 9);
  EXPECT_FALSE(guard->wide);
  node.attrs.Set("axis", int64_t{0});
  EXPECT_EQ(GuardOf(node, types)->end, 4);
  node.op = "Add";
  EXPECT_FALSE(GuardOf(node, types));
  for (const char* op : {"GatherElements", "ScatterElements"}) {
    node.op = op;
    ASSERT_TRUE(GuardOf(node, types)) << op;
    EXPECT_EQ(GuardOf(node, types)->end, 4) << op;
  }
  node.op = "ScatterND";
  EXPECT_FALSE(GuardOf(node, types)) << "its indices are checked where it is evaluated";
}

// Inputs to measure with: the same in each process, floats in [-1, 1), bytes over their range,
// zeros in other types.
TEST(Buffers, FixedContent) {
  Tensor floats = Tensor::Allocate(TensorType(DType::kFloat32, Shape{4000})),
         again = floats.Clone(), other = floats.Clone();
  FillForSpeed(floats, 1);
  FillForSpeed(again, 1);
  FillForSpeed(other, 2);
  EXPECT_TRUE(BitEqual(floats, again));
  EXPECT_FALSE(BitEqual(floats, other));
  float low = 0, high = 0;
  for (const float f : floats.values<float>()) low = std::min(low, f), high = std::max(high, f);
  EXPECT_TRUE(-1 <= low && low < -0.98f && 0.98f < high && high < 1) << low << " " << high;
  for (const DType dtype : {DType::kUint8, DType::kInt8}) {
    Tensor bytes = Tensor::Allocate(TensorType(dtype, Shape{8000}));
    FillForSpeed(bytes, 3);
    const std::set<std::byte> seen(bytes.raw(), bytes.raw() + 8000);
    EXPECT_EQ(seen.size(), 256u);
  }
  for (const DType dtype :
       {DType::kBool, DType::kInt32, DType::kInt64, DType::kFloat16, DType::kFloat64}) {
    Tensor zeros = Tensor::Allocate(TensorType(dtype, Shape{50}));
    FillForSpeed(zeros, 3);
    EXPECT_EQ(std::set<std::byte>(zeros.raw(), zeros.raw() + zeros.bytes()),
              (std::set<std::byte>{std::byte{0}}));
  }
  // xorshift32 (Marsaglia, 2003: 13, 17, 5) from 2654435761 times the seed plus 1: the upper 24
  // bits of a state over 2^23 less 1, bits 16 to 23 of it as a byte.
  EXPECT_EQ(ValuesOf(floats)[0], -0.3661757707595825f);
  EXPECT_EQ(ValuesOf(floats)[1], 0.5948771238327026f);
  EXPECT_EQ(ValuesOf(floats)[2], -0.17533528804779053f);
  EXPECT_EQ(ValuesOf(other)[0], 0.26851439476013184f);
  EXPECT_EQ(ValuesOf(other)[3], 0.5069713592529297f);
  Tensor four = Tensor::Allocate(TensorType(DType::kUint8, Shape{4}));
  FillForSpeed(four, 1);
  EXPECT_TRUE(BitEqual(four, Tensor::FromValues<uint8_t>(Shape{4}, {33, 36, 142, 172})));
  const auto executor = ExecutorOf(kTwo);
  const RunBuffers buffers = MakeBuffers(*executor);
  EXPECT_EQ(ValuesOf(buffers.inputs.at(0))[0], -0.3661757707595825f);
  ASSERT_EQ(buffers.inputs.size(), 1u);
  ASSERT_EQ(buffers.outputs.size(), 2u);
  EXPECT_TRUE(buffers.outputs[1].type() == executor->output_types()[1]);
  EXPECT_TRUE(BitEqual(buffers.inputs[0], MakeBuffers(*executor, 1).inputs[0]));
  EXPECT_FALSE(BitEqual(buffers.inputs[0], MakeBuffers(*executor, 2).inputs[0]));
}

}  // namespace
}  // namespace evoq
