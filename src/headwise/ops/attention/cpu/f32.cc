// cpu.f32: the streaming implementation, vectorised by Highway with run-time
// dispatch. Door: ../implementation.h.
#include <string>

#include "headwise/ops/attention/cpu/backward.h"
#include "headwise/ops/attention/cpu/forward.h"
#include "headwise/ops/attention/cpu/second_pass.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

std::string WhyNotF32(const AttentionProblem& problem) {
  if (!problem.device.is_cpu()) return "runs on the CPU only";
  if (problem.type != DType::kF32) {
    return std::string("takes f32 only, not ") + Name(problem.type);
  }
  return "";
}

}  // namespace

const AttentionImplementation kAttentionCpuF32 = {
    .name = "cpu.f32",
    .why_not = WhyNotF32,
    .forward = ForwardF32,
    .backward = BackwardF32,
    .rows = RowsF32,
    .top_k = TopKF32,
    .pairs = PairsF32,
    .band = BandF32,
    .received = ReceivedF32,
    .window = WindowF32,
    .gram = HeadGramF32,
};

}  // namespace headwise
