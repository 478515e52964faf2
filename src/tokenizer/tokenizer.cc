#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/file.h"
#include "tokenizer/grammar/matcher.h"
#include "tokenizer/kinds.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"

namespace evoq {

#define EVOQ_ROW_TYPE TokenizerKind
#define EVOQ_ROW_FILE "tokenizer/kinds.inc"
#include "base/rows.inl.h"

std::span<const TokenizerKind* const> AllTokenizerKinds() { return kAllRows; }

struct TokenizerCore {
  TokenizerParts parts;
  AddedPieces before, after;              // found before and after the normalizer
  std::map<int64_t, std::string> normal;  // texts of pieces that are found after it
  mutable std::mutex mutex;               // of what follows
  mutable std::shared_ptr<const TokenTree> tree;
};

namespace {

std::string KindFiles() {
  std::string names;
  for (const TokenizerKind* kind : AllTokenizerKinds())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind->file);
  return names;
}

Result<std::string> FileOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  for (const TokenizerKind* kind : AllTokenizerKinds()) {
    const std::filesystem::path file = std::filesystem::path(path) / kind->file;
    if (std::filesystem::exists(file, error)) return file.string();
  }
  return Fail(ErrorCode::kNotFound, "{}: no tokenizer in this folder, expected one of {}", path,
              KindFiles());
}

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::string& path) {
  EVOQ_ASSIGN(const std::string file, FileOf(path));
  const std::string name = BaseName(file);
  std::string lower = name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const TokenizerKind* kind : AllTokenizerKinds()) {
    if (!kind->matches(lower)) continue;
    const auto files = TokenizerFiles::In(file.substr(0, file.size() - name.size()));
    EVOQ_ASSIGN(TokenizerParts parts, kind->read(files, name));
    return WithContext(Make(std::move(parts)), file);
  }
  return Fail(ErrorCode::kUnsupported,
              "{}: not a tokenizer by its name, expected .json, .model, .vocab or .bin", file);
}

Result<Tokenizer> Tokenizer::FromFiles(std::map<std::string, std::string> bytes,
                                       const std::string& label) {
  const auto files = TokenizerFiles::Of(std::move(bytes), label);
  for (const TokenizerKind* kind : AllTokenizerKinds()) {
    if (!files.Has(kind->file)) continue;
    EVOQ_ASSIGN(TokenizerParts parts, kind->read(files, kind->file));
    return WithContext(Make(std::move(parts)), files.Label(kind->file));
  }
  return Fail(ErrorCode::kNotFound, "{}no tokenizer, expected one of {}", label, KindFiles());
}

Result<Tokenizer> Tokenizer::Make(TokenizerParts parts) {
  auto core = std::make_shared<TokenizerCore>();
  for (const AddedPiece& piece : parts.added) {
    std::string written = piece.content;
    if (piece.normalized && !piece.as_written) EVOQ_TRY(parts.normalize(written));
    if (piece.normalized) core->normal[piece.id] = written;
    (piece.normalized ? core->after : core->before).Add(piece, written);
  }
  core->parts = std::move(parts);
  Tokenizer tokenizer;
  tokenizer.core_ = std::move(core);
  return tokenizer;
}

Result<std::vector<int64_t>> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  const TokenizerParts& parts = core_->parts;
  std::vector<int64_t> ids;
  if (options.add_special) ids = parts.before;
  const std::string valid = ValidUtf8(text);
  for (const AddedPart& outer : core_->before.Split(valid, options.parse_special)) {
    if (outer.id >= 0) {
      ids.push_back(outer.id);
      continue;
    }
    std::string normal = valid.substr(outer.begin, outer.end - outer.begin);
    const bool behind = outer.begin > 0 && parts.normalize_behind;
    EVOQ_TRY((behind ? parts.normalize_behind : parts.normalize)(normal));
    for (const AddedPart& part : core_->after.Split(normal, options.parse_special)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const bool first = outer.begin == 0 && part.begin == 0;
      std::vector<Word> words;
      words.push_back({normal.substr(part.begin, part.end - part.begin), first});
      EVOQ_TRY(parts.split(words));
      for (const Word& word : words) EVOQ_TRY(parts.segment(word.text, ids));
    }
  }
  if (options.add_special) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
  return ids;
}

Result<std::string> Tokenizer::Decode(std::span<const int64_t> ids, bool special) const {
  StreamDecoder stream(*this, special);
  for (const int64_t id : ids) EVOQ_TRY(stream.Append(id));
  return std::move(stream.waiting_);
}

Result<std::string> Tokenizer::Continuation(int64_t id) const {
  StreamDecoder stream(*this, true);
  stream.first_ = false;
  stream.stripped_ = core_->parts.decode.strip_count;
  EVOQ_TRY(stream.Append(id));
  if (stream.ended_) stream.waiting_ += ' ';
  return std::move(stream.waiting_);
}

Result<std::shared_ptr<const TokenTree>> Tokenizer::Tree() const {
  const std::lock_guard lock(core_->mutex);
  if (core_->tree == nullptr || core_->tree->size() != size()) {
    EVOQ_ASSIGN(core_->tree, TokenTree::Of(*this));
  }
  return core_->tree;
}

void Tokenizer::Widen(int64_t rows) { rows_ = std::max(rows_, rows); }

int64_t Tokenizer::size() const { return std::max(rows_, core_->parts.vocabulary->size()); }

Result<std::string> Tokenizer::Piece(int64_t id) const {
  if (id < 0 || id >= size())
    return InvalidInput("piece number {}, expected 0 to {}", id, size() - 1);
  const Vocabulary& vocabulary = *core_->parts.vocabulary;
  return id < vocabulary.size() ? vocabulary.piece(id) : std::string();
}

std::optional<int64_t> Tokenizer::Find(std::string_view piece) const {
  const int64_t id = core_->parts.vocabulary->Find(piece);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

bool Tokenizer::IsSpecial(int64_t id) const {
  const std::vector<bool>& special = core_->parts.special;
  return id >= 0 && static_cast<size_t>(id) < special.size() && special[static_cast<size_t>(id)];
}

int64_t Tokenizer::begin() const { return core_->parts.begin; }
int64_t Tokenizer::padding() const { return core_->parts.padding; }
const std::vector<int64_t>& Tokenizer::ends() const { return core_->parts.ends; }
const std::string& Tokenizer::chat_template() const { return core_->parts.chat_template; }
const std::string& Tokenizer::tool_template() const { return core_->parts.tool_template; }

Status StreamDecoder::Append(int64_t id) {
  EVOQ_ASSIGN(std::string piece, tokenizer_.Piece(id));
  if (piece.empty() || (!special_ && tokenizer_.IsSpecial(id))) return {};
  const TokenizerCore& core = *tokenizer_.core_;
  const DecodeSteps& decode = core.parts.decode;
  if (const auto normal = core.normal.find(id); normal != core.normal.end()) piece = normal->second;
  if (!decode.word_end.empty()) {
    const bool ends = piece.ends_with(decode.word_end);
    if (ends) piece.resize(piece.size() - decode.word_end.size());
    ReplaceAll(piece, decode.word_end, " ");
    if (ended_) waiting_ += ' ';
    ended_ = ends;
  }
  for (const PieceStep& step : decode.steps) step(piece, first_);
  first_ = false;
  std::string_view rest = piece;
  while (stripped_ < decode.strip_count && rest.starts_with(decode.strip)) {
    rest.remove_prefix(decode.strip.size());
    ++stripped_;
  }
  if (!rest.empty()) stripped_ = decode.strip_count;  // the text has begun
  waiting_ += rest;
  return {};
}

void StreamDecoder::Follow(std::span<const int64_t> before) {
  const int64_t strip_count = tokenizer_.core_->parts.decode.strip_count;
  const bool words = !tokenizer_.core_->parts.decode.word_end.empty();
  for (const int64_t id : before) {
    if (!first_ && stripped_ == strip_count && !words)
      break;           // the text has begun: the rest changes nothing
    (void)Append(id);  // a prompt may have tokens that are no piece
  }
  waiting_.clear();
}

Result<std::string> StreamDecoder::Next(int64_t id) {
  EVOQ_TRY(Append(id));
  const size_t whole = waiting_.size() - UnfinishedBytes(waiting_);
  std::string out = waiting_.substr(0, whole);
  waiting_.erase(0, whole);
  return out;
}

std::string StreamDecoder::Finish() { return std::move(waiting_); }

}  // namespace evoq
