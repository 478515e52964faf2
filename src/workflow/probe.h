// Which samples a model's inner values are looked at on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "certify/samples.h"
#include "workflow/models.h"

namespace evoq {

// In front of errors that real samples may not have.
inline constexpr char kProbeMadeUp[] = "on made-up samples (--data gives real ones)";

// What the user says of them: one of `data`, `random`, `text`, `samples`.
struct ProbeOptions {
  std::vector<std::string> data;  // data/inputs.h
  std::string labels, preprocess;
  int random = 0;         // so many made-up samples
  std::string text;       // a text file, for a language model
  std::string tokenizer;  // "": the one that the model carries
  int64_t window = 256;   // tokens that a language model sees at once
  int64_t limit = 32;     // samples, evenly spread; of a text, windows; 0: all
  InputShapes shapes;     // of random samples
  std::span<const std::vector<Tensor>> samples;  // of a caller in this process
};

struct ProbeSamples {
  Samples samples;
  std::vector<std::string> names;  // of each
  std::vector<std::string> warnings;
};

// Samples for the inputs of `graph`, which is that of the file `model`; at most 1 GiB. `beside`: a
// second model to look for a preprocess file beside, or "". Errors: kUsage for none or several of
// the sources; those of reading.
Result<ProbeSamples> LoadProbe(const ProbeOptions& options, const Graph& graph,
                               const std::string& model, const std::string& beside = "");

}  // namespace evoq
