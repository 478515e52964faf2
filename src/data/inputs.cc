#include "data/inputs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/brief.h"
#include "base/file.h"
#include "base/text.h"
#include "data/convert.h"
#include "data/gather.h"
#include "data/image_decode.h"
#include "data/labels.h"

namespace evoq {
namespace {

using DatasetPtr = std::unique_ptr<Dataset>;

std::string NamesOf(std::span<const InputSpec> inputs) {
  std::string names;
  for (const InputSpec& input : inputs) names += (names.empty() ? "" : ", ") + input.name;
  return names;
}

// An array cut into samples of one input.
struct Rows {
  Tensor array;
  std::vector<int64_t> sizes;  // of a sample
  int64_t count = 0;
  int64_t batch = 1;  // rows of a sample, of `all`; 1 too where samples are whole
  int64_t all = 0;

  // The name of sample `index`, and those of its rows.
  void Name(const std::string& name, int64_t index, Sample& sample) const {
    sample.name = count == 1 && batch == 1 ? name : fmt::format("{}[{}]", name, index);
    for (int64_t row = 0; batch > 1 && row < batch; ++row)
      sample.rows.push_back({fmt::format("{}[{}]", name, index * batch + row), std::nullopt});
    if (batch > 1) sample.name = NameOf(sample.rows);
  }
  Tensor At(int64_t row) const {
    Tensor sample = Tensor::Allocate(TensorType(array.dtype(), Shape(sizes)));
    if (sample.bytes() > 0)
      std::memcpy(sample.mutable_raw(), array.raw() + static_cast<size_t>(row) * sample.bytes(),
                  sample.bytes());
    return sample;
  }
};

// The rule of inputs.h. `place` names the array.
Result<Rows> CutIntoRows(const std::string& place, const Tensor& array, const InputSpec& input) {
  EVOQ_ASSIGN(Tensor values, WithContext(ToInputType(array, input.dtype), place));
  Rows rows{std::move(values), array.sizes(), 1};
  const int rank = static_cast<int>(rows.sizes.size()),
            wanted = static_cast<int>(input.sizes.size());
  const int64_t batch = wanted > 0 && input.sizes[0] > 0 ? input.sizes[0] : 1;
  const auto no_fit = [&] {
    return InvalidInput("{}: {}, expected samples of {} for the input {}", place,
                        array.type().ToString(), Shape(input.sizes).ToString(), input.name);
  };
  if (!input.ranked ? rank > 0 : rank == wanted && rank > 0) {
    EVOQ_TRY(CheckRows(place, rows.sizes[0], batch));
    rows.all = rows.sizes[0];
    rows.batch = batch;
    rows.count = rows.sizes[0] / batch;
    rows.sizes[0] = batch;
  } else if (input.ranked && rank == wanted + 1) {
    rows.count = rows.sizes[0];
    rows.sizes.erase(rows.sizes.begin());
  } else if (input.ranked && rank == wanted - 1 && batch == 1) {
    rows.sizes.insert(rows.sizes.begin(), 1);
  } else if (rank != wanted) {
    return no_fit();
  }
  for (int i = 0; input.ranked && i < wanted; ++i) {
    if (input.sizes[i] >= 0 && input.sizes[i] != rows.sizes[i]) return no_fit();
  }
  if (rows.count > 0 && array.elements() == 0)
    return InvalidInput("{}: {}, samples of no elements", place, array.type().ToString());
  if (rows.batch == 1) rows.all = rows.count;
  return rows;
}

// Samples of .npz files whose arrays are named as the inputs. One file is in memory at a time.
class NpzFiles : public Dataset {
 public:
  NpzFiles(std::vector<std::string> paths, std::span<const InputSpec> inputs, Labels labels,
           std::optional<Preprocess> preprocess)
      : paths_(std::move(paths)),
        inputs_(inputs.begin(), inputs.end()),
        labels_(std::move(labels)),
        preprocess_(std::move(preprocess)) {}

  Status Count() {
    for (size_t i = 0; i < paths_.size(); ++i) {
      EVOQ_ASSIGN(loaded_, Load(i));
      first_.push_back(total_);
      total_ += loaded_.count;
      const Rows& rows = loaded_.inputs[0];
      rows_ += rows.all;
      if (warning_.empty()) warning_ = LeftOver(paths_[i], rows.all, rows.batch);
    }
    return labels_.CheckCount(total_, rows_);
  }

  int64_t size() const override { return total_; }
  int64_t rows() const override { return rows_; }
  std::string warning() const override { return warning_; }
  Result<Sample> At(int64_t index) const override {
    const size_t file = static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), index) -
                                            first_.begin()) -
                        1;
    if (loaded_.file != file) {
      EVOQ_ASSIGN(loaded_, Load(file));
    }
    const int64_t row = index - first_[file];
    if (row >= loaded_.count)
      return InvalidInput("{}: {} samples, {} when it was opened", paths_[file], loaded_.count,
                          row + 1);
    Sample sample;
    loaded_.inputs[0].Name(BaseName(paths_[file]), row, sample);
    for (const Rows& rows : loaded_.inputs) sample.inputs.push_back(rows.At(row));
    const int64_t batch = loaded_.inputs[0].batch;
    if (!labels_.path.empty()) {
      EVOQ_TRY(labels_.AddTo(sample, index, total_, index * batch));
    } else if (!loaded_.labels.by_index.empty()) {
      EVOQ_TRY(loaded_.labels.AddTo(sample, row, loaded_.count, row * batch));
    }
    EVOQ_TRY(AddLabelOffset(preprocess_, sample));
    return sample;
  }

 private:
  struct Loaded {
    size_t file = 0;
    std::vector<Rows> inputs;
    Labels labels;
    int64_t count = 0;
  };

  Result<Loaded> Load(size_t file) const {
    const std::string& path = paths_[file];
    EVOQ_ASSIGN(auto npz, ReadNpz(path));
    Loaded loaded;
    loaded.file = file;
    for (const InputSpec& input : inputs_) {
      const auto found = npz.find(input.name);
      if (found == npz.end()) {
        std::string names;
        for (const auto& [name, array] : npz) names += (names.empty() ? "" : ", ") + name;
        return InvalidInput("{}: no array named {}, found {}, expected one for each input: {}",
                            path, input.name, names.empty() ? "none" : Shorten(names),
                            NamesOf(inputs_));
      }
      EVOQ_ASSIGN(Rows rows, CutIntoRows(path + ": " + input.name, found->second, input));
      if (!loaded.inputs.empty() && rows.count != loaded.count) {
        return InvalidInput("{}: {} holds {} samples, {} holds {}, expected equal numbers", path,
                            input.name, rows.count, inputs_[0].name, loaded.count);
      }
      loaded.count = rows.count;
      loaded.inputs.push_back(std::move(rows));
      npz.erase(found);
    }
    for (const char* name : kLabelArrays) {
      Labels& labels = loaded.labels;
      if (!labels_.path.empty() || !labels.by_index.empty() || !npz.count(name)) continue;
      if (!HoldsLabels(npz[name])) continue;
      labels.path = path;
      EVOQ_ASSIGN(labels.by_index, WithContext(ToInt64s(npz[name]), path + ": " + name));
      const auto count = static_cast<int64_t>(labels.by_index.size());
      if (count != loaded.count && count != loaded.inputs[0].all)
        return InvalidInput("{}: {} holds {} labels of {} samples", path, name, count,
                            loaded.count);
    }
    return loaded;
  }

  std::vector<std::string> paths_;
  std::vector<InputSpec> inputs_;
  Labels labels_;
  std::optional<Preprocess> preprocess_;
  std::vector<int64_t> first_;  // of each file, its first sample
  int64_t total_ = 0, rows_ = 0;
  std::string warning_;
  mutable Loaded loaded_;
};

// Samples of one .npy array.
class NpyRows : public Dataset {
 public:
  NpyRows(std::string name, Rows rows) : name_(std::move(name)), rows_(std::move(rows)) {}
  int64_t size() const override { return rows_.count; }
  int64_t rows() const override { return rows_.all; }
  std::string warning() const override { return LeftOver(name_, rows_.all, rows_.batch); }
  Result<Sample> At(int64_t index) const override {
    Sample sample;
    rows_.Name(name_, index, sample);
    sample.inputs.push_back(rows_.At(index));
    return sample;
  }

 private:
  std::string name_;
  Rows rows_;
};

// A data set for each input, side by side.
class SideBySide : public Dataset {
 public:
  SideBySide(std::vector<DatasetPtr> parts, Labels labels, std::optional<Preprocess> preprocess)
      : parts_(std::move(parts)), labels_(std::move(labels)), preprocess_(std::move(preprocess)) {}
  int64_t size() const override { return parts_[0]->size(); }
  int64_t rows() const override { return parts_[0]->rows(); }
  std::string warning() const override { return parts_[0]->warning(); }
  Result<Sample> At(int64_t index) const override {
    Sample sample;
    for (const DatasetPtr& part : parts_) {
      EVOQ_ASSIGN(Sample one, part->At(index));
      if (sample.inputs.empty()) sample.name = one.name, sample.rows = one.rows;
      if (!sample.label) sample.label = one.label;
      sample.inputs.push_back(std::move(one.inputs[0]));
    }
    if (labels_.path.empty()) return sample;
    EVOQ_TRY(labels_.AddTo(sample, index, size(), index * sample.row_count()));
    EVOQ_TRY(AddLabelOffset(preprocess_, sample));
    return sample;
  }

 private:
  std::vector<DatasetPtr> parts_;
  Labels labels_;
  std::optional<Preprocess> preprocess_;
};

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// "NAME=PATH" -> the input's index. Names may hold '=': the longest that fits counts. A path that
// is there is a path.
std::optional<size_t> NamedInput(const std::string& source, std::span<const InputSpec> inputs) {
  std::optional<size_t> named;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (source.starts_with(inputs[i].name + "=") &&
        (!named || inputs[i].name.size() > inputs[*named].name.size()))
      named = i;
  }
  if (named && Exists(source) && !Exists(source.substr(inputs[*named].name.size() + 1)))
    return std::nullopt;
  return named;
}

DatasetOptions OptionsFor(const InputSpec& input, const DatasetOptions& options) {
  DatasetOptions own = options;
  own.input_sizes = input.ranked ? input.sizes : std::vector<int64_t>();
  own.input_dtype = input.dtype;
  own.input_name = input.name;
  return own;
}

// Gathered into the batch that the input fixes.
Result<DatasetPtr> OpenRows(const std::string& path, const InputSpec& input,
                            const DatasetOptions& own) {
  EVOQ_ASSIGN(DatasetPtr rows, OpenDataset(path, own));
  const bool fixed = input.ranked && !input.sizes.empty();
  return GatherRows(std::move(rows), fixed ? input.sizes[0] : 1, path);
}

Result<DatasetPtr> OpenOne(const std::string& path, const InputSpec& input,
                           const DatasetOptions& options) {
  if (LowerExtension(path) != ".npy" || IsFolder(path)) {
    DatasetOptions own = OptionsFor(input, options);
    own.labels.clear();
    return OpenRows(path, input, own);
  }
  EVOQ_ASSIGN(const Tensor array, ReadNpy(path));
  EVOQ_ASSIGN(Rows rows, CutIntoRows(path, array, input));
  return std::make_unique<NpyRows>(BaseName(path), std::move(rows));
}

Result<DatasetPtr> OpenNamed(std::span<const std::string> sources,
                             std::span<const InputSpec> inputs, const DatasetOptions& options) {
  std::vector<std::string> paths(inputs.size());
  for (const std::string& source : sources) {
    const auto input = NamedInput(source, inputs);
    if (!input)
      return Fail(ErrorCode::kUsage, "{}: expected NAME=FILE with one of the model's inputs: {}",
                  source, NamesOf(inputs));
    if (!paths[*input].empty())
      return Fail(ErrorCode::kUsage, "{}: the input {} has its data already: {}", source,
                  inputs[*input].name, paths[*input]);
    paths[*input] = source.substr(inputs[*input].name.size() + 1);
    if (paths[*input].empty()) return Fail(ErrorCode::kUsage, "{}: expected NAME=FILE", source);
  }
  std::vector<DatasetPtr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (paths[i].empty())
      return Fail(ErrorCode::kUsage, "no data for the input {}: expected {}=FILE beside the others",
                  inputs[i].name, inputs[i].name);
    EVOQ_ASSIGN(DatasetPtr part, OpenOne(paths[i], inputs[i], options));
    if (!parts.empty() && part->size() != parts[0]->size()) {
      return InvalidInput("{}: {} samples for the input {}, {} for {}, expected equal numbers",
                          paths[i], part->size(), inputs[i].name, parts[0]->size(), inputs[0].name);
    }
    parts.push_back(std::move(part));
  }
  EVOQ_ASSIGN(Labels labels, LoadLabels(options.labels));
  EVOQ_TRY(labels.CheckCount(parts[0]->size(), parts[0]->rows()));
  return std::make_unique<SideBySide>(std::move(parts), std::move(labels), options.preprocess);
}

// Whether a folder holds samples of one input each.
bool HoldsSingles(const std::string& path) {
  const auto files = ListFiles(path);
  if (!files) return false;
  return std::any_of(files->begin(), files->end(), [](const std::string& file) {
    return LowerExtension(file) == ".npy" || IsImageName(file);
  });
}

// The .npz files of a folder, or the one that the path names.
Result<std::vector<std::string>> NpzPaths(const std::string& path) {
  if (!IsFolder(path))
    return LowerExtension(path) == ".npz" ? std::vector<std::string>{path}
                                          : std::vector<std::string>();
  EVOQ_ASSIGN(std::vector<std::string> files, ListFiles(path));
  std::erase_if(files, [](const std::string& file) { return LowerExtension(file) != ".npz"; });
  return files;
}

}  // namespace

Status CheckFits(const std::string& file, const Tensor& content, const std::string& input,
                 const Shape& wanted) {
  const Shape& shape = content.shape();
  bool fits = !wanted.ranked() || shape.rank() == wanted.rank();
  for (int i = 0; fits && i < wanted.rank(); ++i)
    fits = !wanted[i].known() || shape[i].value == wanted[i].value;
  if (fits) return {};
  return InvalidInput("{}: {}, expected {} for input {}", file, content.type().ToString(),
                      wanted.ToString(), input);
}

Result<DatasetPtr> OpenInputs(std::span<const std::string> sources,
                              std::span<const InputSpec> inputs, const DatasetOptions& options) {
  if (inputs.empty()) return Unsupported("the model has no input that data could be for");
  if (sources.empty()) return Fail(ErrorCode::kUsage, "no data was named");
  const auto named = [&](const std::string& source) {
    return NamedInput(source, inputs).has_value();
  };
  DatasetPtr data;
  if (std::any_of(sources.begin(), sources.end(), named)) {
    EVOQ_ASSIGN(data, OpenNamed(sources, inputs, options));
  } else {
    const std::string& path = sources[0];
    const bool single = sources.size() == 1;
    if (single && !Exists(path))
      return Fail(ErrorCode::kNotFound, "{}: no such file or folder", path);
    EVOQ_ASSIGN(std::vector<std::string> npz, single ? NpzPaths(path) : std::vector<std::string>());
    if (single && inputs.size() == 1 && (npz.empty() || !IsFolder(path) || HoldsSingles(path)))
      return OpenRows(path, inputs[0], OptionsFor(inputs[0], options));
    if (npz.empty()) {
      return Fail(ErrorCode::kUsage,
                  "{}: the model has {} input{} ({}): expected an .npz whose arrays are named as "
                  "the inputs, a folder of such files, "
                  "or NAME=FILE for each input, the option repeated",
                  path, inputs.size(), inputs.size() == 1 ? "" : "s", NamesOf(inputs));
    }
    EVOQ_ASSIGN(Labels labels, LoadLabels(options.labels));
    auto files =
        std::make_unique<NpzFiles>(std::move(npz), inputs, std::move(labels), options.preprocess);
    EVOQ_TRY(files->Count());
    data = std::move(files);
  }
  if (data->size() == 0) return InvalidInput("{}: no sample found: the data is empty", sources[0]);
  return data;
}

}  // namespace evoq
