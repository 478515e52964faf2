#include "data/tokenizer.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <queue>

#include "base/file.h"
#include "base/text.h"

namespace evoq {
namespace {

constexpr size_t kMaxFileBytes = 64 << 20;
constexpr int64_t kMaxPieceBytes = 1 << 12;

// A join of two neighbours: largest score first, then the first place.
struct Join {
  float score;
  int32_t left, right;
  int64_t piece;
  bool operator<(const Join& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

}  // namespace

Result<Tokenizer> Tokenizer::Load(const std::string& path) {
  EVOQ_ASSIGN(const std::string bytes, ReadTextFile(path, kMaxFileBytes));
  Tokenizer tokenizer;
  EVOQ_TRY(WithContext(
      LowerExtension(path) == ".vocab" ? tokenizer.ReadVocab(bytes) : tokenizer.ReadBin(bytes),
      path));
  EVOQ_TRY(WithContext(tokenizer.Index(), path));
  return tokenizer;
}

Status Tokenizer::CheckPiece(int64_t bytes, float score) const {
  if (bytes < 0 || bytes > kMaxPieceBytes)
    return InvalidInput("piece {} has {} bytes, expected at most {}", pieces_.size(), bytes,
                        kMaxPieceBytes);
  if (std::isnan(score))
    return InvalidInput("piece {} has the score {}, expected a number", pieces_.size(), score);
  return {};
}

Status Tokenizer::ReadBin(const std::string& bytes) {
  size_t at = sizeof(int32_t);  // the longest piece's size comes first
  while (at < bytes.size()) {
    Piece piece;
    int32_t size = -1;
    if (bytes.size() - at < sizeof(float) + sizeof(size))
      return InvalidInput("piece {} is cut off", pieces_.size());
    std::memcpy(&piece.score, bytes.data() + at, sizeof(float));
    std::memcpy(&size, bytes.data() + at + sizeof(float), sizeof(size));
    at += sizeof(float) + sizeof(size);
    EVOQ_TRY(CheckPiece(size, piece.score));
    if (static_cast<size_t>(size) > bytes.size() - at)
      return InvalidInput("piece {} has {} bytes, expected at most the {} left in the file",
                          pieces_.size(), size, bytes.size() - at);
    piece.text = bytes.substr(at, static_cast<size_t>(size));
    at += static_cast<size_t>(size);
    pieces_.push_back(std::move(piece));
  }
  return {};
}

Status Tokenizer::ReadVocab(const std::string& text) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    const size_t tab = line.rfind('\t');
    Piece piece;
    const auto bad = [&] {
      return InvalidInput("line {}: expected a piece, a tab and a score", pieces_.size() + 1);
    };
    if (tab == std::string_view::npos) return bad();
    if (std::from_chars(line.data() + tab + 1, line.data() + line.size(), piece.score).ec !=
        std::errc())
      return bad();
    for (std::string_view rest = line.substr(0, tab); !rest.empty();) {
      const size_t place = rest.find(kSpace);
      piece.text += rest.substr(0, place);
      if (place == std::string_view::npos) break;
      piece.text += ' ';
      rest.remove_prefix(place + kSpace.size());
    }
    EVOQ_TRY(CheckPiece(static_cast<int64_t>(piece.text.size()), piece.score));
    pieces_.push_back(std::move(piece));
  }
  return {};
}

Status Tokenizer::Index() {
  if (pieces_.size() <= kBegin)
    return InvalidInput("{} pieces, expected at least 2", pieces_.size());
  for (size_t i = 0; i < pieces_.size(); ++i)
    index_.emplace(pieces_[i].text, static_cast<int64_t>(i));
  return {};
}

std::vector<int64_t> Tokenizer::Encode(std::string_view text) const {
  struct Token {
    int64_t piece;
    int32_t before, after;  // neighbours; -1: none
  };
  std::vector<Token> tokens;
  const auto append = [&](int64_t piece) {
    const auto i = static_cast<int32_t>(tokens.size());
    if (i > 0) tokens[i - 1].after = i;
    tokens.push_back({piece, i - 1, -1});
  };
  for (size_t at = 0, size; at < text.size(); at += size) {
    size = Utf8At(text, at).bytes;
    if (const auto found = index_.find(text.substr(at, size)); found != index_.end()) {
      append(found->second);
      continue;
    }
    for (size_t i = 0; i < size; ++i) {
      const auto byte =
          index_.find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(text[at + i])));
      if (byte != index_.end() || i == 0) append(byte != index_.end() ? byte->second : 0);
    }
  }
  std::priority_queue<Join> joins;
  const auto consider = [&](int32_t left) {
    const int32_t right = left < 0 ? -1 : tokens[left].after;
    if (right < 0) return;
    const auto found =
        index_.find(pieces_[tokens[left].piece].text + pieces_[tokens[right].piece].text);
    if (found != index_.end())
      joins.push({pieces_[found->second].score, left, right, found->second});
  };
  for (int32_t i = 0; i < static_cast<int32_t>(tokens.size()); ++i) consider(i);
  while (!joins.empty()) {
    const Join join = joins.top();
    joins.pop();
    Token &left = tokens[join.left], &right = tokens[join.right];
    // One of the two may have become part of another piece.
    if (left.piece < 0 || right.piece < 0 || left.after != join.right) continue;
    if (pieces_[left.piece].text + pieces_[right.piece].text != pieces_[join.piece].text) continue;
    left.piece = join.piece;
    left.after = right.after;
    right.piece = -1;
    if (left.after >= 0) tokens[left.after].before = join.left;
    consider(left.before);
    consider(join.left);
  }
  std::vector<int64_t> pieces;
  for (const Token& token : tokens) {
    if (token.piece >= 0) pieces.push_back(token.piece);
  }
  return pieces;
}

}  // namespace evoq
