#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "base/math.h"
#include "base/memory.h"
#include "kernels/kernel.h"
#include "ops/op.h"
#include "program/node_call.h"
#include "runtime/bind_step.h"
#include "runtime/run_watch.h"
#include "runtime/shared_memory.h"

namespace evoq {
namespace {

// A kernel and how many threads work on it.
struct BoundStep {
  BoundKernel kernel;
  bool alone = false;  // on one thread
  size_t memory = 0;   // of its backend, in Program::arenas
};

// Where a step reads and writes in one lane. Pointers to inputs and outputs of the model are filled
// in per run.
struct StepPointers {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::byte* scratch = nullptr;
  void* stream = nullptr;
};

// What a lane has in one of the program's memories.
struct LaneMemory {
  std::shared_ptr<std::byte> arena, scratch;
  std::shared_ptr<void> stream;
};

// Memory for one run at a time. Lanes share the bound kernels.
struct Lane {
  std::vector<LaneMemory> memories;              // by Program::arenas
  std::vector<std::vector<StepPointers>> steps;  // by set, by step
  std::vector<int64_t> step_ns;
};

// inputs/outputs[slot] of a step points to the caller's tensor `index`.
struct Patch {
  int32_t step, slot, index;
};

// The index of a memory in Program::arenas.
size_t MemoryOf(const Program& program, const MemorySpace* space) {
  size_t m = 0;
  while (m < program.arenas.size() && program.arenas[m].space != space) ++m;
  EVOQ_CHECK(m < program.arenas.size(), "{}", space->name);
  return m;
}

// Whether a step is the same in two programs of SameStepsAndPlaces.
bool SameStep(const Program& a, const Program& b, size_t index) {
  const Step &x = a.steps[index], &y = b.steps[index];
  const NodeCall one(*a.graph, a.graph->node(x.node)), other(*b.graph, b.graph->node(y.node));
  const auto same_constant = [](const Tensor* p, const Tensor* q) {
    return (p == nullptr) == (q == nullptr) && (p == nullptr || p->raw() == q->raw());
  };
  return x.kernel == y.kernel && x.decision.kernel == y.decision.kernel &&
         one.inputs == other.inputs && one.outputs == other.outputs &&
         std::ranges::equal(one.constants, other.constants, same_constant);
}

}  // namespace

struct Executor::Impl {
  std::shared_ptr<const Program> program;
  std::vector<std::shared_ptr<const Program>>
      sets;                          // the program under each scale set, itself first
  std::shared_ptr<Adapter> adapter;  // null: always the first
  RunWatch watch;
  size_t set = 0;  // of the present run
  int64_t repeats;
  Isa isa;
  std::shared_ptr<ThreadPool> pool;
  std::shared_ptr<RunMemory> memory;
  std::shared_ptr<DerivedWeights> derived;
  ThreadPool one_thread{1};
  std::vector<std::vector<BoundStep>> steps;  // by set, by step
  std::vector<Patch> input_patches, output_patches;
  std::vector<Lane> lanes;  // one, or one for each thread where threads take whole runs
  std::vector<TensorType> input_types, output_types;
  std::vector<int64_t> input_strides, output_strides;  // bytes from one repeat to the next
  std::vector<int32_t> shared_inputs;                  // by output
  std::vector<const std::byte*> given;                 // the tensors of a run; room for them
  std::vector<std::byte*> results;
  std::vector<KernelPlan> plans;
  std::vector<size_t> scratch_bytes;  // by Program::arenas
  // Constants that steps read in a memory that is apart, by its index in Program::arenas.
  std::map<std::pair<size_t, ValueId>, std::shared_ptr<std::byte>> constants;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();

  Impl(std::shared_ptr<const Program> first, const ExecutorOptions& options)
      : program(std::move(first)),
        adapter(options.adapter),
        repeats(options.repeats),
        isa(options.isa),
        pool(options.pool != nullptr ? options.pool
                                     : std::make_shared<ThreadPool>(options.threads)),
        memory(options.memory != nullptr ? options.memory : std::make_shared<RunMemory>()),
        derived(options.derived != nullptr ? options.derived : std::make_shared<DerivedWeights>()) {
    sets.push_back(program);
    sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  }

  Status ReadTypes();
  Status CheckMemory(size_t scratch_bytes) const;
  Status CheckSets() const;
  Result<std::vector<BoundStep>> BindSteps(const Program& of);
  Status Bind();
  Status GiveMemory(size_t lane);
  Result<const std::byte*> ConstantIn(const Program& of, size_t memory, ValueId id);
  Result<StepPointers> Place(const Lane& lane, const Program& of, size_t step);
  void AddPatches(int32_t step);
  Status Check(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  Status CheckApart(std::span<const Tensor> inputs, std::span<Tensor> outputs) const;
  using Inputs = std::span<const std::byte* const>;
  using Outputs = std::span<std::byte* const>;
  void Point(Lane& lane, int64_t repeat, Inputs inputs, Outputs outputs) const;
  void Wait(size_t memory, void* stream) const;
  template <bool kTimed, bool kWatched>
  bool RunLane(Lane& lane, RunControl* control);
  template <bool kTimed>
  Status RunOn(Inputs inputs, Outputs outputs, RunControl* control = nullptr);
  template <bool kTimed>
  Status Run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
             RunControl* control = nullptr);
};

// A constant where steps of this memory read it: the host's as it is stored, others' a copy.
Result<const std::byte*> Executor::Impl::ConstantIn(const Program& of, size_t memory, ValueId id) {
  const Tensor& constant = of.graph->value(id).constant;
  if (memory == 0) return constant.raw();
  std::shared_ptr<std::byte>& copy = constants[{memory, id}];
  if (copy == nullptr) {
    const MemorySpace& space = *program->arenas[memory].space;
    EVOQ_ASSIGN(copy, space.allocate(constant.bytes()));
    void* const stream = lanes[0].memories[memory].stream.get();
    EVOQ_TRY(space.write(copy.get(), constant.raw(), constant.bytes(), stream));
    if (space.wait != nullptr) {
      EVOQ_TRY(space.wait(stream));
    }
  }
  return copy.get();
}

// Points the step to the constants and to the lane's memory.
Result<StepPointers> Executor::Impl::Place(const Lane& lane, const Program& of, size_t index) {
  const Node& node = of.graph->node(of.steps[index].node);
  StepPointers step;
  const size_t memory = steps[0][index].memory;
  step.scratch = lane.memories[memory].scratch.get();
  step.stream = lane.memories[memory].stream.get();
  step.inputs.assign(node.inputs.size(), nullptr);
  step.outputs.assign(node.outputs.size(), nullptr);
  const auto in_arena = [&](const Placement& place) {
    return lane.memories[MemoryOf(of, place.space)].arena.get() + place.offset;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const Placement& place = of.placements[node.inputs[i].index];
    if (place.kind == Placement::Kind::kArena) step.inputs[i] = in_arena(place);
    if (place.kind == Placement::Kind::kConstant) {
      EVOQ_ASSIGN(step.inputs[i],
                  ConstantIn(of, memory, ValueId{static_cast<int32_t>(place.offset)}));
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const Placement& place = of.placements[node.outputs[i].index];
    if (place.kind == Placement::Kind::kArena) step.outputs[i] = in_arena(place);
  }
  return step;
}

// Notes where the step reads and writes the caller's tensors.
void Executor::Impl::AddPatches(int32_t index) {
  const Node& node = program->graph->node(program->steps[index].node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const Placement& place = program->placements[node.inputs[i].index];
    const auto slot = static_cast<int32_t>(i), where = static_cast<int32_t>(place.offset);
    if (place.kind == Placement::Kind::kInput) input_patches.push_back({index, slot, where});
    if (place.kind == Placement::Kind::kOutput) output_patches.push_back({index, ~slot, where});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const Placement& place = program->placements[node.outputs[i].index];
    if (place.kind == Placement::Kind::kOutput)
      output_patches.push_back(
          {index, static_cast<int32_t>(i), static_cast<int32_t>(place.offset)});
  }
}

// The program's types, with dimension 0 times the repeats.
Status Executor::Impl::ReadTypes() {
  const Graph& graph = *program->graph;
  const auto read = [&](ValueId id, std::vector<TensorType>& types) -> Status {
    TensorType type = graph.value(id).type;
    if (repeats > 1) {
      EVOQ_CHECK(type.shape.ranked() && type.shape.rank() > 0, "{} has no batch",
                 graph.value(id).name);
      const auto rows = CheckedMul(type.shape[0].value, repeats);
      type.shape[0] = Dim(rows.value_or(-1));
      if (!rows || !type.bytes())
        return Fail(ErrorCode::kTooLarge, "{}: {} samples", graph.value(id).name, repeats);
    }
    types.push_back(std::move(type));
    return {};
  };
  for (ValueId id : graph.inputs()) EVOQ_TRY(read(id, input_types));
  for (ValueId id : graph.outputs()) EVOQ_TRY(read(id, output_types));
  for (const TensorType& type : input_types) input_strides.push_back(*type.bytes() / repeats);
  for (const TensorType& type : output_types) output_strides.push_back(*type.bytes() / repeats);
  given.resize(input_types.size());
  results.resize(output_types.size());
  shared_inputs = SharedInputs(*program);
  return {};
}

// Refuses a run that cannot get its memory: shapes come from files.
Status Executor::Impl::CheckMemory(size_t host_scratch) const {
  auto bytes = CheckedAdd(program->arenas[0].bytes, static_cast<int64_t>(host_scratch));
  if (bytes) bytes = CheckedMul(*bytes, static_cast<int64_t>(lanes.size()));
  for (const auto* types : {&input_types, &output_types}) {
    for (const TensorType& type : *types) {
      if (bytes) bytes = CheckedAdd(*bytes, *type.bytes());
    }
  }
  const int64_t limit = MemoryLimitBytes();
  if (bytes && *bytes <= limit / 8 * 7) return {};
  return Fail(ErrorCode::kTooLarge,
              "a run needs {} bytes of memory, expected at most 7/8 of this machine's {}",
              bytes ? fmt::to_string(*bytes) : "more than 2^63", limit);
}

// What scale sets share, and what they need of the executor.
Status Executor::Impl::CheckSets() const {
  EVOQ_CHECK(sets.size() == 1 || (adapter != nullptr && repeats == 1));
  for (size_t s = 1; s < sets.size(); ++s) {
    if (!SameStepsAndPlaces(*program, *sets[s]))
      return Unsupported("scale set {} is computed in other steps than the first one",
                         adapter->state().sets[s]);
  }
  if (sets.size() > 1 && program->arenas.size() > 1)
    return Unsupported("scale sets are for programs of the processor alone");
  return {};
}

// Of the first set: all. Of the others: those that differ from the first one's.
Result<std::vector<BoundStep>> Executor::Impl::BindSteps(const Program& of) {
  std::vector<BoundStep> bound(of.steps.size());
  const bool first = &of == program.get();
  const DerivedScope share(derived.get());
  for (size_t i = 0; i < bound.size(); ++i) {
    const Step& step = of.steps[i];
    if (!first && SameStep(*program, of, i)) {
      bound[i] = steps[0][i];
      continue;
    }
    bound[i].alone = step.tuning.threads == 1 || lanes.size() > 1;
    bound[i].memory = MemoryOf(of, step.backend->memory);
    const BindOptions options{isa, bound[i].alone ? 1 : pool->threads(), {}};
    EVOQ_ASSIGN(bound[i].kernel, WithContext(BindStep(of, step, options, failure),
                                             NodeLabel(of.graph->node(step.node))));
    size_t& scratch = scratch_bytes[bound[i].memory];
    scratch = std::max(scratch, bound[i].kernel.scratch_bytes);
    if (first) plans.push_back(bound[i].kernel.plan);
  }
  return bound;
}

Status Executor::Impl::GiveMemory(size_t index) {
  Lane& lane = lanes[index];
  for (size_t m = 0; m < program->arenas.size(); ++m) {
    const Arena& arena = program->arenas[m];
    LaneMemory& given = lane.memories.emplace_back();
    EVOQ_ASSIGN(given.arena, memory->Get(*arena.space, index, RunMemory::Use::kArena,
                                         static_cast<size_t>(arena.bytes)));
    EVOQ_ASSIGN(given.scratch,
                memory->Get(*arena.space, index, RunMemory::Use::kScratch, scratch_bytes[m]));
    if (arena.space->open_stream == nullptr) continue;
    EVOQ_ASSIGN(given.stream, arena.space->open_stream());
  }
  return {};
}

Status Executor::Impl::Bind() {
  EVOQ_CHECK(!program->arenas.empty() && program->arenas[0].space == &kHostMemory);
  EVOQ_TRY(CheckSets());
  EVOQ_TRY(ReadTypes());
  // One per thread: any thread may take any sample, also where there are fewer samples than
  // threads.
  lanes.resize(repeats > 1 ? static_cast<size_t>(pool->threads()) : 1);
  EVOQ_TRY(CheckMemory(0));
  scratch_bytes.assign(program->arenas.size(), 0);
  for (const auto& of : sets) {
    EVOQ_ASSIGN(std::vector<BoundStep> bound, BindSteps(*of));
    steps.push_back(std::move(bound));
  }
  EVOQ_TRY(CheckMemory(scratch_bytes[0]));
  for (size_t lane = 0; lane < lanes.size(); ++lane) EVOQ_TRY(GiveMemory(lane));
  for (Lane& lane : lanes) {
    lane.steps.resize(sets.size());
    lane.step_ns.resize(program->steps.size());
    for (size_t s = 0; s < sets.size(); ++s) {
      for (size_t i = 0; i < program->steps.size(); ++i) {
        EVOQ_ASSIGN(StepPointers step,
                    WithContext(Place(lane, *sets[s], i),
                                NodeLabel(program->graph->node(program->steps[i].node))));
        lane.steps[s].push_back(std::move(step));
      }
    }
  }
  for (size_t i = 0; i < program->steps.size(); ++i) AddPatches(static_cast<int32_t>(i));
  if (adapter != nullptr) watch = RunWatch(sets, *adapter);
  return {};
}

Status Executor::Impl::Check(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  const Graph& graph = *program->graph;
  if (inputs.size() != input_types.size() || outputs.size() != output_types.size())
    return Fail(ErrorCode::kUsage, "{} inputs and {} outputs given, expected {} and {}",
                inputs.size(), outputs.size(), input_types.size(), output_types.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type() == input_types[i] && inputs[i].layout().empty()) continue;
    return Fail(ErrorCode::kUsage, "input {}: {} given, expected {}",
                graph.value(graph.inputs()[i]).name, inputs[i].type().ToString(),
                input_types[i].ToString());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].type() == output_types[i]) continue;
    return Fail(ErrorCode::kUsage, "output {}: {} given, expected {}",
                graph.value(graph.outputs()[i]).name, outputs[i].type().ToString(),
                output_types[i].ToString());
  }
  return CheckApart(inputs, outputs);
}

// Outputs lie where nothing else does, but for those that take an input's place.
Status Executor::Impl::CheckApart(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
  const auto overlap = [](const Tensor& a, const Tensor& b) {
    const auto less = std::less<const std::byte*>();
    return a.bytes() > 0 && b.bytes() > 0 && less(a.raw(), b.raw() + b.bytes()) &&
           less(b.raw(), a.raw() + a.bytes());
  };
  const Graph& graph = *program->graph;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::string& name = graph.value(graph.outputs()[o]).name;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!overlap(outputs[o], inputs[i])) continue;
      if (shared_inputs[o] == static_cast<int32_t>(i) && outputs[o].raw() == inputs[i].raw())
        continue;
      return Fail(ErrorCode::kUsage,
                  "output {} lies in the memory of input {}, which it cannot take the place of",
                  name, graph.value(graph.inputs()[i]).name);
    }
    for (size_t k = 0; k < o; ++k) {
      if (overlap(outputs[o], outputs[k]))
        return Fail(ErrorCode::kUsage, "outputs {} and {} lie in the same memory",
                    graph.value(graph.outputs()[k]).name, name);
    }
  }
  return {};
}

// Lets the lane's steps read and write slice `repeat` of the caller's tensors.
void Executor::Impl::Point(Lane& lane, int64_t repeat, Inputs inputs, Outputs outputs) const {
  std::vector<StepPointers>& pointers = lane.steps[set];
  for (const Patch& p : input_patches)
    pointers[p.step].inputs[p.slot] = inputs[p.index] + input_strides[p.index] * repeat;
  for (const Patch& p : output_patches) {
    std::byte* data = outputs[p.index] + output_strides[p.index] * repeat;
    // A step that reads what another one wrote into a model output: its slot is stored
    // complemented.
    if (p.slot < 0) {
      pointers[p.step].inputs[~p.slot] = data;
    } else {
      pointers[p.step].outputs[p.slot] = data;
    }
  }
}

// So that a step's time is its own.
void Executor::Impl::Wait(size_t memory, void* stream) const {
  const MemorySpace& space = *program->arenas[memory].space;
  if (space.wait == nullptr) return;
  if (const Status done = space.wait(stream); !done) failure->Note(done.error());
}

// False where `control` ended it.
template <bool kTimed, bool kWatched>
bool Executor::Impl::RunLane(Lane& lane, RunControl* control) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point before;
  if constexpr (kTimed) before = Clock::now();
  const std::vector<BoundStep>& bound = steps[set];
  const std::vector<StepPointers>& pointers = lane.steps[set];
  [[maybe_unused]] size_t watched = 0;
  for (size_t i = 0; i < bound.size(); ++i) {
    if (control != nullptr && !control->Continue()) return false;
    const BoundStep& step = bound[i];
    const StepPointers& at = pointers[i];
    step.kernel.run(step.kernel.state.get(), at.inputs.data(), at.outputs.data(),
                    {step.alone ? one_thread : *pool, at.scratch, at.stream});
    if constexpr (kWatched) {
      if (watched < watch.size() && watch.step(watched) == i)
        watch.Look(watched++, set, at.outputs[0]);
    }
    if constexpr (kTimed) {
      if (step.memory != 0) Wait(step.memory, at.stream);
      const auto after = Clock::now();
      lane.step_ns[i] +=
          std::chrono::duration_cast<std::chrono::nanoseconds>(after - before).count();
      before = after;
    }
  }
  return true;
}

template <bool kTimed>
Status Executor::Impl::Run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           RunControl* control) {
  EVOQ_TRY(Check(inputs, outputs));
  for (size_t i = 0; i < inputs.size(); ++i) given[i] = inputs[i].raw();
  for (size_t i = 0; i < outputs.size(); ++i) results[i] = outputs[i].mutable_raw();
  return RunOn<kTimed>(given, results, control);
}

template <bool kTimed>
Status Executor::Impl::RunOn(Inputs inputs, Outputs outputs, RunControl* control) {
  failure->Reset();
  const auto stopped = [] { return Fail(ErrorCode::kConditionFailed, "the run was stopped"); };
  if (adapter != nullptr) {
    const Adapter::Turn turn = adapter->Begin(watch.every());
    set = turn.set;
    Point(lanes[0], 0, inputs, outputs);
    const bool ended = turn.look ? RunLane<kTimed, true>(lanes[0], control)
                                 : RunLane<kTimed, false>(lanes[0], control);
    if (!ended) return stopped();
    if (turn.look && !failure->error()) adapter->End(watch.counts());
    if (failure->error()) return tl::unexpected<Error>(*failure->error());
    return {};
  }
  const auto runs = [&](int64_t begin, int64_t end, int thread) {
    Lane& lane = lanes[static_cast<size_t>(thread)];
    for (int64_t r = begin; r < end; ++r) {
      Point(lane, r, inputs, outputs);
      if (!RunLane<kTimed, false>(lane, control)) return;
    }
  };
  pool->ParallelFor(repeats, 1, runs);  // of a single lane: on the caller's thread
  if (control != nullptr && control->stopped()) return stopped();
  if (failure->error()) return tl::unexpected<Error>(*failure->error());
  return {};
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::Create(std::shared_ptr<const Program> program,
                                                   const ExecutorOptions& options) {
  auto impl = std::make_unique<Impl>(std::move(program), options);
  EVOQ_TRY(impl->Bind());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Result<std::unique_ptr<Executor>> Executor::Another(std::shared_ptr<ThreadPool> pool,
                                                    std::shared_ptr<RunMemory> memory) const {
  ExecutorOptions options{threads(), impl_->isa, impl_->repeats, std::move(pool)};
  options.memory = std::move(memory);
  options.derived = impl_->derived;
  options.sets.assign(impl_->sets.begin() + 1, impl_->sets.end());
  if (impl_->adapter != nullptr) options.adapter = impl_->adapter->Fresh();
  EVOQ_ASSIGN(auto another, Create(impl_->program, options));
  another->UseSample(sample(), repeats_in_place());
  return another;
}

Result<std::unique_ptr<Runnable>> Executor::Fresh(std::shared_ptr<ThreadPool> pool) const {
  return Another(std::move(pool));
}

const Program& Executor::program() const { return *impl_->program; }
int Executor::threads() const { return impl_->pool->threads(); }
int64_t Executor::repeats() const { return impl_->repeats; }
const std::vector<TensorType>& Executor::input_types() const { return impl_->input_types; }
const std::vector<TensorType>& Executor::output_types() const { return impl_->output_types; }
const std::vector<KernelPlan>& Executor::plans() const { return impl_->plans; }
int Executor::shared_input(size_t output) const { return impl_->shared_inputs[output]; }
int Executor::look_every() const {
  if (impl_->adapter == nullptr) return 0;
  const int asked = impl_->adapter->options().every;
  return asked > 0 ? asked : impl_->watch.every();
}
int64_t Executor::arena_bytes() const {
  int64_t bytes = impl_->program->arena_bytes();
  for (size_t scratch : impl_->scratch_bytes) bytes += static_cast<int64_t>(scratch);
  return bytes * static_cast<int64_t>(impl_->lanes.size());
}

Status Executor::Run(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  return impl_->Run<false>(inputs, outputs);
}

Status Executor::Run(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                     RunControl& control) {
  return impl_->Run<false>(inputs, outputs, &control);
}

Status Executor::RunOn(std::span<const std::byte* const> inputs,
                       std::span<std::byte* const> outputs) {
  return impl_->RunOn<false>(inputs, outputs);
}

Status Executor::RunTimed(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                          std::span<int64_t> step_ns) {
  EVOQ_CHECK(step_ns.size() == impl_->program->steps.size());
  for (Lane& lane : impl_->lanes) std::fill(lane.step_ns.begin(), lane.step_ns.end(), 0);
  EVOQ_TRY(impl_->Run<true>(inputs, outputs));
  const auto lanes = static_cast<int64_t>(impl_->lanes.size());
  for (size_t i = 0; i < step_ns.size(); ++i) {
    step_ns[i] = 0;
    for (const Lane& lane : impl_->lanes) step_ns[i] += lane.step_ns[i];
    step_ns[i] /= lanes;
  }
  return {};
}

}  // namespace evoq
