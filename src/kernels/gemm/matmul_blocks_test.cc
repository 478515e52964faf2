#include "kernels/amx/software.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/scale_steps_testing.h"
#include "kernels/gemm/blocks/tiles.h"
#include "kernels/gemm/blocks/weights.h"
#include "kernels/gemm/linear_f32_testing.h"
#include "kernels/gemm/weights/format_testing.h"

namespace evoq {
extern const KernelDef kMatMulBlocks;
namespace {

// Weights as integers, and what 1 of them stands for beside a scale.
struct Integers {
  std::vector<int64_t> q;
  float unit;
};

Integers IntegersOf(const Tensor& b) {
  const Tensor real = ToFloat32(b.WithType(TensorType(b.dtype(), b.shape()))).value();
  Integers w = {{}, IsInteger(b.dtype()) ? 1 : 0.5f};
  for (float v : real.values<float>()) w.q.push_back(std::llround(v / w.unit));
  return w;
}

// block_data.h word by word, for one element without bias, residual and activation.
float Element(const LinearCaseF32& c, const Integers& w, int64_t m, int64_t n, float v) {
  const Tensor &x = c.inputs[0], &b = c.inputs[1];
  const QuantParams& quant = *b.type().quant;
  const int64_t depth = b.sizes()[0], columns = b.sizes()[1],
                data_block = c.attrs.Int(kDataBlock, 0),
                weight_block = quant.block == 0 ? depth : quant.block;
  std::vector<int8_t> q(static_cast<size_t>(depth));
  for (int64_t d = 0; d < depth; d += data_block) {
    const int64_t data_end = std::min(depth, d + data_block);
    const float scale = QuantizeBlock(x.data<float>() + m * depth + d, data_end - d, q.data() + d);
    float t = 0;
    for (int64_t k = d; k < data_end;) {
      const int64_t end = std::min(data_end, (k / weight_block + 1) * weight_block);
      const int64_t at = quant.per_tensor() ? 0
                         : quant.block == 0 ? n
                                            : k / weight_block * columns + n;
      int32_t sum = 0;
      const bool first = k == d;
      for (; k < end; ++k)
        sum += q[k] * static_cast<int32_t>(w.q[k * columns + n] - quant.zero_points[at]);
      const auto real = static_cast<float>(sum);
      const float s = quant.scales[at] * w.unit;
      t = first ? real * s : std::fma(real, s, t);
    }
    v = std::fma(scale, t, v);
  }
  return v;
}

LinearCaseF32 MakeCase(int64_t m, const Tensor& b, int64_t data_block, std::mt19937& random) {
  const int64_t k = b.sizes()[0], n = b.sizes()[1];
  LinearCaseF32 c;
  c.kernel = &kMatMulBlocks;
  c.name = fmt::format("{} x {} x {}, {}, data in blocks of {}", m, k, n, b.type().ToString(),
                       data_block);
  c.attrs.Set(kDataBlock, data_block);
  c.inputs = {RandomF32(Shape{m, k}, random), b,
              random() % 2 == 0 ? RandomF32(Shape{n}, random) : Tensor(),
              random() % 3 == 0 ? RandomF32(Shape{m, n}, random) : Tensor()};
  c.constant = {false, true, false, false};
  c.output = TensorType(DType::kFloat32, Shape{m, n});
  return c;
}

std::vector<float> Expected(const LinearCaseF32& c) {
  const Tensor& b = c.inputs[1];
  const Integers w = IntegersOf(b);
  const int64_t n = b.sizes()[1];
  std::vector<float> y;
  for (int64_t i = 0; i < *c.output.shape.elements(); ++i) {
    float v = Element(c, w, i / n, i % n,
                      c.inputs[2].defined() ? c.inputs[2].data<float>()[i % n] : 0.0f);
    if (c.inputs[3].defined()) v += c.inputs[3].data<float>()[i];
    y.push_back(v);
  }
  return y;
}

// Every instruction set, kind of cores and number of threads gives the bits of the definition.
void Check(const LinearCaseF32& c) {
  const std::vector<float> expected = Expected(c);
  CpuModel other = *c.cpu;
  other.asks_ahead = !other.asks_ahead;
  other.one_set_of_ports = !other.one_set_of_ports;
  LinearCaseF32 otherwise = c;
  otherwise.cpu = &other;
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    for (const auto& [of, threads] :
         {std::pair(&c, 1), {&c, 3}, {&otherwise, 1}, {&otherwise, 3}}) {
      const std::vector<float> y = RunLinearF32(*of, isa, threads);
      ASSERT_EQ(y.size(), expected.size());
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected[i]))
            << c.name << " on " << IsaName(isa) << ", " << threads << " threads, element " << i
            << ": " << y[i] << ", expected " << expected[i];
    }
  }
}

// The scales of `kind` as float16 numbers, which are read as such.
TensorType HalfScales(const TensorType& type) {
  QuantParams quant = *type.quant;
  for (float& scale : quant.scales) scale = HalfToFloat(FloatToHalf(scale));
  return TensorType(type.dtype, type.shape, quant);
}

// The formats and element types that RejectBlocks lets pass.
std::vector<std::pair<const WeightFormat*, DType>> KindsOfBlocks() {
  std::vector<std::pair<const WeightFormat*, DType>> kinds;
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat* format = rows.back().table;
    for (DType dtype : format->dtypes) {
      const TensorType type(dtype, Shape{32, 16}, QuantParams::PerTensor(1, 0));
      if (!RejectBlocks(type, 32)) kinds.emplace_back(format, dtype);
    }
  }
  EXPECT_EQ(kinds.size(), 7);
  return kinds;
}

// Every kind of weights and cut of K, in shapes around the sizes of tiles, panels and lines.
TEST(MatMulBlocks, EqualsItsDefinition) {
  std::mt19937 random(1);
  constexpr int64_t kRows[] = {1, 2, 5, 6, 7, 12, 13, 20}, kDepths[] = {1, 31, 32, 64, 77, 200},
                    kColumns[] = {1, 15, 16, 17, 32, 40, 65},
                    kBlocks[][2] = {{32, 32}, {64, 64},  {8, 8},    {128, 32}, {32, 128}, {0, 32},
                                    {0, 256}, {32, 256}, {256, 32}, {0, 8},    {16, 160}, {24, 72}};
  int round = 0;
  for (const auto& [weight_block, data_block] : kBlocks) {
    for (const auto& [format, dtype] : KindsOfBlocks()) {
      // A line of 2 bits has 16 k.
      if (format->bits == 2 && (weight_block % 16 != 0 || data_block % 16 != 0)) continue;
      for (bool zeros : {false, true}) {
        if (zeros && format->zeros == WeightZeros::kNone) continue;
        for (int i = 0; i < 4 && !testing::Test::HasFatalFailure(); ++i, ++round) {
          const auto scales = weight_block != 0   ? WeightKind::kBlocks
                              : random() % 2 == 0 ? WeightKind::kColumns
                                                  : WeightKind::kTensor;
          const WeightKind kind = {format, dtype, scales, weight_block == 0 ? 1 : weight_block,
                                   zeros};
          TensorType type = kind.Type(kDepths[random() % 6], kColumns[random() % 7], random);
          if (i % 2 == 0) type = HalfScales(type);
          const auto elements = i == 2   ? Elements::kLowest
                                : i == 3 ? Elements::kHighest
                                         : Elements::kRandom;
          Check(MakeCase(kRows[round % 8], WeightsOf(type, elements, random), data_block, random));
        }
      }
    }
  }
}

// Tall tiles of all heights, of lines as they lie and of those that are unpacked for many rows, and
// of blocks of the data that hold one block of the weights, several, or a part of one.
TEST(MatMulBlocks, ManyRows) {
  std::mt19937 random(6);
  constexpr int64_t kBlocks[][2] = {{32, 32}, {32, 128}, {64, 32}, {0, 64}, {48, 96}};
  int round = 0;
  for (const auto& [format, dtype] : KindsOfBlocks()) {
    for (const auto& [block, data_block] : kBlocks) {
      const WeightKind kind = {format, dtype,
                               block == 0 ? WeightKind::kColumns : WeightKind::kBlocks,
                               std::max<int64_t>(block, 1), format->zeros == WeightZeros::kBlocks};
      for (int64_t rows : {8, 9, 10, 11, 15, 17, 24, 25, 28, 29, 33, 37, 39, 42, 45, 84}) {
        ++round;
        TensorType type = kind.Type(round % 2 == 0 ? 77 : 260, round % 3 == 0 ? 17 : 50, random);
        if (round % 5 < 3) type = HalfScales(type);
        Check(MakeCase(rows, WeightsOf(type, Elements::kRandom, random), data_block, random));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Scales that are multiples of steps: sums of integers over all blocks that share one, and products
// of bytes that multiples are in, are the bits of the definition. K ends within a block, a line,
// and a step's blocks; data in blocks of one step, of a part of it, and of several.
TEST(MatMulBlocks, Steps) {
  std::mt19937 random(12);
  int round = 0;
  for (const int64_t data_block : {128, 32, 64, 96, 256, 16}) {
    for (const int64_t rows : {1, 2, 3, 6, 7, 12, 13, 25, 33, 65, 131}) {
      for (const int64_t depth : {30, 77, 128, 301, 512}) {
        if (data_block != 128 && depth == 512) continue;
        const auto elements = ++round % 5 == 0 ? Elements::kLowest
                              : round % 5 == 1 ? Elements::kHighest
                                               : Elements::kRandom;
        const TensorType type = TypeWithSteps(depth, std::array{17, 50, 300}[round % 3], random);
        LinearCaseF32 c = MakeCase(rows, WeightsOf(type, elements, random), data_block, random);
        if (elements != Elements::kRandom) {
          for (int64_t i = 0; i < rows * depth; ++i)
            c.inputs[0].mutable_data<float>()[i] = i % depth % 3 == 0 && i > depth ? -1.0f : 1.0f;
        }
        Check(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Units that are multiplied in groups, of as many as there may be, with a last one of fewer
// columns: rows of tiles and of parts for several threads meet each of them once.
TEST(MatMulBlocks, GroupsOfUnits) {
  std::mt19937 random(9);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  int round = 0;
  for (const auto& [columns, depth] : {std::pair<int64_t, int64_t>{293, 96}, {900, 40}}) {
    for (const int64_t data_block : {32, 96}) {
      for (const int64_t rows : {26, 43, 100}) {
        const WeightKind kind = {int4, DType::kUint4, WeightKind::kBlocks, 32, ++round % 2 == 0};
        const TensorType type = kind.Type(depth, columns, random);
        LinearCaseF32 c =
            MakeCase(rows, WeightsOf(type, Elements::kRandom, random), data_block, random);
        Check(c);
        if (HasFatalFailure()) return;
        const std::vector<float> plain = RunLinearF32(c, SelectIsa().value(), 1);
        c.attrs.Set("activation", "Relu");
        const std::vector<float> y = RunLinearF32(c, SelectIsa().value(), 2);
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(y[i], std::max(plain[i], 0.0f)) << c.name << ", element " << i;
      }
    }
  }
}

// How a product of so many rows of the data is bound.
KernelPlan PlanOf(const Tensor& w, int64_t rows, int64_t data_block, Isa isa,
                  bool one_set_of_ports) {
  std::mt19937 random(8);
  CpuModel cpu = CpuModelHere();
  cpu.one_set_of_ports = one_set_of_ports;
  const LinearCaseF32 c = MakeCase(rows, w, data_block, random);
  const std::vector<TensorType> types = {c.inputs[0].type(), w.type(), TensorType(), TensorType()};
  const std::vector<const Tensor*> constants = {nullptr, &w, nullptr, nullptr};
  const KernelCall call{"MatMul", c.attrs, types, {&c.output, 1}, constants};
  return kMatMulBlocks.bind(call, {isa, 1, "", &cpu})->plan;
}

bool HasTiles(Isa isa) { return RowFor(kBlockTilesRows, isa).table != nullptr; }

// Many rows take AMX's tiles, of weights that signed bytes hold in blocks that tiles divide.
TEST(MatMulBlocks, ManyRowsTakeTiles) {
  std::mt19937 random(8);
  const WeightFormat *int8 = AllWeightFormats()[0].back().table,
                     *int4 = AllWeightFormats()[1].back().table;
  const auto weights = [&](const WeightFormat* format, DType dtype, int64_t block, bool zeros) {
    return WeightsOf(
        WeightKind{format, dtype, WeightKind::kBlocks, block, zeros}.Type(192, 40, random),
        Elements::kRandom, random);
  };
  const Tensor steps = WeightsOf(TypeWithSteps(256, 40, random), Elements::kRandom, random);
  for (const Isa isa : AllIsas()) {
    if (!IsaSupported(isa) || !HasTiles(isa)) continue;
    const auto plan = [&](const Tensor& w, int64_t rows, int64_t data_block) {
      const KernelPlan bound = PlanOf(w, rows, data_block, isa, false);
      return fmt::format("{} {}x{} {}", bound.code, bound.tile_rows, bound.tile_columns,
                         bound.method);
    };
    const std::string name = RowFor(kBlockTilesRows, isa).table->name;
    const std::string tiles = name + " 128x32 ";
    const Tensor w = weights(int4, DType::kInt4, 32, false);
    EXPECT_EQ(plan(w, 16, 32), tiles + "unpacking");
    EXPECT_FALSE(plan(w, 15, 32).starts_with(name));
    EXPECT_EQ(plan(steps, 16, 128), tiles + "steps");
    EXPECT_EQ(plan(steps, 16, 32), tiles + "unpacking");
    EXPECT_EQ(plan(weights(int4, DType::kUint4, 64, true), 40, 64), tiles + "unpacking");
    EXPECT_EQ(plan(weights(int8, DType::kInt8, 32, false), 40, 32), tiles + "unpacking");
    EXPECT_FALSE(plan(weights(int8, DType::kInt8, 32, true), 40, 32).starts_with(name));
    EXPECT_FALSE(plan(weights(int4, DType::kInt4, 16, false), 40, 16).starts_with(name));
    EXPECT_FALSE(plan(weights(int4, DType::kInt4, 96, false), 40, 96).starts_with(name));
  }
}

#if defined(__x86_64__)
// They multiply: counted on the software's, a product of 16 rows by 16 columns by a step along K.
TEST(MatMulBlocks, TilesMultiply) {
  if (!IsaSupported(Isa::kAmxSoftware)) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(9);
  const Tensor w = WeightsOf(TypeWithSteps(256, 40, random), Elements::kRandom, random);
  const LinearCaseF32 c = MakeCase(33, w, 128, random);
  const AmxCounts before = AmxSoftwareCounts();
  RunLinearF32(c, Isa::kAmxSoftware, 1);
  const AmxCounts after = AmxSoftwareCounts();
  EXPECT_EQ(after.products - before.products, 3 * 4 * 4);
  EXPECT_EQ(after.configurations - before.configurations, after.releases - before.releases);
}
#endif

// Where everything waits for the same ports (CpuModel::one_set_of_ports) more rows than a tile has
// take tall ones, and more than two of these unpack.
TEST(MatMulBlocks, CutsRowsBySizeAndCores) {
  std::mt19937 random(8);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  const WeightKind kind = {int4, DType::kInt4, WeightKind::kBlocks, 32, false};
  const Tensor w = WeightsOf(kind.Type(96, 40, random), Elements::kRandom, random);
  for (const Isa isa : AllIsas()) {
    if (!IsaSupported(isa) || HasTiles(isa)) continue;
    const BlockTable& table = *RowFor(kBlockRows, isa).table;
    const auto plan = [&](int64_t rows, bool one_set_of_ports, int64_t data_block = 32) {
      const KernelPlan bound = PlanOf(w, rows, data_block, isa, one_set_of_ports);
      return fmt::format("{} {}", bound.tile_rows, bound.method);
    };
    const auto tiles = [](int rows, bool unpacks = false) {
      return fmt::format("{} {}", rows, unpacks ? "unpacking" : "");
    };
    const int direct = table.tall_direct_rows;
    EXPECT_EQ(plan(table.max_rows, true), tiles(table.max_rows));
    EXPECT_EQ(plan(100, false), tiles(table.max_rows, table.direct_rows < 100));
    if (direct == 0) continue;
    EXPECT_EQ(plan(table.max_rows + 1, true), tiles(direct));
    EXPECT_EQ(plan(2 * direct, true), tiles(direct));
    EXPECT_EQ(plan(2 * direct + 1, true), tiles(table.tall_rows, true));
    EXPECT_EQ(plan(2 * direct + 1, true, 64), tiles(table.nested_rows, true));
    EXPECT_EQ(plan(table.max_rows + 1, false), tiles(table.max_rows));
  }
}

// Multiples are in the bytes that many rows unpack, where blocks of the data are those of steps.
TEST(MatMulBlocks, UnpacksSteps) {
  std::mt19937 random(13);
  const Tensor w = WeightsOf(TypeWithSteps(256, 40, random), Elements::kRandom, random);
  for (const Isa isa : AllIsas()) {
    if (!IsaSupported(isa) || HasTiles(isa)) continue;
    const BlockTable& table = *RowFor(kBlockRows, isa).table;
    const auto method = [&](int64_t rows, int64_t data_block, bool one_set_of_ports) {
      return PlanOf(w, rows, data_block, isa, one_set_of_ports).method;
    };
    const bool can = table.unpack_steps != nullptr;
    EXPECT_EQ(can, isa != Isa::kAvx2) << IsaName(isa);
    EXPECT_EQ(method(200, 128, false), can ? "steps" : "") << IsaName(isa);
    EXPECT_NE(method(200, 32, false), "steps");
    EXPECT_NE(method(200, 256, false), "steps");
    EXPECT_NE(method(table.max_rows, 128, false), "steps");
    if (table.tall_rows == 0) continue;
    EXPECT_EQ(method(2 * table.tall_direct_rows + 1, 128, true), "steps");
    EXPECT_NE(method(2 * table.tall_direct_rows, 128, true), "steps");
  }
}

// Sums of the largest products: numbers and data at the ends of their ranges throughout.
TEST(MatMulBlocks, LargestProducts) {
  std::mt19937 random(7);
  constexpr int64_t kColumns = 40;
  for (const auto& [format, dtype] : KindsOfBlocks()) {
    for (const bool zeros : {false, true}) {
      if (zeros && format->zeros == WeightZeros::kNone) continue;
      for (const auto elements : {Elements::kLowest, Elements::kHighest}) {
        for (const auto& [depth, block] :
             {std::pair<int64_t, int64_t>{96, 32}, {160, 80}, {512, 256}, {640, 320}}) {
          const WeightKind kind = {format, dtype, WeightKind::kBlocks, block, zeros};
          const TensorType type = kind.Type(depth, kColumns, random);
          for (const int64_t rows : {6, 12}) {
            LinearCaseF32 c = MakeCase(rows, WeightsOf(type, elements, random), block, random);
            // Rows of 127, of -127, and of both in pairs and in turn.
            float* x = c.inputs[0].mutable_data<float>();
            for (int64_t m = 0; m < rows; ++m) {
              for (int64_t k = 0; k < depth; ++k)
                x[m * depth + k] = m == 0 || (m > 1 && k >> (m - 2) & 1) ? 1.0f : -1.0f;
            }
            Check(c);
          }
        }
      }
    }
  }
}

// Data that rounds to the ends of int8, to nothing, or is no number.
TEST(MatMulBlocks, ExtremeData) {
  std::mt19937 random(2);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  const WeightKind kind = {int4, DType::kUint4, WeightKind::kBlocks, 32, false};
  for (const auto& [depth, data_block] : {std::pair<int64_t, int64_t>{96, 32}, {400, 128}}) {
    const Tensor w = WeightsOf(kind.Type(depth, 20, random), Elements::kHighest, random);
    LinearCaseF32 c = MakeCase(14, w, data_block, random);
    c.inputs[2] = c.inputs[3] = Tensor();
    float* x = c.inputs[0].mutable_data<float>();
    const float values[] = {1, -1, 0, 1e-38f, 0x1p-100f, 3e38f, 0.5f / 127};
    for (int64_t i = 0; i < 7 * depth; ++i) x[i] = values[i / depth];
    for (int64_t i = 0; i < depth; ++i) x[7 * depth + i] = i % 2 == 0 ? 1.0f : 2.5f / 127;  // a tie
    x[8 * depth + 40] = INFINITY;
    Check(c);
    const std::vector<float> y = RunLinearF32(c, Isa::kScalar, 1);
    EXPECT_EQ(y[2 * 20], 0.0f);
    EXPECT_TRUE(std::isnan(y[8 * 20]));
    EXPECT_FALSE(std::isnan(y[9 * 20]));
  }
  int8_t q[3];
  const float block[] = {2.5f, 127.0f, -0.5f};
  EXPECT_EQ(QuantizeBlock(block, 3, q), 1.0f);
  EXPECT_EQ(std::vector<int8_t>(q, q + 3), (std::vector<int8_t>{2, 127, 0}));
}

// Rows of more blocks of data than are rounded at a time, in tiles of different heights.
TEST(MatMulBlocks, LongRows) {
  std::mt19937 random(10);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  for (const bool zeros : {false, true}) {
    const WeightKind kind = {int4, DType::kUint4, WeightKind::kBlocks, 32, zeros};
    for (const int64_t rows : {1, 7, 29}) {
      const TensorType type = kind.Type(33 * 128 + 45, 35, random);
      Check(MakeCase(rows, WeightsOf(type, Elements::kRandom, random), 128, random));
    }
  }
}

// A row's result does not depend on the rows beside it.
TEST(MatMulBlocks, RowsAreAlone) {
  std::mt19937 random(3);
  const WeightFormat* int4 = AllWeightFormats()[1].back().table;
  const WeightKind kind = {int4, DType::kInt4, WeightKind::kBlocks, 32, true};
  const Tensor w = WeightsOf(kind.Type(160, 50, random), Elements::kRandom, random);
  LinearCaseF32 all = MakeCase(31, w, 32, random);
  all.inputs[3] = Tensor();
  ActivationToAttrs({ActivationKind::kSilu}, all.attrs);
  for (Isa isa : AllIsas()) {
    if (!IsaSupported(isa)) continue;
    const std::vector<float> y = RunLinearF32(all, isa, 2);
    for (int64_t m : {0, 17, 30}) {
      LinearCaseF32 one = all;
      one.inputs[0] = Tensor::FromValues<float>(
          Shape{1, 160}, std::vector<float>(all.inputs[0].data<float>() + m * 160,
                                            all.inputs[0].data<float>() + (m + 1) * 160));
      one.output = TensorType(DType::kFloat32, Shape{1, 50});
      EXPECT_EQ(RunLinearF32(one, isa, 1),
                std::vector<float>(y.begin() + m * 50, y.begin() + (m + 1) * 50))
          << IsaName(isa);
    }
  }
}

TEST(MatMulBlocks, RejectsWithAReason) {
  std::mt19937 random(4);
  const auto why = [&](const TensorType& type, int64_t data_block) {
    const auto reason = RejectBlocks(type, data_block);
    return reason ? reason->code + ": " + reason->sentence : "";
  };
  const auto type = [&](int64_t block, DType dtype = DType::kInt4) {
    const WeightFormat* int4 = AllWeightFormats()[1].back().table;
    return WeightKind{int4, dtype, WeightKind::kBlocks, block, false}.Type(256, 16, random);
  };
  EXPECT_EQ(why(type(32), 32), "");
  EXPECT_EQ(why(type(32), int64_t{1} << 62), "");
  EXPECT_EQ(why(type(12), 12),
            "attribute: data in blocks of 12 by weights in blocks of 12, expected multiples of "
            "each other and of 8, up to 65536");
  EXPECT_NE(why(type(32), 48), "");
  EXPECT_NE(why(type(64), 40), "");
  EXPECT_EQ(why(type(8), 8), "");
  EXPECT_EQ(why(type(16, DType::kInt2), 16), "");
  EXPECT_EQ(why(type(8, DType::kInt2), 8),
            "attribute: data in blocks of 8 by weights in blocks of 8, expected multiples of each "
            "other and of 16, up to 65536");
  EXPECT_EQ(why(TensorType(DType::kFloat32, Shape{64, 4}), 32),
            "types: b is float32[64, 4], expected quantized integers of 2, 4 or 8 bits or "
            "float4e2m1");
  QuantParams quant;
  quant.scales.assign(200000, 1.0f), quant.zero_points.assign(200000, 0);
  quant.scales.resize(2), quant.zero_points.resize(2), quant.axis = 1;
  EXPECT_NE(why(TensorType(DType::kInt8, Shape{65544, 2}, quant), 65544), "");
  EXPECT_EQ(why(TensorType(DType::kInt8, Shape{65536, 2}, quant), 65536), "");
  quant.axis = 0;
  EXPECT_NE(why(TensorType(DType::kInt8, Shape{2, 2}, quant), 32), "");
  // Packed for something else, which is packed again, or cut short.
  const Tensor w = WeightsOf(type(32), Elements::kRandom, random);
  EXPECT_TRUE(BindBlocks(PackWeights(w).value(), 32));
  const Tensor packed = PackBlocks(w).value();
  EXPECT_TRUE(BindBlocks(packed, 32));
  std::vector<std::byte> bytes(packed.raw(), packed.raw() + packed.bytes() - 64);
  EXPECT_FALSE(BindBlocks(Tensor::Packed(w.type(), packed.layout(), bytes), 32));
}

}  // namespace
}  // namespace evoq
