#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/log_mel.h"
#include "data/wav.h"

namespace evoq {
namespace {

std::string Little(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

std::string Chunk(const std::string& name, const std::string& data) {
  return name + Little(data.size(), 4) + data + (data.size() % 2 != 0 ? std::string(1, '\0') : "");
}

std::string Format(uint64_t encoding, uint64_t channels, uint64_t bits, uint64_t rate = 16000) {
  const uint64_t block = channels * bits / 8;
  return Chunk("fmt ", Little(encoding, 2) + Little(channels, 2) + Little(rate, 4) +
                           Little(rate * block, 4) + Little(block, 2) + Little(bits, 2));
}

std::string Wav(const std::string& chunks) {
  return "RIFF" + Little(chunks.size() + 4, 4) + "WAVE" + chunks;
}

Result<Sound> Parse(const std::string& file) {
  return ParseWav(std::as_bytes(std::span(file.data(), file.size())));
}

TEST(Sound, SamplesOfEachEncoding) {
  const auto expect = [](const std::string& file, std::vector<float> samples) {
    const auto sound = Parse(file);
    ASSERT_TRUE(sound) << sound.error().message();
    EXPECT_EQ(sound->rate, 16000);
    EXPECT_EQ(sound->samples, samples);
  };
  expect(Wav(Format(1, 1, 16) + Chunk("data", Little(0x4000, 2) + Little(0x8000, 2))), {0.5f, -1});
  expect(Wav(Format(1, 1, 8) + Chunk("data", Little(0xC000, 2))), {-1, 0.5f});
  expect(Wav(Format(1, 1, 24) + Chunk("data", Little(0xC00000, 3))), {-0.5f});
  expect(Wav(Format(1, 1, 32) + Chunk("data", Little(0x20000000, 4))), {0.25f});
  expect(Wav(Format(3, 1, 32) + Chunk("data", Little(0x3E800000, 4) + Little(0x7FC00000, 4))),
         {0.25f, 0});
  expect(Wav(Format(1, 2, 16) + Chunk("data", Little(0x4000, 2) + Little(0x2000, 2))), {0.375f});
  // Others' chunks before, an incomplete frame behind, and a size that is too large.
  const std::string frames = Little(0x4000, 2) + "x";
  expect(Wav(Chunk("LIST", "abc") + Format(1, 1, 16) + "data" + Little(0xFFFFFFFF, 4) + frames),
         {0.5f});
  // A long format, which says the encoding in its second part: of real numbers here.
  const std::string extensible = Little(0xFFFE, 2) + Little(1, 2) + Little(16000, 4) +
                                 Little(64000, 4) + Little(4, 2) + Little(32, 2) + Little(22, 2) +
                                 Little(32, 2) + Little(4, 4) + Little(3, 2) +
                                 std::string("\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71", 14);
  expect(Wav(Chunk("fmt ", extensible) + Chunk("data", Little(0xBE800000, 4))), {-0.25f});
}

TEST(Sound, FilesThatAreWrong) {
  const auto expect = [](const std::string& file, const char* part) {
    const auto sound = Parse(file);
    ASSERT_FALSE(sound) << part;
    EXPECT_NE(sound.error().message().find(part), std::string::npos) << sound.error().message();
  };
  const std::string good = Wav(Format(1, 1, 16) + Chunk("data", "abcd"));
  ASSERT_TRUE(Parse(good));
  for (size_t bytes = 0; bytes < good.size() - 4; ++bytes) {
    const auto cut = Parse(good.substr(0, bytes));
    EXPECT_FALSE(cut) << bytes;
  }
  expect("", "no WAV file");
  expect(Wav(Chunk("data", "abcd")), "data before their format");
  expect(Wav(Chunk("fmt ", "abcd")), "a format of 4 bytes");
  expect(Wav(Format(1, 1, 16)), "no data");
  expect(Wav(Format(2, 1, 4) + Chunk("data", "ab")), "encoding 2 of 4 bits");
  expect(Wav(Format(3, 1, 16) + Chunk("data", "ab")), "encoding 3 of 16 bits");
  expect(Wav(Format(1, 0, 16) + Chunk("data", "ab")), "0 channels");
  expect(Wav(Format(1, 1, 16, 0) + Chunk("data", "ab")), "0 samples in a second");
  expect(Wav(Format(1, 1, 16, (1 << 20) + 1) + Chunk("data", "ab")), "1048577 samples in a second");
  expect(Wav(Format(1, 65, 8) + Chunk("data", std::string(65, 'a'))), "65 channels");
  EXPECT_TRUE(Parse(Wav(Format(1, 64, 8, 1 << 20) + Chunk("data", std::string(64, 'a')))));
  expect(Wav(Format(1, 1, 8, 1) + Chunk("data", std::string(36001, 'a'))), "36001 seconds");
  EXPECT_TRUE(Parse(Wav(Format(1, 1, 8, 1) + Chunk("data", std::string(36000, 'a')))));
  expect(Wav("abcd" + Little(0xFFFFFFF0, 4)), "no data");
}

// Those of transformers' WhisperFeatureExtractor(feature_size=12, chunk_length=1).
TEST(Sound, FeaturesAreThoseOfWhispersExtractor) {
  std::vector<float> samples;
  for (int64_t i = 0; i < 3200; ++i)
    samples.push_back(static_cast<float>((i * i * 7 + i * 13) % 2001 - 1000) / 1000);
  const auto features = LogMelOf(samples, {.bins = 12, .frames = 100});
  ASSERT_TRUE(features);
  ASSERT_EQ(features->sizes(), (std::vector<int64_t>{100, 12}));
  const struct {
    int64_t frame, bin;
    float value;
  } expected[] = {{0, 0, 1.1071448f},   {0, 11, 1.0023414f},  {3, 5, 1.0152321f},
                  {10, 2, 1.0617083f},  {19, 7, 1.0064843f},  {20, 7, 0.9435112f},
                  {21, 3, 0.17441893f}, {99, 11, -0.8485503f}};
  for (const auto& [frame, bin, value] : expected)
    EXPECT_NEAR(features->data<float>()[frame * 12 + bin], value, 1e-5) << frame << " " << bin;
  // Of silence all are the least that there is, 10^-10: (-10 + 4) / 4.
  const auto silence = LogMelOf(std::vector<float>(500, 0.0f), {.bins = 12, .frames = 4});
  for (const float feature : silence->values<float>()) EXPECT_EQ(feature, -1.5f);
}

// Beyond its ends a sound goes on as in a mirror, the sample at the end standing once.
TEST(Sound, EndsAreMirrors) {
  constexpr int64_t kBins = 12, kHop = 160, kMirrored = 2 * kHop;
  std::vector<float> samples;
  for (int64_t i = 0; i < 10 * kHop; ++i)
    samples.push_back(static_cast<float>((i * i * 7 + i * 13) % 2001 - 1000) /
                      (i / kHop == 5 ? 1000.0f : 3000.0f));  // loudest in the middle
  std::vector<float> longer(samples.begin() + 1, samples.begin() + kMirrored + 1);
  std::ranges::reverse(longer);
  longer.insert(longer.end(), samples.begin(), samples.end());
  longer.insert(longer.end(), samples.rbegin() + 1, samples.rbegin() + kMirrored + 1);
  const auto features = LogMelOf(samples, {.bins = kBins, .frames = 10}),
             of_longer = LogMelOf(longer, {.bins = kBins, .frames = 14});
  ASSERT_TRUE(features && of_longer);
  const auto found = features->values<float>(), expected = of_longer->values<float>();
  for (int64_t i = 0; i < 10 * kBins; ++i)
    EXPECT_NEAR(found[i], expected[i + 2 * kBins], 1e-6) << "frame " << i / kBins;
}

}  // namespace
}  // namespace evoq
