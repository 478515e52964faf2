#pragma once

#include <string>

namespace evoq {

// Milliseconds with at least four significant digits, so that the ratio of two of them is that of
// what is shown: "43.417", "0.01230".
std::string MsText(double ms);

}  // namespace evoq
