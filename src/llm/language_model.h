// What a decoder-only transformer is, whatever file it came from, and the graph of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "llm/gate_function.h"
#include "llm/stored_tensor.h"

namespace evoq {

// Angles of rotary position embeddings: position * theta^(-2 i / rotated) / divisor / slow[i].
struct Rope {
  double theta = 10000;
  double divisor = 1;        // of all positions: scaling "linear"
  std::vector<double> slow;  // divisors of single frequencies; empty: none
  // The same where the caches (without caches, the text) have more than `original` places.
  std::vector<double> long_slow;
  int64_t original = 0;
  double magnitude = 1;  // of cosines and sines
  // Queries are multiplied by 1 + growth log(1 + floor(position / original)).
  double growth = 0;

  bool operator==(const Rope&) const = default;
};

// The feed-forward parts of a mixture of experts. A token's router, a matrix, says of each expert
// how much it counts; the `used` ones that count most are computed and summed by it.
struct Experts {
  int64_t count = 0;  // 0: none
  int64_t used = 0, inner = 0;
  // Inner width of the expert that all tokens have beside; 0: none. With a count of 0 it is the
  // only one.
  int64_t shared = 0;
  // Gates are cut off above the limit, the others beyond it on both sides, and the part is
  // down(gate * sigmoid(gate_alpha * gate) * (up + 1)); 0: down(f(gate) * up).
  float limit = 0;
  float gate_alpha = 1;
  bool normalized = false;   // the shares of those that are used add up to 1, else those of all do
  float scale = 1;           // of the shares
  std::vector<bool> layers;  // that have experts; empty: all
};

// Tables of angles hold no more positions, and neither does the model then.
inline constexpr int64_t kMostPositions = 32768;

struct LanguageModel {
  std::string architecture;  // the row's name
  int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, head_size = 0, inner = 0;
  int64_t context = 0;  // the most positions
  float epsilon = 1e-6f;
  bool layer_norm = false;         // LayerNormalization instead of RMSNormalization
  bool norm_plus_one = false;      // scales of norms are stored without the 1
  bool plain_norms = false;        // norms have no scales
  bool learned_positions = false;  // instead of rotary ones
  // Instead of rotary ones too: scores get the head's slope times the key's place (Press et al.,
  // "Train Short, Test Long", 2022), slopes from 2^-(steepness / heads) to 2^-steepness; 0: none
  // do.
  float steepness = 0;
  bool coarse_slopes = false;     // the products are bfloat16, and scaled as scores are
  int64_t first_position = 0;     // the row of the learned positions' table that is the first's
  bool weights_by_input = false;  // matrices are stored [inputs, outputs]
  bool interleaved = false;       // rotary pairs are neighbours, not halves apart
  bool gated = true;              // down(f(gate x) * up x), else down(f(up x))
  bool parallel = false;          // x + attention(x) + feed(x), else one behind the other
  bool norms_before = true;       // of each block: feed(norm(x)); norms behind are where they are
  bool embedding_norm = false;    // and none before layer 0's attention
  bool whole_norms = false;       // of queries and keys: over all heads together
  bool joined_by_head = false;    // attn_qkv has one key head's queries, key and value behind the
                                  // other's, else those of all heads
  bool bidirectional = false;     // tokens see those behind them too: no caches and no head
  bool tied = false;              // the head is the embedding
  bool wrapped = false;           // the folder is of a larger model, which has it for a part
  bool of_folder = false;         // messages name tensors as Hugging Face's folders do
  GateFunction function = GateFunction::kSilu;
  float embedding_scale = 1;
  float residual_scale = 1;  // of what a block adds
  float logit_scale = 1;
  float attention_scale = 0;    // 0: 1 / sqrt(head_size)
  float attention_softcap = 0;  // 0: none
  float logit_softcap = 0;
  float clip = 0;       // queries, keys and values are cut off beyond it; 0: none are
  int64_t rotated = 0;  // values of a head that turn
  Rope rope;
  std::optional<Rope> local_rope;  // of layers with a window; none: as the others
  std::vector<bool> unturned;      // layers without rotary embedding; empty: none
  // Tokens that a windowed layer sees, itself included; 0: no layer is windowed. Bidirectional: as
  // many on the other side.
  int64_t window = 0;
  std::vector<bool> windowed;  // per layer; empty: none

  Experts experts;

  bool turns() const { return !learned_positions && steepness == 0; }

  // For who generates text.
  std::vector<int64_t> begin, end;  // token ids; empty: unknown
  std::string chat_template;
  std::map<std::string, std::string> files;  // of the tokenizer: name -> bytes
};

// Of the numbers from vocabulary to context alone, for a reader that makes something as long as one
// of them. Errors: kInvalidInput: one is out of range.
Status CheckSizes(const LanguageModel& model);

// Of all. Errors: kInvalidInput: a size or setting is out of range or does not fit the others.
Status CheckLanguageModel(const LanguageModel& model);
// Of the angles of rotary embeddings.
Status CheckRope(const Rope& rope, int64_t rotated);

// Tensors have GGUF's names: token_embd.weight, blk.0.attn_q.weight, ..., output.weight. A bias, a
// norm of queries and keys, a norm behind a block and joined matrices (attn_qkv; gate and up in one
// ffn_up) are used where they are there, and so are sinks of attention, blk.N.attn_sinks.weight. Of
// experts the router is blk.N.ffn_gate_inp, matrices are blk.N.ffn_gate.E, ffn_up.E and ffn_down.E,
// or stacked ones of three axes, ffn_gate_exps, ffn_up_exps and ffn_down_exps (gate and up in one
// ffn_gate_up_exps, the gate's rows first); the shared one's ffn_gate_shexp, ffn_up_shexp,
// ffn_down_shexp and, where it has a share of its own, ffn_gate_inp_shexp. Norms of queries and
// keys may have a row of scales for each head, in one tensor or in one for each,
// attn_q_norm.H.weight.
//
// Inputs: input_ids int64[batch, sequence]; position int64[batch], the tokens that are in the cache
// already; logits_at int64[batch, wanted], places of this sequence; past_key.N, past_value.N
// float32[batch, kv_heads, context, head_size]. Outputs: logits float32[batch, wanted, vocabulary];
// present_key.N, present_value.N. Token i of the sequence stands at position + i, and position +
// sequence is at most context.
//
// That is the form kCached. The others begin at position 0, have no caches, and kNamesFact for
// their fact:
//   kWhole, for training: input_ids is the only input, logits [batch, sequence, vocabulary] the
//   only output. kStates, for embeddings: inputs input_ids and attention_mask, both int64[batch,
//   sequence], the latter for who reads the only output, last_hidden_state float32[batch, sequence,
//   width], what the head would read. Tokens see those before them, so padding stands behind the
//   text; those of a bidirectional model see all that the mask has.
//
// Constants of 16-bit files stay as they lie in the file, under Cast and Transpose. `notes` gets a
// sentence about what is not the file's very weights. Errors: kInvalidInput for a tensor that is
// missing or has other sizes; kUnsupported for a tensor that the architecture has no use for.
enum class LanguageForm { kCached, kWhole, kStates };
Result<Graph> BuildLanguageModel(const LanguageModel& model, const StoredTensors& tensors,
                                 std::vector<std::string>& notes,
                                 LanguageForm form = LanguageForm::kCached);

// Instead of llm.architecture, of a graph that writes no text: whose names its tensors have.
inline constexpr char kNamesFact[] = "llm.names";

// Of a graph whose head is the embedding: "1".
inline constexpr char kTiedFact[] = "llm.tied";

// Whether a graph came from BuildLanguageModel: its metadata says llm.architecture (docs/llm.md).
bool IsLanguageModel(const Graph& graph);

}  // namespace evoq
