// Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), for 32 x 32
// images: half as wide, and halved twice only.
#include "nn/layers.h"
#include "train/network.h"

namespace evoq {
namespace {

ValueId ConvNorm(Layers& b, ValueId x, int64_t in, int64_t out, const Layers::Kernel& kernel) {
  return b.BatchNorm(b.Conv(x, in, out, kernel), out);
}

// Wide inside, narrow outside.
ValueId Bottleneck(Layers& b, ValueId x, int64_t in, int64_t out, int64_t wider, int64_t stride) {
  const int64_t wide = in * wider;
  ValueId y = x;
  if (wider > 1) y = b.Relu6(ConvNorm(b, y, in, wide, {.size = 1}));
  y = b.Relu6(ConvNorm(b, y, wide, wide, {.stride = stride, .pad = 1, .groups = wide}));
  y = ConvNorm(b, y, wide, out, {.size = 1});
  return in == out && stride == 1 ? b.Add(x, y) : y;
}

struct Stage {
  int64_t wider, channels, blocks, stride;
};
constexpr Stage kStages[] = {{1, 8, 1, 1},  {6, 12, 2, 1}, {6, 16, 3, 2},
                             {6, 32, 4, 2}, {6, 48, 3, 1}, {6, 80, 2, 1}};

Graph Build(uint64_t seed, int64_t classes) {
  Layers b("mobilenetv2-small", seed);
  int64_t in = 16;
  ValueId x = b.Relu6(ConvNorm(b, b.Image(3, 32), 3, in, {.pad = 1}));
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      x = Bottleneck(b, x, in, stage.channels, stage.wider, i == 0 ? stage.stride : 1);
      in = stage.channels;
    }
  }
  constexpr int64_t kLast = 320;
  x = b.Relu6(ConvNorm(b, x, in, kLast, {.size = 1}));
  return b.Finish(b.Linear(b.Flatten(b.GlobalPool(x)), kLast, classes));
}

void Recipe(TrainingRecipe& r) {
  r.epochs = 40;
  r.batch = 64;
  r.optimizer = "nesterov";
  r.lr = 0.05;
  r.warm_up = 1;
  r.weight_decay = 0.0002;
  r.augment = {"shift=4", "flip"};
}

}  // namespace

extern const NetworkDef kNetworkMobilenetV2Small = {
    .name = "mobilenetv2-small",
    .doc = "MobileNetV2 for color images of 32 x 32, of half the width.",
    .build = Build,
    .preprocess = R"({"scale": 0.00392156862745098, "mean": [0.4914, 0.4822, 0.4465],
 "std": [0.247, 0.2435, 0.2616]}
)",
    .recipe = Recipe,
};

}  // namespace evoq
