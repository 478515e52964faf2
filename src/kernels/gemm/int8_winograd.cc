#include "kernels/gemm/int8_winograd.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/derived.h"
#include "kernels/gemm/int8_variants.h"
#include "kernels/gemm/int8_winograd_tile.h"
#include "kernels/gemm/winograd_tiles.h"
#include "kernels/ways.h"

namespace evoq {
namespace {

constexpr int kPositions = kInt8WinogradPositions;
constexpr int64_t kChunkBytes =
    2 *
    kCpuModel.l2_share();  // of transformed input: it stays in the L2 cache while it is multiplied
constexpr int64_t kLeastChunkTiles =
    24;  // four register tiles, which share what they read of the weights
constexpr int64_t kProductBytes =
    kCpuModel.l2_share();  // of products that wait for their transform

const Int8WinogradDef* DefFor(Isa isa) { return RowFor(kInt8WinogradRows, isa).table; }

// Tiles of 2 x 2 pixels. A chunk of them is transformed into v,
// [position][tile][channel], multiplied by the weights, [position][panel][channel / 2][16][2], a
// group of panels at a time, into `product`, [position][tile][group's column], which is transformed
// into y.
struct Winograd : WinogradTiles {
  Int8LinearSpec spec;
  const Int8WinogradDef* def;
  int64_t panels = 0, group_panels = 1;
  int64_t v_row = 0, v_position = 0, product_row = 0, product_position = 0;  // strides, elements
  int64_t v_bytes = 0, slot_bytes = 0;  // scratch of one thread: v, then product
  std::shared_ptr<const AlignedBuffer> weights;
  std::vector<uint8_t> zeros;  // a pixel of zero points
  std::vector<int32_t> bias;   // per padded column
  std::vector<float> multiplier;

  void PlanChunks();
  AlignedBuffer TransformWeights() const;
  void PrepareColumns();
  void TransformTile(const uint8_t* x, int64_t tile, int16_t* v) const;
  void TransformRun(const int32_t* product, int64_t tile, int count, int64_t panel,
                    const void* const* in, uint8_t* y) const;
  void RunGroup(int64_t chunk, int64_t group, const int16_t* v, int32_t* product,
                const void* const* in, uint8_t* y) const;
  void Run(const void* const* in, void* const* out, const RunContext& context) const;
};

// How the tiles are cut for caches and threads.
void Winograd::PlanChunks() {
  const int64_t channels = spec.geometry.channels;
  CutChunks(kChunkBytes / (kPositions * channels * 2), kLeastChunkTiles);
  group_panels = std::max<int64_t>(kProductBytes / (kPositions * chunk_tiles * 64), 1);
  if (split_chunks)
    group_panels = std::min(group_panels, CeilDiv(panels * chunks, int64_t{2} * threads));
  groups = CeilDiv(panels, std::min(group_panels, panels));
  group_panels = CeilDiv(panels, groups);
  v_row = SpreadStride(channels, 2);
  v_position = SpreadStride(chunk_tiles * v_row, 2);
  product_row = 16 * group_panels;
  product_position = SpreadStride(chunk_tiles * product_row, 4);
  v_bytes = RoundUp(kPositions * v_position * 2, 64);
  slot_bytes = v_bytes + RoundUp(kPositions * product_position * 4, 64);
}

AlignedBuffer Winograd::TransformWeights() const {
  const int64_t channels = spec.geometry.channels, panel_elements = 16 * channels;
  const int64_t position_stride = panels * panel_elements, tap_stride = 16 * channels;
  AlignedBuffer transformed(static_cast<size_t>(kPositions * position_stride * 2));
  auto* u = reinterpret_cast<int16_t*>(transformed.data());
  const auto* packed = reinterpret_cast<const int8_t*>(spec.weights.raw());
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t c = 0; c < channels; c += 4)
      def->weights(packed + panel * 9 * tap_stride + 16 * c, tap_stride, position_stride,
                   u + panel * panel_elements + 16 * c);
  }
  return transformed;
}

void Winograd::PrepareColumns() {
  const auto padded = static_cast<size_t>(16 * panels);
  bias = spec.bias;
  bias.resize(padded, 0);
  multiplier = spec.epilogue.multiplier;
  multiplier.resize(padded, 0);
  std::vector<double> bounds;
  for (int64_t n = 0; n < spec.geometry.out_channels; ++n)
    bounds.push_back(255.0 * 255.0 * static_cast<double>(9 * spec.geometry.channels) +
                     std::abs(static_cast<double>(bias[n])));
  spec.epilogue.SetSmall(bounds);
  if (!spec.epilogue.slopes.empty()) spec.epilogue.slopes.resize(padded, 1);
}

void Winograd::TransformTile(const uint8_t* x, int64_t tile, int16_t* v) const {
  const Int8Geometry& g = spec.geometry;
  const int64_t line = tile / tiles_x, image = line / tiles_y;
  const int64_t top = 2 * (line % tiles_y) - g.pad[1], left = 2 * (tile % tiles_x) - g.pad[2];
  const uint8_t* pixels[16];
  for (int i = 0; i < 4; ++i) {
    const int64_t iy = top + i;
    const uint8_t* row = x + (image * g.in[1] + iy) * g.in[2] * g.channels;
    for (int j = 0; j < 4; ++j) {
      const int64_t ix = left + j;
      const bool inside = iy >= 0 && iy < g.in[1] && ix >= 0 && ix < g.in[2];
      pixels[4 * i + j] = inside ? row + ix * g.channels : zeros.data();
    }
  }
  def->input(pixels, g.channels, spec.x_signed, spec.x_zero, v_position, v);
}

// One panel of `count` tiles of one line of tiles.
void Winograd::TransformRun(const int32_t* product, int64_t tile, int count, int64_t panel,
                            const void* const* in, uint8_t* y) const {
  const Int8Geometry& g = spec.geometry;
  const int64_t line = tile / tiles_x, image = line / tiles_y;
  const int64_t top = 2 * (line % tiles_y), left = 2 * (tile % tiles_x);
  const int64_t columns = std::min<int64_t>(16, g.out_channels - 16 * panel),
                y_bytes = spec.epilogue.y_bytes();
  Int8WinogradOutput o = {};
  o.product = product;
  o.position_stride = product_position;
  o.tile_stride = product_row;
  o.tiles = count;
  o.lines = static_cast<int>(std::min<int64_t>(2, g.out[1] - top));
  o.pixels = static_cast<int>(std::min<int64_t>(2 * count, g.out[2] - left));
  Int8Tile& t = o.tile;
  spec.epilogue.Fill(t);
  t.panel_count = 1;
  t.first_mask = 0xffff;
  t.last_mask = 0xffffu >> (16 - columns);
  t.bias = bias.data() + 16 * panel;
  t.multiplier = multiplier.data() + 16 * panel;
  if (!spec.epilogue.slopes.empty()) t.slopes = spec.epilogue.slopes.data() + 16 * panel;
  const int64_t pixel = (image * g.out[1] + top) * g.out[2] + left;
  t.y_stride = g.out_channels * y_bytes;
  t.y = y + pixel * t.y_stride + 16 * panel * y_bytes;
  o.y_line = g.out[2] * t.y_stride;
  if (t.residual_type != Int8Residual::kNone) {
    const int64_t size = t.residual_type == Int8Residual::kFloat32 ? 4 : 1;
    t.residual_stride = g.out_channels * size;
    t.residual = static_cast<const uint8_t*>(in[spec.epilogue.residual_input]) +
                 pixel * t.residual_stride + 16 * panel * size;
    o.residual_line = g.out[2] * t.residual_stride;
  }
  def->output(o);
  if (!spec.finish.any()) return;
  for (int i = 0; i < o.lines; ++i)
    spec.finish.Rows(t.y + i * o.y_line, o.pixels, columns, t.y_stride, nullptr);
}

// Group `group` of the chunk's panels; v is transformed.
void Winograd::RunGroup(int64_t chunk, int64_t group, const int16_t* v, int32_t* product,
                        const void* const* in, uint8_t* y) const {
  const int64_t first = ChunkBegin(chunk), count = ChunkBegin(chunk + 1) - first,
                channels = spec.geometry.channels;
  const int64_t panel = group * group_panels, end = std::min(panels, panel + group_panels);
  const auto* u = reinterpret_cast<const int16_t*>(weights->data());
  for (int64_t position = 0; position < kPositions; ++position) {
    for (int64_t p = panel; p < end; ++p)
      def->product(v + position * v_position, v_row, count, channels,
                   u + (position * panels + p) * 16 * channels,
                   product + position * product_position + 16 * (p - panel), product_row);
  }
  for (int64_t i = 0; i < count;) {
    const int64_t tile = first + i;
    const int64_t run = std::min({count - i, tiles_x - tile % tiles_x, int64_t{kInt8WinogradRun}});
    for (int64_t p = panel; p < end; ++p)
      TransformRun(product + i * product_row + 16 * (p - panel), tile, static_cast<int>(run), p, in,
                   y);
    i += run;
  }
}

void Winograd::Run(const void* const* in, void* const* out, const RunContext& context) const {
  const auto* x = static_cast<const uint8_t*>(in[0]);
  auto* y = static_cast<uint8_t*>(out[0]);
  const auto v_of = [&](int64_t slot) {
    return reinterpret_cast<int16_t*>(context.scratch + slot * slot_bytes);
  };
  const auto product_of = [&](int64_t slot) {
    return reinterpret_cast<int32_t*>(context.scratch + slot * slot_bytes + v_bytes);
  };
  ForAll(
      context.pool,
      [&](int64_t tile, int64_t slot, int64_t i, int) {
        TransformTile(x, tile, v_of(slot) + i * v_row);
      },
      [&](int64_t chunk, int64_t group, int64_t from, int64_t to) {
        RunGroup(chunk, group, v_of(from), product_of(to), in, y);
      });
}

// Fewer products, of weights that are 3.6 times as long and transformed inputs and outputs.
bool Worthwhile(const Int8Geometry& g) {
  // In multiply-adds: what fetching a weight and transforming a value of a tile, in or out, cost.
  constexpr double kWeight = 40, kTransform = 12;
  const double channels = static_cast<double>(g.channels) * static_cast<double>(g.out_channels);
  const double values = static_cast<double>(g.channels + RoundUp(g.out_channels, 16));
  const double tiles = static_cast<double>(g.batch * CeilDiv(g.out[1], 2) * CeilDiv(g.out[2], 2));
  const double cost =
      kPositions * (channels * std::max(tiles, kWeight) + kTransform * tiles * values);
  return cost < 9 * channels * static_cast<double>(g.rows());
}

}  // namespace

bool FitsInt8Winograd(const Int8Geometry& g, Isa isa) {
  for (int i = 0; i < 3; ++i) {
    if (g.kernel[i] != (i == 0 ? 1 : 3) || g.stride[i] != 1 || g.dilation[i] != 1) return false;
  }
  return DefFor(isa) != nullptr && g.group == 1 && g.in[0] == 1 && g.out[0] == 1 && g.pad[0] == 0 &&
         g.channels > 0 && g.channels % 16 == 0 && g.channels <= kInt8WinogradChannels &&
         g.rows() > 0 && g.out_channels > 0;
}

bool TakesInt8Winograd(const Int8LinearSpec& spec, const BindOptions& options) {
  if (!FitsInt8Winograd(spec.geometry, options.isa)) return false;
  if (spec.x_zero_input >= 0 || spec.x_scale_input >= 0 || !spec.offset.empty() ||
      spec.finish.range || spec.finish.curve)
    return false;
  const int32_t stored_as_zero = spec.weights.dtype() == DType::kUint8 ? 128 : 0;
  if (spec.w_zero.empty() ? stored_as_zero != 0 : std::ranges::any_of(spec.w_zero, [&](int32_t z) {
        return z != stored_as_zero;
      }))
    return false;
  if (std::abs(spec.x_zero) > 255) return false;
  const bool free =
      ParseInt8Variant(options.variant).panels == 0 && !ParseWay(options.variant).direct;
  return options.variant == kInt8Winograd || (free && Worthwhile(spec.geometry));
}

Result<BoundKernel> BindInt8Winograd(Int8LinearSpec spec, const BindOptions& options) {
  EVOQ_ASSIGN(const K4N16 packed, CheckPackedWeights(spec.weights));
  const Int8Geometry& g = spec.geometry;
  Winograd w;
  w.def = DefFor(options.isa);
  w.SetTiles(g.batch, g.out[1], g.out[2], 2);
  w.panels = packed.panels;
  w.threads = options.threads;
  w.zeros.assign(static_cast<size_t>(g.channels), static_cast<uint8_t>(spec.x_zero));
  w.spec = std::move(spec);
  w.PlanChunks();
  w.weights = Derive<AlignedBuffer>(w.spec.weights, fmt::format("winograd_int8 {}", w.def->name),
                                    [&] { return w.TransformWeights(); });
  w.PrepareColumns();
  const auto scratch = static_cast<size_t>(w.slot_bytes * w.threads);
  KernelPlan plan{.code = w.def->name, .method = std::string(kInt8Winograd)};
  return BoundKernel::Of(std::move(w), scratch, std::move(plan));
}

}  // namespace evoq
