#include "evoq/streams.h"

#include <utility>

#include "api/model_session.h"
#include "api/streams_session.h"
#include "base/guarded.h"

namespace evoq {

struct Streams::Impl {
  std::unique_ptr<StreamsSession> session;
};

namespace {

void Say(std::string* to, const Error& error) {
  if (to != nullptr) *to = SentenceOf(error);
}

// Calls `done` with what came of a run.
void Tell(const Streams::Done& done, Result<std::vector<Array>> outputs, StreamSet::Ending ending) {
  RunResult result;
  result.ending = ending == StreamSet::Ending::kCancelled ? RunResult::Ending::kCancelled
                  : ending == StreamSet::Ending::kLate    ? RunResult::Ending::kLate
                  : outputs                               ? RunResult::Ending::kRan
                                                          : RunResult::Ending::kFailed;
  if (outputs) {
    result.outputs = std::move(*outputs);
  } else {
    result.error = SentenceOf(outputs.error());
  }
  done(std::move(result));
}

}  // namespace

Streams::Streams(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Streams::Streams(Streams&&) noexcept = default;
Streams& Streams::operator=(Streams&&) noexcept = default;
Streams::~Streams() = default;

std::optional<Streams> Streams::Load(const std::string& path, const StreamsOptions& options,
                                     std::string* error) {
  auto impl = Guarded([&]() -> Result<std::unique_ptr<Impl>> {
    EVOQ_ASSIGN(auto session, StreamsSession::Load(path, options));
    return std::unique_ptr<Impl>(new Impl{std::move(session)});
  });
  if (impl) return Streams(std::move(*impl));
  Say(error, impl.error());
  return std::nullopt;
}

const std::vector<ArrayInfo>& Streams::inputs() const { return impl_->session->interface().inputs; }
const std::vector<ArrayInfo>& Streams::outputs() const {
  return impl_->session->interface().outputs;
}
int Streams::count() const { return impl_->session->set().streams(); }
int Streams::at_once() const { return impl_->session->set().options().at_once; }
std::int64_t Streams::arena_bytes() const { return impl_->session->set().arena_bytes(); }

SizesReport Streams::sizes() const {
  SizesReport report;
  (void)Guarded([&]() -> Status {
    report = ReportOf(impl_->session->set().gears(), inputs());
    return {};
  });
  return report;
}

std::string Streams::SizesText() const {
  std::string text;
  (void)Guarded([&]() -> Status {
    text = CountsText(impl_->session->set().gears());
    return {};
  });
  return text;
}

void Streams::WaitForGears() {
  (void)Guarded([&]() -> Status {
    impl_->session->set().WaitForGears();
    return {};
  });
}

std::uint64_t Streams::Submit(int stream, std::vector<Array> inputs, Done done, double deadline_s,
                              std::string* error) {
  const auto run = Guarded([&]() -> Result<StreamSet::RunId> {
    if (!done) return Fail(ErrorCode::kUsage, "done is empty");
    return impl_->session->Submit(
        stream, std::move(inputs), deadline_s,
        [done = std::move(done)](Result<std::vector<Array>> outputs, StreamSet::Ending ending) {
          Tell(done, std::move(outputs), ending);
        });
  });
  if (run) return *run;
  Say(error, run.error());
  return 0;
}

std::future<RunResult> Streams::Run(int stream, std::vector<Array> inputs, double deadline_s,
                                    std::uint64_t* run) {
  const auto promise = std::make_shared<std::promise<RunResult>>();
  std::future<RunResult> future = promise->get_future();
  std::string error;
  const std::uint64_t number = Submit(
      stream, std::move(inputs),
      [promise](RunResult result) { promise->set_value(std::move(result)); }, deadline_s, &error);
  if (run != nullptr) *run = number;
  if (number == 0) promise->set_value({RunResult::Ending::kFailed, {}, std::move(error)});
  return future;
}

bool Streams::Cancel(std::uint64_t run) {
  const Result<bool> given_up =
      Guarded([&]() -> Result<bool> { return impl_->session->set().Cancel(run); });
  return given_up.value_or(false);
}

bool Streams::SetPriority(int stream, int priority, std::string* error) {
  const Status status =
      Guarded([&] { return impl_->session->set().SetPriority(stream, priority); });
  if (!status) Say(error, status.error());
  return status.has_value();
}

void Streams::Wait(int stream) {
  (void)Guarded([&]() -> Status {
    impl_->session->set().Wait(stream);
    return {};
  });
}

}  // namespace evoq
