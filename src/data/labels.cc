#include "data/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/brief.h"
#include "base/file.h"
#include "base/math.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/idx.h"

namespace evoq {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<std::map<std::string, int64_t>> ParseTable(std::string_view text) {
  std::vector<std::string_view> lines = Split(text, '\n');
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  const auto header = Split(lines[0], '\t');
  auto column = [&](std::string_view name) {
    return std::find(header.begin(), header.end(), name) - header.begin();
  };
  const size_t file = column("file");
  const size_t label =
      column("class_index") < header.size() ? column("class_index") : column("label");
  if (file == header.size() || label == header.size()) {
    return InvalidInput(
        "line 1: columns are \"{}\", expected file and class_index (or label), separated by tabs",
        Shorten(fmt::format("{}", fmt::join(header, ", "))));
  }
  std::map<std::string, int64_t> labels;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto cells = Split(lines[i], '\t');
    if (cells.size() <= std::max(file, label)) {
      return InvalidInput("line {}: {} columns, expected {}", i + 1, cells.size(), header.size());
    }
    int64_t value = 0;
    const std::string_view cell = cells[label];
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) {
      return InvalidInput("line {}: label \"{}\" is not a whole number", i + 1, Shorten(cell));
    }
    if (!labels.emplace(cells[file], value).second) {
      return InvalidInput("line {}: file {} occurs twice", i + 1, Shorten(cells[file]));
    }
  }
  return labels;
}

}  // namespace

bool HoldsLabels(const Tensor& array) {
  if (!IsFloat(array.dtype())) return true;
  const auto real = ToFloat32(array);
  if (!real) return true;  // what reads it says why
  const std::span<const float> values = real->values<float>();
  return std::ranges::all_of(values, [](float v) { return v == std::floor(v); });
}

Result<std::optional<int64_t>> Labels::Of(const std::string& name, int64_t index) const {
  if (path.empty()) return std::nullopt;
  if (!by_name.empty()) {
    auto it = by_name.find(name);
    if (it == by_name.end()) return InvalidInput("{}: no label for {}", path, name);
    return it->second;
  }
  if (index >= static_cast<int64_t>(by_index.size())) {
    return InvalidInput("{}: {} labels, none for sample {} ({})", path, by_index.size(), index,
                        name);
  }
  return by_index[index];
}

Status Labels::CheckCount(int64_t samples, int64_t rows) const {
  const auto count = static_cast<int64_t>(by_index.size());
  if (count <= samples || count == rows) return {};
  return InvalidInput("{}: {} labels for {} {}: expected one for each", path, count, rows,
                      rows == samples ? "samples" : "rows");
}

Status Labels::AddTo(Sample& sample, int64_t index, int64_t samples, int64_t first) const {
  const bool of_rows = !sample.rows.empty() && (by_name.contains(sample.rows[0].name) ||
                                                static_cast<int64_t>(by_index.size()) > samples);
  if (!of_rows) {
    EVOQ_ASSIGN(sample.label, Of(sample.name, index));
    return {};
  }
  for (Sample::Row& row : sample.rows) {
    EVOQ_ASSIGN(row.label, Of(row.name, first++));
  }
  return {};
}

Result<Labels> LoadLabels(const std::string& path) {
  Labels labels;
  labels.path = path;
  if (path.empty()) return labels;
  const std::string extension = LowerExtension(path);
  if (extension == ".tsv" || extension == ".txt") {
    EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
    EVOQ_ASSIGN(labels.by_name, WithContext(ParseTable(text), path));
    if (labels.by_name.empty()) return InvalidInput("{}: no labels below the header", path);
  } else if (extension == ".npy") {
    EVOQ_ASSIGN(const Tensor tensor, ReadNpy(path));
    EVOQ_ASSIGN(labels.by_index, WithContext(ToInt64s(tensor), path));
  } else {
    EVOQ_ASSIGN(const IdxArray array, ReadIdx(path));
    if (array.sizes.size() != 1) {
      return InvalidInput("{}: idx data of {} dimensions, expected 1 for labels", path,
                          array.sizes.size());
    }
    labels.by_index.assign(array.data().begin(), array.data().end());
  }
  if (labels.by_name.empty() && labels.by_index.empty())
    return InvalidInput("{}: holds no label", path);
  return labels;
}

Status AddLabelOffset(const std::optional<Preprocess>& preprocess, Sample& sample) {
  if (!preprocess) return {};
  const auto add = [&](const std::string& name, std::optional<int64_t>& label) -> Status {
    if (!label) return {};
    const auto sum = CheckedAdd(*label, preprocess->label_offset);
    if (!sum)
      return InvalidInput("{}: label {} with an offset of {}", name, *label,
                          preprocess->label_offset);
    label = sum;
    return {};
  };
  EVOQ_TRY(add(sample.name, sample.label));
  for (Sample::Row& row : sample.rows) EVOQ_TRY(add(row.name, row.label));
  return {};
}

}  // namespace evoq
