#include "ops/op.h"
#include "quant/channel_links.h"
#include "quant/method.h"

namespace evoq {
namespace {

std::string Refuses(const QuantScheme& scheme, const QuantizeOptions&) {
  return scheme.precision == Precision::kFloat32 || scheme.precision == Precision::kBf16
             ? "nothing becomes an integer, and cle has nothing to do"
             : "";
}

Status Run(MethodRun& run) {
  for (const ChannelLink& link : ChannelLinks(run.graph)) {
    if (link.activation.kind != ActivationKind::kClip) continue;
    ActivationToAttrs({ActivationKind::kRelu}, run.graph.attrs(link.producer));
    run.recalibrate = true;
  }
  return {};
}

}  // namespace

extern const QuantMethod kMethodRelu6ToRelu = {
    .name = "relu6-to-relu",
    .doc =
        "Clips from 0 between two layers become Relu, so that cle and high-bias reach through "
        "them. Results change where values lie above the bound.",
    .paper = "Nagel et al. 2019, arXiv:1906.04721, section 5.1.1",
    .stage = MethodStage::kFloat,
    .needs_samples = true,
    .refuses = Refuses,
    .run = Run,
};

}  // namespace evoq
