// Quantization parameters by tensor name, as AIMET's .encodings files hold them
// (docs/encodings.md).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace evoq {

// What one number of quantization parameters is of.
enum class Granularity { kTensor, kChannel, kBlock };

// The parameters of one tensor. Integer q stands for (q - zero_point) * scale, whatever the file's
// own convention.
struct Encoding {
  std::string name;
  std::string place;       // in its file: "encodings[3] (conv.weight)"; for messages
  bool parameter = false;  // a weight or a bias
  bool real = false;       // it stays in floating point; only `bits` says more then
  // Why no integer type can hold it ("zero point -0.5"); "": one may. Else as `real`.
  std::string refusal;
  int bits = 8;
  bool is_signed = true;
  Granularity granularity = Granularity::kTensor;
  std::vector<float> scales;
  std::vector<int32_t> zero_points;  // as many as scales
  // Of channels or blocks: the axis, where the file says it, and the array of scales as it is
  // nested there (one size where it is flat).
  std::optional<int> axis;
  std::vector<int64_t> sizes;
  int64_t block = 0;  // indices of the axis that share a scale
  // Double quantization (LPBQ): scales[i] = block_scales[i] * channel_scales[channel of i]. Only
  // where the file does not say which channel that is; `scales` is empty then.
  std::vector<float> channel_scales;
  std::vector<int64_t> block_scales;
};

// A version of the format: one row in its own file, named by one line in encodings/versions.inc.
struct EncodingsVersion {
  const char* name;  // the file's "version", and of --encodings-version
  const char* doc;
  // Errors: kInvalidInput, naming the entry.
  Result<std::vector<Encoding>> (*read)(const nlohmann::json& root);
  // The fields of a file beside "version" and "producer": sections of entries. Errors: kUnsupported
  // for what the version cannot say, naming the tensor.
  Result<nlohmann::json> (*write)(std::span<const Encoding> encodings);
};
std::span<const EncodingsVersion* const> AllEncodingsVersions();
// The row of this name, or nullptr.
const EncodingsVersion* FindEncodingsVersion(std::string_view name);

// Reads a file of any version. Errors: those of reading JSON; kUnsupported for another version;
// kInvalidInput for a malformed entry or two of one tensor. All name the file.
Result<std::vector<Encoding>> ReadEncodings(const std::string& path);
Result<std::vector<Encoding>> ParseEncodings(std::string_view text);

// Writes a file, atomically. Errors: kUnsupported, kIo.
Status WriteEncodings(std::span<const Encoding> encodings, const EncodingsVersion& version,
                      const std::string& path);

}  // namespace evoq
