#include "encodings/encoding.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.h"
#include "encodings/test_files.h"

namespace evoq {
namespace {

const Encoding& Find(const std::vector<Encoding>& encodings, std::string_view name) {
  const auto it = std::ranges::find(encodings, name, &Encoding::name);
  EXPECT_NE(it, encodings.end()) << name;
  return *it;
}

std::vector<Encoding> Parsed(std::string_view text) {
  auto encodings = ParseEncodings(text);
  EXPECT_TRUE(encodings) << encodings.error().message();
  return encodings ? std::move(*encodings) : std::vector<Encoding>();
}

void ExpectX(const Encoding& x) {
  EXPECT_EQ(x.scales, std::vector<float>{0.005f});
  EXPECT_EQ(x.zero_points, std::vector<int32_t>{100});  // not -100
  EXPECT_FALSE(x.is_signed);
  EXPECT_EQ(x.bits, 8);
  EXPECT_EQ(x.granularity, Granularity::kTensor);
}

TEST(Encodings, Version061ReadsExactly) {
  const auto file = Parsed(kText061);
  ASSERT_EQ(file.size(), 5u);
  ExpectX(Find(file, "x"));
  EXPECT_EQ(Find(file, "y").bits, 16);
  EXPECT_EQ(Find(file, "y").zero_points, std::vector<int32_t>{7});
  const Encoding& s = Find(file, "s");
  EXPECT_TRUE(s.is_signed);
  EXPECT_EQ(s.zero_points, std::vector<int32_t>{0});
  EXPECT_TRUE(Find(file, "f").real);
  const Encoding& w = Find(file, "w");
  EXPECT_TRUE(w.parameter);
  EXPECT_EQ(w.bits, 4);
  EXPECT_EQ(w.granularity, Granularity::kChannel);
  EXPECT_EQ(w.scales, (std::vector<float>{0.5f, 0.125f}));
  EXPECT_EQ(w.zero_points, (std::vector<int32_t>{0, 0}));
}

TEST(Encodings, Version100ReadsExactly) {
  const auto file = Parsed(kText100);
  ASSERT_EQ(file.size(), 5u);
  ExpectX(Find(file, "x"));
  EXPECT_TRUE(Find(file, "f").real);
  EXPECT_EQ(Find(file, "w").scales, (std::vector<float>{0.5f, 0.125f}));
  EXPECT_EQ(Find(file, "b").block, 16);
  EXPECT_EQ(Find(file, "b").granularity, Granularity::kBlock);
  const Encoding& l = Find(file, "l");
  EXPECT_EQ(l.bits, 4);
  EXPECT_EQ(l.channel_scales, (std::vector<float>{0.5f, 0.25f}));
  EXPECT_EQ(l.block_scales, (std::vector<int64_t>{1, 2, 3, 16}));
  EXPECT_EQ(l.zero_points, (std::vector<int32_t>{0, 0, 0, 0}));
}

TEST(Encodings, Version200ReadsExactly) {
  const auto file = Parsed(kText200);
  ASSERT_EQ(file.size(), 8u);
  ExpectX(Find(file, "x"));
  EXPECT_EQ(Find(file, "w").axis, 0);
  EXPECT_EQ(Find(file, "bias").bits, 32);
  const Encoding& b = Find(file, "b");
  EXPECT_FALSE(b.is_signed);
  EXPECT_EQ(b.sizes, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(b.zero_points, (std::vector<int32_t>{8, 7, 6, 5}));
  EXPECT_EQ(Find(file, "l").scales, (std::vector<float>{0.5f, 1.0f, 0.75f, 4.0f}));
  EXPECT_EQ(Find(file, "two").refusal, "its zero point -0.5 is no whole number of 32 bits");
  EXPECT_EQ(Find(file, "e4m3").refusal, "it is of float8e4m3fn");
}

TEST(Encodings, Version210QuantizesScales) {
  const auto file = Parsed(kText210);
  ASSERT_EQ(file.size(), 2u);
  ExpectX(Find(file, "x"));
  EXPECT_EQ(Find(file, "l").scales, (std::vector<float>{0.5f, 1.0f, 0.75f, 4.0f}));
  EXPECT_EQ(Find(file, "l").axis, 1);
}

// A tensor of each kind, in the axes of its tensor.
std::vector<Encoding> Samples(bool blocks) {
  std::vector<Encoding> all = {
      {.name = "asymmetric \"quoted\"", .is_signed = false, .scales = {0.1f}, .zero_points = {37}},
      {.name = "symmetric", .scales = {0.3f}, .zero_points = {0}},
      {.name = "wide", .bits = 16, .is_signed = false, .scales = {1e-5f}, .zero_points = {32768}},
      {.name = "channels",
       .parameter = true,
       .bits = 4,
       .granularity = Granularity::kChannel,
       .scales = {0.1f, 0.7f, 3e-9f},
       .zero_points = {0, 0, 0},
       .axis = 0,
       .sizes = {3}},
      {.name = "bias",
       .parameter = true,
       .bits = 32,
       .granularity = Granularity::kChannel,
       .scales = {0.1f, 0.2f},
       .zero_points = {0, 0},
       .axis = 0,
       .sizes = {2}}};
  if (blocks)
    all.push_back({.name = "blocks",
                   .parameter = true,
                   .bits = 4,
                   .granularity = Granularity::kBlock,
                   .scales = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f},
                   .zero_points = {0, 0, 0, 0, 0, 0},
                   .axis = 1,
                   .sizes = {2, 3},
                   .block = 32});
  return all;
}

TEST(Encodings, EveryVersionReadsWhatItWrites) {
  const std::string path = testing::TempDir() + "evoq_round_trip.encodings";
  for (const EncodingsVersion* version : AllEncodingsVersions()) {
    const bool old = version->name == std::string_view("0.6.1");
    const auto wanted = Samples(!old);
    ASSERT_TRUE(WriteEncodings(wanted, *version, path));
    const auto got = ReadEncodings(path);
    ASSERT_TRUE(got) << got.error().message();
    ASSERT_EQ(got->size(), wanted.size()) << version->name;
    for (const Encoding& w : wanted) {
      SCOPED_TRACE(fmt::format("{} {}", version->name, w.name));
      const Encoding& g = Find(*got, w.name);
      EXPECT_EQ(g.scales, w.scales);
      EXPECT_EQ(g.zero_points, w.zero_points);
      EXPECT_EQ(g.bits, w.bits);
      EXPECT_EQ(g.is_signed, w.is_signed);
      EXPECT_EQ(g.granularity, w.granularity);
      EXPECT_EQ(g.block, w.block);
      EXPECT_TRUE(!g.axis || g.axis == w.axis);
    }
  }
}

TEST(Encodings, Version061HasNoBlocks) {
  const auto status = FindEncodingsVersion("0.6.1")->write(Samples(true));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "blocks: version 0.6.1 has no blocks, write 1.0.0 or newer");
}

struct Malformed {
  const char* text;
  const char* error;
};

TEST(Encodings, MalformedFilesNameTheEntry) {
  const Malformed kCases[] = {
      {"[]", "no encodings file: expected a JSON object with \"version\""},
      {"{}", "\"version\" is missing, expected one of 0.6.1, 1.0.0, 2.0.0, 2.1.0"},
      {R"({"version": "3.0"})",
       "encodings of version \"3.0\", expected one of 0.6.1, 1.0.0, 2.0.0, 2.1.0"},
      {R"({"version": "0.6.1", "param_encodings": {}})",
       "\"activation_encodings\" is missing, expected an object of tensor: [entry, ...]"},
      {R"({"version": "0.6.1", "activation_encodings": {"x": []}, "param_encodings": {}})",
       "activation_encodings[\"x\"]: expected a list of at least one entry"},
      {R"({"version": "0.6.1", "activation_encodings": {"x": [{"dtype": "int", "bitwidth": 8,
          "is_symmetric": "False", "min": -2.1, "scale": 0.0185, "offset": 114}]},
          "param_encodings": {}})",
       "activation_encodings[\"x\"][0]: \"min\" is -2.1, but \"scale\" and \"offset\" give 2.109"},
      {R"({"version": "0.6.1", "activation_encodings": {"x": [{"dtype": "int", "bitwidth": 8.5,
          "is_symmetric": "False", "scale": 1, "offset": 0}]}, "param_encodings": {}})",
       "activation_encodings[\"x\"][0]: \"bitwidth\" is 8.5, expected a whole number from 1 to 32"},
      {R"({"version": "1.0.0", "activation_encodings": [{"bw": 8}], "param_encodings": []})",
       "activation_encodings[0]: \"name\" is missing"},
      {R"({"version": "1.0.0", "activation_encodings": [], "param_encodings": [{"name": "w",
          "enc_type": "PER_ROW"}]})",
       "param_encodings[0] (w): \"dtype\" is missing"},
      {R"({"version": "1.0.0", "activation_encodings": [], "param_encodings": [{"name": "w",
          "enc_type": "PER_ROW", "dtype": "INT"}]})",
       "param_encodings[0] (w): \"enc_type\" is \"PER_ROW\", expected PER_TENSOR, PER_CHANNEL, "
       "PER_BLOCK or LPBQ"},
      {R"({"version": "1.0.0", "activation_encodings": [], "param_encodings": [{"name": "w",
          "enc_type": "PER_CHANNEL", "dtype": "INT", "bw": 8, "is_sym": true, "scale": [1, 2],
          "offset": [-128]}]})",
       "param_encodings[0] (w): 2 scales and 1 offsets, expected as many of both"},
      {R"({"version": "1.0.0", "activation_encodings": [], "param_encodings": [{"name": "w",
          "enc_type": "LPBQ", "dtype": "INT", "bw": 8, "compressed_bw": 4, "is_sym": true,
          "scale": [1, 2], "offset": [-8], "block_size": 16, "per_block_int_scale": [1, 0]}]})",
       "param_encodings[0] (w): \"per_block_int_scale\" has 0, expected whole numbers from 1 to "
       "65535"},
      {R"({"version": "2.0.0"})", "\"encodings\" is missing, expected a list of entries"},
      {R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8",
          "y_scale": -1}]})",
       "encodings[0] (x): \"y_scale\" has -1, expected finite numbers above 0"},
      {R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int99",
          "y_scale": 1}]})",
       "encodings[0] (x): \"output_dtype\" is \"int99\", expected a type of ONNX's QuantizeLinear "
       "(int8, uint4, ...)"},
      {R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8",
          "y_scale": [1, [2]], "axis": 0}]})",
       "encodings[0] (x): \"y_scale\" is nested unevenly: a list where a number is expected"},
      {R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8",
          "y_scale": [1, 2]}]})",
       "encodings[0] (x): 2 scales without an \"axis\""},
      {R"({"version": "2.0.0", "encodings": [
          {"name": "x", "output_dtype": "int8", "y_scale": 1},
          {"name": "x", "output_dtype": "int8", "y_scale": 1}]})",
       "encodings[1] (x): the second entry of this tensor"},
      {R"({"version": "2.1.0", "encodings": [{"name": "l", "output_dtype": "int4", "axis": 1,
          "block_size": 16, "y_scale": {"x": [[1, 2]], "x_scale": [1, 2, 3], "axis": 1}}]})",
       "encodings[0] (l): \"y_scale\": 3 scales of channels for 2 of blocks at depth 1"},
  };
  for (const Malformed& c : kCases) {
    const auto encodings = ParseEncodings(c.text);
    ASSERT_FALSE(encodings) << c.text;
    EXPECT_EQ(encodings.error().message(), c.error) << c.text;
  }
}

}  // namespace
}  // namespace evoq
