// Plain text tables with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace evoq {

// Columns named with a leading '>' are right-aligned. Widths follow the content. A cell is one
// line: it is made printable.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> columns);
  void Row(std::vector<std::string> cells);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace evoq
