// What holds of every row of formats.inc: its fields agree with each other, it packs and unpacks
// without loss and within its bytes, and its code for each instruction set makes the same float32
// values of the weights as the definition. matmul_w8_test.cc tests the products.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/math.h"
#include "kernels/gemm/weights/format_testing.h"

namespace evoq {
namespace {

constexpr int64_t kDepths[] = {0, 1, 2, 3, 31, 32, 33, 64, 97};
constexpr int64_t kColumns[] = {0, 1, 15, 16, 17, 33};

TEST(WeightFormats, RowsAgree) {
  std::stringstream page;
  page << std::ifstream(EVOQ_SOURCE_DIR "/docs/layouts.md").rdbuf();
  std::set<std::string> names, layouts;
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& f = *rows.back().table;
    EXPECT_TRUE(names.insert(f.name).second) << f.name << " twice";
    EXPECT_TRUE(layouts.insert(f.layout).second) << f.layout << " twice";
    std::string types = DTypeName(f.dtypes[0]);
    if (f.dtypes[1] != DType::kUndefined) types += fmt::format(", {}", DTypeName(f.dtypes[1]));
    const std::string line = fmt::format("| `{}` | `{}` | {} |", f.name, f.layout, types);
    EXPECT_NE(page.str().find(line), std::string::npos) << "docs/layouts.md lacks " << line;
    const LayoutDef* layout = FindLayout(f.layout);
    ASSERT_NE(layout, nullptr) << f.layout;
    EXPECT_STREQ(layout->formula, f.formula);
    EXPECT_NE(f.dtypes[0], DType::kUndefined) << f.name;
    for (DType dtype : f.dtypes)
      EXPECT_TRUE(dtype == DType::kUndefined || DTypeBits(dtype) == f.bits) << f.name;
    EXPECT_GE(f.block, 1);
    // The same in each instruction set, but for the code.
    for (const auto& row : rows) {
      const WeightFormat& other = *row.table;
      EXPECT_STREQ(other.name, f.name);
      EXPECT_STREQ(other.layout, f.layout);
      EXPECT_EQ(other.bits, f.bits);
      EXPECT_EQ(other.block, f.block);
      EXPECT_EQ(other.zeros, f.zeros);
      EXPECT_EQ(other.panel_bytes(97), f.panel_bytes(97));
      EXPECT_TRUE(&other == &f || other.dot != f.dot) << f.name << " has no code of its own";
    }
    // A panel takes its elements' bits, and no more than three bytes of its last group else.
    for (int64_t depth : kDepths) {
      const int64_t least = CeilDiv(depth * kWeightColumns * f.bits, int64_t{8});
      EXPECT_GE(f.panel_bytes(depth), least) << f.name;
      EXPECT_LE(f.panel_bytes(depth), least + 3 * kWeightColumns) << f.name;
    }
  }
}

TEST(WeightFormats, RoundTrip) {
  std::mt19937 random(1);
  for (const WeightKind& kind : AllWeightKinds()) {
    for (int64_t k : kDepths) {
      for (int64_t n : kColumns) {
        if (k * n == 0 && kind.scales != WeightKind::kTensor) continue;
        const Tensor plain = WeightsOf(kind.Type(k, n, random), Elements::kRandom, random);
        const std::string name = fmt::format("{} {} x {}", kind.Name(), k, n);
        const auto packed = PackWeights(plain);
        ASSERT_TRUE(packed && packed->defined()) << name;
        EXPECT_EQ(packed->layout(), kind.format->layout) << name;
        EXPECT_EQ(packed->bytes(),
                  CeilDiv(n, int64_t{kWeightColumns}) * kind.format->panel_bytes(k));
        EXPECT_TRUE(BitEqual(plain, *ToPlain(*packed))) << name;
        EXPECT_FALSE(PackWeights(*packed)->defined()) << "packed twice";
      }
    }
    if (kind.scales != WeightKind::kTensor) continue;
    const Tensor none = Tensor::Allocate(kind.Type(int64_t{1} << 50, 0, random));
    EXPECT_TRUE(BitEqual(none, *ToPlain(*PackWeights(none)))) << kind.Name();
  }
}

// Equal on every instruction set, and nothing written beside it.
TEST(WeightFormats, RealValues) {
  std::mt19937 random(2);
  for (const WeightKind& kind : AllWeightKinds()) {
    for (int64_t k : kDepths) {
      for (int64_t n : {1, 16, 17}) {
        for (Elements elements : {Elements::kRandom, Elements::kLowest, Elements::kHighest}) {
          if (k == 0 && kind.scales == WeightKind::kBlocks) continue;
          const Tensor plain = WeightsOf(kind.Type(k, n, random), elements, random);
          const Tensor expected = ToFloat32(plain).value();
          for (Isa isa : AllIsas()) {
            if (!IsaSupported(isa)) continue;
            const BoundWeights bound = BindWeights(plain, isa).value();
            const WeightPanels panels = bound.panels();
            constexpr float kGuard = 12345;
            for (int64_t panel = 0; panel * kWeightColumns < n; ++panel) {
              std::vector<float> b(static_cast<size_t>(k * kWeightColumns) + 32, kGuard);
              bound.format->real(panels, panel, b.data() + 16);
              for (int64_t i = -16; i < k * kWeightColumns + 16; ++i) {
                const int64_t row = i / kWeightColumns,
                              column = panel * kWeightColumns + i % kWeightColumns;
                const bool inside = i >= 0 && row < k;
                const float want = !inside      ? kGuard
                                   : column < n ? expected.data<float>()[row * n + column]
                                                : 0;
                ASSERT_EQ(b[static_cast<size_t>(i + 16)], want) << fmt::format(
                    "{} {} x {}: b[{}, {}] on {}", kind.Name(), k, n, row, column, IsaName(isa));
              }
            }
          }
        }
      }
    }
  }
}

// Blocks that would cut a group of elements, and zero points that the row does not allow.
TEST(WeightFormats, ScalesThatARowRefuses) {
  std::mt19937 random(5);
  for (WeightFormatRows rows : AllWeightFormats()) {
    const WeightFormat& f = *rows.back().table;
    const auto refused = [&](WeightKind::Scales scales, int64_t block, bool zeros) {
      const WeightKind kind{&f, f.dtypes[0], scales, block, zeros};
      const auto why = RejectWeightScales(kind.Type(4 * f.block * f.block, 16, random));
      EXPECT_EQ(FindWeightFormat(kind.Type(4 * f.block, 16, random)).empty(), why.has_value());
      return why ? why->sentence : "";
    };
    EXPECT_EQ(refused(WeightKind::kBlocks, f.block, false), "") << f.name;
    const std::string cut =
        fmt::format("blocks of {}, expected a multiple of {}", f.block + 1, f.block);
    EXPECT_EQ(refused(WeightKind::kBlocks, f.block + 1, false), f.block == 1 ? "" : cut) << f.name;
    EXPECT_EQ(refused(WeightKind::kColumns, 1, true),
              f.zeros == WeightZeros::kNone ? "columns with zero points" : "");
    EXPECT_EQ(refused(WeightKind::kBlocks, f.block, true),
              f.zeros == WeightZeros::kBlocks ? "" : "blocks with zero points");
  }
}

TEST(WeightFormats, WhatNoneStores) {
  const auto type = [](DType dtype, Shape shape, QuantParams quant) {
    return TensorType(dtype, std::move(shape), std::move(quant));
  };
  const QuantParams rows{{1, 1}, {0, 0}, 0, 0}, one = QuantParams::PerTensor(1, 0);
  EXPECT_FALSE(FindWeightFormat(type(DType::kInt8, {2, 3}, one)).empty());
  EXPECT_TRUE(FindWeightFormat(type(DType::kInt8, {2, 3}, rows)).empty()) << "scales along K";
  EXPECT_TRUE(FindWeightFormat(type(DType::kInt8, {2, 3, 1}, one)).empty());
  EXPECT_TRUE(FindWeightFormat(type(DType::kInt16, {2, 3}, one)).empty());
  EXPECT_TRUE(FindWeightFormat(TensorType(DType::kInt8, Shape{2, 3})).empty());
  std::mt19937 random(3);
  const Tensor f = Tensor::FromValues<float>(Shape{1, 1}, {1});
  EXPECT_FALSE(PackWeights(f)->defined());
  EXPECT_EQ(BindWeights(f, Isa::kScalar).error().message(), "no format of float32[1, 1]");
  const Tensor other = Tensor::Packed(type(DType::kInt8, {1, 16}, one), "k1n16-matmul-f32",
                                      std::vector<std::byte>(16));
  EXPECT_EQ(BindWeights(other, Isa::kScalar).error().message(),
            "weights have layout 'k1n16-matmul-f32', expected k1n16-matmul-w8");
  const Tensor cut = Tensor::Packed(type(DType::kInt8, {1, 16}, one), "k1n16-matmul-w8",
                                    std::vector<std::byte>(15));
  EXPECT_EQ(BindWeights(cut, Isa::kScalar).error().message(),
            "layout k1n16-matmul-w8 of int8[1, 16](scale 1, zero 0): 15 bytes, expected 16");
  QuantParams few{{1}, {0}, 1, 0};
  EXPECT_EQ(BindWeights(Tensor::Allocate(type(DType::kInt8, {1, 16}, few)), Isa::kScalar)
                .error()
                .message(),
            "1 scales for 1 blocks of 16 columns");
}

}  // namespace
}  // namespace evoq
