// For analyses that count on the host, wherever the model runs: a context for
// weights that lie there, and results as f32 that the host can read.
#pragma once

#include <memory>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// The given context where it is the host's, else one of the host with as many
// threads. What it is given lies on the host: weights as a file holds them, not
// what layers made of them for the device (a Norm's weight(), a Linear).
class HostContext {
 public:
  explicit HostContext(Context& context);

  operator Context&() const { return *context_; }  // NOLINT: stands for one
  Context& operator*() const { return *context_; }

 private:
  std::unique_ptr<Context> own_;
  Context* context_;
};

// The elements of a view as f32 on the host: the view itself where it is that
// already, else a dense copy of it.
class HostFloats {
 public:
  HostFloats(Context& context, const ConstTensorView& from);

  const ConstTensorView& view() const { return view_; }

 private:
  Tensor copy_;
  ConstTensorView view_;
};

}  // namespace headwise
