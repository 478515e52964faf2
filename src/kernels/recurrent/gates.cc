#include "kernels/recurrent/gates.h"

#include <algorithm>

namespace evoq {
namespace {

struct GateFnRow {
  const char* name;
  int parameters;  // how many of alpha and beta it has
  GateFn fn;       // with ONNX's defaults
};

constexpr GateFnRow kGateFns[] = {
    {"Affine", 2, {GateFn::kAffine, {{}, 1, 0}}},
    {"Elu", 1, {GateFn::kUnary, {UnaryKind::kElu, 1, 0}}},
    {"HardSigmoid", 2, {GateFn::kUnary, {UnaryKind::kHardSigmoid, 0.2f, 0.5f}}},
    {"LeakyRelu", 1, {GateFn::kUnary, {UnaryKind::kLeakyRelu, 0.01f, 0}}},
    {"Relu", 0, {GateFn::kUnary, {UnaryKind::kRelu, 0, 0}}},
    {"ScaledTanh", 2, {GateFn::kScaledTanh, {{}, 1, 1}}},
    {"Sigmoid", 0, {GateFn::kUnary, {UnaryKind::kSigmoid, 0, 0}}},
    {"Softplus", 0, {GateFn::kUnary, {UnaryKind::kSoftplus, 0, 0}}},
    {"Softsign", 0, {GateFn::kUnary, {UnaryKind::kSoftsign, 0, 0}}},
    {"Tanh", 0, {GateFn::kUnary, {UnaryKind::kTanh, 0, 0}}},
    {"ThresholdedRelu", 1, {GateFn::kUnary, {UnaryKind::kThresholdedRelu, 1, 0}}},
};

}  // namespace

Result<std::vector<GateFn>> GateFnsOf(const Attrs& attrs, const std::vector<std::string>& defaults,
                                      int64_t directions) {
  std::vector<std::string> names = attrs.Strings("activations");
  const size_t wanted = defaults.size() * static_cast<size_t>(directions);
  if (names.empty()) {
    for (int64_t d = 0; d < directions; ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != wanted)
    return InvalidInput("attribute activations has {} names, expected {}", names.size(), wanted);
  const std::vector<float> alphas = attrs.Floats("activation_alpha"),
                           betas = attrs.Floats("activation_beta");
  std::vector<GateFn> fns;
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const auto row = std::find_if(std::begin(kGateFns), std::end(kGateFns),
                                  [&](const GateFnRow& r) { return name == r.name; });
    if (row == std::end(kGateFns))
      return InvalidInput("attribute activations names '{}', which ONNX does not have", name);
    GateFn fn = row->fn;
    if (row->parameters > 0 && alpha < alphas.size()) fn.unary.alpha = alphas[alpha++];
    if (row->parameters > 1 && beta < betas.size()) fn.unary.beta = betas[beta++];
    fns.push_back(fn);
  }
  return fns;
}

void ApplyGate(const GateFn& fn, const UnaryTable& table, float* y, int64_t n) {
  const float alpha = fn.unary.alpha, beta = fn.unary.beta;
  switch (fn.form) {
    case GateFn::kUnary: return table.apply(fn.unary, y, y, n);
    case GateFn::kAffine:
      for (int64_t i = 0; i < n; ++i) y[i] = alpha * y[i] + beta;
      return;
    case GateFn::kScaledTanh:
      for (int64_t i = 0; i < n; ++i) y[i] *= beta;
      table.apply({UnaryKind::kTanh, 0, 0}, y, y, n);
      for (int64_t i = 0; i < n; ++i) y[i] *= alpha;
      return;
  }
}

}  // namespace evoq
