#include "base/amx.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/isa.h"

namespace evoq {
namespace {

int Permit() { return 0; }
int Deny() { return ENOSPC; }
int NotAsked() {
  ADD_FAILURE() << "asked for what is not there";
  return 0;
}

// Which bits stand for what: Intel's Software Developer's Manual, volume 2, CPUID.
TEST(Amx, IsUsedWhereProcessorAndSystemGiveAllOfIt) {
  constexpr AmxWords kAll = {.features = 1u << 22 | 1u << 24 | 1u << 25,
                             .registers = 1u << 17 | 1u << 18,
                             .palettes = 1,
                             .row_bytes = 64,
                             .tiles = 8,
                             .rows = 16};
  const AmxAnswer all = JudgeAmx(kAll, Permit);
  EXPECT_TRUE(all.usable);
  EXPECT_EQ(all.hindrance, "");
  // A processor without it, or without one of its parts, is no cause for a note.
  for (const int bit : {22, 24, 25}) {
    AmxWords words = kAll;
    words.features &= ~(1u << bit);
    const AmxAnswer answer = JudgeAmx(words, NotAsked);
    EXPECT_FALSE(answer.usable) << bit;
    EXPECT_EQ(answer.hindrance, "") << bit;
  }
  for (const int bit : {17, 18}) {
    AmxWords words = kAll;
    words.registers &= ~(uint64_t{1} << bit);
    const AmxAnswer answer = JudgeAmx(words, NotAsked);
    EXPECT_FALSE(answer.usable) << bit;
    EXPECT_EQ(answer.hindrance, "the system does not keep the registers of its tiles") << bit;
  }
  AmxWords none = kAll;
  none.palettes = none.row_bytes = none.tiles = none.rows = 0;
  EXPECT_FALSE(JudgeAmx(none, NotAsked).usable);
  EXPECT_EQ(JudgeAmx(none, NotAsked).hindrance,
            "the processor announces it with 0 tiles of 0 rows of 0 bytes, expected 8 of 16 of 64");
  AmxWords short_rows = kAll;
  short_rows.row_bytes = 32;
  EXPECT_FALSE(JudgeAmx(short_rows, NotAsked).usable);
  const AmxAnswer denied = JudgeAmx(kAll, Deny);
  EXPECT_FALSE(denied.usable);
  EXPECT_EQ(denied.hindrance,
            "the system refused to let the process use it: No space left on device");
}

// A note says why, unless another set was asked for.
TEST(Amx, Note) {
  const char* const before = std::getenv("EVOQ_TARGET");
  const std::optional<std::string> kept =
      before ? std::optional<std::string>(before) : std::nullopt;
  ::unsetenv("EVOQ_TARGET");
  const std::string& why = AmxHere().hindrance;
  // The best set of the processor's own, which need not be the choice.
  Isa best = Isa::kScalar;
  for (const Isa isa : AllIsas()) {
    if (best == Isa::kScalar && !isa.Has(Isa::kAmxSoftware) && IsaSupported(isa)) best = isa;
  }
  std::vector<std::string> told;
  if (!why.empty()) told.push_back("AMX is not used: " + why);
  if (SelectIsa().value() != best)
    told.push_back(std::string(IsaName(best)) +
                   " is not used: its products take longer than those "
                   "of float32 on this processor");
  EXPECT_EQ(IsaNote(), fmt::format("{}", fmt::join(told, "; ")));
  ::setenv("EVOQ_TARGET", "SCALAR", 1);
  EXPECT_EQ(IsaNote(), "");
  kept ? ::setenv("EVOQ_TARGET", kept->c_str(), 1) : ::unsetenv("EVOQ_TARGET");
}

}  // namespace
}  // namespace evoq
