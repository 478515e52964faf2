#include "serve/batch.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace evoq::serve {
namespace {

bool SameButForSamples(const Tensor& a, const Tensor& b) {
  if (a.shape().rank() != b.shape().rank() || a.shape().rank() == 0) return false;
  TensorType type = a.type();
  type.shape[0] = b.shape()[0];
  return type == b.type();
}

}  // namespace

bool Joinable(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameButForSamples);
}

Tensors Joined(std::span<const Tensors* const> requests) {
  Tensors joined;
  for (size_t i = 0; i < requests[0]->size(); ++i) {
    TensorType type = (*requests[0])[i].type();
    int64_t samples = 0;
    for (const Tensors* request : requests) samples += (*request)[i].shape()[0].value;
    type.shape[0] = Dim(samples);
    Tensor all = Tensor::Allocate(type);
    std::byte* to = all.mutable_raw();
    for (const Tensors* request : requests) {
      const Tensor& one = (*request)[i];
      if (one.bytes() > 0) std::memcpy(to, one.raw(), one.bytes());
      to += one.bytes();
    }
    joined.push_back(std::move(all));
  }
  return joined;
}

bool Separable(const Tensors& outputs, int64_t total) {
  return std::all_of(outputs.begin(), outputs.end(), [&](const Tensor& t) {
    return t.type().is_tensor() && t.shape().rank() > 0 && t.sizes()[0] % total == 0;
  });
}

Tensors Samples(const Tensors& outputs, int64_t first, int64_t count, int64_t total) {
  Tensors samples;
  for (const Tensor& all : outputs) {
    TensorType type = all.type();
    type.shape[0] = Dim(type.shape[0].value / total * count);
    const auto sample_bytes = static_cast<int64_t>(all.bytes()) / total;
    samples.push_back(Tensor::View(std::move(type), all.raw() + first * sample_bytes,
                                   std::make_shared<const Tensor>(all)));
  }
  return samples;
}

bool BitEqual(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return evoq::BitEqual(x, y); });
}

}  // namespace evoq::serve
