#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "base/brief.h"
#include "base/file.h"
#include "base/json_file.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/resize.h"

namespace evoq {
namespace {

using Json = nlohmann::json;
constexpr int kMaxSide = 1 << 16;

Status BadField(const std::string& name, const Json& value, const char* wanted) {
  return InvalidInput("field \"{}\" is {}, expected {}", name, JsonBriefly(value), wanted);
}

// A whole number within [low, high], both small. Unsigned ones are compared as such: the library
// would wrap them.
bool IsWholeWithin(const Json& v, int low, int high) {
  if (v.is_number_unsigned())
    return v.get<uint64_t>() <= static_cast<uint64_t>(high) && v.get<int64_t>() >= low;
  return v.is_number_integer() && v.get<int64_t>() >= low && v.get<int64_t>() <= high;
}
bool IsSide(const Json& v) { return IsWholeWithin(v, 1, kMaxSide); }
bool IsFiniteFloat(const Json& v) { return v.is_number() && std::isfinite(v.get<float>()); }

Status ReadSize(const std::string& name, const Json& v, std::optional<std::pair<int, int>>& to) {
  if (!v.is_array() || v.size() != 2 || !IsSide(v[0]) || !IsSide(v[1]))
    return BadField(name, v, "[height, width]");
  to = {v[0].get<int>(), v[1].get<int>()};
  return {};
}

Status ReadChannels(const std::string& name, const Json& v, std::vector<float>& to) {
  const Json list = v.is_array() ? v : Json::array({v});  // one number stands for all channels
  if (list.size() != 1 && list.size() != 3)
    return BadField(name, v, "a number or an array of 1 or 3");
  to.clear();
  for (const Json& item : list) {
    if (!IsFiniteFloat(item)) return BadField(name, v, "finite numbers");
    to.push_back(item.get<float>());
    if (name == "std" && to.back() == 0) return BadField(name, v, "numbers other than 0");
  }
  return {};
}

Status ReadWord(const std::string& name, const Json& v, std::initializer_list<const char*> words,
                std::string& to) {
  for (const char* word : words) {
    if (v == word) {
      to = word;
      return {};
    }
  }
  return InvalidInput("field \"{}\" is {}, expected one of {}", name, JsonBriefly(v),
                      fmt::join(words, ", "));
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
    if (!IsWholeWithin(v, -1000000, 1000000))
      return BadField(name, v, "a whole number within a million");
    p.label_offset = v.get<int>();
    return {};
  }
  if (name == "dtype") {
    std::string word;
    EVOQ_TRY(ReadWord(name, v, {"float32", "uint8", "int8"}, word));
    p.dtype = *DTypeFromName(word);
    return {};
  }
  return InvalidInput(
      "unknown field \"{}\", expected resize_short, crop, resize, color, layout, scale, mean, std, "
      "label_offset or dtype",
      Shorten(name));
}

// Gray as Pillow's "L": (19595 R + 38470 G + 7471 B + 32768) / 65536.
Image ToGray(const Image& in) {
  Image out{in.width, in.height, 1, {}};
  out.pixels.resize(static_cast<size_t>(in.width) * in.height);
  for (size_t i = 0; i < out.pixels.size(); ++i) {
    const uint8_t* p = in.pixels.data() + i * 3;
    out.pixels[i] =
        static_cast<uint8_t>((19595 * p[0] + 38470 * p[1] + 7471 * p[2] + 0x8000) >> 16);
  }
  return out;
}

// round_half_even(x), saturated into T; NaN becomes the smallest.
template <typename T>
T RoundTo(float x) {
  using Limits = std::numeric_limits<T>;
  const float rounded = std::nearbyint(x);
  if (!(rounded > static_cast<float>(Limits::min()))) return Limits::min();
  return rounded < static_cast<float>(Limits::max()) ? static_cast<T>(rounded) : Limits::max();
}

// x = (pixel * scale - mean) / std in the preprocess's layout and channel order. A gray image gives
// its value to each channel.
template <typename T>
void Normalize(const Image& image, const Preprocess& p, int64_t channels, Tensor& input) {
  const int64_t plane = int64_t{image.height} * image.width;
  const bool nchw = p.layout == "NCHW", bgr = p.color == "BGR";
  T* to = input.mutable_data<T>();
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = image.channels == 1 ? 0 : bgr ? 2 - c : c;
      const float x =
          (static_cast<float>(image.pixels[i * image.channels + from]) * p.scale - p.mean[c]) /
          p.std[c];
      const int64_t at = nchw ? c * plane + i : i * channels + c;
      if constexpr (std::is_same_v<T, float>)
        to[at] = x;
      else
        to[at] = RoundTo<T>(x);
    }
  }
}

using NormalizeFunction = void (*)(const Image&, const Preprocess&, int64_t, Tensor&);

// Null where pixels cannot become elements of this type.
NormalizeFunction NormalizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return Normalize<float>;
    case DType::kUint8: return Normalize<uint8_t>;
    case DType::kInt8: return Normalize<int8_t>;
    case DType::kUint16: return Normalize<uint16_t>;
    case DType::kInt16: return Normalize<int16_t>;
    case DType::kUint32: return Normalize<uint32_t>;
    case DType::kInt32: return Normalize<int32_t>;
    case DType::kUint64: return Normalize<uint64_t>;
    case DType::kInt64: return Normalize<int64_t>;
    default: return nullptr;
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
  for (auto [name, list, fallback] :
       {std::tuple{"mean", &p.mean, 0.f}, std::tuple{"std", &p.std, 1.f}}) {
    if (!root.contains(name)) list->assign(channels, fallback);
    if (list->size() == 1) list->assign(channels, list->front());
    if (list->size() != channels) {
      return InvalidInput("field \"{}\" has {} numbers, expected {} for color {}", name,
                          list->size(), channels, p.color);
    }
  }
  return p;
}

Result<Preprocess> LoadPreprocess(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, size_t{1} << 20));
  return WithContext(ParsePreprocess(text), path);
}

Result<Tensor> ToInput(const Image& source, const Preprocess& p) {
  Budget budget = Budget::ForFile(static_cast<int64_t>(source.pixels.size()));
  return ToInput(source, p, budget);
}

Result<Tensor> ToInput(const Image& source, const Preprocess& p, Budget& budget) {
  // The image so far: the source itself until a step makes another.
  Image made;
  const Image* image = &source;
  const auto then = [&](Image next) {
    made = std::move(next);
    image = &made;
  };
  if (p.color == "GRAY" && source.channels == 3) {
    EVOQ_TRY(
        budget.TakeMemory(static_cast<int64_t>(source.pixels.size()) / 3, "the image in gray"));
    then(ToGray(source));
  }
  if (p.resize_short) {
    EVOQ_ASSIGN(Image resized, ResizeShortSide(*image, *p.resize_short, budget));
    then(std::move(resized));
  }
  if (p.crop) {
    EVOQ_ASSIGN(Image cropped, CentreCrop(*image, p.crop->first, p.crop->second));
    then(std::move(cropped));
  }
  if (p.resize) {
    EVOQ_ASSIGN(Image resized, ResizeBilinear(*image, p.resize->second, p.resize->first, budget));
    then(std::move(resized));
  }
  const int64_t channels = p.color == "GRAY" ? 1 : 3;
  if (p.mean.size() < channels || p.std.size() < channels) {
    return InvalidInput("preprocess: {} means and {} deviations for {} channels", p.mean.size(),
                        p.std.size(), channels);
  }
  const NormalizeFunction normalize = NormalizeOf(p.dtype);
  if (normalize == nullptr)
    return Unsupported("preprocess: pixels as {}, expected float32 or an integer of 8 to 64 bits",
                       DTypeName(p.dtype));
  const TensorType type(p.dtype, p.layout == "NCHW"
                                     ? Shape{1, channels, image->height, image->width}
                                     : Shape{1, image->height, image->width, channels});
  // A size that the preprocessing names is what the user asks for; one that the file names draws on
  // its budget.
  const std::string what = "input " + type.ToString();
  const int64_t bytes = type.bytes().value_or(-1);
  if (!p.resize && !p.crop) EVOQ_TRY(budget.TakeMemory(bytes, what));
  Budget machine(MemoryLimitBytes() / 8 * 7, 0);
  EVOQ_TRY(machine.TakeMemory(bytes, what));
  Tensor input = Tensor::Allocate(type);
  normalize(*image, p, channels, input);
  return input;
}

Result<Tensor> LoadInput(const std::string& path, const Preprocess& preprocess) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  Budget budget = Budget::ForFile(static_cast<int64_t>(file->bytes().size()));
  EVOQ_ASSIGN(const Image image, WithContext(DecodeImage(file->bytes(), budget), path));
  return WithContext(ToInput(image, preprocess, budget), path);
}

}  // namespace evoq
