#include "workflow/perplexity.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

// As eval's with --text.
VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<PerplexityJob>();
  options
      .Add("model", o->model,
           "A language model: MODEL.etm, MODEL.onnx, a Hugging Face folder, a GGUF file")
      .Required();
  options.Add("--text,-f,--file", o->text, "The text").Required();
  options.Add("--limit,--chunks", o->limit, "Use the first N windows only");
  AddPerplexityOptions(options, *o);
  return [o, &common]() -> Result<json> {
    o->threads = common.threads;
    EVOQ_ASSIGN(const PerplexityResult result, EvaluatePerplexity(*o, common.follow));
    return Print(Tell(result));
  };
}

}  // namespace

extern const VerbDef kVerbPerplexity = {
    .name = "perplexity",
    .doc = "Measures how well a language model predicts a text.",
    .example = "evoq perplexity model.etm --text test.txt --window 64 --kv-cache int8",
    .declare = Declare,
};

}  // namespace evoq
