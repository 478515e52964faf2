#include "llm/facts.h"

#include <charconv>

#include "base/base64.h"
#include "base/text.h"

namespace evoq {
namespace {

constexpr std::string_view kFile = "llm.file.", kBinary = "llm.base64.";

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = Utf8At(text, at);
    if (!c.valid) return false;
    at += c.bytes;
  }
  return true;
}

Result<std::vector<int64_t>> Numbers(const Graph& graph, const std::string& key) {
  std::vector<int64_t> numbers;
  const auto fact = graph.metadata.find(key);
  if (fact == graph.metadata.end()) return numbers;
  const char *at = fact->second.data(), *end = at + fact->second.size();
  while (at < end) {
    int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (next < end && *next != ','))
      return InvalidInput("{} is '{}', expected numbers", key, fact->second.substr(0, 100));
    numbers.push_back(number);
    at = next + 1;
  }
  return numbers;
}

Result<int64_t> Number(const Graph& graph, const std::string& key) {
  EVOQ_ASSIGN(const std::vector<int64_t> numbers, Numbers(graph, key));
  if (numbers.size() != 1) return InvalidInput("{} is no number", key);
  return numbers[0];
}

}  // namespace

bool IsLanguageModel(const Graph& graph) { return graph.metadata.contains("llm.architecture"); }

bool IsTextEncoder(const Graph& graph) {
  return !IsLanguageModel(graph) && graph.metadata.contains("llm.vocabulary");
}

void SetFacts(const LanguageModel& model, Graph& graph) {
  auto& facts = graph.metadata;
  facts["llm.architecture"] = model.architecture;
  facts["llm.context"] = std::to_string(model.context);
  facts["llm.vocabulary"] = std::to_string(model.vocabulary);
  if (!model.begin.empty()) facts["llm.begin"] = fmt::format("{}", fmt::join(model.begin, ","));
  if (!model.end.empty()) facts["llm.end"] = fmt::format("{}", fmt::join(model.end, ","));
  if (!model.chat_template.empty()) facts["llm.chat_template"] = model.chat_template;
  for (const auto& [name, bytes] : model.files) {
    const bool text = IsUtf8(bytes);
    facts[std::string(text ? kFile : kBinary) + name] = text ? bytes : ToBase64(bytes);
  }
}

Result<LanguageModelFacts> ReadFacts(const Graph& graph) {
  if (!IsLanguageModel(graph) && !IsTextEncoder(graph))
    return InvalidInput("not a language model: it has no fact llm.architecture");
  LanguageModelFacts facts;
  const auto text = [&](const char* key) {
    const auto fact = graph.metadata.find(key);
    return fact == graph.metadata.end() ? std::string() : fact->second;
  };
  facts.architecture = text("llm.architecture");
  facts.prompt = text("llm.prompt");
  facts.normalize = text("llm.normalize") == "1";
  EVOQ_ASSIGN(facts.context, Number(graph, "llm.context"));
  EVOQ_ASSIGN(facts.vocabulary, Number(graph, "llm.vocabulary"));
  if (graph.metadata.contains("llm.max_length")) {
    EVOQ_ASSIGN(facts.max_length, Number(graph, "llm.max_length"));
  }
  EVOQ_ASSIGN(facts.begin, Numbers(graph, "llm.begin"));
  EVOQ_ASSIGN(facts.end, Numbers(graph, "llm.end"));
  if (const auto chat = graph.metadata.find("llm.chat_template"); chat != graph.metadata.end())
    facts.chat_template = chat->second;
  for (const auto& [key, value] : graph.metadata) {
    if (key.starts_with(kFile)) facts.files[key.substr(kFile.size())] = value;
    if (!key.starts_with(kBinary)) continue;
    EVOQ_ASSIGN(facts.files[key.substr(kBinary.size())], WithContext(FromBase64(value), key));
  }
  return facts;
}

}  // namespace evoq
