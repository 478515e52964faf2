// Layers of rows of numbers: [N, width], or of tokens [N, T, width].
#include "base/nearest.h"
#include "nn/layer.h"

namespace evoq {
namespace {

Result<ValueId> Linear(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const int64_t in, SizeAlong(b, x, -1));
  EVOQ_ASSIGN(const int64_t out, o.Int("outputs", 1));
  EVOQ_ASSIGN(const bool bias, o.Flag("bias", true));
  EVOQ_ASSIGN(const TensorType type, b.TypeOf(x));
  return type.shape.rank() == 2 && bias ? b.Linear(x, in, out) : b.Project(x, in, out, bias);
}

Result<ValueId> LayerNorm(Layers& b, const LayerOptions&, ValueId x) {
  EVOQ_ASSIGN(const int64_t width, SizeAlong(b, x, -1));
  return b.LayerNorm(x, width);
}

Result<ValueId> RmsNorm(Layers& b, const LayerOptions&, ValueId x) {
  EVOQ_ASSIGN(const int64_t width, SizeAlong(b, x, -1));
  return b.RmsNorm(x, width);
}

Result<ValueId> Embedding(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const TensorType type, b.TypeOf(x));
  if (type.dtype != DType::kInt64)
    return InvalidInput("its input is {}, expected tokens", type.ToString());
  EVOQ_ASSIGN(const int64_t pieces, o.Int("pieces", 1));
  EVOQ_ASSIGN(const int64_t width, o.Int("width", 1));
  return b.Embedding(x, pieces, width);
}

// The width of x [N, T, width].
Result<int64_t> WidthOf(Layers& b, ValueId x) {
  EVOQ_ASSIGN(const TensorType type, b.TypeOf(x));
  if (!type.shape.ranked() || type.shape.rank() != 3)
    return InvalidInput("its input is {}, expected [N, T, width]", type.ToString());
  return SizeAlong(b, x, -1);
}

Result<ValueId> Positions(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const int64_t width, WidthOf(b, x));
  EVOQ_ASSIGN(const int64_t length, o.Int("length", 1));
  return b.Positions(x, length, width);
}

Result<ValueId> Attention(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const int64_t width, WidthOf(b, x));
  EVOQ_ASSIGN(const int64_t heads, o.Int("heads", 1));
  EVOQ_ASSIGN(const bool causal, o.Flag("causal", false));
  if (width % heads != 0)
    return InvalidInput("heads is {}, expected a divisor of the width {}", heads, width);
  return b.Attention(x, width, heads, causal);
}

// How activations are called, and ONNX's operators.
struct Function {
  const char* name;
  const char* op;
};
constexpr Function kFunctions[] = {{"relu", "Relu"},
                                   {"relu6", "Clip"},
                                   {"leaky-relu", "LeakyRelu"},
                                   {"elu", "Elu"},
                                   {"gelu", "Gelu"},
                                   {"sigmoid", "Sigmoid"},
                                   {"silu", "Swish"},
                                   {"hard-swish", "HardSwish"},
                                   {"mish", "Mish"},
                                   {"softplus", "Softplus"},
                                   {"tanh", "Tanh"}};

Result<ValueId> Activation(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const std::string kind, o.Text("kind", "relu"));
  std::string names;
  for (const Function& f : kFunctions) {
    names += (names.empty() ? "" : ", ") + std::string(f.name);
    if (kind != f.name) continue;
    return kind == "relu6" ? b.Relu6(x) : b.Apply(f.op, x);
  }
  return InvalidInput("kind is {}, expected one of {}", kind, names);
}

}  // namespace

extern const LayerDef kLayerActivation, kLayerAttention, kLayerEmbedding, kLayerLayerNorm,
    kLayerLinear, kLayerPositions, kLayerRmsNorm;
const LayerDef kLayerActivation = {.name = "activation",
                                   .doc = "A function of each number, `kind`: relu, gelu, ...",
                                   .options = "kind",
                                   .build = Activation};
const LayerDef kLayerAttention = {.name = "attention",
                                  .doc = "Self-attention; causal: tokens see no later ones.",
                                  .options = "heads causal",
                                  .build = Attention};
const LayerDef kLayerEmbedding = {.name = "embedding",
                                  .doc = "Tokens become rows of a table.",
                                  .options = "pieces width",
                                  .build = Embedding};
const LayerDef kLayerLayerNorm = {.name = "layer-norm",
                                  .doc = "Normalization over the last axis.",
                                  .options = "",
                                  .build = LayerNorm};
const LayerDef kLayerLinear = {.name = "linear",
                               .doc = "A matrix product along the last axis, and a bias.",
                               .options = "outputs bias",
                               .build = Linear};
const LayerDef kLayerPositions = {.name = "positions",
                                  .doc = "Adds a learned row for each place of a text.",
                                  .options = "length",
                                  .build = Positions};
const LayerDef kLayerRmsNorm = {.name = "rms-norm",
                                .doc = "Normalization by the root of the mean square.",
                                .options = "",
                                .build = RmsNorm};

}  // namespace evoq
