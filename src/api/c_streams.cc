#include <cstring>
#include <optional>
#include <utility>

#include "api/c_describe.h"
#include "api/streams_session.h"
#include "base/guarded.h"
#include "evoq/streams_c.h"

struct evoq_streams {
  std::unique_ptr<evoq::StreamsSession> session;
};

namespace {

using evoq::ErrorCode;
using evoq::Fail;
using evoq::Result;
using evoq::Status;
using evoq::StreamSet;

Result<evoq::StreamsOptions> OptionsFrom(const evoq_streams_options* from) {
  evoq::StreamsOptions to;
  if (from == nullptr) return to;
  if (from->struct_size != sizeof(*from))
    return Fail(ErrorCode::kUsage, "struct_size is {}, expected {}", from->struct_size,
                sizeof(*from));
  if (from->stream_count < 0 || (from->stream_count > 0 && from->priorities == nullptr))
    return Fail(ErrorCode::kUsage, "{} streams without priorities", from->stream_count);
  if (from->stream_count > 0)
    to.priorities.assign(from->priorities, from->priorities + from->stream_count);
  if (from->threads < -1)
    return Fail(ErrorCode::kUsage, "{} threads, expected -1 or more", from->threads);
  if (from->threads != 0) to.threads = std::max(from->threads, 0);
  to.at_once = from->at_once;
  to.share_arenas = from->own_arenas == 0;
  if (from->queue > 0) to.queue = from->queue;
  return to;
}

// A copy of an array of the caller.
Result<evoq::Array> Copy(const evoq_array& from) {
  if (from.rank < 0 || (from.rank > 0 && from.shape == nullptr))
    return Fail(ErrorCode::kUsage, "rank {} without a shape", from.rank);
  evoq::Array to{static_cast<evoq::ElementType>(from.type), {}, {}};
  if (from.rank > 0) to.shape.assign(from.shape, from.shape + from.rank);
  EVOQ_ASSIGN(const size_t bytes, evoq::BytesOf(to.type, to.shape));
  if (bytes > 0 && from.data == nullptr)
    return Fail(ErrorCode::kUsage, "{} bytes without data", bytes);
  const auto* const data = static_cast<const std::byte*>(from.data);
  if (bytes > 0) to.bytes.assign(data, data + bytes);
  return to;
}

void Tell(evoq_streams_done done, void* user, const Result<std::vector<evoq::Array>>& outputs,
          StreamSet::Ending ending) {
  if (!outputs) {
    const int how = ending == StreamSet::Ending::kCancelled ? EVOQ_CANCELLED
                    : ending == StreamSet::Ending::kLate    ? EVOQ_LATE
                                                            : EVOQ_FAILED;
    return done(user, how, nullptr, 0, evoq::SentenceOf(outputs.error()).c_str());
  }
  std::vector<evoq_array> arrays;
  for (const evoq::Array& a : *outputs)
    arrays.push_back({static_cast<int>(a.type), static_cast<int>(a.shape.size()), a.shape.data(),
                      const_cast<std::byte*>(a.bytes.data())});
  done(user, EVOQ_RAN, arrays.data(), static_cast<int>(arrays.size()), nullptr);
}

// Null of no streams.
const std::vector<evoq::ArrayInfo>* InputsOf(const evoq_streams* s) {
  return s == nullptr ? nullptr : &s->session->interface().inputs;
}
const std::vector<evoq::ArrayInfo>* OutputsOf(const evoq_streams* s) {
  return s == nullptr ? nullptr : &s->session->interface().outputs;
}

Result<uint64_t> Submit(evoq_streams* s, int stream, const evoq_array* inputs, int input_count,
                        double deadline_s, evoq_streams_done done, void* user) {
  if (s == nullptr) return Fail(ErrorCode::kUsage, "the streams are NULL");
  if (done == nullptr) return Fail(ErrorCode::kUsage, "done is NULL");
  if (input_count < 0 || (input_count > 0 && inputs == nullptr))
    return Fail(ErrorCode::kUsage, "{} inputs without arrays", input_count);
  std::vector<evoq::Array> copies;
  for (int i = 0; i < input_count; ++i) {
    EVOQ_ASSIGN(evoq::Array copy, evoq::WithContext(Copy(inputs[i]), fmt::format("input {}", i)));
    copies.push_back(std::move(copy));
  }
  return s->session->Submit(
      stream, std::move(copies), deadline_s,
      [done, user](const Result<std::vector<evoq::Array>>& outputs, StreamSet::Ending ending) {
        Tell(done, user, outputs, ending);
      });
}

}  // namespace

extern "C" {

evoq_streams* evoq_streams_load(const char* path, const evoq_streams_options* options, char* error,
                                size_t error_size) {
  const auto streams = evoq::Guarded([&]() -> Result<evoq_streams*> {
    if (path == nullptr) return Fail(ErrorCode::kUsage, "the path is NULL");
    EVOQ_ASSIGN(const evoq::StreamsOptions chosen, OptionsFrom(options));
    EVOQ_ASSIGN(auto session, evoq::StreamsSession::Load(path, chosen));
    return new evoq_streams{std::move(session)};
  });
  if (streams) return *streams;
  evoq::TellInC(streams.error(), error, error_size);
  return nullptr;
}

void evoq_streams_free(evoq_streams* streams) { delete streams; }

int evoq_streams_input_count(const evoq_streams* s) { return evoq::CountIn(InputsOf(s)); }
int evoq_streams_output_count(const evoq_streams* s) { return evoq::CountIn(OutputsOf(s)); }
const char* evoq_streams_input_name(const evoq_streams* s, int i) {
  return evoq::NameIn(InputsOf(s), i);
}
const char* evoq_streams_output_name(const evoq_streams* s, int i) {
  return evoq::NameIn(OutputsOf(s), i);
}
int evoq_streams_input_type(const evoq_streams* s, int i) { return evoq::TypeIn(InputsOf(s), i); }
int evoq_streams_output_type(const evoq_streams* s, int i) { return evoq::TypeIn(OutputsOf(s), i); }
int evoq_streams_input_shape(const evoq_streams* s, int i, int64_t* shape, int capacity) {
  return evoq::WriteShapeIn(InputsOf(s), i, shape, capacity);
}
int evoq_streams_output_shape(const evoq_streams* s, int i, int64_t* shape, int capacity) {
  return evoq::WriteShapeIn(OutputsOf(s), i, shape, capacity);
}

int evoq_streams_count(const evoq_streams* s) {
  return s == nullptr ? 0 : s->session->set().streams();
}
int evoq_streams_at_once(const evoq_streams* s) {
  return s == nullptr ? 0 : s->session->set().options().at_once;
}
int64_t evoq_streams_arena_bytes(const evoq_streams* s) {
  return s == nullptr ? 0 : s->session->set().arena_bytes();
}

uint64_t evoq_streams_submit(evoq_streams* s, int stream, const evoq_array* inputs, int input_count,
                             double deadline_s, evoq_streams_done done, void* user, char* error,
                             size_t error_size) {
  const auto run =
      evoq::Guarded([&] { return Submit(s, stream, inputs, input_count, deadline_s, done, user); });
  if (run) return *run;
  evoq::TellInC(run.error(), error, error_size);
  return 0;
}

int evoq_streams_cancel(evoq_streams* s, uint64_t run) {
  const Result<bool> given_up = evoq::Guarded(
      [&]() -> Result<bool> { return s != nullptr && s->session->set().Cancel(run); });
  return given_up.value_or(false);
}

int evoq_streams_set_priority(evoq_streams* s, int stream, int priority, char* error,
                              size_t error_size) {
  const Status status = evoq::Guarded([&]() -> Status {
    if (s == nullptr) return Fail(ErrorCode::kUsage, "the streams are NULL");
    return s->session->set().SetPriority(stream, priority);
  });
  if (status) return 0;
  evoq::TellInC(status.error(), error, error_size);
  return 1;
}

void evoq_streams_wait(evoq_streams* s, int stream) {
  (void)evoq::Guarded([&]() -> Status {
    if (s != nullptr) s->session->set().Wait(stream);
    return {};
  });
}

}  // extern "C"
