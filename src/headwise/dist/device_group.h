// Sums between the GPUs of ranks, by NCCL: fast, and in an order of its own, so
// that they depend on how many ranks there are (group.h's do not).
#pragma once

#include <memory>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/tensor.h"

namespace headwise::dist {

// One thread at a time. Ranks must call it in the same order.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // view (f32, dense) = Σ over ranks, on all of them, in the queue of the
  // context that the group was made with. Throws Error(kInvalidArgument) for a
  // view that does not lie there.
  virtual void AllReduce(const TensorView& view) = 0;
};

// The GPUs of all ranks of a group, through which they find each other; every
// rank calls it. Borrows the context. Throws Error(kUnsupported) in a build
// without NCCL, where its library is not there, for a context on the CPU and
// for two ranks on one GPU, which NCCL does not serve.
std::unique_ptr<DeviceGroup> MakeNcclGroup(Context& context, Group& group);
// Whether this build can.
bool HasNccl();

}  // namespace headwise::dist
