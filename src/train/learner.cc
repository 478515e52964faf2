#include "train/learner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/math.h"
#include "train/distill.h"
#include "train/simulation.h"

namespace evoq {
namespace {

AlignedBuffer Zeros(int64_t floats) {
  AlignedBuffer buffer(static_cast<size_t>(std::max<int64_t>(floats, 1)) * sizeof(float));
  std::memset(buffer.data(), 0, buffer.size());
  return buffer;
}

float* FloatsOf(AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

// The loss of scores that are to be real numbers, its derivatives added to `gradient`.
double AddLoss(const LossDef& loss, std::span<const float> scores, std::span<const float> wanted,
               float factor, float* gradient) {
  std::vector<float> own(scores.size());
  const double found = loss.sample(scores, {.values = wanted.data()}, factor, own.data());
  for (size_t j = 0; j < own.size(); ++j) gradient[j] += own[j];
  return found;
}

// Parameters that one thread adds up or changes at a time: sums over parts are added in their
// order.
constexpr int64_t kPart = 8192;

}  // namespace

Learner::Learner(TrainingPlan plan, int64_t shards, int threads, Isa isa, const LearnerParts& parts)
    : plan_(std::move(plan)),
      isa_(isa),
      pool_(threads),
      ranks_(parts.ranks),
      rounder_(parts.rounder),
      all_shards_(shards),
      first_(ranks_ == nullptr ? 0 : ranks_->First(ranks_->rank(), shards)),
      parameters_(Zeros(plan_.parameter_floats)),
      gradients_(Zeros(plan_.parameter_floats)),
      averages_(Zeros(plan_.average_floats)),
      slots_{Zeros(plan_.parameter_floats), Zeros(plan_.parameter_floats)},
      shards_(static_cast<size_t>(
          ranks_ == nullptr ? shards : ranks_->First(ranks_->rank() + 1, shards) - first_)) {
  if (rounder_ != nullptr) rounded_ = Zeros(plan_.parameter_floats);
}

Result<std::unique_ptr<Learner>> Learner::Create(const Graph& graph, TrainingPlan plan,
                                                 int64_t shards, int threads, Isa isa,
                                                 const LearnerParts& parts) {
  std::unique_ptr<Learner> learner(new Learner(std::move(plan), shards, threads, isa, parts));
  const auto read = [&](const std::vector<TrainedConstant>& constants, float* to) -> Status {
    for (const TrainedConstant& c : constants) {
      const ValueId id = graph.FindValue(c.name);
      if (!id.valid() || !graph.value(id).is_constant() ||
          graph.value(id).constant.elements() != c.elements)
        return Fail(ErrorCode::kInternal, "constant {} of the plan is not the graph's", c.name);
      std::copy_n(graph.value(id).constant.data<float>(), c.elements, to + c.offset);
    }
    return {};
  };
  EVOQ_TRY(read(learner->plan_.parameters, learner->parameters().data()));
  EVOQ_TRY(read(learner->plan_.averages, learner->averages().data()));
  if (parts.rounder != nullptr) EVOQ_TRY(parts.rounder->Choose(learner->plan_));
  EVOQ_TRY(learner->Round());
  learner->MakePhases();
  for (const TrainingStep& step : learner->plan_.steps) {
    learner->forward_totals_.emplace_back(static_cast<size_t>(step.bound.sums), 0.0);
    learner->backward_totals_.emplace_back(static_cast<size_t>(step.bound.sums), 0.0);
  }
  for (Shard& shard : learner->shards_) learner->Connect(shard);
  return learner;
}

int64_t Learner::memory_bytes() const {
  size_t bytes = rounded_.size();
  bytes += parameters_.size() + gradients_.size() + averages_.size() + ema_.size();
  bytes += observed_.size() + slots_[0].size() + slots_[1].size();
  for (const Shard& shard : shards_)
    bytes += shard.values.size() + shard.value_gradients.size() + shard.parameter_gradients.size();
  return static_cast<int64_t>(bytes);
}

float* Learner::Address(Shard& shard, const TrainingPlace& place) {
  switch (place.kind) {
    case TrainingPlace::Kind::kNone: return nullptr;
    case TrainingPlace::Kind::kParameter:
      return FloatsOf(rounder_ != nullptr ? rounded_ : parameters_) + place.offset;
    case TrainingPlace::Kind::kAverage: return FloatsOf(averages_) + place.offset;
    case TrainingPlace::Kind::kShard: return FloatsOf(shard.values) + place.offset;
    case TrainingPlace::Kind::kConstant: break;
  }
  const Tensor& constant = plan_.constants[static_cast<size_t>(place.offset)];
  if (constant.dtype() != DType::kFloat32) return nullptr;
  return const_cast<float*>(constant.data<float>());  // GradientRun::x is const
}

float* Learner::Gradient(Shard& shard, const TrainingPlace& place) {
  if (place.gradient < 0) return nullptr;
  const bool parameter = place.kind == TrainingPlace::Kind::kParameter;
  return FloatsOf(parameter ? shard.parameter_gradients : shard.value_gradients) + place.gradient;
}

void Learner::Connect(Shard& shard) {
  shard.values = Zeros(plan_.value_floats);
  shard.value_gradients = Zeros(plan_.gradient_floats);
  shard.parameter_gradients = Zeros(plan_.parameter_floats);
  shard.workspace = std::make_unique<Workspace>(1);
  shard.targets.resize(static_cast<size_t>(plan_.samples * plan_.rows));
  shard.runs.resize(plan_.steps.size());
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const TrainingStep& step = plan_.steps[i];
    GradientRun& run = shard.runs[i];
    for (const TrainingPlace& place : step.x) {
      run.x.push_back(Address(shard, place));
      run.dx.push_back(Gradient(shard, place));
    }
    for (const TrainingPlace& place : step.y) {
      run.y.push_back(Address(shard, place));
      run.dy.push_back(Gradient(shard, place));
    }
    if (step.bound.saved > 0) run.saved = FloatsOf(shard.values) + step.saved;
    run.shards = all_shards_;
    run.isa = isa_;
    run.workspace = shard.workspace.get();
    run.scratch = &shard.scratch;
    shard.forward_sums.emplace_back(static_cast<size_t>(step.bound.sums), 0.0);
    shard.backward_sums.emplace_back(static_cast<size_t>(step.bound.sums), 0.0);
  }
}

void Learner::MakePhases() {
  phases_ = {{{Action::kFill, 0}}};
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    if (plan_.steps[i].bound.sums > 0) {
      phases_.back().push_back({Action::kForwardSums, i});
      phases_.emplace_back();
    }
    phases_.back().push_back({Action::kForward, i});
  }
  phases_.back().push_back({Action::kLoss, 0});
  size_t segment = plan_.segments.empty() ? 0 : plan_.segments.size() - 1;
  for (size_t i = plan_.steps.size(); i-- > 0;) {
    if (segment > 0 && i < plan_.segments[segment]) ComputeAgain(--segment);
    if (!plan_.steps[i].differentiated) continue;
    for (size_t f = 0; f < plan_.features.size(); ++f) {
      if (plan_.features[f].step == i) phases_.back().push_back({Action::kFeature, f});
    }
    if (plan_.steps[i].bound.sums > 0) {
      phases_.back().push_back({Action::kBackwardSums, i});
      phases_.emplace_back();
    }
    phases_.back().push_back({Action::kBackward, i});
  }
}

// The last segment's values are still there when backward begins; others lay where they do.
void Learner::ComputeAgain(size_t segment) {
  const size_t begin = plan_.segments[segment], end = plan_.segments[segment + 1];
  bool any = false;
  for (size_t i = begin; i < end; ++i) any |= plan_.steps[i].differentiated;
  if (!any) return;
  // totals of the batch are known
  for (size_t i = begin; i < end; ++i) phases_.back().push_back({Action::kForward, i});
}

void Learner::FillShard(int64_t index, const Fill& fill) {
  Shard& shard = shards_[static_cast<size_t>(index)];
  std::memset(shard.parameter_gradients.data(), 0, shard.parameter_gradients.size());
  std::vector<float*> places(plan_.inputs.size());
  for (int64_t s = 0; s < plan_.samples; ++s) {
    for (size_t i = 0; i < places.size(); ++i) {
      const int64_t elements = *plan_.inputs[i].shape.elements() / plan_.samples;
      places[i] = Address(shard, plan_.input_places[i]) + s * elements;
    }
    fill((first_ + index) * plan_.samples + s, places,
         {shard.targets.data() + s * plan_.rows, static_cast<size_t>(plan_.rows)});
  }
}

void Learner::LossOf(int64_t index, const BatchSettings& settings) {
  Shard& shard = shards_[static_cast<size_t>(index)];
  const auto classes = static_cast<size_t>(plan_.classes);
  const int64_t rows = plan_.samples * plan_.rows;  // of scores
  const float factor = 1 / static_cast<float>(batch() * plan_.rows);
  shard.loss = 0;
  shard.correct = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * plan_.classes;
    SampleTarget& target = shard.targets[static_cast<size_t>(row)];
    target.smoothing = settings.smoothing;
    const std::span<const float> scores(Address(shard, plan_.scores) + at, classes);
    float* const gradient = Gradient(shard, plan_.scores) + at;
    const float share = settings.teacher != nullptr ? settings.teacher_share : 0;
    shard.loss +=
        (1 - share) * settings.loss->sample(scores, target, (1 - share) * factor, gradient);
    if (settings.teacher != nullptr) {
      const std::span<const float> taught(
          settings.teacher + (first_ + index) * rows * plan_.classes + at, classes);
      shard.loss += share * (target.values != nullptr
                                 ? AddLoss(*settings.loss, scores, taught, share * factor, gradient)
                                 : AddDistillation(scores, taught, settings.temperature,
                                                   share * factor, gradient));
    }
    shard.correct +=
        target.values == nullptr &&
        std::max_element(scores.begin(), scores.end()) - scores.begin() == target.label;
  }
}

// After all readers of the value have added to its gradient, before what computes it goes on.
void Learner::FeatureOf(size_t index, int64_t shard_index, const BatchSettings& settings) {
  if (settings.features.empty()) return;
  Shard& shard = shards_[static_cast<size_t>(shard_index)];
  const TrainingFeature& feature = plan_.features[index];
  const float share = settings.feature_weight / static_cast<float>(plan_.features.size());
  const float factor = share / static_cast<float>(batch());
  const float* const log_step = Address(shard, feature.scale);
  const float step = log_step != nullptr ? StepOf(*log_step) : 1;
  const auto floats = static_cast<size_t>(feature.floats);
  const float* const taught = settings.features[feature.index];
  for (int64_t s = 0; s < plan_.samples; ++s) {
    const int64_t sample = (first_ + shard_index) * plan_.samples + s, at = s * feature.floats;
    // of the batch's mean, as the loss is: SumResults divides by its rows
    shard.loss += share * static_cast<double>(plan_.rows) *
                  AddFeatureDistillation({Address(shard, feature.place) + at, floats}, step,
                                         {taught + sample * feature.floats, floats}, factor,
                                         Gradient(shard, feature.place) + at);
  }
}

void Learner::Do(const Task& task, int64_t index, const Fill& fill, const BatchSettings& settings) {
  Shard& shard = shards_[static_cast<size_t>(index)];
  if (task.action == Action::kFill) return FillShard(index, fill);
  if (task.action == Action::kLoss) return LossOf(index, settings);
  if (task.action == Action::kFeature) return FeatureOf(task.step, index, settings);
  const BoundGradient& bound = plan_.steps[task.step].bound;
  GradientRun& run = shard.runs[task.step];
  const bool backward = task.action == Action::kBackward || task.action == Action::kBackwardSums;
  run.sums = (backward ? shard.backward_sums : shard.forward_sums)[task.step].data();
  run.totals = (backward ? backward_totals_ : forward_totals_)[task.step].data();
  switch (task.action) {
    case Action::kForwardSums: return bound.forward_sums(run);
    case Action::kForward: return bound.forward(run);
    case Action::kBackwardSums: return bound.backward_sums(run);
    default: break;
  }
  for (const auto& [offset, floats] : plan_.steps[task.step].fresh)
    std::fill_n(FloatsOf(shard.value_gradients) + offset, floats, 0.0f);
  bound.backward(run);
}

// What the last task of a phase summed, over all shards in their order.
void Learner::Join(const std::vector<Task>& phase) {
  const auto [action, step] = phase.back();
  if (action != Action::kForwardSums && action != Action::kBackwardSums) return;
  const bool backward = action == Action::kBackwardSums;
  std::vector<double>& totals = (backward ? backward_totals_ : forward_totals_)[step];
  const auto add = [&](size_t first, std::span<double> part) {
    if (first_ == 0) std::fill(part.begin(), part.end(), 0.0);
    for (const Shard& shard : shards_) {
      const auto& sums = (backward ? shard.backward_sums : shard.forward_sums)[step];
      for (size_t i = 0; i < part.size(); ++i) part[i] += sums[first + i];
    }
  };
  if (ranks_ == nullptr) return add(0, totals);
  ranks_->SumInOrder<double>(totals, add);
}

// The loss and the right rows of all shards, in their order.
void Learner::SumResults(BatchResult& result) {
  double sums[2] = {0, 0};
  const auto add = [&](size_t, std::span<double> part) {
    if (first_ == 0) std::fill(part.begin(), part.end(), 0.0);
    for (const Shard& shard : shards_) {
      part[0] += shard.loss;
      part[1] += static_cast<double>(shard.correct);
    }
  };
  if (ranks_ == nullptr) {
    add(0, sums);
  } else {
    ranks_->SumInOrder<double>(sums, add);
  }
  result.loss = sums[0];
  result.correct = static_cast<int64_t>(sums[1]);
}

BatchResult Learner::Compute(const Fill& fill, const BatchSettings& settings) {
  for (const std::vector<Task>& phase : phases_) {
    pool_.ParallelFor(static_cast<int64_t>(shards_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t shard = begin; shard < end; ++shard) {
        for (const Task& task : phase) Do(task, shard, fill, settings);
      }
    });
    Join(phase);
  }
  BatchResult result;
  SumResults(result);
  result.loss /= static_cast<double>(batch() * plan_.rows);
  result.norm = SumGradients();
  return result;
}

std::vector<float> Learner::Scores(const Fill& fill) {
  for (const std::vector<Task>& phase : phases_) {
    const auto loss = std::find_if(phase.begin(), phase.end(),
                                   [](const Task& task) { return task.action == Action::kLoss; });
    pool_.ParallelFor(static_cast<int64_t>(shards_.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t shard = begin; shard < end; ++shard) {
        for (auto task = phase.begin(); task != loss; ++task) Do(*task, shard, fill, {});
      }
    });
    if (loss != phase.end()) break;
    Join(phase);
  }
  std::vector<float> scores;
  for (Shard& shard : shards_) {
    const float* const own = Address(shard, plan_.scores);
    scores.insert(scores.end(), own, own + plan_.samples * plan_.rows * plan_.classes);
  }
  return scores;
}

// Adds the shards' gradients [begin, end), in their order, to what the shards before them left in
// `sum`.
void Learner::SumPart(int64_t begin, int64_t end, float* sum) {
  for (size_t s = 0; s < shards_.size(); ++s) {
    const float* const g = FloatsOf(shards_[s].parameter_gradients);
    if (first_ == 0 && s == 0) {
      std::copy(g + begin, g + end, sum + begin);
    } else {
      for (int64_t i = begin; i < end; ++i) sum[i] += g[i];
    }
  }
}

// The shards' gradients, added up in their order; returns the norm of the sum.
double Learner::SumGradients() {
  const int64_t n = plan_.parameter_floats;
  std::vector<double> squares(static_cast<size_t>(CeilDiv(n, kPart)), 0.0);
  float* const sum = FloatsOf(gradients_);
  if (ranks_ != nullptr) {
    const auto add = [&](size_t first, std::span<float> part) {
      const auto begin = static_cast<int64_t>(first), count = static_cast<int64_t>(part.size());
      pool_.ParallelFor(CeilDiv(count, kPart), 1, [&](int64_t from, int64_t to) {
        SumPart(begin + from * kPart, begin + std::min(count, to * kPart), sum);
      });
    };
    ranks_->SumInOrder<float>({sum, static_cast<size_t>(n)}, add);
  }
  pool_.ParallelFor(CeilDiv(n, kPart), 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * kPart, end = std::min(n, begin + kPart);
      if (ranks_ == nullptr) SumPart(begin, end, sum);
      double square = 0;
      for (int64_t i = begin; i < end; ++i) square += static_cast<double>(sum[i]) * sum[i];
      squares[static_cast<size_t>(part)] = square;
    }
  });
  double square = 0;
  for (double part : squares) square += part;
  return std::sqrt(square);
}

void Learner::Update(const UpdateSettings& settings, BatchResult& result) {
  float* const g = FloatsOf(gradients_);
  const bool clips = settings.clip_norm > 0 && result.norm > settings.clip_norm;
  const auto factor = static_cast<float>(clips ? settings.clip_norm / result.norm : 1);
  pool_.ParallelFor(static_cast<int64_t>(plan_.parameters.size()), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const TrainedConstant& c = plan_.parameters[static_cast<size_t>(i)];
                        for (int64_t j = c.offset; j < c.offset + c.elements && clips; ++j)
                          g[j] *= factor;
                        OptimizerStep step = settings.update;
                        step.w = FloatsOf(parameters_) + c.offset;
                        step.g = g + c.offset;
                        for (int s = 0; s < 2; ++s) step.slots[s] = FloatsOf(slots_[s]) + c.offset;
                        step.n = c.elements;
                        if (!c.decays) step.decay = 0;
                        if (c.decay) step.decay = static_cast<float>(*c.decay);
                        settings.optimizer->update(step);
                        if (averages_parameters())
                          Follow(settings, step, FloatsOf(ema_) + c.offset);
                      }
                    });
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const TrainingStep& step = plan_.steps[i];
    if (step.average.empty()) continue;
    std::vector<float*> places;
    for (int64_t offset : step.average) places.push_back(FloatsOf(averages_) + offset);
    step.bound.average(forward_totals_[i], all_shards_, places);
  }
}

void Learner::Average() {
  ema_ = Zeros(plan_.parameter_floats);
  std::copy_n(FloatsOf(parameters_), plan_.parameter_floats, FloatsOf(ema_));
}

Status Learner::Round() {
  return rounder_ == nullptr ? Status() : rounder_->Round(pool_, parameters(), Floats(rounded_));
}

void Learner::KeepObserved() { observed_ = Zeros(plan_.parameter_floats); }

// The average of one parameter, after its step.
void Learner::Follow(const UpdateSettings& settings, const OptimizerStep& step, float* average) {
  const auto t = static_cast<double>(step.step);
  const auto kept = static_cast<float>(std::min(settings.ema, (1 + t) / (10 + t)));
  for (int64_t i = 0; i < step.n; ++i) average[i] = kept * average[i] + (1 - kept) * step.w[i];
}

Status Learner::WriteTo(Graph& graph, bool rounded) {
  AlignedBuffer& trained = averages_parameters() ? ema_ : parameters_;
  AlignedBuffer changed;
  if (rounded && rounder_ != nullptr) {
    changed = Zeros(plan_.parameter_floats);
    EVOQ_TRY(rounder_->Round(pool_, Floats(trained), Floats(changed)));
  }
  const auto write = [&](const std::vector<TrainedConstant>& constants,
                         const float* from) -> Status {
    for (const TrainedConstant& c : constants) {
      const ValueId id = graph.FindValue(c.name);
      if (!id.valid()) return Fail(ErrorCode::kInternal, "constant {} is gone", c.name);
      Tensor tensor = Tensor::Allocate(TensorType(DType::kFloat32, c.shape));
      std::copy_n(from + c.offset, c.elements, tensor.mutable_data<float>());
      graph.SetConstant(id, std::move(tensor));
    }
    return {};
  };
  EVOQ_TRY(write(plan_.parameters, FloatsOf(changed.size() > 0 ? changed : trained)));
  return write(plan_.averages, FloatsOf(averages_));
}

}  // namespace evoq
