// The formulas are those of transformers' module modeling_rope_utils.
#include "llm/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "llm/settings.h"

namespace evoq {
namespace {

using nlohmann::json;

// A number that must be there.
Result<double> Needed(const json& settings, const char* key) {
  if (!Given(settings, key)) return InvalidInput("rope_scaling has no {}", key);
  return Real(settings, {key}, 0);
}

// The context of the training before the scaling.
Result<double> Original(const json& settings, const RopeSizes& sizes) {
  const int64_t fallback = sizes.original > 0 ? sizes.original : sizes.context;
  EVOQ_ASSIGN(const double own,
              Real(settings, {"original_max_position_embeddings"}, static_cast<double>(fallback)));
  const double original = sizes.original > 0 ? static_cast<double>(sizes.original) : own;
  if (!(original >= 1 && original <= 1e9))
    return InvalidInput("original_max_position_embeddings is {}, expected 1 or more", original);
  return original;
}

Status ReadPlain(const json&, const RopeSizes&, Rope&) { return {}; }

Status ReadLinear(const json& settings, const RopeSizes&, Rope& rope) {
  EVOQ_ASSIGN(rope.divisor, Needed(settings, "factor"));
  return {};
}

// The base grows with texts that are longer than the context; those that fit have it as it is.
Status ReadDynamic(const json& settings, const RopeSizes&, Rope&) {
  if (Given(settings, "alpha") && settings["alpha"] != 0)
    return Unsupported("rope_scaling dynamic with alpha {}, expected none",
                       settings["alpha"].dump());
  return {};
}

// Dubey et al., "The Llama 3 Herd of Models" (2024): waves longer than the old context are slowed
// down by the factor, short ones stay, those between are mixed.
Status ReadLlama3(const json& settings, const RopeSizes& sizes, Rope& rope) {
  EVOQ_ASSIGN(const double factor, Real(settings, {"factor"}, 1));
  EVOQ_ASSIGN(const double low, Real(settings, {"low_freq_factor"}, 1));
  EVOQ_ASSIGN(const double high, Real(settings, {"high_freq_factor"}, 4));
  EVOQ_ASSIGN(const double old, Real(settings, {"original_max_position_embeddings"}, 8192));
  if (!(low > 0 && high > low && old > 0))
    return InvalidInput("rope_scaling has low_freq_factor {} and high_freq_factor {}", low, high);
  for (int64_t i = 0; i < sizes.rotated / 2; ++i) {
    const double frequency =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(sizes.rotated));
    const double turns = old * frequency / (2 * std::numbers::pi);  // in the old context
    const double mix = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    rope.slow.push_back(1 / ((1 - mix) / factor + mix));
  }
  return {};
}

Status ReadYarn(const json& settings, const RopeSizes& sizes, Rope& rope) {
  Yarn yarn;
  EVOQ_ASSIGN(yarn.original, Original(settings, sizes));
  EVOQ_ASSIGN(yarn.factor,
              Real(settings, {"factor"}, static_cast<double>(sizes.context) / yarn.original));
  EVOQ_ASSIGN(yarn.fast, Real(settings, {"beta_fast"}, yarn.fast));
  EVOQ_ASSIGN(yarn.slow, Real(settings, {"beta_slow"}, yarn.slow));
  EVOQ_ASSIGN(yarn.whole, Truth(settings, "truncate", true));
  EVOQ_TRY(Slow(yarn, sizes.rotated, rope));
  EVOQ_ASSIGN(const double scale, Real(settings, {"mscale"}, 0));
  EVOQ_ASSIGN(const double all, Real(settings, {"mscale_all_dim"}, 0));
  const double magnitude = scale != 0 && all != 0
                               ? YarnMagnitude(yarn.factor, scale) / YarnMagnitude(yarn.factor, all)
                               : YarnMagnitude(yarn.factor);
  EVOQ_ASSIGN(rope.magnitude, Real(settings, {"attention_factor"}, magnitude));
  EVOQ_ASSIGN(rope.growth, Real(settings, {"llama_4_scaling_beta"}, 0));
  rope.original = static_cast<int64_t>(yarn.original);
  return {};
}

Status ReadFactors(const json& settings, const char* key, int64_t count,
                   std::vector<double>& factors) {
  if (!Given(settings, key)) return InvalidInput("rope_scaling has no {}", key);
  const json& list = settings[key];
  if (!list.is_array() || static_cast<int64_t>(list.size()) != count ||
      !std::ranges::all_of(list, [](const json& x) { return x.is_number(); }))
    return InvalidInput("{} is {}, expected {} numbers", key, list.dump().substr(0, 60), count);
  factors = list.get<std::vector<double>>();
  return {};
}

// Ding et al., "LongRoPE" (2024): factors for texts in the original context, and others for longer
// ones.
Status ReadLong(const json& settings, const RopeSizes& sizes, Rope& rope) {
  EVOQ_ASSIGN(const double original, Original(settings, sizes));
  EVOQ_TRY(ReadFactors(settings, "short_factor", sizes.rotated / 2, rope.slow));
  EVOQ_TRY(ReadFactors(settings, "long_factor", sizes.rotated / 2, rope.long_slow));
  rope.original = static_cast<int64_t>(original);
  EVOQ_ASSIGN(const double factor,
              Real(settings, {"factor"}, static_cast<double>(sizes.context) / original));
  const double magnitude =
      factor > 1 && original > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1.0;
  EVOQ_ASSIGN(rope.magnitude, Real(settings, {"attention_factor"}, magnitude));
  return {};
}

struct Scaling {
  const char* name;
  Status (*read)(const json& settings, const RopeSizes& sizes, Rope& rope);
};
constexpr Scaling kScalings[] = {
    {.name = "default", .read = &ReadPlain},   {.name = "linear", .read = &ReadLinear},
    {.name = "dynamic", .read = &ReadDynamic}, {.name = "llama3", .read = &ReadLlama3},
    {.name = "yarn", .read = &ReadYarn},       {.name = "longrope", .read = &ReadLong},
    {.name = "su", .read = &ReadLong},      // longrope's name in Phi-3's first folders
    {.name = "mrope", .read = &ReadPlain},  // of text alone: all its positions are equal
};

}  // namespace

double YarnMagnitude(double factor, double scale) {
  return factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1;
}

Status Slow(const Yarn& yarn, int64_t rotated, Rope& rope) {
  if (!(yarn.factor > 0 && yarn.factor < 1e6 && yarn.fast > 0 && yarn.slow > 0 &&
        yarn.original >= 1 && rope.theta > 1))
    return InvalidInput("yarn of factor {}, beta_fast {}, beta_slow {}, context {} and theta {}",
                        yarn.factor, yarn.fast, yarn.slow, yarn.original, rope.theta);
  const auto size = static_cast<double>(rotated);
  // Of the frequency that turns so often in the original context.
  const auto place = [&](double turns) {
    return size * std::log(yarn.original / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = place(yarn.fast), high = place(yarn.slow);
  if (yarn.whole) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  rope.slow.clear();
  for (int64_t i = 0; i < rotated / 2; ++i) {
    const double mix = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.slow.push_back(1 / (mix / yarn.factor + 1 - mix));
  }
  return {};
}

Status ReadRope(const json& settings, const RopeSizes& sizes, Rope& rope) {
  EVOQ_ASSIGN(rope.theta, Real(settings, {"rope_theta"}, rope.theta));
  const json* type = First(settings, {"rope_type", "type"});
  if (type == nullptr) return {};
  std::string names;
  for (const Scaling& scaling : kScalings) {
    if (*type == scaling.name) return scaling.read(settings, sizes, rope);
    names += (names.empty() ? "" : ", ") + std::string(scaling.name);
  }
  return Unsupported("rope_scaling of type {}, expected one of {}", type->dump().substr(0, 60),
                     names);
}

}  // namespace evoq
