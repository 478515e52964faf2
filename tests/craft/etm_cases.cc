#include "tests/craft/etm_cases.h"

#include <cstring>

#include "tensor/dtype.h"
#include "tests/craft/etm.h"

namespace evoq::craft {
namespace {

using fb::AttrKind;

// ---- the container

template <typename Change>
std::string File(Change change) {
  EtmFile file = FileOf(EtmModel());
  change(file);
  return Write(file);
}

// Empty blobs that may be ignored, up to `count` of all.
void AddBlobs(EtmFile& file, size_t count) {
  while (file.blobs.size() < count)
    file.blobs.push_back(
        {.name = "b" + std::to_string(file.blobs.size()), .required = 0, .alignment = 1});
}

std::vector<EtmCase> ContainerCases() {
  using F = EtmFile&;
  const std::string good = Write(EtmModel());
  const std::string zeros(70000, '\0');
  return {
      {"good", good, ""},
      {"good, compressed", File([](F f) { f.blobs[0].zstd = f.blobs[2].zstd = true; }), ""},
      {"good, with a blob that may be ignored",
       File([](F f) { f.blobs.push_back({.name = "future", .bytes = "?", .required = 0}); }), ""},
      {"good, a name of 15 bytes",
       File([](F f) { f.blobs.push_back({.name = "fifteen_letters", .required = 0}); }), ""},
      {"good, no plans", File([](F f) { f.blobs.erase(f.blobs.begin() + 1); }), ""},
      {"good, expands 256 times and 64 KiB", File([&](F f) {
         f.blobs.push_back({.name = "zeros", .bytes = zeros, .zstd = true, .required = 0});
       }),
       ""},
      {"shorter than a header", good.substr(0, 31),
       "31 bytes, expected at least the 32 of an .etm header"},
      {"another magic", File([](F f) { f.magic = "EvoTiny\r"; }),
       "no .etm file: the first 8 bytes are not its magic"},
      {"header checksum", File([](F f) { f.header_crc = 1; }),
       "the header's checksum does not match"},
      {"version", File([](F f) { f.version = 2; }), "version 2, expected 1"},
      {"size, truncated", File([&](F f) { f.size = good.size() + 1; }),
       "the file is truncated or has a tail"},
      {"size, longer", File([&](F f) { f.size = good.size() - 1; }),
       "the file is truncated or has a tail"},
      {"good, 1024 entries", File([](F f) { AddBlobs(f, 1024); }), ""},
      {"1025 entries", File([](F f) { AddBlobs(f, 1025); }),
       "a directory of 1025 entries does not fit the file"},
      {"a directory past the end", File([](F f) { f.count = 1000; }),
       "a directory of 1000 entries does not fit the file"},
      {"directory checksum", File([](F f) { f.directory_crc = 1; }),
       "the directory's checksum does not match"},
      {"an entry without a name", File([](F f) { f.blobs[1].name = ""; }),
       "directory entry 1: the name is empty or not terminated"},
      {"a name of 16 bytes", File([](F f) { f.blobs[1].name = "sixteen__letters"; }),
       "directory entry 1: the name is empty or not terminated"},
      {"a blob that begins past the end", File([](F f) { f.blobs[2].offset = 1 << 20; }),
       "expected to end within the file's"},
      {"a blob that ends past the end",
       File([](F f) { f.blobs[2].stored_bytes = f.blobs[2].raw_bytes = 25; }),
       "expected to end within the file's"},
      {"offset + length overflow", File([](F f) {
         f.blobs[2].offset = 8, f.blobs[2].stored_bytes = f.blobs[2].raw_bytes = UINT64_MAX;
       }),
       "expected to end within the file's"},
      {"codec", File([](F f) { f.blobs[1].codec = 2; }),
       "blob 'plans' has codec 2, expected 0 or 1"},
      {"raw bytes that differ from the stored ones", File([](F f) { f.blobs[2].raw_bytes = 25; }),
       "blob 'weights' claims 25 decoded bytes, expected at most 24"},
      {"raw bytes that are fewer", File([](F f) { f.blobs[2].raw_bytes = 23; }),
       "blob 'weights' claims 23 decoded bytes"},
      {"expands beyond 256 times and 64 KiB", File([&](F f) {
         f.blobs.push_back({.name = "zeros",
                            .zstd = true,
                            .required = 0,
                            .stored = "12345678",
                            .raw_bytes = 8 * 256 + 65537});
       }),
       "blob 'zeros' claims 67585 decoded bytes, expected at most 67584"},
      {"expands beyond 1 GiB", File([&](F f) {
         f.blobs.push_back({.name = "zeros",
                            .zstd = true,
                            .required = 0,
                            .stored = std::string(5 << 20, '?'),
                            .raw_bytes = (1 << 30) + 1});
       }),
       "blob 'zeros' claims 1073741825 decoded bytes, expected at most 1073741824"},
      {"overlaps the directory", File([](F f) { f.blobs[0].offset = 175; }),
       "blob 'graph' overlaps what stands before it"},
      {"overlaps another blob", File([](F f) { f.blobs[2].offset = 176; }),
       "blob 'weights' overlaps what stands before it"},
      {"a name twice", File([](F f) { f.blobs[1].name = "graph"; }), "blob 'graph' appears twice"},
      {"blob checksum", File([](F f) { f.blobs[2].crc = 1; }),
       "blob 'weights': the checksum does not match: the file is damaged"},
      {"a tail", File([](F f) { f.tail = "tail"; }), "4 bytes after the last blob"},
      {"no zstd data",
       File([](F f) { f.blobs[2].zstd = true, f.blobs[2].stored = "not compressed"; }),
       "blob 'weights' does not decode to 24 bytes: "},
      {"zstd data of fewer bytes",
       File([](F f) { f.blobs[2].zstd = true, f.blobs[2].raw_bytes = 25; }),
       "blob 'weights' does not decode to 25 bytes"},
      {"zstd data of more bytes",
       File([](F f) { f.blobs[2].zstd = true, f.blobs[2].raw_bytes = 23; }),
       "blob 'weights' does not decode to 23 bytes"},
      {"no graph", File([](F f) { f.blobs.erase(f.blobs.begin()); }),
       "the blob 'graph' is missing"},
      {"no weights", File([](F f) { f.blobs.erase(f.blobs.begin() + 2); }),
       "the blob 'weights' is missing"},
      {"an unknown blob that is required", File([](F f) { f.blobs.push_back({.name = "future"}); }),
       "needs the blob 'future', which this version of evoq does not know"},
      {"tables at an odd place", File([](F f) {
         f.blobs[0].alignment = 1,
         f.blobs.insert(f.blobs.begin(), {.name = "a", .bytes = "1", .required = 0});
       }),
       "blob 'graph' does not stand at a multiple of 8 bytes"},
  };
}

// ---- FlatBuffers by hand

// A graph whose only field is its name.
struct Named {
  RawTables raw;
  int root, name, text, layout, table;

  Named() {
    root = raw.U32(0);
    layout = raw.at();
    name = raw.Table({true});
    table = raw.last_table;
    raw.Point(root, table);
    text = raw.U32(1);
    raw.Text(std::string("a\0\0\0", 4));
    raw.Point(name, text);
  }
  void Set16(int at, uint16_t value) {
    raw.bytes.replace(static_cast<size_t>(at), 2, reinterpret_cast<const char*>(&value), 2);
  }
  void Set32(int at, uint32_t value) {
    raw.bytes.replace(static_cast<size_t>(at), 4, reinterpret_cast<const char*>(&value), 4);
  }
};

std::string GraphFile(const std::string& graph) {
  return File([&](EtmFile& f) { f.blobs[0].bytes = graph; });
}

template <typename Change>
std::string NamedFile(Change change) {
  Named named;
  change(named);
  return GraphFile(named.raw.bytes);
}

// values[0].type.dims are `count` numbers that begin at a multiple of 8 plus `rest`.
std::string DimsFile(int rest, uint32_t count) {
  RawTables raw;
  const int root = raw.U32(0);
  const int values = raw.Table({false, false, true});
  raw.Point(root, raw.last_table);
  const int list = raw.U32(1), value = raw.U32(0);
  raw.Point(values, list);
  const int name = raw.Table({true, true}), type_at = name + 4;
  raw.Point(value, raw.last_table);
  const int text = raw.U32(1);
  raw.Text(std::string("x\0\0\0", 4));
  raw.Point(name, text);
  const int dims = raw.Table({false, false, true});
  raw.Point(type_at, raw.last_table);
  raw.AlignTo(8, (rest + 4) % 8);
  const int vector = raw.U32(count);
  raw.Point(dims, vector);
  for (uint32_t i = 0; i < count; ++i) raw.U32(2), raw.U32(0);
  return GraphFile(raw.bytes);
}

// Graphs in nodes of graphs.
std::string Nested(int depth) {
  RawTables raw;
  int from = raw.U32(0);
  for (int i = 0; i <= depth; ++i) {
    const int nodes = raw.Table({false, false, false, true});
    raw.Point(from, raw.last_table);
    if (i == depth) {  // no nodes
      raw.Point(nodes, raw.U32(0));
      break;
    }
    raw.Point(nodes, raw.U32(1));
    const int node = raw.U32(0);
    const int bodies = raw.Table({false, false, false, false, false, false, true});
    raw.Point(node, raw.last_table);
    raw.Point(bodies, raw.U32(1));
    from = raw.U32(0);
  }
  return GraphFile(raw.bytes);
}

std::vector<EtmCase> TableCases() {
  using N = Named&;
  const std::string end = "is not a valid table: byte ", past = "reaches past the end",
                    no_outputs = "";
  return {
      {"good tables by hand", NamedFile([](N) {}), ""},
      {"an empty table", GraphFile(""), past},
      {"a root past the end", NamedFile([](N n) { n.Set32(n.root, 1000); }), past},
      {"a root of 0", NamedFile([](N n) { n.Set32(n.root, 0); }), "an offset of 0"},
      {"a root that is not aligned",
       NamedFile([](N n) { n.Set32(n.root, static_cast<uint32_t>(n.table) + 2); }),
       "is not aligned"},
      {"a layout before the blob", NamedFile([](N n) { n.Set32(n.table, 1000); }),
       "its layout lies before the blob"},
      {"a layout past the end",
       NamedFile([](N n) { n.Set32(n.table, static_cast<uint32_t>(-1000)); }), past},
      {"a layout at an odd place",
       NamedFile([](N n) { n.Set32(n.table, static_cast<uint32_t>(n.table - n.layout - 1)); }),
       "is not aligned"},
      {"a layout of 2 bytes", NamedFile([](N n) { n.Set16(n.layout, 2); }), "a bad layout"},
      {"a layout of odd length", NamedFile([](N n) { n.Set16(n.layout, 7); }), "a bad layout"},
      {"a layout that ends past the end", NamedFile([](N n) { n.Set16(n.layout, 60000); }), past},
      {"a table that ends past the end", NamedFile([](N n) { n.Set16(n.layout + 2, 1000); }), past},
      {"a table of 3 bytes", NamedFile([](N n) { n.Set16(n.layout + 2, 3); }), past},
      {"a field in its table's first 4 bytes", NamedFile([](N n) { n.Set16(n.layout + 4, 2); }),
       "a field outside of its table"},
      {"a field past its table", NamedFile([](N n) { n.Set16(n.layout + 4, 8); }),
       "a field outside of its table"},
      {"a field that is not aligned",
       NamedFile([](N n) { n.Set16(n.layout + 2, 10), n.Set16(n.layout + 4, 6); }),
       "is not aligned"},
      {"a text past the end", NamedFile([](N n) { n.Set32(n.name, 100); }), past},
      {"a text that ends past the end", NamedFile([](N n) { n.Set32(n.text, 4); }), past},
      {"a text of 2^32 - 1 bytes", NamedFile([](N n) { n.Set32(n.text, UINT32_MAX); }), past},
      {"a text without its 0", NamedFile([](N n) { n.Set32(n.text, 0); }),
       "a string without its end"},
      {"good, 64-bit numbers", DimsFile(0, 2), ""},
      {"good, no numbers at an odd place", DimsFile(4, 0), ""},
      {"64-bit numbers at an odd place", DimsFile(4, 2), "is not aligned"},
      {"more numbers than bytes", NamedFile([](N n) {
         RawTables raw;
         const int root = raw.U32(0);
         const int inputs = raw.Table({false, false, false, false, true});
         raw.Point(root, raw.last_table);
         raw.Point(inputs, raw.U32(0x40000001));  // times 4 is 4
         raw.U32(0);
         n.raw = raw;
       }),
       past},
      {"good, no nodes by hand", Nested(0), ""},
      {"20 subgraphs deep", Nested(20), "tables nested more than 32 deep"},
  };
}

// ---- what the tables say

template <typename Change>
std::string Model(Change change) {
  EtmModel model;
  change(model);
  return Write(model);
}

std::unique_ptr<fb::AttrT> Attr(AttrKind kind) {
  auto attr = std::make_unique<fb::AttrT>();
  attr->name = "k", attr->kind = kind;
  return attr;
}

std::unique_ptr<fb::GraphT> Body(int depth) {
  auto body = std::make_unique<fb::GraphT>();
  body->name = "body";
  if (depth == 0) return body;
  body->nodes.push_back(std::make_unique<fb::NodeT>());
  body->nodes[0]->op = "If", body->nodes[0]->name = "inner";
  body->nodes[0]->bodies.push_back(Body(depth - 1));
  return body;
}

std::vector<EtmCase> ModelCases() {
  using M = EtmModel&;
  const auto copy_constant = [](M m, uint64_t offset, uint64_t bytes) {
    m.value(2).constant->offset = offset, m.value(2).constant->bytes = bytes;
  };
  return {
      {"good, attributes of each kind", Model([](M m) {
         for (int kind = 0; kind < 7; ++kind) {
           m.node().attrs.push_back(Attr(static_cast<AttrKind>(kind)));
           m.node().attrs.back()->name = "k" + std::to_string(kind);
         }
         m.node().attrs.back()->tensor_type = std::make_unique<fb::TypeT>();
         m.node().attrs.back()->tensor_type->dtype = 1,
         m.node().attrs.back()->tensor_type->dims = {2};
         m.node().attrs.back()->tensor = std::make_unique<fb::ConstantT>();
         m.node().attrs.back()->tensor->offset = 16, m.node().attrs.back()->tensor->bytes = 8;
       }),
       ""},
      {"good, 8 subgraphs deep", Model([](M m) { m.node().bodies.push_back(Body(7)); }), ""},
      {"good, an omitted input", Model([](M m) { m.node().inputs = {0, -1, 2}; }), ""},
      {"good, a constant of no elements at the end",
       Model([&](M m) { m.value(2).type->dims = {0}, copy_constant(m, 24, 0); }), ""},
      {"constant past the end", Model([&](M m) { copy_constant(m, 20, 8); }),
       "value b: bytes 20..+8 lie outside the 24 bytes of the blob 'weights'"},
      {"constant that begins past the end",
       Model([&](M m) { m.value(2).type->dims = {0}, copy_constant(m, 25, 0); }),
       "value b: bytes 25..+0 lie outside"},
      {"offset + bytes overflow", Model([&](M m) { copy_constant(m, 8, UINT64_MAX - 3); }),
       "lie outside the 24 bytes of the blob 'weights'"},
      {"no scales", Model([](M m) { m.value(1).type->quant->scale_count = 0; }),
       "value w: 0 scales"},
      {"2^22 + 1 scales", Model([](M m) { m.value(1).type->quant->scale_count = (1 << 22) + 1; }),
       "value w: 4194305 scales"},
      {"scales past the end", Model([](M m) { m.value(1).type->quant->scales_offset = 17; }),
       "value w: bytes 17..+8 lie outside"},
      {"good, float16 scales", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.half_scale_count = 2, quant.half_scales_offset = 8;
       }),
       ""},
      {"float16 scales past the end", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.half_scale_count = 2, quant.half_scales_offset = 21;
       }),
       "value w: bytes 21..+4 lie outside"},
      {"2^32 - 1 float16 scales", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.half_scale_count = UINT32_MAX;
       }),
       "value w: "},
      {"scales of both kinds", Model([](M m) { m.value(1).type->quant->half_scale_count = 2; }),
       "value w: 2 scales, 2 float16 scales and 0 float8e8m0 scales"},
      {"scales of two short kinds", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.half_scale_count = 2, quant.exponent_scale_count = 2;
       }),
       "value w: 0 scales, 2 float16 scales and 2 float8e8m0 scales"},
      {"float8e8m0 scales past the end", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.exponent_scale_count = 2, quant.exponent_scales_offset = 23;
       }),
       "value w: bytes 23..+2 lie outside"},
      {"packed zero points beside others", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.zeros = {1, 2}, quant.packed_zeros = true;
       }),
       "value w: packed zero points of int8 beside others"},
      {"packed zero points past the end", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.packed_zeros = true, quant.packed_zeros_offset = 23;
       }),
       "value w: bytes 23..+2 lie outside"},
      {"scales inside of a plain constant", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.inside = 1;
       }),
       "value w: scales inside of a plain constant, which holds none"},
      {"scales inside and beside", Model([](M m) { m.value(1).type->quant->inside = 2; }),
       "value w: scales inside and beside a constant"},
      {"scales inside, of kind 3", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.inside = 3;
       }),
       "value w: scales inside of kind 3, expected 1 or 2"},
      {"scales inside of what is no constant", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.inside = 1, m.value(1).constant.reset();
       }),
       "value w: scales inside of a value that is no constant"},
      {"scales inside, without an axis", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.inside = 1, quant.axis = -1;
       }),
       "value w: scales inside of int8"},
      {"a stream cut short", Model([](M m) {
         auto& quant = *m.value(1).type->quant;
         quant.scale_count = 0, quant.inside = 1, quant.axis = 1;
         m.value(1).type->dims = {2, 2}, m.value(1).constant->layout = "stream-matmul-w8";
       }),
       "in stream-matmul-w8, expected 192"},
      {"zero points, fewer than scales", Model([](M m) { m.value(1).type->quant->zeros = {1}; }),
       "value w: 1 zero points for 2 scales"},
      {"zero points, more than scales",
       Model([](M m) { m.value(1).type->quant->zeros = {1, 2, 3}; }),
       "value w: 3 zero points for 2 scales"},
      {"axis -2", Model([](M m) { m.value(1).type->quant->axis = -2; }),
       "value w: quantization axis -2, block 0"},
      {"axis 32", Model([](M m) { m.value(1).type->quant->axis = 32; }),
       "value w: quantization axis 32, block 0"},
      {"block -1", Model([](M m) { m.value(1).type->quant->block = -1; }),
       "value w: quantization axis 0, block -1"},
      {"a zero point beyond int8", Model([](M m) { m.value(1).type->quant->zero = 128; }),
       "value w: "},
      {"element type 99", Model([](M m) { m.value(0).type->dtype = 99; }),
       "value x: element type number 99"},
      {"kind 4", Model([](M m) { m.value(0).type->kind = 4; }), "value x: value kind 4"},
      {"kind -1", Model([](M m) { m.value(0).type->kind = -1; }), "value x: value kind -1"},
      {"good, rank 32", Model([](M m) { m.value(0).type->dims.assign(32, 1); }), ""},
      {"rank 33", Model([](M m) { m.value(0).type->dims.assign(33, 1); }),
       "value x: rank 33, expected at most 32"},
      {"symbols of another rank", Model([](M m) { m.value(0).type->symbols = {"N"}; }),
       "value x: 1 symbols for rank 2"},
      {"good, a symbol",
       Model([](M m) { m.value(0).type->symbols = {"N", ""}, m.value(0).type->dims = {-1, 2}; }),
       ""},
      {"dimension -2", Model([](M m) { m.value(0).type->dims = {1, -2}; }),
       "value x: a dimension of -2"},
      {"strings, fewer than elements", Model([](M m) { m.value(3).constant->strings = {"one"}; }),
       "value words: 1 strings for string[2]"},
      {"strings, more than elements",
       Model([](M m) { m.value(3).constant->strings = {"1", "2", "3"}; }),
       "value words: 3 strings for string[2]"},
      {"a sequence of strings", Model([](M m) { m.value(3).type->kind = 1; }),
       "value words: 2 strings for "},
      {"a constant of a free size", Model([](M m) { m.value(2).type->dims = {-1}; }),
       "value b: a constant of type float32[?], expected a static shape"},
      {"a constant of 2^80 elements",
       Model([](M m) { m.value(2).type->dims = {int64_t{1} << 40, int64_t{1} << 40}; }),
       "value b: a constant of type "},
      {"good, blocks", Model([](M m) {
         m.value(1).type->quant->block = 2, m.value(1).type->quant->axis = 1;
         m.value(1).type->dims = {1, 4};
       }),
       ""},
      {"blocks, more than scales",
       Model([](M m) { m.value(1).type->quant->block = 1, m.value(1).type->quant->axis = 1; }),
       "value w: 2 scales for [2, 2], expected one per block of 1 on axis 1"},
      {"an unknown layout", Model([](M m) { m.value(2).constant->layout = "diagonal"; }),
       "value b: unknown tensor layout 'diagonal'"},
      {"fewer bytes than the type", Model([&](M m) { copy_constant(m, 16, 4); }),
       "value b: 4 bytes for float32[2], expected 8"},
      {"more bytes than the type", Model([&](M m) { copy_constant(m, 8, 16); }),
       "value b: 16 bytes for float32[2], expected 8"},
      {"bytes for another layout", Model([](M m) { m.value(1).constant->layout = "k4n16-matmul"; }),
       "value w: 4 bytes for int8[2, 2](2 scales on axis 0) in k4n16-matmul, expected 64"},
      {"numbers of three bits",
       Model([](M m) { m.value(1).constant->bits = 3, m.value(1).constant->factor = 1; }),
       "value w: int8[2, 2](2 scales on axis 0) in 3 bits times 1, expected int8 in 4 or 2 bits "
       "times a power of two"},
      {"numbers of four bits beyond int8",
       Model([](M m) { m.value(1).constant->bits = 4, m.value(1).constant->factor = 32; }),
       "value w: int8[2, 2](2 scales on axis 0) in 4 bits times 32, expected int8"},
      {"whole bytes of numbers of four bits",
       Model([](M m) { m.value(1).constant->bits = 4, m.value(1).constant->factor = 1; }),
       "value w: 4 bytes for int8[2, 2](2 scales on axis 0) in 4 bits, expected 2"},
      {"a bool of 2", Model([&](M m) {
         m.value(2).type->dtype = static_cast<int8_t>(DType::kBool), copy_constant(m, 8, 2);
       }),
       "value b: a byte of bool[2] is neither 0 nor 1"},
      {"a tensor attribute without a tensor",
       Model([](M m) { m.node().attrs.push_back(Attr(AttrKind::Tensor)); }),
       "node a (Add): attribute k: a tensor attribute without a tensor"},
      {"attribute kind 7",
       Model([](M m) { m.node().attrs.push_back(Attr(static_cast<AttrKind>(7))); }),
       "node a (Add): attribute k: attribute kind 7"},
      {"attribute kind -1",
       Model([](M m) { m.node().attrs.push_back(Attr(static_cast<AttrKind>(-1))); }),
       "node a (Add): attribute k: attribute kind -1"},
      {"a value twice", Model([](M m) { m.value(4).name = "x"; }), "value x appears twice"},
      {"a constant without a type", Model([](M m) { m.value(2).type.reset(); }),
       "value b: a constant must have a type and not be an input"},
      {"a constant input", Model([](M m) { m.graph.inputs = {0, 2}; }),
       "value b: a constant must have a type and not be an input"},
      {"value index past the end", Model([](M m) { m.node().inputs = {0, 5}; }),
       "node a (Add): value index 5, expected one below 5"},
      {"value index -2", Model([](M m) { m.node().inputs = {0, -2}; }),
       "node a (Add): value index -2, expected one below 5"},
      {"output index -1", Model([](M m) { m.graph.outputs = {-1}; }),
       "value index -1, expected one below 5"},
      {"an operator without a name", Model([](M m) { m.node().op = ""; }),
       "a node without operator or name"},
      {"a node without a name", Model([](M m) { m.node().name = ""; }),
       "a node without operator or name"},
      {"3 subgraphs", Model([](M m) {
         for (int i = 0; i < 3; ++i) m.node().bodies.push_back(Body(0));
       }),
       "node a (Add): 3 subgraphs at depth 0"},
      {"9 subgraphs deep", Model([](M m) { m.node().bodies.push_back(Body(8)); }),
       "node inner (If): 1 subgraphs at depth 8"},
      {"a node that writes an input", Model([](M m) { m.node().outputs = {0}; }),
       "node a (Add): output x is already an input, a constant or another node's output"},
      {"a node that writes a constant", Model([](M m) { m.node().outputs = {2}; }),
       "node a (Add): output b is already"},
      {"a node that writes a value twice", Model([](M m) { m.node().outputs = {4, 4}; }),
       "node a (Add): output y is already"},
      {"two nodes that write a value", Model([](M m) {
         m.graph.nodes.push_back(std::make_unique<fb::NodeT>(*m.graph.nodes[0]));
         m.node(1).name = "c";
       }),
       "node c (Add): output y is already"},
      {"input index past the end", Model([](M m) { m.graph.inputs = {5}; }), "input index 5"},
      {"input index -1", Model([](M m) { m.graph.inputs = {-1}; }), "input index -1"},
      {"an input twice", Model([](M m) { m.graph.inputs = {0, 0}; }), "input index 0"},
      {"an output that nothing computes", Model([](M m) { m.node().outputs = {}; }),
       "output y is not computed"},
      {"an operand that nothing computes", Model([](M m) {
         m.graph.values.push_back(std::make_unique<fb::ValueT>());
         m.value(5).name = "z", m.node().inputs = {0, 5};
       }),
       "node a: input z is not computed"},
      {"a cycle", Model([](M m) { m.node().inputs = {0, 4}; }), "node a (Add) is part of a cycle"},
  };
}

// ---- small files that stand for much

// `count` facts whose values are one text of `bytes` bytes; of `shared`, one fact `count` times.
std::string SharedText(int count, size_t bytes, bool shared) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(std::string(bytes, 'x'));
  const auto key = builder.CreateString("key");
  std::vector<flatbuffers::Offset<fb::Fact>> facts;
  for (int i = 0; i < count; ++i)
    facts.push_back(shared && i > 0 ? facts[0] : fb::CreateFact(builder, key, text));
  const auto list = builder.CreateVector(facts);
  builder.Finish(fb::CreateGraph(builder, 0, list));
  return GraphFile({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
}

// `count` values of one type with `scales` scales; what there is of them stands in the weights
// once.
std::string SharedQuant(int count, uint32_t scales) {
  flatbuffers::FlatBufferBuilder builder;
  const auto dims = builder.CreateVector(std::vector<int64_t>{scales});
  const auto quant = fb::CreateQuant(builder, 1, 0, 0, scales, 0, 0);
  const auto type =
      fb::CreateType(builder, static_cast<int8_t>(DType::kInt8), true, dims, 0, quant);
  std::vector<flatbuffers::Offset<fb::Value>> values;
  for (int i = 0; i < count; ++i)
    values.push_back(fb::CreateValue(builder, builder.CreateString("v" + std::to_string(i)), type));
  const auto list = builder.CreateVector(values);
  builder.Finish(fb::CreateGraph(builder, 0, 0, list));
  const std::string graph(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                          builder.GetSize());
  return File([&](EtmFile& f) {
    const float one = 1;
    f.blobs[0].bytes = graph;
    f.blobs[2].bytes.clear();
    for (uint32_t i = 0; i < scales; ++i)
      f.blobs[2].bytes.append(reinterpret_cast<const char*>(&one), 4);
  });
}

// `count` constants that are the same `bytes` bytes, at an odd place.
std::string SharedConstant(int count, int64_t bytes) {
  return Model([&](EtmModel& m) {
    m.weights = std::string(static_cast<size_t>(bytes) + 8, '\0');
    for (int i = 0; i < count; ++i) {
      m.graph.values.push_back(std::make_unique<fb::ValueT>());
      fb::ValueT& v = *m.graph.values.back();
      v.name = "c" + std::to_string(i);
      v.type = std::make_unique<fb::TypeT>();
      v.type->dtype = static_cast<int8_t>(DType::kUint8), v.type->dims = {bytes};
      v.constant = std::make_unique<fb::ConstantT>();
      v.constant->offset = 8, v.constant->bytes = static_cast<uint64_t>(bytes);
    }
    const float half = 0.5f;
    for (int i = 0; i < 2; ++i) std::memcpy(m.weights.data() + 4 * i, &half, 4);
  });
}

std::vector<EtmCase> BudgetCases() {
  const char* const memory = "bytes of memory, expected at most the ";
  return {
      // 128 MiB + 64 times the file is the budget; each stands for 1.3 GB or more.
      {"good, a text in 100 facts", SharedText(100, 1 << 16, false), ""},
      {"a text in 20,000 facts", SharedText(20000, 1 << 16, false), memory},
      {"a fact 20,000 times", SharedText(20000, 1 << 16, true), memory},
      {"good, 100 values of a type", SharedQuant(100, 1 << 12), ""},
      {"2,000 values of a type with 2^17 scales", SharedQuant(2000, 1 << 17), memory},
      {"2,000 constants at one place", SharedConstant(2000, 1 << 20), memory},
      {"zeros, decoded to more than the budget", File([](EtmFile& f) {
         f.blobs[2].zstd = true;
         f.blobs[2].stored = std::string(600000, '?');
         f.blobs[2].raw_bytes = int64_t{600000} * 256;
       }),
       "does not decode"},
      {"2^30 bytes, decoded from 4 MiB", File([](EtmFile& f) {
         f.blobs[2].zstd = true;
         f.blobs[2].stored = std::string((4 << 20) + 1, '?');
         f.blobs[2].raw_bytes = int64_t{1} << 30;
       }),
       "blob 'weights': 1073741824 bytes of memory, expected at most the "},
  };
}

}  // namespace

const std::vector<EtmCase>& EtmCases() {
  static const std::vector<EtmCase> all = [] {
    std::vector<EtmCase> cases;
    for (auto part : {ContainerCases(), TableCases(), ModelCases(), BudgetCases(), SetCases()})
      cases.insert(cases.end(), part.begin(), part.end());
    return cases;
  }();
  return all;
}

}  // namespace evoq::craft
