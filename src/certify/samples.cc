#include "certify/samples.h"

#include <algorithm>

#include "program/container.h"
#include "reference/reference.h"

namespace evoq {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

// xorshift64: the same content everywhere.
class Random {
 public:
  uint32_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }

 private:
  uint64_t state_ = 88172645463325252ull;
};

// Other types than float32 and bytes stay 0: valid as an index and as the bits of a float.
void Fill(Tensor& t, Random& random) {
  if (t.dtype() == DType::kFloat32) {
    for (int64_t i = 0; i < t.elements(); ++i)
      t.mutable_data<float>()[i] = static_cast<float>(random.Next() >> 8) * 0x1p-23f - 1.0f;
  } else if (DTypeBits(t.dtype()) == 8 && t.dtype() != DType::kBool) {
    for (size_t i = 0; i < t.bytes(); ++i)
      t.mutable_raw()[i] = static_cast<std::byte>(random.Next());
  }
}

// How many samples of `bytes` each are kept at most: one at least.
int64_t FittingSamples(int64_t bytes) {
  return std::max<int64_t>(1, kMostBytes / std::max<int64_t>(1, bytes));
}

}  // namespace

int64_t Samples::labelled() const {
  return std::count_if(labels.begin(), labels.end(),
                       [](const auto& label) { return label.has_value(); });
}

uint32_t Samples::Crc() const {
  std::vector<uint32_t> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Tensor& t : inputs[i]) parts.push_back(Crc32c({t.raw(), t.bytes()}));
    parts.push_back(static_cast<uint32_t>(labels[i].value_or(-1)));
  }
  return Crc32c(std::as_bytes(std::span(parts)));
}

Result<Samples> LoadSamples(const Dataset& data, int64_t limit) {
  Samples samples;
  if (data.size() == 0) return samples;
  EVOQ_ASSIGN(const Sample first, data.At(0));
  int64_t bytes = 0;
  for (const Tensor& input : first.inputs) bytes += static_cast<int64_t>(input.bytes());
  const int64_t count =
      std::min({limit > 0 ? limit : data.size(), data.size(), FittingSamples(bytes)});
  for (int64_t i = 0; i < count; ++i) {
    EVOQ_ASSIGN(Sample sample, data.At(i * data.size() / count));
    samples.inputs.push_back(std::move(sample.inputs));
    samples.labels.push_back(sample.label);
  }
  return samples;
}

Result<Samples> RandomInputs(const Graph& graph, const InputShapes& shapes, int64_t count) {
  Graph bound = graph;
  EVOQ_TRY(BindShapes(bound, shapes));
  int64_t bytes = 0;  // of one sample
  for (ValueId id : bound.inputs()) {
    const Value& input = bound.value(id);
    if (!input.type.is_tensor() || input.type.dtype == DType::kString)
      return Fail(ErrorCode::kUsage, "input {} is {}: random samples are tensors of numbers",
                  input.name, input.type.ToString());
    // Where sizes overflow, more than fit.
    bytes =
        std::min(kMostBytes, bytes + std::min(kMostBytes, input.type.bytes().value_or(kMostBytes)));
  }
  if (count > FittingSamples(bytes))
    return Fail(ErrorCode::kUsage, "{} random samples of {} bytes are more than 1 GiB", count,
                bytes);
  Samples samples;
  samples.random = count;
  Random random;
  for (int64_t n = 0; n < count; ++n) {
    std::vector<Tensor> inputs;
    for (ValueId id : bound.inputs()) {
      inputs.push_back(Tensor::Allocate(bound.value(id).type));
      Fill(inputs.back(), random);
    }
    samples.inputs.push_back(std::move(inputs));
  }
  samples.labels.resize(samples.inputs.size());
  return samples;
}

}  // namespace evoq
