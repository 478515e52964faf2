// Pieces by their bytes: every piece that a text begins with, in one walk.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/flat_map.h"

namespace evoq {

class PieceTrie {
 public:
  static constexpr uint32_t kRoot = 0, kNowhere = ~uint32_t{0};

  // A piece that is there already keeps its id.
  void Add(std::string_view piece, int64_t id) {
    uint32_t node = kRoot;
    for (const char byte : piece) {
      const uint64_t edge = Edge(node, byte);
      uint64_t next = edges_.Find(edge);
      if (next == FlatMap::kNone) {
        next = ids_.size();
        ids_.push_back(-1);
        edges_.Set(edge, next);
      }
      node = static_cast<uint32_t>(next);
    }
    if (ids_[node] < 0) ids_[node] = id;
  }

  // The node behind `byte`, kNowhere where no piece goes on so.
  uint32_t Step(uint32_t node, char byte) const {
    return static_cast<uint32_t>(edges_.Find(Edge(node, byte)));
  }
  // The piece that ends at a node, -1: none.
  int64_t IdAt(uint32_t node) const { return ids_[node]; }

  // Calls `found(bytes, id)` for each piece that `text` begins with, the shortest first.
  template <typename Function>
  void ForEachPrefix(std::string_view text, Function found) const {
    uint32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Step(node, text[i]);
      if (node == kNowhere) return;
      if (ids_[node] >= 0) found(i + 1, ids_[node]);
    }
  }

 private:
  static uint64_t Edge(uint32_t node, char byte) {
    return (uint64_t{node} << 8) | static_cast<unsigned char>(byte);
  }
  FlatMap edges_;
  std::vector<int64_t> ids_{-1};
};

}  // namespace evoq
