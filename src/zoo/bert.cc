// Devlin et al., "BERT" (2018): base, uncased vocabulary, without the pooler. Attention without a
// mask.
#include "zoo/builder.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kHead = kWidth / kHeads, kInner = 3072,
                  kVocabulary = 30522;

// `length` 0: as many tokens as there are.
// [N, T, width] -> [N, heads, ...]: the key transposed for the product with the query.
ValueId Heads(NetBuilder& b, ValueId x, int64_t length, std::vector<int64_t> perm) {
  const ValueId split =
      b.Apply("Reshape", {x, b.Int64s("heads_shape", {0, length, kHeads, kHead})});
  return b.Apply("Transpose", {split}, Attrs::Of("perm", std::move(perm)));
}

ValueId Attention(NetBuilder& b, ValueId x, int64_t length) {
  const ValueId q = Heads(b, b.MatMul(x, kWidth, kWidth), length, {0, 2, 1, 3});
  const ValueId k = Heads(b, b.MatMul(x, kWidth, kWidth), length, {0, 2, 3, 1});
  const ValueId v = Heads(b, b.MatMul(x, kWidth, kWidth), length, {0, 2, 1, 3});
  const ValueId scores = b.Apply("Div", {b.Apply("MatMul", {q, k}), b.Scalar(8.0f)});
  const ValueId mixed = b.Apply("MatMul", {b.Apply("Softmax", {scores}, Attrs::Of("axis", -1)), v});
  Attrs perm;
  perm.Set("perm", std::vector<int64_t>{0, 2, 1, 3});
  const ValueId joined = b.Apply("Reshape", {b.Apply("Transpose", {mixed}, perm),
                                             b.Int64s("joined_shape", {0, length, kWidth})});
  return b.MatMul(joined, kWidth, kWidth);
}

// x / 2 * (1 + erf(x / sqrt 2)), as exporters of opset < 20 write it.
ValueId Gelu(NetBuilder& b, ValueId x) {
  const ValueId erf = b.Apply("Erf", {b.Apply("Div", {x, b.Scalar(1.41421356f)})});
  return b.Apply("Mul", {b.Apply("Mul", {x, b.Apply("Add", {erf, b.Scalar(1)})}), b.Scalar(0.5f)});
}

// The rows of a table [1, most, width] for the tokens that there are.
ValueId FirstRows(NetBuilder& b, ValueId table, ValueId ids) {
  const ValueId tokens =
      b.Apply("Slice", {b.Apply("Shape", {ids}), b.Int64s("second", {1}), b.Int64s("third", {2})});
  return b.Apply("Slice", {table, b.Int64s("begin", {0}), tokens, b.Int64s("tokens_axis", {1})});
}

Graph BertBase(const ZooOptions& options) {
  const int64_t length = options.free_sequence ? 0 : options.sequence;
  NetBuilder b("bert-base", options.seed);
  const ValueId ids =
      b.Tokens("input_ids", options.free_sequence ? Dim::Symbolic("T") : Dim(options.sequence));
  Attrs axis;
  axis.Set("axis", 0);
  ValueId x =
      b.Apply("Gather", {b.Weights("embeddings.word", {kVocabulary, kWidth}, 0.02f), ids}, axis);
  ValueId positions = b.Weights("embeddings.position", {1, options.sequence, kWidth}, 0.02f);
  if (options.free_sequence) positions = FirstRows(b, positions, ids);
  x = b.LayerNorm(b.Apply("Add", {x, positions}), kWidth);
  for (int layer = 0; layer < 12; ++layer) {
    x = b.LayerNorm(b.Add(Attention(b, x, length), x), kWidth);
    const ValueId inner = Gelu(b, b.MatMul(x, kWidth, kInner));
    x = b.LayerNorm(b.Add(b.MatMul(inner, kInner, kWidth), x), kWidth);
  }
  return b.Finish(x, "last_hidden_state");
}

}  // namespace

extern const ZooModel kZooBertBase = {
    .name = "bert-base",
    .doc = "BERT base, 12 layers, 768 wide; --sequence N tokens",
    .build = BertBase,
};

}  // namespace evoq
