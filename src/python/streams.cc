#include "python/streams.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "base/file.h"
#include "base/guarded.h"
#include "engine/stream_set.h"
#include "python/error.h"
#include "python/model_io.h"
#include "workflow/deployment.h"

namespace evoq {
namespace nb = nanobind;
using namespace nb::literals;
namespace {

// What a run holds on to until it is told of. Dropped with the GIL held.
struct Held {
  TakenInputs inputs;
  nb::object done;
};

const char* EndingName(StreamSet::Ending ending) {
  switch (ending) {
    case StreamSet::Ending::kCancelled: return "cancelled";
    case StreamSet::Ending::kLate: return "late";
    case StreamSet::Ending::kRan: break;
  }
  return "ran";
}

class PyStreams {
 public:
  PyStreams(std::unique_ptr<Engine> engine, StreamSetOptions options)
      : io_(engine->model().graph),
        set_(std::make_unique<StreamSet>(std::move(engine), std::move(options))) {}
  ~PyStreams() { Close(); }
  void Close() {
    const nb::gil_scoped_release release;  // runs are told of in Python
    set_->Close();
  }

  const std::vector<ValueInfo>& inputs() const { return io_.inputs; }
  const std::vector<ValueInfo>& outputs() const { return io_.outputs; }
  int count() const { return set_->streams(); }
  int at_once() const { return set_->options().at_once; }
  int64_t arena_bytes() const { return set_->arena_bytes(); }
  nb::dict gears() { return Described(set_->gears()); }
  void SaveSizes(const std::string& path) {
    Unwrap(WriteFileAtomic(path, CountsText(set_->gears())));
  }
  void WaitForGears() {
    const nb::gil_scoped_release release;
    set_->WaitForGears();
  }

  // done(outputs by name or None, error or None, its code, how the run ended)
  uint64_t Submit(nb::handle inputs, int stream, std::optional<double> deadline_s,
                  nb::object done) {
    const auto held = std::make_shared<Held>(Held{Unwrap(io_.Take(inputs)), std::move(done)});
    std::optional<StreamSet::Clock::time_point> deadline;
    if (deadline_s)
      deadline = StreamSet::Clock::now() + std::chrono::duration_cast<StreamSet::Clock::duration>(
                                               std::chrono::duration<double>(*deadline_s));
    auto run = [&] {
      const nb::gil_scoped_release release;
      return Guarded([&] {
        return set_->Submit(
            stream, held->inputs.tensors,
            [this, run = std::shared_ptr<Held>(held)](StreamSet::Outputs outputs,
                                                      StreamSet::Ending ending) mutable {
              Tell(run, std::move(outputs), ending);
            },
            deadline);
      });
    }();
    return Unwrap(std::move(run));
  }
  bool Cancel(uint64_t run) {
    const nb::gil_scoped_release release;
    return set_->Cancel(run);
  }
  void SetPriority(int stream, int priority) { Unwrap(set_->SetPriority(stream, priority)); }
  void Wait(int stream) {
    const nb::gil_scoped_release release;
    set_->Wait(stream);
  }

 private:
  void Tell(std::shared_ptr<Held>& held, StreamSet::Outputs outputs, StreamSet::Ending ending) {
    const nb::gil_scoped_acquire gil;
    const std::shared_ptr<Held> mine = std::move(held);
    try {
      auto arrays =
          outputs ? ModelIo::ToArrays(*outputs) : tl::unexpected<Error>(std::move(outputs.error()));
      if (arrays) {
        mine->done(io_.Named(*arrays), nb::none(), nb::none(), EndingName(ending));
      } else {
        mine->done(nb::none(), SentenceOf(arrays.error()), ErrorCodeName(arrays.error().code()),
                   EndingName(ending));
      }
    } catch (nb::python_error& e) {
      e.discard_as_unraisable("a run of evoq.Streams");
    }
  }

  ModelIo io_;
  std::unique_ptr<StreamSet> set_;
};

PyStreams* Load(const nb::object& source, const std::optional<std::vector<int>>& given, int threads,
                int at_once, const std::optional<bool>& share_arenas, size_t queue,
                InputShapes shapes, bool tuned, bool gears) {
  const auto refuse = [](const std::string& what) { Raise(Error(ErrorCode::kUsage, what)); };
  if (threads < 0 || threads > 1024) refuse(fmt::format("threads={}, expected 0 to 1024", threads));
  if (given && (given->empty() || given->size() > 256))
    refuse(fmt::format("{} priorities, expected one for each of 1 to 256 streams", given->size()));
  if (at_once < 0) refuse(fmt::format("at_once={}, expected 0 or more", at_once));
  if (queue == 0) refuse("queue=0, expected 1 or more");
  auto engine = EngineFrom(source, {threads, std::move(shapes), tuned, {}, gears});
  const StreamChoice chosen = Unwrap(ChosenStreams(engine->model().graph));
  std::vector<int> priorities = given.value_or(chosen.priorities);
  if (priorities.empty()) priorities.assign(chosen.streams > 0 ? chosen.streams : 2, 0);
  StreamSetOptions options{std::move(priorities), at_once,
                           share_arenas.value_or(chosen.share_arenas), queue};
  return Unwrap(Guarded([&]() -> Result<PyStreams*> {
    return new PyStreams(std::move(engine), std::move(options));
  }));
}

}  // namespace

void BindStreams(nb::module_& m) {
  nb::class_<PyStreams>(m, "Streams", "evoq.Streams stands on it.")
      .def_prop_ro("inputs", &PyStreams::inputs)
      .def_prop_ro("outputs", &PyStreams::outputs)
      .def_prop_ro("count", &PyStreams::count)
      .def_prop_ro("at_once", &PyStreams::at_once)
      .def_prop_ro("arena_bytes", &PyStreams::arena_bytes)
      .def_prop_ro("gears", &PyStreams::gears)
      .def("save_sizes", &PyStreams::SaveSizes, "path"_a)
      .def("wait_for_gears", &PyStreams::WaitForGears)
      .def("submit", &PyStreams::Submit, "inputs"_a, "stream"_a, "deadline_s"_a.none(), "done"_a,
           nb::sig("def submit(self, inputs: typing.Any, stream: int, deadline_s: float | None, "
                   "done: collections.abc.Callable[[dict[str, typing.Any] | None, str | None, str "
                   "| None, str], None]) -> int"))
      .def("cancel", &PyStreams::Cancel, "run"_a)
      .def("set_priority", &PyStreams::SetPriority, "stream"_a, "priority"_a)
      .def("wait", &PyStreams::Wait, "stream"_a)
      .def("close", &PyStreams::Close);
  m.def(
      "load_streams", &Load, "source"_a, "priorities"_a.none(), "threads"_a, "at_once"_a,
      "share_arenas"_a.none(), "queue"_a, "shapes"_a, "tuned"_a, "gears"_a,
      nb::sig("def load_streams(source: str | bytes, priorities: list[int] | None, threads: int, "
              "at_once: int, share_arenas: bool | None, queue: int, shapes: dict[str, list[int]], "
              "tuned: bool, gears: bool) -> Streams"));
}

}  // namespace evoq
