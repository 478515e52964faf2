// matmul_pair_int8: y = activation(a b + residual) of two computed operands of bytes with one scale
// each, as in attention. Each run packs b into the panels of layout k4n16 and takes its column
// sums; then the tiles of constant weights compute.
#include <limits>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/int8_block.h"
#include "kernels/gemm/int8_linear.h"
#include "kernels/gemm/matmul_batch.h"
#include "kernels/gemm/pair_int8.h"
#include "kernels/parallel.h"
#include "kernels/quantize/axis.h"

namespace evoq {
namespace {

constexpr int64_t kRows = 112;  // rows of a task: whole tiles of 16, 14, 8, 7, 4, 2 rows

struct Shapes {
  int64_t m = 1, n = 1, k = 1, a_count = 1, b_count = 1;
  std::vector<int64_t> a_of, b_of;  // per product: its matrices
};

std::optional<Reason> ReadShapes(const KernelCall& call, Shapes& s) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const std::vector<int64_t> a = call.inputs[0].shape.sizes(), b = call.inputs[1].shape.sizes();
  if (a.size() < 2 || b.size() < 2) return Reject("shape", "an operand of rank 1 or 0");
  s.m = a[a.size() - 2], s.k = a.back(), s.n = b.back();
  const std::vector<int64_t> a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const auto batch = BroadcastBatch(a_batch, b_batch);
  const auto count = CheckedProduct(batch.value_or(std::vector<int64_t>{-1}));
  const int64_t y_sizes[] = {count.value_or(-1), s.m, s.n},
                packed[] = {RoundUp(s.n, 16), RoundUp(s.k, 4), count.value_or(-1)};
  if (!batch || b[b.size() - 2] != s.k || !CheckedProduct(packed) ||
      CheckedProduct(y_sizes) != call.outputs[0].shape.elements())
    return Reject("shape", "{} * {} -> {}", call.inputs[0].ToString(), call.inputs[1].ToString(),
                  call.outputs[0].ToString());
  if (*count > (1 << 20)) return Reject("shape", "a batch of {}", *count);
  // A bound on |sum|, which must stay in int32.
  if (s.k > std::numeric_limits<int32_t>::max() / (255 * 255))
    return Reject("shape", "sums of {} products", s.k);
  s.a_count = CheckedProduct(a_batch).value_or(0);
  s.b_count = CheckedProduct(b_batch).value_or(0);
  for (int64_t i = 0; i < *count; ++i) {
    s.a_of.push_back(BatchIndex(i, *batch, a_batch));
    s.b_of.push_back(BatchIndex(i, *batch, b_batch));
  }
  return std::nullopt;
}

std::optional<Reason> RejectPair(const KernelCall& call) {
  if (!QuantizedU8(call.inputs[0]) || !QuantizedByte(call.inputs[1]))
    return Reject("types", "{} * {}, expected bytes with one scale each", call.inputs[0].ToString(),
                  call.inputs[1].ToString());
  const TensorType& y = call.outputs[0];
  if (!QuantizedByte(y) && !PlainFloat(y))
    return Reject("types", "y is {}, expected bytes or float32", y.ToString());
  if (call.has_input(2)) return Reject("types", "a bias");
  for (size_t i = 4; i < call.inputs.size(); ++i) {
    if (call.has_input(i)) return Reject("types", "input {} is {}", i, call.inputs[i].ToString());
  }
  if (call.has_input(3)) {
    const TensorType& r = call.inputs[3];
    if (r.shape != y.shape || !(QuantizedByte(r) || (PlainFloat(r) && PlainFloat(y))))
      return Reject("types", "residual is {}, y {}", r.ToString(), y.ToString());
  }
  const auto activation = ActivationFromAttrs(call.attrs);
  if (!activation || !IsPiecewiseLinear(activation->kind))
    return Reject("attribute", "activation {}", call.attrs.String("activation"));
  Shapes shapes;
  return ReadShapes(call, shapes);
}

struct MatMulPair {
  Shapes s;
  int32_t a_zero = 0, b_zero = 0;  // b's as packed
  uint8_t b_flip = 0;
  Int8Epilogue epilogue;
  std::vector<float> multiplier, slopes;  // per padded column; slopes: or empty
  std::vector<int32_t> b_zeros;           // per padded column; empty: 0
  std::vector<uint8_t> ones;
  const Int8TileDef* tiles = nullptr;
  const PairTable* pair = nullptr;
  int tile_panels = 1;
  int64_t pack_grain = 1, grain = 1;

  int64_t panels() const { return CeilDiv(s.n, 16); }
  int64_t depth() const { return RoundUp(s.k, 4); }
  int64_t panel_bytes() const { return 16 * depth(); }
  int64_t row_blocks() const { return CeilDiv(s.m, kRows); }
  int64_t products() const { return static_cast<int64_t>(s.a_of.size()); }
  // Scratch: the panels of every b, their biases, and a with rows of whole words where k is not a
  // multiple of four.
  int64_t packed_bytes() const { return s.b_count * panels() * panel_bytes(); }
  int64_t bias_bytes() const { return s.b_count * panels() * 64; }
  int64_t copied_bytes() const { return s.k == depth() ? 0 : s.a_count * s.m * depth(); }

  // bias[n] = -a_zero * sum over k of (b[k, n] - b_zero)
  void PackPanel(const uint8_t* b, int64_t panel, int8_t* to, int32_t* bias) const {
    pair->pack(b, s.n, s.k, s.n, 16 * panel, b_flip, to);
    SumInt8Columns(*tiles, to, panel_bytes(), 1, ones.data(), bias);
    for (int n = 0; n < 16; ++n) bias[n] = -a_zero * (bias[n] - b_zero * static_cast<int32_t>(s.k));
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    auto* packed = reinterpret_cast<int8_t*>(context.scratch);
    auto* bias = reinterpret_cast<int32_t*>(context.scratch + packed_bytes());
    auto* copied = reinterpret_cast<uint8_t*>(context.scratch + packed_bytes() + bias_bytes());
    const auto *a = static_cast<const uint8_t*>(in[0]), *b = static_cast<const uint8_t*>(in[1]);
    context.pool.ParallelFor(s.b_count * panels(), pack_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        PackPanel(b + i / panels() * s.k * s.n, i % panels(), packed + i * panel_bytes(),
                  bias + 16 * i);
      }
    });
    if (copied_bytes() > 0) {
      for (int64_t row = 0; row < s.a_count * s.m; ++row)
        std::memcpy(copied + row * depth(), a + row * s.k, static_cast<size_t>(s.k));
    }
    context.pool.ParallelFor(products() * row_blocks(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t product = task / row_blocks(), first = task % row_blocks() * kRows;
        const int64_t a_row = s.a_of[product] * s.m + first, panel = s.b_of[product] * panels();
        const int64_t count = std::min(kRows, s.m - first), y_at = (product * s.m + first) * s.n;
        Rows((copied_bytes() > 0 ? copied : a) + a_row * depth(), count,
             packed + panel * panel_bytes(), bias + 16 * panel, in,
             static_cast<uint8_t*>(out[0]) + y_at * epilogue.y_bytes(), y_at);
      }
    });
  }

  // `count` rows of one product, `words` in a, in whole words; y_at: their first element in y.
  void Rows(const uint8_t* words, int64_t count, const int8_t* packed, const int32_t* bias,
            const void* const* in, uint8_t* y, int64_t y_at) const {
    const uint8_t* pointers[kRows];
    int32_t row_sums[kRows];
    for (int64_t r = 0; r < count; ++r) pointers[r] = words + r * depth();
    Int8Tile tile = {};
    epilogue.Fill(tile);
    tile.taps = 1;
    tile.groups_of_4 = depth() / 4;
    tile.panel_bytes = panel_bytes();
    tile.y_stride = s.n * epilogue.y_bytes();
    const int64_t residual_bytes = tile.residual_type == Int8Residual::kFloat32 ? 4 : 1;
    tile.residual_stride = s.n * residual_bytes;
    if (!b_zeros.empty()) tiles->rows->sum_rows(pointers, 0, 1, 0, s.k, count, row_sums);
    tile.weights = packed;
    tile.bias = bias;
    tile.multiplier = multiplier.data();
    if (!slopes.empty()) tile.slopes = slopes.data();
    tile.w_zero = b_zeros.empty() ? nullptr : b_zeros.data();
    tile.y = y;
    if (tile.residual_type != Int8Residual::kNone)
      tile.residual = static_cast<const uint8_t*>(in[3]) + y_at * residual_bytes;
    RunInt8Block(*tiles, {pointers, row_sums, count, 0, s.n, tile_panels}, tile);
  }
};

Result<BoundKernel> BindPair(const KernelCall& call, const BindOptions& options) {
  MatMulPair state;
  if (const auto why = ReadShapes(call, state.s)) return Unsupported("{}", why->sentence);
  const Shapes& s = state.s;
  state.a_zero = ZeroOf(call.inputs[0]);
  const bool flipped = call.inputs[1].dtype == DType::kUint8;
  state.b_flip = flipped ? 0x80 : 0;
  state.b_zero = ZeroOf(call.inputs[1]) - (flipped ? 128 : 0);
  EVOQ_ASSIGN(state.epilogue, QuantizedEpilogue(call, s.n));
  state.epilogue.SetSmall(
      std::vector<double>(static_cast<size_t>(s.n), 255.0 * 255.0 * static_cast<double>(s.k)));
  const auto padded = static_cast<size_t>(16 * state.panels());
  state.multiplier = state.epilogue.multiplier;
  state.multiplier.resize(padded, 0);
  state.slopes = state.epilogue.slopes;
  if (!state.slopes.empty()) state.slopes.resize(padded, 1);
  if (state.b_zero != 0) state.b_zeros.assign(padded, state.b_zero);
  state.ones.assign(static_cast<size_t>(state.depth()), 1);
  const Int8TileChoice tiles = TilesFor(Int8TileFor(options.isa), {s.m, state.depth()});
  state.tiles = tiles.tiles;
  state.pair = &PairTableFor(options.isa);
  state.tile_panels = Int8BlockPanels(*state.tiles, s.m, state.panels());
  state.pack_grain =
      Grain(s.b_count * state.panels(), static_cast<double>(16 * s.k) * 0.05 + 5, options.threads);
  const double task_ns = static_cast<double>(std::min(kRows, s.m) * s.n * s.k) / 400 + 20;
  state.grain = Grain(state.products() * state.row_blocks(), task_ns, options.threads);
  const auto scratch =
      static_cast<size_t>(state.packed_bytes() + state.bias_bytes() + state.copied_bytes());
  return BoundKernel::Of(std::move(state), scratch,
                         KernelPlan{.code = tiles.tiles->name, .method = tiles.why});
}

}  // namespace

extern const KernelDef kMatMulPairInt8;
const KernelDef kMatMulPairInt8 = {
    .name = "matmul_pair_int8",
    .op = "MatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectPair,
    .bind = BindPair,
};

}  // namespace evoq
