// TensorRT's calibration cache: a line "TRT-VERSION-ALGORITHM", then "tensor: HEX" with the scale's
// bits as a float32, without leading zeros. Names may hold colons and blanks: the last ": "
// divides.
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "encodings/table.h"

namespace evoq {
namespace {

constexpr std::string_view kMagic = "TRT-";
constexpr size_t kMaxShown = 80;

bool Is(std::string_view bytes) { return bytes.starts_with(kMagic); }

// The next line, which is taken off the text.
std::string_view NextLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Result<TableEntry> ParseLine(std::string_view line) {
  const size_t colon = line.rfind(": ");
  const std::string_view hex =
      colon == std::string_view::npos ? std::string_view() : line.substr(colon + 2);
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  if (hex.empty() || colon == 0 || error != std::errc() || end != hex.data() + hex.size())
    return InvalidInput("\"{}\", expected \"tensor: HEX\" with the 32 bits of a scale",
                        line.substr(0, kMaxShown));
  const auto scale = __builtin_bit_cast(float, bits);
  if (std::isnan(scale) || std::signbit(scale))
    return InvalidInput("the scale of {} is {}, expected a number of at least 0",
                        line.substr(0, colon), scale);
  return TableEntry{std::string(line.substr(0, colon)), -127 * scale, 127 * scale, scale};
}

Result<CalibrationTable> Parse(std::string_view bytes) {
  CalibrationTable table;
  table.header = NextLine(bytes);
  for (int number = 2; !bytes.empty(); ++number) {
    const std::string_view line = NextLine(bytes);
    if (line.empty()) continue;
    EVOQ_ASSIGN(TableEntry entry, WithContext(ParseLine(line), fmt::format("line {}", number)));
    table.entries.push_back(std::move(entry));
  }
  return table;
}

}  // namespace

Result<std::string> CalibrationCacheText(const CalibrationTable& table) {
  std::string text = table.header + "\n";
  for (const TableEntry& entry : table.entries) {
    if (entry.tensor.empty() || entry.tensor.find('\n') != std::string::npos)
      return Unsupported(
          "a calibration cache has no line for \"{}\": its name is empty or has a "
          "line break",
          entry.tensor);
    text += fmt::format("{}: {:x}\n", entry.tensor,
                        __builtin_bit_cast(uint32_t, entry.scale.value_or(0)));
  }
  return text;
}

extern const TableFormat kTableTensorRt = {
    .name = "TensorRT's calibration cache",
    .doc = "the scale of int8 of each tensor",
    .is = Is,
    .parse = Parse,
};

}  // namespace evoq
