// Texts as training data: streams of tokens, cut into windows.
#pragma once

#include "workflow/train.h"

namespace evoq {

// Whether a model's only input is token numbers [N, T].
bool TakesTokens(const Graph& graph);

struct TextSamples {
  LabelledSamples train, test;
  int64_t pieces = 0;     // of the tokenizer; of token numbers, one more than the largest
  std::string tokenizer;  // tokenizer.json of bytes, where the job names no tokenizer; else ""
};

// Of the files of a job: a text, as its tokenizer has it or (without one) byte by byte, or an .npy
// of token numbers. Windows are as long as the graph says, or as the recipe's context. Without
// files to test on, the last part of the stream is held out. Errors: those of reading,
// kInvalidInput for a stream shorter than a window, kUsage for labels, which a text has in itself.
Result<TextSamples> ReadTexts(const TrainJob& job, const SampleFiles& files, const Graph& graph,
                              const Follow& follow);

}  // namespace evoq
