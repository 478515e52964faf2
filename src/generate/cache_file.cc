// Writer::Save and Restore: an .etm container (program/container.h) of a cache, its tokens, and a
// mark of the model that they belong to.
#include <algorithm>
#include <cstring>

#include "base/budget.h"
#include "generate/generate.h"
#include "program/container.h"

namespace evoq {
namespace {

constexpr char kMark[] = "cache.model", kTokens[] = "cache.tokens", kCache[] = "cache.";

template <typename T>
std::span<const std::byte> BytesOf(const T* data, size_t count) {
  return std::as_bytes(std::span(data, count));
}

Status CheckKept(const CachedModel& model, const std::string& path) {
  if (!model.reads()) return {};
  return Fail(ErrorCode::kUsage, "{}: no prompt is kept of a model that reads it as a text", path);
}

}  // namespace

Status Writer::Save(const std::string& path) const {
  EVOQ_TRY(CheckKept(model_, path));
  const uint32_t mark = model_.mark();
  const std::vector<Tensor> caches = model_.Take(slot_);
  std::vector<BlobSource> blobs = {
      {.name = kMark, .pieces = {BytesOf(&mark, 1)}},
      {.name = kTokens, .pieces = {BytesOf(tokens_.data(), tokens_.size())}}};
  for (size_t i = 0; i < caches.size(); ++i)
    blobs.push_back({.name = kCache + std::to_string(i),
                     .pieces = {BytesOf(caches[i].raw(), caches[i].bytes())},
                     .alignment = 64});
  return WriteContainer(path, blobs);
}

Status Writer::Restore(const std::string& path) {
  EVOQ_TRY(CheckKept(model_, path));
  EVOQ_ASSIGN(const Container file, Container::Open(path));
  Budget budget = Budget::ForFile(file.file_bytes());
  const auto read = [&](const std::string& name) -> Result<Container::Bytes> {
    const BlobInfo* blob = file.Find(name);
    if (blob == nullptr) return InvalidInput("{}: no prompt cache: it has no {}", path, name);
    return WithContext(file.Read(*blob, budget), path);
  };
  EVOQ_ASSIGN(const Container::Bytes mark, read(kMark));
  const uint32_t own = model_.mark();
  if (mark.data.size() != sizeof(own) || std::memcmp(mark.data.data(), &own, sizeof(own)) != 0)
    return InvalidInput("{}: the cache of another model", path);
  EVOQ_ASSIGN(const Container::Bytes tokens, read(kTokens));
  const size_t count = tokens.data.size() / sizeof(int64_t);
  if (tokens.data.size() % sizeof(int64_t) != 0)
    return InvalidInput("{}: tokens of {} bytes, expected numbers of {}", path, tokens.data.size(),
                        sizeof(int64_t));
  if (static_cast<int64_t>(count) > model_.context())
    return Fail(ErrorCode::kUsage,
                "{}: the cache of {} tokens, expected at most the {} that the context holds", path,
                count, model_.context());
  std::vector<int64_t> ids(count);
  std::memcpy(ids.data(), tokens.data.data(), tokens.data.size());
  for (const int64_t id : ids) {
    if (id < 0 || id >= model_.vocabulary())
      return InvalidInput("{}: token {}, expected 0 to {}", path, id, model_.vocabulary() - 1);
  }
  std::vector<Tensor> caches;
  for (const TensorType& type : model_.CacheTypes(static_cast<int64_t>(count))) {
    EVOQ_ASSIGN(const Container::Bytes bytes, read(kCache + std::to_string(caches.size())));
    if (static_cast<int64_t>(bytes.data.size()) != *type.bytes())
      return InvalidInput("{}: cache {} has {} bytes, expected {} of {}", path, caches.size(),
                          bytes.data.size(), *type.bytes(), type.ToString());
    caches.push_back(Tensor::View(type, bytes.data.data(), bytes.owner));
  }
  EVOQ_TRY(WithContext(model_.Give(slot_, caches), path));
  ++changes_;
  tokens_ = std::move(ids);
  return {};
}

}  // namespace evoq
