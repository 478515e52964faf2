// Why something is as it is: why a kernel does not take a step, why a step stays in floating point.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace evoq {

struct Reason {
  std::string code;      // stable, what reports group by: "types", "no-range"; "": no reason
  std::string sentence;  // with the values, for people; may be empty

  bool empty() const { return code.empty(); }
  // "code: sentence", as attributes and files hold it; without a sentence the code alone.
  std::string ToString() const;
  // The reverse: the code ends at the first ": ".
  static Reason Parse(std::string_view text);

  friend bool operator==(const Reason&, const Reason&) = default;
};

// By the name of the node.
using Reasons = std::map<std::string, Reason>;

}  // namespace evoq
