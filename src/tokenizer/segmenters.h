// How a word becomes pieces: byte-pair merges, the likeliest pieces, the longest pieces.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/flat_map.h"
#include "tokenizer/vocabulary.h"

namespace evoq {

// Appends the pieces of `word`, valid UTF-8.
using Segmenter = std::function<Status(std::string_view word, std::vector<int64_t>& ids)>;

// What becomes of a character that is no piece.
struct UnknownRule {
  int64_t id = -1;             // the piece for it; -1: it is dropped
  bool fuse = false;           // neighbours that are unknown are one piece
  bool byte_fallback = false;  // its bytes' pieces, where all are there
};

// ---- byte pairs

// (left << 32 | right) -> (rank << 32 | the piece that they become); the smallest rank is first.
struct Merges {
  FlatMap pairs;
  // Characters that are no pieces but parts of some, with numbers from the vocabulary's size on.
  std::vector<std::string> characters;
};
// Errors: kInvalidInput, naming the merge, for halves that are no pieces or empty, or whose join
// (without `prefix` before the right half) is none.
Result<Merges> MergesInOrder(const Vocabulary& vocabulary,
                             std::span<const std::pair<std::string, std::string>> merges,
                             const std::string& prefix = "");
// Every piece is made by each pair that it is the join of; the largest score is first, and equal
// scores have equal ranks. `scores` by piece. `defined_join`: pieces that the user defined do too.
Result<Merges> MergesByScore(const Vocabulary& vocabulary, std::span<const double> scores,
                             bool defined_join = false);

struct BytePairs {
  Merges merges;
  UnknownRule unknown;
  std::string prefix;        // of pieces that begin no word
  std::string suffix;        // of pieces that end a word
  bool whole_words = false;  // a word that is a piece is that piece
};
// The neighbours of the smallest rank, the first of equals, become one piece, until none do.
// O(n log n) in the word's bytes.
Segmenter SegmentByPairs(std::shared_ptr<const Vocabulary> vocabulary, BytePairs rules);

// ---- the likeliest pieces

struct Unigram {
  std::vector<double> scores;  // log probabilities, by piece
  UnknownRule unknown;
  bool float_sums = false;  // sums in float32, as SentencePiece has them
};
// The pieces with the largest sum of scores; a character that is no piece counts 10 less than the
// smallest score. O(n times the longest piece).
Segmenter SegmentByScores(std::shared_ptr<const Vocabulary> vocabulary, Unigram rules);

// ---- the longest pieces

struct LongestPieces {
  int64_t unknown = -1;
  std::string prefix = "##";     // of pieces that begin no word
  int64_t max_characters = 100;  // of a word; a longer one is unknown
};
// WordPiece: the longest piece, then the longest that goes on; a word that ends otherwise is
// unknown.
Segmenter SegmentByLongest(std::shared_ptr<const Vocabulary> vocabulary, LongestPieces rules);

// A word is a piece or unknown.
Segmenter SegmentByWord(std::shared_ptr<const Vocabulary> vocabulary, int64_t unknown);

}  // namespace evoq
