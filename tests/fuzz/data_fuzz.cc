// Room: data
// Files of data: each reader gives values or an error, within the limits of run.sh. The fuzzer's
// first byte names the reader, the rest is the file. Mutations start from the crafted files of
// tests/craft and put the checksums right again, so that they get past them.
#include "base/check.h"
#include "tests/craft/data.h"
#include "tests/craft/data_cases.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;
using craft::Reader;

// Larger crafted files take seconds each: tests/craft/data_test.cc reads them once.
constexpr size_t kMaxSeed = 20000;

Reader ReaderOf(uint8_t byte) { return static_cast<Reader>(byte % craft::kReaders); }

void PutChecksumsRight(Reader reader, std::string& bytes) {
  if (reader == Reader::kNpz) craft::FixZip(bytes);
  if (reader == Reader::kIdx) craft::FixGzip(bytes);
  if (reader == Reader::kImage && bytes.starts_with("\x89PNG")) craft::FixPng(bytes);
}

const std::vector<const craft::DataCase*>& Seeds() {
  static const auto seeds = [] {
    std::vector<const craft::DataCase*> list;
    for (const craft::DataCase& c : craft::DataCases()) {
      if (c.bytes.size() <= kMaxSeed) list.push_back(&c);
    }
    return list;
  }();
  return seeds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const Reader reader = ReaderOf(data[0]);
  // Names say what a file is.
  const std::string path = fuzz::Folder() + "/" + craft::FileName(reader);
  fuzz::Write(path, {reinterpret_cast<const char*>(data) + 1, size - 1});
  const Status status = craft::ReadAs(reader, path);
  EVOQ_CHECK(status || status.error().code() != ErrorCode::kInternal, "{}",
             status.error().message());
  EVOQ_CHECK(status || status.error().message().size() < 2000, "an error of {} bytes",
             status.error().message().size());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return fuzz::MutateFile(
      data, size, max_size, seed,
      [](std::minstd_rand& random) {
        const craft::DataCase& c = *Seeds()[random() % Seeds().size()];
        return std::pair<Reader, std::string_view>(c.reader, c.bytes);
      },
      [](uint8_t kind, std::string& bytes) { PutChecksumsRight(ReaderOf(kind), bytes); });
}
