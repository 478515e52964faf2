// He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2015), section 4.2: networks
// for 32 x 32 images of 6 n + 2 layers, with shortcuts of 1 x 1 convolutions where sizes change.
#include "nn/layers.h"
#include "train/network.h"

namespace evoq {
namespace {

ValueId ConvNorm(Layers& b, ValueId x, int64_t in, int64_t out, const Layers::Kernel& kernel) {
  return b.BatchNorm(b.Conv(x, in, out, kernel), out);
}

// `blocks` in each of three stages.
Graph Build(const char* name, int blocks, uint64_t seed, int64_t classes) {
  Layers b(name, seed);
  ValueId x = b.Relu(ConvNorm(b, b.Image(3, 32), 3, 16, {.size = 3, .pad = 1}));
  int64_t in = 16;
  for (int stage = 0; stage < 3; ++stage) {
    const int64_t out = int64_t{16} << stage;
    for (int i = 0; i < blocks; ++i) {
      const int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      ValueId y = b.Relu(ConvNorm(b, x, in, out, {.size = 3, .stride = stride, .pad = 1}));
      y = ConvNorm(b, y, out, out, {.size = 3, .pad = 1});
      if (in != out) x = ConvNorm(b, x, in, out, {.size = 1, .stride = stride});
      x = b.Relu(b.Add(x, y));
      in = out;
    }
  }
  return b.Finish(b.Linear(b.Flatten(b.GlobalPool(x)), in, classes));
}

Graph Resnet8(uint64_t seed, int64_t classes) { return Build("resnet8", 1, seed, classes); }
Graph Resnet20(uint64_t seed, int64_t classes) { return Build("resnet20", 3, seed, classes); }

void Recipe(TrainingRecipe& r) {
  r.epochs = 40;
  r.batch = 64;
  r.optimizer = "nesterov";
  r.lr = 0.1;
  r.warm_up = 1;
  r.weight_decay = 0.0005;
  r.augment = {"shift=4", "flip"};
}

constexpr char kPreprocess[] =
    R"({"scale": 0.00392156862745098, "mean": [0.4914, 0.4822, 0.4465],
 "std": [0.247, 0.2435, 0.2616]}
)";

}  // namespace

extern const NetworkDef kNetworkResnet8, kNetworkResnet20;
const NetworkDef kNetworkResnet8 = {
    .name = "resnet8",
    .doc = "ResNet of 8 layers for color images of 32 x 32.",
    .build = Resnet8,
    .preprocess = kPreprocess,
    .recipe = Recipe,
};
const NetworkDef kNetworkResnet20 = {
    .name = "resnet20",
    .doc = "ResNet of 20 layers for color images of 32 x 32.",
    .build = Resnet20,
    .preprocess = kPreprocess,
    .recipe = Recipe,
};

}  // namespace evoq
