#include "workflow/tuning.h"

#include "engine/tuning_cache.h"
#include "reference/reference.h"

namespace evoq {

Result<TuneReport> Tune(Model& model, int threads, const InputShapes& shapes,
                        const Follow& follow) {
  EVOQ_TRY(follow.At("tuning", 0));
  TuneOptions options;
  options.evaluator = &kReference;
  options.threads = threads;
  options.shapes = shapes;
  options.cache_path = TuningCachePath();
  options.progress = follow.Stage("tuning");
  EVOQ_ASSIGN(options.isa, SelectIsa());
  return TuneModel(model, options);
}

Told Tell(const TuneReport& report) {
  Told told;
  for (const std::string& warning : report.warnings) told.log.push_back("warning: " + warning);
  told.text = fmt::format(
      "tuned {} steps in {:.1f} s, {} kinds measured: {} take another way than the "
      "default",
      report.steps, report.seconds, report.measured, report.changed);
  if (report.measured > 0 && report.changed == 0)
    told.text += fmt::format(", which takes {:.3f} ms", report.default_ms);
  else if (report.measured > 0)
    told.text += fmt::format(", {:.3f} -> {:.3f} ms", report.default_ms, report.tuned_ms);
  told.text += "\n";
  told.json = {{"steps", report.steps},           {"measured", report.measured},
               {"changed", report.changed},       {"seconds", report.seconds},
               {"default_ms", report.default_ms}, {"tuned_ms", report.tuned_ms},
               {"warnings", report.warnings}};
  return told;
}

}  // namespace evoq
