// What the files beside a vocabulary say of its pieces: tokenizer_config.json, added_tokens.json,
// special_tokens_map.json and the chat templates.
#include <algorithm>
#include <charconv>

#include "base/json_file.h"
#include "tokenizer/kinds.h"
#include "tokenizer/rules.h"

namespace evoq {
namespace {

using nlohmann::json;

constexpr char kConfig[] = "tokenizer_config.json", kAdded[] = "added_tokens.json",
               kSpecial[] = "special_tokens_map.json";

// The order in which transformers adds those that are no pieces yet.
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

Result<json> JsonOrNull(const TokenizerFiles& files, const char* name) {
  if (!files.Has(name)) return json();
  return files.Json(name);
}

// Adds pieces to a vocabulary.
class Adding {
 public:
  explicit Adding(TokenizerParts& parts) : parts_(parts), vocabulary_(*parts.vocabulary) {}

  // A piece as transformers writes it: a text, or {"content": "<s>", "lstrip": false, ...}.
  // `id`: its number, -1: the next one where it is no piece yet. Gives the number.
  Result<int64_t> Add(const json& written, int64_t id, bool special) {
    AddedPiece piece{.special = special || JsonFlag(written, "special"),
                     .left = JsonFlag(written, "lstrip"),
                     .right = JsonFlag(written, "rstrip"),
                     .single_word = JsonFlag(written, "single_word")};
    piece.content = written.is_string() ? written.get<std::string>() : JsonText(written, "content");
    if (piece.content.empty()) return InvalidInput("expected a piece's text");
    const int64_t known = vocabulary_.Find(piece.content);
    if (known >= 0 && id >= 0 && known != id)
      return InvalidInput("\"{}\" has the number {}, but the vocabulary says {}", piece.content, id,
                          known);
    piece.id = known >= 0 ? known : id >= 0 ? id : vocabulary_.size();
    // The model does not see it.
    if (known < 0) EVOQ_TRY(vocabulary_.Set(piece.id, piece.content, PieceKind::kControl));
    if (piece.special) parts_.SetSpecial(piece.id);
    // What has a number in the list says it all; a role is another name of it.
    const auto same = std::ranges::find(parts_.added, piece.id, &AddedPiece::id);
    const int64_t number = piece.id;
    if (same == parts_.added.end())
      parts_.added.push_back(std::move(piece));
    else if (id >= 0)
      *same = std::move(piece);
    return number;
  }

  // {"1000": {"content": "<|user|>", ...}}
  Status AddByNumber(const json& decoder) {
    for (const auto& [key, written] : decoder.items()) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0)
        return InvalidInput("added_tokens_decoder: \"{}\" is no number", key);
      EVOQ_TRY(WithContext(Add(written, id, false), "added_tokens_decoder"));
    }
    return {};
  }

  // {"<|user|>": 1000}; `special`: those that are.
  Status AddByText(const json& added, const std::vector<std::string>& special) {
    std::vector<std::pair<int64_t, std::string>> pieces;
    for (const auto& [content, id] : added.items()) {
      if (!id.is_number_integer()) return InvalidInput("piece \"{}\" has no number", content);
      pieces.emplace_back(id.get<int64_t>(), content);
    }
    std::ranges::sort(pieces);
    for (const auto& [id, content] : pieces)
      EVOQ_TRY(Add(json(content), id, std::ranges::find(special, content) != special.end()));
    return {};
  }

  void Finish() { parts_.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary_)); }

 private:
  TokenizerParts& parts_;
  Vocabulary vocabulary_;
};

// The pieces of the roles, in order, then the other special ones.
struct Named {
  json roles[std::size(kRoles)];  // null: none
  std::vector<json> others;

  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    const auto add = [&](const json& piece) {
      texts.push_back(piece.is_string() ? piece.get<std::string>() : JsonText(piece, "content"));
    };
    for (const json& piece : roles) add(piece);
    for (const json& piece : others) add(piece);
    return texts;
  }
};

Named NamedBy(const json& config, const json& special, const TokenizerParts& parts) {
  Named named;
  const int64_t own[] = {parts.begin, parts.ends.empty() ? -1 : parts.ends[0], parts.unknown};
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    if (i < std::size(own) && own[i] >= 0) named.roles[i] = parts.vocabulary->piece(own[i]);
    for (const json* source : {&config, &special}) {
      if (source->is_object() && source->contains(kRoles[i])) named.roles[i] = (*source)[kRoles[i]];
    }
  }
  for (const json* source : {&special, &config}) {
    for (const json& piece : JsonArray(*source, "additional_special_tokens")) {
      if (named.others.empty() || std::ranges::find(named.others, piece) == named.others.end())
        named.others.push_back(piece);
    }
  }
  return named;
}

Status AddNamed(const Named& named, Adding& adding, TokenizerParts& parts) {
  int64_t ids[std::size(kRoles)];
  for (size_t i = 0; i < std::size(kRoles); ++i) {
    ids[i] = -1;
    if (named.roles[i].is_null()) continue;
    EVOQ_ASSIGN(ids[i], WithContext(adding.Add(named.roles[i], -1, true), kRoles[i]));
  }
  for (const json& piece : named.others)
    EVOQ_TRY(WithContext(adding.Add(piece, -1, true), "additional_special_tokens"));
  parts.begin = ids[0];
  parts.ends.clear();
  if (ids[1] >= 0) parts.ends = {ids[1]};
  parts.padding = ids[4];
  return {};
}

// What stands around a text: as before where the configuration does not say.
void SetAround(const json& config, TokenizerParts& parts) {
  const bool begins = JsonFlag(config, "add_bos_token", !parts.before.empty());
  const bool ends = JsonFlag(config, "add_eos_token", !parts.after.empty());
  parts.before.clear();
  parts.after.clear();
  if (begins && parts.begin >= 0) parts.before = {parts.begin};
  if (ends && !parts.ends.empty()) parts.after = {parts.ends[0]};
}

Status AddPieces(const TokenizerFiles& files, const json& config, TokenizerParts& parts) {
  Adding adding(parts);
  const json& decoder = JsonMember(config, "added_tokens_decoder");
  // With a list in the configuration, transformers does not read the other two files.
  json special, added;
  if (!decoder.is_object()) {
    EVOQ_ASSIGN(special, JsonOrNull(files, kSpecial));
    EVOQ_ASSIGN(added, JsonOrNull(files, kAdded));
  }
  const Named named = NamedBy(config, special, parts);
  if (decoder.is_object()) EVOQ_TRY(WithContext(adding.AddByNumber(decoder), files.Label(kConfig)));
  if (added.is_object())
    EVOQ_TRY(WithContext(adding.AddByText(added, named.Texts()), files.Label(kAdded)));
  EVOQ_TRY(WithContext(AddNamed(named, adding, parts), files.Label(kConfig)));
  adding.Finish();
  return {};
}

}  // namespace

// As transformers takes them: files stand for all that the configuration has; of templates with
// names, "default", and with tools "tool_use".
Status ReadTemplates(const TokenizerFiles& files, const json& config, TokenizerParts& parts) {
  constexpr char kDefault[] = "chat_template.jinja",
                 kToolUse[] = "additional_chat_templates/tool_use.jinja";
  const bool of_files = files.Has(kDefault) || files.Has(kToolUse);
  if (files.Has(kDefault)) {
    EVOQ_ASSIGN(parts.chat_template, files.Text(kDefault));
  }
  if (files.Has(kToolUse)) {
    EVOQ_ASSIGN(parts.tool_template, files.Text(kToolUse));
  }
  if (of_files) return {};
  parts.chat_template = JsonText(config, "chat_template");
  for (const json& named : JsonArray(config, "chat_template")) {
    if (JsonText(named, "name") == "default") parts.chat_template = JsonText(named, "template");
    if (JsonText(named, "name") == "tool_use") parts.tool_template = JsonText(named, "template");
  }
  return {};
}

Result<json> TokenizerConfig(const TokenizerFiles& files) { return JsonOrNull(files, kConfig); }

Status Configure(const TokenizerFiles& files, const json& config, TokenizerParts& parts) {
  EVOQ_TRY(ReadTemplates(files, config, parts));
  if (!files.Has(kConfig) && !files.Has(kAdded) && !files.Has(kSpecial)) return {};
  EVOQ_TRY(AddPieces(files, config, parts));
  SetAround(config, parts);
  AddEndsByName(parts);
  return {};
}

}  // namespace evoq
