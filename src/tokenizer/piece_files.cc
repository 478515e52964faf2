// SentencePiece's files beside others that number its pieces: Marian's source.spm and vocab.json,
// M2M-100's sentencepiece.bpe.model and vocab.json; and T5's spiece.model, which has more pieces
// than the file.
#include <algorithm>

#include "base/json_file.h"
#include "tokenizer/kinds.h"

namespace evoq {
namespace {

constexpr char kVocabulary[] = "vocab.json", kTargetVocabulary[] = "target_vocab.json";

// Numbers of a vocab.json for the pieces of a SentencePiece file.
struct Numbered {
  TokenizerParts parts;
  std::shared_ptr<const Vocabulary> source;  // of texts that are read
  int64_t end = -1;
};

Result<std::shared_ptr<const Vocabulary>> ReadVocabulary(const TokenizerFiles& files,
                                                         const std::string& name) {
  EVOQ_ASSIGN(const nlohmann::json json, files.Json(name));
  EVOQ_ASSIGN(Vocabulary vocabulary, WithContext(VocabularyOf(json), files.Label(name)));
  return std::make_shared<const Vocabulary>(std::move(vocabulary));
}

Result<Numbered> ReadNumbered(const TokenizerFiles& files, const std::string& name) {
  Numbered out;
  EVOQ_ASSIGN(TokenizerParts pieces, SentencePieceParts(files, name));
  EVOQ_ASSIGN(out.source, ReadVocabulary(files, kVocabulary));
  TokenizerParts& parts = out.parts;
  parts.vocabulary = out.source;
  if (files.Has(kTargetVocabulary)) {
    EVOQ_ASSIGN(parts.vocabulary, ReadVocabulary(files, kTargetVocabulary));
  }
  const int64_t unknown = out.source->Find("<unk>");
  out.end = out.source->Find("</s>");
  if (unknown < 0 || out.end < 0)
    return InvalidInput("{}: no pieces <unk> and </s>", files.Label(kVocabulary));
  std::vector<int64_t> numbers;
  for (int64_t id = 0; id < pieces.vocabulary->size(); ++id) {
    const int64_t number = out.source->Find(pieces.vocabulary->piece(id));
    numbers.push_back(number >= 0 && pieces.vocabulary->InText(id) ? number : unknown);
  }
  parts.normalize = std::move(pieces.normalize);
  parts.split = std::move(pieces.split);
  parts.segment = [segment = std::move(pieces.segment), numbers = std::move(numbers)](
                      std::string_view text, std::vector<int64_t>& ids) -> Status {
    const size_t first = ids.size();
    EVOQ_TRY(segment(text, ids));
    for (size_t i = first; i < ids.size(); ++i) ids[i] = numbers[static_cast<size_t>(ids[i])];
    return {};
  };
  parts.decode = std::move(pieces.decode);
  parts.unknown = unknown;
  for (const char* special : {"<unk>", "</s>", "<pad>", "<s>"})
    parts.SetSpecial(parts.vocabulary->Find(special));
  parts.padding = parts.vocabulary->Find("<pad>");
  if (const int64_t end = parts.vocabulary->Find("</s>"); end >= 0) parts.ends = {end};
  parts.after = {out.end};
  return out;
}

// >>fra<< in front of a text says in which language the other one is to be.
Result<TokenizerParts> ReadMarian(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(Numbered numbered, ReadNumbered(files, name));
  for (int64_t id = 0; id < numbered.source->size(); ++id) {
    const std::string& piece = numbered.source->piece(id);
    if (piece.starts_with(">>") && piece.ends_with("<<"))
      numbered.parts.added.push_back({.content = piece, .id = id});
  }
  return std::move(numbered.parts);
}

// Texts of a list of special pieces, which are texts or objects.
std::vector<std::string> SpecialPieces(const nlohmann::json& config) {
  std::vector<std::string> out;
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    for (const nlohmann::json& piece : JsonArray(config, key))
      out.push_back(piece.is_string() ? piece.get<std::string>() : JsonText(piece, "content"));
    if (!out.empty()) return out;
  }
  return out;
}

// Languages are behind the vocabulary's pieces, in the order of the list of special ones.
Result<TokenizerParts> ReadM2m(const TokenizerFiles& files, const std::string& name) {
  if (!files.Has(kVocabulary)) return SentencePieceParts(files, name);
  EVOQ_ASSIGN(Numbered numbered, ReadNumbered(files, name));
  constexpr char kConfig[] = "tokenizer_config.json";
  std::vector<std::string> languages;
  std::string source = "en";
  for (const char* file : {"special_tokens_map.json", kConfig}) {
    if (!files.Has(file)) continue;
    EVOQ_ASSIGN(const nlohmann::json config, files.Json(file));
    if (languages.empty()) languages = SpecialPieces(config);
    if (!JsonText(config, "src_lang").empty()) source = JsonText(config, "src_lang");
  }
  TokenizerParts& parts = numbered.parts;
  Vocabulary vocabulary = *parts.vocabulary;
  for (const std::string& language : languages) {
    if (vocabulary.Find(language) >= 0) continue;
    const int64_t id = vocabulary.size();
    EVOQ_TRY(WithContext(vocabulary.Add(language, PieceKind::kControl), files.Label(kConfig)));
    parts.added.push_back({.content = language, .id = id, .special = true});
    parts.SetSpecial(id);
  }
  const int64_t own = vocabulary.Find("__" + source + "__");
  if (own < 0)
    return InvalidInput("{}: no language __{}__ among its special pieces", files.Label(kConfig),
                        source.substr(0, 60));
  parts.before = {own};
  parts.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  return std::move(parts);
}

// Behind the file's pieces are <extra_id_99> to <extra_id_0>.
Result<TokenizerParts> ReadT5(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(TokenizerParts parts, SentencePieceParts(files, name));
  constexpr char kConfig[] = "tokenizer_config.json";
  constexpr int64_t kUsual = 100, kMost = 10000;
  int64_t extra = kUsual;
  if (files.Has(kConfig)) {
    EVOQ_ASSIGN(const nlohmann::json config, files.Json(kConfig));
    if (const auto given = config.find("extra_ids"); given != config.end()) {
      if (!given->is_number_integer() || *given < 0 || *given > kMost)
        return InvalidInput("{}: extra_ids is {}, expected 0 to {}", files.Label(kConfig),
                            given->dump().substr(0, 60), kMost);
      extra = given->get<int64_t>();
    }
  }
  Vocabulary vocabulary = *parts.vocabulary;
  for (int64_t i = extra; i-- > 0;) {
    const std::string piece = fmt::format("<extra_id_{}>", i);
    if (vocabulary.Find(piece) >= 0) continue;
    const int64_t id = vocabulary.size();
    EVOQ_TRY(WithContext(vocabulary.Add(piece, PieceKind::kControl), files.Label(name)));
    parts.added.push_back({.content = piece, .id = id, .special = true});
    parts.SetSpecial(id);
  }
  parts.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  parts.before.clear();
  if (parts.ends.empty()) return InvalidInput("{}: no piece that ends a text", files.Label(name));
  parts.after = {parts.ends[0]};
  parts.SetSpecial(parts.unknown);
  return parts;
}

}  // namespace

extern const TokenizerKind kTokenizerMarian = {
    .name = "marian",
    .file = "source.spm",
    .matches = [](std::string_view name) { return name.ends_with("source.spm"); },
    .read = ReadMarian,
};
extern const TokenizerKind kTokenizerM2m = {
    .name = "m2m",
    .file = "sentencepiece.bpe.model",
    .matches = [](std::string_view name) { return name.ends_with("sentencepiece.bpe.model"); },
    .read = ReadM2m,
};
extern const TokenizerKind kTokenizerT5 = {
    .name = "t5",
    .file = "spiece.model",
    .matches = [](std::string_view name) { return name.ends_with("spiece.model"); },
    .read = ReadT5,
};

}  // namespace evoq
