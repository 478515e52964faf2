#include "base/early_parts.h"

#include <algorithm>
#include <utility>

#include "base/math.h"

namespace evoq {
namespace {

constexpr std::byte kZeros[EarlyParts::kBegin] = {};

}  // namespace

class EarlyParts::Part {
 public:
  int64_t offset = 0, size = 0;
  const std::byte* data = nullptr;  // where it is mapped
  std::weak_ptr<const void> owner;

  // Nobody can ask for it, or nobody has it any more.
  bool IsDead(int64_t holders) const { return data == nullptr ? holders == 1 : owner.expired(); }
};

EarlyParts::EarlyParts(const std::string& path) {
  const auto to = Resolve(path);
  if (to && !to->device && to->descriptor < 0) path_ = to->path;
}

void EarlyParts::GiveUp() {
  file_.reset();
  path_.clear();
}

bool EarlyParts::IsDead() const {
  return std::ranges::all_of(parts_,
                             [](const auto& part) { return part->IsDead(part.use_count()); });
}

bool EarlyParts::Start() {
  file_.reset();
  parts_.clear();
  end_ = kBegin;
  sum_ = Crc32cSum();
  auto file = NewFile::Create(path_);
  if (!file) return false;
  file_.emplace(std::move(*file));
  return file_->Write(kZeros).has_value();  // in place of the front
}

bool EarlyParts::Write(std::span<const std::byte> bytes) {
  sum_.Add(bytes);
  end_ += static_cast<int64_t>(bytes.size());
  return file_->Write(bytes).has_value();
}

std::shared_ptr<const EarlyParts::Part> EarlyParts::Append(std::span<const std::byte> bytes) {
  if (path_.empty() || bytes.empty()) return nullptr;
  // Parts of a program that was given up make room.
  if ((file_ && !IsDead()) || Start()) {
    auto part = std::make_shared<Part>();
    part->offset = RoundUp(end_, kAlignment);
    part->size = static_cast<int64_t>(bytes.size());
    if (Write(std::span(kZeros).first(static_cast<size_t>(part->offset - end_))) && Write(bytes))
      return parts_.emplace_back(std::move(part));
  }
  GiveUp();
  return nullptr;
}

bool EarlyParts::Flush() {
  if (file_ && !file_->Flush()) GiveUp();
  return file_.has_value();
}

std::optional<KeptBytes> EarlyParts::Map(const std::shared_ptr<const Part>& part) {
  const auto own = std::ranges::find(parts_, part);
  if (!file_ || own == parts_.end() || file_->reached() < part->offset + part->size)
    return std::nullopt;
  auto mapped = std::make_shared<MappedPart>();
  if (!mapped->Map(file_->descriptor(), part->offset, part->size)) return std::nullopt;
  const std::span<const std::byte> bytes = mapped->bytes();
  (*own)->data = bytes.data();
  (*own)->owner = mapped;
  return KeptBytes{bytes, std::move(mapped)};
}

std::optional<size_t> EarlyParts::PiecesOf(
    std::span<const std::span<const std::byte>> pieces) const {
  int64_t at = kBegin;
  size_t i = 0;
  for (const auto& part : parts_) {
    for (; i < pieces.size() && at < part->offset; ++i) {
      if (std::ranges::any_of(pieces[i], [](std::byte b) { return b != std::byte{0}; }))
        return std::nullopt;
      at += static_cast<int64_t>(pieces[i].size());
    }
    if (i == pieces.size() || at != part->offset || part->owner.expired() ||
        pieces[i].data() != part->data || static_cast<int64_t>(pieces[i].size()) != part->size)
      return std::nullopt;
    at += part->size;
    ++i;
  }
  return i;
}

std::optional<EarlyParts::Begun> EarlyParts::Take(
    const std::string& path, int64_t begin, std::span<const std::span<const std::byte>> pieces) {
  if (!file_ || begin != kBegin) return std::nullopt;
  const auto to = Resolve(path);
  if (!to || to->path != path_) return std::nullopt;
  const auto count = PiecesOf(pieces);
  if (!count) return std::nullopt;
  Begun begun{std::move(*file_), *count, sum_};
  GiveUp();
  return begun;
}

}  // namespace evoq
