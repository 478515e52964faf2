#include "engine/padded_run.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "compile/batch.h"

namespace evoq {
namespace {

bool HasWholeBytes(const TensorType& type) { return DTypeBits(type.dtype) % 8 == 0; }

// One piece of a run: `count` samples from `first` on.
class Piece {
 public:
  Piece(const Executor& executor, int64_t batch, int64_t first, int64_t count)
      : executor_(executor), batch_(batch), first_(first), count_(count) {}

  std::vector<Tensor> Inputs(std::span<const Tensor> all) const {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < all.size(); ++i) {
      const TensorType& type = executor_.input_types()[i];
      const size_t bytes = SampleBytes(type);
      const std::byte* const from = all[i].raw() + static_cast<size_t>(first_) * bytes;
      if (count_ == batch_) {
        inputs.push_back(Tensor::View(type, from, nullptr));
        continue;
      }
      Tensor& filled = inputs.emplace_back(Tensor::Allocate(type));
      std::byte* const to = filled.mutable_raw();
      std::memcpy(to, from, static_cast<size_t>(count_) * bytes);
      for (int64_t s = count_; s < batch_; ++s)
        std::memcpy(to + static_cast<size_t>(s) * bytes,
                    from + static_cast<size_t>(count_ - 1) * bytes, bytes);
    }
    return inputs;
  }

  std::vector<Tensor> Outputs(std::span<Tensor> all) const {
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < all.size(); ++i) {
      const TensorType& type = executor_.output_types()[i];
      outputs.push_back(count_ == batch_ ? Tensor::Borrow(type, Place(all[i], type))
                                         : Tensor::Allocate(type));
    }
    return outputs;
  }

  // Brings results that are not where they belong there.
  void Keep(std::span<const Tensor> outputs, std::span<Tensor> all) const {
    if (count_ == batch_) return;
    for (size_t i = 0; i < all.size(); ++i) {
      const TensorType& type = executor_.output_types()[i];
      std::memcpy(Place(all[i], type), outputs[i].raw(),
                  static_cast<size_t>(count_) * SampleBytes(type));
    }
  }

 private:
  size_t SampleBytes(const TensorType& type) const {
    return static_cast<size_t>(*type.bytes() / batch_);
  }
  std::byte* Place(Tensor& all, const TensorType& type) const {
    return all.mutable_raw() + static_cast<size_t>(first_) * SampleBytes(type);
  }

  const Executor& executor_;
  int64_t batch_, first_, count_;
};

}  // namespace

int64_t BatchOf(const Executor& executor) {
  if (!std::ranges::all_of(executor.input_types(), HasWholeBytes) ||
      !std::ranges::all_of(executor.output_types(), HasWholeBytes))
    return 1;
  // Programs that are repeated are of one sample.
  return executor.repeats() > 1 ? executor.repeats()
                                : IndependentSamples(*executor.program().graph);
}

std::vector<TensorType> OutputTypesFor(const Executor& executor, Padding padding) {
  std::vector<TensorType> types = executor.output_types();
  for (TensorType& type : types)
    type.shape[0] = Dim(type.shape[0].value / padding.batch * padding.samples);
  return types;
}

Status RunPadded(Executor& executor, Padding padding, std::span<const Tensor> inputs,
                 std::span<Tensor> outputs, RunControl* control) {
  const auto [samples, batch] = padding;
  EVOQ_CHECK(batch > 1 && samples > 0);
  for (int64_t first = 0; first < samples; first += batch) {
    const Piece piece(executor, batch, first, std::min(batch, samples - first));
    const std::vector<Tensor> in = piece.Inputs(inputs);
    std::vector<Tensor> out = piece.Outputs(outputs);
    EVOQ_TRY(control == nullptr ? executor.Run(in, out) : executor.Run(in, out, *control));
    piece.Keep(out, outputs);
  }
  return {};
}

}  // namespace evoq
