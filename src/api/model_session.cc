#include "api/model_session.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "api/parts.h"
#include "base/brief.h"
#include "base/math.h"
#include "ops/op.h"
#include "program/container.h"
#include "program/etm.h"

namespace evoq {
namespace {

bool SameShape(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && std::less<>()(a.data(), b.data() + b.size()) &&
         std::less<>()(b.data(), a.data() + a.size());
}

}  // namespace

AdaptiveOptions OptionsOf(const AdaptiveSettings& settings) {
  return {.clip_limit = settings.clip_limit,
          .widen_after = settings.widen_after,
          .narrow_after = settings.narrow_after,
          .every = settings.look_every,
          .pinned = settings.scale_set,
          .watch = settings.watch};
}

AdaptiveReport ReportOf(const AdaptiveState& state) {
  AdaptiveReport report{state.sets,     state.active,      state.runs,      state.looks,
                        state.switches, state.runs_by_set, state.clip_rate, {}};
  for (const WatchedTensor& t : state.tensors)
    report.tensors.push_back({t.name, t.seen, t.clipped});
  return report;
}

SizesReport ReportOf(const GearReport& gears, const std::vector<ArrayInfo>& inputs) {
  SizesReport report;
  report.gears = gears.gears, report.ready = gears.ready;
  report.runs = gears.runs, report.padded = gears.padded, report.misses = gears.misses;
  report.miss_ms = gears.miss_ms, report.worst_miss_ms = gears.worst_miss_ms;
  report.prepared_beside = gears.beside, report.beside_ms = gears.beside_ms;
  for (const SizeCount& count : gears.sizes) {
    SizesReport::Sizes& sizes = report.sizes.emplace_back();
    for (const ArrayInfo& input : inputs) sizes.shapes.push_back(count.shapes.at(input.name));
    sizes.gear = count.gear;
    sizes.runs = count.runs, sizes.padded = count.padded, sizes.misses = count.misses;
    sizes.prepare_ms = count.prepare_ms;
  }
  return report;
}

Result<ModelSession> ModelSession::Load(const ModelSource& source, const SessionOptions& chosen) {
  if (chosen.threads < 0 || chosen.threads > kMaxThreads)
    return Fail(ErrorCode::kUsage, "{} threads, expected 0 to {}", chosen.threads, kMaxThreads);
  ModelSession session;
  EngineOptions options{.threads = chosen.threads, .gears = chosen.gears};
  if (chosen.adaptive) options.adaptive = OptionsOf(*chosen.adaptive);
  if (source.bytes) {
    if (source.bytes->data() == nullptr)
      return Fail(ErrorCode::kUsage, "{}: its bytes are NULL", source.name);
    const auto import = IsEtm(*source.bytes) ? nullptr : LibraryParts().import_bytes;
    Loaded loaded;
    if (import != nullptr) {
      EVOQ_ASSIGN(loaded, import(*source.bytes, source.name, options.shapes));
    } else {
      EVOQ_ASSIGN(loaded.model, ReadEtm(*source.bytes, chosen.copy_memory, source.name));
    }
    EVOQ_ASSIGN(session.engine_,
                Engine::Of(std::move(loaded), options, LibraryParts(), source.name));
  } else {
    EVOQ_ASSIGN(session.engine_, Engine::Load(source.name, options, LibraryParts()));
  }
  EVOQ_ASSIGN(session.interface_, ModelInterface::Of(session.engine_->model().graph, source.name));
  return session;
}

Result<ModelSession::Prepared> ModelSession::Prepare(std::span<const ArrayView> arrays) {
  Prepared fresh;
  for (const ArrayView& array : arrays)
    fresh.shapes.emplace_back(array.shape.begin(), array.shape.end());
  EVOQ_ASSIGN(fresh.serving, engine_->Serve(TensorsOf(InputTypes(), arrays)));
  const Executor& executor = *fresh.serving.executor;
  const std::vector<TensorType> types = fresh.serving.padding
                                            ? OutputTypesFor(executor, *fresh.serving.padding)
                                            : executor.output_types();
  for (size_t i = 0; i < types.size(); ++i) {
    if (!Carried(types[i]))
      return Unsupported("output {} is {}, which arrays do not carry", interface_.outputs[i].name,
                         types[i].ToString());
    fresh.outputs.push_back({static_cast<ElementType>(types[i].dtype), types[i].shape.sizes(), {}});
    fresh.output_bytes.push_back(static_cast<size_t>(types[i].bytes().value_or(0)));
  }
  fresh.in.resize(arrays.size());
  fresh.out.resize(types.size());
  return fresh;
}

Status ModelSession::PrepareFor(std::span<const ArrayView> arrays) {
  // What a gear served may have an executor of its own by now.
  bool same = prepared_.serving.executor != nullptr && !prepared_.serving.padding;
  for (size_t i = 0; same && i < arrays.size(); ++i)
    same = SameShape(prepared_.shapes[i], arrays[i].shape);
  if (same) {
    engine_->CountAgain();
  } else {
    EVOQ_ASSIGN(prepared_, Prepare(arrays));
  }
  for (size_t i = 0; i < arrays.size(); ++i) prepared_.in[i] = arrays[i].bytes.data();
  return {};
}

Status ModelSession::RunPrepared(std::span<const ArrayView> arrays, std::vector<Array>& results) {
  EVOQ_TRY(PrepareFor(arrays));
  Prepared& p = prepared_;
  results.resize(p.outputs.size());
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    results[i].type = p.outputs[i].type;
    results[i].shape = p.outputs[i].shape;
    results[i].bytes.resize(p.output_bytes[i]);
    p.out[i] = results[i].bytes.data();
  }
  return RunServing(arrays);
}

std::vector<TensorType> ModelSession::InputTypes() const {
  std::vector<TensorType> types;
  for (const ValueId input : engine_->model().graph.inputs())
    types.push_back(engine_->model().graph.value(input).type);
  return types;
}

// What is prepared, on the memory that it was pointed to.
Status ModelSession::RunServing(std::span<const ArrayView> arrays) {
  Prepared& p = prepared_;
  if (!p.serving.padding) return engine_->RunOn(*p.serving.executor, p.in, p.out);
  std::vector<Tensor> outputs;
  const std::vector<TensorType> types = OutputTypesFor(*p.serving.executor, *p.serving.padding);
  for (size_t i = 0; i < types.size(); ++i) outputs.push_back(Tensor::Borrow(types[i], p.out[i]));
  return engine_->RunInto(*p.serving.executor, TensorsOf(InputTypes(), arrays), outputs,
                          p.serving.padding);
}

// A model whose sizes depend on its data: its outputs are what they are.
Status ModelSession::RunRegions(std::span<const ArrayView> arrays, std::vector<Array>& results) {
  EVOQ_ASSIGN(const std::vector<Tensor> values, engine_->Run(TensorsOf(InputTypes(), arrays)));
  return CopyOutputs(values, interface_.outputs, results);
}

Status ModelSession::Run(std::span<const ArrayView> arrays, std::vector<Array>* results) {
  if (results == nullptr) return Fail(ErrorCode::kUsage, "there is no place for the outputs");
  EVOQ_TRY(interface_.Check(arrays));
  EVOQ_ASSIGN(const bool one_program, Settle(arrays));
  return one_program ? RunPrepared(arrays, *results) : RunRegions(arrays, *results);
}

Result<bool> ModelSession::Settle(std::span<const ArrayView> arrays) {
  if (prepared_.serving.executor == nullptr) {
    InputShapes shapes;
    for (size_t i = 0; i < arrays.size(); ++i)
      shapes[interface_.inputs[i].name].assign(arrays[i].shape.begin(), arrays[i].shape.end());
    EVOQ_TRY(engine_->Settle(shapes));
  }
  return engine_->in_regions().empty();
}

Status ModelSession::CheckOutput(const OutputMemory& to, size_t index, const Array& model) const {
  const std::string& name = interface_.outputs[index].name;
  if (to.type != model.type)
    return Fail(ErrorCode::kUsage, "output {}: element type {}, expected {}", name,
                static_cast<int>(to.type), static_cast<int>(model.type));
  if (!SameShape(to.shape, model.shape))
    return Fail(ErrorCode::kUsage, "output {}: shape {}, expected {}", name,
                BracketedBriefly(to.shape), BracketedBriefly(std::span(model.shape)));
  EVOQ_ASSIGN(const size_t bytes, BytesOf(to.type, to.shape));
  if (bytes > 0 && to.data == nullptr)
    return Fail(ErrorCode::kUsage, "output {}: its data is null", name);
  if (reinterpret_cast<uintptr_t>(to.data) % ElementBytes(to.type) != 0)
    return Fail(ErrorCode::kUsage, "output {}: its data is not aligned to {} bytes", name,
                ElementBytes(to.type));
  return {};
}

Status ModelSession::RunOn(std::span<const ArrayView> arrays,
                           std::span<const OutputMemory> memory) {
  EVOQ_TRY(interface_.Check(arrays));
  if (memory.size() != interface_.outputs.size())
    return Fail(ErrorCode::kUsage, "{} outputs given, expected {}", memory.size(),
                interface_.outputs.size());
  EVOQ_ASSIGN(const bool one_program, Settle(arrays));
  if (one_program) {
    EVOQ_TRY(PrepareFor(arrays));
  } else {
    EVOQ_TRY(RunRegions(arrays, from_regions_));
  }
  const std::vector<Array>& model = one_program ? prepared_.outputs : from_regions_;
  for (size_t i = 0; i < memory.size(); ++i) {
    EVOQ_TRY(CheckOutput(memory[i], i, model[i]));
    const auto bytes_of = [&](size_t o) {
      return std::span<const std::byte>(
          memory[o].data, one_program ? prepared_.output_bytes[o] : model[o].bytes.size());
    };
    for (size_t k = 0; k < i; ++k) {
      if (Overlap(bytes_of(i), bytes_of(k)))
        return Fail(ErrorCode::kUsage, "outputs {} and {} overlap", interface_.outputs[k].name,
                    interface_.outputs[i].name);
    }
    for (size_t k = 0; k < arrays.size(); ++k) {
      if (Overlap(bytes_of(i), arrays[k].bytes))
        return Fail(ErrorCode::kUsage, "output {} overlaps input {}", interface_.outputs[i].name,
                    interface_.inputs[k].name);
    }
  }
  if (one_program) {
    for (size_t i = 0; i < memory.size(); ++i) prepared_.out[i] = memory[i].data;
    return RunServing(arrays);
  }
  for (size_t i = 0; i < memory.size(); ++i)
    std::copy(model[i].bytes.begin(), model[i].bytes.end(), memory[i].data);
  return {};
}

}  // namespace evoq
