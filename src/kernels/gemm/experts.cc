// ExpertMatMul (domain evoq): y[.., j, :] = x[.., j or 0, :] w_e + bias_e, e = ids[.., j], by the
// products of MatMul: the rows of an expert are gathered, multiplied, and put where they belong.
// Matrices that no row names are not read. The bits of a row are those of MatMul, whatever the rows
// beside it. A kernel cannot fail: the executor refuses a run with an index that names no expert
// (runtime/guard.h), and here it is clamped.
//   expert_matmul_blocks  data rounded by blocks (matmul_blocks)
//   expert_matmul_w8      weights that stay in their format (matmul_w8)
//   expert_matmul_bf16    data and weights in bfloat16 (matmul_bf16)
//   expert_matmul_f32     any others
#include <algorithm>
#include <cstring>

#include "kernels/bf16/bf16.h"
#include "kernels/call_util.h"
#include "kernels/gemm/blocks/block_data.h"
#include "kernels/gemm/blocks/bound_product.h"
#include "kernels/gemm/float_rows.h"
#include "kernels/gemm/pack_bf16.h"
#include "kernels/parallel.h"

namespace evoq {

extern const KernelDef kMatMulW8, kMatMulF32, kMatMulBf16;

namespace {

constexpr size_t kData = 0, kIds = 1, kFirst = 2;
constexpr int64_t kMostRows = 128;  // that are multiplied at once: more bring nothing

// Numbers of rows that float products are bound to.
constexpr int64_t kBuckets[] = {1, 4, 16, 64, kMostRows};
constexpr size_t kBucketCount = std::size(kBuckets);

struct ExpertShape {
  int64_t experts = 0, rows = 0, share = 1;  // row r reads row r / share of the data
  int64_t depth = 0, columns = 0;
  int64_t x_bytes = 4, y_bytes = 4;  // of an element: float32, or bfloat16
  bool biased = false, wide = true;  // wide: indices of 64 bits

  int64_t in_bytes() const { return depth * x_bytes; }  // of a row
  int64_t out_bytes() const { return columns * y_bytes; }

  // The most rows of one expert where the indices of a token differ.
  int64_t most() const { return std::min(kMostRows, rows); }
};

std::optional<Reason> ReadExperts(const KernelCall& call, ExpertShape& s) {
  if (auto unknown = RejectUnknownShapes(call)) return unknown;
  const TensorType &x = call.inputs[kData], &ids = call.inputs[kIds], &y = call.outputs[0];
  const bool narrow = PlainBf16(x), narrow_y = narrow && PlainBf16(y);
  if ((!narrow && !PlainFloat(x)) || (!narrow_y && !PlainFloat(y)))
    return Reject("types", "{} to {}, expected float32 or bfloat16", x.ToString(), y.ToString());
  s.x_bytes = narrow ? 2 : 4, s.y_bytes = narrow_y ? 2 : 4;
  if (ids.dtype != DType::kInt64 && ids.dtype != DType::kInt32)
    return Reject("types", "indices are {}, expected int64 or int32", ids.ToString());
  s.wide = ids.dtype == DType::kInt64;
  s.experts = call.attrs.Int("experts", 0);
  const auto given = static_cast<int64_t>(call.inputs.size() - kFirst);
  s.biased = given == 2 * s.experts;
  const int rank = ids.shape.rank();
  if (s.experts < 1 || (!s.biased && given != s.experts) || rank < 1 ||
      x.shape.rank() != rank + 1 || call.inputs[kFirst].shape.rank() != 2)
    return Reject("shape", "{} experts of {} inputs", s.experts, given);
  s.rows = ElementsOf(ids);
  if (s.rows > INT32_MAX) return Reject("shape", "{} experts of {} inputs", s.experts, s.rows);
  s.depth = x.shape[rank].value;
  s.columns = call.inputs[kFirst].shape[1].value;
  const int64_t chosen = ids.shape[rank - 1].value;
  s.share = x.shape[rank - 1].value == 1 && chosen > 1 ? chosen : 1;
  for (size_t i = kFirst; i < call.inputs.size(); ++i) {
    const TensorType& type = call.inputs[i];
    const bool bias = static_cast<int64_t>(i - kFirst) >= s.experts;
    if (call.constant(i) == nullptr) return Reject("not-constant", "input {} is computed", i);
    if (bias ? !PlainFloat(type) || type.shape != Shape({s.columns})
             : type.shape != Shape({s.depth, s.columns}))
      return Reject("shape", "input {} is {}", i, type.ToString());
  }
  const int64_t data[] = {s.rows / s.share, s.depth}, results[] = {s.rows, s.columns};
  if (CheckedProduct(data) != ElementsOf(x) || CheckedProduct(results) != ElementsOf(y))
    return Reject("shape", "{} at {} -> {}", x.ToString(), ids.ToString(), y.ToString());
  return std::nullopt;
}

TensorType Floats(std::vector<int64_t> sizes, int64_t bytes = 4) {
  return TensorType(bytes == 2 ? DType::kBfloat16 : DType::kFloat32, Shape(sizes));
}

// The MatMul of `rows` rows by one expert's matrix.
struct OneExpert {
  std::array<TensorType, 3> inputs;
  TensorType output;
  std::array<const Tensor*, 3> constants = {};
  KernelCall call;

  OneExpert(const KernelCall& all, const ExpertShape& s, int64_t expert, int64_t rows)
      : output(Floats({rows, s.columns}, s.y_bytes)),
        call{"MatMul", all.attrs, inputs, {&output, 1}, constants} {
    inputs[0] = Floats({rows, s.depth}, s.x_bytes);
    inputs[1] = all.inputs[kFirst + static_cast<size_t>(expert)];
    constants[1] = all.constant(kFirst + static_cast<size_t>(expert));
    if (s.biased) inputs[2] = Floats({s.columns});
  }
  OneExpert(const OneExpert&) = delete;
  OneExpert& operator=(const OneExpert&) = delete;
};

// Rows by expert: those of expert e are order[starts[e]], ..., order[starts[e + 1] - 1].
struct Order {
  int32_t *starts, *order;

  static size_t Bytes(const ExpertShape& s) {
    return static_cast<size_t>(RoundUp((s.experts + 2 + s.rows) * 4, 64));
  }
  Order(const ExpertShape& s, const void* ids, std::byte* scratch)
      : starts(reinterpret_cast<int32_t*>(scratch)), order(starts + s.experts + 2) {
    const auto expert = [&](int64_t r) {
      const int64_t e =
          s.wide ? static_cast<const int64_t*>(ids)[r] : static_cast<const int32_t*>(ids)[r];
      return std::clamp<int64_t>(e, 0, s.experts - 1);
    };
    std::fill_n(starts, s.experts + 2, 0);
    for (int64_t r = 0; r < s.rows; ++r) ++starts[expert(r) + 2];
    for (int64_t e = 0; e < s.experts; ++e) starts[e + 2] += starts[e + 1];
    for (int64_t r = 0; r < s.rows; ++r) order[starts[expert(r) + 1]++] = static_cast<int32_t>(r);
  }
};

// Calls product(e, rows, count) for each expert and at most kMostRows of its rows.
template <typename Product>
void ForEachExpert(const ExpertShape& s, const Order& sorted, const Product& product) {
  for (int64_t e = 0; e < s.experts; ++e) {
    const int64_t first = sorted.starts[e], rows = sorted.starts[e + 1] - first;
    const int64_t parts = CeilDiv(rows, kMostRows);  // nearly equal
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t begin = PartBegin(rows, parts, p), end = PartBegin(rows, parts, p + 1);
      product(e, sorted.order + first + begin, end - begin);
    }
  }
}

// Row i of `to`, of so many bytes, is row rows[i] / share of x.
void GatherRows(const std::byte* x, int64_t share, int64_t bytes, const int32_t* rows,
                int64_t count, std::byte* to, ThreadPool& pool) {
  const int64_t grain = Grain(count, static_cast<double>(bytes) * 0.025, pool.threads());
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * bytes, x + rows[i] / share * bytes, static_cast<size_t>(bytes));
  });
}

// Scratch of every kernel: the order, gathered rows, their results, the products' own.
struct Staging {
  size_t data = 0, results = 0, product = 0, bytes = 0;  // where each begins, and the end of all

  Staging() = default;
  Staging(const ExpertShape& s, size_t product_bytes) {
    const auto floats = [&](int64_t columns) {
      return static_cast<size_t>(RoundUp(s.most() * columns * 4, 64));
    };
    data = Order::Bytes(s);
    results = data + floats(s.depth);
    product = results + floats(s.columns);
    bytes = product + product_bytes;
  }
};

struct BlocksState {
  ExpertShape shape;
  std::unique_ptr<BoundProduct[]> products;
  Staging staging;
  CpuModel cpu;
  int threads = 1;

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const Order sorted(shape, in[kIds], context.scratch);
    const auto* x = static_cast<const float*>(in[kData]);
    auto* const y = static_cast<float*>(out[0]);
    ForEachExpert(shape, sorted, [&](int64_t e, const int32_t* rows, int64_t count) {
      BoundProduct product = products[static_cast<size_t>(e)];
      product.SetRows(count, cpu, threads);
      const auto* bias =
          shape.biased ? static_cast<const float*>(in[kFirst + shape.experts + e]) : nullptr;
      std::byte* const scratch = context.scratch + staging.product;
      if (count == 1) {
        product.Run(x + rows[0] / shape.share * shape.depth, bias, y + rows[0] * shape.columns,
                    scratch, context.pool);
        return;
      }
      auto* const results = reinterpret_cast<float*>(context.scratch + staging.results);
      product.Run(x, bias, nullptr, results, scratch, context.pool,
                  [&](int64_t column, int64_t columns, int64_t first, int64_t last) {
                    for (int64_t r = first; r < last; ++r)
                      std::memcpy(y + rows[r] * shape.columns + column,
                                  results + r * shape.columns + column,
                                  static_cast<size_t>(columns) * sizeof(float));
                  },
                  {rows, shape.share});
    });
  }
};

// A bound kernel of MatMul; without `run` none.
struct Product {
  std::shared_ptr<const void> state;
  BoundKernel::RunFn run = nullptr;
};

struct FloatState {
  ExpertShape shape;
  std::unique_ptr<Product[]> products;  // of each expert, for kBuckets' numbers of rows
  Staging staging;

  // How many rows go next, of so many that are left: padded where less than half is.
  size_t Next(const Product* bound, int64_t left) const {
    size_t best = 0;
    for (size_t b = 0; b < kBucketCount && bound[b].run != nullptr; ++b) {
      if (kBuckets[b] <= std::min(2 * left - 1, shape.most())) best = b;
      if (kBuckets[b] >= left) break;
    }
    return best;
  }

  void Run(const void* const* in, void* const* out, const RunContext& context) const {
    const Order sorted(shape, in[kIds], context.scratch);
    std::byte *const data = context.scratch + staging.data, *const results =
                                                                context.scratch + staging.results;
    const int64_t in_bytes = shape.in_bytes(), out_bytes = shape.out_bytes();
    const RunContext inner = {context.pool, context.scratch + staging.product, context.stream};
    const auto* x = static_cast<const std::byte*>(in[kData]);
    auto* const y = static_cast<std::byte*>(out[0]);
    ForEachExpert(shape, sorted, [&](int64_t e, const int32_t* rows, int64_t all) {
      const Product* const bound = &products[static_cast<size_t>(e) * kBucketCount];
      const void* operands[] = {data, in[kFirst + e],
                                shape.biased ? in[kFirst + shape.experts + e] : nullptr, nullptr};
      for (int64_t at = 0, count; at < all; at += count, rows += count) {
        const size_t b = Next(bound, all - at);
        count = std::min(kBuckets[b], all - at);
        if (count == 1 && b == 0) {
          operands[0] = x + rows[0] / shape.share * in_bytes;
          void* const result = y + rows[0] * out_bytes;
          bound[b].run(bound[b].state.get(), operands, &result, inner);
          continue;
        }
        GatherRows(x, shape.share, in_bytes, rows, count, data, context.pool);
        std::fill_n(data + count * in_bytes, (kBuckets[b] - count) * in_bytes, std::byte{0});
        operands[0] = data;
        void* const result = results;
        bound[b].run(bound[b].state.get(), operands, &result, inner);
        for (int64_t i = 0; i < count; ++i)
          std::memcpy(y + rows[i] * out_bytes, results + i * out_bytes,
                      static_cast<size_t>(out_bytes));
      }
    });
  }
};

// ---- data rounded by blocks

std::optional<Reason> RejectBlocksCall(const KernelCall& call, ExpertShape& s) {
  const int64_t data_block = call.attrs.Int(kDataBlock, 0);
  if (data_block < 1) return Reject("attribute", "no data_block: the data is not rounded");
  if (auto why = ReadExperts(call, s)) return why;
  if (s.x_bytes != 4) return Reject("types", "data {}", call.inputs[kData].ToString());
  for (int64_t e = 0; e < s.experts; ++e) {
    if (auto why = RejectBlocks(call.inputs[kFirst + static_cast<size_t>(e)], data_block))
      return why;
  }
  return std::nullopt;
}

std::optional<Reason> RejectBlocksOfExperts(const KernelCall& call) {
  ExpertShape shape;
  return RejectBlocksCall(call, shape);
}

bool IsMatrix(const KernelCall& call, size_t input) {
  return input >= kFirst && static_cast<int64_t>(input - kFirst) < call.attrs.Int("experts", 0);
}

Result<Tensor> PackBlocksOfExperts(const KernelCall& call, size_t input) {
  if (!IsMatrix(call, input)) return Tensor();
  return PackBlocks(*call.constant(input));
}

bool ReadsBlocksOfExperts(const KernelCall& call, size_t input, std::string_view layout) {
  return IsMatrix(call, input) && ReadsBlocks(call.inputs[input], layout);
}

Result<BoundKernel> BindBlocksOfExperts(const KernelCall& call, const BindOptions& options) {
  BlocksState state;
  if (const auto why = RejectBlocksCall(call, state.shape)) return Unsupported("{}", why->sentence);
  int64_t scratch = 0;
  state.products = std::make_unique<BoundProduct[]>(static_cast<size_t>(state.shape.experts));
  for (int64_t e = 0; e < state.shape.experts; ++e) {
    EVOQ_ASSIGN(
        state.products[static_cast<size_t>(e)],
        WithContext(BoundProduct::Bind(*call.constant(kFirst + static_cast<size_t>(e)),
                                       call.attrs.Int(kDataBlock, 0), state.shape.most(), options),
                    "ExpertMatMul"));
    scratch = std::max(scratch, state.products[static_cast<size_t>(e)].scratch_bytes());
  }
  state.cpu = *options.cpu;
  state.threads = options.threads;
  state.staging = Staging(state.shape, static_cast<size_t>(scratch));
  KernelPlan plan = state.products[0].Describe();
  const size_t bytes = state.staging.bytes;
  return BoundKernel::Of(std::move(state), bytes, std::move(plan));
}

// ---- float32 data

// Each expert by the kernel that takes few rows of it.
const KernelDef& FloatKernelOf(const KernelCall& call, const ExpertShape& s, int64_t expert) {
  const OneExpert one(call, s, expert, 1);
  if (s.x_bytes == 2) return kMatMulBf16;
  return kMatMulW8.reject(one.call) ? kMatMulF32 : kMatMulW8;
}

std::optional<Reason> RejectFloatOfExperts(const KernelCall& call, const KernelDef& kernel) {
  ExpertShape s;
  if (auto why = ReadExperts(call, s)) return why;
  for (int64_t e = 0; e < s.experts; ++e) {
    const OneExpert one(call, s, e, 1);
    if (auto why = kernel.reject(one.call)) return why;
  }
  constexpr int64_t kFewTokens = 16;
  const int64_t tokens = s.rows / std::max<int64_t>(call.inputs[kIds].shape.dims().back().value, 1);
  if (&kernel == &kMatMulW8 && tokens > kFewTokens)
    return Reject("shape", "{} tokens, expected 1 to {}", tokens, kFewTokens);
  return std::nullopt;
}

std::optional<Reason> RejectW8OfExperts(const KernelCall& call) {
  return RejectFloatOfExperts(call, kMatMulW8);
}
std::optional<Reason> RejectF32OfExperts(const KernelCall& call) {
  return RejectFloatOfExperts(call, kMatMulF32);
}
std::optional<Reason> RejectBf16OfExperts(const KernelCall& call) {
  return RejectFloatOfExperts(call, kMatMulBf16);
}

Result<Tensor> PackFloatOfExperts(const KernelCall& call, size_t input) {
  ExpertShape s;
  if (!IsMatrix(call, input) || ReadExperts(call, s)) return Tensor();
  const auto expert = static_cast<int64_t>(input - kFirst);
  const OneExpert one(call, s, expert, 1);
  return FloatKernelOf(call, s, expert).pack(one.call, 1);
}

bool ReadsFloatOfExperts(const KernelCall& call, size_t input, std::string_view layout) {
  ExpertShape s;
  if (!IsMatrix(call, input) || ReadExperts(call, s)) return false;
  if (s.x_bytes == 2) return layout == kMatMulLayoutBf16;
  const OneExpert one(call, s, static_cast<int64_t>(input - kFirst), 1);
  return kMatMulF32.reads(one.call, 1, layout);
}

Result<BoundKernel> BindFloatOfExperts(const KernelCall& call, const BindOptions& options) {
  FloatState state;
  ExpertShape& s = state.shape;
  if (const auto why = ReadExperts(call, s)) return Unsupported("{}", why->sentence);
  size_t scratch = 0;
  KernelPlan plan;
  state.products = std::make_unique<Product[]>(static_cast<size_t>(s.experts) * kBucketCount);
  for (int64_t e = 0; e < s.experts; ++e) {
    const KernelDef& kernel = FloatKernelOf(call, s, e);
    for (size_t b = 0; b < kBucketCount && (b == 0 || kBuckets[b] <= s.most()); ++b) {
      const OneExpert one(call, s, e, kBuckets[b]);
      if (kernel.reject(one.call)) break;  // too many rows
      EVOQ_ASSIGN(BoundKernel bound, WithContext(kernel.bind(one.call, options), "ExpertMatMul"));
      scratch = std::max(scratch, bound.scratch_bytes);
      state.products[static_cast<size_t>(e) * kBucketCount + b] = {std::move(bound.state),
                                                                   bound.run};
      plan = std::move(bound.plan);
    }
  }
  state.staging = Staging(s, scratch);
  const size_t bytes = state.staging.bytes;
  return BoundKernel::Of(std::move(state), bytes, std::move(plan));
}

}  // namespace

extern const KernelDef kExpertBlocks = {
    .name = "expert_matmul_blocks",
    .op = "ExpertMatMul",
    .precision = Precision::kInt8,
    .peak = Peak::kInt8,
    .reject = RejectBlocksOfExperts,
    .pack = PackBlocksOfExperts,
    .reads = ReadsBlocksOfExperts,
    .bind = BindBlocksOfExperts,
};
extern const KernelDef kExpertW8 = {
    .name = "expert_matmul_w8",
    .op = "ExpertMatMul",
    .precision = Precision::kFloat32,
    .peak = Peak::kMemory,
    .reject = RejectW8OfExperts,
    .pack = PackFloatOfExperts,
    .reads = ReadsFloatOfExperts,
    .bind = BindFloatOfExperts,
};
extern const KernelDef kExpertBf16 = {
    .name = "expert_matmul_bf16",
    .op = "ExpertMatMul",
    .precision = Precision::kBf16,
    .peak = Peak::kBf16,
    .reject = RejectBf16OfExperts,
    .pack = PackFloatOfExperts,
    .reads = ReadsFloatOfExperts,
    .bind = BindFloatOfExperts,
};
extern const KernelDef kExpertF32 = {
    .name = "expert_matmul_f32",
    .op = "ExpertMatMul",
    .precision = Precision::kFloat32,
    .peak = Peak::kFloat32,
    .reject = RejectF32OfExperts,
    .pack = PackFloatOfExperts,
    .reads = ReadsFloatOfExperts,
    .bind = BindFloatOfExperts,
};

}  // namespace evoq
