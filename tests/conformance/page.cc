#include "tests/conformance/page.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/text.h"
#include "kernels/kernel.h"
#include "onnx/onnx.h"
#include "onnx/proto.h"
#include "onnx/upgrade.h"
#include "ops/op.h"
#include "reference/reference.h"
#include "tests/conformance/cases.h"

namespace evoq {
namespace {

struct Versions {
  const char* op;
  const char* numbers;
};
constexpr Versions kVersions[] = {
#define EVOQ_VERSIONS(op, numbers) {#op, numbers},
#include "tests/conformance/versions.inc"
#undef EVOQ_VERSIONS
};

// The cases of one operator.
struct Tally {
  int cases = 0;
  std::vector<int> passed;  // by mode
  std::set<DType> types;    // of the first input
};

using Tallies = std::map<std::string, Tally>;  // by "domain::operator"

std::string Key(const std::string& domain, const std::string& op) {
  return (domain == "ai.onnx" ? "" : domain) + "::" + op;
}

Result<onnx::ModelProto> ReadModel(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  if (!model.ParseFromIstream(&file)) return InvalidInput("{}: not an ONNX file", path);
  return model;
}

void AddOperators(const onnx::GraphProto& graph, std::set<std::string>& found) {
  for (const auto& node : graph.node()) {
    found.insert(Key(node.domain(), node.op_type()));
    for (const auto& attr : node.attribute()) {
      if (attr.has_g()) AddOperators(attr.g(), found);
    }
  }
}

// ---- which element types the first input may have: the definition is tried on the data of a case

constexpr DType kTypes[] = {
    DType::kFloat16,    DType::kBfloat16,       DType::kFloat32,      DType::kFloat64,
    DType::kInt8,       DType::kInt16,          DType::kInt32,        DType::kInt64,
    DType::kUint8,      DType::kUint16,         DType::kUint32,       DType::kUint64,
    DType::kBool,       DType::kString,         DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ,
    DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ, DType::kFloat8E8M0,   DType::kFloat4E2M1,
    DType::kInt4,       DType::kUint4,          DType::kInt2,         DType::kUint2};

Result<Tensor> Cast(const Tensor& x, DType to) {
  Node node;
  node.op = "Cast";
  node.name = "cast";
  node.attrs.Set("to", static_cast<int>(to));
  node.inputs = {ValueId{0}};
  node.outputs = {ValueId{1}};
  EVOQ_ASSIGN(std::vector<Tensor> y,
              EvaluateNode(node, std::span(&x, 1), std::vector{TensorType(to, x.shape())}));
  return y[0];
}

// The model with inputs of type `to` where they have the type of the first one.
bool Runs(onnx::ModelProto model, const DataSet& data, DType to) {
  auto& inputs = *model.mutable_graph()->mutable_input();
  const int from = inputs[0].type().tensor_type().elem_type();
  std::vector<Tensor> values = data.inputs;
  for (int i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type().tensor_type().elem_type() != from) continue;
    inputs[i].mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(to));
    auto cast = Cast(values[static_cast<size_t>(i)], to);
    if (!cast) return false;
    values[static_cast<size_t>(i)] = std::move(*cast);
  }
  for (auto& output : *model.mutable_graph()->mutable_output()) output.clear_type();
  const std::string bytes = model.SerializeAsString();
  const auto graph = ImportOnnxBytes(std::as_bytes(std::span(bytes)), "case");
  return graph && EvaluateGraph(*graph, values).has_value();
}

void TryTypes(const onnx::ModelProto& model, const std::string& folder, std::set<DType>& types) {
  if (model.graph().input_size() == 0 || !model.graph().input(0).type().has_tensor_type()) return;
  const onnx::NodeProto& node = model.graph().node(0);
  if (node.input_size() == 0 || node.input(0) != model.graph().input(0).name()) return;
  const auto c = ReadCase(folder);
  if (!c || c->data[0].inputs.size() != static_cast<size_t>(model.graph().input_size())) return;
  for (const Tensor& input : c->data[0].inputs) {
    if (!input.type().is_tensor()) return;
  }
  for (DType type : kTypes) {
    if (types.count(type) == 0 && Runs(model, c->data[0], type)) types.insert(type);
  }
}

Result<Tallies> Count(const std::string& root, const SuiteResult& suite) {
  Tallies tallies;
  for (const CaseResult& c : suite.cases) {
    const std::string folder = root + "/" + c.name;
    EVOQ_ASSIGN(const onnx::ModelProto model, ReadModel(folder + "/model.onnx"));
    std::set<std::string> found;
    AddOperators(model.graph(), found);
    for (const auto& function : model.functions()) {
      found.erase(Key(function.domain(), function.name()));
      for (const auto& node : function.node()) found.insert(Key(node.domain(), node.op_type()));
    }
    for (const std::string& key : found) {
      Tally& tally = tallies[key];
      tally.passed.resize(AllModes().size());
      ++tally.cases;
      for (size_t m = 0; m < tally.passed.size(); ++m) tally.passed[m] += c.why[m].empty();
      if (model.graph().node_size() == 1 && c.why[0].empty()) TryTypes(model, folder, tally.types);
    }
  }
  return tallies;
}

// ---- the cells

// Versions in force at operator sets that evoq reads.
std::string ReadVersions(const char* numbers) {
  constexpr int kOldest = 6;
  std::vector<int> all;
  std::istringstream in(numbers);
  for (int v; in >> v; in.ignore(2)) all.push_back(v);
  std::vector<int> read;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i + 1 == all.size() || all[i + 1] > kOldest) read.push_back(all[i]);
  }
  return fmt::format("{}", fmt::join(read, ", "));
}

std::string TypeNames(const std::set<DType>& types) {
  struct Group {
    const char* name;
    std::vector<DType> types;
  };
  const Group kGroups[] = {
      {"float", {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}},
      {"int", {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}},
      {"uint", {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}},
      {"bool", {DType::kBool}},
      {"string", {DType::kString}},
      {"float8",
       {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
        DType::kFloat8E8M0}},
      {"4 and 2 bits",
       {DType::kFloat4E2M1, DType::kInt4, DType::kUint4, DType::kInt2, DType::kUint2}}};
  std::vector<std::string> names;
  for (const Group& group : kGroups) {
    const auto has = [&](DType t) { return types.count(t) > 0; };
    if (std::all_of(group.types.begin(), group.types.end(), has)) {
      names.push_back(group.name);
      continue;
    }
    for (DType t : group.types) {
      if (has(t)) names.push_back(DTypeName(t));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string KernelNames(const std::string& op) {
  std::vector<std::string> names;
  for (const KernelDef* kernel : AllKernels()) {
    if (op == kernel->op) names.push_back(kernel->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

const char* TraitName(QuantTrait trait) {
  switch (trait) {
    case QuantTrait::kFloat: return "";
    case QuantTrait::kLinear: return "integer arithmetic";
    case QuantTrait::kMove: return "keeps integers";
    case QuantTrait::kReal: return "own scale";
    case QuantTrait::kTable: return "table";
  }
  return "";
}

// "12/12" where all modes agree, else each mode's count.
std::string Passed(const Tally* tally) {
  if (tally == nullptr) return "";
  const auto& p = tally->passed;
  if (std::all_of(p.begin(), p.end(), [&](int n) { return n == p[0]; }))
    return fmt::format("{}/{}", p[0], tally->cases);
  std::vector<std::string> counts;
  for (size_t m = 0; m < p.size(); ++m)
    counts.push_back(fmt::format("{} {}", AllModes()[m].name, p[m]));
  return fmt::format("{} of {}", fmt::join(counts, ", "), tally->cases);
}

const Tally* FindTally(const Tallies& tallies, const std::string& domain, const std::string& op) {
  const auto it = tallies.find(Key(domain, op));
  return it == tallies.end() ? nullptr : &it->second;
}

std::string OnnxRow(const Versions& v, const Tallies& tallies) {
  const OpDef* op = FindOp(v.op);
  const Tally* tally = FindTally(tallies, "", v.op);
  if (op == nullptr && !IsReplaced(v.op, "") && std::string_view(v.op) != "Constant")
    return fmt::format("| {} | | | | | not an operator of evoq |\n", v.op);
  const std::string kernels = KernelNames(v.op);
  return fmt::format("| {} | {} | {} | {} | {} | {} |\n", v.op, ReadVersions(v.numbers),
                     tally ? TypeNames(tally->types) : "",
                     op == nullptr ? "(replaced at import)" : kernels,
                     op ? TraitName(op->quant) : "", Passed(tally));
}

// Operators of other domains: those that a rule of the importer replaces, and evoq's own.
std::string OtherRows() {
  std::set<std::pair<std::string, std::string>> rows;
  for (const auto rules :
       {MicrosoftRules(), QuantizedRules(), QonnxRules(), Bnb4Rules(), RecurrentRules()}) {
    for (const UpgradeRule& rule : rules) {
      if (*rule.domain != 0) rows.emplace(rule.domain, rule.op);
    }
  }
  for (const OpDef* op : AllOps()) {
    if (*op->domain != 0) rows.emplace(op->domain, op->name);
  }
  std::string out;
  for (const auto& [domain, name] : rows) {
    const OpDef* op = FindOp(name, domain);
    out += fmt::format("| {} | {} | {} | {} |\n", domain, name,
                       IsReplaced(name, domain) ? "(replaced at import)" : KernelNames(name),
                       op ? TraitName(op->quant) : "");
  }
  return out;
}

constexpr const char* kHead = R"(# Operators

What evoq does with each operator of the ONNX standard.
`EVOQ_UPDATE_GOLDENS=1 build/release/tests/evoq_conformance_test` writes this page from the lists of
operators and kernels and from the outcome of the ONNX project's conformance cases; a test holds it
to them.

* **versions**: those of ONNX's versions of the operator that operator sets 6 to 28 use. evoq reads
  all of them: the importer brings older ones to the newest form ([onnx.md](onnx.md)).
* **types**: element types of the first input on which the definition runs, as tried on the
  operator's cases; `float` is float16, bfloat16, float32 and float64, `int` and `uint` are 8 to 64
  bits, `float8` its five formats, `4 and 2 bits` float4, int4, uint4, int2 and uint2. 16-bit floats
  are computed as float32, float64 as float64 (in QONNX's Quant as float32).
* **NaN**: a NaN gives a NaN in every operator that compares floats (Relu, Clip, Max, Min, pooling,
  ReduceMax, ...), alone or fused, as in ONNX's reference; Shrink and ThresholdedRelu give 0. ArgMax
  and ArgMin name the first NaN. QuantizeLinear makes it the zero point.
* **Resize of integers**: computed in float32, of 64 bits in float64. Linear then cuts off the
  fraction, as ONNX Runtime does on uint8, int8 and int32 (it differs by one where float rounding
  falls to the other side of an integer); with `antialias`, and cubic, which ONNX Runtime does not
  have on integers, it rounds to nearest even and saturates (with `antialias` ONNX Runtime rounds
  after each axis, and differs by one). Of bools only nearest.
* **kernels**: preferred ones first. An operator without a kernel that no pass writes out in others
  ([passes.md](passes.md)), or a step that no kernel takes, is computed by its definition; `evoq
  explain` says so.
* **quantized**: how it computes on integers. *integer arithmetic*: exactly, with int32 sums. *keeps
  integers*: it only moves or selects. *own scale*: each value has a scale of its own. *table*: 256
  entries. Empty: in float.
* **cases**: conformance cases with the operator that pass, of all that have it, where all modes
  agree; else by mode. Cases that do not pass are in `tests/conformance/ignore.txt`, each with its
  reason.

)";

std::string ModesTable(const SuiteResult& suite) {
  std::string out = "| mode | what it is | cases passed |\n|---|---|---|\n";
  for (size_t m = 0; m < AllModes().size(); ++m) {
    const auto passed = std::count_if(suite.cases.begin(), suite.cases.end(),
                                      [&](const CaseResult& c) { return c.why[m].empty(); });
    out += fmt::format("| {} | {} | {} of {} |\n", AllModes()[m].name, AllModes()[m].doc, passed,
                       suite.cases.size());
  }
  return out;
}

}  // namespace

Result<std::string> OperatorsPage(const std::string& root, const SuiteResult& suite) {
  EVOQ_ASSIGN(const Tallies tallies, Count(root, suite));
  std::string page = kHead + ModesTable(suite);
  page +=
      "\n## ai.onnx\n\n| operator | versions | types | kernels | quantized | cases "
      "|\n|---|---|---|---|---|---|\n";
  for (const Versions& v : kVersions) page += OnnxRow(v, tallies);
  page += "\n## Other domains\n\n| domain | operator | kernels | quantized |\n|---|---|---|---|\n" +
          OtherRows();
  return page;
}

}  // namespace evoq
