#include "kernels/conv/winograd_f32.h"

#include <algorithm>

#include "base/aligned.h"
#include "base/math.h"
#include "kernels/conv/winograd_f32_tile.h"
#include "kernels/derived.h"
#include "kernels/gemm/gemm_bf16.h"
#include "kernels/gemm/winograd_tiles.h"

namespace evoq {
namespace {

constexpr int64_t kChunkBytes =
    2 * kCpuModel.l2_share();  // of transformed input: it stays in the L2 cache while multiplied
constexpr int64_t kLeastChunkTiles =
    28;  // two register tiles: each panel of weights is used twice at least
constexpr int64_t kProductBytes =
    kCpuModel.l2_share();               // of products that wait for their transform
constexpr int64_t kWideChannels = 128;  // of a tile's pixels that are widened at once

// A chunk of tiles is transformed into `v`, [position][tile][C], multiplied by
// the weights, [M / 16][position][C][16], a group of panels at a time, into `product`,
// [position][tile][group], which is transformed into y.
struct WinogradF32 : WinogradTiles {
  ConvShapeF32 shape;
  int m = 4, n = 6;
  int64_t v_row = 0, v_position = 0;  // strides, floats
  int64_t panels = 0, group_panels = 0;
  int64_t product_row = 0, product_position = 0;
  int64_t slot_floats = 0;  // scratch of one thread: v, product, then what widens and narrows
  ConvEnds ends;
  const GemmKernels* kernels = nullptr;
  const WinogradFnsF32* fns = nullptr;
  std::shared_ptr<const AlignedBuffer> weights;
  std::shared_ptr<AlignedBuffer> zeros;
  OutputBounds bounds;
  CurveF32 curve = nullptr;  // of an activation that is not piecewise linear
  bool has_bias = false, has_residual = false;

  int64_t positions() const { return int64_t{n} * n; }

  // The tile's image and the y index of its first pixel.
  struct Place {
    int64_t image, y, x;
  };
  Place PlaceOf(int64_t tile) const {
    const int64_t line = tile / tiles_x, x = tile - line * tiles_x, image = line / tiles_y;
    return {image, (line - image * tiles_y) * m, x * m};
  }

  // Of a bfloat16 tile, what is widened of the input, and what of the output is not yet narrowed,
  // before the residual.
  int64_t wide_channels() const { return std::min(shape.channels_in, kWideChannels); }
  int64_t wide_floats() const {
    if (ends.bf16 == nullptr) return 0;
    return RoundUp(std::max(positions() * wide_channels(), 2 * int64_t{m} * m * product_row),
                   kPanelF32);
  }

  [[gnu::noinline]] void TransformTile(const void* x, int64_t tile, float* v, float* room) const {
    if (ends.bf16 == nullptr) {
      TransformPixels(static_cast<const float*>(x), tile, fns->input, v);
    } else if (fns->input_bf16 != nullptr) {
      TransformPixels(static_cast<const uint16_t*>(x), tile, fns->input_bf16, v);
    } else {
      for (int64_t c = 0; c < shape.channels_in; c += kWideChannels)
        TransformWide(static_cast<const uint16_t*>(x) + c, tile,
                      std::min(shape.channels_in - c, kWideChannels), v + c, room);
    }
  }

  // `channels` of all pixels of a tile; x is at the first of them.
  void TransformWide(const uint16_t* x, int64_t tile, int64_t channels, float* v,
                     float* room) const {
    const Place place = PlaceOf(tile);
    const float* pixels[kMaxWinogradSize * kMaxWinogradSize];
    const auto* zero = reinterpret_cast<const float*>(zeros->data());
    const int64_t height = shape.in[1], width = shape.in[2], top = place.y - shape.pad[1],
                  left = place.x - shape.pad[2];
    const int64_t begin = std::clamp<int64_t>(-left, 0, n),
                  end = std::clamp<int64_t>(width - left, begin, n);
    const bool whole = channels == shape.channels_in;  // the pixels of a line follow each other
    for (int64_t i = 0; i < n; ++i) {
      const int64_t iy = top + i;
      const bool line = iy >= 0 && iy < height;
      const int64_t row = ((place.image * height + iy) * width + left) * shape.channels_in;
      float* const to = room + i * n * channels;
      for (int64_t j = 0; j < n; ++j) {
        const bool inside = line && j >= begin && j < end;
        pixels[i * n + j] = inside ? to + j * channels : zero;
        if (inside && !whole)
          ends.bf16->widen(x + row + j * shape.channels_in, to + j * channels, channels);
      }
      if (line && whole && begin < end)
        ends.bf16->widen(x + row + begin * channels, to + begin * channels,
                         (end - begin) * channels);
    }
    fns->input(pixels, channels, v_position, v);
  }

  template <typename T, typename Input>
  void TransformPixels(const T* x, int64_t tile, Input input, float* v) const {
    const Place place = PlaceOf(tile);
    const T* pixels[kMaxWinogradSize * kMaxWinogradSize];
    const auto* zero = reinterpret_cast<const T*>(zeros->data());
    const int64_t height = shape.in[1], width = shape.in[2], top = place.y - shape.pad[1],
                  left = place.x - shape.pad[2];
    for (int i = 0; i < n; ++i) {
      const int64_t iy = top + i;
      const bool line = iy >= 0 && iy < height;
      const T* row = x + ((place.image * height + iy) * width + left) * shape.channels_in;
      for (int j = 0; j < n; ++j) {
        const bool inside = line && left + j >= 0 && left + j < width;
        pixels[i * n + j] = inside ? row + j * shape.channels_in : zero;
      }
    }
    input(pixels, shape.channels_in, v_position, v);
  }

  // The register tile for the products of so many tiles.
  struct Tile {
    int64_t rows, panels;
  };
  Tile TileFor(int64_t count) const {
    if (count <= kernels->few_rows) return {kernels->few_rows, kernels->few_rows_panels};
    if (panels == 1) return {kernels->one_panel_rows, 1};
    return {kernels->rows, kernels->panels};
  }

  // The products of `count` tiles with the panels [panel, panel_end).
  void Multiply(const float* v, int64_t count, int64_t panel, int64_t panel_end,
                float* product) const {
    const auto* u = reinterpret_cast<const float*>(weights->data());
    const auto [most_rows, most_panels] = TileFor(count);
    const int64_t row_tiles = CeilDiv(count, most_rows), depth = shape.channels_in;
    const float* rows[kMaxTileRowsF32];
    int64_t row_offset[kMaxTileRowsF32];
    for (int64_t i = 0; i < most_rows; ++i) row_offset[i] = i * product_row;
    GemmTap tap = {0, 0};
    GemmTile tile = {};
    tile.rows = rows, tile.row_offset = row_offset;
    tile.taps = &tap, tile.tap_count = 1;
    tile.depth = depth, tile.b_step = kPanelF32;
    tile.panel_stride = positions() * depth * kPanelF32;
    tile.ahead_step = tile.ahead_line = kPanelF32;
    tile.last = true;
    tile.output = TileOutput::kFloat32;
    for (int64_t position = 0; position < positions(); ++position) {
      const float* b = u + position * depth * kPanelF32;
      for (int64_t p = panel; p < panel_end;) {
        int64_t width = most_panels;
        while (width > panel_end - p) width /= 2;
        tile.b = b + p * tile.panel_stride;
        tile.column_end = width * kPanelF32;
        for (int64_t i = 0, row = 0; i < row_tiles; ++i) {
          const int64_t height = count / row_tiles + (i < count % row_tiles ? 1 : 0);
          const float* a = v + position * v_position + row * v_row;
          for (int64_t r = 0; r < height; ++r) rows[r] = a + r * v_row;
          // Each tile fetches one of the panels that follow at the next position.
          tile.ahead = tile.b + depth * kPanelF32 + std::min(i, width - 1) * tile.panel_stride;
          tile.y =
              product + position * product_position + row * product_row + (p - panel) * kPanelF32;
          kernels->tile[width][height](tile);
          row += height;
        }
        p += width;
      }
    }
  }

  // Columns [column, column_end) of the tiles [first, first + count).
  void TransformOutput(const float* product, int64_t first, int64_t count, int64_t column,
                       int64_t column_end, const float* bias, const void* residual, void* y,
                       float* room) const {
    WinogradOutputF32 o;
    o.position_stride = product_position;
    o.columns = column_end - column;
    o.bias = bias == nullptr ? nullptr : bias + column;
    o.bounds = bounds;
    const int64_t pixel_stride = shape.channels_out, line_stride = shape.out[2] * pixel_stride;
    // Whether the tile is not written to y, and the residual not read, as it is.
    const bool roomy =
        (ends.y_bf16 || ends.residual_bf16) && (curve != nullptr || fns->input_bf16 == nullptr);
    for (int64_t i = 0; i < count; ++i) {
      const Place place = PlaceOf(first + i);
      o.product = product + i * product_row;
      o.lines = static_cast<int>(std::min<int64_t>(m, shape.out[1] - place.y));
      o.pixels = static_cast<int>(std::min<int64_t>(m, shape.out[2] - place.x));
      const int64_t at =
          (place.image * shape.out[1] + place.y) * line_stride + place.x * pixel_stride + column;
      if (roomy) {
        o.pixel_stride = o.columns, o.line_stride = m * o.columns;
        o.y = room;
        o.residual = residual == nullptr ? nullptr : WideResidual(o, residual, at, room);
      } else {
        o.pixel_stride = pixel_stride, o.line_stride = line_stride;
        o.y_bf16 = ends.y_bf16, o.residual_bf16 = ends.residual_bf16;
        o.y = OffsetBf16(y, ends.y_bf16, at);
        o.residual = residual == nullptr ? nullptr : OffsetBf16(residual, ends.residual_bf16, at);
      }
      fns->output(o);
      if (curve != nullptr) Activate(o);
      if (roomy) StoreTile(o, y, at);
    }
  }

  void Activate(const WinogradOutputF32& o) const {
    auto* const y = static_cast<float*>(o.y);
    for (int line = 0; line < o.lines; ++line) {
      const int64_t runs = o.columns == o.pixel_stride ? 1 : o.pixels;
      for (int64_t run = 0; run < runs; ++run)
        curve(y + line * o.line_stride + run * o.pixel_stride, o.columns * (o.pixels / runs));
    }
  }

  // Calls copy(place in y, place in the room, elements) for each run of the tile's outputs that
  // lies in one piece in both.
  template <typename Copy>
  void EachRun(const WinogradOutputF32& o, int64_t at, const Copy& copy) const {
    const bool whole = o.columns == shape.channels_out;
    for (int64_t line = 0; line < o.lines; ++line) {
      for (int64_t pixel = 0; pixel < (whole ? 1 : o.pixels); ++pixel)
        copy(at + (line * shape.out[2] + pixel) * shape.channels_out,
             line * o.line_stride + pixel * o.columns, whole ? o.pixels * o.columns : o.columns);
    }
  }

  // The tile's residual as float32, behind its outputs.
  const float* WideResidual(const WinogradOutputF32& o, const void* residual, int64_t at,
                            float* room) const {
    float* const wide = room + m * o.line_stride;
    EachRun(o, at, [&](int64_t from, int64_t to, int64_t count) {
      if (ends.residual_bf16) {
        ends.bf16->widen(static_cast<const uint16_t*>(residual) + from, wide + to, count);
      } else {
        std::copy_n(static_cast<const float*>(residual) + from, count, wide + to);
      }
    });
    return wide;
  }

  void StoreTile(const WinogradOutputF32& o, void* y, int64_t at) const {
    const auto* const tile = static_cast<const float*>(o.y);
    EachRun(o, at, [&](int64_t to, int64_t from, int64_t count) {
      if (ends.y_bf16) {
        ends.bf16->narrow(tile + from, static_cast<uint16_t*>(y) + to, count);
      } else {
        std::copy_n(tile + from, count, static_cast<float*>(y) + to);
      }
    });
  }

  // Group `group` of the chunk's columns; v is transformed.
  [[gnu::noinline]] void RunGroup(int64_t chunk, int64_t group, const float* v, float* product,
                                  const void* const* in, void* y) const {
    const int64_t begin = ChunkBegin(chunk), count = ChunkBegin(chunk + 1) - begin;
    const int64_t panel = group * group_panels, panel_end = std::min(panels, panel + group_panels);
    Multiply(v, count, panel, panel_end, product);
    TransformOutput(product, begin, count, panel * kPanelF32,
                    std::min(shape.channels_out, panel_end * kPanelF32),
                    has_bias ? static_cast<const float*>(in[2]) : nullptr,
                    has_residual ? in[3] : nullptr, y, product + positions() * product_position);
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* scratch = reinterpret_cast<float*>(context.scratch);
    const auto v_of = [&](int64_t slot) { return scratch + slot * slot_floats; };
    const auto product_of = [&](int64_t slot) { return v_of(slot) + positions() * v_position; };
    ForAll(
        context.pool,
        [&](int64_t tile, int64_t slot, int64_t i, int64_t thread) {
          TransformTile(in[0], tile, v_of(slot) + i * v_row,
                        product_of(thread) + positions() * product_position);
        },
        [&](int64_t chunk, int64_t group, int64_t from, int64_t to) {
          RunGroup(chunk, group, v_of(from), product_of(to), in, out[0]);
        });
  }

  AlignedBuffer TransformWeights(const float* packed) const {
    const int64_t depth = shape.channels_in, panel_stride = positions() * depth * kPanelF32;
    AlignedBuffer transformed(static_cast<size_t>(panels * panel_stride) * sizeof(float));
    auto* u = reinterpret_cast<float*>(transformed.data());
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t c = 0; c < depth; ++c)
        fns->weights(packed + (panel * 9 * depth + c) * kPanelF32, depth * kPanelF32,
                     depth * kPanelF32, u + panel * panel_stride + c * kPanelF32);
    }
    return transformed;
  }
};

int64_t SpreadFloats(int64_t floats) { return SpreadStride(floats, sizeof(float)); }

// How the tiles are cut for caches and threads.
void PlanChunks(WinogradF32& w) {
  const int64_t tile_bytes =
      w.positions() * RoundUp(w.shape.channels_in, kPanelF32) * static_cast<int64_t>(sizeof(float));
  w.CutChunks(kChunkBytes / tile_bytes, kLeastChunkTiles);
  const int64_t panel_bytes =
      w.positions() * w.chunk_tiles * kPanelF32 * static_cast<int64_t>(sizeof(float));
  const int64_t unit =
      w.chunk_tiles <= w.kernels->few_rows ? w.kernels->few_rows_panels : w.kernels->panels;
  w.group_panels = RoundUp(std::max<int64_t>(kProductBytes / panel_bytes, 1), unit);
  if (w.split_chunks) {
    const int64_t share = CeilDiv(w.panels * w.chunks, int64_t{2} * w.threads);
    w.group_panels = std::min(w.group_panels, RoundUp(share, unit));
  }
  w.groups = CeilDiv(w.panels, w.group_panels);
  w.v_row = SpreadFloats(RoundUp(w.shape.channels_in, kPanelF32));
  w.v_position = SpreadFloats(w.chunk_tiles * w.v_row);
  w.product_row = w.group_panels * kPanelF32;
  w.product_position = SpreadFloats(w.chunk_tiles * w.product_row);
  w.slot_floats = w.positions() * (w.v_position + w.product_position) + w.wide_floats();
}

}  // namespace

bool FitsWinogradF32(const ConvShapeF32& s) {
  return s.group == 1 && s.kernel == std::array<int64_t, 3>{1, 3, 3} &&
         s.stride == std::array<int64_t, 3>{1, 1, 1} &&
         s.dilation == std::array<int64_t, 3>{1, 1, 1} && s.in[0] == 1 && s.out[0] == 1 &&
         s.pad[0] == 0 && s.channels_in > 0 && s.channels_out > 0;
}

int ChooseWinogradF32(const ConvShapeF32& s, double direct) {
  if (!FitsWinogradF32(s)) return 0;
  // In multiply-adds. Fetching a weight costs as much as kWeight of them, and the transforms of one
  // value of a tile, in or out, as much as kTransform.
  constexpr double kWeight = 8, kTransform = 6;
  const double channels = static_cast<double>(s.channels_in) * static_cast<double>(s.channels_out);
  const double values =
      static_cast<double>(RoundUp(s.channels_in, kPanelF32) + RoundUp(s.channels_out, kPanelF32));
  const double pixels = static_cast<double>(s.batch * s.out[1] * s.out[2]);
  double best = 9 * channels * std::max(pixels, kWeight) / direct;
  int choice = 0;
  for (int m : {2, 4}) {
    const double tiles = static_cast<double>(s.batch * CeilDiv(s.out[1], m) * CeilDiv(s.out[2], m));
    const double cost =
        (m + 2) * (m + 2) * (channels * std::max(tiles, kWeight) + kTransform * tiles * values);
    if (cost < best) best = cost, choice = m;
  }
  return choice;
}

BoundKernel BindWinogradF32(const ConvShapeF32& shape, int m, const Tensor& constant,
                            const float* weights, const Activation& activation, bool has_bias,
                            bool has_residual, const BindOptions& options, const ConvEnds& ends) {
  WinogradF32 w;
  w.shape = shape;
  w.ends = ends;
  w.m = m, w.n = m + 2;
  w.SetTiles(shape.batch, shape.out[1], shape.out[2], m);
  w.panels = CeilDiv(shape.channels_out, kPanelF32);
  w.threads = options.threads;
  w.kernels = &GemmKernelsForF32(options.isa);
  w.fns = m == 2 ? &WinogradTableFor(options.isa).two : &WinogradTableFor(options.isa).four;
  w.has_bias = has_bias, w.has_residual = has_residual;
  w.bounds = OutputBounds::Real(activation);
  w.curve = CurveForF32(activation, options.isa);
  w.zeros = std::make_shared<AlignedBuffer>(static_cast<size_t>(shape.channels_in) * sizeof(float));
  std::fill_n(reinterpret_cast<float*>(w.zeros->data()), shape.channels_in, 0.0f);
  PlanChunks(w);
  w.weights = Derive<AlignedBuffer>(constant, fmt::format("winograd_f32 {} {}", m, w.kernels->name),
                                    [&] { return w.TransformWeights(weights); });
  const size_t scratch =
      static_cast<size_t>(w.slot_floats) * static_cast<size_t>(w.threads) * sizeof(float);
  const WinogradF32::Tile tile = w.TileFor(w.chunk_tiles);
  KernelPlan plan{.code = w.kernels->name,
                  .tile_rows = static_cast<int>(tile.rows),
                  .tile_columns = static_cast<int>(tile.panels * kPanelF32),
                  .method = m == 2 ? "winograd 2x2" : "winograd 4x4"};
  return BoundKernel::Of(std::move(w), scratch, std::move(plan));
}

}  // namespace evoq
