// What models for a task have behind an encoder: sorts of texts, of tokens, and answers in a text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "llm/encoder.h"

namespace evoq {

// Of config.json's `architectures`; kNone for a task that is none of these.
EncoderHead HeadOf(const nlohmann::json& config);

// The name in the graph of a head's tensor: "head.out.weight"; "" for any other. `stem`: the name
// without the model's prefix.
std::string HeadTensor(EncoderHead head, std::string_view stem);

// The fact llm.notes says of each head that is left out; what it says, as one sentence.
std::string LeftOutNote(const std::string& head);
std::optional<std::string> LeftOutSentence(const Graph& graph);

}  // namespace evoq
