#include "cli/adaptive_options.h"
#include "cli/common.h"
#include "cli/verb.h"
#include "workflow/evaluate.h"
#include "workflow/perplexity.h"

namespace evoq {
namespace {

using nlohmann::json;

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<EvalJob>();
  options.Add("model", o->model, "MODEL.onnx or MODEL.etm").Required();
  const VerbOption data = AddDataOption(options, "--data", o->data, "The samples");
  options.Add("--labels", o->labels,
              "A .tsv with the columns file and class_index, an idx label file or a .npy; "
              "`folders`: the folders of --data, sorted by name, are the classes");
  options
      .Add("--targets", o->targets,
           "What outputs are to be, as data of --data's kinds: an index of an array's first axis "
           "is of a sample; of several outputs NAME=FILE for each (repeated) or an .npz with their "
           "names")
      .Needs(data)
      .OneEachTime();
  options.Add("--preprocess", o->preprocess,
              "How images become inputs (default: MODEL.preprocess.json beside the model)");
  options.Add("--reference", o->reference, "Another model, to measure agreement with");
  options.Add("--predictions", o->predictions, "Write each sample's class to this .tsv file");
  options.Add("--limit", o->limit, "Use the first N samples (with --text: windows) only");
  options.Add("--part", o->part, "K/N: only part K of N of the samples, for --merge").Needs(data);
  options.Add("--save-part", o->save_part, "Write what the part's samples gave, for --merge")
      .Needs(data);
  options
      .Add("--merge", o->merge, "Put the files of all parts together instead of --data (repeated)")
      .Excludes(data)
      .OneEachTime();
  auto adaptive = std::make_shared<AdaptiveChoice>();
  AddAdaptiveOptions(options, *adaptive);
  auto text = std::make_shared<PerplexityJob>();
  const VerbOption file =
      options
          .Add("--text", text->text,
               "A text file: how well a language model predicts it, instead of --data")
          .Excludes(data);
  for (VerbOption& option : AddPerplexityOptions(options, *text)) option.Needs(file);
  return [o, text, adaptive, &common]() -> Result<json> {
    o->adaptive = adaptive->chosen();
    if (!text->text.empty()) {
      if (o->adaptive)
        return Fail(ErrorCode::kUsage, "--adaptive and --scale-set are of --data, not of --text");
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
    .name = "eval",
    .doc =
        "Measures accuracy on labelled data, distance from targets, agreement with another model, "
        "or a language model's "
        "perplexity.",
    .example =
        "evoq eval mobilenetv2.etm --data images/ --labels labels.tsv --reference mobilenetv2.onnx",
    .declare = Declare,
};

}  // namespace evoq
