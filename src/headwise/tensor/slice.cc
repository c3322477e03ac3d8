// Other shapes of a view. Door: slice.h.
#include "headwise/tensor/slice.h"

#include <optional>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

[[noreturn]] void Refuse(std::string expected, const ConstTensorView& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {"view", std::move(expected), ToString(found), ""});
}

}  // namespace

void CheckSlice(const ConstTensorView& view, int axis, int64_t begin,
                int64_t end) {
  if (axis < 0 || axis >= view.rank) {
    Refuse("an axis " + std::to_string(axis), view);
  }
  if (begin < 0 || begin > end || end > view.shape[axis]) {
    Refuse("entries [" + std::to_string(begin) + ", " + std::to_string(end) +
               ") on axis " + std::to_string(axis),
           view);
  }
  if (!EncodingOf(view.type).plain())
    CheckBlocks(view, axis, begin, end, "view");
}

bool IsDense(const ConstTensorView& view) {
  int64_t step = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.stride[i] != step) return view.size() == 0;
    step *= view.shape[i];
  }
  return true;
}

bool SameShape(const ConstTensorView& a, const ConstTensorView& b) {
  bool same = a.rank == b.rank;
  for (int i = 0; same && i < a.rank; ++i) same = a.shape[i] == b.shape[i];
  return same;
}

// Both shapes are cut into the shortest groups of axes with equal products. A
// group of old axes must lie end to end; its new axes then do too.
ViewLayout ReshapedLayout(const ConstTensorView& view, const Shape& shape) {
  const ConstTensorView dense(nullptr, view.type, shape);
  if (dense.size() != view.size()) {
    Refuse("as many elements as " + ToString(shape), view);
  }
  ViewLayout layout{dense.rank, dense.shape, dense.stride};
  if (view.size() == 0 || IsDense(view)) return layout;
  int from = 0, to = 0;
  while (from < view.rank && to < layout.rank) {
    int from_end = from + 1, to_end = to + 1;
    int64_t old_count = view.shape[from], new_count = layout.shape[to];
    while (old_count != new_count) {
      if (old_count < new_count) {
        old_count *= view.shape[from_end++];
      } else {
        new_count *= layout.shape[to_end++];
      }
    }
    // Axes of 1 have no stride that counts.
    std::optional<int64_t> step;
    for (int i = from_end - 1; i >= from; --i) {
      if (view.shape[i] == 1) continue;
      if (!step) layout.stride[to_end - 1] = view.stride[i];
      if (step && view.stride[i] != *step) {
        Refuse("strides that allow " + ToString(shape), view);
      }
      step = view.stride[i] * view.shape[i];
    }
    for (int i = to_end - 2; i >= to; --i) {
      layout.stride[i] = layout.stride[i + 1] * layout.shape[i + 1];
    }
    from = from_end;
    to = to_end;
  }
  return layout;
}

ViewLayout BroadcastLayout(const ConstTensorView& view, const Shape& shape) {
  ViewLayout layout{shape.rank(), shape.sizes(), {}};
  const int more = shape.rank() - view.rank;
  bool fits = more >= 0;
  for (int i = 0; fits && i < view.rank; ++i) {
    fits = view.shape[i] == shape[more + i] || view.shape[i] == 1;
    if (view.shape[i] == shape[more + i]) {
      layout.stride[more + i] = view.stride[i];
    }
  }
  if (!fits) Refuse("a shape that grows to " + ToString(shape), view);
  return layout;
}

}  // namespace headwise
