#include "api/model_session.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "api/parts.h"
#include "base/brief.h"
#include "base/check.h"
#include "base/math.h"
#include "ops/op.h"

namespace evoq {
namespace {

constexpr int kMaxThreads = 1024;

// The public numbers are the inner ones.
constexpr bool Agree(ElementType type, DType dtype) {
  return static_cast<int>(type) == static_cast<int>(dtype);
}
static_assert(
    Agree(ElementType::kFloat32, DType::kFloat32) && Agree(ElementType::kUint8, DType::kUint8) &&
    Agree(ElementType::kInt8, DType::kInt8) && Agree(ElementType::kUint16, DType::kUint16) &&
    Agree(ElementType::kInt16, DType::kInt16) && Agree(ElementType::kInt32, DType::kInt32) &&
    Agree(ElementType::kInt64, DType::kInt64) && Agree(ElementType::kBool, DType::kBool) &&
    Agree(ElementType::kFloat16, DType::kFloat16) &&
    Agree(ElementType::kFloat64, DType::kFloat64) && Agree(ElementType::kUint32, DType::kUint32) &&
    Agree(ElementType::kUint64, DType::kUint64) &&
    Agree(ElementType::kBfloat16, DType::kBfloat16) &&
    Agree(ElementType::kFloat8E4M3FN, DType::kFloat8E4M3FN) &&
    Agree(ElementType::kFloat8E4M3FNUZ, DType::kFloat8E4M3FNUZ) &&
    Agree(ElementType::kFloat8E5M2, DType::kFloat8E5M2) &&
    Agree(ElementType::kFloat8E5M2FNUZ, DType::kFloat8E5M2FNUZ) &&
    Agree(ElementType::kFloat8E8M0, DType::kFloat8E8M0));

bool Carried(const TensorType& type) {
  return type.is_tensor() && ElementBytes(static_cast<ElementType>(type.dtype)) > 0;
}

// What a graph says of its inputs or outputs. Errors: kUnsupported for what arrays do not carry.
Result<std::vector<ArrayInfo>> Describe(const Graph& graph, std::span<const ValueId> ids,
                                        const char* what) {
  std::vector<ArrayInfo> infos;
  for (ValueId id : ids) {
    const Value& v = graph.value(id);
    if (!Carried(v.type))
      return Unsupported("{} {} is {}, which arrays do not carry", what, v.name, v.type.ToString());
    infos.push_back({v.name, static_cast<ElementType>(v.type.dtype), v.type.shape.sizes()});
  }
  return infos;
}

std::vector<ValueId> OutputsOf(const Graph& graph) {
  return {graph.outputs().begin(), graph.outputs().end()};
}

bool SameShape(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && std::less<>()(a.data(), b.data() + b.size()) &&
         std::less<>()(b.data(), a.data() + a.size());
}

}  // namespace

Result<size_t> BytesOf(ElementType type, std::span<const int64_t> shape) {
  const size_t element = ElementBytes(type);
  if (element == 0)
    return Fail(ErrorCode::kUsage, "element type {}, which arrays do not carry",
                static_cast<int>(type));
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; }))
    return Fail(ErrorCode::kUsage, "shape {}, expected sizes from 0 on", BracketedBriefly(shape));
  // A size of 0 makes no bytes, whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return size_t{0};
  const auto elements = CheckedProduct(shape);
  const auto bytes = elements ? CheckedMul(*elements, static_cast<int64_t>(element)) : std::nullopt;
  if (!bytes)
    return Fail(ErrorCode::kTooLarge, "shape {} is beyond what memory can hold",
                BracketedBriefly(shape));
  return static_cast<size_t>(*bytes);
}

Result<std::span<const std::byte>> CallersBytes(ElementType type, std::span<const int64_t> shape,
                                                const void* data) {
  EVOQ_ASSIGN(const size_t bytes, BytesOf(type, shape));
  if (bytes > 0 && data == nullptr) return Fail(ErrorCode::kUsage, "{} bytes without data", bytes);
  if (reinterpret_cast<uintptr_t>(data) % ElementBytes(type) != 0)
    return Fail(ErrorCode::kUsage, "its data is not aligned to {} bytes", ElementBytes(type));
  return std::span(static_cast<const std::byte*>(data), bytes);
}

AdaptiveOptions OptionsOf(const AdaptiveSettings& settings) {
  return {.clip_limit = settings.clip_limit,
          .widen_after = settings.widen_after,
          .narrow_after = settings.narrow_after,
          .every = settings.look_every,
          .pinned = settings.scale_set};
}

AdaptiveReport ReportOf(const AdaptiveState& state) {
  AdaptiveReport report{state.sets,     state.active,      state.runs,      state.looks,
                        state.switches, state.runs_by_set, state.clip_rate, {}};
  for (const WatchedTensor& t : state.tensors)
    report.tensors.push_back({t.name, t.seen, t.clipped});
  return report;
}

Result<ModelSession> ModelSession::Load(const std::string& path, int threads,
                                        const std::optional<AdaptiveSettings>& adaptive) {
  if (threads < 0 || threads > kMaxThreads)
    return Fail(ErrorCode::kUsage, "{} threads, expected 0 to {}", threads, kMaxThreads);
  ModelSession session;
  EngineOptions options{threads, {}};
  if (adaptive) options.adaptive = OptionsOf(*adaptive);
  EVOQ_ASSIGN(session.engine_, Engine::Load(path, options, LibraryParts()));
  // Files need not say the types of outputs.
  Graph typed = session.engine_->model().graph;
  const std::vector<ValueId> outputs = OutputsOf(typed);
  if (std::any_of(outputs.begin(), outputs.end(),
                  [&](ValueId id) { return typed.value(id).type.dtype == DType::kUndefined; }))
    EVOQ_TRY(WithContext(InferTypes(typed, *LibraryParts().evaluator), path));
  EVOQ_ASSIGN(session.inputs_, WithContext(Describe(typed, typed.inputs(), "input"), path));
  EVOQ_ASSIGN(session.outputs_, WithContext(Describe(typed, outputs, "output"), path));
  return session;
}

// Whether the arrays have the model's number and types, the bytes of their sizes, and bools that
// are bools.
Status ModelSession::Check(std::span<const ArrayView> arrays) const {
  if (arrays.size() != inputs_.size())
    return Fail(ErrorCode::kUsage, "{} inputs given, expected {}", arrays.size(), inputs_.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArrayInfo& info = inputs_[i];
    const ArrayView& a = arrays[i];
    if (a.type != info.type)
      return Fail(ErrorCode::kUsage, "input {}: element type {}, expected {}", info.name,
                  static_cast<int>(a.type), static_cast<int>(info.type));
    const auto bytes = BytesOf(a.type, a.shape);
    if (!bytes) return WithContext(Status(tl::unexpected(bytes.error())), "input " + info.name);
    if (*bytes != a.bytes.size())
      return Fail(ErrorCode::kUsage, "input {}: {} bytes for shape {}, expected {}", info.name,
                  a.bytes.size(), BracketedBriefly(a.shape), *bytes);
    EVOQ_CHECK(reinterpret_cast<uintptr_t>(a.bytes.data()) % ElementBytes(a.type) == 0);
    if (a.type != ElementType::kBool) continue;
    const auto bad =
        std::find_if(a.bytes.begin(), a.bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != a.bytes.end())
      return Fail(ErrorCode::kUsage, "input {}: byte {} of a bool array is {}, expected 0 or 1",
                  info.name, bad - a.bytes.begin(), static_cast<int>(*bad));
  }
  return {};
}

Result<ModelSession::Prepared> ModelSession::Prepare(std::span<const ArrayView> arrays) {
  Prepared fresh;
  InputShapes shapes;
  for (size_t i = 0; i < arrays.size(); ++i) {
    fresh.shapes.emplace_back(arrays[i].shape.begin(), arrays[i].shape.end());
    shapes[inputs_[i].name] = fresh.shapes.back();
  }
  EVOQ_ASSIGN(fresh.executor, engine_->At(shapes));
  const auto& types = fresh.executor->output_types();
  for (size_t i = 0; i < types.size(); ++i) {
    if (!Carried(types[i]))
      return Unsupported("output {} is {}, which arrays do not carry", outputs_[i].name,
                         types[i].ToString());
    fresh.outputs.push_back({static_cast<ElementType>(types[i].dtype), types[i].shape.sizes(), {}});
    fresh.output_bytes.push_back(static_cast<size_t>(types[i].bytes().value_or(0)));
  }
  fresh.in.resize(arrays.size());
  fresh.out.resize(types.size());
  return fresh;
}

Status ModelSession::PrepareFor(std::span<const ArrayView> arrays) {
  bool same = prepared_.executor != nullptr;
  for (size_t i = 0; same && i < arrays.size(); ++i)
    same = SameShape(prepared_.shapes[i], arrays[i].shape);
  if (!same) {
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
  return engine_->RunOn(*p.executor, p.in, p.out);
}

// A model whose sizes depend on its data: its outputs are what they are.
Status ModelSession::RunRegions(std::span<const ArrayView> arrays, std::vector<Array>& results) {
  const Graph& graph = engine_->model().graph;
  std::vector<Tensor> in;
  for (size_t i = 0; i < arrays.size(); ++i) {
    TensorType type = graph.value(graph.inputs()[i]).type;
    type.shape = Shape(std::vector<int64_t>(arrays[i].shape.begin(), arrays[i].shape.end()));
    static constexpr std::byte kEmpty{};
    const std::byte* const data = arrays[i].bytes.data();
    in.push_back(Tensor::View(std::move(type), data != nullptr ? data : &kEmpty, nullptr));
  }
  EVOQ_ASSIGN(const std::vector<Tensor> values, engine_->Run(in));
  results.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Carried(values[i].type()))
      return Unsupported("output {} is {}, which arrays do not carry", outputs_[i].name,
                         values[i].type().ToString());
    Array& a = results[i];
    a.type = static_cast<ElementType>(values[i].dtype());
    a.shape = values[i].sizes();
    a.bytes.assign(values[i].raw(), values[i].raw() + values[i].bytes());
  }
  return {};
}

Status ModelSession::Run(std::span<const ArrayView> arrays, std::vector<Array>* results) {
  if (results == nullptr) return Fail(ErrorCode::kUsage, "there is no place for the outputs");
  EVOQ_TRY(Check(arrays));
  EVOQ_ASSIGN(const bool one_program, Settle(arrays));
  return one_program ? RunPrepared(arrays, *results) : RunRegions(arrays, *results);
}

Result<bool> ModelSession::Settle(std::span<const ArrayView> arrays) {
  if (prepared_.executor == nullptr) {
    InputShapes shapes;
    for (size_t i = 0; i < arrays.size(); ++i)
      shapes[inputs_[i].name].assign(arrays[i].shape.begin(), arrays[i].shape.end());
    EVOQ_TRY(engine_->Settle(shapes));
  }
  return engine_->in_regions().empty();
}

Status ModelSession::CheckOutput(const OutputMemory& to, size_t index, const Array& model) const {
  const std::string& name = outputs_[index].name;
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
  EVOQ_TRY(Check(arrays));
  if (memory.size() != outputs_.size())
    return Fail(ErrorCode::kUsage, "{} outputs given, expected {}", memory.size(), outputs_.size());
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
        return Fail(ErrorCode::kUsage, "outputs {} and {} overlap", outputs_[k].name,
                    outputs_[i].name);
    }
    for (size_t k = 0; k < arrays.size(); ++k) {
      if (Overlap(bytes_of(i), arrays[k].bytes))
        return Fail(ErrorCode::kUsage, "output {} overlaps input {}", outputs_[i].name,
                    inputs_[k].name);
    }
  }
  if (one_program) {
    for (size_t i = 0; i < memory.size(); ++i) prepared_.out[i] = memory[i].data;
    return engine_->RunOn(*prepared_.executor, prepared_.in, prepared_.out);
  }
  for (size_t i = 0; i < memory.size(); ++i)
    std::copy(model[i].bytes.begin(), model[i].bytes.end(), memory[i].data);
  return {};
}

}  // namespace evoq
