// Text for a terminal or a log. Names of nodes, values and metadata come from files and may hold
// any bytes: escape sequences that drive a terminal, line breaks that forge lines, characters that
// turn the direction of what follows, bytes that are no UTF-8.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

namespace evoq {

// The text as valid UTF-8 on one line, with nothing in it that acts on a terminal:
//   \n, \r, \t                   line feed, carriage return, tab
//   \u001b, \u009b, \u202e, ...  other control characters (C0, DEL, C1), and characters without a
//                                shape that order, join, separate or hide text (U+061C,
//                                U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F, U+FEFF,
//                                U+FFF9 to U+FFFB, U+E0000 to U+E007F)
//   \xff                         bytes that are no UTF-8: also overlong forms, surrogates and
//                                numbers above U+10FFFF
//
// All else stays, backslashes included: what was made printable once does not change again.
std::string Printable(std::string_view text);

// The same for text of several lines: line feeds and tabs stay.
std::string PrintableLines(std::string_view text);

// Text of several lines as an argument of FormatPrintable: its line feeds stay.
struct Lines {
  std::string_view text;
};

namespace printable_detail {

template <typename T>
struct IsJoin : std::false_type {};
template <typename... T>
struct IsJoin<fmt::join_view<T...>> : std::true_type {};

template <typename T>
decltype(auto) Shown(const T& value) {
  static_assert(!IsJoin<T>::value,
                "fmt::join hides strings from the escaping: give it Joined(items, separator)");
  if constexpr (std::is_same_v<T, Lines>) {
    return PrintableLines(value.text);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return Printable(value);
  } else {
    return (value);
  }
}

template <typename... Args>
std::string Format(fmt::string_view format, const Args&... args) {
  return fmt::vformat(format, fmt::make_format_args(args...));
}

}  // namespace printable_detail

// fmt::format whose strings are made printable, each on one line (but for Lines). The format itself
// stays as it is.
template <typename... Args>
std::string FormatPrintable(fmt::format_string<Args...> format, Args&&... args) {
  return printable_detail::Format(fmt::string_view(format), printable_detail::Shown(args)...);
}

// "a, b": the items made printable.
template <typename Items>
std::string Joined(const Items& items, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    out += Printable(item);
  }
  return out;
}

}  // namespace evoq

// As an argument of a format string it reads as text.
template <>
struct fmt::formatter<evoq::Lines> : fmt::formatter<fmt::string_view> {
  auto format(const evoq::Lines& lines, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(
        fmt::string_view(lines.text.data(), lines.text.size()), context);
  }
};
