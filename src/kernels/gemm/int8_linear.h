// The engine behind conv_int8, matmul_int8, conv_integer and matmul_integer: implicit GEMM over
// k4n16 weights.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/activation.h"
#include "kernels/gemm/gemm_int8_tile.h"
#include "kernels/gemm/int8_finish.h"
#include "kernels/gemm/int8_rows.h"
#include "kernels/gemm/layout_k4n16.h"
#include "kernels/isa_table.h"
#include "kernels/kernel.h"

namespace evoq {

// What happens to the int32 sums (kernels/gemm/gemm_int8_tile.h has the formulas).
struct Int8Epilogue {
  Int8Output output = Int8Output::kInt32;
  std::vector<float> multiplier;  // per output channel; empty for kInt32
  int residual_input = -1;
  Int8Residual residual_type = Int8Residual::kNone;
  float residual_multiplier = 0;
  int32_t residual_zero = 0;
  int32_t y_zero = 0;
  bool y_signed = false, small = false, clamp = false;
  float low = 0, high = 0;
  std::vector<float> slopes;  // per output channel, of values below 0, before the clamp; empty: 1

  int64_t y_bytes() const { return output == Int8Output::kInt8 ? 1 : 4; }
  // Sets `small` where it holds for sums of at most these magnitudes, one per output channel.
  void SetSmall(std::span<const double> sum_bounds);
  // float32 outputs with this activation, behind slopes; a curve is left to Int8Finish.
  void SetFloatOutput(const Activation& activation);
  // The slope of LeakyRelu, of all channels; none for another activation.
  void SetSlope(const Activation& activation, int64_t columns);
  // The fields of `tile` that do not depend on where it is.
  void Fill(Int8Tile& tile) const;
};

// The epilogue of a quantized operator with these x scale, weight parameters (per tensor or per
// output channel), output and residual types (see KernelCall) and the node's activation. Errors:
// kInvalidInput for a multiplier that overflows.
Result<Int8Epilogue> QuantizedEpilogue(const KernelCall& call, int64_t columns);

struct Int8LinearSpec {
  Int8Geometry geometry;
  Tensor weights;  // k4n16, or plain [M, C/group, k...] for Int8Direct
  std::vector<int32_t>
      w_zero;  // of the weights as in their type: empty (all 0), one, or one per output channel
  bool x_signed = false;
  int32_t x_zero = 0;
  int x_zero_input = -1;      // >= 0: the zero point is this input's one element, read at each run
  std::vector<int32_t> bias;  // per output channel, or empty
  // >= 0: the multipliers are this input's one float32 times those of the epilogue, at each run
  int x_scale_input = -1;
  std::vector<float>
      offset;  // float32 outputs: added to the scaled sums, per output channel; or empty
  Int8Epilogue epilogue;
  Int8Finish finish;  // its range goes to output 1
};

// The family of int8 products.
#define EVOQ_INT8_TILE(set, def) {.needs = Isa::set, .table = &def},
inline constexpr IsaRow<Int8TileDef> kInt8TileRows[] = {
#include "kernels/gemm/int8_tiles.inc"
};
#undef EVOQ_INT8_TILE
inline const Int8TileDef& Int8TileFor(Isa isa) { return *RowFor(kInt8TileRows, isa).table; }

// Weights whose groups have fewer than four channels waste most of a four-channel lane: those
// convolutions take Int8Direct, which reads plain weights.
bool UsesDirect(const Int8Geometry& geometry);

// The dimensions of packed weights. Errors: kInvalidInput when layout, size or alignment are not
// those of k4n16.
Result<K4N16> CheckPackedWeights(const Tensor& weights);

// Either way. Errors: kInvalidInput when the packed weights do not have the size that their type
// says.
Result<BoundKernel> BindInt8Linear(Int8LinearSpec spec, const BindOptions& options);
Result<BoundKernel> BindInt8Direct(Int8LinearSpec spec, const BindOptions& options);

// The zero point of one run.
int32_t RunZero(const Int8LinearSpec& spec, const void* const* in);

}  // namespace evoq
