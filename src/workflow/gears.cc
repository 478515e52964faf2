#include "workflow/gears.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "graph/run_choices.h"
#include "workflow/deployment.h"

namespace evoq {
namespace {

constexpr int64_t kMostBytes = 64 << 20;  // of a file of sizes
constexpr int64_t kMostSize = int64_t{1} << 32;
constexpr int64_t kMostRuns = int64_t{1} << 50;

std::optional<int64_t> ParseNumber(std::string_view text, int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most)
    return std::nullopt;
  return number;
}

std::vector<std::string_view> SplitAt(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// "8" or "1x128".
std::optional<std::vector<int64_t>> ParseSizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string_view part : SplitAt(text, 'x')) {
    const auto size = ParseNumber(part, kMostSize);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// All sizes of an input, of which `given` may be the free one alone. Errors: kUsage.
Result<std::vector<int64_t>> SizesFor(const Value& input, const std::vector<int64_t>& given) {
  const Shape& shape = input.type.shape;
  const std::string type = input.type.ToString();
  if (!shape.ranked())
    return Fail(ErrorCode::kUsage, "input {} is {}, expected a number of sizes", input.name, type);
  if (given.size() != 1 || shape.rank() == 1) {
    if (given.size() != static_cast<size_t>(shape.rank()))
      return Fail(ErrorCode::kUsage, "input {} is {}, found {} sizes", input.name, type,
                  given.size());
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i].known() && shape[i].value != given[static_cast<size_t>(i)])
        return Fail(ErrorCode::kUsage, "input {} is {}, found {} for dimension {}", input.name,
                    type, given[static_cast<size_t>(i)], i);
    }
    return given;
  }
  std::vector<int64_t> sizes = shape.sizes();
  const auto free = std::ranges::count_if(shape.dims(), [](const Dim& d) { return !d.known(); });
  if (free != 1)
    return Fail(ErrorCode::kUsage, "input {} is {}, which leaves {} sizes free: name all of them",
                input.name, type, free);
  for (int i = 0; i < shape.rank(); ++i) {
    if (!shape[i].known()) sizes[static_cast<size_t>(i)] = given[0];
  }
  return sizes;
}

// Errors: kUsage.
Result<const Value*> InputNamed(const std::string& name, const Graph& graph) {
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).name == name) return &graph.value(id);
  }
  return Fail(ErrorCode::kUsage, "the model has no input '{}'", name);
}

// One line of a file of sizes. Errors: kUsage, without the place.
Result<ObservedSizes> ParseLine(const std::string& line, const Graph& graph) {
  ObservedSizes observed;
  std::istringstream words(line);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(std::move(word));
  observed.runs = 1;
  const bool counted = all.size() > 1 && ParseNumber(all[0], kMostRuns);
  if (counted) observed.runs = *ParseNumber(all[0], kMostRuns);
  for (size_t i = counted ? 1 : 0; i < all.size(); ++i) {
    const size_t equals = all[i].rfind('=');
    if (equals == std::string::npos && graph.inputs().size() != 1)
      return Fail(ErrorCode::kUsage, "expected NAME=1x128, the model has {} inputs, found '{}'",
                  graph.inputs().size(), all[i]);
    const std::string name = equals == std::string::npos ? graph.value(graph.inputs()[0]).name
                                                         : all[i].substr(0, equals);
    const auto sizes =
        ParseSizes(std::string_view(all[i]).substr(equals == std::string::npos ? 0 : equals + 1));
    if (!sizes)
      return Fail(ErrorCode::kUsage, "expected NAME=1x128 with sizes from 1, found '{}'", all[i]);
    EVOQ_ASSIGN(const Value* const input, InputNamed(name, graph));
    EVOQ_ASSIGN(observed.shapes[name], SizesFor(*input, *sizes));
  }
  return observed;
}

}  // namespace

Result<GearSizes> ParseGears(const std::vector<std::string>& options) {
  GearSizes gears;
  for (const std::string& option : options) {
    const auto bad = [&] {
      return Fail(ErrorCode::kUsage,
                  "--gears {}: expected NAME=1,8,16 or NAME=1x128,8x128, sizes from 1", option);
    };
    const size_t equals = option.rfind('=');
    if (equals == std::string::npos || equals == 0) return bad();
    auto& sizes = gears[option.substr(0, equals)];
    if (!sizes.empty()) return Fail(ErrorCode::kUsage, "--gears {}: named twice", option);
    for (const std::string_view part : SplitAt(std::string_view(option).substr(equals + 1), ',')) {
      auto gear = ParseSizes(part);
      if (!gear) return bad();
      sizes.push_back(std::move(*gear));
    }
  }
  return gears;
}

Result<std::vector<InputShapes>> GearsFor(const GearSizes& gears, const Graph& graph) {
  std::vector<InputShapes> sets;
  for (const auto& [name, sizes] : gears) {
    if (sizes.empty() || sizes.size() > kMostShapeSets)
      return Fail(ErrorCode::kUsage, "gears: input {} has {}, expected 1 to {}", name, sizes.size(),
                  kMostShapeSets);
    if (sets.empty()) sets.resize(sizes.size());
    if (sets.size() != sizes.size())
      return Fail(ErrorCode::kUsage, "gears: input {} has {}, another input {}", name, sizes.size(),
                  sets.size());
    EVOQ_ASSIGN(const Value* const input, WithContext(InputNamed(name, graph), "gears"));
    for (size_t i = 0; i < sizes.size(); ++i) {
      EVOQ_ASSIGN(sets[i][name], WithContext(SizesFor(*input, sizes[i]), "gears"));
    }
  }
  std::ranges::sort(sets);
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  return sets;
}

void DeclareGears(const std::vector<InputShapes>& sets, Graph& graph) {
  nlohmann::json ranges = nlohmann::json::object();
  for (const InputShapes& set : sets) {
    for (const auto& [name, sizes] : set) ranges[name].push_back(sizes);
  }
  graph.metadata[kShapesChoice] =
      ranges.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<ObservedSizes>> ReadObservedSizes(const std::string& path, const Graph& graph) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, kMostBytes));
  std::map<InputShapes, int64_t> runs;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
    const auto observed = ParseLine(line, graph);
    if (!observed) return InvalidInput("{}: line {}: {}", path, number, observed.error().message());
    int64_t& sum = runs[observed->shapes];
    if (sum > kMostRuns - observed->runs)
      return InvalidInput("{}: line {}: more than {} runs", path, number, kMostRuns);
    sum += observed->runs;
  }
  if (runs.empty())
    return InvalidInput("{}: no sizes, expected lines such as '12 NAME=1x128'", path);
  std::vector<ObservedSizes> all;
  for (const auto& [shapes, count] : runs) all.push_back({shapes, count});
  return all;
}

}  // namespace evoq
