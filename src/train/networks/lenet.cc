// LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998): two convolutions
// of 5 x 5, each halved by pooling, then fully connected layers; with Relu, max pooling and batch
// normalization, which came later, and 16 and 32 channels.
#include "nn/layers.h"
#include "train/network.h"

namespace evoq {
namespace {

Graph Build(uint64_t seed, int64_t classes) {
  Layers b("lenet", seed);
  ValueId x = b.Image(1, 28);
  x = b.MaxPool(b.Relu(b.BatchNorm(b.Conv(x, 1, 16, {.size = 5}), 16)), 2);
  x = b.MaxPool(b.Relu(b.BatchNorm(b.Conv(x, 16, 32, {.size = 5}), 32)), 2);
  x = b.Relu(b.Linear(b.Flatten(x), 32 * 4 * 4, 128));
  return b.Finish(b.Linear(x, 128, classes));
}

void Recipe(TrainingRecipe& r) {
  r.epochs = 4;
  r.batch = 64;
  r.optimizer = "adamw";
  r.lr = 0.003;
  r.weight_decay = 0.01;
  r.augment = {"shift=2"};
}

}  // namespace

extern const NetworkDef kNetworkLenet = {
    .name = "lenet",
    .doc = "LeNet for gray images of 28 x 28, with Relu, max pooling and batch normalization.",
    .build = Build,
    .preprocess = R"({"color": "GRAY", "scale": 0.00392156862745098, "mean": [0.1307],
 "std": [0.3081]}
)",
    .recipe = Recipe,
};

}  // namespace evoq
