// Choosing places along an axis. Door: places.h.
#include "headwise/tensor/places.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

// Neighbours that stay neighbours.
struct PlaceRun {
  int64_t from = 0;
  int64_t to = 0;
  int64_t count = 0;
};

void AddPlace(int64_t from, int64_t to, std::vector<PlaceRun>& runs) {
  if (!runs.empty()) {
    PlaceRun& last = runs.back();
    if (from == last.from + last.count && to == last.to + last.count) {
      ++last.count;
      return;
    }
  }
  runs.push_back({from, to, 1});
}

[[noreturn]] void RefusePlaces(std::string_view name, std::string expected,
                               std::string found, std::string hint = "") {
  throw Error(ErrorCode::kInvalidArgument,
              {std::string(name), std::move(expected), std::move(found),
               std::move(hint)});
}

void CheckStored(const ConstTensorView& view, int axis, std::string_view name) {
  const bool fits = view.rank >= 1 && view.rank <= 2 && axis >= 0 &&
                    axis < view.rank && view.device.is_cpu() &&
                    (view || view.size() == 0);
  if (fits) return;
  RefusePlaces(
      name,
      "a vector or matrix on the host with an axis " + std::to_string(axis),
      view ? ToString(view) : "none");
}

void CheckPlaces(std::span<const int64_t> places, int64_t all,
                 std::string_view name) {
  for (const int64_t place : places) {
    if (place >= 0 && place < all) continue;
    RefusePlaces(name, "places in [0, " + std::to_string(all) + ")",
                 std::to_string(place));
  }
}

// `count` elements of a line, `step` apart, to where `to` lies.
struct ElementCopy {
  int64_t item = 0;  // bytes
  int64_t step = 1;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;

  void operator()(int64_t from_at, int64_t to_at, int64_t count) const {
    const std::byte* source = from + from_at * item;
    std::byte* target = to + to_at * item;
    if (step == 1) {
      std::memcpy(target, source, count * item);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(target + i * item, source + i * step * item, item);
    }
  }
};

// Runs of elements as runs of their blocks' bytes. Throws where they cut a
// block.
void CountInBytes(const ElementEncoding& encoding, std::string_view name,
                  std::vector<PlaceRun>& runs) {
  for (PlaceRun& run : runs) {
    for (int64_t* number : {&run.from, &run.to, &run.count}) {
      if (*number % encoding.block != 0) {
        RefusePlaces(
            name,
            "places in whole blocks of " + std::to_string(encoding.block) +
                " elements of " + encoding.name,
            std::to_string(run.count) + " from place " +
                std::to_string(run.from) + " to " + std::to_string(run.to),
            "make the tensor f32 first");
      }
      *number = *number / encoding.block * encoding.bytes;
    }
  }
}

// The runs of `stored` among `all` places of `axis`, which are 0 elsewhere.
Tensor Arranged(const ConstTensorView& stored, int axis, int64_t all,
                std::vector<PlaceRun> runs, std::string_view name) {
  const ElementEncoding& encoding = EncodingOf(stored.type);
  const int last = stored.rank - 1;
  if (!encoding.plain()) {
    if (stored.stride[last] != 1) {
      RefusePlaces(name, "rows of whole blocks", "columns");
    }
    if (axis == last) CountInBytes(encoding, name, runs);
  }
  Shape shape = axis == 0 ? Shape{all} : Shape{stored.shape[0], all};
  if (axis == 0 && last == 1) shape = Shape{all, stored.shape[1]};
  CheckedBytes(stored.type, shape, std::string(name).c_str());
  Tensor result(stored.type, shape);
  if (result.size() == 0) return result;
  // Plain types stay as they are here; blocks become bytes.
  const ConstTensorView view = AsBytes(stored);
  const TensorView made = AsBytes(result.view());
  const ElementCopy copy = {.item = ElementSize(view.type),
                            .step = view.stride[last],
                            .from = static_cast<const std::byte*>(view.data),
                            .to = static_cast<std::byte*>(made.data)};
  if (axis != last) {
    for (const PlaceRun& run : runs) {
      for (int64_t i = 0; i < run.count; ++i) {
        copy((run.from + i) * view.stride[0], (run.to + i) * made.stride[0],
             view.shape[1]);
      }
    }
    return result;
  }
  const int64_t lines = view.rank == 2 ? view.shape[0] : 1;
  for (int64_t line = 0; line < lines; ++line) {
    for (const PlaceRun& run : runs) {
      copy(line * view.stride[0] + run.from * copy.step,
           line * made.stride[0] + run.to, run.count);
    }
  }
  return result;
}

}  // namespace

Tensor Select(const ConstTensorView& view, int axis,
              std::span<const int64_t> places, std::string_view name) {
  CheckStored(view, axis, name);
  CheckPlaces(places, view.shape[axis], name);
  std::vector<PlaceRun> runs;
  int64_t to = 0;
  for (const int64_t place : places) AddPlace(place, to++, runs);
  return Arranged(view, axis, to, std::move(runs), name);
}

Tensor Spread(const ConstTensorView& view, int axis,
              std::span<const int64_t> places, int64_t all,
              std::string_view name) {
  CheckStored(view, axis, name);
  CheckPlaces(places, all, name);
  if (std::ssize(places) != view.shape[axis]) {
    RefusePlaces(name,
                 std::to_string(view.shape[axis]) + " places on axis " +
                     std::to_string(axis),
                 std::to_string(places.size()));
  }
  std::vector<PlaceRun> runs;
  int64_t from = 0;
  for (const int64_t place : places) AddPlace(from++, place, runs);
  return Arranged(view, axis, all, std::move(runs), name);
}

}  // namespace headwise
