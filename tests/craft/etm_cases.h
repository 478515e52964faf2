// Crafted .etm files, one row each: the condition that the file meets, its bytes, and a part of the
// error expected. etm_test.cc walks them; tests/fuzz/etm_fuzz.cc starts from the good ones.
#pragma once

#include <string>
#include <vector>

namespace evoq::craft {

struct EtmCase {
  const char* condition;
  std::string bytes;
  std::string error;  // "": the file is good
};
const std::vector<EtmCase>& EtmCases();

// Those of scale sets, which are among EtmCases.
std::vector<EtmCase> SetCases();

}  // namespace evoq::craft
