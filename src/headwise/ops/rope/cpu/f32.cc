// cpu.f32: the turns of a token are made once for all its heads.
// Door: ../implementation.h.
#include <algorithm>
#include <cmath>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/ids.h"
#include "headwise/ops/rope/implementation.h"

namespace headwise {
namespace {

constexpr int64_t kTokensPerTask = 16;

Reason WhyNot(const RopeCall& call) {
  return WhyNotOnHost(DType::kF32, {call.args.x});
}

template <int kStep>
void TurnPairs(float* low, float* high, int64_t count, const float* cosine,
               const float* sine) {
  for (int64_t i = 0; i < count; ++i) {
    const float a = low[i * kStep], b = high[i * kStep];
    low[i * kStep] = a * cosine[i] - b * sine[i];
    high[i * kStep] = b * cosine[i] + a * sine[i];
  }
}

// One token's heads; turn [2, half]: room for cosines and sines.
void Turn(const RopeCall& call, int64_t token, float* turn) {
  const TensorView& x = call.args.x;
  const float* frequencies = call.args.frequencies.Raw<float>();
  const int64_t half = call.args.frequencies.shape[0], heads = x.shape[1];
  const float position = static_cast<float>(IdAt(call.args.positions, token));
  const bool forward = call.problem.direction == RopeDirection::kForward;
  const float scale = call.problem.scale, back = forward ? scale : -scale;
  float* cosine = turn;
  float* sine = cosine + half;
  for (int64_t i = 0; i < half; ++i) {
    const float angle = position * frequencies[i];
    cosine[i] = scale * std::cos(angle);
    sine[i] = back * std::sin(angle);
  }
  const bool halves = call.problem.pairs == RopePairs::kHalves;
  for (int64_t h = 0; h < heads; ++h) {
    float* head = x.Raw<float>() + token * x.stride[0] + h * x.stride[1];
    if (halves) {
      TurnPairs<1>(head, head + half, half, cosine, sine);
    } else {
      TurnPairs<2>(head, head + 1, half, cosine, sine);
    }
  }
}

void Run(Context& context, const RopeCall& call) {
  const int64_t tokens = call.args.x.shape[0];
  const int64_t tasks = (tokens + kTokensPerTask - 1) / kTokensPerTask;
  const int64_t room = 2 * call.args.frequencies.shape[0];
  const Scratch turns =
      context.workspace().TakeArray<float>(context.threads() * room);
  context.pool().ParallelFor(tasks, [&](int64_t task, int worker) {
    float* const turn = turns.Raw<float>() + worker * room;
    const int64_t end = std::min(tokens, (task + 1) * kTokensPerTask);
    for (int64_t t = task * kTokensPerTask; t < end; ++t) {
      Turn(call, t, turn);
    }
  });
}

}  // namespace

const Implementation<RopeCall> kRopeCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
