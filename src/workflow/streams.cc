#include "workflow/streams.h"

#include <algorithm>
#include <memory>

#include "base/threads.h"

namespace evoq {

RunTimes StreamTimes::all() const {
  RunTimes all;
  if (streams.size() == 1) all.spans = streams[0].spans;
  for (const RunTimes& t : streams)
    all.sorted_ms.insert(all.sorted_ms.end(), t.sorted_ms.begin(), t.sorted_ms.end());
  std::sort(all.sorted_ms.begin(), all.sorted_ms.end());
  return all;
}

Result<StreamTimes> MeasureStreams(Runnable& first, RunBuffers& buffers, int streams,
                                   const MeasureOptions& options) {
  StreamTimes times;
  if (streams == 1) {
    EVOQ_ASSIGN(RunTimes alone, MeasureRuns(first, buffers, options));
    times.streams.push_back(std::move(alone));
    return times;
  }
  std::vector<std::unique_ptr<Runnable>> more;
  std::vector<RunBuffers> their_buffers;
  for (int s = 1; s < streams; ++s) {
    EVOQ_ASSIGN(auto extra, first.Fresh());
    their_buffers.push_back(MakeBuffers(*extra, static_cast<uint32_t>(s + 1)));
    more.push_back(std::move(extra));
  }
  std::vector<Result<RunTimes>> results(static_cast<size_t>(streams),
                                        tl::unexpected(Error(ErrorCode::kInternal, "not run")));
  RunOnThreads(streams, [&](int i) {
    results[i] = i == 0 ? MeasureRuns(first, buffers, options)
                        : MeasureRuns(*more[i - 1], their_buffers[i - 1], options);
  });
  for (auto& result : results) {
    EVOQ_ASSIGN(RunTimes stream, std::move(result));
    times.streams.push_back(std::move(stream));
  }
  return times;
}

}  // namespace evoq
