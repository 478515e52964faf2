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
#include "tokenizer/grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace evoq::serve {

struct ToolCall {
  std::string id, name;
  std::string arguments;  // JSON
};

// How a family of models writes its calls, which its chat template tells.
struct ToolForm {
  const char* in_template;  // the template that has this text is of this form
  const char* begin;        // of a call or of a list of them; "": a text that is nothing but calls
  const char* end;          // "": the end of the text, or the next begin
  const char* arguments;    // their name
  bool list = false;        // a list is what stands between begin and end
  bool readable = true;
};

// What a request offers: the tools' names, and the form of calls to them.
struct OfferedTools {
  const ToolForm* form = nullptr;  // null: none are offered
  std::vector<std::string> names;
  std::vector<int64_t> markers;  // special pieces that the text must show
};

// Of OpenAI's member `tools`. Errors: kInvalidInput for what is no list of functions; kUnsupported
// for a template whose calls are in a form that is not read.
Result<OfferedTools> ReadTools(const nlohmann::ordered_json& tools, const Tokenizer& tokenizer);

// Of texts that are a call of the tool `name`, or of any one where it is empty. Errors: those of
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

 private:
  bool Read(bool finished, std::string& out);
  bool Take(std::string_view inner, bool offered_only);
  void Give(size_t count, std::string& out);
  OfferedTools offered_;
  std::string held_;
  bool plain_ = true;  // the text may be nothing but calls
  std::vector<ToolCall> calls_;
  size_t count_ = 0;
};

}  // namespace evoq::serve
