// Which tokens a text of a grammar may have next.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tokenizer/grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace evoq {

// The bytes of a tokenizer's tokens as a tree; special ones, and those of no bytes, are not there.
class TokenTree {
 public:
  // Errors: those of the tokenizer.
  static Result<std::shared_ptr<const TokenTree>> Of(const Tokenizer& tokenizer);

  // A byte behind those of the node above it. Nodes lie parent first, and those below a node behind
  // it, up to `end`.
  struct Node {
    uint8_t byte;
    uint16_t depth;  // from 0
    uint32_t end;
    uint32_t first_token, token_count;  // that end here, in tokens
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int64_t> tokens() const { return tokens_; }
  int64_t size() const { return size_; }  // all tokens are below
  const std::string& bytes(int64_t token) const { return bytes_[static_cast<size_t>(token)]; }

 private:
  std::vector<Node> nodes_;
  std::vector<int64_t> tokens_;
  std::vector<std::string> bytes_;
  int64_t size_ = 0;
};

// A text that grows by tokens. What stands open is a set of stacks of places in the grammar; sets
// that were met are kept, and with them where each byte leads, so that a step costs a lookup.
class GrammarMatcher {
 public:
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTree> tree);

  // A bit for each token that may come next, 64 in a number, until the next call. Errors: kTooLarge
  // for a grammar that is too ambiguous, kInvalidInput where the text can neither go on with any
  // token nor be whole.
  Result<std::span<const uint64_t>> Allowed();
  // The text is whole as it is.
  bool whole() const { return states_[state_].whole; }
  // And nothing may follow.
  bool ended() const { return whole() && states_[state_].frames.empty(); }
  // Errors: kInvalidInput for a token that is not allowed; kTooLarge.
  Status Take(int64_t token);

 private:
  // A place in items_, and where to go on behind its rule: another frame, or -1, the end.
  struct Frame {
    int32_t place, below;
  };
  struct State {
    std::vector<int32_t> frames;  // at sets of bytes; sorted
    bool whole = false;
    std::array<int32_t, 256> next;  // kUnknown, kDead or a state
  };
  static constexpr int32_t kUnknown = -2, kDead = -1, kBottom = -1;
  static constexpr size_t kMaxFrames = size_t{1} << 20, kMaxOpen = 4096, kMaxStates = 4096,
                          kMaxMasks = 256;

  // Rules as one list: a set of bytes is its number, a rule r is -2 - r, kEnd ends a sequence.
  static constexpr int32_t kEnd = -1;
  int32_t FrameOf(int32_t place, int32_t below);
  // Adds what stands open at a place to open_, and whether the text may end to open_whole_.
  void Open(int32_t place, int32_t below);
  // The state of open_.
  int32_t Found();
  int32_t Next(size_t state, uint8_t byte);
  const std::vector<uint64_t>& Mask();
  // Forgets all states but the one that the text is in.
  void Forget();

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTree> tree_;
  std::vector<int32_t> items_;
  std::vector<std::vector<int32_t>> starts_;  // of the sequences of each rule, in items_
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, int32_t> frame_ids_;
  std::vector<State> states_;
  std::map<std::pair<std::vector<int32_t>, bool>, int32_t> state_ids_;
  std::unordered_map<size_t, std::vector<uint64_t>> masks_;
  std::vector<int32_t> open_;
  bool open_whole_ = false, too_large_ = false;
  std::vector<int32_t> work_;
  std::vector<uint32_t> seen_;  // by frame: the turn in which it was met
  uint32_t turn_ = 0;
  size_t state_ = 0;
};

}  // namespace evoq
