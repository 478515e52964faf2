// One vector of a text: what a folder of sentence-transformers says becomes of the states that an
// encoder gives for each token, as a part of the graph.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// Whether the folder says how vectors of texts are made: it has modules.json or
// 1_Pooling/config.json.
bool MakesEmbeddings(const std::string& folder);

// With m[b, t] the attention_mask and h[b, t, i] the last_hidden_state, adds the output
// sentence_embedding float32[batch, size]. Poolings stand one behind the other where there are
// several, in the order of this table (that of the package sentence-transformers); then come the
// other modules in theirs:
//
//   cls_token             h[b, 0]
//   max_tokens            max over t with m = 1
//   mean_tokens           sum_t m h / sum_t m
//   mean_sqrt_len_tokens  sum_t m h / sqrt(sum_t m)
//   weightedmean_tokens   sum_t (t + 1) m h / sum_t (t + 1) m
//   lasttoken             h at the last t with m = 1
//   Dense                 f(W x + b)
//   Normalize             x / |x|
//
// Facts: "llm.normalize" ("1": vectors have length 1), "llm.prompt": what stands before each text.
// Nothing where not MakesEmbeddings(folder). Errors: those of reading; kInvalidInput for JSON of
// another form; kUnsupported for a module that is none of these.
Status AddSentenceEmbedding(const std::string& folder, Graph& graph,
                            std::vector<std::string>& notes);

}  // namespace evoq
