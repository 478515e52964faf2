#include "certify/samples.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/crc32c.h"
#include "llm/phase.h"
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

void Samples::Add(Sample sample) {
  inputs.push_back(std::move(sample.inputs));
  rows = sample.row_count();
  const bool of_rows = std::ranges::any_of(
      sample.rows, [](const Sample::Row& row) { return row.label.has_value(); });
  if (!of_rows) labels.push_back(sample.label);
  for (size_t i = 0; of_rows && i < sample.rows.size(); ++i) labels.push_back(sample.rows[i].label);
}

std::span<const std::optional<int64_t>> Samples::labels_of(size_t sample) const {
  const size_t each = inputs.empty() ? 1 : labels.size() / inputs.size();
  return std::span(labels).subspan(sample * each, each);
}

uint32_t Samples::Crc() const {
  std::vector<uint32_t> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Tensor& t : inputs[i]) parts.push_back(Crc32c({t.raw(), t.bytes()}));
    for (const auto& label : labels_of(i))
      parts.push_back(static_cast<uint32_t>(label.value_or(-1)));
    if (i < next.size()) parts.push_back(Crc32c(std::as_bytes(std::span(next[i]))));
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
    samples.Add(std::move(sample));
  }
  return samples;
}

Result<Samples> TextWindows(const Graph& graph, std::span<const int64_t> tokens, int64_t window,
                            int64_t limit) {
  const std::optional<CacheInputs> roles = FindCacheInputs(graph);
  if (!roles)
    return Fail(ErrorCode::kUsage, "a text is measured with a language model with caches");
  if (roles->reads())
    return Fail(ErrorCode::kUsage,
                "a model that reads one text and writes another is not measured with one text");
  if (tokens.size() < 2 || window < 1)
    return Fail(ErrorCode::kUsage, "{} tokens in windows of {}: expected at least 2, and 1",
                tokens.size(), window);
  window = std::min(window, static_cast<int64_t>(tokens.size()) - 1);
  EVOQ_ASSIGN(const PhaseInputs at, InputsOf(graph, *roles, {1, 0, window}));
  const auto input_of = [&](ValueId id) -> Tensor {
    const Value& input = graph.value(id);
    return Tensor::Allocate(TensorType(input.type.dtype, Shape(at.shapes.at(input.name))));
  };
  // Empty caches are shared by all samples.
  std::map<int, Tensor> shared;
  for (const ValueId id : graph.inputs()) {
    if (id.index == roles->tokens.index || id.index == roles->wanted.index) continue;
    shared[id.index] = input_of(id);
  }
  std::vector<int64_t> places(static_cast<size_t>(window));
  std::iota(places.begin(), places.end(), int64_t{0});
  shared[roles->wanted.index] = Tensor::FromValues<int64_t>(Shape{1, window}, places);
  const int64_t bytes = 2 * window * static_cast<int64_t>(sizeof(int64_t));  // of a sample alone
  const int64_t whole = (static_cast<int64_t>(tokens.size()) - 1) / window,
                count = std::min({limit > 0 ? limit : whole, whole, FittingSamples(bytes)});
  Samples samples;
  for (int64_t w = 0; w < count; ++w) {
    const auto begin = tokens.begin() + w * window;
    std::vector<Tensor> inputs;
    for (const ValueId id : graph.inputs())
      inputs.push_back(
          id.index == roles->tokens.index
              ? Tensor::FromValues<int64_t>(Shape{1, window}, std::vector(begin, begin + window))
              : shared.at(id.index));
    samples.inputs.push_back(std::move(inputs));
    samples.next.emplace_back(begin + 1, begin + window + 1);
  }
  samples.labels.resize(samples.inputs.size());
  EVOQ_ASSIGN(samples.timed, TimedRuns(graph));
  return samples;
}

Result<std::vector<Samples::TimedRun>> TimedRuns(const Graph& graph) {
  std::vector<Samples::TimedRun> runs;
  const std::optional<CacheInputs> roles = FindCacheInputs(graph);
  if (!roles) return runs;
  for (const PhaseDef* def : {&kDecodePhase, &kPromptPhase}) {
    EVOQ_ASSIGN(const PhaseInputs at, InputsOf(graph, *roles, def->of({}, MostTokens(graph))));
    Samples::TimedRun run{def->name, {}};
    Random random;
    for (const ValueId id : graph.inputs()) {
      const Value& input = graph.value(id);
      const auto content = at.contents.find(input.name);
      if (content != at.contents.end()) {
        run.inputs.push_back(content->second);
        continue;
      }
      run.inputs.push_back(
          Tensor::Allocate(TensorType(input.type.dtype, Shape(at.shapes.at(input.name)))));
      Fill(run.inputs.back(), random);
    }
    runs.push_back(std::move(run));
  }
  return runs;
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
