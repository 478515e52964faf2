// What inference and evaluation of TfIdfVectorizer share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/util.h"

namespace evoq {

struct TfIdfGrams {
  std::map<std::vector<int64_t>, int64_t> columns;  // token numbers -> column of the output
  std::map<std::string, int64_t> tokens;            // of a pool of strings
  int64_t width = 0, shortest = 1, longest = 1, skips = 0;
};

Result<TfIdfGrams> TfIdfGramsOf(const Node& node);

}  // namespace evoq
