// Arithmetic element by element, and sums over elements.
//
// Element by element: all views of one shape, any strides; an input may repeat
// (Broadcast of tensor/slice.h: a bias over rows, a factor a row), the result
// may be an input of the same strides. Each result is one expression as it
// stands here, rounded once a step in the type of the views; all views of a
// call have one type.
//
// Sums are made in f64 and in one order on any number of threads. They are
// added to a view, so that a device need not be waited for.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// All throw Error(kInvalidArgument) naming the view that does not fit.

// y = a + b.
void Add(Context& context, const ConstTensorView& a, const ConstTensorView& b,
         const TensorView& y);
// y = a + factor · b.
void AddScaled(Context& context, const ConstTensorView& a, float factor,
               const ConstTensorView& b, const TensorView& y);
// y = a · b.
void Multiply(Context& context, const ConstTensorView& a,
              const ConstTensorView& b, const TensorView& y);
// y = factor · a.
void Scale(Context& context, float factor, const ConstTensorView& a,
           const TensorView& y);

// y += x.
inline void AddTo(Context& context, const ConstTensorView& x,
                  const TensorView& y) {
  Add(context, y, x, y);
}

// sums [n] (f32) += Σ over all rows of x […, n]: each sum in f64, rows in
// order, rounded once and then added.
void AddColumnSums(Context& context, const ConstTensorView& x,
                   const TensorView& sums);

// sum [1] (f64) += Σ x², x of whatever shape.
void AddSumOfSquares(Context& context, const ConstTensorView& x,
                     const TensorView& sum);

// mark [1] (i32) = 1 where any |x| is above `limit` or not a number; else it
// stays. The largest f32 as limit asks for what is not finite.
void MarkBeyond(Context& context, const ConstTensorView& x, float limit,
                const TensorView& mark);

// The same for those who wait: Σ x²; whether no |x| is beyond; the number of
// the first that is, in order of the last axis first, or −1.
double SumOfSquares(Context& context, const ConstTensorView& x);
bool AllWithin(Context& context, const ConstTensorView& x, float limit);
int64_t FirstBeyond(Context& context, const ConstTensorView& x, float limit);

}  // namespace headwise
