#include "serve/repository.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/brief.h"
#include "base/file.h"
#include "base/guarded.h"
#include "base/json_file.h"
#include "serve/retirement.h"

namespace evoq::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 6> kModelFiles = {"model.etm",  "model.onnx", "model.tflite",
                                                    "model.gguf", "model.bin",  "model"};
constexpr std::array<const char*, 3> kBareFiles = {".etm", ".onnx", ".tflite"};

bool Exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

bool IsFolder(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

// Of the entries of a folder; nothing of one that cannot be read.
std::vector<std::string> EntriesOf(const std::string& folder, std::error_code& code) {
  std::vector<std::string> names;
  for (auto it = fs::directory_iterator(folder, code); !code && it != fs::directory_iterator();
       it.increment(code))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// A name of the protocol is one of the folder's: it leads nowhere else.
bool IsName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::optional<int64_t> VersionNumber(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  // "01" and "1" would be one version.
  return whole && number > 0 && text[0] != '0' ? std::optional(number) : std::nullopt;
}

// The name of the model that a bare file is, "" for other files.
std::string BareName(const std::string& file) {
  const std::string extension = LowerExtension(file);
  const bool is_model =
      std::find(kBareFiles.begin(), kBareFiles.end(), extension) != kBareFiles.end();
  return is_model ? file.substr(0, file.size() - extension.size()) : "";
}

// What tells one state of a file from another.
std::string MarkOf(const std::string& path) {
  struct stat s{};
  if (stat(path.c_str(), &s) != 0) return path + ": none\n";
  return fmt::format("{}: {} {} {}.{:09}\n", path, s.st_ino, s.st_size, s.st_mtim.tv_sec,
                     s.st_mtim.tv_nsec);
}

}  // namespace

Repository::Repository(std::string folder, const ModelSettings& defaults, const Machine& machine,
                       Log log)
    : folder_(std::move(folder)),
      defaults_(defaults),
      machine_(machine),
      log_(std::move(log)),
      retirement_(Retirement::Begin()) {}

Repository::~Repository() {
  {
    const std::lock_guard lock(mutex_);
    entries_.clear();
  }
  retirement_->Wait();
}

Result<std::unique_ptr<Repository>> Repository::Open(const std::string& folder,
                                                     const ModelSettings& defaults,
                                                     const Machine& machine, Log log) {
  if (!IsFolder(folder))
    return Fail(ErrorCode::kNotFound, "{}: no such folder, expected a model repository", folder);
  return std::unique_ptr<Repository>(new Repository(folder, defaults, machine, std::move(log)));
}

Result<std::vector<std::string>> Repository::Names() const {
  std::error_code code;
  std::vector<std::string> names;
  for (const std::string& entry : EntriesOf(folder_, code)) {
    const std::string path = folder_ + "/" + entry;
    const std::string name = IsFolder(path) ? entry : BareName(entry);
    if (IsName(name)) names.push_back(name);
  }
  if (code) return Fail(ErrorCode::kIo, "{}: {}", folder_, code.message());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<Repository::Versions> Repository::VersionsOf(const std::string& name) const {
  const auto missing = [&] {
    return Fail(ErrorCode::kNotFound, "no model {} in {}", Shorten(name), folder_);
  };
  if (!IsName(name)) return missing();
  const std::string folder = folder_ + "/" + name;
  Versions versions;
  if (!IsFolder(folder)) {
    for (const char* extension : kBareFiles) {
      if (Exists(folder + extension)) versions.try_emplace(1, folder + extension);
    }
    if (versions.empty()) return missing();
    return versions;
  }
  std::error_code code;
  for (const std::string& entry : EntriesOf(folder, code)) {
    const auto number = VersionNumber(entry);
    if (!number || !IsFolder(folder + "/" + entry)) continue;
    for (const char* file : kModelFiles) {
      const std::string path = folder + "/" + entry + "/" + file;
      if (Exists(path)) versions.try_emplace(*number, path);
    }
    if (!versions.contains(*number))
      return Fail(ErrorCode::kNotFound, "{}/{}: no model, expected one of {}", folder, entry,
                  fmt::join(kModelFiles, ", "));
  }
  if (code) return Fail(ErrorCode::kIo, "{}: {}", folder, code.message());
  if (versions.empty())
    return Fail(ErrorCode::kNotFound, "{}: no version, expected a folder 1 with model.etm", folder);
  return versions;
}

Result<ModelSettings> Repository::SettingsOf(const std::string& name) const {
  const std::string path = folder_ + "/" + name + "/config.json";
  if (!Exists(path)) return defaults_;
  EVOQ_ASSIGN(const nlohmann::json config, ReadJsonFile(path, 1 << 20));
  return WithContext(ParseSettings(config, name, defaults_), path);
}

std::string Repository::FilesOf(const std::string& name) const {
  const auto versions = VersionsOf(name);
  std::string files = MarkOf(folder_ + "/" + name + "/config.json");
  if (!versions) return files + versions.error().message();
  for (const auto& [version, path] : *versions) files += MarkOf(path);
  return files;
}

std::shared_ptr<Statistics> Repository::StatisticsOf(const std::string& name, int64_t version) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Statistics>& kept = entries_[name].statistics[version];
  if (kept == nullptr) kept = std::make_shared<Statistics>();
  return kept;
}

Status Repository::Replace(const std::string& name, const ModelSettings& settings,
                           const Versions& chosen) {
  std::map<int64_t, std::shared_ptr<ServedModel>> fresh;
  for (const auto& [version, path] : chosen) {
    EVOQ_ASSIGN(
        std::unique_ptr<ServedModel> model,
        ServedModel::Load(name, version, path, settings, machine_, StatisticsOf(name, version)));
    fresh[version] = Retirement::Kept(retirement_, std::move(model));
  }
  const std::lock_guard lock(mutex_);
  entries_[name].versions.swap(fresh);  // those that were served end with their last request
  return {};
}

Status Repository::LoadVersions(const std::string& name) {
  EVOQ_ASSIGN(const Versions versions, VersionsOf(name));
  EVOQ_ASSIGN(const ModelSettings settings, SettingsOf(name));
  std::vector<int64_t> numbers;
  for (const auto& [version, path] : versions) numbers.push_back(version);
  EVOQ_ASSIGN(const std::vector<int64_t> served,
              WithContext(settings.versions.Choose(numbers), folder_ + "/" + name));
  Versions chosen;
  for (int64_t version : served) chosen[version] = versions.at(version);
  return Replace(name, settings, chosen);
}

Status Repository::Load(const std::string& name) {
  const std::lock_guard one_at_a_time(loading_);
  std::string files = FilesOf(name);
  const Status loaded = Guarded([&] { return LoadVersions(name); });
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() && !loaded && loaded.error().code() == ErrorCode::kNotFound)
      return loaded;  // names that there are not leave nothing behind
    Entry& entry = entries_[name];
    entry.failure = loaded ? "" : loaded.error().message();
    entry.files = std::move(files);
  }
  log_(loaded ? "model_loaded" : "model_load_failed", name, loaded ? "" : loaded.error().message());
  return loaded;
}

Status Repository::Unload(const std::string& name) {
  const std::lock_guard one_at_a_time(loading_);
  std::map<int64_t, std::shared_ptr<ServedModel>> gone;  // ended without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.versions.empty())
      return Fail(ErrorCode::kNotFound, "model {} is not loaded", Shorten(name));
    found->second.versions.swap(gone);
    found->second.failure = "unloaded";
  }
  log_("model_unloaded", name, "");
  return {};
}

void Repository::Refresh() {
  const auto names = Names();
  if (!names) return;
  for (const std::string& name : *names) {
    const std::string files = FilesOf(name);
    const bool same = [&] {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(name);
      return found != entries_.end() && found->second.files == files;
    }();
    if (!same) (void)Load(name);
  }
  for (const auto& model : All()) {
    if (!std::binary_search(names->begin(), names->end(), model->name()))
      (void)Unload(model->name());
  }
}

Served<std::shared_ptr<ServedModel>> Repository::Find(const std::string& name,
                                                      const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return Refuse(Why::kNotFound, "no model {}", Shorten(name));
  const Entry& entry = found->second;
  if (entry.versions.empty())
    return Refuse(Why::kUnavailable, "model {} is not loaded: {}", name, entry.failure);
  if (version.empty()) return entry.versions.rbegin()->second;
  const auto number = VersionNumber(version);
  const auto its = number ? entry.versions.find(*number) : entry.versions.end();
  if (its == entry.versions.end())
    return Refuse(Why::kNotFound, "model {} has no version {}", name, Shorten(version));
  return its->second;
}

std::vector<std::shared_ptr<ServedModel>> Repository::All() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> all;
  for (const auto& [name, entry] : entries_) {
    for (const auto& [version, model] : entry.versions) all.push_back(model);
  }
  return all;
}

std::vector<IndexEntry> Repository::Index() const {
  std::vector<std::string> names = Names().value_or(std::vector<std::string>());
  const std::lock_guard lock(mutex_);
  for (const auto& [name, entry] : entries_) {
    if (!entry.versions.empty()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<IndexEntry> index;
  for (const std::string& name : names) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.versions.empty()) {
      index.push_back({name, "", false, found == entries_.end() ? "" : found->second.failure});
      continue;
    }
    for (const auto& [version, model] : found->second.versions)
      index.push_back({name, std::to_string(version), true, found->second.failure});
  }
  return index;
}

}  // namespace evoq::serve
