// Crafted data files, one row each: which reader reads it, the condition that it meets, its bytes,
// and a part of the error expected. data_test.cc walks them; tests/fuzz/data_fuzz.cc starts from
// them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace evoq::craft {

enum class Reader {
  kNpy,
  kNpz,
  kIdx,
  kImage,
  kPreprocess,
  kLabels,
  kVocab,
  kTokenizerBin,
  kDataset,
  kCifar,
  kWav
};
constexpr int kReaders = 11;

// "npy", ...
const char* ReaderName(Reader reader);

// Reads the file at `path`, whose name must end as the reader asks for (FileName), as far as its
// values are used: a data set's first and last sample, a text encoded.
Status ReadAs(Reader reader, const std::string& path);
const char* FileName(Reader reader);

struct DataCase {
  Reader reader;
  const char* condition;
  std::string bytes;
  const char* error;  // "": the file is good
};
const std::vector<DataCase>& DataCases();

}  // namespace evoq::craft
