// Lines begin with "[date-time] [I] ", which says nothing here. The table of TensorRT 8.4 to 11:
//   === Profile (1234 iterations ) ===
//      Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
//        123.40       0.1000       0.0990      50.0   conv1 + relu
//        246.80       0.2000       0.1980     100.0   Total
// Versions before leave out the median, name the columns "Time (ms)", or write the layer first.
// Then, of the whole run:
//   Latency: min = 0.20 ms, max = 0.31 ms, mean = 0.22 ms, median = 0.21 ms, ...
#include "foreign/profiles/trtexec_log.h"

#include <optional>
#include <sstream>
#include <vector>

#include "base/brief.h"
#include "foreign/profiles/number_text.h"

namespace evoq {
namespace {

using nlohmann::json;

std::string Trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// A line without its date and severity, and without blanks around. Layers have brackets around
// their names too: "[trainStation1]", "[HostToDeviceCopy]".
std::string Plain(const std::string& line) {
  std::string rest = Trimmed(line);
  while (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == std::string::npos) break;
    const std::string inside = rest.substr(1, end - 1);
    const bool severity = inside.size() == 1;
    const bool date =
        !inside.empty() && inside.find_first_not_of("0123456789/-:.") == std::string::npos;
    if (!severity && !date) break;
    rest = Trimmed(rest.substr(end + 1));
  }
  return rest;
}

// The number behind `key` in "key = 0.21 ms"; "key (1234".
std::optional<double> NumberBehind(const std::string& line, const std::string& key) {
  const size_t at = line.find(key);
  if (at == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(at + key.size()));
  std::string word;
  rest >> word;
  return NumberOf(word);
}

// A row of the table: `columns` numbers before or behind the layer's name.
std::optional<json> RowOf(const std::string& line, size_t columns, bool name_first) {
  std::string name = line;
  std::vector<double> numbers;
  while (numbers.size() < columns) {
    const size_t cut = name_first ? name.find_last_of(" \t") : name.find_first_of(" \t");
    if (cut == std::string::npos) return std::nullopt;
    const auto number = NumberOf(name_first ? name.substr(cut + 1) : name.substr(0, cut));
    if (!number) return std::nullopt;
    numbers.insert(name_first ? numbers.begin() : numbers.end(), *number);
    name = Trimmed(name_first ? name.substr(0, cut) : name.substr(cut));
  }
  if (name.empty()) return std::nullopt;
  return json{{"name", name}, {"timeMs", numbers[0]}, {"averageMs", numbers[1]}};
}

size_t CountOf(const std::string& line, const std::string& word) {
  size_t count = 0;
  for (size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TrtexecLog ReadTrtexecLog(const std::string& text) {
  TrtexecLog log;
  std::istringstream lines(text);
  bool inside = false, name_first = false;
  size_t columns = 0, number = 0;
  for (std::string line; std::getline(lines, line);) {
    line = Plain(line);
    ++number;
    if (line.starts_with("=== Profile (")) {
      log.profile = json::array({{{"count", NumberBehind(line, "(").value_or(0)}}});
      inside = true, columns = 0;
      log.fault = "the log ends within it";
    } else if (inside && columns == 0) {
      if (line.find("Layer") == std::string::npos) continue;
      name_first = line.starts_with("Layer");
      columns = CountOf(line, "ms)") + CountOf(line, "%");
      inside = columns >= 3;
    } else if (inside) {
      const auto row = RowOf(line, columns, name_first);
      inside = row && (*row)["name"] != "Total";
      if (inside) log.profile.push_back(*row);
      if (!row)
        log.fault = fmt::format("line {}: '{}', expected {} numbers and a layer, or the row Total",
                                number, Shorten(line), columns);
      else if (!inside)
        log.fault.clear();
    } else if (const auto median = NumberBehind(line, "median = ");
               median && line.starts_with("Latency:")) {
      log.times = json::array({{{"latencyMs", *median}}});
    }
  }
  if (columns < 3 || (log.profile.size() < 2 && log.fault.empty())) log.profile = nullptr;
  return log;
}

}  // namespace evoq
