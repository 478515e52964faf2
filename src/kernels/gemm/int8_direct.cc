// Convolutions whose groups have fewer than four channels (depthwise ones above all), one output
// pixel at a time.
#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"

namespace evoq {
namespace {

struct Int8Direct {
  Int8LinearSpec spec;
  Int8Rows rows;
  const Int8TileDef* isa;
  std::vector<int16_t> w;     // [tap][output channel][channel of the group]: w - w_zero
  std::vector<int32_t> bias;  // per output channel, without the term of the activations' zero point
  std::vector<int32_t> weight_sum;  // per output channel
  int64_t parts = 1;
  size_t part_bytes = 0;

  void PrepareWeights();
  void Accumulate(const uint8_t* const* x, int32_t* acc) const;
  float* RangeOf(std::byte* part) const {
    return reinterpret_cast<float*>(part + part_bytes - kRangeBytes);
  }
  void Run(const void* const* in, void* const* out, const RunContext& context) const;
};

void Int8Direct::PrepareWeights() {
  const int64_t columns = spec.geometry.out_channels, channels = spec.geometry.group_channels(),
                taps = rows.taps();
  const bool is_unsigned = spec.weights.dtype() == DType::kUint8;
  const auto* plain = reinterpret_cast<const uint8_t*>(spec.weights.raw());
  w.resize(static_cast<size_t>(taps * columns * channels));
  weight_sum.assign(static_cast<size_t>(columns), 0);
  bias = spec.bias;
  bias.resize(static_cast<size_t>(columns), 0);
  for (int64_t m = 0; m < columns; ++m) {
    const auto& zeros = spec.w_zero;
    const int32_t zero = zeros.empty()       ? 0
                         : zeros.size() == 1 ? zeros[0]
                                             : zeros[static_cast<size_t>(m)];
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < taps; ++t) {
        const uint8_t byte = plain[(m * channels + c) * taps + t];
        const int32_t value = (is_unsigned ? byte : static_cast<int8_t>(byte)) - zero;
        w[(t * columns + m) * channels + c] = static_cast<int16_t>(value);
        weight_sum[m] += value;
      }
    }
  }
}

void Int8Direct::Accumulate(const uint8_t* const* x, int32_t* acc) const {
  const int64_t columns = spec.geometry.out_channels, channels = spec.geometry.group_channels();
  const int64_t group_columns = spec.geometry.group_columns();
  if (channels == 1 && group_columns == 1)
    return isa->rows->depthwise(acc, x, w.data(), rows.taps(), columns);
  std::fill_n(acc, columns, 0);
  const int16_t* weight = w.data();
  for (int64_t t = 0; t < rows.taps(); ++t) {
    for (int64_t g = 0; g < spec.geometry.group; ++g) {
      const uint8_t* pixel = x[t] + g * channels;
      for (int64_t m = g * group_columns; m < (g + 1) * group_columns; ++m) {
        for (int64_t c = 0; c < channels; ++c) acc[m] += pixel[c] * *weight++;
      }
    }
  }
}

void Int8Direct::Run(const void* const* in, void* const* out, const RunContext& context) const {
  if (rows.count() == 0) {
    if (spec.finish.range) JoinRanges(nullptr, 0, 0, static_cast<float*>(out[1]));
    return;
  }
  const int64_t columns = spec.geometry.out_channels;
  std::byte* scratch = context.scratch;
  const int32_t zero = RunZero(spec, in);
  const Int8Rows::Input input = rows.Prepare(*isa, in[0], zero, scratch, context.pool);
  scratch += rows.scratch_bytes();
  auto* folded = reinterpret_cast<int32_t*>(scratch);
  const int32_t stored_zero = zero + (spec.x_signed ? 128 : 0);
  for (int64_t m = 0; m < columns; ++m)
    folded[m] = static_cast<int32_t>(static_cast<uint32_t>(bias[m]) -
                                     static_cast<uint32_t>(stored_zero * weight_sum[m]));
  scratch += RoundUp(4 * columns, 64);
  const float* multiplier = spec.epilogue.multiplier.data();
  if (spec.x_scale_input >= 0) {
    auto* scaled = reinterpret_cast<float*>(scratch);
    const float scale = *static_cast<const float*>(in[spec.x_scale_input]);
    for (int64_t m = 0; m < columns; ++m) scaled[m] = scale * spec.epilogue.multiplier[m];
    multiplier = scaled;
  }
  scratch += RoundUp(4 * columns, 64);

  Int8Tile tile = {};
  spec.epilogue.Fill(tile);
  tile.bias = folded;
  tile.multiplier = multiplier;
  if (!spec.epilogue.slopes.empty()) tile.slopes = spec.epilogue.slopes.data();
  if (!spec.offset.empty()) tile.offset = spec.offset.data();
  tile.y = static_cast<uint8_t*>(out[0]);
  tile.y_stride = columns * spec.epilogue.y_bytes();
  if (tile.residual_type != Int8Residual::kNone) {
    tile.residual = static_cast<const uint8_t*>(in[spec.epilogue.residual_input]);
    tile.residual_stride = columns * (tile.residual_type == Int8Residual::kFloat32 ? 4 : 1);
  }
  context.pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      auto* acc = reinterpret_cast<int32_t*>(scratch + part * part_bytes);
      auto* x =
          reinterpret_cast<const uint8_t**>(scratch + part * part_bytes + RoundUp(4 * columns, 64));
      float* range = RangeOf(scratch + part * part_bytes);
      std::fill_n(range, kRangeBytes / 4, 0.0f);
      for (int64_t row = part * rows.count() / parts; row < (part + 1) * rows.count() / parts;
           ++row) {
        rows.Pointers(*isa, input, row, 1, 1, x);
        Accumulate(x, acc);
        if (tile.output == Int8Output::kInt32) {
          auto* y = reinterpret_cast<int32_t*>(tile.y + row * tile.y_stride);
          for (int64_t m = 0; m < columns; ++m)
            y[m] = static_cast<int32_t>(static_cast<uint32_t>(acc[m]) +
                                        static_cast<uint32_t>(folded[m]));
          continue;
        }
        Int8Tile one = tile;
        one.y += row * tile.y_stride;
        if (one.residual != nullptr) one.residual += row * tile.residual_stride;
        FinishInt8Row(one, 0, acc, 0, columns);
        if (spec.finish.any()) spec.finish.Rows(one.y, 1, columns, one.y_stride, range);
      }
    }
  });
  if (spec.finish.range) JoinRanges(scratch, part_bytes, parts, static_cast<float*>(out[1]));
}

}  // namespace

bool UsesDirect(const Int8Geometry& geometry) {
  return geometry.group > 1 && geometry.group_channels() < 4;
}

Result<BoundKernel> BindInt8Direct(Int8LinearSpec spec, const BindOptions& options) {
  if (!spec.weights.layout().empty())
    return InvalidInput("weights have layout '{}', expected plain ones", spec.weights.layout());
  Int8Rows rows(spec.geometry, spec.geometry.group_channels(), spec.x_signed, false);
  const Int8Use use = {.rows = rows.count(), .depth = 1, .smallest = true};
  Int8Direct direct{std::move(spec), std::move(rows),
                    TilesFor(Int8TileFor(options.isa), use).tiles};
  direct.PrepareWeights();
  const int64_t column_bytes = RoundUp(4 * direct.spec.geometry.out_channels, 64);
  // Pieces shorter than what waking a thread costs are not worth cutting.
  const double work_ns =
      static_cast<double>(direct.rows.count()) * static_cast<double>(direct.w.size()) / 8;
  direct.parts = options.threads == 1 ? 1
                                      : std::clamp<int64_t>(static_cast<int64_t>(work_ns / 4000), 1,
                                                            4 * options.threads);
  direct.part_bytes =
      static_cast<size_t>(column_bytes + RoundUp(8 * direct.rows.taps(), 64) + kRangeBytes);
  const size_t scratch =
      direct.rows.scratch_bytes() + 2 * column_bytes + direct.parts * direct.part_bytes;
  KernelPlan plan{.code = direct.isa->name, .method = "direct"};
  return BoundKernel::Of(std::move(direct), scratch, std::move(plan));
}

}  // namespace evoq
