#include "workflow/prune.h"

#include "cli/common.h"
#include "cli/verb.h"

namespace evoq {
namespace {

using nlohmann::json;

struct Options {
  PruneJob job;
  double sparsity = 0.75;
};

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<Options>();
  options.Add("model", o->job.model, "MODEL.onnx").Required();
  options.Add("-o,--output", o->job.output, "The ONNX file to write").Required();
  options
      .Add("--pattern", o->job.options.pattern,
           "Which weights become 0 together: block-4x4, block-1x16, 2:4, unstructured; channel: "
           "whole channels go, with what reads them")
      .ShowDefault();
  options.Add("--sparsity", o->sparsity,
              "The share of weights that become 0, or of channels that go "
              "(default: 0.75, of channels 0.5, of 2:4 its own)");
  options
      .Add("--multiple", o->job.options.multiple,
           "With channel: a layer keeps a multiple of so many channels")
      .Positive()
      .ShowDefault();
  options
      .Add("--layers", o->job.options.layers,
           "Prune products of this name only (a glob pattern; may be repeated)")
      .OneEachTime();
  options
      .Add("--score", o->job.options.score,
           "What a block of weights is worth: magnitude, lamp or squares")
      .ShowDefault();
  options
      .Add("--scope", o->job.options.scope,
           "layer: each layer has that share; global: all together")
      .ShowDefault();
  return [o, options, &common]() -> Result<json> {
    if (options.given("--sparsity")) o->job.options.sparsity = o->sparsity;
    EVOQ_ASSIGN(const PrunedModel pruned, Prune(o->job, common.follow));
    return Print(Tell(pruned));
  };
}

}  // namespace

extern const VerbDef kVerbPrune = {
    .name = "prune",
    .doc =
        "Sets the weights that matter least to 0, in a pattern that kernels skip, or removes whole "
        "channels.",
    .example = "evoq prune resnet.onnx --pattern block-4x4 --sparsity 0.75 -o pruned.onnx",
    .declare = Declare,
};

}  // namespace evoq
