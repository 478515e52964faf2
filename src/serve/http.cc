#include "serve/http.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace evoq::serve {
namespace {

// "%20" becomes " "; nothing for an escape that is none.
bool PercentDecode(std::string_view text, std::string& to) {
  to.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      to += text[i];
      continue;
    }
    if (text.size() - i < 3 || !std::isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !std::isxdigit(static_cast<unsigned char>(text[i + 2])))
      return false;
    int code = 0;
    std::from_chars(text.data() + i + 1, text.data() + i + 3, code, 16);
    to += static_cast<char>(code);
    i += 2;
  }
  return true;
}

}  // namespace

const std::string& HttpRequest::header(const std::string& lower_case_name) const {
  static const std::string kNone;
  const auto found = headers.find(lower_case_name);
  return found != headers.end() ? found->second : kNone;
}

bool SplitTarget(std::string_view target, std::vector<std::string>& parts) {
  parts.clear();
  if (target.empty() || target[0] != '/') return false;
  const std::string_view path = target.substr(0, target.find('?'));
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    std::string part;
    if (!PercentDecode(path.substr(at, end - at), part)) return false;
    parts.push_back(std::move(part));
    at = end + 1;
  }
  // "/v2/" is "/v2".
  if (!parts.empty() && parts.back().empty()) parts.pop_back();
  return true;
}

std::string QueryValue(std::string_view target, std::string_view name) {
  const size_t begin = target.find('?');
  if (begin == std::string_view::npos) return "";
  for (std::string_view rest = target.substr(begin + 1); !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos || one.substr(0, equals) != name) continue;
    std::string value;
    return PercentDecode(one.substr(equals + 1), value) ? value : "";
  }
  return "";
}

}  // namespace evoq::serve
