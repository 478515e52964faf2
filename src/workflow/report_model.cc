#include "workflow/report_model.h"

#include <cmath>

#include "base/file.h"
#include "base/json_file.h"
#include "models/models.h"

namespace evoq {
namespace {

using nlohmann::json;

// top-1 and samples as `evoq eval --json` wrote them.
Status ReadAccuracy(const std::string& path, ReportModel& model) {
  EVOQ_ASSIGN(const json eval, ReadJsonFile(path));
  const double top1 = JsonNumber(eval, "top1", -1), samples = JsonNumber(eval, "samples", 0);
  if (!(top1 >= 0 && top1 <= 1 && samples >= 1 && samples < 1e15))
    return InvalidInput("{}: no top1 and samples; expected what `evoq eval --json F` writes", path);
  model.samples = static_cast<int64_t>(samples);
  model.top1 = ShareInterval(std::llround(top1 * samples), model.samples);
  return {};
}

}  // namespace

Result<ReportModel> ForReport(const std::string& path, const std::string& eval,
                              const Runnable& executor, const StepProfile& profile) {
  ReportModel model;
  model.name = BaseName(path);
  EVOQ_ASSIGN(model.file_bytes, ModelBytes(path));
  model.arena_bytes = executor.arena_bytes();
  model.profile = profile;
  model.program = &executor.program();
  if (!eval.empty()) EVOQ_TRY(ReadAccuracy(eval, model));
  return model;
}

}  // namespace evoq
