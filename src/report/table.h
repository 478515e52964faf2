// Plain text tables with aligned columns, and figures in them.
#pragma once

#include <string>
#include <vector>

namespace evoq {

// Columns named with a leading '>' are right-aligned. Widths follow the content.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> columns);
  void Row(std::vector<std::string> cells);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

// Milliseconds with at least four significant digits, so that the ratio of two of them is that of what is shown: "43.417", "0.01230".
std::string MsText(double ms);

}  // namespace evoq
