#include "tokenizer/vocabulary.h"

#include <charconv>

namespace evoq {

int ByteOfPiece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc() && end == piece.data() + 5 ? byte : -1;
}

Status Vocabulary::Add(std::string piece, PieceKind kind) {
  return Set(size(), std::move(piece), kind);
}

Status Vocabulary::Set(int64_t id, std::string piece, PieceKind kind) {
  const auto bytes = static_cast<int64_t>(piece.size());
  if (id < 0 || id >= kMaxPieces)
    return InvalidInput("piece number {}, expected 0 to {}", id, kMaxPieces - 1);
  if (bytes > kMaxPieceBytes)
    return InvalidInput("piece {} has {} bytes, expected at most {}", id, bytes, kMaxPieceBytes);
  bytes_in_all_ += bytes;
  if (bytes_in_all_ > kMaxBytes)
    return Fail(ErrorCode::kTooLarge, "the pieces have more than {} bytes", kMaxBytes);
  if (id >= size()) {
    pieces_.resize(static_cast<size_t>(id) + 1);
    kinds_.resize(static_cast<size_t>(id) + 1, PieceKind::kUnused);
  } else if (!pieces_[static_cast<size_t>(id)].empty()) {
    return InvalidInput("piece number {} is given twice", id);
  }
  if (!piece.empty()) {
    const auto [place, fresh] = ids_.emplace(piece, id);
    if (!fresh) return InvalidInput("pieces {} and {} are the same text", place->second, id);
  }
  if (const int byte = ByteOfPiece(piece); byte >= 0) bytes_[static_cast<size_t>(byte)] = id;
  pieces_[static_cast<size_t>(id)] = std::move(piece);
  kinds_[static_cast<size_t>(id)] = kind;
  return {};
}

bool Vocabulary::AppendBytes(std::string_view text, std::vector<int64_t>& ids) const {
  for (const char byte : text) {
    if (bytes_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  for (const char byte : text) ids.push_back(bytes_[static_cast<unsigned char>(byte)]);
  return true;
}

}  // namespace evoq
