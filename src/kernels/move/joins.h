// How scattered float32 updates join what they meet: the reductions of ScatterElements and
// ScatterND.
#pragma once

#include <functional>
#include <string_view>

namespace evoq {

// NaN where one is NaN.
struct Larger {
  float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};
struct Smaller {
  float operator()(float a, float b) const { return a < b || a != a ? a : b; }
};

// Pick::Of<Join>() of the join that `reduction` names, nullptr for another name.
template <typename Pick>
auto JoinNamed(std::string_view reduction) -> decltype(Pick::template Of<Larger>()) {
  return reduction == "add"   ? Pick::template Of<std::plus<float>>()
         : reduction == "mul" ? Pick::template Of<std::multiplies<float>>()
         : reduction == "max" ? Pick::template Of<Larger>()
         : reduction == "min" ? Pick::template Of<Smaller>()
                              : nullptr;
}

}  // namespace evoq
