// Pieces with scores: SentencePiece's .vocab and llama2.c's .bin, and what they share with other
// readers.
#include <charconv>
#include <cmath>
#include <cstring>

#include "tokenizer/kinds.h"

namespace evoq {
namespace {

bool IsEnd(std::string_view text) { return text == "</s>" || text == "\n</s>\n"; }

struct Scored {
  Vocabulary vocabulary;
  std::vector<double> scores;

  // The next piece, whose text has spaces as U+2581.
  Status Add(std::string text, float score) {
    const int64_t id = vocabulary.size();
    if (std::isnan(score))
      return InvalidInput("piece {} has the score {}, expected a number", id, score);
    const PieceKind kind = id == 0                  ? PieceKind::kUnknown
                           : id == 1                ? PieceKind::kControl
                           : id == 2 && IsEnd(text) ? PieceKind::kControl
                           : ByteOfPiece(text) >= 0 ? PieceKind::kByte
                                                    : PieceKind::kNormal;
    EVOQ_TRY(vocabulary.Add(std::move(text), kind));
    scores.push_back(score);
    return {};
  }
};

// Both kinds: 0 is unknown, 1 begins a text, 2 may end it.
Result<TokenizerParts> PartsOf(Scored scored) {
  if (scored.vocabulary.size() < 2)
    return InvalidInput("{} pieces, expected at least 2", scored.vocabulary.size());
  const auto vocabulary = std::make_shared<const Vocabulary>(std::move(scored.vocabulary));
  EVOQ_ASSIGN(TokenizerParts parts, SentencePiecePairs(vocabulary, scored.scores, true));
  parts.begin = 1;
  parts.before = {1};
  parts.SetSpecial(1);
  if (vocabulary->size() > 2 && vocabulary->kind(2) == PieceKind::kControl) {
    parts.ends = {2};
    parts.SetSpecial(2);
  }
  parts.normalize = [](std::string& text) -> Status {
    if (text.empty()) return {};
    text.insert(0, 1, ' ');
    ReplaceAll(text, " ", kMetaspace);
    return {};
  };
  parts.decode = SentencePieceDecode(true);
  return parts;
}

Result<Scored> ParseBin(const std::string& bytes) {
  Scored scored;
  size_t at = sizeof(int32_t);  // the longest piece's size comes first
  while (at < bytes.size()) {
    const int64_t id = scored.vocabulary.size();
    float score = 0;
    int32_t size = -1;
    if (bytes.size() - at < sizeof(score) + sizeof(size))
      return InvalidInput("piece {} is cut off", id);
    std::memcpy(&score, bytes.data() + at, sizeof(score));
    std::memcpy(&size, bytes.data() + at + sizeof(score), sizeof(size));
    at += sizeof(score) + sizeof(size);
    if (size < 0 || size > Vocabulary::kMaxPieceBytes)
      return InvalidInput("piece {} has {} bytes, expected at most {}", id, size,
                          Vocabulary::kMaxPieceBytes);
    if (static_cast<size_t>(size) > bytes.size() - at)
      return InvalidInput("piece {} has {} bytes, expected at most the {} left in the file", id,
                          size, bytes.size() - at);
    std::string text = bytes.substr(at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
    ReplaceAll(text, " ", kMetaspace);
    EVOQ_TRY(scored.Add(std::move(text), score));
  }
  return scored;
}

Result<Scored> ParseVocab(const std::string& text) {
  Scored scored;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const size_t tab = line.rfind('\t');
    float score = 0;
    if (tab == std::string_view::npos ||
        std::from_chars(line.data() + tab + 1, line.data() + line.size(), score).ec != std::errc())
      return InvalidInput("line {}: expected a piece, a tab and a score",
                          scored.vocabulary.size() + 1);
    EVOQ_TRY(scored.Add(std::string(line.substr(0, tab)), score));
  }
  return scored;
}

// Cuts before the spaces of a word where no piece goes on behind a space that follows something
// else: short words are segmented faster, to the same pieces.
Splitter WordsOf(const Vocabulary& vocabulary) {
  if (vocabulary.FindText(kMetaspace) < 0) return [](std::vector<Word>&) -> Status { return {}; };
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view rest = vocabulary.piece(id);
    while (rest.starts_with(kMetaspace)) rest.remove_prefix(kMetaspace.size());
    if (vocabulary.InText(id) && rest.find(kMetaspace) != std::string_view::npos)
      return [](std::vector<Word>&) -> Status { return {}; };
  }
  return [](std::vector<Word>& words) -> Status {
    std::vector<Word> out;
    for (const Word& word : words) {
      const std::string_view text = word.text;
      for (size_t begin = 0; begin < text.size();) {
        size_t end = begin;
        while (text.substr(end).starts_with(kMetaspace)) end += kMetaspace.size();
        end = std::min(text.find(kMetaspace, end), text.size());
        out.push_back({std::string(text.substr(begin, end - begin)), word.first && begin == 0});
        begin = end;
      }
    }
    words = std::move(out);
    return {};
  };
}

template <Result<Scored> (*parse)(const std::string&)>
Result<TokenizerParts> Read(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(const std::string bytes, files.Text(name));
  EVOQ_ASSIGN(Scored scored, WithContext(parse(bytes), files.Label(name)));
  return WithContext(PartsOf(std::move(scored)), files.Label(name));
}

}  // namespace

Result<TokenizerParts> SentencePiecePairs(std::shared_ptr<const Vocabulary> vocabulary,
                                          std::span<const double> scores, bool byte_fallback,
                                          bool defined_join) {
  TokenizerParts parts;
  parts.vocabulary = vocabulary;
  for (int64_t id = 0; id < vocabulary->size(); ++id) {
    if (vocabulary->kind(id) == PieceKind::kUnknown) parts.unknown = id;
  }
  EVOQ_ASSIGN(Merges merges, MergesByScore(*vocabulary, scores, defined_join));
  parts.split = WordsOf(*vocabulary);
  parts.segment = SegmentByPairs(
      vocabulary, {.merges = std::move(merges),
                   .unknown = {.id = parts.unknown, .fuse = true, .byte_fallback = byte_fallback}});
  return parts;
}

void AddEndsByName(TokenizerParts& parts) {
  // With pieces of their own for the end, <|end|> ends a channel (gpt-oss).
  const bool channels =
      parts.vocabulary->Find("<|return|>") >= 0 && parts.vocabulary->Find("<|call|>") >= 0;
  for (const std::string_view name :
       {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
        "<|end_of_text|>", "</s>", "<|return|>", "<|call|>"}) {
    if (channels && name == "<|end|>") continue;
    const int64_t id = parts.vocabulary->Find(name);
    const bool special = id >= 0 && static_cast<size_t>(id) < parts.special.size() &&
                         parts.special[static_cast<size_t>(id)];
    if (special && std::find(parts.ends.begin(), parts.ends.end(), id) == parts.ends.end())
      parts.ends.push_back(id);
  }
}

extern const TokenizerKind kTokenizerVocab = {
    .name = "vocab",
    .file = "tokenizer.vocab",
    .matches = [](std::string_view name) { return name.ends_with(".vocab"); },
    .read = Read<ParseVocab>,
};

extern const TokenizerKind kTokenizerLlama2c = {
    .name = "llama2.c",
    .file = "tokenizer.bin",
    .matches = [](std::string_view name) { return name.ends_with(".bin"); },
    .read = Read<ParseBin>,
};

}  // namespace evoq
