// What both public interfaces of streams run: a loaded model on arrays of the caller.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/model_interface.h"
#include "engine/stream_set.h"
#include "evoq/streams.h"

namespace evoq {

class StreamsSession {
 public:
  // Errors: those of Engine::Load with LibraryParts(); kUsage for numbers out of range;
  // kUnsupported where an input or output is no array. Throws std::system_error without threads.
  static Result<std::unique_ptr<StreamsSession>> Load(const std::string& path,
                                                      const StreamsOptions& options);

  const ModelInterface& interface() const { return interface_; }
  StreamSet& set() { return *set_; }

  // As StreamSet::Done.
  using Done = std::function<void(Result<std::vector<Array>>, StreamSet::Ending)>;
  // As StreamSet::Submit; `deadline_s` seconds from now, 0: none. Errors: also kUsage for inputs
  // that are not the model's and a deadline that is no time.
  Result<StreamSet::RunId> Submit(int stream, std::vector<Array> inputs, double deadline_s,
                                  Done done);

 private:
  StreamsSession() = default;
  ModelInterface interface_;
  std::vector<TensorType> types_;  // of the graph's inputs
  std::unique_ptr<StreamSet> set_;
};

}  // namespace evoq
