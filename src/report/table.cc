#include "report/table.h"

#include <algorithm>

#include "base/check.h"
#include "base/printable.h"

namespace evoq {

TextTable::TextTable(std::vector<std::string> columns) {
  for (std::string& c : columns) {
    right_.push_back(!c.empty() && c[0] == '>');
    if (right_.back()) c.erase(0, 1);
  }
  rows_.push_back(std::move(columns));
}

void TextTable::Row(std::vector<std::string> cells) {
  EVOQ_CHECK(cells.size() == right_.size());
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      line += (i ? "  " : "") + (right_[i] ? pad + row[i] : row[i] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace evoq
