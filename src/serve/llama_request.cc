#include "serve/llama_request.h"

#include <utility>

#include "serve/fields.h"

namespace evoq::serve {

using nlohmann::json, nlohmann::ordered_json;

Result<TextAsked> ReadLlamaCompletion(const ordered_json& root, const TextModel& model) {
  const json plain = root;
  Fields fields(plain, "");
  int64_t likeliest = 0, choices = 1;
  fields.Read("n_probs", likeliest, 0, 20);
  fields.Read("n_cmpl", choices, 1, 1024);
  bool tokens = false, after_sampling = false;
  fields.Read("return_tokens", tokens);
  fields.Read("post_sampling_probs", after_sampling);
  if (after_sampling && likeliest > 0) fields.Fail("post_sampling_probs", "false");
  EVOQ_TRY(fields.Done(/*others=*/true));
  ordered_json asked = root;
  for (const char* name : {"n_probs", "n_cmpl", "return_tokens", "post_sampling_probs", "n",
                           "logprobs", "echo", "best_of", "stream_options"})
    asked.erase(name);
  const ordered_json defaults = {
      {"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}};
  for (const auto& [name, value] : defaults.items()) {
    if (!asked.contains(name) || asked[name].is_null()) asked[name] = value;
  }
  if (!fields.has("n_predict") && !fields.has("max_tokens")) asked["n_predict"] = -1;
  asked["n"] = choices;
  // Tokens are told with what they are given.
  const bool streamed = fields.Member("stream") == true;
  if (likeliest > 0 || (tokens && streamed)) asked["logprobs"] = likeliest;
  EVOQ_ASSIGN(TextAsked read, ReadCompletion(asked, model));
  for (const TextAsked::Prompt& prompt : read.prompts) {
    if (prompt.tokens.empty()) return InvalidInput("prompt: no token");
  }
  read.repeated = {{"n_predict", read.options.max_tokens},
                   {"temperature", read.options.sampling.temperature},
                   {"top_k", read.options.sampling.top_k},
                   {"top_p", read.options.sampling.top_p},
                   {"min_p", read.options.sampling.min_p},
                   {"repeat_penalty", read.options.sampling.repeat_penalty},
                   {"presence_penalty", read.options.sampling.presence_penalty},
                   {"frequency_penalty", read.options.sampling.frequency_penalty},
                   {"seed", read.options.sampling.seed},
                   {"ignore_eos", read.options.ignore_end},
                   {"stop", read.options.stop},
                   {"stream", read.stream},
                   {"n_probs", likeliest},
                   {"return_tokens", tokens}};
  if (read.repeated["n_predict"] >= model.context()) read.repeated["n_predict"] = -1;
  return read;
}

}  // namespace evoq::serve
