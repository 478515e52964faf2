// Mutations of texts of a language: its words are put in, parts are taken out, repeated and joined
// with those of other texts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace evoq::fuzz {

// LLVMFuzzerCustomMutator of inputs that are such texts.
inline size_t MutateText(uint8_t* data, size_t size, size_t max_size, unsigned number,
                         std::span<const std::string_view> words,
                         std::span<const std::string> seeds) {
  std::minstd_rand random(number);
  random();
  std::string text(reinterpret_cast<const char*>(data), size);
  const auto place = [&] { return random() % (text.size() + 1); };
  if (size < 2 || random() % 64 == 0) text = seeds[random() % seeds.size()];
  for (unsigned step = random() % 4 + 1; step > 0; --step) {
    const size_t at = place(), count = std::min(text.size() - at, size_t{random() % 40});
    switch (random() % 7) {
      case 0: text.erase(at, count); break;
      case 1: text.insert(place(), text.substr(at, count)); break;
      case 2: {
        const std::string& other = seeds[random() % seeds.size()];
        const size_t from = random() % (other.size() + 1);
        text.insert(at, other.substr(from, random() % 80));
        break;
      }
      case 3: {
        if (text.size() >= max_size) break;
        const size_t old = text.size();
        text.resize(max_size);
        text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), old, text.size()));
        break;
      }
      default: {
        const std::string_view word = words[random() % words.size()];
        text.replace(at, random() % 2 == 0 ? 0 : std::min(count, word.size()), word);
      }
    }
  }
  const size_t kept = std::min(text.size(), max_size);
  std::copy_n(text.begin(), kept, data);
  return kept;
}

}  // namespace evoq::fuzz
