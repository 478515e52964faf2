// llama.cpp's own completions.
#include <utility>

#include "serve/answer_form.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

class LlamaForm : public AnswerForm {
 public:
  explicit LlamaForm(AnswerFacts facts) : facts_(std::move(facts)) {}

  json Whole(std::vector<WholeChoice> choices, const TextUsage&) override {
    json all = json::array();
    for (size_t i = 0; i < choices.size(); ++i) {
      const WholeChoice& choice = choices[i];
      json one = EndOf(i, choice);
      one["content"] = choice.part.text;
      if (facts_.asked.repeated["return_tokens"] == true) one["tokens"] = choice.text.tokens;
      AddLogprobs(choice.part.tokens, one);
      all.push_back(std::move(one));
    }
    return all.size() == 1 ? std::move(all[0]) : std::move(all);
  }
  std::string Part(size_t choice, ChoicePart part) override {
    json tokens = json::array();
    for (const ScoredToken& token : part.tokens) tokens.push_back(token.token);
    json event = {
        {"index", choice}, {"content", part.text}, {"tokens", std::move(tokens)}, {"stop", false}};
    AddLogprobs(part.tokens, event);
    return EventOf(event);
  }
  std::string Last(size_t choice, WholeChoice rest) override {
    json event = EndOf(choice, rest);
    event["content"] = rest.part.text;
    AddLogprobs(rest.part.tokens, event);
    return EventOf(event);
  }
  std::string End(const TextUsage&) override { return ""; }
  std::string Failed(const Refusal& why) override {
    return EventOf({{"error", {{"message", why.message}, {"type", NameOf(why.why)}}}});
  }

 private:
  // All but the text.
  json EndOf(size_t choice, const WholeChoice& whole) const {
    const TextAsked& asked = facts_.asked;
    const Generated& text = whole.text;
    const size_t prompt = asked.prompts[choice / static_cast<size_t>(asked.choices)].tokens.size();
    const std::vector<std::string>& stops = asked.options.stop;
    const bool word = text.ended == Ended::kStopText, end = text.ended == Ended::kEndToken;
    return {{"index", choice},
            {"id_slot", -1},
            {"stop", true},
            {"model", facts_.model},
            {"tokens", json::array()},
            {"tokens_predicted", text.tokens.size()},
            {"tokens_evaluated", prompt},
            {"tokens_cached", static_cast<int64_t>(prompt) - text.prompt_tokens},
            {"generation_settings", asked.repeated},
            {"truncated", text.ended == Ended::kContext},
            {"stop_type", word  ? "word"
                          : end ? "eos"
                                : "limit"},
            {"stopping_word", word && stops.size() == 1 ? stops[0] : ""},
            {"timings", TimesOf(text, prompt)}};
  }
  static json TimesOf(const Generated& text, size_t prompt) {
    const auto behind_first = text.tokens.empty() ? 0 : text.tokens.size() - 1;
    return {{"cache_n", static_cast<int64_t>(prompt) - text.prompt_tokens},
            {"prompt_n", text.prompt_tokens},
            {"prompt_ms", text.prompt_ms},
            {"prompt_per_second", text.prompt_tokens_per_s()},
            {"predicted_n", behind_first},
            {"predicted_ms", text.decode_ms},
            {"predicted_per_second", text.tokens_per_s()}};
  }
  void AddLogprobs(const std::vector<ScoredToken>& tokens, json& to) const {
    if (facts_.asked.options.likeliest == 0 || tokens.empty()) return;
    json list = LogprobsOf(facts_, tokens);
    for (size_t i = 0; i < tokens.size(); ++i) {
      list[i]["id"] = tokens[i].token;
      for (size_t k = 0; k < tokens[i].likeliest.size(); ++k)
        list[i]["top_logprobs"][k]["id"] = tokens[i].likeliest[k].token;
    }
    to["completion_probabilities"] = std::move(list);
  }

  const AnswerFacts facts_;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeLlamaForm(AnswerFacts facts) {
  return std::make_unique<LlamaForm>(std::move(facts));
}

}  // namespace evoq::serve
