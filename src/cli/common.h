// What several verbs share: option values, output, progress.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "cli/options.h"
#include "workflow/models.h"
#include "workflow/perplexity.h"
#include "workflow/to_measure.h"
#include "workflow/told.h"

namespace evoq {

// "NAME=VALUE" at its last '=': names may hold one. Nothing where there is none.
std::optional<std::pair<std::string, std::string>> SplitNamed(const std::string& option);
// "NAME=FILE": at the last '=' behind which a file's path stands, for paths may hold '=' too; at
// the last one where no such file exists.
std::optional<std::pair<std::string, std::string>> SplitNamedFile(const std::string& option);

// --shape: "NAME=1x3x224x224" -> name, sizes. Errors: kUsage.
Result<InputShapes> ParseShapes(const std::vector<std::string>& options);
// --fix-shape: "NAME=?x3x224x224", ? being -1. Errors: kUsage.
Result<InputShapes> ParseFixed(const std::vector<std::string>& options);
// --input: "NAME=F.npy". Errors: kUsage.
Result<InputFiles> ParseInputs(const std::vector<std::string>& options);

// --kv-cache, of verbs that run a language model, or write one.
VerbOption AddCacheType(const VerbOptions& options, std::string& type);

// What perplexity and eval --text take beside the text.
std::vector<VerbOption> AddPerplexityOptions(const VerbOptions& options, PerplexityJob& job);

// --shape, with what it is for ("plan for"), and --fix-shape, of verbs that write a model.
void AddShapeOptions(const VerbOptions& options, std::vector<std::string>& shapes,
                     std::vector<std::string>& fixed, const char* what);

// --disable and --opt-level, of verbs that run graph passes.
void AddPassOptions(const VerbOptions& options, PassChoice& passes);

// --tune and --no-tune.
struct TuneChoice {
  int value = 0;  // 1: measure, -1: --no-tune, 0: neither
  bool measure() const { return value > 0; }
  bool stored() const { return value >= 0; }
};
void AddTuneOptions(const VerbOptions& options, TuneChoice& choice, const char* without);
// --phase, --prompt-length, --context and --sequences: the run of a language model that is
// measured.
void AddPhaseOptions(const VerbOptions& options, PhaseChoice& choice,
                     const char* otherwise = "decode");
// The same of several runs.
struct PhaseLists {
  std::string phase;  // "": all
  int64_t prompt_length = 0;
  std::vector<int64_t> contexts, sequences;

  Result<PhaseChoice> One() const;  // the first. Errors: kUsage for several of one `phase`
};
void AddPhaseOptions(const VerbOptions& options, PhaseLists& lists);
// An option for data, of a model with any number of inputs (data/inputs.h): may be repeated, each
// time with one value.
VerbOption AddDataOption(const VerbOptions& options, const char* name,
                         std::vector<std::string>& sources, const char* doc);

// A bar on stderr when it is a terminal and the work takes over a second; nothing otherwise, or
// while output is kept.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  void Update(double fraction);

 private:
  std::string label_;
  bool active_;
  int64_t start_ns_;
  int64_t last_ns_ = 0;
};

// The bars of one stage of work after the other.
class StageProgress {
 public:
  void Update(const std::string& stage, double fraction) {
    if (stage != stage_) bar_.emplace(stage_ = stage);
    bar_->Update(fraction);
  }

 private:
  std::string stage_;
  std::optional<Progress> bar_;
};

// While it lives, what this thread would print is kept here, and no progress is shown: for callers
// in the same process.
class KeptOutput {
 public:
  KeptOutput();
  ~KeptOutput();
  KeptOutput(const KeptOutput&) = delete;
  KeptOutput& operator=(const KeptOutput&) = delete;
  std::string out;               // of stdout
  std::vector<std::string> log;  // lines of stderr
};
// The border to the terminal: whatever the text holds, it comes out as PrintableLines. All that
// evoq prints goes through these.
void WriteOut(std::string_view text);
void WriteLog(std::string_view line);
// What was printed is there, also where stdout is no terminal or its line is not finished.
void FlushOut();

// Prints to stdout. Strings among the arguments are made printable, each on one line; text of
// several lines says so: Lines{text}.
template <typename... Args>
void Out(fmt::format_string<Args...> format, Args&&... args) {
  WriteOut(FormatPrintable(format, std::forward<Args>(args)...));
}
// Prints a line to stderr, as Out does.
template <typename... Args>
void Log(fmt::format_string<Args...> format, Args&&... args) {
  WriteLog(FormatPrintable(format, std::forward<Args>(args)...));
}

// Prints what a task tells of its result; returns what --json writes.
nlohmann::json Print(Told told);

}  // namespace evoq
