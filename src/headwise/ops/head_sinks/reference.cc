// The reference: head by head, host memory, the context's threads. Door:
// implementation.h.
#include <algorithm>
#include <array>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/head_sinks/implementation.h"

namespace headwise {
namespace {

Reason WhyNot(const HeadSinksCall& call) {
  return call.args.kept_max.device.is_cpu() ? "" : "reads host memory only";
}

using Candidate = std::array<int32_t, 3>;

std::vector<Candidate> CandidatesOf(const HeadSinksArgs& a, int64_t h) {
  const int64_t rows = a.kept_max.shape[2];
  const float* most = a.kept_max.Raw<float>() + h * rows;
  const int32_t* keys = a.kept_argmax.Raw<int32_t>() + h * rows;
  const int32_t* query_starts = a.query_starts.Raw<int32_t>();
  const int32_t* key_starts = a.key_starts.Raw<int32_t>();
  std::vector<Candidate> found;
  std::vector<double> mass;
  for (int32_t b = 0; b + 1 < a.query_starts.shape[0]; ++b) {
    const int32_t count = key_starts[b + 1] - key_starts[b];
    mass.assign(count, 0);
    for (int32_t t = query_starts[b]; t < query_starts[b + 1]; ++t) {
      const int32_t j = keys[t];
      if (a.weights.Raw<float>()[t] == 0 || j < 0 || j >= count) continue;
      mass[j] += most[t];
    }
    for (int32_t j = 0; j < count; ++j) {
      const int32_t seen = a.seen.Raw<int32_t>()[key_starts[b] + j];
      if (seen > 0 && mass[j] > kCandidateMass * seen) {
        found.push_back({static_cast<int32_t>(h), b, j});
      }
    }
  }
  return found;
}

void Run(Context& context, const HeadSinksCall& call) {
  const HeadSinksArgs& a = call.args;
  const int64_t heads = a.kept_max.shape[1];
  std::vector<std::vector<Candidate>> by_head(heads);
  context.pool().ParallelFor(
      heads, [&](int64_t h, int) { by_head[h] = CandidatesOf(a, h); });
  int32_t count = 0;
  for (const std::vector<Candidate>& some : by_head) {
    for (const Candidate& candidate : some) {
      if (count < a.found.shape[0]) {
        std::copy(candidate.begin(), candidate.end(),
                  a.found.Raw<int32_t>() + 3 * int64_t{count});
      }
      ++count;
    }
  }
  *a.count.Raw<int32_t>() = count;
}

}  // namespace

const Implementation<HeadSinksCall> kHeadSinksReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
