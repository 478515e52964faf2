#include "kernels/gemm/pack_f32.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/derived.h"
#include "kernels/gemm/gemm_float.h"
#include "kernels/layout.h"

namespace evoq {
namespace {

Result<int64_t> PackedBytes(const char* layout, const TensorType& type) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, PanelShapeOf(layout, type));
  return shape.floats() * static_cast<int64_t>(sizeof(float));
}

Result<Tensor> Pack(const char* layout, const Tensor& plain) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, PanelShapeOf(layout, plain.type()));
  if (!plain.layout().empty())
    return InvalidInput("layout {} of a tensor in layout {}", layout, plain.layout());
  std::vector<std::byte> bytes(static_cast<size_t>(shape.floats()) * sizeof(float));
  PackPanelsF32(shape, plain.data<float>(), 0, shape.panels(),
                reinterpret_cast<float*>(bytes.data()));
  return Tensor::Packed(plain.type(), layout, std::move(bytes));
}

Result<Tensor> Unpack(const char* layout, const Tensor& packed) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, PanelShapeOf(layout, packed.type()));
  if (packed.bytes() != static_cast<size_t>(shape.floats()) * sizeof(float))
    return InvalidInput("layout {} of {}: {} bytes, expected {}", layout, packed.type().ToString(),
                        packed.bytes(), shape.floats() * sizeof(float));
  Tensor plain = Tensor::Allocate(packed.type());
  float* y = plain.mutable_data<float>();
  const float* x = reinterpret_cast<const float*>(packed.raw());
  for (int64_t n = 0; n < shape.columns; ++n) {
    const float* panel = x + n / kPanelF32 * shape.panel_stride() + n % kPanelF32;
    for (int64_t t = 0; t < shape.taps; ++t) {
      for (int64_t k = 0; k < shape.depth; ++k)
        y[n * shape.column_stride + t * shape.tap_stride + k * shape.depth_stride] =
            panel[(t * shape.depth + k) * kPanelF32];
    }
  }
  return plain;
}

}  // namespace

Result<PanelShapeF32> PanelShapeOf(std::string_view layout, const TensorType& type) {
  if (type.dtype != DType::kFloat32 || !type.shape.is_static())
    return InvalidInput("layout {} of {}: expected float32 with a static shape", layout,
                        type.ToString());
  if (!type.shape.elements())
    return Fail(ErrorCode::kTooLarge, "layout {} of {}", layout, type.ToString());
  const std::vector<int64_t> s = type.shape.sizes();
  const bool matmul = layout == kMatMulLayoutF32;
  if (matmul ? s.size() != 2 : s.size() < 3)
    return InvalidInput("layout {} of {}: rank {}, expected {}", layout, type.ToString(), s.size(),
                        matmul ? "2" : "at least 3");
  PanelShapeF32 p;
  p.taps = 1;
  for (size_t i = 2; i < s.size(); ++i) p.taps *= s[i];
  if (matmul) {
    p.columns = s[1], p.depth = s[0], p.column_stride = 1, p.depth_stride = s[1];
  } else if (layout == kConvLayoutF32) {
    p.columns = s[0], p.depth = s[1], p.column_stride = s[1] * p.taps, p.depth_stride = p.taps;
  } else {
    p.columns = s[1], p.depth = s[0], p.column_stride = p.taps, p.depth_stride = s[1] * p.taps;
  }
  p.tap_stride = 1;
  // A zero size makes the others meaningless, and their product with padding may overflow.
  if (p.columns == 0 || p.taps == 0 || p.depth == 0) p.columns = p.taps = p.depth = 0;
  const int64_t sizes[] = {RoundUp(p.columns, kPanelF32), p.taps, p.depth,
                           static_cast<int64_t>(sizeof(float))};
  if (!CheckedProduct(sizes))
    return Fail(ErrorCode::kTooLarge, "layout {} of {}", layout, type.ToString());
  return p;
}

void PackPanelsF32(const PanelShapeF32& shape, const float* plain, int64_t begin, int64_t end,
                   float* packed) {
  for (int64_t panel = begin; panel < end; ++panel) {
    float* y = packed + panel * shape.panel_stride();
    const int64_t column = panel * kPanelF32,
                  columns = std::min<int64_t>(kPanelF32, shape.columns - column);
    for (int64_t t = 0; t < shape.taps; ++t) {
      const float* x = plain + column * shape.column_stride + t * shape.tap_stride;
      for (int64_t k = 0; k < shape.depth; ++k, x += shape.depth_stride, y += kPanelF32) {
        if (columns == kPanelF32 && shape.column_stride == 1) {
          std::memcpy(y, x, kPanelF32 * sizeof(float));
          continue;
        }
        for (int64_t n = 0; n < columns; ++n) y[n] = x[n * shape.column_stride];
        for (int64_t n = columns; n < kPanelF32; ++n) y[n] = 0;
      }
    }
  }
}

Result<const float*> PanelsOfConstant(const Tensor& constant, const char* layout,
                                      std::shared_ptr<const AlignedBuffer>& owned) {
  if (constant.layout() == layout) {
    EVOQ_ASSIGN(const int64_t bytes, PackedBytes(layout, constant.type()));
    if (constant.bytes() != static_cast<size_t>(bytes))
      return InvalidInput("{} in layout {}: {} bytes, expected {}", constant.type().ToString(),
                          layout, constant.bytes(), bytes);
    return reinterpret_cast<const float*>(constant.raw());
  }
  const auto pack = [&]() -> Result<AlignedBuffer> {
    EVOQ_ASSIGN(const Tensor stored, ToPlain(constant));
    EVOQ_ASSIGN(const Tensor plain, ToFloat32(stored));
    EVOQ_ASSIGN(const PanelShapeF32 shape, PanelShapeOf(layout, plain.type()));
    AlignedBuffer packed(static_cast<size_t>(shape.floats()) * sizeof(float));
    PackPanelsF32(shape, plain.data<float>(), 0, shape.panels(),
                  reinterpret_cast<float*>(packed.data()));
    return packed;
  };
  const auto made = Derive<Result<AlignedBuffer>>(constant, layout, pack);
  if (!*made) return tl::unexpected(made->error());
  owned = {made, &**made};
  return reinterpret_cast<const float*>(owned->data());
}

Result<WeightPanelsF32> WeightPanelsF32::Of(const KernelCall& call, size_t input,
                                            const char* layout) {
  WeightPanelsF32 panels;
  if (const Tensor* const constant = call.constant(input)) {
    EVOQ_ASSIGN(panels.constant_, PanelsOfConstant(*constant, layout, panels.owned_));
  } else {
    EVOQ_ASSIGN(panels.shape_, PanelShapeOf(layout, call.inputs[input]));
  }
  return panels;
}

const float* WeightPanelsF32::Get(const void* weight, std::byte* scratch, ThreadPool& pool) const {
  if (constant_ != nullptr) return constant_;
  auto* const packed = reinterpret_cast<float*>(scratch);
  pool.ParallelFor(shape_.panels(), PackGrain(shape_.panel_stride()),
                   [&](int64_t begin, int64_t end) {
                     PackPanelsF32(shape_, static_cast<const float*>(weight), begin, end, packed);
                   });
  return packed;
}

Result<Tensor> PackWeightF32(const char* layout, const Tensor* weight) {
  if (weight == nullptr || weight->type().quantized() || weight->dtype() != DType::kFloat32 ||
      !weight->layout().empty())
    return Tensor();
  return Pack(layout, *weight);
}

#define EVOQ_PANEL_LAYOUT(symbol, layout_name, index_formula)                         \
  extern const LayoutDef symbol;                                                      \
  const LayoutDef symbol = {                                                          \
      .name = layout_name,                                                            \
      .formula = index_formula,                                                       \
      .bytes = [](const TensorType& type) { return PackedBytes(layout_name, type); }, \
      .pack = [](const Tensor& plain) { return Pack(layout_name, plain); },           \
      .unpack = [](const Tensor& packed) { return Unpack(layout_name, packed); },     \
  }

EVOQ_PANEL_LAYOUT(kMatMulPanelsF32, kMatMulLayoutF32,
                  "[N/16][K][16]: b[k, n] at (n/16, k, n%16); N filled up with zeros");
EVOQ_PANEL_LAYOUT(
    kConvPanelsF32, kConvLayoutF32,
    "[M/16][taps][C/group][16]: w[m, c, t] at (m/16, t, c, m%16); M filled up with zeros");
EVOQ_PANEL_LAYOUT(
    kConvTransposePanelsF32, kConvTransposeLayoutF32,
    "[(M/group)/16][taps][C][16]: w[c, m, t] at (m/16, t, c, m%16); M/group filled up with zeros");
#undef EVOQ_PANEL_LAYOUT

}  // namespace evoq
