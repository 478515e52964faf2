#include "parity/value_names.h"

#include <gtest/gtest.h>

namespace evoq {
namespace {

using Names = std::vector<std::string>;

TEST(ValueNames, EqualNamesComeFirst) {
  // "y_t" is a value of A: that its name ends as a form of y does means nothing.
  EXPECT_EQ(MatchNames(Names{"y", "y_t"}, Names{"y_t", "y"}), (std::vector<int>{1, 0}));
}

TEST(ValueNames, EveryEndingStandsForTheValue) {
  for (const FormEnding& row : AllFormEndings())
    EXPECT_EQ(MatchNames(Names{"x", "y"}, Names{std::string("y") + row.ending}),
              std::vector<int>{1})
        << row.ending;
}

TEST(ValueNames, EndingsPileUp) {
  EXPECT_EQ(MatchNames(Names{"y"}, Names{"y_t.dequantized", "y_QuantizeLinear_Output_t",
                                         "y.quantize_1_t", "y_quantized_2"}),
            (std::vector<int>{0, 0, 0, 0}));
}

TEST(ValueNames, FormsOfOneValueMeet) {
  // A, compiled, has only a form of y itself; the first one counts.
  EXPECT_EQ(MatchNames(Names{"y_t", "y_t.dequantized"}, Names{"y", "y_QuantizeLinear_Output"}),
            (std::vector<int>{0, 0}));
}

TEST(ValueNames, NumbersTellValuesApart) {
  EXPECT_EQ(MatchNames(Names{"y"}, Names{"y_1", "y_t_1"}), (std::vector<int>{-1, 0}));
  EXPECT_EQ(MatchNames(Names{"y"}, Names{"_t", "z", "17", ""}), (std::vector<int>{-1, -1, -1, -1}));
}

}  // namespace
}  // namespace evoq
