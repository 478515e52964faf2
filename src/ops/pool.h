// What inference and evaluation of the pooling operators share.
#pragma once

#include "ops/window.h"

namespace evoq {

Result<Window> PoolWindowOf(const Node& node, const Shape& x);

}  // namespace evoq
