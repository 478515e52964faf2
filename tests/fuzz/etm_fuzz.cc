// Room: models
// .etm files whose checksums hold: reading, compiling, binding and running one gives results or an
// error. The fuzzer's bytes are three lengths and four decoded blobs (graph, plans, scale sets,
// weights), which are put into a container, now and then compressed or with a field of the
// directory wrong and the checksums right (tests/craft/etm.h). Most mutations work on the unpacked
// tables, so that they get past the verifier and reach links, types, attributes, layouts and
// kernels.
#include <cstring>
#include <random>

#include "base/check.h"
#include "base/crc32c.h"
#include "compile/compile.h"
#include "kernels/kernel.h"
#include "kernels/layout.h"
#include "models/models.h"
#include "ops/op.h"
#include "program/container.h"
#include "program/etm.h"
#include "program/etm_tables.h"
#include "reference/reference.h"
#include "runtime/executor.h"
#include "tests/craft/etm.h"
#include "tests/fuzz/byte_mutator.h"
#include "tests/fuzz/time_limit.h"

namespace {

using namespace evoq;

constexpr int64_t kMaxBytes = 64 << 20, kMaxMacs = 1 << 24;

// Models whose mutations reach the kernels; an input that is too short to hold blobs becomes one of
// them.
constexpr const char* kSeeds[] = {
    R"(input %x: uint8[N, 6, 7, 7](scale 0.02, zero 128)
const %w: int8[20, 6, 3, 3](20 scales on axis 0)
const %b: int32[20]
c: %y: uint8[N, 20, 7, 7](scale 0.05, zero 3) = Conv{pads=[1, 1, 1, 1], activation="Relu"}(%x, %w, %b)
const %v: int8[20, 1, 3, 3](20 scales on axis 0)
d: %z: uint8[N, 20, 4, 4](scale 0.04, zero 5) = Conv{pads=[1, 1, 1, 1], strides=[2, 2], group=20}(%y, %v)
p: %q: uint8[N, 20, 2, 2](scale 0.04, zero 5) = MaxPool{kernel_shape=[2, 2], strides=[2, 2]}(%z)
g: %g: uint8[N, 20, 1, 1](scale 0.03, zero 5) = GlobalAveragePool(%q)
f: %f: uint8[N, 20](scale 0.03, zero 5) = Flatten(%g)
const %m: int8[20, 9](9 scales on axis 1)
const %n: int32[9]
l: %o: float32[N, 9] = MatMul(%f, %m, %n)
s: %r = Softmax(%o)
output %r)",
    R"(input %x: float32[N, 3, 8, 8]
const %w: float32[8, 3, 3, 3]
const %b: float32[8]
c: %y = Conv{pads=[1, 1, 1, 1]}(%x, %w, %b)
r: %h = HardSwish(%y)
const %v: float32[8, 1, 3, 3]
d: %z = Conv{pads=[1, 1, 1, 1], group=8, activation="Clip", activation_alpha=0.0, activation_beta=6.0}(%h, %v)
a: %s = Add(%h, %z)
const %u: float32[8, 4, 2, 2]
t: %k = ConvTranspose{strides=[2, 2]}(%s, %u)
p: %q = AveragePool{kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]}(%k)
const %sizes: float32[4] = [1.0, 1.0, 2.0, 2.0]
e: %i = Resize{mode="linear"}(%q, _, %sizes)
output %i)",
    R"(input %x: int64[2, 5]
const %w: float32[11, 8]
g: %e = Gather(%x, %x)
t: %f = Gather(%w, %x)
const %s: float32[8]
n: %n = LayerNormalization(%f, %s, %s)
const %q: float32[8, 8]
a: %a = MatMul(%n, %q)
b: %b = Transpose{perm=[0, 2, 1]}(%a)
m: %m = MatMul(%n, %b)
o: %o = Softmax(%m)
v: %v = MatMul(%o, %n)
const %shape: int64[3] = [5, 2, 8]
r: %r = Reshape(%v, %shape)
const %axes: int64[1] = [1]
k: %k = ReduceMean(%r, %axes)
z: %z = Gelu(%k)
output %z
output %e)",
    R"(input %x: uint8[1, 4, 6, 6](scale 0.1, zero 10)
input %y: uint8[1, 4, 6, 6](scale 0.2, zero 20)
a: %a: uint8[1, 4, 6, 6](scale 0.3, zero 30) = Add{activation="Relu"}(%x, %y)
m: %m: uint8[1, 4, 6, 6](scale 0.3, zero 30) = Mul(%a, %y)
c: %c: uint8[1, 8, 6, 6](scale 0.1, zero 10) = Concat{axis=1}(%a, %m)
const %starts: int64[2] = [1, 1]
const %ends: int64[2] = [5, 9]
const %axes: int64[2] = [1, 2]
s: %s: uint8[1, 4, 5, 6](scale 0.1, zero 10) = Slice(%c, %starts, %ends, %axes)
const %pads: int64[8] = [0, 0, 1, 1, 0, 0, 1, 1]
p: %p: uint8[1, 4, 7, 8](scale 0.1, zero 10) = Pad(%s, %pads)
q: %q: uint8[1, 4, 7, 8](scale 0.01, zero 0) = Sigmoid(%p)
t: %t: uint8[1, 7, 8, 4](scale 0.01, zero 0) = Transpose{perm=[0, 2, 3, 1]}(%q)
d: %d = DequantizeLinear(%t)
e: %e = ReduceSum{keepdims=0}(%d, %axes)
u: %u: uint8[1, 4](scale 0.5, zero 7) = QuantizeLinear(%e)
output %u
output %t)",
    R"(input %x: uint8[3, 12]
const %w: uint8[12, 17]
const %z: uint8[] = [3]
m: %m = MatMulInteger(%x, %w, %z, %z)
f: %f = Cast{to=1}(%m)
q: %q, %qs, %qz = DynamicQuantizeLinear(%f)
d: %d = DequantizeLinear(%q, %qs, %qz)
const %sizes: int64[2] = [5, 12]
s: %s, %t = Split{axis=1}(%d, %sizes)
const %reps: int64[2] = [2, 1]
i: %i = Tile(%s, %reps)
const %k: int64[1] = [2]
k: %k0, %k1 = TopK(%t, %k)
const %shape: int64[3] = [2, 3, 2]
e: %e = Expand(%k0, %shape)
output %i
output %e
output %k1)",
};

// ---- the fuzzer's form

struct Blobs {
  std::vector<std::byte> graph, plans, sets, weights;
};

Blobs Split(std::span<const uint8_t> data) {
  Blobs blobs;
  uint32_t sizes[3] = {};
  if (data.size() < sizeof(sizes)) return blobs;
  std::memcpy(sizes, data.data(), sizeof(sizes));
  auto rest = std::as_bytes(data.subspan(sizeof(sizes)));
  for (auto [bytes, size] : {std::pair(&blobs.graph, sizes[0]), std::pair(&blobs.plans, sizes[1]),
                             std::pair(&blobs.sets, sizes[2])}) {
    const auto part = rest.first(std::min<size_t>(size, rest.size()));
    bytes->assign(part.begin(), part.end());
    rest = rest.subspan(part.size());
  }
  blobs.weights.assign(rest.begin(), rest.end());
  return blobs;
}

std::vector<uint8_t> Join(const Blobs& blobs) {
  const uint32_t sizes[3] = {static_cast<uint32_t>(blobs.graph.size()),
                             static_cast<uint32_t>(blobs.plans.size()),
                             static_cast<uint32_t>(blobs.sets.size())};
  std::vector<uint8_t> data(sizeof(sizes));
  std::memcpy(data.data(), sizes, sizeof(sizes));
  for (const auto* bytes : {&blobs.graph, &blobs.plans, &blobs.sets, &blobs.weights}) {
    const auto* from = reinterpret_cast<const uint8_t*>(bytes->data());
    data.insert(data.end(), from, from + bytes->size());
  }
  return data;
}

const std::string& FilePath() {
  static const std::string path = fuzz::Folder() + "/model.etm";
  return path;
}

// One field of the container that is not what the bytes say.
void Spoil(craft::EtmFile& file, std::minstd_rand& random) {
  const auto number = [&]() -> uint64_t {
    constexpr uint64_t kValues[] = {
        0, 1, 7, 8, 175, 176, 1000, 65536, 1u << 30, UINT32_MAX, uint64_t{1} << 63, UINT64_MAX};
    return kValues[random() % std::size(kValues)];
  };
  craft::EtmBlob& blob = file.blobs[random() % file.blobs.size()];
  switch (random() % 9) {
    case 0: blob.offset = number(); break;
    case 1: blob.stored_bytes = number(); break;
    case 2: blob.raw_bytes = number(); break;
    case 3: blob.codec = static_cast<uint8_t>(random() % 3); break;
    case 4: blob.name = random() % 2 ? "weights" : std::string(random() % 18, 'n'); break;
    case 5: blob.alignment = 1; break;
    case 6:
      file.blobs.erase(file.blobs.begin() + static_cast<ptrdiff_t>(random() % file.blobs.size()));
      break;
    case 7: file.tail = std::string(random() % 9, '\0'); break;
    default: blob.required = 2, blob.name += "2";
  }
}

Status WriteFileTo(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Fail(ErrorCode::kIo, "{} cannot be written", path);
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  std::fclose(file);
  return whole ? Status() : Fail(ErrorCode::kIo, "{} was not written whole", path);
}

Status WriteBlobs(const Blobs& blobs, uint32_t choice) {
  const auto text = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  craft::EtmFile file;
  file.blobs.push_back({.name = "graph", .bytes = text(blobs.graph)});
  file.blobs.push_back({.name = "plans", .bytes = text(blobs.plans), .required = 0});
  file.blobs.push_back({.name = "weights", .bytes = text(blobs.weights), .alignment = 64});
  if (!blobs.sets.empty())
    file.blobs.push_back({.name = kScaleSetsBlob, .bytes = text(blobs.sets), .required = 0});
  std::minstd_rand random(choice);
  if (choice % 4 == 0) file.blobs[random() % 3].zstd = true;
  if (choice % 32 == 0) Spoil(file, random);
  return WriteFileTo(FilePath(), craft::Write(file));
}

// A second set of half the scales, where the model computes values that have any.
void AddSets(Model& model) {
  ScaleSet half{"half", 2, {}};
  for (int i = 0; i < model.graph.value_count(); ++i) {
    const ValueId id{i};
    const Value& value = model.graph.value(id);
    if (model.graph.IsInput(id) || model.graph.IsOutput(id)) continue;
    if (value.is_constant() && value.type.dtype == DType::kInt32 && !value.type.quantized())
      half.changes.push_back({value.name, nullptr, value.constant});
    if (value.is_constant() || !value.type.quantized()) continue;
    QuantParams params = *value.type.quant;
    for (float& scale : params.scales) scale /= 2;
    half.changes.push_back({value.name, std::make_shared<const QuantParams>(params), {}});
  }
  if (!half.changes.empty()) model.sets = {{"whole", 1, {}}, std::move(half)};
}

Result<Blobs> SeedBlobs(const char* text) {
  EVOQ_ASSIGN(Graph graph, ParseGraph(text));
  EVOQ_TRY(InferTypes(graph));
  EVOQ_ASSIGN(Model model, LowerAndPack(std::move(graph)));
  AddSets(model);
  EVOQ_TRY(WriteEtm(model, FilePath()));
  EVOQ_ASSIGN(const Container container, Container::Open(FilePath()));
  Budget budget = Budget::ForFile(container.file_bytes());
  Blobs blobs;
  for (auto [name, bytes] :
       {std::pair("graph", &blobs.graph), std::pair("plans", &blobs.plans),
        std::pair(kScaleSetsBlob, &blobs.sets), std::pair("weights", &blobs.weights)}) {
    if (container.Find(name) == nullptr) continue;  // it has no sets
    EVOQ_ASSIGN(const Container::Bytes read, container.Read(*container.Find(name), budget));
    bytes->assign(read.data.begin(), read.data.end());
  }
  return blobs;
}

// The small good model of the crafted files, which has what the ones above lack: strings, scales
// per channel, constant outputs.
Blobs CraftedSeed() {
  const craft::EtmModel model;
  const auto bytes = [](const std::string& text) {
    return std::vector<std::byte>(reinterpret_cast<const std::byte*>(text.data()),
                                  reinterpret_cast<const std::byte*>(text.data()) + text.size());
  };
  return {bytes(craft::Pack(model.graph)), bytes(craft::Pack(model.plans)),
          bytes(craft::Pack(model.sets)), bytes(model.weights)};
}

// ---- the target

// How far the inputs got; printed when the fuzzer ends.
struct Counts {
  long inputs = 0, read = 0, compiled = 0, ran = 0, adaptive = 0;
  ~Counts() {
    fmt::print(stderr,
               "{} inputs: {} refused by the reader, {} read, {} compiled, {} ran, {} under sets\n",
               inputs, inputs - read, read, compiled, ran, adaptive);
  }
} counts;

// Under the sets in turn.
Status RunUnderSets(Model model) {
  const std::vector<ScaleSet> sets = model.sets;
  EVOQ_ASSIGN(const auto engine,
              Engine::Of({std::move(model), ""},
                         {.threads = 1, .adaptive = AdaptiveOptions{.every = 1}}, AllParts()));
  EVOQ_ASSIGN(const auto executor, engine->Default());
  std::vector<Tensor> inputs;
  for (const TensorType& type : executor->input_types()) inputs.push_back(Tensor::Allocate(type));
  ++counts.adaptive;
  for (const ScaleSet& set : sets) {
    EVOQ_TRY(engine->PinScaleSet(set.name));
    EVOQ_TRY(engine->Run(inputs));
  }
  EVOQ_TRY(engine->PinScaleSet(""));
  EVOQ_TRY(engine->Run(inputs));
  return {};
}

Status RunFile(uint32_t choice) {
  if (choice % 16 == 0) {
    EVOQ_TRY(DumpEtm(FilePath()));
    EVOQ_TRY(EtmSections(FilePath()));
  }
  EVOQ_ASSIGN(const Model model, ReadEtm(FilePath()));
  ++counts.read;
  EVOQ_ASSIGN(Program program, Compile(model, kReference));
  ++counts.compiled;
  int64_t bytes = program.arena_bytes(), macs = 0;
  for (int i = 0; i < program.graph->value_count(); ++i)
    bytes += program.graph->value(ValueId{i}).type.bytes().value_or(0);
  for (const Step& step : program.steps) macs += step.macs;
  if (bytes > kMaxBytes || macs > kMaxMacs) return {};
  const Isa wanted = static_cast<Isa>(choice / 16 % 4);
  const Isa isa = IsaSupported(wanted) ? wanted : Isa::kScalar;
  EVOQ_ASSIGN(auto executor,
              Executor::Create(std::make_shared<const Program>(std::move(program)), {1, isa}));
  std::vector<Tensor> inputs, outputs;
  for (const TensorType& type : executor->input_types()) inputs.push_back(Tensor::Allocate(type));
  for (const TensorType& type : executor->output_types()) outputs.push_back(Tensor::Allocate(type));
  ++counts.ran;
  if (!model.sets.empty()) EVOQ_TRY(RunUnderSets(model));
  return executor->Run(inputs, outputs);
}

// ---- mutation of the tables

using Random = std::minstd_rand;

template <typename T>
T& Any(std::vector<T>& list, Random& random) {
  return list[random() % list.size()];
}

int64_t Number(Random& random) {
  // clang-format off: one name a line is a page
  constexpr int64_t kValues[] = {
      1, 2, 3, 4, 5, 7, 8, 12, 20, 0, -1, -2, 255, 1 << 16, INT32_MAX, INT32_MIN, int64_t{1} << 40,
      INT64_MAX, INT64_MIN
  };
  // clang-format on
  return kValues[random() % (random() % 3 == 0 ? std::size(kValues) : 10)];
}

float Real(Random& random) {
  constexpr float kValues[] = {0,     1,      -1,       0.5f,      1e-30f, 1e30f, -1e30f,
                               3e38f, 1e-45f, INFINITY, -INFINITY, NAN,    6,     255};
  return kValues[random() % std::size(kValues)];
}

int8_t AnyDType(Random& random) {
  constexpr int8_t kTypes[] = {1,  2,  3,  6,  7, 9, 10, 11, 22, 21, 23,
                               25, 26, 64, 16, 4, 5, 12, 13, 8,  0};
  return kTypes[random() % (random() % 3 == 0 ? std::size(kTypes) : 5)];
}

std::string AttrName(Random& random) {
  // clang-format off: one name a line is a page
  constexpr const char* kNames[] = {
      "axis", "axes", "pads", "strides", "dilations", "group", "kernel_shape", "channels_last",
      "activation", "activation_alpha", "activation_beta", "mode", "blocksize", "perm", "to",
      "keepdims", "auto_pad", "ceil_mode", "count_include_pad", "output_shape", "output_padding",
      "epsilon", "alpha", "beta", "batch_dims", "evoq.copy", "coordinate_transformation_mode",
      "nearest_mode", "num_outputs", "select_last_index", "transA", "equation"
  };
  // clang-format on
  return kNames[random() % std::size(kNames)];
}

std::string Word(Random& random) {
  constexpr const char* kWords[] = {
      "Relu",       "Clip",      "HardSwish",     "Gelu",       "Sigmoid",    "",
      "linear",     "nearest",   "cubic",         "reflect",    "edge",       "wrap",
      "SAME_UPPER", "VALID",     "align_corners", "asymmetric", "half_pixel", "tf_crop_and_resize",
      "CRD",        "ij,jk->ik", "tanh"};
  return kWords[random() % std::size(kWords)];
}

template <typename T, typename Make>
void MutateList(std::vector<T>& list, Random& random, const Make& make) {
  const auto choice = random() % 6;
  if (choice == 0 && !list.empty())
    list.pop_back();
  else if (choice == 1 || list.empty())
    list.push_back(make());
  else
    Any(list, random) = make();
}

void MutateQuant(fb::QuantT& q, Random& random) {
  switch (random() % 10) {
    case 0: q.scale = Real(random); break;
    case 1: q.zero = static_cast<int32_t>(Number(random)); break;
    case 2: q.axis = static_cast<int32_t>(Number(random)); break;
    case 3: q.block = Number(random); break;
    case 4:
      q.scale_count = static_cast<uint32_t>(Number(random)),
      q.scales_offset = static_cast<uint64_t>(random() % 64);
      break;
    case 5:
      q.half_scale_count = static_cast<uint32_t>(Number(random)), q.scale_count = random() % 2;
      q.half_scales_offset = static_cast<uint64_t>(random() % 64);
      break;
    case 6:
      q.exponent_scale_count = static_cast<uint32_t>(Number(random)), q.scale_count = random() % 2;
      q.exponent_scales_offset = static_cast<uint64_t>(random() % 64);
      break;
    case 7:
      q.packed_zeros = random() % 4 != 0;
      q.packed_zeros_offset = static_cast<uint64_t>(random() % 64);
      break;
    case 8:
      q.inside = static_cast<int8_t>(random() % 4), q.inside_zeros = random() % 2 != 0;
      q.scale_count = q.inside != 0 && random() % 4 != 0 ? 0 : q.scale_count;
      break;
    default: MutateList(q.zeros, random, [&] { return static_cast<int32_t>(Number(random)); });
  }
}

void MutateType(fb::TypeT& type, Random& random) {
  switch (random() % 6) {
    case 0: type.dtype = AnyDType(random); break;
    case 1:
      if (type.quant && random() % 2 == 0)
        type.quant.reset();
      else if (!type.quant)
        type.quant = std::make_unique<fb::QuantT>(), type.quant->scale = 0.1f;
      break;
    case 2:
      if (type.quant) MutateQuant(*type.quant, random);
      break;
    case 3: type.ranked = random() % 4 != 0; break;
    default: MutateList(type.dims, random, [&] { return Number(random); });
  }
}

// The length that the type asks for, so that a changed constant is still read.
void FitConstant(const fb::TypeT& type, fb::ConstantT& constant, std::vector<std::byte>& weights,
                 Random& random) {
  const auto dtype = DTypeFromOnnx(type.dtype);
  if (!dtype) return;
  const TensorType wanted(*dtype, Shape(type.dims));
  auto bytes = wanted.bytes();
  if (const LayoutDef* layout = FindLayout(constant.layout)) {
    const auto packed = wanted.shape.is_static() ? layout->bytes(wanted) : Result<int64_t>(0);
    bytes = packed ? std::optional(*packed) : std::nullopt;
  }
  if (!bytes || *bytes > 2048) return;
  constant.bytes = static_cast<uint64_t>(*bytes);
  if (constant.bytes > weights.size())
    weights.resize(constant.bytes, static_cast<std::byte>(random()));
  constant.offset = std::min<uint64_t>(constant.offset, (weights.size() - constant.bytes) / 8 * 8);
}

void MutateConstant(fb::ConstantT& constant, std::vector<std::byte>& weights, Random& random) {
  const auto layouts = AllLayouts();
  if (random() % 4 == 0) {
    constant.layout = random() % 3 == 0 ? "" : layouts[random() % layouts.size()]->name;
  } else if (random() % 8 == 0) {
    constant.offset = static_cast<uint64_t>(Number(random));
  } else if (constant.bytes >= 8 && constant.offset <= weights.size() &&
             constant.bytes <= weights.size() - constant.offset) {
    const int64_t number = Number(random);
    const float real = Real(random);
    const size_t at = constant.offset + random() % (constant.bytes / 8) * 8;
    if (random() % 2 == 0)
      std::memcpy(weights.data() + at, &number, 8);
    else
      std::memcpy(weights.data() + at, &real, 4);
  }
}

void MutateAttr(fb::AttrT& attr, Random& random) {
  switch (attr.kind) {
    case fb::AttrKind::Int: attr.i = Number(random); break;
    case fb::AttrKind::Float: attr.f = Real(random); break;
    case fb::AttrKind::String: attr.s = Word(random); break;
    case fb::AttrKind::Ints: MutateList(attr.ints, random, [&] { return Number(random); }); break;
    case fb::AttrKind::Floats: MutateList(attr.floats, random, [&] { return Real(random); }); break;
    default: break;
  }
  if (random() % 16 == 0) attr.kind = static_cast<fb::AttrKind>(random() % 8);
}

void AddAttr(fb::NodeT& node, Random& random) {
  auto attr = std::make_unique<fb::AttrT>();
  attr->name = AttrName(random);
  attr->kind = static_cast<fb::AttrKind>(random() % 6);
  for (unsigned n = random() % 5; n > 0; --n) attr->ints.push_back(Number(random));
  MutateAttr(*attr, random);
  node.attrs.push_back(std::move(attr));
}

template <typename Table, typename TableT>
std::unique_ptr<TableT> CopyOf(const TableT& from) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &from));
  return std::unique_ptr<TableT>(flatbuffers::GetRoot<Table>(builder.GetBufferPointer())->UnPack());
}

void MutateNode(fb::GraphT& graph, fb::NodeT& node, Random& random) {
  const auto any_value = [&] {
    return static_cast<int32_t>(random() % (graph.values.size() + 1)) - 1;
  };
  switch (random() % 8) {
    case 0: {
      const auto ops = AllOps();
      const OpDef* op = ops[random() % ops.size()];
      node.op = op->name, node.domain = op->domain;
      break;
    }
    case 1: MutateList(node.inputs, random, any_value); break;
    case 2:
      if (random() % 4 == 0) MutateList(node.outputs, random, any_value);
      break;
    case 3: AddAttr(node, random); break;
    case 4:
      if (!node.attrs.empty())
        node.attrs.erase(node.attrs.begin() + static_cast<ptrdiff_t>(random() % node.attrs.size()));
      break;
    default:
      if (!node.attrs.empty()) MutateAttr(*Any(node.attrs, random), random);
  }
}

// A copy of a node that reads what the node computes; becomes an output of the graph.
void AppendNode(fb::GraphT& graph, const fb::NodeT& node) {
  auto copy = CopyOf<fb::Node>(node);
  copy->name += "+";
  if (!copy->inputs.empty() && !copy->outputs.empty()) copy->inputs[0] = copy->outputs[0];
  for (int32_t& output : copy->outputs) {
    if (output < 0 || static_cast<size_t>(output) >= graph.values.size()) continue;
    auto value = CopyOf<fb::Value>(*graph.values[output]);
    value->name += "+";
    output = static_cast<int32_t>(graph.values.size());
    graph.values.push_back(std::move(value));
    graph.outputs.push_back(output);
  }
  graph.nodes.push_back(std::move(copy));
}

void MutateGraph(fb::GraphT& graph, std::vector<std::byte>& weights, Random& random) {
  if (graph.values.empty() || graph.nodes.empty()) return;
  fb::ValueT& value = *Any(graph.values, random);
  switch (random() % 10) {
    case 0:
    case 1:
      if (!value.type) value.type = std::make_unique<fb::TypeT>();
      MutateType(*value.type, random);
      if (value.constant && random() % 4 != 0)
        FitConstant(*value.type, *value.constant, weights, random);
      break;
    case 2:
      if (!value.constant && random() % 4 == 0) value.constant = std::make_unique<fb::ConstantT>();
      if (value.constant) MutateConstant(*value.constant, weights, random);
      if (value.constant && value.type && random() % 4 != 0)
        FitConstant(*value.type, *value.constant, weights, random);
      break;
    case 3:
      if (random() % 4 != 0) break;
      MutateList(random() % 2 ? graph.inputs : graph.outputs, random,
                 [&] { return static_cast<int32_t>(random() % graph.values.size()); });
      break;
    case 4: AppendNode(graph, *Any(graph.nodes, random)); break;
    default: MutateNode(graph, *Any(graph.nodes, random), random);
  }
}

void MutatePlans(fb::PlansT& plans, Random& random) {
  if (plans.plans.empty()) return;
  fb::PlanT& plan = *Any(plans.plans, random);
  if (random() % 4 == 0 && !plan.shapes.empty()) {
    MutateList(Any(plan.shapes, random)->sizes, random, [&] { return Number(random); });
  } else if (!plan.decisions.empty()) {
    const auto kernels = AllKernels();
    Any(plan.decisions, random)->kernel =
        random() % 4 == 0 ? "reference" : kernels[random() % kernels.size()]->name;
  }
}

void MutateSets(fb::ScaleSetsT& sets, fb::GraphT& graph, std::vector<std::byte>& weights,
                Random& random) {
  if (sets.sets.empty()) return;
  fb::ScaleSetT& set = *Any(sets.sets, random);
  if (random() % 16 == 0) {
    set.name = random() % 2 ? "whole" : "", set.samples = Number(random);
  } else if (random() % 16 == 0) {
    sets.sets.push_back(CopyOf<fb::ScaleSet>(set));
    if (random() % 2) sets.sets.back()->name += "+";
  } else if (set.changes.empty() || random() % 16 == 0) {
    set.changes.push_back(std::make_unique<fb::ScaleChangeT>());
    set.changes.back()->value = static_cast<int32_t>(random() % (graph.values.size() + 1));
  } else {
    fb::ScaleChangeT& change = *Any(set.changes, random);
    switch (random() % 5) {
      case 0: change.value = static_cast<int32_t>(Number(random)); break;
      case 1:
        set.changes.erase(set.changes.begin() +
                          static_cast<ptrdiff_t>(random() % set.changes.size()));
        break;
      case 2:
        if (!change.constant && random() % 4 == 0)
          change.constant = std::make_unique<fb::ConstantT>();
        if (change.constant) MutateConstant(*change.constant, weights, random);
        break;
      default:
        if (!change.quant) change.quant = std::make_unique<fb::QuantT>();
        MutateQuant(*change.quant, random);
    }
  }
}

template <typename Table>
void Repack(typename Table::NativeTableType& table, std::vector<std::byte>& to) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &table));
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  to.assign(data, data + builder.GetSize());
}

bool MutateTables(Blobs& blobs, Random& random) {
  Budget budget = Budget::ForFile(0);
  const auto graph = VerifiedTable<fb::Graph>(blobs.graph, "graph", budget);
  const auto plans = VerifiedTable<fb::Plans>(blobs.plans, "plans", budget);
  if (!graph || !plans) return false;
  const std::unique_ptr<fb::GraphT> g((*graph)->UnPack());
  const std::unique_ptr<fb::PlansT> p((*plans)->UnPack());
  std::unique_ptr<fb::ScaleSetsT> s;
  if (!blobs.sets.empty()) {
    const auto sets = VerifiedTable<fb::ScaleSets>(blobs.sets, kScaleSetsBlob, budget);
    if (sets) s.reset((*sets)->UnPack());
  }
  for (unsigned step = random() % 3 + 1; step > 0; --step) {
    if (random() % 12 == 0)
      MutatePlans(*p, random);
    else if (s != nullptr && random() % 3 == 0)
      MutateSets(*s, *g, blobs.weights, random);
    else
      MutateGraph(*g, blobs.weights, random);
  }
  Repack<fb::Graph>(*g, blobs.graph);
  Repack<fb::Plans>(*p, blobs.plans);
  if (s != nullptr) Repack<fb::ScaleSets>(*s, blobs.sets);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const TimeLimit limit;
  const Blobs blobs = Split(std::span(data, size));
  if (blobs.graph.empty()) return 0;
  const uint32_t choice = Crc32c(std::as_bytes(std::span(data, size)));
  const Status written = WriteBlobs(blobs, choice);
  EVOQ_CHECK(written.has_value(), "{}", written.error().message());
  ++counts.inputs;
  const Status ran = RunFile(choice);
  EVOQ_CHECK(ran || ran.error().code() != ErrorCode::kInternal, "{}", ran.error().message());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  Random random(seed);
  random();
  Blobs blobs = Split(std::span(data, size));
  Budget budget = Budget::ForFile(0);
  if (blobs.graph.empty() || random() % 256 == 0 ||
      (random() % 4 != 0 && !VerifiedTable<fb::Graph>(blobs.graph, "graph", budget))) {
    const size_t seed_index = random() % (std::size(kSeeds) + 1);
    auto made = seed_index < std::size(kSeeds) ? SeedBlobs(kSeeds[seed_index])
                                               : Result<Blobs>(CraftedSeed());
    EVOQ_CHECK(made.has_value(), "{}", made.error().message());
    blobs = std::move(*made);
  } else if (random() % 64 == 0 || !MutateTables(blobs, random)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::vector<uint8_t> bytes = Join(blobs);
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
