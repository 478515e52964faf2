#include "quant/low_bits.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/math.h"
#include "base/rows.h"
#include "base/thread_pool.h"
#include "kernels/gemm/blocks/scale_steps.h"

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
  Quantizer(const LowBits& low, const StoredMatrix& weight, int64_t block,
            const LowBitsLoops& loops, const StoredLoops& stored)
      : low_(low),
        weight_(weight),
        loops_(loops),
        stored_(stored),
        depth_(weight.depth()),
        columns_(weight.columns()),
        step_(std::max<int64_t>(block == 0 ? depth_ : std::min(block, depth_), 1)),
        blocks_(CeilDiv(depth_, step_)),
        shared_(low.SharedBlocks(block)),
        in_place_(weight.stored.dtype() == DType::kFloat32 && !weight.transposed) {
    params.axis = block == 0 ? 1 : 0;
    params.block = block;
    params.scales.assign(static_cast<size_t>(std::max<int64_t>(blocks_, 1) * columns_), 1);
    params.zero_points.assign(params.scales.size(), 0);
  }

  // Writes the numbers, of so many bits, to zeroed memory. Whether the weight is finite.
  bool Run(int threads, int bits, std::byte* to) {
    const int64_t wide = CeilDiv(columns_, kTaskColumns),
                  many = RoundUp(std::max(kTaskDepth / step_, int64_t{1}), shared_),
                  deep = CeilDiv(blocks_, many);
    // Threads take parts of rows, which must not share bytes.
    ThreadPool pool(columns_ * bits % 8 == 0 ? threads : 1);
    const int64_t tile = shared_ * step_ * kColumns;
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
    for (int64_t b = begin; b < end; b += shared_) {
      const int64_t last = std::min(columns_, first + kTaskColumns);
      for (int64_t n = first; n < last; n += kColumns)
        Blocks(b, std::min(shared_, end - b), n, std::min(kColumns, last - n), tile, to);
    }
  }

  // Blocks that share a step, or one.
  void Blocks(int64_t b, int64_t blocks, int64_t n, int64_t count, float* tile, std::byte* to) {
    const int64_t k = b * step_, depth = std::min(blocks * step_, depth_ - k);
    const float* w = tile;
    int64_t stride = kColumns;
    if (in_place_) {
      stride = columns_;
      w = weight_.stored.data<float>() + k * stride + n;
    } else if (!weight_.Read(stored_, k, depth, n, count, tile, stride)) {
      finite_ = false;
      return;
    }
    weight_.Ask(k + shared_ * step_, shared_ * step_, n, count);  // what the task comes to next
    float* const scales = params.scales.data() + b * columns_ + n;
    float zero[kStepBlocks][kColumns];
    const auto each = [&](const auto& f) {
      for (int64_t i = 0; i < blocks; ++i)
        f(w + i * step_ * stride, std::min(step_, depth - i * step_), scales + i * columns_,
          zero[i], i);
    };
    each([&](const float* part, int64_t rows, float* scale, float* zeros, int64_t) {
      loops_.choose(part, stride, rows, count, nullptr, scale, zeros);
    });
    if (shared_ > 1) low_.Share({w, stride, step_, depth}, {scales, columns_}, count, loops_);
    each([&](const float* part, int64_t rows, float* scale, float* zeros, int64_t i) {
      for (int64_t c = 0; c < count; ++c)
        params.zero_points[(b + i) * columns_ + n + c] = static_cast<int32_t>(zeros[c]);
      loops_.store(part, stride, rows, count, scale, zeros, (k + i * step_) * columns_ + n,
                   columns_, to);
    });
  }

  const LowBits& low_;
  const StoredMatrix& weight_;
  const LowBitsLoops& loops_;
  const StoredLoops& stored_;
  const int64_t depth_, columns_, step_, blocks_, shared_;
  const bool in_place_;
  std::atomic<bool> finite_ = true;
};

}  // namespace

int64_t LowBits::SharedBlocks(int64_t block) const {
  return steps && block == kStepBlock ? kStepBlocks : 1;
}

void LowBits::Share(const SharedWeights& w, const SharedBlockScales& to, int64_t columns,
                    const LowBitsLoops& loops) {
  const int64_t blocks = CeilDiv(w.depth, w.block);
  const auto rows = [&](int64_t b) { return std::min(w.block, w.depth - b * w.block); };
  const auto zeros = [&](int64_t b, int64_t n) {
    for (int64_t k = 0; k < rows(b); ++k) {
      if (w.w[(b * w.block + k) * w.stride + n] != 0) return false;
    }
    return true;
  };
  for (int64_t first = 0; first < columns; first += kColumns) {
    const int64_t count = std::min(kColumns, columns - first);
    const auto scales = [&](int64_t b) { return to.scales + b * to.stride + first; };
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t n = 0; n < count; ++n) {
        // Blocks of zeros have 1, which others may have too.
        if (scales(b)[n] == 1 && zeros(b, first + n)) scales(b)[n] = 0;
      }
    }
    loops.share(scales(0), to.stride, blocks, count);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t n = 0; n < count; ++n) {
        if (scales(b)[n] == 0) scales(b)[n] = 1;
      }
    }
  }
}

Result<Tensor> LowBits::Quantize(const StoredMatrix& weight, int64_t block, int threads) const {
  const Isa isa = SelectIsa().value_or(Isa::kScalar);
  Quantizer quantizer(*this, weight, block, loops(isa), StoredLoopsFor(isa));
  Tensor q = Tensor::Allocate(TensorType(dtype, weight.shape()));
  if (!quantizer.Run(threads, DTypeBits(dtype), q.mutable_raw())) return NotFinite(weight.shape());
  return q.WithType(TensorType(dtype, weight.shape(), std::move(quantizer.params)));
}

}  // namespace evoq
