#include "data/inputs.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/text.h"

namespace evoq {
namespace {

std::string Little(uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

class InputsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("evoq_inputs_{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // first, first + 1, ... of the type.
  template <typename T>
  static Tensor Counting(const Shape& shape, int first) {
    std::vector<T> values(static_cast<size_t>(shape.elements().value()));
    std::iota(values.begin(), values.end(), static_cast<T>(first));
    return Tensor::FromValues<T>(shape, values);
  }

  std::string Npy(const std::string& name, const Tensor& t) const {
    EXPECT_TRUE(WriteNpy(t, At(name)));
    return At(name);
  }

  // Members stored one after the other.
  std::string Npz(const std::string& name,
                  const std::vector<std::pair<std::string, Tensor>>& arrays) const {
    std::string local, directory;
    for (const auto& [member, tensor] : arrays) {
      Npy("member", tensor);
      const std::string data = ReadTextFile(At("member")).value(), file = member + ".npy";
      const uint32_t crc = static_cast<uint32_t>(
          crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())));
      const std::string common = Little(20, 2) + Little(0, 2) + Little(0, 2) + Little(0, 4) +
                                 Little(crc, 4) + Little(data.size(), 4) + Little(data.size(), 4) +
                                 Little(file.size(), 2) + Little(0, 2);
      directory += "PK\1\2" + Little(20, 2) + common + Little(0, 2) + Little(0, 2) + Little(0, 2) +
                   Little(0, 4) + Little(local.size(), 4) + file;
      local += "PK\3\4" + common + file + data;
    }
    std::filesystem::remove(At("member"));
    const std::string end = std::string("PK\5\6\0\0\0\0", 8) + Little(arrays.size(), 2) +
                            Little(arrays.size(), 2) + Little(directory.size(), 4) +
                            Little(local.size(), 4) + Little(0, 2);
    EXPECT_TRUE(WriteFileAtomic(At(name), local + directory + end));
    return At(name);
  }

  static Result<std::unique_ptr<Dataset>> Open(const std::vector<std::string>& sources,
                                               const std::vector<InputSpec>& inputs,
                                               const DatasetOptions& options = {}) {
    return OpenInputs(sources, inputs, options);
  }

  static void ExpectFails(const std::vector<std::string>& sources,
                          const std::vector<InputSpec>& inputs, ErrorCode code,
                          const std::string& part) {
    const auto data = Open(sources, inputs);
    ASSERT_FALSE(data) << part;
    EXPECT_EQ(data.error().code(), code) << data.error().message();
    EXPECT_NE(data.error().message().find(part), std::string::npos)
        << data.error().message() << "\nexpected: " << part;
  }

  static void ExpectSample(const Dataset& data, int64_t index, const std::string& name,
                           const std::vector<Tensor>& inputs) {
    const auto sample = data.At(index);
    ASSERT_TRUE(sample) << sample.error().message();
    EXPECT_EQ(sample->name, name);
    ASSERT_EQ(sample->inputs.size(), inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(BitEqual(sample->inputs[i], inputs[i]))
          << name << ", input " << i << ": " << sample->inputs[i].type().ToString();
  }

  // The samples of ids counting from 1 and scale counting from 10, as two_ takes them.
  const std::vector<Tensor> first_ = {Counting<int64_t>({1, 3}, 1), Counting<float>({1, 2}, 10)},
                            second_ = {Counting<int64_t>({1, 3}, 4), Counting<float>({1, 2}, 12)};
  const std::vector<InputSpec> two_ = {{"ids", {-1, 3}, DType::kInt64},
                                       {"scale", {1, 2}, DType::kFloat32}};
  std::filesystem::path folder_;
};

TEST_F(InputsTest, AnNpzWhoseArraysAreNamedAsTheInputs) {
  const std::string npz = Npz("two.npz", {{"scale", Counting<float>({2, 2}, 10)},
                                          {"unused", Counting<float>({7}, 0)},
                                          {"ids", Counting<int64_t>({2, 3}, 1)}});
  const auto data = Open({npz}, two_);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 2);
  ExpectSample(**data, 0, "two.npz[0]", first_);
  ExpectSample(**data, 1, "two.npz[1]", second_);
}

// 2 samples in b.npz, 1 in c.npz, in the order of names; back and forth between the files.
TEST_F(InputsTest, AFolderOfNpzOneAfterTheOther) {
  std::filesystem::create_directories(At("set"));
  Npz("set/c.npz", {{"ids", Counting<int64_t>({3}, 7)}, {"scale", Counting<float>({1, 2}, 14)}});
  Npz("set/b.npz", {{"ids", Counting<int64_t>({2, 3}, 1)}, {"scale", Counting<float>({2, 2}, 10)}});
  const auto data = Open({At("set")}, two_);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 3);
  for (int round = 0; round < 2; ++round) {
    ExpectSample(**data, 2, "c.npz",
                 {Tensor::FromValues<int64_t>({1, 3}, {7, 8, 9}),
                  Tensor::FromValues<float>({1, 2}, {14, 15})});
    ExpectSample(**data, 1, "b.npz[1]", second_);
    ExpectSample(**data, 0, "b.npz[0]", first_);
  }
}

TEST_F(InputsTest, AFileForEachInput) {
  const std::string ids = Npy("i=.npy", Counting<int64_t>({2, 3}, 1)),
                    scale = Npy("s.npy", Counting<double>({2, 2}, 10));
  const auto data = Open({"scale=" + scale, "ids=" + ids}, two_);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 2);
  ExpectSample(**data, 1, "i=.npy[1]", second_);
}

// "a=b" and "a" are inputs both: the longest name counts.
TEST_F(InputsTest, NamesMayHoldEqualsSigns) {
  const std::vector<InputSpec> inputs = {{"a", {1, 1}}, {"a=b", {1, 1}}};
  const std::string x = Npy("x.npy", Counting<float>({1, 1}, 1)),
                    y = Npy("y.npy", Counting<float>({1, 1}, 2));
  const auto data = Open({"a=b=" + y, "a=" + x}, inputs);
  ASSERT_TRUE(data) << data.error().message();
  ExpectSample(**data, 0, "x.npy",
               {Tensor::FromValues<float>({1, 1}, {1}), Tensor::FromValues<float>({1, 1}, {2})});
}

// The rule of inputs.h, rank by rank.
TEST_F(InputsTest, HowArraysHoldSamples) {
  struct Case {
    std::vector<int64_t> input;
    Shape array;
    int64_t count;  // -1: refused
    std::vector<int64_t> sample;
  };
  const Case cases[] = {
      {{-1, 2}, {3, 2}, 3, {1, 2}},
      {{1, 2}, {3, 2}, 3, {1, 2}},
      {{3, 2}, {3, 2}, 1, {3, 2}},
      {{3, 2}, {6, 2}, 2, {3, 2}},
      {{3, 2}, {5, 2}, 1, {3, 2}},
      {{3, 2}, {4, 3, 2}, 4, {3, 2}},
      {{-1, -1}, {4, 3, 2}, 4, {3, 2}},
      {{1, 2}, {2}, 1, {1, 2}},
      {{-1, 2}, {2}, 1, {1, 2}},
      {{3, 2}, {2}, -1, {}},
      {{-1, 2}, {3, 3}, -1, {}},
      {{3, 2}, {4, 2, 2}, -1, {}},
      {{}, {}, 1, {}},
      {{}, {4}, 4, {}},
      {{}, {4, 1}, -1, {}},
      {{-1}, {}, 1, {1}},
      {{-1}, {4}, 4, {1}},
      {{2}, {4}, 2, {2}},
      {{2}, {3, 2}, 3, {2}},
      {{1, 2}, {2, 1, 1, 2}, -1, {}},
      {{-1, 2}, {0, 2}, 0, {1, 2}},
  };
  for (const Case& c : cases) {
    const std::string text = TensorType(DType::kFloat32, c.array).ToString() + " for " +
                             Bracketed(std::span<const int64_t>(c.input));
    const std::string file = Npy("a.npy", Counting<float>(c.array, 0));
    const auto data = Open({"a=" + file}, {{"a", c.input}});
    EXPECT_EQ(data.has_value(), c.count > 0) << text;
    if (!data) {
      EXPECT_NE(
          data.error().message().find(c.count == 0 ? "the data is empty" : "expected samples of ["),
          std::string::npos)
          << data.error().message();
      continue;
    }
    EXPECT_EQ((*data)->size(), c.count) << text;
    int64_t elements = 1;
    for (int64_t d : c.sample) elements *= d;
    for (int64_t i = 0; i < c.count; ++i) {
      const auto sample = (*data)->At(i);
      ASSERT_TRUE(sample) << text;
      EXPECT_EQ(sample->inputs[0].sizes(), c.sample) << text;
      EXPECT_EQ(sample->inputs[0].data<float>()[elements - 1],
                static_cast<float>((i + 1) * elements - 1))
          << text;
    }
  }
  InputSpec free{"a", {}, DType::kFloat32, /*ranked=*/false};
  const auto data = Open({"a=" + Npy("a.npy", Counting<float>({3, 2}, 0))}, {free});
  ASSERT_TRUE(data) << data.error().message();
  ExpectSample(**data, 2, "a.npy[2]", {Tensor::FromValues<float>({1, 2}, {4, 5})});
}

TEST_F(InputsTest, OneInputTakesWhatItDid) {
  const std::vector<InputSpec> one = {{"image", {1, 2}}};
  std::filesystem::create_directories(At("arrays"));
  Npy("arrays/a.npy", Counting<float>({2, 2}, 0));
  Npz("arrays/not_read.npz", {{"image", Counting<float>({5, 2}, 0)}});
  auto data = Open({At("arrays")}, one);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 2);
  // Among several arrays the one named as the input, before the usual names.
  data = Open(
      {Npz("x.npz", {{"x", Counting<float>({5, 2}, 0)}, {"image", Counting<float>({3, 2}, 50)}})},
      one);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 3);
  ExpectSample(**data, 0, "x.npz[0]", {Tensor::FromValues<float>({1, 2}, {50, 51})});
  data = Open({"image=" + At("arrays/a.npy")}, one);
  ASSERT_TRUE(data) << data.error().message();
  std::filesystem::create_directories(At("archives"));
  Npz("archives/1.npz", {{"image", Counting<float>({2, 2}, 0)}});
  data = Open({At("archives")}, one);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 2);
  // A path that is there is a path, though it begins like NAME=.
  Npy("image=1.npy", Counting<float>({4, 2}, 0));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  data = Open({"image=1.npy"}, one);
  std::filesystem::current_path(before);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 4);
}

TEST_F(InputsTest, LabelsComeFromTheNpzOrTheTable) {
  const std::string npz = Npz("l.npz", {{"ids", Counting<int64_t>({2, 3}, 1)},
                                        {"scale", Counting<float>({2, 2}, 10)},
                                        {"labels", Tensor::FromValues<int64_t>({2}, {4, 9})}});
  DatasetOptions options;
  options.preprocess.emplace().label_offset = 100;
  auto data = Open({npz}, two_, options);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->At(1)->label, 109);
  ASSERT_TRUE(WriteFileAtomic(At("l.tsv"), "file\tclass_index\nl.npz[0]\t1\nl.npz[1]\t2\n"));
  options.labels = At("l.tsv");
  data = Open({npz}, two_, options);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->At(1)->label, 102);
  options.labels = Npy("labels.npy", Tensor::FromValues<int64_t>({2}, {5, 6}));
  data = Open({"ids=" + Npy("i.npy", Counting<int64_t>({2, 3}, 1)),
               "scale=" + Npy("s.npy", Counting<float>({2, 2}, 10))},
              two_, options);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->At(0)->label, 105);
}

// The largest label and an offset of 1, of an .npz and of a table beside other sources.
TEST_F(InputsTest, LabelPlusOffsetBeyond64Bits) {
  const Tensor largest = Tensor::FromValues<int64_t>({1}, {INT64_MAX});
  const Tensor ids = Counting<int64_t>({1, 3}, 1), scale = Counting<float>({1, 2}, 10);
  DatasetOptions options;
  options.preprocess.emplace().label_offset = 1;
  const auto refused = [&](const std::vector<std::string>& sources) {
    const auto data = Open(sources, two_, options);
    ASSERT_TRUE(data) << data.error().message();
    const auto sample = (*data)->At(0);
    ASSERT_FALSE(sample);
    EXPECT_NE(sample.error().message().find("label 9223372036854775807 with an offset of 1"),
              std::string::npos)
        << sample.error().message();
  };
  refused({Npz("l.npz", {{"ids", ids}, {"scale", scale}, {"labels", largest}})});
  options.labels = Npy("labels.npy", largest);
  refused({"ids=" + Npy("i.npy", ids), "scale=" + Npy("s.npy", scale)});
}

// A folder's images are those of every format that is read, whatever the case of their names: here
// all are a gray pixel of PNM. A folder of one .npz beside an image is one of images.
TEST_F(InputsTest, FoldersOfEveryImageFormat) {
  const std::vector<std::string> names = {"a.BMP", "b.jpeg", "c.jpg",  "d.pgm", "e.png",
                                          "f.pnm", "g.ppm",  "h.tiff", "i.Tif"};
  for (const std::string& name : names)
    ASSERT_TRUE(WriteFileAtomic(At(name), std::string("P5 1 1 255\n") + name[0]));
  ASSERT_TRUE(WriteFileAtomic(At("notes.txt"), "no image"));
  Npz("z.npz", {{"image", Counting<float>({1, 1, 1, 1}, 0)}});
  DatasetOptions options;
  options.preprocess.emplace();
  options.preprocess->color = "GRAY";
  options.preprocess->mean = {0}, options.preprocess->std = {1}, options.preprocess->scale = 1;
  const auto data = Open({folder_.string()}, {{"image", {-1, 1, 1, 1}}}, options);
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), static_cast<int64_t>(names.size()));
  for (size_t i = 0; i < names.size(); ++i) {
    const auto sample = (*data)->At(static_cast<int64_t>(i));
    ASSERT_TRUE(sample) << sample.error().message();
    EXPECT_EQ(sample->name, names[i]);
    EXPECT_EQ(sample->inputs[0].values<float>()[0], static_cast<float>(names[i][0]));
  }
}

TEST_F(InputsTest, WhatDoesNotFitIsNamed) {
  const std::string ids = Npy("i.npy", Counting<int64_t>({2, 3}, 1)),
                    three = Npy("three.npy", Counting<float>({3, 2}, 0));
  const std::string ways =
      "the model has 2 inputs (ids, scale): expected an .npz whose arrays are named as the inputs, "
      "a folder of such files, or "
      "NAME=FILE for each input";
  ExpectFails({ids}, two_, ErrorCode::kUsage, ways);
  ExpectFails({folder_.string()}, two_, ErrorCode::kUsage, ways);
  ExpectFails({ids, three}, two_, ErrorCode::kUsage, ways);
  ExpectFails({At("missing")}, two_, ErrorCode::kNotFound, "missing: no such file or folder");
  ExpectFails({"ids=" + ids}, two_, ErrorCode::kUsage,
              "no data for the input scale: expected scale=FILE");
  ExpectFails({"ids=" + ids, "ids=" + ids}, two_, ErrorCode::kUsage,
              "the input ids has its data already");
  ExpectFails({"ids=" + ids, three}, two_, ErrorCode::kUsage,
              "three.npy: expected NAME=FILE with one of the model's inputs: ids, scale");
  ExpectFails({"ids=" + ids, "scale="}, two_, ErrorCode::kUsage, "scale=: expected NAME=FILE");
  ExpectFails({"ids=" + ids, "scale=" + three}, two_, ErrorCode::kInvalidInput,
              "3 samples for the input scale, 2 for ids, expected equal numbers");
  ExpectFails({"ids=" + Npy("f.npy", Counting<float>({2, 3}, 0)), "scale=" + three}, two_,
              ErrorCode::kInvalidInput,
              "f.npy: elements are float32, expected int64 for the model's input");
  ExpectFails(
      {Npz("a.npz", {{"ids", Counting<int64_t>({2, 3}, 1)}, {"y", Counting<int64_t>({2}, 1)}})},
      two_, ErrorCode::kInvalidInput,
      "a.npz: no array named scale, found y, expected one for each input: ids, scale");
  ExpectFails({Npz("b.npz",
                   {{"ids", Counting<int64_t>({2, 3}, 1)}, {"scale", Counting<float>({3, 2}, 1)}})},
              two_, ErrorCode::kInvalidInput,
              "b.npz: scale holds 3 samples, ids holds 2, expected equal numbers");
  ExpectFails({Npz("c.npz", {{"ids", Counting<int64_t>({2, 3}, 1)},
                             {"scale", Counting<float>({2, 2}, 1)},
                             {"y", Counting<int64_t>({3}, 1)}})},
              two_, ErrorCode::kInvalidInput, "c.npz: y holds 3 labels of 2 samples");
  ExpectFails(
      {"a=" + Npy("none.npy", Tensor::Allocate(TensorType(DType::kFloat32, Shape{1000000, 0})))},
      {{"a", {-1, -1}}}, ErrorCode::kInvalidInput,
      "none.npy: float32[1000000, 0], samples of no elements");
  ExpectFails({}, two_, ErrorCode::kUsage, "no data was named");
  ExpectFails({ids}, {}, ErrorCode::kUnsupported, "the model has no input");
}

// A model of two rows at once takes arrays, folders and images of one row each, two at a time; what
// fills no sample is left out, with a warning.
TEST_F(InputsTest, RowsOfAFixedBatchAreGathered) {
  const std::vector<InputSpec> two = {{"x", {2, 3}}};
  const Tensor rows = Counting<float>({5, 3}, 1), last = Counting<float>({2, 3}, 7);
  const std::string npy = Npy("x.npy", rows);
  std::filesystem::create_directories(At("rows"));
  for (int i = 0; i < 5; ++i)
    Npy(fmt::format("rows/{}.npy", i), Counting<float>({1, 3}, 3 * i + 1));
  for (const std::string& source : {npy, "x=" + npy, Npz("x.npz", {{"x", rows}}), At("rows")}) {
    const auto data = Open({source}, two);
    ASSERT_TRUE(data) << data.error().message();
    EXPECT_EQ((*data)->size(), 2);
    EXPECT_EQ((*data)->rows(), 5);
    EXPECT_NE((*data)->warning().find("the last 1 of 5 rows is left out"), std::string::npos);
    const bool folder = source == At("rows");
    const std::string file = source.ends_with("npz") ? "x.npz" : "x.npy";
    ExpectSample(**data, 1, folder ? "2.npy to 3.npy" : file + "[2] to " + file + "[3]", {last});
    EXPECT_EQ((*data)->At(1)->rows[1].name, folder ? "3.npy" : file + "[3]");
  }
  // Whole samples stay as they are.
  const auto whole = Open({Npy("whole.npy", Counting<float>({4, 2, 3}, 1))}, two);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ((*whole)->size(), 4);
  EXPECT_EQ((*whole)->warning(), "");
  for (const std::string& source : {At("one.npy"), "x=" + At("one.npy")}) {
    Npy("one.npy", Counting<float>({1, 3}, 1));
    ExpectFails({source}, two, ErrorCode::kInvalidInput, "1 row, the model takes 2 at once");
  }
}

// One label for each row, or, where samples are whole, for each sample; never more.
TEST_F(InputsTest, LabelsOfRowsAndTooMany) {
  const std::string npy = Npy("x.npy", Counting<float>({4, 3}, 1));
  const auto labelled = [&](int labels, const std::vector<int64_t>& sizes) {
    DatasetOptions options;
    options.labels = Npy("y.npy", Counting<int64_t>({labels}, 10));
    return Open({npy}, {{"x", sizes}}, options);
  };
  const auto data = labelled(4, {2, 3});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->At(1)->rows[0].label, 12);
  EXPECT_EQ((*data)->At(1)->rows[1].label, 13);
  EXPECT_FALSE((*data)->At(1)->label);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 3}, {-1, 3}}) {
    const auto many = labelled(5, sizes);
    ASSERT_FALSE(many);
    EXPECT_NE(many.error().message().find("5 labels for 4"), std::string::npos)
        << many.error().message();
  }
  DatasetOptions beside;
  beside.labels = Npy("y.npy", Counting<int64_t>({5}, 10));
  EXPECT_FALSE(Open({"x=" + npy}, {{"x", {-1, 3}}}, beside));
  EXPECT_FALSE(
      Open({Npz("x.npz", {{"x", Counting<float>({4, 3}, 1)}, {"y", Counting<int64_t>({5}, 1)}})},
           {{"x", {-1, 3}}}));
}

}  // namespace
}  // namespace evoq
