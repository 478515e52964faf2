// Why steps do not gain. The reasons are rows, asked in order; the first that holds is given.
#include <algorithm>
#include <map>
#include <numeric>

#include "kernels/conv/conv_ways.h"
#include "ops/op.h"
#include "predict/predict.h"

namespace evoq {
namespace {

constexpr double kNoGain =
    0.95;  // of the float32 step's time: a step that takes more does not gain

struct Pair {
  const StepForecast* float32;  // null: float32 has no such step
  const StepForecast& now;
  const Step& step;
  const MachineLimits& limits;

  double Share(Term term) const {
    const double sum = std::accumulate(now.weighed.begin(), now.weighed.end(), 0.0);
    return sum > 0 ? now.weighed[term] / sum : 0;
  }
};

struct Cause {
  const char* code;  // null: the decision's own, with its sentence
  bool (*holds)(const Pair& pair);
  const char* sentence;
};

// Steps that float32 does not have: changes of precision, also by ranges found at run time, and of
// layout.
bool IsConversion(const Pair& p) {
  if (p.float32 != nullptr) return false;
  const OpDef* op = FindOp(p.now.op);
  return p.now.op == "Transpose" || (op != nullptr && op->conversion != PrecisionChange::kNone);
}

constexpr Cause kCauses[] = {
    {
        .code = "by-definition",
        .holds = [](const Pair& p) { return !p.now.known; },
        .sentence = "no kernel computes them: they run by their definition, one value at a time, "
                    "and their time is not known",
    },
    {
        .code = "conversion",
        .holds = IsConversion,
        .sentence =
            "float32 does not have these steps: they convert values from one type to another",
    },
    {
        .code = "added-step",
        .holds = [](const Pair& p) { return p.float32 == nullptr; },
        .sentence = "float32 does not have these steps, or has them within others",
    },
    {
        .code = nullptr,
        .holds = [](const Pair& p) { return !p.step.decision.float_reason.empty(); },
        .sentence = nullptr,
    },
    {
        .code = "same-kernel",
        .holds = [](const Pair& p) { return p.now.kernel == p.float32->kernel; },
        .sentence = "they take the kernels that float32 takes, on values of the same width",
    },
    {
        .code = "float32-products",
        .holds =
            [](const Pair& p) {
              const std::string& method = p.now.plan.method;
              return method.find("winograd") != std::string::npos || method == kInFloat32;
            },
        .sentence =
            "they multiply in float32, as float32 does: by Winograd's convolution, or where "
            "few channels would take longer to lay out than to multiply",
    },
    {
        .code = "winograd",
        .holds =
            [](const Pair& p) {
              return p.float32->plan.method.find("winograd") != std::string::npos;
            },
        .sentence = "in float32, Winograd's convolution saves 2 to 4 times the multiplications, "
                    "which kernels of narrower values do not use",
    },
    {
        .code = "fixed-cost",
        .holds = [](const Pair& p) { return p.Share(kCall) + p.Share(kTiles) > 0.4; },
        .sentence = "they are so small that being called takes most of their time, whatever the "
                    "width of the values",
    },
    {
        .code = "memory-bound",
        .holds = [](const Pair& p) { return p.Share(kStream) + p.Share(kWeights) > 0.5; },
        .sentence = "they wait for memory, and read or write as many bytes as in float32",
    },
    {
        .code = "narrow",
        .holds =
            [](const Pair& p) {
              return p.Share(kRows) + p.Share(kEdges) + p.Share(kCopies) + p.Share(kFeed) +
                         p.Share(kOutputs) >
                     0.5;
            },
        .sentence = "their channels are too few to fill the wide instructions: setting up rows and "
                    "rounding results takes most of the time",
    },
    {
        .code = "kernel",
        .holds = [](const Pair&) { return true; },
        .sentence = "their kernels are not faster on narrower values at these shapes",
    },
};

}  // namespace

void FindHindrances(const SchemeForecast& float32, const Program& program,
                    const MachineLimits& limits, SchemeForecast& scheme) {
  std::map<std::string, const StepForecast*> before;
  for (const StepForecast& s : float32.step_list) before[s.name] = &s;
  std::map<std::string, Hindrance> found;  // by code
  for (size_t i = 0; i < scheme.step_list.size(); ++i) {
    const StepForecast& now = scheme.step_list[i];
    const auto it = before.find(now.name);
    const Pair pair{it == before.end() ? nullptr : it->second, now, program.steps[i], limits};
    const double float_ms = pair.float32 == nullptr ? 0 : pair.float32->ms;
    if (now.known && now.ms <= kNoGain * float_ms) continue;
    for (const Cause& cause : kCauses) {
      if (!cause.holds(pair)) continue;
      const Reason reason = cause.code == nullptr ? pair.step.decision.float_reason
                                                  : Reason{cause.code, cause.sentence};
      Hindrance& h = found[reason.code];
      if (h.steps.empty()) h.sentence = reason.sentence;
      h.steps.push_back(now.name);
      if (now.known) {
        h.ms += now.ms;
        h.lost_ms += now.ms - float_ms;
      }
      break;
    }
  }
  for (auto& [code, hindrance] : found) {
    hindrance.code = code;
    scheme.hindrances.push_back(std::move(hindrance));
  }
  std::sort(scheme.hindrances.begin(), scheme.hindrances.end(),
            [](const Hindrance& a, const Hindrance& b) {
              return a.ms != b.ms ? a.ms > b.ms : a.code < b.code;
            });
}

}  // namespace evoq
