#include "serve/answer_form.h"

#include <cmath>

namespace evoq::serve {

using nlohmann::json;

std::string EventOf(const json& data, const char* name) {
  const std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace);
  return name == nullptr ? fmt::format("data: {}\n\n", text)
                         : fmt::format("event: {}\ndata: {}\n\n", name, text);
}

bool EndedByItself(Ended ended) { return ended == Ended::kEndToken || ended == Ended::kStopText; }

std::string TextOfToken(const AnswerFacts& facts, int64_t token) {
  if (facts.tokenizer) {
    if (auto text = facts.tokenizer->Continuation(token)) return *text;
  }
  return fmt::format("token_id:{}", token);  // as vLLM has it
}

double FiniteLogprob(double logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

json LogprobsOf(const AnswerFacts& facts, const std::vector<ScoredToken>& tokens) {
  const auto entry = [&](int64_t token, double logprob) -> json {
    const std::string text = TextOfToken(facts, token);
    json bytes = json::array();
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", text}, {"logprob", FiniteLogprob(logprob)}, {"bytes", std::move(bytes)}};
  };
  json content = json::array();
  for (const ScoredToken& token : tokens) {
    json one = entry(token.token, token.logprob.value_or(0));
    one["top_logprobs"] = json::array();
    for (const auto& [id, logprob] : token.likeliest)
      one["top_logprobs"].push_back(entry(id, logprob));
    content.push_back(std::move(one));
  }
  return content;
}

}  // namespace evoq::serve
