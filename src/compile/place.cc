#include "compile/place.h"

#include <algorithm>

#include "base/aligned.h"
#include "base/math.h"
#include "compile/memory.h"
#include "compile/roots.h"
#include "graph/run_choices.h"
#include "program/node_call.h"

namespace evoq {
namespace {

class Placing {
 public:
  explicit Placing(Program& program)
      : program_(program),
        graph_(*program.graph),
        roots_(graph_),
        reuses_(ChoiceOf(graph_, kMemoryReuseChoice) != "off"),
        last_use_(graph_.value_count(), -1),
        block_of_(graph_.value_count(), -1) {}

  Status Run() {
    PlaceWhatIsGiven();
    NoteUses();
    for (size_t s = 0; s < program_.steps.size(); ++s) MakeBlocks(static_cast<int>(s));
    EVOQ_TRY(PlanArenas());
    for (int i = 0; i < graph_.value_count(); ++i)
      program_.placements[i] = program_.placements[roots_[ValueId{i}].index];
    return {};
  }

 private:
  Placement& At(ValueId id) { return program_.placements[id.index]; }
  void PlaceWhatIsGiven();
  void NoteUses();
  void MakeBlocks(int step);
  int Overwritable(int step) const;
  Status PlanArenas();

  Program& program_;
  const Graph& graph_;
  const Roots roots_;
  const bool reuses_;          // memory of values that are read no more
  std::vector<int> last_use_;  // by root: a step
  std::vector<Lifetime> blocks_;
  std::vector<const MemorySpace*> spaces_;  // of the blocks
  std::vector<int> block_of_;               // by root
};

void Placing::PlaceWhatIsGiven() {
  program_.placements.assign(graph_.value_count(), {});
  for (size_t i = 0; i < graph_.inputs().size(); ++i)
    At(graph_.inputs()[i]) = {Placement::Kind::kInput, static_cast<int64_t>(i)};
  for (int i = 0; i < graph_.value_count(); ++i) {
    if (graph_.value(ValueId{i}).is_constant()) At(ValueId{i}) = {Placement::Kind::kConstant, i};
  }
  for (size_t i = 0; i < graph_.outputs().size(); ++i)
    At(roots_[graph_.outputs()[i]]) = {Placement::Kind::kOutput, static_cast<int64_t>(i)};
}

void Placing::NoteUses() {
  for (size_t s = 0; s < program_.steps.size(); ++s) {
    for (ValueId id : graph_.node(program_.steps[s].node).inputs) {
      if (id.valid()) last_use_[roots_[id].index] = static_cast<int>(s);
    }
  }
}

// The block of an input that output 0 of a step may overwrite: the kernel allows it and nothing
// reads the input later. -1 where there is none.
int Placing::Overwritable(int index) const {
  const Step& step = program_.steps[index];
  const Node& node = graph_.node(step.node);
  const auto block_of = [&](ValueId id) { return block_of_[roots_[id].index]; };
  const int input = OverwritableInput(graph_, node, step.kernel, block_of, [&](ValueId id) {
    return last_use_[roots_[id].index] == index;
  });
  return input < 0 ? -1 : block_of(node.inputs[input]);
}

// Of what the step writes and has no place yet.
void Placing::MakeBlocks(int index) {
  const Step& step = program_.steps[index];
  const Node& node = graph_.node(step.node);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    const ValueId root = roots_[node.outputs[i]];
    if (At(root).kind != Placement::Kind::kUnused) continue;
    const int64_t bytes = *graph_.value(root).type.bytes();
    int block = i == 0 && reuses_ ? Overwritable(index) : -1;
    if (block < 0 || blocks_[block].bytes != bytes) {
      block = static_cast<int>(blocks_.size());
      blocks_.push_back({bytes, index, index, 0});
      spaces_.push_back(step.writes);
    }
    block_of_[root.index] = block;
    blocks_[block].last =
        reuses_ ? std::max(index, last_use_[root.index]) : static_cast<int>(program_.steps.size());
  }
}

// Offsets in the arena of each memory.
Status Placing::PlanArenas() {
  program_.arenas = {Arena()};
  for (const Step& step : program_.steps) {
    for (const MemorySpace* space : {step.backend->memory, step.writes}) {
      if (std::none_of(program_.arenas.begin(), program_.arenas.end(),
                       [&](const Arena& a) { return a.space == space; }))
        program_.arenas.push_back({space});
    }
  }
  program_.live_bytes = 0;
  for (Arena& arena : program_.arenas) {
    std::vector<Lifetime> blocks;
    std::vector<size_t> which;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (spaces_[b] != arena.space) continue;
      blocks.push_back(blocks_[b]);
      which.push_back(b);
    }
    EVOQ_ASSIGN(arena.bytes, PlanArena(blocks));
    program_.live_bytes += LiveBytes(blocks);
    for (size_t i = 0; i < which.size(); ++i) blocks_[which[i]].offset = blocks[i].offset;
  }
  for (int i = 0; i < graph_.value_count(); ++i) {
    if (const int block = block_of_[i]; block >= 0)
      program_.placements[i] = {Placement::Kind::kArena, blocks_[block].offset, spaces_[block]};
  }
  program_.value_bytes = 0;
  for (const Step& step : program_.steps) {
    for (const ValueId out : graph_.node(step.node).outputs) {
      if (!out.valid() || block_of_[out.index] < 0) continue;
      // More values than are alive at once: what fits in the arena may add up to more than that.
      const int64_t bytes = RoundUp(*graph_.value(out).type.bytes(), kAlignment);
      program_.value_bytes = CheckedAdd(program_.value_bytes, bytes).value_or(INT64_MAX);
    }
  }
  return {};
}

}  // namespace

Status PlaceValues(Program& program) { return Placing(program).Run(); }

}  // namespace evoq
