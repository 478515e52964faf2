// Byte-pair tokenizers of the SentencePiece family, as small Llama models come with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace evoq {

// Text becomes characters; then the two neighbours whose join is the piece of the largest score,
// the first of equals, become that piece, until no join is one. A character that is no piece
// becomes its bytes' pieces ("<0x0A>"), or the unknown piece, 0.
class Tokenizer {
 public:
  static constexpr int64_t kBegin = 1;  // the piece before a text, <s>

  // A llama2.c .bin (longest piece; per piece a float32 score, an int32 size, its bytes) or a
  // SentencePiece .vocab (a line "piece<TAB>score" each, a space being U+2581); pieces of at most
  // 4096 bytes. Errors: kInvalidInput naming file and place.
  static Result<Tokenizer> Load(const std::string& path);

  // Pieces of the text, without kBegin. `text` is UTF-8.
  std::vector<int64_t> Encode(std::string_view text) const;
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  struct Piece {
    std::string text;
    float score = 0;
  };
  // The next piece: at most 4096 bytes, and a score that has an order.
  Status CheckPiece(int64_t bytes, float score) const;
  Status ReadBin(const std::string& bytes);
  Status ReadVocab(const std::string& text);
  Status Index();
  std::vector<Piece> pieces_;
  std::map<std::string, int64_t, std::less<>> index_;
};

}  // namespace evoq
