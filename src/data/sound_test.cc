#include <gtest/gtest.h>

#include <string>

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
}

}  // namespace
}  // namespace evoq
