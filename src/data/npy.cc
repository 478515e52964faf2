#include "data/npy.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/brief.h"
#include "base/file.h"
#include "base/math.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/zip.h"

namespace evoq {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct DescrRow {
  const char* descr;
  DType dtype;
};
// What NumPy writes on little-endian machines.
constexpr DescrRow kDescrs[] = {
    {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"<f2", DType::kFloat16},
    {"|u1", DType::kUint8},   {"|i1", DType::kInt8},    {"<u2", DType::kUint16},
    {"<i2", DType::kInt16},   {"<u4", DType::kUint32},  {"<i4", DType::kInt32},
    {"<u8", DType::kUint64},  {"<i8", DType::kInt64},   {"|b1", DType::kBool},
};

// A cursor over the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape':
// (3, 4), }.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  void SkipBlanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Take('\'') ? '\'' : Take('"') ? '"' : '\0';
    const size_t end = quote ? text_.find(quote, at_) : std::string_view::npos;
    if (end == std::string_view::npos) return std::nullopt;
    std::string s(text_.substr(at_, end - at_));
    at_ = end + 1;
    return s;
  }
  std::optional<bool> Boolean() {
    SkipBlanks();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), value;
    }
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> Tuple() {
    if (!Take('(')) return std::nullopt;
    std::vector<int64_t> items;
    while (!Take(')')) {
      int64_t v = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
      if (error != std::errc() || v < 0) return std::nullopt;
      at_ = end - text_.data();
      items.push_back(v);
      if (!Take(',') && (at_ >= text_.size() || text_[at_] != ')')) return std::nullopt;
      SkipBlanks();
    }
    return items;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

Result<DType> DTypeOfDescr(const std::string& descr) {
  for (const DescrRow& row : kDescrs) {
    if (descr == row.descr) return row.dtype;
  }
  if (!descr.empty() && descr[0] == '>')
    return Unsupported("npy: big-endian data ('{}'), expected little-endian", Shorten(descr));
  const std::string_view kind = std::string_view(descr).substr(0, 2);
  if (kind == "<U" || kind == "|S" || kind == "|O")
    return Unsupported(
        "npy: strings ('{}'), which files do not give to a model: evoq.load(MODEL).run() in Python "
        "takes them",
        Shorten(descr));
  return Unsupported("npy: element type '{}', expected a little-endian number type such as '<f4'",
                     Shorten(descr));
}

Status CheckShape(std::span<const int64_t> sizes) {
  constexpr size_t kMaxRank = 64;
  constexpr int64_t kMaxEmptyProduct = 1 << 26;
  if (sizes.size() > kMaxRank)
    return InvalidInput("npy: {} axes, expected at most {}", sizes.size(), kMaxRank);
  if (std::find(sizes.begin(), sizes.end(), 0) == sizes.end()) return {};
  std::vector<int64_t> others(sizes.begin(), sizes.end());
  std::erase(others, 0);
  if (CheckedProduct(others).value_or(INT64_MAX) <= kMaxEmptyProduct) return {};
  return InvalidInput("npy: {} has no element, but sizes beyond {}",
                      BracketedBriefly<int64_t>(sizes), kMaxEmptyProduct);
}

Result<NpyHeader> ParseDictionary(std::string_view text) {
  Literal in(text);
  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;
  bool ok = in.Take('{');
  while (ok && !in.Take('}')) {
    const auto key = in.String();
    ok = key && in.Take(':');
    if (!ok) break;
    if (*key == "descr") {
      ok = (descr = in.String()).has_value();
    } else if (*key == "fortran_order") {
      ok = (fortran = in.Boolean()).has_value();
    } else if (*key == "shape") {
      ok = (shape = in.Tuple()).has_value();
    } else {
      return InvalidInput("npy: header has the key '{}', expected descr, fortran_order and shape",
                          Shorten(*key));
    }
    in.Take(',');
  }
  if (!ok || !descr || !fortran || !shape) {
    return InvalidInput(
        "npy: header is not {{'descr': '<f4', 'fortran_order': ..., 'shape': ...}}: {}",
        Shorten(text));
  }
  EVOQ_ASSIGN(const DType dtype, DTypeOfDescr(*descr));
  EVOQ_TRY(CheckShape(*shape));
  return NpyHeader{TensorType(dtype, Shape(*shape)), *fortran, 0};
}

// Fortran order is the C order of the reversed shape: element (i0, i1, ...) stands at sum_k i_k *
// prod_{j<k} d_j.
void CopyFromFortran(const std::byte* from, const std::vector<int64_t>& sizes, size_t width,
                     std::byte* to) {
  const int rank = static_cast<int>(sizes.size());
  std::vector<int64_t> index(rank, 0), stride(rank, 1);
  for (int i = 1; i < rank; ++i) stride[i] = stride[i - 1] * sizes[i - 1];
  const int64_t count = CheckedProduct(sizes).value_or(0);
  for (int64_t n = 0; n < count; ++n) {
    int64_t at = 0;
    for (int i = 0; i < rank; ++i) at += index[i] * stride[i];
    std::memcpy(to + n * width, from + at * width, width);
    for (int i = rank - 1; i >= 0 && ++index[i] == sizes[i]; --i) index[i] = 0;
  }
}

}  // namespace

Result<std::string> NpyHeaderBytes(const TensorType& type) {
  const char* descr = nullptr;
  for (const DescrRow& row : kDescrs) {
    if (row.dtype == type.dtype) descr = row.descr;
  }
  if (!descr) return Unsupported("npy has no element type for {}", type.ToString());
  std::string shape;
  for (int64_t d : type.shape.sizes()) shape += fmt::format("{}, ", d);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  if (header.size() > 0xffff) return Unsupported("npy header of {} bytes", header.size());
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  return bytes + header;
}

Result<NpyHeader> ParseNpyHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return InvalidInput("npy: byte 0: no NPY magic");
  }
  const int version = static_cast<int>(bytes[6]);
  if (version < 1 || version > 3) return Unsupported("npy: version {}, expected 1 to 3", version);
  const size_t start = version == 1 ? 10 : 12;
  size_t length = 0;
  if (bytes.size() >= start) std::memcpy(&length, bytes.data() + 8, start - 8);
  if (bytes.size() < start || length > bytes.size() - start) {
    return InvalidInput("npy: header of {} bytes in a file of {}", length, bytes.size());
  }
  EVOQ_ASSIGN(NpyHeader header,
              ParseDictionary({reinterpret_cast<const char*>(bytes.data()) + start, length}));
  header.data_offset = start + length;
  const auto wanted = header.type.bytes();
  const size_t left = bytes.size() - header.data_offset;
  if (!wanted || *wanted != static_cast<int64_t>(left)) {
    return InvalidInput(
        "npy: {} bytes of data at byte {}, expected {} for {}", left, header.data_offset,
        wanted ? std::to_string(*wanted) : "more than fit 64 bits", header.type.ToString());
  }
  return header;
}

void NormalizeBools(Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  for (size_t i = 0; i < tensor.bytes(); ++i)
    tensor.mutable_raw()[i] = std::byte{tensor.raw()[i] != std::byte{0}};
}

Result<Tensor> ParseNpy(std::span<const std::byte> bytes) {
  EVOQ_ASSIGN(const NpyHeader header, ParseNpyHeader(bytes));
  Tensor tensor = Tensor::Allocate(header.type);
  const std::byte* data = bytes.data() + header.data_offset;
  if (header.fortran_order && header.type.shape.rank() > 1) {
    CopyFromFortran(data, tensor.sizes(), DTypeBits(tensor.dtype()) / 8, tensor.mutable_raw());
  } else if (tensor.bytes() > 0) {
    std::memcpy(tensor.mutable_raw(), data, tensor.bytes());
  }
  NormalizeBools(tensor);
  return tensor;
}

Result<Tensor> ReadNpy(const std::string& path) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  return WithContext(ParseNpy(file->bytes()), path);
}

Status WriteNpy(const Tensor& tensor, const std::string& path) {
  if (!tensor.layout().empty())
    return Unsupported("{}: a tensor in the layout {}", path, tensor.layout());
  EVOQ_ASSIGN(const std::string header, WithContext(NpyHeaderBytes(tensor.type()), path));
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)),
                                               {tensor.raw(), tensor.bytes()}};
  return WriteFileAtomic(path, pieces);
}

namespace {

// A member's array. Where its bytes are already what the tensor holds, it keeps them instead of a
// copy.
Result<Tensor> ParseMember(std::vector<std::byte> unpacked, Budget& budget) {
  EVOQ_ASSIGN(const NpyHeader header, ParseNpyHeader(unpacked));
  const bool in_place = !header.fortran_order && header.type.dtype != DType::kBool &&
                        header.data_offset % (DTypeBits(header.type.dtype) / 8) == 0;
  if (in_place) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(unpacked));
    return Tensor::View(header.type, owner->data() + header.data_offset, owner);
  }
  EVOQ_TRY(budget.TakeMemory(header.type.bytes().value_or(-1), "array"));
  EVOQ_ASSIGN(Tensor tensor, ParseNpy(unpacked));
  budget.GiveMemory(static_cast<int64_t>(unpacked.size()));
  return tensor;
}

}  // namespace

Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path) {
  EVOQ_ASSIGN(auto file, MappedFile::Open(path));
  Budget budget = Budget::ForFile(static_cast<int64_t>(file->bytes().size()));
  EVOQ_ASSIGN(const std::vector<ZipMember> members,
              WithContext(ReadZipDirectory(file->bytes()), path));
  std::map<std::string, Tensor> arrays;
  for (const ZipMember& member : members) {
    std::string name = member.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    const std::string place = path + ": " + Shorten(name);
    if (arrays.count(name)) return InvalidInput("{}: occurs twice", place);
    EVOQ_ASSIGN(std::vector<std::byte> bytes, WithContext(UnpackMember(member, budget), place));
    auto array = WithContext(ParseMember(std::move(bytes), budget), place);
    if (array) {
      arrays[name] = std::move(*array);
    } else if (array.error().code() == ErrorCode::kUnsupported) {
      budget.GiveMemory(member.bytes);
    } else {
      return tl::unexpected<Error>(std::move(array.error()));
    }
  }
  return arrays;
}

}  // namespace evoq
