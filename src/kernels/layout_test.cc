// Every packed layout: documented, and its inverse.
#include "kernels/layout.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace evoq {
namespace {

TEST(Layouts, EachStandsInItsPage) {
  std::ifstream file(std::string(EVOQ_SOURCE_DIR) + "/docs/layouts.md");
  std::stringstream page;
  page << file.rdbuf();
  ASSERT_FALSE(AllLayouts().empty());
  for (const LayoutDef* layout : AllLayouts()) {
    EXPECT_NE(page.str().find("`" + std::string(layout->name) + "`"), std::string::npos) << layout->name;
    EXPECT_NE(page.str().find(layout->formula), std::string::npos) << layout->name << ": " << layout->formula;
    EXPECT_EQ(FindLayout(layout->name), layout);
  }
}

}  // namespace
}  // namespace evoq
