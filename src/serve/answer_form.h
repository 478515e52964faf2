// The forms of answers to requests for texts: a class for each interface.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/openai_request.h"
#include "serve/refusal.h"

namespace evoq::serve {

// Of a choice's text: all of it, or what came since the part before.
struct ChoicePart {
  std::string text;       // what is no call of a tool
  std::string reasoning;  // what the model wrote for itself
  std::vector<ToolCall> calls;
  std::vector<ScoredToken> tokens;  // where they are asked for

  bool Empty() const { return text.empty() && reasoning.empty() && calls.empty(); }
};

struct WholeChoice {
  ChoicePart part;
  Generated text;
};

// Tokens of a request: of all prompts, of those that were not run again, and of all texts.
struct TextUsage {
  size_t prompt = 0, cached = 0, text = 0;
};

// What an answer is of. Refers to the request.
struct AnswerFacts {
  std::string id;  // of the exchange
  std::string model;
  std::time_t created;
  const TextAsked& asked;
  const std::optional<Tokenizer>& tokenizer;
};

// The answer to one request, on one thread. An answer is whole, or it is in pieces: then each
// function gives what is sent next, server-sent events.
class AnswerForm {
 public:
  virtual ~AnswerForm() = default;

  virtual nlohmann::json Whole(std::vector<WholeChoice> choices, const TextUsage& usage) = 0;

  virtual std::string Part(size_t choice, ChoicePart part) = 0;
  // The last part of a choice.
  virtual std::string Last(size_t choice, WholeChoice rest) = 0;
  // After all choices.
  virtual std::string End(const TextUsage& usage) = 0;
  // Instead of what is not there yet.
  virtual std::string Failed(const Refusal& why) = 0;
};

std::unique_ptr<AnswerForm> MakeCompletionForm(AnswerFacts facts);
std::unique_ptr<AnswerForm> MakeChatForm(AnswerFacts facts);
std::unique_ptr<AnswerForm> MakeResponseForm(AnswerFacts facts);
std::unique_ptr<AnswerForm> MakeLlamaForm(AnswerFacts facts);  // of ReadLlamaCompletion

// What forms share.

// A server-sent event, with its name where it has one.
std::string EventOf(const nlohmann::json& data, const char* name = nullptr);
// The end token, or a text that ends one: else a limit ended it.
bool EndedByItself(Ended ended);
std::string TextOfToken(const AnswerFacts& facts, int64_t token);
// JSON has no infinity: OpenAI's figure for what cannot come.
double FiniteLogprob(double logprob);
// A list of tokens as chats have them: text, logprob, bytes, and the likeliest in its place.
nlohmann::json LogprobsOf(const AnswerFacts& facts, const std::vector<ScoredToken>& tokens);

}  // namespace evoq::serve
