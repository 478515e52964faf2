#include "serve/served_model.h"

#include <algorithm>

#include "base/brief.h"
#include "compile/batch.h"
#include "llm/phase.h"
#include "models/models.h"
#include "ops/op.h"
#include "program/etm.h"
#include "report/ledger.h"
#include "serve/datatype.h"
#include "workflow/models.h"

namespace evoq::serve {
namespace {

Result<std::vector<Port>> PortsOf(const Graph& graph, std::span<const ValueId> ids,
                                  const char* what) {
  std::vector<Port> ports;
  for (ValueId id : ids) {
    const Value& value = graph.value(id);
    if (!value.type.is_tensor() || DatatypeOf(value.type.dtype) == nullptr)
      return Unsupported("{} {} is {}, which the inference protocol does not carry", what,
                         value.name, value.type.ToString());
    ports.push_back({value.name, value.type});
  }
  return ports;
}

// Whether the sizes are of the port's shape.
bool Fits(const Shape& sizes, const Shape& wanted) {
  if (!wanted.ranked()) return true;
  if (sizes.rank() != wanted.rank()) return false;
  for (int i = 0; i < wanted.rank(); ++i) {
    if (wanted[i].known() && !(wanted[i].value == sizes[i].value)) return false;
  }
  return true;
}

// Where the bytes of an .etm file went; null for other files.
Result<nlohmann::json> LedgerOf(const std::string& path, int64_t bytes, const Model& model) {
  if (!IsEtmFile(path)) return nlohmann::json();
  EVOQ_ASSIGN(const std::vector<EtmSection> sections, EtmSections(path));
  ByteLedger ledger = BuildByteLedger(sections, bytes, /*float_weights=*/0, model);
  for (ByteCause& cause : ledger.causes) cause.parts.clear();
  return ToJson(ledger);
}

}  // namespace

Result<std::unique_ptr<ServedModel>> ServedModel::Load(const std::string& name, int64_t version,
                                                       const std::string& path,
                                                       const ModelSettings& settings,
                                                       const Machine& machine,
                                                       std::shared_ptr<Statistics> statistics) {
  std::unique_ptr<ServedModel> model(new ServedModel);
  model->name_ = name;
  model->version_ = version;
  model->path_ = path;
  model->settings_ = settings;
  model->statistics_ = std::move(statistics);
  const int all = machine.threads > 0 ? machine.threads : PhysicalCores();
  const int threads =
      settings.threads > 0 ? settings.threads : std::max(1, all / settings.instances);
  EVOQ_ASSIGN(std::unique_ptr<Engine> engine,
              LoadEngine(path, {.threads = threads, .gears = true}));
  EVOQ_ASSIGN(model->file_bytes_, ModelBytes(path));
  EVOQ_ASSIGN(model->ledger_, LedgerOf(path, model->file_bytes_, engine->model()));
  if (FindCacheInputs(engine->model().graph)) {
    EVOQ_ASSIGN(model->text_,
                TextModel::Of(std::move(engine), path, settings, *model->statistics_));
    return model;
  }
  EVOQ_TRY(WithContext(model->Begin(std::move(engine)), path));
  return model;
}

Status ServedModel::Begin(std::unique_ptr<Engine> engine) {
  // Files need not say the types of outputs.
  Graph typed = engine->model().graph;
  const auto& outputs = typed.outputs();
  if (std::any_of(outputs.begin(), outputs.end(),
                  [&](ValueId id) { return typed.value(id).type.dtype == DType::kUndefined; }))
    EVOQ_TRY(InferTypes(typed, *AllParts().evaluator));
  EVOQ_ASSIGN(inputs_, PortsOf(typed, typed.inputs(), "input"));
  EVOQ_ASSIGN(outputs_, PortsOf(typed, typed.outputs(), "output"));
  EVOQ_ASSIGN(embedder_, Embedder::Of(typed));
  reranker_ = Reranker::Of(typed);
  if (HasFreeBatch(typed)) max_batch_ = std::max<int64_t>(1, settings_.max_batch);
  graph_ = std::make_unique<Graph>(std::move(typed));
  if (const Result<InputShapes> one = WithBatch(*graph_, {}, 1); one) (void)engine->At(*one);
  engine_ = std::make_unique<SharedEngine>(std::move(engine), settings_.instances);
  engine_->WaitForGears();
  WarmUp();
  warm_up_runs_ = engine_->gears().runs;
  scheduler_ = std::make_unique<Scheduler>(
      SchedulerOptions{settings_.instances, settings_.max_queue, max_batch_, settings_.max_delay_us,
                       settings_.preferred},
      Runner{[this](const Tensors& inputs, Place& place) {
               return engine_->Run(inputs, {.place = &place});
             },
             [this](const Tensors& inputs) { return Independent(inputs); }},
      *statistics_);
  return {};
}

std::optional<GearReport> ServedModel::gears() const {
  if (engine_ == nullptr) return std::nullopt;
  GearReport report = engine_->gears();
  report.runs -= warm_up_runs_;
  return report;
}

// Prepares a run of one sample where the model says its sizes, so that the first request does not
// wait for that. What zeros are not fit for, the first request prepares.
void ServedModel::WarmUp() {
  const Result<InputShapes> shapes = WithBatch(*graph_, {}, 1);
  if (!shapes) return;
  Tensors zeros;
  for (const Port& port : inputs_) {
    TensorType type = port.type;
    if (const auto found = shapes->find(port.name); found != shapes->end())
      type.shape = Shape(found->second);
    if (!type.shape.is_static() || !type.bytes()) return;
    zeros.push_back(Tensor::Allocate(std::move(type)));
  }
  (void)engine_->Run(zeros);
}

bool ServedModel::Independent(const Tensors& inputs) const {
  InputShapes shapes;
  for (size_t i = 0; i < inputs_.size(); ++i) shapes[inputs_[i].name] = inputs[i].sizes();
  Graph bound = *graph_;
  if (!BindShapes(bound, shapes, *AllParts().evaluator)) return false;
  return IndependentSamples(bound) == inputs[0].sizes()[0];
}

Served<void> ServedModel::Check(Inference& inference) const {
  if (text_ != nullptr)
    return Refuse(Why::kBadRequest, "{} is a language model: it takes /v1/completions", name_);
  const Tensors& inputs = inference.inputs;
  if (inputs.size() != inputs_.size())
    return Refuse(Why::kBadRequest, "{} inputs given, expected {}", inputs.size(), inputs_.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port& port = inputs_[i];
    if (inputs[i].dtype() != port.type.dtype)
      return Refuse(Why::kBadRequest, "input {}: datatype {}, expected {}", port.name,
                    DatatypeOf(inputs[i].dtype()), DatatypeOf(port.type.dtype));
    if (!Fits(inputs[i].shape(), port.type.shape))
      return Refuse(Why::kBadRequest, "input {}: shape {}, expected {}", port.name,
                    BracketedBriefly(std::span<const int64_t>(inputs[i].sizes())),
                    port.type.shape.ToString());
  }
  return {};
}

// The samples by which a request may join others: 0 where it cannot.
int64_t ServedModel::SamplesOf(const Tensors& inputs) const {
  if (max_batch_ < 2 || inputs.empty() || inputs[0].shape().rank() == 0) return 0;
  const int64_t samples = inputs[0].shape()[0].value;
  const bool all = std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& t) {
    return t.shape().rank() > 0 && t.shape()[0].value == samples;
  });
  return all ? samples : 0;
}

Served<void> ServedModel::Infer(Inference& inference) {
  if (auto fits = Check(inference); !fits) {
    statistics_->Failed(fits.error().why, 0);
    return fits;
  }
  inference.samples = SamplesOf(inference.inputs);
  if (inference.deadline == Clock::time_point::max() && settings_.timeout_us > 0)
    inference.deadline = Clock::now() + std::chrono::microseconds(settings_.timeout_us);
  return scheduler_->Submit(inference);
}

}  // namespace evoq::serve
