// Operators on strings, where characters take several bytes.
#include "reference/test_node.h"

namespace evoq {
namespace {

std::vector<std::string> Normalized(const std::string& action,
                                    const std::vector<std::string>& texts) {
  const auto count = static_cast<int64_t>(texts.size());
  const Tensor y = Eval("StringNormalizer", {Make<std::string>(Shape{count}, texts)},
                        With({{"case_change_action", action}}));
  return {y.data<std::string>(), y.data<std::string>() + y.elements()};
}

// Of 1, 2, 3 and 4 bytes; U+0250 takes 2 bytes and its capital, U+2C6F, 3.
TEST(StringNormalizer, CharactersOfEachLength) {
  const std::vector<std::string> small = {"az", "\u00e9\u0436", "\uff5a", "\U00010428", "\u0250"};
  const std::vector<std::string> large = {"AZ", "\u00c9\u0416", "\uff3a", "\U00010400", "\u2c6f"};
  EXPECT_EQ(Normalized("UPPER", small), large);
  EXPECT_EQ(Normalized("LOWER", large), small);
  EXPECT_EQ(Normalized("NONE", large), large);
}

TEST(StringNormalizer, CharactersWithoutCaseAndBytesThatAreNone) {
  const std::vector<std::string> texts = {"1\u00df\u4e2d\U0001f600", "\xff\xc3", "\xe9"};
  EXPECT_EQ(Normalized("UPPER", texts), texts);
  EXPECT_EQ(Normalized("LOWER", texts), texts);
}

}  // namespace
}  // namespace evoq
