// A result of an operator that the host goes through number by number: scratch
// on the context's device, which on the CPU is the host's own memory and from
// any other device is copied once.
#pragma once

#include "headwise/ops/copy/copy.h"
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
