#include "llm/encoder_head.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_file.h"

namespace evoq {
namespace {

constexpr std::string_view kLeftOut = ": a task's head, left out";

constexpr struct {
  std::string_view end;  // of the architecture's name
  EncoderHead head;
} kHeads[] = {{"ForSequenceClassification", EncoderHead::kTexts},
              {"ForTokenClassification", EncoderHead::kTokens},
              {"ForQuestionAnswering", EncoderHead::kAnswers}};

constexpr struct {
  EncoderHead head;
  std::string_view stored, ours;
} kTensors[] = {{EncoderHead::kTexts, "classifier.", "head.out."},
                {EncoderHead::kTexts, "classifier.out_proj.", "head.out."},
                {EncoderHead::kTexts, "classifier.dense.", "head.dense."},
                {EncoderHead::kTexts, "pre_classifier.", "head.dense."},
                {EncoderHead::kTokens, "classifier.", "head.out."},
                {EncoderHead::kAnswers, "qa_outputs.", "head.out."}};

}  // namespace

EncoderHead HeadOf(const nlohmann::json& config) {
  for (const nlohmann::json& name : JsonArray(config, "architectures")) {
    if (!name.is_string()) continue;
    const auto text = name.get<std::string>();
    for (const auto& [end, head] : kHeads) {
      if (text.ends_with(end)) return head;
    }
  }
  return EncoderHead::kNone;
}

std::string HeadTensor(EncoderHead head, std::string_view stem) {
  for (const auto& row : kTensors) {
    if (row.head != head || !stem.starts_with(row.stored)) continue;
    const std::string_view kind = stem.substr(row.stored.size());
    if (kind == "weight" || kind == "bias") return std::string(row.ours) + std::string(kind);
  }
  return "";
}

std::string LeftOutNote(const std::string& head) {
  return head.substr(0, 100) + std::string(kLeftOut);
}

std::optional<std::string> LeftOutSentence(const Graph& graph) {
  const auto notes = graph.metadata.find("llm.notes");
  if (notes == graph.metadata.end()) return std::nullopt;
  std::string heads;
  std::string_view rest = notes->second;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.ends_with(kLeftOut)) continue;
    heads += heads.empty() ? "" : ", ";
    heads += line.substr(0, line.size() - kLeftOut.size());
  }
  if (heads.empty()) return std::nullopt;
  return fmt::format(
      "what the model has for its task is left out ({}): its outputs are the encoder's "
      "(docs/llm.md#encoders)",
      heads);
}

}  // namespace evoq
