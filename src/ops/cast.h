// What inference and evaluation of Cast and CastLike share.
#pragma once

#include "ops/util.h"

namespace evoq {

// What the attributes saturate and round_mode say about tiny floats.
struct TinyRounding {
  bool saturate = true;
  Rounding rounding = Rounding::kUp;
};

Result<TinyRounding> TinyRoundingOf(const Node& node);

}  // namespace evoq
