// How a model is trained: everything that decides the result, but for the model and the data.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quant/quant.h"

namespace evoq {

struct TrainingRecipe {
  int64_t epochs = 10;
  int64_t batch = 64;
  int64_t shard = 16;  // samples that one thread computes at a time; divides the batch
  std::string optimizer = "adamw", schedule = "cosine", loss = "cross-entropy";
  double lr = 0.001;
  double warm_up = 0;  // epochs
  double momentum = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  double label_smoothing = 0;
  double clip_norm = 0;  // 0: gradients stay as they are
  double ema = 0;        // of the average of weights (Learner::Average); 0: none
  double mixup = 0;      // both parameters of the beta distribution; 0: none
  std::vector<std::string> augment, freeze;
  std::vector<std::string> decay;  // PATTERN=DECAY of parameters, the last that matches counts
  int64_t context = 128;           // tokens of a sample, where the model leaves them free
  // Training with the integers of this scheme (train/quantized.h), or with the weights that it
  // makes (train/weight_rounder.h); "": with float32.
  std::string scheme;
  std::string block = "32";  // of weights of few bits along K: one of WeightBlocks()
  std::vector<std::string> weight_bits, activation_bits, exclude;  // as of quantize
  // The temperature of what is learned from another model's scores (train/distill.h), and its share
  // of the loss.
  double distill = 4, distill_share = 0.9;
  std::string teacher;  // the name of that model; "": none
  // What is learned from values on its way to the scores (PairFeatures), and how much that counts
  // beside the loss.
  std::vector<std::string> distill_features;
  double distill_features_weight = 1;
  uint64_t seed = 1;
  // Pruning (train/pruner.h): a pattern, kHoldZeros, or "": none. Sparsity 0: the pattern's
  // default.
  std::string prune, prune_score = "magnitude", prune_scope = "layer";
  double sparsity = 0;
  int64_t prune_multiple = 1;  // of channels that stay in a layer
  std::string lora;            // ParseLora (train/lora.h); "": all parameters are trained
  // Activations are computed again on the way back (TrainingPlan::segments). Decides nothing of the
  // result, and is no part of ToJson.
  bool recompute = false;
};

// Errors: kUsage naming the first option that is out of its range, or names no row.
Status CheckRecipe(const TrainingRecipe& recipe);

// The weights-only scheme that a recipe trains with (train/weight_rounder.h), or that stays beside
// its adapters; null for other schemes and none.
const QuantScheme* WeightScheme(const TrainingRecipe& recipe);

// TrainingRecipe::decay: a glob pattern of names and a number.
struct DecayGroup {
  std::string pattern;
  double decay;
};
// Errors: kUsage for what is not PATTERN=NUMBER, with a number from 0 to 1000.
Result<std::vector<DecayGroup>> ParseDecay(const std::vector<std::string>& options);

nlohmann::json ToJson(const TrainingRecipe& recipe);
// The members that some checkpoints of earlier versions do not have, with what they were then: all
// but those of the first version.
nlohmann::json AddedLater();
// The first member in which two recipes differ: "lr is 0.1, not 0.01"; "" where they are equal.
std::string DifferenceOf(const nlohmann::json& wanted, const nlohmann::json& found);

}  // namespace evoq
