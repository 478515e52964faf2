// How well a language model predicts a text.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "workflow/follow.h"
#include "workflow/told.h"

namespace evoq {

// The tokens of a text file, as the tokenizer of this file or folder has them; "": the one that the
// model carries. `model` is for messages. Errors: those of reading; kUsage where the model carries
// none.
struct TextTokens {
  std::vector<int64_t> tokens;
  int64_t pieces = 0;  // of the tokenizer
};
Result<TextTokens> TokensOfText(const Graph& graph, const std::string& model,
                                const std::string& text, const std::string& tokenizer);

struct PerplexityJob {
  std::string model, text;
  std::string tokenizer;  // "": the one that the model carries
  std::string tokens;     // an .npy to write the stream of tokens to; "": none
  std::string kv_cache;   // what the caches hold (llm/cache_type.h); "": as the model has them
  int64_t window = 256;   // tokens that the model sees at once
  int64_t limit = 0;      // windows; 0: all
  int threads = 0;
};

struct PerplexityResult {
  std::string model;
  int64_t windows = 0, tokens = 0, right = 0;  // right: tokens that were the model's first choice
  double nll = 0;  // mean negative logarithm of the tokens' probabilities
  double ms_per_token = 0;

  double perplexity() const;
  double top1() const {
    return tokens > 0 ? static_cast<double>(right) / static_cast<double>(tokens) : 0;
  }
};

// The text, as its tokenizer encodes it, is one stream of tokens. The model, one with caches
// (docs/llm.md) or one whose input is int64 or int32 [1, S] and whose first output is logits
// [1, S, pieces], sees windows of it one after the other, each without what came before, and
// predicts each window's next tokens. What is left at the end is a shorter window only where the
// text has no whole one.
Result<PerplexityResult> EvaluatePerplexity(const PerplexityJob& job, const Follow& follow = {});
Told Tell(const PerplexityResult& result);

}  // namespace evoq
