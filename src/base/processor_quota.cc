#include "base/processor_quota.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/output_file.h"

namespace evoq {
namespace {

// A short file of the system's, which tells no size; "" where there is none.
std::string Content(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  size_t size = 0;
  while (file.get() >= 0 && size < text.size()) {
    const ssize_t n = ::read(file.get(), text.data() + size, text.size() - size);
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  return text;
}

// The whole number that the text begins with; 0 where it begins with none.
int64_t NumberIn(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// What one group allows: "200000 100000", "max 100000".
std::optional<int> Allowed(std::string_view quota, std::string_view period) {
  const int64_t time = NumberIn(quota), of = NumberIn(period);
  if (time <= 0 || of <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<int64_t>(time / of, 1, 1 << 20));
}

// Of a group and all around it. A container may see its own group as the outermost one.
std::optional<int> LeastUpTo(const std::string& root, std::string path, bool unified) {
  std::optional<int> least;
  for (;;) {
    std::optional<int> here;
    const std::string folder = root + path;
    if (unified) {
      const std::string text = Content(folder + "/cpu.max");
      const size_t space = text.find(' ');
      if (space != std::string::npos)
        here = Allowed(text, std::string_view(text).substr(space + 1));
    } else {
      here = Allowed(Content(folder + "/cpu.cfs_quota_us"), Content(folder + "/cpu.cfs_period_us"));
    }
    if (here) least = std::min(least.value_or(*here), *here);
    if (path.empty()) return least;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

std::optional<int> ProcessorQuota(const std::string& groups, const std::string& root) {
  const std::string text = Content(groups);
  std::optional<int> least;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + std::string(controllers) + ",").find(",cpu,") == std::string::npos)
      continue;
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    const auto here = LeastUpTo(unified ? root : root + "/cpu", std::move(path), unified);
    if (here) least = std::min(least.value_or(*here), *here);
  }
  return least;
}

}  // namespace evoq
