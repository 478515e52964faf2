#include <cmath>
#include <initializer_list>

#include "base/file.h"
#include "base/json_file.h"
#include "data/dataset.h"
#include "data/resize.h"

namespace evoq {
namespace {

using Json = nlohmann::json;
constexpr int kMaxSide = 1 << 16;

Status BadField(const std::string& name, const Json& value, const char* wanted) {
  return InvalidInput("field \"{}\" is {}, expected {}", name, value.dump().substr(0, 60), wanted);
}

bool IsSide(const Json& v) { return v.is_number_integer() && v >= 1 && v <= kMaxSide; }
bool IsFiniteFloat(const Json& v) { return v.is_number() && std::isfinite(v.get<float>()); }

Status ReadSize(const std::string& name, const Json& v, std::optional<std::pair<int, int>>& to) {
  if (!v.is_array() || v.size() != 2 || !IsSide(v[0]) || !IsSide(v[1])) return BadField(name, v, "[height, width]");
  to = {v[0].get<int>(), v[1].get<int>()};
  return {};
}

Status ReadChannels(const std::string& name, const Json& v, std::vector<float>& to) {
  if (!v.is_array() || (v.size() != 1 && v.size() != 3)) return BadField(name, v, "an array of 1 or 3 numbers");
  to.clear();
  for (const Json& item : v) {
    if (!IsFiniteFloat(item)) return BadField(name, v, "an array of finite numbers");
    to.push_back(item.get<float>());
    if (name == "std" && to.back() == 0) return BadField(name, v, "numbers other than 0");
  }
  return {};
}

Status ReadWord(const std::string& name, const Json& v, std::initializer_list<const char*> words, std::string& to) {
  for (const char* word : words) {
    if (v == word) {
      to = word;
      return {};
    }
  }
  return InvalidInput("field \"{}\" is {}, expected one of {}", name, v.dump().substr(0, 60), fmt::join(words, ", "));
}

Status ReadField(const std::string& name, const Json& v, Preprocess& p) {
  if (name == "resize_short") {
    if (!IsSide(v)) return BadField(name, v, "a whole number from 1 to 65536");
    p.resize_short = v.get<int>();
    return {};
  }
  if (name == "crop") return ReadSize(name, v, p.crop);
  if (name == "resize") return ReadSize(name, v, p.resize);
  if (name == "color") return ReadWord(name, v, {"RGB", "BGR", "GRAY"}, p.color);
  if (name == "layout") return ReadWord(name, v, {"NCHW", "NHWC"}, p.layout);
  if (name == "mean") return ReadChannels(name, v, p.mean);
  if (name == "std") return ReadChannels(name, v, p.std);
  if (name == "scale") {
    if (!IsFiniteFloat(v)) return BadField(name, v, "a finite number");
    p.scale = v.get<float>();
    return {};
  }
  if (name == "label_offset") {
    if (!v.is_number_integer() || v < -1000000 || v > 1000000) return BadField(name, v, "a whole number within a million");
    p.label_offset = v.get<int>();
    return {};
  }
  if (name == "dtype") {
    std::string word;
    EVOQ_TRY(ReadWord(name, v, {"float32", "uint8", "int8"}, word));
    p.dtype = *DTypeFromName(word);
    return {};
  }
  return InvalidInput("unknown field \"{}\", expected resize_short, crop, resize, color, layout, scale, mean, std, "
                      "label_offset or dtype", name);
}

// To the wanted channels, before any resampling. Gray as Pillow's "L": (19595 R + 38470 G + 7471 B + 32768) / 65536.
Image ConvertColor(const Image& in, const std::string& color) {
  if (color == "RGB" && in.channels == 3) return in;
  Image out{in.width, in.height, color == "GRAY" ? 1 : 3, {}};
  const size_t count = static_cast<size_t>(in.width) * in.height;
  out.pixels.resize(count * out.channels);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* p = in.pixels.data() + i * in.channels;
    const int r = p[0], g = p[in.channels == 3 ? 1 : 0], b = p[in.channels == 3 ? 2 : 0];
    uint8_t* to = out.pixels.data() + i * out.channels;
    if (color == "GRAY") {
      to[0] = static_cast<uint8_t>((19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16);
    } else {
      to[0] = static_cast<uint8_t>(color == "BGR" ? b : r);
      to[1] = static_cast<uint8_t>(g);
      to[2] = static_cast<uint8_t>(color == "BGR" ? r : b);
    }
  }
  return out;
}

// round_half_even(x), saturated into [low, high]; NaN becomes low.
int RoundTo(float x, int low, int high) {
  const float bounded = std::nearbyint(x) > low ? std::nearbyint(x) : static_cast<float>(low);
  return static_cast<int>(bounded < high ? bounded : static_cast<float>(high));
}

void Store(DType dtype, float x, int64_t at, Tensor& to) {
  if (dtype == DType::kFloat32) {
    to.mutable_data<float>()[at] = x;
  } else if (dtype == DType::kUint8) {
    to.mutable_data<uint8_t>()[at] = static_cast<uint8_t>(RoundTo(x, 0, 255));
  } else {
    to.mutable_data<int8_t>()[at] = static_cast<int8_t>(RoundTo(x, -128, 127));
  }
}

}  // namespace

Result<Preprocess> ParsePreprocess(std::string_view json) {
  EVOQ_ASSIGN(const Json root, ParseJson(json));
  if (!root.is_object()) return InvalidInput("expected a JSON object of preprocessing fields");
  Preprocess p;
  for (const auto& [name, value] : root.items()) {
    if (name.empty() || name[0] != '_') EVOQ_TRY(ReadField(name, value, p));
  }
  const size_t channels = p.color == "GRAY" ? 1 : 3;
  for (auto [name, list, fallback] : {std::tuple{"mean", &p.mean, 0.f}, std::tuple{"std", &p.std, 1.f}}) {
    if (!root.contains(name)) list->assign(channels, fallback);
    if (list->size() == 1) list->assign(channels, list->front());
    if (list->size() != channels) {
      return InvalidInput("field \"{}\" has {} numbers, expected {} for color {}", name, list->size(), channels, p.color);
    }
  }
  return p;
}

Result<Preprocess> LoadPreprocess(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, size_t{1} << 20));
  return WithContext(ParsePreprocess(text), path);
}

Result<Tensor> ToInput(const Image& source, const Preprocess& p) {
  Image image = ConvertColor(source, p.color);
  if (p.resize_short) {
    EVOQ_ASSIGN(image, ResizeShortSide(image, *p.resize_short));
  }
  if (p.crop) {
    EVOQ_ASSIGN(image, CentreCrop(image, p.crop->first, p.crop->second));
  }
  if (p.resize) {
    EVOQ_ASSIGN(image, ResizeBilinear(image, p.resize->second, p.resize->first));
  }
  const int64_t channels = image.channels, plane = int64_t{image.height} * image.width;
  if (p.mean.size() < image.channels || p.std.size() < image.channels) {
    return InvalidInput("preprocess: {} means and {} deviations for {} channels", p.mean.size(), p.std.size(), channels);
  }
  const bool nchw = p.layout == "NCHW";
  Tensor input = Tensor::Allocate(TensorType(p.dtype, nchw ? Shape{1, channels, image.height, image.width}
                                                           : Shape{1, image.height, image.width, channels}));
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const float x = (static_cast<float>(image.pixels[i * channels + c]) * p.scale - p.mean[c]) / p.std[c];
      Store(p.dtype, x, nchw ? c * plane + i : i * channels + c, input);
    }
  }
  return input;
}

}  // namespace evoq
