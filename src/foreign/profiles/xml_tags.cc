#include "foreign/profiles/xml_tags.h"

#include <algorithm>
#include <utility>

#include "base/brief.h"

namespace evoq {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// The character that an entity stands for; 0 for others, which stay as they are.
char CharacterOf(std::string_view entity) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [name, character] : kNames) {
    if (entity == name) return character;
  }
  return 0;
}

std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    constexpr size_t kLongest = 6;  // "&quot;", "&apos;"
    const size_t end = text[i] == '&' ? text.substr(i, kLongest).find(';') : text.npos;
    const char c = end == text.npos ? 0 : CharacterOf(text.substr(i + 1, end - 1));
    out += c == 0 ? text[i] : c;
    if (c != 0) i += end;
  }
  return out;
}

}  // namespace

const std::string& XmlTag::Of(std::string_view attribute) const {
  static const std::string none;
  const auto it = attributes.find(attribute);
  return it == attributes.end() ? none : it->second;
}

size_t XmlTags::Line() const {
  return 1 + static_cast<size_t>(std::ranges::count(text_.substr(0, at_), '\n'));
}

// One name="value" after the other.
Status XmlTags::ReadAttributes(std::string_view inside, XmlTag& tag) const {
  for (;;) {
    const size_t begin = inside.find_first_not_of(kSpaces);
    if (begin == inside.npos) return {};
    inside.remove_prefix(begin);
    const size_t equals = inside.find('=');
    const char quote = equals + 1 < inside.size() && equals != inside.npos ? inside[equals + 1] : 0;
    const size_t end = quote == '"' || quote == '\'' ? inside.find(quote, equals + 2) : inside.npos;
    if (end == inside.npos)
      return InvalidInput("line {}: '{}' in the tag '{}', expected NAME=\"VALUE\"", Line(),
                          Shorten(inside), Shorten(tag.name));
    tag.attributes.emplace(inside.substr(0, equals),
                           Unescape(inside.substr(equals + 2, end - equals - 2)));
    inside.remove_prefix(end + 1);
  }
}

// Behind the tag that begins at `begin`: '>' may stand in a value.
size_t XmlTags::EndOf(size_t begin) const {
  if (text_.substr(begin).starts_with("<!--")) {
    const size_t end = text_.find("-->", begin);
    return end == text_.npos ? end : end + 3;
  }
  char quote = 0;
  for (size_t i = begin; i < text_.size(); ++i) {
    const char c = text_[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      return i + 1;
    }
  }
  return text_.npos;
}

Result<bool> XmlTags::Next(XmlTag& tag) {
  for (;;) {
    const size_t begin = text_.find('<', at_);
    if (begin == text_.npos) return false;
    tag = {};
    tag.text = text_.substr(at_, begin - at_);
    at_ = begin;
    const size_t end = EndOf(begin);
    if (end == text_.npos) return InvalidInput("line {}: a tag that is not closed", Line());
    std::string_view inside = text_.substr(begin + 1, end - begin - 2);
    if (inside.starts_with("!--") || inside.starts_with('?')) {
      at_ = end;
      continue;
    }
    tag.closes = inside.starts_with('/');
    if (tag.closes) inside.remove_prefix(1);
    tag.empty = inside.ends_with('/');
    if (tag.empty) inside.remove_suffix(1);
    const size_t name_end = std::min(inside.find_first_of(kSpaces), inside.size());
    tag.name = inside.substr(0, name_end);
    if (tag.name.empty() || tag.name.starts_with('!'))
      return InvalidInput("line {}: '<{}', expected the name of a tag", Line(), Shorten(inside));
    EVOQ_TRY(ReadAttributes(inside.substr(name_end), tag));
    at_ = end;
    return true;
  }
}

}  // namespace evoq
