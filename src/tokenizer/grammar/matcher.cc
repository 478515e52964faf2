#include "tokenizer/grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace evoq {

Result<std::shared_ptr<const TokenTree>> TokenTree::Of(const Tokenizer& tokenizer) {
  auto tree = std::make_shared<TokenTree>();
  tree->size_ = tokenizer.size();
  tree->bytes_.resize(static_cast<size_t>(tree->size_));
  for (int64_t id = 0; id < tree->size_; ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    EVOQ_ASSIGN(tree->bytes_[static_cast<size_t>(id)], tokenizer.Continuation(id));
    if (!tree->bytes_[static_cast<size_t>(id)].empty()) tree->tokens_.push_back(id);
  }
  std::ranges::sort(tree->tokens_, [&](int64_t a, int64_t b) {
    const int order = tree->bytes(a).compare(tree->bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<size_t> path;  // nodes above the next one
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      tree->nodes_[path.back()].end = static_cast<uint32_t>(tree->nodes_.size());
  };
  std::string_view last;
  for (size_t i = 0; i < tree->tokens_.size(); ++i) {
    const std::string_view bytes = tree->bytes(tree->tokens_[i]);
    const auto common = std::ranges::mismatch(last, bytes).in2 - bytes.begin();
    close(static_cast<size_t>(common));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(tree->nodes_.size());
      tree->nodes_.push_back({static_cast<uint8_t>(bytes[depth]), static_cast<uint16_t>(depth), 0,
                              static_cast<uint32_t>(i), 0});
    }
    ++tree->nodes_[path.back()].token_count;
    last = bytes;
  }
  close(0);
  return tree;
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const TokenTree> tree)
    : grammar_(std::move(grammar)), tree_(std::move(tree)) {
  for (const auto& rule : grammar_->rules) {
    auto& starts = starts_.emplace_back();
    for (const Grammar::Sequence& sequence : rule) {
      starts.push_back(static_cast<int32_t>(items_.size()));
      for (const Grammar::Symbol& s : sequence)
        items_.push_back(s.is_rule ? -2 - s.index : s.index);
      items_.push_back(kEnd);
    }
  }
  ++turn_;
  for (const int32_t start : starts_[0]) Open(start, kBottom);
  state_ = static_cast<size_t>(std::max(Found(), 0));
}

int32_t GrammarMatcher::FrameOf(int32_t place, int32_t below) {
  const uint64_t key = uint64_t{static_cast<uint32_t>(place)} << 32 | static_cast<uint32_t>(below);
  const auto [found, is_new] = frame_ids_.emplace(key, static_cast<int32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back({place, below});
    seen_.push_back(0);
  }
  return found->second;
}

void GrammarMatcher::Open(int32_t place, int32_t below) {
  const auto meet = [&](int32_t at, int32_t under) {
    const int32_t frame = FrameOf(at, under);
    if (std::exchange(seen_[static_cast<size_t>(frame)], turn_) != turn_) work_.push_back(frame);
  };
  meet(place, below);
  while (!work_.empty() && !too_large_) {
    const int32_t id = work_.back();
    const Frame frame = frames_[static_cast<size_t>(id)];
    work_.pop_back();
    const int32_t item = items_[static_cast<size_t>(frame.place)];
    too_large_ = frames_.size() > kMaxFrames || open_.size() > kMaxOpen;
    if (item >= 0) {
      open_.push_back(id);
    } else if (item != kEnd) {
      // What ends with the rule needs no place behind it.
      const bool last = items_[static_cast<size_t>(frame.place) + 1] == kEnd;
      const int32_t under = last ? frame.below : FrameOf(frame.place + 1, frame.below);
      for (const int32_t start : starts_[static_cast<size_t>(-2 - item)]) meet(start, under);
    } else if (frame.below == kBottom) {
      open_whole_ = true;
    } else {
      const Frame next = frames_[static_cast<size_t>(frame.below)];
      meet(next.place, next.below);
    }
  }
  work_.clear();
}

int32_t GrammarMatcher::Found() {
  std::vector<int32_t> frames = std::exchange(open_, {});
  const bool whole = std::exchange(open_whole_, false);
  if (frames.empty() && !whole) return kDead;
  std::ranges::sort(frames);
  const auto [found, is_new] =
      state_ids_.emplace(std::pair(frames, whole), static_cast<int32_t>(states_.size()));
  if (is_new) {
    states_.push_back({std::move(frames), whole, {}});
    states_.back().next.fill(kUnknown);
  }
  return found->second;
}

int32_t GrammarMatcher::Next(size_t state, uint8_t byte) {
  if (const int32_t known = states_[state].next[byte]; known != kUnknown) return known;
  ++turn_;
  for (size_t i = 0; i < states_[state].frames.size(); ++i) {
    const Frame frame = frames_[static_cast<size_t>(states_[state].frames[i])];
    const auto set = static_cast<size_t>(items_[static_cast<size_t>(frame.place)]);
    if (grammar_->sets[set].test(byte)) Open(frame.place + 1, frame.below);
  }
  const int32_t next = Found();
  states_[state].next[byte] = next;
  return next;
}

void GrammarMatcher::Forget() {
  const State state = std::move(states_[state_]);
  const std::vector<Frame> frames = std::exchange(frames_, {});
  frame_ids_.clear(), state_ids_.clear(), states_.clear(), masks_.clear(), seen_.clear();
  turn_ = 1;
  std::unordered_map<int32_t, int32_t> kept = {{kBottom, kBottom}};
  for (const int32_t top : state.frames) {
    std::vector<int32_t> chain;  // down to what is kept already
    for (int32_t id = top; !kept.contains(id); id = frames[static_cast<size_t>(id)].below)
      chain.push_back(id);
    for (; !chain.empty(); chain.pop_back()) {
      const Frame frame = frames[static_cast<size_t>(chain.back())];
      kept[chain.back()] = FrameOf(frame.place, kept[frame.below]);
    }
    open_.push_back(kept[top]);
  }
  open_whole_ = state.whole;
  state_ = static_cast<size_t>(std::max(Found(), 0));
}

const std::vector<uint64_t>& GrammarMatcher::Mask() {
  const auto [found, is_new] = masks_.try_emplace(state_);
  std::vector<uint64_t>& mask = found->second;
  if (!is_new) return mask;
  constexpr int64_t kBits = 64;
  mask.resize(static_cast<size_t>((tree_->size() + kBits - 1) / kBits));
  const std::span<const TokenTree::Node> nodes = tree_->nodes();
  std::vector<int32_t> path = {static_cast<int32_t>(state_)};  // by depth
  for (size_t at = 0; at < nodes.size() && !too_large_;) {
    const TokenTree::Node& node = nodes[at];
    path.resize(node.depth + size_t{1});
    const int32_t next = Next(static_cast<size_t>(path.back()), node.byte);
    if (next == kDead) {
      at = node.end;
      continue;
    }
    for (uint32_t i = 0; i < node.token_count; ++i) {
      const int64_t token = tree_->tokens()[node.first_token + i];
      mask[static_cast<size_t>(token / kBits)] |= uint64_t{1} << (token % kBits);
    }
    path.push_back(next);
    ++at;
  }
  return mask;
}

Result<std::span<const uint64_t>> GrammarMatcher::Allowed() {
  if (states_.size() > kMaxStates || frames_.size() > kMaxFrames / 2) Forget();
  if (masks_.size() > kMaxMasks) masks_.clear();
  const std::vector<uint64_t>& mask = Mask();
  if (too_large_)
    return Fail(ErrorCode::kTooLarge, "the grammar is too ambiguous: more than {} ways are open",
                kMaxOpen);
  if (!whole() && std::ranges::all_of(mask, [](uint64_t bits) { return bits == 0; }))
    return InvalidInput("no token of the model goes on with a text of this grammar");
  return mask;
}

Status GrammarMatcher::Take(int64_t token) {
  if (token < 0 || token >= tree_->size() || tree_->bytes(token).empty())
    return InvalidInput("token {} has no text that a grammar could take", token);
  auto state = static_cast<int32_t>(state_);
  for (const char byte : tree_->bytes(token)) {
    state = Next(static_cast<size_t>(state), static_cast<uint8_t>(byte));
    if (state == kDead) return InvalidInput("token {} is not of this grammar", token);
  }
  state_ = static_cast<size_t>(state);
  return {};
}

}  // namespace evoq
