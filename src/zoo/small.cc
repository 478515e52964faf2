// Small image classifiers.
#include "zoo/builder.h"
#include "zoo/zoo.h"

namespace evoq {
namespace {

// LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998), with Relu and max
// pooling.
Graph Lenet(const ZooOptions& options) {
  NetBuilder b("lenet", options.seed);
  ValueId x = b.Image("input", 1, 28);
  x = b.MaxPool(b.Relu(b.Conv(x, 1, 6, {.kernel = 5, .pad = 2})), 2, 2, 0);
  x = b.MaxPool(b.Relu(b.Conv(x, 6, 16, {.kernel = 5})), 2, 2, 0);
  x = b.Relu(b.Dense(b.Flatten(x), 16 * 5 * 5, 120));
  x = b.Relu(b.Dense(x, 120, 84));
  return b.Finish(b.Dense(x, 84, 10), "logits");
}

// Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), table 2.
Graph MobilenetV2(const ZooOptions& options) {
  struct Row {
    int64_t expand, channels, repeats, stride;
  };
  static constexpr Row kRows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  NetBuilder b("mobilenetv2", options.seed);
  ValueId x =
      b.Clip(b.Conv(b.Image("input", 3, 224), 3, 32, {.kernel = 3, .stride = 2, .pad = 1}), 0, 6);
  int64_t in = 32;
  for (const Row& row : kRows) {
    for (int64_t i = 0; i < row.repeats; ++i) {
      const int64_t hidden = in * row.expand, stride = i == 0 ? row.stride : 1;
      ValueId y = x;
      if (row.expand != 1) y = b.Clip(b.Conv(y, in, hidden, {}), 0, 6);
      y = b.Clip(
          b.Conv(y, hidden, hidden, {.kernel = 3, .stride = stride, .pad = 1, .group = hidden}), 0,
          6);
      y = b.Conv(y, hidden, row.channels, {});
      x = stride == 1 && in == row.channels ? b.Add(x, y) : y;
      in = row.channels;
    }
  }
  x = b.Clip(b.Conv(x, in, 1280, {}), 0, 6);
  x = b.Flatten(b.GlobalAveragePool(x));
  return b.Finish(b.Dense(x, 1280, 1000), "logits");
}

ValueId Fire(NetBuilder& b, ValueId x, int64_t in, int64_t squeeze, int64_t expand) {
  const ValueId s = b.Relu(b.Conv(x, in, squeeze, {}));
  const ValueId left = b.Relu(b.Conv(s, squeeze, expand, {}));
  const ValueId right = b.Relu(b.Conv(s, squeeze, expand, {.kernel = 3, .pad = 1}));
  return b.Apply("Concat", {left, right}, Attrs::Of("axis", 1));
}

// Iandola et al., "SqueezeNet" (2016), version 1.1.
Graph Squeezenet(const ZooOptions& options) {
  NetBuilder b("squeezenet1.1", options.seed);
  ValueId x = b.Relu(b.Conv(b.Image("input", 3, 224), 3, 64, {.kernel = 3, .stride = 2}));
  x = b.MaxPool(x, 3, 2, 0);
  x = Fire(b, Fire(b, x, 64, 16, 64), 128, 16, 64);
  x = b.MaxPool(x, 3, 2, 0);
  x = Fire(b, Fire(b, x, 128, 32, 128), 256, 32, 128);
  x = b.MaxPool(x, 3, 2, 0);
  x = Fire(b, Fire(b, x, 256, 48, 192), 384, 48, 192);
  x = Fire(b, Fire(b, x, 384, 64, 256), 512, 64, 256);
  x = b.Relu(b.Conv(x, 512, 1000, {}));
  return b.Finish(b.Flatten(b.GlobalAveragePool(x)), "logits");
}

// Simonyan and Zisserman, "Very Deep Convolutional Networks" (2014), configuration D.
Graph Vgg16(const ZooOptions& options) {
  static constexpr int64_t kStages[][2] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  NetBuilder b("vgg16", options.seed);
  ValueId x = b.Image("input", 3, 224);
  int64_t in = 3;
  for (const auto& [channels, repeats] : kStages) {
    for (int64_t i = 0; i < repeats; ++i) {
      x = b.Relu(b.Conv(x, in, channels, {.kernel = 3, .pad = 1}));
      in = channels;
    }
    x = b.MaxPool(x, 2, 2, 0);
  }
  x = b.Relu(b.Dense(b.Flatten(x), 512 * 7 * 7, 4096));
  x = b.Relu(b.Dense(x, 4096, 4096));
  return b.Finish(b.Dense(x, 4096, 1000), "logits");
}

}  // namespace

extern const ZooModel kZooLenet, kZooMobilenetV2, kZooSqueezenet, kZooVgg16;
const ZooModel kZooLenet = {
    .name = "lenet",
    .doc = "LeNet-5 with Relu and max pooling, 28 x 28",
    .build = Lenet,
};
const ZooModel kZooMobilenetV2 = {
    .name = "mobilenetv2",
    .doc = "MobileNetV2 1.0, BatchNormalization folded, 224 x 224",
    .build = MobilenetV2,
};
const ZooModel kZooSqueezenet = {
    .name = "squeezenet1.1",
    .doc = "SqueezeNet 1.1, 224 x 224",
    .build = Squeezenet,
};
const ZooModel kZooVgg16 = {
    .name = "vgg16",
    .doc = "VGG-16, 224 x 224",
    .build = Vgg16,
};

}  // namespace evoq
