#include "llm/language_model.h"

#include <algorithm>
#include <cmath>

#include "base/budget_scope.h"
#include "kernels/attention/attention_inputs.h"
#include "llm/distance_bias.h"
#include "llm/experts.h"
#include "llm/facts.h"
#include "llm/graph_writer.h"
#include "llm/weights.h"

namespace evoq {
namespace {

std::string Block(int64_t layer, const std::string& rest) {
  return fmt::format("blk.{}.{}", layer, rest);
}

// The graph under construction. Names of nodes are those of the tensors they read.
std::span<const TensorName> NamesOf(const LanguageModel& model) {
  const Architecture* row = model.of_folder ? FindArchitecture(model.architecture) : nullptr;
  return row == nullptr ? std::span<const TensorName>() : row->names;
}

class Builder : GraphWriter {
 public:
  Builder(const LanguageModel& model, const StoredTensors& tensors, std::vector<std::string>& notes,
          LanguageForm form)
      : m_(model),
        form_(form),
        caches_(form == LanguageForm::kCached),
        weights_(graph_, tensors, notes, NamesOf(model)) {}

  Result<Graph> Build();

 private:
  struct Angles {
    ValueId cosines, sines, places;  // where each token's row is
    ValueId growth;                  // what queries are multiplied by; invalid: 1
  };

  // tanh(x / cap) * cap
  ValueId Capped(const std::string& name, ValueId x, float cap) {
    if (cap == 0) return x;
    const ValueId bent = Apply("Tanh", name + ".tanh", {Times(name + ".divided", x, 1 / cap)});
    return Times(name, bent, cap);
  }

  void AddInputs();
  void AddCaches(const Dim& batch);
  Result<ValueId> Embedded();
  Result<Angles> AnglesOf(const Rope& rope, const std::string& name);
  // Fills angles_ and local_angles_.
  Status Turn();
  // What scores get by the places of keys: [heads, 1, places].
  ValueId Slope();
  // [batch, 1, sequence, 1]; invalid where all are 1.
  ValueId GrowthOf(const Rope& rope, const std::string& name);
  // Rotary factors of a GGUF file's tensor, where it has one.
  Status ReadFactors(const std::string& name, std::vector<double>& slow);
  Result<ValueId> Norm(const std::string& name, ValueId x, int64_t size);
  // Of x, scales and perhaps biases.
  ValueId Normalized(const std::string& name, std::vector<ValueId> inputs);
  // x [batch, sequence, heads, head size] as it is where the file has no norm of this name.
  Result<ValueId> NormByHead(const std::string& name, ValueId x, int64_t heads);
  ValueId Ones(const std::string& name, int64_t size) {
    return graph_.AddConstant(
        name, Tensor::FromValues(std::vector<float>(static_cast<size_t>(size), 1.0f)));
  }
  // x times the matrix NAME.weight, plus NAME.bias where there is one.
  Result<ValueId> Linear(const std::string& name, ValueId x, int64_t inputs, int64_t outputs);
  // x as the matrix NAME.weight takes its inputs.
  ValueId Ordered(const std::string& name, ValueId x);
  // [batch, sequence, heads * size] -> [batch, heads, sequence, size], normalized and turned.
  Result<ValueId> Heads(int64_t layer, const std::string& name, ValueId x, int64_t heads);
  ValueId Turned(int64_t layer, const std::string& name, ValueId x);
  ValueId Cached(int64_t layer, const std::string& which, ValueId update);
  // [batch, sequence, outputs] in parts along the last axis.
  std::vector<ValueId> Split(const std::string& name, ValueId x, const std::vector<int64_t>& sizes);
  Result<ValueId> Attention(int64_t layer, ValueId x);
  // A gated feed-forward part of matrices ffn_gate + SUFFIX, ffn_up + SUFFIX, ffn_down + SUFFIX.
  Result<ValueId> Feed(int64_t layer, ValueId x, int64_t inner, const std::string& suffix = "");
  // For each token which experts count, and how much: [batch, sequence, used].
  struct Route {
    ValueId ids, shares;
  };
  Result<Route> Router(int64_t layer, ValueId x);
  // [batch, sequence, used, outputs], of experts' matrices NAME.E.
  Result<ValueId> ChosenLinear(const std::string& name, ValueId ids, ValueId x, int64_t inputs,
                               int64_t outputs);
  // What ffn_down reads of experts' gates and ups.
  ValueId Gated(const std::string& name, ValueId gate, ValueId up);
  Result<ValueId> FeedExperts(int64_t layer, ValueId x);
  Result<ValueId> Layer(int64_t layer, ValueId x);
  // x + f(x), f's result normalized where the file has NORM.weight.
  Result<ValueId> Joined(int64_t layer, const std::string& name, const std::string& norm, ValueId x,
                         ValueId f);
  // What the model gives: the logits, or what they would be made of.
  Result<ValueId> Output(ValueId x);

  bool HasExperts(int64_t layer) const {
    return m_.experts.count > 0 &&
           (m_.experts.layers.empty() || m_.experts.layers[static_cast<size_t>(layer)]);
  }
  bool Windowed(int64_t layer) const {
    return !m_.windowed.empty() && m_.windowed[static_cast<size_t>(layer)];
  }

  const LanguageModel& m_;
  const LanguageForm form_;
  const bool caches_;
  WeightReader weights_;
  ValueId ids_, position_, logits_at_, positions_, lengths_, room_, seen_;
  ValueId bias_;  // of scores; invalid: none
  Angles angles_, local_angles_;
  std::vector<ValueId> present_;
};

void Builder::AddInputs() {
  const Dim batch = Dim::Symbolic("batch"), sequence = Dim::Symbolic("sequence");
  const auto ints = [](std::vector<Dim> dims) {
    return TensorType(DType::kInt64, Shape(std::move(dims)));
  };
  ids_ = graph_.AddInput("input_ids", ints({batch, sequence}));
  ValueId mask;
  if (form_ == LanguageForm::kStates)
    mask = graph_.AddInput("attention_mask", ints({batch, sequence}));
  if (caches_) {
    position_ = graph_.AddInput("position", ints({batch}));
    logits_at_ = graph_.AddInput("logits_at", ints({batch, Dim::Symbolic("wanted")}));
    AddCaches(batch);
  } else {
    Attrs zeros = Attrs::Of("value", Tensor::FromValues<int64_t>(Shape{1}, {0}));
    const ValueId samples = Apply("Shape", "batch.shape", {ids_}, Attrs::Of("end", int64_t{1}));
    position_ = Apply("ConstantOfShape", "position", {samples}, std::move(zeros));
  }
  const ValueId shape = Apply("Shape", "sequence.shape", {ids_}, Attrs::Of("start", int64_t{1}));
  const ValueId zero = graph_.AddConstant("zero", Tensor::Scalar<int64_t>(0)),
                one = graph_.AddConstant("one", Tensor::Scalar<int64_t>(1));
  const ValueId length = Apply("Squeeze", "sequence.length", {shape});
  const ValueId places = Apply("Range", "sequence.places", {zero, length, one});
  const ValueId begin = Apply("Unsqueeze", "position.begin", {position_, Ints("axis.1", {1})});
  positions_ = Apply("Add", "positions", {begin, places});
  lengths_ = Apply("Add", "lengths", {position_, shape});
  room_ = shape;
  if (caches_) {
    Attrs third = Attrs::Of("start", int64_t{2});
    third.Set("end", int64_t{3});
    room_ = Apply("Shape", "cache.places", {graph_.FindValue("past_key.0")}, std::move(third));
  }
  if (!m_.bidirectional) return;
  const ValueId bools =
      Apply("Cast", "seen", {mask}, Attrs::Of("to", static_cast<int64_t>(DType::kBool)));
  seen_ = Apply("Unsqueeze", "seen.by_key", {bools, Ints("seen.axes", {1, 2})});
}

void Builder::AddCaches(const Dim& batch) {
  for (int64_t layer = 0; layer < m_.layers; ++layer) {
    for (const char* name : {"past_key", "past_value"})
      graph_.AddInput(fmt::format("{}.{}", name, layer),
                      TensorType(DType::kFloat32,
                                 Shape(std::vector<Dim>{batch, m_.kv_heads,
                                                        Dim::Symbolic("context"), m_.head_size})));
  }
}

Result<ValueId> Builder::Embedded() {
  EVOQ_ASSIGN(const ValueId table, weights_.Table("token_embd.weight", m_.vocabulary, m_.width));
  const bool narrow =
      !graph_.value(table).type.quantized() && graph_.value(table).type.dtype != DType::kFloat32;
  const auto widened = [&](const std::string& name, ValueId x, bool needed) {
    return needed ? Apply("Cast", name, {x}, Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)))
                  : x;
  };
  ValueId x = Apply("Gather", "token_embd", {table, ids_}, Attrs::Of("axis", int64_t{0}));
  x = Times("token_embd.scaled", widened("token_embd.float32", x, narrow), m_.embedding_scale);
  if (m_.embedding_norm) return Norm("token_embd_norm", x, m_.width);
  if (!m_.learned_positions) return x;
  EVOQ_ASSIGN(const ValueId places,
              weights_.Table("position_embd.weight", m_.first_position + m_.context, m_.width));
  const bool narrow_places =
      !graph_.value(places).type.quantized() && graph_.value(places).type.dtype != DType::kFloat32;
  ValueId rows = positions_;
  if (m_.first_position > 0)
    rows = Apply("Add", "position_embd.rows",
                 {rows, Ints("position_embd.first", {m_.first_position})});
  const ValueId p = Apply("Gather", "position_embd", {places, rows}, Attrs::Of("axis", int64_t{0}));
  return Apply("Add", "embedded", {x, widened("position_embd.float32", p, narrow_places)});
}

Result<Builder::Angles> Builder::AnglesOf(const Rope& rope, const std::string& name) {
  // Rows for short caches stand before those for long ones.
  const bool both = !rope.long_slow.empty() && m_.context > rope.original;
  const int64_t half = m_.rotated / 2, first = both ? rope.original : 0, rows = first + m_.context;
  EVOQ_TRY(SpendMemory(rows * half * 8, "tables of rotary angles"));
  const Shape shape{rows, half};
  Tensor cosines = Tensor::Allocate(TensorType(DType::kFloat32, shape)),
         sines = Tensor::Allocate(TensorType(DType::kFloat32, shape));
  const auto fill = [&](int64_t begin, int64_t count, const std::vector<double>& slow) {
    for (int64_t i = 0; i < half; ++i) {
      double frequency =
          std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(m_.rotated)) /
          rope.divisor;
      if (!slow.empty()) frequency /= slow[static_cast<size_t>(i)];
      for (int64_t p = 0; p < count; ++p) {
        const double angle = static_cast<double>(p) * frequency;
        const int64_t at = (begin + p) * half + i;
        cosines.mutable_data<float>()[at] = static_cast<float>(std::cos(angle) * rope.magnitude);
        sines.mutable_data<float>()[at] = static_cast<float>(std::sin(angle) * rope.magnitude);
      }
    }
  };
  fill(0, both ? first : rows, rope.slow);
  if (both) fill(first, m_.context, rope.long_slow);
  Angles angles{graph_.AddConstant(name + ".cos", std::move(cosines)),
                graph_.AddConstant(name + ".sin", std::move(sines)), positions_};
  angles.growth = GrowthOf(rope, name);
  if (!both) return angles;
  const ValueId original = Ints(name + ".original", {first});
  const ValueId longer = Apply("Greater", name + ".longer", {room_, original});
  const ValueId begin =
      Apply("Where", name + ".begin", {longer, original, Ints(name + ".zero", {0})});
  angles.places = Apply("Add", name + ".places", {positions_, begin});
  return angles;
}

ValueId Builder::GrowthOf(const Rope& rope, const std::string& name) {
  if (rope.growth == 0 || m_.context <= rope.original) return {};
  Tensor growth = Tensor::Allocate(TensorType(DType::kFloat32, Shape{m_.context}));
  for (int64_t p = 0; p < m_.context; ++p) {
    const auto times = static_cast<double>(p / rope.original);
    growth.mutable_data<float>()[p] = static_cast<float>(1 + rope.growth * std::log1p(times));
  }
  const ValueId table = graph_.AddConstant(name + ".growth", std::move(growth));
  const ValueId of_tokens = Apply("Gather", name + ".growth.of_tokens", {table, positions_},
                                  Attrs::Of("axis", int64_t{0}));
  return Apply("Unsqueeze", name + ".growth.by_head", {of_tokens, Ints(name + ".axes", {1, 3})});
}

// It does not depend on queries: what all keys of one have in common changes no share of theirs.
ValueId Builder::Slope() {
  const auto narrow = [&](const std::string& name, ValueId x) {
    const ValueId y = Apply("Cast", name + ".bfloat16", {x},
                            Attrs::Of("to", static_cast<int64_t>(DType::kBfloat16)));
    return Apply("Cast", name + ".rounded", {y},
                 Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)));
  };
  const ValueId zero = graph_.FindValue("zero"), one = graph_.FindValue("one");
  const ValueId count = Apply("Squeeze", "slopes.count", {room_});
  const ValueId range = Apply("Range", "slopes.range", {zero, count, one});
  ValueId places = Apply("Cast", "slopes.places", {range},
                         Attrs::Of("to", static_cast<int64_t>(DType::kFloat32)));
  if (m_.coarse_slopes) places = narrow("slopes.places", places);
  ValueId factors = graph_.AddConstant(
      "slopes.factors",
      Tensor::FromValues(Shape{m_.heads, 1, 1}, SlopesOf(m_.heads, m_.steepness)));
  if (m_.coarse_slopes) factors = narrow("slopes.factors", factors);
  ValueId bias = Apply("Mul", "slopes", {factors, places});
  if (!m_.coarse_slopes) return bias;
  bias = narrow("slopes.products", bias);
  return Times("slopes.scaled", bias, 1 / std::sqrt(static_cast<float>(m_.head_size)));
}

Status Builder::ReadFactors(const std::string& name, std::vector<double>& slow) {
  if (!weights_.Has(name)) return {};
  EVOQ_ASSIGN(slow, weights_.Numbers(name, {m_.rotated / 2}));
  return {};
}

Status Builder::Turn() {
  Rope rope = m_.rope;
  const std::string plain = "rope_freqs.weight", shorter = "rope_factors_short.weight",
                    longer = "rope_factors_long.weight";
  EVOQ_TRY(ReadFactors(plain, rope.slow));
  EVOQ_TRY(ReadFactors(shorter, rope.slow));
  EVOQ_TRY(ReadFactors(longer, rope.long_slow));
  EVOQ_TRY(WithContext(CheckRope(rope, m_.rotated),
                       "tensor " + (weights_.Has(longer) ? longer : plain)));
  EVOQ_ASSIGN(angles_, AnglesOf(rope, "rope"));
  local_angles_ = angles_;
  if (m_.local_rope && *m_.local_rope != rope &&
      std::ranges::any_of(m_.windowed, [](bool w) { return w; })) {
    EVOQ_ASSIGN(local_angles_, AnglesOf(*m_.local_rope, "rope.local"));
  }
  return {};
}

Result<ValueId> Builder::Norm(const std::string& name, ValueId x, int64_t size) {
  ValueId scale;
  if (m_.plain_norms) {
    scale = Ones(name + ".weight", size);
  } else {
    EVOQ_ASSIGN(scale, weights_.Vector(name + ".weight", size, m_.norm_plus_one ? 1.0f : 0.0f));
  }
  std::vector<ValueId> inputs = {x, scale};
  if (m_.layer_norm && weights_.Has(name + ".bias")) {
    EVOQ_ASSIGN(inputs.emplace_back(), weights_.Vector(name + ".bias", size));
  }
  return Normalized(name, std::move(inputs));
}

ValueId Builder::Normalized(const std::string& name, std::vector<ValueId> inputs) {
  Attrs attrs = Attrs::Of("axis", int64_t{-1});
  attrs.Set("epsilon", m_.epsilon);
  if (!m_.layer_norm) return Apply("RMSNormalization", name, std::move(inputs), std::move(attrs));
  return Apply("LayerNormalization", name, std::move(inputs), std::move(attrs));
}

Result<ValueId> Builder::NormByHead(const std::string& name, ValueId x, int64_t heads) {
  const std::string first = name + ".0.weight", whole = name + ".weight";
  Tensor scales = Tensor::Allocate(TensorType(DType::kFloat32, Shape{heads, m_.head_size}));
  const auto read = [&](const std::string& from, std::vector<int64_t> sizes, int64_t at) -> Status {
    EVOQ_ASSIGN(const std::vector<double> row, weights_.Numbers(from, sizes));
    for (const double scale : row)
      scales.mutable_data<float>()[at++] = static_cast<float>(scale) + (m_.norm_plus_one ? 1 : 0);
    return {};
  };
  if (weights_.Has(first)) {
    for (int64_t h = 0; h < heads; ++h)
      EVOQ_TRY(read(fmt::format("{}.{}.weight", name, h), {m_.head_size}, h * m_.head_size));
  } else if (weights_.Has(whole) && weights_.Rank(whole) == 2) {
    EVOQ_TRY(read(whole, {heads, m_.head_size}, 0));
  } else if (weights_.Has(whole)) {
    return Norm(name, x, m_.head_size);
  } else {
    return x;
  }
  const ValueId y = Normalized(name, {x, Ones(name + ".ones", m_.head_size)});
  return Apply("Mul", name + ".scaled", {y, graph_.AddConstant(whole, std::move(scales))});
}

ValueId Builder::Ordered(const std::string& name, ValueId x) {
  const ValueId order = weights_.Order(name + ".weight");
  if (!order.valid()) return x;
  return Apply("Gather", name + ".ordered", {x, order}, Attrs::Of("axis", int64_t{-1}));
}

Result<ValueId> Builder::Linear(const std::string& name, ValueId x, int64_t inputs,
                                int64_t outputs) {
  EVOQ_ASSIGN(const ValueId w,
              weights_.Matrix(name + ".weight", inputs, outputs, m_.weights_by_input));
  x = Ordered(name, x);
  if (!weights_.Has(name + ".bias")) return Apply("MatMul", name, {x, w});
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(name + ".bias", outputs));
  return Apply("MatMul", name, {x, w, bias});
}

ValueId Builder::Turned(int64_t layer, const std::string& name, ValueId x) {
  if (!m_.turns() || (!m_.unturned.empty() && m_.unturned[static_cast<size_t>(layer)])) return x;
  const Angles& angles = Windowed(layer) ? local_angles_ : angles_;
  Attrs attrs = Attrs::Of("interleaved", int64_t{m_.interleaved});
  attrs.Set("rotary_embedding_dim", m_.rotated);
  x = Apply("RotaryEmbedding", name + ".turned", {x, angles.cosines, angles.sines, angles.places},
            std::move(attrs));
  const bool grows = angles.growth.valid() && name.ends_with("attn_q");
  return grows ? Apply("Mul", name + ".grown", {x, angles.growth}) : x;
}

Result<ValueId> Builder::Heads(int64_t layer, const std::string& name, ValueId x, int64_t heads) {
  const std::string node = Block(layer, name);
  if (m_.whole_norms && weights_.Has(node + "_norm.weight")) {
    EVOQ_ASSIGN(x, Norm(node + "_norm", x, heads * m_.head_size));
  }
  if (m_.clip != 0)
    x = Apply("Clip", node + ".clipped",
              {x, Scalar(node + ".least", -m_.clip), Scalar(node + ".most", m_.clip)});
  ValueId y =
      Apply("Reshape", node + ".heads", {x, Ints(node + ".shape", {0, 0, heads, m_.head_size})});
  if (!m_.whole_norms) {
    EVOQ_ASSIGN(y, NormByHead(node + "_norm", y, heads));
  }
  y = Apply("Transpose", node + ".by_head", {y},
            Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
  return name == "attn_v" ? y : Turned(layer, node, y);
}

std::vector<ValueId> Builder::Split(const std::string& name, ValueId x,
                                    const std::vector<int64_t>& sizes) {
  Node split{.op = "Split", .name = name + ".split", .attrs = Attrs::Of("axis", int64_t{-1})};
  split.inputs = {x, Ints(name + ".sizes", sizes)};
  for (size_t i = 0; i < sizes.size(); ++i)
    split.outputs.push_back(graph_.AddValue(name + ".part"));
  std::vector<ValueId> parts = split.outputs;
  graph_.AddNode(std::move(split));
  return parts;
}

ValueId Builder::Cached(int64_t layer, const std::string& which, ValueId update) {
  if (!caches_) return update;
  const ValueId past = graph_.FindValue(fmt::format("past_{}.{}", which, layer));
  const ValueId present = Apply("TensorScatter", Block(layer, "cache_" + which),
                                {past, update, position_}, Attrs::Of("axis", int64_t{2}));
  present_.push_back(present);
  return present;
}

Result<ValueId> Builder::Attention(int64_t layer, ValueId x) {
  const int64_t q_size = m_.heads * m_.head_size, kv_size = m_.kv_heads * m_.head_size;
  ValueId q, k, v;
  if (const std::string joined = Block(layer, "attn_qkv"); weights_.Has(joined + ".weight")) {
    EVOQ_ASSIGN(ValueId all, Linear(joined, x, m_.width, q_size + 2 * kv_size));
    std::vector<int64_t> sizes = {q_size, kv_size, kv_size};
    if (m_.joined_by_head) {
      const int64_t queries = m_.heads / m_.kv_heads;
      sizes = {queries * m_.head_size, m_.head_size, m_.head_size};
      const ValueId shape =
          Ints(joined + ".shape", {0, 0, m_.kv_heads, (queries + 2) * m_.head_size});
      all = Apply("Reshape", joined + ".heads", {all, shape});
    }
    const std::vector<ValueId> parts = Split(joined, all, sizes);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    EVOQ_ASSIGN(q, Linear(Block(layer, "attn_q"), x, m_.width, q_size));
    EVOQ_ASSIGN(k, Linear(Block(layer, "attn_k"), x, m_.width, kv_size));
    EVOQ_ASSIGN(v, Linear(Block(layer, "attn_v"), x, m_.width, kv_size));
  }
  EVOQ_ASSIGN(q, Heads(layer, "attn_q", q, m_.heads));
  EVOQ_ASSIGN(k, Heads(layer, "attn_k", k, m_.kv_heads));
  EVOQ_ASSIGN(v, Heads(layer, "attn_v", v, m_.kv_heads));
  const ValueId keys = Cached(layer, "key", k), values = Cached(layer, "value", v);
  Attrs attrs = Attrs::Of("is_causal", int64_t{!m_.bidirectional});
  if (m_.attention_scale != 0) attrs.Set("scale", m_.attention_scale);
  if (m_.attention_softcap != 0) attrs.Set("softcap", m_.attention_softcap);
  if (Windowed(layer)) attrs.Set("left_window_size", m_.window - 1);
  if (Windowed(layer) && m_.bidirectional) attrs.Set("right_window_size", m_.window - 1);
  const ValueId none;
  std::vector<ValueId> inputs = {q, keys, values, none, none, none, lengths_};
  if (const std::string sinks = Block(layer, "attn_sinks.weight"); weights_.Has(sinks)) {
    inputs.resize(kSinks, none);
    EVOQ_ASSIGN(inputs.emplace_back(), weights_.Vector(sinks, m_.heads));
  }
  if (bias_.valid()) inputs[kMask] = bias_;
  if (m_.bidirectional) inputs = {q, keys, values, seen_};
  ValueId y = Apply("Attention", Block(layer, "attention"), std::move(inputs), std::move(attrs));
  y = Apply("Transpose", Block(layer, "attention.by_token"), {y},
            Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
  y = Apply("Reshape", Block(layer, "attention.joined"),
            {y, Ints(Block(layer, "attention.shape"), {0, 0, q_size})});
  return Linear(Block(layer, "attn_output"), y, q_size, m_.width);
}

Result<ValueId> Builder::Feed(int64_t layer, ValueId x, int64_t inner, const std::string& suffix) {
  const std::string gate = Block(layer, "ffn_gate" + suffix), up = Block(layer, "ffn_up" + suffix);
  ValueId y;
  if (!m_.gated) {
    EVOQ_ASSIGN(y, Linear(up, x, m_.width, inner));
    y = AddFunction(graph_, m_.function, up + ".activated", y);
  } else {
    ValueId g, u;
    if (weights_.Has(gate + ".weight")) {
      EVOQ_ASSIGN(g, Linear(gate, x, m_.width, inner));
      EVOQ_ASSIGN(u, Linear(up, x, m_.width, inner));
    } else {
      EVOQ_ASSIGN(const ValueId both, Linear(up, x, m_.width, 2 * inner));
      const std::vector<ValueId> parts = Split(up, both, {inner, inner});
      g = parts[0], u = parts[1];
    }
    y = Apply("Mul", gate + ".gated",
              {AddFunction(graph_, m_.function, gate + ".activated", g), u});
  }
  return Linear(Block(layer, "ffn_down" + suffix), y, inner, m_.width);
}

Result<Builder::Route> Builder::Router(int64_t layer, ValueId x) {
  const Experts& e = m_.experts;
  const std::string name = Block(layer, "ffn_gate_inp");
  EVOQ_ASSIGN(ValueId scores, Linear(name, x, m_.width, e.count));
  // exp grows with its argument: shares of those that are used need no others.
  const auto softmax = [&](ValueId y) {
    return Apply("Softmax", name + ".shares", {y}, Attrs::Of("axis", int64_t{-1}));
  };
  if (!e.normalized) scores = softmax(scores);
  Node top{.op = "TopK", .name = name + ".chosen"};
  top.inputs = {scores, Ints(name + ".used", {e.used})};
  top.outputs = {graph_.AddValue(name + ".largest"), graph_.AddValue(name + ".experts")};
  const std::vector<ValueId> outputs = top.outputs;
  graph_.AddNode(std::move(top));
  const ValueId shares = e.normalized ? softmax(outputs[0]) : outputs[0];
  return Route{outputs[1], Times(name + ".scaled", shares, e.scale)};
}

Result<ValueId> Builder::ChosenLinear(const std::string& name, ValueId ids, ValueId x,
                                      int64_t inputs, int64_t outputs) {
  std::vector<ValueId> all = {ids};
  for (int64_t i = 0; i < m_.experts.count; ++i) {
    EVOQ_ASSIGN(all.emplace_back(), Linear(fmt::format("{}.{}", name, i), x, inputs, outputs));
  }
  const ValueId y = Apply("ChooseExpert", name + ".chosen", std::move(all));
  graph_.SetOp(graph_.value(y).producer, "ChooseExpert", "evoq");
  return y;
}

ValueId Builder::Gated(const std::string& name, ValueId gate, ValueId up) {
  const float limit = m_.experts.limit;
  if (limit == 0) {
    const ValueId y = AddFunction(graph_, m_.function, name + ".activated", gate);
    return Apply("Mul", name + ".gated", {y, up});
  }
  const ValueId most = Scalar(name + ".limit", limit);
  gate = Apply("Clip", name + ".limited", {gate, ValueId(), most});
  up = Apply("Clip", name + ".up_limited", {up, Scalar(name + ".least", -limit), most});
  up = Apply("Add", name + ".up_moved", {up, Scalar(name + ".one", 1)});
  return Apply("SwiGLU", name + ".gated", {gate, up}, Attrs::Of("alpha", m_.experts.gate_alpha));
}

Result<ValueId> Builder::FeedExperts(int64_t layer, ValueId x) {
  const Experts& e = m_.experts;
  EVOQ_ASSIGN(const Route route, Router(layer, x));
  const std::string gate = Block(layer, "ffn_gate"), down = Block(layer, "ffn_down");
  const ValueId axis = Ints("axis.2", {2});
  const ValueId row = Apply("Unsqueeze", Block(layer, "ffn.by_expert"), {x, axis});
  EVOQ_ASSIGN(const ValueId g, ChosenLinear(gate, route.ids, row, m_.width, e.inner));
  EVOQ_ASSIGN(const ValueId u,
              ChosenLinear(Block(layer, "ffn_up"), route.ids, row, m_.width, e.inner));
  EVOQ_ASSIGN(const ValueId all,
              ChosenLinear(down, route.ids, Gated(gate, g, u), e.inner, m_.width));
  const ValueId shares = Apply("Unsqueeze", down + ".shares", {route.shares, axis});
  ValueId y = Apply("MatMul", down + ".sum", {shares, all});
  y = Apply("Squeeze", down + ".token", {y, axis});
  if (e.shared == 0) return y;
  EVOQ_ASSIGN(ValueId shared, Feed(layer, x, e.shared, "_shexp"));
  if (const std::string own = Block(layer, "ffn_gate_inp_shexp"); weights_.Has(own + ".weight")) {
    EVOQ_ASSIGN(const ValueId score, Linear(own, x, m_.width, 1));
    shared = Apply("Mul", own + ".scaled", {shared, Apply("Sigmoid", own + ".share", {score})});
  }
  return Apply("Add", Block(layer, "ffn.with_shared"), {y, shared});
}

Result<ValueId> Builder::Joined(int64_t layer, const std::string& name, const std::string& norm,
                                ValueId x, ValueId f) {
  if (weights_.Has(Block(layer, norm) + ".weight")) {
    EVOQ_ASSIGN(f, Norm(Block(layer, norm), f, m_.width));
  }
  f = Times(Block(layer, name + ".scaled"), f, m_.residual_scale);
  return Apply("Add", Block(layer, name), {x, f});
}

Result<ValueId> Builder::Layer(int64_t layer, ValueId x) {
  ValueId before = x, between = x;
  const std::string first = Block(layer, "attn_norm");
  std::string second = Block(layer, "ffn_norm"), behind = "post_attention_norm";
  // GGUF's name of what is one norm for both, behind attention and before the feed-forward part.
  if (m_.norms_before && !m_.parallel && !weights_.Has(second + ".weight") &&
      weights_.Has(Block(layer, behind) + ".weight"))
    second = Block(layer, std::exchange(behind, ""));
  // ModernBERT's first layer reads the embedding's norm as it is.
  const bool normed = layer == 0 && m_.embedding_norm && !weights_.Has(first + ".weight");
  if (m_.norms_before && !normed) {
    EVOQ_ASSIGN(before, Norm(first, x, m_.width));
  }
  EVOQ_ASSIGN(const ValueId attended, Attention(layer, before));
  EVOQ_ASSIGN(const ValueId y, Joined(layer, "attended", behind, x, attended));
  if (m_.parallel && !weights_.Has(second + ".weight")) {
    between = before;
  } else if (m_.norms_before) {
    EVOQ_ASSIGN(between, Norm(second, m_.parallel ? x : y, m_.width));
  } else {
    between = m_.parallel ? x : y;
  }
  const bool alone = m_.experts.count == 0 && m_.experts.shared > 0;
  EVOQ_ASSIGN(const ValueId fed, HasExperts(layer) ? FeedExperts(layer, between)
                                 : alone ? Feed(layer, between, m_.experts.shared, "_shexp")
                                         : Feed(layer, between, m_.inner));
  return Joined(layer, "fed", "post_ffw_norm", y, fed);
}

Result<ValueId> Builder::Output(ValueId x) {
  if (caches_) {
    const ValueId at = Apply("Unsqueeze", "logits.at", {logits_at_, Ints("axis.2", {2})});
    x = Apply("GatherND", "logits.rows", {x, at}, Attrs::Of("batch_dims", int64_t{1}));
  }
  EVOQ_ASSIGN(x, Norm("output_norm", x, m_.width));
  if (form_ == LanguageForm::kStates) return x;
  const char* head = m_.tied ? "token_embd.weight" : "output.weight";
  if (m_.tied && caches_) graph_.metadata[kTiedFact] = "1";
  EVOQ_ASSIGN(const ValueId w, weights_.Matrix(head, m_.width, m_.vocabulary, false));
  x = Ordered(m_.tied ? "token_embd" : "output", x);
  ValueId y;
  if (weights_.Has("output.bias")) {
    EVOQ_ASSIGN(const ValueId bias, weights_.Vector("output.bias", m_.vocabulary));
    y = Apply("MatMul", "output", {x, w, bias});
  } else {
    y = Apply("MatMul", "output", {x, w});
  }
  return Capped("output.capped", Times("output.scaled", y, m_.logit_scale), m_.logit_softcap);
}

Result<Graph> Builder::Build() {
  graph_.name = m_.architecture;
  AddInputs();
  EVOQ_ASSIGN(ValueId x, Embedded());
  if (m_.turns()) EVOQ_TRY(Turn());
  if (m_.steepness != 0) bias_ = Slope();
  for (int64_t layer = 0; layer < m_.layers; ++layer) {
    EVOQ_ASSIGN(x, Layer(layer, x));
  }
  EVOQ_ASSIGN(const ValueId output, Output(x));
  EVOQ_TRY(weights_.CheckAllRead());
  graph_.Rename(output, form_ == LanguageForm::kStates ? "last_hidden_state" : "logits");
  graph_.MarkOutput(output);
  for (size_t i = 0; i < present_.size(); ++i) {
    graph_.Rename(present_[i], fmt::format("present_{}.{}", i % 2 == 0 ? "key" : "value", i / 2));
    graph_.MarkOutput(present_[i]);
  }
  EVOQ_TRY(graph_.Sort());
  SetFacts(m_, graph_);
  return std::move(graph_);
}

}  // namespace

Result<Graph> BuildLanguageModel(const LanguageModel& model, const StoredTensors& tensors,
                                 std::vector<std::string>& notes, LanguageForm form) {
  EVOQ_TRY(CheckLanguageModel(model));
  if (model.bidirectional && form != LanguageForm::kStates)
    return Unsupported("{}: its tokens see those behind them, so it writes no text",
                       model.architecture);
  EVOQ_ASSIGN(const StoredTensors single, SingleExperts(model, tensors));
  EVOQ_ASSIGN(Graph graph, Builder(model, single, notes, form).Build());
  if (form == LanguageForm::kCached) return graph;
  graph.metadata[kNamesFact] = model.architecture;
  graph.metadata.erase("llm.architecture");
  return graph;
}

}  // namespace evoq
