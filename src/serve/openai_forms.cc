// OpenAI's completions and chats.
#include <utility>

#include "base/text.h"
#include "serve/answer_form.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

int64_t Characters(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += Utf8At(text, at).bytes;
  return count;
}

// What both have: choices in an object with a head.
class OpenAiForm : public AnswerForm {
 public:
  explicit OpenAiForm(AnswerFacts facts) : facts_(std::move(facts)) {}

  json Whole(std::vector<WholeChoice> choices, const TextUsage& usage) override {
    json whole = Head(false);
    whole["choices"] = json::array();
    for (size_t i = 0; i < choices.size(); ++i)
      whole["choices"].push_back(Of(i, std::move(choices[i])));
    whole["usage"] = UsageOf(usage);
    return whole;
  }
  std::string Part(size_t choice, ChoicePart part) override {
    return Piece(choice, std::move(part), nullptr);
  }
  std::string Last(size_t choice, WholeChoice rest) override {
    const char* const reason = ReasonOf(choice, rest);
    return Piece(choice, std::move(rest.part), reason);
  }
  std::string End(const TextUsage& usage) override {
    std::string out;
    if (facts_.asked.usage) {
      json last = Head(true);
      last["choices"] = json::array();
      last["usage"] = UsageOf(usage);
      out = EventOf(last);
    }
    return out + "data: [DONE]\n\n";
  }
  std::string Failed(const Refusal& why) override {
    return EventOf({{"error", {{"message", why.message}, {"type", NameOf(why.why)}}}});
  }

 protected:
  virtual json Head(bool piece) const = 0;
  virtual json Of(size_t choice, WholeChoice whole) = 0;
  virtual const char* ReasonOf(size_t choice, const WholeChoice& whole) const = 0;
  // `reason` of the choice's end; nullptr: it goes on.
  virtual std::string Piece(size_t choice, ChoicePart part, const char* reason) = 0;

  json HeadOf(const char* id, const char* object) const {
    return {{"id", id + facts_.id},
            {"object", object},
            {"created", facts_.created},
            {"model", facts_.model}};
  }
  json UsageOf(const TextUsage& usage) const {
    return {{"prompt_tokens", usage.prompt},
            {"completion_tokens", usage.text},
            {"total_tokens", usage.prompt + usage.text}};
  }
  json ChoiceHead(size_t choice, json logprobs, const char* reason) const {
    return {{"index", choice},
            {"finish_reason", reason != nullptr ? json(reason) : json()},
            {"logprobs", std::move(logprobs)}};
  }
  std::string EventOfChoice(json choice) const {
    json chunk = Head(true);
    chunk["choices"] = json::array({std::move(choice)});
    return EventOf(chunk);
  }

  const AnswerFacts facts_;
};

class CompletionForm : public OpenAiForm {
 public:
  using OpenAiForm::OpenAiForm;

 protected:
  json Head(bool) const override { return HeadOf("cmpl-", "text_completion"); }
  const char* ReasonOf(size_t, const WholeChoice& whole) const override {
    return EndedByItself(whole.text.ended) ? "stop" : "length";
  }
  json Of(size_t choice, WholeChoice whole) override {
    json out = ChoiceHead(choice, Logprobs(choice, whole.part.tokens), ReasonOf(choice, whole));
    out["text"] = Echoed(choice) + whole.part.text;
    return out;
  }
  std::string Piece(size_t choice, ChoicePart part, const char* reason) override {
    const std::string before = StateOf(choice).begun ? "" : Echoed(choice);
    StateOf(choice).begun = true;
    json out = ChoiceHead(choice, Logprobs(choice, part.tokens), reason);
    out["text"] = before + part.text;
    return EventOfChoice(std::move(out));
  }

 private:
  struct State {
    bool begun = false;
    int64_t offset = 0;  // of the text so far, in characters
  };
  State& StateOf(size_t choice) {
    if (states_.size() <= choice) states_.resize(choice + 1);
    return states_[choice];
  }
  const std::string& Echoed(size_t choice) const {
    return facts_.asked.prompts[choice / static_cast<size_t>(facts_.asked.choices)].text;
  }
  json Logprobs(size_t choice, const std::vector<ScoredToken>& tokens) {
    if (!facts_.asked.logprobs) return nullptr;
    json texts = json::array(), chosen = json::array(), likeliest = json::array(),
         offsets = json::array();
    for (const ScoredToken& token : tokens) {
      const std::string text = TextOfToken(facts_, token.token);
      texts.push_back(text);
      offsets.push_back(StateOf(choice).offset);
      StateOf(choice).offset += Characters(text);
      chosen.push_back(token.logprob ? json(FiniteLogprob(*token.logprob)) : json());
      json beside;
      for (const auto& [id, logprob] : token.likeliest)
        beside.emplace(TextOfToken(facts_, id), FiniteLogprob(logprob));  // the likeliest of equals
      // The token's own is there as well, as in OpenAI's.
      if (token.logprob && !token.likeliest.empty())
        beside.emplace(text, FiniteLogprob(*token.logprob));
      likeliest.push_back(std::move(beside));
    }
    const bool several = facts_.asked.options.likeliest > 0;
    return {{"tokens", std::move(texts)},
            {"token_logprobs", std::move(chosen)},
            {"top_logprobs", several ? std::move(likeliest) : json()},
            {"text_offset", std::move(offsets)}};
  }

  std::vector<State> states_;
};

class ChatForm : public OpenAiForm {
 public:
  using OpenAiForm::OpenAiForm;

 protected:
  json Head(bool piece) const override {
    return HeadOf("chatcmpl-", piece ? "chat.completion.chunk" : "chat.completion");
  }
  const char* ReasonOf(size_t choice, const WholeChoice& whole) const override {
    if (!EndedByItself(whole.text.ended)) return "length";
    const bool called =
        !whole.part.calls.empty() || (choice < states_.size() && states_[choice].calls > 0);
    return called ? "tool_calls" : "stop";
  }
  json Of(size_t choice, WholeChoice whole) override {
    json out = ChoiceHead(choice, Logprobs(whole.part), ReasonOf(choice, whole));
    const json text = whole.part.text;
    out["message"] = {{"role", "assistant"}, {"content", text}};
    if (json calls = Calls(choice, whole.part, false); !calls.empty()) {
      if (whole.part.text.empty()) out["message"]["content"] = nullptr;
      out["message"]["tool_calls"] = std::move(calls);
    }
    if (!whole.part.reasoning.empty()) out["message"]["reasoning_content"] = whole.part.reasoning;
    return out;
  }
  std::string Piece(size_t choice, ChoicePart part, const char* reason) override {
    std::string first;
    if (!std::exchange(StateOf(choice).begun, true)) {
      json role = ChoiceHead(choice, nullptr, nullptr);
      role["delta"] = {{"role", "assistant"}, {"content", ""}};
      first = EventOfChoice(std::move(role));
    }
    json out = ChoiceHead(choice, Logprobs(part), reason);
    out["delta"] = json::object();
    if (!part.text.empty()) out["delta"]["content"] = part.text;
    if (json calls = Calls(choice, part, true); !calls.empty())
      out["delta"]["tool_calls"] = std::move(calls);
    if (!part.reasoning.empty()) out["delta"]["reasoning_content"] = part.reasoning;
    return first + EventOfChoice(std::move(out));
  }

 private:
  struct State {
    bool begun = false;
    size_t calls = 0;  // so far
  };
  State& StateOf(size_t choice) {
    if (states_.size() <= choice) states_.resize(choice + 1);
    return states_[choice];
  }
  json Logprobs(const ChoicePart& part) const {
    if (!facts_.asked.logprobs) return nullptr;
    return {{"content", LogprobsOf(facts_, part.tokens)}};
  }
  json Calls(size_t choice, const ChoicePart& part, bool piece) {
    json calls = json::array();
    for (const ToolCall& call : part.calls) {
      json one = {{"id", call.id},
                  {"type", "function"},
                  {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
      if (piece) one["index"] = StateOf(choice).calls;
      ++StateOf(choice).calls;
      calls.push_back(std::move(one));
    }
    return calls;
  }

  std::vector<State> states_;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeCompletionForm(AnswerFacts facts) {
  return std::make_unique<CompletionForm>(std::move(facts));
}

std::unique_ptr<AnswerForm> MakeChatForm(AnswerFacts facts) {
  return std::make_unique<ChatForm>(std::move(facts));
}

}  // namespace evoq::serve
