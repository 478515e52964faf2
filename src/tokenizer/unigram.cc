#include <algorithm>
#include <limits>

#include "tokenizer/piece_trie.h"
#include "tokenizer/segmenters.h"
#include "tokenizer/unicode.h"

namespace evoq {
namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece's kUnkPenalty

class ScoreSegmenter {
 public:
  ScoreSegmenter(std::shared_ptr<const Vocabulary> vocabulary, Unigram rules)
      : vocabulary_(std::move(vocabulary)), rules_(std::move(rules)) {
    double smallest = std::numeric_limits<double>::max();
    double largest = std::numeric_limits<double>::lowest();
    for (int64_t id = 0; id < vocabulary_->size(); ++id) {
      if (!vocabulary_->InText(id) || vocabulary_->piece(id).empty()) continue;
      trie_.Add(vocabulary_->piece(id), id);
      if (vocabulary_->kind(id) != PieceKind::kNormal) continue;
      smallest = std::min(smallest, rules_.scores[static_cast<size_t>(id)]);
      largest = std::max(largest, rules_.scores[static_cast<size_t>(id)]);
    }
    if (smallest > largest) smallest = largest = 0;
    unknown_score_ = smallest - kUnknownPenalty;
    // What the user defined wins over what was learned.
    for (int64_t id = 0; id < vocabulary_->size(); ++id) {
      if (vocabulary_->kind(id) == PieceKind::kUserDefined)
        rules_.scores[static_cast<size_t>(id)] =
            static_cast<double>(vocabulary_->piece(id).size()) * largest - 0.1;
    }
  }

  Status operator()(std::string_view word, std::vector<int64_t>& ids) const {
    if (word.size() > size_t{1} << 30)
      return Fail(ErrorCode::kTooLarge, "a word of {} bytes", word.size());
    if (rules_.float_sums)
      Best<float>(word, ids);
    else
      Best<double>(word, ids);
    return {};
  }

 private:
  template <typename Sum>
  void Best(std::string_view word, std::vector<int64_t>& ids) const {
    struct End {
      Sum sum = 0;
      int32_t begin = -1;
      int32_t id = -1;
    };
    std::vector<End> ends(word.size() + 1);
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = NextCharacter(word, at).bytes;
      const Sum here = ends[at].sum;
      const auto offer = [&](size_t end, Sum score, int64_t id) {
        End& e = ends[end];
        const Sum sum = static_cast<Sum>(here + score);
        if (e.begin >= 0 && !(sum > e.sum)) return;
        e = {sum, static_cast<int32_t>(at), static_cast<int32_t>(id)};
      };
      bool single = false;
      trie_.ForEachPrefix(word.substr(at), [&](size_t size, int64_t id) {
        offer(at + size, static_cast<Sum>(rules_.scores[static_cast<size_t>(id)]), id);
        single = single || size == bytes;
      });
      if (!single) offer(at + bytes, static_cast<Sum>(unknown_score_), -1);
      at += bytes;
    }
    std::vector<size_t> path;
    for (size_t end = word.size(); end > 0; end = static_cast<size_t>(ends[end].begin))
      path.push_back(end);
    bool fused = false;
    for (auto end = path.rbegin(); end != path.rend(); ++end) {
      const End& e = ends[*end];
      const auto begin = static_cast<size_t>(e.begin);
      if (e.id >= 0) {
        ids.push_back(e.id);
        fused = false;
      } else if (rules_.unknown.byte_fallback &&
                 vocabulary_->AppendBytes(word.substr(begin, *end - begin), ids)) {
        fused = false;
      } else if (rules_.unknown.id >= 0) {
        if (!fused || !rules_.unknown.fuse) ids.push_back(rules_.unknown.id);
        fused = true;
      }
    }
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  Unigram rules_;
  PieceTrie trie_;
  double unknown_score_ = 0;
};

}  // namespace

Segmenter SegmentByScores(std::shared_ptr<const Vocabulary> vocabulary, Unigram rules) {
  return
      [segmenter = std::make_shared<const ScoreSegmenter>(std::move(vocabulary), std::move(rules))](
          std::string_view word, std::vector<int64_t>& ids) { return (*segmenter)(word, ids); };
}

}  // namespace evoq
