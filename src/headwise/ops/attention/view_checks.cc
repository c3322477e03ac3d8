// Checks of single views. Door: validate.h.
#include "headwise/ops/attention/view_checks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

namespace headwise {
namespace {

struct Dim {
  int64_t stride = 0;  // bytes, > 0
  int64_t size = 0;
};

// Bytes [begin, end) that a view touches, and its sizes above 1, smallest
// stride first. Negative strides are turned round.
struct Footprint {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty = false;

  std::span<const Dim> dims() const { return {all_dims.data(), rank}; }
  void Insert(Dim dim) {
    size_t at = rank++;
    for (; at > 0 && all_dims[at - 1].stride > dim.stride; --at) {
      all_dims[at] = all_dims[at - 1];
    }
    all_dims[at] = dim;
  }

  std::array<Dim, kMaxRank> all_dims{};
  size_t rank = 0;
};

Footprint FootprintOf(const ConstTensorView& view) {
  Footprint result;
  const int64_t item = ElementSize(view.type);
  result.begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data));
  result.end = result.begin + item;
  for (int axis = 0; axis < view.rank; ++axis) {
    const int64_t size = view.shape[axis];
    if (size == 0) result.empty = true;
    const int64_t stride = view.stride[axis] * item;
    if (size <= 1) continue;
    const int64_t reach = stride * (size - 1);
    (reach < 0 ? result.begin : result.end) += reach;
    if (stride != 0) result.Insert({std::abs(stride), size});
  }
  return result;
}

// Whether two elements of the view may be one place.
bool OverlapsItself(const ConstTensorView& view) {
  const Footprint footprint = FootprintOf(view);
  if (footprint.empty) return false;
  int64_t extent = ElementSize(view.type);
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] > 1 && view.stride[axis] == 0) return true;
  }
  for (const Dim& dim : footprint.dims()) {
    if (dim.stride < extent) return true;
    extent = dim.stride * (dim.size - 1) + extent;
  }
  return false;
}

// Bytes that the dimensions with strides below `period` reach, when all others
// step by multiples of it; 0 when they do not.
int64_t ExtentWithin(const Footprint& f, int64_t item, int64_t period) {
  int64_t extent = item;
  for (const Dim& dim : f.dims()) {
    if (dim.stride >= period) {
      if (dim.stride % period != 0) return 0;
    } else {
      extent += dim.stride * (dim.size - 1);
    }
  }
  return extent;
}

// Whether byte offsets of any two elements differ by less than 2^62.
bool FitsMemory(int64_t stride, int64_t size) {
  int64_t reach = 0;
  return !__builtin_mul_overflow(stride, size, &reach) &&
         std::abs(reach) <= (int64_t{1} << 55);
}

bool HasShape(const ConstTensorView& view, DType type,
              std::initializer_list<int64_t> shape) {
  return view.type == type && view.rank == static_cast<int>(shape.size()) &&
         std::equal(shape.begin(), shape.end(), view.shape.begin());
}

// The error of a view that does not do.
[[noreturn, gnu::noinline, gnu::cold]] void Refuse(
    const char* name, const ConstTensorView& view, DType type,
    std::initializer_list<int64_t> shape) {
  const ConstTensorView wanted(nullptr, type, shape);
  const std::string what = std::string(name) + " " + ToString(wanted);
  if (!view) ThrowInvalid(what, std::string("no ") + name);
  if (!HasShape(view, type, shape)) ThrowInvalid(what, ToString(view));
  for (int axis = 0; axis < view.rank; ++axis) {
    if (FitsMemory(view.stride[axis], view.shape[axis])) continue;
    ThrowInvalid(what + " whose strides fit memory",
                 "stride " + std::to_string(view.stride[axis]));
  }
  ThrowInvalid(what + " with last stride 1",
               "stride " + std::to_string(view.stride[view.rank - 1]));
}

void CheckShape(const char* name, const ConstTensorView& view, DType type,
                std::initializer_list<int64_t> shape, ViewNeed need) {
  if (!view) {
    if (need == ViewNeed::kOptional ||
        std::find(shape.begin(), shape.end(), 0) != shape.end()) {
      return;
    }
    Refuse(name, view, type, shape);
  }
  bool fits = HasShape(view, type, shape);
  for (int axis = 0; fits && axis < view.rank; ++axis) {
    fits = FitsMemory(view.stride[axis], view.shape[axis]);
  }
  const int last = view.rank - 1;
  if (!fits || (view.shape[last] > 1 && view.stride[last] != 1)) {
    Refuse(name, view, type, shape);
  }
}

[[noreturn, gnu::noinline, gnu::cold]] void RefuseDevice(
    const char* name, const ConstTensorView& view, Device device) {
  ThrowInvalid(
      std::string(name) + " on " + ToString(device) + ", the problem's device",
      std::string(name) + " on " + ToString(view.device));
}

[[noreturn, gnu::noinline, gnu::cold]] void RefuseOverlap(
    const char* name, const ConstTensorView& view) {
  std::string strides;
  for (int axis = 0; axis < view.rank; ++axis) {
    strides += (axis == 0 ? "" : ", ") + std::to_string(view.stride[axis]);
  }
  ThrowInvalid(std::string(name) + " " + ToString(view) +
                   " whose elements do not overlap",
               "strides [" + strides + "]");
}

}  // namespace

void ThrowInvalid(std::string expected, std::string found, std::string hint) {
  throw Error(ErrorCode::kInvalidArgument, {"attention", std::move(expected),
                                            std::move(found), std::move(hint)});
}

bool MayOverlap(const ConstTensorView& a, const ConstTensorView& b) {
  const Footprint x = FootprintOf(a);
  const Footprint y = FootprintOf(b);
  if (x.empty || y.empty || x.end <= y.begin || y.end <= x.begin) return false;
  // Interleaved views: look at one period of a stride that both have.
  for (const Dim& dim : x.dims()) {
    const int64_t period = dim.stride;
    const bool shared = std::any_of(y.dims().begin(), y.dims().end(),
                                    [&](Dim d) { return d.stride == period; });
    if (!shared) continue;
    const int64_t in_x = ExtentWithin(x, ElementSize(a.type), period);
    const int64_t in_y = ExtentWithin(y, ElementSize(b.type), period);
    if (in_x == 0 || in_y == 0) continue;
    const int64_t shift = ((y.begin - x.begin) % period + period) % period;
    if (shift >= in_x && period - shift >= in_y) return false;
  }
  return true;
}

void ViewChecker::Check(const char* name, const ConstTensorView& view,
                        DType type, std::initializer_list<int64_t> shape,
                        ViewNeed need) const {
  CheckShape(name, view, type, shape, need);
  if (view && view.device != device_) RefuseDevice(name, view, device_);
}

void ViewChecker::Input(const char* name, const ConstTensorView& view,
                        DType type, std::initializer_list<int64_t> shape,
                        ViewNeed need) {
  Check(name, view, type, shape, need);
  if (view) entries_.push_back({name, view, false});
}

void ViewChecker::Output(const char* name, const ConstTensorView& view,
                         DType type, std::initializer_list<int64_t> shape,
                         ViewNeed need) {
  Check(name, view, type, shape, need);
  if (!view) return;
  if (OverlapsItself(view)) RefuseOverlap(name, view);
  entries_.push_back({name, view, true});
}

void ViewChecker::CheckOverlap() const {
  for (const Entry& out : entries_) {
    if (!out.written) continue;
    for (const Entry& other : entries_) {
      if (&other == &out || !MayOverlap(out.view, other.view)) continue;
      ThrowInvalid(std::string(out.name) + " apart from " + other.name,
                   std::string(out.name) + " " + ToString(out.view) +
                       " overlapping " + other.name + " " +
                       ToString(other.view));
    }
  }
}

}  // namespace headwise
