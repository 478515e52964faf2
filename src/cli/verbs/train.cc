#include "workflow/train.h"

#include "cli/common.h"
#include "cli/verb.h"
#include "quant/low_bits.h"

namespace evoq {
namespace {

using nlohmann::json;

// The options of the recipe, which count where they are given, and what they change.
struct Given {
  TrainingRecipe recipe;
  const VerbOptions options;

  template <typename T>
  VerbOption Add(const std::string& name, T TrainingRecipe::* field, const std::string& doc) {
    Takes(name, field);
    return options.Add(name, recipe.*field, doc);
  }
  void AddFlag(const std::string& name, bool TrainingRecipe::* field, const std::string& doc) {
    Takes(name, field);
    options.AddFlag(name, recipe.*field, doc);
  }
  template <typename T>
  void Takes(const std::string& name, T TrainingRecipe::* field) {
    changes.emplace_back(name, [this, field](TrainingRecipe& to) { to.*field = recipe.*field; });
  }
  // The recipe of the model with what was given.
  TrainingRecipe Of(const std::string& model) const {
    TrainingRecipe out = RecipeFor(model, recipe.scheme, recipe.lora);
    for (const auto& [name, change] : changes) {
      if (options.given(name)) change(out);
    }
    return out;
  }

  std::vector<std::pair<std::string, std::function<void(TrainingRecipe&)>>> changes;
};

void AddRecipe(Given& g) {
  g.Add("--epochs", &TrainingRecipe::epochs, "How often each sample is seen").Positive();
  g.Add("--batch", &TrainingRecipe::batch, "Samples of a step").Positive();
  g.Add("--shard", &TrainingRecipe::shard, "Samples that one thread computes at a time").Positive();
  g.Add("--lr", &TrainingRecipe::lr, "The learning rate").NonNegative();
  g.Add("--optimizer", &TrainingRecipe::optimizer, "sgd, nesterov, adam, adamw or lamb");
  g.Add("--schedule", &TrainingRecipe::schedule,
        "How the learning rate falls: constant, cosine, linear or step");
  g.Add("--warm-up", &TrainingRecipe::warm_up, "Epochs in which the learning rate grows")
      .NonNegative();
  g.Add("--momentum", &TrainingRecipe::momentum, "Of SGD; beta 1 of Adam").NonNegative();
  g.Add("--beta2", &TrainingRecipe::beta2, "Of Adam").NonNegative();
  g.Add("--weight-decay", &TrainingRecipe::weight_decay,
        "Decay of parameters with two axes or more")
      .NonNegative();
  g.Add("--loss", &TrainingRecipe::loss,
        "cross-entropy, kl or focal of classes; mse, l1, huber or bce of classes or --targets");
  g.Add("--label-smoothing", &TrainingRecipe::label_smoothing,
        "The share of a label that all classes have alike")
      .NonNegative();
  g.Add("--clip-norm", &TrainingRecipe::clip_norm, "The most that a gradient's norm may be")
      .NonNegative();
  g.Add("--augment", &TrainingRecipe::augment,
        "Vary images: shift=PIXELS, flip, color=PERCENT, cutout=PIXELS or rand-augment=MAGNITUDE "
        "(may be repeated; none: not at all)")
      .OneEachTime();
  g.Add("--mixup", &TrainingRecipe::mixup,
        "Mix each sample with another, by shares of a beta distribution of this parameter")
      .NonNegative();
  g.Add("--ema", &TrainingRecipe::ema,
        "Write the moving average of the weights, which keeps this share of itself at each step")
      .NonNegative();
  g.Add("--decay", &TrainingRecipe::decay,
        "PATTERN=DECAY: the weight decay of parameters of this name (a glob pattern; may be "
        "repeated; the last that matches counts)")
      .OneEachTime();
  g.Add("--context", &TrainingRecipe::context, "Tokens of a text that a sample has").Positive();
  g.Add("--freeze", &TrainingRecipe::freeze,
        "Leave parameters of this name as they are (a glob pattern; may be repeated)")
      .OneEachTime();
  g.Add("--scheme", &TrainingRecipe::scheme,
        "Train with the integers of this scheme: int8 (of an .onnx), or with the weights of "
        "a weights-only scheme: int4-weights, ...");
  g.Add("--block", &TrainingRecipe::block,
        "Of weights of few bits: what shares a scale along K, or \"channel\"")
      .OneOf({WeightBlocks().begin(), WeightBlocks().end()});
  g.Add("--weight-bits", &TrainingRecipe::weight_bits,
        "Of the integers: 8, 4, 2 or 1 for all layers, or PATTERN=BITS (may be repeated; the last "
        "that matches counts)")
      .OneEachTime();
  g.Add("--activation-bits", &TrainingRecipe::activation_bits,
        "Of the integers that layers give: 8, 4 or 2, or PATTERN=BITS (may be repeated; the last "
        "that matches counts)")
      .OneEachTime();
  g.Add("--exclude", &TrainingRecipe::exclude,
        "Leave nodes of this name in float32 (a glob pattern; may be repeated)")
      .OneEachTime();
  g.Add("--distill", &TrainingRecipe::distill, "The temperature of the teacher's scores")
      .NonNegative();
  g.Add("--distill-share", &TrainingRecipe::distill_share, "Their share of the loss").NonNegative();
  g.Add("--distill-features", &TrainingRecipe::distill_features,
        "Values of the teacher to learn too: a glob pattern of names that both models have, or "
        "OWN=TEACHER (may be repeated)")
      .OneEachTime();
  g.Add("--distill-features-weight", &TrainingRecipe::distill_features_weight,
        "How much their mean distance counts beside the loss")
      .NonNegative();
  g.Add("--prune", &TrainingRecipe::prune,
        "Prune over the first half of the steps: a pattern of evoq prune; zeros: weights that are "
        "0 stay 0");
  g.Add("--sparsity", &TrainingRecipe::sparsity,
        "The share of weights, or of channels, that --prune ends with");
  g.Add("--prune-score", &TrainingRecipe::prune_score, "--score of evoq prune, movement or obd");
  g.Add("--prune-scope", &TrainingRecipe::prune_scope, "--scope of evoq prune");
  g.Add("--prune-multiple", &TrainingRecipe::prune_multiple, "--multiple of evoq prune").Positive();
  g.Add("--lora", &TrainingRecipe::lora,
        "Train adapters beside the weights, which stay: rank=8,alpha=16,target=PATTERN,merge, each "
        "left out or given; --scheme int4-weights makes the weights int4 before");
  g.Add("--seed", &TrainingRecipe::seed, "Of weights, order and augmentation");
  g.AddFlag("--recompute", &TrainingRecipe::recompute,
            "Compute activations again on the way back: less memory, more time, the same result");
}

VerbRun Declare(const VerbOptions& options, const CommonOptions& common) {
  auto o = std::make_shared<TrainJob>();
  auto given = std::make_shared<Given>(Given{{}, options, {}});
  options
      .Add("model", o->model,
           "lenet, resnet8, resnet20, mobilenetv2-small, tiny-gpt, a network as NAME.json (with "
           "random weights), MODEL.onnx or a language model")
      .Required();
  options
      .Add("--data", o->files.data,
           "Labelled samples: a folder of MNIST's files, an idx file, CIFAR-10 .bin, images, "
           ".npy or .npz; of a language model, a text or an .npy of its tokens")
      .Required();
  options.Add("--labels", o->files.labels,
              "A .tsv with the columns file and class_index, an idx label file or a .npy");
  options.Add("--test", o->files.test, "Samples to measure accuracy on after each epoch");
  options.Add("--test-labels", o->files.test_labels, "Their labels");
  const VerbOption targets = options.Add(
      "--targets", o->files.targets,
      "In place of labels, what the output is to be for each sample: an .npy, .npz or a folder as "
      "of --data (with --loss mse unless another is given)");
  options.Add("--test-targets", o->files.test_targets, "The same for --test").Needs(targets);
  options
      .Add("--hold-out", o->hold_out,
           "Without --test, the share of a text that is tested on and not trained")
      .NonNegative()
      .ShowDefault();
  options.Add("--tokenizer", o->tokenizer,
              "How a text becomes tokens: a tokenizer file or folder (default: bytes)");
  options.Add("--preprocess", o->preprocess,
              "How images become inputs (default: the network's, or MODEL.preprocess.json)");
  options
      .Add("-o,--output", o->output,
           "The .onnx or .etm file to write; with --lora also a folder, which gets the adapters")
      .Required();
  options.Add("--limit", o->limit, "Train on the first N samples only").NonNegative();
  options.Add("--teacher", o->teacher, "Learn from the scores of this model too");
  options.Add("--checkpoint", o->checkpoint, "Write an .npz after each epoch to go on from");
  options.Add("--resume", o->resume, "Go on from this checkpoint, to the same result");
  options.Add("--tensorboard", o->tensorboard, "Write an event file of the epochs to this folder");
  options.AddFlag("--mpi", o->mpi,
                  "One of the processes that mpirun started: each computes a part of each batch");
  options.Add("--log", o->log, "Add a line of JSON for each epoch to this file");
  AddRecipe(*given);
  return [o, given, &common]() -> Result<json> {
    o->recipe = given->Of(o->model);
    if (!o->files.targets.empty() && !given->options.given("--loss"))
      o->recipe.loss = kLossOfTargets;
    if (o->recipe.augment == std::vector<std::string>{"none"}) o->recipe.augment.clear();
    o->threads = common.threads;
    o->epoch = [](const EpochReport& r) {
      const Measured test = r.test.value_or(Measured());
      const auto told = [](const char* form, const std::optional<double>& number) {
        return number ? fmt::format(fmt::runtime(form), *number) : std::string();
      };
      Log("epoch {}/{}: loss {:.4f}{}{}{}{}{}, {:.0f} {}/s, {:.0f} s left", r.epoch, r.epochs,
          r.loss, told(", accuracy {:.4f}", r.accuracy), told(", test {:.4f}", test.accuracy),
          told(", test loss {:.4f}", test.loss),
          told(", test mean squared error {:.6g}", test.error),
          r.sparsity ? fmt::format(", {:.1f}% zeros", 100 * *r.sparsity) : "",
          r.images_per_s * static_cast<double>(r.rows),
          r.rows > 1   ? "tokens"
          : r.accuracy ? "images"
                       : "samples",
          r.remaining_s);
    };
    EVOQ_ASSIGN(const Trained trained, Train(*o, common.follow));
    if (!trained.told) return json();
    return Print(Tell(trained));
  };
}

}  // namespace

extern const VerbDef kVerbTrain = {
    .name = "train",
    .doc = "Trains a built-in network, or an ONNX model further, on labelled samples.",
    .example = "evoq train lenet --data mnist/ --epochs 4 --seed 1 -o lenet.onnx",
    .declare = Declare,
};

}  // namespace evoq
