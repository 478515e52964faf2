// Operators that move elements between space and channels or batch.
#include "tflite/translator.h"

namespace evoq::tflite {
namespace {

Status MoveSpace(Translator& to, const char* op, int block) {
  EVOQ_TRY(to.CheckRank(0, 4));
  if (block < 1) return InvalidInput("blocks of size {}", block);
  return to.SetPlanar(0, to.Apply(op, {to.Planar(0)}, Attrs::Of("blocksize", block)));
}

Status SpaceToDepth(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::SpaceToDepthOptions>());
  return MoveSpace(to, "SpaceToDepth", o->block_size());
}
Status DepthToSpace(Translator& to) {
  EVOQ_ASSIGN(const auto* o, to.Options<fb::DepthToSpaceOptions>());
  return MoveSpace(to, "DepthToSpace", o->block_size());
}

// Two blocks and their paddings or crops, [[top, bottom], [left, right]]; `channels` of the input.
struct Blocks {
  int64_t h = 1, w = 1, channels = 0;
  std::vector<int64_t> edges;
};
Result<Blocks> BlocksOf(Translator& to) {
  EVOQ_TRY(to.CheckRank(0, 4));
  EVOQ_ASSIGN(const std::vector<int64_t> sizes, to.Ints(1));
  Blocks blocks;
  EVOQ_ASSIGN(blocks.edges, to.Ints(2));
  if (sizes.size() != 2 || blocks.edges.size() != 4)
    return Unsupported("{} blocks, expected 2", sizes.size());
  for (const int64_t size : sizes) {
    if (size < 1 || size > 1 << 16) return InvalidInput("a block of {}", size);
  }
  for (const int64_t edge : blocks.edges) {
    if (edge < 0 || edge > INT32_MAX) return InvalidInput("an edge of {}", edge);
  }
  blocks.h = sizes[0];
  blocks.w = sizes[1];
  blocks.channels = to.input(0).sizes[3];
  if (blocks.channels < 1) return Unsupported("an input of an open number of channels");
  return blocks;
}

// y[(i bw + j) N + n, h, w, c] = padded x[n, h bh + i, w bw + j, c]. As SpaceToDepth does it with
// channels (i, j, c), the blocks move on to the batch.
Status SpaceToBatch(Translator& to) {
  EVOQ_ASSIGN(const Blocks b, BlocksOf(to));
  const int64_t out_h = to.output(0).rank() == 4 ? to.output(0).sizes[1] : -1,
                out_w = to.output(0).rank() == 4 ? to.output(0).sizes[2] : -1;
  if (out_h < 0 || out_w < 0) return Unsupported("an output of open sizes");
  const auto& e = b.edges;
  const ValueId padded =
      to.Apply("Pad", {to.Real(0), to.Int64Constant({0, e[0], e[2], 0, 0, e[1], e[3], 0})});
  const ValueId split =
      to.Apply("Reshape", {padded, to.Int64Constant({-1, out_h, b.h, out_w, b.w, b.channels})});
  const ValueId moved = to.Transposed(split, {2, 4, 0, 1, 3, 5});
  return to.Set(0, to.Apply("Reshape", {moved, to.Int64Constant({-1, out_h, out_w, b.channels})}));
}

Status BatchToSpace(Translator& to) {
  EVOQ_ASSIGN(const Blocks b, BlocksOf(to));
  const int64_t in_h = to.input(0).sizes[1], in_w = to.input(0).sizes[2];
  if (in_h < 1 || in_w < 1) return Unsupported("an input of open sizes");
  const ValueId split =
      to.Apply("Reshape", {to.Real(0), to.Int64Constant({b.h, b.w, -1, in_h, in_w, b.channels})});
  const ValueId moved = to.Transposed(split, {2, 3, 0, 4, 1, 5});
  const ValueId whole =
      to.Apply("Reshape", {moved, to.Int64Constant({-1, in_h * b.h, in_w * b.w, b.channels})});
  const auto& e = b.edges;
  return to.Set(0, to.Apply("Slice", {whole, to.Int64Constant({e[0], e[2]}),
                                      to.Int64Constant({in_h * b.h - e[1], in_w * b.w - e[3]}),
                                      to.Int64Constant({1, 2})}));
}

}  // namespace

extern const OpRow kDepthToSpace = {
    .name = "DEPTH_TO_SPACE", .number = 5, .translate = DepthToSpace};
extern const OpRow kSpaceToDepth = {
    .name = "SPACE_TO_DEPTH", .number = 26, .translate = SpaceToDepth};
extern const OpRow kBatchToSpace = {.name = "BATCH_TO_SPACE_ND",
                                    .number = 37,
                                    .least_inputs = 3,
                                    .most_inputs = 3,
                                    .translate = BatchToSpace};
extern const OpRow kSpaceToBatch = {.name = "SPACE_TO_BATCH_ND",
                                    .number = 38,
                                    .least_inputs = 3,
                                    .most_inputs = 3,
                                    .translate = SpaceToBatch};

}  // namespace evoq::tflite
