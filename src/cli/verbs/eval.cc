#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "certify/certificate.h"
#include "cli/evaluate.h"
#include "cli/perplexity.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

Status WritePredictions(const EvalResult& result, const std::string& path) {
  std::string text = "file\tclass\n";
  for (const auto& [name, index] : result.predictions) text += fmt::format("{}\t{}\n", name, index);
  return WriteFileAtomic(path, text);
}

Result<json> RunPerplexity(const PerplexityJob& job) {
  EVOQ_ASSIGN(const PerplexityResult r, EvaluatePerplexity(job));
  Out("{}: perplexity {:.4f} (negative log-likelihood {:.5f}) on {} tokens in {} windows of {}; "
      "{:.4f} of them the first choice; {:.3f} ms per token\n",
      job.model, r.perplexity(), r.nll, r.tokens, r.windows,
      r.tokens / std::max<int64_t>(r.windows, 1), r.top1(), r.ms_per_token);
  return json{{"model", job.model},
              {"samples", r.windows},
              {"tokens", r.tokens},
              {"perplexity", r.perplexity()},
              {"nll", r.nll},
              {"top1", r.top1()},
              {"top5", nullptr},
              {"agreement", nullptr},
              {"ms_per_sample", r.ms_per_token * static_cast<double>(r.tokens) /
                                    static_cast<double>(std::max<int64_t>(r.windows, 1))}};
}

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<EvalJob>();
  app.add_option("model", o->model, "MODEL.onnx or MODEL.etm")->required();
  CLI::Option* data = AddDataOption(app, "--data", o->data, "The samples");
  app.add_option("--labels", o->labels,
                 "A .tsv with the columns file and class_index, or an idx label file");
  app.add_option("--preprocess", o->preprocess,
                 "How images become inputs (default: MODEL.preprocess.json beside the model)");
  app.add_option("--reference", o->reference, "Another model, to measure agreement with");
  auto predictions = std::make_shared<std::string>();
  app.add_option("--predictions", *predictions, "Write each sample's class to this .tsv file");
  app.add_option("--limit", o->limit, "Use the first N samples (with --text: windows) only");
  auto text = std::make_shared<PerplexityJob>();
  CLI::Option* file =
      app.add_option("--text", text->text,
                     "A text file: how well a language model predicts it, instead of --data")
          ->excludes(data);
  CLI::Option* tokenizer =
      app.add_option("--tokenizer", text->tokenizer,
                     "The model's tokenizer: llama2.c .bin or SentencePiece .vocab")
          ->needs(file);
  file->needs(tokenizer);
  app.add_option("--tokens", text->tokens, "Write the text's tokens to this .npy file")
      ->needs(file);
  app.add_option("--window", text->window, "Tokens that the model sees at once")
      ->needs(file)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  return [o, predictions, text, &common]() -> Result<json> {
    if (!text->text.empty()) {
      text->model = o->model;
      text->limit = o->limit;
      text->threads = common.threads;
      return RunPerplexity(*text);
    }
    if (o->data.empty())
      return Fail(ErrorCode::kUsage, "expected --data, or --text and --tokenizer");
    o->threads = common.threads;
    EVOQ_ASSIGN(const EvalResult r, Evaluate(*o));
    if (!predictions->empty()) EVOQ_TRY(WritePredictions(r, *predictions));
    json out = {{"model", o->model},
                {"samples", r.samples},
                {"ms_per_sample", r.ms_per_sample},
                {"top1", r.labelled ? json(r.top1()) : json()},
                {"top5", r.labelled ? json(r.top5()) : json()},
                {"agreement", r.has_reference ? json(r.agreement()) : json()}};
    Out("{}: {} samples, {:.3f} ms per sample\n", o->model, r.samples, r.ms_per_sample);
    if (r.labelled)
      Out("  top-1 {:.4f}  top-5 {:.4f}  ({} of {} right)\n", r.top1(), r.top5(), r.correct1,
          r.labelled);
    if (!r.labelled && !r.has_reference)
      Log("note: without --labels or --reference only the time is measured");
    if (r.has_reference) {
      if (std::isfinite(r.sqnr_db)) out["sqnr_db"] = r.sqnr_db;
      out["outputs"] = ToJson(r.outputs);
      Out("  top-1 class equal to {} on {:.4f} ({} of {}), {} {:.1f} dB\n", o->reference,
          r.agreement(), r.agreed, r.samples,
          r.outputs.size() > 1 ? "signal to noise of the worst output" : "outputs' signal to noise",
          r.sqnr_db);
      for (const OutputAccuracy& output : r.outputs) {
        if (r.outputs.size() > 1) Out("    {:>7.1f} dB  {}\n", output.sqnr_db.value, output.name);
      }
    }
    return out;
  };
}

}  // namespace

extern const VerbDef kVerbEval = {
    "eval",
    "Measures accuracy on labelled data, agreement with another model, or a language model's "
    "perplexity.",
    "evoq eval mobilenetv2.etm --data images/ --labels labels.tsv --reference mobilenetv2.onnx",
    Declare};

}  // namespace evoq
