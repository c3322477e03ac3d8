// Stand-ins for cuda/ in a build without it. Door: ../implementation.h.
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

Reason WhyNot(const AttentionCall&) {
  return "this build has no CUDA (preset cuda has it)";
}

}  // namespace

const AttentionImplementation kAttentionCudaSm90 = {"cuda.sm90", WhyNot};
const AttentionImplementation kAttentionCudaSm80 = {"cuda.sm80", WhyNot};
const AttentionImplementation kAttentionCudaPlain = {"cuda.plain", WhyNot};

}  // namespace headwise
