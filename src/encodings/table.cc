#include "encodings/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/rows.h"
#include "base/text.h"
#include "ops/op.h"

namespace evoq {

#define EVOQ_ROW_TYPE TableFormat
#define EVOQ_ROW_FILE "encodings/tables.inc"
#include "base/rows.inl.h"

std::span<const TableFormat* const> AllTableFormats() { return kAllRows; }

namespace {

// What ranges.json has in its first bytes (docs/ranges.md).
constexpr std::string_view kOwnFormat = "\"evoq-ranges\"";

}  // namespace

Result<CalibrationTable> ParseTable(std::string_view bytes) {
  const auto format =
      std::ranges::find_if(AllTableFormats(), [&](const TableFormat* f) { return f->is(bytes); });
  if (format == AllTableFormats().end()) {
    std::vector<std::string> names;
    for (const TableFormat* f : AllTableFormats()) names.push_back(f->name);
    return InvalidInput("no calibration table: expected {}", fmt::join(names, ", "));
  }
  EVOQ_ASSIGN(CalibrationTable table, WithContext((*format)->parse(bytes), (*format)->name));
  table.format = (*format)->name;
  std::set<std::string_view> tensors;
  for (const TableEntry& entry : table.entries) {
    if (!tensors.insert(entry.tensor).second)
      return InvalidInput("{}: the second entry of {}", table.format, entry.tensor);
  }
  return table;
}

Result<CalibrationTable> ReadTable(const std::string& path) {
  EVOQ_ASSIGN(const std::string bytes, ReadTextFile(path));
  return WithContext(ParseTable(bytes), path);
}

Result<bool> IsTable(const std::string& path) {
  EVOQ_ASSIGN(const std::string bytes, ReadTextFile(path));
  return bytes.find(kOwnFormat) == std::string::npos &&
         std::ranges::any_of(AllTableFormats(), [&](const TableFormat* f) { return f->is(bytes); });
}

Ranges RangesOfTable(const CalibrationTable& table, const Lineage& lineage) {
  Ranges ranges;
  for (const TableEntry& entry : table.entries) {
    if (!std::isfinite(entry.min) || !std::isfinite(entry.max)) continue;
    for (const Lineage::Link* link : lineage.OfTensor(entry.tensor))
      ranges[link->value] = {.min = entry.min, .max = entry.max};
  }
  return ranges;
}

GivenTypes ScalesOfTable(const CalibrationTable& table, const Lineage& lineage,
                         const Graph& optimized) {
  GivenTypes given;
  for (const TableEntry& entry : table.entries) {
    if (entry.scale.value_or(0) <= 0 || !std::isfinite(entry.max)) continue;
    for (const Lineage::Link* link : lineage.OfTensor(entry.tensor)) {
      const ValueId v = optimized.FindValue(link->value);
      if (v.valid() && !optimized.value(v).is_constant() &&
          optimized.value(v).type.dtype == DType::kFloat32)
        given[link->value] = {.dtype = DType::kInt8,
                              .params = QuantParams::PerTensor(*entry.scale, 0),
                              .everywhere = false};
    }
  }
  return given;
}

CalibrationTable CacheOf(const Ranges& ranges, const std::map<std::string, TensorType>& used,
                         const Lineage& lineage, const CalibrationTable* kept) {
  std::map<std::string, float> scales;  // by tensor
  const auto note = [&](const std::string& value, float scale) {
    if (const Lineage::Link* link = lineage.OfValue(value)) scales[link->tensor] = scale;
  };
  for (const auto& [value, range] : ranges)
    note(value, std::max(std::fabs(range.min), std::fabs(range.max)) / 127);
  for (const auto& [value, type] : used) {
    if (type.dtype == DType::kInt8 && type.quant->per_tensor() && type.quant->zero_points[0] == 0 &&
        ranges.count(value))
      note(value, type.quant->scales[0]);
  }
  CalibrationTable table;
  table.header = kept != nullptr && !kept->header.empty() ? kept->header : kCacheHeader;
  for (const TableEntry& entry : kept != nullptr ? kept->entries : std::vector<TableEntry>()) {
    table.entries.push_back(entry);
    if (!entry.scale) table.entries.back().scale = entry.max / 127;
    scales.erase(entry.tensor);
  }
  for (const auto& [tensor, scale] : scales)
    table.entries.push_back(
        {.tensor = tensor, .min = -127 * scale, .max = 127 * scale, .scale = scale});
  return table;
}

std::vector<std::string> WithoutRange(const Graph& optimized, const Ranges& ranges) {
  std::set<std::string> names;
  for (NodeId id : optimized.order()) {
    const Node& node = optimized.node(id);
    const OpDef* op = FindOp(node);
    if (op == nullptr || op->quant == QuantTrait::kFloat || op->prefers_float) continue;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        if (!v.valid()) continue;
        const Value& value = optimized.value(v);
        if (!value.is_constant() && value.type.dtype == DType::kFloat32 &&
            !ranges.count(value.name))
          names.insert(value.name);
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace evoq
