// The calls of tools that a chat model writes, as the chat template has them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve/tool_forms.h"
#include "tokenizer/grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace evoq::serve {

// What a request offers: the tools, and the form of calls to them.
struct OfferedTools {
  const ToolForm* form = nullptr;  // null: none are offered
  ToolSchemas tools;
  std::vector<int64_t> markers;  // special pieces that the text must show
  bool single = false;           // at most one call: those behind it are lost
  bool plain_json = false;       // a text may be nothing but calls in JSON, whatever the form
};

// Of OpenAI's member `tools`. Errors: kInvalidInput for what is no list of functions.
Result<OfferedTools> ReadTools(const nlohmann::ordered_json& tools, const Tokenizer& tokenizer);

// Of texts that are a call of the tool `name`, or of any one where it is empty; in JSON alone where
// a call of the form is none (`plain_json` reads it). Errors: those of
// GrammarOfSchema on a tool's parameters; kInvalidInput for a name that is not offered.
Result<std::shared_ptr<const Grammar>> GrammarOfCalls(const nlohmann::ordered_json& tools,
                                                      const OfferedTools& offered,
                                                      const std::string& name);

// Takes a text in pieces, and takes the calls out of it. What looks like a call and is none stays
// in the text.
class ToolCallReader {
 public:
  explicit ToolCallReader(const OfferedTools& offered) : offered_(offered) {}

  // What of the text so far is no call.
  std::string Next(std::string_view text);
  std::string Finish();
  // Those that are complete, and that were not given out before.
  std::vector<ToolCall> Calls() { return std::exchange(calls_, {}); }
  size_t count() const { return count_; }
  // What a model wrote for itself in a channel of its own, and that was not given out before.
  std::string Reasoning() { return std::exchange(reasoning_, ""); }
  bool has_reasoning() const { return !reasoning_.empty(); }

 private:
  bool MayBeginByName(std::string_view text) const;
  bool ReadChannel(bool finished, std::string& out);
  void EndChannel(std::string_view text, std::string& out);
  bool Read(bool finished, std::string& out);
  bool Take(std::vector<ToolCall> calls, bool offered_only);
  void Give(size_t count, std::string& out);
  OfferedTools offered_;
  std::string held_;
  bool plain_ = true;  // the text may be nothing but calls
  bool in_channel_ = false;
  ChannelHead head_;  // of the channel
  std::string reasoning_;
  std::vector<ToolCall> calls_;
  size_t count_ = 0;
};

}  // namespace evoq::serve
