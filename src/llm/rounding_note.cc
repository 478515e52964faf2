#include "llm/rounding_note.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace evoq {
namespace {

constexpr std::string_view kRounded = " rounded to int8, 32 to a scale, which moves it by ",
                           kPercent = "% (RMS)";

}  // namespace

std::string RoundingNote(const RoundedTensor& tensor) {
  return fmt::format("{}: {}{}{:.2f}{}", tensor.name, tensor.format, kRounded, 100 * tensor.share,
                     kPercent);
}

std::optional<std::string> RoundedSentence(const Graph& graph) {
  const auto notes = graph.metadata.find("llm.notes");
  if (notes == graph.metadata.end()) return std::nullopt;
  std::map<std::string, int, std::less<>> formats;
  double most = 0;
  std::string_view rest = notes->second;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t rounded = line.find(kRounded);
    if (rounded == line.npos || !line.ends_with(kPercent)) continue;
    const size_t format = line.rfind(' ', rounded - 1) + 1;
    ++formats[std::string(line.substr(format, rounded - format))];
    double percent = 0;
    std::from_chars(line.data() + rounded + kRounded.size(), line.data() + line.size(), percent);
    most = std::max(most, percent);
  }
  if (formats.empty()) return std::nullopt;
  std::string counts;
  for (const auto& [format, count] : formats)
    counts += fmt::format("{}{} of {}", counts.empty() ? "" : ", ", count, format);
  return fmt::format(
      "weights of the file were rounded to int8 ({}), which moves them by {:.2f}% at most (RMS of "
      "a tensor; docs/llm.md#weights)",
      counts, most);
}

}  // namespace evoq
