// Finds what a reader can say that no file makes it say.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"

namespace evoq::craft {

// The texts of the errors in the `files` of `folder` (from the source folder on): string literals
// behind a match of `calls`, a regular expression such as "InvalidInput\\(". Fails for each that
// none of `messages` is an instance of, except those `elsewhere`. Returns how many there are.
inline size_t ExpectEachSaid(const std::string& folder, const std::vector<std::string>& files,
                             const std::string& calls, const std::vector<std::string>& messages,
                             const std::set<std::string>& elsewhere) {
  const std::regex call("\\b(?:" + calls + R"re()\s*((?:"(?:[^"\\]|\\.)*"\s*)+))re");
  const std::regex piece(R"re("((?:[^"\\]|\\.)*)")re");
  size_t conditions = 0;
  for (const std::string& file : files) {
    const std::string source =
        ReadTextFile(std::string(EVOQ_SOURCE_DIR) + "/" + folder + "/" + file).value();
    for (std::sregex_iterator it(source.begin(), source.end(), call), end; it != end; ++it) {
      const std::string literals = (*it)[1];
      std::string text, pattern;
      for (std::sregex_iterator p(literals.begin(), literals.end(), piece); p != end; ++p)
        text += (*p)[1];
      if (elsewhere.count(text)) continue;
      for (size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "{}") == 0) {
          pattern += ".*", ++i;
          continue;
        }
        if (std::ispunct(static_cast<unsigned char>(text[i]))) pattern += '\\';
        pattern += text[i];
      }
      ++conditions;
      const std::regex wanted(pattern);
      EXPECT_TRUE(std::any_of(messages.begin(), messages.end(),
                              [&](const std::string& m) { return std::regex_search(m, wanted); }))
          << file << ": no file gives '" << text << "'";
    }
  }
  return conditions;
}

}  // namespace evoq::craft
