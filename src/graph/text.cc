#include "base/text.h"

#include <charconv>
#include <cstring>

#include "base/printable.h"
#include "graph/graph.h"

namespace evoq {
namespace {

bool IsPlainCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         (c != '\0' && std::strchr("_./:-", c) != nullptr);
}

bool IsOfNumber(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
}

bool IsPlainName(std::string_view name) {
  for (char c : name) {
    if (!IsPlainCharacter(c)) return false;
  }
  return !name.empty() && name != "_";
}

// In quotes, with \ before quotes and backslashes and control characters as \x0a: what is printed
// is one line.
std::string InQuotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// A name as it is, or in quotes. A trailing ':' would read as the separator.
std::string Quoted(std::string_view name) {
  return IsPlainName(name) && name.back() != ':' ? std::string(name) : InQuotes(name);
}

std::string FloatText(float v) {
  std::string text = fmt::format("{}", v);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

struct AttrPrinter {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return FloatText(v); }
  std::string operator()(const std::string& v) const { return InQuotes(v); }
  std::string operator()(const Tensor& v) const { return fmt::format("<{}>", v.type().ToString()); }
  template <typename T>
  std::string operator()(const std::vector<T>& v) const {
    std::vector<std::string> parts;
    for (const T& item : v) parts.push_back((*this)(item));
    return Bracketed(std::span<const std::string>(parts));
  }
};

std::string PrintAttrs(const Attrs& attrs) {
  if (attrs.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [name, value] : attrs)
    parts.push_back(name + "=" + std::visit(AttrPrinter{}, value));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string PrintValues(const Tensor& t) {
  if (t.elements() > 8 || !t.layout().empty()) return "";
  std::vector<std::string> parts;
  if (t.dtype() == DType::kFloat32) {
    for (float v : t.values<float>()) parts.push_back(FloatText(v));
  } else if (auto ints = ToInt64s(t)) {
    for (int64_t v : *ints) parts.push_back(std::to_string(v));
  } else {
    return "";
  }
  return " = " + Bracketed(std::span<const std::string>(parts));
}

// A cursor over one line; every Expect says what stands there instead.
class Cursor {
 public:
  Cursor(std::string_view line, int number) : line_(line), number_(number) {}

  void SkipSpace() {
    while (at_ < line_.size() && line_[at_] == ' ') ++at_;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ >= line_.size();
  }
  bool Take(std::string_view token) {
    SkipSpace();
    if (line_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool Next(char c) {
    SkipSpace();
    return at_ < line_.size() && line_[at_] == c;
  }
  Status Expect(std::string_view token) {
    if (Take(token)) return {};
    return Bad(fmt::format("expected '{}'", token));
  }
  tl::unexpected<Error> Bad(std::string_view what) const {
    return InvalidInput("graph text, line {}, column {}: {}, found '{}'", number_, at_ + 1, what,
                        line_.substr(at_, 24));
  }
  Result<std::string> Name() {
    SkipSpace();
    if (at_ < line_.size() && line_[at_] == '"') return QuotedText();
    const size_t begin = at_;
    while (at_ < line_.size() && IsPlainCharacter(line_[at_])) ++at_;
    // "name:" at a declaration: the colon is the separator, not the name's.
    if (at_ > begin && line_[at_ - 1] == ':') --at_;
    if (at_ == begin) return Bad("expected a name");
    return std::string(line_.substr(begin, at_ - begin));
  }
  Result<std::string> QuotedText() {
    ++at_;
    std::string out;
    while (at_ < line_.size() && line_[at_] != '"') {
      if (line_[at_] == '\\' && at_ + 3 < line_.size() && line_[at_ + 1] == 'x') {
        unsigned byte = 0;
        const char* end = line_.data() + at_ + 4;
        if (std::from_chars(line_.data() + at_ + 2, end, byte, 16).ptr != end)
          return Bad("expected two hexadecimal digits");
        out += static_cast<char>(byte);
        at_ += 4;
        continue;
      }
      if (line_[at_] == '\\' && at_ + 1 < line_.size()) ++at_;
      out += line_[at_++];
    }
    if (at_ >= line_.size()) return Bad("expected a closing quote");
    ++at_;
    return out;
  }
  struct Number {
    double value;
    std::optional<int64_t> whole;  // of one without point and exponent, in all its digits
  };
  Result<Number> AnyNumber() {
    SkipSpace();
    const std::string_view rest = line_.substr(at_);
    const std::string_view text =
        rest.substr(0, std::find_if_not(rest.begin(), rest.end(), IsOfNumber) - rest.begin());
    const char *const begin = text.data(), *const end = begin + text.size();
    Number number{};
    int64_t whole = 0;
    const auto read = std::from_chars(begin, end, whole);
    if (!text.empty() && read.ptr == end && read.ec == std::errc()) {
      number = {static_cast<double>(whole), whole};
    } else if (text.find_first_of(".en") == std::string_view::npos ||
               std::from_chars(begin, end, number.value).ptr != end) {
      return Bad("expected a number");
    }
    at_ += text.size();
    return number;
  }
  // One that T holds: whole where T is.
  template <typename T>
  Result<T> NumberOf() {
    SkipSpace();
    const size_t before = at_;
    EVOQ_ASSIGN(const Number number, AnyNumber());
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number.value);
    } else {
      if (number.whole && std::in_range<T>(*number.whole)) return static_cast<T>(*number.whole);
      at_ = before;
      return Bad(fmt::format("expected a whole number from {} to {}",
                             int64_t{std::numeric_limits<T>::min()},
                             int64_t{std::numeric_limits<T>::max()}));
    }
  }
  // `size` of them, to the closing bracket.
  template <typename T>
  Status NumbersTo(T* values, int64_t size) {
    int64_t count = 0;
    while (!Take("]")) {
      if (count > 0) EVOQ_TRY(Expect(","));
      EVOQ_ASSIGN(const T value, NumberOf<T>());
      if (count < size) values[count] = value;
      ++count;
    }
    if (count == size) return {};
    return Bad(fmt::format("{} values, expected {}", count, size));
  }

 private:
  std::string_view line_;
  size_t at_ = 0;
  int number_;
};

Result<Shape> ParseShape(Cursor& c) {
  EVOQ_TRY(c.Expect("["));
  if (c.Take("...")) {
    EVOQ_TRY(c.Expect("]"));
    return Shape::UnknownRank();
  }
  std::vector<Dim> dims;
  while (!c.Take("]")) {
    if (!dims.empty()) EVOQ_TRY(c.Expect(","));
    if (c.Take("?")) {
      dims.push_back(Dim());
    } else if (auto number = c.NumberOf<int64_t>()) {
      dims.push_back(Dim(*number));
    } else {
      EVOQ_ASSIGN(std::string symbol, c.Name());
      while (c.Take("+")) {  // a sum of symbols: "past + sequence + 1"
        EVOQ_ASSIGN(const std::string term, c.Name());
        symbol += " + " + term;
      }
      dims.push_back(Dim::Symbolic(symbol));
    }
  }
  return Shape(dims);
}

Result<TensorType> ParseType(Cursor& c) {
  EVOQ_ASSIGN(const std::string name, c.Name());
  const auto dtype = DTypeFromName(name);
  if (!dtype) return c.Bad(fmt::format("'{}' is no element type", name));
  EVOQ_ASSIGN(Shape shape, ParseShape(c));
  if (!c.Take("(")) return TensorType(*dtype, std::move(shape));
  QuantParams q;
  if (c.Take("scale")) {
    EVOQ_ASSIGN(const float scale, c.NumberOf<float>());
    EVOQ_TRY(c.Expect(", zero"));
    EVOQ_ASSIGN(const int32_t zero, c.NumberOf<int32_t>());
    q = QuantParams::PerTensor(scale, zero);
  } else {
    EVOQ_ASSIGN(const int64_t count, c.NumberOf<int64_t>());
    EVOQ_TRY(c.Expect("scales on axis"));
    EVOQ_ASSIGN(q.axis, c.NumberOf<int>());
    if (count < 1 || count > 1 << 20) return c.Bad("expected 1 to 1048576 scales");
    q.scales.assign(static_cast<size_t>(count), 1.0f);
    q.zero_points.assign(static_cast<size_t>(count), 0);
    if (c.Take(", block")) {
      EVOQ_ASSIGN(q.block, c.NumberOf<int64_t>());
    }
  }
  EVOQ_TRY(c.Expect(")"));
  return TensorType(*dtype, std::move(shape), std::move(q));
}

Result<AttrValue> ParseAttr(Cursor& c) {
  if (c.Next('"')) {
    EVOQ_ASSIGN(std::string text, c.QuotedText());
    return AttrValue(std::move(text));
  }
  if (c.Take("<")) {
    EVOQ_ASSIGN(const TensorType type, ParseType(c));
    EVOQ_TRY(c.Expect(">"));
    if (!type.bytes() || *type.bytes() > (1 << 28)) return c.Bad("expected a small static type");
    return AttrValue(Tensor::Allocate(type));
  }
  if (!c.Take("[")) {
    EVOQ_ASSIGN(const Cursor::Number v, c.AnyNumber());
    return v.whole ? AttrValue(*v.whole) : AttrValue(static_cast<float>(v.value));
  }
  std::vector<float> numbers;
  std::vector<int64_t> wholes;  // those of numbers
  std::vector<std::string> strings;
  while (!c.Take("]")) {
    if (!numbers.empty() || !strings.empty()) EVOQ_TRY(c.Expect(","));
    if (c.Next('"')) {
      EVOQ_ASSIGN(std::string text, c.QuotedText());
      strings.push_back(std::move(text));
      continue;
    }
    EVOQ_ASSIGN(const Cursor::Number v, c.AnyNumber());
    numbers.push_back(static_cast<float>(v.value));
    if (v.whole) wholes.push_back(*v.whole);
  }
  if (!strings.empty()) return AttrValue(std::move(strings));
  if (wholes.size() < numbers.size()) return AttrValue(std::move(numbers));
  return AttrValue(std::move(wholes));
}

Result<Tensor> ParseConstant(Cursor& c, const TensorType& type) {
  const auto bytes = type.bytes();
  if (!bytes || *bytes > (int64_t{1} << 28))
    return c.Bad("expected a constant with a static type of at most 256 MiB");
  Tensor tensor = Tensor::Allocate(type);
  if (!c.Take("=")) return tensor;
  EVOQ_TRY(c.Expect("["));
  switch (type.dtype) {
    case DType::kFloat32:
      EVOQ_TRY(c.NumbersTo(tensor.mutable_data<float>(), tensor.elements()));
      break;
    case DType::kInt64:
      EVOQ_TRY(c.NumbersTo(tensor.mutable_data<int64_t>(), tensor.elements()));
      break;
    case DType::kInt32:
      EVOQ_TRY(c.NumbersTo(tensor.mutable_data<int32_t>(), tensor.elements()));
      break;
    case DType::kInt8:
      EVOQ_TRY(c.NumbersTo(tensor.mutable_data<int8_t>(), tensor.elements()));
      break;
    case DType::kUint8:
      EVOQ_TRY(c.NumbersTo(tensor.mutable_data<uint8_t>(), tensor.elements()));
      break;
    case DType::kBool: {
      std::vector<uint8_t> bits(static_cast<size_t>(tensor.elements()));
      EVOQ_TRY(c.NumbersTo(bits.data(), tensor.elements()));
      std::copy(bits.begin(), bits.end(), tensor.mutable_data<bool>());
      break;
    }
    default:
      return c.Bad(fmt::format("values of {} cannot be written as text", DTypeName(type.dtype)));
  }
  return tensor;
}

Result<ValueId> ParseUse(Cursor& c, const Graph& graph) {
  if (c.Take("_")) return ValueId{};
  EVOQ_TRY(c.Expect("%"));
  EVOQ_ASSIGN(const std::string name, c.Name());
  const ValueId id = graph.FindValue(name);
  if (!id.valid()) return c.Bad(fmt::format("value %{} is not defined above", name));
  return id;
}

using Bodies = std::vector<std::shared_ptr<const Graph>>;

// name: %a: type, %b: type = domain::Op{attrs}(%x, _), with the subgraphs of the lines below it
Status ParseNode(Cursor& c, Graph& graph, Bodies bodies) {
  Node node;
  node.bodies = std::move(bodies);
  EVOQ_ASSIGN(node.name, c.Name());
  EVOQ_TRY(c.Expect(":"));
  while (!c.Take("=")) {
    if (!node.outputs.empty()) EVOQ_TRY(c.Expect(","));
    if (c.Take("_")) {
      node.outputs.push_back({});
      continue;
    }
    EVOQ_TRY(c.Expect("%"));
    EVOQ_ASSIGN(const std::string name, c.Name());
    TensorType type;
    if (c.Take(":")) {
      EVOQ_ASSIGN(type, ParseType(c));
    }
    if (graph.FindValue(name).valid())
      return c.Bad(fmt::format("value %{} is defined twice", name));
    node.outputs.push_back(graph.AddValue(name, type));
  }
  EVOQ_ASSIGN(node.op, c.Name());
  if (const size_t at = node.op.find("::"); at != std::string::npos) {
    node.domain = node.op.substr(0, at);
    node.op = node.op.substr(at + 2);
  }
  if (c.Take("{")) {
    bool first = true;
    while (!c.Take("}")) {
      if (!first) EVOQ_TRY(c.Expect(","));
      first = false;
      EVOQ_ASSIGN(const std::string name, c.Name());
      EVOQ_TRY(c.Expect("="));
      EVOQ_ASSIGN(AttrValue value, ParseAttr(c));
      node.attrs.Set(name, std::move(value));
    }
  }
  EVOQ_TRY(c.Expect("("));
  while (!c.Take(")")) {
    if (!node.inputs.empty()) EVOQ_TRY(c.Expect(","));
    EVOQ_ASSIGN(const ValueId id, ParseUse(c, graph));
    node.inputs.push_back(id);
  }
  graph.AddNode(std::move(node));
  return {};
}

Status ParseLine(Cursor& c, Graph& graph, Bodies bodies) {
  if (c.Take("graph ")) {
    EVOQ_ASSIGN(graph.name, c.Name());
    return {};
  }
  const bool input = c.Take("input %");
  if (input || c.Take("const %")) {
    EVOQ_ASSIGN(const std::string name, c.Name());
    EVOQ_TRY(c.Expect(":"));
    EVOQ_ASSIGN(const TensorType type, ParseType(c));
    if (graph.FindValue(name).valid())
      return c.Bad(fmt::format("value %{} is defined twice", name));
    if (input) {
      graph.AddInput(name, type);
      return {};
    }
    EVOQ_ASSIGN(Tensor tensor, ParseConstant(c, type));
    graph.AddConstant(name, std::move(tensor));
    return {};
  }
  if (c.Take("output ")) {
    EVOQ_ASSIGN(const ValueId id, ParseUse(c, graph));
    if (!id.valid()) return c.Bad("expected a value");
    graph.MarkOutput(id);
    return {};
  }
  return ParseNode(c, graph, std::move(bodies));
}

// The subgraphs in the lines that begin with '|', without it; each begins with its graph line.
Result<Bodies> ParseBodies(std::string_view& text, int& number) {
  std::vector<std::string> parts;
  while (text.starts_with("| ")) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(2, end == std::string_view::npos ? end : end - 2);
    if (line.starts_with("graph ") || parts.empty()) parts.emplace_back();
    parts.back().append(line).append("\n");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
  }
  Bodies bodies;
  for (const std::string& part : parts) {
    EVOQ_ASSIGN(Graph body, ParseGraph(part));
    bodies.push_back(std::make_shared<const Graph>(std::move(body)));
  }
  return bodies;
}

}  // namespace

std::string Print(const Graph& graph) {
  std::string out;
  if (!graph.name.empty()) out += fmt::format("graph {}\n", Quoted(graph.name));
  const auto name = [&](ValueId id) {
    return id.valid() ? "%" + Quoted(graph.value(id).name) : std::string("_");
  };
  for (ValueId id : graph.inputs())
    out += fmt::format("input {}: {}\n", name(id), Printable(graph.value(id).type.ToString()));
  std::vector<bool> printed(graph.value_count());
  const auto constant = [&](ValueId id) {
    if (!id.valid() || printed[id.index] || !graph.value(id).is_constant()) return;
    printed[id.index] = true;
    const Value& v = graph.value(id);
    out += fmt::format("const {}: {}{}", name(id), Printable(v.type.ToString()),
                       PrintValues(v.constant));
    out += v.constant.layout().empty() ? "\n" : fmt::format(" in {}\n", v.constant.layout());
  };
  for (NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    for (ValueId in : n.inputs) constant(in);
    std::vector<std::string> outputs, inputs;
    for (ValueId v : n.outputs) {
      const bool typed = v.valid() && graph.value(v).type.dtype != DType::kUndefined;
      outputs.push_back(typed ? name(v) + ": " + Printable(graph.value(v).type.ToString())
                              : name(v));
    }
    for (ValueId v : n.inputs) inputs.push_back(name(v));
    out += fmt::format("{}: {} = {}{}{}({})\n", Quoted(n.name), fmt::join(outputs, ", "),
                       n.domain.empty() ? "" : n.domain + "::", n.op, PrintAttrs(n.attrs),
                       fmt::join(inputs, ", "));
    for (const auto& body : n.bodies) {
      std::string text = Print(*body);
      if (body->name.empty()) text = "graph body\n" + text;
      for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        out += "| " + text.substr(at, end + 1 - at);
    }
  }
  for (ValueId id : graph.outputs()) {
    constant(id);
    out += fmt::format("output {}\n", name(id));
  }
  return out;
}

Result<Graph> ParseGraph(std::string_view text) {
  Graph graph;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    Cursor cursor(line, ++number);
    if (cursor.AtEnd() || cursor.Next('#')) continue;
    EVOQ_ASSIGN(Bodies bodies, ParseBodies(text, number));
    EVOQ_TRY(ParseLine(cursor, graph, std::move(bodies)));
    if (!cursor.AtEnd()) return cursor.Bad("expected the end of the line");
  }
  EVOQ_TRY(graph.Sort());
  return graph;
}

}  // namespace evoq
