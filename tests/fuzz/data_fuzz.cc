// Room: data
// Files of data: each reader gives values or an error, within the limits of run.sh. The fuzzer's
// first byte names the reader, the rest is the file. Mutations start from the crafted files of
// tests/craft and put the checksums right again, so that they get past them.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/check.h"
#include "base/file.h"
#include "tests/craft/data.h"
#include "tests/craft/data_cases.h"
#include "tests/fuzz/time_limit.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace evoq;
using craft::Reader;

// Larger crafted files take seconds each: tests/craft/data_test.cc reads them once.
constexpr size_t kMaxSeed = 20000;

// In memory where the system has it; a folder per process, because names say what a file is.
const std::string& Folder() {
  static const std::string& folder = *new std::string([] {  // outlives the handler that removes it
    const char* root = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    const std::string path = fmt::format("{}/evoq_fuzz_data_{}", root, getpid());
    std::filesystem::create_directories(path);
    std::atexit([] { std::filesystem::remove_all(Folder()); });
    return path;
  }());
  return folder;
}

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

// Sizes, counts and offsets at their limits, written over 1 to 8 bytes of the file.
void PutNumber(std::string& bytes, std::minstd_rand& random) {
  constexpr uint64_t kNumbers[] = {
      0,         1,         2,         3,           7,          8,
      16,        255,       256,       4095,        65535,      65536,
      1 << 20,   1 << 24,   INT32_MAX, 0x80000000u, UINT32_MAX, uint64_t{1} << 40,
      INT64_MAX, UINT64_MAX};
  const int width = 1 << random() % 4;
  if (bytes.size() < static_cast<size_t>(width)) return;
  const uint64_t number = kNumbers[random() % std::size(kNumbers)];
  const std::string text =
      random() % 2 == 0 ? craft::Little(number, width) : craft::Big(number, width);
  bytes.replace(random() % (bytes.size() - width + 1), width, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const TimeLimit limit;
  const Reader reader = ReaderOf(data[0]);
  const std::string path = Folder() + "/" + craft::FileName(reader);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  EVOQ_CHECK(file != nullptr && std::fwrite(data + 1, 1, size - 1, file) == size - 1 &&
                 std::fclose(file) == 0,
             "{}", path);
  const Status status = craft::ReadAs(reader, path);
  EVOQ_CHECK(status || status.error().code() != ErrorCode::kInternal, "{}",
             status.error().message());
  EVOQ_CHECK(status || status.error().message().size() < 2000, "an error of {} bytes",
             status.error().message().size());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  random();
  if (size < 2 || random() % 64 == 0) {  // begins anew
    const craft::DataCase& c = *Seeds()[random() % Seeds().size()];
    if (c.bytes.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
    data[0] = static_cast<uint8_t>(c.reader);
    std::copy(c.bytes.begin(), c.bytes.end(), data + 1);
    size = c.bytes.size() + 1;
  }
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (unsigned step = random() % 3 + 1; step > 0; --step) {
    if (random() % 3 == 0) {
      PutNumber(bytes, random);
    } else {
      const size_t old = bytes.size();
      bytes.resize(max_size - 1);
      bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), old, bytes.size()));
    }
  }
  PutChecksumsRight(ReaderOf(data[0]), bytes);
  std::copy(bytes.begin(), bytes.end(), data + 1);
  return bytes.size() + 1;
}
