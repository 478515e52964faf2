// Where the files of a tokenizer are: in a folder, or in memory.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace evoq {

class TokenizerFiles {
 public:
  // `folder` stands before each name as it is: "" or something that ends in a slash.
  static TokenizerFiles In(std::string folder);
  // By name; `label` stands before names in messages.
  static TokenizerFiles Of(std::map<std::string, std::string> bytes, std::string label);

  bool Has(const std::string& name) const;
  // Errors: with Label(name) in front; kNotFound, kTooLarge over kMaxTokenizerBytes.
  Result<std::string> Text(const std::string& name) const;
  Result<nlohmann::json> Json(const std::string& name) const;
  std::string Label(const std::string& name) const { return folder_ + name; }

 private:
  bool in_memory_ = false;
  std::string folder_;
  std::map<std::string, std::string> bytes_;
};

}  // namespace evoq
