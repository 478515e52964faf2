// The tags of an XML file that somebody else wrote, one after the other: no tree, no entities
// but those of characters, no document types.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace evoq {

struct XmlTag {
  std::string name;
  bool closes = false;  // </name>
  bool empty = false;   // <name/>
  std::map<std::string, std::string, std::less<>> attributes;
  std::string_view text;  // between the tag before and this one

  // The attribute, "" where it has none.
  const std::string& Of(std::string_view attribute) const;
};

class XmlTags {
 public:
  explicit XmlTags(std::string_view text) : text_(text) {}

  // The next tag; false at the end. Comments and declarations (<?...?>) are left out. Errors:
  // kInvalidInput with the line, for a tag that is not closed or is none, and for <!DOCTYPE.
  Result<bool> Next(XmlTag& tag);

 private:
  Status ReadAttributes(std::string_view inside, XmlTag& tag) const;
  size_t EndOf(size_t begin) const;
  size_t Line() const;

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace evoq
