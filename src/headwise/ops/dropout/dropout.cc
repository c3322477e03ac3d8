// Dropout by counter-based random numbers. Door: dropout.h.
#include "headwise/ops/dropout/dropout.h"

#include <algorithm>
#include <cmath>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/rng.h"

namespace headwise {
namespace {

constexpr int64_t kPerTask = 16384;  // values; a multiple of a block's four

}  // namespace

void Dropout(Context& context, const DropoutMask& mask, int64_t count,
             const float* x, float* y) {
  const float keep = 1.0f / (1.0f - mask.rate);
  // Of 65536ths: all of them would be one more than the words have.
  const uint32_t least =
      static_cast<uint32_t>(std::min(std::lround(mask.rate * 65536.0f), 65535L))
      << 16;
  context.pool().ParallelFor(
      (count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        const int64_t end = std::min(count, (task + 1) * kPerTask);
        for (int64_t i = task * kPerTask; i < end; i += 4) {
          const auto words =
              Philox(mask.seed, mask.stream, static_cast<uint64_t>(i / 4));
          const int64_t lanes = std::min<int64_t>(4, end - i);
          for (int64_t j = 0; j < lanes; ++j) {
            y[i + j] = words[j] >= least ? x[i + j] * keep : 0.0f;
          }
        }
      });
}

}  // namespace headwise
