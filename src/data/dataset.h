// Samples for calibration and evaluation: images, .npy, .npz, MNIST idx and CIFAR binary files.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/budget.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace evoq {

// How an image becomes a model input: the fields of a NAME.preprocess.json (docs/preprocess.md):
// resize the short side to `resize_short`, centre crop to `crop`, resize the crop to `resize`
// (bilinear, antialiased when shrinking, as Pillow does), then x = (pixel * scale - mean) / std per
// channel.
struct Preprocess {
  std::optional<int> resize_short;
  std::optional<std::pair<int, int>> crop;    // height, width
  std::optional<std::pair<int, int>> resize;  // height, width
  std::string color = "RGB";                  // RGB, BGR, GRAY
  std::string layout = "NCHW";                // NCHW, NHWC
  float scale = 1.0f / 255;
  std::vector<float> mean = {0, 0, 0}, std = {1, 1, 1};
  int label_offset = 0;  // added to a label to get the model's class index
  DType dtype = DType::kFloat32;
};
// Errors: kInvalidInput naming the file and the field: unknown, of the wrong kind or out of range.
// Keys that start with
// '_' are comments.
Result<Preprocess> LoadPreprocess(const std::string& path);
Result<Preprocess> ParsePreprocess(std::string_view json);

// Interleaved 8-bit pixels.
struct Image {
  int width = 0, height = 0, channels = 3;
  std::vector<uint8_t> pixels;
};
// JPEG, PNG, BMP, PNM or TIFF (the last three uncompressed, of 8 bits) by content. Errors:
// kInvalidInput naming the file; kTooLarge over 2^28 pixels, or over the budget: that of a file of
// these bytes where none is given.
Result<Image> DecodeImage(const std::string& path);
Result<Image> DecodeImage(std::span<const std::byte> bytes);
Result<Image> DecodeImage(std::span<const std::byte> bytes, Budget& budget);
// One sample of batch 1, in the preprocess's layout and dtype. Integer dtypes: round_half_even(x),
// saturated. Sizes that the image decides, not `preprocess`, draw on the budget: where none is
// given, that of a file of its pixels. Errors: kInvalidInput for an image smaller than the crop;
// kTooLarge; kUnsupported for a dtype that pixels do not become.
Result<Tensor> ToInput(const Image& image, const Preprocess& preprocess);
Result<Tensor> ToInput(const Image& image, const Preprocess& preprocess, Budget& budget);
// The image of a file as a sample, decoded and preprocessed within the file's budget. Errors name
// the file.
Result<Tensor> LoadInput(const std::string& path, const Preprocess& preprocess);

struct Sample {
  struct Row {
    std::string name;
    std::optional<int64_t> label;
  };
  std::string name;              // file name, or "test_1000.bin[17]"
  std::vector<Tensor> inputs;    // by position among the model's
  std::optional<int64_t> label;  // the model's class index: label_offset is added already
  // Where the model's first size is fixed above 1: what each index of the first axis is of, and its
  // own label; else empty.
  std::vector<Row> rows;

  int64_t row_count() const { return rows.empty() ? 1 : static_cast<int64_t>(rows.size()); }
};

// Samples by index, decoded when asked for. Sorted by name.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Result<Sample> At(int64_t index) const = 0;
  // Rows that the data holds: of samples of several each, and those that fill none.
  virtual int64_t rows() const { return size(); }
  // What of the data is no sample; "" where all is.
  virtual std::string warning() const { return ""; }
};

// The DatasetOptions::labels of data in folders that are its classes.
inline constexpr std::string_view kLabelsByFolder = "folders";

struct DatasetOptions {
  std::optional<Preprocess> preprocess;  // needed for images, MNIST and CIFAR
  // A .tsv with columns `file` and `class_index` (or `label`), an idx file or a .npy; "": none.
  // kLabelsByFolder: the folder of a sample, counted from 0 in the order of their names.
  std::string labels;
  std::vector<int64_t>
      input_sizes;  // the model's input shape, -1 where free: checks and batches .npy
  DType input_dtype = DType::kFloat32;
  std::string input_name;  // of an .npz: the array of this name is taken before the usual ones
  bool targets = false;    // samples are what outputs are to be: the usual names are of those
};

// `path`: a folder of images or .npy, or where it has none of its own, of folders with some, whose
// samples are called "folder/file"; one image, .npy or .npz (first axis = samples), MNIST idx
// (*-images*idx3*, also .gz), CIFAR-10 .bin. Errors: kInvalidInput when it holds no sample, naming
// what was looked for, or when a label is missing.
Result<std::unique_ptr<Dataset>> OpenDataset(const std::string& path,
                                             const DatasetOptions& options);

// .npy of one array, C order, little-endian. Errors name file, place, what was found, what was
// expected.
Result<Tensor> ReadNpy(const std::string& path);
Status WriteNpy(const Tensor& tensor, const std::string& path);
// .npz (stored or deflated): name -> array, not writable. Arrays of strings and objects are left
// out. Errors: kTooLarge when the members unpack to more than the file's Budget.
Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path);

}  // namespace evoq
