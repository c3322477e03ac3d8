// The list of implementations of copy, best first.
#pragma once

#include <cstdint>

#include "headwise/ops/copy/copy.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

enum class CopyKind : uint8_t { kCopy, kFill, kGather, kScatter, kAppend };

// At least one element is to be written. Blocks come with a `to` of floats
// only.
struct CopyCall {
  CopyKind kind = CopyKind::kCopy;
  ConstTensorView from = {};   // kFill: none
  ConstTensorView index = {};  // kGather, kScatter: rows; kAppend: held
  TensorView to = {};
  double value = 0;  // kFill
  // kAppend, on a device: a second such, of the same type.
  ConstTensorView from_beside = {};
  TensorView to_beside = {};
};

ImplementationList<CopyCall> CopyImplementations();

// The entries, one per file that makes them.
extern const Implementation<CopyCall> kCopyReference;  // reference.cc
extern const Implementation<CopyCall> kCopyDevice;     // device.cc
extern const Implementation<CopyCall> kCopyCpuMove;    // cpu/move.cc
extern const Implementation<CopyCall> kCopyCpuCast;    // cpu/cast.cc
extern const Implementation<CopyCall> kCopyCpuBlocks;  // cpu/blocks.cc
extern const Implementation<CopyCall> kCopyCuda;       // cuda/copy.cu

// Whether all that is given lies on the host.
inline bool IsOnHost(const CopyCall& call) {
  return call.to.device.is_cpu() && (!call.from || call.from.device.is_cpu());
}

}  // namespace headwise
