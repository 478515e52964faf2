// Every family of kernels serves every named set of features by code for that set, or says here why
// by that of another one. On this machine or not: choosing a table runs none of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/core_kind.h"
#include "kernels/attention/attention_int8.h"
#include "kernels/bf16/bf16.h"
#include "kernels/conv/winograd_f32_tile.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/logic.h"
#include "kernels/gemm/blocks/product.h"
#include "kernels/gemm/blocks/tiles.h"
#include "kernels/gemm/curves_f32.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/gemm_f64.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/int8_winograd.h"
#include "kernels/gemm/pair_int8.h"
#include "kernels/gemm/weights/formats.h"
#include "kernels/isa_table.h"
#include "kernels/math/unary_loops.h"
#include "kernels/move/move.h"
#include "kernels/norm/norm.h"
#include "kernels/pool/pool.h"
#include "kernels/quantize/half.h"
#include "kernels/quantize/quantize.h"
#include "kernels/resize/resize.h"

namespace evoq {
namespace {

struct Family {
  std::string rows;  // the name of the array
  std::vector<Isa> needs;
  std::vector<const void*> tables;

  // The row that a machine with `isa` takes.
  size_t RowOf(Isa isa) const {
    size_t i = 0;
    while (i + 1 < needs.size() && !isa.Has(needs[i])) ++i;
    return i;
  }
};

template <typename Table>
Family Of(std::string name, std::span<const IsaRow<Table>> rows) {
  Family family{std::move(name), {}, {}};
  for (const IsaRow<Table>& row : rows) {
    family.needs.push_back(row.needs);
    family.tables.push_back(row.table);
  }
  return family;
}

template <typename Table, size_t kCount>
Family Of(const char* name, const IsaRow<Table> (&rows)[kCount]) {
  Family family = Of(name, std::span<const IsaRow<Table>>(rows));
  for (Isa isa : AllIsas())
    EXPECT_EQ(RowFor(rows, isa).table, family.tables[family.RowOf(isa)]) << name;
  return family;
}

std::vector<Family> Families() {
#define EVOQ_FAMILY(rows) Of(#rows, rows)
  std::vector<Family> families = {EVOQ_FAMILY(HalfTableRows),
                                  EVOQ_FAMILY(QuantizeTableRows),
                                  EVOQ_FAMILY(UnaryTableRows),
                                  EVOQ_FAMILY(ResizeTableRows),
                                  EVOQ_FAMILY(CurveTableRows),
                                  EVOQ_FAMILY(PairTableRows),
                                  EVOQ_FAMILY(DwTableRows),
                                  EVOQ_FAMILY(DwBf16TableRows),
                                  EVOQ_FAMILY(NormTableRows),
                                  EVOQ_FAMILY(Bf16TableRows),
                                  EVOQ_FAMILY(WinogradTableRows),
                                  EVOQ_FAMILY(MoveTableRows),
                                  EVOQ_FAMILY(PoolTableRows),
                                  EVOQ_FAMILY(BinaryTableRows),
                                  EVOQ_FAMILY(LogicTableRows),
                                  EVOQ_FAMILY(kInt8TileRows),
                                  EVOQ_FAMILY(kGemmRowsF32),
                                  EVOQ_FAMILY(kGemmRowsBf16),
                                  EVOQ_FAMILY(kPairLayoutRows),
                                  EVOQ_FAMILY(kInt8WinogradRows),
                                  EVOQ_FAMILY(GemmTableF64Rows),
                                  EVOQ_FAMILY(AttentionTableRows),
                                  EVOQ_FAMILY(AttentionInt8TableRows),
                                  EVOQ_FAMILY(kBlockRows),
                                  EVOQ_FAMILY(kBlockTilesRows)};
#undef EVOQ_FAMILY
  for (WeightFormatRows rows : AllWeightFormats()) {
    families.push_back(Of(std::string("weights ") + rows[0].table->name, rows));
    for (Isa isa : AllIsas())
      EXPECT_EQ(&FormatFor(rows, isa), families.back().tables[families.back().RowOf(isa)]);
  }
  return families;
}

// Sets that add products of one type, better ones first: of families without such products they are
// served like the set that they extend.
struct Extension {
  Isa isa, extends;
  std::vector<std::string> families;  // that have a row for it
};
#if defined(__x86_64__)
const Extension kExtensions[] = {
    {Isa::kAmx, Isa::kAvx512Bf16, {"kInt8TileRows", "kGemmRowsBf16", "kBlockTilesRows"}},
    {Isa::kAmxSoftware, Isa::kAvx512, {"kInt8TileRows", "kGemmRowsBf16", "kBlockTilesRows"}},
    {Isa::kAvx512Bf16, Isa::kAvx512, {"kGemmRowsBf16"}},
    {Isa::kAvx2Vnni, Isa::kAvx2, {"kInt8TileRows", "kInt8WinogradRows", "kBlockRows"}},
    {Isa::kAvx2VnniEvex, Isa::kAvx2, {"kInt8TileRows", "kInt8WinogradRows", "kBlockRows"}},
};
#else
// What is compiled for SCALAR is vectorized there.
const Extension kExtensions[] = {
    {Isa::kNeonBf16, Isa::kNeonI8mm, {"kGemmRowsBf16"}},
    {Isa::kNeonI8mm, Isa::kNeonDot, {"kInt8TileRows"}},
    {Isa::kNeonDot, Isa::kNeon, {"kInt8TileRows", "DwTableRows"}},
    {Isa::kNeon, Isa::kScalar, {"kGemmRowsF32"}},
};
#endif

TEST(Families, ServeEveryNamedSet) {
  for (const Family& family : Families()) {
    EXPECT_EQ(family.needs.back(), Isa::kScalar) << family.rows << " leaves machines out";
    for (Isa isa : AllIsas()) {
      const size_t row = family.RowOf(isa);
      Isa expected = isa;
      for (const Extension& e : kExtensions) {
        const bool has =
            std::find(e.families.begin(), e.families.end(), family.rows) != e.families.end();
        if (expected == e.isa && !has) expected = e.extends;
      }
      EXPECT_EQ(family.needs[row], expected)
          << family.rows << " serves " << IsaName(isa) << " by " << IsaName(family.needs[row]);
      if (family.rows == "kInt8WinogradRows" || family.rows == "kBlockTilesRows")
        continue;  // leave machines to other products
      EXPECT_NE(family.tables[row], nullptr) << family.rows;
    }
    // Better rows first: no row hides behind one whose needs are part of its own.
    for (size_t i = 0; i < family.needs.size(); ++i) {
      for (size_t j = i + 1; j < family.needs.size(); ++j)
        EXPECT_FALSE(family.needs[j].Has(family.needs[i])) << family.rows << " row " << j;
    }
  }
}

// A machine with a feature that no row knows takes what its other features give.
TEST(Families, UnknownFeaturesChangeNothing) {
  for (const Family& family : Families()) {
    for (Isa isa : AllIsas())
      EXPECT_EQ(family.RowOf(Isa{isa.features | 1u << 30}), family.RowOf(isa)) << family.rows;
  }
}

// Each named set but plain C++ is there because a kernel needs it.
TEST(Families, EveryNamedSetIsNeeded) {
  for (Isa isa : AllIsas()) {
    bool needed = false;
    for (const Family& family : Families()) {
      for (Isa needs : family.needs) needed |= needs == isa;
    }
    EXPECT_TRUE(needed) << IsaName(isa);
  }
}

// All families of the sources are listed above.
TEST(Families, AllAreListed) {
  std::vector<std::string> listed;
  for (const Family& family : Families()) {
    if (!family.rows.starts_with("weights ")) listed.push_back(family.rows);  // of formats.inc
  }
  const std::regex declared(R"(EVOQ_ISA_TABLE\((\w+)\)|IsaRow<\w+>\s+(\w+)\[\])");
  int found = 0;
  namespace fs = std::filesystem;
  for (const auto& entry : fs::recursive_directory_iterator(EVOQ_SOURCE_DIR "/src/kernels")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".h") || name == "isa_table.h") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string content = text.str();
    for (std::sregex_iterator it(content.begin(), content.end(), declared), end; it != end; ++it) {
      const std::string rows = (*it)[1].matched ? (*it)[1].str() + "Rows" : (*it)[2].str();
      EXPECT_NE(std::find(listed.begin(), listed.end(), rows), listed.end())
          << entry.path() << " declares " << rows;
      ++found;
    }
  }
  EXPECT_EQ(found, static_cast<int>(listed.size()));
}

// What a program's cuts go by is the same on every machine.
TEST(CpuModel, HereDiffersInWhatSuitsTheCoresOnly) {
  EXPECT_TRUE(CpuModelHere() == CpuModelOf(CoreKind()));
  const struct {
    const char* kind;
    bool asks_ahead, one_set_of_ports;
  } rows[] = {{"Intel family 6 model 207", true, true}, {"AMD family 26 model 2", true, false},
              {"AMD family 25 model 17", false, false}, {"x86 family 7 model 91", false, false},
              {"Arm 0x41 0xd40", false, false},         {"unknown", false, false}};
  for (const auto& row : rows) {
    CpuModel model = CpuModelOf(row.kind);
    EXPECT_EQ(model.asks_ahead, row.asks_ahead) << row.kind;
    EXPECT_EQ(model.one_set_of_ports, row.one_set_of_ports) << row.kind;
    model.asks_ahead = model.one_set_of_ports = false;
    EXPECT_TRUE(model == kCpuModel) << row.kind;
  }
}

}  // namespace
}  // namespace evoq
