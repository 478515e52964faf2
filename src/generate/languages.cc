#include "generate/languages.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace evoq {
namespace {

bool IsWord(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
  });
}

// Whether a piece is a language's: fr_XX, fra_Latn, __fr__.
bool NamesLanguage(std::string_view piece) {
  constexpr std::string_view kAround = "__";
  if (piece.size() > 2 * kAround.size() && piece.starts_with(kAround) && piece.ends_with(kAround))
    return IsWord(piece.substr(kAround.size(), piece.size() - 2 * kAround.size()));
  const size_t at = piece.find('_');
  return at != piece.npos && at >= 2 && at <= 3 && IsWord(piece.substr(0, at)) &&
         IsWord(piece.substr(at + 1));
}

Result<int64_t> LanguageToken(const Tokenizer& tokenizer, const std::string& name) {
  for (const std::string& piece : {name, "__" + name + "__"}) {
    const auto found = tokenizer.Find(piece);
    if (found && tokenizer.IsSpecial(*found)) return *found;
  }
  return Fail(ErrorCode::kUsage, "the model's tokenizer knows no language '{}'",
              name.substr(0, 60));
}

}  // namespace

Result<SourceText> EncodeSource(const Tokenizer& tokenizer, std::string_view text,
                                const Languages& languages, bool add_special) {
  SourceText out;
  const auto before = tokenizer.Find(">>" + languages.target + "<<");
  EVOQ_ASSIGN(out.tokens, tokenizer.Encode(text, {.add_special = add_special}));
  if (!languages.source.empty()) {
    EVOQ_ASSIGN(const int64_t source, LanguageToken(tokenizer, languages.source));
    // Where a text of nothing has one, every text does.
    EVOQ_ASSIGN(const std::vector<int64_t> around, tokenizer.Encode("", {}));
    std::optional<int64_t> own;
    for (const int64_t id : around) {
      EVOQ_ASSIGN(const std::string piece, tokenizer.Piece(id));
      if (NamesLanguage(piece)) own = id;
    }
    if (!own || !add_special)
      return Fail(ErrorCode::kUsage, "a source language '{}': the tokenizer puts none at a text",
                  languages.source.substr(0, 60));
    std::ranges::replace(out.tokens, *own, source);
  }
  if (languages.target.empty()) return out;
  if (before) {
    out.tokens.insert(out.tokens.begin(), *before);
    return out;
  }
  EVOQ_ASSIGN(const int64_t target, LanguageToken(tokenizer, languages.target));
  out.begin = {target};
  return out;
}

}  // namespace evoq
