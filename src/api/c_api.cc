#include <algorithm>
#include <cstring>

#include "api/c_describe.h"
#include "api/model_session.h"
#include "base/guarded.h"
#include "base/turn.h"
#include "evoq/evoq_c.h"

struct evoq_session {
  evoq::ModelSession session;
  std::vector<evoq::ArrayView> inputs;  // of a run; room for them
  std::vector<std::vector<std::byte>>
      aligned;  // copies of inputs that are not aligned as their elements are
  std::vector<evoq::Array> outputs;
  std::vector<evoq::OutputMemory> memory;  // of a run; room for it
  bool ran = false;                        // the outputs are those of a run
  std::string sizes;                       // as evoq_session_sizes_text told them
  std::atomic<bool> taken = false;         // by a run that has not ended
};

namespace {

using evoq::ArrayInfo;
using evoq::ErrorCode;
using evoq::Fail;
using evoq::Status;

// 0, or 1 with the reason in error.
int Outcome(const Status& status, char* error, size_t error_size) {
  if (status) return 0;
  evoq::TellInC(status.error(), error, error_size);
  return 1;
}

// What `run` gives, where no other run of the session goes on.
template <typename Run>
Status InTurn(evoq_session* s, const Run& run) {
  return evoq::Guarded([&]() -> Status {
    if (s == nullptr) return Fail(ErrorCode::kUsage, "the session is NULL");
    const evoq::Turn turn(s->taken);
    EVOQ_TRY(turn.Check("session"));
    return run();
  });
}

// Null of no session.
const std::vector<ArrayInfo>* InputsOf(const evoq_session* s) {
  return s == nullptr ? nullptr : &s->session.inputs();
}
const std::vector<ArrayInfo>* OutputsOf(const evoq_session* s) {
  return s == nullptr ? nullptr : &s->session.outputs();
}

// An array of the caller. Errors: kUsage, kTooLarge where it cannot be one.
Status View(const evoq_array& from, std::vector<std::byte>& aligned, evoq::ArrayView& to) {
  if (from.rank < 0 || (from.rank > 0 && from.shape == nullptr))
    return Fail(ErrorCode::kUsage, "rank {} without a shape", from.rank);
  to.type = static_cast<evoq::ElementType>(from.type);
  to.shape = {from.shape, static_cast<size_t>(from.rank)};
  EVOQ_ASSIGN(const size_t bytes, evoq::BytesOf(to.type, to.shape));
  if (bytes > 0 && from.data == nullptr)
    return Fail(ErrorCode::kUsage, "{} bytes without data", bytes);
  to.bytes = {static_cast<const std::byte*>(from.data), bytes};
  if (reinterpret_cast<uintptr_t>(from.data) % evoq::ElementBytes(to.type) != 0) {
    aligned.assign(to.bytes.begin(), to.bytes.end());
    to.bytes = aligned;
  }
  return {};
}

// Whether there are arrays, and a shape where there is a rank.
Status CheckArrays(const evoq_array* arrays, int count, const char* what) {
  if (count < 0 || (count > 0 && arrays == nullptr))
    return Fail(ErrorCode::kUsage, "{} {} without arrays", count, what);
  for (int i = 0; i < count; ++i) {
    if (arrays[i].rank < 0 || (arrays[i].rank > 0 && arrays[i].shape == nullptr))
      return Fail(ErrorCode::kUsage, "{} {}: rank {} without a shape", what, i, arrays[i].rank);
  }
  return {};
}

Status Compute(evoq_session* s, const evoq_array* inputs, int input_count) {
  s->ran = false;
  if (input_count < 0 || (input_count > 0 && inputs == nullptr))
    return Fail(ErrorCode::kUsage, "{} inputs without arrays", input_count);
  s->inputs.resize(static_cast<size_t>(input_count));
  s->aligned.resize(static_cast<size_t>(input_count));
  for (size_t i = 0; i < s->inputs.size(); ++i) {
    if (Status seen = View(inputs[i], s->aligned[i], s->inputs[i]); !seen)
      return WithContext(std::move(seen), i < s->session.inputs().size()
                                              ? "input " + s->session.inputs()[i].name
                                              : fmt::format("input {}", i));
  }
  EVOQ_TRY(s->session.Run(s->inputs, &s->outputs));
  s->ran = true;
  return {};
}

// Runs on the caller's memory alone.
Status RunOn(evoq_session* s, const evoq_array* inputs, int input_count, const evoq_array* outputs,
             int output_count) {
  s->ran = false;
  EVOQ_TRY(CheckArrays(inputs, input_count, "inputs"));
  EVOQ_TRY(CheckArrays(outputs, output_count, "outputs"));
  s->inputs.clear();
  for (int i = 0; i < input_count; ++i) {
    const auto type = static_cast<evoq::ElementType>(inputs[i].type);
    const std::span shape(inputs[i].shape, static_cast<size_t>(inputs[i].rank));
    const auto bytes = evoq::CallersBytes(type, shape, inputs[i].data);
    if (!bytes)
      return WithContext(Status(tl::unexpected(bytes.error())), fmt::format("input {}", i));
    s->inputs.push_back({type, shape, *bytes});
  }
  s->memory.clear();
  for (int i = 0; i < output_count; ++i)
    s->memory.push_back({static_cast<evoq::ElementType>(outputs[i].type),
                         {outputs[i].shape, static_cast<size_t>(outputs[i].rank)},
                         static_cast<std::byte*>(outputs[i].data)});
  return s->session.RunOn(s->inputs, s->memory);
}

// The results into the caller's arrays: into all of them or, where one does not fit, into none.
Status Give(const evoq_session& s, const evoq_array* outputs, int output_count) {
  if (static_cast<size_t>(output_count) != s.outputs.size())
    return Fail(ErrorCode::kUsage, "{} outputs given, expected {}", output_count, s.outputs.size());
  if (output_count > 0 && outputs == nullptr)
    return Fail(ErrorCode::kUsage, "{} outputs without arrays", output_count);
  for (int i = 0; i < output_count; ++i) {
    const evoq_array& to = outputs[i];
    const evoq::Array& from = s.outputs[static_cast<size_t>(i)];
    const std::string& name = s.session.outputs()[static_cast<size_t>(i)].name;
    if (to.type != static_cast<int>(from.type))
      return Fail(ErrorCode::kUsage, "output {}: element type {}, expected {}", name, to.type,
                  static_cast<int>(from.type));
    if (static_cast<size_t>(to.rank) != from.shape.size() || (to.rank > 0 && to.shape == nullptr) ||
        !std::equal(from.shape.begin(), from.shape.end(), to.shape))
      return Fail(ErrorCode::kUsage, "output {}: another shape, expected {}", name,
                  evoq::Shape(from.shape).ToString());
    if (!from.bytes.empty() && to.data == nullptr)
      return Fail(ErrorCode::kUsage, "output {}: its data is NULL", name);
  }
  for (int i = 0; i < output_count; ++i) {
    const auto& bytes = s.outputs[static_cast<size_t>(i)].bytes;
    if (!bytes.empty()) std::memcpy(outputs[i].data, bytes.data(), bytes.size());
  }
  return {};
}

}  // namespace

namespace {

// A model's file, or its bytes where `size` is given.
evoq_session* Load(const void* from, std::optional<size_t> size,
                   const evoq::SessionOptions& options, char* error, size_t error_size) {
  const auto session = evoq::Guarded([&]() -> evoq::Result<evoq_session*> {
    if (from == nullptr && !size) return Fail(ErrorCode::kUsage, "the path is NULL");
    const evoq::ModelSource source =
        size ? evoq::ModelSource(from, *size) : evoq::ModelSource(static_cast<const char*>(from));
    EVOQ_ASSIGN(evoq::ModelSession loaded, evoq::ModelSession::Load(source, options));
    return new evoq_session{std::move(loaded), {}, {}, {}, {}};
  });
  if (session) return *session;
  evoq::TellInC(session.error(), error, error_size);
  return nullptr;
}

evoq::AdaptiveSettings SettingsFrom(const evoq_adaptive_settings& from) {
  evoq::AdaptiveSettings to;
  if (from.clip_limit != 0) to.clip_limit = std::max(from.clip_limit, 0.0);
  if (from.widen_after != 0) to.widen_after = from.widen_after;
  if (from.narrow_after != 0) to.narrow_after = from.narrow_after;
  to.look_every = from.look_every;
  if (from.scale_set != nullptr) to.scale_set = from.scale_set;
  return to;
}

// What an adaptive session observed; null of another one.
const evoq::AdaptiveState* StateOf(const evoq_session* s) {
  return s == nullptr ? nullptr : s->session.adaptive();
}

// The tensor of this index; null when it is out of range.
const evoq::WatchedTensor* WatchedOf(const evoq_session* s, int index) {
  const evoq::AdaptiveState* const state = StateOf(s);
  if (state == nullptr || static_cast<size_t>(index) >= state->tensors.size()) return nullptr;
  return &state->tensors[static_cast<size_t>(index)];
}

}  // namespace

extern "C" {

evoq_session* evoq_session_load(const char* path, int threads, char* error, size_t error_size) {
  return Load(path, {}, {threads}, error, error_size);
}

evoq_session* evoq_session_load_memory(const void* data, size_t size, int copy, int threads,
                                       char* error, size_t error_size) {
  evoq::SessionOptions options{threads};
  options.copy_memory = copy != 0;
  return Load(data, size, options, error, error_size);
}

evoq_session* evoq_session_load_adaptive(const char* path, int threads,
                                         const evoq_adaptive_settings* settings, char* error,
                                         size_t error_size) {
  const auto adaptive = evoq::Guarded([&]() -> evoq::Result<std::optional<evoq::AdaptiveSettings>> {
    return settings == nullptr ? evoq::AdaptiveSettings() : SettingsFrom(*settings);
  });
  if (adaptive) return Load(path, {}, {threads, *adaptive}, error, error_size);
  evoq::TellInC(adaptive.error(), error, error_size);
  return nullptr;
}

int evoq_session_scale_set_count(const evoq_session* s) {
  const evoq::AdaptiveState* const state = StateOf(s);
  return state == nullptr ? 0 : static_cast<int>(state->sets.size());
}
const char* evoq_session_scale_set_name(const evoq_session* s, int index) {
  const bool there = index >= 0 && index < evoq_session_scale_set_count(s);
  return there ? StateOf(s)->sets[static_cast<size_t>(index)].c_str() : nullptr;
}
int evoq_session_scale_set(const evoq_session* s) {
  const evoq::AdaptiveState* const state = StateOf(s);
  return state == nullptr ? -1 : static_cast<int>(state->active);
}
int64_t evoq_session_scale_set_switches(const evoq_session* s) {
  const evoq::AdaptiveState* const state = StateOf(s);
  return state == nullptr ? -1 : state->switches;
}
int evoq_session_pin_scale_set(evoq_session* s, const char* name, char* error, size_t error_size) {
  const Status status = evoq::Guarded([&]() -> Status {
    if (s == nullptr) return Fail(ErrorCode::kUsage, "the session is NULL");
    return s->session.PinScaleSet(name == nullptr ? "" : name);
  });
  return Outcome(status, error, error_size);
}
int evoq_session_watched_count(const evoq_session* s) {
  const evoq::AdaptiveState* const state = StateOf(s);
  return state == nullptr ? 0 : static_cast<int>(state->tensors.size());
}
const char* evoq_session_watched_name(const evoq_session* s, int index) {
  const evoq::WatchedTensor* const tensor = WatchedOf(s, index);
  return tensor == nullptr ? nullptr : tensor->name.c_str();
}
double evoq_session_clip_rate(const evoq_session* s, int index) {
  const evoq::WatchedTensor* const tensor = WatchedOf(s, index);
  return tensor == nullptr ? -1 : tensor->rate();
}

evoq_session* evoq_session_load_watched(const char* path, int threads, char* error,
                                        size_t error_size) {
  evoq::AdaptiveSettings settings;
  settings.watch = true;
  return Load(path, {}, {threads, settings}, error, error_size);
}

int evoq_session_sizes(const evoq_session* s, evoq_sizes* to, char* error, size_t error_size) {
  const Status status = evoq::Guarded([&]() -> Status {
    if (s == nullptr || to == nullptr) return Fail(ErrorCode::kUsage, "session or sizes is NULL");
    if (to->struct_size != sizeof(*to))
      return Fail(ErrorCode::kUsage, "struct_size is {}, expected {}", to->struct_size,
                  sizeof(*to));
    const evoq::GearReport from = s->session.gears();
    *to = {sizeof(*to), from.gears,   from.ready,         from.runs,   from.padded,
           from.misses, from.miss_ms, from.worst_miss_ms, from.beside, from.beside_ms};
    return {};
  });
  return Outcome(status, error, error_size);
}
const char* evoq_session_sizes_text(evoq_session* s) {
  const Status made = evoq::Guarded([&]() -> Status {
    if (s == nullptr) return Fail(ErrorCode::kUsage, "the session is NULL");
    s->sizes = evoq::CountsText(s->session.gears());
    return {};
  });
  return made ? s->sizes.c_str() : nullptr;
}
void evoq_session_wait_for_gears(evoq_session* s) {
  (void)evoq::Guarded([&]() -> Status {
    if (s != nullptr) s->session.WaitForGears();
    return {};
  });
}

void evoq_session_free(evoq_session* session) { delete session; }

int evoq_session_input_count(const evoq_session* s) { return evoq::CountIn(InputsOf(s)); }
int evoq_session_output_count(const evoq_session* s) { return evoq::CountIn(OutputsOf(s)); }
const char* evoq_session_input_name(const evoq_session* s, int i) {
  return evoq::NameIn(InputsOf(s), i);
}
const char* evoq_session_output_name(const evoq_session* s, int i) {
  return evoq::NameIn(OutputsOf(s), i);
}
int evoq_session_input_type(const evoq_session* s, int i) { return evoq::TypeIn(InputsOf(s), i); }
int evoq_session_output_type(const evoq_session* s, int i) { return evoq::TypeIn(OutputsOf(s), i); }
int evoq_session_input_shape(const evoq_session* s, int i, int64_t* shape, int capacity) {
  return evoq::WriteShapeIn(InputsOf(s), i, shape, capacity);
}
int evoq_session_output_shape(const evoq_session* s, int i, int64_t* shape, int capacity) {
  return evoq::WriteShapeIn(OutputsOf(s), i, shape, capacity);
}

int evoq_session_compute(evoq_session* s, const evoq_array* inputs, int input_count, char* error,
                         size_t error_size) {
  return Outcome(InTurn(s, [&] { return Compute(s, inputs, input_count); }), error, error_size);
}

int evoq_session_result(evoq_session* s, int index, evoq_array* result) {
  if (s == nullptr || result == nullptr || !s->ran ||
      static_cast<size_t>(index) >= s->outputs.size())
    return 1;
  evoq::Array& a = s->outputs[index];
  *result = {static_cast<int>(a.type), static_cast<int>(a.shape.size()), a.shape.data(),
             a.bytes.data()};
  return 0;
}

int evoq_session_run(evoq_session* s, const evoq_array* inputs, int input_count,
                     const evoq_array* outputs, int output_count, char* error, size_t error_size) {
  const Status status = InTurn(s, [&]() -> Status {
    EVOQ_TRY(Compute(s, inputs, input_count));
    return Give(*s, outputs, output_count);
  });
  return Outcome(status, error, error_size);
}

int evoq_session_run_on(evoq_session* s, const evoq_array* inputs, int input_count,
                        const evoq_array* outputs, int output_count, char* error,
                        size_t error_size) {
  const Status status =
      InTurn(s, [&] { return RunOn(s, inputs, input_count, outputs, output_count); });
  return Outcome(status, error, error_size);
}

const char* evoq_version(void) { return evoq::Version(); }

}  // extern "C"
