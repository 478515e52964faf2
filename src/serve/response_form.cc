// OpenAI's responses: a list of items, each of which is built up by events.
#include <utility>

#include "serve/answer_form.h"

namespace evoq::serve {
namespace {

using nlohmann::json;

// How an item is built whose content is a text.
struct TextItem {
  const char* type;   // the item's
  const char* id;     // how its id begins
  const char* part;   // the type of its content
  const char* delta;  // events
  const char* done;
};
constexpr TextItem kMessage = {"message", "msg_", "output_text", "response.output_text.delta",
                               "response.output_text.done"};
constexpr TextItem kReasoning = {"reasoning", "rs_", "reasoning_text",
                                 "response.reasoning_text.delta", "response.reasoning_text.done"};

// Of one choice.
class ResponseForm : public AnswerForm {
 public:
  explicit ResponseForm(AnswerFacts facts) : facts_(std::move(facts)) {}

  json Whole(std::vector<WholeChoice> choices, const TextUsage& usage) override {
    Add(std::move(choices[0].part));
    EndItems(choices[0].text.ended);
    return Now(usage);
  }
  std::string Part(size_t, ChoicePart part) override {
    Add(std::move(part));
    return std::exchange(events_, "");
  }
  std::string Last(size_t, WholeChoice rest) override {
    Add(std::move(rest.part));
    EndItems(rest.text.ended);
    return std::exchange(events_, "");
  }
  std::string End(const TextUsage& usage) override {
    Event(complete_ ? "response.completed" : "response.incomplete", {{"response", Now(usage)}});
    return std::exchange(events_, "");
  }
  std::string Failed(const Refusal& why) override {
    Close("incomplete");
    json response = Head("failed");
    response["error"] = {{"code", "server_error"}, {"message", why.message}};
    Event("response.failed", {{"response", std::move(response)}});
    return std::exchange(events_, "");
  }

 private:
  void Event(const char* type, json fields) {
    if (!facts_.asked.stream) return;
    fields["type"] = type;
    fields["sequence_number"] = sequence_++;
    events_ += EventOf(fields, type);
  }

  // The response without its usage.
  json Head(const char* status) const {
    json head = facts_.asked.repeated;
    head["id"] = "resp_" + facts_.id;
    head["object"] = "response";
    head["created_at"] = facts_.created;
    head["model"] = facts_.model;
    head["status"] = status;
    head["output"] = output_;
    head["error"] = nullptr;
    head["incomplete_details"] = nullptr;
    head["usage"] = nullptr;
    return head;
  }

  json Now(const TextUsage& usage) const {
    json response = Head(complete_ ? "completed" : "incomplete");
    if (complete_) {
      response["completed_at"] = std::time(nullptr);
    } else {
      response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    response["usage"] = {
        {"input_tokens", usage.prompt},
        {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
        {"output_tokens", usage.text},
        {"output_tokens_details", {{"reasoning_tokens", ReasoningTokens()}}},
        {"total_tokens", usage.prompt + usage.text}};
    return response;
  }

  // Of the texts of reasoning, as the tokenizer has them.
  size_t ReasoningTokens() const {
    size_t count = 0;
    for (const json& item : output_) {
      if (item["type"] != kReasoning.type || !facts_.tokenizer) continue;
      const auto tokens = facts_.tokenizer->Encode(item["content"][0]["text"].get<std::string>());
      if (tokens) count += tokens->size();
    }
    return count;
  }

  void Begin() {
    if (std::exchange(begun_, true)) return;
    Event("response.created", {{"response", Head("in_progress")}});
    Event("response.in_progress", {{"response", Head("in_progress")}});
  }

  void Add(ChoicePart part) {
    Begin();
    if (!part.reasoning.empty()) Append(kReasoning, part.reasoning, {});
    if (!part.text.empty()) Append(kMessage, part.text, part.tokens);
    for (const ToolCall& call : part.calls) Call(call);
  }

  void EndItems(Ended ended) {
    complete_ = EndedByItself(ended);
    if (output_.empty() && open_ == nullptr) Open(kMessage);  // a text of nothing
    Close(complete_ ? "completed" : "incomplete");
  }

  // Events of the item that is open have its place.
  json Placed(json fields) const {
    fields["output_index"] = output_.size();
    return fields;
  }
  json InContent(json fields) const {
    fields["item_id"] = item_["id"];
    fields["content_index"] = 0;
    return Placed(std::move(fields));
  }

  void Open(const TextItem& kind) {
    open_ = &kind;
    item_ = {{"type", kind.type},
             {"id", fmt::format("{}{}_{}", kind.id, facts_.id, output_.size())},
             {"status", "in_progress"},
             {"content", json::array()}};
    if (open_ == &kMessage) {
      item_["role"] = "assistant";
    } else {
      item_["summary"] = json::array();
    }
    part_ = {{"type", kind.part}, {"text", ""}};
    if (open_ == &kMessage) part_.update({{"annotations", json::array()}});
    if (open_ == &kMessage) part_["logprobs"] = json::array();
    Event("response.output_item.added", Placed({{"item", item_}}));
    Event("response.content_part.added", InContent({{"part", part_}}));
  }

  void Append(const TextItem& kind, const std::string& text,
              const std::vector<ScoredToken>& tokens) {
    if (open_ != &kind) {
      Close("completed");
      Open(kind);
    }
    part_["text"].get_ref<std::string&>() += text;
    json fields = {{"delta", text}};
    if (open_ == &kMessage) {
      fields["logprobs"] = LogprobsOf(facts_, tokens);
      for (const json& token : fields["logprobs"]) part_["logprobs"].push_back(token);
    }
    Event(kind.delta, InContent(std::move(fields)));
  }

  // The item that is open, where one is.
  void Close(const char* status) {
    if (open_ == nullptr) return;
    json fields = {{"text", part_["text"]}};
    if (part_.contains("logprobs")) fields["logprobs"] = part_["logprobs"];
    Event(open_->done, InContent(std::move(fields)));
    Event("response.content_part.done", InContent({{"part", part_}}));
    item_["content"].push_back(std::move(part_));
    item_["status"] = status;
    open_ = nullptr;
    Done();
  }

  void Call(const ToolCall& call) {
    Close("completed");
    item_ = {{"type", "function_call"}, {"id", fmt::format("fc_{}_{}", facts_.id, output_.size())},
             {"call_id", call.id},      {"name", call.name},
             {"arguments", ""},         {"status", "in_progress"}};
    Event("response.output_item.added", Placed({{"item", item_}}));
    Event("response.function_call_arguments.delta",
          Placed({{"item_id", item_["id"]}, {"delta", call.arguments}}));
    Event("response.function_call_arguments.done",
          Placed({{"item_id", item_["id"]}, {"name", call.name}, {"arguments", call.arguments}}));
    item_["arguments"] = call.arguments;
    item_["status"] = "completed";
    Done();
  }

  void Done() {
    Event("response.output_item.done", Placed({{"item", item_}}));
    output_.push_back(std::exchange(item_, json()));
  }

  const AnswerFacts facts_;
  json output_ = json::array();  // the items that are done
  const TextItem* open_ = nullptr;
  json item_, part_;  // of what is open
  std::string events_;
  int64_t sequence_ = 0;
  bool begun_ = false, complete_ = false;
};

}  // namespace

std::unique_ptr<AnswerForm> MakeResponseForm(AnswerFacts facts) {
  return std::make_unique<ResponseForm>(std::move(facts));
}

}  // namespace evoq::serve
