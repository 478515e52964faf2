// Layers that are made of layers.
#include "nn/layer.h"

namespace evoq {
namespace {

Result<ValueId> Sequential(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const auto list, o.Layers("layers"));
  return AddLayers(b, list, x);
}

// He et al. (2015): what the layers give, and x, or what the layers of the shortcut make of it.
Result<ValueId> Residual(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const auto list, o.Layers("layers"));
  EVOQ_ASSIGN(const auto shortcut, o.Layers("shortcut"));
  EVOQ_ASSIGN(const ValueId inner, AddLayers(b, list, x));
  EVOQ_ASSIGN(const ValueId around, WithContext(AddLayers(b, shortcut, x), "shortcut"));
  EVOQ_ASSIGN(const TensorType a, b.TypeOf(inner));
  EVOQ_ASSIGN(const TensorType c, b.TypeOf(around));
  const bool differ =
      a.shape.is_static() != c.shape.is_static() || a.shape.rank() != c.shape.rank();
  if (inner == around || differ || a.shape != c.shape)
    return InvalidInput("its layers give {}, expected {} to add to", a.ToString(), c.ToString());
  return b.Add(around, inner);
}

Result<ValueId> Concat(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const auto branches, o.Layers("layers"));
  if (branches.size() < 2) return InvalidInput("expected at least two layers beside each other");
  std::vector<ValueId> parts;
  for (const nlohmann::json& branch : branches) {
    EVOQ_ASSIGN(const ValueId part, AddLayers(b, std::span(&branch, 1), x));
    parts.push_back(part);
  }
  EVOQ_ASSIGN(const TensorType type, b.TypeOf(parts[0]));
  return b.Concat(std::move(parts), type.shape.rank() == 4 ? 1 : -1);
}

}  // namespace

extern const LayerDef kLayerConcat, kLayerResidual, kLayerSequential;
const LayerDef kLayerConcat = {
    .name = "concat",
    .doc = "Layers beside each other, whose channels stand one behind the other.",
    .options = "layers",
    .build = Concat};
const LayerDef kLayerResidual = {.name = "residual",
                                 .doc = "Adds what goes in, or a shortcut's layers of it.",
                                 .options = "layers shortcut",
                                 .build = Residual};
const LayerDef kLayerSequential = {.name = "sequential",
                                   .doc = "Layers one behind the other.",
                                   .options = "layers",
                                   .build = Sequential};

}  // namespace evoq
