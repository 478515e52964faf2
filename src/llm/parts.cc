#include "llm/parts.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "ops/op.h"

namespace evoq {
namespace {

constexpr const char kEmbedding[] = "embedding", kPositions[] = "positions",
                     kAttention[] = "attention", kCache[] = "cache", kFeed[] = "feed-forward",
                     kNorms[] = "norms", kHead[] = "head", kOther[] = "other";
constexpr const char* kParts[] = {kEmbedding, kPositions, kAttention, kCache,
                                  kFeed,      kNorms,     kHead,      kOther};

// The first row whose pattern takes the node's name says the part.
struct NameRow {
  const char* part;
  const char* pattern;
};
constexpr NameRow kNames[] = {
    {.part = kNorms, .pattern = "*norm*"},
    {.part = kNorms, .pattern = "*/ln_*"},
    {.part = kCache, .pattern = "*.cache_*"},
    {.part = kEmbedding, .pattern = "*embd*"},
    {.part = kEmbedding, .pattern = "*embed*"},
    {.part = kEmbedding, .pattern = "*/wte/*"},
    {.part = kEmbedding, .pattern = "*/wpe/*"},
    {.part = kPositions, .pattern = "*.turned"},
    {.part = kPositions, .pattern = "*rotary*"},
    {.part = kPositions, .pattern = "position*"},
    {.part = kPositions, .pattern = "rope.*"},
    {.part = kPositions, .pattern = "distance*"},
    {.part = kCache, .pattern = "cache.*"},
    {.part = kHead, .pattern = "output"},
    {.part = kHead, .pattern = "output.*"},
    {.part = kHead, .pattern = "logits.*"},
    {.part = kHead, .pattern = "*lm_head*"},
    {.part = kAttention, .pattern = "*attn*"},
    {.part = kAttention, .pattern = "*attention*"},
    {.part = kFeed, .pattern = "*ffn*"},
    {.part = kFeed, .pattern = "*mlp*"},
    {.part = kFeed, .pattern = "*feed_forward*"},
    {.part = kOther, .pattern = "*"},
};

// Nodes that only bring a weight into another form for their readers.
bool PassesOn(const Node& node) {
  const OpDef* const op = FindOp(node);
  if (node.outputs.size() != 1 || op == nullptr) return false;
  return op->view || op->conversion != PrecisionChange::kNone || node.op == "Transpose";
}

void AddReaders(const Graph& graph, ValueId value, int depth,
                std::vector<std::string_view>& parts) {
  constexpr int kMostForms = 8;  // between a weight and its reader
  for (const NodeId id : graph.value(value).users) {
    const Node& node = graph.node(id);
    if (PassesOn(node) && depth < kMostForms) {
      AddReaders(graph, node.outputs[0], depth + 1, parts);
    } else if (const std::string_view part = PartOf(node);
               std::ranges::find(parts, part) == parts.end()) {
      parts.push_back(part);
    }
  }
}

}  // namespace

std::span<const char* const> ModelParts() { return kParts; }

std::string_view PartOf(const Node& node) {
  if (node.op == "Attention") return kCache;
  const auto* const row = std::ranges::find_if(
      kNames, [&](const NameRow& r) { return GlobMatch(r.pattern, node.name); });
  return row->part;
}

std::string PartOf(const Graph& graph, ValueId constant) {
  std::vector<std::string_view> parts;
  AddReaders(graph, constant, 0, parts);
  std::string joined;
  for (const char* part : kParts) {
    if (std::ranges::find(parts, std::string_view(part)) != parts.end())
      joined += (joined.empty() ? "" : " + ") + std::string(part);
  }
  return joined.empty() ? kOther : joined;
}

}  // namespace evoq
