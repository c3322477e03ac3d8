// Stand-ins for cuda/ in a build without it.
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

std::string WhyNot(const AttentionProblem&) {
  return "this build has no CUDA (preset cuda has it)";
}

}  // namespace

const AttentionImplementation kAttentionCudaSm90 = {.name = "cuda.sm90",
                                                    .why_not = WhyNot};
const AttentionImplementation kAttentionCudaSm80 = {.name = "cuda.sm80",
                                                    .why_not = WhyNot};

}  // namespace headwise
