// calibration.cache of ONNX Runtime's write_calibration_table: lines "tensor NUMBER", the number
// being the largest magnitude.
#include "base/text.h"
#include "encodings/tables/magnitude.h"

namespace evoq {
namespace {

// Lines of text whose first ends with a number.
bool Is(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t blank = line.rfind(' ');
  return blank != std::string_view::npos && blank > 0 && blank + 1 < line.size() &&
         (line[blank + 1] == '-' || line[blank + 1] == '.' ||
          (line[blank + 1] >= '0' && line[blank + 1] <= '9'));
}

Result<CalibrationTable> Parse(std::string_view bytes) {
  CalibrationTable table;
  for (int number = 1; !bytes.empty(); ++number) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t blank = line.rfind(' ');
    if (blank == std::string_view::npos || blank == 0)
      return InvalidInput("line {}: \"{}\", expected \"tensor NUMBER\"", number,
                          line.substr(0, 80));
    EVOQ_ASSIGN(TableEntry entry, WithContext(EntryOfMagnitude(std::string(line.substr(0, blank)),
                                                               std::string(line.substr(blank + 1))),
                                              fmt::format("line {}", number)));
    table.entries.push_back(std::move(entry));
  }
  return table;
}

}  // namespace

extern const TableFormat kTableOrtText = {
    .name = "ONNX Runtime's calibration table as text",
    .doc = "the largest magnitude of each tensor",
    .is = Is,
    .parse = Parse,
};

}  // namespace evoq
