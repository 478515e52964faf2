// Groups of a convolution that are too narrow for the tiles: neighbouring ones become one.
#pragma once

#include "kernels/gemm/int8_linear.h"

namespace evoq {

// How many groups of the convolution become one; 1: they stay. Weights of one group for inputs of
// another are zero, so that sums, and results, are the same. `lanes`: the tiles can read another
// group's channels in each column (Int8Tile::lanes): they need four channels to a group, no more.
// Others compute 16 columns of a group whether it has them or not.
int64_t GroupsToJoin(const Int8Geometry& geometry, bool lanes);

// Joins the groups of `spec`, whose weights may be plain or k4n16 and are k4n16 afterwards; leaves
// it as it is where none are to be joined. Errors: of unpacking and packing.
Status JoinNarrowGroups(Int8LinearSpec& spec, const BindOptions& options);

}  // namespace evoq
