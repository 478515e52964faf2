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

// What the class of transformers that reads the files has around GPT-2's byte pairs.
enum class Family { kGpt2, kQwen2, kClip, kGpt1 };

constexpr char kStart[] = "<|startoftext|>", kEnd[] = "<|endoftext|>", kWordEnd[] = "</w>";

Family FamilyOf(const json& config, const Vocabulary& vocabulary) {
  std::string type = JsonText(config, "tokenizer_class");
  if (type.ends_with("Fast")) type.resize(type.size() - 4);
  if (type == "Qwen2Tokenizer") return Family::kQwen2;
  if (type == "CLIPTokenizer") return Family::kClip;
  if (type == "OpenAIGPTTokenizer") return Family::kGpt1;
  const bool words = type.empty() && vocabulary.Find("a</w>") >= 0;
  return !words ? Family::kGpt2 : vocabulary.Find(kStart) >= 0 ? Family::kClip : Family::kGpt1;
}

// How words are split.
Status SetSplit(Family family, const json& config, TokenizerParts& parts) {
  if (family == Family::kGpt2) {
    const bool space = JsonFlag(config, "add_prefix_space");
    EVOQ_ASSIGN(parts.split, ByteLevel(space, /*use_regex=*/true));
  } else if (family == Family::kQwen2) {
    EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(kQwen2Pattern));
    EVOQ_ASSIGN(const Splitter bytes, ByteLevel(/*add_prefix_space=*/false, /*use_regex=*/false));
    parts.split = InSequence({SplitAt(pattern, SplitBehavior::kIsolated), bytes});
    EVOQ_ASSIGN(parts.normalize, ReadNormalizer({{"type", "NFC"}}));
  } else if (family == Family::kGpt1) {
    EVOQ_ASSIGN(parts.normalize, ReadNormalizer({{"type", "BertNormalizer"}, {"lowercase", true}}));
    EVOQ_ASSIGN(parts.split, ReadPreTokenizer({{"type", "BertPreTokenizer"}}));
  } else {
    constexpr const char* kWords =
        R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}])"
        R"(|[^\s\p{L}\p{N}]+)";
    const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", R"(\s+)"}}}, {"content", " "}};
    EVOQ_ASSIGN(
        parts.normalize,
        ReadNormalizer({{"type", "Sequence"},
                        {"normalizers", {{{"type", "NFC"}}, spaces, {{"type", "Lowercase"}}}}}));
    EVOQ_ASSIGN(const Splitter words, ReadPreTokenizer({{"type", "Split"},
                                                        {"pattern", {{"Regex", kWords}}},
                                                        {"behavior", "Removed"},
                                                        {"invert", true}}));
    // ByteLevel with GPT-2's pattern, as in transformers.
    EVOQ_ASSIGN(const Splitter bytes, ByteLevel(/*add_prefix_space=*/false, /*use_regex=*/true));
    parts.split = InSequence({words, bytes});
  }
  return {};
}

// What begins, ends and is unknown, where the files name nothing else.
void SetSpecialPieces(Family family, TokenizerParts& parts) {
  const Vocabulary& vocabulary = *parts.vocabulary;
  const auto add = [&](const char* content) {
    const int64_t id = vocabulary.Find(content);
    if (id < 0) return id;
    parts.added.push_back({.content = content, .id = id, .special = true});
    parts.SetSpecial(id);
    return id;
  };
  if (family == Family::kGpt1) {
    parts.unknown = add("<unk>");
    return;
  }
  const int64_t end = add(kEnd);
  if (end < 0) return;
  // GPT-2's one special piece is also what begins a text, where something must.
  parts.begin = parts.unknown = end;
  parts.ends = {end};
  if (family != Family::kClip) return;
  parts.begin = add(kStart);
  parts.after = {end};
  if (parts.begin >= 0) parts.before = {parts.begin};
}

Result<TokenizerParts> PartsOf(const json& vocab,
                               std::span<const std::pair<std::string, std::string>> merges,
                               const json& config) {
  EVOQ_ASSIGN(Vocabulary pieces, VocabularyOf(vocab));
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(pieces));
  TokenizerParts parts;
  parts.vocabulary = vocabulary;
  const Family family = FamilyOf(config, *vocabulary);
  const bool word_ends = family == Family::kClip || family == Family::kGpt1;
  BytePairs rules{.suffix = word_ends ? kWordEnd : ""};
  EVOQ_ASSIGN(rules.merges, MergesInOrder(*vocabulary, merges));
  EVOQ_TRY(SetSplit(family, config, parts));
  SetSpecialPieces(family, parts);
  if (word_ends) {
    rules.unknown.id = parts.unknown;
    parts.decode.word_end = kWordEnd;
  }
  parts.segment = SegmentByPairs(vocabulary, std::move(rules));
  if (family != Family::kGpt1) parts.decode.steps = {DecodeByteLevel()};
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
