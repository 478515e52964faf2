#include "certify/energy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace evoq {
namespace {

Energy OfNumbers(const Tensor& reference, const Tensor& model) {
  Energy e;
  const float *r = reference.data<float>(), *m = model.data<float>();
  for (int64_t i = 0; i < reference.elements(); ++i) {
    const double a = r[i], b = m[i];
    if (std::isfinite(a)) e.signal += a * a;
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double d = a - b;
    e.noise += std::isfinite(d) ? d * d : std::numeric_limits<double>::infinity();
  }
  return e;
}

Energy WhollyWrong(double signal) { return {signal, std::max(signal, 1.0)}; }

Energy OfElements(const Tensor& reference, const Tensor& model) {
  const double elements = static_cast<double>(reference.elements());
  Energy e{elements, 0};
  if (reference.dtype() == DType::kString) {
    for (int64_t i = 0; i < reference.elements(); ++i)
      e.noise += reference.data<std::string>()[i] != model.data<std::string>()[i];
    return e;
  }
  const auto a = ToInt64s(reference), b = ToInt64s(model);
  if (!a || !b) return WhollyWrong(elements);
  for (size_t i = 0; i < a->size(); ++i) e.noise += (*a)[i] != (*b)[i];
  return e;
}

}  // namespace

int64_t RowsOf(const Tensor& output, int64_t rows) {
  const bool has = output.type().is_tensor() && output.shape().rank() > 0;
  return has && output.sizes()[0] == rows ? rows : 1;
}

Energy EnergyOf(const Tensor& reference, const Tensor& model) {
  const bool tensors = reference.type().is_tensor() && model.type().is_tensor();
  const auto is_real = [](const Tensor& t) { return IsFloat(t.dtype()) || t.type().quantized(); };
  const bool real = tensors && is_real(reference);
  if (real) {
    const auto r = ToFloat32(reference), m = ToFloat32(model);
    if (r && m && is_real(model) && r->elements() == m->elements()) return OfNumbers(*r, *m);
    return WhollyWrong(r ? OfNumbers(*r, *r).signal : 1);
  }
  if (!tensors || reference.dtype() != model.dtype() || reference.elements() != model.elements()) {
    if (BitEqual(reference, model)) return {1, 0};
    return WhollyWrong(tensors ? static_cast<double>(reference.elements()) : 1);
  }
  return OfElements(reference, model);
}

int64_t ClassOf(const Tensor& output) { return ClassesOf(output, 1)[0]; }

std::vector<int64_t> ClassesOf(const Tensor& output, int64_t rows) {
  if (!output.type().is_tensor()) return {-1};
  const int64_t parts = RowsOf(output, rows);
  std::vector<int64_t> classes(static_cast<size_t>(parts), -1);
  const auto real = ToFloat32(output);
  if (!real || real->elements() == 0) return classes;
  const auto size = static_cast<size_t>(real->elements() / parts);
  for (size_t i = 0; i < classes.size(); ++i) {
    const std::span<const float> values = real->values<float>().subspan(i * size, size);
    if (std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); })) continue;
    classes[i] = std::max_element(values.begin(), values.end()) - values.begin();
  }
  return classes;
}

}  // namespace evoq
