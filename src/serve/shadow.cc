#include "serve/shadow.h"

#include <algorithm>
#include <utility>

namespace evoq::serve {
namespace {

Agreement RowsOf(const Tensor& a, const Tensor& b) {
  Agreement all;
  if (a.shape().rank() == 0 || a.elements() == 0) return all;
  const int64_t size = a.sizes().back();
  const bool floats = IsFloat(a.dtype());
  if (floats && size < 2) return all;
  all.rows = static_cast<uint64_t>(a.elements() / size);
  if (!(a.type() == b.type())) return all;
  if (!floats) {
    const auto row_bytes = a.bytes() / all.rows;
    for (size_t row = 0; row < all.rows; ++row)
      all.agreed += std::equal(a.raw() + row * row_bytes, a.raw() + (row + 1) * row_bytes,
                               b.raw() + row * row_bytes);
    return all;
  }
  const Result<Tensor> x = ToFloat32(a), y = ToFloat32(b);
  if (!x || !y) return all;
  const auto place = [size](const Tensor& t, size_t row) {
    const float* const begin = t.data<float>() + row * static_cast<size_t>(size);
    return std::max_element(begin, begin + size) - begin;
  };
  for (size_t row = 0; row < all.rows; ++row) all.agreed += place(*x, row) == place(*y, row);
  return all;
}

double SampleNs(const InferenceTimes& times) {
  return static_cast<double>(times.infer_ns) / static_cast<double>(times.run_samples);
}

}  // namespace

Agreement AgreementOf(const Tensors& a, const Tensors& b) {
  Agreement all;
  for (size_t i = 0; i < a.size(); ++i) {
    const Agreement one = RowsOf(a[i], i < b.size() ? b[i] : Tensor());
    all.rows += one.rows;
    all.agreed += one.agreed;
  }
  return all;
}

void RunShadow(const Repository& repository, std::shared_ptr<ServedModel> model, Tensors inputs,
               Tensors outputs, const InferenceTimes& times) {
  const auto other = repository.Find(model->settings().shadow);
  if (!other || (*other)->queued() > 0) return model->statistics().Shadowed({.skipped = 1});
  Inference inference;
  inference.inputs = std::move(inputs);
  inference.done = [model, outputs = std::move(outputs), times](Served<Tensors> others,
                                                                const InferenceTimes& other_times) {
    if (!others) return model->statistics().Shadowed({.skipped = 1});
    const Agreement agreement = AgreementOf(outputs, *others);
    model->statistics().Shadowed({.requests = 1,
                                  .rows = agreement.rows,
                                  .agreed = agreement.agreed,
                                  .own_ns = SampleNs(times),
                                  .other_ns = SampleNs(other_times)});
  };
  if (!(*other)->Infer(inference)) model->statistics().Shadowed({.skipped = 1});
}

}  // namespace evoq::serve
