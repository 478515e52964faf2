// What inference and evaluation of LinearAttention share.
#pragma once

#include "ops/util.h"

namespace evoq {

struct AttentionHeads {
  int64_t q = 0, kv = 0;
};

Result<AttentionHeads> AttentionHeadsOf(const Node& node);

struct AttentionRule {
  bool gated = false, delta = false;
};

Result<AttentionRule> AttentionRuleOf(const Node& node);

}  // namespace evoq
