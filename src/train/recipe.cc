#include "train/recipe.h"

#include <charconv>
#include <cmath>

#include "base/json_file.h"
#include "base/nearest.h"
#include "base/rows.h"
#include "quant/layer_bits.h"
#include "quant/low_bits.h"
#include "train/augmentation.h"
#include "train/lora.h"
#include "train/loss.h"
#include "train/optimizer.h"
#include "train/pruner.h"
#include "train/schedule.h"

namespace evoq {
namespace {

// Errors: kUsage unless low <= value <= high.
Status InRange(const char* option, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return Fail(ErrorCode::kUsage, "{} {}: expected a number from {} to {}", option, value, low,
              high);
}

template <typename Row>
Status IsRow(const char* option, std::span<const Row* const> rows, const std::string& name) {
  if (FindRow(rows, name) != nullptr) return {};
  std::string names;
  for (const Row* row : rows) names += (names.empty() ? "" : ", ") + std::string(row->name);
  return Fail(ErrorCode::kUsage, "{} {}: expected one of {}{}", option, name, names,
              NearestHint(name, rows));
}

// Of training with integers.
Status CheckIntegers(const TrainingRecipe& r) {
  EVOQ_ASSIGN(const std::vector<LayerBits> weight_bits, ParseWeightBits(r.weight_bits));
  EVOQ_TRY(ParseActivationBits(r.activation_bits));
  if (!r.prune.empty() && HasSigns(weight_bits))
    return Fail(ErrorCode::kUsage, "--prune {}: weights of 1 bit are signs, none of them is 0",
                r.prune);
  if (r.scheme.empty()) {
    for (const auto& [option, given] : {std::pair("--weight-bits", !r.weight_bits.empty()),
                                        std::pair("--activation-bits", !r.activation_bits.empty()),
                                        std::pair("--exclude", !r.exclude.empty())}) {
      if (given)
        return Fail(ErrorCode::kUsage, "{}: of training with integers: --scheme int8", option);
    }
    return {};
  }
  const QuantScheme* const scheme = FindScheme(r.scheme);
  const bool weights = WeightScheme(r) != nullptr;
  if (!r.lora.empty() && !weights)
    return Fail(ErrorCode::kUsage,
                "--scheme {}: with --lora, expected a weights-only scheme as int4-weights",
                r.scheme);
  if (!weights && (scheme == nullptr || scheme->values != DType::kUint8))
    return Fail(ErrorCode::kUsage,
                "--scheme {}: expected int8, whose arithmetic training simulates, or a "
                "weights-only scheme as int4-weights",
                r.scheme);
  if (!weights) return {};
  for (const auto& [option, given] : {std::pair("--weight-bits", !r.weight_bits.empty()),
                                      std::pair("--activation-bits", !r.activation_bits.empty())}) {
    if (given)
      return Fail(ErrorCode::kUsage, "{}: of training with integers: --scheme int8, not {}", option,
                  r.scheme);
  }
  return {};
}

}  // namespace

Status CheckRecipe(const TrainingRecipe& r) {
  constexpr double kMost = 1 << 20;
  EVOQ_TRY(IsRow("--optimizer", AllOptimizers(), r.optimizer));
  EVOQ_TRY(IsRow("--schedule", AllSchedules(), r.schedule));
  EVOQ_TRY(IsRow("--loss", AllLosses(), r.loss));
  EVOQ_TRY(InRange("--epochs", static_cast<double>(r.epochs), 1, kMost));
  EVOQ_TRY(InRange("--batch", static_cast<double>(r.batch), 1, kMost));
  EVOQ_TRY(InRange("--shard", static_cast<double>(r.shard), 1, kMost));
  EVOQ_TRY(InRange("--lr", r.lr, 0, 1000));
  EVOQ_TRY(InRange("--warm-up", r.warm_up, 0, static_cast<double>(r.epochs)));
  EVOQ_TRY(InRange("--momentum", r.momentum, 0, 1));
  EVOQ_TRY(InRange("--beta2", r.beta2, 0, 1));
  EVOQ_TRY(InRange("--weight-decay", r.weight_decay, 0, 1000));
  EVOQ_TRY(InRange("--label-smoothing", r.label_smoothing, 0, 1));
  EVOQ_TRY(InRange("--clip-norm", r.clip_norm, 0, 1e9));
  EVOQ_TRY(ParseAugmentations(r.augment));
  EVOQ_TRY(InRange("--ema", r.ema, 0, 1));
  if (r.ema > 0 && !r.prune.empty())
    return Fail(ErrorCode::kUsage, "--ema {}: an average of weights has no zeros: not with --prune",
                r.ema);
  EVOQ_TRY(InRange("--mixup", r.mixup, 0, 1));
  EVOQ_TRY(ParseDecay(r.decay));
  EVOQ_TRY(InRange("--context", static_cast<double>(r.context), 1, kMost));
  EVOQ_TRY(InRange("--distill", r.distill, 0.01, 1000));
  EVOQ_TRY(InRange("--distill-share", r.distill_share, 0, 1));
  EVOQ_TRY(InRange("--distill-features-weight", r.distill_features_weight, 0, 1e6));
  EVOQ_TRY(ParseWeightBlock(r.block));
  EVOQ_TRY(CheckIntegers(r));
  if (!r.lora.empty()) {
    EVOQ_TRY(ParseLora(r.lora));
    if (!r.prune.empty()) return Fail(ErrorCode::kUsage, "--lora {}: not with --prune", r.lora);
  }
  return CheckPruning(r);
}

const QuantScheme* WeightScheme(const TrainingRecipe& recipe) {
  const QuantScheme* const scheme = FindScheme(recipe.scheme);
  const bool weights = scheme != nullptr && scheme->weights_only && !scheme->needs_calibration;
  return weights ? scheme : nullptr;
}

Result<std::vector<DecayGroup>> ParseDecay(const std::vector<std::string>& options) {
  std::vector<DecayGroup> groups;
  for (const std::string& option : options) {
    const size_t equals = option.rfind('=');
    const std::string text = equals == std::string::npos ? "" : option.substr(equals + 1);
    double number = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
    if (equals == 0 || text.empty() || !whole || !(number >= 0 && number <= 1000))
      return Fail(ErrorCode::kUsage,
                  "--decay {}: expected PATTERN=DECAY with a number from 0 to 1000", option);
    groups.push_back({option.substr(0, equals), number});
  }
  return groups;
}

nlohmann::json ToJson(const TrainingRecipe& r) {
  return {{"epochs", r.epochs},
          {"batch", r.batch},
          {"shard", r.shard},
          {"optimizer", r.optimizer},
          {"schedule", r.schedule},
          {"loss", r.loss},
          {"lr", r.lr},
          {"warm_up", r.warm_up},
          {"momentum", r.momentum},
          {"beta2", r.beta2},
          {"epsilon", r.epsilon},
          {"weight_decay", r.weight_decay},
          {"label_smoothing", r.label_smoothing},
          {"clip_norm", r.clip_norm},
          {"ema", r.ema},
          {"mixup", r.mixup},
          {"augment", r.augment},
          {"freeze", r.freeze},
          {"decay", r.decay},
          {"context", r.context},
          {"scheme", r.scheme},
          {"block", r.block},
          {"weight_bits", r.weight_bits},
          {"activation_bits", r.activation_bits},
          {"exclude", r.exclude},
          {"distill", r.distill},
          {"distill_share", r.distill_share},
          {"teacher", r.teacher},
          {"distill_features", r.distill_features},
          {"distill_features_weight", r.distill_features_weight},
          {"seed", r.seed},
          {"prune", r.prune},
          {"prune_score", r.prune_score},
          {"prune_scope", r.prune_scope},
          {"sparsity", r.sparsity},
          {"prune_multiple", r.prune_multiple},
          {"lora", r.lora}};
}

nlohmann::json AddedLater() {
  nlohmann::json added = ToJson(TrainingRecipe());
  for (const char* name : {"epochs",    "batch",   "shard",   "optimizer",    "schedule",
                           "loss",      "lr",      "warm_up", "momentum",     "beta2",
                           "epsilon",   "ema",     "mixup",   "weight_decay", "label_smoothing",
                           "clip_norm", "augment", "freeze",  "decay",        "context",
                           "scheme",    "exclude", "distill", "weight_bits",  "distill_share",
                           "teacher",   "seed",    "prune",   "prune_score",  "prune_scope",
                           "sparsity"})
    added.erase(name);
  return added;
}

std::string DifferenceOf(const nlohmann::json& wanted, const nlohmann::json& found) {
  for (const auto& [name, value] : wanted.items()) {
    if (!found.is_object() || !found.contains(name)) return fmt::format("{} is missing", name);
    if (found[name] != value)
      return fmt::format("{} is {}, not {}", name, JsonBriefly(found[name]), JsonBriefly(value));
  }
  return "";
}

}  // namespace evoq
