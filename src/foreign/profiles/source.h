// Readers of other runtimes' files: one row each, named by one line in
// foreign/profiles/sources.inc.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "foreign/profiles/foreign_run.h"

namespace evoq {

struct ForeignSource {
  const char* tool;    // ForeignRun::tool
  const char* option;  // of `evoq explain`: "--trtexec"
  const char* takes;   // "DIR": what the option names
  const char* doc;
  // What a file of it has among its first bytes, any one of these: how `explain FILE` knows it.
  std::array<std::string_view, 5> marks;
  // Reads `path`. Errors: kNotFound, kIo; kInvalidInput with the file, what was found and what was
  // expected.
  Result<ForeignRun> (*read)(const std::string& path);
};

std::span<const ForeignSource* const> AllForeignSources();

// The text of a file, unpacked where gzip packed it. Errors: those of ReadTextFile; kInvalidInput
// for damaged data; kTooLarge for one that is much larger unpacked (Budget::ForFile).
Result<std::string> ReadProfile(const std::string& path);

// A file, or folder, and who reads it.
struct ForeignFile {
  const ForeignSource* source = nullptr;  // null: no reader knows it
  std::string path;
};
// By the content of the file, or of the files in a folder, where it is that of one reader. Errors:
// kUsage for a folder with files of several readers, or several that are read one by one.
Result<ForeignFile> FindForeignFile(const std::string& path);

}  // namespace evoq
