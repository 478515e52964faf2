// What fuzzers of whole files share: where the file of an input lies, and mutations of its bytes.
// An input is a byte that says which kind of file it is, and the file.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

#include "base/check.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace evoq::fuzz {

// A folder of this process, in memory where the system has it.
inline const std::string& Folder() {
  static const std::string& folder = *new std::string([] {  // outlives the handler that removes it
    const char* root = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
    const std::string path = fmt::format("{}/evoq_fuzz_{}", root, getpid());
    std::filesystem::create_directories(path);
    std::atexit([] { std::filesystem::remove_all(Folder()); });
    return path;
  }());
  return folder;
}

inline void Write(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  EVOQ_CHECK(file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() &&
                 std::fclose(file) == 0,
             "{}", path);
}

// Sizes, counts and offsets at their limits, written over 1 to 8 bytes of the file.
inline void PutNumber(std::string& bytes, std::minstd_rand& random) {
  constexpr uint64_t kNumbers[] = {0,         1,         2,           3,          7,
                                   8,         16,        31,          32,         255,
                                   256,       4095,      65535,       65536,      1 << 20,
                                   1 << 24,   INT32_MAX, 0x80000000u, UINT32_MAX, uint64_t{1} << 40,
                                   INT64_MAX, UINT64_MAX};
  const size_t width = size_t{1} << random() % 4;
  if (bytes.size() < width) return;
  const uint64_t number = kNumbers[random() % std::size(kNumbers)];
  const bool big_endian = random() % 2 == 0;
  const size_t at = random() % (bytes.size() - width + 1);
  for (size_t i = 0; i < width; ++i)
    bytes[at + i] = static_cast<char>(number >> (8 * (big_endian ? width - 1 - i : i)));
}

// LLVMFuzzerCustomMutator of such inputs. `seed(random)` gives a pair of a kind and a whole file,
// with which an input begins; `finish(kind, bytes)` sees the file that was changed.
template <typename Seed, typename Finish>
size_t MutateFile(uint8_t* data, size_t size, size_t max_size, unsigned number, Seed seed,
                  Finish finish) {
  std::minstd_rand random(number);
  random();
  if (size < 2 || random() % 64 == 0) {  // begins anew
    const auto& [kind, bytes] = seed(random);
    if (bytes.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
    data[0] = static_cast<uint8_t>(kind);
    std::copy(bytes.begin(), bytes.end(), data + 1);
    size = bytes.size() + 1;
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
  finish(data[0], bytes);
  std::copy(bytes.begin(), bytes.end(), data + 1);
  return bytes.size() + 1;
}

}  // namespace evoq::fuzz
