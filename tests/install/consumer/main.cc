// The library from outside: multi-head attention, one head's distribution, and
// every head's entropy observed in the same call.
#include <headwise/multi_head_attention.h>
#include <headwise/observation.h>

#include <cmath>
#include <cstdio>

int main() {
  headwise::Context context;
  headwise::MultiHeadAttention attention({.d_model = 32, .heads = 4});
  headwise::Tensor x(headwise::DType::kF32, {1, 6, 32});
  for (int i = 0; i < x.size(); ++i) {
    x.As<float>()[i] = std::sin(0.7f * static_cast<float>(i));
  }
  headwise::Tensor entropy(headwise::DType::kF32, {1, 4, 6});
  headwise::Observation seen;
  seen.rows.entropy = entropy.view();
  const headwise::Tensor y =
      attention.Forward(context, {.x = x.view(), .observation = &seen});
  const headwise::Tensor weights =
      attention.Weights(context, 3, {.x = x.view()});

  // The entropy that was observed is the entropy of the distribution.
  double expected = 0;
  for (int j = 0; j < 6; ++j) {
    const double p = weights.As<float>()[j];
    expected -= p * std::log(p);
  }
  const double found = entropy.As<float>()[3 * 6];
  std::printf("%s, entropy %.5f\n", headwise::ToString(y.view()).c_str(),
              found);
  return std::abs(found - expected) < 1e-5 && found > 0 ? 0 : 1;
}
