#include "base/json_file.h"
#include "tokenizer/rules.h"
#include "tokenizer/steps.h"

namespace evoq {
namespace {

using nlohmann::json;

// A part of a text: a match, or what lies between two.
struct Part {
  size_t begin, end;
  bool match;
};

// The words that the parts of `word` become.
void AppendParts(const Word& word, std::vector<Part>& parts, SplitBehavior behavior,
                 std::vector<Word>& out) {
  std::vector<Part> merged;
  for (const Part& part : parts) {
    const bool empty = merged.empty();
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!part.match) merged.push_back(part);
        break;
      case SplitBehavior::kIsolated: merged.push_back(part); break;
      case SplitBehavior::kContiguous:
        if (!empty && merged.back().match == part.match)
          merged.back().end = part.end;
        else
          merged.push_back(part);
        break;
      case SplitBehavior::kWithPrevious:
        if (part.match && !empty && !merged.back().match)
          merged.back() = {merged.back().begin, part.end, true};
        else
          merged.push_back(part);
        break;
      case SplitBehavior::kWithNext:
        if (!part.match && !empty && merged.back().match)
          merged.back() = {merged.back().begin, part.end, false};
        else
          merged.push_back(part);
        break;
    }
  }
  for (const Part& part : merged) {
    if (part.end > part.begin)
      out.push_back(
          {word.text.substr(part.begin, part.end - part.begin), word.first && part.begin == 0});
  }
}

// Splits where `matches(text, found)` finds something; `invert`: what lies between is the match.
template <typename Matches>
Splitter SplitWhere(Matches matches, SplitBehavior behavior, bool invert = false) {
  return [=](std::vector<Word>& words) -> Status {
    std::vector<Word> out;
    std::vector<Part> parts;
    for (const Word& word : words) {
      parts.clear();
      size_t end = 0;
      EVOQ_TRY(matches(word.text, [&](size_t match, size_t match_end) {
        if (match > end) parts.push_back({end, match, invert});
        parts.push_back({match, match_end, !invert});
        end = match_end;
      }));
      if (end < word.text.size()) parts.push_back({end, word.text.size(), invert});
      AppendParts(word, parts, behavior, out);
    }
    words = std::move(out);
    return {};
  };
}

// Splits at each character of a class.
Splitter SplitAtClass(bool (*in_class)(uint32_t), SplitBehavior behavior) {
  return SplitWhere(
      [in_class](std::string_view text, auto found) -> Status {
        size_t at = 0;
        ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
          if (in_class(code)) found(at, at + bytes.size());
          at += bytes.size();
        });
        return {};
      },
      behavior);
}

Result<SplitBehavior> ReadBehavior(const json& j, const char* fallback) {
  struct Row {
    const char* name;
    SplitBehavior behavior;
  };
  constexpr Row kBehaviors[] = {{"Removed", SplitBehavior::kRemoved},
                                {"Isolated", SplitBehavior::kIsolated},
                                {"MergedWithPrevious", SplitBehavior::kWithPrevious},
                                {"MergedWithNext", SplitBehavior::kWithNext},
                                {"Contiguous", SplitBehavior::kContiguous}};
  std::string name = JsonText(j, "behavior");
  if (name.empty()) name = fallback;
  for (const Row& row : kBehaviors) {
    if (name == row.name) return row.behavior;
  }
  return Unsupported("the behavior {}", name);
}

Result<Splitter> ReadSplit(const json& j) {
  EVOQ_ASSIGN(const Pattern pattern, ReadPattern(j));
  EVOQ_ASSIGN(SplitBehavior behavior, ReadBehavior(j, ""));
  return SplitWhere([pattern](std::string_view text,
                              const auto& found) { return pattern.ForEachMatch(text, found); },
                    behavior, JsonFlag(j, "invert"));
}

Result<Splitter> ReadByteLevel(const json& j) {
  return ByteLevel(JsonFlag(j, "add_prefix_space", true), JsonFlag(j, "use_regex", true));
}

Result<Splitter> ReadMetaspace(const json& j) {
  std::string mark = JsonText(j, "replacement");
  if (mark.empty()) mark = kMetaspace;
  std::string scheme = JsonText(j, "prepend_scheme");
  if (scheme.empty()) scheme = JsonFlag(j, "add_prefix_space", true) ? "always" : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return InvalidInput("the prepend_scheme {}, expected always, first or never", scheme);
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Literal(mark));
  const Splitter split = SplitAt(pattern, SplitBehavior::kWithNext);
  const bool splits = JsonFlag(j, "split", true);
  return Splitter([=](std::vector<Word>& words) -> Status {
    for (Word& word : words) {
      ReplaceAll(word.text, " ", mark);
      if ((scheme == "always" || (scheme == "first" && word.first)) && !word.text.starts_with(mark))
        word.text.insert(0, mark);
    }
    return splits ? split(words) : Status();
  });
}

Result<Splitter> ReadWhitespaceSplit(const json&) {
  return SplitAtClass(IsSpace, SplitBehavior::kRemoved);
}

// \w+|[^\w\s]+, and what is between them removed.
Result<Splitter> ReadWhitespace(const json&) {
  const Splitter runs = SplitWhere(
      [](std::string_view text, const auto& found) -> Status {
        int run = -1;
        size_t begin = 0, at = 0;
        ForEachCharacter(text, [&](uint32_t code, std::string_view bytes) {
          const int kind = IsSpace(code) ? 0 : IsWord(code) ? 1 : 2;
          if (kind != run && at > begin) {
            found(begin, at);
            begin = at;
          }
          run = kind;
          at += bytes.size();
        });
        if (at > begin) found(begin, at);
        return {};
      },
      SplitBehavior::kIsolated);
  return InSequence({runs, SplitAtClass(IsSpace, SplitBehavior::kRemoved)});
}

Result<Splitter> ReadBert(const json&) {
  return InSequence({SplitAtClass(IsSpace, SplitBehavior::kRemoved),
                     SplitAtClass(IsPunctuation, SplitBehavior::kIsolated)});
}

Result<Splitter> ReadDigits(const json& j) {
  return SplitAtClass(IsNumeric, JsonFlag(j, "individual_digits") ? SplitBehavior::kIsolated
                                                                  : SplitBehavior::kContiguous);
}

Result<Splitter> ReadPunctuation(const json& j) {
  EVOQ_ASSIGN(SplitBehavior behavior, ReadBehavior(j, "Isolated"));
  return SplitAtClass(IsPunctuation, behavior);
}

Result<Splitter> ReadCharDelimiter(const json& j) {
  EVOQ_ASSIGN(const std::string delimiter, NeedText(j, "delimiter"));
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Literal(delimiter));
  return SplitAt(pattern, SplitBehavior::kRemoved);
}

Result<Splitter> ReadFixedLength(const json& j) {
  const double length = JsonNumber(j, "length", 5);
  if (!(length >= 1 && length <= 1 << 20))
    return InvalidInput("length {}, expected 1 to {}", length, 1 << 20);
  const auto most = static_cast<int64_t>(length);
  return SplitWhere(
      [most](std::string_view text, const auto& found) -> Status {
        size_t begin = 0, at = 0;
        int64_t characters = 0;
        ForEachCharacter(text, [&](uint32_t, std::string_view bytes) {
          at += bytes.size();
          if (++characters % most != 0) return;
          found(begin, at);
          begin = at;
        });
        return {};
      },
      SplitBehavior::kIsolated);
}

// The scripts of Unicode 9 but for those that ReadUnicodeScripts treats in their own way.
constexpr std::string_view kScripts =
    "Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak "
    "Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian "
    "Caucasian_Albanian Chakma Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret "
    "Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic "
    "Grantha Greek Gujarati Gurmukhi Hangul Hanunoo Hatran Hebrew Imperial_Aramaic Inherited "
    "Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Kayah_Li Kharoshthi "
    "Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian "
    "Mahajani Malayalam Mandaic Manichaean Marchen Meetei_Mayek Mende_Kikakui "
    "Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean "
    "New_Tai_Lue Newa Nko Ogham Ol_Chiki Old_Hungarian Old_Italic Old_North_Arabian "
    "Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage Osmanya Pahawh_Hmong "
    "Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan "
    "Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sora_Sompeng Sundanese "
    "Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu "
    "Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic Vai Warang_Citi Yi";

// Splits where the script changes. Kana is Han; a space and what has no script go on, and are lost
// at the beginning.
Result<Splitter> ReadUnicodeScripts(const json&) {
  constexpr std::string_view kGoesOn = R"([ \p{Cn}\p{Co}])";
  std::string any;
  const auto add = [&](const std::string& script) {
    any += fmt::format("{}{}(?:{}|{})*", any.empty() ? "" : "|", script, script, kGoesOn);
  };
  add(R"([\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}])");
  add(R"([^ \x{30FC}\P{Common}])");
  for (std::string_view rest = kScripts; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    add(fmt::format("\\p{{{}}}", rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  EVOQ_ASSIGN(const Pattern pattern, Pattern::Make(any));
  return SplitWhere([pattern](std::string_view text,
                              const auto& found) { return pattern.ForEachMatch(text, found); },
                    SplitBehavior::kRemoved, /*invert=*/true);
}

Result<Splitter> ReadSequence(const json& j);

constexpr ReadRow<Splitter> kRows[] = {
    {"Split", ReadSplit},
    {"ByteLevel", ReadByteLevel},
    {"Metaspace", ReadMetaspace},
    {"Whitespace", ReadWhitespace},
    {"WhitespaceSplit", ReadWhitespaceSplit},
    {"BertPreTokenizer", ReadBert},
    {"Digits", ReadDigits},
    {"Punctuation", ReadPunctuation},
    {"CharDelimiterSplit", ReadCharDelimiter},
    {"FixedLength", ReadFixedLength},
    {"UnicodeScripts", ReadUnicodeScripts},
    {"Sequence", ReadSequence},
};

Result<Splitter> ReadSequence(const json& j) {
  EVOQ_ASSIGN(std::vector<Splitter> steps, ReadSteps<Splitter>(kRows, j, "pretokenizers"));
  return InSequence(std::move(steps));
}

}  // namespace

Splitter InSequence(std::vector<Splitter> steps) {
  return [steps = std::move(steps)](std::vector<Word>& words) -> Status {
    for (const Splitter& step : steps) EVOQ_TRY(step(words));
    return {};
  };
}

Splitter SplitAt(Pattern pattern, SplitBehavior behavior) {
  return SplitWhere(
      [pattern = std::move(pattern)](std::string_view text, const auto& found) {
        return pattern.ForEachMatch(text, found);
      },
      behavior);
}

Result<Splitter> ReadPreTokenizer(const json& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return InSequence(std::vector<Splitter>());
  return ReadStep<Splitter>(kRows, pre_tokenizer, "pre_tokenizer");
}

}  // namespace evoq
