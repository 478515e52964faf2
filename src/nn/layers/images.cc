// Layers of images [N, channels, height, width].
#include "nn/layer.h"

namespace evoq {
namespace {

// A window of one size for both axes.
struct Windowed {
  int64_t size, stride, pad;
};

Result<ValueId> Conv(Layers& b, const LayerOptions& o, ValueId x) {
  Layers::Kernel kernel;
  EVOQ_ASSIGN(const int64_t in, SizeAlong(b, x, 1));
  EVOQ_ASSIGN(const int64_t out, o.Int("channels", 1));
  EVOQ_ASSIGN(kernel.size, o.Int("size", 1, 3));
  EVOQ_ASSIGN(kernel.stride, o.Int("stride", 1, 1));
  EVOQ_ASSIGN(kernel.dilation, o.Int("dilation", 1, 1));
  EVOQ_ASSIGN(kernel.pad, o.Int("pad", 0, kernel.dilation * (kernel.size - 1) / 2));
  EVOQ_ASSIGN(kernel.groups, o.Int("groups", 1, 1));
  EVOQ_ASSIGN(kernel.bias, o.Flag("bias", true));
  if (in % kernel.groups != 0 || out % kernel.groups != 0)
    return InvalidInput("groups is {}, expected a divisor of {} and {} channels", kernel.groups, in,
                        out);
  return b.Conv(x, in, out, kernel);
}

Result<ValueId> Pool(Layers& b, const LayerOptions& o, ValueId x, const char* op) {
  EVOQ_ASSIGN(const int64_t size, o.Int("size", 1, 2));
  EVOQ_ASSIGN(const int64_t stride, o.Int("stride", 1, size));
  EVOQ_ASSIGN(const int64_t pad, o.Int("pad", 0, 0));
  return b.Pool(op, x, size, stride, pad);
}
Result<ValueId> MaxPool(Layers& b, const LayerOptions& o, ValueId x) {
  return Pool(b, o, x, "MaxPool");
}
Result<ValueId> AveragePool(Layers& b, const LayerOptions& o, ValueId x) {
  return Pool(b, o, x, "AveragePool");
}

Result<ValueId> BatchNorm(Layers& b, const LayerOptions&, ValueId x) {
  EVOQ_ASSIGN(const int64_t channels, SizeAlong(b, x, 1));
  return b.BatchNorm(x, channels);
}

Result<ValueId> GroupNorm(Layers& b, const LayerOptions& o, ValueId x) {
  EVOQ_ASSIGN(const int64_t channels, SizeAlong(b, x, 1));
  EVOQ_ASSIGN(const int64_t groups, o.Int("groups", 1));
  return b.GroupNorm(x, channels, groups);
}

Result<ValueId> GlobalPool(Layers& b, const LayerOptions&, ValueId x) { return b.GlobalPool(x); }

Result<ValueId> Flatten(Layers& b, const LayerOptions&, ValueId x) { return b.Flatten(x); }

}  // namespace

extern const LayerDef kLayerAveragePool, kLayerBatchNorm, kLayerConv, kLayerFlatten,
    kLayerGlobalPool, kLayerGroupNorm, kLayerMaxPool;
const LayerDef kLayerAveragePool = {.name = "average-pool",
                                    .doc = "Means of windows.",
                                    .options = "size stride pad",
                                    .build = AveragePool};
const LayerDef kLayerBatchNorm = {.name = "batch-norm",
                                  .doc = "Batch normalization of each channel.",
                                  .options = "",
                                  .build = BatchNorm};
const LayerDef kLayerConv = {.name = "conv",
                             .doc = "A convolution; without `pad` it keeps the size.",
                             .options = "channels size stride pad groups dilation bias",
                             .build = Conv};
const LayerDef kLayerFlatten = {
    .name = "flatten", .doc = "One list of numbers a sample.", .options = "", .build = Flatten};
const LayerDef kLayerGlobalPool = {
    .name = "global-pool", .doc = "The mean of each channel.", .options = "", .build = GlobalPool};
const LayerDef kLayerGroupNorm = {.name = "group-norm",
                                  .doc = "Normalization over groups of channels.",
                                  .options = "groups",
                                  .build = GroupNorm};
const LayerDef kLayerMaxPool = {.name = "max-pool",
                                .doc = "The largest number of each window.",
                                .options = "size stride pad",
                                .build = MaxPool};

}  // namespace evoq
