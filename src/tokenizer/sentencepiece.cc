// SentencePiece's .model: a protobuf message of pieces, how they were trained, and how a text is
// normalized.
#include <cstring>

#include "tokenizer/kinds.h"
#include "tokenizer/precompiled.h"

namespace evoq {
namespace {

// The fields of a protobuf message, one after the other.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // of a varint; the bits of a float
  std::string_view bytes;  // of a string or a message
};

class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message), size_(message.size()) {}

  bool done() const { return rest_.empty(); }

  Result<Field> Next() {
    EVOQ_ASSIGN(const uint64_t key, Varint());
    Field field{.number = static_cast<uint32_t>(key >> 3)};
    switch (key & 7) {
      case 0: {
        EVOQ_ASSIGN(field.value, Varint());
        return field;
      }
      case 1:
      case 5: {
        const size_t bytes = (key & 7) == 1 ? 8 : 4;
        if (rest_.size() < bytes) return CutOff();
        std::memcpy(&field.value, rest_.data(), bytes);
        rest_.remove_prefix(bytes);
        return field;
      }
      case 2: {
        EVOQ_ASSIGN(const uint64_t bytes, Varint());
        if (bytes > rest_.size()) return CutOff();
        field.bytes = rest_.substr(0, bytes);
        rest_.remove_prefix(bytes);
        return field;
      }
      default:
        return InvalidInput("byte {} of a message: wire type {}, expected 0, 1, 2 or 5",
                            size_ - rest_.size(), key & 7);
    }
  }

 private:
  tl::unexpected<Error> CutOff() const {
    return InvalidInput("byte {} of a message: it is cut off", size_ - rest_.size());
  }
  Result<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return CutOff();
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return InvalidInput("byte {} of a message: a number of more than 64 bits",
                        size_ - rest_.size());
  }
  std::string_view rest_;
  size_t size_;
};

// The parts of sentencepiece_model.proto that matter here, with its defaults.
struct ModelFile {
  Vocabulary vocabulary;
  std::vector<double> scores;
  uint64_t model_type = 1;  // TrainerSpec.ModelType
  bool byte_fallback = false, whitespace_as_suffix = false;
  std::string begin = "<s>", end = "</s>", padding = "<pad>";
  std::string_view map;
  bool dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
};

Status ReadPiece(std::string_view message, ModelFile& file) {
  std::string piece;
  float score = 0;
  uint64_t type = 1;
  for (Fields fields(message); !fields.done();) {
    EVOQ_ASSIGN(const Field field, fields.Next());
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) std::memcpy(&score, &field.value, sizeof(score));
    if (field.number == 3) type = field.value;
  }
  if (type < 1 || type > 6) return InvalidInput("type {}, expected 1 to 6", type);
  if (!(score == score)) return InvalidInput("a score that is no number");
  // NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE
  EVOQ_TRY(file.vocabulary.Add(std::move(piece), static_cast<PieceKind>(type - 1)));
  file.scores.push_back(score);
  return {};
}

Status ReadTrainer(std::string_view message, ModelFile& file) {
  for (Fields fields(message); !fields.done();) {
    EVOQ_ASSIGN(const Field field, fields.Next());
    if (field.number == 3) file.model_type = field.value;
    if (field.number == 24) file.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
    if (field.number == 46) file.begin = field.bytes;
    if (field.number == 47) file.end = field.bytes;
    if (field.number == 48) file.padding = field.bytes;
  }
  return {};
}

Status ReadNormalizerSpec(std::string_view message, ModelFile& file) {
  for (Fields fields(message); !fields.done();) {
    EVOQ_ASSIGN(const Field field, fields.Next());
    if (field.number == 2) file.map = field.bytes;
    if (field.number == 3) file.dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_spaces = field.value != 0;
    if (field.number == 5) file.escape_spaces = field.value != 0;
  }
  return {};
}

Result<ModelFile> ReadModel(std::string_view bytes) {
  ModelFile file;
  for (Fields fields(bytes); !fields.done();) {
    EVOQ_ASSIGN(const Field field, fields.Next());
    if (field.number == 1)
      EVOQ_TRY(WithContext(ReadPiece(field.bytes, file),
                           fmt::format("piece {}", file.vocabulary.size())));
    if (field.number == 2) EVOQ_TRY(WithContext(ReadTrainer(field.bytes, file), "trainer_spec"));
    if (field.number == 3)
      EVOQ_TRY(WithContext(ReadNormalizerSpec(field.bytes, file), "normalizer_spec"));
  }
  return file;
}

// SentencePiece's normalization: the map, spaces made one and taken from both ends, a space before
// the text, U+2581 for spaces; what the user defined stays.
class SpaceNormalizer {
 public:
  SpaceNormalizer(const ModelFile& file, CharacterMap map)
      : map_(std::move(map)),
        prefix_(file.dummy_prefix),
        remove_(file.remove_extra_spaces),
        space_(file.escape_spaces ? kMetaspace : " ") {
    for (int64_t id = 0; id < file.vocabulary.size(); ++id) {
      if (file.vocabulary.kind(id) == PieceKind::kUserDefined)
        defined_.Add(file.vocabulary.piece(id), id);
    }
  }

  // `begins`: the text begins here; a space that is not at its beginning stays.
  Status operator()(std::string& text, bool begins = true) const {
    std::string out;
    bool after_space = remove_ && begins;  // spaces are dropped
    bool begun = !begins;
    for (size_t at = 0; at < text.size();) {
      const std::string_view rest = std::string_view(text).substr(at);
      const auto [bytes, normal] = Next(rest);
      at += bytes;
      std::string_view left = normal;
      while (after_space && left.starts_with(' ')) left.remove_prefix(1);
      if (left.empty()) continue;
      if (!begun && prefix_) out += space_;
      begun = true;
      for (const char c : left) {
        if (c == ' ')
          out += space_;
        else
          out += c;
      }
      after_space = remove_ && left.back() == ' ';
    }
    while (remove_ && out.size() > space_.size() && out.ends_with(space_))
      out.resize(out.size() - space_.size());
    text = std::move(out);
    return {};
  }

 private:
  std::pair<size_t, std::string_view> Next(std::string_view text) const {
    size_t bytes = 0;
    defined_.ForEachPrefix(text, [&](size_t n, int64_t) { bytes = n; });
    if (bytes > 0) return {bytes, text.substr(0, bytes)};
    if (const CharacterMap::Match match = map_.Longest(text); match.bytes > 0)
      return {match.bytes, match.text};
    bytes = NextCharacter(text, 0).bytes;
    return {bytes, text.substr(0, bytes)};
  }

  CharacterMap map_;
  bool prefix_, remove_;
  std::string space_;
  PieceTrie defined_;
};

// How normalized words become pieces.
Result<TokenizerParts> SegmentingParts(const ModelFile& file,
                                       std::shared_ptr<const Vocabulary> vocabulary) {
  if (file.model_type == 1) {
    TokenizerParts parts;
    parts.vocabulary = vocabulary;
    for (int64_t id = 0; id < vocabulary->size(); ++id) {
      if (vocabulary->kind(id) == PieceKind::kUnknown) parts.unknown = id;
    }
    parts.segment = SegmentByScores(
        vocabulary,
        {.scores = file.scores,
         .unknown = {.id = parts.unknown, .fuse = true, .byte_fallback = file.byte_fallback},
         .float_sums = true});
    return parts;
  }
  if (file.model_type != 2)
    return Unsupported("model_type {}, expected 1 (unigram) or 2 (byte pairs)", file.model_type);
  EVOQ_ASSIGN(TokenizerParts parts,
              SentencePiecePairs(vocabulary, file.scores, file.byte_fallback));
  for (int64_t id = 0; id < vocabulary->size(); ++id) {
    const PieceKind kind = vocabulary->kind(id);
    if (kind == PieceKind::kUnused)
      return Unsupported("piece {} of byte pairs is of the type UNUSED", id);
    if (kind == PieceKind::kUserDefined)
      parts.added.push_back(
          {.content = vocabulary->piece(id), .id = id, .normalized = true, .as_written = true});
  }
  return parts;
}

Result<TokenizerParts> PartsOf(const ModelFile& file, bool prefix_once) {
  if (file.vocabulary.size() == 0) return InvalidInput("no pieces");
  if (file.whitespace_as_suffix) return Unsupported("treat_whitespace_as_suffix");
  const auto vocabulary = std::make_shared<const Vocabulary>(file.vocabulary);
  EVOQ_ASSIGN(TokenizerParts parts, SegmentingParts(file, vocabulary));
  if (parts.unknown < 0) return InvalidInput("no unknown piece");
  for (int64_t id = 0; id < vocabulary->size(); ++id) {
    if (vocabulary->kind(id) == PieceKind::kControl) parts.SetSpecial(id);
  }
  const auto control = [&](const std::string& name) {
    const int64_t id = vocabulary->Find(name);
    return id >= 0 && vocabulary->kind(id) == PieceKind::kControl ? id : -1;
  };
  parts.begin = control(file.begin);
  parts.padding = control(file.padding);
  if (const int64_t end = control(file.end); end >= 0) parts.ends = {end};
  AddEndsByName(parts);
  if (parts.begin >= 0) parts.before = {parts.begin};
  EVOQ_ASSIGN(CharacterMap map, CharacterMap::Make(file.map));
  const auto normalizer = std::make_shared<const SpaceNormalizer>(file, std::move(map));
  parts.normalize = [normalizer](std::string& text) { return (*normalizer)(text); };
  if (prefix_once)
    parts.normalize_behind = [normalizer](std::string& text) {
      return (*normalizer)(text, /*begins=*/false);
    };
  parts.decode = SentencePieceDecode(file.dummy_prefix);
  parts.decode.steps.push_back(
      ReplaceInPiece(vocabulary->piece(parts.unknown), " \xE2\x81\x87 "));  // U+2047
  return parts;
}

Result<TokenizerParts> Read(const TokenizerFiles& files, const std::string& name) {
  EVOQ_ASSIGN(const nlohmann::json config, TokenizerConfig(files));
  EVOQ_ASSIGN(TokenizerParts parts,
              SentencePieceParts(files, name, !JsonFlag(config, "legacy", true)));
  EVOQ_TRY(Configure(files, config, parts));
  return parts;
}

}  // namespace

Result<TokenizerParts> SentencePieceParts(const TokenizerFiles& files, const std::string& name,
                                          bool prefix_once) {
  EVOQ_ASSIGN(const std::string bytes, files.Text(name));
  EVOQ_ASSIGN(const ModelFile file, WithContext(ReadModel(bytes), files.Label(name)));
  return WithContext(PartsOf(file, prefix_once), files.Label(name));
}

DecodeSteps SentencePieceDecode(bool prefix) {
  return {.steps = {ReplaceInPiece(std::string(kMetaspace), " "), DecodeBytes()},
          .strip = " ",
          .strip_count = prefix ? 1 : 0};
}

extern const TokenizerKind kTokenizerSentencePiece = {
    .name = "sentencepiece",
    .file = "tokenizer.model",
    .matches = [](std::string_view name) { return name.ends_with(".model"); },
    .read = Read,
};

}  // namespace evoq
