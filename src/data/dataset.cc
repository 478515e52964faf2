#include "data/dataset.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/brief.h"
#include "base/file.h"
#include "base/text.h"
#include "data/convert.h"
#include "data/idx.h"
#include "data/image_decode.h"
#include "data/labels.h"
#include "data/npy.h"

namespace evoq {
namespace {

constexpr int kCifarSide = 32, kCifarRecord = 1 + 3 * kCifarSide * kCifarSide;

// Errors: kInvalidInput unless the tensor is one sample for the model's input.
Status CheckInput(const Tensor& tensor, const std::vector<int64_t>& wanted,
                  const std::string& name) {
  if (wanted.empty()) return {};
  const std::vector<int64_t> sizes = tensor.sizes();
  bool fits = sizes.size() == wanted.size();
  for (size_t i = 1; fits && i < sizes.size(); ++i) fits = wanted[i] < 0 || sizes[i] == wanted[i];
  if (fits) return {};
  return InvalidInput("{}: a sample of {}, expected {} for the model's input", name,
                      tensor.type().ToString(), Shape(wanted).ToString());
}

Result<Sample> MakeSample(std::string name, Tensor input, std::optional<int64_t> own_label,
                          int64_t index, const Labels& labels, const DatasetOptions& options) {
  EVOQ_ASSIGN(input, WithContext(ToInputType(input, options.input_dtype), name));
  EVOQ_TRY(CheckInput(input, options.input_sizes, name));
  Sample sample{std::move(name), {std::move(input)}, own_label};
  if (!labels.path.empty()) {
    EVOQ_ASSIGN(sample.label, labels.Of(sample.name, index));
  }
  EVOQ_TRY(AddLabelOffset(options.preprocess, sample));
  return sample;
}

// A file with samples: their name, and their class where its folder tells it.
struct SampleFile {
  explicit SampleFile(std::string at) : path(std::move(at)), name(BaseName(path)) {}
  std::string path, name;
  std::optional<int64_t> label;
};

class ImageFiles : public Dataset {
 public:
  ImageFiles(std::vector<SampleFile> files, Labels labels, DatasetOptions options)
      : files_(std::move(files)), labels_(std::move(labels)), options_(std::move(options)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Result<Sample> At(int64_t index) const override {
    const SampleFile& file = files_[index];
    EVOQ_ASSIGN(Tensor input, LoadInput(file.path, *options_.preprocess));
    return MakeSample(file.name, std::move(input), file.label, index, labels_, options_);
  }

 private:
  std::vector<SampleFile> files_;
  Labels labels_;
  DatasetOptions options_;
};

// MNIST and CIFAR: records of `stride` bytes from `offset` on; planar pixels, perhaps after a label
// byte.
class Records : public Dataset {
 public:
  struct Form {
    int64_t count, offset, stride;
    int label_bytes, channels, height, width;
  };
  Records(std::string name, std::vector<std::byte> bytes, Form form, Labels labels,
          DatasetOptions options)
      : name_(std::move(name)),
        bytes_(std::move(bytes)),
        form_(form),
        labels_(std::move(labels)),
        options_(std::move(options)) {}
  int64_t size() const override { return form_.count; }
  Result<Sample> At(int64_t index) const override {
    const auto* record =
        reinterpret_cast<const uint8_t*>(bytes_.data()) + form_.offset + index * form_.stride;
    const uint8_t* planes = record + form_.label_bytes;
    Image image{form_.width, form_.height, form_.channels, {}};
    const size_t plane = static_cast<size_t>(form_.width) * form_.height;
    image.pixels.resize(plane * form_.channels);
    for (int c = 0; c < form_.channels; ++c) {
      for (size_t i = 0; i < plane; ++i)
        image.pixels[i * form_.channels + c] = planes[c * plane + i];
    }
    const std::string name = fmt::format("{}[{}]", name_, index);
    EVOQ_ASSIGN(Tensor input, WithContext(ToInput(image, *options_.preprocess), name));
    const auto own = form_.label_bytes ? std::optional<int64_t>(record[0]) : std::nullopt;
    return MakeSample(name, std::move(input), own, index, labels_, options_);
  }

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
  Form form_;
  Labels labels_;
  DatasetOptions options_;
};

// Samples of arrays: an array with the model's rank holds one sample per index of its first axis,
// which keeps that axis; one rank more, one that has the input's own shape; one rank less is one
// sample without its batch axis.
class Arrays : public Dataset {
 public:
  Arrays(Labels labels, DatasetOptions options)
      : labels_(std::move(labels)), options_(std::move(options)) {}

  Status Add(const std::string& name, Tensor array, std::optional<int64_t> label = {}) {
    const int rank = array.shape().rank();
    const int wanted = static_cast<int>(options_.input_sizes.size());
    const bool single = wanted > 0 && rank == wanted - 1, whole = wanted > 0 && rank == wanted + 1;
    if (!single && !whole && (rank == 0 || (wanted > 0 && rank != wanted))) {
      return InvalidInput("{}: {}, expected rank {} ({} for one sample, {} for whole inputs)", name,
                          array.type().ToString(), wanted, wanted - 1, wanted + 1);
    }
    const int64_t count = single ? 1 : array.sizes()[0];
    if (count > 0 && array.elements() == 0)
      return InvalidInput("{}: {}, samples of no elements", name, array.type().ToString());
    if (count == 0) return {};
    arrays_.push_back({name, std::move(array), single, whole, size_, label});
    size_ += count;
    return {};
  }

  int64_t size() const override { return size_; }
  Result<Sample> At(int64_t index) const override {
    // The last array that begins at or before the sample.
    const Array& source =
        *std::prev(std::upper_bound(arrays_.begin(), arrays_.end(), index,
                                    [](int64_t i, const Array& array) { return i < array.first; }));
    const int64_t row = index - source.first;
    const bool only = source.single || source.values.sizes()[0] == 1;
    std::vector<int64_t> sizes = source.values.sizes();
    if (source.single) {
      sizes.insert(sizes.begin(), 1);
    } else if (source.whole) {
      sizes.erase(sizes.begin());
    } else {
      sizes[0] = 1;
    }
    Tensor input = Tensor::Allocate(TensorType(source.values.dtype(), Shape(sizes)));
    std::memcpy(input.mutable_raw(), source.values.raw() + row * input.bytes(), input.bytes());
    NormalizeBools(input);
    const std::string name = only ? source.name : fmt::format("{}[{}]", source.name, row);
    return MakeSample(name, std::move(input), source.label, index, labels_, options_);
  }

 private:
  struct Array {
    std::string name;
    Tensor values;
    bool single, whole;
    int64_t first;  // of its samples
    std::optional<int64_t> label;
  };

  std::vector<Array> arrays_;  // none without samples
  int64_t size_ = 0;
  Labels labels_;
  DatasetOptions options_;
};

using DatasetPtr = std::unique_ptr<Dataset>;

Status NeedPreprocess(const std::string& path, const DatasetOptions& options) {
  if (options.preprocess) return {};
  return Fail(ErrorCode::kUsage,
              "{}: images need a preprocess file, which says how pixels become the model's input",
              path);
}

Result<DatasetPtr> OpenNpy(const std::vector<SampleFile>& files, Labels labels,
                           const DatasetOptions& options) {
  auto arrays = std::make_unique<Arrays>(std::move(labels), options);
  for (const auto& [path, name, label] : files) {
    EVOQ_ASSIGN(auto file, MappedFile::Open(path));
    EVOQ_ASSIGN(const NpyHeader header, WithContext(ParseNpyHeader(file->bytes()), path));
    // In place unless the order of the elements must change; a sample's bools are normalized when
    // it is copied.
    Tensor array = Tensor::View(header.type, file->bytes().data() + header.data_offset, file);
    if (header.fortran_order) {
      EVOQ_ASSIGN(array, WithContext(ParseNpy(file->bytes()), path));
    }
    EVOQ_TRY(arrays->Add(name, std::move(array), label));
  }
  return arrays;
}

// The array of the samples' own name, or of a usual one.
std::optional<Tensor> SamplesIn(const std::map<std::string, Tensor>& npz,
                                const DatasetOptions& options) {
  static constexpr const char* kSampleArrays[] = {"x",       "input", "inputs", "images",
                                                  "samples", "data",  "x_test", "arr_0"};
  std::vector<std::string> names = {options.input_name};
  if (options.targets) {
    names.insert(names.end(), std::begin(kTargetArrays), std::end(kTargetArrays));
  } else {
    names.insert(names.end(), std::begin(kSampleArrays), std::end(kSampleArrays));
  }
  for (const std::string& name : names) {
    if (const auto found = npz.find(name); found != npz.end() && !name.empty())
      return found->second;
  }
  return std::nullopt;
}

// The samples are the only array, or the one of a usual name; labels may stand beside them.
Result<DatasetPtr> OpenNpz(const std::string& path, Labels labels, const DatasetOptions& options) {
  EVOQ_ASSIGN(auto npz, ReadNpz(path));
  std::string names;
  for (const auto& [name, array] : npz) names += (names.empty() ? "" : ", ") + name;
  std::optional<Tensor> samples = SamplesIn(npz, options);
  for (const char* name : kLabelArrays) {
    if (!npz.count(name) || name == options.input_name || options.targets) continue;
    if (labels.path.empty() && HoldsLabels(npz[name])) {
      EVOQ_ASSIGN(labels.by_index, WithContext(ToInt64s(npz[name]), path + ": " + name));
      labels.path = path;
    }
    npz.erase(name);
  }
  if (!samples && npz.size() == 1) samples = npz.begin()->second;
  if (!samples)
    return InvalidInput(
        "{}: arrays {}, expected one, or one named {}", path, Shorten(names),
        options.targets ? "targets, target, y or outputs" : "x, input, images, samples or data");
  auto arrays = std::make_unique<Arrays>(labels, options);
  EVOQ_TRY(arrays->Add(BaseName(path), std::move(*samples)));
  EVOQ_TRY(labels.CheckCount(arrays->size(), arrays->size()));
  return arrays;
}

Result<DatasetPtr> OpenIdx(const std::string& path, Labels labels, const DatasetOptions& options) {
  EVOQ_TRY(NeedPreprocess(path, options));
  EVOQ_ASSIGN(IdxArray array, ReadIdx(path));
  constexpr int64_t kMaxSide = 1 << 14;
  if (array.sizes.size() != 3 || array.sizes[1] < 1 || array.sizes[2] < 1 ||
      array.sizes[1] > kMaxSide || array.sizes[2] > kMaxSide) {
    return InvalidInput("{}: idx sizes {}, expected [samples, height, width]", path,
                        BracketedBriefly<int64_t>(array.sizes));
  }
  const int height = static_cast<int>(array.sizes[1]), width = static_cast<int>(array.sizes[2]);
  const Records::Form form{
      array.sizes[0], static_cast<int64_t>(array.offset), int64_t{height} * width, 0, 1, height,
      width};
  return std::make_unique<Records>(BaseName(path), std::move(array.bytes), form, std::move(labels),
                                   options);
}

Result<DatasetPtr> OpenCifar(const std::string& path, Labels labels,
                             const DatasetOptions& options) {
  EVOQ_TRY(NeedPreprocess(path, options));
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  const auto bytes = file->bytes();
  if (bytes.size() % kCifarRecord != 0) {
    return InvalidInput(
        "{}: {} bytes, expected a multiple of {} (CIFAR-10: label, 32 x 32 x 3 pixels)", path,
        bytes.size(), kCifarRecord);
  }
  const Records::Form form{static_cast<int64_t>(bytes.size() / kCifarRecord),
                           0,
                           kCifarRecord,
                           1,
                           3,
                           kCifarSide,
                           kCifarSide};
  return std::make_unique<Records>(BaseName(path),
                                   std::vector<std::byte>(bytes.begin(), bytes.end()), form,
                                   std::move(labels), options);
}

// Of a folder's files those that hold samples, by kind.
struct FoundFiles {
  std::vector<SampleFile> images, arrays;

  void Add(SampleFile file) {
    if (IsImageName(file.path))
      images.push_back(std::move(file));
    else if (LowerExtension(file.path) == ".npy")
      arrays.push_back(std::move(file));
  }
  bool empty() const { return images.empty() && arrays.empty(); }
};

// The folders in `path` in the order of their names, which are their classes.
Result<std::vector<std::string>> ClassesOf(const std::string& path) {
  EVOQ_ASSIGN(std::vector<std::string> names, ListFolders(path));
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

// The files in the folders of `path`, at any depth.
Status FindBelow(const std::string& path, bool labelled, FoundFiles& found) {
  EVOQ_ASSIGN(const std::vector<std::string> classes, ClassesOf(path));
  for (size_t i = 0; i < classes.size(); ++i) {
    EVOQ_ASSIGN(const std::vector<std::string> files, ListFilesBelow(path + "/" + classes[i]));
    for (const std::string& name : files) {
      SampleFile file(path + "/" + classes[i] + "/" + name);
      file.name = classes[i] + "/" + name;
      if (labelled) file.label = static_cast<int64_t>(i);
      found.Add(std::move(file));
    }
  }
  return {};
}

Result<DatasetPtr> OpenFolder(const std::string& path, Labels labels,
                              const DatasetOptions& options) {
  EVOQ_ASSIGN(const std::vector<std::string> files, ListFiles(path));
  const bool labelled = options.labels == kLabelsByFolder;
  FoundFiles found;
  for (const std::string& file : files) found.Add(SampleFile(file));
  if (labelled && !found.empty())
    return InvalidInput(
        "{}: labels \"{}\" need a folder for each class, but there are samples "
        "beside them, such as {}",
        path, kLabelsByFolder, (found.images.empty() ? found.arrays : found.images)[0].name);
  if (found.empty()) EVOQ_TRY(FindBelow(path, labelled, found));
  if (!found.images.empty() && !found.arrays.empty()) {
    return InvalidInput("{}: {} images and {} .npy files, expected one kind", path,
                        found.images.size(), found.arrays.size());
  }
  if (!found.arrays.empty()) return OpenNpy(found.arrays, std::move(labels), options);
  if (found.empty())
    return InvalidInput("{}: no sample found, looked for *{} and *.npy, in its folders too", path,
                        fmt::join(kImageExtensions, ", *"));
  EVOQ_TRY(NeedPreprocess(path, options));
  return std::make_unique<ImageFiles>(std::move(found.images), std::move(labels), options);
}

Result<DatasetPtr> OpenFile(const std::string& path, Labels labels, const DatasetOptions& options) {
  const std::string extension = LowerExtension(path);
  if (IsImageName(path)) {
    EVOQ_TRY(NeedPreprocess(path, options));
    return std::make_unique<ImageFiles>(std::vector{SampleFile(path)}, std::move(labels), options);
  }
  if (extension == ".npy") return OpenNpy({SampleFile(path)}, std::move(labels), options);
  if (extension == ".npz") return OpenNpz(path, std::move(labels), options);
  if (BaseName(path).find("idx") != std::string::npos)
    return OpenIdx(path, std::move(labels), options);
  if (extension == ".bin") return OpenCifar(path, std::move(labels), options);
  return InvalidInput(
      "{}: unknown kind of data, expected an image ({}), .npy, .npz, MNIST idx (a name with "
      "\"idx\", also .gz) or CIFAR-10 .bin",
      path, fmt::join(kImageExtensions, ", "));
}

}  // namespace

Result<std::unique_ptr<Dataset>> OpenDataset(const std::string& path,
                                             const DatasetOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Fail(ErrorCode::kNotFound, "{}: no such file or folder", path);
  const bool folder = std::filesystem::is_directory(path, error),
             by_folder = options.labels == kLabelsByFolder;
  if (by_folder && !folder)
    return Fail(ErrorCode::kUsage, "{}: labels \"{}\" need data in a folder for each class", path,
                kLabelsByFolder);
  EVOQ_ASSIGN(Labels labels, LoadLabels(by_folder ? "" : options.labels));
  DatasetOptions used = options;
  // A model that takes integers gets pixels as integers.
  if (used.preprocess && IsInteger(used.input_dtype)) used.preprocess->dtype = used.input_dtype;
  if (used.preprocess && used.preprocess->dtype != used.input_dtype && !IsFloat(used.input_dtype)) {
    return Fail(ErrorCode::kUsage, "{}: preprocessing gives {}, but the model's input is {}", path,
                DTypeName(used.preprocess->dtype), DTypeName(used.input_dtype));
  }
  EVOQ_ASSIGN(DatasetPtr dataset,
              folder ? OpenFolder(path, labels, used) : OpenFile(path, labels, used));
  if (dataset->size() == 0) return InvalidInput("{}: no sample found: the data is empty", path);
  EVOQ_TRY(labels.CheckCount(dataset->size(), dataset->size()));
  return dataset;
}

}  // namespace evoq
