#include "kernels/gemm/pair_product.h"

#include <limits>

#include "base/math.h"
#include "kernels/call_util.h"
#include "kernels/gemm/matmul_batch.h"
#include "kernels/parallel.h"

namespace evoq {

std::optional<Reason> ReadPairShapes(const TensorType& a_type, const TensorType& b_type,
                                     PairShapes& s) {
  const std::vector<int64_t> a = a_type.shape.sizes(), b = b_type.shape.sizes();
  if (a.size() < 2 || b.size() < 2) return Reject("shape", "an operand of rank 1 or 0");
  s.m = a[a.size() - 2], s.k = a.back(), s.n = b.back();
  const std::vector<int64_t> a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
  const auto batch = BroadcastBatch(a_batch, b_batch);
  const auto count = CheckedProduct(batch.value_or(std::vector<int64_t>{-1}));
  const int64_t y_sizes[] = {count.value_or(-1), s.m, s.n, 4},
                packed[] = {RoundUp(s.n, 16), RoundUp(s.k, 4) + 64, count.value_or(-1)};
  if (!batch || b[b.size() - 2] != s.k || !CheckedProduct(packed) || !CheckedProduct(y_sizes))
    return Reject("shape", "{} * {}", a_type.ToString(), b_type.ToString());
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

Result<PairProduct> PairProduct::Of(const KernelCall& call, const BindOptions& options) {
  PairProduct p;
  if (const auto why = ReadPairShapes(call.inputs[0], call.inputs[1], p.s))
    return Unsupported("{}", why->sentence);
  const PairShapes& s = p.s;
  p.a_zero = ZeroOf(call.inputs[0]);
  const bool flipped = call.inputs[1].dtype == DType::kUint8;
  p.b_flip = flipped ? 0x80 : 0;
  p.b_zero = ZeroOf(call.inputs[1]) - (flipped ? 128 : 0);
  EVOQ_ASSIGN(p.epilogue, QuantizedEpilogue(call, s.n));
  p.epilogue.SetSmall(
      std::vector<double>(static_cast<size_t>(s.n), 255.0 * 255.0 * static_cast<double>(s.k)));
  const auto padded = static_cast<size_t>(16 * p.panels());
  p.multiplier = p.epilogue.multiplier;
  p.multiplier.resize(padded, 0);
  p.slopes = p.epilogue.slopes;
  if (!p.slopes.empty()) p.slopes.resize(padded, 1);
  if (p.b_zero != 0) p.b_zeros.assign(padded, p.b_zero);
  p.ones.assign(static_cast<size_t>(p.depth()), 1);
  const Int8TileChoice tiles = TilesFor(Int8TileFor(options.isa), {s.m, p.depth()});
  p.tiles = tiles.tiles;
  p.why = tiles.why;
  p.pair = &PairTableFor(options.isa);
  p.tile_panels = Int8BlockPanels(*p.tiles, s.m, p.panels());
  p.pack_grain =
      Grain(s.b_count * p.panels(), static_cast<double>(16 * s.k) * 0.05 + 5, options.threads);
  return p;
}

// bias[n] = -a_zero * sum over k of (b[k, n] - b_zero)
void PairProduct::Pack(const void* b, std::byte* packed, ThreadPool& pool) const {
  auto* const panels_to = reinterpret_cast<int8_t*>(packed);
  auto* const biases = reinterpret_cast<int32_t*>(packed + s.b_count * panels() * panel_bytes());
  pool.ParallelFor(s.b_count * panels(), pack_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto* matrix = static_cast<const uint8_t*>(b) + i / panels() * s.k * s.n;
      int8_t* const to = panels_to + i * panel_bytes();
      int32_t* const bias = biases + 16 * i;
      pair->pack(matrix, s.n, s.k, s.n, 16 * (i % panels()), b_flip, to);
      SumInt8Columns(*tiles, to, panel_bytes(), 1, ones.data(), bias);
      for (int n = 0; n < 16; ++n)
        bias[n] = -a_zero * (bias[n] - b_zero * static_cast<int32_t>(s.k));
    }
  });
}

const uint8_t* PairProduct::Words(const void* a, std::byte* copy) const {
  const auto* from = static_cast<const uint8_t*>(a);
  if (words_bytes() == 0) return from;
  auto* const to = reinterpret_cast<uint8_t*>(copy);
  for (int64_t row = 0; row < s.a_count * s.m; ++row)
    std::memcpy(to + row * depth(), from + row * s.k, static_cast<size_t>(s.k));
  return to;
}

void PairProduct::Rows(const Block& block) const {
  const uint8_t* pointers[kRows];
  int32_t row_sums[kRows];
  for (int64_t r = 0; r < block.count; ++r) pointers[r] = block.words + r * depth();
  const int64_t panel = s.b_of[static_cast<size_t>(block.product)] * panels();
  Int8Tile tile = {};
  epilogue.Fill(tile);
  tile.taps = 1;
  tile.groups_of_4 = depth() / 4;
  tile.panel_bytes = panel_bytes();
  tile.y_stride = y_row_bytes();
  if (!b_zeros.empty()) tiles->rows->sum_rows(pointers, 0, 1, 0, s.k, block.count, row_sums);
  tile.weights = reinterpret_cast<const int8_t*>(block.packed) + panel * panel_bytes();
  tile.bias =
      reinterpret_cast<const int32_t*>(block.packed + s.b_count * panels() * panel_bytes()) +
      16 * panel;
  tile.multiplier = multiplier.data();
  if (!slopes.empty()) tile.slopes = slopes.data();
  tile.w_zero = b_zeros.empty() ? nullptr : b_zeros.data();
  tile.y = block.y;
  tile.residual = static_cast<const uint8_t*>(block.residual);
  tile.residual_stride = block.residual_stride;
  RunInt8Block(*tiles, {pointers, row_sums, block.count, 0, s.n, tile_panels}, tile);
}

}  // namespace evoq
