#include "cli/probe_options.h"

#include "cli/common.h"

namespace evoq {

void AddProbeOptions(const VerbOptions& options, ProbeOptions& probe,
                     std::vector<std::string>& shapes) {
  const VerbOption data = AddDataOption(options, "--data", probe.data, "The samples");
  options.Add("--preprocess", probe.preprocess,
              "How images become inputs (default: MODEL.preprocess.json beside a model)");
  const VerbOption random =
      options.Add("--random", probe.random, "This many made-up samples instead")
          .Positive()
          .Excludes(data);
  options.Add("--shape", shapes, "Sizes of a free input of made-up samples: NAME=1x3x224x224");
  const VerbOption text =
      options.Add("--text", probe.text, "A text file instead, of a language model: windows of it")
          .Excludes(data)
          .Excludes(random);
  options
      .Add("--tokenizer", probe.tokenizer,
           "The model's tokenizer (default: the one that the model carries)")
      .Needs(text);
  options.Add("--window", probe.window, "Tokens that a language model sees at once")
      .InRange(int64_t{1}, int64_t{1} << 20)
      .ShowDefault();
  options
      .Add("--limit", probe.limit,
           "At most so many samples, evenly spread (of a text the first windows); 0: all")
      .NonNegative()
      .ShowDefault();
}

}  // namespace evoq
