#include "kernels/gemm/pack_bf16.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/gemm/pack_f32.h"
#include "kernels/layout.h"

namespace evoq {
namespace {

// The shape behind a layout: that of the float32 layout of the same weights.
Result<PanelShapeF32> ShapeOf(std::string_view layout, const TensorType& type) {
  if (type.dtype != DType::kBfloat16 || type.quantized())
    return InvalidInput("layout {} of {}: expected bfloat16", layout, type.ToString());
  const char* wide = layout == kMatMulLayoutBf16 ? kMatMulLayoutF32
                     : layout == kConvLayoutBf16 ? kConvLayoutF32
                                                 : kConvTransposeLayoutF32;
  return PanelShapeOf(wide, TensorType(DType::kFloat32, type.shape));
}

int64_t PackedElements(const PanelShapeF32& s) {
  return s.panels() * PairPanelStride(s.taps * s.depth) * 2;
}

Result<int64_t> PackedBytes(const char* layout, const TensorType& type) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, ShapeOf(layout, type));
  return PackedElements(shape) * 2;
}

// Calls visit(index in the plain tensor, index in the packed one) for every element.
template <typename Visit>
void ForEachElement(const PanelShapeF32& s, const Visit& visit) {
  const int64_t panel_elements = PairPanelStride(s.taps * s.depth) * 2;
  for (int64_t n = 0; n < s.columns; ++n) {
    const int64_t column = n / kPanelF32 * panel_elements + n % kPanelF32 * 2;
    for (int64_t t = 0; t < s.taps; ++t) {
      const int64_t from = n * s.column_stride + t * s.tap_stride;
      for (int64_t k = 0; k < s.depth; ++k) {
        const int64_t at = t * s.depth + k;
        visit(from + k * s.depth_stride, column + at / 2 * (2 * kPanelF32) + at % 2);
      }
    }
  }
}

Result<Tensor> Pack(const char* layout, const Tensor& plain) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, ShapeOf(layout, plain.type()));
  if (!plain.layout().empty())
    return InvalidInput("layout {} of a tensor in layout {}", layout, plain.layout());
  std::vector<std::byte> bytes(static_cast<size_t>(PackedElements(shape)) * 2);
  const uint16_t* x = plain.data<uint16_t>();
  auto* y = reinterpret_cast<uint16_t*>(bytes.data());
  ForEachElement(shape, [&](int64_t from, int64_t to) { y[to] = x[from]; });
  return Tensor::Packed(plain.type(), layout, std::move(bytes));
}

Result<Tensor> Unpack(const char* layout, const Tensor& packed) {
  EVOQ_ASSIGN(const PanelShapeF32 shape, ShapeOf(layout, packed.type()));
  EVOQ_TRY(PairPanelsOf(packed, layout));
  Tensor plain = Tensor::Allocate(packed.type());
  const auto* x = reinterpret_cast<const uint16_t*>(packed.raw());
  uint16_t* y = plain.mutable_data<uint16_t>();
  ForEachElement(shape, [&](int64_t to, int64_t from) { y[to] = x[from]; });
  return plain;
}

}  // namespace

void PackPairsOfMatrix(const PairLayout& layout, const uint16_t* b, int64_t stride, int64_t k,
                       int64_t n, int64_t begin, int64_t end, float* packed) {
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t column = panel * kPanelF32;
    float* y = packed + panel * PairPanelStride(k);
    const int count = static_cast<int>(std::min<int64_t>(kPanelF32, n - column));
    for (int64_t i = 0; i < k; i += 2, y += kPanelF32) {  // none of a null b
      const uint16_t* x = b + i * stride + column;
      layout.pair_rows(x, i + 1 < k ? x + stride : nullptr, count, y);
    }
  }
}

Result<const float*> PairPanelsOf(const Tensor& constant, const char* layout) {
  if (constant.layout() != layout)
    return InvalidInput("weights have layout '{}', expected {}", constant.layout(), layout);
  EVOQ_ASSIGN(const int64_t bytes, PackedBytes(layout, constant.type()));
  if (constant.bytes() != static_cast<size_t>(bytes))
    return InvalidInput("{} in layout {}: {} bytes, expected {}", constant.type().ToString(),
                        layout, constant.bytes(), bytes);
  return reinterpret_cast<const float*>(constant.raw());
}

Result<Tensor> PackWeightBf16(const char* layout, const Tensor* weight) {
  if (weight == nullptr || !weight->layout().empty()) return Tensor();
  return Pack(layout, *weight);
}

#define EVOQ_PAIR_LAYOUT(symbol, layout_name, index_formula)                          \
  extern const LayoutDef symbol;                                                      \
  const LayoutDef symbol = {                                                          \
      .name = layout_name,                                                            \
      .formula = index_formula,                                                       \
      .bytes = [](const TensorType& type) { return PackedBytes(layout_name, type); }, \
      .pack = [](const Tensor& plain) { return Pack(layout_name, plain); },           \
      .unpack = [](const Tensor& packed) { return Unpack(layout_name, packed); },     \
  }

EVOQ_PAIR_LAYOUT(
    kMatMulPairsBf16, kMatMulLayoutBf16,
    "[N/16][K/2][16][2]: b[k, n] at (n/16, k/2, n%16, k%2); K and N filled up with zeros");
EVOQ_PAIR_LAYOUT(kConvPairsBf16, kConvLayoutBf16,
                 "[M/16][K/2][16][2], k = t * C/group + c: w[m, c, t] at (m/16, k/2, m%16, k%2); K "
                 "and M filled up with zeros");
EVOQ_PAIR_LAYOUT(kConvTransposePairsBf16, kConvTransposeLayoutBf16,
                 "[(M/group)/16][K/2][16][2], k = t * C + c: w[c, m, t] at (m/16, k/2, m%16, k%2); "
                 "K and M/group filled up with zeros");
#undef EVOQ_PAIR_LAYOUT

}  // namespace evoq
