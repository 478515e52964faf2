#include <cmath>

#include "base/file.h"
#include "cli/evaluate.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

Status WritePredictions(const EvalResult& result, const std::string& path) {
  std::string text = "file\tclass\n";
  for (const auto& [name, index] : result.predictions) text += fmt::format("{}\t{}\n", name, index);
  return WriteFileAtomic(path, text);
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<EvalJob>();
  app.add_option("model", o->model, "MODEL.onnx or MODEL.etm")->required();
  app.add_option("--data", o->data, "A folder of images or .npy, .npy, .npz, MNIST idx or CIFAR .bin")->required();
  app.add_option("--labels", o->labels, "A .tsv with the columns file and class_index, or an idx label file");
  app.add_option("--preprocess", o->preprocess, "How images become inputs (default: MODEL.preprocess.json beside the model)");
  app.add_option("--reference", o->reference, "Another model, to measure agreement with");
  auto predictions = std::make_shared<std::string>();
  app.add_option("--predictions", *predictions, "Write each sample's class to this .tsv file");
  app.add_option("--limit", o->limit, "Use the first N samples only");
  return [o, predictions, &common]() -> Result<json> {
    o->threads = common.threads;
    EVOQ_ASSIGN(const EvalResult r, Evaluate(*o));
    if (!predictions->empty()) EVOQ_TRY(WritePredictions(r, *predictions));
    json out = {{"model", o->model}, {"samples", r.samples}, {"ms_per_sample", r.ms_per_sample},
                {"top1", r.labelled ? json(r.top1()) : json()}, {"top5", r.labelled ? json(r.top5()) : json()},
                {"agreement", r.has_reference ? json(r.agreement()) : json()}};
    Out("{}: {} samples, {:.3f} ms per sample\n", o->model, r.samples, r.ms_per_sample);
    if (r.labelled) Out("  top-1 {:.4f}  top-5 {:.4f}  ({} of {} right)\n", r.top1(), r.top5(), r.correct1, r.labelled);
    if (!r.labelled && !r.has_reference) Log("note: without --labels or --reference only the time is measured");
    if (r.has_reference) {
      if (std::isfinite(r.sqnr_db)) out["sqnr_db"] = r.sqnr_db;
      Out("  top-1 class equal to {} on {:.4f} ({} of {}), outputs' signal to noise {:.1f} dB\n", o->reference, r.agreement(), r.agreed,
          r.samples, r.sqnr_db);
    }
    return out;
  };
}

}  // namespace

extern const VerbDef kVerbEval;
const VerbDef kVerbEval = {"eval", "Measures accuracy on labelled data, and agreement with another model.",
                           "evoq eval mobilenetv2.etm --data images/ --labels labels.tsv --reference mobilenetv2.onnx", Declare};

}  // namespace evoq
