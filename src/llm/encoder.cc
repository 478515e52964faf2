#include "llm/encoder.h"

#include <algorithm>
#include <set>

#include "base/budget_scope.h"
#include "llm/distance_bias.h"
#include "llm/encoder_head.h"
#include "llm/graph_writer.h"
#include "llm/settings.h"
#include "llm/weights.h"

namespace evoq {
namespace {

using nlohmann::json;

// Layers and embeddings that no name stands for are an error; what a task's head has is left out.
StoredTensors Renamed(const EncoderFamily& family, EncoderHead head, StoredTensors tensors,
                      std::vector<std::string>& notes) {
  StoredTensors renamed;
  std::set<std::string> heads;
  for (auto& [name, tensor] : tensors) {
    const std::string known = NameInGraph({family.names, family.prefix, family.layers}, name);
    const std::string_view stem = WithoutPrefix(name, family.prefix);
    const bool of_body = stem.starts_with("encoder.") || stem.starts_with("transformer.") ||
                         stem.starts_with("embeddings.") || stem.starts_with("pooler.");
    if (stem == "embeddings.position_ids") continue;  // a count that exporters keep
    if (const std::string of_head = HeadTensor(head, stem); !of_head.empty()) {
      renamed.emplace(of_head, std::move(tensor));
    } else if (known.empty() && !of_body) {
      heads.insert(std::string(stem.substr(0, stem.find('.'))));
    } else if (known.empty() || !renamed.emplace(known, tensor).second) {
      renamed.emplace(name, std::move(tensor));
    }
  }
  for (const std::string& left : heads) notes.push_back(LeftOutNote(left));
  return renamed;
}

Status Check(const Encoder& e) {
  const struct {
    const char* what;
    int64_t size, least, most;
  } sizes[] = {{"vocabulary", e.vocabulary, 1, 1 << 24},
               {"width", e.width, 1, 1 << 20},
               {"layers", e.layers, 1, 1024},
               {"heads", e.heads, 1, 1 << 14},
               {"inner width", e.inner, 1, 1 << 22},
               {"embedding width", e.embedding, 1, 1 << 20},
               {"groups of layers", e.groups, 1, e.layers},
               {"context", e.context, 1, 1 << 24},
               {"token types", e.types, 0, 1 << 16}};
  for (const auto& [what, size, least, most] : sizes) {
    if (size < least || size > most)
      return InvalidInput("{} is {}, expected {} to {}", what, size, least, most);
  }
  if (e.width % e.heads != 0)
    return InvalidInput("width {} of {} heads, expected a multiple", e.width, e.heads);
  if (!(e.epsilon > 0 && e.epsilon < 1))
    return InvalidInput("epsilon of norms is {}, expected a small positive number", e.epsilon);
  return {};
}

class Builder : GraphWriter {
 public:
  Builder(const Encoder& encoder, const StoredTensors& tensors, std::vector<std::string>& notes)
      : e_(encoder),
        tensors_(tensors),
        weights_(graph_, tensors, notes, FindEncoderFamily(encoder.family)->names) {}

  Result<Graph> Build();

 private:
  // The tensor's name: that of the first layer with the same weights.
  std::string Stored(const std::string& name) const;
  // Rows of a table, widened.
  Result<ValueId> Rows(const std::string& name, int64_t rows, ValueId ids);
  Result<ValueId> Linear(const std::string& name, ValueId x, int64_t inputs, int64_t outputs);
  Result<ValueId> Norm(const std::string& name, ValueId x, int64_t size);
  // Where each token stands: [sequence], or [batch, sequence] where padding is not counted.
  ValueId Places();
  Result<ValueId> Embedded();
  // Which tokens each one sees, for Attention: bool[batch, 1, 1, sequence]; float32[batch, heads,
  // sequence, sequence] where distances count.
  Result<ValueId> Seen(ValueId mask);
  Result<ValueId> Layer(int64_t layer, ValueId x);
  // The pooled first state; invalid where the folder has no pooler.
  Result<ValueId> Pool(ValueId x);
  // The outputs of the head, if there is one.
  Status Head(ValueId x, ValueId pooled);
  ValueId First(const std::string& name, ValueId x);
  void Give(ValueId value, const std::string& name);
  Result<ValueId> HeadLinear(const std::string& name, ValueId x);

  const Encoder& e_;
  const StoredTensors& tensors_;
  WeightReader weights_;
  ValueId ids_, types_, seen_;
};

std::string Builder::Stored(const std::string& name) const {
  constexpr std::string_view kBlock = "blk.";
  if (e_.groups == e_.layers || !name.starts_with(kBlock)) return name;
  const size_t end = name.find('.', kBlock.size());
  const double layer = std::stod(name.substr(kBlock.size(), end - kBlock.size()));
  const auto group = static_cast<int64_t>(
      layer / (static_cast<double>(e_.layers) / static_cast<double>(e_.groups)));
  return fmt::format("blk.{}{}", group, name.substr(end));
}

Result<ValueId> Builder::Rows(const std::string& name, int64_t rows, ValueId ids) {
  EVOQ_ASSIGN(const ValueId table, weights_.Table(name + ".weight", rows, e_.embedding));
  const bool narrow = graph_.value(table).type.dtype != DType::kFloat32;
  const ValueId x = Apply("Gather", name, {table, ids}, Attrs::Of("axis", int64_t{0}));
  return narrow ? Apply("Cast", name + ".float32", {x},
                        Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)))
                : x;
}

Result<ValueId> Builder::Linear(const std::string& name, ValueId x, int64_t inputs,
                                int64_t outputs) {
  const std::string stored = Stored(name);
  EVOQ_ASSIGN(const ValueId w, weights_.Matrix(stored + ".weight", inputs, outputs, false));
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(stored + ".bias", outputs));
  return Apply("MatMul", name, {x, w, bias});
}

Result<ValueId> Builder::Norm(const std::string& name, ValueId x, int64_t size) {
  const std::string stored = Stored(name);
  EVOQ_ASSIGN(const ValueId scale, weights_.Vector(stored + ".weight", size));
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(stored + ".bias", size));
  Attrs attrs = Attrs::Of("axis", int64_t{-1});
  attrs.Set("epsilon", e_.epsilon);
  return Apply("LayerNormalization", name, {x, scale, bias}, std::move(attrs));
}

ValueId Builder::Places() {
  if (e_.padding < 0) {
    const ValueId shape = Apply("Shape", "sequence.shape", {ids_}, Attrs::Of("start", int64_t{1}));
    const ValueId length = Apply("Squeeze", "sequence.length", {shape});
    return Apply("Range", "places", {Int("zero", 0), length, Int("one", 1)});
  }
  const ValueId padding = Int("padding", e_.padding);
  const ValueId pads = Apply("Equal", "is_padding", {ids_, padding});
  const ValueId tokens = Apply("Cast", "is_token", {Apply("Not", "no_padding", {pads})},
                               Attrs::Of("to", static_cast<int64_t>(DType::kInt64)));
  const ValueId counted = Apply("CumSum", "counted", {tokens, Int("axis", 1)});
  return Apply("Add", "places", {Apply("Mul", "counted.tokens", {counted, tokens}), padding});
}

Result<ValueId> Builder::Embedded() {
  EVOQ_ASSIGN(ValueId x, Rows("token_embd", e_.vocabulary, ids_));
  if (e_.types > 0) {
    const ValueId types = types_.valid() ? types_ : Int("token_type", 0);
    EVOQ_ASSIGN(const ValueId t, Rows("token_types", e_.types, types));
    x = Apply("Add", "token_embd.typed", {x, t});
  }
  EVOQ_ASSIGN(const ValueId p, Rows("position_embd", e_.context, Places()));
  EVOQ_ASSIGN(x, Norm("token_embd_norm", Apply("Add", "embedded", {x, p}), e_.embedding));
  const std::string project = "token_embd_project";
  return weights_.Has(project + ".weight") || e_.embedding != e_.width
             ? Linear(project, x, e_.embedding, e_.width)
             : x;
}

Result<ValueId> Builder::Seen(ValueId mask) {
  const ValueId bools =
      Apply("Cast", "seen", {mask}, Attrs::Of("to", static_cast<int64_t>(DType::kBool)));
  const ValueId seen = Apply("Unsqueeze", "seen.by_key", {bools, Ints("seen.axes", {1, 2})});
  if (!weights_.Has("distance_bias.weight")) return seen;
  constexpr int64_t kBuckets = 32;
  EVOQ_ASSIGN(const std::vector<double> bias,
              weights_.Numbers("distance_bias.weight", {kBuckets, e_.heads}));
  const int64_t rows = 2 * e_.context - 1;
  EVOQ_TRY(SpendMemory(rows * e_.heads * 4, "biases of distances"));
  Tensor table = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, e_.heads}));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t bucket = DistanceBuckets().Of(i - e_.context + 1);
    for (int64_t h = 0; h < e_.heads; ++h)
      table.mutable_data<float>()[i * e_.heads + h] =
          static_cast<float>(bias[static_cast<size_t>(bucket * e_.heads + h)]);
  }
  const ValueId shape = Apply("Shape", "distance.shape", {ids_}, Attrs::Of("start", int64_t{1}));
  const ValueId length = Apply("Squeeze", "distance.length", {shape});
  const ValueId places = Apply("Range", "distance.places",
                               {Int("distance.begin", 0), length, Int("distance.step", 1)});
  const ValueId queries =
      Apply("Unsqueeze", "distance.queries", {places, Ints("distance.axis", {1})});
  const ValueId apart = Apply("Sub", "distance.apart", {places, queries});
  const ValueId at = Apply("Add", "distance.rows", {apart, Int("distance.first", e_.context - 1)});
  const ValueId biases = Apply("Gather", "distance.biases",
                               {graph_.AddConstant("distance_bias", std::move(table)), at},
                               Attrs::Of("axis", int64_t{0}));
  const ValueId by_head = Apply("Transpose", "distance.by_head", {biases},
                                Attrs::Of("perm", std::vector<int64_t>{2, 0, 1}));
  const ValueId hidden = graph_.AddConstant("distance.hidden", Tensor::Scalar(-1e9f));
  return Apply("Where", "distance.seen", {seen, by_head, hidden});
}

Result<ValueId> Builder::Layer(int64_t layer, ValueId x) {
  const std::string block = fmt::format("blk.{}.", layer);
  EVOQ_ASSIGN(const ValueId q, Linear(block + "attn_q", x, e_.width, e_.width));
  EVOQ_ASSIGN(const ValueId k, Linear(block + "attn_k", x, e_.width, e_.width));
  EVOQ_ASSIGN(const ValueId v, Linear(block + "attn_v", x, e_.width, e_.width));
  Attrs heads = Attrs::Of("q_num_heads", e_.heads);
  heads.Set("kv_num_heads", e_.heads);
  ValueId y = Apply("Attention", block + "attention", {q, k, v, seen_}, std::move(heads));
  EVOQ_ASSIGN(y, Linear(block + "attn_output", y, e_.width, e_.width));
  EVOQ_ASSIGN(x,
              Norm(block + "attn_output_norm", Apply("Add", block + "attended", {x, y}), e_.width));
  EVOQ_ASSIGN(y, Linear(block + "ffn_up", x, e_.width, e_.inner));
  EVOQ_ASSIGN(
      y, Linear(block + "ffn_down", AddFunction(graph_, e_.function, block + "ffn_up.activated", y),
                e_.inner, e_.width));
  return Norm(block + "layer_output_norm", Apply("Add", block + "fed", {x, y}), e_.width);
}

ValueId Builder::First(const std::string& name, ValueId x) {
  return Apply("Gather", name + ".first", {x, Int(name + ".place", 0)},
               Attrs::Of("axis", int64_t{1}));
}

void Builder::Give(ValueId value, const std::string& name) {
  graph_.Rename(value, name);
  graph_.MarkOutput(value);
}

Result<ValueId> Builder::Pool(ValueId x) {
  if (!weights_.Has("pooler.weight")) return ValueId{};
  EVOQ_ASSIGN(const ValueId y, Linear("pooler", First("pooler", x), e_.width, e_.width));
  return Apply("Tanh", "pooler.tanh", {y});
}

// Of as many outputs as the tensor has.
Result<ValueId> Builder::HeadLinear(const std::string& name, ValueId x) {
  const std::vector<int64_t>& sizes = tensors_.at(name + ".weight").sizes;
  const int64_t outputs = sizes.empty() ? 0 : sizes[0];
  EVOQ_ASSIGN(const ValueId w, weights_.Matrix(name + ".weight", e_.width, outputs, false));
  if (!weights_.Has(name + ".bias")) return Apply("MatMul", name, {x, w});
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(name + ".bias", outputs));
  return Apply("MatMul", name, {x, w, bias});
}

Status Builder::Head(ValueId x, ValueId pooled) {
  if (!weights_.Has("head.out.weight")) return {};
  if (e_.head == EncoderHead::kTexts && weights_.Has("head.dense.weight")) {
    EVOQ_ASSIGN(x, HeadLinear("head.dense", First("head", x)));
    x = Apply(FindEncoderFamily(e_.family)->head_function, "head.activated", {x});
  } else if (e_.head == EncoderHead::kTexts) {
    if (!pooled.valid()) return Unsupported("a head that sorts texts without a pooler");
    x = pooled;
  }
  EVOQ_ASSIGN(const ValueId logits, HeadLinear("head.out", x));
  if (e_.head != EncoderHead::kAnswers) {
    Give(logits, "logits");
    return {};
  }
  if (tensors_.at("head.out.weight").sizes[0] != 2)
    return Unsupported("qa_outputs of {} outputs, expected 2",
                       tensors_.at("head.out.weight").sizes[0]);
  for (int64_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "start_logits" : "end_logits";
    Give(Apply("Gather", name, {logits, Int(name + ".place", i)}, Attrs::Of("axis", int64_t{2})),
         name);
  }
  return {};
}

Result<Graph> Builder::Build() {
  graph_.name = e_.family;
  const TensorType ids(DType::kInt64,
                       Shape(std::vector<Dim>{Dim::Symbolic("batch"), Dim::Symbolic("sequence")}));
  ids_ = graph_.AddInput("input_ids", ids);
  const ValueId mask = graph_.AddInput("attention_mask", ids);
  if (e_.types > 1) types_ = graph_.AddInput("token_type_ids", ids);
  EVOQ_ASSIGN(seen_, Seen(mask));
  EVOQ_ASSIGN(ValueId x, Embedded());
  for (int64_t layer = 0; layer < e_.layers; ++layer) {
    EVOQ_ASSIGN(x, Layer(layer, x));
  }
  EVOQ_ASSIGN(const ValueId pooled, Pool(x));
  EVOQ_TRY(Head(x, pooled));
  Give(x, "last_hidden_state");
  if (pooled.valid()) Give(pooled, "pooler_output");
  EVOQ_TRY(weights_.CheckAllRead());
  EVOQ_TRY(graph_.Sort());
  return std::move(graph_);
}

}  // namespace

Result<Encoder> ReadEncoderConfig(const EncoderFamily& family, const json& config) {
  Encoder e;
  e.family = family.name;
  e.head = HeadOf(config);
  for (const char* key : {"is_decoder", "add_cross_attention", "sinusoidal_pos_embds"}) {
    EVOQ_ASSIGN(const bool asked, Truth(config, key, false));
    if (asked) return Unsupported("{} is true, expected false", key);
  }
  if (Given(config, "quantization_config"))
    return Unsupported(
        "quantization_config is there: encoders that another tool quantized are "
        "not read");
  if (Given(config, "position_embedding_type") && config["position_embedding_type"] != "absolute")
    return Unsupported("position_embedding_type is {}, expected \"absolute\"",
                       config["position_embedding_type"].dump().substr(0, 60));
  const bool has_types = std::ranges::any_of(
      family.names, [](const TensorName& name) { return name.gguf == "token_types"; });
  EVOQ_ASSIGN(e.vocabulary, Int(config, {"vocab_size"}));
  EVOQ_ASSIGN(e.width, Int(config, {"hidden_size", "dim"}));
  EVOQ_ASSIGN(e.layers, Int(config, {"num_hidden_layers", "n_layers"}));
  EVOQ_ASSIGN(e.heads, Int(config, {"num_attention_heads", "n_heads"}));
  EVOQ_ASSIGN(e.inner, Int(config, {"intermediate_size", "hidden_dim"}));
  EVOQ_ASSIGN(e.context, Int(config, {"max_position_embeddings"}));
  EVOQ_ASSIGN(e.embedding,
              Int(config, {"embedding_size"}, family.embedding > 0 ? family.embedding : e.width));
  EVOQ_ASSIGN(e.groups, Int(config, {"num_hidden_groups"}, 1));
  if (!family.shared_layers) e.groups = e.layers;
  EVOQ_ASSIGN(const int64_t inner_groups, Int(config, {"inner_group_num"}, 1));
  if (inner_groups != 1) return Unsupported("inner_group_num is {}, expected 1", inner_groups);
  if (has_types) {
    EVOQ_ASSIGN(e.types, Int(config, {"type_vocab_size"}, 2));
  }
  if (family.places_by_padding) {
    EVOQ_ASSIGN(e.padding, Int(config, {"pad_token_id"}, 1));
  }
  EVOQ_ASSIGN(const double epsilon, Real(config, {"layer_norm_eps"}, 1e-12));
  e.epsilon = static_cast<float>(epsilon);
  EVOQ_ASSIGN(e.function, Function(config, family.function));
  EVOQ_TRY(Check(e));
  return e;
}

Result<Graph> BuildEncoder(const Encoder& encoder, StoredTensors tensors,
                           std::vector<std::string>& notes) {
  const EncoderFamily* family = FindEncoderFamily(encoder.family);
  EVOQ_CHECK(family != nullptr, "{}", encoder.family);
  tensors = Renamed(*family, encoder.head, std::move(tensors), notes);
  return Builder(encoder, tensors, notes).Build();
}

}  // namespace evoq
