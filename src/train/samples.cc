#include "train/samples.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/xorshift.h"

namespace evoq {
namespace {

constexpr int64_t kToldEvery = 512;  // samples

std::vector<int64_t> SizesOfSample(const Tensor& tensor) {
  std::vector<int64_t> sizes = tensor.sizes();
  if (!sizes.empty()) sizes.erase(sizes.begin());
  return sizes;
}

// Adds the numbers of a sample's tensor, which has `sizes` as the first had.
Status AppendNumbers(const std::string& name, const Tensor& tensor,
                     const std::vector<int64_t>& sizes, std::vector<float>& all) {
  EVOQ_ASSIGN(const Tensor real, WithContext(ToFloat32(tensor), name));
  if (SizesOfSample(real) != sizes)
    return InvalidInput("{}: a sample of {}, expected {} as the first", name,
                        Shape(SizesOfSample(real)).ToString(), Shape(sizes).ToString());
  const float* const values = real.data<float>();
  const float* const wrong =
      std::find_if_not(values, values + real.elements(), [](float v) { return std::isfinite(v); });
  if (wrong != values + real.elements())
    return InvalidInput("{}: element {} is {}, expected a finite number", name, wrong - values,
                        *wrong);
  all.insert(all.end(), values, values + real.elements());
  return {};
}

Status AppendInputs(const Sample& sample, LabelledSamples& all) {
  if (all.inputs.empty()) {
    all.inputs.resize(sample.inputs.size());
    for (const Tensor& input : sample.inputs) all.sizes.push_back(SizesOfSample(input));
  }
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    EVOQ_TRY(AppendNumbers(sample.name, sample.inputs[i], all.sizes[i], all.inputs[i]));
  return {};
}

Status AppendLabel(const Sample& sample, LabelledSamples& all) {
  if (!sample.label)
    return InvalidInput("{}: no label; training takes labelled samples (--labels FILE)",
                        sample.name);
  if (*sample.label < 0)
    return InvalidInput("{}: label {}, expected a class from 0 on", sample.name, *sample.label);
  all.labels.push_back(*sample.label);
  return {};
}

Status AppendTarget(const Sample& sample, std::vector<int64_t>& sizes, LabelledSamples& all) {
  const Tensor& target = sample.inputs.at(0);
  if (all.target_elements == 0) {
    sizes = SizesOfSample(target);
    all.target_elements = target.elements();
    if (all.target_elements == 0)
      return InvalidInput("{}: a target of {}, expected numbers", sample.name,
                          Shape(sizes).ToString());
  }
  return AppendNumbers(sample.name, target, sizes, all.targets);
}

// The first of the names, plain or gzipped, that the folder has; "" where it has none.
std::string FirstOf(const std::string& folder, std::initializer_list<const char*> names) {
  std::error_code error;
  for (const char* name : names) {
    for (const char* end : {"", ".gz"}) {
      const std::string path = (std::filesystem::path(folder) / name).string() + end;
      if (std::filesystem::is_regular_file(path, error)) return path;
    }
  }
  return "";
}

// "t10k-images-idx3-ubyte.gz" -> "t10k-labels-idx1-ubyte.gz", plain or gzipped; "" where there is
// none.
std::string LabelsBeside(const std::string& images) {
  std::string name = BaseName(images);
  const size_t at = name.find("images");
  if (at == std::string::npos || name.find("idx3") == std::string::npos) return "";
  name.replace(at, 6, "labels");
  name.replace(name.find("idx3"), 4, "idx1");
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const std::string folder = std::filesystem::path(images).parent_path().string();
  return FirstOf(folder.empty() ? "." : folder, {name.c_str()});
}

}  // namespace

Result<LabelledSamples> ReadSamples(const Dataset& data, const Dataset* targets, int64_t limit,
                                    const OnProgress& progress) {
  const int64_t count = limit > 0 ? std::min(limit, data.size()) : data.size();
  if (targets != nullptr && targets->size() != data.size())
    return InvalidInput("{} targets of {} samples: expected one for each", targets->size(),
                        data.size());
  LabelledSamples all;
  std::vector<int64_t> target_sizes;
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_ASSIGN(const Sample sample, data.At(i));
    EVOQ_TRY(AppendInputs(sample, all));
    if (targets == nullptr) {
      EVOQ_TRY(AppendLabel(sample, all));
    } else {
      EVOQ_ASSIGN(const Sample target, targets->At(i));
      EVOQ_TRY(AppendTarget(target, target_sizes, all));
    }
    if (i == 0) {
      for (std::vector<float>& input : all.inputs)
        input.reserve(input.size() * static_cast<size_t>(count));
      all.targets.reserve(all.targets.size() * static_cast<size_t>(count));
    }
    if (progress && i % kToldEvery == 0)
      EVOQ_TRY(progress(static_cast<double>(i) / static_cast<double>(count)));
  }
  return all;
}

Tensor AsTokens(const Tensor& numbers, DType dtype) {
  Tensor out = Tensor::Allocate(TensorType(dtype, numbers.shape()));
  const float* const from = numbers.data<float>();
  if (dtype == DType::kInt64) {
    std::copy_n(from, numbers.elements(), out.mutable_data<int64_t>());
  } else {
    std::copy_n(from, numbers.elements(), out.mutable_data<int32_t>());
  }
  return out;
}

std::vector<Tensor> InputsOf(const LabelledSamples& samples, int64_t begin, int64_t end) {
  std::vector<Tensor> inputs;
  for (size_t k = 0; k < samples.inputs.size(); ++k) {
    std::vector<int64_t> sizes = samples.sizes[k];
    sizes.insert(sizes.begin(), end - begin);
    Tensor input = Tensor::Allocate(TensorType(DType::kFloat32, Shape(sizes)));
    std::copy_n(samples.sample(k, begin), input.elements(), input.mutable_data<float>());
    const bool tokens = samples.tokens != DType::kUndefined;
    inputs.push_back(tokens ? AsTokens(input, samples.tokens) : std::move(input));
  }
  return inputs;
}

Result<LabelledSamples> WindowsOf(std::span<const int64_t> tokens, int64_t context, DType dtype) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const auto count = static_cast<int64_t>(tokens.size());
  if (count <= context)
    return InvalidInput("{} tokens, expected at least {} for a window of {}", count, context + 1,
                        context);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= kMost)
      return InvalidInput("token {} is {}, expected a number from 0 to {}", i, tokens[i],
                          kMost - 1);
  }
  const int64_t windows = (count - 1) / context, used = windows * context;
  LabelledSamples out;
  out.sizes = {{context}};
  out.inputs = {std::vector<float>(tokens.begin(), tokens.begin() + used)};
  out.labels.assign(tokens.begin() + 1, tokens.begin() + used + 1);
  out.rows = context;
  out.tokens = dtype;
  return out;
}

Result<SampleFiles> FindSamples(SampleFiles files) {
  std::error_code error;
  if (std::filesystem::is_directory(files.data, error)) {
    const std::string folder = files.data;
    const std::string train =
        FirstOf(folder, {"train-images-idx3-ubyte", "train-images.idx3-ubyte"});
    const std::string test = FirstOf(folder, {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"});
    if (!train.empty()) files.data = train;
    if (!train.empty() && files.test.empty()) files.test = test;
  }
  if (files.labels.empty() && files.targets.empty()) files.labels = LabelsBeside(files.data);
  if (files.test_labels.empty() && !files.test.empty() && files.targets.empty())
    files.test_labels = LabelsBeside(files.test);
  return files;
}

std::vector<int64_t> EpochOrder(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  XorShift random(SeedOf(seed, 1, static_cast<uint64_t>(epoch)));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Next() % i]);
  return order;
}

}  // namespace evoq
