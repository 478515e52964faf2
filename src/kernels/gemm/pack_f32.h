// Packed float32 weights, B of gemm_float.h: panels of 16 output columns, the last one filled up
// with zeros.
//   k1n16-matmul-f32         [K, N]               -> [N / 16][K][16]
//   k1n16-conv-f32           [M, C / group, k...] -> [M / 16][taps][C / group][16]
//   k1n16-convtranspose-f32  [C, M / group, k...] -> [(M / group) / 16][taps][C][16]
// with the taps in row-major order of k...
#pragma once

#include <memory>
#include <string_view>

#include "base/aligned.h"
#include "kernels/gemm/gemm_float_tile.h"
#include "kernels/kernel.h"
#include "tensor/tensor.h"

namespace evoq {

inline constexpr char kMatMulLayoutF32[] = "k1n16-matmul-f32";
inline constexpr char kConvLayoutF32[] = "k1n16-conv-f32";
inline constexpr char kConvTransposeLayoutF32[] = "k1n16-convtranspose-f32";

// Where B[t, k, n] lies in a plain tensor: data[n * column_stride + t * tap_stride + k *
// depth_stride].
struct PanelShapeF32 {
  int64_t columns = 0, taps = 0, depth = 0;
  int64_t column_stride = 0, tap_stride = 0, depth_stride = 0;

  int64_t panels() const { return (columns + 15) / 16; }
  int64_t panel_stride() const { return taps * depth * 16; }
  int64_t floats() const { return panels() * panel_stride(); }
};

// The shape behind one of the layouts above. Errors: kInvalidInput for a rank or a size that cannot
// have it.
Result<PanelShapeF32> PanelShapeOf(std::string_view layout, const TensorType& type);

// Packs panels [begin, end).
void PackPanelsF32(const PanelShapeF32& shape, const float* plain, int64_t begin, int64_t end,
                   float* packed);

// The panels of a constant: as they are when it is packed, else packed here (dequantized first
// where quantized) into `owned`, which others may share (kernels/derived.h). The pointer lives as
// long as the constant and `owned`.
Result<const float*> PanelsOfConstant(const Tensor& constant, const char* layout,
                                      std::shared_ptr<const AlignedBuffer>& owned);

// The panels of a kernel's weight: a constant's, or those of one that is computed, which is plain
// float32 and packed into scratch at each run.
class WeightPanelsF32 {
 public:
  // Errors: as PanelsOfConstant's.
  static Result<WeightPanelsF32> Of(const KernelCall& call, size_t input, const char* layout);

  const float* constant() const { return constant_; }  // null: computed
  bool widened() const { return owned_ != nullptr; }   // from fewer bits
  size_t scratch_bytes() const {
    return constant_ != nullptr ? 0 : static_cast<size_t>(shape_.floats()) * sizeof(float);
  }
  const float* Get(const void* weight, std::byte* scratch, ThreadPool& pool) const;

 private:
  const float* constant_ = nullptr;
  std::shared_ptr<const AlignedBuffer> owned_;
  PanelShapeF32 shape_;
};

// KernelDef::pack of these kernels: the weight packed when it is plain float32, an undefined tensor
// when it is stored in fewer bits, which then stays small in the file and is dequantized at bind.
Result<Tensor> PackWeightF32(const char* layout, const Tensor* weight);

}  // namespace evoq
