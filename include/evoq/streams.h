// The C++ interface of evoq for a model that several callers run at once: streams, of which urgent
// ones go first.
//
//   auto streams = evoq::Streams::Load("resnet50.etm", {.priorities = {0, 1}}, &error);
//   std::future<evoq::RunResult> urgent = streams->Run(0, {image});
//   evoq::RunResult result = urgent.get();
//
// Runs of a stream follow each other; those of several streams go on beside each other, as many at
// once as the cores have room for, over one set of weights. Where more are ready, the most urgent
// go on; a run that goes on is held up between two of its steps when a more urgent one comes, and
// goes on when that has ended. Results are those of single runs, bit for bit. docs/streams.md.
//
// As in evoq.h: C++17, nothing throws, what fails says why and leaves no trace.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evoq/evoq.h"

namespace evoq {

struct StreamsOptions {
  std::vector<int> priorities = {0, 0};  // of each stream, 1 to 256; smaller numbers go first
  int threads = 1;                       // of each run; 0: one per physical core; at most 1024
  int at_once = 0;           // runs that go on at once; 0: as many as the cores have room for
  bool share_arenas = true;  // runs take memory that no other run needs; false: each stream its own
  std::size_t queue = 1024;  // runs that may wait in a stream; more are refused
  bool gears = true;         // as of SessionOptions
};

// What came of a run.
struct RunResult {
  // kLate: it had not ended at its deadline.
  enum class Ending { kRan, kFailed, kCancelled, kLate };
  Ending ending = Ending::kFailed;
  std::vector<Array> outputs;  // of kRan
  std::string error;           // of the others
};

// Any thread may call any function at any time.
class Streams {
 public:
  static std::optional<Streams> Load(const std::string& path, const StreamsOptions& options = {},
                                     std::string* error = nullptr);
  Streams(Streams&&) noexcept;
  Streams& operator=(Streams&&) noexcept;
  // Cancels all runs and waits until each is told of.
  ~Streams();

  const std::vector<ArrayInfo>& inputs() const;
  const std::vector<ArrayInfo>& outputs() const;
  int count() const;    // of streams
  int at_once() const;  // what was chosen for 0
  // Bytes that runs compute in, of all streams; weights are not in it.
  std::int64_t arena_bytes() const;

  // As Session's.
  SizesReport sizes() const;
  std::string SizesText() const;
  void WaitForGears();

  // Called once for each run that was taken, on a thread of the streams: the next run of the stream
  // begins when it returns. It may Submit and Cancel; it must neither throw nor Wait.
  using Done = std::function<void(RunResult)>;
  // Asks for a run, which is given up when it has not ended within `deadline_s` seconds (0: never).
  // Returns its number; 0 where it is refused (a stream that there is not, inputs that are not the
  // model's, a full queue), and `done` is not called.
  std::uint64_t Submit(int stream, std::vector<Array> inputs, Done done, double deadline_s = 0,
                       std::string* error = nullptr);
  // The same with a future, which is there at once, with kFailed, for what is refused. `run`, where
  // given, is its number.
  std::future<RunResult> Run(int stream, std::vector<Array> inputs, double deadline_s = 0,
                             std::uint64_t* run = nullptr);
  // Gives up a run: one that waits at once, one that goes on behind the step that it is at. False
  // where it has ended, or was given up before.
  bool Cancel(std::uint64_t run);
  // Changes what is urgent from now on, also for runs that wait and go on. False for a stream that
  // there is not.
  bool SetPriority(int stream, int priority, std::string* error = nullptr);
  // Until all runs of a stream that were asked for have ended; -1: of all streams.
  void Wait(int stream = -1);

 private:
  struct Impl;
  explicit Streams(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evoq
