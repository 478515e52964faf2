// The models of a folder, as Triton lays them out:
//
//   DIR/NAME/1/model.etm      versions are folders with whole numbers for names; a version holds
//   DIR/NAME/2/model.onnx     model.etm, model.onnx, model.tflite, model.gguf, model.bin or a
//   DIR/NAME/config.json      folder model (one of them); config.json (settings.h) may be missing
//   DIR/OTHER.etm             a file is a model of one version, 1
//
// Models are loaded, loaded anew and unloaded while others are served. Whoever found a version
// keeps it until his request is answered, so none is dropped; a load that fails leaves what was
// loaded.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/served_model.h"

namespace evoq::serve {

class Retirement;

// A version as the index tells of it.
struct IndexEntry {
  std::string name, version;  // version "": the model has none that was loaded
  bool ready = false;
  std::string reason;  // why the last load failed; "": it did not
};

// Safe from any thread.
class Repository {
 public:
  // `log` is told what was loaded and unloaded, and what of it failed.
  using Log = std::function<void(const std::string& event, const std::string& model,
                                 const std::string& message)>;

  // Nothing is loaded yet. Errors: kNotFound where the folder is missing.
  static Result<std::unique_ptr<Repository>> Open(const std::string& folder,
                                                  const ModelSettings& defaults,
                                                  const Machine& machine, Log log);
  // Waits for what is under way.
  ~Repository();

  // Names of the models that the folder has now, sorted. Errors: kIo.
  Result<std::vector<std::string>> Names() const;

  // Loads what the folder holds of it now, also where it is loaded already: the versions that its
  // settings choose take the place of those that were served. Errors: kNotFound where there is no
  // such model; those of settings and of loading. Whatever was served before still is then.
  Status Load(const std::string& name);
  // Errors: kNotFound where it is not loaded.
  Status Unload(const std::string& name);
  // Loads each model whose files are others than at its last load or try, unloads those that are
  // gone. Failures are logged and stand in the index.
  void Refresh();

  // The version, "" being the largest number. Errors: kNotFound for a model that there is not,
  // kUnavailable for one that is not loaded.
  Served<std::shared_ptr<ServedModel>> Find(const std::string& name,
                                            const std::string& version = "") const;
  // All versions that are served, by name and version.
  std::vector<std::shared_ptr<ServedModel>> All() const;
  // Every model of the folder, and every one that is served.
  std::vector<IndexEntry> Index() const;

 private:
  struct Entry {
    std::map<int64_t, std::shared_ptr<ServedModel>> versions;   // that are served
    std::map<int64_t, std::shared_ptr<Statistics>> statistics;  // of all that ever were
    std::string failure;                                        // of the last load
    std::string files;                                          // that it saw
  };
  using Versions = std::map<int64_t, std::string>;  // the model's path in each

  Repository(std::string folder, const ModelSettings& defaults, const Machine& machine, Log log);
  Result<Versions> VersionsOf(const std::string& name) const;
  Result<ModelSettings> SettingsOf(const std::string& name) const;
  std::string FilesOf(const std::string& name) const;
  Status LoadVersions(const std::string& name);
  Status Replace(const std::string& name, const ModelSettings& settings, const Versions& chosen);
  std::shared_ptr<Statistics> StatisticsOf(const std::string& name, int64_t version);

  const std::string folder_;
  const ModelSettings defaults_;
  const Machine machine_;
  const Log log_;
  std::shared_ptr<Retirement> retirement_;
  std::mutex loading_;        // one load or unload at a time
  mutable std::mutex mutex_;  // of entries_
  std::map<std::string, Entry> entries_;
};

}  // namespace evoq::serve
