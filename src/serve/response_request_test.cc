#include "serve/response_request.h"

#include <gtest/gtest.h>

namespace evoq::serve {
namespace {

using nlohmann::ordered_json;

ordered_json ChatOf(const char* request) {
  const auto as = AsChat(ordered_json::parse(request));
  return as ? as->chat : ordered_json(as.error().message());
}

TEST(ResponseRequest, ItemsAreMessages) {
  EXPECT_EQ(ChatOf(R"({"model": "m", "input": "hi", "instructions": "be brief",
                       "max_output_tokens": 7, "top_k": 3})"),
            ordered_json::parse(R"({"model": "m", "top_k": 3, "max_tokens": 7, "messages": [
                {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]})"));
  const auto turn = ChatOf(R"({"instructions": "a", "input": [
      {"role": "developer", "content": "b"},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "c"},
                                                      {"type": "input_text", "text": "d"}]},
      {"type": "reasoning", "id": "rs", "summary": [],
       "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "message", "id": "msg", "status": "completed", "role": "assistant",
       "content": [{"type": "output_text", "text": "e", "annotations": []}]},
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
      {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{\"x\":1}"},
      {"type": "function_call_output", "call_id": "1", "output": "one"},
      {"type": "function_call_output", "call_id": "2",
       "output": [{"type": "input_text", "text": "two"}]}]})");
  EXPECT_EQ(turn, ordered_json::parse(R"({"messages": [
      {"role": "system", "content": "a\n\nb"},
      {"role": "user", "content": "cd"},
      {"role": "assistant", "content": "e", "reasoning_content": "hm", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{\"x\":1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "one", "name": "f"},
      {"role": "tool", "tool_call_id": "2", "content": "two", "name": "g"}]})"));
}

TEST(ResponseRequest, ToolsAreNested) {
  const char* const request = R"({"input": "a", "tool_choice": %s, "tools": [
      {"type": "function", "name": "f", "strict": true, "parameters": {"type": "object"}},
      {"type": "function", "name": "g", "description": null}]})";
  const auto with = [&](const char* choice) {
    std::string text = request;
    text.replace(text.find("%s"), 2, choice);
    ordered_json chat = ChatOf(text.c_str());
    if (chat.is_object()) chat.erase("messages");
    return chat.dump();
  };
  const std::string f = R"({"type":"function","function":{"name":"f","parameters":)"
                        R"({"type":"object"},"strict":true}})";
  const std::string g = R"({"type":"function","function":{"name":"g"}})";
  const std::string both = R"("tools":[)" + f + "," + g + "]}";
  EXPECT_EQ(with("null"), "{" + both);
  EXPECT_EQ(with(R"("required")"), R"({"tool_choice":"required",)" + both);
  EXPECT_EQ(with(R"({"type": "function", "name": "g"})"),
            R"({"tool_choice":{"type":"function","function":{"name":"g"}},)" + both);
  EXPECT_EQ(with(R"({"type": "allowed_tools", "mode": "required",
                     "tools": [{"type": "function", "name": "g"}]})"),
            R"({"tool_choice":"required","tools":[)" + g + "]}");
  EXPECT_EQ(with(R"({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "h"}]})"),
            R"("tool_choice.tools[0]: h is none of the tools")");
  EXPECT_EQ(with(R"({"type": "custom", "name": "h"})"),
            R"("tool_choice: of type custom, expected function or allowed_tools")");
}

TEST(ResponseRequest, FormsAndWhatTheAnswerSaysAgain) {
  const auto as = AsChat(ordered_json::parse(R"({"input": "a", "temperature": 0.5, "n": 2,
      "text": {"format": {"type": "json_schema", "name": "z", "strict": true, "schema": {"b": 1}}},
      "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"k": "v"}, "store": true,
      "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
      "max_tokens": 5, "messages": []})"));
  ASSERT_TRUE(as) << as.error().message();
  EXPECT_EQ(as->chat["response_format"].dump(),
            R"({"type":"json_schema","json_schema":{"name":"z","strict":true,"schema":{"b":1}}})");
  EXPECT_EQ(as->chat["reasoning_effort"], "low");
  EXPECT_EQ(as->chat["logprobs"], true);
  EXPECT_FALSE(as->chat.contains("max_tokens"));
  EXPECT_EQ(as->ignored, (std::vector<std::string>{"messages", "n", "max_tokens"}));
  EXPECT_EQ(as->repeated["temperature"], 0.5);
  EXPECT_EQ(as->repeated["store"], false);
  EXPECT_EQ(as->repeated["metadata"]["k"], "v");
  EXPECT_EQ(as->repeated["reasoning"]["summary"], "auto");
  EXPECT_EQ(as->repeated["text"]["format"]["name"], "z");
  EXPECT_EQ(as->repeated["tool_choice"], "auto");
}

TEST(ResponseRequest, Refuses) {
  const auto message = [](const std::string& members) {
    const auto as = AsChat(ordered_json::parse(R"({"input": "a", )" + members + "}"));
    return as ? "" : as.error().message();
  };
  EXPECT_EQ(message(R"("previous_response_id": "resp_1")"),
            "previous_response_id: \"resp_1\", responses are not kept by this server: expected "
            "what was said before in input");
  EXPECT_EQ(message(R"("background": true)"), "background: true, not supported by this server");
  EXPECT_EQ(message(R"("background": false, "conversation": null)"), "");
  EXPECT_EQ(message(R"("truncation": "some")"),
            "truncation: \"some\", expected \"auto\" or \"disabled\"");
  EXPECT_EQ(message(R"("input": [{"type": "item_reference", "id": "x"}])"),
            "input[0]: of type item_reference, expected message, function_call, "
            "function_call_output or reasoning");
  EXPECT_EQ(message(R"("input": [1])"), "input[0]: 1, expected an item");
  EXPECT_EQ(message(R"("input": [{"role": "user", "content": [{"type": "input_image"}]}])"),
            "input[0].content[0]: an object of type input_image, expected one of type input_text "
            "or output_text");
  EXPECT_EQ(message(R"("input": [{"type": "function_call", "call_id": 5}])"),
            "input[0].call_id: 5, expected a text");
  EXPECT_EQ(message(R"("input": [{"role": "user", "content": [{"type": "text", "text": 1}]}])"),
            "input[0].content[0].text: 1, expected a text");
  EXPECT_EQ(message(R"("tools": [{"type": "web_search"}])"),
            "tools[0]: of type web_search, expected function");
  EXPECT_EQ(message(R"("tools": {})"), "tools: an object, expected a list of functions");
  EXPECT_EQ(message(R"("text": [])"), "text: a list of 0, expected an object");
  EXPECT_EQ(message(R"("text": {"format": {"type": "json_schema"}})"),
            "text.format: an object, expected a schema");
  EXPECT_EQ(message(R"("max_output_tokens": 1e30)"),
            "max_output_tokens: 1e+30, expected a whole number from 1 to 1073741824");
  EXPECT_EQ(message(R"("metadata": {"a": {}})"),
            "metadata: an object, expected an object of at most 16 texts of at most 512 "
            "characters, with names of at most 64");
}

}  // namespace
}  // namespace evoq::serve
