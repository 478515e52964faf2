// Products that round the same data to int8 and multiply it with blocked constants become one: the
// data is rounded once.
#include <cstring>

#include "base/thread_pool.h"
#include "base/work_threads.h"
#include "kernels/gemm/blocks/block_data.h"
#include "passes/match.h"
#include "tensor/spilled.h"

namespace evoq {
namespace {

constexpr size_t kBytesForThreads = size_t{1} << 20;
constexpr int64_t kRowsAtOnce = 64;

struct Product {
  NodeId node;
  Tensor weights;
  Tensor bias;  // undefined: none
};

// A MatMul of `x` with data_block and constant weights in blocks along K; nothing for another.
std::optional<Product> ProductOfData(const Graph& graph, NodeId id, ValueId x) {
  if (!IsOp(graph, id, "MatMul")) return std::nullopt;
  const Node& node = graph.node(id);
  if (node.attrs.Int(kDataBlock, 0) == 0 || node.input(0) != x || node.input(3).valid() ||
      node.outputs.size() != 1 || graph.value(node.outputs[0]).type.quantized())
    return std::nullopt;
  const Tensor* weights = graph.ConstantInput(node, 1);
  if (weights == nullptr || !weights->layout().empty() || !weights->type().quantized() ||
      weights->shape().rank() != 2 || weights->type().quant->axis != 0 ||
      weights->type().quant->block == 0)
    return std::nullopt;
  // Rows begin with a whole byte.
  if (weights->sizes()[1] * DTypeBits(weights->dtype()) % 8 != 0) return std::nullopt;
  if (!node.input(2).valid()) return Product{id, *weights, Tensor()};
  const Tensor* bias = FloatConstant(graph, node.input(2));
  if (bias == nullptr || bias->shape() != Shape{weights->sizes()[1]}) return std::nullopt;
  return Product{id, *weights, *bias};
}

bool Alike(const Graph& graph, const Product& a, const Product& b) {
  return graph.node(a.node).attrs == graph.node(b.node).attrs &&
         a.weights.dtype() == b.weights.dtype() && a.weights.sizes()[0] == b.weights.sizes()[0] &&
         a.weights.type().quant->block == b.weights.type().quant->block &&
         a.bias.defined() == b.bias.defined();
}

// Columns side by side, with their scales and zero points.
Tensor Joined(const std::vector<Product>& products) {
  const int64_t rows = products[0].weights.sizes()[0],
                bits = DTypeBits(products[0].weights.dtype());
  int64_t columns = 0;
  for (const Product& p : products) columns += p.weights.sizes()[1];
  QuantParams quant;
  quant.axis = 0;
  quant.block = products[0].weights.type().quant->block;
  const auto bands = (rows + quant.block - 1) / quant.block;
  for (int64_t band = 0; band < bands; ++band) {
    for (const Product& p : products) {
      const QuantParams& q = *p.weights.type().quant;
      const int64_t n = p.weights.sizes()[1], at = band * n;
      quant.scales.insert(quant.scales.end(), q.scales.begin() + at, q.scales.begin() + at + n);
      quant.zero_points.insert(quant.zero_points.end(), q.zero_points.begin() + at,
                               q.zero_points.begin() + at + n);
    }
  }
  Tensor joined = Tensor::Allocate(
      TensorType(products[0].weights.dtype(), Shape{rows, columns}, std::move(quant)));
  std::byte* const all = joined.mutable_raw();
  ThreadPool pool(joined.bytes() < kBytesForThreads ? 1 : WorkThreads::Get());
  pool.ParallelFor(rows, kRowsAtOnce, [&](int64_t row, int64_t end) {
    std::byte* to = all + row * (columns * bits / 8);
    for (; row < end; ++row) {
      for (const Product& p : products) {
        const int64_t bytes = p.weights.sizes()[1] * bits / 8;
        std::memcpy(to, p.weights.raw() + row * bytes, static_cast<size_t>(bytes));
        to += bytes;
      }
    }
  });
  for (const Product& p : products) ReleasePages(p.weights);
  return Spilled(std::move(joined));
}

void Merge(Graph& graph, const std::vector<Product>& products) {
  Node merged = graph.node(products[0].node);
  const std::string name = merged.name;
  merged.inputs[1] =
      graph.AddConstant(graph.value(merged.inputs[1]).name + "_joined", Joined(products));
  std::vector<int64_t> sizes;
  for (const Product& p : products) sizes.push_back(p.weights.sizes()[1]);
  if (products[0].bias.defined()) {
    std::vector<float> bias;
    for (const Product& p : products) {
      const auto values = p.bias.values<float>();
      bias.insert(bias.end(), values.begin(), values.end());
    }
    merged.inputs[2] =
        graph.AddConstant(graph.value(merged.inputs[2]).name + "_joined", Tensor::FromValues(bias));
  }
  Node split{.op = "Split", .name = name + "_parts"};
  split.attrs.Set("axis", -1);
  for (const Product& p : products) {
    split.outputs.push_back(graph.node(p.node).outputs[0]);
    graph.RemoveNode(p.node);
  }
  merged.outputs = {graph.AddValue(name + "_joined")};
  split.inputs = {merged.outputs[0], AddInts(graph, name + "_sizes", sizes)};
  graph.AddNode(std::move(merged));
  graph.AddNode(std::move(split));
}

bool Fuse(Graph& graph, NodeId id) {
  const ValueId x = graph.node(id).input(0);
  const auto first = x.valid() ? ProductOfData(graph, id, x) : std::nullopt;
  if (!first) return false;
  std::vector<Product> products = {*first};
  for (NodeId user : graph.value(x).users) {
    const auto other = user == id ? std::nullopt : ProductOfData(graph, user, x);
    if (other && Alike(graph, *first, *other)) products.push_back(*other);
  }
  if (products.size() < 2) return false;
  Merge(graph, products);
  return true;
}

Result<int> Run(Graph& graph) { return CountChanges(graph, Fuse); }

}  // namespace

extern const PassDef kMergeProducts = {
    .name = "merge-products",
    .doc = "Products of the same data with data_block and alike blocked weights become one.",
    .stage = Stage::kLower,
    .level = 3,
    .run = Run,
};

}  // namespace evoq
