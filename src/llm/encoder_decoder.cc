#include "llm/encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/budget_scope.h"
#include "kernels/attention/attention_inputs.h"
#include "llm/distance_bias.h"
#include "llm/facts.h"
#include "llm/graph_writer.h"
#include "llm/weights.h"

namespace evoq {
namespace {

constexpr char kTokens[] = "token_embd.weight", kHead[] = "output.weight";

bool SameBytes(const StoredTensor& a, const StoredTensor& b) {
  return a.sizes == b.sizes && a.dtype == b.dtype && a.bytes.size() == b.bytes.size() &&
         (a.bytes.data() == b.bytes.data() ||
          std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

std::string NameOf(const EncoderDecoderFamily& family, std::string_view name) {
  name = WithoutPrefix(name, family.prefix);
  for (const std::string_view suffix : {".weight", ".bias", ""}) {
    if (!name.ends_with(suffix)) continue;
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    const std::string_view ours = suffix.empty() ? ".weight" : suffix;
    for (const TensorName& row : family.names) {
      if (row.hugging_face == stem) return std::string(row.gguf) + std::string(ours);
      if (const auto number = NumberIn(row.hugging_face, stem))
        return WithNumber(row.gguf, *number) + std::string(ours);
    }
  }
  return "";
}

// Under the graph's names; what no name stands for keeps its own.
StoredTensors Renamed(const EncoderDecoderFamily& family, StoredTensors tensors) {
  // What old folders of T5 keep, which nothing reads.
  tensors.erase("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  StoredTensors renamed;
  for (auto& [name, tensor] : tensors) {
    const std::string known = NameOf(family, name);
    if (family.places == Places::kSinusoids && known.ends_with(".position_embd.weight")) continue;
    if (known.empty() || !renamed.emplace(known, tensor).second) renamed.emplace(name, tensor);
  }
  return renamed;
}

// One table where the folder has the same one under several names.
void ShareTables(StoredTensors& tensors) {
  constexpr const char *kEncoder = "enc.token_embd.weight", *kDecoder = "dec.token_embd.weight";
  const auto take = [&](const char* name) {
    const auto found = tensors.find(name);
    if (found == tensors.end() || tensors.contains(kTokens)) return;
    tensors.emplace(kTokens, found->second);
  };
  const bool two = tensors.contains(kEncoder) && tensors.contains(kDecoder) &&
                   !SameBytes(tensors.at(kEncoder), tensors.at(kDecoder));
  if (!two) {
    for (const char* name : {kEncoder, kDecoder, kHead}) take(name);
    for (const char* name : {kEncoder, kDecoder}) tensors.erase(name);
  } else {
    tensors.erase(kTokens);
  }
  const auto head = tensors.find(kHead), table = tensors.find(two ? kDecoder : kTokens);
  if (head != tensors.end() && table != tensors.end() && SameBytes(head->second, table->second))
    tensors.erase(head);
}

class Builder : GraphWriter {
 public:
  Builder(const EncoderDecoder& model, const EncoderDecoderFamily& family,
          const StoredTensors& tensors, std::vector<std::string>& notes)
      : m_(model), family_(family), weights_(graph_, tensors, notes, family.names) {}

  Result<Graph> Build();

 private:
  // 0, 1, ... of the value's axis.
  ValueId PlacesOf(const std::string& name, ValueId value, int64_t axis);

  void AddInputs();
  // Rows of a table, widened.
  ValueId Rows(const std::string& name, ValueId table, ValueId ids);
  // A table of places: the folder's, or sines and cosines.
  Result<ValueId> PlaceTable(const std::string& stack, int64_t rows);
  // x with its places, normalized where the folder has a norm of this.
  Result<ValueId> Placed(const std::string& stack, ValueId x, ValueId places, int64_t rows);
  // What each token of audio is made of: two frames of three that are neighbours each.
  Result<ValueId> Heard();
  // A convolution of three neighbours: x [batch, frames, channels].
  Result<ValueId> Convolved(const std::string& name, ValueId x, int64_t channels, int64_t stride);
  // Of the stack "enc" or "dec".
  Result<ValueId> Embedded(const std::string& stack, int64_t vocabulary, ValueId ids,
                           ValueId places);
  Result<ValueId> Norm(const std::string& name, ValueId x);
  Result<ValueId> Linear(const std::string& name, ValueId x, int64_t inputs, int64_t outputs);
  // [batch, length, heads * size] -> [batch, heads, length, size]
  Result<ValueId> Heads(const std::string& name, ValueId x, int64_t heads);
  // Biases [.., heads, queries, keys] of layer `layer`, from `apart`, places of keys less those of
  // queries as rows of the table; invalid where the family has none.
  Result<ValueId> Biases(const std::string& stack, int64_t layer, const Stack& of,
                         const DistanceBuckets& buckets, ValueId apart);
  // Keys' places less queries', [.., queries, keys], cut off where all farther ones are one, and
  // counted from the table's first row.
  ValueId Apart(const std::string& name, ValueId keys, ValueId queries,
                const DistanceBuckets& buckets);
  DistanceBuckets Buckets(bool both_sides) const {
    return {.buckets = m_.buckets, .farthest = m_.farthest, .both_sides = both_sides};
  }
  // Attention of `q` to keys and values of heads, and its output's matrix.
  Result<ValueId> Attended(const std::string& name, int64_t heads, std::vector<ValueId> inputs,
                           bool causal);
  // x + f(norm(x)), or norm(x + f(x)); f's norm is NAME.
  template <typename Block>
  Result<ValueId> Joined(const std::string& norm, ValueId x, const Block& block);
  Result<ValueId> Feed(const std::string& block, ValueId x, int64_t inner);
  Result<ValueId> Cached(int64_t layer, const std::string& which, ValueId update, ValueId at);

  Result<ValueId> Encoded();
  Result<ValueId> EncoderLayer(int64_t layer, ValueId x);
  Result<ValueId> DecoderLayer(int64_t layer, ValueId x, ValueId source);
  Result<ValueId> Output(ValueId x);

  const EncoderDecoder& m_;
  const EncoderDecoderFamily& family_;
  WeightReader weights_;
  ValueId source_ids_, source_length_, source_seen_, source_apart_;
  ValueId ids_, position_, logits_at_, positions_, lengths_, apart_;
  ValueId source_bias_, bias_;  // of the first layer, where others share it
  std::vector<ValueId> present_;
};

ValueId Builder::PlacesOf(const std::string& name, ValueId value, int64_t axis) {
  Attrs at = Attrs::Of("start", axis);
  at.Set("end", axis + 1);
  const ValueId shape = Apply("Shape", name + ".shape", {value}, std::move(at));
  const ValueId length = Apply("Squeeze", name + ".length", {shape});
  return Apply("Range", name, {Int("zero", 0), length, Int("one", 1)});
}

void Builder::AddInputs() {
  const Dim batch = Dim::Symbolic("batch");
  const auto type = [](DType dtype, std::vector<Dim> dims) {
    return TensorType(dtype, Shape(std::move(dims)));
  };
  const auto ints = [&](std::vector<Dim> dims) { return type(DType::kInt64, std::move(dims)); };
  ids_ = graph_.AddInput("input_ids", ints({batch, Dim::Symbolic("sequence")}));
  position_ = graph_.AddInput("position", ints({batch}));
  logits_at_ = graph_.AddInput("logits_at", ints({batch, Dim::Symbolic("wanted")}));
  source_ids_ = family_.hears
                    ? graph_.AddInput("source_features",
                                      type(DType::kFloat32,
                                           {batch, Dim::Symbolic("frames"), m_.target.audio.bins}))
                    : graph_.AddInput("source_ids", ints({batch, Dim::Symbolic("source")}));
  source_length_ = graph_.AddInput("source_length", ints({batch}));
  for (int64_t layer = 0; layer < m_.decoder.layers; ++layer) {
    for (const char* name : {"key", "value", "cross_key", "cross_value"})
      graph_.AddInput(
          fmt::format("past_{}.{}", name, layer),
          type(DType::kFloat32,
               {batch, m_.decoder.heads,
                Dim::Symbolic(std::string_view(name).starts_with("cross") ? "source_context"
                                                                          : "context"),
                m_.head_size}));
  }
  const ValueId places = PlacesOf("sequence.places", ids_, 1);
  const ValueId begin = Apply("Unsqueeze", "position.begin", {position_, Ints("axis.1", {1})});
  positions_ = Apply("Add", "positions", {begin, places});
  lengths_ = Apply("Add", "lengths", {position_, graph_.FindValue("sequence.places.shape")});
}

ValueId Builder::Rows(const std::string& name, ValueId table, ValueId ids) {
  const bool narrow =
      !graph_.value(table).type.quantized() && graph_.value(table).type.dtype != DType::kFloat32;
  const ValueId x = Apply("Gather", name, {table, ids}, Attrs::Of("axis", int64_t{0}));
  return narrow ? CastTo(name + ".float32", x, DType::kFloat32) : x;
}

Result<ValueId> Builder::PlaceTable(const std::string& stack, int64_t rows) {
  const std::string name = "position_embd";
  if (family_.places == Places::kLearned)
    return weights_.Table(stack + "." + name + ".weight", family_.first_place + rows, m_.width);
  if (const ValueId made = graph_.FindValue(name); made.valid()) return made;
  const int64_t half = m_.width / 2;
  EVOQ_TRY(SpendMemory(rows * m_.width * 4, "a table of places"));
  Tensor table = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, m_.width}));
  const int64_t steps = family_.places_to_the_end ? std::max<int64_t>(half - 1, 1) : half;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency =
        std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(steps));
    for (int64_t row = 0; row < rows; ++row) {
      const double angle = static_cast<double>(row + family_.first_place) * frequency;
      float* const to = table.mutable_data<float>() + row * m_.width + i;
      to[0] = static_cast<float>(std::sin(angle));
      to[half] = static_cast<float>(std::cos(angle));
    }
  }
  return graph_.AddConstant(name, std::move(table));
}

Result<ValueId> Builder::Embedded(const std::string& stack, int64_t vocabulary, ValueId ids,
                                  ValueId places) {
  const std::string name = stack + ".token_embd", own = name + ".weight";
  EVOQ_ASSIGN(const ValueId table,
              weights_.Table(weights_.Has(own) ? own : kTokens, vocabulary, m_.width));
  const ValueId x = Times(name + ".scaled", Rows(name, table, ids), m_.embedding_scale);
  if (family_.places == Places::kDistances) return x;
  return Placed(stack, x, places, m_.context);
}

Result<ValueId> Builder::Placed(const std::string& stack, ValueId x, ValueId places, int64_t rows) {
  EVOQ_ASSIGN(const ValueId table, PlaceTable(stack, rows));
  if (family_.places == Places::kLearned && family_.first_place > 0)
    places = Apply("Add", stack + ".position_embd.rows",
                   {places, Ints("position_embd.first", {family_.first_place})});
  const ValueId p = Rows(stack + ".position_embd", table, places);
  x = Apply("Add", stack + ".embedded", {x, p});
  const std::string norm = stack + ".token_embd_norm";
  return weights_.Has(norm + ".weight") ? Norm(norm, x) : Result<ValueId>(x);
}

// As a product of rows that hold three neighbours, so that weights are those of a MatMul.
Result<ValueId> Builder::Convolved(const std::string& name, ValueId x, int64_t channels,
                                   int64_t stride) {
  constexpr int64_t kNeighbours = 3;
  EVOQ_ASSIGN(const std::vector<double> stored,
              weights_.Numbers(name + ".weight", {m_.width, channels, kNeighbours}));
  EVOQ_TRY(SpendMemory(std::ssize(stored) * 4, "the weights of a convolution"));
  Tensor w = Tensor::Allocate(TensorType(DType::kFloat32, Shape{kNeighbours * channels, m_.width}));
  for (int64_t out = 0; out < m_.width; ++out) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t k = 0; k < kNeighbours; ++k)
        w.mutable_data<float>()[(k * channels + c) * m_.width + out] =
            static_cast<float>(stored[static_cast<size_t>((out * channels + c) * kNeighbours + k)]);
    }
  }
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(name + ".bias", m_.width));
  Attrs second = Attrs::Of("start", int64_t{1});
  second.Set("end", int64_t{2});
  const ValueId frames = Apply("Shape", name + ".frames", {x}, std::move(second));
  const ValueId padded =
      Apply("Pad", name + ".padded", {x, Ints(name + ".pads", {0, 1, 0, 0, 1, 0})});
  std::vector<ValueId> rows;
  for (int64_t k = 0; k < kNeighbours; ++k) {
    const std::string at = fmt::format("{}.{}", name, k);
    const ValueId begin = Ints(at + ".begin", {k});
    const ValueId end = Apply("Add", at + ".end", {frames, begin});
    rows.push_back(
        Apply("Slice", at,
              {padded, begin, end, Ints(name + ".axis", {1}), Ints(name + ".stride", {stride})}));
  }
  const ValueId joined =
      Apply("Concat", name + ".neighbours", std::move(rows), Attrs::Of("axis", int64_t{2}));
  const ValueId y =
      Apply("MatMul", name, {joined, graph_.AddConstant(name + ".weight", std::move(w)), bias});
  return AddFunction(graph_, m_.function, name + ".activated", y);
}

Result<ValueId> Builder::Heard() {
  EVOQ_ASSIGN(ValueId x, Convolved("enc.conv1", source_ids_, m_.target.audio.bins, 1));
  return Convolved("enc.conv2", x, m_.width, 2);
}

Result<ValueId> Builder::Norm(const std::string& name, ValueId x) {
  EVOQ_ASSIGN(const ValueId scale, weights_.Vector(name + ".weight", m_.width));
  Attrs attrs = Attrs::Of("axis", int64_t{-1});
  attrs.Set("epsilon", m_.epsilon);
  if (family_.rms_norm) return Apply("RMSNormalization", name, {x, scale}, std::move(attrs));
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(name + ".bias", m_.width));
  return Apply("LayerNormalization", name, {x, scale, bias}, std::move(attrs));
}

Result<ValueId> Builder::Linear(const std::string& name, ValueId x, int64_t inputs,
                                int64_t outputs) {
  EVOQ_ASSIGN(const ValueId w, weights_.Matrix(name + ".weight", inputs, outputs, false));
  if (!weights_.Has(name + ".bias")) return Apply("MatMul", name, {x, w});
  EVOQ_ASSIGN(const ValueId bias, weights_.Vector(name + ".bias", outputs));
  return Apply("MatMul", name, {x, w, bias});
}

Result<ValueId> Builder::Heads(const std::string& name, ValueId x, int64_t heads) {
  EVOQ_ASSIGN(const ValueId y, Linear(name, x, m_.width, heads * m_.head_size));
  const ValueId split =
      Apply("Reshape", name + ".heads", {y, Ints(name + ".shape", {0, 0, heads, m_.head_size})});
  return Apply("Transpose", name + ".by_head", {split},
               Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
}

ValueId Builder::Apart(const std::string& name, ValueId keys, ValueId queries,
                       const DistanceBuckets& buckets) {
  const ValueId column = Apply("Unsqueeze", name + ".queries", {queries, Ints("axis.last", {-1})});
  const ValueId apart =
      CastTo(name + ".float32", Apply("Sub", name + ".apart", {keys, column}), DType::kFloat32);
  const auto far = static_cast<float>(buckets.farthest);
  const ValueId least = graph_.AddConstant(name + ".least", Tensor::Scalar(-far)),
                most = graph_.AddConstant(name + ".most",
                                          Tensor::Scalar(buckets.both_sides ? far : 0.0f));
  const ValueId near =
      CastTo(name + ".near", Apply("Clip", name + ".cut", {apart, least, most}), DType::kInt64);
  return Apply("Add", name + ".rows", {near, Int(name + ".first", buckets.farthest)});
}

Result<ValueId> Builder::Biases(const std::string& stack, int64_t layer, const Stack& of,
                                const DistanceBuckets& buckets, ValueId apart) {
  const std::string name = fmt::format("{}.blk.{}.distance_bias", stack, layer);
  EVOQ_ASSIGN(const std::vector<double> bias,
              weights_.Numbers(name + ".weight", {m_.buckets, of.heads}));
  const int64_t rows = buckets.farthest * (buckets.both_sides ? 2 : 1) + 1;
  Tensor table = Tensor::Allocate(TensorType(DType::kFloat32, Shape{rows, of.heads}));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t bucket = buckets.Of(i - buckets.farthest);
    for (int64_t h = 0; h < of.heads; ++h)
      table.mutable_data<float>()[i * of.heads + h] =
          static_cast<float>(bias[static_cast<size_t>(bucket * of.heads + h)]);
  }
  const ValueId found =
      Apply("Gather", name + ".found", {graph_.AddConstant(name, std::move(table)), apart},
            Attrs::Of("axis", int64_t{0}));
  const std::vector<int64_t> by_head =
      stack == "enc" ? std::vector<int64_t>{2, 0, 1} : std::vector<int64_t>{0, 3, 1, 2};
  return Apply("Transpose", name + ".by_head", {found}, Attrs::Of("perm", by_head));
}

Result<ValueId> Builder::Attended(const std::string& name, int64_t heads,
                                  std::vector<ValueId> inputs, bool causal) {
  Attrs attrs = Attrs::Of("is_causal", int64_t{causal});
  if (family_.places == Places::kDistances) attrs.Set("scale", 1.0f);
  ValueId y = Apply("Attention", name + "_attention", std::move(inputs), std::move(attrs));
  y = Apply("Transpose", name + "_attention.by_token", {y},
            Attrs::Of("perm", std::vector<int64_t>{0, 2, 1, 3}));
  const int64_t size = heads * m_.head_size;
  y = Apply("Reshape", name + "_attention.joined",
            {y, Ints(name + "_attention.shape", {0, 0, size})});
  return Linear(name + "_output", y, size, m_.width);
}

template <typename Block>
Result<ValueId> Builder::Joined(const std::string& norm, ValueId x, const Block& block) {
  ValueId in = x;
  if (family_.norms_before) {
    EVOQ_ASSIGN(in, Norm(norm, x));
  }
  EVOQ_ASSIGN(const ValueId f, block(in));
  const ValueId y = Apply("Add", norm + ".joined", {x, f});
  return family_.norms_before ? Result<ValueId>(y) : Norm(norm, y);
}

Result<ValueId> Builder::Feed(const std::string& block, ValueId x, int64_t inner) {
  EVOQ_ASSIGN(ValueId y, Linear(block + "ffn_up", x, m_.width, inner));
  if (m_.gated) {
    EVOQ_ASSIGN(const ValueId gate, Linear(block + "ffn_gate", x, m_.width, inner));
    const ValueId f = AddFunction(graph_, m_.function, block + "ffn_gate.activated", gate);
    y = Apply("Mul", block + "ffn_gate.gated", {f, y});
  } else {
    y = AddFunction(graph_, m_.function, block + "ffn_up.activated", y);
  }
  return Linear(block + "ffn_down", y, inner, m_.width);
}

Result<ValueId> Builder::EncoderLayer(int64_t layer, ValueId x) {
  const std::string block = fmt::format("enc.blk.{}.", layer);
  EVOQ_ASSIGN(
      x, Joined(block + "attn_norm", x, [&](ValueId in) -> Result<ValueId> {
        EVOQ_ASSIGN(const ValueId q, Heads(block + "attn_q", in, m_.encoder.heads));
        EVOQ_ASSIGN(const ValueId k, Heads(block + "attn_k", in, m_.encoder.heads));
        EVOQ_ASSIGN(const ValueId v, Heads(block + "attn_v", in, m_.encoder.heads));
        if (family_.places == Places::kDistances && (layer == 0 || family_.distances_by_layer)) {
          EVOQ_ASSIGN(source_bias_, Biases("enc", layer, m_.encoder, Buckets(true), source_apart_));
        }
        return Attended(block + "attn", m_.encoder.heads,
                        {q, k, v, source_bias_, {}, {}, source_seen_}, false);
      }));
  return Joined(block + "ffn_norm", x,
                [&](ValueId in) { return Feed(block, in, m_.encoder.inner); });
}

Result<ValueId> Builder::Encoded() {
  ValueId x = source_ids_;
  if (family_.hears) {
    EVOQ_ASSIGN(x, Heard());
  }
  // A source of no tokens has none to see.
  Attrs second = Attrs::Of("start", int64_t{1});
  second.Set("end", int64_t{2});
  const ValueId room = Apply("Shape", "source.shape", {x}, std::move(second));
  const ValueId fewer = Apply("Less", "source.fewer", {source_length_, room});
  source_seen_ = Apply("Where", "source.seen", {fewer, source_length_, room});
  const ValueId places = PlacesOf("source.places", x, 1);
  if (family_.places == Places::kDistances)
    source_apart_ = Apart("source.distance", places, places, Buckets(true));
  EVOQ_ASSIGN(x, family_.hears ? Placed("enc", x, places, m_.source_context)
                               : Embedded("enc", m_.encoder.vocabulary, x, places));
  for (int64_t layer = 0; layer < m_.encoder.layers; ++layer) {
    EVOQ_ASSIGN(x, EncoderLayer(layer, x));
  }
  return family_.norms_before ? Norm("enc.output_norm", x) : Result<ValueId>(x);
}

Result<ValueId> Builder::Cached(int64_t layer, const std::string& which, ValueId update,
                                ValueId at) {
  const ValueId past = graph_.FindValue(fmt::format("past_{}.{}", which, layer));
  std::vector<ValueId> inputs = {past, update};
  if (at.valid()) inputs.push_back(at);
  const ValueId present = Apply("TensorScatter", fmt::format("dec.blk.{}.cache_{}", layer, which),
                                std::move(inputs), Attrs::Of("axis", int64_t{2}));
  present_.push_back(present);
  return present;
}

Result<ValueId> Builder::DecoderLayer(int64_t layer, ValueId x, ValueId source) {
  const std::string block = fmt::format("dec.blk.{}.", layer);
  const int64_t heads = m_.decoder.heads;
  EVOQ_ASSIGN(
      x, Joined(block + "attn_norm", x, [&](ValueId in) -> Result<ValueId> {
        EVOQ_ASSIGN(const ValueId q, Heads(block + "attn_q", in, heads));
        EVOQ_ASSIGN(const ValueId k, Heads(block + "attn_k", in, heads));
        EVOQ_ASSIGN(const ValueId v, Heads(block + "attn_v", in, heads));
        EVOQ_ASSIGN(const ValueId keys, Cached(layer, "key", k, position_));
        EVOQ_ASSIGN(const ValueId values, Cached(layer, "value", v, position_));
        if (family_.places == Places::kDistances && (layer == 0 || family_.distances_by_layer)) {
          EVOQ_ASSIGN(bias_, Biases("dec", layer, m_.decoder, Buckets(false), apart_));
        }
        return Attended(block + "attn", heads, {q, keys, values, bias_, {}, {}, lengths_}, true);
      }));
  EVOQ_ASSIGN(x, Joined(block + "cross_attn_norm", x, [&](ValueId in) -> Result<ValueId> {
                EVOQ_ASSIGN(const ValueId q, Heads(block + "cross_attn_q", in, heads));
                EVOQ_ASSIGN(const ValueId k, Heads(block + "cross_attn_k", source, heads));
                EVOQ_ASSIGN(const ValueId v, Heads(block + "cross_attn_v", source, heads));
                EVOQ_ASSIGN(const ValueId keys, Cached(layer, "cross_key", k, {}));
                EVOQ_ASSIGN(const ValueId values, Cached(layer, "cross_value", v, {}));
                return Attended(block + "cross_attn", heads,
                                {q, keys, values, {}, {}, {}, source_length_}, false);
              }));
  return Joined(block + "ffn_norm", x,
                [&](ValueId in) { return Feed(block, in, m_.decoder.inner); });
}

Result<ValueId> Builder::Output(ValueId x) {
  const ValueId at = Apply("Unsqueeze", "logits.at", {logits_at_, Ints("axis.2", {2})});
  x = Apply("GatherND", "logits.rows", {x, at}, Attrs::Of("batch_dims", int64_t{1}));
  if (family_.norms_before) {
    EVOQ_ASSIGN(x, Norm("dec.output_norm", x));
  }
  x = Times("output.scaled", x, m_.logit_scale);
  const std::string own = "dec.token_embd.weight";
  const bool tied = !weights_.Has(kHead);
  if (tied) graph_.metadata[kTiedFact] = "1";
  EVOQ_ASSIGN(const ValueId w, weights_.Matrix(!tied               ? kHead
                                               : weights_.Has(own) ? own
                                                                   : kTokens,
                                               m_.width, m_.decoder.vocabulary, false));
  const std::string name = "output_bias.weight";
  if (!weights_.Has(name)) return Apply("MatMul", "output", {x, w});
  EVOQ_ASSIGN(const std::vector<double> numbers,
              weights_.Numbers(name, {1, m_.decoder.vocabulary}));
  if (std::ranges::all_of(numbers, [](double n) { return n == 0; }))
    return Apply("MatMul", "output", {x, w});
  const ValueId bias = graph_.AddConstant(
      name, Tensor::FromValues(std::vector<float>(numbers.begin(), numbers.end())));
  return Apply("MatMul", "output", {x, w, bias});
}

Result<Graph> Builder::Build() {
  graph_.name = m_.family;
  AddInputs();
  EVOQ_ASSIGN(const ValueId source, Encoded());
  EVOQ_ASSIGN(ValueId x, Embedded("dec", m_.decoder.vocabulary, ids_, positions_));
  if (family_.places == Places::kDistances)
    apart_ = Apart("distance", PlacesOf("cache.places", graph_.FindValue("past_key.0"), 2),
                   positions_, Buckets(false));
  for (int64_t layer = 0; layer < m_.decoder.layers; ++layer) {
    EVOQ_ASSIGN(x, DecoderLayer(layer, x, source));
  }
  EVOQ_ASSIGN(const ValueId logits, Output(x));
  EVOQ_TRY(weights_.CheckAllRead());
  graph_.Rename(logits, "logits");
  graph_.MarkOutput(logits);
  constexpr const char* kNames[] = {"key", "value", "cross_key", "cross_value"};
  for (size_t i = 0; i < present_.size(); ++i) {
    graph_.Rename(present_[i], fmt::format("present_{}.{}", kNames[i % 4], i / 4));
    graph_.MarkOutput(present_[i]);
  }
  EVOQ_TRY(graph_.Sort());
  return std::move(graph_);
}

}  // namespace

Result<Graph> BuildEncoderDecoder(const EncoderDecoder& model, StoredTensors tensors,
                                  std::vector<std::string>& notes) {
  const EncoderDecoderFamily* family = FindEncoderDecoder(model.family);
  EVOQ_CHECK(family != nullptr, "{}", model.family);
  tensors = Renamed(*family, std::move(tensors));
  ShareTables(tensors);
  return Builder(model, *family, tensors, notes).Build();
}

}  // namespace evoq
