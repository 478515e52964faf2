// tokenizer.json of Hugging Face's tokenizers: a vocabulary and its model, and the steps around it.
#include <algorithm>

#include "tokenizer/kinds.h"
#include "tokenizer/rules.h"

namespace evoq {
namespace {

using nlohmann::json;

// ---- models

struct Model {
  Vocabulary vocabulary;
  int64_t unknown = -1;
  // Called once the vocabulary has its added pieces and its place.
  std::function<Result<Segmenter>(std::shared_ptr<const Vocabulary>)> segmenter;
};

Result<int64_t> UnknownPiece(const json& j, const Vocabulary& vocabulary) {
  const std::string name = JsonText(j, "unk_token");
  if (name.empty()) return -1;
  const int64_t id = vocabulary.Find(name);
  if (id < 0) return InvalidInput("unk_token \"{}\" is not in the vocabulary", name);
  return id;
}

Result<std::vector<std::pair<std::string, std::string>>> ReadMerges(const json& list) {
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(list.size());
  for (const json& merge : list) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const std::string text = merge.is_string() ? merge.get<std::string>() : "";
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      return InvalidInput("merge {}: expected two pieces", merges.size());
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

Result<Model> ReadBpe(const json& j) {
  if (JsonNumber(j, "dropout") != 0) return Unsupported("a dropout that is not 0");
  Model model;
  EVOQ_ASSIGN(model.vocabulary, VocabularyOf(JsonMember(j, "vocab")));
  EVOQ_ASSIGN(model.unknown, UnknownPiece(j, model.vocabulary));
  BytePairs rules;
  rules.prefix = JsonText(j, "continuing_subword_prefix");
  rules.suffix = JsonText(j, "end_of_word_suffix");
  rules.whole_words = JsonFlag(j, "ignore_merges");
  rules.unknown = {.id = model.unknown,
                   .fuse = JsonFlag(j, "fuse_unk"),
                   .byte_fallback = JsonFlag(j, "byte_fallback")};
  EVOQ_ASSIGN(const auto merges, ReadMerges(JsonArray(j, "merges")));
  EVOQ_ASSIGN(rules.merges, MergesInOrder(model.vocabulary, merges, rules.prefix));
  model.segmenter = [rules = std::move(rules)](
                        std::shared_ptr<const Vocabulary> vocabulary) mutable -> Result<Segmenter> {
    return SegmentByPairs(std::move(vocabulary), std::move(rules));
  };
  return model;
}

Result<Model> ReadUnigram(const json& j) {
  Model model;
  Unigram rules;
  for (const json& entry : JsonArray(j, "vocab")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      return InvalidInput("vocab: piece {}: expected a text and a score", model.vocabulary.size());
    EVOQ_TRY(WithContext(model.vocabulary.Add(entry[0].get<std::string>()), "vocab"));
    rules.scores.push_back(entry[1].get<double>());
  }
  if (model.vocabulary.size() == 0) return InvalidInput("vocab: no pieces");
  const double unknown = JsonNumber(j, "unk_id", -1);
  if (!(unknown < static_cast<double>(model.vocabulary.size())))
    return InvalidInput("unk_id {}, expected at most {}", unknown, model.vocabulary.size() - 1);
  model.unknown = unknown < 0 ? -1 : static_cast<int64_t>(unknown);
  rules.unknown = {
      .id = model.unknown, .fuse = true, .byte_fallback = JsonFlag(j, "byte_fallback")};
  model.segmenter = [rules = std::move(rules)](
                        std::shared_ptr<const Vocabulary> vocabulary) mutable -> Result<Segmenter> {
    return SegmentByScores(std::move(vocabulary), std::move(rules));
  };
  return model;
}

Result<Model> ReadWordPiece(const json& j) {
  Model model;
  EVOQ_ASSIGN(model.vocabulary, VocabularyOf(JsonMember(j, "vocab")));
  EVOQ_ASSIGN(model.unknown, UnknownPiece(j, model.vocabulary));
  if (model.unknown < 0) return InvalidInput("no unk_token");
  LongestPieces rules{.unknown = model.unknown};
  EVOQ_ASSIGN(rules.prefix, NeedText(j, "continuing_subword_prefix"));
  const double characters = JsonNumber(j, "max_input_chars_per_word", 100);
  rules.max_characters = static_cast<int64_t>(std::clamp(characters, 0.0, 1e9));
  model.segmenter = [rules](std::shared_ptr<const Vocabulary> vocabulary) -> Result<Segmenter> {
    return SegmentByLongest(std::move(vocabulary), rules);
  };
  return model;
}

Result<Model> ReadWordLevel(const json& j) {
  Model model;
  EVOQ_ASSIGN(model.vocabulary, VocabularyOf(JsonMember(j, "vocab")));
  EVOQ_ASSIGN(model.unknown, UnknownPiece(j, model.vocabulary));
  model.segmenter =
      [unknown = model.unknown](std::shared_ptr<const Vocabulary> vocabulary) -> Result<Segmenter> {
    return SegmentByWord(std::move(vocabulary), unknown);
  };
  return model;
}

constexpr ReadRow<Model> kModels[] = {{"BPE", ReadBpe},
                                      {"Unigram", ReadUnigram},
                                      {"WordPiece", ReadWordPiece},
                                      {"WordLevel", ReadWordLevel}};

// Files of old versions do not say the type.
Result<Model> ReadModel(const json& model) {
  if (!model.is_object()) return InvalidInput("expected an object");
  std::string type = JsonText(model, "type");
  if (type.empty())
    type = model.contains("merges")                     ? "BPE"
           : JsonMember(model, "vocab").is_array()      ? "Unigram"
           : model.contains("max_input_chars_per_word") ? "WordPiece"
                                                        : "WordLevel";
  return ReadStepOf<Model>(kModels, type, model, "model");
}

// ---- what is put around a text

struct Around {
  std::vector<int64_t> before, after;
};

Result<Around> ReadTemplate(const json& j) {
  Around around;
  bool behind = false;
  for (const json& item : JsonArray(j, "single")) {
    if (item.contains("Sequence")) {
      if (behind) return Unsupported("a template with two sequences");
      behind = true;
      continue;
    }
    const std::string name = JsonText(JsonMember(item, "SpecialToken"), "id");
    const json& special = JsonMember(JsonMember(j, "special_tokens"), name.c_str());
    if (name.empty() || !special.is_object())
      return InvalidInput("single: \"{}\" is not in special_tokens", name);
    for (const json& id : JsonArray(special, "ids")) {
      if (!id.is_number_integer()) return InvalidInput("special_tokens: \"{}\" has no ids", name);
      (behind ? around.after : around.before).push_back(id.get<int64_t>());
    }
  }
  if (!behind) return InvalidInput("single: no sequence");
  return around;
}

// {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]}
Result<Around> ReadBertProcessing(const json& j) {
  Around around;
  for (const auto& [key, ids] : {std::pair("cls", &around.before), {"sep", &around.after}}) {
    const json& pair = JsonArray(j, key);
    if (pair.size() != 2 || !pair[1].is_number_integer())
      return InvalidInput("{}: expected a piece and its number", key);
    ids->push_back(pair[1].get<int64_t>());
  }
  return around;
}

Result<Around> ReadByteLevel(const json&) { return Around(); }

Result<Around> ReadProcessors(const json& j);

constexpr ReadRow<Around> kProcessors[] = {{"TemplateProcessing", ReadTemplate},
                                           {"BertProcessing", ReadBertProcessing},
                                           {"RobertaProcessing", ReadBertProcessing},
                                           {"ByteLevel", ReadByteLevel},
                                           {"Sequence", ReadProcessors}};

Result<Around> ReadProcessors(const json& j) {
  EVOQ_ASSIGN(const std::vector<Around> steps, ReadSteps<Around>(kProcessors, j, "processors"));
  Around all;
  for (const Around& step : steps) {
    all.before.insert(all.before.begin(), step.before.begin(), step.before.end());
    all.after.insert(all.after.end(), step.after.begin(), step.after.end());
  }
  return all;
}

// ---- added pieces

Status ReadAdded(const json& list, Vocabulary& vocabulary, TokenizerParts& parts) {
  for (const json& j : list) {
    AddedPiece piece{.special = JsonFlag(j, "special"),
                     .normalized = JsonFlag(j, "normalized"),
                     .left = JsonFlag(j, "lstrip"),
                     .right = JsonFlag(j, "rstrip"),
                     .single_word = JsonFlag(j, "single_word")};
    EVOQ_ASSIGN(piece.content, NeedText(j, "content"));
    const double number = JsonNumber(j, "id", -1);
    if (!(number >= 0 && number < static_cast<double>(Vocabulary::kMaxPieces)))
      return InvalidInput("\"{}\" has the number {}, expected 0 to {}", piece.content, number,
                          Vocabulary::kMaxPieces - 1);
    piece.id = static_cast<int64_t>(number);
    const int64_t known = vocabulary.Find(piece.content);
    if (known >= 0 && known != piece.id)
      return InvalidInput("\"{}\" has the number {}, but the vocabulary says {}", piece.content,
                          piece.id, known);
    // The model does not see it.
    if (known < 0) EVOQ_TRY(vocabulary.Set(piece.id, piece.content, PieceKind::kControl));
    if (piece.special) parts.SetSpecial(piece.id);
    parts.added.push_back(std::move(piece));
  }
  return {};
}

// ---- tokenizer_config.json

// "<s>" or {"content": "<s>", ...}
std::string PieceName(const json& config, const char* key) {
  const std::string name = JsonText(config, key);
  return name.empty() && config.is_object() ? JsonText(JsonMember(config, key), "content") : name;
}

void NamePieces(const json& config, TokenizerParts& parts) {
  const auto find = [&](const char* key) {
    const std::string name = PieceName(config, key);
    return name.empty() ? -1 : parts.vocabulary->Find(name);
  };
  parts.begin = find("bos_token");
  parts.padding = find("pad_token");
  if (const int64_t end = find("eos_token"); end >= 0) parts.ends = {end};
}

Result<TokenizerParts> PartsOf(const json& file, const json& config) {
  if (!file.is_object()) return InvalidInput("expected an object");
  EVOQ_ASSIGN(Model model, WithContext(ReadModel(JsonMember(file, "model")), "model"));
  TokenizerParts parts;
  EVOQ_TRY(WithContext(ReadAdded(JsonArray(file, "added_tokens"), model.vocabulary, parts),
                       "added_tokens"));
  parts.vocabulary = std::make_shared<const Vocabulary>(std::move(model.vocabulary));
  parts.unknown = model.unknown;
  EVOQ_ASSIGN(parts.normalize, ReadNormalizer(JsonMember(file, "normalizer")));
  EVOQ_ASSIGN(parts.split, ReadPreTokenizer(JsonMember(file, "pre_tokenizer")));
  EVOQ_ASSIGN(parts.decode, ReadDecoder(JsonMember(file, "decoder")));
  EVOQ_ASSIGN(parts.segment, model.segmenter(parts.vocabulary));
  if (const json& processor = JsonMember(file, "post_processor"); !processor.is_null()) {
    EVOQ_ASSIGN(Around around, ReadStep<Around>(kProcessors, processor, "post_processor"));
    for (const auto* ids : {&around.before, &around.after}) {
      for (const int64_t id : *ids) {
        if (id < 0 || id >= parts.vocabulary->size())
          return InvalidInput("post_processor: piece number {}, expected 0 to {}", id,
                              parts.vocabulary->size() - 1);
      }
    }
    if (!around.before.empty()) parts.begin = around.before[0];
    parts.before = std::move(around.before);
    parts.after = std::move(around.after);
  }
  if (config.is_object()) NamePieces(config, parts);
  AddEndsByName(parts);
  return parts;
}

Result<TokenizerParts> Read(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(const json file, files.Json(name));
  EVOQ_ASSIGN(const json config, TokenizerConfig(files));
  EVOQ_ASSIGN(TokenizerParts parts, WithContext(PartsOf(file, config), files.Label(name)));
  EVOQ_TRY(ReadTemplates(files, config, parts));
  return parts;
}

}  // namespace

extern const TokenizerKind kTokenizerJson = {
    .name = "tokenizer.json",
    .file = "tokenizer.json",
    .matches =
        [](std::string_view name) {
          return name.ends_with(".json") && !name.ends_with("vocab.json");
        },
    .read = Read,
};

}  // namespace evoq
