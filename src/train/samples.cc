#include "train/samples.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/file.h"
#include "base/xorshift.h"

namespace evoq {
namespace {

constexpr int64_t kToldEvery = 512;  // samples

Status Append(const Sample& sample, LabelledSamples& all) {
  if (!sample.label)
    return InvalidInput("{}: no label; training takes labelled samples (--labels FILE)",
                        sample.name);
  if (*sample.label < 0)
    return InvalidInput("{}: label {}, expected a class from 0 on", sample.name, *sample.label);
  if (all.labels.empty()) {
    all.inputs.resize(sample.inputs.size());
    for (const Tensor& input : sample.inputs) {
      std::vector<int64_t> sizes = input.sizes();
      if (!sizes.empty()) sizes.erase(sizes.begin());
      all.sizes.push_back(std::move(sizes));
    }
  }
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    EVOQ_ASSIGN(const Tensor real, WithContext(ToFloat32(sample.inputs[i]), sample.name));
    std::vector<int64_t> sizes = real.sizes();
    if (!sizes.empty()) sizes.erase(sizes.begin());
    if (sizes != all.sizes[i])
      return InvalidInput("{}: a sample of {}, expected {} as the first", sample.name,
                          Shape(sizes).ToString(), Shape(all.sizes[i]).ToString());
    const float* const values = real.data<float>();
    all.inputs[i].insert(all.inputs[i].end(), values, values + real.elements());
  }
  all.labels.push_back(*sample.label);
  return {};
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

Result<LabelledSamples> ReadSamples(const Dataset& data, int64_t limit,
                                    const OnProgress& progress) {
  const int64_t count = limit > 0 ? std::min(limit, data.size()) : data.size();
  LabelledSamples all;
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_ASSIGN(const Sample sample, data.At(i));
    EVOQ_TRY(Append(sample, all));
    if (i == 0) {
      for (std::vector<float>& input : all.inputs)
        input.reserve(input.size() * static_cast<size_t>(count));
    }
    if (progress && i % kToldEvery == 0)
      EVOQ_TRY(progress(static_cast<double>(i) / static_cast<double>(count)));
  }
  return all;
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
  if (files.labels.empty()) files.labels = LabelsBeside(files.data);
  if (files.test_labels.empty() && !files.test.empty())
    files.test_labels = LabelsBeside(files.test);
  return files;
}

uint64_t SeedOf(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t z = seed;
  for (const uint64_t part : {a, b}) {
    z += 0x9e3779b97f4a7c15ull * (part + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
  }
  return z;
}

std::vector<int64_t> EpochOrder(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  XorShift random(SeedOf(seed, 1, static_cast<uint64_t>(epoch)));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Next() % i]);
  return order;
}

}  // namespace evoq
