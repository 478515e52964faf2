#include <algorithm>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/math.h"
#include "base/printable.h"
#include "base/text.h"
#include "graph/short_fact.h"
#include "kernels/gemm/layout_blocks.h"
#include "kernels/layout.h"
#include "program/etm.h"
#include "program/etm_tables.h"
#include "tensor/normal_float.h"

namespace evoq {
namespace {

// A stretch of a blob, by what it is for.
struct Part {
  std::string name, category;
  int64_t offset, bytes;  // in the decoded blob
};

constexpr char kScaleSets[] = "scale sets";

std::string Category(const fb::Type& type) {
  const DType dtype = DTypeFromEtm(type.dtype()).value_or(DType::kUndefined);
  if (type.quant() || IsFloat(dtype)) return fmt::format("{} weights", DTypeName(dtype));
  return dtype == DType::kInt32 ? "int32 bias" : "shape constants";
}

int64_t PlainBytes(const fb::Type& type) {
  std::vector<Dim> dims;
  for (uint32_t i = 0; i < EtmCount(type.dims()); ++i) dims.push_back(type.dims()->Get(i));
  const DType dtype = DTypeFromEtm(type.dtype()).value_or(DType::kUndefined);
  return TensorType(dtype, Shape(std::move(dims))).bytes().value_or(0);
}

// Finds constants that hold what an earlier one holds, perhaps in another layout.
class Repeats {
 public:
  // Draws on `budget`: many constants of a hostile file may stand for the same long bytes.
  Result<bool> Holds(const Tensor& constant, Budget& budget) {
    constexpr size_t kLeastBytes = 64;  // equal small ones are chance
    if (constant.bytes() < kLeastBytes || constant.dtype() == DType::kString) return false;
    EVOQ_TRY(budget.TakeWork(static_cast<int64_t>(constant.bytes()) * 4, "comparing constants"));
    const auto plain = ToPlain(constant);
    if (!plain) return false;
    std::vector<Tensor>& alike = by_sum_[Crc32c({plain->raw(), plain->bytes()})];
    for (const Tensor& other : alike) {
      const auto known = ToPlain(other);
      if (known && BitEqual(*known, *plain)) return true;
    }
    alike.push_back(constant);
    return false;
  }

 private:
  std::map<uint32_t, std::vector<Tensor>> by_sum_;  // of the plain bytes
};

// Collects what the blob "weights" holds. The graph was validated by ReadEtm, which made `model` of
// the same tables.
class WeightCollector {
 public:
  explicit WeightCollector(Budget& budget) : budget_(budget) {}

  Status Add(const fb::Graph& graph, const Graph& model) {
    for (uint32_t i = 0; i < EtmCount(graph.values()); ++i) {
      const fb::Value* v = graph.values()->Get(i);
      if (v->type() == nullptr) continue;
      const std::string name = EtmText(v->name());
      const ValueId id = model.FindValue(name);
      bool repeated = false;
      int64_t indices = 0;
      if (v->constant() != nullptr && id.valid()) {
        EVOQ_ASSIGN(repeated, repeats_.Holds(model.value(id).constant, budget_));
        indices = BlockIndexBytes(model.value(id).constant);
      }
      AddConstant(name, Category(*v->type()), *v->type(), v->constant(), repeated, indices);
    }
    for (uint32_t i = 0; i < EtmCount(graph.nodes()); ++i) {
      const fb::Node* n = graph.nodes()->Get(i);
      for (uint32_t a = 0; a < EtmCount(n->attrs()); ++a) {
        const fb::Attr* attr = n->attrs()->Get(a);
        if (attr->tensor_type())
          AddConstant(EtmText(n->name()) + "." + EtmText(attr->name()), "attributes",
                      *attr->tensor_type(), attr->tensor(), false, 0);
      }
      const NodeId id = model.FindNode(EtmText(n->name()));
      for (uint32_t b = 0; b < EtmCount(n->bodies()); ++b) {
        if (id.valid() && b < model.node(id).bodies.size())
          EVOQ_TRY(Add(*n->bodies()->Get(b), *model.node(id).bodies[b]));
      }
    }
    return {};
  }

  // What scale sets have of their own.
  void Add(const fb::ScaleSets& sets, const fb::Graph& graph) {
    for (uint32_t s = 0; s < EtmCount(sets.sets()); ++s) {
      const fb::ScaleSet& set = *sets.sets()->Get(s);
      for (uint32_t i = 0; i < EtmCount(set.changes()); ++i) {
        const fb::ScaleChange& change = *set.changes()->Get(i);
        const std::string name =
            EtmText(set.name()) + "/" + EtmText(graph.values()->Get(change.value())->name());
        const auto add = [&](uint64_t offset, uint64_t bytes) {
          if (bytes > 0)
            parts_.push_back(
                {name, kScaleSets, static_cast<int64_t>(offset), static_cast<int64_t>(bytes)});
        };
        if (change.constant() != nullptr)
          add(change.constant()->offset(), change.constant()->bytes());
        if (const fb::Quant* quant = change.quant(); quant != nullptr && quant->scale_count() > 1)
          add(quant->scales_offset(), uint64_t{4} * quant->scale_count());
      }
    }
  }

  // In order, with the alignment between.
  std::vector<Part> Parts(int64_t size) {
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& a, const Part& b) { return a.offset < b.offset; });
    std::vector<Part> all;
    int64_t at = 0;
    for (const Part& p : parts_) {
      if (p.offset < at || p.bytes == 0) continue;  // the same bytes under a second name
      if (p.offset > at) all.push_back({"", "alignment", at, p.offset - at});
      all.push_back(p);
      at = p.offset + p.bytes;
    }
    if (at < size) all.push_back({"", "alignment", at, size - at});
    return all;
  }

 private:
  void AddConstant(const std::string& name, const std::string& category, const fb::Type& type,
                   const fb::Constant* constant, bool repeated, int64_t indices) {
    if (type.quant() != nullptr) AddQuant(name, type, *type.quant(), repeated);
    if (constant == nullptr) return;
    const int64_t offset = static_cast<int64_t>(constant->offset()),
                  total = static_cast<int64_t>(constant->bytes());
    const int64_t payload = std::min(total - indices, PlainBytes(type));
    int64_t at = offset;
    const auto add = [&](const std::string& what, int64_t bytes) {
      bytes = std::min(bytes, offset + total - at);
      if (bytes > 0) parts_.push_back({name, repeated ? "duplicates" : what, at, bytes});
      at += bytes;
    };
    add("block indices", indices);
    add(category, payload);
    if (type.quant() != nullptr && type.quant()->inside() != 0) {
      const LayoutScales inside = InsideBytes(type, EtmText(constant->layout()));
      add("scales", inside.scales);
      add("zero points", inside.zero_points);
    }
    add("packing padding", offset + total - at);
  }

  // Scales inside of a constant, which ReadEtm validated.
  static LayoutScales InsideBytes(const fb::Type& type, const std::string& layout) {
    const fb::Quant& from = *type.quant();
    QuantParams quant;
    quant.axis = from.axis();
    quant.block = from.block();
    quant.inside = QuantParams::Inside{from.inside() == 1, from.inside_zeros(), from.zero()};
    std::vector<Dim> dims;
    for (uint32_t i = 0; i < EtmCount(type.dims()); ++i) dims.push_back(type.dims()->Get(i));
    const DType dtype = DTypeFromEtm(type.dtype()).value_or(DType::kUint8);
    return FindLayout(layout)->scale_bytes(TensorType(dtype, Shape(dims), std::move(quant)),
                                           layout);
  }

  void AddQuant(const std::string& name, const fb::Type& type, const fb::Quant& quant,
                bool repeated) {
    const int64_t halves = quant.half_scale_count(), exponents = quant.exponent_scale_count(),
                  floats = quant.scale_count() > 1 ? quant.scale_count() : 0;
    const auto add = [&](const char* category, uint64_t offset, int64_t bytes) {
      if (bytes > 0)
        parts_.push_back(
            {name, repeated ? "duplicates" : category, static_cast<int64_t>(offset), bytes});
    };
    add("scales", quant.half_scales_offset(), 2 * halves);
    add("scales", quant.exponent_scales_offset(), exponents);
    add("scales", quant.scales_offset(), 4 * floats);
    if (!quant.packed_zeros()) return;
    const int64_t count = halves + exponents + quant.scale_count();
    const auto dtype = DTypeFromEtm(type.dtype()).value_or(DType::kUint8);
    add("zero points", quant.packed_zeros_offset(), CeilDiv(count * DTypeBits(dtype), int64_t{8}));
  }

  Budget& budget_;
  Repeats repeats_;
  std::vector<Part> parts_;
};

// What the tables of a graph hold besides its structure, each string and vector once as FlatBuffers
// shares them.
class TableCollector {
 public:
  void Add(const fb::Graph& graph) {
    AddText(graph.name());
    for (uint32_t i = 0; i < EtmCount(graph.metadata()); ++i) {
      AddText(graph.metadata()->Get(i)->key());
      AddText(graph.metadata()->Get(i)->value());
    }
    for (uint32_t i = 0; i < EtmCount(graph.values()); ++i) {
      const fb::Value* v = graph.values()->Get(i);
      AddText(v->name());
      AddZeros(v->type());
      if (v->constant()) AddTexts(v->constant()->strings());
    }
    for (uint32_t i = 0; i < EtmCount(graph.nodes()); ++i) {
      const fb::Node* n = graph.nodes()->Get(i);
      AddText(n->op());
      AddText(n->domain());
      AddText(n->name());
      for (uint32_t a = 0; a < EtmCount(n->attrs()); ++a) {
        const fb::Attr* attr = n->attrs()->Get(a);
        AddText(attr->name());
        AddText(attr->s());
        AddTexts(attr->strings());
        AddZeros(attr->tensor_type());
        if (attr->tensor()) AddTexts(attr->tensor()->strings());
      }
      for (uint32_t b = 0; b < EtmCount(n->bodies()); ++b) Add(*n->bodies()->Get(b));
    }
  }

  std::vector<Part> Parts(int64_t size) const {
    int64_t strings = 0;
    for (const flatbuffers::String* text : texts_)
      strings += 4 + (int64_t{text->size()} + 1 + 3) / 4 * 4;  // length, characters, terminator
    strings = std::min(strings, size);  // a hostile file may let strings overlap
    const int64_t zeros = std::min(zeros_, size - strings);
    return {{"", "strings", 0, strings},
            {"", "zero points", strings, zeros},
            {"", "graph", strings + zeros, size - strings - zeros}};
  }

 private:
  void AddText(const flatbuffers::String* text) {
    if (text != nullptr) texts_.insert(text);
  }
  void AddTexts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* texts) {
    for (uint32_t i = 0; i < EtmCount(texts); ++i) AddText(texts->Get(i));
  }
  void AddZeros(const fb::Type* type) {
    if (type != nullptr && type->quant() != nullptr && type->quant()->zeros() != nullptr)
      zeros_ += 4 + 4 * int64_t{type->quant()->zeros()->size()};
  }

  std::set<const flatbuffers::String*> texts_;
  int64_t zeros_ = 0;
};

// The blob of scale sets, shared out among them by the number of their changes.
std::vector<Part> PartsOf(const fb::ScaleSets& sets, int64_t size) {
  int64_t all = 0, before = 0, at = 0;
  for (uint32_t s = 0; s < EtmCount(sets.sets()); ++s)
    all += 1 + EtmCount(sets.sets()->Get(s)->changes());
  std::vector<Part> parts;
  for (uint32_t s = 0; s < EtmCount(sets.sets()); ++s) {
    const fb::ScaleSet& set = *sets.sets()->Get(s);
    before += 1 + EtmCount(set.changes());
    const int64_t end = size * before / all;
    parts.push_back({EtmText(set.name()), kScaleSets, at, end - at});
    at = end;
  }
  return parts;
}

// Spreads the stored bytes of a compressed blob over its parts in proportion, without a remainder.
void Scale(std::vector<Part>& parts, int64_t raw, int64_t stored) {
  int64_t raw_before = 0, stored_before = 0;
  for (Part& p : parts) {
    raw_before += p.bytes;
    const int64_t end = static_cast<int64_t>(static_cast<__int128>(raw_before) * stored /
                                             std::max<int64_t>(raw, 1));
    p.offset = stored_before;
    p.bytes = end - stored_before;
    stored_before = end;
  }
}

}  // namespace

Result<std::vector<EtmSection>> EtmSections(const std::string& path) {
  EVOQ_ASSIGN(const Container container, Container::Open(path));
  EVOQ_ASSIGN(const Model model, ReadEtm(path));  // validates what is read below
  Budget budget = Budget::ForFile(container.file_bytes());
  EVOQ_ASSIGN(const auto graph_bytes, container.Read(*container.Find("graph"), budget));
  EVOQ_ASSIGN(const fb::Graph* graph, VerifiedTable<fb::Graph>(graph_bytes.data, "graph", budget));
  std::vector<EtmSection> sections = {{"header", "header and directory", 0, kEtmHeaderBytes}};
  int64_t at = kEtmHeaderBytes;
  const auto add = [&](std::string name, std::string category, int64_t bytes) {
    if (bytes == 0) return;
    sections.push_back({std::move(name), std::move(category), at, bytes});
    at += bytes;
  };
  const auto add_parts = [&](const BlobInfo& blob, std::vector<Part> parts) {
    if (blob.codec != Codec::kRaw) Scale(parts, blob.raw_bytes, blob.stored_bytes);
    for (const Part& p : parts)
      add(p.name.empty() ? blob.name : blob.name + "/" + p.name, p.category, p.bytes);
  };
  WeightCollector weights(budget);
  EVOQ_TRY(WithContext(weights.Add(*graph, model.graph), path));
  const fb::ScaleSets* sets = nullptr;
  Container::Bytes set_bytes;
  if (container.Find(kScaleSetsBlob) != nullptr) {
    EVOQ_ASSIGN(set_bytes, container.Read(*container.Find(kScaleSetsBlob), budget));
    EVOQ_ASSIGN(sets, VerifiedTable<fb::ScaleSets>(set_bytes.data, kScaleSetsBlob, budget));
    weights.Add(*sets, *graph);
  }
  TableCollector tables;
  tables.Add(*graph);
  add("directory", "header and directory",
      kEtmEntryBytes * static_cast<int64_t>(container.blobs().size()));
  for (const BlobInfo& blob : container.blobs()) {
    add("padding", "alignment", blob.offset - at);
    if (blob.name == "weights") {
      add_parts(blob, weights.Parts(blob.raw_bytes));
    } else if (blob.name == "graph") {
      add_parts(blob, tables.Parts(blob.raw_bytes));
    } else if (sets != nullptr && blob.name == kScaleSetsBlob) {
      add_parts(blob, PartsOf(*sets, blob.raw_bytes));
    } else {
      add(blob.name, blob.name, blob.stored_bytes);
    }
  }
  return sections;
}

Result<std::string> DumpEtm(const std::string& path) {
  EVOQ_ASSIGN(const Container container, Container::Open(path));
  EVOQ_ASSIGN(const Model model, ReadEtm(path));
  std::string out = fmt::format("etm version {}, {} bytes\n", kEtmVersion, container.file_bytes());
  for (const BlobInfo& b : container.blobs())
    out += FormatPrintable(
        "blob {} at {}: {} bytes{}, crc32c {:08x}\n", b.name, b.offset, b.stored_bytes,
        b.codec == Codec::kRaw ? "" : fmt::format(" (zstd, {} decoded)", b.raw_bytes), b.crc);
  for (const auto& [key, value] : model.graph.metadata)
    out += FormatPrintable("meta {} = {}\n", key, ShortFact(value));
  if (!model.certificate.empty()) out += FormatPrintable("certificate {}\n", model.certificate);
  out += Print(model.graph);
  for (const ScaleSet& set : model.sets) {
    out += FormatPrintable("scale set {}, {} samples\n", set.name, set.samples);
    for (const ScaleChange& change : set.changes) {
      TensorType type = model.graph.value(model.graph.FindValue(change.value)).type;
      type.quant = change.quant;
      out += FormatPrintable("  {}%{}: {}\n", change.constant.defined() ? "const " : "",
                             change.value, type.ToString());
    }
  }
  for (const Plan& plan : model.plans) {
    std::vector<std::string> shapes;
    for (const auto& [name, sizes] : plan.shapes)
      shapes.push_back(name + " " + Bracketed(std::span(sizes)));
    out += fmt::format("plan for {}\n", Joined(shapes, ", "));
    for (const auto& [node, decision] : plan.decisions) {
      out += FormatPrintable("  {}: {}\n", node, decision.kernel);
      for (const auto& r : decision.rejected)
        out += FormatPrintable("    not {} ({}): {}\n", r.kernel, r.reason.code, r.reason.sentence);
      if (const Reason& why = decision.float_reason; !why.empty())
        out += FormatPrintable("    float ({}): {}\n", why.code, why.sentence);
    }
    for (const Tuning& tuning : plan.tunings) {
      out += FormatPrintable("  tuned on {}, {} threads\n", tuning.machine, tuning.threads);
      for (const auto& [node, step] : tuning.steps) {
        out += FormatPrintable("    {}: {}, {} threads\n", node,
                               step.variant.empty() ? "default" : step.variant, step.threads);
        for (const auto& r : step.slower)
          out += FormatPrintable("      not {} ({}): {}\n", r.kernel, r.reason.code,
                                 r.reason.sentence);
      }
    }
  }
  return out;
}

}  // namespace evoq
