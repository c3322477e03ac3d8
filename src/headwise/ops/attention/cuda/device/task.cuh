// One block of queries of one head: what a kernel's block works on.
#pragma once

#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

struct Task {
  int count;  // key tiles to visit; −1: no task
  int sequence, head, first_query;
  int head_index;  // among the active heads
  Extent extent;
  KeyWalk walk;
};

// One item of work, its blocks of block_m queries and tiles of tile_n keys.
__device__ inline Task TaskOf(const ForwardParams& p, const WorkItem& item,
                              int block_m, int tile_n) {
  Task t;
  t.sequence = item.sequence;
  t.extent = ExtentOf(p, item.sequence);
  t.head = p.active_heads != nullptr ? p.active_heads[item.head] : item.head;
  t.head_index = item.head;
  t.first_query = item.block * block_m;
  const int last = Min(t.extent.query_len, t.first_query + block_m) - 1;
  if (last >= t.first_query) {
    t.walk = WalkKeys(p.band, t.first_query + t.extent.offset,
                      last + t.extent.offset, t.extent.key_len, tile_n);
  }
  t.count = t.walk.count();
  return t;
}

// The index-th task of the order.
__device__ inline Task MakeTask(const ForwardParams& p, int index, int block_m,
                                int tile_n) {
  if (index < p.order.count()) {
    return TaskOf(p, p.order.At(index), block_m, tile_n);
  }
  Task t;
  t.count = -1;
  return t;
}

// Row 0 of a sequence and head in a [B, position, head, dim] view.
template <class T>
__device__ inline T* RowsOf(const Strided& view, bool packed, int sequence,
                            int start, int head) {
  return static_cast<T*>(view.data) + (packed ? 0 : sequence * view.batch) +
         start * view.row + head * view.head;
}

// First and one past the last block of `rows` queries that see keys
// begin … last.
__device__ inline int2 QueryBlocks(const Band& band, const Extent& extent,
                                   int begin, int last, int rows) {
  const int from = Max(0, begin - band.after - extent.offset);
  const int upto =
      begin < band.sinks
          ? extent.query_len
          : Min(extent.query_len, last + band.before - extent.offset + 1);
  if (last < begin || upto <= from) return make_int2(0, 0);
  return make_int2(from / rows, CeilDiv(upto, rows));
}

}  // namespace headwise::attention_cuda
