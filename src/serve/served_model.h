// One version of a model, loaded: what it takes and gives, and what runs it.
#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/shared.h"
#include "serve/embedder.h"
#include "serve/reranker.h"
#include "serve/scheduler.h"
#include "serve/settings.h"
#include "serve/statistics.h"
#include "serve/text_model.h"

namespace evoq::serve {

// An input or output; sizes that are free are not known.
struct Port {
  std::string name;
  TensorType type;
};

// What the server has for all its models.
struct Machine {
  int threads = 0;  // of all instances of a model together; 0: one per physical core
};

// Safe from any thread. Its destructor answers what waits, and so takes as long as that.
class ServedModel {
 public:
  // Errors: those of loading; kUnsupported for inputs and outputs that the protocol does not carry;
  // kInvalidInput where its settings ask for what it cannot do. `statistics` is kept.
  static Result<std::unique_ptr<ServedModel>> Load(const std::string& name, int64_t version,
                                                   const std::string& path,
                                                   const ModelSettings& settings,
                                                   const Machine& machine,
                                                   std::shared_ptr<Statistics> statistics);

  const std::string& name() const { return name_; }
  int64_t version() const { return version_; }
  const std::string& path() const { return path_; }
  const ModelSettings& settings() const { return settings_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  // Samples of a run that joins requests; 1: none are joined.
  int64_t max_batch() const { return max_batch_; }
  Statistics& statistics() const { return *statistics_; }
  // Bytes of the model's file, and of an .etm its ledger (report/ledger.h) without the names of
  // tensors; null for other files.
  int64_t file_bytes() const { return file_bytes_; }
  const nlohmann::json& ledger() const { return ledger_; }
  // Whether this request is one of those that its shadow runs too. Counts it.
  bool ShadowsNext() {
    return settings_.shadow_one_in > 0 && asked_++ % settings_.shadow_one_in == 0;
  }
  // Of a language model with caches, which writes text; null for all others. It takes no tensors.
  TextModel* text() const { return text_.get(); }
  // Of an encoder that reads two texts; null for all others.
  const Reranker* reranker() const { return reranker_ ? &*reranker_ : nullptr; }
  // Of an encoder; null for all others.
  const Embedder* embedder() const { return embedder_ ? &*embedder_ : nullptr; }

  // What served the runs since it was loaded (docs/dynamic.md, "Gears"), those by which batches are
  // tried included; nothing of a language model.
  std::optional<GearReport> gears() const;

  // Checks the inputs (by the graph's order) against the model, gives the request the model's time
  // limit where it has none, and hands it to the scheduler. Errors: kBadRequest for other inputs,
  // those of Scheduler::Submit; `done` is then not called.
  Served<void> Infer(Inference& inference);
  // See Scheduler::Wake.
  void Wake() {
    if (scheduler_ != nullptr) scheduler_->Wake();
  }
  int64_t queued() const { return text_ != nullptr ? text_->queued() : scheduler_->queued(); }
  int64_t running() const { return text_ != nullptr ? text_->running() : scheduler_->running(); }

 private:
  ServedModel() = default;
  Status Begin(std::unique_ptr<Engine> engine);
  Served<void> Check(Inference& inference) const;
  void WarmUp();
  int64_t SamplesOf(const Tensors& inputs) const;
  bool Independent(const Tensors& inputs) const;

  std::string name_, path_;
  int64_t version_ = 0;
  ModelSettings settings_;
  int64_t file_bytes_ = 0;
  nlohmann::json ledger_;
  int64_t warm_up_runs_ = 0;
  std::atomic<int64_t> asked_ = 0;  // where there is a shadow
  int64_t max_batch_ = 1;
  std::vector<Port> inputs_, outputs_;
  std::shared_ptr<Statistics> statistics_;
  std::unique_ptr<Graph> graph_;  // as loaded, to ask whether samples are independent
  std::unique_ptr<SharedEngine> engine_;
  std::unique_ptr<TextModel> text_;
  std::optional<Embedder> embedder_;
  std::optional<Reranker> reranker_;
  std::unique_ptr<Scheduler> scheduler_;  // ends before what it runs
};

}  // namespace evoq::serve
