// GPT-2's vocab.json (piece -> number) and merges.txt (a merge a line, the first is first).
#include "base/json_file.h"
#include "tokenizer/kinds.h"

namespace evoq {
namespace {

using nlohmann::json;

Result<std::vector<std::pair<std::string, std::string>>> ParseMerges(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> merges;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return InvalidInput("line {}: expected two pieces with a space between", number);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

// How words are split, by the class that transformers reads the files with: GPT-2's way or Qwen2's,
// which composes characters before.
Status SetSplit(const json& config, TokenizerParts& parts) {
  const bool space = JsonFlag(config, "add_prefix_space");
  const std::string type = JsonText(config, "tokenizer_class");
  if (type != "Qwen2Tokenizer" && type != "Qwen2TokenizerFast") {
    EVOQ_ASSIGN(parts.split, ByteLevel(space, /*use_regex=*/true));
    return {};
  }
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(kQwen2Pattern));
  EVOQ_ASSIGN(const Splitter bytes, ByteLevel(/*add_prefix_space=*/false, /*use_regex=*/false));
  parts.split = InSequence({SplitAt(pattern, SplitBehavior::kIsolated), bytes});
  parts.normalize = [](std::string& text) -> Status {
    text = Normalized(text, NormalForm::kNfc);
    return {};
  };
  return {};
}

Result<TokenizerParts> PartsOf(const json& vocab,
                               std::span<const std::pair<std::string, std::string>> merges,
                               const json& config) {
  EVOQ_ASSIGN(Vocabulary pieces, VocabularyOf(vocab));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(pieces));
  TokenizerParts parts;
  parts.vocabulary = vocabulary;
  EVOQ_ASSIGN(Merges ordered, MergesInOrder(*vocabulary, merges));
  parts.segment = SegmentByPairs(vocabulary, {.merges = std::move(ordered)});
  EVOQ_TRY(SetSplit(config, parts));
  parts.decode.steps = {DecodeByteLevel()};
  // The one special piece is also what is unknown and what begins a text, where something must.
  constexpr const char* kEnd = "<|endoftext|>";
  if (const int64_t end = vocabulary->Find(kEnd); end >= 0) {
    parts.added.push_back({.content = kEnd, .id = end, .special = true});
    parts.SetSpecial(end);
    parts.begin = parts.unknown = end;
    parts.ends = {end};
  }
  return parts;
}

// "gpt2_vocab.json" -> "gpt2_merges.txt".
std::string MergesName(const std::string& name) {
  return name.substr(0, name.size() - std::string_view("vocab.json").size()) + "merges.txt";
}

Result<TokenizerParts> Read(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(const json vocab, files.Json(name));
  EVOQ_ASSIGN(const std::string text, files.Text(MergesName(name)));
  EVOQ_ASSIGN(const auto merges, WithContext(ParseMerges(text), files.Label(MergesName(name))));
  EVOQ_ASSIGN(const json config, TokenizerConfig(files));
  EVOQ_ASSIGN(TokenizerParts parts, WithContext(PartsOf(vocab, merges, config), files.Label(name)));
  EVOQ_TRY(Configure(files, config, parts));
  return parts;
}

}  // namespace

Result<Vocabulary> VocabularyOf(const json& vocab) {
  if (!vocab.is_object() || vocab.empty())
    return InvalidInput("vocab: expected an object of pieces and their numbers");
  Vocabulary vocabulary;
  for (const auto& [piece, id] : vocab.items()) {
    if (!id.is_number_integer()) return InvalidInput("vocab: piece \"{}\" has no number", piece);
    EVOQ_TRY(WithContext(vocabulary.Set(id.get<int64_t>(), piece), "vocab"));
  }
  return vocabulary;
}

extern const TokenizerKind kTokenizerGpt2 = {
    .name = "gpt2",
    .file = "vocab.json",
    .matches = [](std::string_view name) { return name.ends_with("vocab.json"); },
    .read = Read,
};

}  // namespace evoq
