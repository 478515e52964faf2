// For tests: calls of operators written as text, `Op{attributes}` and its inputs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/driver.h"
#include "ops/op.h"

namespace evoq {

// An input is a type, a constant ("int64[2] = [1, 2]") or "" where it is omitted. With `lines`
// below the node: its subgraphs, in the graph's text form.
struct WrittenCall {
  std::string op;
  std::vector<std::string> inputs;
  std::string lines = "";
  int outputs = 1;
};

inline Graph GraphOf(const WrittenCall& call, bool constants) {
  std::string text, list, results = "%y0";
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::string& input = call.inputs[i];
    const std::string name = "%x" + std::to_string(i);
    list += (i > 0 ? ", " : "") + (input.empty() ? "_" : name);
    if (input.empty()) continue;
    const bool constant = constants || input.find(" = ") != std::string::npos;
    text += (constant ? "const " : "input ") + name + ": " + input + "\n";
  }
  for (int i = 1; i < call.outputs; ++i) results += ", %y" + std::to_string(i);
  text += "n: " + results + " = " + call.op + "(" + list + ")\n" + call.lines;
  for (int i = 0; i < call.outputs; ++i) text += "output %y" + std::to_string(i) + "\n";
  auto graph = ParseGraph(text);
  if (graph) return std::move(*graph);
  ADD_FAILURE() << graph.error().message() << "\n" << text;
  return {};
}

// The message without the node's name, its code behind it unless that is kInvalidInput.
inline std::string MessageOf(const Error& error) {
  const std::string message = error.message();
  const size_t end = message.find("): ");
  EXPECT_TRUE(message.starts_with("node n (") && end != std::string::npos) << message;
  const std::string code = error.code() == ErrorCode::kInvalidInput
                               ? ""
                               : std::string(" [") + ErrorCodeName(error.code()) + "]";
  return message.substr(end + 3) + code;
}

// The inferred types of the outputs, or the message.
inline std::string InferCall(const WrittenCall& call) {
  Graph graph = GraphOf(call, false);
  if (const Status status = InferTypes(graph, kNoEvaluator); !status)
    return MessageOf(status.error());
  std::string types;
  for (ValueId id : graph.outputs())
    types += (types.empty() ? "" : ", ") + graph.value(id).type.ToString();
  return types;
}

struct CallRow {
  WrittenCall call;
  const char* wanted;
};

inline void CheckCalls(const std::vector<CallRow>& rows, std::string (*tell)(const WrittenCall&)) {
  for (const CallRow& row : rows)
    EXPECT_EQ(tell(row.call), row.wanted)
        << row.call.op << " of " << testing::PrintToString(row.call.inputs);
}
inline void CheckInferred(const std::vector<CallRow>& rows) { CheckCalls(rows, InferCall); }

}  // namespace evoq
