// The kernels of transformers beside the operators' definitions, on random sizes: rotary
// embeddings and caches bit for bit, attention within a bound that follows from its roundings.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/math.h"
#include "compile/compile.h"
#include "kernels/attention/attention_inputs.h"
#include "reference/reference.h"
#include "reference/util.h"
#include "runtime/executor.h"

namespace evoq {
namespace {

using Random = std::mt19937;

int64_t Pick(Random& random, std::vector<int64_t> of) { return of[random() % of.size()]; }
bool Chance(Random& random, uint32_t of) { return random() % of == 0; }

Tensor RandomFloats(std::vector<int64_t> sizes, Random& random, float scale = 1) {
  Tensor t = Tensor::Allocate(TensorType(DType::kFloat32, Shape(std::move(sizes))));
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (int64_t i = 0; i < t.elements(); ++i) t.mutable_data<float>()[i] = uniform(random);
  return t;
}

Tensor RandomInts(std::vector<int64_t> sizes, int64_t end, DType dtype, Random& random) {
  std::vector<int64_t> values(static_cast<size_t>(*Shape(sizes).elements()));
  for (int64_t& v : values) v = static_cast<int64_t>(random()) % end;
  if (dtype == DType::kInt64) return Tensor::FromValues<int64_t>(Shape(std::move(sizes)), values);
  return Tensor::FromValues<int32_t>(Shape(std::move(sizes)),
                                     std::vector<int32_t>(values.begin(), values.end()));
}

Tensor RandomBytes(std::vector<int64_t> sizes, Random& random) {
  Tensor t = Tensor::Allocate(TensorType(DType::kInt8, Shape(std::move(sizes))));
  for (int64_t i = 0; i < t.elements(); ++i)
    t.mutable_data<int8_t>()[i] = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
  return t;
}

Tensor As(const Tensor& x, DType dtype) { return FromFloat32(x, dtype).value(); }

// One node: its inputs (undefined where omitted) are the graph's.
struct NodeCase {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
  int outputs = 1;
  std::string kernel, domain;

  std::vector<Tensor> Given() const {
    std::vector<Tensor> given;
    for (const Tensor& t : inputs) {
      if (t.defined()) given.push_back(t);
    }
    return given;
  }
  Graph ToGraph() const {
    Graph graph;
    Node node;
    node.op = op;
    node.domain = domain;
    node.name = "step";
    node.attrs = attrs;
    for (size_t i = 0; i < inputs.size(); ++i)
      node.inputs.push_back(inputs[i].defined()
                                ? graph.AddInput(fmt::format("x{}", i), inputs[i].type())
                                : ValueId{});
    for (int i = 0; i < outputs; ++i) {
      node.outputs.push_back(graph.AddValue(fmt::format("y{}", i)));
      graph.MarkOutput(node.outputs.back());
    }
    graph.AddNode(std::move(node));
    EXPECT_TRUE(graph.Sort());
    const Status inferred = InferTypes(graph);
    EXPECT_TRUE(inferred) << inferred.error().message();
    return graph;
  }
};

std::shared_ptr<const Program> ProgramOf(const Graph& graph) {
  const auto model = PackModel(graph, kReference);
  EXPECT_TRUE(model) << model.error().message();
  auto program = Compile(*model, kReference);
  EXPECT_TRUE(program) << program.error().message();
  return std::make_shared<const Program>(std::move(*program));
}

std::unique_ptr<Executor> ExecutorOf(const std::shared_ptr<const Program>& program, Isa isa,
                                     int threads) {
  auto executor = Executor::Create(program, {.threads = threads, .isa = isa});
  EXPECT_TRUE(executor) << executor.error().message();
  return std::move(*executor);
}

std::vector<Tensor> RunOn(const NodeCase& c, Isa isa, int threads) {
  const auto program = ProgramOf(c.ToGraph());
  EXPECT_EQ(program->steps[0].decision.kernel, c.kernel)
      << (program->steps[0].decision.rejected.empty()
              ? ""
              : program->steps[0].decision.rejected[0].reason.sentence);
  const auto executor = ExecutorOf(program, isa, threads);
  std::vector<Tensor> outputs;
  for (const TensorType& type : executor->output_types()) outputs.push_back(Tensor::Allocate(type));
  const Status ran = executor->Run(c.Given(), outputs);
  EXPECT_TRUE(ran) << ran.error().message();
  return outputs;
}

std::vector<Tensor> Defined(const NodeCase& c) {
  auto wanted = EvaluateGraph(c.ToGraph(), c.Given());
  EXPECT_TRUE(wanted) << wanted.error().message();
  return std::move(*wanted);
}

// Calls body(isa, threads) for all sets of this machine, on one thread and on two.
template <typename Body>
void OnEachIsa(const Body& body) {
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (int threads : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} on {} threads", IsaName(isa), threads));
      body(isa, threads);
    }
  }
}

void ExpectDefinition(const NodeCase& c) {
  const std::vector<Tensor> wanted = Defined(c);
  OnEachIsa([&](Isa isa, int threads) {
    const std::vector<Tensor> got = RunOn(c, isa, threads);
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_TRUE(BitEqual(got[i], wanted[i])) << i;
  });
}

// ---- RotaryEmbedding

TEST(Transformer, RotaryEmbeddingIsItsDefinition) {
  Random random(5);
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    const int64_t batch = Pick(random, {1, 2, 3}), heads = Pick(random, {1, 2, 5}),
                  length = Pick(random, {1, 2, 7, 40}), size = Pick(random, {2, 6, 16, 24, 64, 80});
    const bool flat = Chance(random, 2), placed = !Chance(random, 3);
    const int64_t turned = Chance(random, 3) ? size / 4 * 2 : 0;
    const int64_t half = (turned == 0 ? size : turned) / 2, rows = 50;
    NodeCase c{.op = "RotaryEmbedding", .kernel = "rotary_embedding_f32"};
    c.attrs.Set("interleaved", Chance(random, 2) ? 1 : 0);
    c.attrs.Set("rotary_embedding_dim", turned);
    if (flat) c.attrs.Set("num_heads", heads);
    using Sizes = std::vector<int64_t>;
    const Sizes cache = placed ? Sizes{rows, half} : Sizes{batch, length, half};
    c.inputs = {
        RandomFloats(flat ? Sizes{batch, length, heads * size} : Sizes{batch, heads, length, size},
                     random),
        RandomFloats(cache, random), RandomFloats(cache, random)};
    if (placed)
      c.inputs.push_back(RandomInts({batch, length}, rows,
                                    Chance(random, 2) ? DType::kInt64 : DType::kInt32, random));
    SCOPED_TRACE(fmt::format("batch {} heads {} length {} size {} turned {} flat {} placed {}",
                             batch, heads, length, size, turned, flat, placed));
    ExpectDefinition(c);
  }
}

// ---- TensorScatter

TEST(Transformer, TensorScatterIsItsDefinition) {
  Random random(6);
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    const int64_t batch = Pick(random, {1, 2, 3}), heads = Pick(random, {1, 3}),
                  size = Pick(random, {1, 5, 40}), width = Pick(random, {1, 3, 64}),
                  length = std::min(size, Pick(random, {1, 2, 17}));
    const bool circular = Chance(random, 2), first_axis = Chance(random, 4);
    NodeCase c{.op = "TensorScatter", .kernel = "tensor_scatter"};
    c.attrs.Set("mode", circular ? "circular" : "linear");
    using Sizes = std::vector<int64_t>;
    if (first_axis) c.attrs.Set("axis", 1);
    const auto sizes = [&](int64_t n) {
      return first_axis ? Sizes{batch, n, heads, width} : Sizes{batch, heads, n, width};
    };
    const DType dtype = Chance(random, 2) ? DType::kFloat16 : DType::kFloat32;
    c.inputs = {As(RandomFloats(sizes(size), random), dtype),
                As(RandomFloats(sizes(length), random), dtype)};
    const int64_t end = circular ? size + 1 : size - length + 1;
    if (!Chance(random, 4))
      c.inputs.push_back(
          RandomInts({batch}, end, Chance(random, 2) ? DType::kInt64 : DType::kInt32, random));
    SCOPED_TRACE(fmt::format("batch {} heads {} size {} width {} length {} circular {} axis 1 {}",
                             batch, heads, size, width, length, circular, first_axis));
    ExpectDefinition(c);
  }
}

// What a kernel takes for granted is looked at before it runs.
TEST(Transformer, PlacesOutOfRangeAreErrors) {
  Random random(7);
  const Tensor cache = RandomFloats({1, 2, 8, 4}, random),
               update = RandomFloats({1, 2, 3, 4}, random), caches = RandomFloats({5, 2}, random);
  const auto at = [](int64_t v) { return Tensor::FromValues<int64_t>(Shape{1}, {v}); };
  const auto error = [&](NodeCase c) -> std::string {
    const auto executor = ExecutorOf(ProgramOf(c.ToGraph()), SelectIsa().value(), 1);
    std::vector<Tensor> outputs = {Tensor::Allocate(executor->output_types()[0])};
    const Status ran = executor->Run(c.Given(), outputs);
    return ran ? "" : ran.error().message();
  };
  NodeCase scatter{.op = "TensorScatter", .inputs = {cache, update, at(5)}};
  EXPECT_EQ(error(scatter), "");
  scatter.inputs[2] = at(6);
  EXPECT_EQ(error(scatter),
            "node step (TensorScatter): input 2 (indices): index 6 is outside [0, 6)");
  scatter.attrs.Set("mode", "circular");
  scatter.inputs[2] = at(8);
  EXPECT_EQ(error(scatter), "");
  scatter.inputs[2] = at(-1);
  EXPECT_EQ(error(scatter),
            "node step (TensorScatter): input 2 (indices): index -1 is outside [0, 9)");

  NodeCase rotary{.op = "RotaryEmbedding"};
  rotary.inputs = {RandomFloats({1, 2, 1, 4}, random), caches, caches,
                   Tensor::FromValues<int64_t>(Shape{1, 1}, {5})};
  EXPECT_EQ(error(rotary),
            "node step (RotaryEmbedding): input 3 (indices): index 5 is outside [0, 5)");

  NodeCase attention{.op = "Attention"};
  attention.inputs = {RandomFloats({1, 2, 1, 4}, random), cache, cache, {}, {}, {}, at(8)};
  EXPECT_EQ(error(attention), "");
  attention.inputs[6] = at(9);
  EXPECT_EQ(error(attention),
            "node step (Attention): input 6 (indices): index 9 is outside [0, 9)");
}

// ---- SwiGLU

TEST(Transformer, SwiGluIsItsDefinition) {
  Random random(10);
  for (int64_t size : {1, 15, 511, 512, 513, 2000}) {
    for (float alpha : {1.0f, 1.5f}) {
      NodeCase c{.op = "SwiGLU", .kernel = "swiglu_f32"};
      c.attrs.Set("alpha", alpha);
      c.inputs = {RandomFloats({3, size}, random, 20), RandomFloats({3, size}, random)};
      SCOPED_TRACE(fmt::format("size {} alpha {}", size, alpha));
      ExpectDefinition(c);
    }
  }
}

// ---- Attention

struct Shapes {
  int64_t batch = 1, group = 1, kv_heads = 1, queries = 1, keys = 1, past = 0, size = 1,
          value_size = 1;
  bool flat = false, lengths = false, present = false, causal = false;
  int64_t left = -1, right = -1;
  float softcap = 0, scale = 0;
  int mask = 0;                   // 0: none; 1: bools; 2: a bias
  DType cache = DType::kFloat32;  // of keys and values
  int64_t block = 0;              // of int8 ones
  bool sinks = false;

  std::string ToString() const {
    return fmt::format(
        "batch {} group {} kv heads {} queries {} keys {} past {} size {} values {} flat {} "
        "lengths "
        "{} present {} causal {} left {} right {} softcap {} scale {} mask {} cache {} in blocks "
        "of "
        "{} sinks {}",
        batch, group, kv_heads, queries, keys, past, size, value_size, flat, lengths, present,
        causal, left, right, softcap, scale, mask, DTypeName(cache), block, sinks);
  }
};

Shapes RandomShapes(Random& random) {
  Shapes s;
  s.batch = Pick(random, {1, 1, 2});
  s.group = Pick(random, {1, 2, 3, 7, 8});
  s.kv_heads = Pick(random, {1, 2});
  s.queries = Pick(random, {1, 1, 2, 5, 33, 130});
  s.keys = Pick(random, {1, 3, 63, 64, 65, 130, 600, 1100});
  if (s.queries > 33) s.keys = std::min<int64_t>(s.keys, 130);
  s.past = Chance(random, 3) ? Pick(random, {1, 40, 64, 600}) : 0;
  s.size = Pick(random, {1, 4, 8, 20, 64, 80, 128});
  s.value_size = Chance(random, 3) ? Pick(random, {3, 16, 72}) : s.size;
  s.flat = Chance(random, 3);
  s.cache = Pick(random, {0, 0, 1}) == 0 ? DType::kFloat32 : DType::kFloat16;
  if (s.past == 0 && !s.flat && Chance(random, 2)) {
    s.cache = DType::kInt8;
    s.block = Pick(random, {1, 5, 16, 32});
  }
  s.lengths = s.past == 0 && Chance(random, 2);
  s.present = s.past > 0 && Chance(random, 2);
  s.causal = Chance(random, 2);
  s.left = Chance(random, 4) ? Pick(random, {0, 5, 70}) : -1;
  s.right = Chance(random, 6) ? Pick(random, {0, 5, 70}) : -1;
  s.softcap = Chance(random, 4) ? 2.0f : 0;
  s.scale = Chance(random, 4) ? 0.7f : 0;
  s.mask = static_cast<int>(random() % 3);
  s.sinks = Chance(random, 3);
  return s;
}

// Whether integers are multiplied: rows and blocks of multiples of 16.
bool InIntegers(const Shapes& s) {
  const auto fits = [&](int64_t size) {
    return size % 16 == 0 && std::min(s.block, size) % 16 == 0;
  };
  return s.cache == DType::kInt8 && fits(s.size) && fits(s.value_size);
}

NodeCase CaseOf(const Shapes& s, Random& random) {
  using Sizes = std::vector<int64_t>;
  NodeCase c{.op = "Attention", .kernel = InIntegers(s) ? "attention_int8" : "attention_f32"};
  const int64_t heads = s.group * s.kv_heads, total = s.past + s.keys;
  const auto rows = [&](int64_t count, int64_t length, int64_t size) {
    return s.flat ? Sizes{s.batch, length, count * size} : Sizes{s.batch, count, length, size};
  };
  const auto cache = [&](const Sizes& sizes) {
    if (s.cache == DType::kInt8) return RandomBytes(sizes, random);
    const Tensor t = RandomFloats(sizes, random, 2);
    return s.cache == DType::kFloat16 ? As(t, DType::kFloat16) : t;
  };
  c.inputs = {RandomFloats(rows(heads, s.queries, s.size), random, 2),
              cache(rows(s.kv_heads, s.keys, s.size)),
              cache(rows(s.kv_heads, s.keys, s.value_size)),
              {},
              {},
              {},
              {}};
  if (s.mask > 0) {
    Sizes sizes = {s.batch, heads, s.queries, total};
    for (int d = 0; d < 3; ++d) sizes[d] = Chance(random, 2) ? 1 : sizes[d];
    if (Chance(random, 3)) sizes.erase(sizes.begin());
    if (Chance(random, 4)) sizes.back() = 1 + total / 2;
    Tensor mask = RandomFloats(sizes, random, 3);
    if (s.mask == 2) {
      for (int64_t i = 0; i < mask.elements(); ++i) {
        if (Chance(random, 8)) mask.mutable_data<float>()[i] = -INFINITY;
      }
    } else {
      Tensor bools = Tensor::Allocate(TensorType(DType::kBool, Shape(sizes)));
      for (int64_t i = 0; i < mask.elements(); ++i)
        bools.mutable_data<uint8_t>()[i] = mask.data<float>()[i] > -1;
      mask = bools;
    }
    c.inputs[3] = mask;
  }
  if (s.past > 0) {
    c.inputs[4] = cache({s.batch, s.kv_heads, s.past, s.size});
    c.inputs[5] = cache({s.batch, s.kv_heads, s.past, s.value_size});
  }
  if (s.lengths) c.inputs[6] = RandomInts({s.batch}, s.keys + 1, DType::kInt64, random);
  if (s.cache == DType::kInt8) {
    for (const int64_t size : {s.size, s.value_size}) {
      const Sizes blocks = {s.batch, s.kv_heads, s.keys, CeilDiv(size, s.block)};
      c.inputs.push_back(As(RandomFloats(blocks, random, 2.0f / 127), DType::kFloat16));
    }
    c.attrs.Set("cache_block_size", s.block);
  }
  if (s.sinks) {
    c.inputs.resize(9);
    c.inputs.push_back(RandomFloats({heads}, random, 4));
  }
  if (s.flat) c.attrs.Set("q_num_heads", heads);
  if (s.flat) c.attrs.Set("kv_num_heads", s.kv_heads);
  c.attrs.Set("is_causal", s.causal ? 1 : 0);
  if (s.left >= 0) c.attrs.Set("left_window_size", s.left);
  if (s.right >= 0) c.attrs.Set("right_window_size", s.right);
  if (s.softcap > 0) c.attrs.Set("softcap", s.softcap);
  if (s.scale > 0) c.attrs.Set("scale", s.scale);
  c.outputs = s.present ? 3 : 1;
  return c;
}

// With u = 2^-24, a score errs by at most (size + 8) u times its largest value, |q| |k| scale
// summed, with its bias; a weight, relatively, by twice that; the sum of weights and the weighed
// sum by as many roundings as there are keys in a block and blocks. Where integers are multiplied,
// an element of a query errs by half a step, of 32767 to the largest one, and so does each weight
// of a block, the largest of which is 1.
double BoundOf(const Shapes& s) {
  constexpr double kUnit = 0x1p-24, kLargest = 2;
  const double scale = s.scale > 0 ? s.scale : 1 / std::sqrt(static_cast<double>(s.size));
  const double score = scale * kLargest * kLargest * static_cast<double>(s.size) + 3;
  const double keys = static_cast<double>(s.past + s.keys);
  const double floats =
      (2 * static_cast<double>(s.size + 8) * score + 80 + 3 * keys / 64) * kUnit * kLargest;
  return floats + (InIntegers(s) ? (2 * score + 64) / (2 * 32767.0) * kLargest : 0);
}

double RootMeanSquare(const Tensor& got, const Tensor& wanted) {
  double sum = 0;
  for (int64_t i = 0; i < got.elements(); ++i)
    sum += std::pow(double{got.data<float>()[i]} - double{wanted.data<float>()[i]}, 2);
  return std::sqrt(sum / static_cast<double>(std::max<int64_t>(got.elements(), 1)));
}

TEST(Transformer, AttentionIsItsDefinitionWithinABound) {
  Random random(8);
  for (int i = 0; i < 200 && !testing::Test::HasFatalFailure(); ++i) {
    const Shapes s = RandomShapes(random);
    SCOPED_TRACE(s.ToString());
    const NodeCase c = CaseOf(s, random);
    const std::vector<Tensor> wanted = Defined(c);
    const double bound = BoundOf(s);
    Tensor alone, fused;  // on one thread; by fused multiply-adds
    OnEachIsa([&](Isa isa, int threads) {
      const std::vector<Tensor> got = RunOn(c, isa, threads);
      for (int64_t k = 0; k < got[0].elements(); ++k)
        ASSERT_NEAR(got[0].data<float>()[k], wanted[0].data<float>()[k], bound) << k;
      if (InIntegers(s)) EXPECT_LT(RootMeanSquare(got[0], wanted[0]), 1e-4);
      for (size_t o = 1; o < got.size(); ++o) ASSERT_TRUE(BitEqual(got[o], wanted[o])) << o;
      if (threads > 1) ASSERT_TRUE(BitEqual(got[0], alone));
      alone = got[0];
      if (isa == Isa::kScalar) return;
      if (fused.defined()) ASSERT_TRUE(BitEqual(got[0], fused));
      fused = got[0];
    });
  }
}

// ---- DynamicQuantizeBlocks

// Rows with everything that a quantizer must bear.
Tensor HardRows(int64_t rows, int64_t size, Random& random) {
  Tensor x = RandomFloats({rows, size}, random, 3);
  const float hard[] = {NAN, INFINITY, -INFINITY, 1e-30f, -3e-7f, 9e6f, -0.0f, 127, 63.5f};
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 60) - 40);
    for (int64_t i = 0; i < size; ++i) {
      float& v = x.mutable_data<float>()[row * size + i];
      v = row % 5 == 0 ? 0.0f : v * scale;
      if (row % 3 == 1 && Chance(random, 6)) v = hard[random() % std::size(hard)];
    }
  }
  return x;
}

TEST(Transformer, RowsAreQuantizedByTheirDefinition) {
  Random random(12);
  for (const int64_t size : {1, 3, 16, 40, 64, 100}) {
    for (const int64_t block : {1, 7, 16, 32, 1000}) {
      SCOPED_TRACE(fmt::format("rows of {} in blocks of {}", size, block));
      NodeCase c{.op = "DynamicQuantizeBlocks", .kernel = "quantize_blocks", .domain = "evoq"};
      c.attrs.Set("block_size", block);
      c.inputs = {HardRows(30, size, random)};
      c.outputs = 2;
      ExpectDefinition(c);
    }
  }
}

// Nothing leaves the range, and nothing errs by more than half a step but where all steps are
// float16's smallest, or its largest is too small.
TEST(Transformer, QuantizedRowsErrByHalfAStep) {
  Random random(13);
  NodeCase c{.op = "DynamicQuantizeBlocks", .domain = "evoq"};
  c.attrs.Set("block_size", 32);
  for (const float scale : {1e-3f, 0.02f, 1.0f, 500.0f, 8e6f}) {
    c.inputs = {RandomFloats({20, 64}, random, scale)};
    c.outputs = 2;
    const std::vector<Tensor> got = Defined(c);
    for (int64_t i = 0; i < 20 * 64; ++i) {
      const float x = c.inputs[0].data<float>()[i],
                  step = HalfToFloat(got[1].data<uint16_t>()[i / 32]);
      const int q = got[0].data<int8_t>()[i];
      EXPECT_LE(std::abs(q), 127);
      EXPECT_LE(std::fabs(x - static_cast<float>(q) * step), step * 0.50001f) << x;
      EXPECT_LE(step, scale / 127 * 1.001f + 0x1p-24f);
    }
  }
}

// A sequence's results are its own: what else is in the batch, and what lies in its cache behind
// its length, changes nothing.
TEST(Transformer, AttentionOfASequenceIsItsOwn) {
  Random random(9);
  const int64_t heads = 4, kv_heads = 2, keys = 1100, size = 16, length = 700;
  for (const auto& [queries, cache] : {std::pair<int64_t, DType>{1, DType::kFloat32},
                                       {3, DType::kFloat32},
                                       {150, DType::kFloat32},
                                       {1, DType::kInt8},
                                       {3, DType::kInt8},
                                       {150, DType::kInt8}}) {
    Shapes shapes{.group = heads / kv_heads,
                  .kv_heads = kv_heads,
                  .queries = queries,
                  .keys = keys,
                  .size = size,
                  .value_size = size,
                  .lengths = true,
                  .causal = true,
                  .cache = cache,
                  .block = cache == DType::kInt8 ? 16 : 0};
    NodeCase one = CaseOf(shapes, random);
    shapes.batch = 2;
    NodeCase two = CaseOf(shapes, random);
    one.inputs[kLengths].mutable_data<int64_t>()[0] = length;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      if (one.inputs[i].defined())
        std::memcpy(two.inputs[i].mutable_raw() + one.inputs[i].bytes(), one.inputs[i].raw(),
                    one.inputs[i].bytes());
    }
    // Garbage behind its length, NaN where that is a number.
    for (const size_t i : {kK, kV, kKeyScale, kValueScale}) {
      if (i >= two.inputs.size() || !two.inputs[i].defined()) continue;
      Tensor& t = two.inputs[i];
      const int64_t row = static_cast<int64_t>(t.bytes()) / (2 * kv_heads * keys);
      for (int64_t h = kv_heads; h < 2 * kv_heads; ++h)
        std::memset(t.mutable_raw() + (h * keys + length) * row, 0xff,
                    static_cast<size_t>((keys - length) * row));
    }
    OnEachIsa([&](Isa isa, int threads) {
      const Tensor in_batch = RunOn(two, isa, threads)[0], alone = RunOn(one, isa, threads)[0];
      EXPECT_EQ(std::memcmp(in_batch.raw() + alone.bytes(), alone.raw(), alone.bytes()), 0)
          << queries << " " << DTypeName(cache);
    });
  }
}

TEST(Transformer, AttentionInIntegersOfAnyNumberOfBlocks) {
  Random random(11);
  for (const auto& [size, block] : {std::pair<int64_t, int64_t>{16, 32},
                                    {64, 64},
                                    {64, 32},
                                    {80, 32},
                                    {96, 32},
                                    {80, 16},
                                    {160, 32},
                                    {256, 32}}) {
    const Shapes shapes{.group = 2,
                        .kv_heads = 2,
                        .queries = 3,
                        .keys = 90,
                        .size = size,
                        .value_size = size,
                        .lengths = true,
                        .causal = true,
                        .cache = DType::kInt8,
                        .block = block};
    NodeCase c = CaseOf(shapes, random);
    c.inputs[kLengths].mutable_data<int64_t>()[0] = 89;
    const Tensor wanted = Defined(c)[0];
    OnEachIsa([&](Isa isa, int threads) {
      EXPECT_LT(RootMeanSquare(RunOn(c, isa, threads)[0], wanted), 1e-4) << size << " " << block;
    });
  }
}

// What is not a number in a query or a scale stays in the rows and elements that meet it; a query
// of zeros weighs all keys alike.
TEST(Transformer, AttentionInIntegersOfWhatIsNoNumber) {
  Random random(10);
  const Shapes shapes{.group = 3,
                      .queries = 2,
                      .keys = 70,
                      .size = 32,
                      .value_size = 32,
                      .cache = DType::kInt8,
                      .block = 16};
  const NodeCase plain = CaseOf(shapes, random);
  const auto finite = [](const Tensor& y) {
    std::vector<bool> of(static_cast<size_t>(y.elements()));
    for (size_t i = 0; i < of.size(); ++i) of[i] = std::isfinite(y.data<float>()[i]);
    return of;
  };
  OnEachIsa([&](Isa isa, int threads) {
    const Tensor y = RunOn(plain, isa, threads)[0];
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      NodeCase c = plain;
      c.inputs[kQ] = plain.inputs[kQ].Clone();
      c.inputs[kQ].mutable_data<float>()[32 + 5] = bad;  // of row 1
      const Tensor got = RunOn(c, isa, threads)[0];
      for (int64_t i = 0; i < got.elements(); ++i) {
        if (i / 32 == 1) {
          EXPECT_TRUE(std::isnan(got.data<float>()[i])) << bad;
        } else {
          EXPECT_EQ(got.data<float>()[i], y.data<float>()[i]) << i;
        }
      }
      c = plain;
      c.inputs[kValueScale] = plain.inputs[kValueScale].Clone();
      c.inputs[kValueScale].mutable_data<uint16_t>()[2 * 40 + 1] = FloatToHalf(bad);
      const std::vector<bool> left = finite(RunOn(c, isa, threads)[0]);
      for (size_t i = 0; i < left.size(); ++i) EXPECT_EQ(left[i], i % 32 < 16) << bad << " " << i;
    }
    NodeCase zeros = plain;
    zeros.inputs[kQ] = Tensor::Allocate(plain.inputs[kQ].type());
    std::memset(zeros.inputs[kQ].mutable_raw(), 0, zeros.inputs[kQ].bytes());
    const Tensor got = RunOn(zeros, isa, threads)[0], wanted = Defined(zeros)[0];
    for (int64_t i = 0; i < got.elements(); ++i)
      EXPECT_NEAR(got.data<float>()[i], wanted.data<float>()[i], 1e-4) << i;
  });
}

// A query over a cache gives the same bits whether others come with it or not: alone, in a piece of
// a prompt, or in all of it.
TEST(Transformer, AttentionOverACacheIsThatOfItsPieces) {
  Random random(14);
  constexpr int64_t kKeys = 1300, kQueries = 150, kBefore = 960, kKvHeads = 2;
  struct Case {
    int64_t group, size;
    DType cache;
    int64_t left;
    float softcap;
  };
  for (const Case& s : {Case{7, 64, DType::kFloat32, -1, 0}, Case{2, 80, DType::kFloat16, -1, 0},
                        Case{1, 32, DType::kInt8, -1, 3}, Case{7, 64, DType::kInt8, -1, 0},
                        Case{4, 128, DType::kInt8, 400, 0}, Case{4, 20, DType::kFloat32, -1, 0},
                        Case{3, 16, DType::kFloat16, 400, 0}}) {
    const Shapes shapes{.group = s.group,
                        .kv_heads = kKvHeads,
                        .queries = kQueries,
                        .keys = kKeys,
                        .size = s.size,
                        .value_size = s.size,
                        .lengths = true,
                        .causal = true,
                        .left = s.left,
                        .softcap = s.softcap,
                        .cache = s.cache,
                        .block = s.cache == DType::kInt8 ? 32 : 0};
    SCOPED_TRACE(shapes.ToString());
    NodeCase all = CaseOf(shapes, random);
    all.inputs[kLengths].mutable_data<int64_t>()[0] = kBefore + kQueries;
    const int64_t heads = s.group * kKvHeads;
    OnEachIsa([&](Isa isa, int threads) {
      const Tensor whole = RunOn(all, isa, threads)[0];
      for (const auto& [first, count] :
           {std::pair<int64_t, int64_t>{0, 1}, {149, 1}, {63, 2}, {64, 5}, {40, 70}}) {
        NodeCase piece = all;
        piece.inputs[kQ] =
            Tensor::Allocate(TensorType(DType::kFloat32, Shape{int64_t{1}, heads, count, s.size}));
        piece.inputs[kLengths] = Tensor::Allocate(TensorType(DType::kInt64, Shape{int64_t{1}}));
        piece.inputs[kLengths].mutable_data<int64_t>()[0] = kBefore + first + count;
        for (int64_t h = 0; h < heads; ++h)
          std::copy_n(all.inputs[kQ].data<float>() + (h * kQueries + first) * s.size,
                      count * s.size, piece.inputs[kQ].mutable_data<float>() + h * count * s.size);
        const Tensor got = RunOn(piece, isa, threads)[0];
        for (int64_t h = 0; h < heads; ++h)
          EXPECT_EQ(std::memcmp(got.data<float>() + h * count * s.size,
                                whole.data<float>() + (h * kQueries + first) * s.size,
                                static_cast<size_t>(count * s.size) * sizeof(float)),
                    0)
              << "head " << h << ", " << count << " queries from " << first << " on";
      }
    });
  }
}

// ---- a cache in place

// Scatters an update into a cache, and attends to it.
constexpr char kStep[] = R"(input %q: float32[1, 2, 1, 4]
input %cache: float32[1, 1, 8, 4]
input %update: float32[1, 1, 1, 4]
input %at: int64[1]
input %length: int64[1]
scatter: %present: float32[1, 1, 8, 4] = TensorScatter(%cache, %update, %at)
attend: %y: float32[1, 2, 1, 4] = Attention(%q, %present, %present, _, _, _, %length)
output %y
output %present
)";

// The step's inputs and outputs; the cache's bytes stand between marks.
TEST(Transformer, ACacheIsExtendedInPlace) {
  auto graph = ParseGraph(kStep);
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(InferTypes(*graph));
  const auto program = ProgramOf(*graph);
  OnEachIsa([&](Isa isa, int threads) {
    const auto executor = ExecutorOf(program, isa, threads);
    EXPECT_EQ(executor->shared_input(0), -1);
    EXPECT_EQ(executor->shared_input(1), 1);
    Random random(3);
    std::vector<Tensor> inputs = {
        RandomFloats({1, 2, 1, 4}, random), RandomFloats({1, 1, 8, 4}, random),
        RandomFloats({1, 1, 1, 4}, random), Tensor::FromValues<int64_t>(Shape{1}, {5}),
        Tensor::FromValues<int64_t>(Shape{1}, {6})};
    const Tensor before = inputs[1].Clone();
    std::vector<Tensor> apart;
    for (const TensorType& type : executor->output_types()) apart.push_back(Tensor::Allocate(type));
    ASSERT_TRUE(executor->Run(inputs, apart));
    EXPECT_TRUE(BitEqual(inputs[1], before)) << "an output of its own leaves the cache alone";
    std::vector<Tensor> shared = {Tensor::Allocate(apart[0].type()), inputs[1]};
    ASSERT_TRUE(executor->Run(inputs, shared));
    EXPECT_EQ(shared[1].raw(), inputs[1].raw());
    EXPECT_TRUE(BitEqual(shared[0], apart[0]));
    EXPECT_TRUE(BitEqual(inputs[1], apart[1]));
    // RunOn too, and again: nothing but row 5 is written.
    std::vector<float> cache(32);
    for (size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<float>(i);
    std::vector<const std::byte*> in;
    for (const Tensor& t : inputs) in.push_back(t.raw());
    in[1] = reinterpret_cast<const std::byte*>(cache.data());
    std::vector<std::byte*> out = {shared[0].mutable_raw(),
                                   reinterpret_cast<std::byte*>(cache.data())};
    ASSERT_TRUE(executor->RunOn(in, out));
    for (size_t i = 0; i < cache.size(); ++i) {
      const float want = i / 4 == 5 ? inputs[2].data<float>()[i % 4] : static_cast<float>(i);
      EXPECT_EQ(cache[i], want) << i;
    }
  });
}

TEST(Transformer, OnlySuchAnOutputTakesAnInputsPlace) {
  const auto shared_of = [](const char* text) {
    auto graph = ParseGraph(text);
    EXPECT_TRUE(graph) << graph.error().message();
    EXPECT_TRUE(InferTypes(*graph));
    return ExecutorOf(ProgramOf(*graph), SelectIsa().value(), 1);
  };
  // The cache is read again, after the step.
  const auto later = shared_of(R"(input %cache: float32[1, 8, 4]
input %update: float32[1, 1, 4]
scatter: %present: float32[1, 8, 4] = TensorScatter(%cache, %update)
again: %sum: float32[1, 8, 4] = Add(%cache, %present)
output %present
output %sum
)");
  EXPECT_EQ(later->shared_input(0), -1);
  EXPECT_EQ(later->shared_input(1), 0) << "element by element, and nothing reads it after that";
  std::vector<Tensor> inputs, outputs;
  for (const TensorType& type : later->input_types()) inputs.push_back(Tensor::Allocate(type));
  for (const TensorType& type : later->output_types()) outputs.push_back(Tensor::Allocate(type));
  ASSERT_TRUE(later->Run(inputs, outputs));
  outputs[0] = inputs[0];
  Status ran = later->Run(inputs, outputs);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message(),
            "output present lies in the memory of input cache, which it cannot take the place of");
  outputs[0] = outputs[1];
  ran = later->Run(inputs, outputs);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message(), "outputs present and sum lie in the same memory");
  // The update is the cache itself.
  const auto twice = shared_of(R"(input %cache: float32[1, 8, 4]
scatter: %present: float32[1, 8, 4] = TensorScatter(%cache, %cache)
output %present
)");
  EXPECT_EQ(twice->shared_input(0), -1);
  // A step that does not write in place.
  const auto moved = shared_of(R"(input %x: float32[4, 4]
turn: %y: float32[4, 4] = Transpose{perm=[1, 0]}(%x)
output %y
)");
  EXPECT_EQ(moved->shared_input(0), -1);
}

}  // namespace
}  // namespace evoq
