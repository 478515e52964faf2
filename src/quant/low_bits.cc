#include "quant/low_bits.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/math.h"
#include "base/rows.h"
#include "base/thread_pool.h"

namespace evoq {

#define EVOQ_ROW_TYPE LowBits
#define EVOQ_ROW_FILE "quant/low_bits.inc"
#include "base/rows.inl.h"

std::span<const LowBits* const> AllLowBits() { return kAllRows; }

std::span<const char* const> WeightBlocks() {
  static constexpr const char* kBlocks[] = {"32", "64", "128", "channel"};
  return kBlocks;
}

Result<int64_t> ParseWeightBlock(const std::string& text) {
  if (std::ranges::find(WeightBlocks(), text) == WeightBlocks().end())
    return Fail(ErrorCode::kUsage, "--block {}: expected {}", text,
                fmt::join(WeightBlocks(), ", "));
  return text == "channel" ? 0 : std::stoll(text);
}

int64_t DataBlockBeside(int64_t block, bool equal) {
  constexpr int64_t kLeast = 128;
  if (block == 0) return kLeast;
  return equal ? block : RoundUp(kLeast, block);
}

namespace {

constexpr int64_t kColumns = LowBitsLoops::kColumns;
// A task's share: as many neighbouring elements of a file's rows, and of the rows of what becomes
// of them, as make whole cache lines.
constexpr int64_t kTaskColumns = 2 * kColumns, kTaskDepth = 256;

// LowBits::Quantize, a few columns of a block at a time.
class Quantizer {
 public:
  Quantizer(const StoredMatrix& weight, int64_t block, const LowBitsLoops& loops,
            const StoredLoops& stored)
      : weight_(weight),
        loops_(loops),
        stored_(stored),
        depth_(weight.depth()),
        columns_(weight.columns()),
        step_(std::max<int64_t>(block == 0 ? depth_ : std::min(block, depth_), 1)),
        blocks_(CeilDiv(depth_, step_)),
        in_place_(weight.stored.dtype() == DType::kFloat32 && !weight.transposed) {
    params.axis = block == 0 ? 1 : 0;
    params.block = block;
    params.scales.assign(static_cast<size_t>(std::max<int64_t>(blocks_, 1) * columns_), 1);
    params.zero_points.assign(params.scales.size(), 0);
  }

  // Writes the numbers, of so many bits, to zeroed memory. Whether the weight is finite.
  bool Run(int threads, int bits, std::byte* to) {
    const int64_t wide = CeilDiv(columns_, kTaskColumns),
                  many = std::max(kTaskDepth / step_, int64_t{1}), deep = CeilDiv(blocks_, many);
    // Threads take parts of rows, which must not share bytes.
    ThreadPool pool(columns_ * bits % 8 == 0 ? threads : 1);
    const int64_t tile = step_ * kColumns;
    std::vector<float> tiles(in_place_ ? 0 : static_cast<size_t>(pool.threads() * tile));
    pool.ParallelFor(wide * deep, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t task = begin; task < end; ++task) {
        // Neighbours in the file follow each other.
        const int64_t n = weight_.transposed ? task / deep : task % wide,
                      b = weight_.transposed ? task % deep : task / wide;
        Task(n * kTaskColumns, b * many, std::min(blocks_, (b + 1) * many),
             in_place_ ? nullptr : tiles.data() + thread * tile, to);
      }
    });
    return finite_;
  }

  QuantParams params;

 private:
  void Task(int64_t first, int64_t begin, int64_t end, float* tile, std::byte* to) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t last = std::min(columns_, first + kTaskColumns);
      for (int64_t n = first; n < last; n += kColumns)
        Block(b, n, std::min(kColumns, last - n), tile, to);
    }
  }

  void Block(int64_t b, int64_t n, int64_t count, float* tile, std::byte* to) {
    const int64_t k = b * step_, depth = std::min(step_, depth_ - k);
    const float* w = tile;
    int64_t stride = kColumns;
    if (in_place_) {
      stride = columns_;
      w = weight_.stored.data<float>() + k * stride + n;
    } else if (!weight_.Read(stored_, k, depth, n, count, tile, stride)) {
      finite_ = false;
      return;
    }
    weight_.Ask(k + step_, step_, n, count);  // of the same task's next block
    float* const scale = params.scales.data() + b * columns_ + n;
    float zero[kColumns];
    loops_.choose(w, stride, depth, count, nullptr, scale, zero);
    for (int64_t i = 0; i < count; ++i)
      params.zero_points[b * columns_ + n + i] = static_cast<int32_t>(zero[i]);
    loops_.store(w, stride, depth, count, scale, zero, k * columns_ + n, columns_, to);
  }

  const StoredMatrix& weight_;
  const LowBitsLoops& loops_;
  const StoredLoops& stored_;
  const int64_t depth_, columns_, step_, blocks_;
  const bool in_place_;
  std::atomic<bool> finite_ = true;
};

}  // namespace

Result<Tensor> LowBits::Quantize(const StoredMatrix& weight, int64_t block, int threads) const {
  const Isa isa = SelectIsa().value_or(Isa::kScalar);
  Quantizer quantizer(weight, block, loops(isa), StoredLoopsFor(isa));
  Tensor q = Tensor::Allocate(TensorType(dtype, weight.shape()));
  if (!quantizer.Run(threads, DTypeBits(dtype), q.mutable_raw())) return NotFinite(weight.shape());
  return q.WithType(TensorType(dtype, weight.shape(), std::move(quantizer.params)));
}

}  // namespace evoq
