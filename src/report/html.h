// The report: one HTML file that opens without a network.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "profile/compare.h"
#include "profile/interval.h"
#include "report/ledger.h"

namespace evoq {

struct ReportModel {
  std::string name;
  int64_t file_bytes = 0;
  int64_t arena_bytes = 0;  // with scratch, as Executor::arena_bytes
  StepProfile profile;
  const Program* program = nullptr;
  std::optional<Interval> top1;  // the share of right answers
  int64_t samples = 0;           // of top1
};

struct Report {
  Limits limits;
  ReportModel model;
  std::optional<ReportModel> baseline;
  std::optional<TimeLedger> time;
  std::optional<ByteLedger> bytes;
  std::optional<Comparison> comparison;  // of the model against the baseline
};

// Bytes of the arena that hold a value which a later step or this one reads, while each step runs.
// The largest is the least that any plan of the arena needs.
std::vector<int64_t> LiveBytes(const Program& program);

// The page. Names in it come from files: they are data to the page, never markup.
std::string ToHtml(const Report& report);

}  // namespace evoq
