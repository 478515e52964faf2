#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/evaluate.h"
#include "workflow/perplexity.h"

namespace evoq {
namespace {

using nlohmann::json;

VerbRun Declare(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<EvalJob>();
  app.add_option("model", o->model, "MODEL.onnx or MODEL.etm")->required();
  CLI::Option* data = AddDataOption(app, "--data", o->data, "The samples");
  app.add_option("--labels", o->labels,
                 "A .tsv with the columns file and class_index, or an idx label file");
  app.add_option("--preprocess", o->preprocess,
                 "How images become inputs (default: MODEL.preprocess.json beside the model)");
  app.add_option("--reference", o->reference, "Another model, to measure agreement with");
  app.add_option("--predictions", o->predictions, "Write each sample's class to this .tsv file");
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
  return [o, text, &common]() -> Result<json> {
    if (!text->text.empty()) {
      text->model = o->model;
      text->limit = o->limit;
      text->threads = common.threads;
      EVOQ_ASSIGN(const PerplexityResult result, EvaluatePerplexity(*text, common.follow));
      return Print(Tell(result));
    }
    o->threads = common.threads;
    EVOQ_ASSIGN(const EvalResult result, Evaluate(*o, common.follow));
    return Print(Tell(result));
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
