#include "workflow/aipp.h"

#include <charconv>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/nearest.h"

namespace evoq {
namespace {

// A member of an aipp_op: where it stands.
struct Member {
  std::string value;
  int line = 0;
};
using Members = std::map<std::string, Member>;

// The file's words: names, values, ':', '{' and '}'; '#' begins a comment.
struct Word {
  std::string text;
  int line;
};
std::vector<Word> WordsOf(const std::string& text) {
  std::vector<Word> words;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::string word;
    const auto end = [&] {
      if (!word.empty()) words.push_back({word, number});
      word.clear();
    };
    for (const char c : line) {
      const bool mark = c == ':' || c == '{' || c == '}';
      if (mark || c == ' ' || c == '\t' || c == '\r' || c == ',') end();
      if (mark) words.push_back({std::string(1, c), number});
      if (!mark && c != ' ' && c != '\t' && c != '\r' && c != ',') word += c;
    }
    end();
  }
  return words;
}

Result<std::vector<Members>> Parse(const std::string& path, const std::vector<Word>& words) {
  std::vector<Members> ops;
  size_t at = 0;
  const auto fail = [&](const char* wanted) {
    if (at >= words.size())
      return InvalidInput("{}: the end of the file, expected {}", path, wanted);
    return InvalidInput("{}: line {}: '{}', expected {}", path, words[at].line, words[at].text,
                        wanted);
  };
  const auto take = [&](const char* text) {
    const bool is = at < words.size() && words[at].text == text;
    at += is;
    return is;
  };
  const auto is_mark = [&](size_t i) {
    return words[i].text == ":" || words[i].text == "{" || words[i].text == "}";
  };
  while (at < words.size()) {
    if (!take("aipp_op")) return fail("aipp_op");
    if (!take("{")) return fail("'{'");
    Members& members = ops.emplace_back();
    while (!take("}")) {
      if (at >= words.size() || is_mark(at)) return fail("a name, or '}'");
      const Word name = words[at++];
      if (!take(":")) return fail("':'");
      if (at >= words.size() || is_mark(at)) return fail("a value");
      if (!members.emplace(name.text, Member{words[at].text, name.line}).second) {
        --at;
        return fail("each name once");
      }
      ++at;
    }
  }
  if (ops.empty()) return fail("aipp_op");
  return ops;
}

// Takes members one by one, so that what is left over is unknown.
class Reader {
 public:
  Reader(const std::string& path, Members members) : path_(path), members_(std::move(members)) {}

  template <typename T>
  Status Number(const std::string& name, T& to, T low, T high) {
    const auto member = members_.find(name);
    names_.push_back(name);
    if (member == members_.end()) return {};
    const std::string& text = member->second.value;
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() ||
        !(value >= low && value <= high))
      return Wrong(name, member->second, fmt::format("a number from {} to {}", low, high));
    to = value;
    members_.erase(member);
    return {};
  }
  template <typename T>
  Status Number(const std::string& name, std::optional<T>& to, T low, T high) {
    if (!members_.contains(name)) {
      names_.push_back(name);
      return {};
    }
    return Number(name, to.emplace(), low, high);
  }
  Status Bool(const std::string& name, bool& to) {
    const auto member = members_.find(name);
    names_.push_back(name);
    if (member == members_.end()) return {};
    const std::string& text = member->second.value;
    if (text != "true" && text != "false" && text != "0" && text != "1")
      return Wrong(name, member->second, "true or false");
    to = text == "true" || text == "1";
    members_.erase(member);
    return {};
  }
  std::string Text(const std::string& name) {
    names_.push_back(name);
    const auto member = members_.find(name);
    if (member == members_.end()) return "";
    const std::string text = member->second.value;
    members_.erase(member);
    return text;
  }
  // Errors: for a member that nothing took.
  Status End() const {
    if (members_.empty()) return {};
    const std::vector<std::string_view> names(names_.begin(), names_.end());
    const auto& [name, member] = *members_.begin();
    return InvalidInput("{}: line {}: there is no '{}'; the nearest is {}", path_, member.line,
                        name, Nearest(name, names));
  }
  Error Refused(const std::string& what) const {
    return Error(ErrorCode::kUnsupported, fmt::format("{}: {}", path_, what));
  }

 private:
  Status Wrong(const std::string& name, const Member& member, const std::string& wanted) const {
    return InvalidInput("{}: line {}: {}: '{}', expected {}", path_, member.line, name,
                        member.value, wanted);
  }
  const std::string& path_;
  Members members_;
  std::vector<std::string> names_;
};

Result<Aipp> AippOf(Reader& reader) {
  constexpr int64_t kMostPixels = 1 << 16;
  Aipp a;
  const auto refused = [&](const std::string& what) {
    return tl::unexpected(reader.Refused(what));
  };
  if (const std::string mode = reader.Text("aipp_mode"); mode != "static")
    return refused(
        fmt::format("aipp_mode '{}': evoq has parameters of the model only, static", mode));
  const std::string format = reader.Text("input_format");
  if (format != "RGB888_U8" && format != "YUV400_U8")
    return refused(fmt::format("input_format '{}': evoq takes RGB888_U8 and YUV400_U8", format));
  a.channels = format == "RGB888_U8" ? 3 : 1;
  for (const char* name :
       {"csc_switch", "resize", "padding", "ax_swap_switch", "single_line_mode"}) {
    bool on = false;
    EVOQ_TRY(reader.Bool(name, on));
    if (on) return refused(fmt::format("{}: evoq does not do that inside a model", name));
  }
  EVOQ_TRY(reader.Number("related_input_rank", a.input, 0, 1 << 16));
  EVOQ_TRY(reader.Number("src_image_size_w", a.width, int64_t{1}, kMostPixels));
  EVOQ_TRY(reader.Number("src_image_size_h", a.height, int64_t{1}, kMostPixels));
  EVOQ_TRY(reader.Bool("crop", a.crop));
  EVOQ_TRY(reader.Number("load_start_pos_w", a.left, int64_t{0}, kMostPixels));
  EVOQ_TRY(reader.Number("load_start_pos_h", a.top, int64_t{0}, kMostPixels));
  EVOQ_TRY(reader.Number("crop_size_w", a.crop_width, int64_t{1}, kMostPixels));
  EVOQ_TRY(reader.Number("crop_size_h", a.crop_height, int64_t{1}, kMostPixels));
  EVOQ_TRY(reader.Bool("rbuv_swap_switch", a.swap));
  constexpr float kMost = 1e6f;
  for (size_t c = 0; c < a.mean.size(); ++c) {
    EVOQ_TRY(reader.Number(fmt::format("mean_chn_{}", c), a.mean[c], -kMost, kMost));
    EVOQ_TRY(reader.Number(fmt::format("min_chn_{}", c), a.min[c], -kMost, kMost));
    EVOQ_TRY(reader.Number(fmt::format("var_reci_chn_{}", c), a.var_reci[c], -kMost, kMost));
  }
  EVOQ_TRY(reader.End());
  return a;
}

// x of bytes as float32, cut to [height, width] at the place that `a` says.
ValueId Cropped(const Aipp& a, int64_t height, int64_t width, ValueId x, const std::string& name,
                Graph& graph) {
  const auto ints = [&](const char* what, std::vector<int64_t> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    return graph.AddConstant(name + what, Tensor::FromValues(shape, std::move(values)));
  };
  return graph.Apply("Slice", name + "_crop",
                     {x, ints("_begin", {a.top, a.left}),
                      ints("_end", {a.top + height, a.left + width}), ints("_axes", {1, 2})});
}

}  // namespace

Result<std::vector<Aipp>> ReadAipp(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path, 1 << 20));
  EVOQ_ASSIGN(std::vector<Members> ops, Parse(path, WordsOf(text)));
  std::vector<Aipp> all;
  for (Members& members : ops) {
    Reader reader(path, std::move(members));
    EVOQ_ASSIGN(Aipp aipp, AippOf(reader));
    all.push_back(aipp);
  }
  return all;
}

Status InsertAipp(const Aipp& a, Graph& graph, std::vector<InputShapes>& sets) {
  if (static_cast<size_t>(a.input) >= graph.inputs().size())
    return InvalidInput("AIPP: related_input_rank {}: the model has {} inputs", a.input,
                        graph.inputs().size());
  const ValueId in = graph.inputs()[static_cast<size_t>(a.input)];
  const TensorType type = graph.value(in).type;
  const std::string name = graph.value(in).name;
  const bool image = type.is_tensor() && type.dtype == DType::kFloat32 && !type.quantized() &&
                     type.shape.ranked() && type.shape.rank() == 4 &&
                     type.shape[1] == Dim(a.channels) && type.shape[2].known() &&
                     type.shape[3].known();
  if (!image)
    return InvalidInput(
        "AIPP: input {} is {}, expected float32[N, {}, height, width] of known height and width",
        name, type.ToString(), a.channels);
  const int64_t height = type.shape[2].value, width = type.shape[3].value;
  const int64_t from_height = a.height.value_or(height), from_width = a.width.value_or(width);
  const bool cut = a.crop || from_height != height || from_width != width;
  if (cut && (!a.crop || a.crop_height.value_or(height) != height ||
              a.crop_width.value_or(width) != width || a.top + height > from_height ||
              a.left + width > from_width))
    return InvalidInput(
        "AIPP: input {} is {} x {}, of an image of {} x {}: expected a crop of that size inside it",
        name, height, width, from_height, from_width);
  const std::vector<NodeId> users = graph.value(in).users;
  graph.SetType(in, TensorType(DType::kUint8, Shape(std::vector<Dim>{type.shape[0], from_height,
                                                                     from_width, a.channels})));
  for (InputShapes& set : sets) {
    const auto sizes = set.find(name);
    if (sizes != set.end() && !sizes->second.empty())
      sizes->second = {sizes->second[0], from_height, from_width, a.channels};
  }
  ValueId x = in;
  if (cut) x = Cropped(a, height, width, x, name, graph);
  x = graph.Apply("Cast", name + "_float", {x},
                  Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)));
  if (a.swap && a.channels == 3) {
    const ValueId order = graph.AddConstant(
        name + "_order", Tensor::FromValues(Shape{3}, std::vector<int64_t>{2, 1, 0}));
    Attrs axis;
    axis.Set("axis", 3);
    x = graph.Apply("Gather", name + "_swapped", {x, order}, axis);
  }
  std::vector<float> offset, factor;
  for (size_t c = 0; c < static_cast<size_t>(a.channels); ++c) {
    offset.push_back(a.mean[c] + a.min[c]);
    factor.push_back(a.var_reci[c]);
  }
  const Shape channels{a.channels};
  x = graph.Apply("Sub", name + "_centered",
                  {x, graph.AddConstant(name + "_mean", Tensor::FromValues(channels, offset))});
  x = graph.Apply("Mul", name + "_scaled",
                  {x, graph.AddConstant(name + "_factor", Tensor::FromValues(channels, factor))});
  Attrs perm;
  perm.Set("perm", std::vector<int64_t>{0, 3, 1, 2});
  x = graph.Apply("Transpose", name + "_nchw", {x}, perm, type);
  for (const NodeId user : users) graph.ReplaceUsesIn(user, in, x);
  return graph.Sort();
}

}  // namespace evoq
