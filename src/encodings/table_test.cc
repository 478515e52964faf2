#include "encodings/table.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "encodings/test_files.h"

namespace evoq {
namespace {

const std::string kData = [] {
  const char* path = std::getenv("EVOQ_DATA");
  return path != nullptr ? std::string(path) : std::string(EVOQ_SOURCE_DIR "/../shared/data");
}();

CalibrationTable Parsed(std::string_view bytes) {
  auto table = ParseTable(bytes);
  EXPECT_TRUE(table) << table.error().message();
  return table ? std::move(*table) : CalibrationTable();
}

TEST(Tables, TensorRtCacheKeepsEveryByte) {
  const std::string text =
      "TRT-8401-EntropyCalibration2\ninput: 3caa54fc\n/a/b: c [x*]: 3f800000\n"
      "(Unnamed Layer* 0) [Shuffle]_output: 0\n";
  const CalibrationTable table = Parsed(text);
  ASSERT_EQ(table.entries.size(), 3u);
  EXPECT_EQ(table.header, "TRT-8401-EntropyCalibration2");
  EXPECT_EQ(table.entries[0].scale, __builtin_bit_cast(float, 0x3caa54fcu));
  EXPECT_EQ(table.entries[1].tensor, "/a/b: c [x*]");
  EXPECT_EQ(table.entries[1].max, 127);
  EXPECT_EQ(table.entries[1].min, -127);
  EXPECT_EQ(table.entries[2].scale, 0.0f);
  EXPECT_EQ(CalibrationCacheText(table).value(), text);
}

TEST(Tables, ALineBreakHasNoLine) {
  const CalibrationTable table = Parsed("{\"a\\nb\": [0, 1]}");
  EXPECT_EQ(CalibrationCacheText(table).error().message(),
            "a calibration cache has no line for \"a\nb\": its name is empty or has a line break");
}

TEST(Tables, PublicCachesKeepEveryByte) {
  for (const char* name : {"radioml_transformer_calibration.cache", "tinybert_calibration.cache"}) {
    const auto text = ReadTextFile(kData + "/trt/" + name);
    if (!text) GTEST_SKIP() << "no data folder";
    const CalibrationTable table = Parsed(*text);
    EXPECT_GT(table.entries.size(), 40u);
    std::string wanted = *text;
    if (!wanted.ends_with('\n')) wanted += '\n';
    EXPECT_EQ(CalibrationCacheText(table).value(), wanted) << name;
  }
}

// The same model's table as JSON and as text: the largest magnitudes agree.
TEST(Tables, OnnxRuntimesFormsAgree) {
  const auto json = ReadTextFile(kData + "/trt/onnxrt_trt_ep_calibration.json"),
             text = ReadTextFile(kData + "/trt/onnxrt_trt_ep_calibration.cache");
  if (!json || !text) GTEST_SKIP() << "no data folder";
  const CalibrationTable ranges = Parsed(*json), magnitudes = Parsed(*text);
  EXPECT_EQ(ranges.entries.size(), magnitudes.entries.size());
  for (const TableEntry& m : magnitudes.entries) {
    const auto r = std::ranges::find(ranges.entries, m.tensor, &TableEntry::tensor);
    ASSERT_NE(r, ranges.entries.end()) << m.tensor;
    EXPECT_EQ(m.max, std::max(std::fabs(r->min), std::fabs(r->max))) << m.tensor;
    EXPECT_EQ(m.min, -m.max);
  }
}

TEST(Tables, FlatBufferOfOnnxRuntime) {
  const CalibrationTable table = Parsed(FlatTable({{"a:0", "2.64"}, {"b [1]", "-0.5"}}));
  ASSERT_EQ(table.entries.size(), 2u);
  EXPECT_EQ(table.entries[0].tensor, "a:0");
  EXPECT_EQ(table.entries[0].max, 2.64f);
  EXPECT_EQ(table.entries[1].max, 0.5f);
  EXPECT_EQ(table.entries[1].min, -0.5f);
}

// Bytes of a caller may lie anywhere: under UBSan a number that is read where it lies says so.
TEST(Tables, FlatBufferInMemoryThatIsNotAligned) {
  const std::string shifted = "?" + FlatTable({{"a:0", "2.64"}});
  const auto table = ParseTable(std::string_view(shifted).substr(1));
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->entries.at(0).max, 2.64f);
}

TEST(Tables, JsonOfNewerOnnxRuntimes) {
  const CalibrationTable table = Parsed(
      R"({"CLS": "TensorsData", "calibration_method": {}, "data": {
          "x": {"CLS": "TensorData", "lowest": -1.5, "highest": 2.0},
          "y": {"CLS": "TensorData", "lowest": {"CLS": "numpy.array", "data": 0.0},
                "highest": {"CLS": "numpy.array", "data": [4.0], "dtype": "float32"}}}})");
  ASSERT_EQ(table.entries.size(), 2u);
  EXPECT_EQ(table.entries[0].min, -1.5f);
  EXPECT_EQ(table.entries[0].max, 2.0f);
  EXPECT_EQ(table.entries[1].max, 4.0f);
}

TEST(Tables, MalformedFilesNameThePlace) {
  const std::pair<std::string, const char*> kCases[] = {
      {"",
       "no calibration table: expected TensorRT's calibration cache, ONNX Runtime's calibration "
       "table as JSON, ONNX Runtime's calibration table as FlatBuffer, ONNX Runtime's "
       "calibration table as text"},
      {"TRT-8401-EntropyCalibration2\nx 3f800000\n",
       "TensorRT's calibration cache: line 2: \"x 3f800000\", expected \"tensor: HEX\" with the 32 "
       "bits of a scale"},
      {"TRT-8401-EntropyCalibration2\nx: 3f8000000\n",
       "TensorRT's calibration cache: line 2: \"x: 3f8000000\", expected \"tensor: HEX\" with the "
       "32 bits of a scale"},
      {"TRT-8401-EntropyCalibration2\nx: bf800000\n",
       "TensorRT's calibration cache: line 2: the scale of x is -1, expected a number of at least "
       "0"},
      {"TRT-8401-EntropyCalibration2\nx: 1\nx: 2\n",
       "TensorRT's calibration cache: the second entry of x"},
      {R"({"x": [1, 0]})",
       "ONNX Runtime's calibration table as JSON: x: the range is [1, 0], expected min <= max"},
      {R"({"x": [1]})", "ONNX Runtime's calibration table as JSON: x: expected [min, max]"},
      {"x 1.5\ny two\n",
       "ONNX Runtime's calibration table as text: line 2: y: \"two\", expected the largest "
       "magnitude, a finite number"},
      {FlatTable({{"a", "2.64"}}).substr(0, 30),
       "ONNX Runtime's calibration table as FlatBuffer: the FlatBuffer is damaged, or of another "
       "schema"},
      {FlatTable({{"a", ""}}),
       "ONNX Runtime's calibration table as FlatBuffer: dict[0]: a: \"\", expected the largest "
       "magnitude, a finite number"},
  };
  for (const auto& [bytes, error] : kCases) {
    const auto table = ParseTable(bytes);
    ASSERT_FALSE(table) << bytes;
    EXPECT_EQ(table.error().message(), error);
  }
}

}  // namespace
}  // namespace evoq
