// How Winograd convolutions of every type cut their tiles for caches and threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/math.h"
#include "base/thread_pool.h"

namespace evoq {

// Strides of a multiple of 512 bytes would put the rows of a tile into few sets of the L1 cache.
inline int64_t SpreadStride(int64_t elements, int64_t element_bytes) {
  return elements * element_bytes % 512 == 0 ? elements + 64 / element_bytes : elements;
}

// Tiles are numbered row by row, image by image. A chunk of them is transformed and then multiplied
// by one group of columns after the other.
struct WinogradTiles {
  int64_t tiles_y = 0, tiles_x = 0, tiles = 0;
  int64_t chunks = 1, chunk_tiles = 0;  // at most chunk_tiles each
  bool split_chunks = false;            // threads share each chunk
  int64_t groups = 1;
  int threads = 1;

  // Tiles of size x size outputs.
  void SetTiles(int64_t batch, int64_t height, int64_t width, int64_t size) {
    tiles_y = CeilDiv(height, size), tiles_x = CeilDiv(width, size);
    tiles = batch * tiles_y * tiles_x;
  }

  // Chunks of at most `most` tiles; `least`: so many are worth a thread of their own.
  void CutChunks(int64_t most, int64_t least) {
    chunks = std::max<int64_t>(CeilDiv(tiles, std::max(most, least)), 1);
    if (threads > 1) {
      split_chunks = tiles < threads * least;
      if (!split_chunks) chunks = std::min(RoundUp(chunks, threads), tiles);
    }
    chunk_tiles = CeilDiv(std::max<int64_t>(tiles, 1), chunks);
  }

  int64_t ChunkBegin(int64_t chunk) const {
    return tiles / chunks * chunk + std::min(chunk, tiles % chunks);
  }

  // transform(tile, slot, i, thread): tile becomes the i-th of the transformed ones in slot.
  // multiply(chunk, group, from, to): a group of the chunk that lies transformed in slot `from`,
  // with products in slot `to`. There are as many slots as threads.
  template <typename Transform, typename Multiply>
  void ForAll(ThreadPool& pool, const Transform& transform, const Multiply& multiply) const {
    EVOQ_CHECK(pool.threads() <= threads, "bound for {} threads, run with {}", threads,
               pool.threads());
    if (!split_chunks) {
      pool.ParallelFor(chunks, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t chunk = begin; chunk < end; ++chunk) {
          const int64_t first = ChunkBegin(chunk), last = ChunkBegin(chunk + 1);
          for (int64_t tile = first; tile < last; ++tile)
            transform(tile, thread, tile - first, thread);
          for (int64_t group = 0; group < groups; ++group) multiply(chunk, group, thread, thread);
        }
      });
      return;
    }
    // At most as many chunks as threads: each has a slot.
    pool.ParallelFor(tiles, CeilDiv(tiles, int64_t{4} * threads),
                     [&](int64_t begin, int64_t end, int thread) {
                       int64_t chunk = 0;
                       for (int64_t tile = begin; tile < end; ++tile) {
                         while (tile >= ChunkBegin(chunk + 1)) ++chunk;
                         transform(tile, chunk, tile - ChunkBegin(chunk), thread);
                       }
                     });
    pool.ParallelFor(chunks * groups, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) multiply(i / groups, i % groups, i / groups, thread);
    });
  }
};

}  // namespace evoq
