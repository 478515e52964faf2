#include "api/streams_session.h"

#include <cmath>
#include <utility>

#include "api/parts.h"
#include "base/guarded.h"

namespace evoq {
namespace {

constexpr size_t kMostStreams = 256;
constexpr double kMostSeconds = 1e6;

Status Check(const StreamsOptions& o) {
  if (o.threads < 0 || o.threads > kMaxThreads)
    return Fail(ErrorCode::kUsage, "{} threads, expected 0 to {}", o.threads, kMaxThreads);
  if (o.priorities.empty() || o.priorities.size() > kMostStreams)
    return Fail(ErrorCode::kUsage, "{} streams, expected 1 to {}", o.priorities.size(),
                kMostStreams);
  if (o.at_once < 0) return Fail(ErrorCode::kUsage, "at_once is {}, expected 0 or more", o.at_once);
  if (o.queue == 0) return Fail(ErrorCode::kUsage, "queue is 0, expected 1 or more");
  return {};
}

}  // namespace

Result<std::unique_ptr<StreamsSession>> StreamsSession::Load(const std::string& path,
                                                             const StreamsOptions& options) {
  EVOQ_TRY(Check(options));
  EVOQ_ASSIGN(auto engine, Engine::Load(path, {.threads = options.threads, .gears = options.gears},
                                        LibraryParts()));
  std::unique_ptr<StreamsSession> session(new StreamsSession());
  EVOQ_ASSIGN(session->interface_, ModelInterface::Of(engine->model().graph, path));
  for (const ValueId input : engine->model().graph.inputs())
    session->types_.push_back(engine->model().graph.value(input).type);
  session->set_ = std::make_unique<StreamSet>(
      std::move(engine),
      StreamSetOptions{options.priorities, options.at_once, options.share_arenas, options.queue});
  return session;
}

Result<StreamSet::RunId> StreamsSession::Submit(int stream, std::vector<Array> inputs,
                                                double deadline_s, Done done) {
  if (!(deadline_s >= 0 && deadline_s <= kMostSeconds))
    return Fail(ErrorCode::kUsage, "a deadline of {:g} seconds, expected 0 to {:g}", deadline_s,
                kMostSeconds);
  const auto arrays = std::make_shared<const std::vector<Array>>(std::move(inputs));
  std::vector<ArrayView> views;
  for (const Array& a : *arrays) views.push_back({a.type, a.shape, a.bytes});
  EVOQ_TRY(interface_.Check(views));
  std::optional<StreamSet::Clock::time_point> deadline;
  if (deadline_s > 0)
    deadline = StreamSet::Clock::now() + std::chrono::duration_cast<StreamSet::Clock::duration>(
                                             std::chrono::duration<double>(deadline_s));
  return set_->Submit(
      stream, TensorsOf(types_, views, arrays),
      [this, done = std::move(done)](StreamSet::Outputs outputs, StreamSet::Ending ending) {
        done(Guarded([&]() -> Result<std::vector<Array>> {
               EVOQ_ASSIGN(const std::vector<Tensor> values, std::move(outputs));
               std::vector<Array> copies;
               EVOQ_TRY(CopyOutputs(values, interface_.outputs, copies));
               return copies;
             }),
             ending);
      },
      deadline);
}

}  // namespace evoq
