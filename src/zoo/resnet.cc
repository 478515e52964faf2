// He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2015). ResNet-50 in the v1.5
// form: the stride of a bottleneck is in its 3x3 convolution.
#include "zoo/builder.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

// Convolution, with its BatchNormalization as a node of its own when `norm`, else as if folded.
ValueId ConvNorm(NetBuilder& b, ValueId x, int64_t in, int64_t out, NetBuilder::ConvOptions o,
                 bool norm) {
  o.bias = !norm;
  const ValueId y = b.Conv(x, in, out, o);
  return norm ? b.BatchNorm(y, out) : y;
}

Graph Resnet(const char* name, const std::vector<int>& blocks, bool bottleneck, bool norm,
             const ZooOptions& options) {
  NetBuilder b(name, options.seed);
  ValueId x = b.Image("input", 3, 224);
  x = b.Relu(ConvNorm(b, x, 3, 64, {.kernel = 7, .stride = 2, .pad = 3}, norm));
  x = b.MaxPool(x, 3, 2, 1);
  int64_t in = 64;
  for (size_t stage = 0; stage < blocks.size(); ++stage) {
    const int64_t width = int64_t{64} << stage, out = bottleneck ? width * 4 : width;
    for (int i = 0; i < blocks[stage]; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      ValueId y = x;
      if (bottleneck) {
        y = b.Relu(ConvNorm(b, y, in, width, {}, norm));
        y = b.Relu(ConvNorm(b, y, width, width, {.kernel = 3, .stride = stride, .pad = 1}, norm));
        y = ConvNorm(b, y, width, out, {}, norm);
      } else {
        y = b.Relu(ConvNorm(b, y, in, width, {.kernel = 3, .stride = stride, .pad = 1}, norm));
        y = ConvNorm(b, y, width, out, {.kernel = 3, .pad = 1}, norm);
      }
      if (stride != 1 || in != out) x = ConvNorm(b, x, in, out, {.stride = stride}, norm);
      x = b.Relu(b.Add(y, x));
      in = out;
    }
  }
  x = b.Flatten(b.GlobalAveragePool(x));
  return b.Finish(b.Dense(x, in, 1000), "logits");
}

Graph Resnet18(const ZooOptions& o) { return Resnet("resnet18", {2, 2, 2, 2}, false, false, o); }
Graph Resnet50(const ZooOptions& o) { return Resnet("resnet50", {3, 4, 6, 3}, true, false, o); }
Graph Resnet50Bn(const ZooOptions& o) { return Resnet("resnet50-bn", {3, 4, 6, 3}, true, true, o); }

}  // namespace

extern const ZooModel kZooResnet18, kZooResnet50, kZooResnet50Bn;
const ZooModel kZooResnet18 = {
    .name = "resnet18",
    .doc = "ResNet-18, BatchNormalization folded, 224 x 224",
    .build = Resnet18,
};
const ZooModel kZooResnet50 = {
    .name = "resnet50",
    .doc = "ResNet-50 v1.5, BatchNormalization folded, 224 x 224",
    .build = Resnet50,
};
const ZooModel kZooResnet50Bn = {
    .name = "resnet50-bn",
    .doc = "ResNet-50 v1.5 with explicit BatchNormalization, 224 x 224",
    .build = Resnet50Bn,
};

}  // namespace evoq
