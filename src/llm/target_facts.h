// What a model that reads one text and writes another says of the text that it writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace evoq {

// How a model hears: features of frames, the logarithms of energies in bins of frequencies on the
// mel scale.
struct AudioFacts {
  int64_t bins = 0;                               // of a frame; 0: it reads tokens
  int64_t rate = 16000, window = 400, hop = 160;  // samples in a second, of a frame, between frames
  bool names_language = true;                     // texts begin with their language and task
};

struct TargetFacts {
  int64_t source_context = 0;         // the most tokens of the text that is read, or half as many
                                      // frames of what is heard; 0: it reads none
  int64_t source_vocabulary = 0;      // of that text
  std::vector<int64_t> start;         // stand before the text, and are none of it
  std::vector<int64_t> forced_begin;  // the text's first tokens
  std::vector<int64_t> forced_end;    // what a text ends with that would be too long
  std::vector<int64_t> suppressed;    // are never written
  std::vector<int64_t> begin_suppressed;  // are not written behind what is forced at the beginning
  int64_t no_repeat = 0;                  // no so many tokens come twice; 0: they may
  int64_t min_tokens = 0;       // before so many, with the one that ends it, it does not end
  double length_penalty = 1;    // of beams
  bool early_stopping = false;  // of beams: it ends with as many whole texts as beams

  AudioFacts audio;  // of a model that hears

  bool hears() const { return audio.bins > 0; }
  bool reads() const { return source_context > 0; }
};

// The fact "llm.target", which graphs have that have an encoder: a JSON object.
void SetTargetFacts(const TargetFacts& facts, Graph& graph);
// Of a graph without it: what reads no text. Errors: kInvalidInput: it is no such object, or a
// token is none of the vocabulary.
Result<TargetFacts> ReadTargetFacts(const Graph& graph, int64_t vocabulary);

// Errors: kInvalidInput: a number out of range.
Status CheckTargetFacts(const TargetFacts& facts, int64_t vocabulary);

}  // namespace evoq
