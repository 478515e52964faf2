#include "serve/answer_form.h"

#include <gtest/gtest.h>

namespace evoq::serve {
namespace {

using nlohmann::json;

const std::optional<Tokenizer> kNoTokenizer;

TextAsked Asked(bool stream) {
  TextAsked asked;
  asked.prompts.resize(1);
  asked.stream = stream;
  asked.repeated = {{"store", false}};
  return asked;
}

ChoicePart TextPart(const char* text) {
  ChoicePart part;
  part.text = text;
  return part;
}

// A text of all kinds of parts.
std::vector<ChoicePart> Parts() {
  std::vector<ChoicePart> parts(5);
  parts[0].reasoning = "Hm";
  parts[1].reasoning = ".";
  parts[2] = TextPart("I ");
  parts[3] = TextPart("add.");
  parts[4].calls = {{"1", "add", "{}"}, {"2", "now", R"({"a":1})"}};
  return parts;
}

Generated Ended(Ended why) {
  Generated text;
  text.ended = why;
  return text;
}

// Data of the events, which say their names.
std::vector<json> EventsOf(std::string_view text) {
  std::vector<json> events;
  while (!text.empty()) {
    const size_t end = text.find("\n\n"), line = text.find('\n');
    EXPECT_EQ(text.substr(0, 7), "event: ");
    events.push_back(json::parse(text.substr(line + 7, end - line - 7)));
    EXPECT_EQ(events.back()["type"], std::string(text.substr(7, line - 7)));
    text = text.substr(end + 2);
  }
  return events;
}

std::vector<json> Streamed(AnswerForm& form, enum Ended why) {
  std::string text;
  for (ChoicePart& part : Parts()) text += form.Part(0, std::move(part));
  text += form.Last(0, {{}, Ended(why)});
  text += form.End({.prompt = 10, .cached = 4, .text = 5});
  return EventsOf(text);
}

json WholeOf(AnswerForm& form, enum Ended why) {
  std::vector<WholeChoice> choices(1);
  for (ChoicePart& part : Parts()) {
    choices[0].part.text += part.text;
    choices[0].part.reasoning += part.reasoning;
    choices[0].part.calls.insert(choices[0].part.calls.end(), part.calls.begin(), part.calls.end());
  }
  choices[0].text = Ended(why);
  return form.Whole(std::move(choices), {.prompt = 10, .cached = 4, .text = 5});
}

TEST(AnswerForm, EventsBuildTheItemsOfAResponse) {
  const TextAsked asked = Asked(true), plain = Asked(false);
  const auto form = MakeResponseForm({"x", "m", 1, asked, kNoTokenizer});
  const std::vector<json> events = Streamed(*form, Ended::kEndToken);
  json items = json::array();
  for (size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const std::string type = event["type"];
    EXPECT_EQ(event["sequence_number"], i);
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], items.size());
      EXPECT_EQ(event["item"]["status"], "in_progress");
      items.push_back(event["item"]);
      continue;
    }
    if (type == "response.content_part.added") items.back()["content"].push_back(event["part"]);
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], items.back()["id"]);
    }
    if (event.contains("output_index")) {
      EXPECT_EQ(event["output_index"], items.size() - 1);
    }
    if (type.ends_with("text.delta"))
      items.back()["content"][0]["text"].get_ref<std::string&>() += event["delta"];
    if (type == "response.function_call_arguments.delta")
      items.back()["arguments"].get_ref<std::string&>() += event["delta"];
    if (type != "response.output_item.done") continue;
    items.back()["status"] = "completed";
    EXPECT_EQ(event["item"], items.back());
  }
  EXPECT_EQ(events[0]["type"], "response.created");
  EXPECT_EQ(events[1]["type"], "response.in_progress");
  EXPECT_EQ(events[0]["response"]["id"], "resp_x");
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"], items);
  ASSERT_EQ(items.size(), 4);
  EXPECT_EQ(items[0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(items[1]["content"][0]["text"], "I add.");
  EXPECT_EQ(items[3]["name"], "now");
  const auto whole_form = MakeResponseForm({"x", "m", 1, plain, kNoTokenizer});
  const json whole = WholeOf(*whole_form, Ended::kEndToken);
  EXPECT_EQ(whole["output"], items);
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["store"], false);
  EXPECT_EQ(whole["usage"]["input_tokens_details"]["cached_tokens"], 4);
  EXPECT_EQ(whole["usage"]["input_tokens"], 10);
  EXPECT_EQ(whole["usage"]["output_tokens"], 5);
  EXPECT_EQ(whole["usage"]["total_tokens"], 15);
}

TEST(AnswerForm, AResponseThatIsCutOrFails) {
  const TextAsked asked = Asked(true);
  auto form = MakeResponseForm({"x", "m", 1, asked, kNoTokenizer});
  std::string text = form->Part(0, TextPart("a"));
  text += form->Last(0, {TextPart("b"), Ended(Ended::kMaxTokens)}) + form->End({});
  json last = EventsOf(text).back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["status"], "incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(last["response"]["output"][0]["status"], "incomplete");
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "ab");
  form = MakeResponseForm({"x", "m", 1, asked, kNoTokenizer});
  text = form->Part(0, TextPart("a")) + form->Failed({Why::kFailed, "no memory", 0});
  last = EventsOf(text).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["error"]["message"], "no memory");
  // A text of nothing is a message, too.
  form = MakeResponseForm({"x", "m", 1, asked, kNoTokenizer});
  text = form->Last(0, {{}, Ended(Ended::kEndToken)}) + form->End({});
  EXPECT_EQ(EventsOf(text).back()["response"]["output"][0]["content"][0]["text"], "");
}

TEST(AnswerForm, ChatsAndCompletions) {
  TextAsked asked = Asked(false);
  asked.prompts[0].text = "Now: ";
  auto form = MakeChatForm({"x", "m", 1, asked, kNoTokenizer});
  json choice = WholeOf(*form, Ended::kStopText)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I add.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm.");
  EXPECT_EQ(choice["message"]["tool_calls"][1]["function"]["name"], "now");
  form = MakeCompletionForm({"x", "m", 1, asked, kNoTokenizer});
  choice = WholeOf(*form, Ended::kContext)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["text"], "Now: I add.");
  form = MakeChatForm({"x", "m", 1, asked, kNoTokenizer});
  const auto deltas = [&](const std::string& text) {
    std::string out;
    for (size_t at = 0; (at = text.find("\"delta\":", at)) != std::string::npos; at += 8) {
      const size_t end = text.find(",\"finish_reason\"", at);
      out += text.substr(at + 8, end - at - 8) + " ";
    }
    return out;
  };
  EXPECT_EQ(deltas(form->Part(0, TextPart("a"))),
            R"({"content":"","role":"assistant"} {"content":"a"} )");
  ChoicePart call;
  call.calls = {{"1", "add", "{}"}};
  EXPECT_EQ(deltas(form->Part(0, call)),
            R"({"tool_calls":[{"function":{"arguments":"{}","name":"add"},"id":"1","index":0,)"
            R"("type":"function"}]} )");
  const std::string last = form->Last(0, {{}, Ended(Ended::kEndToken)});
  EXPECT_EQ(deltas(last), "{} ");
  EXPECT_NE(last.find(R"("finish_reason":"tool_calls")"), std::string::npos);
}

}  // namespace
}  // namespace evoq::serve
