// Calibration tables of other tools: a scale or a range for each tensor (docs/encodings.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "encodings/lineage.h"
#include "quant/quant.h"

namespace evoq {

struct TableEntry {
  std::string tensor;
  float min = 0, max = 0;
  // Of tables of scales: of int8 with zero point 0, whose range is 127 times it; 0: all is 0.
  // TensorRT writes infinities for masks that hold some: there is no range then.
  std::optional<float> scale = std::nullopt;
};

struct CalibrationTable {
  const char* format = "";          // TableFormat::name
  std::string header;               // TensorRT's first line
  std::vector<TableEntry> entries;  // in the file's order
};

// A format: one row in encodings/tables/NAME.cc, named by one line in encodings/tables.inc.
struct TableFormat {
  const char* name;
  const char* doc;
  // Whether a file with this content is meant to be one.
  bool (*is)(std::string_view bytes);
  // Errors: kInvalidInput with the place in the file.
  Result<CalibrationTable> (*parse)(std::string_view bytes);
};
std::span<const TableFormat* const> AllTableFormats();

// Reads a table of any format. Errors: those of reading files; kInvalidInput for a file of none, a
// malformed one, and two entries of one tensor; all name the file.
Result<CalibrationTable> ReadTable(const std::string& path);
Result<CalibrationTable> ParseTable(std::string_view bytes);
// Whether the file is one of these tables, and no ranges.json. Errors: those of reading files.
Result<bool> IsTable(const std::string& path);

// TensorRT's calibration cache of the entries, which have scales. Errors: kUnsupported for a name
// with a line break.
Result<std::string> CalibrationCacheText(const CalibrationTable& table);
// The first line of a cache that evoq writes of its own ranges.
inline constexpr char kCacheHeader[] = "TRT-101401-MinMaxCalibration";

// The ranges of a table's tensors, by value of the optimized graph.
Ranges RangesOfTable(const CalibrationTable& table, const Lineage& lineage);
// int8 types with the exact scales of a table of scales, for values of the optimized graph where
// they become integers.
GivenTypes ScalesOfTable(const CalibrationTable& table, const Lineage& lineage,
                         const Graph& optimized);

// A cache of ranges and of what values became, by tensors of the file: an int8 type with zero point
// 0 gives its scale, any other value max(|min|, |max|) / 127. Entries of `kept`, a table that was
// read, come first and as they were.
CalibrationTable CacheOf(const Ranges& ranges, const std::map<std::string, TensorType>& used,
                         const Lineage& lineage, const CalibrationTable* kept);

// The activations of the optimized graph that integer arithmetic could take and that have no range.
std::vector<std::string> WithoutRange(const Graph& optimized, const Ranges& ranges);

}  // namespace evoq
