#include "base/base64.h"
#include "base/json_file.h"
#include "tokenizer/precompiled.h"
#include "tokenizer/rules.h"
#include "tokenizer/steps.h"

namespace evoq {
namespace {

using nlohmann::json;

template <NormalForm form>
Result<Normalizer> MakeForm(const json&) {
  return Normalizer([](std::string& text) -> Status {
    text = Normalized(text, form);
    return {};
  });
}

// A normalizer that keeps the characters that `keep` is true of.
template <typename Keep>
Normalizer Filter(Keep keep) {
  return [keep](std::string& text) -> Status {
    std::string kept;
    kept.reserve(text.size());
    ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      if (keep(code)) kept += bytes;
    });
    text = std::move(kept);
    return {};
  };
}

Normalizer MakeLowercase() {
  return [](std::string& text) -> Status {
    text = Lowercase(text);
    return {};
  };
}

Result<Normalizer> ReadLowercase(const json&) { return MakeLowercase(); }

Result<Normalizer> ReadStripAccents(const json&) {
  return Filter([](uint32_t code) { return !IsMark(code); });
}

Result<Normalizer> ReadStrip(const json& j) {
  const bool left = JsonFlag(j, "strip_left", true), right = JsonFlag(j, "strip_right", true);
  return Normalizer([=](std::string& text) -> Status {
    size_t begin = text.size(), end = 0;
    size_t at = 0;
    ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      if (!IsSpace(code)) {
        begin = std::min(begin, at);
        end = at + bytes.size();
      }
      at += bytes.size();
    });
    if (right) text.resize(left || begin < text.size() ? end : 0);
    if (left) text.erase(0, std::min(begin, text.size()));
    return {};
  });
}

Result<Normalizer> ReadPrepend(const json& j) {
  EVOQ_ASSIGN(const std::string prefix, NeedText(j, "prepend"));
  return Normalizer([prefix](std::string& text) -> Status {
    if (!text.empty()) text.insert(0, prefix);
    return {};
  });
}

Result<Normalizer> ReadReplace(const json& j) {
  EVOQ_ASSIGN(const std::string content, NeedText(j, "content"));
  const json& pattern = JsonMember(j, "pattern");
  if (const std::string literal = JsonText(pattern, "String"); !literal.empty())
    return ReplaceLiteral(literal, content);
  EVOQ_ASSIGN(const Pattern regex, ReadPattern(j));
  return Normalizer([=](std::string& text) -> Status {
    std::string out;
    size_t kept = 0;
    EVOQ_TRY(regex.ForEachMatch(text, [&](size_t begin, size_t end) {
      out += std::string_view(text).substr(kept, begin - kept);
      out += content;
      kept = end;
    }));
    out += std::string_view(text).substr(kept);
    text = std::move(out);
    return {};
  });
}

// The blocks of CJK ideographs that BERT separates.
bool IsIdeograph(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

Normalizer CleanText() {
  return [](std::string& text) -> Status {
    std::string out;
    ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      const bool space = IsSpace(code);
      const bool control = code != '\t' && code != '\n' && code != '\r' && IsOther(code);
      if (code == 0 || code == kReplacement || control) return;
      if (space)
        out += ' ';
      else
        out += bytes;
    });
    text = std::move(out);
    return {};
  };
}

Normalizer SpaceIdeographs() {
  return [](std::string& text) -> Status {
    std::string out;
    ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
      const bool apart = IsIdeograph(code);
      if (apart) out += ' ';
      out += bytes;
      if (apart) out += ' ';
    });
    text = std::move(out);
    return {};
  };
}

Result<Normalizer> ReadBert(const json& j) {
  const bool lowercase = JsonFlag(j, "lowercase", true);
  std::vector<Normalizer> steps;
  if (JsonFlag(j, "clean_text", true)) steps.push_back(CleanText());
  if (JsonFlag(j, "handle_chinese_chars", true)) steps.push_back(SpaceIdeographs());
  if (JsonFlag(j, "strip_accents", lowercase)) {  // null: as lowercase
    EVOQ_ASSIGN(const Normalizer decompose, MakeForm<NormalForm::kNfd>(j));
    steps.push_back(decompose);
    steps.push_back(Filter([](uint32_t code) { return !IsNonspacingMark(code); }));
  }
  if (lowercase) steps.push_back(MakeLowercase());
  return InSequence(std::move(steps));
}

// SentencePiece's rules for translation: control characters are left out, what separates is a
// space.
Result<Normalizer> ReadNmt(const json&) {
  return Normalizer([](std::string& text) -> Status {
    std::string out;
    ForEachCharacter(text, [&](uint32_t c, std::string_view bytes) {
      const bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                           c == 0x8F || c == 0x9F;
      const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xFEFF || c == kReplacement;
      if (space)
        out += ' ';
      else if (!dropped)
        out += bytes;
    });
    text = std::move(out);
    return {};
  });
}

// Bytes as 256 characters that are all visible.
Result<Normalizer> ReadByteLevel(const json&) {
  return Normalizer([](std::string& text) -> Status {
    std::string out;
    for (const char byte : text) out += ByteLevelCharacter(static_cast<unsigned char>(byte));
    text = std::move(out);
    return {};
  });
}

Result<Normalizer> ReadPrecompiled(const json& j) {
  EVOQ_ASSIGN(const std::string text, NeedText(j, "precompiled_charsmap"));
  EVOQ_ASSIGN(const std::string bytes, FromBase64(text));
  EVOQ_ASSIGN(const CharacterMap map, CharacterMap::Make(bytes));
  return Normalizer([map](std::string& value) -> Status {
    value = map.ByGraphemes(value);
    return {};
  });
}

Result<Normalizer> ReadSequence(const json& j);

constexpr ReadRow<Normalizer> kRows[] = {
    {"NFC", MakeForm<NormalForm::kNfc>},
    {"NFD", MakeForm<NormalForm::kNfd>},
    {"NFKC", MakeForm<NormalForm::kNfkc>},
    {"NFKD", MakeForm<NormalForm::kNfkd>},
    {"Lowercase", ReadLowercase},
    {"StripAccents", ReadStripAccents},
    {"Strip", ReadStrip},
    {"Prepend", ReadPrepend},
    {"Replace", ReadReplace},
    {"BertNormalizer", ReadBert},
    {"Precompiled", ReadPrecompiled},
    {"Nmt", ReadNmt},
    {"ByteLevel", ReadByteLevel},
    {"Sequence", ReadSequence},
};

Result<Normalizer> ReadSequence(const json& j) {
  EVOQ_ASSIGN(std::vector<Normalizer> steps, ReadSteps<Normalizer>(kRows, j, "normalizers"));
  return InSequence(std::move(steps));
}

}  // namespace

Normalizer InSequence(std::vector<Normalizer> steps) {
  return [steps = std::move(steps)](std::string& text) -> Status {
    for (const Normalizer& step : steps) EVOQ_TRY(step(text));
    return {};
  };
}

Normalizer ReplaceLiteral(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::string& text) -> Status {
    ReplaceAll(text, from, to);
    return {};
  };
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == std::string::npos) return;
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0;;) {
    const size_t place = text.find(from, at);
    out += std::string_view(text).substr(at, place - at);
    if (place == std::string::npos) break;
    out += to;
    at = place + from.size();
  }
  text = std::move(out);
}

Result<Normalizer> ReadNormalizer(const json& normalizer) {
  if (normalizer.is_null()) return InSequence(std::vector<Normalizer>());
  return ReadStep<Normalizer>(kRows, normalizer, "normalizer");
}

}  // namespace evoq
