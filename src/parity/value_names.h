// Which values of two models are the same one, by their names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evoq {

// Tools name another form of a value after it: quantized, dequantized, in another order of axes, in
// another type. A row for each ending that stands for such a form, not for another value.
struct FormEnding {
  const char* ending;
  const char* who;  // writes it, and for what
};
std::span<const FormEnding> AllFormEndings();

// For each name of `b` the index of its name in `a`, or -1. A name that `a` has is that one. Else
// the name without an ending of a form, or without the number that made it unique before one, as
// often as that goes ("x.dequantized_t" is x), is looked for in `a`, and then among the names of
// `a` without their endings, of which the first one counts. Several names of `b` may have one in
// `a`.
std::vector<int> MatchNames(std::span<const std::string> a, std::span<const std::string> b);

}  // namespace evoq
