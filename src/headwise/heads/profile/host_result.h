// A result of an operator that the host goes through number by number: scratch
// on the context's device, which on the CPU is the host's own memory and from
// any other device is copied once.
#pragma once

#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {

class HostResult {
 public:
  HostResult() = default;
  HostResult(Context& context, DType type, const Shape& shape)
      : device_(context, type, shape) {
    if (view().device.is_cpu()) host_ = view().data;
  }

  // For the operator to write to; dense.
  TensorView view() const { return device_.view(); }
  // Once the operator was called: what it wrote can be read on the host.
  void Fetch(Context& context) {
    OnHost(context, view(), copy_);
    if (copy_.size() > 0) host_ = copy_.view().data;
  }

  // The same of one head alone, of a result [1, H, …]; and back, where the host
  // wrote to it.
  void FetchHead(Context& context, int64_t head) {
    if (view().device.is_cpu()) return;
    if (copy_.size() == 0) copy_ = Tensor(view().type, ShapeOf(view()));
    host_ = copy_.view().data;
    Copy(context, Slice(view(), 1, head, head + 1),
         Slice(copy_.view(), 1, head, head + 1));
    context.Synchronize();
  }
  void StoreHead(Context& context, int64_t head) const {
    if (view().device.is_cpu()) return;
    Copy(context, Slice(copy_.view(), 1, head, head + 1),
         Slice(view(), 1, head, head + 1));
  }

  // The host may write to it, too.
  template <typename T>
  T* As() const {
    return static_cast<T*>(host_);
  }
  explicit operator bool() const { return bool(device_); }

 private:
  Temp device_;
  Tensor copy_;
  void* host_ = nullptr;
};

}  // namespace headwise
