// Moving elements: from one place, layout, type and device to another; the same
// value everywhere; rows by their numbers; rows behind those of a cache.
//
// Views may have any strides. `from` may be host memory that is not aligned
// (files do not align what they hold); it may repeat elements by strides of 0.
// `to` must not, and does not overlap with `from`. All views lie on the host or
// on the context's device; Copy goes from any of these to any. Work on a device
// is queued: what lies on the host is read, or in place, after Synchronize.
//
// Types: any to the same; floats and integers to floats, rounded to nearest
// even (to a half by way of f32); integers to integers that they fit; blocks
// (IsPlain of headwise/tensor.h) to floats, on the host.
#pragma once

#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/tensor.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// All throw Error(kInvalidArgument) naming the view that does not fit.

// to = from, of the same shape.
void Copy(Context& context, const ConstTensorView& from, const TensorView& to);

// to = value, of whatever shape.
void Fill(Context& context, double value, const TensorView& to);

// to [R, …] = rows `rows` [R] (i32) of from [N, …]. Numbers outside [0, N) are
// an error on the host, and undefined on a device.
void GatherRows(Context& context, const ConstTensorView& from,
                const ConstTensorView& rows, const TensorView& to);

// Rows `rows` [R] (i32) of to [N, …] = from [R, …], the others untouched. No
// number stands twice.
void ScatterRows(Context& context, const ConstTensorView& from,
                 const ConstTensorView& rows, const TensorView& to);

// Rows of sequences into caches that hold `held` [B] (i32) rows of each: row
// held[b] + i of to [B, capacity, …] = row i of sequence b of from [B, M, …].
// Rows beyond the capacity are an error on the host; a device leaves them out.
void AppendRows(Context& context, const ConstTensorView& from,
                const ConstTensorView& held, const TensorView& to);

// Both appends, as one piece of work where the device gains by it.
struct Appended {
  ConstTensorView from;
  TensorView to;
};
void AppendRows(Context& context, const Appended& one, const Appended& other,
                const ConstTensorView& held);
// Throws what AppendRows would, for operators that append what they make.
void CheckAppends(Context& context, const Appended& one, const Appended& other,
                  const ConstTensorView& held);

// A dense copy as scratch of the context's device.
Temp CopyOf(Context& context, const ConstTensorView& from);
// A dense tensor of the same type on the host, when it is there; on the
// context's device.
Tensor ToHost(Context& context, const ConstTensorView& from);
Tensor ToDevice(Context& context, const ConstTensorView& from);
// A view that the context's device can read: `from` where it lies there, else
// of a copy, which `copy` keeps.
ConstTensorView OnDevice(Context& context, const ConstTensorView& from,
                         Temp& copy);
// The same for the host, which can read it now.
ConstTensorView OnHost(Context& context, const ConstTensorView& from,
                       Tensor& copy);

// The elements in order as numbers on the host, when they are there: float,
// double, int32_t, int64_t.
template <typename T>
std::vector<T> ToVector(Context& context, const ConstTensorView& from) {
  std::vector<T> values(from ? static_cast<size_t>(from.size()) : 0);
  if (values.empty()) return values;
  const Shape shape = std::span(from.shape).first(from.rank);
  Tensor copy;
  Copy(context, OnHost(context, from, copy), Reshaped(ViewOf(values), shape));
  return values;
}

}  // namespace headwise
