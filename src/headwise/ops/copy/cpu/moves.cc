// Sharing out a copy. Door: moves.h.
#include "headwise/ops/copy/cpu/moves.h"

#include <algorithm>
#include <cstddef>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/walk.h"

namespace headwise {
namespace {

constexpr int64_t kPerTask = 32768;  // elements

// Bytes of both views, wherever a run begins.
struct Ends {
  const char* from;
  char* to;
  int64_t from_size;
  int64_t to_size;
};

void MoveOne(const Walk<2>& walk, MoveRun move, Ends ends, int64_t begin,
             int64_t end) {
  const int64_t from_step = walk.step()[0], to_step = walk.step()[1];
  walk.ForRuns(begin, end, [&](const auto& places, int64_t count) {
    move(ends.from + places[0] * ends.from_size, from_step,
         ends.to + places[1] * ends.to_size, to_step, count);
  });
}

void MoveWhole(Context& context, const ConstTensorView& from,
               const TensorView& to, MoveRun move) {
  const Walk<2> walk({from, to});
  const Ends ends = {static_cast<const char*>(from.data),
                     static_cast<char*>(to.data), ElementSize(from.type),
                     ElementSize(to.type)};
  // The usual copy of one token should not pay for a std::function.
  if (walk.size() <= kPerTask) return MoveOne(walk, move, ends, 0, walk.size());
  context.pool().ParallelFor(
      (walk.size() + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        MoveOne(walk, move, ends, task * kPerTask,
                std::min(walk.size(), (task + 1) * kPerTask));
      });
}

struct Offsets {
  int64_t from;
  int64_t to;
};

// Rows `count` of both views, at element offsets by place(row).
template <typename Place>
void MoveRows(Context& context, const CopyCall& call, int64_t count,
              const Place& place, MoveRun move) {
  const int axes = call.kind == CopyKind::kAppend ? 2 : 1;
  ConstTensorView from = At(call.from, 0, 0);
  TensorView to = At(call.to, 0, 0);
  if (axes == 2) {
    from = At(from, 0, 0);
    to = At(to, 0, 0);
  }
  const Walk<2> walk({from, to});
  const int64_t from_size = ElementSize(from.type);
  const int64_t to_size = ElementSize(to.type);
  const int64_t rows_per_task = std::max<int64_t>(1, kPerTask / walk.size());
  const auto some = [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) {
      const Offsets at = place(row);
      MoveOne(
          walk, move,
          {static_cast<const char*>(from.data) + at.from * from_size,
           static_cast<char*>(to.data) + at.to * to_size, from_size, to_size},
          0, walk.size());
    }
  };
  if (count <= rows_per_task) return some(0, 0);
  context.pool().ParallelFor((count + rows_per_task - 1) / rows_per_task, some);
}

}  // namespace

void MoveAll(Context& context, const CopyCall& call, MoveRun move) {
  const ConstTensorView& from = call.from;
  const TensorView& to = call.to;
  const int32_t* index = call.index.Raw<int32_t>();
  switch (call.kind) {
    case CopyKind::kCopy:
      return MoveWhole(context, from, to, move);
    case CopyKind::kFill: {
      alignas(8) std::byte cell[8];
      const TensorView one(cell, to.type, {});
      Write(one, call.value, 0);
      ConstTensorView all = to;
      all.data = cell;
      all.stride = {};
      return MoveWhole(context, all, to, move);
    }
    case CopyKind::kGather:
      return MoveRows(
          context, call, to.shape[0],
          [&](int64_t r) {
            return Offsets{index[r] * from.stride[0], r * to.stride[0]};
          },
          move);
    case CopyKind::kScatter:
      return MoveRows(
          context, call, from.shape[0],
          [&](int64_t r) {
            return Offsets{r * from.stride[0], index[r] * to.stride[0]};
          },
          move);
    case CopyKind::kAppend:
      return MoveRows(
          context, call, from.shape[0] * from.shape[1],
          [&](int64_t row) {
            const int64_t b = row / from.shape[1], i = row % from.shape[1];
            return Offsets{b * from.stride[0] + i * from.stride[1],
                           b * to.stride[0] + (index[b] + i) * to.stride[1]};
          },
          move);
  }
}

}  // namespace headwise
