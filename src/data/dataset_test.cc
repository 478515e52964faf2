#include "data/dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "data/zip.h"

namespace evoq {
namespace {

std::string DataFolder() {
  const char* folder = std::getenv("EVOQ_DATA");
  return folder ? folder : std::string(EVOQ_SOURCE_DIR) + "/../shared/data";
}

// A fresh empty folder.
std::string TempFolder(const std::string& name) {
  const std::string path = testing::TempDir() + "/evoq_data_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

void ExpectError(const auto& result, const std::string& part) {
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
}

std::string Npy(std::string header, std::string_view data, int version = 1) {
  header += '\n';
  std::string out = "\x93NUMPY";
  out += {static_cast<char>(version), '\0', static_cast<char>(header.size()), '\0'};
  if (version > 1) out += {'\0', '\0'};
  return out + header + std::string(data);
}

std::string Little32(uint32_t v) { return {reinterpret_cast<const char*>(&v), 4}; }
std::string Little16(uint16_t v) { return {reinterpret_cast<const char*>(&v), 2}; }

// A zip archive of one member.
std::string Zip(const std::string& name, const std::string& data, bool deflated,
                uint32_t claimed_bytes) {
  std::string packed = data;
  if (deflated) {
    z_stream stream = {};
    deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    packed.resize(data.size() + 1000);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = data.size();
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = packed.size();
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
  }
  const uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  const std::string common = Little16(20) + Little16(0) + Little16(deflated ? 8 : 0) + Little32(0) +
                             Little32(crc) + Little32(packed.size()) + Little32(claimed_bytes) +
                             Little16(name.size()) + Little16(0);
  const std::string local = "PK\3\4" + common + name + packed;
  const std::string entry = "PK\1\2" + Little16(20) + common + Little16(0) + Little16(0) +
                            Little16(0) + Little32(0) + Little32(0) + name;
  return local + entry + std::string("PK\5\6\0\0\0\0", 8) + Little16(1) + Little16(1) +
         Little32(entry.size()) + Little32(local.size()) + Little16(0);
}

TEST(Npy, RoundTripOfEveryType) {
  const std::string path = TempFolder("npy") + "/a.npy";
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kUint8,
                      DType::kInt8, DType::kUint16, DType::kInt16, DType::kInt32, DType::kInt64,
                      DType::kUint32, DType::kUint64, DType::kBool}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 3, 4}}) {
      Tensor t = Tensor::Allocate(TensorType(dtype, shape));
      for (size_t i = 0; i < t.bytes(); ++i) t.mutable_raw()[i] = static_cast<std::byte>(i & 1);
      ASSERT_TRUE(WriteNpy(t, path));
      auto back = ReadNpy(path);
      ASSERT_TRUE(back) << back.error().message();
      EXPECT_TRUE(BitEqual(t, *back)) << t.type().ToString();
    }
  }
}

TEST(Npy, FortranOrderIsTransposed) {
  const std::string path = TempFolder("fortran") + "/a.npy";
  const std::string text = Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
                               std::string("\0\3\1\4\2\5", 6), 2);
  ASSERT_TRUE(WriteFileAtomic(path, text));
  auto t = ReadNpy(path);
  ASSERT_TRUE(t) << t.error().message();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(t->values<uint8_t>()[i], i);
}

TEST(Npy, BrokenFilesAreErrors) {
  const std::string path = TempFolder("broken") + "/a.npy";
  for (const auto& [bytes, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "no NPY magic"},
           {Npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "big-endian"},
           {Npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}", "1234"),
            "strings ('<U4'), which files do not give to a model: evoq.load(MODEL).run() in "
            "Python"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234"),
            "4 bytes of data at byte 66, expected 8"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "12345"),
            "5 bytes of data"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "1234"),
            "header is not"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4)}",
                "1234"),
            "more than fit"},
           {Npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "header is not"},
           {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "1234"), "header is not"},
           {Npy("x", "", 9), "version 9"},
           {std::string("\x93NUMPY\1\0\xff\xff", 10), "header of 65535 bytes"},
       }) {
    ASSERT_TRUE(WriteFileAtomic(path, bytes));
    ExpectError(ReadNpy(path), part);
  }
}

TEST(Npz, StoredAndDeflated) {
  const std::string path = TempFolder("npz") + "/a.npz";
  const std::string array =
      Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (300,)}", std::string(300, 'x'));
  for (bool deflated : {false, true}) {
    ASSERT_TRUE(WriteFileAtomic(path, Zip("x.npy", array, deflated, array.size())));
    auto npz = ReadNpz(path);
    ASSERT_TRUE(npz) << npz.error().message();
    ASSERT_EQ(npz->count("x"), 1);
    EXPECT_EQ(npz->at("x").values<uint8_t>()[299], 'x');
  }
}

TEST(Npz, BrokenArchivesAreErrors) {
  const std::string path = TempFolder("badzip") + "/a.npz";
  const std::string array =
      Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (300,)}", std::string(300, 'x'));
  const std::string good = Zip("x.npy", array, true, array.size());
  std::string flipped = good;
  flipped[60] ^= 1;
  for (const auto& [bytes, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "too short"},
           {good.substr(0, good.size() - 1), "no end-of-directory"},
           {Zip("x.npy", array, true, 100), "the size differs"},
           {Zip("x.npy", array, true, array.size() + 1), "cannot be unpacked"},
           {Zip("x.npy", array, true, 0xfffffff0), "claims"},
           {Zip("x.npy", array, false, array.size() - 1), "stored member"},
           {flipped, "x"},
       }) {
    ASSERT_TRUE(WriteFileAtomic(path, bytes));
    ExpectError(ReadNpz(path), part);
  }
  // Any single wrong byte gives an error or an array, never a crash.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] ^= 0xff;
    ASSERT_TRUE(WriteFileAtomic(path, bytes));
    (void)ReadNpz(path);
  }
}

TEST(Dataset, EmptyFolderNamesWhatWasLookedFor) {
  ExpectError(OpenDataset(TempFolder("empty"), {}), "no sample found, looked for *.jpg");
  ExpectError(OpenDataset("/nonexistent/data", {}), "no such file or folder");
}

TEST(Dataset, FolderOfNpyIsSortedAndBatched) {
  const std::string folder = TempFolder("arrays");
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(Shape{2, 2}, {1, 2, 3, 4}), folder + "/b.npy"));
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<double>(Shape{2}, {5, 6}), folder + "/a.npy"));
  ASSERT_TRUE(WriteFileAtomic(folder + "/labels.tsv", "file\tlabel\na.npy\t7\nb.npy[0]\t8\n"));
  auto data = OpenDataset(folder, {.labels = folder + "/labels.tsv", .input_sizes = {-1, 2}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 3);
  auto first = (*data)->At(0), second = (*data)->At(1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->name, "a.npy");
  EXPECT_EQ(first->inputs[0].sizes(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(first->inputs[0].values<float>()[1], 6);
  EXPECT_EQ(first->label, 7);
  EXPECT_EQ(second->inputs[0].values<float>()[1], 2);
  ExpectError((*data)->At(2), "no label for b.npy[1]");
  auto wrong = OpenDataset(folder, {.input_sizes = {1, 3}});
  ASSERT_TRUE(wrong);
  ExpectError((*wrong)->At(0), "expected [1, 3]");
}

// A folder for each class, as data sets of images come: read without being asked for, and labels
// only when asked for.
TEST(Dataset, FoldersOfClasses) {
  const std::string folder = TempFolder("classes");
  for (const char* name : {"/cat", "/dog/more", "/empty", "/.hidden"})
    std::filesystem::create_directories(folder + name);
  const auto write = [&](const std::string& name, std::vector<float> values) {
    const Shape shape{static_cast<int64_t>(values.size()) / 2, 2};
    ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(shape, values), folder + name));
  };
  write("/dog/more/a.npy", {1, 2});
  write("/cat/a.npy", {3, 4, 5, 6});
  write("/empty/b.npy", {7, 8});
  write("/.hidden/c.npy", {9, 10});
  auto plain = OpenDataset(folder, {.input_sizes = {-1, 2}});
  ASSERT_TRUE(plain) << plain.error().message();
  ASSERT_EQ((*plain)->size(), 4);
  EXPECT_EQ((*plain)->At(2)->name, "dog/more/a.npy");
  EXPECT_EQ((*plain)->At(2)->label, std::nullopt);
  std::filesystem::remove(folder + "/empty/b.npy");
  const DatasetOptions labelled{.labels = "folders", .input_sizes = {-1, 2}};
  auto data = OpenDataset(folder, labelled);
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 3);
  EXPECT_EQ((*data)->At(1)->name, "cat/a.npy[1]");
  EXPECT_EQ((*data)->At(1)->label, 0);
  EXPECT_EQ((*data)->At(2)->label, 1);
  ExpectError(OpenDataset(folder + "/cat", labelled), "there are samples beside them, such as a");
  ExpectError(OpenDataset(folder + "/cat/a.npy", labelled),
              "labels \"folders\" need data in a folder for each class");
  ExpectError(OpenDataset(folder + "/empty", labelled), "in its folders too");
}

// Arrays of one axis more hold inputs in their own shape: the first axis need not count samples.
TEST(Dataset, WholeInputs) {
  const std::string path = TempFolder("whole") + "/whole.npy";
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(Shape{2, 3, 1}, {1, 2, 3, 4, 5, 6}), path));
  auto data = OpenDataset(path, {.input_sizes = {-1, 1}});
  ASSERT_TRUE(data) << data.error().message();
  ASSERT_EQ((*data)->size(), 2);
  const auto sample = (*data)->At(1);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_EQ(sample->name, "whole.npy[1]");
  EXPECT_TRUE(BitEqual(sample->inputs[0], Tensor::FromValues<float>(Shape{3, 1}, {4, 5, 6})));
}

TEST(Dataset, SamplesTakeTheModelsFloatType) {
  const std::string path = TempFolder("half") + "/a.npy";
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(Shape{1, 2}, {1.5f, -2}), path));
  for (DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
    auto data = OpenDataset(path, {.input_sizes = {1, 2}, .input_dtype = dtype});
    ASSERT_TRUE(data) << data.error().message();
    auto sample = (*data)->At(0);
    ASSERT_TRUE(sample) << sample.error().message();
    EXPECT_EQ(sample->inputs[0].dtype(), dtype);
    EXPECT_EQ(ToFloat32(sample->inputs[0])->values<float>()[1], -2);
  }
  auto data = OpenDataset(path, {.input_sizes = {1, 2}, .input_dtype = DType::kInt32});
  ASSERT_TRUE(data);
  ExpectError((*data)->At(0), "elements are float32, expected int32");
}

TEST(Dataset, UnreadableImageIsNamed) {
  const std::string folder = TempFolder("badimage");
  ASSERT_TRUE(WriteFileAtomic(folder + "/x.jpg", "not an image"));
  ExpectError(OpenDataset(folder, {}), "need a preprocess file");
  auto data = OpenDataset(folder, {.preprocess = Preprocess{}});
  ASSERT_TRUE(data);
  ExpectError((*data)->At(0), "x.jpg: neither JPEG nor PNG");
}

TEST(Dataset, Labels) {
  const std::string folder = TempFolder("labels");
  ASSERT_TRUE(WriteNpy(Tensor::FromValues<float>(Shape{1, 1}, {0}), folder + "/a.npy"));
  const std::string labels = folder + "/labels.tsv";
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"name\tlabel\n", "line 1: columns are"},
           {"file\tlabel\n", "no labels below"},
           {"file\tlabel\na.npy\tcat\n", "line 2: label \"cat\""},
           {"file\tlabel\na.npy\n", "line 2: 1 columns"},
           {"file\tlabel\na.npy\t1\na.npy\t2\n", "occurs twice"},
       }) {
    ASSERT_TRUE(WriteFileAtomic(labels, text));
    ExpectError(OpenDataset(folder, {.labels = labels, .input_sizes = {1, 1}}), part);
  }
}

TEST(Dataset, MnistPlainAndGzipped) {
  const std::string folder = DataFolder() + "/mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  DatasetOptions options{.preprocess = Preprocess{.color = "GRAY", .scale = 1},
                         .labels = folder + "/t10k-labels-idx1-ubyte.gz",
                         .input_sizes = {1, 1, 28, 28}};
  auto data = OpenDataset(folder + "/t10k-images-idx3-ubyte.gz", options);
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 10000);
  auto sample = (*data)->At(0);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_EQ(sample->label, 7);  // the first test digit is a seven
  auto packed = MappedFile::Open(folder + "/t10k-images-idx3-ubyte.gz");
  ASSERT_TRUE(packed);
  Budget budget = Budget::ForFile(static_cast<int64_t>((*packed)->bytes().size()));
  auto bytes = Gunzip((*packed)->bytes(), budget);
  ASSERT_TRUE(bytes);
  const std::string plain = TempFolder("mnist") + "/images-idx3-ubyte";
  const std::span<const std::byte> pieces[] = {*bytes};
  ASSERT_TRUE(WriteFileAtomic(plain, pieces));
  auto same = OpenDataset(plain, options);
  ASSERT_TRUE(same) << same.error().message();
  EXPECT_TRUE(BitEqual((*same)->At(9999)->inputs[0], (*data)->At(9999)->inputs[0]));
  EXPECT_FALSE(Gunzip((*packed)->bytes().first(5000), budget));
}

TEST(Dataset, Cifar) {
  const std::string path = DataFolder() + "/cifar10/test_1000.bin";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  auto data =
      OpenDataset(path, {.preprocess = Preprocess{.scale = 1}, .input_sizes = {1, 3, 32, 32}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 1000);
  auto sample = (*data)->At(17);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->name, "test_1000.bin[17]");
  auto file = MappedFile::Open(path);
  const auto* record = reinterpret_cast<const uint8_t*>((*file)->bytes().data()) + 17 * 3073;
  EXPECT_EQ(sample->label, record[0]);
  for (int i = 0; i < 3072; ++i) ASSERT_EQ(sample->inputs[0].values<float>()[i], record[1 + i]);
}

TEST(Dataset, GoldenInputEqualsPreprocessing) {
  const std::string root = DataFolder();
  auto preprocess = LoadPreprocess(root + "/models/squeezenet1.1.preprocess.json");
  if (!preprocess) GTEST_SKIP() << preprocess.error().message();
  auto data = OpenDataset(root + "/images/imagenet", {.preprocess = *preprocess,
                                                      .labels = root + "/images/labels.tsv",
                                                      .input_sizes = {1, 3, 224, 224}});
  ASSERT_TRUE(data) << data.error().message();
  EXPECT_EQ((*data)->size(), 500);
  auto sample = (*data)->At(0);
  ASSERT_TRUE(sample) << sample.error().message();
  EXPECT_EQ(sample->label, 0);
  auto npz = OpenDataset(root + "/magika/tests_basic_v3_3.npz",
                         {.input_sizes = {-1, 2048}, .input_dtype = DType::kInt32});
  EXPECT_TRUE(npz) << npz.error().message();
}

}  // namespace
}  // namespace evoq
