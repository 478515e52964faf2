// The pieces of a tokenizer: text by number, number by text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace evoq {

// What a piece is for, as SentencePiece numbers it less one.
enum class PieceKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

class Vocabulary {
 public:
  static constexpr int64_t kMaxPieces = 1 << 21, kMaxPieceBytes = 1 << 12;
  static constexpr int64_t kMaxBytes = 32 << 20;  // of all pieces

  // The next piece, whose number is size(). Errors: kInvalidInput for a text that another piece
  // has, kTooLarge.
  Status Add(std::string piece, PieceKind kind = PieceKind::kNormal);
  // The piece of a number; numbers in between stay without one. Errors: as Add, and kInvalidInput
  // for a number that is taken or out of range.
  Status Set(int64_t id, std::string piece, PieceKind kind = PieceKind::kNormal);

  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  // "" for a number without a piece.
  const std::string& piece(int64_t id) const { return pieces_[static_cast<size_t>(id)]; }
  PieceKind kind(int64_t id) const { return kinds_[static_cast<size_t>(id)]; }
  // -1: no piece has this text.
  int64_t Find(std::string_view piece) const {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }
  // Find, of the pieces that text is made of: kNormal and kUserDefined.
  int64_t FindText(std::string_view piece) const {
    const int64_t id = Find(piece);
    return id >= 0 && InText(id) ? id : -1;
  }
  bool InText(int64_t id) const {
    return kind(id) == PieceKind::kNormal || kind(id) == PieceKind::kUserDefined;
  }
  // The number of "<0x0A>" for 10, -1 where there is no such piece.
  int64_t byte_piece(unsigned char byte) const { return bytes_[byte]; }
  // Appends the pieces of the bytes; false, and nothing is appended, where one has none.
  bool AppendBytes(std::string_view text, std::vector<int64_t>& ids) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> pieces_;
  std::vector<PieceKind> kinds_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::array<int64_t, 256> bytes_ = [] {
    std::array<int64_t, 256> none;
    none.fill(-1);
    return none;
  }();
  int64_t bytes_in_all_ = 0;
};

// 10 for "<0x0A>", -1 for other texts.
int ByteOfPiece(std::string_view piece);

}  // namespace evoq
