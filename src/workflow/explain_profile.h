// Another runtime's own files, explained.
#pragma once

#include <optional>
#include <string>

#include "foreign/profiles/diagnosis_text.h"
#include "foreign/profiles/source.h"
#include "workflow/told.h"

namespace evoq {

struct ForeignJob {
  const ForeignSource* source = nullptr;
  std::string path, baseline;  // the baseline may be ""
};

struct ForeignExplanation {
  ForeignRun run;
  std::optional<ForeignRun> baseline;
  Diagnosis diagnosis;
};

// Errors: those of the source.
Result<ForeignExplanation> ExplainForeign(const ForeignJob& job);
Told Tell(const ForeignExplanation& e);

}  // namespace evoq
