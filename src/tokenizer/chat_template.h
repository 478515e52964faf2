// A model's chat template: messages to the text that the model was trained on.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

// The subset of Jinja2 that chat templates use (docs/generate.md). A value.
class ChatTemplate {
 public:
  // Errors: kInvalidInput and kUnsupported with the line; kTooLarge over 1 MiB.
  static Result<ChatTemplate> Parse(std::string_view source);

  // `variables` is what transformers passes: messages ([{"role": ..., "content": ...}, ...]),
  // add_generation_prompt, bos_token, eos_token, tools and what else the template asks for. The
  // text has its special pieces written out. Work and memory are bounded, and nothing but the
  // variables has an effect, but for strftime_now: it counts as undefined, so that templates take
  // the date that they have, and gives the machine's to one that calls it all the same.
  // Errors: as Parse; kConditionFailed with the sentence of a template that refuses the messages.
  Result<std::string> Render(const nlohmann::ordered_json& variables) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

// Renders the tokenizer's template, with tools the one for them, if it has one; bos_token and
// eos_token are its own where `variables` has none. The text is to be encoded without add_special:
// the template writes what begins it. Errors: as above; kUnsupported where the tokenizer has no
// template.
Result<std::string> RenderChat(const Tokenizer& tokenizer, nlohmann::ordered_json variables);

}  // namespace evoq
