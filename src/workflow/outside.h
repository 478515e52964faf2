// What quantize takes from other tools' files and writes for them (docs/encodings.md).
#pragma once

#include <optional>

#include "encodings/resolve.h"
#include "encodings/table.h"
#include "workflow/quantize.h"

namespace evoq {

// Parameters and ranges that a job's files give, and what its files to write need.
struct Outside {
  GivenTypes given;
  Ranges ranges;
  std::vector<std::string> warnings;
  std::string table;  // the file of ranges or scales; "": none
  EncodingsUse use;
  std::map<std::string, std::string> entries;  // value -> the entry of --encodings that gave it
  std::optional<CalibrationTable> cache;       // of --calib-cache
  std::optional<Graph> original;               // the model as its file has it
  std::optional<Lineage> lineage;              // where the job reads or writes such files
};

// Options that do not fit. Errors: kUsage.
Status CheckOutside(const QuantizeJob& job);
// Reads the files; `optimized` is the graph that is quantized. Errors: those of the readers.
Result<Outside> ReadOutside(const QuantizeJob& job, const Graph& optimized);
// Warns of values that have no range, neither from a table of the job nor by calibration.
void NoteMissing(const Graph& optimized, const Ranges& ranges, Outside& outside);
// Notes what became of the entries, and the sentences about those that were not used.
void NoteUse(const QuantizeReport& report, Outside& outside);
// Writes --encodings-out and --calib-cache-out. Errors: those of writing.
Status WriteOutside(const QuantizeJob& job, const Outside& outside, const QuantizeReport& report,
                    const Ranges& ranges, std::vector<std::string>& warnings);

}  // namespace evoq
