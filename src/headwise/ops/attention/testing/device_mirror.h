// Test tensors in the memory of a context's device, slot for slot, so that a
// call there sees the same layouts and gaps. On the CPU it is the tensors
// themselves. Test only.
#pragma once

#include <cstddef>
#include <deque>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/testing/test_tensor.h"

namespace headwise {

class DeviceMirror {
 public:
  explicit DeviceMirror(Context& context) : context_(context) {}

  // Makes room for a tensor, whose memory must outlive this, and copies it
  // there.
  void Add(const TestTensor& tensor);
  // Copies a tensor that was added there again, or back.
  void Upload(const TestTensor& tensor);
  void Download(const TestTensor& tensor);

  // A view of an added tensor, there; null stays null.
  TensorView On(const TensorView& view) const;
  ConstTensorView On(const ConstTensorView& view) const;
  AttentionArgs On(const AttentionArgs& args) const;  // inputs
  Observation On(const Observation& observation) const;

 private:
  struct Copy {
    std::span<std::byte> host;
    Tensor there;
    std::byte* at;  // its memory
  };
  const Copy& CopyOf(const void* data) const;
  template <typename View>
  View Moved(View view) const;

  Context& context_;
  std::deque<Copy> copies_;
};

}  // namespace headwise
