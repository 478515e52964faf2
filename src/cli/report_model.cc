#include "cli/report_model.h"

#include <filesystem>

#include "base/file.h"
#include "doctor/source.h"

namespace evoq {
namespace {

using nlohmann::json;

// top-1 and samples as `evoq eval --json` wrote them.
Result<std::optional<Accuracy>> ReadAccuracy(const std::string& path) {
  if (path.empty()) return std::nullopt;
  EVOQ_ASSIGN(const json eval, ReadJsonFile(path));
  const double top1 = JsonNumber(eval, "top1", -1), samples = JsonNumber(eval, "samples", 0);
  if (!(top1 >= 0 && top1 <= 1 && samples >= 1 && samples < 1e15))
    return InvalidInput("{}: no top1 and samples; expected what `evoq eval --json F` writes", path);
  return MakeAccuracy(top1, static_cast<int64_t>(samples));
}

}  // namespace

Result<ReportModel> ForReport(const std::string& path, const std::string& eval, const Executor& executor, const StepProfile& profile) {
  ReportModel model;
  model.name = BaseName(path);
  model.file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  model.arena_bytes = executor.arena_bytes();
  model.profile = profile;
  model.program = &executor.program();
  EVOQ_ASSIGN(model.accuracy, ReadAccuracy(eval));
  return model;
}

}  // namespace evoq
