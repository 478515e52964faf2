// Readers of other runtimes' files: one row each, named by one line in
// foreign/profiles/sources.inc.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "foreign/profiles/foreign_run.h"

namespace evoq {

struct ForeignSource {
  const char* tool;    // ForeignRun::tool
  const char* option;  // of `evoq explain`: "--trtexec"
  const char* takes;   // "DIR": what the option names
  const char* doc;
  // Reads `path`. Errors: kNotFound, kIo; kInvalidInput with the file, what was found and what was
  // expected.
  Result<ForeignRun> (*read)(const std::string& path);
};

std::span<const ForeignSource* const> AllForeignSources();

}  // namespace evoq
