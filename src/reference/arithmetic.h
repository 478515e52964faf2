// Scalar arithmetic that is defined for every operand, shared by element-wise operators, reductions
// and scatters.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace evoq {

// Integers wrap around; division and remainder by zero give 0.
struct AddFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};
struct SubFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    else
      return a - b;
  }
};
struct MulFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
struct DivFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if (std::is_signed_v<T> && b == static_cast<T>(-1))
        return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
template <typename T>
bool IsNan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// NaN where either is NaN; the second of equals.
struct MaxFn {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b || IsNan(a) ? a : b;
  }
};
struct MinFn {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || IsNan(a) ? a : b;
  }
};
// The sign of the divisor (fmod=0).
struct ModFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
      const T r = static_cast<T>(a % b);
      return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
    } else {
      const T r = std::fmod(a, b);
      return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
  }
};
// The sign of the dividend (fmod=1), as in C.
struct FmodFn {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)) ? 0 : a % b;
    else
      return std::fmod(a, b);
  }
};

}  // namespace evoq
