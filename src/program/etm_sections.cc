#include <algorithm>
#include <functional>

#include "base/text.h"
#include "program/etm.h"
#include "program/etm_tables.h"

namespace evoq {
namespace {

// Payload and packing padding of a constant, by what it is for.
struct Part {
  std::string name, category;
  int64_t offset, bytes;  // in the decoded blob
};

std::string Category(const fb::Type& type) {
  const DType dtype = DTypeFromOnnx(type.dtype()).value_or(DType::kUndefined);
  if (type.quant() || IsFloat(dtype)) return fmt::format("{} weights", DTypeName(dtype));
  return dtype == DType::kInt32 ? "int32 bias" : "shape constants";
}

int64_t PlainBytes(const fb::Type& type) {
  std::vector<Dim> dims;
  for (uint32_t i = 0; i < EtmCount(type.dims()); ++i) dims.push_back(type.dims()->Get(i));
  const DType dtype = DTypeFromOnnx(type.dtype()).value_or(DType::kUndefined);
  return TensorType(dtype, Shape(std::move(dims))).bytes().value_or(0);
}

// Everything in the blob "weights", in order, with the alignment between. The graph was validated by ReadEtm.
std::vector<Part> WeightParts(const fb::Graph& graph, int64_t size) {
  std::vector<Part> parts;
  const auto add_type = [&](const std::string& name, const fb::Type* type) {
    if (type == nullptr || type->quant() == nullptr || type->quant()->scale_count() == 1) return;
    parts.push_back({name, "scales", static_cast<int64_t>(type->quant()->scales_offset()), 4 * int64_t{type->quant()->scale_count()}});
  };
  const auto add = [&](const std::string& name, const std::string& category, const fb::Type* type, const fb::Constant* constant) {
    add_type(name, type);
    if (constant == nullptr || type == nullptr) return;
    const int64_t offset = static_cast<int64_t>(constant->offset()), total = static_cast<int64_t>(constant->bytes());
    const int64_t payload = std::min(total, PlainBytes(*type));
    parts.push_back({name, category, offset, payload});
    parts.push_back({name, "packing padding", offset + payload, total - payload});
  };
  const std::function<void(const fb::Graph&)> walk = [&](const fb::Graph& g) {
    for (uint32_t i = 0; i < EtmCount(g.values()); ++i) {
      const fb::Value* v = g.values()->Get(i);
      add(EtmText(v->name()), v->type() ? Category(*v->type()) : "", v->type(), v->constant());
    }
    for (uint32_t i = 0; i < EtmCount(g.nodes()); ++i) {
      const fb::Node* n = g.nodes()->Get(i);
      for (uint32_t a = 0; a < EtmCount(n->attrs()); ++a) {
        const fb::Attr* attr = n->attrs()->Get(a);
        add(EtmText(n->name()) + "." + EtmText(attr->name()), "attributes", attr->tensor_type(), attr->tensor());
      }
      for (uint32_t b = 0; b < EtmCount(n->bodies()); ++b) walk(*n->bodies()->Get(b));
    }
  };
  walk(graph);
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.offset < b.offset; });
  std::vector<Part> all;
  int64_t at = 0;
  for (const Part& p : parts) {
    if (p.offset < at || p.bytes == 0) continue;  // the same bytes under a second name
    if (p.offset > at) all.push_back({"", "alignment", at, p.offset - at});
    all.push_back(p);
    at = p.offset + p.bytes;
  }
  if (at < size) all.push_back({"", "alignment", at, size - at});
  return all;
}

// Spreads the stored bytes of a compressed blob over its parts in proportion, without a remainder.
void Scale(std::vector<Part>& parts, int64_t raw, int64_t stored) {
  int64_t raw_before = 0, stored_before = 0;
  for (Part& p : parts) {
    raw_before += p.bytes;
    const int64_t end = static_cast<int64_t>(static_cast<__int128>(raw_before) * stored / std::max<int64_t>(raw, 1));
    p.offset = stored_before;
    p.bytes = end - stored_before;
    stored_before = end;
  }
}

}  // namespace

Result<std::vector<EtmSection>> EtmSections(const std::string& path) {
  EVOQ_ASSIGN(const Container container, Container::Open(path));
  EVOQ_ASSIGN(const Model model, ReadEtm(path));  // validates what is read below
  EVOQ_ASSIGN(const auto graph_bytes, container.Read(*container.Find("graph")));
  EVOQ_ASSIGN(const fb::Graph* graph, VerifiedTable<fb::Graph>(graph_bytes.data, "graph"));
  std::vector<EtmSection> sections = {{"header", "header and directory", 0, kEtmHeaderBytes}};
  int64_t at = kEtmHeaderBytes;
  const auto add = [&](std::string name, std::string category, int64_t bytes) {
    if (bytes == 0) return;
    sections.push_back({std::move(name), std::move(category), at, bytes});
    at += bytes;
  };
  add("directory", "header and directory", kEtmEntryBytes * static_cast<int64_t>(container.blobs().size()));
  for (const BlobInfo& blob : container.blobs()) {
    add("padding", "alignment", blob.offset - at);
    if (blob.name != "weights") {
      add(blob.name, blob.name, blob.stored_bytes);
      continue;
    }
    std::vector<Part> parts = WeightParts(*graph, blob.raw_bytes);
    if (blob.codec != Codec::kRaw) Scale(parts, blob.raw_bytes, blob.stored_bytes);
    for (const Part& p : parts) add("weights/" + p.name, p.category, p.bytes);
  }
  return sections;
}

Result<std::string> DumpEtm(const std::string& path) {
  EVOQ_ASSIGN(const Container container, Container::Open(path));
  EVOQ_ASSIGN(const Model model, ReadEtm(path));
  std::string out = fmt::format("etm version {}, {} bytes\n", kEtmVersion, container.file_bytes());
  for (const BlobInfo& b : container.blobs())
    out += fmt::format("blob {} at {}: {} bytes{}, crc32c {:08x}\n", b.name, b.offset, b.stored_bytes,
                       b.codec == Codec::kRaw ? "" : fmt::format(" (zstd, {} decoded)", b.raw_bytes), b.crc);
  for (const auto& [key, value] : model.graph.metadata) out += fmt::format("meta {} = {}\n", key, value);
  if (!model.certificate.empty()) out += fmt::format("certificate {}\n", model.certificate);
  out += Print(model.graph);
  for (const Plan& plan : model.plans) {
    std::vector<std::string> shapes;
    for (const auto& [name, sizes] : plan.shapes) shapes.push_back(name + " " + Bracketed(std::span(sizes)));
    out += fmt::format("plan for {}\n", fmt::join(shapes, ", "));
    for (const auto& [node, decision] : plan.decisions) {
      out += fmt::format("  {}: {}\n", node, decision.kernel);
      for (const auto& r : decision.rejected) out += fmt::format("    not {} ({}): {}\n", r.kernel, r.code, r.why);
      if (!decision.float_code.empty()) out += fmt::format("    float ({}): {}\n", decision.float_code, decision.float_why);
    }
    for (const Tuning& tuning : plan.tunings) {
      out += fmt::format("  tuned on {}, {} threads\n", tuning.machine, tuning.threads);
      for (const auto& [node, step] : tuning.steps) {
        out += fmt::format("    {}: {}, {} threads\n", node, step.variant.empty() ? "default" : step.variant, step.threads);
        for (const auto& r : step.slower) out += fmt::format("      not {} ({}): {}\n", r.kernel, r.code, r.why);
      }
    }
  }
  return out;
}

}  // namespace evoq
