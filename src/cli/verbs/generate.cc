#include "workflow/generate.h"

#include <fmt/ranges.h>

#include "base/file.h"
#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<GenerateJob>();
  auto file = std::make_shared<std::string>();
  auto numbers = std::make_shared<std::vector<int64_t>>();
  options
      .Add("model", o->model,
           "A language model: MODEL.etm, a Hugging Face folder, a GGUF file, llama2.c's .bin")
      .Required();
  const VerbOption prompt =
      options.Add("--prompt", o->prompts, "What the text begins with; may be repeated")
          .OneEachTime();
  options.Add("--prompt-file", *file, "A file with the prompt").Excludes(prompt);
  options.Add("--prompt-tokens", *numbers, "A prompt as numbers of tokens: 1,15043,29892")
      .SplitAt(',');
  options.AddFlag("--chat", o->chat,
                  "The prompt is what a user says: the model's chat template stands around it");
  options.Add("--system", o->system, "What a chat's system message says");
  options.AddFlag("--plain", o->plain, "Without the special pieces around a prompt");
  options.Add("--tokenizer", o->tokenizer,
              "A tokenizer's file or folder (default: the one that the model carries)");
  GenerateOptions& g = o->options;
  options.Add("--max-tokens", g.max_tokens, "Tokens of a text at most")
      .InRange(int64_t{1}, int64_t{1} << 30)
      .ShowDefault();
  options.Add("--temperature", g.sampling.temperature, "0: always the likeliest token")
      .ShowDefault();
  options.Add("--top-k", g.sampling.top_k, "Of the K likeliest tokens; 0: of all").ShowDefault();
  options.Add("--top-p", g.sampling.top_p, "Of the likeliest tokens that together reach this share")
      .ShowDefault();
  options.Add("--min-p", g.sampling.min_p, "Of tokens of this share of the likeliest one's")
      .ShowDefault();
  options
      .Add("--repeat-penalty", g.sampling.repeat_penalty,
           "Makes the last 64 tokens less likely, where more than 1")
      .ShowDefault();
  options.Add("--seed", g.sampling.seed, "Of the drawn tokens").ShowDefault();
  options.Add("--stop", g.stop, "A text that ends it; may be repeated").OneEachTime();
  options.AddFlag("--ignore-end", g.ignore_end, "Goes on behind the model's end token");
  options.Add("--context", o->context,
              "Tokens that a sequence may have (default: what the model was made for, at most "
              "4096)");
  options.Add("--parallel", o->parallel, "Prompts at the same time").ShowDefault();
  options.Add("--draft", o->draft,
              "A smaller model of the same tokens: it proposes what the model checks several at a "
              "time, the text stays the same");
  options.Add("--prompt-cache", o->cache,
              "Keeps the caches in this file, and takes from it what a prompt has in common");
  return [o, file, numbers, &common]() -> Result<json> {
    if (!file->empty()) {
      EVOQ_ASSIGN(std::string text, ReadTextFile(*file));
      o->prompts = {std::move(text)};
    }
    if (!numbers->empty()) o->prompt_tokens = {*numbers};
    o->threads = common.threads;
    // One text is shown as it comes, several each when all are there.
    const bool streams = o->prompts.size() + o->prompt_tokens.size() == 1;
    const auto show = [&](size_t, std::string_view text) {
      if (streams) Out("{}", Lines{std::string(text)});
      return true;
    };
    EVOQ_ASSIGN(const GenerateResult result, Generate(*o, show, common.follow));
    // One that was streamed is there already; without a tokenizer tokens are all there is.
    for (size_t i = 0; i < result.texts.size(); ++i) {
      const Generated& text = result.texts[i];
      if (!streams) Out("--- {}\n", i + 1);
      if (text.text.empty()) Out("{}", fmt::format("{}", fmt::join(text.tokens, " ")));
      if (!streams) Out("{}", Lines{text.text});
      Out("\n");
    }
    return Print(Tell(result));
  };
}

}  // namespace

extern const VerbDef kVerbGenerate = {
    .name = "generate",
    .doc = "Writes text with a language model.",
    .example = "evoq generate model.etm --prompt \"Once upon a time\" --max-tokens 64",
    .declare = Declare,
};

}  // namespace evoq
