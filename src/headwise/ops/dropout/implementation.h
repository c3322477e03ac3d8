// The list of implementations of dropout, best first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "headwise/ops/dropout/dropout.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct DropoutCall {
  const DropoutMask& mask;
  const DropoutArgs& args;
};

ImplementationList<DropoutCall> DropoutImplementations();

// The entries, one per file that makes them.
extern const Implementation<DropoutCall> kDropoutReference;  // reference.cc
extern const Implementation<DropoutCall> kDropoutCpuF32;     // cpu/f32.cc
extern const Implementation<DropoutCall> kDropoutCuda;       // cuda/dropout.cu

// The least word of Philox that keeps its value.
inline uint32_t LeastKept(const DropoutMask& mask) {
  // Of 65536ths: all of them would be one more than the words have.
  return static_cast<uint32_t>(
             std::min(std::lround(mask.rate * 65536.0f), 65535L))
         << 16;
}

}  // namespace headwise
