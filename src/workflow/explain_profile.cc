#include "workflow/explain_profile.h"

#include "base/printable.h"

namespace evoq {
namespace {

const ForeignRun* BaselineOf(const ForeignExplanation& e) {
  return e.baseline ? &*e.baseline : nullptr;
}

Result<ForeignRun> Read(const ForeignSource& source, const std::string& path) {
  return source.read(path == "-" ? "/dev/stdin" : path);
}

}  // namespace

Result<ForeignExplanation> ExplainForeign(const ForeignJob& job) {
  ForeignExplanation out;
  EVOQ_ASSIGN(out.run, Read(*job.source, job.path));
  if (!job.baseline.empty()) {
    // Another tool's, where its content says so and leaves no choice.
    const auto file = FindForeignFile(job.baseline);
    const bool known = file && file->source != nullptr;
    EVOQ_ASSIGN(out.baseline,
                Read(known ? *file->source : *job.source, known ? file->path : job.baseline));
  }
  out.diagnosis = Diagnose(out.run, BaselineOf(out));
  return out;
}

Told Tell(const ForeignExplanation& e) {
  return {ToJson(e.run, BaselineOf(e), e.diagnosis),
          PrintableLines(ToText(e.run, BaselineOf(e), e.diagnosis)),
          {}};
}

}  // namespace evoq
