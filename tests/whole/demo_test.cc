// The demo from its command line, and the digits that it draws.
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/digits.h"
#include "cli/verb.h"
#include "tests/whole/models.h"

namespace evoq {
namespace {

TEST(Digits, SameSeedSameDigits) {
  const Digits a = DrawDigits(20, 3), b = DrawDigits(20, 3), c = DrawDigits(20, 4);
  EXPECT_TRUE(BitEqual(a.images, b.images));
  EXPECT_TRUE(BitEqual(a.labels, b.labels));
  EXPECT_FALSE(BitEqual(a.images, c.images));
  double ink = 0;
  for (float v : a.images.values<float>()) {
    ASSERT_GE(v, 0);
    ASSERT_LE(v, 1);
    ink += v;
  }
  EXPECT_GT(ink / static_cast<double>(a.images.elements()), 0.05);
}

TEST(Demo, QuantizesWithoutLosingAccuracy) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("evoq_demo_{}", ::getpid());
  const std::string out = folder.string(), report = out + ".json";
  const char* const arguments[] = {"evoq",      "demo",   "--quick",     "-o",
                                   out.c_str(), "--json", report.c_str()};
  ASSERT_EQ(RunCommandLine(7, arguments), 0);
  std::ifstream file(report);
  const nlohmann::json result = nlohmann::json::parse(file);
  const nlohmann::json& digits = result["models"][0];
  EXPECT_GT(digits["float_top1"].get<double>(), 0.95);
  EXPECT_GT(digits["int8_top1"].get<double>(), digits["float_top1"].get<double>() - 0.01);
  EXPECT_LT(digits["int8_bytes"].get<int64_t>() * 3, digits["float_bytes"].get<int64_t>());
  EXPECT_TRUE(std::filesystem::exists(folder / "digits.etm"));
  std::filesystem::remove_all(folder);
  std::filesystem::remove(report);
}

}  // namespace
}  // namespace evoq
