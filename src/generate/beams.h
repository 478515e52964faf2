// A text by beam search: several are followed at a time, and the likeliest one is taken.
#pragma once

#include <memory>
#include <span>

#include "generate/generate.h"

namespace evoq {

// Of options.beams texts, which have the model's first slots. With p the sum of a text's logarithms
// of probabilities and n its tokens, with the one that ends it, its score is p / n^length_penalty.
// Of B beams and E tokens that end a text the max(2, E + 1) B likeliest continuations are looked at
// in each step: of those that end, the ones among the first B are whole texts, of which the B best
// are kept; of the others the first B go on. It ends where no beam can become better than the worst
// of B whole texts (with the fact early_stopping: where there are B), and after max_tokens. These
// are the rules of transformers' generate (num_beams, do_sample=False). The text is given out once
// it is known.
class BeamText {
 public:
  // Of a writer that must outlive it, and whose cache holds nothing from now on. Nothing has run
  // yet. Errors: as Writer::Write's; kUsage for a model with fewer slots, a writer that has another
  // one than the first or a draft, and for what has no meaning here: a temperature, penalties, a
  // bias, a form of the text, scores of tokens.
  static Result<std::unique_ptr<BeamText>> Make(Writer& writer, std::span<const int64_t> prompt,
                                                const GenerateOptions& options, OnText on_text);
  ~BeamText();

  // Runs the prompt, or what gives the next token of all beams. False: the search has ended.
  // Errors: kUsage where the writer has done something else meanwhile.
  Result<bool> Advance();
  Result<Generated> Finish();

 private:
  struct State;
  explicit BeamText(std::unique_ptr<State> state);
  Status Prompt();
  std::unique_ptr<State> state_;
};

}  // namespace evoq
