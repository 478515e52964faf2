// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019): a decoder with
// normalization before attention and before the layers of each token; 4 blocks of width 128 with
// 4 heads, and texts of up to 256 tokens.
#include "nn/layers.h"
#include "train/network.h"

namespace evoq {
namespace {

constexpr int64_t kWidth = 128, kHeads = 4, kBlocks = 4, kLength = 256;

Graph Build(uint64_t seed, int64_t pieces) {
  Layers b("tiny-gpt", seed);
  ValueId x = b.Positions(b.Embedding(b.Tokens(), pieces, kWidth), kLength, kWidth);
  for (int64_t i = 0; i < kBlocks; ++i) {
    x = b.Add(x, b.Attention(b.LayerNorm(x, kWidth), kWidth, kHeads, /*causal=*/true));
    const ValueId wide = b.Apply("Gelu", b.Project(b.LayerNorm(x, kWidth), kWidth, 4 * kWidth));
    x = b.Add(x, b.Project(wide, 4 * kWidth, kWidth));
  }
  return b.Finish(b.Project(b.LayerNorm(x, kWidth), kWidth, pieces, /*bias=*/false));
}

void Recipe(TrainingRecipe& r) {
  r.epochs = 4;
  r.batch = 16;
  r.shard = 1;
  r.optimizer = "adamw";
  r.lr = 0.002;
  r.beta2 = 0.99;
  r.warm_up = 0.2;
  r.weight_decay = 0.1;
  r.clip_norm = 1;
}

}  // namespace

extern const NetworkDef kNetworkTinyGpt = {
    .name = "tiny-gpt",
    .doc = "GPT of 4 blocks of width 128 for texts of up to 256 tokens.",
    .build = Build,
    .preprocess = "",
    .recipe = Recipe,
};

}  // namespace evoq
